//! What a running job tells: counters, commits, and remarks.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::log::RangesDone;
use crate::share::Share;

/// Where a job stands. Counters only grow while a split is encoded and merged; for each step that compares all examples
/// of the split they count once from the start before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuildStatus {
    /// The task.
    pub task: String,
    /// The split being built.
    pub split: String,
    /// The worker's share, if it is one of several; files and bytes are those of the share then.
    pub share: Option<Share>,
    /// What is being done.
    pub phase: BuildPhase,
    /// Source files read to their end.
    pub files_done: u64,
    /// Source files of the split.
    pub files_total: u64,
    /// Bytes of source files read, as they are on the disk; a compressed file counts when it ends.
    pub bytes_done: u64,
    /// Bytes of all source files of the split.
    pub bytes_total: u64,
    /// Examples encoded.
    pub examples: u64,
    /// Token ids in them.
    pub tokens: u64,
    /// Bad records skipped.
    pub bad_rows: u64,
    /// Ranges whose spill is committed.
    pub ranges_done: u64,
    /// Of these, ranges that an earlier job had committed.
    pub ranges_reused: u64,
    /// Of these, ranges whose examples are taken over from an old cache.
    pub ranges_from_cache: u64,
    /// Examples of them.
    pub examples_from_cache: u64,
    /// Further ranges of which an earlier job had committed a part.
    pub ranges_partly_reused: u64,
    /// Examples written to shards.
    pub examples_merged: u64,
    /// Shards committed.
    pub shards_done: u64,
    /// Shards of the split; 0 until it is known.
    pub shards_total: u64,
    /// Bytes of spills written or reused.
    pub spill_bytes: u64,
}

impl BuildStatus {
    pub(crate) fn ranges(&self) -> RangesDone {
        RangesDone {
            total: self.ranges_done,
            reused: self.ranges_reused,
            partly_reused: self.ranges_partly_reused,
            from_cache: self.ranges_from_cache,
            examples_from_cache: self.examples_from_cache,
            spill_bytes: self.spill_bytes,
        }
    }
}

/// What a job is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BuildPhase {
    /// Looks at what an earlier job left.
    #[default]
    Checking,
    /// Reads the split for a step that compares all its examples.
    Comparing,
    /// Reads, encodes and spills.
    Encoding,
    /// Merges spills into shards.
    Merging,
    /// Writes the manifest.
    Finishing,
}

/// Something that a job will not have to do again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Commit {
    /// The spill of a range, or of a part of one: of its keys, or of its rows.
    Spill,
    /// What a step that compares all examples of the split keeps.
    Choice,
    /// A shard.
    Shard,
    /// The cache itself.
    Cache,
}

/// Who wants to see how a job goes on. Calls come from any thread, and often: an implementation decides for itself how
/// often it draws.
pub trait BuildProgress: Sync {
    /// The counters have changed.
    fn update(&self, _status: &BuildStatus) {}

    /// Something has been committed.
    fn committed(&self, _commit: Commit) {}

    /// Something a person should be told once.
    fn notice(&self, _words: &str) {}
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl BuildProgress for NoProgress {}

/// The counters of one split, shared by all threads.
pub(crate) struct Counters<'a> {
    progress: &'a dyn BuildProgress,
    task: &'a str,
    split: &'a str,
    share: Option<Share>,
    phase: Mutex<BuildPhase>,
    pub(crate) files_total: u64,
    bytes_total: u64,
    pub(crate) files_done: AtomicU64,
    pub(crate) bytes_done: AtomicU64,
    pub(crate) examples: AtomicU64,
    pub(crate) tokens: AtomicU64,
    pub(crate) bad_rows: AtomicU64,
    pub(crate) ranges_done: AtomicU64,
    pub(crate) ranges_reused: AtomicU64,
    pub(crate) ranges_from_cache: AtomicU64,
    pub(crate) examples_from_cache: AtomicU64,
    pub(crate) ranges_partly_reused: AtomicU64,
    pub(crate) examples_merged: AtomicU64,
    pub(crate) shards_done: AtomicU64,
    pub(crate) shards_total: AtomicU64,
    pub(crate) spill_bytes: AtomicU64,
}

impl<'a> Counters<'a> {
    pub(crate) fn new(
        progress: &'a dyn BuildProgress,
        task: &'a str,
        split: &'a str,
        share: Option<Share>,
        files_total: u64,
        bytes_total: u64,
    ) -> Self {
        Self {
            progress,
            task,
            split,
            share,
            phase: Mutex::default(),
            files_total,
            bytes_total,
            files_done: AtomicU64::new(0),
            bytes_done: AtomicU64::new(0),
            examples: AtomicU64::new(0),
            tokens: AtomicU64::new(0),
            bad_rows: AtomicU64::new(0),
            ranges_done: AtomicU64::new(0),
            ranges_reused: AtomicU64::new(0),
            ranges_from_cache: AtomicU64::new(0),
            examples_from_cache: AtomicU64::new(0),
            ranges_partly_reused: AtomicU64::new(0),
            examples_merged: AtomicU64::new(0),
            shards_done: AtomicU64::new(0),
            shards_total: AtomicU64::new(0),
            spill_bytes: AtomicU64::new(0),
        }
    }

    pub(crate) fn enter(&self, phase: BuildPhase) {
        *self.phase.lock().expect("no one panics while holding it") = phase;
        self.tell();
    }

    pub(crate) fn tell(&self) {
        self.progress.update(&self.status());
    }

    /// Tells something about this split.
    pub(crate) fn notice(&self, words: &str) {
        let worker = self.share.map_or(String::new(), |share| format!(", worker {share}"));
        self.progress.notice(&format!("`{}`, split `{}`{worker}: {words}", self.task, self.split));
    }

    pub(crate) fn committed(&self, commit: Commit) {
        self.progress.committed(commit);
        self.tell();
    }

    pub(crate) fn status(&self) -> BuildStatus {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        BuildStatus {
            task: self.task.to_owned(),
            split: self.split.to_owned(),
            share: self.share,
            phase: *self.phase.lock().expect("no one panics while holding it"),
            files_done: get(&self.files_done),
            files_total: self.files_total,
            bytes_done: get(&self.bytes_done).min(self.bytes_total),
            bytes_total: self.bytes_total,
            examples: get(&self.examples),
            tokens: get(&self.tokens),
            bad_rows: get(&self.bad_rows),
            ranges_done: get(&self.ranges_done),
            ranges_reused: get(&self.ranges_reused),
            ranges_from_cache: get(&self.ranges_from_cache),
            examples_from_cache: get(&self.examples_from_cache),
            ranges_partly_reused: get(&self.ranges_partly_reused),
            examples_merged: get(&self.examples_merged),
            shards_done: get(&self.shards_done),
            shards_total: get(&self.shards_total),
            spill_bytes: get(&self.spill_bytes),
        }
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}
