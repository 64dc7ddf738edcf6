//! `[train]`: how long a run goes on, and from which loss it learns.

use serde::{Deserialize, Serialize};

use crate::train::{LossNormalizing, NonFinite};

/// How long, and from which loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    /// The step at which the run ends, counted from its very beginning.
    pub steps: u64,
    /// Decides first parameters and dropout.
    #[serde(default)]
    pub seed: u64,
    /// Parts of a batch that are computed one after the other, their gradients summed.
    #[serde(default = "one")]
    pub microbatches: u64,
    /// Share of activations that training drops, in place of the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropout_rate: Option<f32>,
    /// Weight of log²Z in the loss.
    #[serde(default = "z_loss")]
    pub z_loss: f32,
    /// Share of the target's probability that the other ids get.
    #[serde(default)]
    pub label_smoothing: f32,
    /// What the summed loss is divided by.
    #[serde(default)]
    pub loss_normalizing_factor: LossNormalizing,
    /// What to do with a step whose loss or gradient is not a number.
    #[serde(default)]
    pub on_non_finite: NonFinite,
    /// Steps between lines of the log.
    #[serde(default = "log_every")]
    pub log_every: u64,
}

fn one() -> u64 {
    1
}

/// That of every run file that T5X ships.
fn z_loss() -> f32 {
    1e-4
}

fn log_every() -> u64 {
    10
}
