//! Building caches, seen from the command line: progress, messages, what to do when it stops.

use std::sync::{Mutex, PoisonError};

use seqio::{Split, Task};
use seqio_cache::{BuildPhase, BuildProgress, BuildReport, BuildStatus, CacheDir, CacheError};

use crate::args::BuildSettings;
use crate::format::{count, counted};
use crate::interrupt::Interrupt;
use crate::output::Notes;
use crate::progress::{Done, Progress};
use crate::report::Interrupted;
use crate::session::build_config;

/// Builds what is not there yet and says what was reused.
pub(crate) fn build(
    cache_dir: &CacheDir,
    task: &Task,
    splits: &[Split],
    settings: &BuildSettings,
    interrupt: &Interrupt,
    notes: Notes,
) -> anyhow::Result<BuildReport> {
    let watcher =
        Watcher { progress: Mutex::new(Progress::new(settings.progress, task.name(), notes.quiet)), notes };
    let config = build_config(settings, interrupt);
    let built = cache_dir.build(task, splits, &config, &watcher);
    watcher.end(built.is_ok());
    let report = match built {
        Ok(report) => report,
        Err(error @ CacheError::Interrupted { .. }) => {
            let go_on = "run the same command again to go on from there".to_owned();
            return Err(anyhow::Error::from(Interrupted { go_on }).context(error.to_string()));
        }
        Err(error) => return Err(error.into()),
    };
    for split in &report.splits {
        split.notice.iter().for_each(|notice| notes.note(notice));
        if split.ranges.reused > 0 {
            notes.note(format!(
                "`{}`, split `{}`: reused {} of {} that an earlier run had finished",
                task.name(),
                split.split,
                count(split.ranges.reused),
                counted(split.ranges.total, "piece")
            ));
        }
        let bad = &split.statistics.bad_rows;
        if bad.count > 0 && !split.was_fresh {
            let first = bad.first.first().map_or(String::new(), |bad| {
                format!("; the first is {}:{}: {}", bad.file, bad.row + 1, bad.reason)
            });
            notes.note(format!(
                "`{}`, split `{}`: skipped {}{first}",
                task.name(),
                split.split,
                counted(bad.count, "bad record")
            ));
        }
        for damaged in &bad.damaged_files {
            notes.note(format!("`{}` could not be read to its end: {}", damaged.file, damaged.damage));
        }
    }
    Ok(report)
}

/// Passes on what a build tells.
struct Watcher {
    progress: Mutex<Progress>,
    notes: Notes,
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
        self.notes.note(words);
    }
}

fn done(status: &BuildStatus) -> Done {
    let phase = match status.phase {
        BuildPhase::Checking => "checking",
        BuildPhase::Encoding => "encoding",
        BuildPhase::Merging => "merging",
        BuildPhase::Finishing => "finishing",
    };
    Done {
        split: status.split.clone(),
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
