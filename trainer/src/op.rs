//! What every operation on tensors is: shapes, two implementations, and its derivative.

use std::fmt::Debug;

use crate::cpu::CpuArgs;
use crate::gpu::GpuArgs;
use crate::ops::Exchange;
use crate::shape::Spec;
use crate::tape::{Recorded, Tape, TapeError, Var};

/// One operation. It holds what was fixed when it was recorded (axes, rates), never data.
///
/// Laws, checked for every operation by `testing::check_op`:
///
/// - `cpu` and `gpu` give the same numbers up to float32 rounding, at ragged shapes too;
/// - each gives the same bits on every run, whatever the number of threads;
/// - `backward` is the derivative of `cpu` (finite differences).
pub trait Op: Debug + Send + Sync {
    /// Its name in errors and timelines.
    fn name(&self) -> &'static str;

    /// What it makes of inputs like these, or what is wrong with them, in words.
    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String>;

    /// Output `i` begins as input `overwrites()[i]`, in its place. Such an input is not handed over; a stored tensor is
    /// changed for good, any other is copied first if somebody still needs it.
    fn overwrites(&self) -> &[usize] {
        &[]
    }

    /// What ranks do together to make the outputs of the inputs. Then there is nothing for `cpu` and `gpu` to do.
    fn exchange(&self) -> Option<&Exchange> {
        None
    }

    /// Computes the outputs on the host. Everything in an output is written, or was there as its overwritten input.
    fn cpu(&self, args: &mut CpuArgs<'_>);

    /// Records the dispatches that compute the outputs.
    fn gpu(&self, args: &mut GpuArgs<'_>);

    /// Records the gradient of every input (`None`: there is none) from the gradients of the outputs (`None`: zero).
    /// At least one output has a gradient; inputs for which `node.needs(i)` is false may be left out.
    fn backward(
        &self,
        tape: &mut Tape,
        node: &Recorded,
        gradients: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError>;
}
