//! Arrow files by pyarrow, by the laws of sources, and damaged at every byte.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BinaryArray, Date32Array, DictionaryArray, Int8Array, Int64Array, ListArray,
    StringArray,
};
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int8Type, Int32Type, Int64Type};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::source::column::{ColumnType, ScalarType};
use crate::source::testing::{assert_source_laws, show};
use crate::source::{OnBadRow, SourceSpec};
use crate::vocabulary::golden::{bytes as golden_bytes, rows as golden_rows};

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

fn numbers(rows: std::ops::Range<i64>) -> RecordBatch {
    let texts: StringArray = rows.clone().map(|row| Some(format!("text {row}"))).collect();
    let numbers: Int64Array = rows.collect();
    batch(vec![("text", Arc::new(texts)), ("n", Arc::new(numbers))])
}

/// The batches as a file (`arrow`) or a stream (`arrows`).
fn write(batches: &[RecordBatch], kind: &str, compression: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let schema = batches[0].schema();
    let mut bytes = Vec::new();
    if kind == "arrow" {
        let mut writer = FileWriter::try_new_with_options(&mut bytes, &schema, options).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
    } else {
        let mut writer = StreamWriter::try_new_with_options(&mut bytes, &schema, options).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
    }
    bytes
}

fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

fn spec() -> SourceSpec {
    SourceSpec::arrow([("train", "*.arrow*")])
}

/// A source cut otherwise.
fn cut(dir: &Path, range_bytes: u64) -> ArrowSource {
    let spec = spec().pin("docs", dir).unwrap();
    let listing = spec.listing("docs", dir);
    ArrowSource { range_bytes, ..ArrowSource::new(listing, spec.columns) }
}

fn read(dir: &Path, spec: &SourceSpec) -> String {
    assert_source_laws(&*spec.open("docs", dir).unwrap(), "train")
}

fn error(dir: &Path, spec: &SourceSpec) -> String {
    spec.open("docs", dir).unwrap_err().to_string().replace(dir.to_str().unwrap(), "DIR")
}

/// A value of a column as JSON.
fn value(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Utf8 => json!(array.as_string::<i32>().value(row)),
        DataType::Int32 => json!(array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => json!(array.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => json!(f64::from(array.as_primitive::<Float32Type>().value(row))),
        DataType::Float64 => json!(array.as_primitive::<Float64Type>().value(row)),
        DataType::Boolean => json!(array.as_boolean().value(row)),
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            (0..items.len()).map(|item| value(&items, item)).collect()
        }
        other => panic!("{other}"),
    }
}

#[test]
fn files_of_pyarrow_hold_what_pyarrow_reads() {
    let mut compared = 0;
    for expected in golden_rows("arrow/expected.jsonl") {
        let name = expected["file"].as_str().unwrap();
        let dir = folder(&[(name, &golden_bytes(&format!("arrow/{name}")))]);
        let source = spec().open("docs", dir.path()).unwrap();
        assert_source_laws(&*source, "train");
        let file = &source.files("train").unwrap()[0];
        let mut rows = Vec::new();
        for chunk in source.read(file, 0, None, Box::new(|_| false)).unwrap() {
            let parsed = source.parse(file, &chunk.unwrap()).unwrap();
            assert_eq!(parsed.bad_rows, []);
            let columns = &parsed.examples.columns;
            for row in 0..columns.num_rows() {
                let fields = columns.schema().fields().clone();
                let row: serde_json::Map<String, Value> = fields
                    .iter()
                    .zip(columns.columns())
                    .map(|(field, array)| (field.name().clone(), value(array, row)))
                    .collect();
                rows.push(Value::Object(row));
            }
        }
        assert_eq!(Value::from(rows.clone()), expected["rows"], "{name}");
        compared += rows.len();
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn columns_are_those_that_a_source_can_have() {
    let dir = folder(&[("all.arrow", &golden_bytes("arrow/all.arrow"))]);
    let pinned = spec().pin("docs", dir.path()).unwrap();
    let columns: Vec<String> =
        pinned.columns.iter().map(|(name, column)| format!("{name}: {column}")).collect();
    insta::assert_snapshot!(columns.join(", "), @"bool: bool, dictionary: string, fixed_list: list<int32>, float32: float32, float64: float64, int64: int64, int8: int32, large_list: list<int64>, large_utf8: string, list: list<int32>, list_of_words: list<string>, list_view: list<int32>, uint16: int32, utf8: string, utf8_view: string");
    let wanted = |name: &str, scalar: ScalarType| error(dir.path(), &spec().column(name, scalar));
    insta::assert_snapshot!(wanted("struct", ScalarType::String), @r#"DIR/all.arrow: column `struct` should be a string, but is Struct("a": Int64, "b": Utf8)"#);
    insta::assert_snapshot!(wanted("dictionary", ScalarType::Int32), @"DIR/all.arrow: column `dictionary` should be an int32, but is Dictionary(Int32, Utf8)");
    insta::assert_snapshot!(wanted("utf", ScalarType::String), @"DIR/all.arrow: has no column `utf`, only `utf8`, `large_utf8`, `utf8_view`, `dictionary`, `int8`, `uint16`, `int64`, `float32`, `float64`, `bool`, `list`, `large_list`, `list_view`, `fixed_list`, `list_of_words`, `nested`, `struct`, `map`, `time`, `nothing`, `bytes`, `decimal` (did you mean `utf8`?)");
}

#[test]
fn what_is_no_arrow_file_is_named() {
    for (bytes, words) in [
        (&b""[..], "an empty file"),
        (b"FEA1....", "Feather of version 1"),
        (b"PAR1....", "Parquet; write `parquet` instead of `arrow`"),
        (b"\x1f\x8b......", "compressed as a whole"),
        (b"ARROW1\0\0", "it has no footer: it was cut off, or is still being written"),
        (b"text,n\nhello,1\n", "it is neither a file nor a stream: the stream ends early"),
        (b"\xff\xff\xff\xff\0\0\0\0", "it ends before its schema"),
        (b"\xff\xff\xff\xff\x08\0\0\0........", "it is neither a file nor a stream"),
    ] {
        let dir = folder(&[("a.arrow", bytes)]);
        let error = error(dir.path(), &spec());
        assert!(
            error.starts_with("DIR/a.arrow: cannot be read as Arrow: ") && error.contains(words),
            "{error}"
        );
    }
}

#[test]
fn a_string_that_is_no_text_spoils_only_its_row() {
    for kind in ["arrow", "arrows"] {
        let texts = StringArray::from(vec!["first text", "other text", "third text"]);
        let keys = Int8Array::from(vec![Some(0), None, Some(1)]);
        let words = DictionaryArray::<Int8Type>::new(keys, Arc::new(StringArray::from(vec!["red", "other"])));
        let numbers = ListArray::from_iter_primitive::<Int64Type, _, _>([
            Some(vec![Some(1)]),
            Some(vec![]),
            Some(vec![Some(1 << 40)]),
        ]);
        let columns: Vec<(&str, ArrayRef)> =
            vec![("text", Arc::new(texts)), ("word", Arc::new(words)), ("ids", Arc::new(numbers))];
        let mut bytes = write(&[batch(columns)], kind, None);
        let places: Vec<usize> = memchr::memmem::find_iter(&bytes, b"other").collect();
        for place in places {
            bytes[place] = 0xff;
        }
        let dir = folder(&[("a.arrow", &bytes)]);
        let spec = spec().on_bad_row(OnBadRow::Skip);
        insta::allow_duplicates!(insta::assert_snapshot!(read(dir.path(), &spec), @r"
        row 0 @0+0: ids=[1] text=first text word=red
        bad 1 @1: `text` is not valid UTF-8 at byte 1
        bad 2 @2: `word` is not valid UTF-8 at byte 1
        "));
        let spec = spec.column("ids", ColumnType::List(ScalarType::Int32));
        insta::allow_duplicates!(insta::assert_snapshot!(read(dir.path(), &spec), @r"
        row 0 @0+0: ids=[1]
        row 1 @1+0: ids=[]
        bad 2 @2: `ids` item 1 should be an int32, but is 1099511627776
        "));
    }
}

#[test]
fn the_laws_hold_wherever_a_file_is_cut() {
    let batches: Vec<RecordBatch> = [0..3, 3..3, 3..10, 10..11, 11..40].into_iter().map(numbers).collect();
    let mut all = Vec::new();
    for kind in ["arrow", "arrows"] {
        for compression in [None, Some(CompressionType::ZSTD), Some(CompressionType::LZ4_FRAME)] {
            let dir = folder(&[("a.arrow", &write(&batches, kind, compression))]);
            for range_bytes in [1, 100, 500, 1 << 20] {
                let source = cut(dir.path(), range_bytes);
                let shown = assert_source_laws(&source, "train");
                let contents: Vec<String> =
                    shown.lines().map(|line| line.split_once(": ").unwrap().1.to_owned()).collect();
                all.push(contents);
                let file = &source.files("train").unwrap()[0];
                let mut number = 0;
                for chunk in source.read(file, 0, None, Box::new(|_| false)).unwrap() {
                    let chunk = chunk.unwrap();
                    for ordinal in chunk.first_ordinal..chunk.first_ordinal + chunk.num_records {
                        number += 1;
                        assert_eq!(source.line_of(file, chunk.range, ordinal).unwrap(), number);
                    }
                }
                assert_eq!(number, 40);
            }
        }
    }
    all.dedup();
    assert_eq!(all.len(), 1);
    assert_eq!(all[0][39], "n=39 text=text 39");
}

#[test]
fn a_large_batch_is_given_in_small_chunks() {
    let texts: StringArray = (0..3000).map(|row| Some(format!("{row:02000}"))).collect();
    let dir = folder(&[("a.arrow", &write(&[batch(vec![("text", Arc::new(texts))])], "arrow", None))]);
    let source = spec().open("docs", dir.path()).unwrap();
    let file = &source.files("train").unwrap()[0];
    let chunks: Vec<u64> = source
        .read(file, 0, None, Box::new(|_| false))
        .unwrap()
        .map(|chunk| chunk.unwrap().num_records)
        .collect();
    assert_eq!((chunks.len(), chunks[0]), (6, 523));
}

#[test]
fn only_the_columns_that_are_declared_are_read() {
    let dates = Arc::new(Date32Array::from(vec![1; 100]));
    let large: BinaryArray = (0..100).map(|_| Some(vec![7; 10_000])).collect();
    let texts: StringArray = (0..100).map(|row| Some(format!("text {row}"))).collect();
    let columns: Vec<(&str, ArrayRef)> =
        vec![("dates", dates), ("large", Arc::new(large)), ("text", Arc::new(texts))];
    let mut bytes = write(&[batch(columns)], "arrow", Some(CompressionType::ZSTD));
    // What is not read may be as corrupt as it likes.
    let frame = memchr::memmem::find(&bytes, b"\x28\xb5\x2f\xfd").unwrap();
    bytes[frame] = 0;
    let dir = folder(&[("a.arrow", &bytes)]);
    let shown = read(dir.path(), &spec().column("text", ScalarType::String));
    assert_eq!(shown.lines().count(), 100);
}

#[test]
fn a_later_file_without_a_column_is_named_before_it_is_read() {
    let other: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let dir = folder(&[
        ("a.arrow", &write(&[numbers(0..1)], "arrow", None)),
        ("b.arrow", &write(&[batch(vec![("n", other)])], "arrows", None)),
    ]);
    let source = spec().open("docs", dir.path()).unwrap();
    let file = &source.files("train").unwrap()[1];
    let error = source.ranges(file, 1).unwrap_err().to_string();
    assert!(error.ends_with("b.arrow: has no column `text`, only `n`"), "{error}");
    let optional =
        spec().column("n", ScalarType::Int64).column("text", ColumnSpec::from(ScalarType::String).optional());
    insta::assert_snapshot!(read(dir.path(), &optional), @r"
    row 0 @0+0: n=0 text=text 0
    row 0 @0+0: n=1 text=null
    ");
}

#[test]
fn a_stream_cut_at_any_byte_gives_what_stands_before_and_a_bad_row() {
    let batches = [numbers(0..3), numbers(3..5)];
    let bytes = write(&batches, "arrows", None);
    let mut seen = Vec::new();
    for end in 0..bytes.len() {
        let dir = folder(&[("a.arrows", &bytes[..end])]);
        let spec = spec().on_bad_row(OnBadRow::Skip);
        let Ok(source) = spec.open("docs", dir.path()) else { continue };
        let shown = assert_source_laws(&*source, "train");
        let rows = shown.lines().filter(|line| line.starts_with("row ")).count();
        let bad: Vec<&str> = shown.lines().filter(|line| line.starts_with("bad ")).collect();
        assert!(bad.iter().all(|line| line.ends_with(": the stream ends early")), "{shown}");
        seen.push((rows, bad.len()));
    }
    seen.dedup();
    // Between two messages, or where the mark of the end is missing, nothing shows that anything is.
    assert_eq!(seen, [(0, 0), (0, 1), (3, 0), (3, 1), (5, 0), (5, 1)]);
}

/// Reads whatever there is; it may be refused anywhere, but not panic.
fn read_anyhow(bytes: &[u8]) {
    let dir = folder(&[("a.arrow", bytes)]);
    let Ok(source) = spec().open("docs", dir.path()) else { return };
    let file = &source.files("train").unwrap()[0];
    let (Ok(_), Ok(_)) = (source.ranges(file, 0), source.count_records(file, 0)) else { return };
    let Ok(chunks) = source.read(file, 0, None, Box::new(|_| false)) else { return };
    for chunk in chunks.take(100) {
        let Ok(chunk) = chunk else { return };
        if let Ok(parsed) = source.parse(file, &chunk) {
            assert_eq!(parsed.examples.len() + parsed.bad_rows.len(), chunk.num_records as usize);
            show(&parsed);
        }
    }
}

#[test]
fn a_file_with_any_byte_flipped_is_read_or_refused() {
    for kind in ["arrow", "arrows"] {
        let bytes = write(&[numbers(0..3)], kind, Some(CompressionType::LZ4_FRAME));
        for place in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[place] ^= [0x01, 0x80, 0xff][place % 3];
            read_anyhow(&flipped);
        }
        for end in 0..bytes.len() {
            read_anyhow(&bytes[..end]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn a_damaged_file_of_every_type_is_read_or_refused(
        name in prop::sample::select(vec!["all.arrow", "all.arrows", "zstd.arrow", "lz4.arrow", "growing.arrows"]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        large in prop::option::of((any::<prop::sample::Index>(), any::<i64>())),
    ) {
        let mut bytes = golden_bytes(&format!("arrow/{name}"));
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        // Lengths and places are whole words.
        if let Some((place, word)) = large {
            let place = place.index(bytes.len() / 8 - 1) * 8;
            bytes[place..place + 8].copy_from_slice(&word.to_le_bytes());
        }
        read_anyhow(&bytes);
    }
}
