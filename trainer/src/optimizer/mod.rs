//! Optimizers: their settings, the state they keep for a parameter, and the operations that change both in place.
//!
//! ```text
//! plan(name, shape, axes)   ->  state tensors: v, or v_row and v_col; m where there is momentum
//! record_update(…)          ->  sums … step size … parameter and state changed
//! scalars(step, lr)         ->  the numbers that change from step to step
//! ```

mod adafactor;
mod adamw;
mod factor;
#[cfg(test)]
mod tests;

pub use adafactor::AdafactorConfig;
pub use adamw::AdamWConfig;
pub use factor::{FactorRules, standard_logical_factor_rules};

use serde::{Deserialize, Serialize};

use crate::ops::optimizer::SCALARS;
pub use crate::ops::optimizer::{ClipByGlobalNorm, FactorDim};
use crate::ops::{Fill, SumSquares};
use crate::shape::{Shape, Spec};
use crate::store::{StoreId, Stores};
use crate::tape::{Tape, TapeError, Var};

/// How parameters are changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase")]
pub enum OptimizerConfig {
    /// T5X's Adafactor.
    Adafactor(AdafactorConfig),
    /// AdamW as optax has it.
    AdamW(AdamWConfig),
}

impl Default for OptimizerConfig {
    fn default() -> Self {
        Self::Adafactor(AdafactorConfig::default())
    }
}

/// Why an optimizer cannot be, or cannot take a parameter.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OptimizerError {
    /// A setting out of its range.
    #[error("`{field}` is {found}; it has to be {wanted}")]
    Setting {
        /// The setting.
        field: &'static str,
        /// What it is.
        found: f32,
        /// What it should be, in words.
        wanted: &'static str,
    },
    /// An axis that no rule is about.
    #[error("no factor rule is about axis `{axis}` of `{parameter}`; there are rules for {}", known.join(", "))]
    UnknownAxis {
        /// The parameter.
        parameter: String,
        /// Its axis.
        axis: String,
        /// Axes with rules.
        known: Vec<String>,
    },
    /// Axes that do not fit the shape.
    #[error("`{parameter}` is {shape}, but {axes} of its axes have names")]
    Rank {
        /// The parameter.
        parameter: String,
        /// Its shape.
        shape: Shape,
        /// How many names there are.
        axes: usize,
    },
    /// Rows and columns, and an axis that is neither.
    #[error("`{parameter}` is factored into {kinds:?}: with rows and columns, no axis may be left out")]
    Incomplete {
        /// The parameter.
        parameter: String,
        /// What the rules make of its axes.
        kinds: Vec<FactorDim>,
    },
    /// More than two axes without a rule.
    #[error("`{parameter}` {shape} has more than two axes, so that factoring it takes rules for them")]
    NoRule {
        /// The parameter.
        parameter: String,
        /// Its shape.
        shape: Shape,
    },
    /// Axes in an order that the kernels do not go through.
    #[error("the axes of `{parameter}` {shape} are {kinds:?}: they alternate too often")]
    Alternating {
        /// The parameter.
        parameter: String,
        /// Its shape.
        shape: Shape,
        /// What the rules make of its axes.
        kinds: Vec<FactorDim>,
    },
}

/// A tensor that an optimizer keeps for a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateTensor {
    /// T5X's name: `v`, `v_row`, `v_col` or `m`.
    pub name: &'static str,
    /// The axes of the parameter that it has, in their order.
    pub axes: Vec<usize>,
}

impl StateTensor {
    fn whole(name: &'static str, rank: usize) -> Self {
        Self { name, axes: (0..rank).collect() }
    }

    /// Its shape beside a part of the parameter of this shape.
    pub fn shape(&self, part: &Shape) -> Shape {
        Shape::new(self.axes.iter().map(|axis| part.dims()[*axis]).collect::<Vec<_>>())
    }
}

/// What an optimizer does with one parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdatePlan {
    /// What it keeps.
    pub state: Vec<StateTensor>,
    rule: Rule,
}

#[derive(Clone, Debug, PartialEq)]
enum Rule {
    Adafactor(Box<adafactor::Plan>),
    AdamW(AdamWConfig),
}

/// A parameter and what changes it.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    /// Where all of it is stored.
    pub stores: &'a Stores,
    /// The part of the parameter that is here.
    pub parameter: StoreId,
    /// Its state, as [`UpdatePlan::state`] lists it.
    pub state: &'a [StoreId],
    /// Its gradient.
    pub gradient: Var,
    /// What every gradient is multiplied by first: `f32[1]`, as [`OptimizerConfig::record_gradient_scale`] gives it.
    pub gradient_scale: Var,
    /// The input of [`OptimizerConfig::scalars`].
    pub scalars: Var,
}

/// Adds up what all ranks found, for sums over these axes of the parameter.
pub type SumOverRanks<'a> = dyn FnMut(&mut Tape, Var, &[usize]) -> Result<Var, TapeError> + 'a;

/// The [`SumOverRanks`] of a parameter that is whole.
pub fn on_one_rank(_: &mut Tape, sums: Var, _: &[usize]) -> Result<Var, TapeError> {
    Ok(sums)
}

impl OptimizerConfig {
    /// Refuses settings out of their range.
    pub fn check(&self) -> Result<(), OptimizerError> {
        match self {
            Self::Adafactor(config) => config.check(),
            Self::AdamW(config) => config.check(),
        }
    }

    /// What it does with a parameter: the shape is that of the whole, the axes are its logical axes.
    pub fn plan(&self, parameter: &str, shape: &Shape, axes: &[&str]) -> Result<UpdatePlan, OptimizerError> {
        match self {
            Self::Adafactor(config) => config.plan(parameter, shape, axes),
            Self::AdamW(config) => Ok(config.plan(shape.rank())),
        }
    }

    /// The largest norm of all gradients together.
    pub fn global_norm_clip_threshold(&self) -> Option<f32> {
        match self {
            Self::Adafactor(config) => config.global_norm_clip_threshold,
            Self::AdamW(config) => config.global_norm_clip_threshold,
        }
    }

    /// The numbers of the update that makes step `step + 1` of step `step`, for an input of [`scalars_spec`].
    pub fn scalars(&self, step: u64, learning_rate: f32) -> Vec<f32> {
        match self {
            Self::Adafactor(config) => config.scalars(step, learning_rate).to_vec(),
            Self::AdamW(config) => config.scalars(step, learning_rate).to_vec(),
        }
    }

    /// Records what all gradients are multiplied by: 1, or less where their norm is above the threshold. `squares`
    /// records the sum of the squares of all gradients on all ranks, as [`SumSquares::of_all`] does on one.
    pub fn record_gradient_scale(
        &self,
        tape: &mut Tape,
        squares: impl FnOnce(&mut Tape) -> Result<Option<Var>, TapeError>,
    ) -> Result<Var, TapeError> {
        if let Some(threshold) = self.global_norm_clip_threshold()
            && let Some(squares) = squares(tape)?
        {
            return tape.record(ClipByGlobalNorm::new(threshold), &[squares]);
        }
        tape.record(Fill::new(1.0, [1]), &[])
    }

    /// The same for gradients that are all here.
    pub fn record_gradient_scale_of(&self, tape: &mut Tape, gradients: &[Var]) -> Result<Var, TapeError> {
        self.record_gradient_scale(tape, |tape| SumSquares::of_all(tape, gradients))
    }
}

/// What the input for [`OptimizerConfig::scalars`] is.
pub fn scalars_spec() -> Spec {
    Spec::f32([SCALARS])
}

impl UpdatePlan {
    /// Records the operations that change a parameter and its state.
    pub fn record_update(
        &self,
        tape: &mut Tape,
        update: &Update<'_>,
        sum_over_ranks: &mut SumOverRanks<'_>,
    ) -> Result<(), TapeError> {
        match &self.rule {
            Rule::Adafactor(plan) => plan.record_update(tape, update, sum_over_ranks),
            Rule::AdamW(config) => config.record_update(tape, update),
        }
    }
}

/// Refuses numbers out of their range.
fn check_setting(
    field: &'static str,
    found: impl Into<Option<f32>>,
    holds: impl Fn(f32) -> bool,
    wanted: &'static str,
) -> Result<(), OptimizerError> {
    match found.into() {
        Some(found) if !(found.is_finite() && holds(found)) => {
            Err(OptimizerError::Setting { field, found, wanted })
        }
        _ => Ok(()),
    }
}
