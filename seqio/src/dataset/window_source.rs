//! Where planned windows come from: a stored split, any of them; or examples read on the fly, one after the other.

use std::sync::Arc;

use crate::convert::{RowWriter, WindowPlanner};
use crate::dataset::cursor::Rows as _;
use crate::dataset::error::DatasetError;
use crate::dataset::infeed::caught;
use crate::dataset::stream::Stream;
use crate::dataset::window::{StoredWindows, Window};
use crate::dataset::window_reader::WindowReader;

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
