//! Collectives on a tape; over a single rank nothing is recorded.

use crate::mesh::{Collective, MeshAxis, Reduce};
use crate::ops::{Enter, Exchange};
use crate::partition::Placement;
use crate::tape::{Tape, TapeError, Var};

impl Placement {
    /// Where what all ranks have goes into what each rank along `over` computes for itself.
    pub fn enter(&self, tape: &mut Tape, over: MeshAxis, x: Var) -> Result<Var, TapeError> {
        match self.ranks(over) {
            1 => Ok(x),
            ranks => tape.record(Enter::new(over, ranks), &[x]),
        }
    }

    /// The sums of what each rank has, in one message.
    pub fn all_reduce(&self, tape: &mut Tape, over: MeshAxis, of: &[Var]) -> Result<Vec<Var>, TapeError> {
        match self.ranks(over) {
            ranks if ranks > 1 && !of.is_empty() => {
                let sum = Collective::AllReduce(Reduce::Sum);
                tape.record_all(Exchange::new(over, ranks, sum, of.len()), of)
            }
            _ => Ok(of.to_vec()),
        }
    }

    /// The parts that ranks have along an axis of the tensor, one after the other.
    pub fn all_gather(&self, tape: &mut Tape, over: MeshAxis, axis: usize, x: Var) -> Result<Var, TapeError> {
        match self.ranks(over) {
            1 => Ok(x),
            ranks => tape.record(Exchange::new(over, ranks, Collective::AllGather { axis }, 1), &[x]),
        }
    }

    /// This rank's part, along an axis of the tensor, of the sum of what each rank has.
    pub fn reduce_scatter(
        &self,
        tape: &mut Tape,
        over: MeshAxis,
        axis: usize,
        x: Var,
    ) -> Result<Var, TapeError> {
        match self.ranks(over) {
            1 => Ok(x),
            ranks => tape.record(Exchange::new(over, ranks, Collective::ReduceScatter { axis }, 1), &[x]),
        }
    }
}
