//! One index of one axis.
//!
//! ```text
//! x f32[S], axis a, index i  ->  x[.., i, ..] in any shape of as many elements
//! ```

use crate::cpu::CpuArgs;
use crate::gpu::GpuArgs;
use crate::op::Op;
use crate::ops::slice::Runs;
use crate::shape::{Kind, Shape, Spec};
use crate::tape::{Recorded, Tape, TapeError, Var};

/// What is at one index of one axis: the weights of one of the layers that are stored together.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    axis: usize,
    index: usize,
    shape: Shape,
}

impl Select {
    /// What is at `index` of `axis`, given out with `shape`.
    pub fn new(axis: usize, index: usize, shape: impl Into<Shape>) -> Self {
        Self { axis, index, shape: shape.into() }
    }

    /// `of` has the axis.
    fn runs(&self, of: &[usize]) -> Runs {
        let run = of[self.axis + 1..].iter().product();
        Runs { offset: self.index * run, run, stride: of[self.axis] * run }
    }
}

impl Op for Select {
    fn name(&self) -> &'static str {
        "select"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        let [x] = inputs else { return Err("it takes one tensor".to_owned()) };
        match x.shape.dims().get(self.axis) {
            Some(&length) if self.index < length && x.kind == Kind::F32 => {
                let elements = x.shape.elements() / length;
                match self.shape.elements() {
                    wanted if wanted == elements => Ok(vec![Spec::f32(self.shape.clone())]),
                    _ => Err(format!("{} has other than {elements} elements", self.shape)),
                }
            }
            _ => Err(format!("it takes floats with an index {} of axis {}", self.index, self.axis)),
        }
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        self.runs(args.dims(0)).cpu(args);
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        self.runs(args.shape(0).dims()).gpu(args);
    }

    fn backward(
        &self,
        tape: &mut Tape,
        node: &Recorded,
        gradients: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        let shape = tape.shape(node.inputs[0]).clone();
        self.runs(shape.dims()).backward(tape, &shape, gradients)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, check};

    #[test]
    fn both_implementations_agree_and_the_derivative_is_right() {
        let x = || Case::new(71).normal("x", [3, 4, 5]);
        check(x(), |tape, inputs| tape.record_all(Select::new(0, 2, [4, 5]), inputs));
        check(x(), |tape, inputs| tape.record_all(Select::new(1, 0, [15]), inputs));
        check(x(), |tape, inputs| tape.record_all(Select::new(1, 3, [3, 1, 5]), inputs));
        check(x(), |tape, inputs| tape.record_all(Select::new(2, 4, [12]), inputs));
        check(Case::new(72).normal("x", [1]), |tape, inputs| tape.record_all(Select::new(0, 0, []), inputs));
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let mut tape = Tape::new();
        let x = tape.input("x", Spec::f32([3, 4])).unwrap();
        let refused = |tape: &mut Tape, select| tape.record(select, &[x]).unwrap_err().to_string();
        insta::assert_snapshot!(refused(&mut tape, Select::new(2, 0, [3])), @"`select` in ``: it takes floats with an index 0 of axis 2; it got `x` f32[3, 4]");
        insta::assert_snapshot!(refused(&mut tape, Select::new(1, 4, [3])), @"`select` in ``: it takes floats with an index 4 of axis 1; it got `x` f32[3, 4]");
        insta::assert_snapshot!(refused(&mut tape, Select::new(1, 3, [4])), @"`select` in ``: [4] has other than 3 elements; it got `x` f32[3, 4]");
    }
}
