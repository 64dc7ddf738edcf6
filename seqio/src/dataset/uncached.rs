//! A stream of batches without a cache, in the order of the source.
//!
//! ```text
//! UncachedDataset::new(task, open, config)?.iter()?    the batches of a cache in source order with `order = "storage"`
//! ```

use std::sync::Arc;

use crate::dataset::batch_sizes::BatchSizes;
use crate::dataset::config::DatasetConfig;
use crate::dataset::error::DatasetError;
use crate::dataset::items::ItemReader;
use crate::dataset::iterator::DatasetIterator;
use crate::dataset::order::OrderKind;
use crate::dataset::state::{DatasetState, StreamPosition};
use crate::dataset::stream::{Stream, StreamTask};
use crate::dataset::window_reader::{OpenExamples, WindowReader};
use crate::dataset::window_source::{ReadWindows, Windows};

/// The batches of a task without a cache: read and preprocessed on the fly, in the order of the source.
///
/// They are the batches of a cache that is kept in source order and streamed with `order = "storage"`. A later step is
/// reached by reading up to it.
pub struct UncachedDataset {
    stream: Arc<Stream>,
    open: OpenExamples,
}

impl std::fmt::Debug for UncachedDataset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UncachedDataset({})", self.stream.task)
    }
}

impl UncachedDataset {
    /// Checks the request. `open` begins to read an epoch of examples that have gone through the steps above the
    /// cache boundary.
    pub fn new(task: StreamTask, open: OpenExamples, config: DatasetConfig) -> Result<Self, DatasetError> {
        if config.order != OrderKind::Storage {
            return Err(DatasetError::Setting {
                setting: "order",
                problem: format!(
                    "without a cache only `storage` is possible, the order of the source, but it is `{}`; build a cache \
                     to shuffle",
                    config.order
                ),
            });
        }
        Ok(Self { stream: Arc::new(Stream::new(task, config)?), open })
    }

    /// All batches.
    pub fn iter(&self) -> Result<DatasetIterator, DatasetError> {
        self.iter_from(0)
    }

    /// The batches from `step` on; none if the stream ends before it.
    pub fn iter_from(&self, step: u64) -> Result<DatasetIterator, DatasetError> {
        let sizes = self.stream.config.batch_sizes.clone();
        let row = sizes.row_of(step).ok_or_else(|| DatasetError::Setting {
            setting: "step",
            problem: format!("{step} is more than can be counted"),
        })?;
        let position = StreamPosition { step, row, window: 0, rows_before_window: 0 };
        self.iterator(position, sizes)
    }

    /// The batches after a saved state.
    pub fn resume(&self, state: &DatasetState) -> Result<DatasetIterator, DatasetError> {
        state.check_stream(self.stream.fingerprint, &self.stream.words)?;
        let sizes = state.batch_sizes.continued(state.step, &self.stream.config.batch_sizes);
        self.iterator(state.position(), sizes)
    }

    fn iterator(&self, position: StreamPosition, sizes: BatchSizes) -> Result<DatasetIterator, DatasetError> {
        let stream = &self.stream;
        let read = stream.read_features();
        let (features, written) = match &stream.items {
            Some(steps) => (steps.stored().to_vec(), steps.features().to_vec()),
            None => (read.clone(), read),
        };
        let windows = ReadWindows {
            writer: Arc::new(stream.writer(&written)?),
            items: stream.items.clone().map(ItemReader::new),
            planner: stream.planner(),
            barren: 0,
            reader: WindowReader::new(
                (&stream.task, &stream.config.split),
                features,
                stream.window,
                stream.config.epochs,
                Arc::clone(&self.open),
            ),
        };
        DatasetIterator::new(Arc::clone(stream), Windows::Read(Box::new(windows)), position, sizes)
    }
}
