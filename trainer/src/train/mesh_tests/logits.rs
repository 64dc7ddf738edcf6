//! Logits of every case against T5X, each rank's part of the vocabulary for its rows.

use std::rc::Rc;
use std::thread;

use seqio::Values;

use super::{MODES, on_adapter, on_cpu, shared_by};
use crate::engine::{Engine, ProgramId};
use crate::golden;
use crate::host::HostTensor;
use crate::mesh::{MeshAxis, World};
use crate::model::{InputShape, Mode, host_inputs, part};
use crate::partition::Placement;
use crate::program::Program;
use crate::store::Stores;
use crate::tape::Tape;
use crate::train::tests::{CASES, Place, config_of};
use crate::train::{Network, TrainError};

/// How far logits may be from T5X's, as on one rank.
const TOLERANCE: f32 = 5e-5;

/// Checks the logits of real tokens; how far they are apart at most.
fn logits_on(place: &Place, cases: &[&str]) -> f32 {
    let mut largest = 0.0f32;
    for case in cases {
        for batch_name in ["unpacked", "lm", "prefix", "packed"] {
            let path = format!("{case}/forward_{batch_name}.safetensors");
            if golden::exists(&path) {
                largest = largest.max(logits_of(place, case, batch_name, &golden::tensors(&path)["logits"]));
            }
        }
    }
    println!("{}: the largest distance of a logit is {largest:.2e}, tolerance {TOLERANCE:.0e}", place.name);
    largest
}

fn logits_of(place: &Place, case: &str, batch_name: &str, (dims, expected): &(Vec<usize>, Vec<f32>)) -> f32 {
    let world = World::new(place.mesh);
    let found: Vec<Vec<f32>> = thread::scope(|scope| {
        let start = |rank| {
            let world = &world;
            scope.spawn(move || logits_of_rank(place, world, rank, case, batch_name).unwrap())
        };
        let threads: Vec<_> = (0..place.mesh.ranks()).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let batch = golden::batch(case, batch_name);
    let targets = batch.arrays.iter().find(|array| array.name == "decoder_target_tokens").unwrap();
    let Values::I32(targets) = &targets.values else { panic!("targets are not integers") };
    let &[rows, length, classes] = dims.as_slice() else { panic!("{dims:?}") };
    let (mut largest, mut seen) = (0.0f32, 0);
    for (rank, found) in found.into_iter().enumerate() {
        let placement = Placement { mesh: place.mesh, rank, partitioning: place.partitioning };
        let share = placement.share(classes);
        let first = placement.place(MeshAxis::Data) * found.len() / share.len();
        for (at, found) in found.iter().enumerate() {
            let (token, class) = (first + at / share.len(), share.start + at % share.len());
            if token >= rows * length || targets[token] == 0 {
                continue;
            }
            let expected = expected[token * classes + class];
            let apart = (expected - found).abs();
            assert!(
                apart <= TOLERANCE,
                "{case}/{batch_name} on {}, class {class} of token {token}: {expected} against {found}",
                place.name
            );
            largest = largest.max(apart);
            seen += 1;
        }
    }
    assert_eq!(seen, classes * targets.iter().filter(|token| **token > 0).count());
    largest
}

fn logits_of_rank(
    place: &Place,
    world: &World,
    rank: usize,
    case: &str,
    batch_name: &str,
) -> Result<Vec<f32>, TrainError> {
    let config = config_of(case, batch_name);
    let ranks = place.mesh.size(MeshAxis::Data);
    let batch = shared_by(ranks, golden::batch(case, batch_name));
    let shape = InputShape::of(&config, &batch, ranks).unwrap();
    let placement = Placement { mesh: place.mesh, rank, partitioning: place.partitioning };
    let (mut stores, mut tape) = (Stores::new(), Tape::new());
    let network = Network::new(config, placement, &mut stores).unwrap();
    let parameters = Rc::new(network.on(&mut tape, &stores));
    let logits = network.logits(&mut tape, &parameters, shape, Mode::Evaluate).unwrap();
    let program = Program::new(&tape, &[logits]).unwrap();
    let mut engine = Engine::new(place.targets[rank].clone(), &stores, vec![program])?;
    let weights = golden::tensors(&format!("{case}/weights.safetensors"));
    for (spec, id) in &network.parameters {
        let part = placement.part(&spec.shape, &spec.axes).cut(&weights[&spec.name].1);
        engine.write(&stores, *id, &HostTensor::F32(part))?;
    }
    let first = placement.place(MeshAxis::Data) * shape.rows;
    let inputs = host_inputs(&network.config, shape, &part(&batch, first..first + shape.rows)).unwrap();
    world.run(rank, |mut rank| {
        let results = engine.run_with(ProgramId(0), |name| inputs.get(name), Some(&mut rank))?;
        Ok(results.concat())
    })
}

#[test]
fn logits_on_a_mesh_are_those_of_t5x() {
    for mode in MODES {
        logits_on(&on_cpu((2, 2), mode), &["encdec_v1_0_tied", "decoder_only", "scalable_t5"]);
    }
    logits_on(&on_cpu((1, 4), (2, 2)), &["encdec", "decoder_only_untied"]);
}

#[test]
#[ignore = "minutes long"]
fn logits_on_all_meshes_are_those_of_t5x() {
    for sizes in [(1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (4, 1)] {
        for mode in MODES {
            logits_on(&on_cpu(sizes, mode), &CASES);
        }
        logits_on(&on_adapter("llvmpipe", sizes, (2, 2)), &CASES);
    }
}
