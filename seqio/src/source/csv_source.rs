//! Sources whose files are CSV or TSV.
//!
//! A file is cut as one of lines is, into ranges of 64 MiB and chunks of 1 MiB, but for records, which may span lines.
//! Where records end is only known from the front, as it depends on all quotes before: such a file is read by one
//! reader, which cuts as it goes. Where the dialect has no quotes, each range of a plain file is read by itself.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use arrow::datatypes::SchemaRef;

use crate::source::column::ColumnSpec;
use crate::source::compression::check_name;
use crate::source::count::{add_to_range, count_lines_of_ranges, line_number};
use crate::source::csv::{CsvRecords, parse_csv};
use crate::source::csv_head::CsvHead;
use crate::source::csv_records::RecordScan;
use crate::source::dialect::CsvDialect;
use crate::source::interleave::{CutRecords, RecordAt};
use crate::source::jsonl::declared_schema;
use crate::source::lines::{Cutting, LineChunks, file_ranges};
use crate::source::listing::Listing;
use crate::source::{
    DataSource, FileRanges, ParsedChunk, RawChunk, RawChunks, SliceWindows, SourceError, SourceFile,
    SourceRange,
};
use crate::split::{Split, slice_windows};

/// A source of CSV or TSV.
#[derive(Debug)]
pub(super) struct CsvSource {
    listing: Listing,
    cutting: Cutting,
    dialect: CsvDialect,
    columns: BTreeMap<String, ColumnSpec>,
    schema: SchemaRef,
    /// The heads read so far, by path, size and time: every chunk of a file needs its.
    heads: Mutex<BTreeMap<(PathBuf, u64, i128), Arc<CsvHead>>>,
}

impl CsvSource {
    /// A source with these columns, which are declared or have been inferred.
    pub(super) fn new(listing: Listing, dialect: CsvDialect, columns: BTreeMap<String, ColumnSpec>) -> Self {
        let schema = declared_schema(&columns);
        Self { listing, cutting: Cutting::csv(), dialect, columns, schema, heads: Mutex::default() }
    }

    /// The same source cut otherwise.
    #[cfg(test)]
    pub(super) fn with_cutting(self, cutting: Cutting) -> Self {
        Self { cutting, ..self }
    }

    fn head(&self, file: &SourceFile) -> Result<Arc<CsvHead>, SourceError> {
        let key = (file.path.clone(), file.bytes, file.modified_ns);
        if let Some(head) = self.heads.lock().expect("no thread panicked").get(&key) {
            return Ok(Arc::clone(head));
        }
        let head = Arc::new(CsvHead::read(file, &self.dialect, self.cutting)?);
        self.heads.lock().expect("no thread panicked").insert(key, Arc::clone(&head));
        Ok(head)
    }

    fn chunks(
        &self,
        file: &SourceFile,
        index: u32,
        range: Option<SourceRange>,
        skip: Box<dyn Fn(u64) -> bool + Send>,
    ) -> Result<LineChunks, SourceError> {
        LineChunks::open(file, index, range, self.cutting, Some(RecordScan::new(&self.dialect)), skip)
    }

    /// Whether a record is one that a slice counts: not a blank line, a comment or the header.
    fn is_record(head: &CsvHead, offset: u64, has_content: bool) -> bool {
        has_content && head.offset != Some(offset)
    }

    /// The ordinals of the records of a chunk that slices count.
    fn record_ordinals(&self, head: &CsvHead, chunk: &RawChunk) -> Vec<u64> {
        let records = CsvRecords::new(chunk, &self.dialect)
            .filter(|record| Self::is_record(head, record.offset, record.content.is_some()))
            .map(|record| record.ordinal);
        let broken = chunk.damage.as_ref().map(|_| chunk.first_ordinal + chunk.num_records.saturating_sub(1));
        records.chain(broken).collect()
    }

    /// From records of a range, counted, to the ordinals of lines.
    fn ordinals(
        &self,
        file: &SourceFile,
        range: SourceRange,
        records: &Range<u64>,
    ) -> Result<Range<u64>, SourceError> {
        let head = self.head(file)?;
        let mut ordinals = Vec::new();
        let mut end = 0;
        for chunk in self.chunks(file, range.file, Some(range), Box::new(|_| false))? {
            let chunk = chunk?;
            ordinals.extend(self.record_ordinals(&head, &chunk));
            end = chunk.first_ordinal + chunk.num_records;
        }
        let place = |record: u64| {
            let place = usize::try_from(record).ok().and_then(|record| ordinals.get(record));
            place.copied().unwrap_or(end)
        };
        // The lines before the first record belong to it.
        let start = if records.start == 0 { 0 } else { place(records.start) };
        Ok(start..place(records.end))
    }
}

impl DataSource for CsvSource {
    fn name(&self) -> &str {
        &self.listing.name
    }

    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn splits(&self) -> Vec<String> {
        self.listing.split_names()
    }

    fn files(&self, split: &str) -> Result<Vec<SourceFile>, SourceError> {
        self.listing.files(split)
    }

    fn ranges(&self, file: &SourceFile, index: u32) -> Result<FileRanges, SourceError> {
        check_name(file)?;
        let head = self.head(file)?;
        head.places(&self.columns).map_err(|problem| SourceError::malformed(&file.path, problem))?;
        if self.dialect.quote.is_some() {
            return Ok(FileRanges::Streamed);
        }
        Ok(file_ranges(file, index, self.cutting))
    }

    fn read(
        &self,
        file: &SourceFile,
        index: u32,
        range: Option<SourceRange>,
        skip: Box<dyn Fn(u64) -> bool + Send>,
    ) -> Result<RawChunks, SourceError> {
        Ok(Box::new(self.chunks(file, index, range, skip)?))
    }

    fn parse(&self, file: &SourceFile, chunk: &RawChunk) -> Result<ParsedChunk, SourceError> {
        let head = self.head(file)?;
        parse_csv(&self.listing.name, &self.columns, &self.schema, &self.dialect, &head, file, chunk)
    }

    fn count_records(&self, file: &SourceFile, index: u32) -> Result<Vec<(SourceRange, u64)>, SourceError> {
        if self.dialect.quote.is_none() {
            return count_lines_of_ranges(file, index, self.cutting);
        }
        let mut counts: Vec<(SourceRange, u64)> = Vec::new();
        for chunk in self.chunks(file, index, None, Box::new(|_| false))? {
            let chunk = chunk?;
            add_to_range(&mut counts, chunk.range, chunk.num_records);
        }
        Ok(counts)
    }

    fn line_of(&self, file: &SourceFile, range: SourceRange, ordinal: u64) -> Result<u64, SourceError> {
        if range.start == 0 {
            return Ok(ordinal + 1);
        }
        if self.dialect.quote.is_none() {
            return line_number(file, range, ordinal);
        }
        let mut lines = 0;
        for chunk in self.chunks(file, range.file, None, Box::new(|_| false))? {
            let chunk = chunk?;
            if chunk.range.start >= range.start {
                break;
            }
            lines += chunk.num_records;
        }
        Ok(lines + ordinal + 1)
    }

    /// A slice counts records as a person does: without header, blank lines and comments, and each once.
    fn slice(&self, split: &Split, files: &[SourceFile]) -> Result<SliceWindows, SourceError> {
        let mut lines: Vec<(SourceRange, u64)> = Vec::new();
        let mut records: Vec<(SourceRange, u64)> = Vec::new();
        for (index, file) in (0u32..).zip(files) {
            let head = self.head(file)?;
            for chunk in self.chunks(file, index, None, Box::new(|_| false))? {
                let chunk = chunk?;
                add_to_range(&mut lines, chunk.range, chunk.num_records);
                add_to_range(&mut records, chunk.range, self.record_ordinals(&head, &chunk).len() as u64);
            }
        }
        let counts: BTreeMap<SourceRange, (u64, u64)> = lines
            .iter()
            .zip(&records)
            .map(|(&(range, lines), &(_, records))| (range, (lines, records)))
            .collect();
        let mut windows = Vec::new();
        for (range, window) in slice_windows(split, &records) {
            let (lines, records) = counts.get(&range).copied().unwrap_or_default();
            let ordinals = if window == (0..records) {
                0..lines
            } else {
                self.ordinals(&files[range.file as usize], range, &window)?
            };
            windows.push((range, ordinals));
        }
        Ok(SliceWindows { windows, counts: lines })
    }
}

impl CutRecords for CsvSource {
    fn records(&self, file: &SourceFile, chunk: &RawChunk) -> Result<Vec<RecordAt>, SourceError> {
        let head = self.head(file)?;
        let mut records = Vec::new();
        let place = |offset: u64| usize::try_from(offset - chunk.first_offset).unwrap_or(usize::MAX);
        let mut all = CsvRecords::new(chunk, &self.dialect).peekable();
        while let Some(record) = all.next() {
            let end = all.peek().map_or(chunk.records.text().len(), |next| place(next.offset));
            if Self::is_record(&head, record.offset, record.content.is_some()) {
                records.push(RecordAt { ordinal: record.ordinal, bytes: place(record.offset)..end });
            }
        }
        Ok(records)
    }
}

#[cfg(test)]
mod tests;
