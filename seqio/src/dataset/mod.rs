//! From stored examples to batches: order, windows, packing, batches, state.

mod batch_sizes;
mod cursor;
mod digest;
mod edits;
mod error;
mod in_memory;
mod index;
mod infeed;
mod memory;
mod order;
mod permutation;
mod state;
mod store;

pub(crate) use permutation::Permutation;

pub use batch_sizes::BatchSizes;
pub use digest::Digest;
pub use edits::SequenceEdits;
pub use error::DatasetError;
pub use in_memory::InMemoryExamples;
pub use memory::MemoryStore;
pub use order::{DEFAULT_BLOCK, EpochOrder, OrderKind};
pub use state::DatasetState;
pub use store::{ExampleStore, StoreError};
