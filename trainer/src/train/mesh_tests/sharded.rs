//! What ranks hold and move: no more than their share.

use super::{MODES, on_cpu, partitioning, place, tiny};
use crate::engine::{Engine, Target};
use crate::mesh::{Mesh, MeshAxis, Traffic};
use crate::model::{InputShape, ParameterSpec, preset};
use crate::optimizer::{AdamWConfig, OptimizerConfig};
use crate::testing::device;
use crate::train::plan::{Kind, Named};
use crate::train::team::Worker;
use crate::train::{Trainer, TrainerConfig, TrainerPlan};

/// T5 1.1 small, of which one layer is like the other.
fn small() -> TrainerConfig {
    let mut config = tiny::config(6);
    config.model = preset("t5_1_1/small").unwrap();
    (config.model.num_encoder_layers, config.model.num_decoder_layers) = (1, 1);
    config
}

fn plan(config: &TrainerConfig, (data, model): (usize, usize), mode: (u8, u8)) -> TrainerPlan {
    let shape = InputShape { rows: 4, encoder_length: 8, decoder_length: 8 };
    let mesh = Mesh::new(data, model).unwrap();
    TrainerPlan::on_mesh(config.clone(), shape, mesh, partitioning(mode)).unwrap()
}

/// Bytes that an engine holds of parameters, gradients and the optimizer's state.
fn held(engine: &Engine, tensors: &[Named]) -> [u64; 3] {
    [Kind::Parameter, Kind::Gradient, Kind::State].map(|kind| {
        let tensors = tensors.iter().filter(|tensor| tensor.kind == kind);
        tensors.map(|tensor| engine.stored_bytes(tensor.id)).sum()
    })
}

/// The most that a rank may hold of tensors with these axes: what has `heads`, `mlp` or `vocab` is shared by the model
/// axis, and what has `embed` beside by the data axis if parameters are spread over it; norms and such are on all ranks.
fn share(spec: &ParameterSpec, axes: &[usize], sizes: (usize, usize), mode: (u8, u8)) -> u64 {
    let elements: usize = axes.iter().map(|axis| spec.shape.dims()[*axis]).product();
    let has = |name: &str| axes.iter().any(|axis| spec.axes[*axis] == name);
    let is_shared = ["heads", "joined_kv", "mlp", "vocab"].into_iter().any(has);
    let model = if is_shared { sizes.1 } else { 1 };
    let data = if is_shared && has("embed") && mode.1 == 2 { sizes.0 } else { 1 };
    4 * elements.div_ceil(model * data) as u64
}

/// The most that a rank may hold of parameters, of gradients and of the optimizer's state.
fn shares(config: &TrainerConfig, sizes: (usize, usize), mode: (u8, u8)) -> [u64; 3] {
    let (mut parameters, mut state) = (0, 0);
    for spec in config.model.parameters() {
        let all: Vec<usize> = (0..spec.shape.rank()).collect();
        parameters += share(&spec, &all, sizes, mode);
        let plan = config.optimizer.plan(&spec.name, &spec.shape, &spec.axes).unwrap();
        state += plan.state.iter().map(|tensor| share(&spec, &tensor.axes, sizes, mode)).sum::<u64>();
    }
    [parameters, parameters, state]
}

#[test]
fn ranks_hold_their_share_and_no_more() {
    let adamw = TrainerConfig { optimizer: OptimizerConfig::AdamW(AdamWConfig::default()), ..small() };
    for (config, meshes) in [(small(), vec![(1, 2), (2, 1)]), (adamw, vec![(2, 2)])] {
        let whole = shares(&config, (1, 1), (1, 1));
        assert!(whole[0] > 100 << 20);
        for sizes in meshes {
            for mode in MODES {
                let most = shares(&config, sizes, mode);
                let mut trainer =
                    Trainer::new(plan(&config, sizes, mode), Target::Cpu { threads: 1 }).unwrap();
                let found = trainer
                    .team()
                    .on_all(|Worker { plan, engine, .. }| Ok(held(engine, &plan.tensors)))
                    .unwrap();
                assert_eq!(found.len(), sizes.0 * sizes.1);
                for found in &found {
                    assert!(
                        found.iter().zip(&most).all(|(found, most)| found <= most),
                        "{found:?}, {most:?}"
                    );
                }
                // Norms, and what Adafactor keeps of the axis `embed`, are all that is not divided.
                let parts = sizes.1 as u64 * if mode.1 == 2 { sizes.0 as u64 } else { 1 };
                assert!(most[0] <= whole[0] / parts + (64 << 10), "{most:?}, {whole:?}");
                println!("{sizes:?}, {mode:?}: {:?} of {whole:?}, at most {most:?}", found[0]);
            }
        }
    }
}

#[test]
fn devices_hold_their_share_and_no_more() {
    let config = small();
    for (sizes, mode) in [((1, 2), (1, 1)), ((2, 2), (2, 2))] {
        let (most, plan) = (shares(&config, sizes, mode), plan(&config, sizes, mode));
        for rank in plan.ranks() {
            let engine = Engine::new(Target::Gpu(device()), &rank.stores, Vec::new()).unwrap();
            let found = held(&engine, &rank.tensors);
            // Buffers are whole vectors of four.
            let more = 16 * rank.tensors.len() as u64;
            assert!(
                found.iter().zip(&most).all(|(found, most)| *found <= most + more),
                "{found:?}, {most:?}"
            );
        }
    }
}

/// What the plan says that a rank exchanges in a step.
fn planned(plan: &TrainerPlan, rank: usize) -> Traffic {
    let mut traffic = Traffic::default();
    for (times, (axis, message)) in plan.exchanges_of_step() {
        let place = plan.mesh().place(rank, *axis);
        traffic.put_bytes += times * message.bytes_put(place);
        traffic.taken_bytes += times * message.bytes_taken();
        traffic.messages += times;
        traffic.largest_elements = traffic.largest_elements.max(message.bytes_put(place) as usize / 4);
    }
    traffic
}

#[test]
fn a_step_moves_what_was_planned_and_never_the_logits() {
    let (rows, length) = (32, 16);
    for (mode, microbatches) in MODES.into_iter().flat_map(|mode| [(mode, 1), (mode, 2)]) {
        let mut config = TrainerConfig { microbatches, ..tiny::config(4) };
        config.model.vocab_size = 384;
        let place = on_cpu((2, 2), mode);
        let batch = tiny::batch_of(0, rows, length);
        let plan = tiny::plan(&place, &config, &batch);
        let expected: Vec<Traffic> = (0..4).map(|rank| planned(&plan, rank)).collect();
        let mut trainer = Trainer::on(plan, place.targets).unwrap();
        trainer.initialize().unwrap();
        trainer.train(&batch).unwrap();
        for (found, expected) in trainer.take_traffic().unwrap().into_iter().zip(&expected) {
            assert_eq!(Traffic { waited_seconds: 0.0, moved_seconds: 0.0, ..found }, *expected, "{mode:?}");
        }
        // Half of the logits of a microbatch is what a rank computes of them.
        let logits = rows / microbatches / place.mesh.size(MeshAxis::Data) * length * 384 / 2;
        let largest = expected[0].largest_elements;
        println!(
            "{mode:?}, {microbatches} microbatches: {} messages, {} bytes out, {} in, the largest of {largest} \
             elements against {logits} logits",
            expected[0].messages, expected[0].put_bytes, expected[0].taken_bytes
        );
        assert!(largest < logits, "{mode:?}, {microbatches} microbatches: {largest} of {logits}");
    }
}

/// The shapes that T5 was trained with.
#[test]
fn no_message_of_a_large_batch_is_of_the_size_of_logits() {
    for mode in MODES {
        let (rows, length) = (128, 114);
        let shape = InputShape { rows, encoder_length: 512, decoder_length: length };
        let place = place("nothing", (2, 2), mode, || Target::Cpu { threads: 1 });
        let plan = TrainerPlan::on_mesh(small(), shape, place.mesh, place.partitioning).unwrap();
        let largest = planned(&plan, 0).largest_elements;
        assert!(largest < rows / 2 * length * 32128 / 2, "{mode:?}: {largest}");
    }
}
