//! Where planned windows come from: a stored split, any of them; or examples read on the fly, one after the other.

use std::sync::Arc;

use crate::convert::{RowWriter, WindowPlanner};
use crate::dataset::cursor::Rows as _;
use crate::dataset::error::DatasetError;
use crate::dataset::infeed::caught;
use crate::dataset::items::ItemReader;
use crate::dataset::stream::Stream;
use crate::dataset::window::{MOST_EMPTY_WINDOWS, StoredWindows, Window};
use crate::dataset::window_reader::WindowReader;

/// Where windows come from.
pub(crate) enum Windows {
    Stored(Arc<StoredWindows>),
    Read(Box<ReadWindows>),
}

/// Windows of examples that are read in order.
pub(crate) struct ReadWindows {
    pub(crate) reader: WindowReader,
    /// What makes items of examples, if they are not the same.
    pub(crate) items: Option<ItemReader>,
    pub(crate) planner: WindowPlanner,
    pub(crate) writer: Arc<RowWriter>,
    /// Windows without a row, one after the other, up to here.
    pub(crate) barren: u64,
}

impl Windows {
    /// What writes rows of its windows.
    pub(crate) fn writer(&self) -> Arc<RowWriter> {
        match self {
            Self::Stored(stored) => Arc::clone(&stored.writer),
            Self::Read(read) => Arc::clone(&read.writer),
        }
    }

    /// Window `index`; `None` after the end. A panic is an error.
    pub(crate) fn window(
        &mut self,
        stream: &Stream,
        index: u64,
    ) -> Result<Option<Arc<Window>>, DatasetError> {
        let planned = match self {
            Self::Stored(stored) => caught(|| stored.window(index)),
            Self::Read(read) => caught(|| read.window(stream, index)),
        };
        let planned =
            planned.unwrap_or_else(|message| Err(stream.panicked(format!("window {index}"), message)));
        Ok(planned?.map(Arc::new))
    }
}

impl ReadWindows {
    fn window(&mut self, stream: &Stream, index: u64) -> Result<Option<Window>, DatasetError> {
        let (planner, writer) = (&mut self.planner, Arc::clone(&self.writer));
        let window = match &mut self.items {
            Some(items) => {
                let items = items.read(&mut self.reader, stream, index)?;
                items.map(|items| Window::of_items(planner, writer, items, index))
            }
            None => {
                let examples = self.reader.read(index)?;
                examples.map(|examples| Window::of_store(planner, writer, Arc::new(examples), index))
            }
        };
        let Some(window) = window else {
            return Ok(None);
        };
        self.barren = if window.num_rows() == 0 { self.barren + 1 } else { 0 };
        let epoch = self.reader.windows_an_epoch().filter(|_| stream.config.epochs.is_none());
        let more = if self.items.is_some() { MOST_EMPTY_WINDOWS } else { 0 };
        match epoch {
            Some(windows) if self.barren > windows + more => Err(stream.no_tokens()),
            _ => Ok(Some(window)),
        }
    }
}
