//! What a step gave.

use std::collections::BTreeMap;

use crate::train::BaseMetrics;

/// What a step gave.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReport {
    /// The step, counted from 0.
    pub step: u64,
    /// Norm of all gradients together, before clipping.
    pub gradient_norm: f64,
    /// Norm of all parameters together after the update; not a number if there was none.
    pub parameter_norm: f64,
    /// The learning rate.
    pub learning_rate: f32,
    /// Losses and counts.
    pub base: BaseMetrics,
}

impl StepReport {
    /// Whether loss and gradient are numbers.
    pub fn is_finite(&self) -> bool {
        self.base.losses.loss.is_finite() && self.gradient_norm.is_finite()
    }

    /// The loss of a token, however the loss is normalized.
    pub fn loss_per_token(&self) -> f64 {
        self.base.loss_per_token()
    }

    /// Everything there is to log, under T5X's names.
    pub fn metrics(&self) -> BTreeMap<String, f64> {
        let mut metrics = self.base.values(1);
        metrics.insert("learning_rate".to_owned(), f64::from(self.learning_rate));
        metrics.insert("gradient_norm".to_owned(), self.gradient_norm);
        metrics.insert("parameter_norm".to_owned(), self.parameter_norm);
        metrics
    }
}
