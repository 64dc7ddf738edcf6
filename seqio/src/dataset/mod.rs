//! From stored examples to batches: order, windows, packing, batches, state.

mod digest;
mod edits;
mod memory;
mod order;
mod permutation;
mod store;

pub use digest::Digest;
pub use edits::SequenceEdits;
pub use memory::MemoryStore;
pub use order::{DEFAULT_BLOCK, EpochOrder, OrderKind};
pub(crate) use permutation::Permutation;
pub use store::{ExampleStore, StoreError};
