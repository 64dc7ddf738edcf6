//! Rows of a tensor that follow each other.
//!
//! ```text
//! x f32[.., D]  ->  rows [start, start + count) of it f32[count, D]
//! ```

use crate::cpu::CpuArgs;
use crate::gpu::GpuArgs;
use crate::op::Op;
use crate::ops::slice::Runs;
use crate::shape::{Kind, Spec};
use crate::tape::{Recorded, Tape, TapeError, Var};

/// Rows `start..start + count` of a tensor seen as rows of its last axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rows {
    start: usize,
    count: usize,
}

impl Rows {
    /// So many rows from this one on.
    pub fn new(start: usize, count: usize) -> Self {
        Self { start, count }
    }

    fn runs(self, rows: usize, width: usize) -> Runs {
        Runs { offset: self.start * width, run: self.count * width, stride: rows * width }
    }
}

impl Op for Rows {
    fn name(&self) -> &'static str {
        "rows"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        let Self { start, count } = *self;
        match inputs {
            [x] if x.kind == Kind::F32
                && count > 0
                && x.shape.rows().checked_sub(count).is_some_and(|last| start <= last) =>
            {
                Ok(vec![Spec::f32([count, x.shape.width()])])
            }
            _ => Err(format!("it takes floats with {count} rows from row {start} on")),
        }
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let &[_, width] = args.output_dims(0) else { return };
        self.runs(args.input(0).len() / width.max(1), width).cpu(args);
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        self.runs(args.shape(0).rows(), args.shape(0).width()).gpu(args);
    }

    fn backward(
        &self,
        tape: &mut Tape,
        node: &Recorded,
        gradients: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        let shape = tape.shape(node.inputs[0]).clone();
        self.runs(shape.rows(), shape.width()).backward(tape, &shape, gradients)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, check};

    #[test]
    fn both_implementations_agree_and_the_derivative_is_right() {
        for (start, count) in [(0, 6), (0, 1), (2, 3), (5, 1)] {
            check(Case::new(81).normal("x", [2, 3, 7]), |tape, inputs| {
                tape.record_all(Rows::new(start, count), inputs)
            });
        }
    }

    #[test]
    fn rows_beyond_the_last_are_refused() {
        let mut tape = Tape::new();
        let x = tape.input("x", Spec::f32([2, 3, 7])).unwrap();
        insta::assert_snapshot!(tape.record(Rows::new(4, 3), &[x]).unwrap_err(), @"`rows` in ``: it takes floats with 3 rows from row 4 on; it got `x` f32[2, 3, 7]");
        assert!(tape.record(Rows::new(4, 0), &[x]).is_err());
    }
}
