//! The rows that a function gives, cut into ranges and chunks by their number and size alone, however it cuts them.
//!
//! ```text
//! batches of 700, 700, 2 rows   ->   chunks of 1,024 and 378
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, RecordBatch, new_null_array};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, SchemaRef};

use crate::source::SourceError;
use crate::source::column::ColumnSpec;
use crate::source::columns::{convert, is_readable_as};
use crate::source::numbered::{CHUNK_BYTES, NumberedRows};
use crate::source::program::{Batches, failed};
use crate::text::quoted;

/// The rows of a split, one after the other.
pub(super) struct Rows {
    split: String,
    columns: BTreeMap<String, ColumnSpec>,
    schema: SchemaRef,
    batches: Batches,
    batch: Option<RecordBatch>,
    /// Place in the batch, and rows of those before.
    at: usize,
    num_rows: u64,
}

impl Rows {
    pub(super) fn new(
        split: &str,
        columns: &BTreeMap<String, ColumnSpec>,
        schema: &SchemaRef,
        batches: Batches,
    ) -> Self {
        let (split, columns, schema) = (split.to_owned(), columns.clone(), Arc::clone(schema));
        Self { split, columns, schema, batches, batch: None, at: 0, num_rows: 0 }
    }

    /// The rows that come next, at most `most` of them and about a chunk's bytes; `None` at the end.
    pub(super) fn next(
        &mut self,
        most: usize,
        bytes: &mut usize,
    ) -> Result<Option<RecordBatch>, SourceError> {
        loop {
            if let Some(batch) = &self.batch {
                if self.at < batch.num_rows() {
                    let from = self.at;
                    while self.at < batch.num_rows() && self.at - from < most && *bytes < CHUNK_BYTES {
                        *bytes +=
                            batch.columns().iter().map(|column| bytes_of(column, self.at)).sum::<usize>();
                        self.at += 1;
                    }
                    return Ok(Some(batch.slice(from, self.at - from)));
                }
                self.num_rows += batch.num_rows() as u64;
                self.batch = None;
            }
            let Some(batch) = self.batches.next() else { return Ok(None) };
            let batch = batch.map_err(|error| failed(&self.split, self.num_rows, &error.to_string()))?;
            let batch =
                self.convert(&batch).map_err(|problem| failed(&self.split, self.num_rows, &problem))?;
            (self.batch, self.at) = (Some(batch), 0);
        }
    }

    fn convert(&self, batch: &RecordBatch) -> Result<RecordBatch, String> {
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for (name, column) in &self.columns {
            let Some(array) = batch.column_by_name(name) else {
                if column.optional {
                    arrays.push(new_null_array(&column.data.arrow(), batch.num_rows()));
                    continue;
                }
                let schema = batch.schema();
                let found = quoted(schema.fields().iter().map(|field| field.name()));
                return Err(format!("a batch has no column `{name}`, only {found}"));
            };
            if !is_readable_as(array.data_type(), column.data) {
                let (wanted, found) = (column.data.phrase(), array.data_type());
                return Err(format!("column `{name}` should be {wanted}, but a batch has {found}"));
            }
            let mut bad = None;
            let converted = convert(array, column.data, &mut |row, reason| {
                bad.get_or_insert((row, reason));
            });
            if let Some((row, reason)) = bad {
                return Err(format!("`{name}` {reason} in row {} of the next batch", row + 1));
            }
            arrays.push(converted.map_err(|error| error.to_string())?);
        }
        RecordBatch::try_new(Arc::clone(&self.schema), arrays).map_err(|error| error.to_string())
    }
}

/// About how many bytes a value has.
fn bytes_of(column: &ArrayRef, row: usize) -> usize {
    match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value_length(row).unsigned_abs() as usize,
        DataType::List(item) => {
            let items = column.as_list::<i32>();
            let (start, end) = (items.value_offsets()[row], items.value_offsets()[row + 1]);
            let count = (end - start).unsigned_abs() as usize;
            match item.data_type() {
                DataType::Utf8 => {
                    let texts = items.values().as_string::<i32>().value_offsets();
                    (texts[end.unsigned_abs() as usize] - texts[start.unsigned_abs() as usize]).unsigned_abs()
                        as usize
                }
                _ => 8 * count,
            }
        }
        _ => 8,
    }
}

impl NumberedRows for Rows {
    type Taken = Vec<RecordBatch>;

    fn has_more(&mut self) -> Result<bool, SourceError> {
        // A chunk that is full already takes nothing.
        let found = self.next(0, &mut 0)?;
        Ok(found.is_some())
    }

    fn take(&mut self, most: usize) -> Result<(Vec<RecordBatch>, usize), SourceError> {
        let (mut parts, mut len, mut bytes) = (Vec::new(), 0, 0);
        while len < most && bytes < CHUNK_BYTES {
            let Some(part) = self.next(most - len, &mut bytes)? else { break };
            len += part.num_rows();
            parts.push(part);
        }
        Ok((parts, len))
    }

    fn finish(&self, taken: Vec<RecordBatch>, first: u64) -> Result<RecordBatch, SourceError> {
        concat_batches(&self.schema, &taken).map_err(|error| failed(&self.split, first, &error.to_string()))
    }
}
