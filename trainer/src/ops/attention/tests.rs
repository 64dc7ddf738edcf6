//! Against the formula written down naively, against T5X's masks, and by the laws of operations.

mod parts;

use std::collections::BTreeMap;

use super::cpu::Setting;
use super::*;
use crate::engine::{Engine, ProgramId, Target};
use crate::golden::json;
use crate::host::HostTensor;
use crate::program::Program;
use crate::random::{Key, keeps};
use crate::store::Stores;
use crate::testing::{Case, Random, assert_close, check, device};

const KEY: Key = Key([7, 0xdead_beef]);

/// Everything about one attention.
#[derive(Clone)]
struct Given {
    attention: Attention,
    extent: Extent,
    q_groups: Vec<i32>,
    k_groups: Vec<i32>,
    prefix: Vec<i32>,
    buckets: Vec<i32>,
}

/// Groups 1, 2, … of a few elements each, then zeros.
fn packed(random: &mut Random, batch: usize, length: usize) -> Vec<i32> {
    let mut groups = Vec::new();
    for _ in 0..batch {
        let padding = random.below(length.div_ceil(3));
        let mut group = 1;
        for at in 0..length {
            group += i32::from(at > 0 && random.below(5) == 0);
            groups.push(if at < length - padding { group } else { 0 });
        }
    }
    groups
}

impl Given {
    fn new(attention: Attention, [batch, queries, keys, width]: [usize; 4]) -> Self {
        let buckets = 5;
        let extent = Extent { batch, queries, keys, heads: attention.heads, width, buckets };
        let by_distance = (0..queries + keys - 1).map(|distance| (distance * 5 / (queries + keys)) as i32);
        Self {
            attention,
            extent,
            q_groups: vec![1; batch * queries],
            k_groups: vec![1; batch * keys],
            prefix: Vec::new(),
            buckets: by_distance.collect(),
        }
    }

    /// Queries and keys are the same tokens, packed.
    fn packed(mut self, random: &mut Random) -> Self {
        self.q_groups = packed(random, self.extent.batch, self.extent.queries);
        self.k_groups = self.q_groups.clone();
        self
    }

    /// Every group's first half is a prefix, mostly.
    fn prefix(mut self, random: &mut Random) -> Self {
        self.prefix =
            self.q_groups.iter().map(|group| i32::from(*group > 0 && random.below(3) > 0)).collect();
        self
    }

    fn sees(&self, row: usize, query: usize, key: usize) -> bool {
        let (q, k) = (row * self.extent.queries + query, row * self.extent.keys + key);
        let both = !self.prefix.is_empty() && self.prefix[q] != 0 && self.prefix[k] != 0;
        let group = self.q_groups[q] == self.k_groups[k] && self.q_groups[q] > 0;
        group && (!self.attention.causal || key <= query || both)
    }

    /// By the laws of operations, differences and all.
    fn check(&self, seed: u64) {
        let Extent { batch, queries, keys, heads, width, buckets } = self.extent;
        let mut case = Case::new(seed)
            .normal("q", [batch, queries, heads * width])
            .normal("k", [batch, keys, heads * width])
            .normal("v", [batch, keys, heads * width])
            .ints("q_groups", [batch, queries], self.q_groups.clone())
            .ints("k_groups", [batch, keys], self.k_groups.clone());
        if self.attention.relative {
            case = case.normal("table", [heads, buckets]);
            case = case.ints("buckets", [queries + keys - 1], self.buckets.clone());
        }
        if self.attention.prefix {
            case = case.ints("prefix", [batch, queries], self.prefix.clone());
        }
        if self.attention.dropout.is_some() {
            case = case.ints("key", [2], KEY.0.map(|word| word as i32).to_vec());
        }
        let attention = self.attention;
        check(case, move |tape, inputs| Ok(tape.record_all(attention, inputs)?[..2].to_vec()));
    }
}

/// The numbers of a case, by name.
type Numbers = BTreeMap<String, HostTensor>;

fn floats<'a>(numbers: &'a Numbers, name: &str) -> &'a [f32] {
    numbers[name].as_f32_bits()
}

/// y, the sums of exponentials as logarithms, and the gradients of q, k, v and the table: as T5X's formula says, in
/// float64, but with forbidden scores as float32 has them.
fn reference(given: &Given, numbers: &Numbers) -> [Vec<f32>; 6] {
    let Extent { batch, queries, keys, heads, width, buckets } = given.extent;
    let [q, k, v, of_y] = ["q", "k", "v", "of_y"].map(|name| floats(numbers, name));
    let of_sums = floats(numbers, "of_sums");
    let table = given.attention.relative.then(|| floats(numbers, "table"));
    let mut y = vec![0.0; q.len()];
    let mut sums = vec![0.0; batch * heads * queries];
    let (mut of_q, mut of_k, mut of_v) = (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]);
    let mut of_table = vec![0.0; heads * buckets];
    for row in 0..batch {
        for head in 0..heads {
            let kept = |key: usize| {
                given.attention.dropout.map_or(1.0, |Dropout { rate, site }| {
                    let index = ((row * heads + head) * keys + key) as u32;
                    f64::from(u8::from(keeps(KEY, site, index, rate))) / f64::from(1.0 - rate)
                })
            };
            for query in 0..queries {
                let at_q = ((row * queries + query) * heads + head) * width;
                let at_k = |key: usize| ((row * keys + key) * heads + head) * width;
                let bucket = |key: usize| head * buckets + given.buckets[key + queries - 1 - query] as usize;
                let dot = |a: &[f32], at_a: usize, b: &[f32], at_b: usize| -> f64 {
                    let pairs = a[at_a..][..width].iter().zip(&b[at_b..][..width]);
                    pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
                };
                let score = |key: usize| {
                    if !given.sees(row, query, key) {
                        return -1e10;
                    }
                    dot(q, at_q, k, at_k(key)) + table.map_or(0.0, |table| f64::from(table[bucket(key)]))
                };
                let scores: Vec<f64> = (0..keys).map(score).collect();
                let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = scores.iter().map(|score| (score - top).exp()).sum();
                let p: Vec<f64> = scores.iter().map(|score| (score - top).exp() / total).collect();
                let at = (row * heads + head) * queries + query;
                sums[at] = (top + total.ln()) as f32;
                let gradients: Vec<f64> =
                    (0..keys).map(|key| kept(key) * dot(of_y, at_q, v, at_k(key))).collect();
                let mean: f64 = p.iter().zip(&gradients).map(|(p, g)| p * g).sum();
                for key in 0..keys {
                    // The log-sum-exp's gradient goes to scores past the softmax.
                    let of_score = p[key] * (gradients[key] - mean + f64::from(of_sums[at]));
                    for c in 0..width {
                        y[at_q + c] += p[key] * kept(key) * f64::from(v[at_k(key) + c]);
                        of_q[at_q + c] += of_score * f64::from(k[at_k(key) + c]);
                        of_k[at_k(key) + c] += of_score * f64::from(q[at_q + c]);
                        of_v[at_k(key) + c] += p[key] * kept(key) * f64::from(of_y[at_q + c]);
                    }
                    if table.is_some() {
                        of_table[bucket(key)] += of_score;
                    }
                }
            }
        }
    }
    let narrow = |wide: Vec<f64>| wide.into_iter().map(|x| x as f32).collect();
    [narrow(y), sums, narrow(of_q), narrow(of_k), narrow(of_v), narrow(of_table)]
}

/// Compares both implementations with the reference.
fn compare(given: &Given, seed: u64) {
    let mut random = Random::new(seed);
    let mut numbers = Numbers::new();
    let mut tape = Tape::new();
    let mut input = |tape: &mut Tape, name: &str, spec: Spec, ints: Option<&[i32]>| {
        let values = match ints {
            Some(ints) => HostTensor::I32(ints.to_vec()),
            None => HostTensor::F32((0..spec.shape.elements()).map(|_| random.normal()).collect()),
        };
        numbers.insert(name.to_owned(), values);
        tape.input(name, spec).unwrap()
    };
    let Extent { batch, queries, keys, heads, width, buckets } = given.extent;
    let mut inputs = vec![
        input(&mut tape, "q", Spec::f32([batch, queries, heads * width]), None),
        input(&mut tape, "k", Spec::f32([batch, keys, heads * width]), None),
        input(&mut tape, "v", Spec::f32([batch, keys, heads * width]), None),
        input(&mut tape, "q_groups", Spec::i32([batch, queries]), Some(&given.q_groups)),
        input(&mut tape, "k_groups", Spec::i32([batch, keys]), Some(&given.k_groups)),
    ];
    if given.attention.relative {
        inputs.push(input(&mut tape, "table", Spec::f32([heads, buckets]), None));
        inputs.push(input(&mut tape, "buckets", Spec::i32([queries + keys - 1]), Some(&given.buckets)));
    }
    if given.attention.prefix {
        inputs.push(input(&mut tape, "prefix", Spec::i32([batch, queries]), Some(&given.prefix)));
    }
    if given.attention.dropout.is_some() {
        inputs.push(input(&mut tape, "key", Spec::i32([2]), Some(&KEY.0.map(|word| word as i32))));
    }
    let made = tape.record_all(given.attention, &inputs).unwrap();
    let [of_y, of_sums] = [0, 1].map(|i| tape.spec(made[i]).clone());
    let (of_y, of_sums) = (input(&mut tape, "of_y", of_y, None), input(&mut tape, "of_sums", of_sums, None));
    let mut of = inputs[..3].to_vec();
    of.extend(given.attention.table_at().map(|at| inputs[at]));
    let gradients = tape.pull_back(&[(made[0], of_y), (made[1], of_sums)], &of).unwrap();
    let program = Program::new(&tape, &[&made[..2], &gradients].concat()).unwrap();

    let expected = reference(given, &numbers);
    let names = ["y", "sums", "of q", "of k", "of v", "of table"];
    let mut worst = String::new();
    for (engine, target) in [("host", Target::Cpu { threads: 2 }), ("device", Target::Gpu(device()))] {
        let mut engine_of = Engine::new(target, &Stores::new(), vec![program.clone()]).unwrap();
        let found = engine_of.run(ProgramId(0), |name| numbers.get(name)).unwrap();
        for ((name, expected), found) in names.iter().zip(&expected).zip(&found) {
            let what = format!("{name} on the {engine}, {:?}", given.extent);
            if *name == "sums" {
                // Those of rows that see nothing are huge and would hide the others.
                let tame = |x: &f32| if *x < -5e9 { 0.0 } else { *x };
                assert!(expected.iter().zip(found).all(|(a, b)| (*a < -5e9) == (*b < -5e9)), "{what}");
                let (expected, found): (Vec<f32>, Vec<f32>) =
                    (expected.iter().map(tame).collect(), found.iter().map(tame).collect());
                assert_close(&expected, &found, 2e-5, &what);
            } else {
                assert_close(expected, found, 2e-5, &what);
                worst += &format!("{what}: {:.1e}; ", apart(expected, found));
            }
        }
    }
    println!("{worst}");
}

/// The greatest difference over the root mean square.
fn apart(expected: &[f32], found: &[f32]) -> f32 {
    let mean_square = expected.iter().map(|x| x * x).sum::<f32>() / expected.len() as f32;
    let apart = expected.iter().zip(found).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    apart / mean_square.sqrt().max(1e-3)
}

#[test]
fn the_laws_hold_with_and_without_every_option() {
    for (seed, (causal, relative)) in
        [(false, false), (true, false), (false, true), (true, true)].into_iter().enumerate()
    {
        let attention = Attention::new(2).causal(causal);
        let attention = if relative { attention.relative() } else { attention };
        Given::new(attention, [2, 7, 7, 3]).check(seed as u64);
    }
}

#[test]
fn the_laws_hold_where_queries_are_not_the_keys() {
    let mut random = Random::new(5);
    let mut given = Given::new(Attention::new(3).relative(), [2, 6, 9, 8]);
    // Every query finds a key: the derivative of one that does not is not that of rounded numbers.
    given.k_groups = packed(&mut random, 2, 9);
    given.q_groups = (0..12).map(|at| given.k_groups[at / 6 * 9]).collect();
    given.check(6);
}

#[test]
fn the_laws_hold_with_a_prefix() {
    let mut random = Random::new(7);
    let given = Given::new(Attention::new(2).relative().prefix(), [1, 10, 10, 20]).prefix(&mut random);
    given.check(8);
}

#[test]
fn rows_of_packed_examples_and_padding_are_as_t5x_has_them() {
    let mut random = Random::new(9);
    for (seed, [batch, length, width]) in
        [[2, 13, 8], [3, 70, 4], [1, 133, 20], [1, 5, 3], [1, 66, 64], [1, 9, 72]].into_iter().enumerate()
    {
        let seed = seed as u64;
        let plain = Attention::new(2);
        for attention in [plain, plain.relative(), plain.causal(true).relative()] {
            compare(&Given::new(attention, [batch, length, length, width]).packed(&mut random), seed);
        }
        let given = Given::new(plain.prefix().relative(), [batch, length, length, width]);
        compare(&given.packed(&mut random).prefix(&mut random), seed);
    }
}

#[test]
fn groups_need_not_be_neighbours() {
    let mut random = Random::new(10);
    for causal in [false, true] {
        let mut given = Given::new(Attention::new(2).relative().causal(causal), [2, 67, 71, 8]);
        given.q_groups = (0..2 * 67).map(|_| random.below(4) as i32 - 1).collect();
        given.k_groups = (0..2 * 71).map(|_| random.below(3) as i32).collect();
        compare(&given, 11);
    }
}

#[test]
fn queries_without_any_key_attend_to_all_alike() {
    let mut given = Given::new(Attention::new(1).causal(true).relative(), [1, 4, 6, 3]);
    given.q_groups = vec![0, 2, 1, 1];
    given.k_groups = vec![1, 0, 0, 0, 0, 0];
    compare(&given, 12);
    given.k_groups = vec![0; 6];
    compare(&given, 13);
}

#[test]
fn dropout_is_shared_by_all_queries_of_a_head() {
    let mut random = Random::new(14);
    let attention = Attention::new(2).relative().prefix().dropout(0.3, 5);
    compare(&Given::new(attention, [2, 70, 70, 8]).packed(&mut random).prefix(&mut random), 15);
    Given::new(Attention::new(3).dropout(0.5, 6), [2, 5, 7, 4]).check(16);
}

#[test]
fn masks_are_those_of_t5x() {
    let golden = json("unit/masks_and_pointwise.json");
    let ints = |name: &str| -> Vec<i32> {
        golden[name][0].as_array().unwrap().iter().map(|x| x.as_i64().unwrap() as i32).collect()
    };
    let (tokens, segments, bidirectional) =
        (ints("decoder_target_tokens"), ints("decoder_segment_ids"), ints("decoder_causal_attention"));
    let length = tokens.len();
    let padded = |groups: &[i32]| -> Vec<i32> {
        groups.iter().zip(&tokens).map(|(group, token)| if *token > 0 { *group } else { 0 }).collect()
    };
    let (packed, together) = (padded(&segments), padded(&vec![1; length]));
    let causal = Attention::new(1).causal(true);
    for (name, attention, groups) in [
        ("mask_prefix_packed", causal.prefix(), &packed),
        ("mask_packed", causal, &packed),
        ("mask_causal", causal, &together),
    ] {
        let expected: Vec<Vec<bool>> = golden[name][0][0]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row.as_array().unwrap().iter().map(|x| x.as_i64() == Some(1)).collect())
            .collect();
        let spec = [Spec::f32([1, length, 1]), Spec::i32([1, length])];
        let floats = vec![0.0; length];
        let [groups, prefix]: [&[f32]; 2] =
            [bytemuck::cast_slice(groups), bytemuck::cast_slice(&bidirectional)];
        let mut args = CpuArgs {
            inputs: vec![&floats, &floats, &floats, groups, groups],
            input_specs: vec![&spec[0], &spec[0], &spec[0], &spec[1], &spec[1]],
            outputs: Vec::new(),
            output_specs: Vec::new(),
        };
        if attention.prefix {
            args.inputs.push(prefix);
            args.input_specs.push(&spec[1]);
        }
        let setting = Setting::new(&attention, &args);
        let found: Vec<Vec<bool>> =
            (0..length).map(|query| (0..length).map(|key| setting.sees(0, query, key)).collect()).collect();
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn memory_grows_with_the_length_not_with_its_square() {
    let elements = |length: usize| -> usize {
        let attention = Attention::new(4).relative().prefix();
        let (row, groups) = (Spec::f32([2, length, 32]), Spec::i32([2, length]));
        let mut inputs = vec![row.clone(), row.clone(), row.clone(), groups.clone(), groups.clone()];
        inputs.extend([Spec::f32([4, 32]), Spec::i32([2 * length - 1]), groups]);
        let forward = attention.outputs(&inputs).unwrap();
        inputs.extend([forward[0].clone(), forward[1].clone(), row]);
        let op = AttentionBackward {
            attention,
            needs_queries: true,
            needs_keys: true,
            needs_table: true,
            of_sums: false,
        };
        let backward = op.outputs(&inputs).unwrap();
        forward.iter().chain(&backward).map(|spec| spec.shape.elements()).sum()
    };
    let (short, long) = (elements(128), elements(1024));
    assert!(long <= 8 * short + 64, "{short} elements, then {long}");
}

#[test]
fn gradients_that_nobody_needs_are_not_computed() {
    let mut tape = Tape::new();
    let row = tape.input("x", Spec::f32([1, 5, 8])).unwrap();
    let values = tape.input("v", Spec::f32([1, 5, 8])).unwrap();
    let groups = tape.input("groups", Spec::i32([1, 5])).unwrap();
    let y = tape.record(Attention::new(2), &[row, row, values, groups, groups]).unwrap();
    tape.pull_back(&[(y, row)], &[values]).unwrap();
    let last = &tape.nodes.last().unwrap().outputs;
    let shapes: Vec<&[usize]> = last.iter().map(|var| tape.shape(*var).dims()).collect();
    assert_eq!(shapes[..2], [[1, 5, 8], [1, 5, 8]]);
    assert_eq!(shapes.len(), 5, "keys, values and three of scratch");
}

#[test]
fn what_does_not_go_together_is_said_in_words() {
    let (row, groups) = (Spec::f32([2, 5, 12]), Spec::i32([2, 5]));
    let inputs = |spoilt: usize, by: Spec| {
        let mut inputs = vec![row.clone(), row.clone(), row.clone(), groups.clone(), groups.clone()];
        inputs[spoilt] = by;
        inputs
    };
    let words = |attention: Attention, inputs: &[Spec]| attention.outputs(inputs).unwrap_err();
    let three = Attention::new(3);
    insta::assert_snapshot!(words(Attention::new(5), &inputs(0, row.clone())), @"rows of 12 cannot be cut into 5 heads");
    insta::assert_snapshot!(words(three.relative(), &inputs(0, row.clone())), @"it takes 7 inputs");
    insta::assert_snapshot!(words(three, &inputs(2, Spec::f32([2, 6, 12]))), @"values should be f32[2, 5, 12]");
    insta::assert_snapshot!(words(three, &inputs(3, Spec::i32([5, 2]))), @"the groups of queries should be i32[2, 5]");
    insta::assert_snapshot!(words(three, &inputs(0, Spec::f32([2, 5]))), @"queries and keys are f32[batch, length, heads * width]");
    insta::assert_snapshot!(words(three, &inputs(0, Spec::f32([2, 0, 12]))), @"an axis is empty");
    let mut longer = inputs(0, Spec::f32([2, 6, 12]));
    longer.push(groups.clone());
    let dropout = [&inputs(0, row.clone())[..], &[Spec::i32([2])]].concat();
    insta::assert_snapshot!(words(three.dropout(1.0, 0), &dropout), @"a rate is at least 0 and below 1, not 1");
    insta::assert_snapshot!(words(three.prefix(), &longer), @"a prefix is of queries and keys of one length");
}
