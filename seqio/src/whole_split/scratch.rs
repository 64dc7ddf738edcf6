//! Room to sort in: a folder on a disk and a number of bytes of memory.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::whole_split::WholeSplitError;

/// Where whole-split steps may spill, and how much memory they may take. Nothing of it shows in what they choose.
#[derive(Clone, Debug)]
pub struct Scratch {
    /// A folder with room for about 100 bytes an example. Files in it have no name: they are gone with the process.
    pub folder: PathBuf,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Set by someone else to stop the work at the next chance.
    pub stop: Arc<AtomicBool>,
}

impl Scratch {
    /// Room in the system's folder for temporary files (`TMPDIR`).
    pub fn temporary(memory_bytes: u64) -> Self {
        Self { folder: std::env::temp_dir(), memory_bytes, stop: Arc::default() }
    }

    /// The same room with another amount of memory.
    pub(super) fn with_memory(&self, memory_bytes: u64) -> Self {
        Self { memory_bytes, ..self.clone() }
    }

    pub(super) fn check_stop(&self) -> Result<(), WholeSplitError> {
        if self.stop.load(Ordering::Relaxed) { Err(WholeSplitError::Stopped) } else { Ok(()) }
    }

    /// A new file without a name, and what to call it in messages.
    pub(super) fn file(&self) -> Result<(File, &Path), WholeSplitError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = self.folder.join(format!(".seqio-sort-{}-{number}", std::process::id()));
            let file = match File::options().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => file,
                // Of a process of the same number on another machine, or of one that died at this moment.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(WholeSplitError::io("create a file in", &self.folder)(error)),
            };
            std::fs::remove_file(&path).map_err(WholeSplitError::io("remove", &path))?;
            return Ok((file, &self.folder));
        }
    }
}
