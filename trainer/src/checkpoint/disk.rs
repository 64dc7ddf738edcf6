//! Files and folders, each change of them on the disk before the next counts on it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::checkpoint::error::CheckpointError;
#[cfg(test)]
use crate::checkpoint::faults::before;

/// Nothing fails on purpose outside of tests.
#[cfg(not(test))]
fn before(_action: &'static str, _path: &Path) -> io::Result<()> {
    Ok(())
}

/// What is written at once, and hashed while it is warm.
const BLOCK: usize = if cfg!(test) { 1 << 10 } else { 4 << 20 };

/// The end of the name of what is being written: nobody else's.
pub(crate) fn suffix() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{ASIDE}{:x}-{now:x}-{next:x}", std::process::id())
}

/// What comes between a name and what makes it nobody else's.
pub(crate) const ASIDE: &str = ".tmp-";

/// What a file has to be when it is read again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileRecord {
    /// Its length.
    pub(crate) bytes: u64,
    /// The blake3 hash of its bytes.
    pub(crate) blake3: String,
}

/// A new file, hashed while it is written.
pub(crate) struct NewFile {
    file: File,
    path: PathBuf,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl NewFile {
    pub(crate) fn create(path: &Path) -> Result<Self, CheckpointError> {
        let file = before("create", path)
            .and_then(|()| OpenOptions::new().write(true).create_new(true).open(path))
            .map_err(CheckpointError::io("create", path))?;
        Ok(Self { file, path: path.to_owned(), hasher: blake3::Hasher::new(), bytes: 0 })
    }

    /// Appends bytes.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        self.write_all(bytes).map_err(CheckpointError::io("write", &self.path))
    }

    /// Waits until it is on the disk.
    pub(crate) fn finish(self) -> Result<FileRecord, CheckpointError> {
        before("sync", &self.path)
            .and_then(|()| self.file.sync_all())
            .map_err(CheckpointError::io("write", &self.path))?;
        Ok(FileRecord { bytes: self.bytes, blake3: self.hasher.finalize().to_hex().to_string() })
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        before("write", &self.path)?;
        let written = self.file.write(&bytes[..bytes.len().min(BLOCK)])?;
        self.hasher.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a file is what was recorded of it, or what is wrong.
pub(crate) fn verify(path: &Path, record: &FileRecord) -> Result<(), CheckpointError> {
    verify_length(path, record)?;
    let file = File::open(path).map_err(CheckpointError::io("read", path))?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file).map_err(CheckpointError::io("read", path))?;
    if hasher.finalize().to_hex().as_str() != record.blake3 {
        return Err(CheckpointError::damaged(path, "its hash is not the one it was written with"));
    }
    Ok(())
}

/// Whether a file is there with the length that was recorded of it.
pub(crate) fn verify_length(path: &Path, record: &FileRecord) -> Result<(), CheckpointError> {
    let found = match fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(CheckpointError::damaged(path, "it is missing"));
        }
        Err(error) => return Err(CheckpointError::io("read", path)(error)),
    };
    if found != record.bytes {
        let problem = format!("it has {found} bytes, but was written with {}", record.bytes);
        return Err(CheckpointError::damaged(path, problem));
    }
    Ok(())
}

/// Creates a folder whose parent exists.
pub(crate) fn create_folder(path: &Path) -> Result<(), CheckpointError> {
    before("create folder", path)
        .and_then(|()| fs::create_dir(path))
        .map_err(CheckpointError::io("create", path))
}

/// Makes the names in a folder last through a power cut.
pub(crate) fn sync_folder(path: &Path) -> Result<(), CheckpointError> {
    before("sync folder", path)
        .and_then(|()| File::open(path)?.sync_all())
        .map_err(CheckpointError::io("sync", path))
}

/// Gives a folder another name.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), CheckpointError> {
    before("rename", from).and_then(|()| fs::rename(from, to)).map_err(CheckpointError::io("rename", from))
}

/// Gives two folders each other's names, at once where the system can: whenever the process dies, both are there.
pub(crate) fn exchange(one: &Path, other: &Path) -> Result<(), CheckpointError> {
    before("exchange", one).map_err(CheckpointError::io("rename", one))?;
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        if renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok() {
            return Ok(());
        }
    }
    let mut third = one.as_os_str().to_owned();
    third.push("-replaced");
    let third = PathBuf::from(third);
    rename(other, &third)?;
    rename(one, other)?;
    rename(&third, one)
}

/// Deletes those of these files that are in a folder, then the folder, unless somebody else left something in it.
pub(crate) fn remove_folder(path: &Path, files: &[&str]) -> Result<(), CheckpointError> {
    for file in files {
        let file = path.join(file);
        match before("remove", &file).and_then(|()| fs::remove_file(&file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(CheckpointError::io("remove", &file)(error));
            }
            _ => {}
        }
    }
    match before("remove", path).and_then(|()| fs::remove_dir(path)) {
        Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => {
            Err(CheckpointError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}
