//! What reading a source may take of the machine. Nothing of it shows in what is read.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Memory, a place for what does not fit into it, and a way to stop.
///
/// A file is read in a few MiB whatever this says; the result of a query is sorted within it.
#[derive(Clone, Debug)]
pub struct ReadBudget {
    /// Bytes that buffers may take.
    pub memory_bytes: u64,
    /// Folder for temporary files; that of the system if none is named.
    pub temporary: Option<PathBuf>,
    /// Set by someone else to stop at the next chance.
    pub cancel: Arc<AtomicBool>,
}

impl Default for ReadBudget {
    fn default() -> Self {
        Self { memory_bytes: 512 << 20, temporary: None, cancel: Arc::default() }
    }
}
