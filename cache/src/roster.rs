//! Who is at work on a cache: the locks of its job and of its workers, and what the workers tell.
//!
//! ```text
//! .lock-<fingerprint>                      a job that builds or finishes; no worker may be alive
//! .lock-<fingerprint>.worker-1-of-4        a worker; others of 4 may be, others of 3 may not
//! <split>.work/worker-1-of-4.json          how far it is: for people alone, nothing hangs on it
//! <split>.work/sources.json                what the workers take the source to be
//! ```
//!
//! Whoever comes first takes a lock of his own and then looks for those that exclude it. So of two who come at the same
//! moment at least one sees the other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::commit::{self, Durability};
use crate::error::CacheError;
use crate::input::SplitPlan;
use crate::layout::{lock_file, share_of_lock_file, share_of_record, worker_lock_file, worker_record};
use crate::lock::{self, BuildLock, Life};
use crate::log::{host_name, unix_seconds, utc};
use crate::parts::FileState;
use crate::progress::{BuildPhase, BuildProgress, BuildStatus, Commit};
use crate::share::Share;

/// The locks of one cache that is being built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Roster<'a> {
    /// The task's folder.
    pub(crate) folder: &'a Path,
    /// The fingerprint in its short form.
    pub(crate) fingerprint: &'a str,
}

impl Roster<'_> {
    /// Takes the lock of a job that wants the cache for itself.
    pub(crate) fn take_all(&self, take_over: bool) -> Result<BuildLock, CacheError> {
        let lock = BuildLock::acquire(&self.folder.join(lock_file(self.fingerprint)), None, take_over)?;
        for (_, path) in self.worker_locks()? {
            lock::clear(&path, take_over)?;
        }
        Ok(lock)
    }

    /// Takes the lock of a worker.
    pub(crate) fn join(&self, share: Share, take_over: bool) -> Result<BuildLock, CacheError> {
        let path = self.folder.join(worker_lock_file(self.fingerprint, share));
        let lock = BuildLock::acquire(&path, Some(share), take_over)?;
        lock::clear(&self.folder.join(lock_file(self.fingerprint)), take_over)?;
        for (other, path) in self.worker_locks()? {
            if other.count() != share.count() {
                lock::clear(&path, take_over).map_err(|error| match error {
                    CacheError::Locked { holder } => CacheError::OtherShares { share, holder },
                    other => other,
                })?;
            }
        }
        Ok(lock)
    }

    /// Another worker than this one that lives, as far as can be told from here.
    pub(crate) fn other_worker(&self, share: Share) -> Result<Option<Share>, CacheError> {
        let others = self.worker_locks()?.into_iter().filter(|(other, _)| *other != share);
        Ok(others.filter(|(_, path)| lock::life(path) != Life::Dead).map(|(other, _)| other).next())
    }

    /// The workers of `count` that live, as far as can be told from here.
    pub(crate) fn living(&self, count: u32) -> Result<BTreeSet<Share>, CacheError> {
        let others = self.worker_locks()?.into_iter().filter(|(other, _)| other.count() == count);
        Ok(others.filter(|(_, path)| lock::life(path) != Life::Dead).map(|(other, _)| other).collect())
    }

    /// Whether anybody lives who holds one of the locks on this machine.
    pub(crate) fn is_at_work(&self) -> bool {
        let workers = self.worker_locks().unwrap_or_default();
        let job = self.folder.join(lock_file(self.fingerprint));
        workers.into_iter().map(|(_, path)| path).chain([job]).any(|path| lock::life(&path) == Life::Here)
    }

    fn worker_locks(&self) -> Result<Vec<(Share, PathBuf)>, CacheError> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.folder).map_err(CacheError::io("read", self.folder))? {
            let entry = entry.map_err(CacheError::io("read", self.folder))?;
            let share =
                entry.file_name().to_str().and_then(|name| share_of_lock_file(name, self.fingerprint));
            found.extend(share.map(|share| (share, entry.path())));
        }
        found.sort();
        Ok(found)
    }

    /// What the workers of a split have told, in order.
    pub(crate) fn workers(&self, split: &str, work: &Path) -> Vec<WorkerInfo> {
        let records = records(work).into_iter();
        let info = |(share, record): (Share, WorkerRecord)| {
            let lock = self.folder.join(worker_lock_file(self.fingerprint, share));
            let state = match lock::life(&lock) {
                _ if record.state == WorkerState::Done => WorkerState::Done,
                Life::Dead if record.state == WorkerState::AtWork => WorkerState::Stopped,
                Life::Dead => record.state,
                Life::Here | Life::Elsewhere => WorkerState::AtWork,
            };
            WorkerInfo {
                split: split.to_owned(),
                share,
                state,
                host: record.host,
                pid: record.pid,
                bytes_done: record.bytes_done,
                bytes_total: record.bytes_total,
                examples: record.examples,
            }
        };
        records.map(info).collect()
    }
}

/// Whether a worker is done with a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerState {
    /// Its share is encoded.
    Done,
    /// It has to be run again when others have taken the keys of their shares.
    Waiting,
    /// It lives, or another machine has not said that it ended.
    AtWork,
    /// It ended before it was done.
    Stopped,
}

/// What a worker has told of its share of a split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerInfo {
    /// The split.
    pub split: String,
    /// The worker.
    pub share: Share,
    /// Whether it is done.
    pub state: WorkerState,
    /// Its machine.
    pub host: String,
    /// Its process there.
    pub pid: u32,
    /// Bytes of source files it has read, the last time it told.
    pub bytes_done: u64,
    /// Bytes of source files of its share.
    pub bytes_total: u64,
    /// Examples encoded.
    pub examples: u64,
}

/// How far a worker is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkerRecord {
    host: String,
    pid: u32,
    since_unix_seconds: u64,
    state: WorkerState,
    bytes_done: u64,
    bytes_total: u64,
    examples: u64,
}

fn records(work: &Path) -> BTreeMap<Share, WorkerRecord> {
    let entries = fs::read_dir(work).into_iter().flatten().flatten();
    let record = |entry: fs::DirEntry| {
        let share = share_of_record(entry.file_name().to_str()?)?;
        Some((share, commit::read_checked_json(&entry.path()).ok()?))
    };
    entries.filter_map(record).collect()
}

/// How many workers there were at the last time, if there were any.
pub(crate) fn last_count(work: &Path) -> Option<u32> {
    let latest = records(work).into_iter().max_by_key(|(_, record)| record.since_unix_seconds);
    latest.map(|(share, _)| share.count())
}

/// How many workers of `count` are done with a split.
pub(crate) fn workers_done(work: &Path, count: u32) -> u32 {
    let is_done =
        |(share, record): &(Share, WorkerRecord)| share.count() == count && record.state == WorkerState::Done;
    records(work).into_iter().filter(is_done).count() as u32
}

/// Passes on what a worker tells, and keeps it where others can read it.
pub(crate) struct Recorder<'a> {
    progress: &'a dyn BuildProgress,
    path: PathBuf,
    record: Mutex<(u64, WorkerRecord)>,
}

impl<'a> Recorder<'a> {
    /// Begins the record of a worker, and drops those of workers of another number.
    pub(crate) fn begin(
        progress: &'a dyn BuildProgress,
        work: &Path,
        share: Share,
        bytes_total: u64,
    ) -> Result<Self, CacheError> {
        for other in records(work).into_keys().filter(|other| other.count() != share.count()) {
            commit::remove(&work.join(worker_record(other)))?;
        }
        let record = WorkerRecord {
            host: host_name(),
            pid: std::process::id(),
            since_unix_seconds: unix_seconds(),
            state: WorkerState::AtWork,
            bytes_done: 0,
            bytes_total,
            examples: 0,
        };
        let recorder =
            Self { progress, path: work.join(worker_record(share)), record: Mutex::new((0, record.clone())) };
        recorder.write(&record)?;
        Ok(recorder)
    }

    /// Says that the worker ends, and how.
    pub(crate) fn end(&self, status: &BuildStatus, state: WorkerState) -> Result<(), CacheError> {
        let (_, record) = self.record.lock().expect("no thread panicked").clone();
        let (bytes_done, examples) = (record.bytes_total, status.examples);
        self.write(&WorkerRecord { state, bytes_done, examples, ..record })
    }

    fn write(&self, record: &WorkerRecord) -> Result<(), CacheError> {
        commit::write(&self.path, commit::to_checked_json(record).as_bytes(), Durability::Process)
    }
}

impl BuildProgress for Recorder<'_> {
    fn update(&self, status: &BuildStatus) {
        self.progress.update(status);
        // Whoever finds it locked leaves it to the other.
        let Ok(mut last) = self.record.try_lock() else { return };
        let (told, record) = &mut *last;
        // A step that compares all examples takes a reading of its own.
        *told = (*told).min(status.ranges_done);
        let reads = matches!(status.phase, BuildPhase::Encoding | BuildPhase::Comparing);
        if reads && status.ranges_done > *told + *told / 50 {
            *told = status.ranges_done;
            (record.bytes_done, record.examples) = (status.bytes_done, status.examples);
            // Nothing hangs on it; a disk that is full stops the work itself.
            let _ = self.write(record);
        }
    }

    fn committed(&self, commit: Commit) {
        self.progress.committed(commit);
    }

    fn notice(&self, words: &str) {
        self.progress.notice(words);
    }
}

/// What the workers of a split take its source to be: they share it out by this, and parts are good for it alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SourcesRecord {
    files: Vec<FileState>,
}

impl SourcesRecord {
    pub(crate) fn of(plan: &SplitPlan) -> Self {
        Self { files: plan.files.iter().map(FileState::of).collect() }
    }

    fn path(work: &Path) -> PathBuf {
        work.join("sources.json")
    }

    pub(crate) fn read(work: &Path) -> Option<Self> {
        commit::read_checked_json(&Self::path(work)).ok()
    }

    pub(crate) fn write(&self, work: &Path) -> Result<(), CacheError> {
        commit::write(&Self::path(work), commit::to_checked_json(self).as_bytes(), Durability::Process)
    }

    /// In what the files here differ from those of this record; `None` if in nothing.
    pub(crate) fn difference(&self, here: &Self) -> Option<String> {
        let find = |files: &[FileState], name: &str| files.iter().find(|file| file.name == name).cloned();
        for there in &self.files {
            let name = &there.name;
            let Some(file) = find(&here.files, name) else { return Some(format!("`{name}` is not here")) };
            if file.bytes != there.bytes {
                return Some(format!("`{name}` has {} bytes here and {} there", file.bytes, there.bytes));
            }
            if file.modified_ns != there.modified_ns {
                let time = |ns: i64| utc(u64::try_from(ns / 1_000_000_000).unwrap_or(0));
                let (here, there) = (time(file.modified_ns), time(there.modified_ns));
                let by = if here == there {
                    " by less than a minute".to_owned()
                } else {
                    format!(": {here} and {there}")
                };
                return Some(format!("`{name}` was last changed at another time{by}"));
            }
        }
        let added = here.files.iter().find(|file| find(&self.files, &file.name).is_none());
        added.map(|file| format!("`{}` is only here", file.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_that_differ_are_told_apart_in_words() {
        let file = |name: &str, bytes: u64, modified_ns: i64| FileState {
            name: name.to_owned(),
            bytes,
            modified_ns,
        };
        let there = SourcesRecord { files: vec![file("a", 1, 0), file("b", 2, 60_000_000_000)] };
        let difference = |files: Vec<FileState>| there.difference(&SourcesRecord { files }).unwrap();
        assert_eq!(there.difference(&there.clone()), None);
        insta::assert_snapshot!(difference(vec![file("a", 1, 0)]), @"`b` is not here");
        insta::assert_snapshot!(difference(vec![file("a", 1, 0), file("b", 3, 0)]), @"`b` has 3 bytes here and 2 there");
        insta::assert_snapshot!(
            difference(vec![file("a", 1, 0), file("b", 2, 0)]),
            @"`b` was last changed at another time: 1970-01-01 00:00 UTC and 1970-01-01 00:01 UTC"
        );
        insta::assert_snapshot!(
            difference(vec![file("a", 1, 1), file("b", 2, 0)]),
            @"`a` was last changed at another time by less than a minute"
        );
        let mut more = there.files.clone();
        more.push(file("c", 0, 0));
        insta::assert_snapshot!(difference(more), @"`c` is only here");
    }
}
