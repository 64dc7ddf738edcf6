//! One job at a time builds a cache.
//!
//! The lock is the operating system's own, which ends with its owner: a job killed in any way blocks nobody. The text
//! in the file only says who holds it. Where a folder is shared between machines, the system's lock may not reach the
//! other machine; there the text decides, and a job that did not end in peace has to be declared dead by a person.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::CacheError;
use crate::log::{host_name, unix_seconds, utc};

/// Who builds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    host: String,
    pid: u32,
    since_unix_seconds: u64,
}

impl Holder {
    fn words(&self) -> String {
        format!("process {} on `{}`, since {}", self.pid, self.host, utc(self.since_unix_seconds))
    }
}

/// The lock of a building folder, held until it is dropped.
#[derive(Debug)]
pub(crate) struct BuildLock {
    file: File,
    path: PathBuf,
}

impl BuildLock {
    /// Takes the lock, or says who has it.
    pub(crate) fn acquire(path: &Path, take_over: bool) -> Result<Self, CacheError> {
        loop {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)
                .map_err(CacheError::io("open", path))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(CacheError::Locked { holder: holder_words(&mut file) });
                }
                Err(TryLockError::Error(error)) => return Err(CacheError::io("lock", path)(error)),
            }
            // The owner before may have removed the file between our open and our lock.
            let ours = file.metadata().map_err(CacheError::io("read", path))?.ino();
            if fs::metadata(path).is_ok_and(|found| found.ino() == ours) {
                return Self::claim(file, path, take_over);
            }
        }
    }

    fn claim(mut file: File, path: &Path, take_over: bool) -> Result<Self, CacheError> {
        let text = read_text(&mut file);
        let host = host_name();
        if let Ok(holder) = serde_json::from_str::<Holder>(&text)
            && holder.host != host
            && !take_over
        {
            return Err(CacheError::LockedElsewhere { path: path.to_owned(), holder: holder.words() });
        }
        let holder = Holder { host, pid: std::process::id(), since_unix_seconds: unix_seconds() };
        let text = serde_json::to_string(&holder).expect("plain strings and numbers");
        file.set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| file.write_all(text.as_bytes()))
            .map_err(CacheError::io("write", path))?;
        Ok(Self { file, path: path.to_owned() })
    }
}

impl Drop for BuildLock {
    fn drop(&mut self) {
        // Removed while still locked, so that no one else's file goes. If it fails, the text has our own host's name
        // and blocks nobody here.
        let _ = fs::remove_file(&self.path);
        let _ = self.file.unlock();
    }
}

/// Whether a living job of this machine holds the lock.
pub(crate) fn is_held(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

fn read_text(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_string(&mut text));
    if read.is_ok() { text } else { String::new() }
}

fn holder_words(file: &mut File) -> String {
    match serde_json::from_str::<Holder>(&read_text(file)) {
        Ok(holder) => holder.words(),
        Err(_) => "it has not said who it is yet".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_builder_is_told_who_the_first_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".lock");
        let first = BuildLock::acquire(&path, false).unwrap();
        assert!(is_held(&path));
        let error = BuildLock::acquire(&path, true).unwrap_err();
        assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
        drop(first);
        assert!(!path.exists());
        BuildLock::acquire(&path, false).unwrap();
    }

    #[test]
    fn a_lock_of_another_machine_holds_until_it_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".lock");
        fs::write(&path, r#"{"host":"elsewhere","pid":7,"since_unix_seconds":1}"#).unwrap();
        let error = BuildLock::acquire(&path, false).unwrap_err();
        assert!(matches!(error, CacheError::LockedElsewhere { .. }), "{error}");
        assert!(error.hint().unwrap().contains("--take-over"));
        BuildLock::acquire(&path, true).unwrap();
    }

    #[test]
    fn a_dead_owner_on_this_machine_blocks_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".lock");
        let text = format!(r#"{{"host":"{}","pid":7,"since_unix_seconds":1}}"#, host_name());
        fs::write(&path, text).unwrap();
        BuildLock::acquire(&path, false).unwrap();
    }
}
