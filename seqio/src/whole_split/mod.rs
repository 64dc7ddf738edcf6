//! Steps that need a whole split: their choices are made in a pass of their own, before the split is read for good.
//!
//! ```text
//! read 1   range after range: steps before `deduplicate` -> (key, position) of each example, sorted on the disk
//!          merged: equal keys stand together, the first position stays, the others -> (dropped, kept), by position
//! read 2   range after range: the same steps, without the examples that go; steps after it
//! ```
//!
//! Nothing is kept of the examples but 56 bytes each, so the split is read and the steps before are run once more for
//! each such step. Memory is bounded whatever the keys are: both sorts spill.

mod choices;
mod drops;
mod duplicates;
mod error;
mod position;
mod scratch;
mod seen;
mod sorter;
mod task;
#[cfg(test)]
mod tests;

pub use self::choices::{ChoiceReport, SplitChoices};
pub use self::drops::{Dropped, Drops};
pub use self::duplicates::{DuplicateCounts, Repeated, find_duplicates};
pub use self::error::WholeSplitError;
pub use self::position::{KeyRecord, Position};
pub use self::scratch::Scratch;
pub(crate) use self::seen::Seen;
pub use self::task::{SplitKeys, WholeSplitStep};
