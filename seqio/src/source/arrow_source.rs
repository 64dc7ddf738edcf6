//! Arrow IPC files and streams: a range owns the record batches that begin in 64 MiB of the file, a record is a row.
//!
//! ```text
//! a.arrow    a footer says where batches are: ranges are read on their own
//! a.arrows   batches are found from the front: one reader runs through and cuts as it goes
//! ```
//!
//! Ordinals and offsets are rows of the range. A stream that breaks off, or whose next message is corrupt, is damaged
//! from there on, like compressed text; a file with a footer is refused where it is corrupt.

use std::collections::{BTreeMap, VecDeque};

use arrow::array::{Array, ArrayData, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Schema, SchemaRef};

use crate::source::arrow_file::{ArrowFile, BatchDecoder, MessageAt, StreamNext, Trouble};
use crate::source::column::ColumnSpec;
use crate::source::columnar::{chunk_rows, parse_columns, pin_columns, roots, row_number};
use crate::source::count::add_to_range;
use crate::source::jsonl::declared_schema;
use crate::source::listing::Listing;
use crate::source::{
    DataSource, FileRanges, ParsedChunk, RANGE_BYTES, RawChunk, RawChunks, RawRecords, SourceError,
    SourceFile, SourceRange,
};

/// A source of Arrow files.
#[derive(Debug)]
pub(super) struct ArrowSource {
    listing: Listing,
    columns: BTreeMap<String, ColumnSpec>,
    schema: SchemaRef,
    range_bytes: u64,
}

impl ArrowSource {
    /// A source with these columns, which are declared or have been inferred.
    pub(super) fn new(listing: Listing, columns: BTreeMap<String, ColumnSpec>) -> Self {
        let schema = declared_schema(&columns);
        Self { listing, columns, schema, range_bytes: RANGE_BYTES }
    }

    fn range_at(&self, index: u32, offset: u64) -> SourceRange {
        range_at(index, offset, self.range_bytes)
    }

    /// The record batches of a file in order, with the rows of each, and where it breaks off if it does.
    fn rows_of_batches(&self, opened: &ArrowFile) -> Result<Vec<(u64, u64)>, SourceError> {
        if let Some(batches) = opened.batches() {
            return batches.iter().map(|&at| Ok((at.offset, opened.num_rows(at)?))).collect();
        }
        let mut rows = Vec::new();
        let mut offset = opened.first();
        loop {
            match opened.stream_next(offset, None)? {
                StreamNext::Batch(at) => {
                    rows.push((at.offset, opened.num_rows(at)?));
                    offset = at.end();
                }
                StreamNext::Passed(end) => offset = end,
                StreamNext::End => return Ok(rows),
                StreamNext::Damage { offset, .. } => {
                    rows.push((offset, 1));
                    return Ok(rows);
                }
            }
        }
    }
}

fn range_at(file: u32, offset: u64, range_bytes: u64) -> SourceRange {
    let start = offset - offset % range_bytes;
    SourceRange { file, start, end: start.saturating_add(range_bytes) }
}

/// The columns of an Arrow source: the declared ones if the first file has them, else those of the first file.
pub(super) fn pin_arrow_columns(
    listing: &Listing,
    declared: &BTreeMap<String, ColumnSpec>,
) -> Result<BTreeMap<String, ColumnSpec>, SourceError> {
    let Some(split) = listing.split_names().into_iter().next() else { return Ok(declared.clone()) };
    let Some(file) = listing.files(&split)?.into_iter().next() else { return Ok(declared.clone()) };
    pin_columns(&file, ArrowFile::open(&file)?.fields(), declared)
}

/// The chunks of the wanted ranges in order.
struct BatchChunks {
    opened: ArrowFile,
    decoder: BatchDecoder,
    index: u32,
    range_bytes: u64,
    only: Option<u64>,
    skip: Box<dyn Fn(u64) -> bool + Send>,
    /// Batches of a file still to be read.
    batches: Option<VecDeque<MessageAt>>,
    /// Where a stream goes on.
    offset: u64,
    next: Next,
    current: Option<Current>,
    /// The range that is being read, and the rows given of it.
    range: Option<SourceRange>,
    ordinal: u64,
}

enum Next {
    Batch(MessageAt),
    Damage { offset: u64, reason: String },
    End,
}

/// A batch of which chunks are cut.
struct Current {
    batch: RecordBatch,
    given: usize,
    chunk_rows: usize,
}

impl BatchChunks {
    fn advance(&mut self) -> Result<(), SourceError> {
        self.next = match &mut self.batches {
            Some(batches) => batches.pop_front().map_or(Next::End, Next::Batch),
            None => match self.opened.stream_next(self.offset, Some(&mut self.decoder))? {
                StreamNext::Batch(at) => {
                    self.offset = at.end();
                    Next::Batch(at)
                }
                StreamNext::Damage { offset, reason } => Next::Damage { offset, reason },
                StreamNext::End | StreamNext::Passed(_) => Next::End,
            },
        };
        Ok(())
    }

    /// The range of what comes next.
    fn next_range(&self) -> Option<SourceRange> {
        let offset = match &self.next {
            Next::Batch(at) => at.offset,
            Next::Damage { offset, .. } => *offset,
            Next::End => return None,
        };
        Some(range_at(self.index, offset, self.range_bytes))
    }

    fn is_wanted(&self, range: SourceRange) -> bool {
        self.only.is_none_or(|only| only == range.start) && !(self.skip)(range.start)
    }

    fn next_chunk(&mut self) -> Result<Option<RawChunk>, SourceError> {
        loop {
            if let Some(current) = &mut self.current {
                let rows = current.chunk_rows.min(current.batch.num_rows() - current.given);
                let records = current.batch.slice(current.given, rows);
                current.given += rows;
                let batch_ends = current.given == current.batch.num_rows();
                if batch_ends {
                    self.current = None;
                }
                let last_of_range = batch_ends && self.next_range() != self.range;
                if rows > 0 || last_of_range {
                    return Ok(Some(self.chunk(records, rows as u64, last_of_range, None)));
                }
                continue;
            }
            let Some(range) = self.next_range() else { return Ok(None) };
            if self.only.is_some_and(|only| range.start > only) {
                return Ok(None);
            }
            if self.range != Some(range) {
                (self.range, self.ordinal) = (Some(range), 0);
            }
            match std::mem::replace(&mut self.next, Next::End) {
                Next::Batch(at) if self.is_wanted(range) => match self.decoder.read(&self.opened, at) {
                    Ok(Some(batch)) => {
                        let bytes =
                            batch.columns().iter().map(|column| buffer_bytes(&column.to_data())).sum();
                        let chunk_rows = chunk_rows(batch.num_rows() as u64, bytes);
                        self.current = Some(Current { given: 0, chunk_rows, batch });
                        self.advance()?;
                    }
                    Ok(None) => return Err(self.opened.error("a record batch is none".to_owned().into())),
                    Err(Trouble::Corrupt(reason)) if self.batches.is_none() => {
                        self.next = Next::Damage { offset: at.offset, reason };
                    }
                    Err(trouble) => return Err(self.opened.error(trouble)),
                },
                Next::Batch(_) => self.advance()?,
                Next::Damage { reason, .. } => {
                    if self.is_wanted(range) {
                        let empty = RecordBatch::new_empty(Schema::empty().into());
                        return Ok(Some(self.chunk(empty, 1, true, Some(reason))));
                    }
                }
                Next::End => return Ok(None),
            }
        }
    }

    fn chunk(
        &mut self,
        records: RecordBatch,
        num_records: u64,
        last_of_range: bool,
        damage: Option<String>,
    ) -> RawChunk {
        let chunk = RawChunk {
            range: self.range.unwrap_or_else(|| range_at(self.index, 0, self.range_bytes)),
            first_ordinal: self.ordinal,
            num_records,
            first_offset: self.ordinal,
            records: RawRecords::Columns(records),
            last_of_range,
            damage,
        };
        self.ordinal += num_records;
        chunk
    }
}

/// Bytes of an array's buffers, as the file has them or as they were decompressed; dictionaries count for nothing.
fn buffer_bytes(data: &ArrayData) -> u64 {
    let own: usize = data.buffers().iter().map(Buffer::len).sum();
    let is_dictionary = matches!(data.data_type(), DataType::Dictionary(..));
    let children = data.child_data().iter().filter(|_| !is_dictionary).map(buffer_bytes);
    own as u64 + children.sum::<u64>()
}

impl Iterator for BatchChunks {
    type Item = Result<RawChunk, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let chunk = self.next_chunk();
        if chunk.is_err() {
            self.next = Next::End;
            self.current = None;
        }
        chunk.transpose()
    }
}

impl DataSource for ArrowSource {
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
        let opened = ArrowFile::open(file)?;
        roots(file, opened.fields(), &self.columns)?;
        let Some(batches) = opened.batches() else { return Ok(FileRanges::Streamed) };
        let mut ranges: Vec<SourceRange> = batches.iter().map(|at| self.range_at(index, at.offset)).collect();
        ranges.dedup();
        Ok(FileRanges::Known(ranges))
    }

    fn read(
        &self,
        file: &SourceFile,
        index: u32,
        range: Option<SourceRange>,
        skip: Box<dyn Fn(u64) -> bool + Send>,
    ) -> Result<RawChunks, SourceError> {
        let opened = ArrowFile::open(file)?;
        let roots = roots(file, opened.fields(), &self.columns)?;
        let mut chunks = BatchChunks {
            decoder: BatchDecoder::new(&opened, roots)?,
            index,
            range_bytes: self.range_bytes,
            only: range.map(|range| range.start),
            skip,
            batches: opened.batches().map(|batches| batches.iter().copied().collect()),
            offset: opened.first(),
            opened,
            next: Next::End,
            current: None,
            range: None,
            ordinal: 0,
        };
        chunks.advance()?;
        Ok(Box::new(chunks))
    }

    fn parse(&self, file: &SourceFile, chunk: &RawChunk) -> Result<ParsedChunk, SourceError> {
        parse_columns(&self.listing.name, &self.columns, &self.schema, file, chunk)
    }

    fn count_records(&self, file: &SourceFile, index: u32) -> Result<Vec<(SourceRange, u64)>, SourceError> {
        let mut counts: Vec<(SourceRange, u64)> = Vec::new();
        for (offset, rows) in self.rows_of_batches(&ArrowFile::open(file)?)? {
            let range = self.range_at(index, offset);
            add_to_range(&mut counts, range, rows);
        }
        Ok(counts)
    }

    fn line_of(&self, file: &SourceFile, range: SourceRange, ordinal: u64) -> Result<u64, SourceError> {
        Ok(row_number(&self.count_records(file, range.file)?, range, ordinal))
    }
}

#[cfg(test)]
mod tests;
