//! What columnar files have in common: which of their columns are read, and how rows become examples.
//!
//! Columns are the declared ones, or all of the first file that a source can have: strings, whole numbers, floats,
//! booleans and lists of these. Others (dates, decimals, bytes …) are left out, and refused if declared; structs and
//! other nested columns are read if they are declared as `json`.
//!
//! ```text
//! file      text: utf8, n: uint16, when: timestamp, ids: list<int64>
//! columns   text: string, n: int32, ids: list<int64>
//! declared  columns = { ids = "list<int32>" }   a number beyond 32 bits makes its row a bad one
//! ```

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Fields, Schema, SchemaRef};
use arrow::error::ArrowError;

use crate::caught::caught;
use crate::example::Examples;
use crate::source::column::ColumnSpec;
use crate::source::columns::{column_type, convert, is_readable_as};
use crate::source::record::{Line, broken_record};
use crate::source::{BadRow, ParsedChunk, RawChunk, RawRecords, SourceError, SourceFile, SourceRange};
use crate::text::{nearest, quoted};

/// A chunk has about this many bytes, as far as the file's own counts tell.
const CHUNK_BYTES: u64 = 1 << 20;

/// And at most this many rows, for the counts are of encoded bytes: a repeated text counts once.
const CHUNK_ROWS: u64 = 1024;

/// Rows of a chunk, where `num_rows` rows have `num_bytes` bytes.
pub(super) fn chunk_rows(num_rows: u64, num_bytes: u64) -> usize {
    let rows = u128::from(num_rows) * u128::from(CHUNK_BYTES) / u128::from(num_bytes.max(1));
    usize::try_from(rows.clamp(1, u128::from(CHUNK_ROWS))).expect("a chunk has at most 1,024 rows")
}

/// Runs a part of a reader of other people's, which may panic on corrupt files.
pub(super) fn catching<T, E: Display>(read: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match caught(read) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("its reader gave up".to_owned()),
    }
}

/// The columns of a source whose first file has these: the declared ones if it has them, else all that can be read.
pub(super) fn pin_columns(
    file: &SourceFile,
    fields: &Fields,
    declared: &BTreeMap<String, ColumnSpec>,
) -> Result<BTreeMap<String, ColumnSpec>, SourceError> {
    if !declared.is_empty() {
        roots(file, fields, declared)?;
        return Ok(declared.clone());
    }
    let columns: BTreeMap<String, ColumnSpec> = fields
        .iter()
        .filter_map(|field| Some((field.name().clone(), column_type(field.data_type())?.into())))
        .collect();
    if columns.is_empty() {
        let found: Vec<String> =
            fields.iter().map(|f| format!("`{}` ({})", f.name(), f.data_type())).collect();
        let found = if found.is_empty() { "nothing".to_owned() } else { found.join(", ") };
        return Err(SourceError::malformed(
            &file.path,
            format!("has no column that can be read, only {found}"),
        ));
    }
    Ok(columns)
}

/// The places of the columns in a file; optional ones may be absent.
pub(super) fn roots(
    file: &SourceFile,
    fields: &Fields,
    columns: &BTreeMap<String, ColumnSpec>,
) -> Result<Vec<usize>, SourceError> {
    let mut roots = Vec::new();
    for (name, column) in columns {
        let Some((root, field)) = fields.find(name) else {
            if column.optional {
                continue;
            }
            let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
            let hint = nearest(name, names.iter().copied());
            let hint = hint.map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"));
            let problem = format!("has no column `{name}`, only {}{hint}", quoted(names));
            return Err(SourceError::malformed(&file.path, problem));
        };
        if !is_readable_as(field.data_type(), column.data) {
            let problem =
                format!("column `{name}` should be {}, but is {}", column.data.phrase(), field.data_type());
            return Err(SourceError::malformed(&file.path, problem));
        }
        roots.push(root);
    }
    Ok(roots)
}

/// Turns the rows of a chunk into examples.
pub(super) fn parse_columns(
    source: &str,
    columns: &BTreeMap<String, ColumnSpec>,
    schema: &SchemaRef,
    file: &SourceFile,
    chunk: &RawChunk,
) -> Result<ParsedChunk, SourceError> {
    let empty = RecordBatch::new_empty(Arc::new(Schema::empty()));
    let batch = match &chunk.records {
        RawRecords::Columns(batch) => batch,
        RawRecords::Lines(_) => &empty,
    };
    let arrow_error =
        |error: ArrowError| SourceError::malformed(&file.path, format!("cannot be read: {error}"));
    let mut reasons: BTreeMap<usize, String> = BTreeMap::new();
    let mut arrays: Vec<ArrayRef> = Vec::new();
    for (name, column) in columns {
        arrays.push(match batch.column_by_name(name) {
            Some(array) => convert(array, column.data, &mut |row, reason| {
                reasons.entry(row).or_insert_with(|| format!("`{name}` {reason}"));
            })
            .map_err(arrow_error)?,
            None => new_null_array(&column.data.arrow(), batch.num_rows()),
        });
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let mut examples =
        RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options).map_err(arrow_error)?;
    if !reasons.is_empty() {
        let good: BooleanArray = (0..batch.num_rows()).map(|row| Some(!reasons.contains_key(&row))).collect();
        examples = filter_record_batch(&examples, &good).map_err(arrow_error)?;
    }
    let place = |row: usize| Line {
        ordinal: chunk.first_ordinal + row as u64,
        offset: chunk.first_offset + row as u64,
        length: 0,
        text: Ok(""),
    };
    let good = (0..batch.num_rows()).filter(|row| !reasons.contains_key(row));
    let rows = good.map(|row| place(row).row(source, file, chunk)).collect();
    let mut bad_rows: Vec<BadRow> = reasons.into_iter().map(|(row, reason)| place(row).bad(reason)).collect();
    bad_rows.extend(broken_record(chunk));
    Ok(ParsedChunk { examples: Examples::new(examples, rows), bad_rows })
}

/// The number of a row in its file, from 1, given the rows of each range.
pub(super) fn row_number(counts: &[(SourceRange, u64)], range: SourceRange, ordinal: u64) -> u64 {
    let before = counts.iter().filter(|(other, _)| other.start < range.start).map(|(_, count)| count);
    before.sum::<u64>() + ordinal + 1
}
