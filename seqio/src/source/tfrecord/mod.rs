//! TFRecord files of `tf.train.Example`s: a record is an example, features are its columns.
//!
//! ```text
//! train.tfrecord-00000-of-00002      frames, each with a record and its checksums
//! train.tfrecord-00001-of-00002.gz   the same, compressed
//! ```
//!
//! Where a record begins is known from the lengths before it, so that one reader runs through each file, at the speed of
//! reading; checking and parsing are parallel. Ordinals count records. A record whose data fail their checksum, or do not
//! fit the columns, is a bad one; where a length cannot be trusted or the file is cut off it can be read no further.

mod chunks;
mod example;
mod frames;
mod infer;
mod proto;

use std::collections::BTreeMap;

use arrow::datatypes::SchemaRef;

use crate::example::Examples;
use crate::source::column::ColumnSpec;
use crate::source::columnar::row_number;
use crate::source::count::add_to_range;
use crate::source::interleave::{CutRecords, RecordAt};
use crate::source::jsonl::declared_schema;
use crate::source::listing::{Listing, ListingKind};
use crate::source::record::{Line, broken_record};
use crate::source::seqio_cache::check_count;
use crate::source::{
    DataSource, FileRanges, ParsedChunk, RawChunk, RawChunks, SourceError, SourceFile, SourceRange,
};

use self::chunks::{Cutting, RecordChunks};
use self::example::{ExampleColumns, ExampleTable};
use self::frames::{Frame, check_begins, frames_of};

pub(super) use self::example::OLD_SUFFIX;
pub(super) use self::infer::pin_tfrecord_columns;

/// A source of TFRecord files.
#[derive(Debug)]
pub(super) struct TfRecordSource {
    listing: Listing,
    columns: ExampleColumns,
    schema: SchemaRef,
    cutting: Cutting,
}

impl TfRecordSource {
    /// A source with these columns, which are declared or have been inferred.
    pub(super) fn new(listing: Listing, columns: BTreeMap<String, ColumnSpec>) -> Self {
        let schema = declared_schema(&columns);
        Self { listing, columns: ExampleColumns::new(columns), schema, cutting: Cutting::default() }
    }

    /// A source of the shards of caches that SeqIO wrote.
    pub(super) fn of_seqio_cache(listing: Listing, columns: BTreeMap<String, ColumnSpec>) -> Self {
        let source = Self::new(listing, columns);
        Self { columns: source.columns.or_old_names(), ..source }
    }

    /// The same source cut otherwise.
    #[cfg(test)]
    fn with_cutting(self, cutting: Cutting) -> Self {
        Self { cutting, ..self }
    }
}

impl DataSource for TfRecordSource {
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

    fn ranges(&self, file: &SourceFile, _index: u32) -> Result<FileRanges, SourceError> {
        check_begins(file)?;
        Ok(FileRanges::Streamed)
    }

    fn read(
        &self,
        file: &SourceFile,
        index: u32,
        range: Option<SourceRange>,
        skip: Box<dyn Fn(u64) -> bool + Send>,
    ) -> Result<RawChunks, SourceError> {
        Ok(Box::new(RecordChunks::open(file, index, range, self.cutting, skip)?))
    }

    fn parse(&self, file: &SourceFile, chunk: &RawChunk) -> Result<ParsedChunk, SourceError> {
        let bytes = chunk.records.text();
        let mut table = ExampleTable::new(&self.columns, bytes.len());
        let (mut rows, mut bad_rows) = (Vec::new(), Vec::new());
        for (frame, ordinal) in frames_of(bytes).zip(chunk.first_ordinal..) {
            let offset = chunk.first_offset + frame.start as u64;
            let record = Line { ordinal, offset, length: frame.bytes as u64, text: Ok("") };
            match frame.data(offset).and_then(|data| table.push(data)) {
                Ok(()) => rows.push(record.row(&self.listing.name, file, chunk)),
                Err(reason) => bad_rows.push(record.bad(reason)),
            }
        }
        bad_rows.extend(broken_record(chunk));
        let columns =
            table.finish(&self.schema).map_err(|error| SourceError::malformed(&file.path, error))?;
        Ok(ParsedChunk { examples: Examples::new(columns, rows), bad_rows })
    }

    fn count_records(&self, file: &SourceFile, index: u32) -> Result<Vec<(SourceRange, u64)>, SourceError> {
        let mut counts = Vec::new();
        for chunk in RecordChunks::open(file, index, None, self.cutting, Box::new(|_| false))? {
            let chunk = chunk?;
            add_to_range(&mut counts, chunk.range, chunk.num_records);
        }
        Ok(counts)
    }

    fn line_of(&self, file: &SourceFile, range: SourceRange, ordinal: u64) -> Result<u64, SourceError> {
        if range.start == 0 {
            return Ok(ordinal + 1);
        }
        Ok(row_number(&self.count_records(file, range.file)?, range, ordinal))
    }
}

impl CutRecords for TfRecordSource {
    fn unit(&self) -> &'static str {
        "record"
    }

    fn records(&self, _file: &SourceFile, chunk: &RawChunk) -> Result<Vec<RecordAt>, SourceError> {
        let frames = frames_of(chunk.records.text()).zip(chunk.first_ordinal..);
        let record = |(frame, ordinal): (Frame<'_>, u64)| RecordAt {
            ordinal,
            bytes: frame.start..frame.start + frame.bytes,
        };
        Ok(frames.map(record).collect())
    }

    fn check_count(&self, split: &str, records: u64) -> Result<(), SourceError> {
        match self.listing.kind {
            ListingKind::SeqioCache => check_count(&self.listing, split, records),
            ListingKind::Files | ListingKind::SavedDataset => Ok(()),
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
