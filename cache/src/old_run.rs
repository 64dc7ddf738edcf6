//! The examples of a finished cache as a run to be merged with the spills of a build.
//!
//! ```text
//! old shards, in their order  ->  examples whose pieces are reused, with new numbers of files and their sort keys
//! ```
//!
//! Every batch is checked before it is believed. Nothing is copied to the disk but the new shards.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use rayon::prelude::*;
use seqio::{ExampleId, Origin};

use crate::columns::{ID, KEY, ORIGIN, OriginColumns, StoredColumns, binary_16};
use crate::error::CacheError;
use crate::layout::shard_file;
use crate::rows::{OriginLists, SpillBatch};
use crate::store::Cache;
use crate::table::Table;
use crate::verify::read_sums;
use crate::writer::{BatchSum, sum};

/// What is taken over of a file of the old cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptFile {
    /// Its index now.
    pub(crate) file: u32,
    /// Examples that begin before this byte, or row.
    pub(crate) below: u64,
}

/// A split of an old cache, to be merged.
#[derive(Debug)]
pub(crate) struct OldRun {
    folder: PathBuf,
    shards: Vec<OldShard>,
    /// Number of the first batch of each shard.
    shard_firsts: Vec<usize>,
    /// Number of the first row of each batch, and of one past the last.
    batch_firsts: Vec<u64>,
    /// By index of the file in the old cache.
    kept: Vec<Option<KeptFile>>,
    /// The seed of the keys; `None` if the split keeps the source's order.
    seed: Option<u64>,
}

#[derive(Debug)]
struct OldShard {
    all: Table,
    ids: Table,
    sums: Vec<BatchSum>,
}

impl OldRun {
    /// Opens the shards of a split that has these columns.
    pub(crate) fn open(
        cache: &Cache,
        split: &str,
        columns: &StoredColumns,
        kept: Vec<Option<KeptFile>>,
        seed: Option<u64>,
    ) -> Result<Self, CacheError> {
        let entry = cache.manifest().split(cache.folder(), split)?;
        let open = |shard| OldShard::open(cache, shard, columns);
        let shards: Vec<OldShard> = entry.shards.par_iter().map(open).collect::<Result<_, _>>()?;
        let (mut shard_firsts, mut batch_firsts, mut batches) = (Vec::new(), vec![0], 0);
        for shard in &shards {
            shard_firsts.push(batches);
            batches += shard.sums.len();
            for batch in &shard.sums {
                batch_firsts.push(batch_firsts[batch_firsts.len() - 1] + u64::from(batch.rows));
            }
        }
        Ok(Self { folder: cache.folder().to_owned(), shards, shard_firsts, batch_firsts, kept, seed })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn num_batches(&self) -> usize {
        self.batch_firsts.len() - 1
    }

    pub(crate) fn num_rows(&self) -> u64 {
        self.batch_firsts[self.num_batches()]
    }

    /// The batch that holds a row, or one past the last.
    pub(crate) fn batch_of(&self, row: u64) -> usize {
        self.batch_firsts.partition_point(|&first| first <= row) - 1
    }

    fn shard_of(&self, batch: usize) -> (&OldShard, usize) {
        let shard = self.shard_firsts.partition_point(|&first| first <= batch) - 1;
        (&self.shards[shard], batch - self.shard_firsts[shard])
    }

    fn key(&self, id: [u8; 16], row: u64) -> [u8; 16] {
        match self.seed {
            Some(seed) => ExampleId(id).shuffle_key(seed),
            None => u128::from(row).to_be_bytes(),
        }
    }

    /// The key of the last row of a batch, kept or not.
    fn last_key(&self, batch: usize) -> Result<u128, CacheError> {
        let (shard, place) = self.shard_of(batch);
        let rows = shard.rows(&shard.ids, place)?;
        let ids = ids_of(&rows).ok_or_else(|| shard.other_columns(place))?;
        let last = rows.num_rows().saturating_sub(1);
        let id = ids.get(last).copied().unwrap_or([0; 16]);
        Ok(u128::from_be_bytes(self.key(id, self.batch_firsts[batch] + last as u64)))
    }

    /// The first batch whose last row has at least this key, or one past the last.
    pub(crate) fn first_batch_at(&self, key: u128) -> Result<usize, CacheError> {
        let (mut low, mut high) = (0, self.num_batches());
        while low < high {
            let middle = low.midpoint(high);
            if self.last_key(middle)? >= key { high = middle } else { low = middle + 1 }
        }
        Ok(low)
    }

    /// The kept rows of a batch among `rows` of the split, as rows of a spill.
    pub(crate) fn batch(
        &self,
        columns: &StoredColumns,
        batch: usize,
        rows: &Range<u64>,
    ) -> Result<SpillBatch, CacheError> {
        let (shard, place) = self.shard_of(batch);
        let stored = shard.rows(&shard.all, place)?;
        let other_columns = || shard.other_columns(place);
        let ids = ids_of(&stored).ok_or_else(other_columns)?;
        let origins = stored.column_by_name(ORIGIN).and_then(OriginLists::of).ok_or_else(other_columns)?;
        let mut kept = Vec::with_capacity(ids.len());
        let mut keys = Vec::with_capacity(16 * ids.len());
        let mut new_origins = OriginColumns::default();
        for (row, id) in ids.iter().enumerate() {
            let number = self.batch_firsts[batch] + row as u64;
            let taken = if rows.contains(&number) { self.new_origins(origins.get(row))? } else { None };
            kept.push(taken.is_some());
            if let Some(taken) = taken {
                taken.into_iter().for_each(|origin| new_origins.push(origin));
                new_origins.end_row();
                keys.extend_from_slice(&self.key(*id, number));
            }
        }
        let stored = match kept.contains(&false) {
            true => arrow::compute::filter_record_batch(&stored, &BooleanArray::from(kept))?,
            false => stored,
        };
        let (origins, keys): (ArrayRef, ArrayRef) = (new_origins.finish(), binary_16(keys));
        let array = |field: &str| match field {
            ORIGIN => Ok(Arc::clone(&origins)),
            KEY => Ok(Arc::clone(&keys)),
            other => stored.column_by_name(other).cloned().ok_or_else(other_columns),
        };
        let arrays = columns.spill.fields().iter().map(|field| array(field.name()));
        let spilled = RecordBatch::try_new(Arc::clone(&columns.spill), arrays.collect::<Result<_, _>>()?)?;
        SpillBatch::new(columns, spilled).ok_or_else(other_columns)
    }

    /// The origins of a row with the files as they are numbered now; `None` if it is not taken over.
    fn new_origins(&self, origins: impl Iterator<Item = Origin>) -> Result<Option<Vec<Origin>>, CacheError> {
        let (mut taken, mut left) = (Vec::new(), false);
        for mut origin in origins {
            let kept = self.kept.get(origin.file as usize).copied().flatten();
            match kept.filter(|kept| origin.offset < kept.below) {
                Some(kept) => {
                    origin.file = kept.file;
                    taken.push(origin);
                }
                None => left = true,
            }
        }
        match (taken.is_empty(), left) {
            (false, false) => Ok(Some(taken)),
            (true, true) => Ok(None),
            _ => Err(CacheError::CannotReuse {
                path: self.folder.clone(),
                problem: "an example of it was made from several records, and not all of them are as they were, or \
                          from none"
                    .to_owned(),
            }),
        }
    }
}

impl OldShard {
    fn open(
        cache: &Cache,
        entry: &crate::manifest::ShardEntry,
        columns: &StoredColumns,
    ) -> Result<Self, CacheError> {
        let path = shard_file(cache.folder(), &entry.name, "arrow");
        let sums = read_sums(cache.folder(), entry)?;
        let all = Table::open_summed(&path, &sums)?;
        let rows: u64 = sums.batches.iter().map(|batch| u64::from(batch.rows)).sum();
        if all.schema().fields() != columns.shard.fields() || rows != entry.examples {
            return Err(CacheError::damaged(&path, "it has other columns or rows than the manifest says"));
        }
        let id = all.schema().index_of(ID)?;
        Ok(Self { ids: all.with_columns(vec![id]), all, sums: sums.batches })
    }

    /// A batch, checked.
    fn rows(&self, table: &Table, batch: usize) -> Result<RecordBatch, CacheError> {
        let known = &self.sums[batch];
        if sum(self.all.batch_bytes(batch)) != known.sum {
            return Err(self.damaged(batch, "its checksum is wrong"));
        }
        let rows = table.batch(batch)?;
        match rows.num_rows() == known.rows as usize {
            true => Ok(rows),
            false => Err(self.damaged(batch, "it has another number of rows than its checksums say")),
        }
    }

    fn damaged(&self, batch: usize, problem: &str) -> CacheError {
        CacheError::damaged(self.all.path(), format!("batch {batch}: {problem}"))
    }

    fn other_columns(&self, batch: usize) -> CacheError {
        self.damaged(batch, "it has other columns than the manifest says")
    }
}

/// The ids of a batch.
fn ids_of(rows: &RecordBatch) -> Option<Vec<[u8; 16]>> {
    let ids = rows.column_by_name(ID)?.as_fixed_size_binary_opt().filter(|ids| ids.value_length() == 16)?;
    (0..ids.len()).map(|row| ids.value(row).try_into().ok()).collect()
}
