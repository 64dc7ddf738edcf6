//! What must hold of training whatever the numbers: resumed runs go on exactly, recomputation changes no gradient,
//! microbatches sum up, numbers that are none change nothing.

use std::collections::BTreeMap;
use std::path::Path;

use crate::checkpoint::Keep;
use crate::engine::Target;
use crate::golden;
use crate::log::MetricsWriter;
use crate::model::InputShape;
use crate::optimizer::OptimizerConfig;
use crate::testing::{Repeating, device};
use crate::train::{
    Beginning, Fit, LossNormalizing, NonFinite, Objective, Observer, Progress, Reason, Schedule, Schedules,
    TrainError, Trainer, TrainerConfig, TrainerPlan, Unobserved,
};

fn config(case: &str) -> TrainerConfig {
    TrainerConfig {
        model: golden::config(case),
        objective: Objective { z_loss: 1e-4, label_smoothing: 0.0, normalizing: LossNormalizing::Nothing },
        optimizer: OptimizerConfig::default(),
        schedule: Schedule::default(),
        seed: 7,
        microbatches: 1,
    }
}

fn trainer(config: &TrainerConfig, case: &str, batch: &str, target: Target) -> Trainer {
    let shape = InputShape::of(&config.model, &golden::batch(case, batch), 1).unwrap();
    Trainer::new(TrainerPlan::new(config.clone(), shape).unwrap(), target).unwrap()
}

fn bits(trainer: &mut Trainer) -> BTreeMap<String, Vec<u32>> {
    let names = trainer.parameters().into_iter().chain(trainer.optimizer_state()).map(|(name, _)| name);
    let names: Vec<String> = names.collect();
    let read = |name: String| {
        let values = trainer.read(&name).unwrap();
        (name, values.into_iter().map(f32::to_bits).collect())
    };
    names.into_iter().map(read).collect()
}

/// Asks to stop after so many steps of its own.
struct StopAfter(u64, Vec<f64>);

impl Observer for StopAfter {
    fn step(&mut self, progress: &Progress<'_>) {
        self.1.push(progress.report.base.losses.loss);
    }

    fn asked_to_stop(&self) -> bool {
        self.1.len() as u64 >= self.0
    }
}

/// Runs in a folder until asked to stop; gives the losses and the final bits.
fn run(
    folder: &Path,
    target: Target,
    stop_after: u64,
) -> (Vec<f64>, BTreeMap<String, Vec<u32>>, Beginning, Reason) {
    let mut config = config("encdec");
    config.model.dropout_rate = 0.1;
    let mut trainer = trainer(&config, "encdec", "packed", target);
    let mut source = Repeating::new(vec![golden::batch("encdec", "packed")]);
    let beginning = trainer.begin(folder, None, &mut source).unwrap();
    let restored = match &beginning {
        Beginning::Resumed { step, .. } => Some(*step),
        _ => None,
    };
    let mut log = MetricsWriter::open(folder, restored).unwrap();
    let mut observer = StopAfter(stop_after, Vec::new());
    let ended = Fit {
        trainer: &mut trainer,
        source: &mut source,
        evaluations: &mut [],
        schedules: Schedules {
            steps: 6,
            log_every: 1,
            checkpoint_every: 2,
            evaluate_every: 0,
            evaluate_batches: 0,
            on_non_finite: NonFinite::Stop,
        },
        folder,
        keep: Keep::default(),
        configuration: "a test".to_owned(),
        log: &mut log,
        observer: &mut observer,
        record: None,
    }
    .run()
    .unwrap();
    (observer.1, bits(&mut trainer), beginning, ended.reason)
}

#[test]
fn a_resumed_run_goes_on_to_the_bit() {
    for (threads, target) in [(2, None), (1, Some(Target::Gpu(device())))] {
        let on = |threads| target.clone().unwrap_or(Target::Cpu { threads });
        let (whole, pieces) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (expected, final_bits, beginning, reason) = run(whole.path(), on(threads), 100);
        assert_eq!((beginning, reason, expected.len()), (Beginning::Initialized, Reason::Finished, 6));
        let (mut losses, _, _, reason) = run(pieces.path(), on(1), 3);
        assert_eq!(reason, Reason::Stopped);
        let (more, found, beginning, _) = run(pieces.path(), on(3), 100);
        assert!(matches!(beginning, Beginning::Resumed { step: 3, .. }), "{beginning:?}");
        losses.extend(more);
        assert_eq!(losses, expected);
        assert_eq!(found, final_bits);
        let lines = std::fs::read_to_string(pieces.path().join("metrics.jsonl")).unwrap();
        assert_eq!(lines.lines().filter(|line| line.contains("train/loss")).count(), 6, "{lines}");
    }
}

#[test]
fn recomputation_changes_no_bit_and_saves_memory() {
    for (case, batch) in [("encdec", "packed"), ("scalable_t5", "packed"), ("decoder_only", "lm")] {
        let (mut plain, mut again) = (config(case), config(case));
        again.model.recompute = true;
        for config in [&mut plain, &mut again] {
            config.model.dropout_rate = 0.2;
        }
        let shape = InputShape::of(&plain.model, &golden::batch(case, batch), 1).unwrap();
        let needs = |config: &TrainerConfig| {
            TrainerPlan::new(config.clone(), shape).unwrap().ranks()[0].needs().working
        };
        assert!(needs(&again) < needs(&plain), "{case}: {} against {}", needs(&again), needs(&plain));
        let run = |config: &TrainerConfig, target| {
            let mut trainer = trainer(config, case, batch, target);
            trainer.initialize().unwrap();
            let batch = golden::batch(case, batch);
            for _ in 0..2 {
                trainer.train(&batch).unwrap();
            }
            bits(&mut trainer)
        };
        for target in [Target::Cpu { threads: 2 }, Target::Gpu(device())] {
            assert_eq!(run(&plain, target.clone()), run(&again, target), "{case}");
        }
    }
}

#[test]
fn dropout_is_the_same_on_host_and_device_and_changes_with_the_step() {
    let mut config = config("encdec");
    config.model.dropout_rate = 0.3;
    let batch = golden::batch("encdec", "packed");
    let losses = |target| {
        let mut trainer = trainer(&config, "encdec", "packed", target);
        trainer.initialize().unwrap();
        [0, 0, 1].map(|step| {
            trainer.set_step(step);
            // A loss that is no number changes nothing, so parameters stay.
            trainer.gradients(&batch).unwrap().base.losses.loss
        })
    };
    let (host, gpu) = (losses(Target::Cpu { threads: 2 }), losses(Target::Gpu(device())));
    assert_eq!(host[0], host[1]);
    assert!((host[0] - host[2]).abs() > 1e-2, "{host:?}");
    for (host, device) in host.iter().zip(gpu) {
        assert!((host / device - 1.0).abs() < 1e-5, "{host} {device}");
    }
}

#[test]
fn gradients_of_microbatches_are_summed() {
    let batch = golden::batch("encdec", "unpacked");
    let run = |microbatches| {
        let config = TrainerConfig { microbatches, ..config("encdec") };
        let mut trainer = trainer(&config, "encdec", "unpacked", Target::Cpu { threads: 2 });
        trainer.initialize().unwrap();
        trainer.gradients(&batch).unwrap()
    };
    let (whole, parts) = (run(1), run(4));
    assert!((whole.base.losses.loss / parts.base.losses.loss - 1.0).abs() < 1e-6);
    assert!((whole.gradient_norm / parts.gradient_norm - 1.0).abs() < 1e-6);
    let config = TrainerConfig { microbatches: 3, ..config("encdec") };
    let shape = InputShape::of(&config.model, &batch, 1).unwrap();
    let error = TrainerPlan::new(config, shape).unwrap_err();
    insta::assert_snapshot!(error, @"batches of 4 rows cannot be cut into 3 equal microbatches");
}

#[test]
fn a_loss_that_is_no_number_stops_the_run_and_changes_nothing() {
    let config = config("encdec");
    let mut trainer = trainer(&config, "encdec", "packed", Target::Cpu { threads: 2 });
    trainer.initialize().unwrap();
    let name = "decoder/logits_dense/kernel";
    let mut values = trainer.read(name).unwrap();
    values[5] = f32::NAN;
    trainer.write(name, values).unwrap();
    let before = bits(&mut trainer);
    let folder = tempfile::tempdir().unwrap();
    for (on_non_finite, stops) in [(NonFinite::Skip, false), (NonFinite::Stop, true)] {
        let mut source = Repeating::new(vec![golden::batch("encdec", "packed")]);
        let mut log = MetricsWriter::open(folder.path(), None).unwrap();
        let ended = Fit {
            trainer: &mut trainer,
            source: &mut source,
            evaluations: &mut [],
            schedules: Schedules {
                steps: if stops { 4 } else { 2 },
                log_every: 1,
                checkpoint_every: 0,
                evaluate_every: 0,
                evaluate_batches: 0,
                on_non_finite,
            },
            folder: folder.path(),
            keep: Keep::default(),
            configuration: String::new(),
            log: &mut log,
            observer: &mut Unobserved,
            record: None,
        }
        .run();
        match ended {
            Ok(ended) => assert!(!stops && ended.step == 2),
            Err(error) => {
                assert!(stops && matches!(error, TrainError::NonFinite { step: 2, .. }));
                let words = error.to_string();
                assert!(words.contains("batch 0 was made of golden batch 0"), "{words}");
            }
        }
        assert_eq!(bits(&mut trainer), before);
    }
}
