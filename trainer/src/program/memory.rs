//! How much memory programs and stored tensors take, known before anything runs.

use crate::program::Program;
use crate::store::Stores;

/// Bytes that a run holds on its device, by what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct MemoryNeeds {
    /// Stored tensors: parameters, gradients, the optimizer's state.
    pub stored: u64,
    /// Activations and all else that lives within a run of a program; programs share it.
    pub working: u64,
    /// Batches and constants.
    pub inputs: u64,
}

impl MemoryNeeds {
    /// What these programs take together.
    pub fn of(stores: &Stores, programs: &[Program]) -> Self {
        let slots = programs.iter().map(|program| program.slots.len()).max().unwrap_or(0);
        let largest = |at: usize| programs.iter().filter_map(|program| program.slots.get(at)).max().copied();
        Self {
            stored: stores.bytes(),
            working: (0..slots).filter_map(largest).map(|elements| 4 * elements as u64).sum(),
            inputs: programs.iter().map(Program::input_bytes).sum(),
        }
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.stored + self.working + self.inputs
    }
}
