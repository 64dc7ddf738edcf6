//! Why the choices of a whole-split step cannot be made or read.

use std::path::{Path, PathBuf};

/// Why the choices of a whole-split step cannot be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WholeSplitError {
    /// The system refused something.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// What was tried, as `write`.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: std::io::Error,
    },
    /// The work was asked to stop.
    #[error("stopped while looking for duplicates")]
    Stopped,
}

impl WholeSplitError {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Io { action, path, error }
    }
}
