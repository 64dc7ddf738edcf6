//! What is committed of a split that is being encoded: parts of ranges, each a sorted run and a record.
//!
//! ```text
//! train.work/<file>-<start>-<chunk>.json     chunks 7, 8, 10 of this range are done: their rows, counts, hashes
//! train.work/<file>-<start>-<chunk>.arrow    the rows, sorted
//! train.work/<file>.file.json                where the ranges of a file begin that only one reader can run through
//! ```
//!
//! A part is named by the first of its chunks. How a range falls into parts depends on memory and time, and on where
//! earlier jobs were killed; what is merged from them does not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use seqio::{BadRow, EncodeCounts, FileRanges, SourceFile, SourceRange};
use serde::{Deserialize, Serialize};

use crate::commit::{self, Durability};
use crate::digest::range_digest;
use crate::error::CacheError;
use crate::input::{RangeKey, ReadJob, SplitPlan};
use crate::log::modified_ns;
use crate::rejects::RejectsSpill;
use crate::share::OwnShare;
use crate::spill::{RunEntry, hash_file};
use crate::stats::BAD_ROWS_KEPT;

/// A source file as it was when something was read from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileState {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) modified_ns: i64,
}

impl FileState {
    pub(crate) fn of(file: &SourceFile) -> Self {
        Self { name: file.name.clone(), bytes: file.bytes, modified_ns: modified_ns(file) }
    }
}

/// Some chunks of a range, encoded and committed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartRecord {
    /// The file it was read from.
    pub(crate) file: FileState,
    /// The file's index at that time.
    pub(crate) file_index: u32,
    /// The range's first byte or row group.
    pub(crate) start: u64,
    /// One past its last, as the source said.
    pub(crate) end: u64,
    /// Of a slice, the first ordinal that belonged to it and the one after the last.
    pub(crate) window: Option<(u64, u64)>,
    /// What was encoded.
    pub(crate) content: PartContent,
    /// Its rows, if there are any.
    pub(crate) run: Option<RunEntry>,
    /// Its bad records, if they are set aside and there are any.
    pub(crate) rejects: Option<RejectsSpill>,
}

/// What some chunks of a range gave, besides their rows. Sums do not depend on the order of their terms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartContent {
    /// Number of each chunk in the range, with the hash of its text (none for columns).
    pub(crate) chunks: BTreeMap<u64, Option<[u8; 32]>>,
    /// The hash of the whole range's text, if it was taken over from an old cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) text_digest: Option<String>,
    /// The number of the range's last chunk, if that is among them.
    pub(crate) last_chunk: Option<u64>,
    /// Raw records, bad and blank ones included.
    pub(crate) records: u64,
    /// Their share of the source file's bytes, for progress.
    pub(crate) source_bytes: u64,
    /// Number of rows.
    pub(crate) rows: u64,
    /// Bytes of the rows in a shard.
    pub(crate) row_bytes: u64,
    /// Token ids.
    pub(crate) tokens: u64,
    /// Bad records.
    pub(crate) bad_rows: u64,
    /// The first of them: ordinal in the range and reason.
    pub(crate) first_bad_rows: BTreeMap<u64, String>,
    /// Why the file could not be read on.
    pub(crate) damage: Option<String>,
    /// What the encoders met, by feature.
    pub(crate) counts: BTreeMap<String, EncodeCounts>,
    /// Characters of the texts that features of the rows were encoded from, where they are known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) characters: BTreeMap<String, u64>,
    /// Examples that steps dropped, by the step's number.
    #[serde(default)]
    pub(crate) dropped: BTreeMap<usize, u64>,
}

impl PartContent {
    /// Keeps the first few bad records in order.
    pub(crate) fn add_bad_rows(&mut self, bad_rows: Vec<BadRow>) {
        self.bad_rows += bad_rows.len() as u64;
        self.first_bad_rows.extend(bad_rows.into_iter().map(|row| (row.ordinal, row.reason)));
        self.drop_later_bad_rows();
    }

    /// Adds other chunks of the same range.
    pub(crate) fn merge(&mut self, other: Self) {
        self.chunks.extend(other.chunks);
        self.last_chunk = self.last_chunk.or(other.last_chunk);
        self.records += other.records;
        self.source_bytes += other.source_bytes;
        self.rows += other.rows;
        self.row_bytes += other.row_bytes;
        self.tokens += other.tokens;
        self.bad_rows += other.bad_rows;
        self.first_bad_rows.extend(other.first_bad_rows);
        self.drop_later_bad_rows();
        self.damage = self.damage.take().or(other.damage);
        for (feature, counts) in other.counts {
            *self.counts.entry(feature).or_default() += counts;
        }
        // Known of all rows, or not known.
        if self.rows == other.rows {
            self.characters = other.characters;
        } else if other.rows > 0 {
            self.characters.retain(|feature, _| other.characters.contains_key(feature));
            for (feature, characters) in &mut self.characters {
                *characters += other.characters.get(feature).copied().unwrap_or_default();
            }
        }
        for (step, dropped) in other.dropped {
            *self.dropped.entry(step).or_default() += dropped;
        }
    }

    fn drop_later_bad_rows(&mut self) {
        while self.first_bad_rows.len() > BAD_ROWS_KEPT {
            self.first_bad_rows.pop_last();
        }
    }
}

/// The name of a part's files without their endings.
pub(crate) fn part_stem(file_name: &str, start: u64, first_chunk: u64) -> String {
    format!("{}-{start:016x}-{first_chunk:06}", name_hash(file_name))
}

/// What a part's file name says without its record being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartStem<'a> {
    /// See [`name_hash`].
    pub(crate) name_hash: &'a str,
    /// The range's first byte or row group.
    pub(crate) start: u64,
}

impl<'a> PartStem<'a> {
    /// The inverse of [`part_stem`], whatever ending follows.
    pub(crate) fn parse(name: &'a str) -> Option<Self> {
        let (stem, _) = name.split_once('.')?;
        let mut fields = stem.split('-');
        let (name_hash, start, chunk) = (fields.next()?, fields.next()?, fields.next()?);
        let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_part =
            name_hash.len() == 16 && is_hex(name_hash) && start.len() == 16 && fields.next().is_none();
        chunk.parse::<u64>().ok().filter(|_| is_part)?;
        Some(Self { name_hash, start: u64::from_str_radix(start, 16).ok()? })
    }
}

/// A file's name in the names of its parts.
pub(crate) fn name_hash(file_name: &str) -> String {
    blake3::hash(file_name.as_bytes()).to_hex()[..16].to_owned()
}

impl PartRecord {
    /// Commits the part; its run is there already.
    pub(crate) fn write(&self, work: &Path) -> Result<(), CacheError> {
        let first = self.content.chunks.keys().next().copied().unwrap_or(0);
        let path = work.join(format!("{}.json", part_stem(&self.file.name, self.start, first)));
        commit::write(&path, commit::to_checked_json(self).as_bytes(), Durability::Process)
    }

    /// A part that an earlier job committed, if it is whole and the file is the same.
    fn reuse(path: &Path, work: &Path, files: &[SourceFile], check: Check) -> Option<Self> {
        let record: Self = commit::read_checked_json(path).ok()?;
        let file = files.iter().find(|file| file.name == record.file.name)?;
        let good = record.run.as_ref().is_none_or(|run| run.is_good(work, check))
            && record.rejects.as_ref().is_none_or(|rejects| rejects.is_good(work, check));
        (FileState::of(file) == record.file && good).then_some(record)
    }
}

/// The committed parts of one range.
#[derive(Debug, Default)]
pub(crate) struct RangeParts {
    pub(crate) parts: Vec<PartRecord>,
}

impl RangeParts {
    /// Number of chunks in them.
    pub(crate) fn num_chunks(&self) -> u64 {
        self.parts.iter().map(|part| part.content.chunks.len() as u64).sum()
    }

    /// Number of chunks of the range, if its last one is among them.
    pub(crate) fn chunks_expected(&self) -> Option<u64> {
        self.parts.iter().find_map(|part| part.content.last_chunk).map(|last| last + 1)
    }

    /// Whether the whole range is committed.
    pub(crate) fn is_complete(&self) -> bool {
        self.chunks_expected() == Some(self.num_chunks())
    }

    /// A sum over the parts.
    pub(crate) fn sum(&self, of: impl Fn(&PartContent) -> u64) -> u64 {
        self.parts.iter().map(|part| of(&part.content)).sum()
    }

    pub(crate) fn spill_bytes(&self) -> u64 {
        self.parts.iter().filter_map(|part| part.run.as_ref()).map(|run| run.bytes).sum()
    }

    /// The digest of the range's text; `None` for columns.
    pub(crate) fn text_digest(&self) -> Option<String> {
        if let Some(known) = self.parts.iter().find_map(|part| part.content.text_digest.as_ref()) {
            return Some(known.clone());
        }
        let chunks: BTreeMap<u64, [u8; 32]> = self
            .parts
            .iter()
            .flat_map(|part| &part.content.chunks)
            .filter_map(|(&number, digest)| Some((number, (*digest)?)))
            .collect();
        (!chunks.is_empty()).then(|| range_digest(chunks.values()))
    }

    /// The first bad records, in order.
    pub(crate) fn first_bad_rows(&self) -> BTreeMap<u64, &str> {
        let rows = self.parts.iter().flat_map(|part| &part.content.first_bad_rows);
        rows.map(|(&ordinal, reason)| (ordinal, reason.as_str())).collect()
    }
}

/// How closely parts are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// By their records and sizes; what is no good stays where it is.
    Sizes,
    /// By their content; what is no good any more is deleted.
    Bytes,
}

impl Check {
    /// Whether a file is there as it was written, as far as is looked.
    pub(crate) fn passes(self, path: &Path, bytes: u64, blake3: &str) -> bool {
        let has_its_size = fs::metadata(path).is_ok_and(|metadata| metadata.len() == bytes);
        has_its_size && (self == Self::Sizes || hash_file(path).is_ok_and(|hash| hash == blake3))
    }
}

/// The parts that earlier jobs committed and that are still good: of all the split, or of a worker's share of it.
pub(crate) fn committed_parts(
    pool: &rayon::ThreadPool,
    plan: &SplitPlan,
    work: &Path,
    own: Option<&OwnShare>,
    check: Check,
) -> Result<BTreeMap<RangeKey, RangeParts>, CacheError> {
    use rayon::prelude::*;

    let mut paths = Vec::new();
    for entry in fs::read_dir(work).map_err(CacheError::io("read", work))? {
        let path = entry.map_err(CacheError::io("read", work))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        let stem = PartStem::parse(name);
        if !stem.is_some_and(|stem| own.is_none_or(|own| own.has_part(&stem))) {
            continue;
        }
        if name.ends_with(".json") {
            paths.push(path);
        } else if name.ends_with(commit::TEMPORARY) && check == Check::Bytes {
            // A job that died left it.
            commit::remove(&path)?;
        }
    }
    paths.sort();
    let parts: Vec<(PathBuf, Option<PartRecord>)> = pool.install(|| {
        paths
            .into_par_iter()
            .map(|path| {
                let part = PartRecord::reuse(&path, work, &plan.files, check);
                (path, part)
            })
            .collect()
    });
    let mut ranges: BTreeMap<RangeKey, RangeParts> = BTreeMap::new();
    for (path, part) in parts {
        match part.and_then(|part| Some((range_of(plan, &part)?, part))) {
            Some((key, part)) => {
                let range = ranges.entry(key).or_default();
                let taken: BTreeSet<u64> =
                    range.parts.iter().flat_map(|part| part.content.chunks.keys().copied()).collect();
                if part.content.chunks.keys().all(|chunk| !taken.contains(chunk)) {
                    range.parts.push(part);
                }
            }
            None if check == Check::Sizes => {}
            None => {
                commit::remove(&path)?;
                commit::remove(&path.with_extension("arrow"))?;
                commit::remove(&path.with_extension("rejects"))?;
            }
        }
    }
    Ok(ranges)
}

/// What is still to be read of a split, or of a worker's share of it.
pub(crate) fn unfinished_jobs(
    plan: &SplitPlan,
    work: &Path,
    done: &BTreeMap<RangeKey, RangeParts>,
    own: Option<&OwnShare>,
) -> Vec<ReadJob> {
    let is_complete = |key: RangeKey| done.get(&key).is_some_and(RangeParts::is_complete);
    let is_done = |job: &ReadJob| match job.range {
        Some(range) => is_complete((job.file, range.start)),
        None => StreamRecord::reuse(work, plan.file(job.file)).is_some_and(|record| {
            let mut keys = record.starts.iter().map(|&start| (job.file, start));
            keys.all(|key| plan.window(key).is_none() || is_complete(key))
        }),
    };
    let mut jobs = plan.jobs();
    jobs.retain(|job| own.is_none_or(|own| own.has(*job)) && !is_done(job));
    jobs
}

/// The range of the split that a part belongs to.
fn range_of(plan: &SplitPlan, part: &PartRecord) -> Option<RangeKey> {
    let index = plan.files.iter().position(|file| file.name == part.file.name)?;
    let file = u32::try_from(index).ok()?;
    let range = SourceRange { file, start: part.start, end: part.end };
    let known = match &plan.ranges[index] {
        FileRanges::Known(ranges) => ranges.contains(&range),
        FileRanges::Streamed => true,
    };
    let key = (file, part.start);
    let same_window = plan.window(key).is_some() && plan.slice_window(key) == part.window;
    (known && same_window).then_some(key)
}

/// The ranges of a file that only one reader can run through.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamRecord {
    pub(crate) file: FileState,
    pub(crate) starts: BTreeSet<u64>,
}

impl StreamRecord {
    fn path(work: &Path, file_name: &str) -> PathBuf {
        work.join(format!("{}.file.json", name_hash(file_name)))
    }

    pub(crate) fn write(&self, work: &Path) -> Result<(), CacheError> {
        let path = Self::path(work, &self.file.name);
        commit::write(&path, commit::to_checked_json(self).as_bytes(), Durability::Process)
    }

    /// The ranges of a file that an earlier job has read to its end, if the file is the same.
    pub(crate) fn reuse(work: &Path, file: &SourceFile) -> Option<Self> {
        let record: Self = commit::read_checked_json(&Self::path(work, &file.name)).ok()?;
        (record.file == FileState::of(file)).then_some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_part_says_which_range_it_is_of() {
        let stem = part_stem("docs/a.jsonl", 64 << 20, 7);
        let name = format!("{stem}.json");
        let parsed = PartStem::parse(&name).unwrap();
        assert_eq!(parsed, PartStem { name_hash: &name_hash("docs/a.jsonl"), start: 64 << 20 });
        for other in
            ["shard-00000-of-00001.json", "sources.json", "worker-0-of-2.json", &name[1..], "a-b-c.json"]
        {
            assert_eq!(PartStem::parse(other), None, "{other}");
        }
        assert_eq!(PartStem::parse(&format!("{}.file.json", name_hash("a"))), None);
    }
}
