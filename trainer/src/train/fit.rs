//! The loop: steps from where the run stands to where it ends, with what is logged, evaluated and kept on the way.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use seqio::Batch;
use serde::{Deserialize, Serialize};

use crate::checkpoint::{Keep, RunState, Saving};
use crate::log::MetricsWriter;
use crate::mesh::Span;
use crate::train::window::Window;
use crate::train::{BaseMetrics, BatchSource, StepReport, TrainError, Trainer};

/// When things happen, in steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedules {
    /// The step at which the run ends, counted from its very beginning.
    pub steps: u64,
    /// Steps between lines of the log.
    pub log_every: u64,
    /// Steps between checkpoints; the last step has one too.
    pub checkpoint_every: u64,
    /// Steps between evaluations; the last step has one too.
    pub evaluate_every: u64,
    /// Batches of an evaluation.
    pub evaluate_batches: u64,
    /// What to do with a step whose loss is not a number.
    pub on_non_finite: NonFinite,
}

/// What to do with a step whose loss or gradient is not a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NonFinite {
    /// End the run, and say which examples were in the batch.
    #[default]
    Stop,
    /// Leave parameters as they are, and go on with the next batch.
    Skip,
}

/// A task to evaluate on.
pub struct Evaluation {
    /// What its metrics are named after.
    pub name: String,
    /// Its batches; every evaluation begins at the first.
    pub source: Box<dyn BatchSource>,
}

/// Whom a run tells how it goes, and who may end it.
pub trait Observer {
    /// A step is done.
    fn step(&mut self, _: &Progress<'_>) {}

    /// An evaluation is done: its name, its metrics.
    fn evaluated(&mut self, _: u64, _: &str, _: &BTreeMap<String, f64>) {}

    /// What every rank did when in a step that was recorded; nothing where there is only one rank.
    fn recorded(&mut self, _: u64, _: &[Span]) {}

    /// A checkpoint is written.
    fn saved(&mut self, _: u64, _: &Path) {}

    /// Something a person should know.
    fn note(&mut self, _: &str) {}

    /// Whether the run should end after this step.
    fn asked_to_stop(&self) -> bool {
        false
    }
}

/// Nobody.
#[derive(Clone, Copy, Debug)]
pub struct Unobserved;

impl Observer for Unobserved {}

/// A step that is done.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Updates done.
    pub step: u64,
    /// The step at which the run ends.
    pub steps: u64,
    /// What it gave.
    pub report: &'a StepReport,
    /// Target tokens a second, padding not counted, since the last line of the log.
    pub tokens_per_second: f64,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// Updates done.
    pub step: u64,
    /// Why.
    pub reason: Reason,
    /// The last checkpoint that was written.
    pub checkpoint: Option<PathBuf>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It reached its last step.
    Finished,
    /// Somebody asked.
    Stopped,
    /// There are no more batches.
    DataEnded,
}

/// A run under way.
pub struct Fit<'a> {
    /// What learns.
    pub trainer: &'a mut Trainer,
    /// What it learns from.
    pub source: &'a mut dyn BatchSource,
    /// What it is judged by.
    pub evaluations: &'a mut [Evaluation],
    /// When things happen.
    pub schedules: Schedules,
    /// The folder of the run.
    pub folder: &'a Path,
    /// Which checkpoints stay.
    pub keep: Keep,
    /// The configuration of the run, in full.
    pub configuration: String,
    /// Where numbers go.
    pub log: &'a mut MetricsWriter,
    /// Whom to tell.
    pub observer: &'a mut dyn Observer,
    /// The step that is recorded for the observer, counted from 1 at this start.
    pub record: Option<u64>,
}

impl Fit<'_> {
    /// Runs until the last step, the end of the data, or until asked to stop; a checkpoint is written at the end.
    pub fn run(mut self) -> Result<Ended, TrainError> {
        let mut window = self.window()?;
        let (mut saved, mut metrics) = (None, BTreeMap::new());
        let record = self.record.map(|number| self.trainer.step() + number);
        if self.trainer.step() == 0 && self.schedules.checkpoint_every > 0 {
            saved = Some((0, self.save(&metrics)?));
        }
        let reason = loop {
            if self.trainer.step() >= self.schedules.steps {
                break Reason::Finished;
            }
            if self.observer.asked_to_stop() {
                break Reason::Stopped;
            }
            let Some(batch) = self.source.next().map_err(TrainError::Data)? else { break Reason::DataEnded };
            let digest = self.source.digest(&batch);
            let report = match record == Some(self.trainer.step() + 1) {
                true => self.train_recorded(&batch)?,
                false => self.trainer.train(&batch)?,
            };
            self.source.recycle(batch);
            if !report.is_finite() {
                self.non_finite(&report, &digest)?;
            }
            window.add(&report);
            self.after_step(&report, &digest, &mut window)?;
            let step = self.trainer.step();
            let last = step >= self.schedules.steps;
            if is_due(step, self.schedules.evaluate_every) || (last && self.schedules.evaluate_every > 0) {
                metrics = self.evaluate()?;
                window = self.window()?;
            }
            if is_due(step, self.schedules.checkpoint_every) {
                saved = Some((step, self.save(&metrics)?));
            }
        };
        let step = self.trainer.step();
        if saved.as_ref().is_none_or(|(at, _)| *at != step) && self.schedules.checkpoint_every > 0 {
            saved = Some((step, self.save(&metrics)?));
        }
        Ok(Ended { step, reason, checkpoint: saved.map(|(_, path)| path) })
    }

    fn window(&mut self) -> Result<Window, TrainError> {
        Window::begin(self.trainer, self.source.infeed_wait_ms())
    }

    /// Learns from a batch, and tells what every rank did when.
    fn train_recorded(&mut self, batch: &Batch) -> Result<StepReport, TrainError> {
        self.trainer.record_spans(true)?;
        let report = self.trainer.train(batch)?;
        self.trainer.record_spans(false)?;
        let spans = self.trainer.take_spans()?;
        self.observer.recorded(self.trainer.step(), &spans);
        Ok(report)
    }

    fn after_step(
        &mut self,
        report: &StepReport,
        digest: &str,
        window: &mut Window,
    ) -> Result<(), TrainError> {
        let (step, tokens_per_second) = (self.trainer.step(), window.tokens_per_second());
        self.observer.step(&Progress { step, steps: self.schedules.steps, report, tokens_per_second });
        if is_due(step, self.schedules.log_every) || step >= self.schedules.steps {
            let mut scalars = report.metrics();
            scalars.extend(window.timing(self.source.infeed_wait_ms(), &self.trainer.take_traffic()?));
            let named = scalars.into_iter().map(|(name, value)| (format!("train/{name}"), value));
            self.log.scalars(step, &named.collect())?;
            self.log.text(step, "train/digest", digest)?;
            *window = self.window()?;
        }
        Ok(())
    }

    fn non_finite(&mut self, report: &StepReport, digest: &str) -> Result<(), TrainError> {
        let step = report.step;
        let provenance = self.source.provenance(step).unwrap_or_else(|error| format!("unknown: {error}"));
        let error = TrainError::NonFinite {
            step,
            loss: report.base.losses.loss,
            gradient_norm: report.gradient_norm,
            digest: digest.to_owned(),
            provenance,
        };
        match self.schedules.on_non_finite {
            NonFinite::Stop => Err(error),
            NonFinite::Skip => {
                self.observer.note(&format!("{error}; the update was skipped"));
                Ok(())
            }
        }
    }

    /// Every task on its first batches, teacher-forced. The result is named `task/metric`.
    fn evaluate(&mut self) -> Result<BTreeMap<String, f64>, TrainError> {
        let step = self.trainer.step();
        let mut all = BTreeMap::new();
        for Evaluation { name, source } in self.evaluations.iter_mut() {
            source.go_to(0).map_err(TrainError::Data)?;
            let (mut sums, mut batches) = (BaseMetrics::default(), 0);
            for _ in 0..self.schedules.evaluate_batches {
                let Some(batch) = source.next().map_err(TrainError::Data)? else { break };
                self.trainer.evaluate(&batch, &mut sums)?;
                batches += 1;
                source.recycle(batch);
            }
            let metrics = sums.values(batches.max(1));
            let named = metrics.iter().map(|(metric, value)| (format!("eval/{name}/{metric}"), *value));
            self.log.scalars(step, &named.collect())?;
            self.observer.evaluated(step, name, &metrics);
            all.extend(metrics.into_iter().map(|(metric, value)| (format!("{name}/{metric}"), value)));
        }
        Ok(all)
    }

    fn save(&mut self, metrics: &BTreeMap<String, f64>) -> Result<PathBuf, TrainError> {
        let step = self.trainer.step();
        let state = RunState {
            step,
            dataset: self.source.state(),
            configuration: self.configuration.clone(),
            metrics: metrics.clone(),
        };
        let mut saving = Saving::begin(self.folder, state)?;
        let (parameters, optimizer) = (self.trainer.parameters(), self.trainer.optimizer_state());
        saving.parameters(&parameters, |name| Ok(self.trainer.read(name)?))?;
        saving.optimizer(&optimizer, |name| Ok(self.trainer.read(name)?))?;
        let path = saving.commit()?;
        for removed in self.keep.apply(self.folder)? {
            self.observer.note(&format!("removed `{}`, an older checkpoint", removed.display()));
        }
        self.observer.saved(step, &path);
        Ok(path)
    }
}

fn is_due(step: u64, every: u64) -> bool {
    every > 0 && step.is_multiple_of(every)
}
