//! Sources whose files are lines: text and JSON Lines.

use std::collections::BTreeMap;

use arrow::datatypes::SchemaRef;

use crate::source::column::ColumnSpec;
use crate::source::compression::check_name;
use crate::source::count::{count_lines_of_ranges, line_number};
use crate::source::infer::{check_declared, infer_columns, pin_by_records};
use crate::source::interleave::{CutRecords, RecordAt};
use crate::source::jsonl::{declared_schema, is_blank, parse_jsonl};
use crate::source::lines::{Cutting, LineChunks, file_ranges};
use crate::source::listing::Listing;
use crate::source::record::line_records;
use crate::source::text::{is_header, parse_text, text_schema};
use crate::source::{
    DataSource, FileRanges, ParsedChunk, RawChunk, RawChunks, SliceWindows, SourceError, SourceFile,
    SourceRange,
};
use crate::split::{Split, slice_windows};

/// A source of lines.
#[derive(Debug)]
pub(super) struct LineSource {
    listing: Listing,
    cutting: Cutting,
    schema: SchemaRef,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// So many lines at the head of each file are no examples.
    Text {
        header_lines: u64,
    },
    Jsonl(BTreeMap<String, ColumnSpec>),
}

impl LineSource {
    pub(super) fn text(listing: Listing) -> Self {
        Self {
            listing,
            cutting: Cutting::default(),
            schema: text_schema(),
            kind: Kind::Text { header_lines: 0 },
        }
    }

    /// The same source without the first lines of each file.
    pub(super) fn without_header(self, header_lines: u64) -> Self {
        Self { kind: Kind::Text { header_lines }, ..self }
    }

    /// A source of JSON Lines with these columns, which are declared or have been inferred.
    pub(super) fn jsonl(listing: Listing, columns: BTreeMap<String, ColumnSpec>) -> Self {
        let schema = declared_schema(&columns);
        Self { listing, cutting: Cutting::default(), schema, kind: Kind::Jsonl(columns) }
    }

    /// The same source cut otherwise.
    #[cfg(test)]
    fn with_cutting(self, cutting: Cutting) -> Self {
        Self { cutting, ..self }
    }
}

/// The columns of a JSON Lines source: the declared ones if they fit its first records, else those of these records.
pub(super) fn pin_jsonl_columns(
    listing: &Listing,
    declared: &BTreeMap<String, ColumnSpec>,
) -> Result<BTreeMap<String, ColumnSpec>, SourceError> {
    pin_by_records(listing, declared, |file| {
        if declared.is_empty() {
            return infer_columns(file, Cutting::default());
        }
        Ok(check_declared(declared, file, Cutting::default())?.then(|| declared.clone()))
    })
}

impl DataSource for LineSource {
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
        Ok(file_ranges(file, index, self.cutting))
    }

    fn read(
        &self,
        file: &SourceFile,
        index: u32,
        range: Option<SourceRange>,
        skip: Box<dyn Fn(u64) -> bool + Send>,
    ) -> Result<RawChunks, SourceError> {
        Ok(Box::new(LineChunks::open(file, index, range, self.cutting, None, skip)?))
    }

    fn parse(&self, file: &SourceFile, chunk: &RawChunk) -> Result<ParsedChunk, SourceError> {
        match &self.kind {
            Kind::Text { header_lines } => {
                parse_text(&self.listing.name, &self.schema, *header_lines, file, chunk)
            }
            Kind::Jsonl(columns) => parse_jsonl(&self.listing.name, columns, &self.schema, file, chunk),
        }
    }

    fn count_records(&self, file: &SourceFile, index: u32) -> Result<Vec<(SourceRange, u64)>, SourceError> {
        count_lines_of_ranges(file, index, self.cutting)
    }

    fn line_of(&self, file: &SourceFile, range: SourceRange, ordinal: u64) -> Result<u64, SourceError> {
        line_number(file, range, ordinal)
    }

    /// A slice counts lines, but for those at the head of files.
    fn slice(&self, split: &Split, files: &[SourceFile]) -> Result<SliceWindows, SourceError> {
        let mut counts = Vec::new();
        for (index, file) in (0u32..).zip(files) {
            counts.extend(self.count_records(file, index)?);
        }
        let header = |range: SourceRange| match self.kind {
            Kind::Text { header_lines } if range.start == 0 => header_lines,
            Kind::Text { .. } | Kind::Jsonl(_) => 0,
        };
        let records: Vec<(SourceRange, u64)> =
            counts.iter().map(|&(range, lines)| (range, lines.saturating_sub(header(range)))).collect();
        let windows = slice_windows(split, &records).into_iter().map(|(range, window)| {
            // The header belongs to the first line after it.
            let start = if window.start == 0 { 0 } else { window.start + header(range) };
            (range, start..window.end + header(range))
        });
        Ok(SliceWindows { windows: windows.collect(), counts })
    }
}

impl CutRecords for LineSource {
    fn records(&self, _file: &SourceFile, chunk: &RawChunk) -> Result<Vec<RecordAt>, SourceError> {
        Ok(line_records(chunk, |line| match (&self.kind, &line.text) {
            (Kind::Text { header_lines }, _) => !is_header(chunk, line.ordinal, *header_lines),
            (Kind::Jsonl(_), Ok(text)) => !is_blank(text),
            (Kind::Jsonl(_), Err(_)) => true,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::example::ExampleId;
    use crate::source::compression::tests::{SUFFIXES, pack};
    use crate::source::testing::show;
    use crate::source::{SourceSpec, column::ScalarType};

    /// A folder with these files in it.
    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        dir
    }

    fn text_source(dir: &Path, pattern: &str, range_bytes: u64, chunk_bytes: usize) -> LineSource {
        let spec = SourceSpec::text([("train", pattern)]);
        let listing = spec.listing("docs", dir);
        LineSource::text(listing).with_cutting(Cutting { range_bytes, chunk_bytes, max_line_bytes: 1 << 20 })
    }

    /// All there is in a split, read file by file.
    fn read_split(source: &dyn DataSource, split: &str) -> String {
        let mut shown = String::new();
        for (index, file) in source.files(split).unwrap().iter().enumerate() {
            shown.push_str(&format!("{}\n", file.name));
            for chunk in source.read(file, index as u32, None, Box::new(|_| false)).unwrap() {
                shown.push_str(&show(&source.parse(file, &chunk.unwrap()).unwrap()));
            }
        }
        shown
    }

    fn open(dir: &Path, spec: &SourceSpec) -> std::sync::Arc<dyn DataSource> {
        spec.open("docs", dir).unwrap()
    }

    fn open_error(dir: &Path, spec: &SourceSpec) -> String {
        spec.open("docs", dir).unwrap_err().to_string().replace(dir.to_str().unwrap(), "DIR")
    }

    #[test]
    fn every_line_of_text_is_an_example_with_its_bytes_as_they_are() {
        let dir = folder(&[
            ("a.txt", "\u{feff}first\r\n\nnul \0 byte\n".as_bytes()),
            ("b.txt", b"bad \xff byte\ngood\n\r"),
            ("c.txt", b""),
            ("d.txt", b"\n"),
            ("e.txt", "\u{feff}".as_bytes()),
        ]);
        let source = open(dir.path(), &SourceSpec::text([("train", "*.txt")]));
        let shown = read_split(&*source, "train").replace('\0', "<NUL>").replace('\r', "<CR>");
        insta::assert_snapshot!(shown, @r"
        a.txt
        row 0 @0+8: text=first
        row 1 @10+0: text=
        row 2 @11+10: text=nul <NUL> byte
        b.txt
        bad 0 @0: is not valid UTF-8 at byte 5 of the line
        row 1 @11+4: text=good
        row 2 @16+1: text=<CR>
        c.txt
        d.txt
        row 0 @0+0: text=
        e.txt
        row 0 @0+3: text=
        ");
        assert_eq!(source.schema(), text_schema());
        assert_eq!(source.splits(), ["train"]);
    }

    #[test]
    fn ids_are_of_source_file_range_and_ordinal() {
        let dir = folder(&[("a.txt", b"aa\nbb\nc\n")]);
        let source = text_source(dir.path(), "a.txt", 3, 100);
        let file = &source.files("train").unwrap()[0];
        let chunks = source.read(file, 0, None, Box::new(|_| false)).unwrap();
        let ids: Vec<_> = chunks
            .flat_map(|chunk| source.parse(file, &chunk.unwrap()).unwrap().examples.rows)
            .map(|row| row.id)
            .collect();
        assert_eq!(ids, [0, 3, 6].map(|start| ExampleId::new("docs", "a.txt", start, 0)));
    }

    #[test]
    fn a_cut_stream_ends_in_a_bad_row() {
        let lines: String = (0..1000).map(|i| format!("{{\"text\": \"{i}\"}}\n")).collect();
        for suffix in SUFFIXES {
            let packed = pack(lines.as_bytes(), suffix);
            let name = format!("a.jsonl.{suffix}");
            let dir = folder(&[(&name, &packed[..packed.len() - 10])]);
            let spec = SourceSpec::jsonl([("train", &name[..])]).column("text", ScalarType::String);
            let shown = read_split(&*open(dir.path(), &spec), "train");
            let last = shown.lines().last().unwrap();
            assert!(last.starts_with("bad ") && last.ends_with(" stream ends early"), "{last}");
            assert_eq!(shown.matches("bad").count(), 1);
        }
    }

    #[test]
    fn splits_and_columns_are_known_before_anything_is_read() {
        let dir = folder(&[
            ("a.jsonl", b""),
            ("b.jsonl", b"\n{\"text\": \"a\", \"n\": 1}\n"),
            ("c.jsonl", b"{\"other\": 1}\n"),
        ]);
        let spec = SourceSpec::jsonl([("train", "[ab].jsonl"), ("validation", "c.jsonl")]);
        let pinned = spec.pin("docs", dir.path()).unwrap();
        let columns: Vec<_> =
            pinned.columns.iter().map(|(name, column)| format!("{name}: {column}")).collect();
        assert_eq!(columns, ["n: int64", "text: string"]);
        let source = open(dir.path(), &spec);
        assert_eq!(source.schema(), open(dir.path(), &pinned).schema());
        assert_eq!(source.splits(), ["train", "validation"]);
        let shown = read_split(&*source, "validation");
        assert_eq!(shown, "c.jsonl\nbad 0 @0: there is no field `n`, only `other`\n");
    }

    #[test]
    fn what_is_absent_is_reported_when_the_source_is_opened() {
        let dir = folder(&[
            ("a.jsonl", b"{\"text\": \"a\"}\n"),
            ("empty.jsonl", b"\n"),
            ("a.txt", &pack(b"x", "gz")),
        ]);
        let error = |spec: &SourceSpec| open_error(dir.path(), spec);
        insta::assert_snapshot!(
            error(&SourceSpec::jsonl([("train", "a.jsonl"), ("validation", "v-*.jsonl")])),
            @"no file matches `DIR/v-*.jsonl`"
        );
        insta::assert_snapshot!(
            error(&SourceSpec::jsonl([("train", "empty.jsonl")])),
            @r#"the files of `docs` hold no records, so its columns cannot be inferred; declare them, as `columns = { text = "string" }`"#
        );
        insta::assert_snapshot!(
            error(&SourceSpec::jsonl([("train", "a.jsonl")]).column("body", ScalarType::String)),
            @"DIR/a.jsonl: none of the first 1 records fits the declared columns: line 1: there is no field `body`, only `text`"
        );
        insta::assert_snapshot!(
            error(&SourceSpec::jsonl([("train", "a.txt")])),
            @"DIR/a.txt: is gzip, but its name does not end in `.gz`; rename it"
        );
        let source = open(dir.path(), &SourceSpec::text([("train", "a.txt")]));
        let file = &source.files("train").unwrap()[0];
        assert!(source.ranges(file, 0).unwrap_err().to_string().contains("is gzip"));
        insta::assert_snapshot!(
            source.files("test").unwrap_err(),
            @"there is no split `test`; there are `train`"
        );
    }

    #[test]
    fn empty_files_with_declared_columns_are_an_empty_split() {
        let dir = folder(&[("a.jsonl", b""), ("b.jsonl", b"\n\n")]);
        let spec = SourceSpec::jsonl([("train", "*.jsonl")]).column("text", ScalarType::String);
        let source = open(dir.path(), &spec);
        assert_eq!(read_split(&*source, "train"), "a.jsonl\nb.jsonl\n");
        let files = source.files("train").unwrap();
        let counts: Vec<u64> = files.iter().map(|file| source.count_records(file, 0).unwrap()[0].1).collect();
        assert_eq!(counts, [0, 2]);
    }

    #[test]
    fn a_file_that_cannot_be_read_through_is_named() {
        // The first page of a process's memory is never mapped, so this regular file opens and cannot be read.
        let spec = SourceSpec::text([("train", "/proc/self/mem")]);
        let source = open(Path::new(""), &spec);
        let mut file = source.files("train").unwrap().remove(0);
        file.bytes = 100;
        let mut chunks = source.read(&file, 0, None, Box::new(|_| false)).unwrap();
        let error = chunks.next().unwrap().unwrap_err().to_string();
        assert!(error.starts_with("cannot read /proc/self/mem: "), "{error}");
        assert!(chunks.next().is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn a_file_and_its_compressed_copy_give_the_same_examples_counts_and_line_numbers(
            lines in prop::collection::vec("[a-z\r]{0,9}", 0..40), range_bytes in 1..30u64, chunk_bytes in 1..30usize,
        ) {
            let text = lines.join("\n");
            let dir = folder(&[("a.txt", text.as_bytes())]);
            for suffix in SUFFIXES {
                std::fs::write(dir.path().join(format!("a.{suffix}")), pack(text.as_bytes(), suffix)).unwrap();
            }
            let mut all = Vec::new();
            for suffix in SUFFIXES.into_iter().chain(["txt"]) {
                let source = text_source(dir.path(), &format!("a.{suffix}"), range_bytes, chunk_bytes);
                let file = &source.files("train").unwrap()[0];
                let mut rows = Vec::new();
                let mut numbers = Vec::new();
                for chunk in source.read(file, 0, None, Box::new(|_| false)).unwrap() {
                    let chunk = chunk.unwrap();
                    rows.push(show(&source.parse(file, &chunk).unwrap()));
                    for ordinal in chunk.first_ordinal..chunk.first_ordinal + chunk.num_records {
                        numbers.push(source.line_of(file, chunk.range, ordinal).unwrap());
                    }
                }
                prop_assert_eq!(numbers, (1..=text.split_inclusive('\n').count() as u64).collect::<Vec<_>>());
                all.push((rows, source.count_records(file, 0).unwrap()));
            }
            all.dedup();
            prop_assert_eq!(all.len(), 1);
        }

        #[test]
        fn slices_take_the_records_that_they_name(
            lines in prop::collection::vec("[a-z]{0,5}", 1..40), range_bytes in 1..20u64,
            from in 0..40u64, length in 1..40u64,
        ) {
            let (a, b) = lines.split_at(lines.len() / 2);
            let ended = |lines: &[String]| lines.iter().map(|line| line.clone() + "\n").collect::<String>();
            let dir = folder(&[("a.txt", ended(a).as_bytes()), ("b.txt", ended(b).as_bytes())]);
            let source = text_source(dir.path(), "*.txt", range_bytes, 7);
            let files = source.files("train").unwrap();
            let mut counts = Vec::new();
            for (index, file) in (0..).zip(&files) {
                counts.extend(source.count_records(file, index).unwrap());
            }
            let split: Split = format!("train[{from}:{}]", from + length).parse().unwrap();
            let mut found = Vec::new();
            for (range, ordinals) in slice_windows(&split, &counts) {
                let file = &files[range.file as usize];
                for chunk in source.read(file, range.file, Some(range), Box::new(|_| false)).unwrap() {
                    let examples = source.parse(file, &chunk.unwrap()).unwrap().examples;
                    let texts = arrow::array::AsArray::as_string::<i32>(examples.columns.column(0)).clone();
                    for (row, text) in examples.rows.iter().zip(texts.iter()) {
                        if ordinals.contains(&row.origins[0].row) {
                            found.push(text.unwrap().to_owned());
                        }
                    }
                }
            }
            let expected: Vec<_> =
                lines.iter().skip(from as usize).take(length as usize).cloned().collect();
            prop_assert_eq!(found, expected);
        }

    }

    proptest! {
        #[test]
        fn any_bytes_under_any_name_are_read_or_refused_without_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            name in prop::sample::select(vec![
                "a.jsonl", "a.jsonl.gz", "a.jsonl.bz2", "a.jsonl.xz", "a.jsonl.zst",
            ]),
            valid in any::<bool>(),
        ) {
            let mut packed = bytes;
            if valid {
                packed = pack(&b"{\"text\": \"a\"}\n".repeat(50), name.rsplit('.').next().unwrap());
                for (index, byte) in flips {
                    let index = index.index(packed.len());
                    packed[index] = byte;
                }
            }
            let dir = folder(&[(name, &packed)]);
            let spec = SourceSpec::jsonl([("train", name)]);
            let _ = spec.open("docs", dir.path());
            let listing = spec.listing("docs", dir.path());
            let columns = [("text".to_owned(), ScalarType::String.into())].into();
            let source = LineSource::jsonl(listing, columns)
                .with_cutting(Cutting { range_bytes: 50, chunk_bytes: 20, max_line_bytes: 1000 });
            let file = &source.files("train").unwrap()[0];
            let mut records = 0;
            for chunk in source.read(file, 0, None, Box::new(|_| false)).unwrap() {
                // What was flipped may make one line of it that is longer than the limit.
                let Ok(chunk) = chunk else { return Ok(()) };
                records += chunk.num_records;
                source.parse(file, &chunk).unwrap();
            }
            let counted: u64 = source.count_records(file, 0).unwrap().iter().map(|(_, count)| count).sum();
            prop_assert_eq!(counted, records);
        }
    }
}
