//! The sum of two tensors of one shape: residual connections, gradients that meet.
//!
//! ```text
//! x f32[S], y f32[S]  ->  x + y f32[S], in the place of x
//! ```

use rayon::prelude::*;

use crate::cpu::{CHUNK, CpuArgs};
use crate::gpu::{GpuArgs, Kernel, PRELUDE, linear_groups};
use crate::op::Op;
use crate::shape::{Kind, Spec};
use crate::tape::{Recorded, Tape, TapeError, Var};

static ADD: Kernel = Kernel { name: "add", source: &[PRELUDE, include_str!("add.wgsl")], entry: "add" };

/// `x + y`, element by element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Add;

impl Op for Add {
    fn name(&self) -> &'static str {
        "add"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        match inputs {
            [x, y] if x == y && x.kind == Kind::F32 => Ok(vec![x.clone()]),
            _ => Err("it takes two tensors of floats of one shape".to_owned()),
        }
    }

    fn overwrites(&self) -> &[usize] {
        &[0]
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let (sum, y) = (args.output(0), args.input(1));
        sum.par_chunks_mut(CHUNK).zip(y.par_chunks(CHUNK)).for_each(|(sum, y)| {
            sum.iter_mut().zip(y).for_each(|(sum, y)| *sum += y);
        });
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let elements = args.shape(0).elements();
        let buffers = [args.output(0), args.input(1)];
        args.dispatch(&ADD, &buffers, &[elements as u32], linear_groups(elements, 64));
    }

    fn backward(
        &self,
        _: &mut Tape,
        _: &Recorded,
        gradients: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        Ok(vec![gradients[0], gradients[0]])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, check};

    #[test]
    fn both_implementations_agree_and_the_derivative_is_right() {
        for shape in [vec![1], vec![3, 5], vec![2, 7, 13]] {
            let case = Case::new(11).normal("x", &shape[..]).normal("y", &shape[..]);
            check(case, |tape, inputs| tape.record_all(Add, inputs));
        }
    }

    #[test]
    fn a_tensor_may_be_added_to_itself() {
        check(Case::new(12).normal("x", [4, 3]), |tape, inputs| {
            tape.record_all(Add, &[inputs[0], inputs[0]])
        });
    }
}
