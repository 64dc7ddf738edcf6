//! Cuts a file of lines, or of records that may span lines, into ranges, and ranges into chunks of whole lines.
//!
//! A line begins at the start of the file and after every `\n` that is not its last byte. A range owns the lines that
//! *begin* in it; a line that spans several ranges belongs to the first and leaves the others empty. A chunk ends
//! with the first line that makes it `chunk_bytes` long, or with its range. Ranges and chunks depend on the
//! decompressed bytes alone, so a file and its compressed copy are cut alike.
//!
//! ```text
//! "ab\ncdefgh\ni"  in ranges of 4 bytes -> 0..4 owns `ab`, `cdefgh`; 4..8 owns nothing; 8..12 owns `i`
//! ```
//!
//! A range ends at a multiple of `range_bytes` even where the file ends before. Every file has a range: an empty file
//! has one without records. Where a compressed stream is damaged, the line it breaks off in counts as a record (a
//! bad one); where it breaks off between two lines there is such a record too.
//!
//! Of CSV all of this holds for records, which `RecordScan` ends outside of quotes; what is counted are lines.

use crate::source::compression::{BLOCK_BYTES, Blocks, Compression};
use crate::source::csv_records::RecordScan;
use crate::source::{FileRanges, RANGE_BYTES, RawChunk, RawRecords, SourceError, SourceFile, SourceRange};

/// Where files are cut. Tests cut small files at small sizes; every real source has the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cutting {
    pub(super) range_bytes: u64,
    pub(super) chunk_bytes: usize,
    /// No line may be longer by more than a chunk: columns count their bytes in 31 bits.
    pub(super) max_line_bytes: usize,
}

impl Default for Cutting {
    fn default() -> Self {
        Self { range_bytes: RANGE_BYTES, chunk_bytes: 1 << 20, max_line_bytes: 1 << 30 }
    }
}

impl Cutting {
    /// Where CSV is cut. A quote that is never closed makes one record of all that follows: the limit is lower.
    pub(super) fn csv() -> Self {
        Self { max_line_bytes: 1 << 28, ..Self::default() }
    }

    fn range_at(self, file: u32, offset: u64) -> SourceRange {
        let start = offset - offset % self.range_bytes;
        SourceRange { file, start, end: start.saturating_add(self.range_bytes) }
    }

    /// All ranges that a file can have.
    pub(super) fn ranges_from(self, file: u32) -> impl Iterator<Item = SourceRange> {
        (0..).map(move |i: u64| self.range_at(file, i.saturating_mul(self.range_bytes)))
    }

    /// The ranges of a file of `bytes` decompressed bytes.
    fn ranges(self, file: u32, bytes: u64) -> Vec<SourceRange> {
        let count = usize::try_from(bytes.div_ceil(self.range_bytes)).unwrap_or(usize::MAX);
        self.ranges_from(file).take(count.max(1)).collect()
    }
}

/// How a file of lines can be read.
pub(super) fn file_ranges(file: &SourceFile, index: u32, cutting: Cutting) -> FileRanges {
    match Compression::of(&file.path) {
        Compression::Plain => FileRanges::Known(cutting.ranges(index, file.bytes)),
        _ => FileRanges::Streamed,
    }
}

/// The chunks of one range or of a whole file, in order.
pub(super) struct LineChunks {
    blocks: Blocks,
    cutting: Cutting,
    /// The range being read.
    range: SourceRange,
    /// Start of the only range that is wanted.
    only: Option<u64>,
    /// Where records end that may span lines.
    scan: Option<RecordScan>,
    skip: Box<dyn Fn(u64) -> bool + Send>,
    /// Bytes read and not yet given out: they begin a line, but where `mid_line`.
    buffer: Vec<u8>,
    /// Offset of the buffer in the file.
    at: u64,
    /// Whether `at` may stand inside a line that belongs to an earlier range.
    mid_line: bool,
    ordinal: u64,
    finished: bool,
}

impl LineChunks {
    /// Reads `range`, or with `None` the whole file; leaves out the ranges that `skip` knows by their start.
    pub(super) fn open(
        file: &SourceFile,
        index: u32,
        range: Option<SourceRange>,
        cutting: Cutting,
        scan: Option<RecordScan>,
        skip: Box<dyn Fn(u64) -> bool + Send>,
    ) -> Result<Self, SourceError> {
        // Without quotes records are lines.
        let scan = scan.filter(RecordScan::has_quotes);
        // Whether a quote is open depends on all quotes before.
        let plain = Compression::of(&file.path) == Compression::Plain && scan.is_none();
        // Whether a line begins at `start` is known from the byte before it.
        let inside = range.filter(|range| plain && range.start > 0);
        Ok(Self {
            blocks: match inside {
                Some(range) => Blocks::open_at(file, range.start - 1)?,
                None => Blocks::open(file)?,
            },
            cutting,
            range: inside.unwrap_or_else(|| cutting.range_at(index, 0)),
            only: range.map(|range| range.start),
            scan,
            skip,
            buffer: Vec::new(),
            at: inside.map_or(0, |range| range.start - 1),
            mid_line: inside.is_some(),
            ordinal: 0,
            finished: false,
        })
    }

    /// Passes over the rest of a line that begins before the range; false if the range ends within it.
    fn find_first_line(&mut self) -> Result<bool, SourceError> {
        while self.at + 1 < self.range.end {
            if self.buffer.is_empty() && !self.blocks.read_block(&mut self.buffer)? {
                return Ok(true);
            }
            if let Some(end) = memchr::memchr(b'\n', &self.buffer) {
                self.buffer.drain(..=end);
                self.at += end as u64 + 1;
                return Ok(self.at < self.range.end);
            }
            self.at += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(false)
    }

    fn next_chunk(&mut self) -> Result<RawChunk, SourceError> {
        if self.mid_line {
            self.mid_line = false;
            if !self.find_first_line()? {
                // Its line ends beyond this range, which therefore is the only one that this reader is for.
                return self.chunk(Vec::new(), true, None);
            }
        }
        if self.at >= self.range.end {
            return self.chunk(Vec::new(), true, None);
        }
        let room = usize::try_from(self.range.end - self.at).unwrap_or(usize::MAX);
        match self.line_end(self.cutting.chunk_bytes.max(1).min(room))? {
            Some(end) => {
                let rest = if end < room { self.buffer.len() > end || self.read_more()? } else { false };
                let ends_here = end < room && !rest;
                let damage = if ends_here { self.damage() } else { None };
                let lines = self.take(end);
                self.chunk(lines, end >= room || ends_here, damage)
            }
            None => {
                let damage = self.damage();
                let whole = match &self.scan {
                    Some(scan) => scan.record(),
                    None => memchr::memrchr(b'\n', &self.buffer).map_or(0, |end| end + 1),
                };
                let end = if damage.is_some() { whole } else { self.buffer.len() };
                let lines = self.take(end);
                self.buffer.clear();
                self.chunk(lines, true, damage)
            }
        }
    }

    /// The end of the first line that ends at or after `least` bytes; `None` if the file ends before.
    fn line_end(&mut self, least: usize) -> Result<Option<usize>, SourceError> {
        if self.scan.is_some() {
            return self.record_end(least);
        }
        let mut searched = least - 1;
        loop {
            if let Some(found) = self.buffer.get(searched..).and_then(|bytes| memchr::memchr(b'\n', bytes)) {
                return Ok(Some(searched + found + 1));
            }
            searched = searched.max(self.buffer.len());
            if searched - (least - 1) > self.cutting.max_line_bytes {
                return Err(self.line_too_long(least));
            }
            if !self.read_more()? {
                return Ok(None);
            }
        }
    }

    /// The same of records that may span lines.
    fn record_end(&mut self, least: usize) -> Result<Option<usize>, SourceError> {
        let Some(mut scan) = self.scan.take() else { return Ok(None) };
        scan.reset();
        let end = loop {
            match scan.next_end(&self.buffer, self.at == 0) {
                Some((end, _)) if end >= least => break Ok(Some(end)),
                Some(_) => continue,
                None => {}
            }
            if self.buffer.len() - scan.record() > self.cutting.max_line_bytes {
                break Err(self.record_too_long(&scan));
            }
            match self.read_more() {
                Ok(true) => {}
                Ok(false) => break Ok(None),
                Err(error) => break Err(error),
            }
        };
        self.scan = Some(scan);
        end
    }

    fn read_more(&mut self) -> Result<bool, SourceError> {
        self.blocks.read_block(&mut self.buffer)
    }

    /// What is wrong with the stream; known once its end is reached.
    fn damage(&self) -> Option<String> {
        self.blocks.damage().map(str::to_owned)
    }

    /// The first `end` bytes of the buffer.
    fn take(&mut self, end: usize) -> Vec<u8> {
        let mut rest = Vec::with_capacity(self.cutting.chunk_bytes.min(1 << 20) + BLOCK_BYTES);
        rest.extend_from_slice(&self.buffer[end..]);
        self.buffer.truncate(end);
        self.at += end as u64;
        std::mem::replace(&mut self.buffer, rest)
    }

    fn chunk(
        &mut self,
        lines: Vec<u8>,
        last_of_range: bool,
        damage: Option<String>,
    ) -> Result<RawChunk, SourceError> {
        let num_records = count_lines(&lines) + u64::from(damage.is_some());
        let chunk = RawChunk {
            range: self.range,
            first_ordinal: self.ordinal,
            num_records,
            first_offset: if num_records == 0 { self.range.start } else { self.at - lines.len() as u64 },
            records: RawRecords::Lines(lines),
            last_of_range,
            damage,
        };
        self.ordinal += num_records;
        if last_of_range {
            let this = self.only == Some(self.range.start);
            self.finished = this || chunk.damage.is_some() || !self.reaches_beyond(self.range.end)?;
            self.range = self.cutting.range_at(self.range.file, self.range.end);
            self.ordinal = 0;
        }
        Ok(chunk)
    }

    /// Whether the file has a byte, or a break, at or after `end`, where all lines that begin before are given out.
    fn reaches_beyond(&mut self, end: u64) -> Result<bool, SourceError> {
        Ok(self.at > end || !self.buffer.is_empty() || self.read_more()? || self.damage().is_some())
    }

    fn record_too_long(&self, scan: &RecordScan) -> SourceError {
        let quote = if scan.is_open() {
            format!(
                ", and the quote at byte {} is not closed; if quotes are text here, set `quote = \"\"` in `dialect`",
                self.at + scan.opened() as u64
            )
        } else {
            "; is it a file of lines?".to_owned()
        };
        SourceError::Malformed {
            path: self.blocks.path().to_owned(),
            problem: format!(
                "the record that begins at byte {} is longer than {} bytes{quote}",
                self.at + scan.record() as u64,
                self.cutting.max_line_bytes
            ),
        }
    }

    fn line_too_long(&self, least: usize) -> SourceError {
        let begin = memchr::memrchr(b'\n', &self.buffer[..least]).map_or(0, |end| end + 1);
        SourceError::Malformed {
            path: self.blocks.path().to_owned(),
            problem: format!(
                "the line that begins at byte {} is longer than {} bytes; is it a file of lines?",
                self.at + begin as u64,
                self.cutting.max_line_bytes
            ),
        }
    }
}

impl Iterator for LineChunks {
    type Item = Result<RawChunk, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.finished {
            match self.next_chunk() {
                Ok(chunk)
                    if self.only.is_some_and(|only| only != chunk.range.start)
                        || (self.skip)(chunk.range.start) => {}
                Ok(chunk) => return Some(Ok(chunk)),
                Err(error) => {
                    self.finished = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// Lines in whole lines.
fn count_lines(bytes: &[u8]) -> u64 {
    let ends = memchr::memchr_iter(b'\n', bytes).count() as u64;
    ends + u64::from(bytes.last().is_some_and(|&last| last != b'\n'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::source::compression::tests::{SUFFIXES, listed, pack};
    use crate::source::count::count_lines_of_ranges;

    fn cutting(range_bytes: u64, chunk_bytes: usize) -> Cutting {
        Cutting { range_bytes, chunk_bytes, max_line_bytes: 1 << 20 }
    }

    fn chunks(file: &SourceFile, range: Option<SourceRange>, cutting: Cutting) -> Vec<RawChunk> {
        LineChunks::open(file, 0, range, cutting, None, Box::new(|_| false))
            .unwrap()
            .map(Result::unwrap)
            .collect()
    }

    /// What tells chunks apart.
    type Shape = (u64, u64, u64, u64, Vec<u8>, bool, Option<String>);

    fn shape(chunk: &RawChunk) -> Shape {
        let RawRecords::Lines(lines) = &chunk.records else { panic!("a file of lines has lines") };
        let (range, damage) = (chunk.range.start, chunk.damage.clone());
        let first = (chunk.first_ordinal, chunk.first_offset);
        (range, first.0, first.1, chunk.num_records, lines.clone(), chunk.last_of_range, damage)
    }

    fn shapes(chunks: &[RawChunk]) -> Vec<Shape> {
        chunks.iter().map(shape).collect()
    }

    /// The chunks as the head of this file defines them, line by line.
    fn model(bytes: &[u8], cutting: Cutting) -> Vec<Shape> {
        let mut lines: Vec<(u64, &[u8])> = Vec::new();
        let mut at = 0;
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            lines.push((at, line));
            at += line.len() as u64;
        }
        let mut shapes = Vec::new();
        for range in cutting.ranges(0, bytes.len() as u64) {
            let owned: Vec<_> =
                lines.iter().filter(|(start, _)| (range.start..range.end).contains(start)).collect();
            let mut rest = &owned[..];
            let mut ordinal = 0;
            loop {
                let mut lines = Vec::new();
                let mut taken = 0;
                while taken < rest.len() && lines.len() < cutting.chunk_bytes {
                    lines.extend_from_slice(rest[taken].1);
                    taken += 1;
                }
                let first = rest.first().map_or(range.start, |line| line.0);
                rest = &rest[taken..];
                shapes.push((range.start, ordinal, first, taken as u64, lines, rest.is_empty(), None));
                ordinal += taken as u64;
                if rest.is_empty() {
                    break;
                }
            }
        }
        shapes
    }

    fn file_bytes() -> impl Strategy<Value = Vec<u8>> {
        let line = prop_oneof![
            8 => prop::collection::vec(any::<u8>(), 0..6),
            1 => (0..80usize).prop_map(|n| vec![b'x'; n]),
        ];
        (prop::collection::vec(line, 0..20), any::<bool>()).prop_map(|(lines, end)| {
            let mut bytes = lines.join(&b'\n');
            if end {
                bytes.push(b'\n');
            }
            bytes
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn chunks_partition_the_file_however_it_is_read(
            bytes in file_bytes(), range_bytes in 1..40u64, chunk_bytes in 1..40usize,
        ) {
            let cutting = cutting(range_bytes, chunk_bytes);
            let expected = model(&bytes, cutting);
            for suffix in ["txt", "gz", "bz2", "xz", "zst"] {
                let (_dir, file) = listed(&format!("a.{suffix}"), &pack(&bytes, suffix));
                let whole = chunks(&file, None, cutting);
                prop_assert_eq!(shapes(&whole), expected.clone());
                let ranges = cutting.ranges(0, bytes.len() as u64);
                let apart: Vec<_> =
                    ranges.iter().flat_map(|&range| chunks(&file, Some(range), cutting)).collect();
                prop_assert_eq!(shapes(&apart), expected.clone());
                let mut counts: Vec<_> = ranges.iter().map(|&range| (range, 0)).collect();
                for chunk in &whole {
                    counts[usize::try_from(chunk.range.start / range_bytes).unwrap()].1 += chunk.num_records;
                }
                prop_assert_eq!(count_lines_of_ranges(&file, 0, cutting).unwrap(), counts);
            }
        }

        #[test]
        fn a_stream_cut_anywhere_gives_its_whole_lines_and_one_damaged_record(
            bytes in file_bytes(), range_bytes in 1..40u64, chunk_bytes in 1..40usize, cut in any::<prop::sample::Index>(),
            suffix in prop::sample::select(SUFFIXES.to_vec()),
        ) {
            let cutting = cutting(range_bytes, chunk_bytes);
            let packed = pack(&bytes, suffix);
            let packed = &packed[..cut.index(packed.len())];
            let (_dir, file) = listed(&format!("a.{suffix}"), packed);
            let chunks = chunks(&file, None, cutting);
            let lines: Vec<u8> = chunks.iter().flat_map(|chunk| shape(chunk).4).collect();
            prop_assert!(bytes.starts_with(&lines) && lines.last().is_none_or(|&last| last == b'\n'));
            let damaged: Vec<_> = chunks.iter().filter(|chunk| chunk.damage.is_some()).collect();
            prop_assert_eq!(damaged.len(), 1);
            let (last, end) = (chunks.last().unwrap(), lines.len() as u64);
            prop_assert!(last.damage.is_some() && last.last_of_range);
            prop_assert!((last.range.start..last.range.end).contains(&end));
            let mut counts: Vec<_> = cutting.ranges(0, last.range.end).into_iter().map(|range| (range, 0)).collect();
            for chunk in &chunks {
                counts[usize::try_from(chunk.range.start / range_bytes).unwrap()].1 += chunk.num_records;
            }
            prop_assert_eq!(count_lines_of_ranges(&file, 0, cutting).unwrap(), counts);
        }
    }

    #[test]
    fn a_line_belongs_to_the_range_it_begins_in() {
        let (_dir, file) = listed("a.txt", b"ab\ncdefgh\ni");
        let shapes = shapes(&chunks(&file, None, cutting(4, 100)));
        assert_eq!(
            shapes,
            [
                (0, 0, 0, 2, b"ab\ncdefgh\n".to_vec(), true, None),
                (4, 0, 4, 0, vec![], true, None),
                (8, 0, 10, 1, b"i".to_vec(), true, None),
            ]
        );
    }

    #[test]
    fn an_empty_file_is_one_range_without_records() {
        let (_dir, file) = listed("a.txt", b"");
        let range = SourceRange { file: 7, start: 0, end: 4 };
        assert_eq!(file_ranges(&file, 7, cutting(4, 4)), FileRanges::Known(vec![range]));
        assert_eq!(shapes(&chunks(&file, None, cutting(4, 4))), [(0, 0, 0, 0, vec![], true, None)]);
    }

    #[test]
    fn ranges_that_are_skipped_change_nothing_else() {
        let (_dir, file) = listed("a.gz", &pack(b"a\nb\nc\nd\n", "gz"));
        let all = chunks(&file, None, cutting(2, 2));
        let odd =
            LineChunks::open(&file, 0, None, cutting(2, 2), None, Box::new(|start| start % 4 == 0)).unwrap();
        let odd: Vec<_> = odd.map(|chunk| shape(&chunk.unwrap())).collect();
        let expected: Vec<_> = shapes(&all).into_iter().filter(|shape| shape.0 % 4 != 0).collect();
        assert_eq!(odd, expected);
    }

    #[test]
    fn a_line_longer_than_a_range_is_read_whole_and_one_longer_than_the_limit_is_refused() {
        let text = [vec![b'a'; 3], vec![b'\n'], vec![b'b'; 300_000], vec![b'\n'], b"c\n".to_vec()].concat();
        let (_dir, file) = listed("a.txt", &text);
        let mut cutting = cutting(1000, 100);
        let found = chunks(&file, None, cutting);
        assert_eq!(found[0].num_records, 2);
        let last = found.last().unwrap();
        assert_eq!((last.range.start, last.first_offset, last.num_records), (300_000, 300_005, 1));
        cutting.max_line_bytes = 100_000;
        let mut chunks = LineChunks::open(&file, 0, None, cutting, None, Box::new(|_| false)).unwrap();
        let error = chunks.next().unwrap().unwrap_err().to_string();
        assert!(
            error.ends_with(
                "the line that begins at byte 4 is longer than 100000 bytes; is it a file of lines?"
            )
        );
        assert!(chunks.next().is_none());
    }

    #[test]
    fn a_chunk_keeps_little_room_beyond_its_lines() {
        let (_dir, file) = listed("a.txt", &vec![b'x'; 20_000_000]);
        let chunks = chunks(&file, None, Cutting::default());
        let RawRecords::Lines(lines) = &chunks[0].records else { panic!("a file of lines has lines") };
        assert_eq!(lines.len(), 20_000_000);
        assert!(lines.capacity() < 26_000_000, "{}", lines.capacity());
    }
}
