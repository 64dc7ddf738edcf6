//! From stored examples to batches: order, windows, packing, batches, state.

mod store;

pub use store::{ExampleStore, StoreError};
