//! Lines of text: one column `text`, every line an example, empty ones too.
//!
//! ```text
//! "first\n\nthird" -> text: "first", "", "third"
//! ```

use std::sync::Arc;

use arrow::array::{RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::example::Examples;
use crate::source::record::{broken_record, lines};
use crate::source::{ParsedChunk, RawChunk, SourceError, SourceFile};

/// The one column of a text source.
pub(super) fn text_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("text", DataType::Utf8, true)]))
}

/// Whether a line is among the first of its file, which are no examples.
pub(super) fn is_header(chunk: &RawChunk, ordinal: u64, header_lines: u64) -> bool {
    chunk.range.start == 0 && ordinal < header_lines
}

pub(super) fn parse_text(
    source: &str,
    schema: &SchemaRef,
    header_lines: u64,
    file: &SourceFile,
    chunk: &RawChunk,
) -> Result<ParsedChunk, SourceError> {
    let num_bytes = chunk.records.text().len();
    let num_lines = usize::try_from(chunk.num_records).unwrap_or(0);
    let mut texts = StringBuilder::with_capacity(num_lines, num_bytes);
    let mut rows = Vec::with_capacity(num_lines);
    let mut bad_rows = Vec::new();
    for line in lines(chunk).filter(|line| !is_header(chunk, line.ordinal, header_lines)) {
        match &line.text {
            Ok(text) => {
                texts.append_value(text);
                rows.push(line.row(source, file, chunk));
            }
            Err(reason) => bad_rows.push(line.bad(reason.clone())),
        }
    }
    bad_rows.extend(broken_record(chunk));
    let columns = RecordBatch::try_new(Arc::clone(schema), vec![Arc::new(texts.finish())]);
    let columns = columns.map_err(|error| SourceError::malformed(&file.path, error))?;
    Ok(ParsedChunk { examples: Examples::new(columns, rows), bad_rows })
}
