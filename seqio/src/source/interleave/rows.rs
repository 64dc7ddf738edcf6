//! The records of a split's files in turns, cut into ranges and chunks by their number alone.
//!
//! A chunk has a row for each record: its file and its number there from 1, its place, and its bytes; or what is wrong,
//! where a file breaks off.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, RecordBatch, StringArray, StringBuilder,
    UInt64Array, UInt64Builder,
};
use arrow::datatypes::UInt64Type;
use arrow::error::ArrowError;

use crate::source::interleave::turns::Turns;
use crate::source::interleave::{CutRecords, Interleave, RecordAt};
use crate::source::numbered::{CHUNK_BYTES, NumberedRows};
use crate::source::{RawChunk, RawChunks, SourceError, SourceFile};

/// A file that is being read.
struct Reading {
    file: SourceFile,
    index: u32,
    state: State,
    /// Records of the ranges before, and of this range so far, as the file counts them.
    before: u64,
    range: (u64, u64),
}

enum State {
    Waiting,
    Open { chunks: RawChunks, cut: Option<Cut> },
    Done,
}

/// A chunk, and how far it has been given out.
struct Cut {
    chunk: RawChunk,
    records: Vec<RecordAt>,
    next: usize,
}

impl Cut {
    /// The records, and the place where the file breaks off.
    fn len(&self) -> usize {
        self.records.len() + usize::from(self.chunk.damage.is_some())
    }
}

impl Reading {
    /// Whether there is one more record; reads on for it.
    fn has_more(&mut self, source: &dyn CutRecords) -> Result<bool, SourceError> {
        if matches!(self.state, State::Waiting) {
            source.ranges(&self.file, self.index)?;
            let chunks = source.read(&self.file, self.index, None, Box::new(|_| false))?;
            self.state = State::Open { chunks, cut: None };
        }
        let State::Open { chunks, cut } = &mut self.state else { return Ok(false) };
        loop {
            if cut.as_ref().is_some_and(|cut| cut.next < cut.len()) {
                return Ok(true);
            }
            let Some(chunk) = chunks.next().transpose()? else {
                self.state = State::Done;
                return Ok(false);
            };
            if chunk.range.start != self.range.0 {
                self.before += self.range.1;
                self.range = (chunk.range.start, 0);
            }
            self.range.1 += chunk.num_records;
            let records = source.records(&self.file, &chunk)?;
            *cut = Some(Cut { chunk, records, next: 0 });
        }
    }

    /// Passes over the next record, and adds it to `rows`; whether the file breaks off there.
    fn give(&mut self, rows: Option<&mut Rows>) -> bool {
        let State::Open { cut: Some(cut), .. } = &mut self.state else { return false };
        let record = cut.records.get(cut.next);
        let chunk = &cut.chunk;
        cut.next += 1;
        let bytes = chunk.records.text();
        let (ordinal, range) = match record {
            Some(record) => (record.ordinal, record.bytes.clone()),
            None => (chunk.first_ordinal + chunk.num_records.saturating_sub(1), bytes.len()..bytes.len()),
        };
        if let Some(rows) = rows {
            rows.push(RowOf {
                file: self.index,
                name: &self.file.name,
                line: self.before + ordinal + 1,
                range: chunk.range.start,
                ordinal,
                offset: chunk.first_offset + range.start as u64,
                bytes: record.and_then(|_| bytes.get(range)),
                problem: if record.is_none() { chunk.damage.as_deref() } else { None },
            });
        }
        record.is_none()
    }
}

/// The files of a split, record by record.
pub(super) struct Records {
    source: Arc<dyn CutRecords>,
    split: String,
    files: Vec<Reading>,
    turns: Turns,
    /// The file whose record is next.
    next: Option<usize>,
    records: u64,
    is_damaged: bool,
}

impl Records {
    pub(super) fn new(
        source: Arc<dyn CutRecords>,
        split: String,
        files: &[SourceFile],
        order: Interleave,
    ) -> Self {
        let reading = |(index, file): (u32, &SourceFile)| Reading {
            file: file.clone(),
            index,
            state: State::Waiting,
            before: 0,
            range: (0, 0),
        };
        let turns = Turns::new(files.len(), order);
        let files = (0u32..).zip(files).map(reading).collect();
        Self { source, split, files, turns, next: None, records: 0, is_damaged: false }
    }

    /// Sees whose record is next; false at the end, where as many must have come as there should be.
    fn advance(&mut self) -> Result<bool, SourceError> {
        if self.next.is_some() {
            return Ok(true);
        }
        let Self { source, files, turns, .. } = self;
        self.next = turns.next(|index| files[index].has_more(source.as_ref()))?;
        if self.next.is_some() {
            self.records += 1;
            return Ok(true);
        }
        if !self.is_damaged {
            self.source.check_count(&self.split, self.records)?;
        }
        Ok(false)
    }

    /// Passes over all records, and counts them.
    pub(super) fn count(mut self) -> Result<u64, SourceError> {
        while self.advance()? {
            self.give(None);
        }
        Ok(self.records)
    }

    /// Passes over the next record, and adds it to `rows`.
    fn give(&mut self, rows: Option<&mut Rows>) {
        if let Some(index) = self.next.take() {
            self.is_damaged |= self.files[index].give(rows);
        }
    }
}

/// What a row holds.
struct RowOf<'a> {
    file: u32,
    name: &'a str,
    line: u64,
    range: u64,
    ordinal: u64,
    offset: u64,
    bytes: Option<&'a [u8]>,
    problem: Option<&'a str>,
}

/// Rows of a chunk that is being made.
#[derive(Default)]
pub(super) struct Rows {
    file: UInt64Builder,
    name: StringBuilder,
    line: UInt64Builder,
    range: UInt64Builder,
    ordinal: UInt64Builder,
    offset: UInt64Builder,
    record: BinaryBuilder,
    problem: StringBuilder,
    len: usize,
    bytes: usize,
}

impl Rows {
    fn push(&mut self, row: RowOf<'_>) {
        self.len += 1;
        self.bytes += row.bytes.map_or(0, <[u8]>::len);
        self.file.append_value(row.file.into());
        self.name.append_value(row.name);
        self.line.append_value(row.line);
        self.range.append_value(row.range);
        self.ordinal.append_value(row.ordinal);
        self.offset.append_value(row.offset);
        self.record.append_option(row.bytes);
        self.problem.append_option(row.problem);
    }

    fn finish(mut self) -> Result<RecordBatch, ArrowError> {
        let columns: [(&str, ArrayRef); 8] = [
            ("file_index", Arc::new(self.file.finish())),
            ("file", Arc::new(self.name.finish())),
            ("number", Arc::new(self.line.finish())),
            ("range", Arc::new(self.range.finish())),
            ("ordinal", Arc::new(self.ordinal.finish())),
            ("offset", Arc::new(self.offset.finish())),
            ("record", Arc::new(self.record.finish())),
            ("problem", Arc::new(self.problem.finish())),
        ];
        RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, column)| (name, column, true)),
        )
    }
}

/// Rows of a chunk, to be looked at.
pub(super) struct ReadRows<'a> {
    file: &'a UInt64Array,
    line: &'a UInt64Array,
    range: &'a UInt64Array,
    ordinal: &'a UInt64Array,
    offset: &'a UInt64Array,
    record: &'a BinaryArray,
    problem: &'a StringArray,
}

impl<'a> ReadRows<'a> {
    /// `None` if these are no such rows.
    pub(super) fn new(batch: &'a RecordBatch) -> Option<Self> {
        let numbers = |name: &str| batch.column_by_name(name)?.as_primitive_opt::<UInt64Type>();
        Some(Self {
            file: numbers("file_index")?,
            line: numbers("number")?,
            range: numbers("range")?,
            ordinal: numbers("ordinal")?,
            offset: numbers("offset")?,
            record: batch.column_by_name("record")?.as_binary_opt()?,
            problem: batch.column_by_name("problem")?.as_string_opt()?,
        })
    }

    pub(super) fn file(&self, row: usize) -> usize {
        usize::try_from(self.file.value(row)).unwrap_or(usize::MAX)
    }

    pub(super) fn line(&self, row: usize) -> u64 {
        self.line.value(row)
    }

    pub(super) fn range(&self, row: usize) -> u64 {
        self.range.value(row)
    }

    pub(super) fn ordinal(&self, row: usize) -> u64 {
        self.ordinal.value(row)
    }

    pub(super) fn offset(&self, row: usize) -> u64 {
        self.offset.value(row)
    }

    pub(super) fn problem(&self, row: usize) -> Option<&'a str> {
        self.problem.is_valid(row).then(|| self.problem.value(row))
    }

    pub(super) fn record(&self, row: usize) -> &'a [u8] {
        self.record.value(row)
    }

    /// The bytes of some rows, one after the other.
    pub(super) fn bytes(&self, rows: Range<usize>) -> Vec<u8> {
        rows.map(|row| self.record(row)).collect::<Vec<_>>().concat()
    }

    /// Whether a row's bytes follow those of the row before in the same range.
    pub(super) fn follows(&self, row: usize) -> bool {
        let before = row - 1;
        self.file.value(row) == self.file.value(before)
            && self.range.value(row) == self.range.value(before)
            && self.problem.is_null(row)
            && self.problem.is_null(before)
            && self.offset.value(row) == self.offset.value(before) + self.record.value(before).len() as u64
    }
}

impl NumberedRows for Records {
    type Taken = Rows;

    fn has_more(&mut self) -> Result<bool, SourceError> {
        self.advance()
    }

    fn take(&mut self, most: usize) -> Result<(Rows, usize), SourceError> {
        let mut rows = Rows::default();
        while rows.len < most && rows.bytes < CHUNK_BYTES && self.advance()? {
            self.give(Some(&mut rows));
        }
        let len = rows.len;
        Ok((rows, len))
    }

    fn finish(&self, taken: Rows, _first: u64) -> Result<RecordBatch, SourceError> {
        taken.finish().map_err(|error| SourceError::Definition {
            problem: format!("records cannot be put together: {error}"),
        })
    }
}
