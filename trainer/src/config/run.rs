//! `[checkpoint]`, `[restore]`, `[eval]`, `[run]`: what a run keeps, begins with, and is judged by.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::checkpoint::{Assignment, Best, CheckpointError, Keep};
use crate::train::{RestoreFrom, What};

/// When checkpoints are written, and which stay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointConfig {
    /// Steps between checkpoints; the last step has one too.
    #[serde(default = "every")]
    pub every: u64,
    /// How many of the newest stay.
    #[serde(default)]
    pub keep: KeepNewest,
    /// The one that stays besides, however old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<Best>,
}

fn every() -> u64 {
    1000
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self { every: every(), keep: KeepNewest::default(), best: None }
    }
}

impl CheckpointConfig {
    /// Which checkpoints stay.
    pub fn rules(&self) -> Keep {
        Keep { newest: self.keep.0, best: self.best.clone() }
    }
}

/// How many of the newest checkpoints stay; `None` is all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepNewest(pub Option<NonZeroUsize>);

impl Default for KeepNewest {
    fn default() -> Self {
        Self(NonZeroUsize::new(3))
    }
}

impl Serialize for KeepNewest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(newest) => serializer.serialize_u64(newest.get() as u64),
            None => serializer.serialize_str("all"),
        }
    }
}

impl<'de> Deserialize<'de> for KeepNewest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeepVisitor)
    }
}

struct KeepVisitor;

impl Visitor<'_> for KeepVisitor {
    type Value = KeepNewest;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a whole number, 1 or more, or `\"all\"`")
    }

    fn visit_u64<E: Error>(self, newest: u64) -> Result<KeepNewest, E> {
        let newest_fits = usize::try_from(newest).ok().and_then(NonZeroUsize::new);
        newest_fits
            .map(|newest| KeepNewest(Some(newest)))
            .ok_or_else(|| E::invalid_value(Unexpected::Unsigned(newest), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<KeepNewest, E> {
        match text {
            "all" => Ok(KeepNewest(None)),
            text => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }
}

/// What a new run begins with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestoreConfig {
    /// A checkpoint, or the folder of a run, whose newest it is then.
    pub from: PathBuf,
    /// What of it.
    #[serde(default)]
    pub what: What,
    /// Where parameters come from that have another name there; the first that fits counts.
    #[serde(default)]
    pub rules: Vec<RestoreRule>,
}

impl RestoreConfig {
    /// What the trainer begins with.
    pub fn restore_from(&self) -> Result<RestoreFrom, CheckpointError> {
        Ok(RestoreFrom { path: self.from.clone(), what: self.what, rules: self.assignment()? })
    }

    /// Where each parameter comes from.
    pub fn assignment(&self) -> Result<Assignment, CheckpointError> {
        Assignment::new(self.rules.iter().map(|rule| (&rule.parameters, rule.from.as_ref())))
    }
}

/// Where parameters come from that have another name in the checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestoreRule {
    /// A regular expression that fits whole names of this run's parameters.
    pub parameters: String,
    /// Their names in the checkpoint, with `$1` for what the first group fits; left out: they begin with chance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// What is evaluated on the way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvalConfig {
    /// Steps between evaluations.
    #[serde(default = "every")]
    pub every: u64,
    /// Batches of each task, always the same; fewer if there are no more.
    #[serde(default = "batches")]
    pub batches: u64,
    /// What on.
    pub tasks: Vec<EvalTask>,
}

/// T5X's number.
fn batches() -> u64 {
    20
}

/// A task to evaluate on, with lengths, rows a batch and packing as in training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvalTask {
    /// The task.
    pub task: String,
    /// Its split, perhaps with a slice.
    #[serde(default = "validation")]
    pub split: String,
    /// What its metrics are named after; the default is the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

fn validation() -> String {
    "validation".to_owned()
}

impl EvalTask {
    /// What its metrics are named after.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.task)
    }
}

/// Where a run goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunFolder {
    /// The folder of checkpoints, logs and the configuration.
    pub dir: PathBuf,
}
