//! Encoded ranges on their way to the shards: sorted runs, and a record for each range that is done.
//!
//! ```text
//! train.work/<file>-<start>.json            this range is done: its runs, counts, digest
//! train.work/<file>-<start>.0.arrow         its rows sorted by (key, id): one run, more where memory is short
//! train.work/<file>.file.json               where its ranges begin, of a file that only one reader can run through
//! ```
//!
//! The key is the example's shuffle key, or its place in the range for splits that keep the source's order. How many
//! runs there are depends on memory and time; what is merged from them does not.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seqio::{BadRow, EncodeCounts, SourceFile, SourceRange};
use serde::{Deserialize, Serialize};

use crate::columns::StoredColumns;
use crate::commit::{self, Durability};
use crate::error::CacheError;
use crate::layout::hex;
use crate::log::modified_ns;
use crate::rows::{BatchFill, Geometry, Pick, PickSource, SpillBatch, Target, gather};
use crate::table::Table;
use crate::writer::TableWriter;

/// A sorted file of rows of one range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunEntry {
    /// Its name in the work folder.
    pub(crate) file: String,
    /// Its size.
    pub(crate) bytes: u64,
    /// Its rows.
    pub(crate) rows: u64,
    /// Hash of its bytes.
    pub(crate) blake3: String,
}

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

/// A range that is encoded and committed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RangeRecord {
    /// The file it was read from.
    pub(crate) file: FileState,
    /// The file's index at that time.
    pub(crate) file_index: u32,
    /// First byte or row group.
    pub(crate) start: u64,
    /// One past the last, as the source said.
    pub(crate) end: u64,
    /// Raw records of the range, bad and blank ones included.
    pub(crate) records: u64,
    /// Its share of the source file's bytes, for progress.
    pub(crate) source_bytes: u64,
    /// Hash of its text; empty for columnar files, which are hashed whole.
    pub(crate) text_digest: String,
    /// Its rows.
    pub(crate) runs: Vec<RunEntry>,
    /// Number of rows.
    pub(crate) rows: u64,
    /// Bytes of the rows in a shard.
    pub(crate) row_bytes: u64,
    /// Token ids.
    pub(crate) tokens: u64,
    /// Bad records.
    pub(crate) bad_rows: u64,
    /// The first of them: ordinal in the range and reason.
    pub(crate) first_bad_rows: Vec<(u64, String)>,
    /// Why the file could not be read on after this range.
    pub(crate) damage: Option<String>,
    /// What the encoders met, by feature.
    pub(crate) counts: BTreeMap<String, EncodeCounts>,
}

/// The ranges of a file that only one reader can run through.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamRecord {
    pub(crate) file: FileState,
    pub(crate) starts: Vec<u64>,
}

/// The name of a range's record without its ending.
fn stem(file_name: &str, start: u64) -> String {
    format!("{}-{start:016x}", &blake3::hash(file_name.as_bytes()).to_hex()[..16])
}

impl RangeRecord {
    pub(crate) fn path(work: &Path, file_name: &str, start: u64) -> PathBuf {
        work.join(format!("{}.json", stem(file_name, start)))
    }

    /// Commits the range.
    pub(crate) fn write(&self, work: &Path) -> Result<(), CacheError> {
        let path = Self::path(work, &self.file.name, self.start);
        commit::write(&path, commit::to_checked_json(self).as_bytes(), Durability::Process)
    }

    /// The record of a range that an earlier job committed, if it and its runs are whole and the file is the same.
    pub(crate) fn reuse(path: &Path, work: &Path, files: &[SourceFile]) -> Option<Self> {
        let record: Self = commit::read_checked_json(path).ok()?;
        let file = files.iter().find(|file| file.name == record.file.name)?;
        let whole = |run: &RunEntry| {
            let path = work.join(&run.file);
            fs::metadata(&path).is_ok_and(|metadata| metadata.len() == run.bytes)
                && hash_file(&path).is_ok_and(|hash| hash == run.blake3)
        };
        (FileState::of(file) == record.file && record.runs.iter().all(whole)).then_some(record)
    }

    /// The range with the file's index of today.
    pub(crate) fn range(&self, file_index: u32) -> SourceRange {
        SourceRange { file: file_index, start: self.start, end: self.end }
    }
}

impl StreamRecord {
    fn path(work: &Path, file_name: &str) -> PathBuf {
        let hash = blake3::hash(file_name.as_bytes()).to_hex();
        work.join(format!("{}.file.json", &hash[..16]))
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

/// The blake3 hash of a file, read piece by piece.
pub(crate) fn hash_file(path: &Path) -> Result<String, CacheError> {
    let mut hasher = blake3::Hasher::new();
    let mut file = fs::File::open(path).map_err(CacheError::io("read", path))?;
    std::io::copy(&mut file, &mut hasher).map_err(CacheError::io("read", path))?;
    Ok(hex(hasher.finalize().as_bytes()))
}

/// Sorts batches of one range and writes them as its run number `number`.
pub(crate) fn write_run(
    work: &Path,
    columns: &StoredColumns,
    geometry: &Geometry,
    file_name: &str,
    start: u64,
    number: usize,
    batches: Vec<SpillBatch>,
) -> Result<RunEntry, CacheError> {
    let mut order: Vec<(u128, Pick)> = Vec::with_capacity(batches.iter().map(SpillBatch::len).sum());
    for (index, batch) in batches.iter().enumerate() {
        order.extend((0..batch.len()).map(|row| (batch.key(row), (index as u32, row as u32))));
    }
    let id = |pick: &Pick| batches[pick.0 as usize].id(pick.1 as usize);
    order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| id(&a.1).cmp(&id(&b.1))));

    let file = format!("{}.{number}.arrow", stem(file_name, start));
    let mut writer = TableWriter::create(&work.join(&file), &columns.spill, true)?;
    let mut fill = BatchFill::default();
    let cuts: Vec<bool> = order
        .iter()
        .map(|(_, pick)| fill.add(batches[pick.0 as usize].row_bytes(pick.1 as usize), geometry))
        .collect();
    let sources: Vec<PickSource> = batches
        .into_iter()
        .map(|batch| PickSource { batch: Arc::new(batch), first_row: 0, file: None })
        .collect();
    let mut picks: Vec<Pick> = Vec::new();
    for (&(_, pick), cut) in order.iter().zip(cuts) {
        if cut {
            writer.write(&gather(columns, &sources, &picks, Target::Spill)?)?;
            picks.clear();
        }
        picks.push(pick);
    }
    if !picks.is_empty() {
        writer.write(&gather(columns, &sources, &picks, Target::Spill)?)?;
    }
    let written = writer.finish()?;
    let entry = RunEntry {
        file,
        bytes: written.bytes,
        rows: order.len() as u64,
        blake3: hex(&written.checksum.expect("asked for when the file was created")),
    };
    written.commit(Durability::Process)?;
    Ok(entry)
}

/// Keeps the first few bad records in order.
pub(crate) fn first_bad_rows(mut bad_rows: Vec<BadRow>) -> Vec<(u64, String)> {
    bad_rows.sort_by_key(|row| row.ordinal);
    bad_rows.truncate(crate::stats::BAD_ROWS_KEPT);
    bad_rows.into_iter().map(|row| (row.ordinal, row.reason)).collect()
}

/// A run opened for merging.
#[derive(Debug)]
pub(crate) struct Run {
    table: Table,
    /// See [`PickSource::first_row`].
    first_row: u64,
    /// See [`PickSource::file`].
    file: Option<u32>,
}

impl Run {
    pub(crate) fn open(path: &Path, first_row: u64, file: Option<u32>) -> Result<Self, CacheError> {
        Ok(Self { table: Table::open(path)?, first_row, file })
    }

    pub(crate) fn num_batches(&self) -> usize {
        self.table.num_batches()
    }

    pub(crate) fn batch(&self, columns: &StoredColumns, batch: usize) -> Result<Arc<SpillBatch>, CacheError> {
        let spilled = SpillBatch::new(columns, self.table.batch(batch)?);
        spilled
            .map(Arc::new)
            .ok_or_else(|| CacheError::damaged(self.table.path(), "it has other columns than the task"))
    }

    pub(crate) fn source(&self, batch: &Arc<SpillBatch>) -> PickSource {
        PickSource { batch: Arc::clone(batch), first_row: self.first_row, file: self.file }
    }

    /// The first row whose key is at least `key`: batch and row in it.
    pub(crate) fn lower_bound(
        &self,
        columns: &StoredColumns,
        key: u128,
    ) -> Result<(usize, usize), CacheError> {
        let (mut low, mut high) = (0, self.num_batches());
        // Find the first batch whose last key reaches `key`.
        while low < high {
            let middle = low.midpoint(high);
            let batch = self.batch(columns, middle)?;
            if batch.len() > 0 && batch.key(batch.len() - 1) >= key {
                high = middle
            } else {
                low = middle + 1
            }
        }
        if low == self.num_batches() {
            return Ok((low, 0));
        }
        let batch = self.batch(columns, low)?;
        let (mut first, mut last) = (0, batch.len());
        while first < last {
            let middle = first.midpoint(last);
            if batch.key(middle) >= key { last = middle } else { first = middle + 1 }
        }
        Ok((low, first))
    }
}
