//! A cache that SeqIO wrote, against what SeqIO reads of it; and caches with something missing.

use std::path::{Path, PathBuf};

use arrow::array::{Array as _, ArrayRef, AsArray as _, RecordBatch};
use arrow::datatypes::{Float32Type, Int32Type};
use serde_json::{Value, json};

use super::*;
use crate::example::{ExampleId, ExampleRow};
use crate::source::interleave::shard;
use crate::source::testing::show;
use crate::source::tfrecord::tests::file;
use crate::source::{DataSource, FileRanges, RawChunk, SourceRange, SourceSpec};
use crate::vocabulary::golden::rows as golden_rows;

const GENUINE: &str = "tests/golden/seqio/cache/genesis/seq2seq";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn spec(folder: &str) -> SourceSpec {
    SourceSpec::seqio_cache([("train", folder), ("validation", folder)])
}

/// The columns of a split, in order.
fn columns(source: &dyn DataSource, split: &str) -> (Vec<RecordBatch>, Vec<ExampleRow>) {
    let (mut batches, mut rows) = (Vec::new(), Vec::new());
    for (index, file) in (0u32..).zip(source.files(split).unwrap()) {
        for chunk in source.read(&file, index, None, Box::new(|_| false)).unwrap() {
            let parsed = source.parse(&file, &chunk.unwrap()).unwrap();
            assert_eq!(parsed.bad_rows, []);
            batches.push(parsed.examples.columns);
            rows.extend(parsed.examples.rows);
        }
    }
    (batches, rows)
}

fn ints(column: &ArrayRef, row: usize) -> Vec<i32> {
    column.as_list::<i32>().value(row).as_primitive::<Int32Type>().values().to_vec()
}

/// The examples as SeqIO's goldens write them, without what steps below the boundary add.
fn as_json(batch: &RecordBatch, row: usize) -> Value {
    let column = |name: &str| batch.column_by_name(name).unwrap();
    let text = |name: &str| column(name).as_string::<i32>().value(row).to_owned();
    let matrix = ints(column("matrix"), row);
    json!({
        "id": column("id").as_primitive::<Int32Type>().value(row),
        "ref": text("ref"),
        "inputs": ints(column("inputs"), row),
        "targets": ints(column("targets"), row),
        "targets_pretokenized": text("targets_pretokenized"),
        "score": column("score").as_primitive::<Float32Type>().value(row),
        "matrix": matrix.chunks(2).collect::<Vec<_>>(),
    })
}

#[test]
fn a_genuine_cache_has_the_values_and_the_order_that_seqio_reads() {
    let source = spec(GENUINE).open("docs", &root()).unwrap();
    let mut found = Vec::new();
    for split in ["train", "validation"] {
        let (batches, _) = columns(&*source, split);
        let rows = batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| as_json(batch, row)));
        found.extend(rows.enumerate().map(|(position, mut row)| {
            row["split"] = split.into();
            row["position"] = position.into();
            row
        }));
    }
    let expected: Vec<Value> = golden_rows("seqio/cache_expected_examples.jsonl")
        .into_iter()
        .map(|mut row| {
            for feature in ["inputs", "targets"] {
                // EOS stands below the boundary.
                assert_eq!(row[feature].as_array_mut().unwrap().pop(), Some(1.into()));
            }
            row
        })
        .collect();
    assert_eq!(found.len(), 420);
    assert_eq!(found, expected);
}

#[test]
fn hosts_of_seqio_read_the_records_that_turns_over_their_shards_give() {
    let source = spec(GENUINE).open("docs", &root()).unwrap();
    let (batches, rows) = columns(&*source, "train");
    let ids: Vec<i32> =
        batches.iter().flat_map(|batch| batch["id"].as_primitive::<Int32Type>().values().to_vec()).collect();
    let key = |shard: usize, record: usize| {
        format!("file=\"train.tfrecord-{shard:05}-of-00004\", record={}", record + 1)
    };
    let id_of: BTreeMap<String, i32> =
        rows.iter().zip(&ids).map(|(row, id)| (row.key.as_deref().unwrap().to_owned(), *id)).collect();
    assert_eq!(id_of.len(), 360);
    let mut checked = 0;
    for row in golden_rows("seqio/cache_expected_datasets.jsonl") {
        let Some(expected) = row["ids_in_order"].as_array() else { continue };
        let number = |name: &str| usize::try_from(row["shard_info"][name].as_u64().unwrap()).unwrap();
        let turns = shard(&[90; 4], number("index"), number("num_shards"));
        let found: Vec<Value> =
            turns.into_iter().map(|(shard, record)| id_of[&key(shard, record)].into()).collect();
        assert_eq!(&found, expected, "{}", row["shard_info"]);
        checked += 1;
    }
    assert_eq!(checked, 13);
}

#[test]
fn a_cache_obeys_the_laws_of_sources_and_its_order_moves_no_id() {
    let source = spec(GENUINE).open("docs", &root()).unwrap();
    for split in ["train", "validation"] {
        let files = source.files(split).unwrap();
        assert_eq!(files.iter().filter(|file| source.is_result(file)).count(), 1);
        let result = files.len() - 1;
        for (index, file) in (0u32..).zip(&files[..result]) {
            assert_eq!(source.ranges(file, index).unwrap(), FileRanges::Known(Vec::new()));
            assert_eq!(source.read(file, index, None, Box::new(|_| false)).unwrap().count(), 0);
            assert_eq!(source.count_records(file, index).unwrap(), []);
        }
        let (_, rows) = columns(&*source, split);
        let ids: std::collections::BTreeSet<ExampleId> = rows.iter().map(|row| row.id).collect();
        assert_eq!(ids.len(), rows.len());
        let shards = SourceSpec::tfrecord([(split, format!("{GENUINE}/{split}.tfrecord-*"))]);
        let (_, rows) = columns(&*shards.open("docs", &root()).unwrap(), split);
        assert_eq!(rows.iter().map(|row| row.id).collect::<std::collections::BTreeSet<_>>(), ids);
    }
    let slice = source.slice(&"train[10:30]".parse().unwrap(), &source.files("train").unwrap()).unwrap();
    assert_eq!(slice.windows.len(), 1);
    assert_eq!(slice.windows[0].1, 10..30);
    assert_eq!(slice.counts.iter().map(|(_, count)| count).sum::<u64>(), 360);
}

#[test]
fn columns_may_be_declared() {
    let some = spec(GENUINE)
        .column("targets", "list<int64>".parse::<ColumnSpec>().unwrap())
        .column("score", "float64".parse::<ColumnSpec>().unwrap())
        .column("more", "string?".parse::<ColumnSpec>().unwrap());
    let source = some.open("docs", &root()).unwrap();
    let (batches, _) = columns(&*source, "validation");
    assert_eq!(batches[0].num_columns(), 3);
    assert_eq!(batches[0]["more"].null_count(), batches[0].num_rows());
    let error = |name: &str, column: &str| {
        let spec = spec(GENUINE).column(name, column.parse::<ColumnSpec>().unwrap());
        let error = spec.open("docs", &root()).unwrap_err().to_string();
        error.split_once("seq2seq: ").unwrap().1.to_owned()
    };
    insta::assert_snapshot!(error("target", "list<int32>"), @"split `train` has no feature `target`, only `id`, `inputs`, `inputs_pretokenized`, `matrix`, `ref`, `score`, `targets`, `targets_pretokenized` (did you mean `targets`?)");
    insta::assert_snapshot!(error("targets", "int32"), @"feature `targets` of split `train` should be an int32, but is a list of int32");
    insta::assert_snapshot!(error("ref", "int32"), @"feature `ref` of split `train` should be an int32, but is a string");
}

/// A cache of two shards, of which files can be taken away or changed.
fn small(change: impl Fn(&Path)) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).unwrap();
    let info = json!({
        "features": { "targets": { "dtype": "int64", "shape": [null] }, "targets_plaintext": { "dtype": "string", "shape": [] } },
        "num_shards": 2,
    });
    put("info.train.json", info.to_string().as_bytes());
    put("stats.train.json", br#"{"examples": 3, "targets_tokens": 5}"#);
    put("COMPLETED", b"");
    let record = |n: usize| json!({ "targets": vec![n; n], "targets_plaintext": ["x".repeat(n)] });
    put("train.tfrecord-00000-of-00002", &file(&[record(0), record(1)]));
    put("train.tfrecord-00001-of-00002", &file(&[record(2)]));
    change(dir.path());
    dir
}

fn small_spec() -> SourceSpec {
    SourceSpec::seqio_cache([("train", "./")])
}

/// All of a small cache, or why it cannot be read.
fn read(dir: &tempfile::TempDir) -> Result<String, String> {
    let words = |error: SourceError| error.to_string().replace(dir.path().to_str().unwrap(), "DIR");
    let source = small_spec().open("docs", dir.path()).map_err(words)?;
    let mut shown = String::new();
    for (index, file) in (0u32..).zip(source.files("train").map_err(words)?) {
        for chunk in source.read(&file, index, None, Box::new(|_| false)).map_err(words)? {
            shown += &show(&source.parse(&file, &chunk.map_err(words)?).map_err(words)?);
        }
    }
    Ok(shown)
}

#[test]
fn old_caches_are_read_under_the_names_and_types_of_today() {
    let dir = small(|_| ());
    insta::assert_snapshot!(read(&dir).unwrap(), @"
    row 0 @0+0: targets=[] targets_pretokenized=
    row 1 @1+0: targets=[1] targets_pretokenized=x
    row 2 @2+0: targets=[2, 2] targets_pretokenized=xx
    ");
    let spec = small_spec().pin("docs", dir.path()).unwrap();
    assert_eq!(spec.columns["targets"].to_string(), "list<int32>");
}

#[test]
fn what_is_missing_or_does_not_agree_is_told_in_words() {
    let without =
        |name: &'static str| read(&small(|dir| std::fs::remove_file(dir.join(name)).unwrap())).unwrap_err();
    insta::assert_snapshot!(without("COMPLETED"), @"DIR/.: has no `COMPLETED`, so that SeqIO did not finish it; build it again, or make an empty file of this name if you know it to be whole");
    insta::assert_snapshot!(without("info.train.json"), @"DIR/.: is no cache of SeqIO: it has no `info.train.json`");
    insta::assert_snapshot!(without("train.tfrecord-00001-of-00002"), @"DIR/.: should have 2 shards of `train`, but `train.tfrecord-00001-of-00002` is not there");
    let with = |name: &'static str, bytes: &'static [u8]| {
        read(&small(|dir| std::fs::write(dir.join(name), bytes).unwrap())).unwrap_err()
    };
    insta::assert_snapshot!(with("stats.train.json", b"{\"examples\": 4}"), @"DIR/stats.train.json: says that there are 4 examples, but the shards hold 3; a shard was cut off or replaced");
    insta::assert_snapshot!(with("info.train.json", b"{}"), @"DIR/info.train.json: is no info file of a SeqIO cache: missing field `features` at line 1 column 2");
    insta::assert_snapshot!(with("train.tfrecord-00000-of-00002", b"no records in here"), @"DIR/train.tfrecord-00000-of-00002: is no TFRecord file: it does not begin with a length and its checksum");
    let other = read(&small(|dir| {
        std::fs::rename(dir.join("info.train.json"), dir.join("info.test.json")).unwrap();
    }));
    insta::assert_snapshot!(other.unwrap_err(), @"DIR/.: has no `info.train.json`; it has the splits `test`");
    // Without statistics there is nothing to compare with.
    read(&small(|dir| std::fs::remove_file(dir.join("stats.train.json")).unwrap())).unwrap();
}

#[test]
fn a_damaged_record_names_its_shard_and_the_others_are_read() {
    let dir = small(|dir| {
        let path = dir.join("train.tfrecord-00000-of-00002");
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
    });
    insta::assert_snapshot!(read(&dir).unwrap(), @"
    row 0 @0+0: targets=[] targets_pretokenized=
    bad 1 @1: `train.tfrecord-00000-of-00002`, record 2: the file ends within the record at byte 62, which should have 48 bytes
    row 2 @2+0: targets=[2, 2] targets_pretokenized=xx
    ");
    let dir = small(|dir| {
        let path = dir.join("train.tfrecord-00000-of-00002");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[20] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
    });
    insta::assert_snapshot!(read(&dir).unwrap(), @"
    bad 0 @0: `train.tfrecord-00000-of-00002`, record 1: the data of the record at byte 0 (46 bytes) fail their checksum: c787033f is stored, 07c78a50 is found
    row 1 @1+0: targets=[1] targets_pretokenized=x
    row 2 @2+0: targets=[2, 2] targets_pretokenized=xx
    ");
}

#[test]
fn many_shards_are_read_in_ranges() {
    let dir = small(|dir| {
        let record = |n: usize| json!({ "targets": [n], "targets_plaintext": [n.to_string()] });
        let records: Vec<Value> = (0..1500).map(record).collect();
        std::fs::write(dir.join("train.tfrecord-00000-of-00002"), file(&records)).unwrap();
        std::fs::write(dir.join("stats.train.json"), "{\"examples\": 1501}").unwrap();
    });
    let source = small_spec().open("docs", dir.path()).unwrap();
    let file = source.files("train").unwrap().pop().unwrap();
    let chunks = |range| -> Vec<RawChunk> {
        let chunks = source.read(&file, 2, range, Box::new(|_| false)).unwrap();
        chunks.map(Result::unwrap).collect()
    };
    let all = chunks(None);
    assert_eq!(all.iter().map(|chunk| chunk.num_records).collect::<Vec<_>>(), [1024, 477]);
    assert_eq!(all.iter().map(|chunk| chunk.last_of_range).collect::<Vec<_>>(), [false, true]);
    assert_eq!(all[1].first_ordinal, 1024);
    assert_eq!(chunks(Some(all[0].range)).len(), 2);
    let beyond = SourceRange { file: 2, start: 1 << 16, end: 2 << 16 };
    assert_eq!(chunks(Some(beyond)).len(), 0);
    assert_eq!(source.count_records(&file, 2).unwrap(), [(all[0].range, 1501)]);
}
