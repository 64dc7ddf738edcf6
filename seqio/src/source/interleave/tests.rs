//! Files that take turns: SeqIO's order, the ids of files read one after the other, and what is damaged.

use std::collections::BTreeMap;
use std::path::Path;

use arrow::array::AsArray as _;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::example::ExampleId;
use crate::source::SourceSpec;
use crate::source::compression::tests::pack;
use crate::source::testing::show;
use crate::source::tfrecord::tests::file as tfrecord;
use crate::split::Split;
use crate::vocabulary::golden::rows as golden_rows;

fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

/// All that a split gives, and the examples it consists of.
fn read(source: &dyn DataSource) -> (String, Vec<(String, ExampleRow)>) {
    let (mut shown, mut examples) = (String::new(), Vec::new());
    for (index, file) in (0u32..).zip(source.files("train").unwrap()) {
        let mut next = BTreeMap::new();
        for chunk in source.read(&file, index, None, Box::new(|_| false)).unwrap() {
            let chunk = chunk.unwrap();
            let ordinal: &mut u64 = next.entry(chunk.range.start).or_default();
            assert_eq!(chunk.first_ordinal, *ordinal);
            *ordinal += chunk.num_records;
            let parsed = source.parse(&file, &chunk).unwrap();
            let texts = parsed.examples.columns["text"].as_string::<i32>();
            let rows = texts.iter().zip(parsed.examples.rows.clone());
            examples.extend(rows.map(|(text, row)| (text.unwrap().to_owned(), row)));
            shown += &show(&parsed);
        }
        let counted = source.count_records(&file, index).unwrap();
        let found: Vec<u64> = next.into_values().collect();
        if source.is_result(&file) {
            assert_eq!(counted.iter().map(|(_, count)| *count).collect::<Vec<_>>(), found);
        }
    }
    (shown, examples)
}

fn texts(dir: &Path, spec: &SourceSpec) -> Vec<String> {
    let (_, examples) = read(&*spec.open("docs", dir).unwrap());
    examples.into_iter().map(|(text, _)| text).collect()
}

/// The files over which SeqIO's orders were taken, a header in each.
fn lines() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (file, lines) in [40, 3, 20, 0, 17].into_iter().enumerate() {
        let lines: String = (0..lines).map(|line| format!("f{file} line {line}\n")).collect();
        std::fs::write(dir.path().join(format!("part-{file}.txt")), format!("header\n{lines}")).unwrap();
    }
    dir
}

#[test]
fn lines_come_in_the_order_in_which_seqio_reads_them() {
    let dir = lines();
    let of_files = |files: Vec<usize>| {
        let patterns = files.into_iter().map(|file| ("train", format!("part-{file}.txt")));
        SourceSpec::text(patterns).skip_header_lines(1)
    };
    let mut checked = 0;
    for row in golden_rows("seqio/sources.jsonl").iter().filter(|row| row["output"].is_array()) {
        let number = |value: &Value| value.as_u64().map(|number| usize::try_from(number).unwrap());
        let length = |key: &str| row[key].as_u64().map_or(16, |length| u32::try_from(length).unwrap());
        let order = Interleave { cycle_length: length("cycle_length"), block_length: length("block_length") };
        let index = number(&row["shard_info"]["index"]).unwrap_or(0);
        let shards = number(&row["shard_info"]["num_shards"]).unwrap_or(1);
        // SeqIO gives hosts files, if there are enough, and else examples.
        let found = if shards <= 5 {
            texts(dir.path(), &of_files((index..5).step_by(shards).collect()).interleave(order))
        } else {
            let all = texts(dir.path(), &of_files((0..5).collect()).interleave(order));
            all.into_iter().skip(index).step_by(shards).collect()
        };
        assert_eq!(json!(found), row["output"], "{}", row["case"]);
        checked += 1;
    }
    assert_eq!(checked, 37);
}

#[test]
fn a_header_is_passed_over_and_slices_count_what_is_left() {
    let dir = lines();
    let spec = SourceSpec::text([("train", "part-*.txt")]).skip_header_lines(1);
    for spec in [spec.clone(), spec.interleave(Interleave::default())] {
        let source = spec.open("docs", dir.path()).unwrap();
        let files = source.files("train").unwrap();
        let (_, examples) = read(&*source);
        for slice in ["train[:41]", "train[41:45]", "train[50%:]"] {
            let slice: Split = slice.parse().unwrap();
            let mut found = Vec::new();
            for (range, ordinals) in source.slice(&slice, &files).unwrap().windows {
                let file = &files[range.file as usize];
                for chunk in source.read(file, range.file, Some(range), Box::new(|_| false)).unwrap() {
                    let parsed = source.parse(file, &chunk.unwrap()).unwrap().within(&ordinals);
                    found.extend(parsed.examples.rows.into_iter().map(|row| row.id));
                }
            }
            let wanted = slice.records(80);
            let wanted = usize::try_from(wanted.start).unwrap()..usize::try_from(wanted.end).unwrap();
            let expected: Vec<ExampleId> = examples[wanted].iter().map(|(_, row)| row.id).collect();
            assert_eq!(found, expected, "{slice}");
        }
    }
}

#[test]
fn bad_records_take_their_turn_and_are_named_by_file_and_line() {
    let good = |n: usize| format!("{{\"text\": \"{n}\"}}\n");
    let a = [good(0), "\n".to_owned(), "{\"text\": 7}\n".to_owned(), good(1), good(2)].concat();
    let cut = pack(good(3).repeat(2000).as_bytes(), "gz");
    let dir = folder(&[
        ("a.jsonl", a.as_bytes()),
        ("b.jsonl.gz", &cut[..cut.len() - 10]),
        ("c.jsonl", good(9).as_bytes()),
    ]);
    let order = Interleave { cycle_length: 3, block_length: 1 };
    let spec = SourceSpec::jsonl([("train", "*.jsonl*")]).column("text", crate::source::ScalarType::String);
    let spec = spec.interleave(order);
    let source = spec.open("docs", dir.path()).unwrap();
    let (shown, _) = read(&*source);
    let first: String = shown.lines().take(8).map(|line| format!("{line}\n")).collect();
    insta::assert_snapshot!(first, @"
    row 0 @0+0: text=0
    row 1 @1+0: text=3
    row 2 @2+0: text=9
    bad 3 @3: `a.jsonl`, line 3: `text` should be a string, but is the number 7
    row 4 @4+0: text=3
    row 5 @5+0: text=1
    row 6 @6+0: text=3
    row 7 @7+0: text=2
    ");
    let bad: String =
        shown.lines().filter(|line| line.starts_with("bad")).map(|line| format!("{line}\n")).collect();
    assert_eq!(bad.lines().count(), 2);
    assert!(bad.lines().last().unwrap().ends_with("the gzip stream ends early"), "{bad}");
    let file = source.files("train").unwrap().pop().unwrap();
    let chunk = source.read(&file, 3, None, Box::new(|_| false)).unwrap().next().unwrap().unwrap();
    let parsed = source.parse(&file, &chunk).unwrap();
    let reject = serde_json::to_string(&chunk.reject(&parsed.bad_rows[0])).unwrap();
    insta::assert_snapshot!(reject, @r#"{"reason":"`a.jsonl`, line 3: `text` should be a string, but is the number 7","row":"{\"text\": 7}"}"#);
}

#[test]
fn what_cannot_take_turns_is_refused() {
    let refused = |spec: SourceSpec| spec.check().unwrap_err().to_string();
    let turns = Interleave::default();
    insta::assert_snapshot!(refused(SourceSpec::parquet([("train", "a")]).interleave(turns)), @"only files of `text`, `jsonl`, `csv`, `tsv` and `tfrecord` take turns; leave `interleave` out");
    insta::assert_snapshot!(refused(SourceSpec::seqio_cache([("train", "a")]).interleave(turns)), @"caches of SeqIO are read in its order; leave `interleave` out");
    let text = || SourceSpec::text([("train", "a")]);
    insta::assert_snapshot!(refused(text().interleave(Interleave { cycle_length: 0, ..turns })), @"`cycle_length` is the number of files that are open at a time, and must be 1 or more");
    insta::assert_snapshot!(refused(text().interleave(Interleave { block_length: 0, ..turns })), @"`block_length` is the number of records of a turn, and must be 1 or more");
    insta::assert_snapshot!(refused(text().interleave(Interleave { cycle_length: 5000, ..turns })), @"`cycle_length` is 5000; at most 1,024 files are open at a time");
    insta::assert_snapshot!(refused(SourceSpec::jsonl([("train", "a")]).skip_header_lines(1)), @"only `text` has `skip_header_lines`; leave it out (of `csv` the header is known)");
    let dir = folder(&[("train.interleaved", b"a\n"), ("b", b"b\n")]);
    let source = SourceSpec::text([("train", "*")]).interleave(turns).open("docs", dir.path()).unwrap();
    let error = source.files("train").unwrap_err().to_string().replace(dir.path().to_str().unwrap(), "DIR");
    insta::assert_snapshot!(error, @"DIR/train.interleaved: has the name of what the files of the split make together; rename it, or leave out `interleave`");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_order_moves_no_id_and_loses_no_record(
        files in prop::collection::vec(prop::collection::vec("[a-z\"\n]{1,8}", 0..40), 1..6),
        cycle_length in 1..8u32, block_length in 1..20u32,
    ) {
        let order = Interleave { cycle_length, block_length };
        let quoted = |text: &str| format!("\"{}\"\n", text.replace('"', "\"\""));
        for kind in ["text", "jsonl", "csv", "tfrecord"] {
            let dir = tempfile::tempdir().unwrap();
            for (number, texts) in files.iter().enumerate() {
                let bytes: Vec<u8> = match kind {
                    "text" => texts.iter().flat_map(|text| (text.replace('\n', " ") + "\n").into_bytes()).collect(),
                    "jsonl" => texts.iter().flat_map(|text| format!("{}\n\n", json!({ "text": text })).into_bytes()).collect(),
                    "csv" => std::iter::once("text\n".to_owned()).chain(texts.iter().map(|text| quoted(text))).flat_map(String::into_bytes).collect(),
                    _ => tfrecord(&texts.iter().map(|text| json!({ "text": [text] })).collect::<Vec<_>>()),
                };
                std::fs::write(dir.path().join(format!("{number}.{kind}")), bytes).unwrap();
            }
            let pattern = [("train", format!("*.{kind}"))];
            let plain = match kind {
                "text" => SourceSpec::text(pattern),
                "jsonl" => SourceSpec::jsonl(pattern).column("text", crate::source::ScalarType::String),
                "csv" => SourceSpec::csv(pattern).column("text", crate::source::ScalarType::String),
                _ => SourceSpec::tfrecord(pattern).column("text", crate::source::ScalarType::String),
            };
            let (_, expected) = read(&*plain.open("docs", dir.path()).unwrap());
            let (_, found) = read(&*plain.interleave(order).open("docs", dir.path()).unwrap());
            let ids = |examples: &[(String, ExampleRow)]| -> BTreeMap<ExampleId, String> {
                examples.iter().map(|(text, row)| (row.id, text.clone())).collect()
            };
            prop_assert_eq!(ids(&found), ids(&expected), "{}", kind);
            prop_assert_eq!(found.len(), expected.len());
            // Of each file the records come in order.
            for number in 0..files.len() {
                let name = format!("{number}.{kind}");
                let of_file = |key: &Option<Arc<str>>| key.as_ref().is_some_and(|key| key.contains(&format!("{name:?}")));
                let kept: Vec<ExampleId> = found.iter().filter(|(_, row)| of_file(&row.key)).map(|(_, row)| row.id).collect();
                let places: Vec<usize> = kept.iter().map(|id| expected.iter().position(|(_, row)| row.id == *id).unwrap()).collect();
                prop_assert!(places.windows(2).all(|pair| pair[0] < pair[1]));
            }
        }
    }
}
