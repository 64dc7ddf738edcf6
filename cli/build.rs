//! Building caches, seen from the command line: progress, messages, what to do when it stops.

use std::sync::{Mutex, PoisonError};

use seqio::{OnBadRow, Split, Task};
use seqio_cache::{
    BuildConfig, BuildPhase, BuildProgress, BuildReport, BuildStatus, CacheDir, CacheError, Compression,
    RangesDone, Reuse, Share, ShareReport, SplitReport, rejects_file,
};

use crate::args::BuildSettings;
use crate::format::{count, counted};
use crate::interrupt::Interrupt;
use crate::output::Notes;
use crate::progress::{Done, Progress};
use crate::report::Interrupted;
use crate::session::build_config;

/// How caches are built for a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Builder<'a> {
    /// Where they go.
    pub(crate) cache_dir: &'a CacheDir,
    /// Threads, memory, progress.
    pub(crate) settings: &'a BuildSettings,
    /// How new caches are compressed, if the person said so.
    pub(crate) compression: Option<Compression>,
    /// The cache to take over what has not changed, if the person named one.
    pub(crate) reuse: Option<&'a Reuse>,
    /// Whether to stop.
    pub(crate) interrupt: &'a Interrupt,
    /// Where to tell what happens.
    pub(crate) notes: Notes,
}

impl Builder<'_> {
    /// Builds what is not there yet and says what was reused. Remarks that hold what the person was `told` already are
    /// left out.
    pub(crate) fn build(self, task: &Task, splits: &[Split], told: &[String]) -> anyhow::Result<BuildReport> {
        let build =
            |config: &BuildConfig, watcher: &Watcher| self.cache_dir.build(task, splits, config, watcher);
        let report = self.watched(task, told, build)?;
        for split in &report.splits {
            tell_reused(task.name(), &split.split, &split.ranges, self.notes);
            tell(task.name(), split, self.notes);
        }
        Ok(report)
    }

    /// Encodes the share of one worker.
    pub(crate) fn build_share(
        self,
        task: &Task,
        splits: &[Split],
        share: Share,
    ) -> anyhow::Result<ShareReport> {
        let build = |config: &BuildConfig, watcher: &Watcher| {
            self.cache_dir.build_share(task, splits, share, config, watcher)
        };
        let report = self.watched(task, &[], build)?;
        for split in &report.splits {
            tell_reused(task.name(), &split.split, &split.ranges, self.notes);
            if split.bad_rows > 0 {
                let passed_over = passed_over(task.on_bad_row(), split.bad_rows);
                self.notes.note(format!("`{}`, split `{}`: {passed_over}", task.name(), split.split));
            }
        }
        Ok(report)
    }

    /// Makes the cache of what workers have encoded.
    pub(crate) fn finish(self, task: &Task, splits: &[Split]) -> anyhow::Result<BuildReport> {
        let finish =
            |config: &BuildConfig, watcher: &Watcher| self.cache_dir.finish(task, splits, config, watcher);
        let report = self.watched(task, &[], finish)?;
        report.splits.iter().for_each(|split| tell(task.name(), split, self.notes));
        Ok(report)
    }

    /// Runs a job with its progress shown.
    fn watched<T>(
        self,
        task: &Task,
        told: &[String],
        job: impl FnOnce(&BuildConfig, &Watcher) -> Result<T, CacheError>,
    ) -> anyhow::Result<T> {
        let Self { settings, compression, reuse, interrupt, notes, .. } = self;
        let progress = Mutex::new(Progress::new(settings.progress, task.name(), notes));
        let watcher = Watcher { progress, notes, told: told.to_vec() };
        let mut config = build_config(settings, interrupt);
        config.compression = compression;
        config.reuse = reuse.cloned();
        let done = job(&config, &watcher);
        watcher.end(done.is_ok());
        done.map_err(|error| match error {
            CacheError::Interrupted { .. } => {
                let go_on = "run the same command again to go on from there".to_owned();
                anyhow::Error::from(Interrupted { go_on }).context(error.to_string())
            }
            error => error.into(),
        })
    }
}

/// Says what of a split was not done again.
fn tell_reused(task: &str, split: &str, ranges: &RangesDone, notes: Notes) {
    if ranges.reused + ranges.partly_reused > 0 {
        let mut reused = format!("{} of {}", count(ranges.reused), counted(ranges.total, "piece"));
        if ranges.partly_reused > 0 {
            reused = format!("{reused} whole and {} in part", count(ranges.partly_reused));
        }
        notes.note(format!(
            "`{task}`, split `{split}`: reused {reused}, from an earlier run that was stopped"
        ));
    }
}

/// `skipped 3 bad records`, `set aside 3 bad records`.
fn passed_over(on_bad_row: OnBadRow, count: u64) -> String {
    let records = counted(count, "bad record");
    match on_bad_row {
        OnBadRow::SetAside => format!("set aside {records}"),
        OnBadRow::Fail | OnBadRow::Skip => format!("skipped {records}"),
    }
}

/// Says how many bad records were passed over where nothing is built, and where a cache has those that are set aside.
pub(crate) fn tell_passed_over(task: &Task, split: &str, count: u64, notes: Notes) {
    if count == 0 {
        return;
    }
    let name = task.name();
    let kept = match task.on_bad_row() {
        OnBadRow::SetAside => {
            format!("; `seqio cache build {name}` puts them in `{}` of the cache", rejects_file(split))
        }
        OnBadRow::Fail | OnBadRow::Skip => String::new(),
    };
    notes.note(format!("`{name}`, split `{split}`: {}{kept}", passed_over(task.on_bad_row(), count)));
}

/// Says what a person would not expect of a split that was built.
fn tell(task: &str, split: &SplitReport, notes: Notes) {
    let name = &split.split;
    split.notice.iter().for_each(|notice| notes.note(notice));
    if let Some(reused) = &split.reused {
        let ranges = &split.ranges;
        let pieces = format!("{} of {}", count(ranges.from_cache), counted(ranges.total, "piece"));
        let examples = counted(ranges.examples_from_cache, "example");
        let left = if reused.left.is_empty() { String::new() } else { format!("; {}", reused.left) };
        notes.note(format!(
            "`{task}`, split `{name}`: took {pieces}, {examples}, from `{}`{left}",
            reused.folder.display()
        ));
    }
    let bad = &split.statistics.bad_rows;
    if bad.count > 0 && !split.was_fresh {
        let handling = if split.rejects.is_some() { OnBadRow::SetAside } else { OnBadRow::Skip };
        let passed_over = passed_over(handling, bad.count);
        let first = bad.first.first().map_or(String::new(), |bad| {
            format!("; the first is {}:{}: {}", bad.file, bad.row + 1, bad.reason)
        });
        notes.note(format!("`{task}`, split `{name}`: {passed_over}{first}"));
    }
    for damaged in &bad.damaged_files {
        notes.note(format!("`{}` could not be read to its end: {}", damaged.file, damaged.damage));
    }
}

/// Passes on what a build tells.
struct Watcher {
    progress: Mutex<Progress>,
    notes: Notes,
    told: Vec<String>,
}

impl Watcher {
    fn end(&self, finished: bool) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).end(finished);
    }
}

impl BuildProgress for Watcher {
    fn update(&self, status: &BuildStatus) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).update(done(status));
    }

    fn notice(&self, words: &str) {
        if !self.told.iter().any(|told| words.contains(told)) {
            self.notes.note(words);
        }
    }
}

fn done(status: &BuildStatus) -> Done {
    let phase = match status.phase {
        BuildPhase::Checking => "checking",
        BuildPhase::Comparing => "comparing",
        BuildPhase::Encoding => "encoding",
        BuildPhase::Merging => "merging",
        BuildPhase::Finishing => "finishing",
    };
    Done {
        split: status.split.clone(),
        worker: status.share.map(|share| share.to_string()),
        phase: phase.to_owned(),
        files: status.files_done,
        files_total: status.files_total,
        bytes: status.bytes_done,
        bytes_total: status.bytes_total,
        examples: status.examples,
        tokens: status.tokens,
        examples_merged: status.examples_merged,
        pieces_reused: status.ranges_reused,
        spill_bytes: status.spill_bytes,
    }
}
