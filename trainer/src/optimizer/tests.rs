//! Optimizers against T5X and against plain arithmetic, on the host and on the device.

use std::collections::BTreeMap;

use serde_json::Value;

use super::*;
use crate::engine::{Engine, ProgramId, Target};
use crate::golden;
use crate::host::HostTensor;
use crate::program::Program;
use crate::testing::{Random, device};

/// A parameter under test.
struct Parameter {
    name: String,
    shape: Shape,
    plan: UpdatePlan,
    first: Vec<f32>,
}

/// An optimizer with the memory of all its parameters, and the program of a step.
struct Bench {
    config: OptimizerConfig,
    stores: Stores,
    parameters: Vec<(StoreId, Vec<StoreId>)>,
    plans: Vec<UpdatePlan>,
    engine: Engine,
}

impl Bench {
    fn new(config: OptimizerConfig, parameters: &[Parameter], target: Target) -> Self {
        config.check().unwrap();
        let mut stores = Stores::new();
        let places: Vec<(StoreId, Vec<StoreId>)> = parameters
            .iter()
            .map(|parameter| {
                let id = stores.add(parameter.name.clone(), Spec::f32(parameter.shape.clone()));
                let state = parameter.plan.state.iter().map(|tensor| {
                    stores.add(
                        format!("{}/{}", parameter.name, tensor.name),
                        Spec::f32(tensor.shape(&parameter.shape)),
                    )
                });
                (id, state.collect())
            })
            .collect();
        let mut tape = Tape::new();
        let scalars = tape.input("scalars", scalars_spec()).unwrap();
        let gradients: Vec<Var> = parameters
            .iter()
            .map(|parameter| tape.input(&parameter.name, Spec::f32(parameter.shape.clone())).unwrap())
            .collect();
        let gradient_scale = config.record_gradient_scale_of(&mut tape, &gradients).unwrap();
        for ((parameter, (id, state)), gradient) in parameters.iter().zip(&places).zip(gradients) {
            let update = Update { stores: &stores, parameter: *id, state, gradient, gradient_scale, scalars };
            parameter.plan.record_update(&mut tape, &update, &mut on_one_rank).unwrap();
        }
        let program = Program::new(&tape, &[]).unwrap();
        let mut engine = Engine::new(target, &stores, vec![program]).unwrap();
        for (parameter, (id, _)) in parameters.iter().zip(&places) {
            engine.write(&stores, *id, &HostTensor::F32(parameter.first.clone())).unwrap();
        }
        let plans = parameters.iter().map(|parameter| parameter.plan.clone()).collect();
        Self { config, stores, parameters: places, plans, engine }
    }

    fn step(&mut self, step: u64, learning_rate: f32, gradients: &BTreeMap<String, HostTensor>) {
        let scalars = HostTensor::F32(self.config.scalars(step, learning_rate));
        let input = |name: &str| if name == "scalars" { Some(&scalars) } else { gradients.get(name) };
        self.engine.run(ProgramId(0), input).unwrap();
    }

    fn parameter(&mut self, i: usize) -> Vec<f32> {
        self.engine.read(&self.stores, self.parameters[i].0).unwrap()
    }

    /// Name and numbers of every state tensor.
    fn state(&mut self, i: usize) -> Vec<(&'static str, Vec<f32>)> {
        let tensors = self.plans[i].state.iter().zip(&self.parameters[i].1);
        tensors.map(|(tensor, id)| (tensor.name, self.engine.read(&self.stores, *id).unwrap())).collect()
    }
}

fn targets() -> [(&'static str, Target); 3] {
    [
        ("host", Target::Cpu { threads: 1 }),
        ("host with threads", Target::Cpu { threads: 3 }),
        ("device", Target::Gpu(device())),
    ]
}

/// The largest difference, relative to the number and to what rounding leaves of others.
fn apart(expected: &[f32], found: &[f32]) -> f64 {
    assert_eq!(expected.len(), found.len());
    let mean_square = expected.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / expected.len() as f64;
    let pairs = expected.iter().zip(found).map(|(x, y)| {
        let room = f64::from(x.abs()).max(0.1 * mean_square.sqrt()).max(1e-30);
        if x == y { 0.0 } else { f64::from(x - y).abs() / room }
    });
    pairs.fold(0.0, |a, b| if b > a || b.is_nan() { b } else { a })
}

fn config_of(variant: &Value) -> AdafactorConfig {
    let mut variant = variant.clone();
    if let Some(threshold) = variant.get_mut("clipping_threshold").filter(|threshold| threshold.is_null()) {
        *threshold = 0.into();
    }
    serde_json::from_value(variant).unwrap()
}

#[test]
fn adafactor_is_that_of_t5x() {
    let golden = golden::json("unit/adafactor.json");
    let (given, expected) = (
        golden::tensors("unit/adafactor_inputs.safetensors"),
        golden::tensors("unit/adafactor_expected.safetensors"),
    );
    let rates: Vec<f32> = serde_json::from_value(golden["learning_rate"].clone()).unwrap();
    let variants = golden["variants"].as_object().unwrap();
    let shapes: BTreeMap<String, Vec<usize>> = serde_json::from_value(golden["shapes"].clone()).unwrap();
    assert_eq!((variants.len(), shapes.len()), (11, 11));
    let mut compared = 0;
    for (variant, settings) in variants {
        let config = config_of(settings);
        for (place, target) in targets() {
            let parameters: Vec<Parameter> = shapes
                .iter()
                .map(|(name, dims)| {
                    let kinds = golden["factor_rules"].get(name);
                    let kinds = kinds.map(|kinds| serde_json::from_value(kinds.clone()).unwrap());
                    let shape = Shape::new(dims.clone());
                    let plan = config.plan_of_kinds(name, &shape, kinds).unwrap();
                    let first = given[&format!("params/{name}")].1.clone();
                    Parameter { name: name.clone(), shape, plan, first }
                })
                .collect();
            let mut bench = Bench::new(OptimizerConfig::Adafactor(config.clone()), &parameters, target);
            let mut largest = (0.0f64, 0.0f64);
            for step in 0..5 {
                let gradient = |name: &String| given[&format!("grads/{step}/{name}")].1.clone();
                let gradients = shapes.keys().map(|name| (name.clone(), HostTensor::F32(gradient(name))));
                bench.step(step, rates[step as usize], &gradients.collect());
                if step != 0 && step != 4 {
                    continue;
                }
                for (i, name) in shapes.keys().enumerate() {
                    let expected = &expected[&format!("{variant}/step{}/{name}", step + 1)].1;
                    let difference = apart(expected, &bench.parameter(i));
                    assert!(
                        difference <= 1e-5,
                        "{variant}, {name}, step {step} on the {place}: {difference:e}"
                    );
                    largest.0 = largest.0.max(difference);
                    compared += 1;
                }
            }
            for (i, name) in shapes.keys().enumerate() {
                let of = |tensor: &str| expected.get(&format!("{variant}/state5/{name}/{tensor}"));
                let kept = bench.state(i);
                for tensor in ["v", "v_row", "v_col", "m"] {
                    let found = kept.iter().find(|(name, _)| *name == tensor);
                    match (of(tensor), found) {
                        (Some((_, expected)), Some((_, found))) => {
                            let difference = apart(expected, found);
                            assert!(
                                difference <= 1e-5,
                                "{variant}, {name}/{tensor} on the {place}: {difference:e}"
                            );
                            largest.1 = largest.1.max(difference);
                            compared += 1;
                        }
                        // The files leave out what is of shape (1,), which is T5X's mark for nothing.
                        (None, Some((_, found))) if found.len() == 1 => {}
                        (None, None) => {}
                        _ => panic!("{variant}, {name}/{tensor}: kept by one of both"),
                    }
                }
            }
            println!("{variant} on the {place}: parameters {:.1e}, state {:.1e}", largest.0, largest.1);
        }
    }
    println!("{compared} tensors, tolerance 1e-5");
}

/// AdamW in double precision.
fn adamw_in_f64(config: &AdamWConfig, first: &[f32], gradients: &[Vec<f32>], rates: &[f32]) -> [Vec<f32>; 3] {
    let mut x: Vec<f64> = first.iter().map(|x| f64::from(*x)).collect();
    let (mut m, mut v) = (vec![0.0; x.len()], vec![0.0; x.len()]);
    // optax clips by the norm of all gradients.
    for (t, (gradients, rate)) in gradients.iter().zip(rates).enumerate() {
        let norm = gradients.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
        let clip = config.global_norm_clip_threshold.map_or(1.0, |most| (f64::from(most) / norm).min(1.0));
        for i in 0..x.len() {
            let g = f64::from(gradients[i]) * clip;
            m[i] = config.beta1 * m[i] + (1.0 - config.beta1) * g;
            v[i] = config.beta2 * v[i] + (1.0 - config.beta2) * g * g;
            let mean = m[i] / (1.0 - config.beta1.powi(t as i32 + 1));
            let spread = (v[i] / (1.0 - config.beta2.powi(t as i32 + 1))).sqrt() + f64::from(config.epsilon);
            x[i] -= f64::from(*rate) * (mean / spread + f64::from(config.weight_decay) * x[i]);
        }
    }
    [x, m, v].map(|values| values.into_iter().map(|x| x as f32).collect())
}

#[test]
fn adamw_is_plain_arithmetic() {
    let shape = Shape::new([5, 77]);
    let mut random = Random::new(3);
    let mut draw = |scale: f32| (0..shape.elements()).map(|_| scale * random.normal()).collect::<Vec<f32>>();
    let first = draw(1.0);
    let gradients: Vec<Vec<f32>> = [1.0, 0.1, 3.0, 1e-3, 0.5].map(&mut draw).into();
    let rates = [1e-2, 2e-2, 1e-3, 5e-2, 1e-2];
    for threshold in [None, Some(2.0)] {
        let config =
            AdamWConfig { weight_decay: 0.01, global_norm_clip_threshold: threshold, ..Default::default() };
        let [x, m, v] = adamw_in_f64(&config, &first, &gradients, &rates);
        for (place, target) in targets() {
            let config = OptimizerConfig::AdamW(config.clone());
            let plan = config.plan("w", &shape, &["embed", "mlp"]).unwrap();
            let parameter =
                Parameter { name: "w".to_owned(), shape: shape.clone(), plan, first: first.clone() };
            let mut bench = Bench::new(config, &[parameter], target);
            for (step, (gradient, rate)) in gradients.iter().zip(rates).enumerate() {
                let gradients = [("w".to_owned(), HostTensor::F32(gradient.clone()))].into();
                bench.step(step as u64, rate, &gradients);
            }
            let found = [("p", bench.parameter(0))].into_iter().chain(bench.state(0));
            for ((name, found), expected) in found.zip([&x, &m, &v]) {
                let difference = apart(expected, &found);
                assert!(difference <= 1e-5, "{name} on the {place}: {difference:e}");
                println!("{name} on the {place}, clipped to {threshold:?}: {difference:.1e}");
            }
        }
    }
}

#[test]
fn what_is_not_a_number_changes_nothing_where_it_is_skipped() {
    let shape = Shape::new([3, 2, 8]);
    let kinds = vec![FactorDim::Row, FactorDim::Batch, FactorDim::Column];
    let mut random = Random::new(4);
    let first: Vec<f32> = (0..shape.elements()).map(|_| random.normal()).collect();
    let mut gradient: Vec<f32> = (0..shape.elements()).map(|_| random.normal()).collect();
    for factored in [true, false] {
        for skip_nan_updates in [true, false] {
            let config =
                AdafactorConfig { factored, skip_nan_updates, beta1: Some(0.9), ..Default::default() };
            for (place, target) in targets() {
                let plan = config.plan_of_kinds("w", &shape, Some(kinds.clone())).unwrap();
                let parameter =
                    Parameter { name: "w".to_owned(), shape: shape.clone(), plan, first: first.clone() };
                let mut bench = Bench::new(OptimizerConfig::Adafactor(config.clone()), &[parameter], target);
                let step = |bench: &mut Bench, gradient: &[f32]| {
                    let gradients = [("w".to_owned(), HostTensor::F32(gradient.to_vec()))].into();
                    bench.step(0, 0.1, &gradients);
                    (bench.parameter(0), bench.state(0))
                };
                gradient[17] = 0.25;
                let (before, state) = step(&mut bench, &gradient);
                gradient[17] = f32::NAN;
                let (after, state_after) = step(&mut bench, &gradient);
                let what = format!("factored {factored}, skipped {skip_nan_updates}, on the {place}");
                let finite = |state: &[(&str, Vec<f32>)]| {
                    state.iter().flat_map(|(_, values)| values).all(|x| x.is_finite())
                };
                assert!(finite(&state), "{what}");
                assert_eq!(finite(&state_after), skip_nan_updates, "{what}");
                // Element 17 is in the first of the two parameters stacked here; unfactored, they count as one. The root
                // mean square of an update with it is no number, and so is the whole update.
                let of = |values: &[f32], batch: usize| -> Vec<f32> {
                    (0..3).flat_map(|row| values[(2 * row + batch) * 8..][..8].to_vec()).collect()
                };
                if skip_nan_updates {
                    assert_eq!(of(&before, 0), of(&after, 0), "{what}");
                } else {
                    assert!(of(&after, 0).iter().all(|x| x.is_nan()), "{what}");
                }
                if factored {
                    assert_ne!(of(&before, 1), of(&after, 1), "{what}");
                    assert!(of(&after, 1).iter().all(|x| x.is_finite()), "{what}");
                }
            }
        }
    }
}

#[test]
fn large_and_ragged_tensors_change_alike_on_host_and_device() {
    let cases: [(&[usize], &[&str]); 6] = [
        (&[1300, 48], &["vocab", "embed"]),
        (&[48, 1300], &["embed", "mlp"]),
        (&[40_000], &["embed"]),
        (&[130, 3, 5, 7], &["embed", "layers", "heads", "kv"]),
        (&[5, 3, 7, 130], &["heads", "layers", "kv", "embed"]),
        (&[300, 5], &["embed", "layers"]),
    ];
    let settings = [
        AdafactorConfig { min_dim_size_to_factor: 32, ..Default::default() },
        AdafactorConfig { factored: false, beta1: Some(0.5), ..Default::default() },
    ];
    for config in settings.map(OptimizerConfig::Adafactor) {
        let mut random = Random::new(8);
        let mut gradients = BTreeMap::new();
        let mut parameters = Vec::new();
        for (dims, axes) in cases {
            let shape = Shape::from(dims);
            let name = format!("{dims:?}");
            let mut draw = || (0..shape.elements()).map(|_| random.normal()).collect::<Vec<f32>>();
            let (first, gradient) = (draw(), draw());
            gradients.insert(name.clone(), HostTensor::F32(gradient));
            let plan = config.plan(&name, &shape, axes).unwrap();
            parameters.push(Parameter { name, shape, plan, first });
        }
        let [host, threads, device] = targets().map(|(_, target)| {
            let mut bench = Bench::new(config.clone(), &parameters, target);
            for step in 0..3 {
                bench.step(step, 0.1, &gradients);
            }
            (0..cases.len()).map(|i| (bench.parameter(i), bench.state(i))).collect::<Vec<_>>()
        });
        assert!(host == threads, "the number of threads changes bits");
        for ((dims, _), (host, device)) in cases.iter().zip(host.iter().zip(&device)) {
            let mut differences = vec![apart(&host.0, &device.0)];
            differences.extend(host.1.iter().zip(&device.1).map(|(host, device)| apart(&host.1, &device.1)));
            assert!(differences.iter().all(|difference| *difference <= 1e-5), "{dims:?}: {differences:?}");
            println!("{dims:?}: {differences:?}");
        }
    }
}

#[test]
fn no_temporary_is_as_large_as_a_factored_parameter() {
    let shape = Shape::new([32_128, 768]);
    let config = OptimizerConfig::Adafactor(AdafactorConfig { beta1: Some(0.9), ..Default::default() });
    let plan = config.plan("w", &shape, &["vocab", "embed"]).unwrap();
    let mut stores = Stores::new();
    let id = stores.add("w", Spec::f32(shape.clone()));
    let state: Vec<StoreId> =
        plan.state.iter().map(|tensor| stores.add(tensor.name, Spec::f32(tensor.shape(&shape)))).collect();
    let mut tape = Tape::new();
    let scalars = tape.input("scalars", scalars_spec()).unwrap();
    let gradient = tape.input("gradient", Spec::f32(shape.clone())).unwrap();
    let gradient_scale = config.record_gradient_scale_of(&mut tape, &[gradient]).unwrap();
    let update = Update { stores: &stores, parameter: id, state: &state, gradient, gradient_scale, scalars };
    plan.record_update(&mut tape, &update, &mut on_one_rank).unwrap();
    let program = Program::new(&tape, &[]).unwrap();
    let whole = 4 * shape.elements() as u64;
    assert!(program.working_bytes() < whole / 10, "{} of {whole} bytes", program.working_bytes());
    assert_eq!(stores.get(state[0]).spec, Spec::f32([768]), "rows are kept of the shorter axis");
    assert_eq!(stores.get(state[1]).spec, Spec::f32([32_128]));
}

#[test]
fn what_is_no_optimizer_is_refused_in_words() {
    let config: OptimizerConfig = serde_json::from_str(r#"{"name":"adafactor","beta1":1}"#).unwrap();
    insta::assert_snapshot!(config.check().unwrap_err(), @"`beta1` is 1; it has to be at least 0 and less than 1");
    let config = AdafactorConfig::default();
    let error = config.plan_of_kinds("w", &Shape::new([2, 3, 4]), None).unwrap_err();
    insta::assert_snapshot!(error, @"`w` [2, 3, 4] has more than two axes, so that factoring it takes rules for them");
    let error = config.plan("w", &Shape::new([2, 3]), &["embed"]).unwrap_err();
    insta::assert_snapshot!(error, @"`w` is [2, 3], but 1 of its axes have names");
    use FactorDim::{Column, Row};
    let kinds = vec![Row, Column, Row, Column, Row];
    let error = config.plan_of_kinds("w", &Shape::new([2; 5]), Some(kinds)).unwrap_err();
    insta::assert_snapshot!(error, @"the axes of `w` [2, 2, 2, 2, 2] are [Row, Column, Row, Column, Row]: they alternate too often");
}

#[test]
fn settings_left_out_are_those_of_t5x() {
    let read = |text: &str| serde_json::from_str::<OptimizerConfig>(text).unwrap();
    assert_eq!(read(r#"{"name":"adafactor"}"#), OptimizerConfig::default());
    let config = read(r#"{"name":"adamw","weight_decay":0.01}"#);
    assert_eq!(read(&serde_json::to_string(&config).unwrap()), config);
    let config = OptimizerConfig::default();
    assert_eq!(read(&serde_json::to_string(&config).unwrap()), config);
    // The second update of a fine-tuning that began at step 1000.
    let config =
        AdafactorConfig { step_offset: 1000, weight_decay_rate_lr_exponent: Some(2.0), ..Default::default() };
    let [rate, decay, mixing, weight_decay] = config.scalars(1001, 0.5);
    assert_eq!((rate, weight_decay), (0.5, 0.25));
    assert!((decay - 0.425_651_8).abs() < 1e-6 && decay + mixing == 1.0, "{decay}");
}

#[test]
fn halves_that_add_up_their_sums_change_as_the_whole_does() {
    let half = [6, 3, 8];
    let kinds = [FactorDim::Row, FactorDim::Batch, FactorDim::Column];
    let settings = [
        AdafactorConfig { global_norm_clip_threshold: Some(0.5), ..Default::default() },
        AdafactorConfig { factored: false, ..Default::default() },
    ];
    for config in settings {
        for axis in [0, 2] {
            // Both halves are alike, so that each knows what the other finds.
            let shape = Shape::new({
                let mut dims = half;
                dims[axis] *= 2;
                dims
            });
            let half = Shape::new(half);
            let plan = config.plan_of_kinds("w", &shape, Some(kinds.to_vec())).unwrap();
            let mut random = Random::new(6);
            let mut draw = || (0..half.elements()).map(|_| random.normal()).collect::<Vec<f32>>();
            let (first, gradient) = (draw(), draw());
            let twice = |part: &[f32]| -> Vec<f32> {
                let run = half.dims()[axis..].iter().product();
                part.chunks(run).flat_map(|run| [run, run]).flatten().copied().collect()
            };
            let results = [
                (half.clone(), first.clone(), gradient.clone(), true),
                (shape, twice(&first), twice(&gradient), false),
            ]
            .map(|(shape, first, gradient, is_half)| {
                let mut stores = Stores::new();
                let id = stores.add("w", Spec::f32(shape.clone()));
                let specs = plan.state.iter().map(|tensor| (tensor.name, Spec::f32(tensor.shape(&shape))));
                let state: Vec<StoreId> = specs.map(|(name, spec)| stores.add(name, spec)).collect();
                let mut tape = Tape::new();
                let given = tape.input("gradient", Spec::f32(shape)).unwrap();
                let scalars = tape.input("scalars", scalars_spec()).unwrap();
                let mut sum_over_ranks = |tape: &mut Tape, sums: Var, over: &[usize]| {
                    if is_half && over.contains(&axis) {
                        tape.record(crate::ops::Add, &[sums, sums])
                    } else {
                        Ok(sums)
                    }
                };
                let optimizer = OptimizerConfig::Adafactor(config.clone());
                let gradient_scale = optimizer.record_gradient_scale(&mut tape, |tape| {
                    let squares = tape.record(SumSquares, &[given])?;
                    sum_over_ranks(tape, squares, &[0, 1, 2]).map(Some)
                });
                let update = Update {
                    stores: &stores,
                    parameter: id,
                    state: &state,
                    gradient: given,
                    gradient_scale: gradient_scale.unwrap(),
                    scalars,
                };
                plan.record_update(&mut tape, &update, &mut sum_over_ranks).unwrap();
                let program = Program::new(&tape, &[]).unwrap();
                let mut engine = Engine::new(Target::Cpu { threads: 1 }, &stores, vec![program]).unwrap();
                engine.write(&stores, id, &HostTensor::F32(first)).unwrap();
                let gradient = HostTensor::F32(gradient);
                for step in 0..3 {
                    let scalars = HostTensor::F32(optimizer.scalars(step, 0.1));
                    engine
                        .run(ProgramId(0), |name| Some(if name == "scalars" { &scalars } else { &gradient }))
                        .unwrap();
                }
                engine.read(&stores, id).unwrap()
            });
            let difference = apart(&results[1], &twice(&results[0]));
            assert!(difference <= 1e-6, "factored {}, axis {axis}: {difference:e}", config.factored);
        }
    }
}

#[test]
fn networks_change_as_in_t5x_with_the_gradients_of_t5x() {
    let cases = [
        ("encdec", "default", 128),
        ("encdec", "factored", 16),
        ("decoder_only", "default", 128),
        ("scalable_t5", "default", 128),
    ];
    for (case, variant, min_dim_size_to_factor) in cases {
        let config = AdafactorConfig { min_dim_size_to_factor, ..Default::default() };
        let weights = golden::tensors(&format!("{case}/weights.safetensors"));
        let axes = golden::json(&format!("{case}/weights_axes.json"));
        let state = golden::tensors(&format!("{case}/opt_state_adafactor_{variant}_step5.safetensors"));
        let parameters = || -> Vec<Parameter> {
            let of_name = weights.iter().map(|(name, (dims, first))| {
                let axes = axes[name]["axes"].as_array().unwrap();
                let axes: Vec<&str> = axes.iter().map(|axis| axis.as_str().unwrap()).collect();
                let shape = Shape::new(dims.clone());
                let plan = config.plan(name, &shape, &axes).unwrap();
                for tensor in &plan.state {
                    let expected = &state[&format!("param_states/{name}/{}", tensor.name)].0;
                    assert_eq!(tensor.shape(&shape).dims(), &expected[..], "{case}, {name}/{}", tensor.name);
                }
                Parameter { name: name.clone(), shape, plan, first: first.clone() }
            });
            of_name.collect()
        };
        let tensors: usize = parameters().iter().map(|parameter| parameter.plan.state.len()).sum();
        assert_eq!(tensors + 1, state.len(), "{case}: with the step");
        if variant == "factored" {
            // Its first learning rate is too small for anything to change.
            continue;
        }
        let gradients = golden::tensors(&format!("{case}/grads_packed_z1e-4.safetensors"));
        let gradients: BTreeMap<String, HostTensor> =
            gradients.into_iter().map(|(name, (_, values))| (name, HostTensor::F32(values))).collect();
        let expected = golden::tensors(&format!("{case}/params_adafactor_{variant}_step1.safetensors"));
        for (place, target) in targets() {
            let mut bench = Bench::new(OptimizerConfig::Adafactor(config.clone()), &parameters(), target);
            bench.step(0, 1e-3, &gradients);
            let mut largest = 0.0f32;
            for (i, (name, (_, expected))) in expected.iter().enumerate() {
                for (expected, found) in expected.iter().zip(bench.parameter(i)) {
                    let difference = (expected - found).abs();
                    assert!(difference <= 1e-6, "{case}, {name} on the {place}: {expected}, {found}");
                    largest = largest.max(difference);
                }
            }
            println!("{case} on the {place}: {largest:.1e}, tolerance 1e-6");
        }
    }
}
