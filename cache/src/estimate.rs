//! What a build would take, from encoding a hundredth of the data.
//!
//! ```text
//! 100 ranges of 64 MiB  ->  the first MiB of 64 of them, encoded  ->  documents, tokens, disk, CPU time of all
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;

use arrow::datatypes::DataType;
use rustix::time::{ClockId, clock_gettime};
use seqio::{DataSource, FileRanges, KeyRecord, RawRecords, SourceRange, Split, SplitChoices};
use serde::Serialize;

use crate::build::{BuildConfig, stored_columns};
use crate::columns::StoredColumns;
use crate::error::CacheError;
use crate::input::{BuildInput, SplitPlan};
use crate::rows::SpillBatch;

/// Chunks encoded at most.
const MAX_CHUNKS: u64 = 64;
/// Bytes of a chunk, about.
const CHUNK_BYTES: u64 = 1 << 20;
/// A compressed file up to this size is read whole to see how much text it holds.
const MAX_MEASURED_BYTES: u64 = 64 << 20;
/// Bytes that a disk writes in a second, at least.
const DISK_BYTES_A_SECOND: f64 = 500e6;

/// What a build of one split would take. All but the free space is extrapolated from a sample.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The split.
    pub split: String,
    /// Source files.
    pub files: u64,
    /// Their bytes.
    pub source_bytes: u64,
    /// Raw records encoded for the estimate.
    pub sampled_records: u64,
    /// Raw records in all.
    pub records: u64,
    /// How often the split is read: once more for each step that compares all its examples.
    pub reads: u64,
    /// Examples, those among them that such steps will drop.
    pub examples: u64,
    /// Token ids of each feature.
    pub tokens: BTreeMap<String, u64>,
    /// Bytes of the finished cache.
    pub cache_bytes: u64,
    /// Bytes at the peak of the build, when spills and shards are both there.
    pub peak_bytes: u64,
    /// Bytes free where the cache would be.
    pub free_bytes: u64,
    /// CPU seconds.
    pub cpu_seconds: f64,
    /// Seconds with the threads of the configuration.
    pub wall_seconds: f64,
}

impl Estimate {
    /// An error if the disk is too small.
    pub fn check_space(&self, root: &Path) -> Result<(), CacheError> {
        if self.peak_bytes <= self.free_bytes {
            return Ok(());
        }
        Err(CacheError::DiskTooSmall {
            path: root.to_owned(),
            needed: self.peak_bytes,
            free: self.free_bytes,
        })
    }
}

/// What a sample gave.
#[derive(Debug, Default)]
struct Sample {
    records: u64,
    text_bytes: u64,
    examples: u64,
    row_bytes: u64,
    tokens: BTreeMap<String, u64>,
    cpu_seconds: f64,
}

pub(crate) fn estimate_split(
    root: &Path,
    input: &dyn BuildInput,
    split: &Split,
    config: &BuildConfig,
) -> Result<Estimate, CacheError> {
    let columns = stored_columns(input)?;
    let source = input.needed_source()?;
    let plan = SplitPlan::new(source, split)?;
    let mut sample = Sample::default();
    for (job, chunks) in sampled_jobs(&plan) {
        if config.cancel.load(Ordering::Relaxed) {
            return Err(CacheError::Interrupted { done: "nothing".to_owned() });
        }
        sample.read(input, source, &columns, &plan, job, chunks)?;
    }
    let records = total_records(source, &plan, &sample)?;
    let scale = if sample.records == 0 { 0.0 } else { records as f64 / sample.records as f64 };
    let scaled = |amount: u64| (amount as f64 * scale).round() as u64;
    let examples = scaled(sample.examples);
    let cache_bytes = scaled(sample.row_bytes) + examples * overhead_a_row(&columns);
    let reads = input.whole_split_steps().len() as u64 + 1;
    // Keys with their positions; once more while they are merged.
    let key_bytes = (reads - 1) * 2 * size_of::<KeyRecord>() as u64 * examples;
    // A spill has a key a row more, and no lengths.
    let spill_bytes = cache_bytes + 16 * examples;
    let cpu_seconds = sample.cpu_seconds * scale + 2.0 * cache_bytes as f64 / DISK_BYTES_A_SECOND;
    Ok(Estimate {
        split: split.to_string(),
        files: plan.files.len() as u64,
        source_bytes: plan.source_bytes(),
        sampled_records: sample.records,
        records,
        reads,
        examples,
        tokens: sample.tokens.iter().map(|(name, &tokens)| (name.clone(), scaled(tokens))).collect(),
        cache_bytes,
        peak_bytes: cache_bytes + spill_bytes + key_bytes,
        free_bytes: free_bytes(root)?,
        cpu_seconds,
        wall_seconds: cpu_seconds / config.threads.max(1) as f64,
    })
}

/// File, range (or the whole file), and how many chunks of it.
type SampleJob = (u32, Option<SourceRange>);

/// Ranges spread evenly over the split, and how many chunks to take of each.
fn sampled_jobs(plan: &SplitPlan) -> Vec<(SampleJob, u64)> {
    let mut jobs: Vec<SampleJob> = Vec::new();
    for (file, ranges) in (0u32..).zip(&plan.ranges) {
        match ranges {
            FileRanges::Known(ranges) => jobs.extend(
                ranges
                    .iter()
                    .filter(|range| plan.window((file, range.start)).is_some())
                    .map(|&range| (file, Some(range))),
            ),
            FileRanges::Streamed if plan.touches(file) => jobs.push((file, None)),
            FileRanges::Streamed => {}
        }
    }
    let chunks = (plan.source_bytes() / 100 / CHUNK_BYTES).clamp(1, MAX_CHUNKS);
    let taken = chunks.min(jobs.len() as u64);
    let step = |index: u64| (index * jobs.len() as u64 / taken.max(1)) as usize;
    (0..taken).map(|index| (jobs[step(index)], chunks.div_ceil(taken))).collect()
}

impl Sample {
    fn read(
        &mut self,
        input: &dyn BuildInput,
        source: &dyn DataSource,
        columns: &StoredColumns,
        plan: &SplitPlan,
        (index, range): SampleJob,
        chunks: u64,
    ) -> Result<(), CacheError> {
        let file = plan.file(index);
        let begin = cpu_seconds();
        for chunk in source.read(file, index, range, Box::new(|_| false))?.take(chunks as usize) {
            let chunk = chunk?;
            self.records += chunk.num_records;
            if let RawRecords::Lines(text) = &chunk.records {
                self.text_bytes += text.len() as u64;
            }
            let failed = |error| CacheError::Step {
                path: file.path.clone(),
                line: chunk.first_ordinal + 1,
                exact: false,
                error: Box::new(error),
            };
            let choices = SplitChoices::keep_all();
            for number in 0..input.whole_split_steps().len() {
                let examples = source.parse(file, &chunk)?.examples;
                input.split_keys(number, chunk.range, examples, &choices).map_err(failed)?;
            }
            let examples = source.parse(file, &chunk)?.examples;
            let examples = input.preprocess(chunk.range, examples, &choices).map_err(failed)?;
            let keys = vec![[0; 16]; examples.len()];
            let batch = columns.store(&examples.columns, &examples.rows, &keys)?;
            let batch = SpillBatch::new(columns, batch).expect("it was made with the spill's columns");
            self.examples += batch.len() as u64;
            self.row_bytes += batch.total_bytes();
            for (token, tokens) in columns.tokens.iter().zip(batch.tokens_by_feature()) {
                *self.tokens.entry(token.name.clone()).or_default() += tokens;
            }
        }
        self.cpu_seconds += cpu_seconds() - begin;
        Ok(())
    }
}

/// Raw records of the split: counted where that is cheap, else from the bytes of the sample's.
fn total_records(source: &dyn DataSource, plan: &SplitPlan, sample: &Sample) -> Result<u64, CacheError> {
    if let Some(slice) = &plan.slice {
        return Ok(slice.windows.values().map(|window| window.end - window.start).sum());
    }
    let mut records = 0;
    let mut text_bytes = 0.0;
    let mut ratio = None;
    for ((index, file), ranges) in (0u32..).zip(&plan.files).zip(&plan.ranges) {
        match ranges {
            // Columnar files count their rows.
            _ if sample.text_bytes == 0 && !file.is_compressed() => {
                records += source.count_records(file, index)?.iter().map(|(_, count)| count).sum::<u64>();
            }
            FileRanges::Streamed if source.is_result(file) => {
                records += source.count_records(file, index)?.iter().map(|(_, count)| count).sum::<u64>();
            }
            _ if !file.is_compressed() => text_bytes += file.bytes as f64,
            _ => {
                let ratio = match ratio {
                    Some(ratio) => ratio,
                    None => *ratio.insert(text_ratio(source, plan)?),
                };
                text_bytes += file.bytes as f64 * ratio;
            }
        }
    }
    if sample.text_bytes > 0 {
        records += (text_bytes * sample.records as f64 / sample.text_bytes as f64).round() as u64;
    }
    Ok(records)
}

/// Bytes of text for each byte of a compressed file: that of the smallest one, or 4 if even that is large.
fn text_ratio(source: &dyn DataSource, plan: &SplitPlan) -> Result<f64, CacheError> {
    let streamed = (0u32..).zip(plan.files.iter().zip(&plan.ranges));
    let streamed = streamed.filter(|(_, (file, ranges))| {
        **ranges == FileRanges::Streamed && file.is_compressed() && file.bytes > 0
    });
    match streamed.min_by_key(|(_, (file, _))| file.bytes) {
        Some((index, (file, _))) if file.bytes <= MAX_MEASURED_BYTES => {
            let mut bytes = 0u64;
            for chunk in source.read(file, index, None, Box::new(|_| false))? {
                if let RawRecords::Lines(text) = chunk?.records {
                    bytes += text.len() as u64;
                }
            }
            Ok(bytes as f64 / file.bytes as f64)
        }
        _ => Ok(4.0),
    }
}

/// Bytes of a row in a shard's files besides its content: ends of lists and strings, lengths, share of a batch's head.
fn overhead_a_row(columns: &StoredColumns) -> u64 {
    let ends = columns.shard.fields().iter().filter(|field| {
        matches!(
            field.data_type(),
            DataType::Utf8 | DataType::Binary | DataType::List(_) | DataType::Struct(_)
        )
    });
    4 * ends.count() as u64 + 4 * columns.tokens.len() as u64 + 2
}

/// Bytes free to this user on the disk that `root` is on, or would be.
pub(crate) fn free_bytes(root: &Path) -> Result<u64, CacheError> {
    let here = std::path::absolute(root).map_err(CacheError::io("read", root))?;
    let there = here.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    let space = rustix::fs::statvfs(there).map_err(|error| CacheError::io("read", there)(error.into()))?;
    Ok(space.f_bavail.saturating_mul(space.f_frsize))
}

/// CPU seconds of this thread.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_too_small_is_told_with_both_numbers() {
        let estimate = Estimate {
            split: "train".to_owned(),
            files: 1,
            source_bytes: 1,
            sampled_records: 1,
            records: 1,
            reads: 1,
            examples: 1,
            tokens: BTreeMap::new(),
            cache_bytes: 500,
            peak_bytes: 1000,
            free_bytes: 999,
            cpu_seconds: 1.0,
            wall_seconds: 1.0,
        };
        let error = estimate.check_space(Path::new("caches")).unwrap_err();
        insta::assert_snapshot!(error, @"the cache needs about 1000 bytes while it is built, but caches has 999 free");
        assert!(Estimate { free_bytes: 1000, ..estimate }.check_space(Path::new("caches")).is_ok());
    }

    #[test]
    fn free_space_is_that_of_the_nearest_folder_there_is() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free_bytes(&folder.path().join("not/yet/there")).unwrap() > 0);
    }
}
