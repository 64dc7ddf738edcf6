//! A cursor over batches, which works ahead of its consumer.
//!
//! ```text
//! for batch in dataset.iter()? { … }        batch 0, batch 1, …: the same with any number of threads
//! iterator.state()                          after batch s: goes on with s + 1, here or elsewhere
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use crate::batch::Batch;
use crate::convert::{RowWriter, WindowPlanner};
use crate::dataset::batch_sizes::BatchSizes;
use crate::dataset::cursor::{Cursor, NoStep, Rows as _};
use crate::dataset::error::DatasetError;
use crate::dataset::fill::{BatchPool, fill};
use crate::dataset::infeed::{AtDrop, Dispatcher, Infeed, Stopped, caught};
use crate::dataset::state::{DatasetState, StreamPosition};
use crate::dataset::stream::Stream;
use crate::dataset::window::{StoredWindows, Window};
use crate::dataset::window_reader::WindowReader;

/// Windows planned ahead, at most.
const WINDOWS_AHEAD: usize = 4;

/// Batches in order, from some step on.
///
/// An error stands for its batch, and the next call gives the batch after it; where windows cannot be read the stream
/// ends with the error. Dropping the iterator stops its threads.
pub struct DatasetIterator {
    stream: Arc<Stream>,
    sizes: BatchSizes,
    position: StreamPosition,
    work: Work,
    pool: Arc<BatchPool>,
    waited: Duration,
    dropped_rows: u64,
    finished: bool,
}

enum Work {
    /// On the consumer's thread.
    Here(Box<(Cursor<Window>, Windows)>),
    Ahead(Infeed<Delivery>),
}

/// Where windows come from.
pub(crate) enum Windows {
    Stored(Arc<StoredWindows>),
    Read(Box<ReadWindows>),
}

/// Windows of examples that are read in order.
pub(crate) struct ReadWindows {
    pub(crate) reader: WindowReader,
    pub(crate) planner: WindowPlanner,
    pub(crate) writer: Arc<RowWriter>,
    /// Windows without a row, one after the other, up to here.
    pub(crate) barren: u64,
}

/// What reaches the consumer.
enum Delivery {
    Batch(Result<Batch, DatasetError>, StreamPosition),
    End { dropped_rows: u64 },
    Failed(DatasetError),
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
            Windows::Stored(stored) => stored.windows_an_epoch(),
            // How long an epoch is shows only at its end, so `ReadWindows` looks itself.
            Windows::Read(_) => u64::MAX,
        };
        let cursor = Cursor::new(position, sizes.clone(), config.drop_remainder, empty_limit);
        let threads =
            config.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let pool = Arc::new(BatchPool::new(config.read_ahead + 2));
        let work = if config.read_ahead == 0 {
            Work::Here(Box::new((cursor, windows)))
        } else {
            let ahead = Ahead { stream: Arc::clone(&stream), pool: Arc::clone(&pool), threads };
            let at_drop = match &windows {
                Windows::Stored(_) => AtDrop::Waits,
                Windows::Read(_) => AtDrop::Leaves,
            };
            let infeed = Infeed::start(threads, config.read_ahead, at_drop, move |dispatcher| {
                ahead.run(dispatcher, cursor, windows)
            });
            Work::Ahead(infeed.map_err(|error| DatasetError::Setting {
                setting: "threads",
                problem: format!("{threads} threads cannot be started: {error}"),
            })?)
        };
        Ok(Self {
            stream,
            sizes,
            position,
            work,
            pool,
            waited: Duration::ZERO,
            dropped_rows: 0,
            finished: false,
        })
    }

    /// Where the stream stands: after the last batch that was given out.
    pub fn state(&self) -> DatasetState {
        let sizes = self.sizes.until(self.position.step);
        DatasetState::new(self.position, sizes, self.stream.fingerprint, self.stream.words.clone())
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
                    Ok(step) => {
                        let batch = caught(|| fill(&self.stream, &writer, &step, &self.pool));
                        let place = || format!("step {}", step.step);
                        let batch =
                            batch.unwrap_or_else(|message| Err(self.stream.panicked(place(), message)));
                        Delivery::Batch(batch, step.after)
                    }
                    Err(NoStep::End) => Delivery::End { dropped_rows: cursor.dropped_rows() },
                    Err(NoStep::Barren) => Delivery::Failed(self.stream.no_tokens()),
                    Err(NoStep::Failed(error)) => Delivery::Failed(error),
                }
            }
            Work::Ahead(infeed) => match infeed.next() {
                Some(Ok(delivery)) => delivery,
                Some(Err(Stopped)) | None => {
                    Delivery::Failed(self.stream.panicked("planning".to_owned(), "no message".to_owned()))
                }
            },
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

impl Windows {
    fn writer(&self) -> Arc<RowWriter> {
        match self {
            Self::Stored(stored) => Arc::clone(&stored.writer),
            Self::Read(read) => Arc::clone(&read.writer),
        }
    }

    fn window(&mut self, stream: &Stream, index: u64) -> Result<Option<Arc<Window>>, DatasetError> {
        let planned = match self {
            Self::Stored(stored) => caught(|| Ok(stored.window(index))),
            Self::Read(read) => caught(|| read.window(stream, index)),
        };
        let planned =
            planned.unwrap_or_else(|message| Err(stream.panicked(format!("window {index}"), message)));
        Ok(planned?.map(Arc::new))
    }
}

impl ReadWindows {
    fn window(&mut self, stream: &Stream, index: u64) -> Result<Option<Window>, DatasetError> {
        let Some(examples) = self.reader.read(index)? else {
            return Ok(None);
        };
        let window = Window::of_store(&mut self.planner, Arc::clone(&self.writer), Arc::new(examples), index);
        self.barren = if window.num_rows() == 0 { self.barren + 1 } else { 0 };
        let epoch = self.reader.windows_an_epoch().filter(|_| stream.config.epochs.is_none());
        match epoch {
            Some(windows) if self.barren > windows => Err(stream.no_tokens()),
            _ => Ok(Some(window)),
        }
    }
}

/// The dispatcher: walks over the steps and gives out their work.
struct Ahead {
    stream: Arc<Stream>,
    pool: Arc<BatchPool>,
    threads: usize,
}

/// Why the dispatcher has no window.
enum NoWindow {
    Stopped,
    Failed(DatasetError),
}

impl Ahead {
    fn run(
        self,
        dispatcher: &Dispatcher<Delivery>,
        mut cursor: Cursor<Window>,
        mut windows: Windows,
    ) -> Result<(), Stopped> {
        let writer = windows.writer();
        if let Windows::Read(read) = &mut windows {
            read.reader.stop_at(dispatcher.stop_flag());
        }
        let mut asked = Asked { next: None, waiting: VecDeque::new() };
        loop {
            let step = cursor.next(|index| match &mut windows {
                Windows::Stored(stored) => asked.window(dispatcher, stored, index, self.threads),
                Windows::Read(_) => windows.window(&self.stream, index).map_err(NoWindow::Failed),
            });
            let step = match step {
                Ok(step) => step,
                Err(NoStep::End) => {
                    return dispatcher.hand_over(Delivery::End { dropped_rows: cursor.dropped_rows() });
                }
                Err(NoStep::Barren) => {
                    return dispatcher.hand_over(Delivery::Failed(self.stream.no_tokens()));
                }
                Err(NoStep::Failed(NoWindow::Failed(error))) => {
                    return dispatcher.hand_over(Delivery::Failed(error));
                }
                Err(NoStep::Failed(NoWindow::Stopped)) => return Err(Stopped),
            };
            let (stream, pool, writer) =
                (Arc::clone(&self.stream), Arc::clone(&self.pool), Arc::clone(&writer));
            let (number, after, owner) = (step.step, step.after, Arc::clone(&self.stream));
            dispatcher.deliver(
                move || Delivery::Batch(fill(&stream, &writer, &step, &pool), after),
                move |message| Delivery::Batch(Err(owner.panicked(format!("step {number}"), message)), after),
            )?;
        }
    }
}

type Planned = Result<Option<Window>, DatasetError>;

/// Windows that workers are planning, in order.
struct Asked {
    next: Option<u64>,
    waiting: VecDeque<Receiver<Planned>>,
}

impl Asked {
    /// Window `index`, which follows the last one; others after it are asked for ahead.
    fn window(
        &mut self,
        dispatcher: &Dispatcher<Delivery>,
        windows: &Arc<StoredWindows>,
        index: u64,
        threads: usize,
    ) -> Result<Option<Arc<Window>>, NoWindow> {
        debug_assert!(self.next.is_none_or(|next| next == index), "windows are asked for in order");
        let first = self.next.is_none();
        if self.waiting.is_empty() {
            self.ask(dispatcher, windows, index)?;
        }
        let Some(planned) = self.waiting.pop_front() else {
            return Ok(None);
        };
        self.next = Some(index + 1);
        let planned = planned.recv().map_err(|_| NoWindow::Stopped)?;
        // Not with the first window, so that the first batches need not wait for plans of later ones.
        if !first {
            while self.waiting.len() < threads.min(WINDOWS_AHEAD) {
                let next = index + 1 + self.waiting.len() as u64;
                if windows.num_windows().is_some_and(|last| next >= last) {
                    break;
                }
                self.ask(dispatcher, windows, next)?;
            }
        }
        Ok(planned.map_err(NoWindow::Failed)?.map(Arc::new))
    }

    fn ask(
        &mut self,
        dispatcher: &Dispatcher<Delivery>,
        windows: &Arc<StoredWindows>,
        index: u64,
    ) -> Result<(), NoWindow> {
        let (windows, stream) = (Arc::clone(windows), Arc::clone(&windows.stream));
        let planned = dispatcher.ask(
            move || Ok(windows.window(index)),
            move |message| Err(stream.panicked(format!("window {index}"), message)),
        );
        self.waiting.push_back(planned.map_err(|Stopped| NoWindow::Stopped)?);
        Ok(())
    }
}
