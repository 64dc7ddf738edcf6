//! What is minimised.

use serde::{Deserialize, Serialize};

use crate::train::LossNormalizing;

/// What is minimised: cross-entropy and what is added to it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// Weight of log²Z.
    pub z_loss: f32,
    /// Share of a target that all other ids get.
    pub label_smoothing: f32,
    /// What the summed loss is divided by.
    pub normalizing: LossNormalizing,
}
