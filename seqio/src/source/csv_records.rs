//! Where records of CSV end: at a line end outside of quotes.
//!
//! ```text
//! a,"b      a record of two lines: its quote is open where the first line ends
//! c",d"e    a quote inside of a field without quotes is text
//! ```
//!
//! The rules are those of `csv-core`, which takes the fields apart: a quote opens where a field begins, and what follows
//! a closing quote up to the delimiter is text. The one difference is that only `\n` ends a line, as in all other files
//! of lines (a `\r` before it belongs to the line end). A line that begins with the comment character, where a record
//! could, is passed over, its quotes too.

use crate::source::dialect::CsvDialect;
use crate::source::record::BYTE_ORDER_MARK;

/// Finds the ends of records in a buffer that grows.
#[derive(Clone, Debug)]
pub(super) struct RecordScan {
    delimiter: u8,
    quote: Option<u8>,
    escape: Option<u8>,
    double_quote: bool,
    comment: Option<u8>,
    state: State,
    /// How far the buffer has been looked at.
    at: usize,
    /// Where the record begins that is being looked at.
    record: usize,
    /// Where a quote opened last.
    opened: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// At the first byte of a record.
    Start,
    /// In a record, outside of quotes.
    Outside,
    /// Between quotes.
    Quoted,
    /// After an escape between quotes.
    Escaped,
    /// After a quote that closes, or is the first of two.
    Closing,
    /// In a line that is passed over.
    Comment,
}

impl RecordScan {
    pub(super) fn new(dialect: &CsvDialect) -> Self {
        Self {
            delimiter: dialect.delimiter,
            quote: dialect.quote,
            escape: dialect.escape,
            double_quote: dialect.double_quote,
            comment: dialect.comment,
            state: State::Start,
            at: 0,
            record: 0,
            opened: 0,
        }
    }

    /// Whether line ends can stand in records.
    pub(super) fn has_quotes(&self) -> bool {
        self.quote.is_some()
    }

    /// Begins again, at the start of a buffer.
    pub(super) fn reset(&mut self) {
        (self.state, self.at, self.record) = (State::Start, 0, 0);
    }

    /// Where the record begins that has not ended yet.
    pub(super) fn record(&self) -> usize {
        self.record
    }

    /// Whether a quote is open where the buffer ends.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Quoted | State::Escaped)
    }

    /// Where the quote opened that is open.
    pub(super) fn opened(&self) -> usize {
        self.opened
    }

    /// Whether the record that has not ended yet is a comment.
    pub(super) fn is_comment(&self) -> bool {
        self.state == State::Comment
    }

    /// The end of the next record, its line end included, and whether it is a comment; `None` if it is not in the
    /// buffer. `file_start`: the buffer begins where the file does.
    pub(super) fn next_end(&mut self, buffer: &[u8], file_start: bool) -> Option<(usize, bool)> {
        loop {
            let rest = buffer.get(self.at..).filter(|rest| !rest.is_empty())?;
            match self.state {
                State::Start => {
                    if file_start && self.at == 0 && rest.starts_with(BYTE_ORDER_MARK) {
                        self.at += BYTE_ORDER_MARK.len();
                        self.record = self.at;
                        continue;
                    }
                    self.state = if self.comment == Some(rest[0]) { State::Comment } else { State::Outside };
                }
                State::Comment => match memchr::memchr(b'\n', rest) {
                    Some(end) => return Some((self.end(self.at + end + 1), true)),
                    None => self.at = buffer.len(),
                },
                State::Outside => {
                    let found = match self.quote {
                        Some(quote) => memchr::memchr2(quote, b'\n', rest),
                        None => memchr::memchr(b'\n', rest),
                    };
                    let Some(found) = found else {
                        self.at = buffer.len();
                        continue;
                    };
                    let place = self.at + found;
                    if buffer[place] == b'\n' {
                        return Some((self.end(place + 1), false));
                    }
                    if place == self.record || buffer[place - 1] == self.delimiter {
                        self.state = State::Quoted;
                        self.opened = place;
                    }
                    self.at = place + 1;
                }
                State::Quoted => {
                    let quote = self.quote.unwrap_or_default();
                    let found = match self.escape {
                        Some(escape) => memchr::memchr2(quote, escape, rest),
                        None => memchr::memchr(quote, rest),
                    };
                    let Some(found) = found else {
                        self.at = buffer.len();
                        continue;
                    };
                    self.at += found + 1;
                    self.state = if rest[found] == quote { State::Closing } else { State::Escaped };
                }
                State::Escaped => {
                    self.at += 1;
                    self.state = State::Quoted;
                }
                State::Closing => {
                    // What else comes is looked at outside: a delimiter, a line end, or text.
                    let again = self.double_quote && self.quote == Some(rest[0]);
                    self.state = if again { State::Quoted } else { State::Outside };
                    self.at += usize::from(again || self.quote == Some(rest[0]));
                }
            }
        }
    }

    fn end(&mut self, end: usize) -> usize {
        (self.state, self.at, self.record) = (State::Start, end, end);
        end
    }
}

#[cfg(test)]
mod tests {
    use csv_core::{ReadRecordResult, ReaderBuilder, Terminator};
    use proptest::prelude::*;

    use super::*;
    use crate::source::SourceFormat;
    use crate::source::dialect::Dialect;

    fn dialects() -> Vec<CsvDialect> {
        let of = |toml: &str| toml::from_str::<Dialect>(toml).unwrap().resolve(SourceFormat::Csv).unwrap();
        vec![
            of(""),
            of("quote = ''"),
            of("escape = '\\'"),
            of("escape = '\\'\ndouble_quote = false"),
            of("comment = '#'"),
            of("double_quote = false\ncomment = '#'"),
            of("quote = ''\ncomment = '#'"),
        ]
    }

    /// Ends of records, and what is left.
    fn ends(dialect: &CsvDialect, bytes: &[u8]) -> (Vec<usize>, bool) {
        let mut scan = RecordScan::new(dialect);
        let mut ends = Vec::new();
        while let Some((end, _)) = scan.next_end(bytes, true) {
            ends.push(end);
        }
        (ends, scan.is_open())
    }

    /// Where `csv-core` ends records that have fields.
    fn core_ends(dialect: &CsvDialect, bytes: &[u8]) -> Vec<usize> {
        let mut reader = ReaderBuilder::new()
            .delimiter(dialect.delimiter)
            .quote(dialect.quote.unwrap_or(b'"'))
            .quoting(dialect.quote.is_some())
            .escape(dialect.escape)
            .double_quote(dialect.double_quote)
            .comment(dialect.comment)
            .terminator(Terminator::Any(b'\n'))
            .build();
        let (mut output, mut fields) = (vec![0; 1000], vec![0; 1000]);
        let (mut at, mut ends) = (0, Vec::new());
        loop {
            let (result, read, ..) = reader.read_record(&bytes[at..], &mut output, &mut fields);
            at += read;
            match result {
                ReadRecordResult::Record => ends.push(at),
                ReadRecordResult::End => return ends,
                _ => {}
            }
        }
    }

    #[test]
    fn records_end_where_lines_do_outside_of_quotes() {
        let csv = &dialects()[0];
        assert_eq!(ends(csv, b"a,b\n\"c\nd\",\"\"\"\n\"\ne\"\nf"), (vec![4, 16, 19], false));
        assert_eq!(ends(csv, b"a\"b\nc,\"d\n"), (vec![4], true));
        assert_eq!(ends(csv, "\u{feff}\"a\nb\"\n".as_bytes()), (vec![9], false));
        let plain = &dialects()[1];
        assert_eq!(ends(plain, b"a,\"b\nc\"\n"), (vec![5, 8], false));
        let comments = &dialects()[4];
        assert_eq!(ends(comments, b"# a \"\n\"#\n\"\nb#\n"), (vec![6, 11, 14], false));
    }

    fn csv_like() -> impl Strategy<Value = Vec<u8>> {
        let token =
            prop::sample::select(vec!["\"", "\"\"", ",", "\n", "\r\n", "a", "\\", "#", " ", "\u{feff}", "é"]);
        prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat().into_bytes())
    }

    proptest! {
        #[test]
        fn records_end_where_those_of_csv_core_do(bytes in csv_like(), number in 0..7usize) {
            let dialect = &dialects()[number];
            let (mut found, _) = ends(dialect, &bytes);
            // Blank lines and comments are no records there, and the last record needs no line end.
            let mut expected = core_ends(dialect, &bytes);
            if expected.last() == Some(&bytes.len()) && bytes.last() != Some(&b'\n') {
                expected.pop();
            }
            let open = expected.last() == Some(&bytes.len()) && !found.contains(&bytes.len());
            if open {
                expected.pop();
            }
            prop_assert!(expected.iter().all(|end| found.contains(end)), "{:?} {:?}", expected, found);
            found.retain(|end| !expected.contains(end));
            for end in found {
                let start = memchr::memrchr(b'\n', &bytes[..end - 1]).map_or(0, |before| before + 1);
                let line = &bytes[start..end - 1];
                let line = if start == 0 { line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line) } else { line };
                prop_assert!(line.is_empty() || dialect.comment == line.first().copied(), "{end}");
            }
        }

        #[test]
        fn ends_are_the_same_however_the_buffer_grows(bytes in csv_like(), number in 0..7usize, step in 3..7usize) {
            let dialect = &dialects()[number];
            let mut scan = RecordScan::new(dialect);
            let mut found = Vec::new();
            for length in (0..=bytes.len()).filter(|length| length % step == 0 || *length == bytes.len()) {
                while let Some((end, _)) = scan.next_end(&bytes[..length], true) {
                    found.push(end);
                }
            }
            prop_assert_eq!((found, scan.is_open()), ends(dialect, &bytes));
        }
    }
}
