//! The lines of a chunk: without line end and byte order mark, with their place in the file.
//!
//! A line ends in `\n`; one `\r` before it belongs to the line end. A byte order mark at the start of the file is no
//! text. NUL bytes are text like any other.
//!
//! ```text
//! "\u{feff}ab\r\n\r\nc" -> "ab" at 0, "" at 7, "c" at 9
//! ```

use crate::example::{ExampleId, ExampleRow, Origin};
use crate::source::interleave::RecordAt;
use crate::source::{BadRow, RawChunk, SourceFile};

/// A mark at the start of a file that says it is UTF-8.
pub(super) const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The lines of a chunk that are records, with their line ends.
pub(super) fn line_records(chunk: &RawChunk, is_record: impl Fn(&Line<'_>) -> bool) -> Vec<RecordAt> {
    let all: Vec<(u64, usize, bool)> = lines(chunk)
        .map(|line| {
            let start = usize::try_from(line.offset - chunk.first_offset).unwrap_or(usize::MAX);
            (line.ordinal, start, is_record(&line))
        })
        .collect();
    let ends = all.iter().skip(1).map(|(_, start, _)| *start).chain([chunk.records.text().len()]);
    let records = all.iter().zip(ends).filter(|((_, _, is_record), _)| *is_record);
    records.map(|(&(ordinal, start, _), end)| RecordAt { ordinal, bytes: start..end }).collect()
}

/// One line.
pub(super) struct Line<'a> {
    /// Ordinal within the range.
    pub(super) ordinal: u64,
    /// First byte in the decompressed file.
    pub(super) offset: u64,
    /// Bytes without the line end.
    pub(super) length: u64,
    /// Its text, or why it is none.
    pub(super) text: Result<&'a str, String>,
}

/// The lines of a chunk in order; none if the chunk is of a columnar file.
pub(super) fn lines(chunk: &RawChunk) -> impl Iterator<Item = Line<'_>> {
    let bytes = chunk.records.text();
    // Checking a chunk at once is much faster than checking each of its lines; the second is for chunks that fail.
    let whole = str::from_utf8(bytes).ok();
    let mut start = 0;
    let ends = memchr::memchr_iter(b'\n', bytes).map(|end| end + 1);
    let unended = bytes.last().is_some_and(|&last| last != b'\n').then_some(bytes.len());
    ends.chain(unended).zip(chunk.first_ordinal..).map(move |(end, ordinal)| {
        let offset = chunk.first_offset + start as u64;
        let mut line = start..end;
        start = end;
        if bytes[line.clone()].ends_with(b"\n") {
            line.end -= if bytes[line.clone()].ends_with(b"\r\n") { 2 } else { 1 };
        }
        let length = line.len() as u64;
        if offset == 0 && bytes[line.clone()].starts_with(BYTE_ORDER_MARK) {
            line.start += BYTE_ORDER_MARK.len();
        }
        let text = match whole {
            Some(text) => Ok(&text[line]),
            None => str::from_utf8(&bytes[line]).map_err(|error| {
                format!("is not valid UTF-8 at byte {} of the line", error.valid_up_to() + 1)
            }),
        };
        Line { ordinal, offset, length, text }
    })
}

impl Line<'_> {
    /// The identity and origin of the example that this line gives.
    pub(super) fn row(&self, source: &str, file: &SourceFile, chunk: &RawChunk) -> ExampleRow {
        let origin =
            Origin { file: chunk.range.file, row: self.ordinal, offset: self.offset, length: self.length };
        ExampleRow::new(ExampleId::new(source, &file.name, chunk.range.start, self.ordinal), vec![origin])
    }

    /// This line as a record that gives no example.
    pub(super) fn bad(&self, reason: String) -> BadRow {
        BadRow { ordinal: self.ordinal, offset: self.offset, length: self.length, reason }
    }
}

/// The record at which a damaged stream breaks off.
pub(super) fn broken_record(chunk: &RawChunk) -> Option<BadRow> {
    let reason = chunk.damage.clone()?;
    let lines = chunk.records.text().len() as u64;
    let ordinal = chunk.first_ordinal + chunk.num_records.saturating_sub(1);
    Some(BadRow { ordinal, offset: chunk.first_offset + lines, length: 0, reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{RawRecords, SourceRange};

    fn chunk(first_offset: u64, bytes: &[u8]) -> RawChunk {
        RawChunk {
            range: SourceRange { file: 0, start: 0, end: 100 },
            first_ordinal: 10,
            num_records: 0,
            first_offset,
            records: RawRecords::Lines(bytes.to_vec()),
            last_of_range: true,
            damage: None,
        }
    }

    fn show(chunk: &RawChunk) -> Vec<(u64, u64, u64, Result<&str, String>)> {
        lines(chunk).map(|line| (line.ordinal, line.offset, line.length, line.text)).collect()
    }

    #[test]
    fn a_line_end_may_have_a_carriage_return_and_the_last_line_may_have_none() {
        assert_eq!(
            show(&chunk(5, b"ab\r\n\r\r\n\nc\rd\ne\r")),
            [
                (10, 5, 2, Ok("ab")),
                (11, 9, 1, Ok("\r")),
                (12, 12, 0, Ok("")),
                (13, 13, 3, Ok("c\rd")),
                (14, 17, 2, Ok("e\r")),
            ]
        );
        assert_eq!(show(&chunk(0, b"")), []);
    }

    #[test]
    fn a_byte_order_mark_is_stripped_at_the_start_of_the_file_only() {
        let text = "\u{feff}ab\n\u{feff}c\n".as_bytes();
        assert_eq!(show(&chunk(0, text)), [(10, 0, 5, Ok("ab")), (11, 6, 4, Ok("\u{feff}c"))]);
        assert_eq!(show(&chunk(6, &text[6..])), [(10, 6, 4, Ok("\u{feff}c"))]);
    }

    #[test]
    fn a_bad_record_has_its_bytes() {
        let chunk = chunk(5, b"ab\r\nc\xff\n");
        let bad: Vec<_> = lines(&chunk).map(|line| line.bad(String::new())).collect();
        assert_eq!(chunk.bytes_of(&bad[0]), Some(&b"ab"[..]));
        assert_eq!(chunk.bytes_of(&bad[1]), Some(&b"c\xff"[..]));
        let elsewhere = BadRow { offset: 4, ..bad[0].clone() };
        assert_eq!(chunk.bytes_of(&elsewhere), None);
    }

    #[test]
    fn a_line_that_is_not_unicode_spoils_no_other() {
        assert_eq!(
            show(&chunk(0, b"a\xff\n\xc3\xa9\0\n")),
            [(10, 0, 2, Err("is not valid UTF-8 at byte 2 of the line".to_owned())), (11, 3, 3, Ok("é\0")),]
        );
    }
}
