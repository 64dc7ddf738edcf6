//! A file that grows by whole pieces.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::log::LogError;

/// A file that grows by whole pieces, each handed to the system before the call returns.
#[derive(Debug)]
pub(super) struct Append {
    file: File,
    path: PathBuf,
    length: u64,
}

impl Append {
    /// Opens a file, or makes it.
    pub(super) fn open(path: &Path, options: &mut OpenOptions) -> Result<Self, LogError> {
        let open = |error| LogError::io("open", path)(error);
        let file = options.append(true).open(path).map_err(open)?;
        let length = file.metadata().map_err(open)?.len();
        Ok(Self { file, path: path.to_owned(), length })
    }

    /// Appends a piece. If that fails, as on a full disk, no part of it stays before the next.
    pub(super) fn piece(&mut self, bytes: &[u8]) -> Result<(), LogError> {
        if let Err(error) = self.file.write_all(bytes) {
            // What was written of it is cut off; if even that fails, the next error will tell.
            let _ = self.file.set_len(self.length);
            return Err(LogError::io("write", &self.path)(error));
        }
        self.length += bytes.len() as u64;
        Ok(())
    }
}
