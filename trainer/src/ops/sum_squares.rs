//! The sum of the squares of all elements: norms of gradients.
//!
//! ```text
//! x f32[S]  ->  f32[1]
//! ```

use rayon::prelude::*;

use crate::cpu::{CHUNK, CpuArgs};
use crate::gpu::{GpuArgs, Kernel, PRELUDE, linear_groups};
use crate::op::Op;
use crate::ops::reduction::Reduction;
use crate::ops::{Add, sum};
use crate::shape::{Kind, Spec};
use crate::tape::{Recorded, Tape, TapeError, Var};

static BACKWARD: Kernel = Kernel {
    name: "sum_squares_backward",
    source: &[PRELUDE, include_str!("sum_squares.wgsl")],
    entry: "sum_squares_backward",
};

/// The sum of the squares of all elements, always in the same order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SumSquares;

impl SumSquares {
    /// Records the sum of the squares of all elements of all these tensors; `None` of none.
    pub fn of_all(tape: &mut Tape, tensors: &[Var]) -> Result<Option<Var>, TapeError> {
        let mut total = None;
        for &tensor in tensors {
            let squares = tape.record(Self, &[tensor])?;
            total = Some(match total {
                Some(so_far) => tape.record(Add, &[so_far, squares])?,
                None => squares,
            });
        }
        Ok(total)
    }
}

impl Op for SumSquares {
    fn name(&self) -> &'static str {
        "sum_squares"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        sum::outputs(inputs)
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let x = args.input(0);
        Reduction::all(x.len()).sums(x, args.output(0), |x| x * x);
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        sum::dispatch(args, true);
    }

    fn backward(
        &self,
        tape: &mut Tape,
        node: &Recorded,
        gradients: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        let Some(gradient) = gradients[0] else { return Ok(vec![None]) };
        Ok(vec![Some(tape.record(SumSquaresBackward, &[node.inputs[0], gradient])?)])
    }
}

/// `x f32[S], g f32[1] -> 2 · g · x`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct SumSquaresBackward;

impl Op for SumSquaresBackward {
    fn name(&self) -> &'static str {
        "sum_squares_backward"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        match inputs {
            [x, g] if x.kind == Kind::F32 && *g == Spec::f32([1]) => Ok(vec![x.clone()]),
            _ => Err("it takes a tensor of floats and one number".to_owned()),
        }
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let (x, factor) = (args.input(0), 2.0 * args.input(1)[0]);
        args.output(0).par_chunks_mut(CHUNK).zip(x.par_chunks(CHUNK)).for_each(|(y, x)| {
            y.iter_mut().zip(x).for_each(|(y, x)| *y = factor * x);
        });
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let elements = args.shape(0).elements();
        let buffers = [args.input(0), args.input(1), args.output(0)];
        args.dispatch(&BACKWARD, &buffers, &[elements as u32], linear_groups(elements, 64));
    }

    /// Second derivatives are not recorded.
    fn backward(&self, _: &mut Tape, _: &Recorded, _: &[Option<Var>]) -> Result<Vec<Option<Var>>, TapeError> {
        Ok(vec![None, None])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, check};

    #[test]
    fn both_implementations_agree_and_the_derivative_is_right() {
        for shape in [vec![1], vec![3, 5], vec![17, 129], vec![9, 40, 1000]] {
            let case = Case::new(22).normal("x", &shape[..]);
            check(case, |tape, inputs| Ok(vec![tape.record(SumSquares, inputs)?]));
        }
    }

    #[test]
    fn squares_of_several_tensors_are_summed_together() {
        let case = Case::new(23).normal("x", [3, 5]).normal("y", [70]).normal("z", [1]);
        check(case, |tape, inputs| Ok(SumSquares::of_all(tape, inputs)?.into_iter().collect()));
    }
}
