//! One job at a time builds a cache.
//!
//! The lock is the operating system's own, which ends with its owner: a job killed in any way blocks nobody. The text
//! in the file only says who holds it. Where a folder is shared between machines, the system's lock may not reach the
//! other machine; there the text decides, and a job that did not end in peace has to be declared dead by a person.
//!
//! Which locks exclude each other is in `roster.rs`.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::commit;
use crate::error::CacheError;
use crate::log::{host_name, unix_seconds, utc};
use crate::share::Share;

/// Others hold a lock for a moment to see whether it is free; that long is waited.
const PATIENCE: (u32, Duration) = (50, Duration::from_millis(10));

/// Who builds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    host: String,
    pid: u32,
    since_unix_seconds: u64,
    /// The share of a worker, as `1/4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
}

impl Holder {
    fn words(&self) -> String {
        let worker = self.worker.as_ref().map_or(String::new(), |share| format!("worker {share}, "));
        format!("{worker}process {} on `{}`, since {}", self.pid, self.host, utc(self.since_unix_seconds))
    }
}

/// Whether the holder of a lock lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Nobody holds it, or its holder on this machine is dead.
    Dead,
    /// The system says that it does.
    Here,
    /// It was on another machine and has not said that it ended.
    Elsewhere,
}

/// The lock of a building folder, held until it is dropped.
#[derive(Debug)]
pub(crate) struct BuildLock {
    file: File,
    path: PathBuf,
}

impl BuildLock {
    /// Takes the lock, for a worker if `share` is given, or says who has it.
    pub(crate) fn acquire(path: &Path, share: Option<Share>, take_over: bool) -> Result<Self, CacheError> {
        loop {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)
                .map_err(CacheError::io("open", path))?;
            lock(&mut file, path)?;
            if is_still(&file, path)? {
                refuse_elsewhere(&mut file, path, take_over)?;
                return Self::claim(file, path, share);
            }
        }
    }

    fn claim(mut file: File, path: &Path, share: Option<Share>) -> Result<Self, CacheError> {
        let worker = share.map(|share| share.to_string());
        let (host, pid) = (host_name(), std::process::id());
        let holder = Holder { host, pid, since_unix_seconds: unix_seconds(), worker };
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

/// Makes sure that nobody who lives holds a lock, and removes what a dead one left of it.
pub(crate) fn clear(path: &Path, take_over: bool) -> Result<(), CacheError> {
    loop {
        let mut file = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(CacheError::io("open", path)(error)),
        };
        lock(&mut file, path)?;
        if is_still(&file, path)? {
            refuse_elsewhere(&mut file, path, take_over)?;
            return commit::remove(path);
        }
    }
}

/// Whether the holder of a lock lives.
pub(crate) fn life(path: &Path) -> Life {
    let Ok(mut file) = File::open(path) else { return Life::Dead };
    if matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
        return Life::Here;
    }
    match serde_json::from_str::<Holder>(&read_text(&mut file)) {
        Ok(holder) if holder.host != host_name() => Life::Elsewhere,
        _ => Life::Dead,
    }
}

/// Locks a file, or says who has it.
fn lock(file: &mut File, path: &Path) -> Result<(), CacheError> {
    let (tries, pause) = PATIENCE;
    for _ in 0..tries {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(pause),
            Err(TryLockError::Error(error)) => return Err(CacheError::io("lock", path)(error)),
        }
    }
    Err(CacheError::Locked { holder: holder_words(file) })
}

/// Whether a locked file has its name still: the owner before may have removed it between our open and our lock.
fn is_still(file: &File, path: &Path) -> Result<bool, CacheError> {
    let ours = file.metadata().map_err(CacheError::io("read", path))?.ino();
    Ok(fs::metadata(path).is_ok_and(|found| found.ino() == ours))
}

/// An error if a job on another machine has not said that it ended.
fn refuse_elsewhere(file: &mut File, path: &Path, take_over: bool) -> Result<(), CacheError> {
    match serde_json::from_str::<Holder>(&read_text(file)) {
        Ok(holder) if holder.host != host_name() && !take_over => {
            Err(CacheError::LockedElsewhere { path: path.to_owned(), holder: holder.words() })
        }
        _ => Ok(()),
    }
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
        let first = BuildLock::acquire(&path, None, false).unwrap();
        assert_eq!(life(&path), Life::Here);
        let error = BuildLock::acquire(&path, None, true).unwrap_err();
        assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
        drop(first);
        assert!(!path.exists());
        BuildLock::acquire(&path, None, false).unwrap();
    }

    #[test]
    fn a_lock_of_another_machine_holds_until_it_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".lock");
        fs::write(&path, r#"{"host":"elsewhere","pid":7,"since_unix_seconds":1}"#).unwrap();
        assert_eq!(life(&path), Life::Elsewhere);
        let error = BuildLock::acquire(&path, None, false).unwrap_err();
        assert!(matches!(error, CacheError::LockedElsewhere { .. }), "{error}");
        assert!(error.hint().unwrap().contains("--take-over"));
        BuildLock::acquire(&path, None, true).unwrap();
    }

    #[test]
    fn a_dead_owner_on_this_machine_blocks_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".lock");
        let text = format!(r#"{{"host":"{}","pid":7,"since_unix_seconds":1}}"#, host_name());
        fs::write(&path, text).unwrap();
        BuildLock::acquire(&path, None, false).unwrap();
    }

    #[test]
    fn a_dead_ones_lock_is_cleared_and_a_living_ones_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".lock");
        clear(&path, false).unwrap();
        let share = Share::new(1, 4);
        let living = BuildLock::acquire(&path, share, false).unwrap();
        let error = clear(&path, true).unwrap_err();
        assert!(error.to_string().contains("worker 1/4, process "), "{error}");
        drop(living);
        fs::write(&path, r#"{"host":"elsewhere","pid":7,"since_unix_seconds":1,"worker":"0/2"}"#).unwrap();
        let error = clear(&path, false).unwrap_err();
        assert!(error.to_string().contains("worker 0/2, process 7 on `elsewhere`"), "{error}");
        assert!(path.exists());
        clear(&path, true).unwrap();
        assert!(!path.exists());
    }
}
