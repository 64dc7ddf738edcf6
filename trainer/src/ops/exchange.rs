//! What ranks do together, on the tape: sums, gathers and scatters over an axis of the mesh, with their derivatives.
//!
//! ```text
//! forward                                     backward
//! all-reduce (sum)                            nothing: everybody's gradient is the same
//! nothing (`Enter`)                           all-reduce (sum) of what each rank found of the gradient
//! all-gather along an axis                    reduce-scatter along it
//! reduce-scatter along an axis                all-gather along it
//! ```

use crate::cpu::CpuArgs;
use crate::gpu::GpuArgs;
use crate::mesh::{Collective, MeshAxis, Reduce};
use crate::op::Op;
use crate::shape::{Kind, Spec};
use crate::tape::{Recorded, Tape, TapeError, Var};

/// A collective of all ranks along one axis of the mesh, over one or several tensors at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    over: MeshAxis,
    ranks: usize,
    what: Collective,
    /// A reduction happens in place.
    overwrites: Vec<usize>,
}

impl Exchange {
    /// `what` of `tensors` tensors over the `ranks` ranks along `over`.
    pub fn new(over: MeshAxis, ranks: usize, what: Collective, tensors: usize) -> Self {
        let in_place = matches!(what, Collective::AllReduce(_));
        Self { over, ranks, what, overwrites: if in_place { (0..tensors).collect() } else { Vec::new() } }
    }

    /// Along which axis of the mesh.
    pub fn over(&self) -> MeshAxis {
        self.over
    }

    /// How many ranks take part.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// What they do.
    pub fn what(&self) -> Collective {
        self.what
    }

    /// Whether both can be one message: sums, in place, over the same ranks.
    pub(crate) fn joins(&self, other: &Self) -> bool {
        let in_place = matches!(self.what, Collective::AllReduce(_));
        in_place && (self.over, self.ranks, self.what) == (other.over, other.ranks, other.what)
    }

    /// Both as one message.
    pub(crate) fn with(&self, other: &Self) -> Self {
        Self::new(self.over, self.ranks, self.what, self.overwrites.len() + other.overwrites.len())
    }

    fn conjugate(&self, what: Collective) -> Self {
        Self::new(self.over, self.ranks, what, 1)
    }
}

impl Op for Exchange {
    fn name(&self) -> &'static str {
        match self.what {
            Collective::AllReduce(_) => "all_reduce",
            Collective::AllGather { .. } => "all_gather",
            Collective::ReduceScatter { .. } => "reduce_scatter",
            Collective::Broadcast { .. } => "broadcast",
        }
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        inputs.iter().map(|input| self.what.output(input, self.ranks)).collect()
    }

    fn overwrites(&self) -> &[usize] {
        &self.overwrites
    }

    fn exchange(&self) -> Option<&Exchange> {
        Some(self)
    }

    fn cpu(&self, _: &mut CpuArgs<'_>) {}

    fn gpu(&self, _: &mut GpuArgs<'_>) {}

    fn backward(
        &self,
        tape: &mut Tape,
        node: &Recorded,
        gradients: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        let back = match self.what {
            Collective::AllReduce(Reduce::Sum) => return Ok(gradients.to_vec()),
            Collective::AllReduce(Reduce::Max) | Collective::Broadcast { .. } => {
                return Err(tape.mismatch(self.name(), &node.inputs, "it is not differentiated".to_owned()));
            }
            Collective::AllGather { axis } => Collective::ReduceScatter { axis },
            Collective::ReduceScatter { axis } => Collective::AllGather { axis },
        };
        let mut record = |gradient: &Option<Var>| {
            gradient.map(|gradient| tape.record(self.conjugate(back), &[gradient])).transpose()
        };
        gradients.iter().map(&mut record).collect()
    }
}

/// Where a tensor that all ranks have goes into what each computes for itself: nothing happens, but the gradients that
/// they find are summed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Enter {
    over: MeshAxis,
    ranks: usize,
}

impl Enter {
    /// For the `ranks` ranks along `over`.
    pub fn new(over: MeshAxis, ranks: usize) -> Self {
        Self { over, ranks }
    }
}

impl Op for Enter {
    fn name(&self) -> &'static str {
        "enter"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        match inputs {
            [x] if x.kind == Kind::F32 => Ok(vec![x.clone()]),
            _ => Err("it takes one tensor of floats".to_owned()),
        }
    }

    fn overwrites(&self) -> &[usize] {
        &[0]
    }

    fn cpu(&self, _: &mut CpuArgs<'_>) {}

    fn gpu(&self, _: &mut GpuArgs<'_>) {}

    fn backward(
        &self,
        tape: &mut Tape,
        _: &Recorded,
        gradients: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        let Some(gradient) = gradients[0] else { return Ok(vec![None]) };
        let sum = Exchange::new(self.over, self.ranks, Collective::AllReduce(Reduce::Sum), 1);
        Ok(vec![Some(tape.record(sum, &[gradient])?)])
    }
}
