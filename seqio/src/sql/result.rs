//! The sorted result of a query, cut into ranges and chunks by its rows alone.
//!
//! ```text
//! 70,000 rows   ->   ranges of 65,536 and 4,464 rows, in chunks of at most 1,024 rows and about 1 MiB
//! ```

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use seqio_sql::{NextRow, SortedRow, SortedRows, SqlError, gather};

use crate::key::key_text;
use crate::source::numbered::{CHUNK_BYTES, CHUNK_ROWS, RANGE_ROWS, range_at};
use crate::source::{RawChunk, RawRecords, SourceError};
use crate::sql::key::key_of;
use crate::sql::words::in_query;

/// A result as the last file of its split.
pub(super) struct ResultFile {
    pub(super) split: String,
    /// Its number in the split.
    pub(super) index: u32,
    pub(super) schema: SchemaRef,
    /// The places of the key in the schema.
    pub(super) key: Vec<usize>,
}

/// The chunks of a sorted result.
pub(super) struct ResultChunks {
    file: ResultFile,
    skip: Box<dyn Fn(u64) -> bool + Send>,
    rows: Option<SortedRows>,
    /// The row that the next chunk begins with.
    next: Option<SortedRow>,
    /// Rows given out.
    num_rows: u64,
}

impl ResultChunks {
    /// The chunks but those of ranges for which `skip` answers true.
    pub(super) fn new(file: ResultFile, rows: SortedRows, skip: Box<dyn Fn(u64) -> bool + Send>) -> Self {
        Self { file, skip, rows: Some(rows), next: None, num_rows: 0 }
    }

    /// The next row, if there is one.
    fn row(&mut self) -> Result<Option<SortedRow>, SqlError> {
        if let Some(row) = self.next.take() {
            return Ok(Some(row));
        }
        match self.rows.as_mut().and_then(Iterator::next).transpose()? {
            None => Ok(None),
            Some(NextRow::Row(row)) => Ok(Some(row)),
            Some(NextRow::SameKey(row)) => {
                let names: Vec<String> =
                    self.file.key.iter().map(|&at| self.file.schema.field(at).name().clone()).collect();
                let columns = row.columns();
                let key: Vec<&ArrayRef> = self.file.key.iter().map(|&at| columns.column(at)).collect();
                let key = key_text(&names, &key_of(&key, 0));
                Err(SqlError::Run(format!(
                    "several rows have the key {key}; a key names one row: add columns to `key`, or select one row for \
                     each with GROUP BY"
                )))
            }
        }
    }

    fn chunk(&mut self) -> Result<Option<RawChunk>, SqlError> {
        let start = self.num_rows / RANGE_ROWS * RANGE_ROWS;
        let first_ordinal = self.num_rows - start;
        let mut picked = Vec::new();
        let mut bytes = 0;
        while picked.len() < CHUNK_ROWS && bytes < CHUNK_BYTES as u64 && self.num_rows - start < RANGE_ROWS {
            let Some(row) = self.row()? else { break };
            bytes += row.bytes();
            picked.push(row);
            self.num_rows += 1;
        }
        if picked.is_empty() && self.num_rows > 0 {
            return Ok(None);
        }
        let failed = |error| SqlError::Run(format!("rows cannot be put together: {error}"));
        let last_of_range = self.num_rows - start == RANGE_ROWS || picked.is_empty();
        Ok(Some(RawChunk {
            range: range_at(self.file.index, start),
            first_ordinal,
            num_records: picked.len() as u64,
            first_offset: start + first_ordinal,
            records: RawRecords::Columns(gather(&self.file.schema, &picked).map_err(failed)?),
            last_of_range,
            damage: None,
        }))
    }

    fn next_chunk(&mut self) -> Result<Option<RawChunk>, SqlError> {
        let Some(mut chunk) = self.chunk()? else { return Ok(None) };
        if !chunk.last_of_range {
            self.next = self.row()?;
            chunk.last_of_range = self.next.is_none();
        }
        Ok(Some(chunk))
    }
}

impl Iterator for ResultChunks {
    type Item = Result<RawChunk, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.rows.as_ref()?;
            match self.next_chunk() {
                Ok(Some(chunk)) => {
                    if chunk.num_records == 0 {
                        // The only one there is.
                        self.rows = None;
                    }
                    if (self.skip)(chunk.range.start) {
                        continue;
                    }
                    return Some(Ok(chunk));
                }
                Ok(None) => {
                    self.rows = None;
                    return None;
                }
                Err(error) => {
                    self.rows = None;
                    return Some(Err(in_query(&self.file.split, &error)));
                }
            }
        }
    }
}
