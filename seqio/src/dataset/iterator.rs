//! A cursor over batches, which works ahead of its consumer.
//!
//! ```text
//! for batch in dataset.iter()? { … }        batch 0, batch 1, …: the same with any number of threads
//! iterator.state()                          after batch s: goes on with s + 1, here or elsewhere
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::batch::Batch;
use crate::dataset::ahead::{Ahead, Delivery};
use crate::dataset::batch_sizes::BatchSizes;
use crate::dataset::cursor::{Cursor, NoStep};
use crate::dataset::error::DatasetError;
use crate::dataset::fill::BatchPool;
use crate::dataset::infeed::{AtDrop, Infeed};
use crate::dataset::state::{DatasetState, StreamPosition};
use crate::dataset::stream::Stream;
use crate::dataset::window::{StoredWindows, Window};
use crate::dataset::window_source::Windows;

/// Batches in order, from some step on.
///
/// An error stands for its batch, and the next call gives the batch after it; where windows cannot be read the stream
/// ends with the error. Dropping the iterator stops its threads.
pub struct DatasetIterator {
    stream: Arc<Stream>,
    sizes: BatchSizes,
    position: StreamPosition,
    work: Work,
    /// Knows where items begin.
    stored: Option<Arc<StoredWindows>>,
    pool: Arc<BatchPool>,
    waited: Duration,
    dropped_rows: u64,
    finished: bool,
}

enum Work {
    /// On the consumer's thread.
    Here(Box<(Cursor<Window>, Windows)>),
    /// On other threads; and what has come from them already.
    Ahead(Infeed<Vec<Delivery>>, VecDeque<Delivery>),
}

impl std::fmt::Debug for DatasetIterator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DatasetIterator({}, step {})", self.stream.task, self.position.step)
    }
}

impl DatasetIterator {
    pub(crate) fn new(
        stream: Arc<Stream>,
        windows: Windows,
        position: StreamPosition,
        sizes: BatchSizes,
    ) -> Result<Self, DatasetError> {
        let config = &stream.config;
        let empty_limit = match &windows {
            Windows::Stored(stored) => stored.barren_windows(),
            // How long an epoch is shows only at its end, so `ReadWindows` looks itself.
            Windows::Read(_) => u64::MAX,
        };
        let stored = match &windows {
            Windows::Stored(stored) => Some(Arc::clone(stored)),
            Windows::Read(_) => None,
        };
        let cursor = Cursor::new(position, sizes.clone(), config.drop_remainder, empty_limit);
        let threads =
            config.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let pool = Arc::new(BatchPool::new(2 * config.read_ahead + 4));
        let work = if config.read_ahead == 0 {
            Work::Here(Box::new((cursor, windows)))
        } else {
            let (at_drop, most_steps) = match &windows {
                // Every thread should find a job, and the consumer something to do.
                Windows::Stored(_) => (AtDrop::Waits, (config.read_ahead / (threads + 1)).max(1)),
                // A batch that is ready does not wait for the reading of the next one's window.
                Windows::Read(_) => (AtDrop::Leaves, 1),
            };
            let ahead = Ahead { stream: Arc::clone(&stream), pool: Arc::clone(&pool), threads, most_steps };
            let infeed = Infeed::start(threads, config.read_ahead / most_steps, at_drop, move |dispatcher| {
                ahead.run(dispatcher, cursor, windows)
            });
            let infeed = infeed.map_err(|error| DatasetError::Setting {
                setting: "threads",
                problem: format!("{threads} threads cannot be started: {error}"),
            })?;
            Work::Ahead(infeed, VecDeque::new())
        };
        Ok(Self {
            stream,
            sizes,
            position,
            work,
            stored,
            pool,
            waited: Duration::ZERO,
            dropped_rows: 0,
            finished: false,
        })
    }

    /// Where the stream stands: after the last batch that was given out.
    pub fn state(&self) -> DatasetState {
        let sizes = self.sizes.until(self.position.step);
        let grouped = self.stored.as_ref().and_then(|stored| stored.grouped());
        let first = self.position.window.saturating_mul(self.stream.window);
        let items = grouped.and_then(|grouped| grouped.anchor_at(first));
        let mut state =
            DatasetState::new(self.position, sizes, self.stream.fingerprint, self.stream.words.clone());
        state.items = items;
        state
    }

    /// The next step.
    pub fn step(&self) -> u64 {
        self.position.step
    }

    /// Batch sizes of all steps, those before a restart among them.
    pub fn batch_sizes(&self) -> &BatchSizes {
        &self.sizes
    }

    /// Takes a batch back, so that its memory is used again.
    pub fn recycle(&mut self, batch: Batch) {
        self.pool.give_back(batch);
    }

    /// How long the consumer has waited for batches in all, in milliseconds.
    pub fn infeed_wait_ms(&self) -> f64 {
        self.waited.as_secs_f64() * 1e3
    }

    /// Rows at the end that were left out because they do not fill a batch; 0 until the end is reached.
    pub fn dropped_rows(&self) -> u64 {
        self.dropped_rows
    }

    fn delivery(&mut self) -> Delivery {
        match &mut self.work {
            Work::Here(work) => {
                let (cursor, windows) = work.as_mut();
                let writer = windows.writer();
                match cursor.next(|index| windows.window(&self.stream, index)) {
                    Ok(step) => Delivery::fill(&self.stream, &writer, &step, &self.pool),
                    Err(NoStep::End) => Delivery::End { dropped_rows: cursor.dropped_rows() },
                    Err(NoStep::Barren) => Delivery::Failed(self.stream.no_tokens()),
                    Err(NoStep::Failed(error)) => Delivery::Failed(error),
                }
            }
            Work::Ahead(infeed, ready) => {
                while ready.is_empty() {
                    let Some(Ok(deliveries)) = infeed.next() else {
                        return Delivery::Failed(
                            self.stream.panicked("planning".to_owned(), "no message".to_owned()),
                        );
                    };
                    ready.extend(deliveries);
                }
                ready.pop_front().expect("looked at above")
            }
        }
    }
}

impl Iterator for DatasetIterator {
    type Item = Result<Batch, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        let asked = Instant::now();
        let delivery = self.delivery();
        self.waited += asked.elapsed();
        match delivery {
            Delivery::Batch(Ok(batch), after) => {
                self.position = after;
                Some(Ok(batch))
            }
            Delivery::Batch(Err(error), _) => Some(Err(error)),
            Delivery::End { dropped_rows } => {
                (self.finished, self.dropped_rows) = (true, dropped_rows);
                None
            }
            Delivery::Failed(error) => {
                self.finished = true;
                Some(Err(error))
            }
        }
    }
}
