//! Means of squared gradients along rows or columns, decayed: the factored second moments of Adafactor.
//!
//! ```text
//! v f32[S], sums f32[S], scale f32[1], scalars  ->  decay · v + (1 − decay) · (scale² · sums / terms + ε), in place of v
//! ```

use crate::cpu::CpuArgs;
use crate::gpu::{GpuArgs, Kernel, PRELUDE, linear_groups};
use crate::op::Op;
use crate::ops::optimizer::{COMMON, SCALARS};
use crate::shape::Spec;
use crate::tape::{Recorded, Tape, TapeError, Var};

static SECOND_MOMENT: Kernel = Kernel {
    name: "second_moment",
    source: &[PRELUDE, COMMON, include_str!("second_moment.wgsl")],
    entry: "second_moment",
};

/// Output 0 is stored; output 1 is the same, but for what is not a number where such updates are skipped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SecondMoment {
    /// How many squares are in a sum, on all ranks.
    pub(crate) terms: usize,
    pub(crate) epsilon: f32,
    pub(crate) skip_nan: bool,
}

impl Op for SecondMoment {
    fn name(&self) -> &'static str {
        "second_moment"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        match inputs {
            [v, sums, scale, scalars]
                if v.shape.elements() == sums.shape.elements()
                    && *scale == Spec::f32([1])
                    && *scalars == Spec::f32([SCALARS]) =>
            {
                Ok(vec![v.clone(), v.clone()])
            }
            _ => Err("it takes moments, as many sums, a scale and the step's numbers".to_owned()),
        }
    }

    fn overwrites(&self) -> &[usize] {
        &[0]
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let (sums, scale, scalars) = (args.input(1), args.input(2)[0], args.input(3));
        let (decay, mixing) = (scalars[1], scalars[2]);
        let (stored, new) = (args.output(0), args.output(1));
        for ((stored, new), sum) in stored.iter_mut().zip(new).zip(sums) {
            let mean = scale * scale * (sum / self.terms as f32) + self.epsilon;
            *new = decay * *stored + mixing * mean;
            if !(self.skip_nan && new.is_nan()) {
                *stored = *new;
            }
        }
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let elements = args.shape(0).elements();
        let params = [
            elements as u32,
            (self.terms as f32).to_bits(),
            self.epsilon.to_bits(),
            u32::from(self.skip_nan),
        ];
        let buffers = [args.output(0), args.input(1), args.input(2), args.input(3), args.output(1)];
        args.dispatch(&SECOND_MOMENT, &buffers, &params, linear_groups(elements, 64));
    }

    fn backward(&self, _: &mut Tape, _: &Recorded, _: &[Option<Var>]) -> Result<Vec<Option<Var>>, TapeError> {
        Ok(vec![None; 4])
    }
}
