//! Rows that are known by their number alone, whatever they are made of: cut into ranges and chunks by number and size.
//!
//! ```text
//! 70,000 rows   ->   ranges of 65,536 and 4,464, in chunks of at most 1,024 and about 1 MiB
//! ```

use arrow::array::RecordBatch;

use crate::source::{RawChunk, RawRecords, SourceError, SourceRange};

/// Rows of a range.
pub(crate) const RANGE_ROWS: u64 = 1 << 16;
/// A chunk has at most this many rows,
pub(crate) const CHUNK_ROWS: usize = 1024;
/// and ends with the one that brings it to this many bytes.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;

/// The range that begins with this row.
pub(crate) fn range_at(file: u32, start: u64) -> SourceRange {
    SourceRange { file, start, end: start + RANGE_ROWS }
}

/// The ranges of so many rows, and the rows of each.
pub(crate) fn ranges_of(file: u32, rows: u64) -> Vec<(SourceRange, u64)> {
    let starts = (0..rows).step_by(RANGE_ROWS as usize);
    starts.map(|start| (range_at(file, start), (rows - start).min(RANGE_ROWS))).collect()
}

/// Rows that come one after the other.
pub(super) trait NumberedRows {
    /// Rows of a chunk that is being made.
    type Taken;

    /// Whether there is another row.
    fn has_more(&mut self) -> Result<bool, SourceError>;

    /// Takes the rows that come next, up to `most` of them and about [`CHUNK_BYTES`], and says how many they are. There is
    /// at least one.
    fn take(&mut self, most: usize) -> Result<(Self::Taken, usize), SourceError>;

    /// The rows as columns; the first of them has number `first`.
    fn finish(&self, taken: Self::Taken, first: u64) -> Result<RecordBatch, SourceError>;
}

/// The chunks of numbered rows.
pub(super) struct NumberedChunks<R> {
    rows: R,
    file: u32,
    only: Option<u64>,
    skip: Box<dyn Fn(u64) -> bool + Send>,
    /// Rows given out, or passed over.
    num_rows: u64,
    finished: bool,
}

impl<R: NumberedRows> NumberedChunks<R> {
    /// The chunks of `only` the range that begins there, or of all for which `skip` is false.
    pub(super) fn new(rows: R, file: u32, only: Option<u64>, skip: Box<dyn Fn(u64) -> bool + Send>) -> Self {
        Self { rows, file, only, skip, num_rows: 0, finished: false }
    }

    fn next_chunk(&mut self) -> Result<Option<RawChunk>, SourceError> {
        loop {
            if !self.rows.has_more()? {
                return Ok(None);
            }
            let first = self.num_rows;
            let start = first / RANGE_ROWS * RANGE_ROWS;
            if self.only.is_some_and(|only| start > only) {
                return Ok(None);
            }
            let room = usize::try_from(start + RANGE_ROWS - first).unwrap_or(CHUNK_ROWS).min(CHUNK_ROWS);
            let (taken, len) = self.rows.take(room)?;
            self.num_rows += len as u64;
            let last_of_range = self.num_rows == start + RANGE_ROWS || !self.rows.has_more()?;
            if self.only.is_some_and(|only| start != only) || (self.skip)(start) {
                continue;
            }
            return Ok(Some(RawChunk {
                range: range_at(self.file, start),
                first_ordinal: first - start,
                num_records: len as u64,
                first_offset: first,
                records: RawRecords::Columns(self.rows.finish(taken, first)?),
                last_of_range,
                damage: None,
            }));
        }
    }
}

impl<R: NumberedRows> Iterator for NumberedChunks<R> {
    type Item = Result<RawChunk, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        let chunk = self.next_chunk();
        self.finished = !matches!(chunk, Ok(Some(_)));
        chunk.transpose()
    }
}
