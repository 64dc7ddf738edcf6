//! The sum of all elements: losses.
//!
//! ```text
//! x f32[S]  ->  f32[1]
//! ```

use rayon::prelude::*;

use crate::cpu::{CHUNK, CpuArgs};
use crate::gpu::{BufferRef, GpuArgs, Kernel, PRELUDE, linear_groups};
use crate::op::Op;
use crate::ops::reduction::Reduction;
use crate::shape::{Kind, Shape, Spec};
use crate::tape::{Recorded, Tape, TapeError, Var};

static SPREAD: Kernel =
    Kernel { name: "spread", source: &[PRELUDE, include_str!("spread.wgsl")], entry: "spread" };

/// The sum of all elements, always in the same order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sum;

impl Op for Sum {
    fn name(&self) -> &'static str {
        "sum"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        outputs(inputs)
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let x = args.input(0);
        Reduction::all(x.len()).sums(x, args.output(0), |x| x);
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        dispatch(args, false);
    }

    fn backward(
        &self,
        tape: &mut Tape,
        node: &Recorded,
        gradients: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        let Some(gradient) = gradients[0] else { return Ok(vec![None]) };
        let shape = tape.shape(node.inputs[0]).clone();
        Ok(vec![Some(tape.record(Spread { shape }, &[gradient])?)])
    }
}

/// One number, then scratch.
pub(super) fn outputs(inputs: &[Spec]) -> Result<Vec<Spec>, String> {
    match inputs {
        [x] if x.kind == Kind::F32 => {
            let scratch = Reduction::all(x.shape.elements()).scratch();
            Ok(std::iter::once(Spec::f32([1])).chain(scratch).collect())
        }
        _ => Err("it takes one tensor of floats".to_owned()),
    }
}

/// Sums the numbers of input 0, or their squares, into output 0.
pub(super) fn dispatch(args: &mut GpuArgs<'_>, square: bool) {
    let reduction = Reduction::all(args.shape(0).elements());
    let scratch: Vec<BufferRef> = (1..=reduction.scratch().len()).map(|i| args.output(i)).collect();
    let (x, sum) = (args.input(0), args.output(0));
    reduction.dispatch(args, x, square, (sum, &scratch));
}

/// One number everywhere: `g f32[1] -> f32[S]`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) shape: Shape,
}

impl Op for Spread {
    fn name(&self) -> &'static str {
        "spread"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        match inputs {
            [x] if x.kind == Kind::F32 && x.shape.elements() == 1 => Ok(vec![Spec::f32(self.shape.clone())]),
            _ => Err("it takes one number".to_owned()),
        }
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let number = args.input(0)[0];
        args.output(0).par_chunks_mut(CHUNK).for_each(|part| part.fill(number));
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let elements = self.shape.elements();
        let buffers = [args.input(0), args.output(0)];
        args.dispatch(&SPREAD, &buffers, &[elements as u32], linear_groups(elements, 64));
    }

    fn backward(
        &self,
        tape: &mut Tape,
        _: &Recorded,
        gradients: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        let Some(gradient) = gradients[0] else { return Ok(vec![None]) };
        Ok(vec![Some(tape.record(Sum, &[gradient])?)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, check};

    #[test]
    fn both_implementations_agree_and_the_derivative_is_right() {
        for shape in [vec![1], vec![3, 5], vec![17, 129], vec![9, 40, 1000]] {
            let tolerance = 1e-4 * shape.iter().product::<usize>() as f32;
            let case = Case::new(21).normal("x", &shape[..]).tolerance(tolerance.min(1e-2));
            check(case, |tape, inputs| Ok(vec![tape.record(Sum, inputs)?]));
        }
    }
}
