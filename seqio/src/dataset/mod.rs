//! From stored examples to batches: order, windows, packing, batches, state.

mod ahead;
mod batch_sizes;
mod config;
mod cursor;
#[expect(clippy::module_inception, reason = "`Dataset` is the noun of this folder")]
mod dataset;
mod digest;
mod edits;
mod error;
#[cfg(test)]
mod faults;
mod fill;
mod in_memory;
mod index;
mod infeed;
mod items;
mod iterator;
mod order;
mod permutation;
mod plan;
#[cfg(test)]
mod promise;
#[cfg(test)]
mod promise_items;
mod row_places;
mod state;
mod store;
mod stream;
mod trace;
mod uncached;
mod window;
mod window_reader;
mod window_source;

pub(crate) use permutation::Permutation;

pub use batch_sizes::BatchSizes;
pub use config::{DatasetConfig, Host};
pub use dataset::Dataset;
pub use digest::Digest;
pub use edits::SequenceEdits;
pub use error::DatasetError;
pub use in_memory::InMemoryExamples;
pub use items::Anchor;
pub use iterator::DatasetIterator;
pub use order::{DEFAULT_BLOCK, EpochOrder, OrderKind};
pub use plan::{Counts, Horizon, StreamPlan};
pub use state::DatasetState;
pub use store::{ExampleStore, StoreError};
pub use stream::StreamTask;
pub(crate) use stream::edits_in_words;
pub use trace::{PartTrace, PieceTrace, RowTrace, SightedPiece, Sighting, SourceTrace, StepTrace};
pub use uncached::UncachedDataset;
pub use window_reader::{ExampleReader, OpenExamples, ReadError};
