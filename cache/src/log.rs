//! `build.log.json`: what varies from one build to the next. Nothing of it is in a manifest or a shard.
//!
//! Besides times, host and threads it keeps where the source files were and when they were last changed: with the same
//! path, size and time a file is taken for unchanged without reading it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use seqio::SourceFile;
use serde::{Deserialize, Serialize};

use crate::commit::{self, Durability};
use crate::error::CacheError;
use crate::layout::BUILD_LOG;

/// How and where a cache was built.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildLog {
    /// The program's version.
    pub program: String,
    /// The machine that finished the job.
    pub host: String,
    /// Its number of threads.
    pub threads: usize,
    /// Its memory budget in bytes.
    pub memory_bytes: u64,
    /// When the job that finished began, seconds since 1970.
    pub started_unix_seconds: u64,
    /// When it ended.
    pub finished_unix_seconds: u64,
    /// Ranges of each split, and how many of them an earlier job had done.
    pub ranges: BTreeMap<String, RangesDone>,
    /// The source files of each split as they were found.
    pub sources: BTreeMap<String, Vec<SourceStamp>>,
}

/// How many ranges there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RangesDone {
    /// All ranges of the split.
    pub total: u64,
    /// Those an earlier job had committed.
    pub reused: u64,
    /// Further ones that an earlier job had committed in part.
    pub partly_reused: u64,
    /// Those taken over from an old cache.
    #[serde(default)]
    pub from_cache: u64,
    /// Examples of them.
    #[serde(default)]
    pub examples_from_cache: u64,
    /// Bytes of all spills.
    pub spill_bytes: u64,
}

/// Where a source file was and when it was changed last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceStamp {
    /// Its name in the manifest.
    pub name: String,
    /// Where it was.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was changed last, nanoseconds since 1970.
    pub modified_ns: i64,
}

impl SourceStamp {
    pub(crate) fn of(file: &SourceFile) -> Self {
        Self {
            name: file.name.clone(),
            path: file.path.clone(),
            bytes: file.bytes,
            modified_ns: modified_ns(file),
        }
    }
}

/// The modification time as it is kept in JSON.
pub(crate) fn modified_ns(file: &SourceFile) -> i64 {
    i64::try_from(file.modified_ns).unwrap_or(i64::MAX)
}

impl BuildLog {
    /// Reads the log of a cache.
    pub(crate) fn read(folder: &Path) -> Result<Self, CacheError> {
        commit::read_checked_json(&folder.join(BUILD_LOG))
    }

    /// Writes the log of a cache.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), CacheError> {
        commit::write(&folder.join(BUILD_LOG), commit::to_checked_json(self).as_bytes(), Durability::Disk)
    }
}

/// Seconds since 1970, for logs and messages alone.
#[allow(clippy::disallowed_methods, reason = "the one place for what varies")]
pub(crate) fn unix_seconds() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since_1970| since_1970.as_secs())
}

/// This machine's name.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// A time as people write it, in UTC.
///
/// ```text
/// 1793324040  ->  2026-10-30 01:34 UTC
/// ```
pub(crate) fn utc(unix_seconds: u64) -> String {
    let (days, seconds) = (unix_seconds / 86_400, unix_seconds % 86_400);
    // Years that begin in March, so that the leap day is the last of its year; cycles of 400 years.
    let shifted = days + 719_468;
    let (cycle, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + 400 * cycle + next_year;
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", seconds / 3600, seconds / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_dates() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_827_696), "2000-02-29 12:34 UTC");
        assert_eq!(utc(1_793_324_040), "2026-10-30 01:34 UTC");
        assert_eq!(utc(4_107_542_399), "2100-02-28 23:59 UTC");
    }
}
