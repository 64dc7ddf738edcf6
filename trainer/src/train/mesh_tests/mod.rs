//! Runs over several ranks against T5X and against one rank.

mod curves;
mod drivers;
mod faults;
mod logits;
mod restored;
mod sharded;
mod thirds;
mod tiny;

use std::collections::BTreeMap;

use seqio::{Batch, Values};

use crate::engine::Target;
use crate::golden;
use crate::gpu::Device;
use crate::mesh::{Mesh, MeshAxis};
use crate::optimizer::OptimizerConfig;
use crate::partition::{Partitioning, PartitioningDims};
use crate::testing::device;
use crate::train::tests::{CASES, Place, config_of, distance, objective_of, updates_on};
use crate::train::{LossNormalizing, Objective, Schedule, Trainer, TrainerConfig};

const MODES: [(u8, u8); 4] = [(1, 1), (2, 1), (1, 2), (2, 2)];

fn partitioning((activations, parameters): (u8, u8)) -> Partitioning {
    let dims = |dims: u8| PartitioningDims::try_from(u64::from(dims)).unwrap();
    Partitioning { activations: dims(activations), parameters: dims(parameters) }
}

fn place(name: &str, (data, model): (usize, usize), mode: (u8, u8), target: impl Fn() -> Target) -> Place {
    let mesh = Mesh::new(data, model).unwrap();
    Place {
        name: format!("{data}×{model} {name}, partitioned {mode:?}"),
        mesh,
        partitioning: partitioning(mode),
        targets: (0..mesh.ranks()).map(|_| target()).collect(),
    }
}

fn on_cpu(sizes: (usize, usize), mode: (u8, u8)) -> Place {
    place("cpu", sizes, mode, || Target::Cpu { threads: 1 })
}

/// Logical devices of one adapter.
fn on_adapter(name: &str, sizes: (usize, usize), mode: (u8, u8)) -> Place {
    place(name, sizes, mode, || Target::Gpu(Device::open(name).unwrap()))
}

/// Ranks that share a device.
fn on_one_device(sizes: (usize, usize), mode: (u8, u8)) -> Place {
    place("one device", sizes, mode, || Target::Gpu(device()))
}

fn objective() -> Objective {
    Objective { z_loss: 1e-4, label_smoothing: 0.0, normalizing: LossNormalizing::Nothing }
}

/// The batch with rows of padding that nothing is learnt from, until ranks can share it.
pub(super) fn shared_by(ranks: usize, mut batch: Batch) -> Batch {
    let rows = batch.num_rows.next_multiple_of(ranks);
    for array in &mut batch.arrays {
        let elements = rows * array.length.max(1);
        match &mut array.values {
            Values::I32(values) => values.resize(elements, 0),
            Values::F32(values) => values.resize(elements, 0.0),
        }
    }
    batch.num_rows = rows;
    batch
}

/// Losses and gradients of all cases against T5X; the largest distance of a gradient, as a part of its tolerance.
fn gradients_on(place: &Place, cases: &[&str]) -> f64 {
    let (mut largest, mut seen) = (0.0f64, 0);
    for case in cases {
        let weights = golden::tensors(&format!("{case}/weights.safetensors"));
        for (batch_name, of_batch) in golden::json(&format!("{case}/loss.json")).as_object().unwrap() {
            let rows = golden::batch(case, batch_name).num_rows;
            let batch = shared_by(place.mesh.size(MeshAxis::Data), golden::batch(case, batch_name));
            let is_longer = batch.num_rows > rows;
            for (name, of_case) in of_batch["cases"].as_object().unwrap() {
                let path = format!("{case}/grads_{batch_name}_{name}.safetensors");
                // Counts of all tokens are those of the padding as well.
                let counts_all =
                    |name: &str| name.contains("total_tokens") || name.contains("padding_fraction");
                if !golden::exists(&path) || (is_longer && counts_all(name)) {
                    continue;
                }
                let config = TrainerConfig {
                    model: config_of(case, batch_name),
                    objective: objective_of(&of_case["hyper"]),
                    optimizer: OptimizerConfig::default(),
                    schedule: Schedule::default(),
                    seed: 0,
                    microbatches: 1,
                };
                let mut trainer = place.trainer(config, &batch);
                for (name, (_, values)) in &weights {
                    trainer.write(name, values.clone()).unwrap();
                }
                let report = trainer.gradients(&batch).unwrap();
                let what = format!("{case}/{batch_name}/{name} on {}", place.name);
                for (metric, expected) in of_case["metrics"].as_object().unwrap() {
                    if is_longer && (metric.contains("all_target") || metric.contains("padding_fraction")) {
                        continue;
                    }
                    let (found, expected) = (report.base.values(1)[metric], expected.as_f64().unwrap());
                    let apart = (found - expected).abs() / expected.abs().max(1e-3);
                    assert!(apart <= 5e-6, "{what}, {metric}: {found} against {expected}");
                }
                let norm = of_case["grad_global_norm"].as_f64().unwrap();
                assert!(
                    (report.gradient_norm / norm - 1.0).abs() <= 5e-6,
                    "{what}: {}",
                    report.gradient_norm
                );
                for (parameter, (_, expected)) in golden::tensors(&path) {
                    let found = trainer.read(&format!("gradient of {parameter}")).unwrap();
                    let apart = distance(&expected, &found);
                    assert!(apart <= 1.0, "{what}, {parameter}: {apart} of the tolerance");
                    largest = largest.max(apart);
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 20, "{seen}");
    println!("{}: the largest distance of {seen} gradients is {largest:.3} of the tolerance", place.name);
    largest
}

#[test]
fn gradients_and_updates_on_a_mesh_are_those_of_t5x() {
    for mode in MODES {
        let place = on_cpu((2, 2), mode);
        gradients_on(&place, &["encdec", "decoder_only", "scalable_t5"]);
        updates_on(&[place], &["encdec", "scalable_t5"]);
    }
    let place = on_adapter("llvmpipe", (1, 2), (1, 1));
    gradients_on(&place, &["encdec"]);
    let place = on_one_device((2, 2), (2, 2));
    gradients_on(&place, &["scalable_t5"]);
    updates_on(&[place], &["scalable_t5"]);
}

/// Everything, which takes too long to do all the time.
#[test]
#[ignore = "minutes long"]
fn all_meshes_give_the_numbers_of_t5x() {
    let sizes = [(1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (4, 1)];
    for mode in MODES {
        for sizes in sizes {
            let place = on_cpu(sizes, mode);
            gradients_on(&place, &CASES);
            updates_on(&[place], &["encdec", "decoder_only", "scalable_t5"]);
        }
    }
    for (sizes, mode) in sizes.into_iter().flat_map(|sizes| MODES.map(|mode| (sizes, mode))) {
        let place = on_adapter("llvmpipe", sizes, mode);
        gradients_on(&place, &CASES);
        updates_on(&[place], &["encdec", "decoder_only", "scalable_t5"]);
    }
}

/// All that a trainer would keep, by name.
fn stored(trainer: &mut Trainer) -> BTreeMap<String, Vec<u32>> {
    let names = trainer.parameters().into_iter().chain(trainer.optimizer_state()).map(|(name, _)| name);
    let names: Vec<String> = names.collect();
    let bits = |name: String| {
        let values = trainer.read(&name).unwrap();
        (name, values.into_iter().map(f32::to_bits).collect())
    };
    names.into_iter().map(bits).collect()
}

/// The losses of a few steps.
fn losses(place: &Place, config: &TrainerConfig, steps: usize) -> Vec<f64> {
    let batch = shared_by(4, golden::batch("encdec", "packed"));
    let mut trainer = place.trainer(config.clone(), &batch);
    trainer.initialize().unwrap();
    (0..steps).map(|_| trainer.train(&batch).unwrap().base.losses.loss).collect()
}

fn with_dropout() -> TrainerConfig {
    let mut model = config_of("encdec", "packed");
    model.dropout_rate = 0.1;
    TrainerConfig {
        model,
        objective: objective(),
        optimizer: OptimizerConfig::default(),
        schedule: Schedule::default(),
        seed: 5,
        microbatches: 1,
    }
}

#[test]
fn first_values_and_dropout_do_not_depend_on_the_mesh() {
    let config = with_dropout();
    let expected = losses(&on_cpu((1, 1), (1, 1)), &config, 3);
    for mode in MODES {
        let found = losses(&on_cpu((2, 2), mode), &config, 3);
        for (step, (expected, found)) in expected.iter().zip(&found).enumerate() {
            // Another mask would be seen at once.
            assert!((found / expected - 1.0).abs() < 2e-5, "{mode:?}, step {step}: {expected}, {found}");
        }
    }
}
