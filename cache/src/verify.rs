//! Every byte of a cache checked: what `seqio cache verify` does.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rayon::prelude::*;

use crate::error::CacheError;
use crate::layout::{BUILD_LOG, MANIFEST, hex, shard_file};
use crate::log::BuildLog;
use crate::manifest::{CacheManifest, ShardEntry};
use crate::pieces::{Pieces, pieces_file};
use crate::table::Table;
use crate::writer::{Sums, sum};

/// What was looked at, and what is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Shards checked.
    pub shards: u64,
    /// Record batches checked.
    pub batches: u64,
    /// Bytes checked.
    pub bytes: u64,
    /// What is wrong; nothing if the cache is as it was written.
    pub problems: Vec<Problem>,
}

/// Damage to one file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file.
    pub path: PathBuf,
    /// The record batch at fault, counted from 0, where it is one.
    pub batch: Option<u64>,
    /// What is wrong.
    pub problem: String,
}

impl Problem {
    fn new(path: &Path, batch: Option<usize>, problem: impl Into<String>) -> Self {
        Self { path: path.to_owned(), batch: batch.map(|batch| batch as u64), problem: problem.into() }
    }

    fn of(path: &Path, error: &CacheError) -> Self {
        match error {
            CacheError::Damaged { path, problem } => Self::new(path, None, problem.clone()),
            other => Self::new(path, None, other.to_string()),
        }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(batch) = self.batch {
            write!(f, ", batch {batch}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

/// Checks a cache folder whole. `progress` is told of each shard's bytes when it is done, from any thread.
pub fn verify(folder: &Path, progress: &(dyn Fn(u64) + Sync)) -> VerifyReport {
    let mut report = VerifyReport::default();
    let manifest = match CacheManifest::read(folder) {
        Ok(manifest) => manifest,
        Err(error) => {
            report.problems.push(Problem::of(&folder.join(MANIFEST), &error));
            return report;
        }
    };
    if let Err(error) = BuildLog::read(folder) {
        report.problems.push(Problem::of(&folder.join(BUILD_LOG), &error));
    }
    for (name, split) in &manifest.splits {
        let path = pieces_file(folder, name);
        // Only `--reuse` needs them; caches of earlier programs, and slices, have none.
        if path.exists()
            && let Err(error) = Pieces::read(folder, name, split)
        {
            report.problems.push(Problem::of(&path, &error));
        }
    }
    for file in manifest.vocabulary_files.values() {
        let path = folder.join(&file.path);
        match fs::read(&path) {
            Ok(bytes) if hex(blake3::hash(&bytes).as_bytes()) == file.blake3 => report.bytes += file.bytes,
            Ok(_) => report.problems.push(Problem::new(&path, None, "it is not the file that was stored")),
            Err(error) => report.problems.push(Problem::new(&path, None, error.to_string())),
        }
    }
    for file in manifest.splits.values().filter_map(|split| split.duplicates.as_ref()) {
        match file.checked(folder) {
            Ok(_) => report.bytes += file.bytes,
            Err(error) => report.problems.push(Problem::of(&folder.join(&file.path), &error)),
        }
    }
    for rejects in manifest.splits.values().filter_map(|split| split.rejects.as_ref()) {
        match rejects.checked(folder) {
            Ok(_) => report.bytes += rejects.bytes,
            Err(error) => report.problems.push(Problem::of(&folder.join(&rejects.name), &error)),
        }
    }
    let shards: Vec<&ShardEntry> = manifest.splits.values().flat_map(|split| &split.shards).collect();
    let shared = Mutex::new(report);
    shards.par_iter().for_each(|shard| {
        let problems = shard_problems(folder, shard);
        progress(shard.file_bytes());
        let mut report = shared.lock().expect("no thread panicked");
        report.shards += 1;
        report.batches += shard.batches;
        report.bytes += shard.file_bytes();
        report.problems.extend(problems);
    });
    let mut report = shared.into_inner().expect("no thread panicked");
    report.problems.sort();
    report
}

/// The first thing that is wrong with a shard.
pub(crate) fn check_shard(folder: &Path, shard: &ShardEntry) -> Result<(), Problem> {
    match shard_problems(folder, shard).into_iter().next() {
        Some(problem) => Err(problem),
        None => Ok(()),
    }
}

/// Everything that is wrong with a shard.
fn shard_problems(folder: &Path, shard: &ShardEntry) -> Vec<Problem> {
    let sums_path = shard_file(folder, &shard.name, "sums");
    let sums = match read_sums(folder, shard) {
        Ok(sums) => sums,
        Err(error) => return vec![Problem::of(&sums_path, &error)],
    };
    let mut problems = Vec::new();
    let lengths_path = shard_file(folder, &shard.name, "lengths");
    match fs::read(&lengths_path) {
        Ok(bytes) if sum(&bytes) == sums.lengths => {}
        Ok(_) => problems.push(Problem::new(&lengths_path, None, "its checksum is wrong")),
        Err(error) => problems.push(Problem::new(&lengths_path, None, error.to_string())),
    }
    let path = shard_file(folder, &shard.name, "arrow");
    let bytes = match crate::mapped::map_file(&path) {
        Ok(bytes) => bytes,
        Err(error) => {
            problems.push(Problem::of(&path, &error));
            return problems;
        }
    };
    if bytes.len() as u64 != shard.arrow_bytes {
        let problem = format!("it has {} bytes instead of {}", bytes.len(), shard.arrow_bytes);
        problems.push(Problem::new(&path, None, problem));
        return problems;
    }
    // By the places in `.sums`, so that a damaged footer hides no damaged batch.
    let mut tail = bytes.len();
    let mut head = bytes.len();
    for (index, batch) in sums.batches.iter().enumerate() {
        let start = usize::try_from(batch.offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(batch.length as usize);
        match bytes.get(start..end) {
            Some(message) if sum(message) == batch.sum => {}
            Some(_) => problems.push(Problem::new(&path, Some(index), "its checksum is wrong")),
            None => problems.push(Problem::new(&path, Some(index), "it lies outside the file")),
        }
        if index == 0 {
            head = start.min(bytes.len());
        }
        tail = end.min(bytes.len());
    }
    if sum(&bytes[..head]) != sums.head {
        problems.push(Problem::new(&path, None, "the checksum of its head is wrong"));
    }
    if sum(&bytes[tail..]) != sums.tail {
        problems.push(Problem::new(&path, None, "the checksum of its footer is wrong"));
    }
    if problems.is_empty()
        && let Err(error) = Table::open(&path)
    {
        problems.push(Problem::of(&path, &error));
    }
    problems
}

/// Reads and checks the sums of a shard.
pub(crate) fn read_sums(folder: &Path, shard: &ShardEntry) -> Result<Sums, CacheError> {
    let path = shard_file(folder, &shard.name, "sums");
    let bytes = fs::read(&path).map_err(CacheError::io("read", &path))?;
    if hex(blake3::hash(&bytes).as_bytes()) != shard.sums_blake3 {
        return Err(CacheError::damaged(&path, "its hash is not that in the manifest"));
    }
    let sums = Sums::from_bytes(&bytes).filter(|sums| sums.batches.len() as u64 == shard.batches);
    sums.ok_or_else(|| CacheError::damaged(&path, "it has another number of batches than the manifest"))
}
