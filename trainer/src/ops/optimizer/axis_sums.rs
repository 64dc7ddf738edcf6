//! Sums over some axes, or of squares: statistics of rows and columns, mean squares of parameters.
//!
//! ```text
//! g f32[a, b, c], over b  ->  f32[a * c]
//! ```

use crate::cpu::CpuArgs;
use crate::gpu::{BufferRef, GpuArgs};
use crate::op::Op;
use crate::ops::reduction::Reduction;
use crate::shape::{Kind, Spec};
use crate::tape::{Recorded, Tape, TapeError, Var};

/// Sums of numbers or of their squares, over the axes that are marked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AxisSums {
    pub(crate) summed: Vec<bool>,
    pub(crate) squares: bool,
}

impl AxisSums {
    fn reduction(&self, dims: &[usize]) -> Option<Reduction> {
        Reduction::over(dims, &self.summed)
    }
}

impl Op for AxisSums {
    fn name(&self) -> &'static str {
        "axis_sums"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        let [x] = inputs else { return Err("it takes one tensor".to_owned()) };
        if x.kind != Kind::F32 || x.shape.rank() != self.summed.len() {
            return Err(format!("it takes floats with {} axes", self.summed.len()));
        }
        let reduction = self.reduction(x.shape.dims());
        let reduction = reduction.ok_or("axes that are summed and axes that are kept alternate too often")?;
        Ok(std::iter::once(Spec::f32([reduction.outputs()])).chain(reduction.scratch()).collect())
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let Some(reduction) = self.reduction(args.dims(0)) else { return };
        let (x, sums) = (args.input(0), args.output(0));
        if self.squares {
            reduction.sums(x, sums, |x| x * x);
        } else {
            reduction.sums(x, sums, |x| x);
        }
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let Some(reduction) = self.reduction(args.shape(0).dims()) else { return };
        let scratch: Vec<BufferRef> = (1..=reduction.scratch().len()).map(|i| args.output(i)).collect();
        let (x, sums) = (args.input(0), args.output(0));
        reduction.dispatch(args, x, self.squares, (sums, &scratch));
    }

    fn backward(&self, _: &mut Tape, _: &Recorded, _: &[Option<Var>]) -> Result<Vec<Option<Var>>, TapeError> {
        Ok(vec![None])
    }
}
