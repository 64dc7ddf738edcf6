//! CSV: the records of a chunk, their fields, and the columns made of them.
//!
//! ```text
//! columns = { text = "string", n = "int64" }
//! text,n,note       the header, a record that gives no example
//! "a                -> text: "a\nb", n: 1     (the record begins in line 2, and its note is passed over)
//! b",1,x
//! c,one,            -> bad row: `n` should be an int64, but is `one`
//! d,2               -> bad row: has 2 fields instead of 3
//! ```
//!
//! Ordinals are lines, as a record may span several: it has that of its first line, and no other record has those of
//! its other lines. Blank lines and comments are neither examples nor bad.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};

use crate::example::Examples;
use crate::source::column::{ColumnSpec, ScalarType};
use crate::source::csv_head::CsvHead;
use crate::source::csv_records::RecordScan;
use crate::source::dialect::CsvDialect;
use crate::source::json_columns::{JsonColumn, JsonValue, Misfit};
use crate::source::record::{BYTE_ORDER_MARK, Line, broken_record};
use crate::source::{ParsedChunk, RawChunk, SourceError, SourceFile};

/// One record of a chunk.
pub(super) struct CsvRecord<'a> {
    /// Ordinal within the range, counted in lines.
    pub(super) ordinal: u64,
    /// First byte in the decompressed file.
    pub(super) offset: u64,
    /// Bytes without the line end.
    pub(super) length: u64,
    /// Its text, without byte order mark and line end; `None`: a blank line or a comment.
    pub(super) content: Option<&'a [u8]>,
    /// Whether a quote is open where the file ends.
    pub(super) is_open: bool,
}

/// The records of a chunk in order.
pub(super) struct CsvRecords<'a> {
    chunk: &'a RawChunk,
    bytes: &'a [u8],
    scan: RecordScan,
    start: usize,
    ordinal: u64,
}

impl<'a> CsvRecords<'a> {
    pub(super) fn new(chunk: &'a RawChunk, dialect: &CsvDialect) -> Self {
        Self {
            chunk,
            bytes: chunk.records.text(),
            scan: RecordScan::new(dialect),
            start: 0,
            ordinal: chunk.first_ordinal,
        }
    }
}

impl<'a> Iterator for CsvRecords<'a> {
    type Item = CsvRecord<'a>;

    fn next(&mut self) -> Option<CsvRecord<'a>> {
        let start = self.start;
        if start >= self.bytes.len() {
            return None;
        }
        let file_start = self.chunk.first_offset == 0;
        let (end, is_comment, is_open) = match self.scan.next_end(self.bytes, file_start) {
            Some((end, is_comment)) => (end, is_comment, false),
            None => (self.bytes.len(), self.scan.is_comment(), self.scan.is_open()),
        };
        let whole = &self.bytes[start..end];
        let ended = whole.strip_suffix(b"\n");
        let num_lines = memchr::memchr_iter(b'\n', whole).count() as u64 + u64::from(ended.is_none());
        let content = ended.unwrap_or(whole);
        let content = content.strip_suffix(b"\r").unwrap_or(content);
        let length = content.len() as u64;
        let content = match content.strip_prefix(BYTE_ORDER_MARK) {
            Some(rest) if file_start && start == 0 => rest,
            _ => content,
        };
        let record = CsvRecord {
            ordinal: self.ordinal,
            offset: self.chunk.first_offset + start as u64,
            length,
            content: (!is_comment && !content.is_empty()).then_some(content),
            is_open,
        };
        self.start = end;
        self.ordinal += num_lines;
        Some(record)
    }
}

/// Takes records apart.
pub(super) struct FieldReader {
    reader: Reader,
    text: Vec<u8>,
    ends: Vec<usize>,
}

/// The fields of a record.
#[derive(Clone, Copy)]
pub(super) struct Fields<'r> {
    text: &'r str,
    ends: &'r [usize],
    trim: bool,
}

impl FieldReader {
    pub(super) fn new(dialect: &CsvDialect) -> Self {
        let mut reader = ReaderBuilder::new()
            .delimiter(dialect.delimiter)
            .quote(dialect.quote.unwrap_or(b'"'))
            .quoting(dialect.quote.is_some())
            .escape(dialect.escape)
            .double_quote(dialect.double_quote)
            .terminator(Terminator::Any(b'\n'))
            .build();
        // A reader that has read something takes no more byte order marks for none.
        reader.read_record(b"\n", &mut [0], &mut [0]);
        Self { reader, text: Vec::new(), ends: vec![0; 16] }
    }

    /// The fields of a record without its line end, or why it has none.
    pub(super) fn read(
        &mut self,
        record: &CsvRecord<'_>,
        dialect: &CsvDialect,
    ) -> Result<Fields<'_>, String> {
        let content = record.content.unwrap_or_default();
        if record.is_open {
            return Err(self.never_closed(content, dialect));
        }
        self.text.resize(content.len() + 1, 0);
        let (mut at, mut length, mut count) = (0, 0, 0);
        loop {
            // The line end is not in the content, and ends the record.
            let input = if at < content.len() { &content[at..] } else { b"\n" };
            let (result, read, written, ended) =
                self.reader.read_record(input, &mut self.text[length..], &mut self.ends[count..]);
            at += read;
            length += written;
            count += ended;
            match result {
                ReadRecordResult::Record | ReadRecordResult::End => break,
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                ReadRecordResult::OutputFull => self.text.resize(self.text.len() * 2, 0),
                // The records of `RecordScan` are those of the reader, so that a line end ends them.
                ReadRecordResult::InputEmpty if at > content.len() => {
                    *self = Self::new(dialect);
                    return Err("has quotes that do not match".to_owned());
                }
                ReadRecordResult::InputEmpty => {}
            }
        }
        let ends = &self.ends[..count];
        match str::from_utf8(&self.text[..length]) {
            Ok(text) => Ok(Fields { text, ends, trim: dialect.trim }),
            Err(error) => {
                let bad = error.valid_up_to();
                let field = ends.partition_point(|&end| end <= bad);
                let start = field.checked_sub(1).map_or(0, |before| ends[before]);
                Err(format!("field {} is not valid UTF-8 at byte {}", field + 1, bad - start + 1))
            }
        }
    }

    /// Finds the quote that is open at the end of the file.
    fn never_closed(&self, content: &[u8], dialect: &CsvDialect) -> String {
        let mut scan = RecordScan::new(dialect);
        scan.next_end(content, false);
        format!(
            "a quote opens at byte {} of the record and is never closed; if quotes are text here, set `quote = \"\"` in \
             `dialect`",
            scan.opened() + 1
        )
    }
}

impl<'r> Fields<'r> {
    pub(super) fn len(self) -> usize {
        self.ends.len()
    }

    /// A field by its place.
    pub(super) fn get(self, place: usize) -> Option<&'r str> {
        let end = *self.ends.get(place)?;
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        let field = self.text.get(start..end)?;
        Some(if self.trim { field.trim() } else { field })
    }

    pub(super) fn iter(self) -> impl Iterator<Item = &'r str> {
        (0..self.len()).filter_map(move |place| self.get(place))
    }
}

/// Turns the records of a chunk into examples.
pub(super) fn parse_csv(
    source: &str,
    columns: &BTreeMap<String, ColumnSpec>,
    schema: &SchemaRef,
    dialect: &CsvDialect,
    head: &CsvHead,
    file: &SourceFile,
    chunk: &RawChunk,
) -> Result<ParsedChunk, SourceError> {
    let num_bytes = chunk.records.text().len();
    let malformed = |problem: String| SourceError::malformed(&file.path, problem);
    let places = head.places(columns).map_err(malformed)?;
    let mut fields = FieldReader::new(dialect);
    let mut table = CsvTable::new(columns, &places, num_bytes);
    let mut rows = Vec::new();
    let mut bad_rows = Vec::new();
    for record in CsvRecords::new(chunk, dialect) {
        if record.content.is_none() || head.offset == Some(record.offset) {
            continue;
        }
        let pushed = fields.read(&record, dialect).and_then(|fields| {
            head.check_number(fields.len())?;
            table.push(fields, dialect)
        });
        // An example of CSV has the place of its record, as one of lines has that of its line.
        let line =
            Line { ordinal: record.ordinal, offset: record.offset, length: record.length, text: Ok("") };
        match pushed {
            Ok(()) => rows.push(line.row(source, file, chunk)),
            Err(reason) => bad_rows.push(line.bad(reason)),
        }
    }
    bad_rows.extend(broken_record(chunk));
    let columns = table.finish(schema).map_err(|error| SourceError::malformed(&file.path, error))?;
    Ok(ParsedChunk { examples: Examples::new(columns, rows), bad_rows })
}

/// The rows read so far.
struct CsvTable<'c> {
    columns: Vec<JsonColumn<'c>>,
    places: &'c [Option<usize>],
    num_rows: usize,
}

impl<'c> CsvTable<'c> {
    fn new(columns: &'c BTreeMap<String, ColumnSpec>, places: &'c [Option<usize>], num_bytes: usize) -> Self {
        let share = num_bytes / columns.len().max(1);
        let columns = columns.iter().map(|(name, &column)| JsonColumn::new(name, column, share)).collect();
        Self { columns, places, num_rows: 0 }
    }

    /// Adds the fields of a record as a row, or says what is wrong with them and adds nothing.
    fn push(&mut self, fields: Fields<'_>, dialect: &CsvDialect) -> Result<(), String> {
        let done = self.read(fields, dialect);
        match done {
            Ok(()) => {
                self.columns.iter_mut().for_each(JsonColumn::commit);
                self.num_rows += 1;
            }
            Err(_) => self.columns.iter_mut().for_each(|column| column.truncate(self.num_rows)),
        }
        done
    }

    fn read(&mut self, fields: Fields<'_>, dialect: &CsvDialect) -> Result<(), String> {
        for (column, place) in self.columns.iter_mut().zip(self.places) {
            let Some(field) = place.and_then(|place| fields.get(place)) else {
                column.push_null();
                continue;
            };
            let value = value(field, column.spec.data.scalar(), dialect);
            if value.is_none_or(|value| column.push(&value).is_err_and(|Misfit| true)) {
                let wanted = column.spec.data.phrase();
                return Err(format!("`{}` should be {wanted}, but is `{}`", column.name, shortened(field)));
            }
        }
        Ok(())
    }

    /// The columns as Arrow has them.
    fn finish(self, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
        let arrays = self.columns.into_iter().map(JsonColumn::finish).collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.num_rows));
        RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)
    }
}

/// What a field is in a column of this type; `None` if it is none.
fn value<'f>(field: &'f str, wanted: ScalarType, dialect: &CsvDialect) -> Option<JsonValue<'f>> {
    if !dialect.nulls.is_empty() && dialect.nulls.contains(field) {
        return Some(JsonValue::Null);
    }
    if field.is_empty() && wanted != ScalarType::String {
        return Some(JsonValue::Null);
    }
    match wanted {
        ScalarType::String | ScalarType::Json => Some(JsonValue::String(field)),
        ScalarType::Int32 | ScalarType::Int64 => {
            field.parse::<i64>().ok().map(|int| JsonValue::Int(int.into()))
        }
        // Rounded once, not to 64 bits first.
        ScalarType::Float32 => {
            let float = field.parse::<f32>().ok().filter(|float| float.is_finite())?;
            Some(JsonValue::Float(float.into()))
        }
        ScalarType::Float64 => {
            let float = field.parse::<f64>().ok().filter(|float| float.is_finite())?;
            Some(JsonValue::Float(float))
        }
        ScalarType::Bool => match field {
            "1" => Some(JsonValue::Bool(true)),
            "0" => Some(JsonValue::Bool(false)),
            _ => truth(field).map(JsonValue::Bool),
        },
    }
}

/// `true` and `false`, in any case.
pub(super) fn truth(field: &str) -> Option<bool> {
    match field {
        _ if field.eq_ignore_ascii_case("true") => Some(true),
        _ if field.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

fn shortened(field: &str) -> String {
    match field.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", field[..end].escape_debug()),
        None => field.escape_debug().to_string(),
    }
}
