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
use crate::dataset::cursor::{Cursor, NoStep};
use crate::dataset::error::DatasetError;
use crate::dataset::fill::{BatchPool, fill};
use crate::dataset::infeed::{Dispatcher, Stopped};
use crate::dataset::state::StreamPosition;
use crate::dataset::stream::Stream;
use crate::dataset::window::{StoredWindows, Window};
use crate::dataset::window_source::Windows;

/// Windows planned ahead, at most.
const WINDOWS_AHEAD: usize = 4;

/// What reaches the consumer.
pub(crate) enum Delivery {
    Batch(Result<Batch, DatasetError>, StreamPosition),
    End { dropped_rows: u64 },
    Failed(DatasetError),
}

/// What the dispatcher knows of its stream.
pub(crate) struct Ahead {
    pub(crate) stream: Arc<Stream>,
    pub(crate) pool: Arc<BatchPool>,
    pub(crate) threads: usize,
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
