//! A network and batches so small that hundreds of steps take seconds.
//!
//! ```text
//! inputs   7 13 31 1 0 0
//! targets  1 31 13 7 0 0      the same words backwards
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use seqio::{Array, Batch, Values};
use serde_json::json;

use super::objective;
use crate::checkpoint::Keep;
use crate::log::MetricsWriter;
use crate::model::InputShape;
use crate::optimizer::OptimizerConfig;
use crate::testing::{Random, Repeating};
use crate::train::tests::Place;
use crate::train::{
    Beginning, Ended, Fit, NonFinite, Observer, Progress, RestoreFrom, Schedule, ScheduleConfig, Schedules,
    TrainError, Trainer, TrainerConfig, TrainerPlan,
};

/// Rows of a batch.
pub(super) const ROWS: usize = 8;
/// Tokens of a row, of inputs and of targets.
pub(super) const LENGTH: usize = 6;
/// Batches until they come again.
const BATCHES: u64 = 8;

/// An encoder-decoder with so many heads, and dropout.
pub(super) fn config(heads: usize) -> TrainerConfig {
    let model = json!({
        "architecture": "encoder_decoder",
        "vocab_size": 96,
        "emb_dim": 24,
        "num_heads": heads,
        "head_dim": 4,
        "mlp_dim": 96,
        "num_encoder_layers": 1,
        "num_decoder_layers": 1,
        "dropout_rate": 0.1,
    });
    TrainerConfig {
        model: serde_json::from_value(model).unwrap(),
        objective: objective(),
        optimizer: OptimizerConfig::default(),
        schedule: constant(0.02),
        seed: 5,
        microbatches: 1,
    }
}

/// One learning rate for all steps.
pub(super) fn constant(learning_rate: f64) -> Schedule {
    let factors = "constant".to_owned();
    Schedule::new(ScheduleConfig { factors, base_learning_rate: learning_rate, ..ScheduleConfig::default() })
        .unwrap()
}

/// The batch of a step.
pub(super) fn batch(step: u64) -> Batch {
    batch_of(step, ROWS, LENGTH)
}

/// A batch of another size.
pub(super) fn batch_of(step: u64, rows: usize, length: usize) -> Batch {
    let mut random = Random::new(1 + step % BATCHES);
    let (mut inputs, mut targets) = (Vec::new(), Vec::new());
    for _ in 0..rows {
        let words = 2 + random.below(length - 1);
        let mut row: Vec<i32> = (0..words).map(|_| 1 + 6 * random.below(16) as i32).collect();
        let padding = vec![0; length - words];
        inputs.extend(row.iter().chain(&padding));
        row.reverse();
        targets.extend(row.iter().chain(&padding));
    }
    let before = |at: usize| if at.is_multiple_of(length) { 0 } else { targets[at - 1] };
    let shifted: Vec<i32> = (0..targets.len()).map(before).collect();
    let weights = targets.iter().map(|token| f32::from(u8::from(*token > 0))).collect();
    let array = |name: &str, values| Array { name: name.to_owned(), length, values };
    Batch {
        step,
        first_row: 0,
        num_rows: rows,
        arrays: vec![
            array("encoder_input_tokens", Values::I32(inputs)),
            array("decoder_input_tokens", Values::I32(shifted)),
            array("decoder_target_tokens", Values::I32(targets)),
            array("decoder_loss_weights", Values::F32(weights)),
        ],
    }
}

/// A trainer for such batches.
pub(super) fn trainer(place: &Place, config: &TrainerConfig) -> Trainer {
    try_trainer(place, config).unwrap()
}

/// The same, where its ranks may fail to begin.
pub(super) fn try_trainer(place: &Place, config: &TrainerConfig) -> Result<Trainer, TrainError> {
    Trainer::on(plan(place, config, &batch(0)), place.targets.clone())
}

/// The trainer on paper, for batches like this one.
pub(super) fn plan(place: &Place, config: &TrainerConfig, batch: &Batch) -> TrainerPlan {
    let shape = InputShape::of(&config.model, batch, 1).unwrap();
    TrainerPlan::on_mesh(config.clone(), shape, place.mesh, place.partitioning).unwrap()
}

/// The losses of steps from the first on.
pub(super) fn losses(trainer: &mut Trainer, steps: u64) -> Vec<f64> {
    trainer.initialize().unwrap();
    (0..steps).map(|step| trainer.train(&batch(step)).unwrap().base.losses.loss).collect()
}

/// What became of a run.
pub(super) struct Run {
    pub(super) beginning: Beginning,
    /// By the number of updates then done.
    pub(super) losses: BTreeMap<u64, f64>,
    pub(super) ended: Result<Ended, TrainError>,
}

impl Observer for BTreeMap<u64, f64> {
    fn step(&mut self, progress: &Progress<'_>) {
        self.insert(progress.step, progress.report.base.losses.loss);
    }
}

/// Runs in a folder, with a checkpoint every two steps.
pub(super) fn run(trainer: &mut Trainer, folder: &Path, from: Option<&Path>, steps: u64) -> Run {
    let mut source = Repeating::new((0..BATCHES).map(batch).collect());
    let from = from.map(|path| RestoreFrom {
        path: path.to_owned(),
        what: Default::default(),
        rules: Default::default(),
    });
    let beginning = trainer.begin(folder, from.as_ref(), &mut source).unwrap();
    let resumed = match &beginning {
        Beginning::Resumed { step, .. } => Some(*step),
        _ => None,
    };
    let mut log = MetricsWriter::open(folder, resumed).unwrap();
    let mut losses = BTreeMap::new();
    let ended = Fit {
        trainer,
        source: &mut source,
        evaluations: &mut [],
        schedules: Schedules {
            steps,
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
        observer: &mut losses,
        record: None,
    }
    .run();
    Run { beginning, losses, ended }
}

/// How far losses are apart, as a part of the expected ones.
pub(super) fn apart<'a>(
    expected: impl IntoIterator<Item = &'a f64>,
    found: impl IntoIterator<Item = &'a f64>,
) -> f64 {
    let pairs = expected.into_iter().zip(found);
    pairs.map(|(expected, found)| (found / expected - 1.0).abs()).fold(0.0, f64::max)
}
