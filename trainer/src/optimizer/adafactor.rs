//! Adafactor's settings, and its update of one parameter.

use serde::{Deserialize, Serialize};

use crate::ops::optimizer::{
    AxisSums, Change, FactorDim, FactoredApply, FactoredUpdateSquares, Factors, Layout, ParameterScale,
    SCALARS, SecondMoment, StepSize, UnfactoredApply, UnfactoredMoment,
};
use crate::ops::reduction::Reduction;
use crate::optimizer::factor::{heuristic, kinds_of};
use crate::optimizer::{
    FactorRules, OptimizerError, Rule, StateTensor, SumOverRanks, Update, UpdatePlan, check_setting,
    standard_logical_factor_rules,
};
use crate::shape::Shape;
use crate::tape::{Tape, TapeError, Var};

/// T5X's Adafactor, number for number; the learning rate is the schedule's. What is left out has T5X's default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdafactorConfig {
    /// Second moments of large tensors are kept as those of rows and columns.
    pub factored: bool,
    /// A step is relative to the root mean square of the parameter.
    pub multiply_by_parameter_scale: bool,
    /// What momentum keeps of itself; without it there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta1: Option<f32>,
    /// Second moments keep 1 − t^−`decay_rate` of themselves at step t.
    pub decay_rate: f64,
    /// The step at which t is 1: that of the first update of a fine-tuning.
    pub step_offset: i64,
    /// The largest root mean square of an update, before it is scaled. T5X's `None` is 0 here.
    pub clipping_threshold: f32,
    /// The share of a parameter that a step takes off, not times the learning rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_decay_rate: Option<f32>,
    /// The weight decay is the learning rate to this power, times `weight_decay_rate` where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_decay_rate_lr_exponent: Option<f32>,
    /// Matrices with a shorter axis are not factored.
    pub min_dim_size_to_factor: usize,
    /// Added to squared gradients.
    pub epsilon1: f32,
    /// The least scale of a parameter.
    pub epsilon2: f32,
    /// The largest scale of a parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parameter_scale: Option<f32>,
    /// The largest norm of all gradients together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_norm_clip_threshold: Option<f32>,
    /// Elements that would become no number stay as they are.
    pub skip_nan_updates: bool,
    /// What is factored of parameters with more than two axes, or with stacked ones: by logical axis.
    pub logical_factor_rules: FactorRules,
}

impl Default for AdafactorConfig {
    fn default() -> Self {
        Self {
            factored: true,
            multiply_by_parameter_scale: true,
            beta1: None,
            decay_rate: 0.8,
            step_offset: 0,
            clipping_threshold: 1.0,
            weight_decay_rate: None,
            weight_decay_rate_lr_exponent: None,
            min_dim_size_to_factor: 128,
            epsilon1: 1e-30,
            epsilon2: 1e-3,
            max_parameter_scale: None,
            global_norm_clip_threshold: None,
            skip_nan_updates: false,
            logical_factor_rules: standard_logical_factor_rules(),
        }
    }
}

/// What it does with one parameter.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    config: AdafactorConfig,
    parameter: String,
    /// The shape of the whole.
    shape: Shape,
    kinds: Vec<FactorDim>,
    factored: bool,
}

impl AdafactorConfig {
    /// Refuses settings out of their range.
    pub fn check(&self) -> Result<(), OptimizerError> {
        let (positive, share) = ("more than 0", "at least 0 and less than 1");
        check_setting("beta1", self.beta1, |x| (0.0..1.0).contains(&x), share)?;
        check_setting("decay_rate", self.decay_rate as f32, |x| x > 0.0, positive)?;
        check_setting("clipping_threshold", self.clipping_threshold, |x| x >= 0.0, "at least 0")?;
        check_setting(
            "weight_decay_rate",
            self.weight_decay_rate,
            |x| (0.0..=1.0).contains(&x),
            "from 0 to 1",
        )?;
        check_setting(
            "weight_decay_rate_lr_exponent",
            self.weight_decay_rate_lr_exponent,
            |_| true,
            "finite",
        )?;
        check_setting("epsilon1", self.epsilon1, |x| x >= 0.0, "at least 0")?;
        check_setting("epsilon2", self.epsilon2, |x| x >= 0.0, "at least 0")?;
        check_setting("max_parameter_scale", self.max_parameter_scale, |x| x > 0.0, positive)?;
        check_setting("global_norm_clip_threshold", self.global_norm_clip_threshold, |x| x > 0.0, positive)
    }

    /// What it does with a parameter: the shape is that of the whole, the axes are its logical axes.
    pub fn plan(&self, parameter: &str, shape: &Shape, axes: &[&str]) -> Result<UpdatePlan, OptimizerError> {
        if axes.len() != shape.rank() {
            let (parameter, shape, axes) = (parameter.to_owned(), shape.clone(), axes.len());
            return Err(OptimizerError::Rank { parameter, shape, axes });
        }
        self.plan_of_kinds(parameter, shape, Some(kinds_of(&self.logical_factor_rules, parameter, axes)?))
    }

    /// The same with what is done along each axis; `None`: nothing is known of them.
    pub(super) fn plan_of_kinds(
        &self,
        parameter: &str,
        shape: &Shape,
        kinds: Option<Vec<FactorDim>>,
    ) -> Result<UpdatePlan, OptimizerError> {
        let rank = shape.rank();
        let kinds = match kinds {
            _ if !self.factored => vec![FactorDim::None; rank],
            // T5X ignores the rules of matrices.
            Some(kinds) if rank > 2 || kinds.contains(&FactorDim::Batch) => kinds,
            _ if rank <= 2 => heuristic(shape, self.min_dim_size_to_factor),
            _ => {
                let (parameter, shape) = (parameter.to_owned(), shape.clone());
                return Err(OptimizerError::NoRule { parameter, shape });
            }
        };
        let factored = kinds.contains(&FactorDim::Row) && kinds.contains(&FactorDim::Column);
        let without = |kind| (0..rank).filter(|axis| kinds[*axis] != kind).collect();
        let mut state = match factored {
            true => vec![
                StateTensor { name: "v_row", axes: without(FactorDim::Column) },
                StateTensor { name: "v_col", axes: without(FactorDim::Row) },
            ],
            false => vec![StateTensor::whole("v", rank)],
        };
        if self.beta1.is_some() {
            state.push(StateTensor::whole("m", rank));
        }
        let config = self.clone();
        let plan = Plan { config, parameter: parameter.to_owned(), shape: shape.clone(), kinds, factored };
        plan.check(shape)?;
        Ok(UpdatePlan { state, rule: Rule::Adafactor(Box::new(plan)) })
    }

    /// Learning rate, decay of second moments, 1 less that, weight decay: in float32 as T5X has them.
    pub(super) fn scalars(&self, step: u64, learning_rate: f32) -> [f32; SCALARS] {
        let t = (i128::from(step) - i128::from(self.step_offset) + 1).max(1) as f64;
        let decay = (1.0 - t.powf(-self.decay_rate)) as f32;
        let weight_decay = match self.weight_decay_rate_lr_exponent {
            Some(exponent) if exponent != 0.0 => {
                let rate = self.weight_decay_rate.filter(|rate| *rate != 0.0).unwrap_or(1.0);
                rate * learning_rate.powf(exponent)
            }
            _ => self.weight_decay_rate.unwrap_or(0.0),
        };
        [learning_rate, decay, 1.0 - decay, weight_decay]
    }

    fn change(&self) -> Change {
        Change { momentum: self.beta1, skip_nan: self.skip_nan_updates }
    }
}

impl Plan {
    /// How many elements of the whole are along axes like these.
    fn count(&self, wanted: impl Fn(FactorDim) -> bool) -> usize {
        let axes = self.shape.dims().iter().zip(&self.kinds);
        axes.filter(|(_, kind)| wanted(**kind)).map(|(length, _)| length).product()
    }

    fn axes(&self, wanted: impl Fn(FactorDim) -> bool) -> Vec<usize> {
        (0..self.kinds.len()).filter(|axis| wanted(self.kinds[*axis])).collect()
    }

    fn marks(&self, wanted: impl Fn(FactorDim) -> bool) -> Vec<bool> {
        self.kinds.iter().map(|kind| wanted(*kind)).collect()
    }

    /// Refuses axes in an order that the kernels do not go through.
    fn check(&self, part: &Shape) -> Result<(Layout, Reduction), OptimizerError> {
        let layout = Layout::new(part.dims(), &self.kinds);
        let over = |wanted: fn(FactorDim) -> bool| Reduction::over(part.dims(), &self.marks(wanted));
        let reductions = over(|kind| kind == FactorDim::Row)
            .and(over(|kind| kind == FactorDim::Column))
            .and(over(averaged));
        layout.zip(reductions).ok_or_else(|| OptimizerError::Alternating {
            parameter: self.parameter.clone(),
            shape: self.shape.clone(),
            kinds: self.kinds.clone(),
        })
    }

    /// Records the operations that change the parameter and its state.
    pub(super) fn record_update(
        &self,
        tape: &mut Tape,
        update: &Update<'_>,
        sum_over_ranks: &mut SumOverRanks<'_>,
    ) -> Result<(), TapeError> {
        let parameter = tape.stored(update.stores, update.parameter);
        let part = tape.shape(parameter).clone();
        let (layout, reduction) =
            self.check(&part).map_err(|error| tape.mismatch("adafactor", &[parameter], error.to_string()))?;
        let state: Vec<Var> = update.state.iter().map(|id| tape.stored(update.stores, *id)).collect();
        let (momentum, moments) = match (self.config.beta1, state.split_last()) {
            (Some(_), Some((momentum, moments))) => (Some(*momentum), moments.to_vec()),
            _ => (None, state),
        };
        let changed: Vec<Var> = std::iter::once(parameter).chain(momentum).collect();
        let change = self.config.change();
        if self.factored {
            let rows = self.moment(tape, update, (moments[0], FactorDim::Column), sum_over_ranks)?;
            let columns = self.moment(tape, update, (moments[1], FactorDim::Row), sum_over_ranks)?;
            let rows = self.row_factors(tape, &part, rows, sum_over_ranks)?;
            let columns = tape.record(Factors { layout: layout.clone(), rows: None }, &[columns])?;
            let squares = FactoredUpdateSquares { layout: layout.clone(), reduction };
            let squares = tape.record(squares, &[update.gradient, rows, columns])?;
            let steps = self.step_sizes(tape, update, (parameter, squares, &layout), sum_over_ranks)?;
            let given = [update.gradient, rows, columns, steps, update.scalars];
            let inputs: Vec<Var> = changed.into_iter().chain(given).collect();
            tape.record_all(FactoredApply { layout, change }, &inputs)?;
        } else {
            let (epsilon, skip_nan) = (self.config.epsilon1, self.config.skip_nan_updates);
            let moment = UnfactoredMoment { layout: layout.clone(), reduction, epsilon, skip_nan };
            let inputs = [moments[0], update.gradient, update.gradient_scale, update.scalars];
            let made = tape.record_all(moment, &inputs)?;
            let steps = self.step_sizes(tape, update, (parameter, made[1], &layout), sum_over_ranks)?;
            let given = [update.gradient, made[0], update.scalars, steps];
            let inputs: Vec<Var> = changed.into_iter().chain(given).collect();
            tape.record_all(UnfactoredApply { layout, change }, &inputs)?;
        }
        Ok(())
    }

    /// The new second moments that are summed over axes of this kind.
    fn moment(
        &self,
        tape: &mut Tape,
        update: &Update<'_>,
        (stored, over): (Var, FactorDim),
        sum_over_ranks: &mut SumOverRanks<'_>,
    ) -> Result<Var, TapeError> {
        let summed = self.marks(|kind| kind == over);
        let sums = tape.record(AxisSums { summed, squares: true }, &[update.gradient])?;
        let sums = sum_over_ranks(tape, sums, &self.axes(|kind| kind == over))?;
        let moment = SecondMoment {
            terms: self.count(|kind| kind == over),
            epsilon: self.config.epsilon1,
            skip_nan: self.config.skip_nan_updates,
        };
        let inputs = [stored, sums, update.gradient_scale, update.scalars];
        Ok(tape.record_all(moment, &inputs)?[1])
    }

    /// Of the second moments of rows, relative to their mean.
    fn row_factors(
        &self,
        tape: &mut Tape,
        part: &Shape,
        rows: Var,
        sum_over_ranks: &mut SumOverRanks<'_>,
    ) -> Result<Var, TapeError> {
        let kept: Vec<usize> = self.axes(|kind| kind != FactorDim::Column);
        let kinds: Vec<FactorDim> = kept.iter().map(|axis| self.kinds[*axis]).collect();
        let dims: Vec<usize> = kept.iter().map(|axis| part.dims()[*axis]).collect();
        let summed = kinds.iter().map(|kind| *kind == FactorDim::Row).collect();
        let totals = tape.record(AxisSums { summed, squares: false }, &[rows])?;
        let totals = sum_over_ranks(tape, totals, &self.axes(|kind| kind == FactorDim::Row))?;
        let layout = Layout::new(&dims, &kinds);
        let layout =
            layout.ok_or_else(|| tape.mismatch("adafactor", &[rows], "alternating axes".to_owned()))?;
        let rows_of_batch = self.count(|kind| kind == FactorDim::Row);
        tape.record(Factors { layout, rows: Some(rows_of_batch) }, &[rows, totals])
    }

    /// What updates are multiplied by.
    fn step_sizes(
        &self,
        tape: &mut Tape,
        update: &Update<'_>,
        (parameter, update_squares, layout): (Var, Var, &Layout),
        sum_over_ranks: &mut SumOverRanks<'_>,
    ) -> Result<Var, TapeError> {
        let (config, squares, over) = (&self.config, self.count(averaged), self.axes(averaged));
        let mut inputs = vec![update.gradient_scale, update.scalars];
        let parameter_scale = config.multiply_by_parameter_scale.then_some(ParameterScale {
            squares,
            least: config.epsilon2,
            most: config.max_parameter_scale,
        });
        if parameter_scale.is_some() {
            let squares =
                tape.record(AxisSums { summed: self.marks(averaged), squares: true }, &[parameter])?;
            inputs.push(sum_over_ranks(tape, squares, &over)?);
        }
        let clipping = Some((squares, config.clipping_threshold)).filter(|(_, threshold)| *threshold > 0.0);
        if clipping.is_some() {
            inputs.push(sum_over_ranks(tape, update_squares, &over)?);
        }
        tape.record(StepSize { batches: layout.batches(), parameter_scale, clipping }, &inputs)
    }
}

/// Root mean squares are taken over it.
fn averaged(kind: FactorDim) -> bool {
    kind != FactorDim::Batch
}
