//! Ranks that end in the middle of a step: the run ends and says why, and the next one goes on where it was.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use super::{on_adapter, on_cpu, stored, tiny};
use crate::checkpoint;
use crate::engine::{Engine, EngineError, ProgramId, Target};
use crate::gpu::Device;
use crate::mesh::{Collective, Fault, Mesh, MeshAxis, Reduce, Stopped, World};
use crate::ops::Exchange;
use crate::program::Program;
use crate::shape::Spec;
use crate::store::Stores;
use crate::tape::Tape;
use crate::testing::{Random, device};
use crate::train::team::Worker;
use crate::train::tests::Place;
use crate::train::{BaseMetrics, Beginning, TrainError, TrainerConfig};

/// Losses of steps that nothing disturbs, and all that is stored then.
struct Undisturbed {
    losses: BTreeMap<u64, f64>,
    stored: BTreeMap<String, Vec<u32>>,
    time: Duration,
}

fn undisturbed(place: &Place, config: &TrainerConfig, steps: u64) -> Undisturbed {
    let folder = tempfile::tempdir().unwrap();
    let mut trainer = tiny::trainer(place, config);
    let begun = Instant::now();
    let losses = tiny::run(&mut trainer, folder.path(), None, steps).losses;
    let time = begun.elapsed();
    Undisturbed { losses, stored: stored(&mut trainer), time }
}

/// Goes on in the folder of a run that ended, after a look at what it has kept.
fn go_on(place: &Place, config: &TrainerConfig, folder: &std::path::Path, steps: u64) -> (u64, Undisturbed) {
    checkpoint::latest(folder).unwrap().unwrap().verify().unwrap();
    let mut trainer = tiny::trainer(place, config);
    let run = tiny::run(&mut trainer, folder, None, steps);
    let Beginning::Resumed { step, .. } = run.beginning else { panic!("{:?}", run.beginning) };
    run.ended.unwrap();
    (step, Undisturbed { losses: run.losses, stored: stored(&mut trainer), time: Duration::ZERO })
}

fn rank_of(error: &TrainError) -> &Stopped {
    match error {
        TrainError::Rank(stopped) => stopped,
        error => panic!("{error}"),
    }
}

#[test]
fn a_rank_that_fails_ends_the_run_and_the_next_run_goes_on() {
    let (config, steps) = (tiny::config(6), 4);
    let places = [((2, 2), (2, 2)), ((1, 3), (2, 1)), ((2, 1), (1, 2)), ((1, 2), (1, 1))];
    let places = places.map(|(sizes, mode)| on_cpu(sizes, mode));
    let expected = places.each_ref().map(|place| undisturbed(place, &config, steps));
    let mut slowest = Duration::ZERO;
    for round in 0..20 {
        let (place, expected) = (&places[round % 4], &expected[round % 4]);
        let mut random = Random::new(round as u64);
        let plan = tiny::plan(place, &config, &tiny::batch(0));
        let exchanges = steps * plan.exchanges_of_step().iter().map(|(times, _)| times).sum::<u64>();
        let (culprit, moment) = (random.below(place.mesh.ranks()), random.below(exchanges as usize));
        let (fault, words) = match random.below(2) {
            0 => (Fault::Panic, "panicked: lost the thread"),
            _ => (Fault::Error, "the device failed: out of memory"),
        };
        let what = format!("round {round} on {}, rank {culprit} at {moment}", place.name);

        let folder = tempfile::tempdir().unwrap();
        let mut trainer = tiny::trainer(place, &config);
        let rank = trainer.team().on_one(culprit, move |worker| {
            worker.rank.as_mut().unwrap().fail_after(moment as u64, fault);
            Ok(())
        });
        rank.unwrap();
        let begun = Instant::now();
        let run = tiny::run(&mut trainer, folder.path(), None, steps);
        let error = run.ended.unwrap_err();
        assert_eq!(*rank_of(&error), Stopped { rank: culprit, reason: words.to_owned() }, "{what}");
        assert_eq!(error.to_string(), format!("rank {culprit}: {words}"));
        // Whoever asks again is told the same.
        assert_eq!(trainer.train(&tiny::batch(0)).unwrap_err().to_string(), error.to_string());
        drop(trainer);
        slowest = slowest.max(begun.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}: {:?}", begun.elapsed());
        // No step was done that is not like the undisturbed one.
        assert!(run.losses.iter().all(|(step, loss)| expected.losses[step] == *loss), "{what}");

        let (step, found) = go_on(place, &config, folder.path(), steps);
        assert!(found.losses.iter().eq(expected.losses.range(step + 1..)), "{what}: {:?}", found.losses);
        assert!(found.stored == expected.stored, "{what}");
    }
    println!("the slowest of 20 runs ended {slowest:?} after it began");
}

/// What is done to a device.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Destroyed,
    OutOfMemory,
}

/// Fails one of two devices in the middle of a run; another device then goes on.
fn lose(round: u64, place: &mut Place, config: &TrainerConfig, expected: &Undisturbed) -> Duration {
    let mut random = Random::new(round);
    let culprit = random.below(2);
    let moment = expected.time.mul_f32(0.1 + 0.5 * random.uniform());
    let trouble = if round == 3 { Trouble::OutOfMemory } else { Trouble::Destroyed };
    let Target::Gpu(device) = &place.targets[culprit] else { panic!("no device") };
    let device = device.wgpu().clone();
    let folder = tempfile::tempdir().unwrap();
    let mut trainer = tiny::trainer(place, config);
    let (failing, failed) = std::sync::mpsc::channel();
    let waiting = thread::spawn(move || {
        thread::sleep(moment);
        failing.send(Instant::now()).unwrap();
        match trouble {
            Trouble::Destroyed => device.destroy(),
            Trouble::OutOfMemory => {
                let size = device.limits().max_buffer_size + 4;
                let usage = wgpu::BufferUsages::STORAGE;
                drop(device.create_buffer(&wgpu::BufferDescriptor {
                    label: Some("too large"),
                    size,
                    usage,
                    mapped_at_creation: false,
                }));
            }
        }
    });
    let run = tiny::run(&mut trainer, folder.path(), None, u64::MAX);
    let error = run.ended.unwrap_err();
    let late = failed.recv().unwrap().elapsed();
    waiting.join().unwrap();
    println!("round {round}, {trouble:?} after {} steps: {error}; told {late:?} later", run.losses.len());
    // If it was lost while a checkpoint was written, the tensor is told too.
    let told = error.to_string();
    let (_, reason) = told.split_once(&format!("rank {culprit}: ")).unwrap_or_else(|| panic!("{told}"));
    assert!(reason.contains("the device failed: "), "{told}");
    assert!(matches!(trouble, Trouble::OutOfMemory) || reason.ends_with("it was lost"), "{told}");
    assert!(
        run.losses.iter().all(|(step, loss)| expected.losses.get(step).is_none_or(|known| known == loss))
    );
    drop(trainer);
    if let Trouble::Destroyed = trouble {
        // What is lost stays so.
        let error = tiny::try_trainer(place, config).unwrap_err();
        assert_eq!(rank_of(&error).rank, culprit, "{error}");
        place.targets[culprit] = Target::Gpu(Device::open("llvmpipe").unwrap());
    }
    let (step, found) = go_on(place, config, folder.path(), expected.losses.len() as u64);
    assert!(found.losses.iter().eq(expected.losses.range(step + 1..)), "{:?}", found.losses);
    assert!(found.stored == expected.stored);
    late
}

/// Three ranks that sum a tensor over and over, until one fails: what stopped them, and how long after `meanwhile`.
fn summing(
    devices: &[Device; 3],
    fault: Option<(usize, u64, Fault)>,
    meanwhile: impl FnOnce(),
) -> (Stopped, Duration) {
    let world = World::new(Mesh::new(1, 3).unwrap());
    let sum = Exchange::new(MeshAxis::Model, 3, Collective::AllReduce(Reduce::Sum), 1);
    let work = |number: usize| -> Result<(), TrainError> {
        let (mut stores, mut tape) = (Stores::new(), Tape::new());
        let id = stores.add("x", Spec::f32([1 << 14]));
        let x = tape.stored(&stores, id);
        let x = tape.record(sum.clone(), &[x]).unwrap();
        let program = Program::new(&tape, &[x]).unwrap();
        let target = Target::Gpu(devices[number].clone());
        world.run(number, |mut rank| {
            if let Some((_, exchanges, fault)) = fault.filter(|(culprit, ..)| *culprit == number) {
                rank.fail_after(exchanges, fault);
            }
            let mut engine = Engine::new(target, &stores, vec![program])?;
            loop {
                engine.run_with(ProgramId(0), |_| None, Some(&mut rank))?;
            }
        })
    };
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..3).map(|number| scope.spawn(move || work(number))).collect();
        meanwhile();
        let then = Instant::now();
        let errors = threads.into_iter().map(|thread| thread.join().unwrap().unwrap_err());
        let errors: Vec<String> = errors.map(|error| error.to_string()).collect();
        let stopped = world.reason().unwrap();
        // A rank whose device is lost knows by itself, the others know whose.
        assert!(errors.iter().all(|error| stopped.to_string().ends_with(error)), "{stopped}, {errors:?}");
        (stopped, then.elapsed())
    })
}

#[test]
fn a_lost_device_ends_all_ranks() {
    let open = |_| Device::open("llvmpipe").unwrap();
    for round in 0..5 {
        let mut random = Random::new(round);
        let (culprit, moment) = (random.below(3), Duration::from_millis(random.below(40) as u64));
        let devices = [0, 1, 2].map(open);
        let (stopped, late) = summing(&devices, None, || {
            thread::sleep(moment);
            devices[culprit].wgpu().destroy();
        });
        assert_eq!(stopped.rank, culprit, "{stopped}");
        assert!(stopped.reason.ends_with("the device failed: it was lost"), "{stopped}");
        assert!(late < Duration::from_secs(20), "{late:?}");
    }
    // One that all share.
    let device = open(0);
    let devices = [0, 1, 2].map(|_| device.clone());
    let (stopped, _) = summing(&devices, None, || {
        thread::sleep(Duration::from_millis(30));
        device.wgpu().destroy();
    });
    assert!(stopped.reason.ends_with("it was lost"), "{stopped}");
}

#[test]
fn a_rank_that_fails_ends_those_that_share_its_device() {
    let devices = [0, 1, 2].map(|_| device());
    for (culprit, exchanges, fault, words) in [
        (0, 0, Fault::Panic, "panicked: lost the thread"),
        (2, 3, Fault::Error, "the device failed: out of memory"),
        (1, 8, Fault::Panic, "panicked: lost the thread"),
    ] {
        let (stopped, _) = summing(&devices, Some((culprit, exchanges, fault)), || {});
        assert_eq!(stopped, Stopped { rank: culprit, reason: words.to_owned() });
    }
}

#[test]
fn wherever_a_rank_fails_it_is_told() {
    let (place, config) = (on_cpu((2, 2), (1, 1)), tiny::config(4));
    // In an evaluation.
    let mut trainer = tiny::trainer(&place, &config);
    trainer.initialize().unwrap();
    let fails = |worker: &mut Worker| {
        worker.rank.as_mut().unwrap().fail_after(1, Fault::Error);
        Ok(())
    };
    trainer.team().on_one(3, fails).unwrap();
    let error = trainer.evaluate(&tiny::batch(0), &mut BaseMetrics::default()).unwrap_err();
    assert_eq!(error.to_string(), "rank 3: the device failed: out of memory");
    // By itself, while the others have nothing to do.
    let mut trainer = tiny::trainer(&place, &config);
    for error in [
        trainer.team().on_one(2, |_| -> Result<(), TrainError> { panic!("lost the head") }).unwrap_err(),
        trainer.initialize().unwrap_err(),
        trainer.read("token_embedder/embedding").unwrap_err(),
        trainer.take_traffic().unwrap_err(),
    ] {
        assert_eq!(error.to_string(), "rank 2: panicked: lost the head");
    }
    // All of them, and one first.
    let mut trainer = tiny::trainer(&place, &config);
    let error = trainer.team().on_all(|worker| match worker.placement().rank {
        1 => Err(EngineError::Device("out of luck".to_owned()).into()),
        _ => Ok(()),
    });
    assert_eq!(error.unwrap_err().to_string(), "rank 1: the device failed: out of luck");
    // Before it begins.
    let device = Device::open("llvmpipe").unwrap();
    device.wgpu().destroy();
    let place =
        Place { targets: vec![Target::Cpu { threads: 1 }, Target::Gpu(device)], ..on_cpu((1, 2), (1, 1)) };
    let error = tiny::try_trainer(&place, &config).unwrap_err();
    assert_eq!(rank_of(&error).rank, 1, "{error}");
}

#[test]
#[ignore = "minutes long"]
fn a_lost_device_ends_the_run_and_another_goes_on() {
    let mut place = on_adapter("llvmpipe", (1, 2), (1, 1));
    let config = tiny::config(4);
    let expected = undisturbed(&place, &config, 12);
    let again = undisturbed(&place, &config, 12);
    assert!(again.losses == expected.losses && again.stored == expected.stored);
    for round in 0..4 {
        let late = lose(round, &mut place, &config, &again);
        assert!(late < Duration::from_secs(20), "{late:?}");
    }
}
