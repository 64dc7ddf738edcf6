//! Rows sorted by their key within a fixed memory, on disk where they do not fit.
//!
//! ```text
//! batches as they come  ->  runs of a quarter of the budget, sorted, on disk  ->  merged, a row at a time
//! ```
//!
//! What comes out is decided by the keys alone, which are unique: neither memory nor the cut of the batches shows. Two
//! rows with the same key are an error.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::interleave_record_batch;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use arrow::row::{RowConverter, Rows, SortField};

use crate::error::SqlError;
use crate::run_file::RunFile;

/// Runs merged at a time.
const MOST_RUNS: usize = 64;
/// Bytes of a batch in a run, about: each run that is merged keeps one in memory.
const RUN_BATCH_BYTES: u64 = 256 << 10;
/// Rows of a batch in a run, at most.
const RUN_BATCH_ROWS: usize = 1024;
/// With less than this a run is not worth its file.
const LEAST_MEMORY_BYTES: u64 = 8 << 20;

/// Takes batches in any order.
pub struct KeySorter {
    schema: SchemaRef,
    keys: Arc<Keys>,
    memory: u64,
    temporary: Option<PathBuf>,
    held: Vec<Batch>,
    held_bytes: u64,
    runs: Vec<RunFile>,
}

/// A batch with its keys in a form that compares fast.
struct Batch {
    columns: RecordBatch,
    keys: Rows,
    sizes: Vec<u64>,
}

/// A row of the sorted result.
#[derive(Clone)]
pub struct SortedRow {
    batch: Arc<Batch>,
    row: usize,
}

impl SortedRow {
    /// Bytes of its values.
    pub fn bytes(&self) -> u64 {
        self.batch.sizes[self.row]
    }

    fn has_key_of(&self, other: &Self) -> bool {
        self.batch.keys.row(self.row) == other.batch.keys.row(other.row)
    }

    /// The row by itself.
    pub fn columns(&self) -> RecordBatch {
        self.batch.columns.slice(self.row, 1)
    }
}

/// Puts rows together.
pub fn gather(schema: &SchemaRef, rows: &[SortedRow]) -> Result<RecordBatch, ArrowError> {
    let mut batches: Vec<&Arc<Batch>> = Vec::new();
    let mut picks = Vec::with_capacity(rows.len());
    for row in rows {
        // Rows of one run come one after the other; runs are few.
        let at = batches.iter().rposition(|batch| Arc::ptr_eq(batch, &row.batch)).unwrap_or_else(|| {
            batches.push(&row.batch);
            batches.len() - 1
        });
        picks.push((at, row.row));
    }
    if batches.is_empty() {
        return Ok(RecordBatch::new_empty(Arc::clone(schema)));
    }
    let batches: Vec<&RecordBatch> = batches.iter().map(|batch| &batch.columns).collect();
    interleave_record_batch(&batches, &picks)
}

impl KeySorter {
    /// Sorts rows with these columns by those at the places of `key`, in `memory` bytes, with files below `temporary`.
    pub fn new(
        schema: &SchemaRef,
        key: Vec<usize>,
        memory: u64,
        temporary: Option<PathBuf>,
    ) -> Result<Self, SqlError> {
        let fields = key.iter().map(|&at| SortField::new(schema.field(at).data_type().clone())).collect();
        Ok(Self {
            schema: Arc::clone(schema),
            keys: Arc::new(Keys { converter: RowConverter::new(fields).map_err(arrow_error)?, places: key }),
            memory: memory.max(LEAST_MEMORY_BYTES),
            temporary,
            held: Vec::new(),
            held_bytes: 0,
            runs: Vec::new(),
        })
    }

    /// Takes rows whose keys hold no null.
    pub fn push(&mut self, columns: RecordBatch) -> Result<(), SqlError> {
        let bytes = columns.get_array_memory_size() as u64;
        // Half of a run is in memory twice for a moment, while it is written.
        if self.held_bytes > 0 && self.held_bytes + bytes > self.memory {
            self.spill()?;
        }
        let batch = self.keys.batch(columns)?;
        // Besides the values: keys, sizes, and the places that are sorted.
        self.held_bytes += bytes + batch.keys.size() as u64 + 40 * batch.sizes.len() as u64;
        self.held.push(batch);
        Ok(())
    }

    /// All rows in order.
    pub fn finish(mut self) -> Result<SortedRows, SqlError> {
        if self.runs.is_empty() {
            let held = std::mem::take(&mut self.held);
            return Ok(SortedRows { rows: RowsInOrder::Held(held_in_order(held)), last: None });
        }
        if !self.held.is_empty() {
            self.spill()?;
        }
        while self.runs.len() > MOST_RUNS {
            let first: Vec<RunFile> = self.runs.drain(..MOST_RUNS).collect();
            let merged = Merge::new(Arc::clone(&self.keys), first)?;
            let run = self.write(merged)?;
            self.runs.push(run);
        }
        let runs = std::mem::take(&mut self.runs);
        Ok(SortedRows {
            rows: RowsInOrder::Merged(Box::new(Merge::new(Arc::clone(&self.keys), runs)?)),
            last: None,
        })
    }

    fn spill(&mut self) -> Result<(), SqlError> {
        let held = std::mem::take(&mut self.held);
        self.held_bytes = 0;
        let run = self.write(held_in_order(held).map(Ok))?;
        self.runs.push(run);
        Ok(())
    }

    fn write(&self, rows: impl Iterator<Item = Result<SortedRow, SqlError>>) -> Result<RunFile, SqlError> {
        let (run, file) = RunFile::create(self.temporary.as_deref())?;
        let file = std::io::BufWriter::new(file);
        let failed = |error: ArrowError| match error {
            ArrowError::IoError(_, error) => run.cannot_write(&error),
            other => arrow_error(other),
        };
        let mut writer = StreamWriter::try_new(file, &self.schema).map_err(failed)?;
        let (mut picked, mut bytes) = (Vec::new(), 0);
        for row in rows {
            let row = row?;
            bytes += row.bytes();
            picked.push(row);
            if bytes >= RUN_BATCH_BYTES || picked.len() == RUN_BATCH_ROWS {
                writer.write(&gather(&self.schema, &picked).map_err(arrow_error)?).map_err(failed)?;
                picked.clear();
                bytes = 0;
            }
        }
        if !picked.is_empty() {
            writer.write(&gather(&self.schema, &picked).map_err(arrow_error)?).map_err(failed)?;
        }
        writer.finish().map_err(failed)?;
        drop(writer);
        Ok(run)
    }
}

/// How the keys of rows are compared.
struct Keys {
    converter: RowConverter,
    places: Vec<usize>,
}

impl Keys {
    fn batch(&self, columns: RecordBatch) -> Result<Batch, SqlError> {
        let keys: Vec<ArrayRef> = self.places.iter().map(|&at| Arc::clone(columns.column(at))).collect();
        let keys = self.converter.convert_columns(&keys).map_err(arrow_error)?;
        let mut sizes = vec![0; columns.num_rows()];
        columns.columns().iter().for_each(|column| add_sizes(column, &mut sizes));
        Ok(Batch { columns, keys, sizes })
    }
}

/// Rows of batches in memory, sorted.
fn held_in_order(batches: Vec<Batch>) -> std::vec::IntoIter<SortedRow> {
    let batches: Vec<Arc<Batch>> = batches.into_iter().map(Arc::new).collect();
    let mut places: Vec<(u32, u32)> = Vec::new();
    for (index, batch) in (0u32..).zip(&batches) {
        let rows = u32::try_from(batch.columns.num_rows()).expect("a batch has few rows");
        places.extend((0..rows).map(|row| (index, row)));
    }
    places.sort_unstable_by(|a, b| {
        let key = |&(batch, row): &(u32, u32)| batches[batch as usize].keys.row(row as usize);
        key(a).cmp(&key(b))
    });
    let row = |(batch, row): (u32, u32)| SortedRow {
        batch: Arc::clone(&batches[batch as usize]),
        row: row as usize,
    };
    places.into_iter().map(row).collect::<Vec<_>>().into_iter()
}

/// The rows in the order of their keys.
pub struct SortedRows {
    rows: RowsInOrder,
    last: Option<SortedRow>,
}

enum RowsInOrder {
    Held(std::vec::IntoIter<SortedRow>),
    Merged(Box<Merge>),
}

/// What comes next in the order of keys.
pub enum NextRow {
    /// A row.
    Row(SortedRow),
    /// A row with the key of the one before.
    SameKey(SortedRow),
}

impl Iterator for SortedRows {
    type Item = Result<NextRow, SqlError>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = match &mut self.rows {
            RowsInOrder::Held(rows) => rows.next()?,
            RowsInOrder::Merged(rows) => match rows.next()? {
                Ok(row) => row,
                Err(error) => return Some(Err(error)),
            },
        };
        if self.last.as_ref().is_some_and(|last| last.has_key_of(&row)) {
            return Some(Ok(NextRow::SameKey(row)));
        }
        self.last = Some(row.clone());
        Some(Ok(NextRow::Row(row)))
    }
}

/// Sorted runs merged into one order.
struct Merge {
    keys: Arc<Keys>,
    runs: Vec<Run>,
    heap: BinaryHeap<Reverse<Head>>,
    failed: Option<SqlError>,
}

struct Run {
    batches: StreamReader<BufReader<File>>,
    /// Deleted with it.
    _file: RunFile,
}

/// The next row of a run.
struct Head {
    row: SortedRow,
    run: usize,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let keys = self.row.batch.keys.row(self.row.row).cmp(&other.row.batch.keys.row(other.row.row));
        keys.then(self.run.cmp(&other.run))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

impl Merge {
    fn new(keys: Arc<Keys>, files: Vec<RunFile>) -> Result<Self, SqlError> {
        let mut merge = Self { keys, runs: Vec::new(), heap: BinaryHeap::new(), failed: None };
        for file in files {
            let batches = StreamReader::try_new(BufReader::new(file.open()?), None).map_err(arrow_error)?;
            merge.runs.push(Run { batches, _file: file });
            merge.refill(merge.runs.len() - 1)?;
        }
        Ok(merge)
    }

    /// Takes the next batch of a run, if there is one.
    fn refill(&mut self, run: usize) -> Result<(), SqlError> {
        for columns in self.runs[run].batches.by_ref() {
            let columns = columns.map_err(arrow_error)?;
            if columns.num_rows() > 0 {
                let batch = Arc::new(self.keys.batch(columns)?);
                self.heap.push(Reverse(Head { row: SortedRow { batch, row: 0 }, run }));
                break;
            }
        }
        Ok(())
    }
}

impl Iterator for Merge {
    type Item = Result<SortedRow, SqlError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failed.take() {
            self.heap.clear();
            return Some(Err(error));
        }
        let Reverse(Head { row, run }) = self.heap.pop()?;
        if row.row + 1 < row.batch.columns.num_rows() {
            let next = SortedRow { batch: Arc::clone(&row.batch), row: row.row + 1 };
            self.heap.push(Reverse(Head { row: next, run }));
        } else if let Err(error) = self.refill(run) {
            self.failed = Some(error);
        }
        Some(Ok(row))
    }
}

fn arrow_error(error: ArrowError) -> SqlError {
    SqlError::Run(format!("rows cannot be sorted: {error}"))
}

/// Adds the bytes of each row's value: 8 of a number, those of a text, the sum of a list's. A measure of the data alone.
fn add_sizes(array: &dyn Array, sizes: &mut [u64]) {
    match array.data_type() {
        DataType::Utf8 => {
            let ends = array.as_string::<i32>().value_offsets().windows(2);
            sizes.iter_mut().zip(ends).for_each(|(size, ends)| *size += (ends[1] - ends[0]) as u64);
        }
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let mut inner = vec![0; lists.values().len()];
            add_sizes(lists.values(), &mut inner);
            let ends = lists.value_offsets().windows(2);
            for (size, ends) in sizes.iter_mut().zip(ends) {
                *size += inner[ends[0] as usize..ends[1] as usize].iter().sum::<u64>();
            }
        }
        _ => sizes.iter_mut().for_each(|size| *size += 8),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use arrow::array::{Int64Array, StringArray};
    use arrow::datatypes::{Field, Schema};
    use proptest::prelude::*;

    use super::*;

    fn schema() -> SchemaRef {
        let fields = vec![Field::new("id", DataType::Int64, true), Field::new("text", DataType::Utf8, true)];
        Arc::new(Schema::new(fields))
    }

    fn rows(ids: &[i64]) -> RecordBatch {
        let texts: StringArray = ids.iter().map(|id| Some("x".repeat((id % 7) as usize * 100))).collect();
        let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(ids.to_vec())), Arc::new(texts)];
        RecordBatch::try_new(schema(), columns).unwrap()
    }

    fn sorted(batches: &[Vec<i64>], memory: u64) -> (Vec<i64>, Option<i64>) {
        let mut sorter = KeySorter::new(&schema(), vec![0], 0, None).unwrap();
        sorter.memory = memory;
        batches.iter().for_each(|ids| sorter.push(rows(ids)).unwrap());
        let mut found = Vec::new();
        for row in sorter.finish().unwrap() {
            let id = |row: SortedRow| {
                row.columns().column(0).as_primitive::<arrow::datatypes::Int64Type>().value(0)
            };
            match row.unwrap() {
                NextRow::Row(row) => found.push(id(row)),
                NextRow::SameKey(row) => return (found, Some(id(row))),
            }
        }
        (found, None)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn rows_come_in_the_order_of_their_keys_whatever_the_memory(
            ids in prop::collection::btree_set(0..10_000i64, 0..300), cut in 1..40usize, memory in 1..40_000u64, seed in any::<u64>(),
        ) {
            let mut shuffled: Vec<i64> = ids.iter().copied().collect();
            shuffled.sort_by_key(|id| blake3::hash(&(*id as u64 ^ seed).to_le_bytes()).as_bytes().to_owned());
            let batches: Vec<Vec<i64>> = shuffled.chunks(cut).map(<[i64]>::to_vec).collect();
            let expected: Vec<i64> = ids.into_iter().collect();
            prop_assert_eq!(sorted(&batches, memory), (expected.clone(), None));
            prop_assert_eq!(sorted(&batches, u64::MAX / 2), (expected, None));
        }
    }

    #[test]
    fn two_rows_with_one_key_are_told_in_memory_and_on_disk() {
        let batches: Vec<Vec<i64>> = vec![vec![5, 1], vec![9], vec![7, 5]];
        for memory in [1, u64::MAX / 2] {
            assert_eq!(sorted(&batches, memory), (vec![1, 5], Some(5)));
        }
    }

    #[test]
    fn more_runs_than_are_merged_at_a_time_are_merged_in_turns() {
        let batches: Vec<Vec<i64>> = (0..200).rev().map(|id| vec![id]).collect();
        let expected: BTreeSet<i64> = (0..200).collect();
        assert_eq!(sorted(&batches, 1).0, expected.into_iter().collect::<Vec<_>>());
    }
}
