//! Cuts a TFRecord file into ranges and chunks of whole frames.
//!
//! A range owns the records that *begin* in its bytes of the decompressed file; only ranges that own one are there. A
//! chunk ends with the first frame that makes it `chunk_bytes` long, or with its range. Where a file breaks off there is
//! one more record, a bad one.
//!
//! ```text
//! frames of 300, 300, 500 bytes in ranges of 400 bytes  ->  0..400 owns two, 400..800 owns one
//! ```

use crate::source::tfrecord::frames::{Frames, Next};
use crate::source::{RANGE_BYTES, RawChunk, RawRecords, SourceError, SourceFile, SourceRange};

/// Where files are cut. Tests cut small files at small sizes; every real source has the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cutting {
    pub(super) range_bytes: u64,
    pub(super) chunk_bytes: usize,
}

impl Default for Cutting {
    fn default() -> Self {
        Self { range_bytes: RANGE_BYTES, chunk_bytes: 1 << 20 }
    }
}

/// The chunks of one range or of a whole file, in order.
pub(super) struct RecordChunks {
    frames: Frames,
    index: u32,
    cutting: Cutting,
    /// Start of the only range that is wanted.
    only: Option<u64>,
    skip: Box<dyn Fn(u64) -> bool + Send>,
    /// The range that is being read, and the records given of it.
    range: Option<SourceRange>,
    ordinal: u64,
    finished: bool,
}

impl RecordChunks {
    /// Reads `range`, or with `None` the whole file; leaves out the ranges that `skip` knows by their start.
    pub(super) fn open(
        file: &SourceFile,
        index: u32,
        range: Option<SourceRange>,
        cutting: Cutting,
        skip: Box<dyn Fn(u64) -> bool + Send>,
    ) -> Result<Self, SourceError> {
        Ok(Self {
            frames: Frames::open(file)?,
            index,
            cutting,
            only: range.map(|range| range.start),
            skip,
            range: None,
            ordinal: 0,
            finished: false,
        })
    }

    /// The range of what comes next, if something does.
    fn next_range(&mut self) -> Result<Option<(SourceRange, Next)>, SourceError> {
        let next = self.frames.peek()?;
        if next == Next::End {
            return Ok(None);
        }
        let offset = self.frames.offset();
        let start = offset - offset % self.cutting.range_bytes;
        let end = start.saturating_add(self.cutting.range_bytes);
        Ok(Some((SourceRange { file: self.index, start, end }, next)))
    }

    fn next_chunk(&mut self) -> Result<Option<RawChunk>, SourceError> {
        loop {
            let Some((range, _)) = self.next_range()? else { return Ok(None) };
            if self.only.is_some_and(|only| range.start > only) {
                return Ok(None);
            }
            if self.range != Some(range) {
                (self.range, self.ordinal) = (Some(range), 0);
            }
            let chunk = self.chunk(range)?;
            self.ordinal += chunk.num_records;
            self.finished = chunk.damage.is_some();
            let is_wanted = self.only.is_none_or(|only| only == range.start) && !(self.skip)(range.start);
            if is_wanted || self.finished {
                return Ok(is_wanted.then_some(chunk));
            }
        }
    }

    /// The next chunk of a range.
    fn chunk(&mut self, range: SourceRange) -> Result<RawChunk, SourceError> {
        let first_offset = self.frames.offset();
        let (mut num_records, mut damage) = (0, None);
        let last_of_range = loop {
            let next = match self.next_range()? {
                Some((same, next)) if same == range => next,
                _ => break true,
            };
            if self.frames.passed() >= self.cutting.chunk_bytes.max(1) {
                break false;
            }
            num_records += 1;
            match next {
                Next::Frame(bytes) => self.frames.pass(bytes),
                Next::Damage(problem) => {
                    damage = Some(problem);
                    break true;
                }
                Next::End => break true,
            }
        };
        Ok(RawChunk {
            range,
            first_ordinal: self.ordinal,
            num_records,
            first_offset,
            records: RawRecords::Lines(self.frames.take()),
            last_of_range,
            damage,
        })
    }
}

impl Iterator for RecordChunks {
    type Item = Result<RawChunk, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        let chunk = self.next_chunk();
        if !matches!(chunk, Ok(Some(_))) {
            self.finished = true;
        }
        chunk.transpose()
    }
}
