//! Sorted runs of encoded rows, between encoding and merging.
//!
//! ```text
//! batches of a part, in any order  ->  <part>.arrow: sorted by (key, id), batches as in shards, one column more: `_key`
//! ```
//!
//! The key is the example's shuffle key, or its place in the range for splits that keep the source's order.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::columns::StoredColumns;
use crate::commit::Durability;
use crate::error::CacheError;
use crate::layout::hex;
use crate::old_run::OldRun;
use crate::parts::Check;
use crate::rows::{BatchFill, Geometry, Pick, PickSource, SpillBatch, Target, gather};
use crate::table::Table;
use crate::writer::TableWriter;

/// A sorted file of rows.
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

impl RunEntry {
    /// Whether the file is as it was written.
    pub(crate) fn is_good(&self, work: &Path, check: Check) -> bool {
        check.passes(&work.join(&self.file), self.bytes, &self.blake3)
    }
}

/// The blake3 hash of a file, read piece by piece.
pub(crate) fn hash_file(path: &Path) -> Result<String, CacheError> {
    let mut hasher = blake3::Hasher::new();
    let mut file = fs::File::open(path).map_err(CacheError::io("read", path))?;
    std::io::copy(&mut file, &mut hasher).map_err(CacheError::io("read", path))?;
    Ok(hex(hasher.finalize().as_bytes()))
}

/// Sorts batches of one range and writes them as the run `stem`.
pub(crate) fn write_run(
    work: &Path,
    columns: &StoredColumns,
    geometry: &Geometry,
    stem: &str,
    batches: Vec<SpillBatch>,
) -> Result<RunEntry, CacheError> {
    let mut order: Vec<(u128, Pick)> = Vec::with_capacity(batches.iter().map(SpillBatch::len).sum());
    for (index, batch) in batches.iter().enumerate() {
        order.extend((0..batch.len()).map(|row| (batch.key(row), (index as u32, row as u32))));
    }
    let id = |pick: &Pick| batches[pick.0 as usize].id(pick.1 as usize);
    order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| id(&a.1).cmp(&id(&b.1))));

    let file = format!("{stem}.arrow");
    let mut writer = TableWriter::create_hashed(&work.join(&file), &columns.spill)?;
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

/// A run to be merged.
#[derive(Clone, Debug)]
pub(crate) struct RunPlace {
    pub(crate) path: PathBuf,
    /// See [`PickSource::first_row`].
    pub(crate) first_row: u64,
    /// See [`PickSource::file`].
    pub(crate) file: Option<u32>,
}

/// A run opened for merging.
#[derive(Debug)]
pub(crate) enum Run {
    /// A spill.
    Spill(SpilledRun),
    /// Rows of an old cache.
    Old {
        /// The old split.
        run: Arc<OldRun>,
        /// Which of its rows; those that are not taken over are left out.
        rows: Range<u64>,
    },
}

/// A place in a run: number of a batch that has rows, the batch, and a row in it.
pub(crate) type RunPosition = (usize, Arc<SpillBatch>, usize);

impl Run {
    pub(crate) fn open(place: &RunPlace) -> Result<Self, CacheError> {
        Ok(Self::Spill(SpilledRun {
            table: Table::open(&place.path)?,
            first_row: place.first_row,
            file: place.file,
        }))
    }

    /// The first row whose key is at least `key`.
    pub(crate) fn first_at(
        &self,
        columns: &StoredColumns,
        key: u128,
    ) -> Result<Option<RunPosition>, CacheError> {
        let first = match self {
            Self::Spill(run) if key > 0 => run.first_batch_at(columns, key)?,
            Self::Spill(_) => 0,
            Self::Old { run, .. } if key > 0 => run.first_batch_at(key)?,
            Self::Old { run, rows } => run.batch_of(rows.start),
        };
        let mut from = self.batch_from(columns, first)?;
        while let Some((index, batch)) = from {
            let row = batch.lower_bound(key);
            if row < batch.len() {
                return Ok(Some((index, batch, row)));
            }
            from = self.batch_from(columns, index + 1)?;
        }
        Ok(None)
    }

    /// The first batch from this number on that has rows.
    pub(crate) fn batch_from(
        &self,
        columns: &StoredColumns,
        first: usize,
    ) -> Result<Option<(usize, Arc<SpillBatch>)>, CacheError> {
        let end = match self {
            Self::Spill(run) => run.table.num_batches(),
            Self::Old { run, rows } if rows.is_empty() => first.min(run.num_batches()),
            Self::Old { run, rows } => run.batch_of(rows.end - 1) + 1,
        };
        for index in first..end {
            let batch = match self {
                Self::Spill(run) => run.batch(columns, index)?,
                Self::Old { run, rows } => run.batch(columns, index, rows)?,
            };
            if batch.len() > 0 {
                return Ok(Some((index, Arc::new(batch))));
            }
        }
        Ok(None)
    }

    pub(crate) fn source(&self, batch: &Arc<SpillBatch>) -> PickSource {
        let batch = Arc::clone(batch);
        match self {
            Self::Spill(run) => PickSource { batch, first_row: run.first_row, file: run.file },
            // Its origins are those of the whole split already.
            Self::Old { .. } => PickSource { batch, first_row: 0, file: None },
        }
    }
}

/// A spill opened for merging.
#[derive(Debug)]
pub(crate) struct SpilledRun {
    table: Table,
    first_row: u64,
    file: Option<u32>,
}

impl SpilledRun {
    fn batch(&self, columns: &StoredColumns, batch: usize) -> Result<SpillBatch, CacheError> {
        let spilled = SpillBatch::new(columns, self.table.batch(batch)?);
        spilled.ok_or_else(|| CacheError::damaged(self.table.path(), "it has other columns than the task"))
    }

    /// The first batch whose last key is at least `key`, or one past the last.
    fn first_batch_at(&self, columns: &StoredColumns, key: u128) -> Result<usize, CacheError> {
        let (mut low, mut high) = (0, self.table.num_batches());
        while low < high {
            let middle = low.midpoint(high);
            let batch = self.batch(columns, middle)?;
            if batch.len() > 0 && batch.key(batch.len() - 1) >= key {
                high = middle
            } else {
                low = middle + 1
            }
        }
        Ok(low)
    }
}
