//! A stream of batches over a stored split: from the start, from any step, or from a saved state.
//!
//! ```text
//! Dataset::new(task, store, data, config)?
//!     .iter()?            batch 0, 1, 2, …
//!     .iter_from(1000)?   batch 1000, …      the same batches
//!     .resume(&state)?    what comes after the state
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::dataset::batch_sizes::BatchSizes;
use crate::dataset::config::DatasetConfig;
use crate::dataset::error::DatasetError;
use crate::dataset::index::IndexFile;
use crate::dataset::items::AnchorFile;
use crate::dataset::iterator::DatasetIterator;
use crate::dataset::row_places::{KnownRows, RowPlace};
use crate::dataset::state::{DatasetState, StreamPosition};
use crate::dataset::store::ExampleStore;
use crate::dataset::stream::{Stream, StreamTask};
use crate::dataset::window::StoredWindows;
use crate::dataset::window_source::Windows;
use crate::fingerprint::Fingerprint;

/// The batches of one task, addressable by step.
#[derive(Clone, Debug)]
pub struct Dataset {
    pub(super) stream: Arc<Stream>,
    pub(super) windows: Arc<StoredWindows>,
    pub(super) index: Arc<Mutex<KnownRows>>,
    pub(super) index_file: IndexFile,
}

impl Dataset {
    /// Checks the request against the task and its stored examples.
    pub fn new(
        task: StreamTask,
        store: Arc<dyn ExampleStore>,
        config: DatasetConfig,
    ) -> Result<Self, DatasetError> {
        let stream = Arc::new(Stream::new(task, config)?);
        let windows = Arc::new(StoredWindows::new(Arc::clone(&stream), store)?);
        Ok(Self { stream, windows, index: Arc::default(), index_file: IndexFile::default() })
    }

    /// Keeps the index in the first of these folders that can be written, and looks for it in all of them.
    pub fn with_index_folders(mut self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        self.index_file = IndexFile { folders: folders.into_iter().collect() };
        self
    }

    /// The same stream with another number of epochs.
    pub(super) fn with_epochs(&self, epochs: u64) -> Result<Self, DatasetError> {
        let config = DatasetConfig { epochs: Some(epochs), ..self.config().clone() };
        Ok(Self::new(self.stream.task_parts(), self.windows.store(), config)?
            .with_index_folders(self.index_file.folders.iter().cloned()))
    }

    /// The request.
    pub fn config(&self) -> &DatasetConfig {
        &self.stream.config
    }

    /// Hash of everything that decides what the rows are.
    pub fn fingerprint(&self) -> Fingerprint {
        self.stream.fingerprint
    }

    /// What the fingerprint stands for, in words.
    pub fn definition(&self) -> &BTreeMap<String, String> {
        &self.stream.words
    }

    /// Number of stored examples: an epoch.
    pub fn num_examples(&self) -> u64 {
        self.windows.num_examples()
    }

    /// All batches.
    pub fn iter(&self) -> Result<DatasetIterator, DatasetError> {
        self.iter_from(0)
    }

    /// The batches from `step` on.
    pub fn iter_from(&self, step: u64) -> Result<DatasetIterator, DatasetError> {
        if step > 0
            && let Some(grouped) = self.windows.grouped()
        {
            AnchorFile(&self.index_file)
                .load(&self.stream.fingerprint)
                .into_iter()
                .for_each(|at| grouped.insert(at));
        }
        let position = self.position_of(step)?;
        self.iterator(position, self.config().batch_sizes.clone())
    }

    /// The batches after a saved state. The number of hosts and the batch size may have changed since.
    pub fn resume(&self, state: &DatasetState) -> Result<DatasetIterator, DatasetError> {
        state.check_stream(self.stream.fingerprint, &self.stream.words)?;
        if let (Some(grouped), Some(anchor)) = (self.windows.grouped(), state.items) {
            grouped.insert(anchor);
        }
        self.iterator(state.position(), state.batch_sizes.continued(state.step, &self.config().batch_sizes))
    }

    fn iterator(&self, position: StreamPosition, sizes: BatchSizes) -> Result<DatasetIterator, DatasetError> {
        let windows = Windows::Stored(Arc::clone(&self.windows));
        DatasetIterator::new(Arc::clone(&self.stream), windows, position, sizes)
    }

    /// Rows in the whole stream; `None` if it is open-ended.
    pub fn num_rows(&self) -> Result<Option<u64>, DatasetError> {
        if !self.windows.is_finite() {
            return Ok(None);
        }
        match self.place_of(u64::MAX)? {
            RowPlace::After { rows, .. } => Ok(Some(rows)),
            RowPlace::Window { .. } => Ok(None),
        }
    }

    /// Steps in the whole stream; `None` if it is open-ended.
    pub fn num_steps(&self) -> Result<Option<u64>, DatasetError> {
        Ok(self.num_rows()?.map(|rows| self.steps_of(rows)))
    }

    /// Steps that `rows` rows make.
    pub(super) fn steps_of(&self, rows: u64) -> u64 {
        let sizes = &self.config().batch_sizes;
        let step = sizes.step_of(rows).unwrap_or(u64::MAX);
        let begun = sizes.row_of(step).is_some_and(|first| first < rows);
        step + u64::from(begun && !self.config().drop_remainder)
    }

    /// Where the stream stands before `step`.
    pub(super) fn position_of(&self, step: u64) -> Result<StreamPosition, DatasetError> {
        let Some(row) = self.config().batch_sizes.row_of(step) else {
            return Err(self.beyond(step, None));
        };
        match self.place_of(row)? {
            RowPlace::Window { window, rows_before } => {
                Ok(StreamPosition { step, row, window, rows_before_window: rows_before })
            }
            RowPlace::After { windows, rows } if step <= self.steps_of(rows) => {
                Ok(StreamPosition { step, row, window: windows, rows_before_window: rows })
            }
            RowPlace::After { rows, .. } => Err(self.beyond(step, Some(self.steps_of(rows)))),
        }
    }

    pub(super) fn beyond(&self, step: u64, steps: Option<u64>) -> DatasetError {
        let config = self.config();
        match (steps, config.epochs) {
            (Some(steps), Some(epochs)) => DatasetError::Beyond {
                task: self.stream.task.clone(),
                split: config.split.clone(),
                step,
                steps,
                epochs,
            },
            _ => DatasetError::Setting {
                setting: "step",
                problem: format!("{step} is more than can be counted"),
            },
        }
    }

    /// Runs work on as many threads as the request says.
    pub(super) fn in_parallel<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R, DatasetError> {
        match self.config().threads {
            None => Ok(work()),
            Some(threads) => {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
                let pool = pool.map_err(|error| DatasetError::Setting {
                    setting: "threads",
                    problem: format!("{threads} threads cannot be started: {error}"),
                })?;
                Ok(pool.install(work))
            }
        }
    }
}
