//! CSV by its laws, by Python's `csv` and pyarrow, and through what goes wrong.

use std::path::Path;

use arrow::array::{Array, AsArray};
use proptest::prelude::*;

use super::*;
use crate::source::column::{ColumnType, ScalarType};
use crate::source::compression::tests::{SUFFIXES, listed, pack};
use crate::source::testing::{assert_source_laws, show};
use crate::source::{Dialect, OnBadRow, SourceFormat, SourceSpec};
use crate::vocabulary::golden::rows as golden_rows;

/// A folder with these files in it.
fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

fn spec(toml: &str) -> SourceSpec {
    toml::from_str(&format!("csv = {{ train = '*.csv*' }}\n{toml}")).unwrap()
}

fn dialect(toml: &str) -> Dialect {
    toml::from_str(toml).unwrap()
}

fn read(dir: &Path, spec: &SourceSpec) -> String {
    let source = spec.open("docs", dir).unwrap();
    assert_source_laws(&*source, "train").replace('\r', "<CR>")
}

/// What a file of this text holds, with inferred columns.
fn read_text(text: &str, toml: &str) -> String {
    let dir = folder(&[("a.csv", text.as_bytes())]);
    read(dir.path(), &spec(toml))
}

fn open_error(dir: &Path, spec: &SourceSpec) -> String {
    spec.open("docs", dir).unwrap_err().to_string().replace(dir.to_str().unwrap(), "DIR")
}

fn columns(text: &str, toml: &str) -> String {
    let dir = folder(&[("a.csv", text.as_bytes())]);
    match spec(toml).pin("docs", dir.path()) {
        Ok(pinned) => {
            let columns = pinned.columns.iter().map(|(name, column)| format!("{name}: {column}"));
            columns.collect::<Vec<_>>().join(", ")
        }
        Err(error) => error.to_string().replace(dir.path().to_str().unwrap(), "DIR"),
    }
}

#[test]
fn records_may_span_lines_and_blank_lines_are_passed_over() {
    let text = "\u{feff}text,n\r\n\"a\nb\",1\r\n\r\n\"say \"\"hi\"\"\",2\n\n,\nlast,3";
    insta::assert_snapshot!(read_text(text, ""), @r#"
    row 1 @11+7: n=1 text=a\nb
    row 4 @22+14: n=2 text=say "hi"
    row 6 @38+1: n=null text=
    row 7 @40+6: n=3 text=last
    "#);
}

#[test]
fn what_is_wrong_with_a_record_is_said_and_the_others_are_read() {
    let bytes = b"text,n\na\nb,1,2\nc,one\nd\xff,1\ng\"ood,2\ne,99999999999999999999\n\"f\n,3\n";
    let dir = folder(&[("a.csv", bytes)]);
    let spec = spec("columns = { text = 'string', n = 'int64' }").on_bad_row(OnBadRow::Skip);
    insta::assert_snapshot!(read(dir.path(), &spec), @r#"
    bad 1 @7: has 1 field instead of 2
    bad 2 @9: has 3 fields instead of 2
    bad 3 @15: `n` should be an int64, but is `one`
    bad 4 @21: field 1 is not valid UTF-8 at byte 2
    row 5 @26+7: n=2 text=g"ood
    bad 6 @34: `n` should be an int64, but is `99999999999999999999`
    bad 7 @57: a quote opens at byte 1 of the record and is never closed; if quotes are text here, set `quote = ""` in `dialect`
    "#);
    let source = spec.open("docs", dir.path()).unwrap();
    let file = &source.files("train").unwrap()[0];
    let chunk = source.read(file, 0, None, Box::new(|_| false)).unwrap().next().unwrap().unwrap();
    let bad = source.parse(file, &chunk).unwrap().bad_rows;
    let raw: Vec<&[u8]> = bad.iter().map(|bad| chunk.bytes_of(bad).unwrap()).collect();
    assert_eq!(raw[1..4], [&b"b,1,2"[..], b"c,one", b"d\xff,1"]);
    assert_eq!(raw[5], b"\"f\n,3");
}

#[test]
fn dialects_say_how_text_is_taken_apart() {
    let other = "# a comment, 'with a quote\ntext; n\n'it''s' ; 1\n NA ;-\n# more\n'a\n#b';2\n";
    let toml =
        "dialect = { delimiter = ';', quote = \"'\", comment = '#', trim = true, nulls = ['NA', '-'] }";
    insta::assert_snapshot!(read_text(other, toml), @r"
    row 2 @35+11: n=1 text=it's
    row 3 @47+6: n=null text=null
    row 5 @61+8: n=2 text=a\n#b
    ");
    let escaped = "text\n\"a \\\"b\\\" \\\\ c\"\n";
    let toml = "dialect = { escape = '\\', double_quote = false }";
    insta::assert_snapshot!(read_text(escaped, toml), @r#"row 1 @5+14: text=a "b" \ c"#);
    let bare = "a,1\nb,2\n";
    insta::assert_snapshot!(read_text(bare, "dialect = { header = ['text', 'n'] }"), @r"
    row 0 @0+3: n=1 text=a
    row 1 @4+3: n=2 text=b
    ");
}

#[test]
fn tsv_has_no_quotes_and_is_cut_like_lines() {
    let dir = folder(&[("a.tsv", b"text\tn\n\"open\t1\nit's \"so\"\t2\n")]);
    let spec = SourceSpec::tsv([("train", "a.tsv")]);
    insta::assert_snapshot!(read(dir.path(), &spec), @r#"
    row 1 @7+7: n=1 text="open
    row 2 @15+11: n=2 text=it's "so"
    "#);
    let source = spec.open("docs", dir.path()).unwrap();
    let file = &source.files("train").unwrap()[0];
    assert!(matches!(source.ranges(file, 0).unwrap(), FileRanges::Known(_)));
}

#[test]
fn columns_are_found_by_their_names_in_every_file() {
    let dir = folder(&[
        ("a.csv", b"text,n\na,1\n"),
        ("b.csv", b"more,n,text\nx,2,b\n"),
        ("c.csv", b""),
        ("d.csv", b"text\n"),
    ]);
    let optional = spec("columns = { text = 'string', n = 'int32?' }");
    insta::assert_snapshot!(read(dir.path(), &optional), @r"
    row 1 @7+3: n=1 text=a
    row 1 @12+5: n=2 text=b
    ");
    let source = spec("").open("docs", dir.path()).unwrap();
    let file = &source.files("train").unwrap()[3];
    let error = source.ranges(file, 3).unwrap_err().to_string();
    assert!(error.ends_with("d.csv: has no column `n`, only `text`"), "{error}");
}

#[test]
fn columns_are_what_the_first_thousand_records_have_in_common() {
    let text =
        "text,zip,n,x,yes,none,mixed,big\na,01234,1,0.5,true,,1,12345678901234567890\nb,9,-2,3,FALSE,,x,1\n";
    insta::assert_snapshot!(columns(text, ""), @"big: string, mixed: string, n: int64, none: string, text: string, x: float64, yes: bool, zip: string");
    insta::assert_snapshot!(columns(",text\n0,a\n", ""), @"text: string");
    insta::assert_snapshot!(columns("n\nNA\n1\n", "dialect = { nulls = ['NA'] }"), @"n: int64");
    insta::assert_snapshot!(columns("a,b\n1e5,nan\n1,inf\n", ""), @"a: float64, b: string");
    let late = format!("n\n{}x\n", "1\n".repeat(1000));
    assert_eq!(columns(&late, ""), "n: int64");
    insta::assert_snapshot!(columns("a,a\n1,2\n", ""), @"DIR/a.csv: the header names column `a` twice; declare the columns to read, as `columns = { … }`");
    insta::assert_snapshot!(columns("a,b\n1\n1,2,3\n", ""), @"DIR/a.csv: none of the first 2 records can be read: line 2 has 1 field instead of 2");
    insta::assert_snapshot!(columns("a,b\n", ""), @r#"the files of `docs` hold no records, so its columns cannot be inferred; declare them, as `columns = { text = "string" }`"#);
    insta::assert_snapshot!(columns("\"a\nb", ""), @r#"DIR/a.csv: the header (line 1) a quote opens at byte 1 of the record and is never closed; if quotes are text here, set `quote = ""` in `dialect`"#);
}

#[test]
fn declared_columns_that_are_not_there_are_refused_when_the_source_is_opened() {
    let dir = folder(&[("a.csv", b"text,label\na,x\n")]);
    let error = |toml: &str| open_error(dir.path(), &spec(toml));
    insta::assert_snapshot!(error("columns = { txt = 'string' }"), @"DIR/a.csv: has no column `txt`, only `text`, `label` (did you mean `text`?)");
    insta::assert_snapshot!(error("columns = { label = 'int32' }"), @"DIR/a.csv: none of the first 1 records fits the declared columns: line 2: `label` should be an int32, but is `x`");
    let twice = folder(&[("a.csv", b"text,text\na,x\n")]);
    insta::assert_snapshot!(open_error(twice.path(), &spec("columns = { text = 'string' }")), @"DIR/a.csv: the header names column `text` twice");
}

#[test]
fn records_are_those_of_pythons_csv() {
    let mut compared = 0;
    for case in golden_rows("csv/records.jsonl") {
        let written: Dialect = serde_json::from_value(case["dialect"].clone()).unwrap();
        let dialect = written.resolve(SourceFormat::Csv).unwrap();
        let chunk = RawChunk {
            range: SourceRange { file: 0, start: 0, end: 1 << 20 },
            first_ordinal: 0,
            num_records: 0,
            first_offset: 0,
            records: crate::source::RawRecords::Lines(case["text"].as_str().unwrap().as_bytes().to_vec()),
            last_of_range: true,
            damage: None,
        };
        let mut reader = crate::source::csv::FieldReader::new(&dialect);
        let mut found = Vec::new();
        let mut open = false;
        for record in CsvRecords::new(&chunk, &dialect).filter(|record| record.content.is_some()) {
            match reader.read(&record, &dialect) {
                Ok(fields) => {
                    let fields: Vec<&str> = fields.iter().collect();
                    found.push(serde_json::json!({ "line": record.ordinal + 1, "fields": fields }));
                }
                Err(reason) => {
                    assert!(record.is_open, "{reason}");
                    open = true;
                }
            }
        }
        assert_eq!(
            (&serde_json::json!(found), &serde_json::json!(open)),
            (&case["rows"], &case["open"]),
            "{case}"
        );
        compared += found.len();
    }
    assert!(compared > 500, "{compared}");
}

#[test]
fn values_are_those_of_pyarrow() {
    for case in golden_rows("csv/values.jsonl") {
        let text = case["text"].as_str().unwrap();
        let column: ColumnSpec = case["type"].as_str().unwrap().parse().unwrap();
        let dir = folder(&[("a.csv", format!("x\n{text}\n").as_bytes())]);
        let source =
            SourceSpec::csv([("train", "a.csv")]).column("x", column).open("docs", dir.path()).unwrap();
        let file = &source.files("train").unwrap()[0];
        let chunk = source.read(file, 0, None, Box::new(|_| false)).unwrap().next().unwrap().unwrap();
        let parsed = source.parse(file, &chunk).unwrap();
        let array = parsed.examples.columns.column(0);
        assert_eq!(array.len(), 1, "{case}: {:?}", parsed.bad_rows);
        let expected = &case["value"];
        use arrow::datatypes::{Float32Type, Float64Type, Int32Type, Int64Type};
        let same = match column.data {
            ColumnType::Scalar(ScalarType::Int32) => {
                expected.as_i64() == Some(array.as_primitive::<Int32Type>().value(0).into())
            }
            ColumnType::Scalar(ScalarType::Int64) => {
                expected.as_i64() == Some(array.as_primitive::<Int64Type>().value(0))
            }
            ColumnType::Scalar(ScalarType::Float32) => {
                let found = f64::from(array.as_primitive::<Float32Type>().value(0));
                expected.as_f64().unwrap().to_bits() == found.to_bits()
            }
            ColumnType::Scalar(ScalarType::Float64) => {
                let found = array.as_primitive::<Float64Type>().value(0);
                expected.as_f64().unwrap().to_bits() == found.to_bits()
            }
            _ => expected.as_bool() == Some(array.as_boolean().value(0)),
        };
        assert!(same, "{case}: {array:?}");
    }
}

#[test]
fn what_is_no_finite_number_or_truth_is_a_bad_row() {
    let reason = |column: &str, field: &str| {
        let text = format!("x\n{field}\n0\n");
        let shown = read_text(&text, &format!("columns = {{ x = '{column}' }}\non_bad_row = 'skip'"));
        shown.lines().next().unwrap().to_owned()
    };
    insta::assert_snapshot!(reason("float64", "nan"), @"bad 1 @2: `x` should be a float64, but is `nan`");
    insta::assert_snapshot!(reason("float64", "1e999"), @"bad 1 @2: `x` should be a float64, but is `1e999`");
    insta::assert_snapshot!(reason("float32", "1e39"), @"bad 1 @2: `x` should be a float32, but is `1e39`");
    insta::assert_snapshot!(reason("int32", "2147483648"), @"bad 1 @2: `x` should be an int32, but is `2147483648`");
    insta::assert_snapshot!(reason("int64", " 1"), @"bad 1 @2: `x` should be an int64, but is ` 1`");
    insta::assert_snapshot!(reason("bool", "yes"), @"bad 1 @2: `x` should be a bool, but is `yes`");
    insta::assert_snapshot!(reason("int32", &"long ".repeat(20)), @"bad 1 @2: `x` should be an int32, but is `long long long long long long long long …`");
}

#[test]
fn a_slice_counts_records_and_not_lines() {
    let dir = folder(&[("a.csv", b"text\n\n\"a\nb\nc\"\nd\n\ne\n"), ("b.csv", b"text\n\"f\n\"\ng\n")]);
    let source = spec("").open("docs", dir.path()).unwrap();
    let files = source.files("train").unwrap();
    let slice = |text: &str| {
        let split: Split = text.parse().unwrap();
        let mut texts = Vec::new();
        for (range, ordinals) in source.slice(&split, &files).unwrap().windows {
            let file = &files[range.file as usize];
            for chunk in source.read(file, range.file, Some(range), Box::new(|_| false)).unwrap() {
                let examples = source.parse(file, &chunk.unwrap()).unwrap().within(&ordinals).examples;
                let column = examples.columns.column(0).as_string::<i32>();
                texts.extend(column.iter().map(|text| text.unwrap().to_owned()));
            }
        }
        texts
    };
    assert_eq!(slice("train[:1]"), ["a\nb\nc"]);
    assert_eq!(slice("train[1:4]"), ["d", "e", "f\n"]);
    assert_eq!(slice("train[4:]"), ["g"]);
    assert_eq!(slice("train[:40%]"), ["a\nb\nc", "d"]);
}

#[test]
fn a_quote_that_is_never_closed_does_not_fill_the_memory() {
    let text = format!("text\na\n\"{}", "b,c\n".repeat(100_000));
    let (_dir, file) = listed("a.csv", text.as_bytes());
    let dialect = Dialect::default().resolve(SourceFormat::Csv).unwrap();
    let cutting = Cutting { max_line_bytes: 100_000, ..Cutting::csv() };
    let scan = Some(RecordScan::new(&dialect));
    let mut chunks = LineChunks::open(&file, 0, None, cutting, scan, Box::new(|_| false)).unwrap();
    let error = chunks.next().unwrap().unwrap_err().to_string();
    assert!(
        error.ends_with(
            "the record that begins at byte 7 is longer than 100000 bytes, and the quote at byte 7 is not closed; if \
             quotes are text here, set `quote = \"\"` in `dialect`"
        ),
        "{error}"
    );
}

fn source_of(
    dir: &Path,
    pattern: &str,
    dialect: &Dialect,
    range_bytes: u64,
    chunk_bytes: usize,
) -> CsvSource {
    let spec = SourceSpec::csv([("train", pattern)]);
    let listing = spec.listing("docs", dir);
    let columns = [("a".to_owned(), ScalarType::String.into()), ("b".to_owned(), ScalarType::String.into())];
    let dialect = dialect.resolve(SourceFormat::Csv).unwrap();
    CsvSource::new(listing, dialect, columns.into()).with_cutting(Cutting {
        range_bytes,
        chunk_bytes,
        max_line_bytes: 1 << 20,
    })
}

/// Offset, length and content of each record, which do not depend on where the file is cut.
fn contents(shown: &str) -> Vec<String> {
    shown.lines().map(|line| line.split_once('@').unwrap().1.to_owned()).collect()
}

fn csv_like() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "\"",
        "\"\"",
        ",",
        ",",
        "\n",
        "\n",
        "\r\n",
        "x",
        "x,y\n",
        "\"l\n\",m\n",
        "#",
        " ",
        "é",
        "\u{feff}",
    ]);
    prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn the_laws_hold_wherever_a_file_is_cut_and_however_it_is_compressed(
        text in csv_like(), range_bytes in 1..40u64, chunk_bytes in 1..40usize,
        toml in prop::sample::select(vec!["", "quote = ''", "comment = '#'", "header = ['a', 'b']"]),
        header in any::<bool>(),
    ) {
        let text = if header { format!("a,b\n{text}") } else { text };
        let dialect = dialect(toml);
        let dir = folder(&[("a.csv", text.as_bytes())]);
        for suffix in SUFFIXES {
            std::fs::write(dir.path().join(format!("a.{suffix}")), pack(text.as_bytes(), suffix)).unwrap();
        }
        let whole = source_of(dir.path(), "a.csv", &dialect, 1 << 20, 1 << 20);
        let file = &whole.files("train").unwrap()[0];
        // What is no header of `a` and `b` is refused, however the file is cut.
        let refused = whole.ranges(file, 0).is_err();
        let expected = if refused { Vec::new() } else { contents(&assert_source_laws(&whole, "train")) };
        for suffix in SUFFIXES.into_iter().chain(["csv"]) {
            let source = source_of(dir.path(), &format!("a.{suffix}"), &dialect, range_bytes, chunk_bytes);
            let file = &source.files("train").unwrap()[0];
            prop_assert_eq!(source.ranges(file, 0).is_err(), refused);
            if refused {
                continue;
            }
            prop_assert_eq!(&contents(&assert_source_laws(&source, "train")), &expected);
            for chunk in source.read(file, 0, None, Box::new(|_| false)).unwrap() {
                let chunk = chunk.unwrap();
                let parsed = source.parse(file, &chunk).unwrap();
                let rows = parsed.examples.rows.iter().map(|row| (row.origins[0].row, row.origins[0].offset));
                for (ordinal, offset) in rows.chain(parsed.bad_rows.iter().map(|bad| (bad.ordinal, bad.offset))) {
                    let before = &text.as_bytes()[..usize::try_from(offset).unwrap()];
                    let line = memchr::memchr_iter(b'\n', before).count() as u64 + 1;
                    prop_assert_eq!(source.line_of(file, chunk.range, ordinal).unwrap(), line);
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused_without_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        text in csv_like(),
        suffix in prop::sample::select(vec!["csv", "csv.gz", "csv.bz2", "csv.xz", "csv.zst"]),
        cut in any::<prop::sample::Index>(), flip in any::<(prop::sample::Index, u8)>(), valid in any::<bool>(),
    ) {
        let name = format!("a.{suffix}");
        let mut content = bytes;
        if valid {
            content = pack(format!("a,b\n{text}").as_bytes(), suffix.rsplit('.').next().unwrap());
            let place = flip.0.index(content.len());
            content[place] = flip.1;
            content.truncate(cut.index(content.len() + 1));
        }
        let dir = folder(&[(&name, &content)]);
        let _ = SourceSpec::csv([("train", &name)]).open("docs", dir.path());
        for toml in ["", "quote = ''"] {
            let source = source_of(dir.path(), &name, &dialect(toml), 50, 20);
            let file = &source.files("train").unwrap()[0];
            if source.ranges(file, 0).is_ok() {
                assert_source_laws(&source, "train");
            }
        }
    }
}

#[test]
fn a_stream_that_breaks_off_ends_in_a_bad_row_and_all_before_is_read() {
    let text: String = (0..60).map(|row| format!("text {row},\"more\n{row}\"\n")).collect();
    for suffix in SUFFIXES {
        let packed = pack(format!("a,b\n{text}").as_bytes(), suffix);
        for end in (0..packed.len()).step_by(7) {
            let name = format!("a.{suffix}");
            let dir = folder(&[(&name, &packed[..end])]);
            let source = source_of(dir.path(), &name, &Dialect::default(), 100, 50);
            let shown = assert_source_laws(&source, "train");
            let last = shown.lines().last().unwrap();
            assert!(last.starts_with("bad ") && last.contains("stream"), "{last}");
            assert_eq!(shown.matches("bad").count(), 1, "{shown}");
        }
    }
}

#[test]
fn chunks_are_shown_line_by_line() {
    let (_dir, file) = listed("a.csv", b"a,b\n\"1\n2\",x\n");
    let dir = file.path.parent().unwrap().to_owned();
    let source = source_of(&dir, "a.csv", &Dialect::default(), 1 << 20, 1);
    let mut shown = Vec::new();
    for chunk in source.read(&file, 0, None, Box::new(|_| false)).unwrap() {
        let chunk = chunk.unwrap();
        shown.push((chunk.first_ordinal, chunk.num_records, show(&source.parse(&file, &chunk).unwrap())));
    }
    assert_eq!(shown, [(0, 1, String::new()), (1, 2, "row 1 @4+7: a=1\\n2 b=x\n".to_owned())]);
}
