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
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;

use crate::dataset::batch_sizes::BatchSizes;
use crate::dataset::config::DatasetConfig;
use crate::dataset::error::DatasetError;
use crate::dataset::index::{IndexFile, RowIndex};
use crate::dataset::iterator::{DatasetIterator, ReadWindows, Windows};
use crate::dataset::state::{DatasetState, StreamPosition};
use crate::dataset::store::ExampleStore;
use crate::dataset::stream::{Stream, StreamTask};
use crate::dataset::uncached::{OpenExamples, WindowReader};
use crate::dataset::window::StoredWindows;
use crate::fingerprint::Fingerprint;

/// Windows that are counted at a time: enough for all cores, and few enough not to overshoot by much.
const FIRST_COUNT: u64 = 64;
const LAST_COUNT: u64 = 4096;

/// The batches of one task, addressable by step.
#[derive(Clone, Debug)]
pub struct Dataset {
    pub(super) stream: Arc<Stream>,
    pub(super) windows: Arc<StoredWindows>,
    index: Arc<Mutex<KnownRows>>,
    index_file: IndexFile,
}

#[derive(Debug, Default)]
struct KnownRows {
    rows: RowIndex,
    /// Whether the index file has been looked for.
    loaded: bool,
}

/// Where a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowPlace {
    Window {
        window: u64,
        rows_before: u64,
    },
    /// The stream has only so many windows and rows.
    After {
        windows: u64,
        rows: u64,
    },
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
        let position = self.position_of(step)?;
        self.iterator(position, self.config().batch_sizes.clone())
    }

    /// The batches after a saved state. The number of hosts and the batch size may have changed since.
    pub fn resume(&self, state: &DatasetState) -> Result<DatasetIterator, DatasetError> {
        state.check_stream(self.stream.fingerprint, &self.stream.words)?;
        self.iterator(state.position(), state.batch_sizes.continued(state.step, &self.config().batch_sizes))
    }

    fn iterator(&self, position: StreamPosition, sizes: BatchSizes) -> Result<DatasetIterator, DatasetError> {
        let windows = Windows::Stored(Arc::clone(&self.windows));
        DatasetIterator::new(Arc::clone(&self.stream), windows, position, sizes)
    }

    /// Rows in the whole stream; `None` if it is open-ended.
    pub fn num_rows(&self) -> Result<Option<u64>, DatasetError> {
        if self.windows.num_windows().is_none() {
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

    /// Finds the window of a row, counting the rows of windows as far as need be.
    pub(super) fn place_of(&self, row: u64) -> Result<RowPlace, DatasetError> {
        if row == 0 && self.windows.num_windows() != Some(0) {
            return Ok(RowPlace::Window { window: 0, rows_before: 0 });
        }
        if !self.config().is_packed() {
            return Ok(self.place_of_unpacked(row));
        }
        self.with_index(
            |rows| rows.num_rows() > row,
            |rows| match rows.window_of(row) {
                Some((window, rows_before)) => RowPlace::Window { window, rows_before },
                None => RowPlace::After { windows: rows.num_windows(), rows: rows.num_rows() },
            },
        )
    }

    /// Rows in the windows before `window`.
    pub(super) fn rows_before(&self, window: u64) -> Result<u64, DatasetError> {
        if !self.config().is_packed() {
            return Ok(self.windows.positions(window).start);
        }
        self.with_index(
            |rows| rows.num_windows() >= window,
            |rows| rows.rows_before(window).unwrap_or_else(|| rows.num_rows()),
        )
    }

    /// Without packing a row is a position.
    fn place_of_unpacked(&self, row: u64) -> RowPlace {
        let window = row / self.stream.window;
        let positions = self.windows.positions(window);
        if positions.contains(&row) {
            return RowPlace::Window { window, rows_before: positions.start };
        }
        let windows = self.windows.num_windows().unwrap_or(u64::MAX);
        RowPlace::After { windows, rows: self.windows.positions(windows).start }
    }

    /// Looks something up in the index, after counting windows until it is known or the stream ends.
    fn with_index<R>(
        &self,
        known: impl Fn(&RowIndex) -> bool,
        look: impl FnOnce(&RowIndex) -> R,
    ) -> Result<R, DatasetError> {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        if !known(&index.rows) && !std::mem::replace(&mut index.loaded, true) {
            let stored = self.index_file.load(&self.stream.fingerprint);
            index.rows = stored.filter(|rows| rows.num_windows() > 0).unwrap_or_default();
        }
        let counted_before = index.rows.num_windows();
        let last = self.windows.num_windows().unwrap_or(u64::MAX);
        let mut count = FIRST_COUNT;
        let mut barren = 0;
        while !known(&index.rows) && index.rows.num_windows() < last {
            let from = index.rows.num_windows();
            let to = from.saturating_add(count).min(last);
            let rows = self.in_parallel(|| {
                let windows = (from..to).into_par_iter();
                windows
                    .map(|window| self.windows.with_plan(window, |plan| plan.num_rows() as u32))
                    .collect::<Vec<_>>()
            })?;
            barren = if rows.iter().all(|rows| *rows == 0) { barren + rows.len() as u64 } else { 0 };
            if barren > self.windows.windows_an_epoch() && self.windows.num_windows().is_none() {
                return Err(self.stream.no_tokens());
            }
            index.rows.extend(rows);
            count = (count * 2).min(LAST_COUNT);
        }
        if index.rows.num_windows() > counted_before {
            // Wherever it cannot be written it is counted again next time.
            let _ = self.index_file.save(&self.stream.fingerprint, &index.rows);
        }
        Ok(look(&index.rows))
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
        if config.order != crate::dataset::OrderKind::Storage {
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
        let features: Vec<String> = stream.features().iter().map(|feature| (*feature).to_owned()).collect();
        let windows = ReadWindows {
            writer: Arc::new(stream.writer(&features)?),
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
