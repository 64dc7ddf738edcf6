//! What can go wrong between stored examples and batches.

use crate::convert::ConvertError;
use crate::dataset::store::StoreError;
use crate::text::counted;

/// Why a stream cannot be made or cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// A setting of the request makes no sense.
    #[error("`{setting}`: {problem}")]
    Setting {
        /// The setting's name.
        setting: &'static str,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// Lengths, converter or packing make no sense.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// The task does not fit the request.
    #[error("task `{task}`: {problem}")]
    Task {
        /// The task.
        task: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// There is nothing to stream.
    #[error("task `{task}`, split `{split}` has no {what}, so it cannot fill a batch")]
    Empty {
        /// The task.
        task: String,
        /// The split.
        split: String,
        /// `examples`, or that they have no tokens.
        what: String,
    },
    /// The stream ends before the step asked for.
    #[error("task `{task}`, split `{split}` has {} in {}; there is no step {step}", counted(*steps, "step"), counted(*epochs, "epoch"))]
    Beyond {
        /// The task.
        task: String,
        /// The split.
        split: String,
        /// The step asked for.
        step: u64,
        /// Steps there are.
        steps: u64,
        /// Epochs asked for.
        epochs: u64,
    },
    /// A stored example could not be read.
    #[error("task `{task}`, split `{split}`, step {step}, row {row}: {error}")]
    Row {
        /// The task.
        task: String,
        /// The split.
        split: String,
        /// The step that needed it.
        step: u64,
        /// The row that needed it.
        row: u64,
        /// Why.
        #[source]
        error: StoreError,
    },
    /// Items could not be planned.
    #[error("task `{task}`, split `{split}`, {place}: {error}")]
    Plan {
        /// The task.
        task: String,
        /// The split.
        split: String,
        /// The group of examples and the epoch.
        place: String,
        /// Why.
        #[source]
        error: StoreError,
    },
    /// Examples could not be read or preprocessed on the fly.
    #[error("task `{task}`, split `{split}`, example {example} of epoch {epoch}: {error}")]
    Read {
        /// The task.
        task: String,
        /// The split.
        split: String,
        /// The epoch.
        epoch: u64,
        /// How many examples of the epoch came before.
        example: u64,
        /// Why.
        #[source]
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A bug: a worker panicked.
    #[error("task `{task}`, split `{split}`, {place}: a worker panicked: {message}")]
    Panicked {
        /// The task.
        task: String,
        /// The split.
        split: String,
        /// `step 3` or `window 2`.
        place: String,
        /// What the panic said.
        message: String,
    },
    /// A saved state does not belong to this stream, or is no state.
    #[error("{problem}")]
    State {
        /// What differs.
        problem: String,
    },
}
