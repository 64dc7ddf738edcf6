//! Rows picked from many batches into one: how sorted spills and merged shards are made.
//!
//! ```text
//! batches A [a0 a1 a2], B [b0 b1];  picks (B,1) (A,0) (A,2)   ->   [b1 a0 a2]
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch, StringArray};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{UInt16Type, UInt32Type, UInt64Type};
use seqio::Origin;

use crate::columns::{OriginColumns, StoredColumns, add_row_bytes, binary_16, list_array};
use crate::error::CacheError;

/// How much goes into a batch and a shard. The defaults are part of the format; tests take less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Most rows of a batch.
    pub(crate) batch_rows: usize,
    /// Most bytes of a batch with more than one row.
    pub(crate) batch_bytes: u64,
    /// Bytes that a shard is meant for.
    pub(crate) shard_bytes: u64,
    /// Bytes of the source that are committed at a time while encoding; this one shows nowhere in a cache.
    pub(crate) part_bytes: u64,
    /// Most runs that are merged at a time; nor does this one.
    pub(crate) most_runs: usize,
}

impl Default for Geometry {
    fn default() -> Self {
        Self {
            batch_rows: 1024,
            batch_bytes: 8 << 20,
            shard_bytes: 256 << 20,
            part_bytes: 4 << 20,
            most_runs: 4096,
        }
    }
}

/// Where batches close: before the row that would make one too long.
#[derive(Debug, Default)]
pub(crate) struct BatchFill {
    rows: usize,
    bytes: u64,
}

impl BatchFill {
    /// Takes one more row, and says whether it had to begin a new batch.
    pub(crate) fn add(&mut self, row_bytes: u64, geometry: &Geometry) -> bool {
        let full = self.rows > 0
            && (self.rows == geometry.batch_rows || self.bytes + row_bytes > geometry.batch_bytes);
        if full {
            *self = Self::default();
        }
        self.rows += 1;
        self.bytes += row_bytes;
        full
    }
}

/// Token sequences of a batch, read in place.
#[derive(Clone, Debug)]
pub(crate) struct TokenLists {
    /// The ends of the rows, with a 0 in front.
    pub(crate) offsets: OffsetBuffer<i32>,
    /// The ids of all rows.
    pub(crate) values: TokenValues,
}

/// Ids as they are stored.
#[derive(Clone, Debug)]
pub(crate) enum TokenValues {
    /// Of a vocabulary of at most 65,536 ids.
    Narrow(ScalarBuffer<u16>),
    /// Of a larger one.
    Wide(ScalarBuffer<u32>),
}

impl TokenLists {
    /// Looks at a column made by [`StoredColumns::store`].
    pub(crate) fn of(column: &ArrayRef) -> Option<Self> {
        let lists = column.as_list_opt::<i32>()?;
        let values = lists.values();
        let values = if let Some(ids) = values.as_primitive_opt::<UInt16Type>() {
            TokenValues::Narrow(ids.values().clone())
        } else {
            TokenValues::Wide(values.as_primitive_opt::<UInt32Type>()?.values().clone())
        };
        Some(Self { offsets: lists.offsets().clone(), values })
    }

    /// Bytes held in memory.
    pub(crate) fn memory(&self) -> u64 {
        let values = match &self.values {
            TokenValues::Narrow(ids) => 2 * ids.len(),
            TokenValues::Wide(ids) => 4 * ids.len(),
        };
        (4 * self.offsets.len() + values) as u64
    }

    /// Where a row's ids are among the values.
    pub(crate) fn span(&self, row: usize) -> std::ops::Range<usize> {
        self.offsets[row] as usize..self.offsets[row + 1] as usize
    }
}

/// Origins of a batch, read in place.
#[derive(Clone, Debug)]
pub(crate) struct OriginLists {
    offsets: OffsetBuffer<i32>,
    file: ScalarBuffer<u32>,
    row: ScalarBuffer<u64>,
    offset: ScalarBuffer<u64>,
    length: ScalarBuffer<u64>,
}

impl OriginLists {
    /// Looks at a column made by [`StoredColumns::store`].
    pub(crate) fn of(column: &ArrayRef) -> Option<Self> {
        let lists = column.as_list_opt::<i32>()?;
        let parts = lists.values().as_struct_opt()?;
        if parts.num_columns() != 4 {
            return None;
        }
        let long =
            |index: usize| Some(parts.column(index).as_primitive_opt::<UInt64Type>()?.values().clone());
        Some(Self {
            offsets: lists.offsets().clone(),
            file: parts.column(0).as_primitive_opt::<UInt32Type>()?.values().clone(),
            row: long(1)?,
            offset: long(2)?,
            length: long(3)?,
        })
    }

    /// Bytes held in memory.
    pub(crate) fn memory(&self) -> u64 {
        (4 * self.offsets.len() + 28 * self.row.len()) as u64
    }

    /// The origins of a row.
    pub(crate) fn get(&self, row: usize) -> impl Iterator<Item = Origin> {
        (self.offsets[row] as usize..self.offsets[row + 1] as usize).map(|at| Origin {
            file: self.file[at],
            row: self.row[at],
            offset: self.offset[at],
            length: self.length[at],
        })
    }
}

/// A batch of a spill with the columns that merging looks at.
#[derive(Debug)]
pub(crate) struct SpillBatch {
    batch: RecordBatch,
    tokens: Vec<TokenLists>,
    ids: ScalarBuffer<u8>,
    keys: ScalarBuffer<u8>,
    origins: OriginLists,
    row_bytes: Vec<u64>,
}

impl SpillBatch {
    /// Takes a batch with the columns `columns.spill`; `None` if it has others.
    pub(crate) fn new(columns: &StoredColumns, batch: RecordBatch) -> Option<Self> {
        if batch.schema_ref().fields() != columns.spill.fields() {
            return None;
        }
        let at = columns.num_task_columns;
        let bytes = |index: usize| {
            let array = batch.column(index).as_fixed_size_binary_opt()?;
            Some(ScalarBuffer::<u8>::from(array.values().slice_with_length(0, array.len() * 16)))
        };
        let tokens = columns.tokens.iter().map(|token| TokenLists::of(batch.column(token.index)));
        let tokens = tokens.collect::<Option<Vec<_>>>()?;
        let mut row_bytes = vec![0; batch.num_rows()];
        for column in &batch.columns()[..columns.key_place()] {
            add_row_bytes(column, &mut row_bytes);
        }
        let origins = OriginLists::of(batch.column(at + 1))?;
        Some(Self { tokens, ids: bytes(at)?, keys: bytes(columns.key_place())?, origins, row_bytes, batch })
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.batch.num_rows()
    }

    /// The sort key of a row.
    pub(crate) fn key(&self, row: usize) -> u128 {
        u128::from_be_bytes(sixteen(&self.keys, row))
    }

    /// The id of a row.
    pub(crate) fn id(&self, row: usize) -> [u8; 16] {
        sixteen(&self.ids, row)
    }

    /// The first row whose key is at least `key`, or one past the last.
    pub(crate) fn lower_bound(&self, key: u128) -> usize {
        let (mut first, mut last) = (0, self.len());
        while first < last {
            let middle = first.midpoint(last);
            if self.key(middle) >= key { last = middle } else { first = middle + 1 }
        }
        first
    }

    /// The bytes of a row in a shard.
    pub(crate) fn row_bytes(&self, row: usize) -> u64 {
        self.row_bytes[row]
    }

    /// The bytes of all rows in a shard.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.row_bytes.iter().sum()
    }

    /// Number of token ids of each feature.
    pub(crate) fn tokens_by_feature(&self) -> impl Iterator<Item = u64> {
        self.tokens.iter().map(|lists| lists.offsets.last().map_or(0, |&end| end as u64))
    }

    /// Number of token ids of all features.
    pub(crate) fn num_tokens(&self) -> u64 {
        self.tokens_by_feature().sum()
    }

    /// Bytes held in memory, about.
    pub(crate) fn memory(&self) -> u64 {
        self.batch.get_array_memory_size() as u64 + 8 * self.row_bytes.len() as u64
    }
}

fn sixteen(bytes: &[u8], row: usize) -> [u8; 16] {
    bytes[16 * row..16 * (row + 1)].try_into().expect("sixteen bytes")
}

/// A batch to pick from, and what to write into origins that come from it.
#[derive(Clone, Debug)]
pub(crate) struct PickSource {
    /// The batch.
    pub(crate) batch: Arc<SpillBatch>,
    /// Records of the file before its range: makes ordinals within a range ordinals within the file.
    pub(crate) first_row: u64,
    /// The file's index, where files have been added or removed since the spill was written.
    pub(crate) file: Option<u32>,
}

/// One row: index of the batch, index in the batch.
pub(crate) type Pick = (u32, u32);

/// Whether the result is a batch of a spill or of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// With the key.
    Spill,
    /// Without it.
    Shard,
}

/// The picked rows, in order, as one batch.
pub(crate) fn gather(
    columns: &StoredColumns,
    sources: &[PickSource],
    picks: &[Pick],
    target: Target,
) -> Result<RecordBatch, CacheError> {
    let mut gathered: Vec<ArrayRef> = Vec::with_capacity(columns.spill.fields().len());
    let mut others: Option<Vec<(usize, usize)>> = None;
    for index in 0..columns.num_task_columns {
        if let Some(feature) = columns.tokens.iter().position(|token| token.index == index) {
            gathered.push(gather_tokens(sources, picks, feature, columns.tokens[feature].is_narrow())?);
        } else {
            let arrays: Vec<&dyn Array> =
                sources.iter().map(|source| source.batch.batch.column(index).as_ref()).collect();
            let pairs = others.get_or_insert_with(|| {
                picks.iter().map(|&(batch, row)| (batch as usize, row as usize)).collect()
            });
            gathered.push(arrow::compute::interleave(&arrays, pairs)?);
        }
    }
    let mut ids = Vec::with_capacity(16 * picks.len());
    let mut origins = OriginColumns::default();
    for &(batch, row) in picks {
        let source = &sources[batch as usize];
        ids.extend_from_slice(&source.batch.ids[16 * row as usize..16 * (row as usize + 1)]);
        for mut origin in source.batch.origins.get(row as usize) {
            origin.row += source.first_row;
            origin.file = source.file.unwrap_or(origin.file);
            origins.push(origin);
        }
        origins.end_row();
    }
    gathered.push(binary_16(ids));
    gathered.push(origins.finish());
    if columns.has_sql_keys {
        let at = columns.num_task_columns + 2;
        let keys = picks.iter().map(|&(batch, row)| {
            sources[batch as usize].batch.batch.column(at).as_string::<i32>().value(row as usize)
        });
        gathered.push(Arc::new(StringArray::from_iter_values(keys)));
    }
    let schema = match target {
        Target::Shard => &columns.shard,
        Target::Spill => {
            let mut keys = Vec::with_capacity(16 * picks.len());
            for &(batch, row) in picks {
                let batch = &sources[batch as usize].batch;
                keys.extend_from_slice(&batch.keys[16 * row as usize..16 * (row as usize + 1)]);
            }
            gathered.push(binary_16(keys));
            &columns.spill
        }
    };
    Ok(RecordBatch::try_new(Arc::clone(schema), gathered)?)
}

fn gather_tokens(
    sources: &[PickSource],
    picks: &[Pick],
    feature: usize,
    narrow: bool,
) -> Result<ArrayRef, CacheError> {
    let mut ends = Vec::with_capacity(picks.len() + 1);
    ends.push(0i32);
    let mut total = 0usize;
    for &(batch, row) in picks {
        total += sources[batch as usize].batch.tokens[feature].span(row as usize).len();
        ends.push(i32::try_from(total).map_err(|_| arrow::error::ArrowError::OffsetOverflowError(total))?);
    }
    Ok(if narrow {
        gather_ids::<UInt16Type>(sources, picks, feature, total, ends, |values| match values {
            TokenValues::Narrow(ids) => ids,
            TokenValues::Wide(_) => unreachable!("the schema was checked when the batch was opened"),
        })
    } else {
        gather_ids::<UInt32Type>(sources, picks, feature, total, ends, |values| match values {
            TokenValues::Wide(ids) => ids,
            TokenValues::Narrow(_) => unreachable!("the schema was checked when the batch was opened"),
        })
    })
}

fn gather_ids<T: ArrowPrimitiveType>(
    sources: &[PickSource],
    picks: &[Pick],
    feature: usize,
    total: usize,
    ends: Vec<i32>,
    ids_of: impl Fn(&TokenValues) -> &[T::Native],
) -> ArrayRef {
    let mut ids: Vec<T::Native> = Vec::with_capacity(total);
    for &(batch, row) in picks {
        let lists = &sources[batch as usize].batch.tokens[feature];
        ids.extend_from_slice(&ids_of(&lists.values)[lists.span(row as usize)]);
    }
    list_array(Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(ids), None)), ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_closes_before_the_row_that_would_make_it_too_long() {
        let geometry = Geometry { batch_rows: 3, batch_bytes: 10, shard_bytes: 100, ..Geometry::default() };
        let mut fill = BatchFill::default();
        let begins: Vec<bool> =
            [4, 6, 1, 1, 1, 1, 50, 1].iter().map(|&bytes| fill.add(bytes, &geometry)).collect();
        assert_eq!(begins, [false, false, true, false, false, true, true, true]);
    }
}
