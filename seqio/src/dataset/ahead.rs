//! The dispatcher of a stream: walks over the steps and gives out the planning of windows and the filling of batches.
//!
//! ```text
//! workers     plan w0 | fill 0 | fill 1 | plan w1 | fill 2 | …     in any order, on any thread
//! consumer                0        1                  2            in order
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use crossbeam_channel::Receiver;

use crate::batch::Batch;
use crate::convert::RowWriter;
use crate::dataset::cursor::{Cursor, NoStep, StepRows};
use crate::dataset::error::DatasetError;
use crate::dataset::fill::{BatchPool, fill};
use crate::dataset::infeed::{Dispatcher, Stopped, caught};
use crate::dataset::state::StreamPosition;
use crate::dataset::stream::Stream;
use crate::dataset::window::{StoredWindows, Window};
use crate::dataset::window_source::Windows;

/// Small batches are filled several a job, up to this size: waking a thread costs as much as filling 50 kB.
const JOB_BYTES: u64 = 1 << 20;

/// Windows planned ahead, at most.
const WINDOWS_AHEAD: usize = 4;

/// What reaches the consumer.
pub(crate) enum Delivery {
    Batch(Result<Batch, DatasetError>, StreamPosition),
    End { dropped_rows: u64 },
    Failed(DatasetError),
}

impl Delivery {
    /// Makes the batch of a step; a panic is its error.
    pub(crate) fn fill(
        stream: &Stream,
        writer: &RowWriter,
        step: &StepRows<Window>,
        pool: &BatchPool,
    ) -> Self {
        let batch = caught(|| fill(stream, writer, step, pool));
        let panicked = |message| Err(stream.panicked(format!("step {}", step.step), message));
        Self::Batch(batch.unwrap_or_else(panicked), step.after)
    }
}

/// What the dispatcher knows of its stream.
pub(crate) struct Ahead {
    pub(crate) stream: Arc<Stream>,
    pub(crate) pool: Arc<BatchPool>,
    pub(crate) threads: usize,
    /// Batches a job at most.
    pub(crate) most_steps: usize,
}

/// Why the dispatcher has no window.
enum NoWindow {
    Stopped,
    Failed(DatasetError),
}

impl Ahead {
    /// Runs until the stream ends or the consumer goes.
    pub(crate) fn run(
        self,
        dispatcher: &Dispatcher<Vec<Delivery>>,
        mut cursor: Cursor<Window>,
        mut windows: Windows,
    ) -> Result<(), Stopped> {
        let writer = windows.writer();
        if let Windows::Read(read) = &mut windows {
            read.reader.stop_at(dispatcher.stop_flag());
        }
        let mut asked = Asked { next: None, waiting: VecDeque::new() };
        // The first batch goes alone, so that it need not wait for others.
        let mut most_steps = 1;
        loop {
            let (mut steps, mut bytes, mut end) = (Vec::new(), 0, None);
            while end.is_none() && steps.len() < most_steps && bytes < JOB_BYTES {
                let step = cursor.next(|index| match &mut windows {
                    Windows::Stored(stored) => asked.window(dispatcher, stored, index, self.threads),
                    Windows::Read(_) => windows.window(&self.stream, index).map_err(NoWindow::Failed),
                });
                match step {
                    Ok(step) => {
                        bytes += self.bytes(&writer, step.size);
                        steps.push(step);
                    }
                    Err(NoStep::End) => end = Some(Delivery::End { dropped_rows: cursor.dropped_rows() }),
                    Err(NoStep::Barren) => end = Some(Delivery::Failed(self.stream.no_tokens())),
                    Err(NoStep::Failed(NoWindow::Failed(error))) => end = Some(Delivery::Failed(error)),
                    Err(NoStep::Failed(NoWindow::Stopped)) => return Err(Stopped),
                }
            }
            self.deliver(dispatcher, &writer, steps)?;
            if let Some(end) = end {
                return dispatcher.hand_over(vec![end]);
            }
            most_steps = self.most_steps;
        }
    }

    /// Size of this host's part of a batch of `batch_size` rows.
    fn bytes(&self, writer: &RowWriter, batch_size: u64) -> u64 {
        let rows = self.stream.config.host.rows(batch_size);
        let places: u64 = writer.model_features().iter().map(|feature| feature.length as u64).sum();
        (rows.end - rows.start) * 4 * places
    }

    fn deliver(
        &self,
        dispatcher: &Dispatcher<Vec<Delivery>>,
        writer: &Arc<RowWriter>,
        steps: Vec<StepRows<Window>>,
    ) -> Result<(), Stopped> {
        if steps.is_empty() {
            return Ok(());
        }
        let (stream, pool, writer) = (Arc::clone(&self.stream), Arc::clone(&self.pool), Arc::clone(writer));
        dispatcher
            .deliver(move || steps.iter().map(|step| Delivery::fill(&stream, &writer, step, &pool)).collect())
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
        dispatcher: &Dispatcher<Vec<Delivery>>,
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
                if windows.known_windows().is_some_and(|last| next >= last) {
                    break;
                }
                self.ask(dispatcher, windows, next)?;
            }
        }
        Ok(planned.map_err(NoWindow::Failed)?.map(Arc::new))
    }

    fn ask(
        &mut self,
        dispatcher: &Dispatcher<Vec<Delivery>>,
        windows: &Arc<StoredWindows>,
        index: u64,
    ) -> Result<(), NoWindow> {
        let (windows, stream) = (Arc::clone(windows), Arc::clone(&windows.stream));
        // Where it begins is counted here, once, and not by each worker that plans a window after it.
        windows.reach(index, false).map_err(NoWindow::Failed)?;
        let planned = dispatcher.ask(move || {
            caught(|| windows.window(index))
                .unwrap_or_else(|message| Err(stream.panicked(format!("window {index}"), message)))
        });
        self.waiting.push_back(planned.map_err(|Stopped| NoWindow::Stopped)?);
        Ok(())
    }
}
