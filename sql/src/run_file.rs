//! A sorted run in a temporary file, which goes with whoever holds it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use crate::error::SqlError;

/// A file that is deleted when it is dropped.
#[derive(Debug)]
pub(crate) struct RunFile(TempPath);

impl RunFile {
    /// An empty file below this folder, which is made if need be, or in that of the system; open for writing.
    pub(crate) fn create(folder: Option<&Path>) -> Result<(Self, File), SqlError> {
        let folder = folder.map_or_else(std::env::temp_dir, PathBuf::from);
        let created = fs::create_dir_all(&folder)
            .and_then(|()| tempfile::Builder::new().prefix("sorted-rows-").tempfile_in(&folder));
        let (file, path) = created.map_err(|error| cannot("write", &folder, &error))?.into_parts();
        Ok((Self(path), file))
    }

    /// The file from its beginning.
    pub(crate) fn open(&self) -> Result<File, SqlError> {
        File::open(&self.0).map_err(|error| cannot("read", &self.0, &error))
    }

    /// That it could not be written, in words.
    pub(crate) fn cannot_write(&self, error: &io::Error) -> SqlError {
        cannot("write", &self.0, error)
    }
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> SqlError {
    let path = path.display();
    SqlError::Run(format!("cannot {what} the temporary file {path}: {error}"))
}
