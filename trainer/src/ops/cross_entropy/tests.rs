//! Against T5X, by the laws of operations, and a vocabulary in parts against the whole.

use std::ops::Range;

use serde_json::Value;

use super::*;
use crate::golden;
use crate::ops::Sum;
use crate::testing::{Case, Given, Random, bits, check, part_of};

/// Records the losses of a vocabulary that is here, out of logits, targets and weights.
fn losses(tape: &mut Tape, op: CrossEntropy, inputs: &[Var]) -> Result<Vec<Var>, TapeError> {
    let statistics = tape.record(op.statistics(), &inputs[..2])?;
    tape.record_all(op, &[inputs, &[statistics]].concat())
}

/// Every output and the gradient of the sum of output 0, on the host and on the device.
fn run(
    op: CrossEntropy,
    logits: &[Vec<f32>],
    targets: &[i32],
    weights: &[f32],
) -> [(&'static str, Vec<Vec<f32>>); 2] {
    let rows = logits.len();
    let mut given = Given::default();
    let inputs = [
        given.floats([rows, logits[0].len()], logits.concat()),
        given.ints([rows], targets.to_vec()),
        given.floats([rows], weights.to_vec()),
    ];
    let tape = &mut given.tape;
    let mut results = losses(tape, op, &inputs).unwrap();
    results.truncate(4);
    let loss = tape.record(Sum, &[results[0]]).unwrap();
    results.push(loss);
    results.extend(tape.backward(loss, &[inputs[0]]).unwrap());
    given.run(&results)
}

/// The same of a vocabulary in these parts: every output as the first part's rank has it, all others having the same
/// bits, and the gradients of the parts side by side.
fn run_in_parts(
    op: CrossEntropy,
    logits: &[Vec<f32>],
    targets: &[i32],
    weights: &[f32],
    parts: &[Range<usize>],
) -> [(&'static str, Vec<Vec<f32>>); 2] {
    let dims = [logits.len(), logits[0].len()];
    let logits = logits.concat();
    let inputs = |given: &mut Given, part: &Range<usize>| {
        let here = part_of(&logits, &dims, &[0..dims[0], part.clone()]);
        let inputs = [
            given.floats([dims[0], part.len()], here),
            given.ints([dims[0]], targets.to_vec()),
            given.floats([dims[0]], weights.to_vec()),
        ];
        (op.part(part.start, dims[1]), inputs)
    };
    let mut given = Given::default();
    let mut results = Vec::new();
    for part in parts {
        let (op, inputs) = inputs(&mut given, part);
        results.push(given.tape.record(op.statistics(), &inputs[..2]).unwrap());
    }
    given.run(&results).map(|(place, statistics)| {
        let mut given = Given::default();
        let gathered = [parts.len(), dims[0], STATISTICS_WIDTH];
        let statistics = given.floats(gathered, statistics.concat());
        let mut results = Vec::new();
        for part in parts {
            let (op, inputs) = inputs(&mut given, part);
            let made = given.tape.record_all(op, &[&inputs[..], &[statistics]].concat()).unwrap();
            let loss = given.tape.record(Sum, &made[..1]).unwrap();
            results.extend(&made[..4]);
            results.push(loss);
            results.extend(given.tape.backward(loss, &inputs[..1]).unwrap());
        }
        let found = given.run(&results).into_iter().find(|(other, _)| *other == place).unwrap().1;
        let ranks: Vec<&[Vec<f32>]> = found.chunks(6).collect();
        assert!(
            ranks.iter().all(|rank| bits(&rank[..5]) == bits(&ranks[0][..5])),
            "{parts:?} on the {place}"
        );
        let row = |row: usize| {
            ranks.iter().zip(parts).flat_map(move |(rank, part)| &rank[5][row * part.len()..][..part.len()])
        };
        let gradient = (0..dims[0]).flat_map(row).copied().collect();
        (place, [&ranks[0][..5], &[gradient]].concat())
    })
}

fn rows(value: &Value) -> Vec<Vec<f32>> {
    serde_json::from_value::<Vec<Vec<Vec<f32>>>>(value.clone()).unwrap().concat()
}

fn numbers<T: serde::de::DeserializeOwned + Clone>(value: &Value) -> Vec<T> {
    serde_json::from_value::<Vec<Vec<T>>>(value.clone()).unwrap().concat()
}

fn close(expected: f64, found: f32, room: f64, what: &str) -> f64 {
    let apart = (expected - f64::from(found)).abs();
    assert!(apart <= room, "{what}: {expected} expected, {found} found");
    apart
}

#[test]
fn losses_and_gradients_are_those_of_t5x() {
    let golden = golden::json("unit/loss.json");
    let (logits, targets) = (rows(&golden["logits"]), numbers(&golden["targets"]));
    let (mut of_loss, mut of_gradient) = (0.0f64, 0.0f64);
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 12);
    for case in cases {
        let number = |key: &str| case[key].as_f64().unwrap();
        let factor = case["loss_normalizing_factor"].as_f64().unwrap_or(1.0);
        let op = CrossEntropy::new(number("z_loss") as f32, number("label_smoothing") as f32);
        let weights: Vec<f32> = numbers(&golden["weights"]);
        let weights: Vec<f32> = weights.into_iter().map(|weight| weight / factor as f32).collect();
        for (place, found) in run(op, &logits, &targets, &weights) {
            let what = format!("{case} on the {place}");
            let apart = close(number("loss"), found[4][0], 1e-6 * number("loss"), &what);
            of_loss = of_loss.max(apart / number("loss"));
            let z: f32 = found[1].iter().sum();
            close(number("total_z_loss"), z, 1e-6 * number("total_z_loss"), &what);
            let expected = rows(&case["grad_logits"]).concat();
            for (expected, found) in expected.iter().zip(&found[5]) {
                let apart = close(f64::from(*expected), *found, 2e-6 / factor, &what);
                of_gradient = of_gradient.max(apart * factor);
            }
        }
    }
    println!("losses apart by {of_loss:.1e} (relative), gradients by {of_gradient:.1e}");
}

#[test]
fn large_logits_are_as_in_t5x() {
    let golden = &golden::json("unit/loss.json")["large_logits"];
    let logits = rows(&golden["logits"]);
    let op = CrossEntropy::new(golden["z_loss"].as_f64().unwrap() as f32, 0.0);
    for (place, found) in run(op, &logits, &numbers(&golden["targets"]), &[1.0, 1.0]) {
        let expected: [Vec<f64>; 2] =
            [numbers(&golden["token_loss_with_z"]), numbers(&golden["token_z_loss"])];
        for (expected, found) in expected.iter().flatten().zip(found[..2].iter().flatten()) {
            close(*expected, *found, 1e-6 * expected.abs(), place);
        }
        assert!(found[5].iter().all(|x| x.is_finite()), "{:?}", found[5]);
    }
}

#[test]
fn the_first_of_the_largest_logits_counts_where_the_weight_is_not_zero() {
    let mut logits = vec![vec![0.0; 70]; 5];
    for (row, places) in logits.iter_mut().zip([[3, 40], [3, 40], [9, 41], [0, 69], [5, 6]]) {
        places.iter().for_each(|place| row[*place] = 2.0);
    }
    let targets = [3, 40, 9, 0, 5];
    for (place, found) in run(CrossEntropy::new(0.0, 0.0), &logits, &targets, &[1.0, 1.0, 0.5, 2.0, 0.0]) {
        assert_eq!(found[2], [1.0, 0.0, 1.0, 1.0, 0.0], "{place}");
    }
}

#[test]
fn a_target_outside_of_the_vocabulary_is_no_class() {
    let logits = [vec![1.0, 2.0, 3.0], vec![1.0, 2.0, 3.0]];
    for (place, found) in run(CrossEntropy::new(0.0, 0.0), &logits, &[3, -1], &[1.0, 1.0]) {
        assert_eq!((&found[0][..], &found[2][..]), (&[0.0, 0.0][..], &[0.0, 0.0][..]), "{place}");
    }
}

#[test]
fn both_implementations_agree_and_the_derivative_is_right() {
    for (rows, classes, z_loss, label_smoothing) in
        [(1, 1, 0.1, 0.0), (3, 5, 0.0, 0.1), (7, 70, 0.05, 0.2), (5, 600, 1e-2, 0.0), (2, 3001, 0.1, 0.1)]
    {
        let mut random = Random::new(5);
        let targets = (0..rows).map(|_| random.below(classes) as i32).collect();
        let weights = (0..rows).map(|row| if row % 4 == 2 { 0.0 } else { random.uniform() + 0.5 });
        let weights: Vec<f32> = weights.collect();
        let case = Case::new(31).normal("logits", [rows, classes]);
        let case = case.ints("targets", [rows], targets).fixed("weights", [rows], weights);
        check(case, |tape, inputs| {
            Ok(vec![losses(tape, CrossEntropy::new(z_loss, label_smoothing), inputs)?[0]])
        });
    }
}

/// Whether two numbers are as near as rounding lets them be, or the same infinity.
fn near(expected: f32, found: f32, room: f32) -> bool {
    expected == found || (expected - found).abs() <= room * expected.abs().max(1.0)
}

fn compare_with_parts(
    op: CrossEntropy,
    logits: &[Vec<f32>],
    targets: &[i32],
    weights: &[f32],
    parts: &[Range<usize>],
) {
    let whole = run(op, logits, targets, weights);
    for ((place, whole), (_, found)) in whole.iter().zip(run_in_parts(op, logits, targets, weights, parts)) {
        let what = format!("{op:?}, {} classes in {parts:?} on the {place}", logits[0].len());
        if parts.len() == 1 {
            assert_eq!(bits(whole), bits(&found), "{what}");
            continue;
        }
        for (output, (whole, found)) in whole.iter().zip(&found).enumerate() {
            let room = if output == 2 { 0.0 } else { 1e-6 };
            for (at, (whole, found)) in whole.iter().zip(found).enumerate() {
                assert!(
                    near(*whole, *found, room),
                    "output {output}, element {at}: {whole} and {found}, {what}"
                );
            }
        }
    }
}

#[test]
fn a_vocabulary_in_parts_gives_what_the_whole_gives() {
    let mut random = Random::new(6);
    for (classes, [z_loss, label_smoothing]) in
        [(7, [0.0, 0.1]), (96, [0.01, 0.0]), (131, [0.0, 0.0]), (1000, [1e-3, 0.1])]
    {
        for num_parts in 1..=4 {
            let rows = 9;
            let logits: Vec<Vec<f32>> =
                (0..rows).map(|_| random.normals(classes).iter().map(|x| 3.0 * x).collect()).collect();
            let parts = random.cut(classes, num_parts);
            // Some targets in every part, two outside of the vocabulary.
            let mut targets: Vec<i32> = (0..rows).map(|_| random.below(classes) as i32).collect();
            for (target, part) in targets.iter_mut().zip(&parts) {
                *target = (part.start + random.below(part.len())) as i32;
            }
            (targets[rows - 1], targets[rows - 2]) = (-1, classes as i32);
            let weights: Vec<f32> =
                (0..rows).map(|row| if row == 2 { 0.0 } else { random.uniform() + 0.5 }).collect();
            compare_with_parts(
                CrossEntropy::new(z_loss, label_smoothing),
                &logits,
                &targets,
                &weights,
                &parts,
            );
        }
    }
}

#[test]
fn the_first_of_the_largest_logits_counts_across_parts() {
    let mut logits = vec![vec![0.0; 70]; 5];
    for (row, places) in logits.iter_mut().zip([[3, 40], [3, 40], [39, 41], [0, 69], [10, 50]]) {
        places.iter().for_each(|place| row[*place] = 2.0);
    }
    let (op, targets) = (CrossEntropy::new(0.0, 0.0), [3, 40, 39, 69, 50]);
    for parts in [vec![0..40, 40..70], vec![0..3, 3..41, 41..50, 50..70]] {
        compare_with_parts(op, &logits, &targets, &[1.0; 5], &parts);
        for (place, found) in run_in_parts(op, &logits, &targets, &[1.0; 5], &parts) {
            assert_eq!(found[2], [1.0, 0.0, 1.0, 0.0, 0.0], "{place}");
        }
    }
}

#[test]
fn logits_of_minus_infinity_count_for_nothing() {
    let mut random = Random::new(7);
    // All of the second part, and what one invocation of a kernel looks at.
    let nothing = |v: usize| (30..60).contains(&v) || v % 11 == 4;
    let row = |random: &mut Random| -> Vec<f32> {
        (0..88).map(|v| if nothing(v) { f32::NEG_INFINITY } else { random.normal() }).collect()
    };
    let logits: Vec<Vec<f32>> = (0..3).map(|_| row(&mut random)).collect();
    let targets = [0, 61, 40];
    for op in [CrossEntropy::new(0.01, 0.0), CrossEntropy::new(0.0, 0.1)] {
        for parts in [vec![0..30, 30..60, 60..88], vec![0..59, 59..60, 60..88]] {
            compare_with_parts(op, &logits, &targets, &[1.0; 3], &parts);
            for (place, found) in run_in_parts(op, &logits, &targets, &[1.0; 3], &parts) {
                let finite = [true, true, false].map(|finite| finite && op.label_smoothing == 0.0);
                assert_eq!(found[0].iter().map(|x| x.is_finite()).collect::<Vec<_>>(), finite, "{place}");
                assert!(found[3].iter().chain(&found[5]).all(|x| x.is_finite()), "{place}");
            }
        }
    }
}

#[test]
fn what_is_not_a_number_is_hidden_by_no_part() {
    for spoilt in [vec![f32::NAN; 20], vec![f32::INFINITY; 3], vec![f32::NEG_INFINITY; 40]] {
        let mut logits = vec![vec![0.5; 40]];
        logits[0][..spoilt.len()].copy_from_slice(&spoilt);
        for parts in [vec![0..20, 20..40], vec![0..5, 5..40], vec![0..30, 30..40]] {
            for (place, found) in run_in_parts(CrossEntropy::new(0.0, 0.0), &logits, &[30], &[1.0], &parts) {
                assert!(!found[0][0].is_finite(), "{spoilt:?} on the {place}");
            }
            for (place, found) in run(CrossEntropy::new(0.0, 0.0), &logits, &[30], &[1.0]) {
                assert!(!found[0][0].is_finite(), "{spoilt:?} on the {place}");
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_in_words() {
    let mut tape = Tape::new();
    let logits = tape.input("logits", Spec::f32([2, 3, 7])).unwrap();
    let targets = tape.input("targets", Spec::i32([2, 4])).unwrap();
    let weights = tape.input("weights", Spec::f32([2, 3])).unwrap();
    let statistics = tape.input("statistics", Spec::f32([2, 6, 6])).unwrap();
    let op = CrossEntropy::new(0.0, 0.0);
    let error = tape.record(op, &[logits, targets, weights, statistics]).unwrap_err();
    insta::assert_snapshot!(error, @"`cross_entropy` in ``: it takes logits f32[.., V], and a target (i32) and a weight (f32) for every row; it got `logits` f32[2, 3, 7], `targets` i32[2, 4], `weights` f32[2, 3], `statistics` f32[2, 6, 6]");

    let targets = tape.input("other targets", Spec::i32([2, 3])).unwrap();
    let mut error =
        |op: CrossEntropy, statistics: Var| match tape.record(op, &[logits, targets, weights, statistics]) {
            Err(TapeError::Mismatch { reason, .. }) => reason,
            other => panic!("{other:?}"),
        };
    insta::assert_snapshot!(error(op, statistics), @"logits of 7 of 7 classes do not go with statistics of 2 parts");
    insta::assert_snapshot!(error(op.part(5, 11), statistics), @"7 classes from class 5 on are no part of 11 classes");
    insta::assert_snapshot!(error(op.part(usize::MAX, 11), statistics), @"7 classes from class 18446744073709551615 on are no part of 11 classes");
    insta::assert_snapshot!(error(op.part(5, 1 << 24), statistics), @"a vocabulary has less than 2^24 classes");
    insta::assert_snapshot!(error(op.part(5, 12), weights), @"statistics of these rows are f32[parts, 6, 6]");
    assert!(tape.record(op.part(5, 12), &[logits, targets, weights, statistics]).is_ok());
}
