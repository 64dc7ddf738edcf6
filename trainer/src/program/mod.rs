//! A tape made ready to run: which nodes, in which order, in which memory.
//!
//! ```text
//! nodes    matmul   gelu    matmul   …
//! slots    a ------> a      b           a tensor's slot is free for others after its last use
//! ```
//!
//! The plan depends on shapes alone, so that the memory of a run is known before it starts.

mod memory;
mod plan;

pub use memory::MemoryNeeds;

use std::sync::Arc;

use crate::host::HostTensor;
use crate::mesh::{MeshAxis, Message};
use crate::op::Op;
use crate::shape::Spec;
use crate::store::StoreId;
use crate::tape::{Origin, Tape, Var};

/// Where a tensor's numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Place {
    /// In a stored tensor.
    Store(StoreId),
    /// In what the host handed over, by number.
    Input(usize),
    /// In a constant, by number.
    Constant(usize),
    /// In memory shared by tensors that are not needed at the same time.
    Slot(usize),
}

/// One operation of a program.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) op: Arc<dyn Op>,
    /// The name of its first output.
    pub(crate) name: String,
    pub(crate) inputs: Vec<(Place, Spec)>,
    pub(crate) outputs: Vec<(Place, Spec)>,
    /// Outputs that begin as a copy of an input that is needed later: (output, input).
    pub(crate) copies: Vec<(usize, usize)>,
    /// What ranks along an axis of the mesh do together in its place.
    pub(crate) exchange: Option<(MeshAxis, Message)>,
}

/// Something the host hands over at every run.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramInput {
    /// Its name.
    pub name: String,
    /// Its shape and kind.
    pub spec: Spec,
}

/// A tape made ready to run.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) steps: Vec<Step>,
    pub(crate) inputs: Vec<ProgramInput>,
    pub(crate) constants: Vec<HostTensor>,
    /// Elements of every slot.
    pub(crate) slots: Vec<usize>,
    /// What a run gives back.
    pub(crate) results: Vec<(Place, Spec)>,
}

impl Program {
    /// Plans what computes `results` and what changes stored tensors; everything else on the tape is left out.
    pub fn new(tape: &Tape, results: &[Var]) -> Result<Self, PlanError> {
        plan::plan(tape, results, false)
    }

    /// What the host hands over at every run.
    pub fn inputs(&self) -> &[ProgramInput] {
        &self.inputs
    }

    /// How many operations a run performs.
    pub fn operations(&self) -> usize {
        self.steps.len()
    }

    /// The same with fewer, larger messages between ranks: everything is computed as early as it can be, and exchanges
    /// that do not wait for each other become one. It takes more memory where much is computed from little.
    pub fn with_joint_exchanges(tape: &Tape, results: &[Var]) -> Result<Self, PlanError> {
        plan::plan(tape, results, true)
    }

    /// What ranks exchange in a run: along which axis of the mesh, and what.
    pub fn exchanges(&self) -> impl Iterator<Item = &(MeshAxis, Message)> {
        self.steps.iter().filter_map(|step| step.exchange.as_ref())
    }

    /// Bytes of the memory shared by what is computed, at once.
    pub fn working_bytes(&self) -> u64 {
        self.slots.iter().map(|&elements| 4 * elements as u64).sum()
    }

    /// Bytes of what is handed over and of constants.
    pub fn input_bytes(&self) -> u64 {
        let inputs = self.inputs.iter().map(|input| input.spec.shape.elements());
        let constants = self.constants.iter().map(HostTensor::elements);
        inputs.chain(constants).map(|elements| 4 * elements as u64).sum()
    }
}

/// Why a tape cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// What ranks cannot do together.
    #[error("`{name}`: {reason}")]
    Exchange {
        /// What it makes.
        name: String,
        /// Why not.
        reason: String,
    },
    /// A stored tensor is read after it was changed, through its older value.
    #[error("`{op}` (`{name}`) reads `{store}` as it was before `{changed_by}` changed it")]
    ReadAfterChange {
        /// The operation that reads.
        op: &'static str,
        /// What it makes.
        name: String,
        /// The stored tensor.
        store: String,
        /// The operation that changed it.
        changed_by: &'static str,
    },
}

/// Where a value that no node makes comes from.
fn outer_place(origin: Origin, input: impl FnOnce() -> usize) -> Option<Place> {
    match origin {
        Origin::Stored(id) => Some(Place::Store(id)),
        Origin::Input => Some(Place::Input(input())),
        Origin::Constant(constant) => Some(Place::Constant(constant)),
        Origin::Node(_) => None,
    }
}
