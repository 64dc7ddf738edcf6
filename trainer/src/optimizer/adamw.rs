//! AdamW's settings.

use serde::{Deserialize, Serialize};

use crate::ops::optimizer::{AdamW, SCALARS};
use crate::optimizer::{OptimizerError, Rule, StateTensor, Update, UpdatePlan, check_setting};
use crate::tape::{Tape, TapeError};

/// AdamW as optax has it; the learning rate is the schedule's. Every parameter decays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdamWConfig {
    /// What the mean of gradients keeps of itself.
    pub beta1: f64,
    /// What the mean of squared gradients keeps of itself.
    pub beta2: f64,
    /// What keeps the divisor from 0.
    pub epsilon: f32,
    /// The share of a parameter that a step takes off, times the learning rate.
    pub weight_decay: f32,
    /// The largest norm of all gradients together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_norm_clip_threshold: Option<f32>,
}

impl Default for AdamWConfig {
    /// Those of optax.
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 1e-4, global_norm_clip_threshold: None }
    }
}

impl AdamWConfig {
    /// Refuses settings out of their range.
    pub fn check(&self) -> Result<(), OptimizerError> {
        let share = "at least 0 and less than 1";
        check_setting("beta1", self.beta1 as f32, |x| (0.0..1.0).contains(&x), share)?;
        check_setting("beta2", self.beta2 as f32, |x| (0.0..1.0).contains(&x), share)?;
        check_setting("epsilon", self.epsilon, |x| x >= 0.0, "at least 0")?;
        check_setting("weight_decay", self.weight_decay, |x| x >= 0.0, "at least 0")?;
        let threshold = self.global_norm_clip_threshold;
        check_setting("global_norm_clip_threshold", threshold, |x| x > 0.0, "more than 0")
    }

    /// Two moments of the shape of the parameter.
    pub(super) fn plan(&self, rank: usize) -> UpdatePlan {
        let state = vec![StateTensor::whole("m", rank), StateTensor::whole("v", rank)];
        UpdatePlan { state, rule: Rule::AdamW(self.clone()) }
    }

    /// The learning rate, and what the moments are still short of their means.
    pub(super) fn scalars(&self, step: u64, learning_rate: f32) -> [f32; SCALARS] {
        let count = step as f64 + 1.0;
        let correction = |beta: f64| (1.0 - beta.powf(count)) as f32;
        [learning_rate, correction(self.beta1), correction(self.beta2), 0.0]
    }

    pub(super) fn record_update(&self, tape: &mut Tape, update: &Update<'_>) -> Result<(), TapeError> {
        let op = AdamW {
            beta1: self.beta1 as f32,
            mixing1: (1.0 - self.beta1) as f32,
            beta2: self.beta2 as f32,
            mixing2: (1.0 - self.beta2) as f32,
            epsilon: self.epsilon,
            weight_decay: self.weight_decay,
        };
        let mut inputs = vec![tape.stored(update.stores, update.parameter)];
        inputs.extend(update.state.iter().map(|id| tape.stored(update.stores, *id)));
        inputs.extend([update.gradient, update.gradient_scale, update.scalars]);
        tape.record_all(op, &inputs)?;
        Ok(())
    }
}
