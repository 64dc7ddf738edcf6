//! What an update is multiplied by: the learning rate, the scale of the parameter, and what clips the update.
//!
//! ```text
//! scale f32[1], scalars, parameter squares f32[B], update squares f32[B]
//!   ->  learning rate · max(ε, RMS(parameter)) · scale / max(1, scale · RMS(update) / threshold) f32[B]
//! ```

use crate::cpu::CpuArgs;
use crate::gpu::{GpuArgs, Kernel, PRELUDE, linear_groups};
use crate::op::Op;
use crate::ops::optimizer::{COMMON, SCALARS};
use crate::shape::Spec;
use crate::tape::{Recorded, Tape, TapeError, Var};

static STEP_SIZE: Kernel = Kernel {
    name: "step_size",
    source: &[PRELUDE, COMMON, include_str!("step_size.wgsl")],
    entry: "step_size",
};

/// The step grows with the parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ParameterScale {
    /// How many squares are in a sum on all ranks.
    pub(crate) squares: usize,
    pub(crate) least: f32,
    pub(crate) most: Option<f32>,
}

/// One number for each of the parameters that are stacked. Inputs after the first two are there as the fields are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StepSize {
    pub(crate) batches: usize,
    pub(crate) parameter_scale: Option<ParameterScale>,
    /// How many squares are in a sum on all ranks, and the largest root mean square of an update.
    pub(crate) clipping: Option<(usize, f32)>,
}

impl Op for StepSize {
    fn name(&self) -> &'static str {
        "step_size"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        let wanted = 2 + usize::from(self.parameter_scale.is_some()) + usize::from(self.clipping.is_some());
        let sums = inputs.get(2..).unwrap_or_default();
        if inputs.len() != wanted
            || inputs[0] != Spec::f32([1])
            || inputs[1] != Spec::f32([SCALARS])
            || sums.iter().any(|sums| *sums != Spec::f32([self.batches]))
        {
            return Err(format!("it takes a scale, the step's numbers, and {} sums of squares", wanted - 2));
        }
        Ok(vec![Spec::f32([self.batches])])
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let (scale, learning_rate, last) = (args.input(0)[0], args.input(1)[0], args.num_inputs() - 1);
        let (of_parameter, of_update) = (args.input(2.min(last)), args.input(last));
        for (batch, step) in args.output(0).iter_mut().enumerate() {
            *step = learning_rate;
            if let Some(ParameterScale { squares, least, most }) = self.parameter_scale {
                let root = (of_parameter[batch] / squares as f32).sqrt();
                let root = if root < least { least } else { root };
                *step *= most.filter(|most| root > *most).unwrap_or(root);
            }
            if let Some((squares, threshold)) = self.clipping {
                let excess = scale.abs() * (of_update[batch] / squares as f32).sqrt() / threshold;
                *step /= if excess < 1.0 { 1.0 } else { excess };
            }
            *step *= scale;
        }
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let last = args.num_inputs() - 1;
        let (scaled, least, most) = match self.parameter_scale {
            Some(ParameterScale { squares, least, most }) => {
                (squares as f32, least, most.unwrap_or(f32::MAX))
            }
            None => (0.0, 0.0, 0.0),
        };
        let (clipped, threshold) = self.clipping.map_or((0.0, 0.0), |(squares, most)| (squares as f32, most));
        let mut params = vec![self.batches as u32];
        params.extend([scaled, least, most, clipped, threshold].map(f32::to_bits));
        // Where a sum is not needed, something else is bound.
        let buffers =
            [args.input(0), args.input(1), args.input(2.min(last)), args.input(last), args.output(0)];
        args.dispatch(&STEP_SIZE, &buffers, &params, linear_groups(self.batches, 64));
    }

    fn backward(
        &self,
        _: &mut Tape,
        node: &Recorded,
        _: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        Ok(vec![None; node.inputs.len()])
    }
}
