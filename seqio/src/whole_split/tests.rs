//! Splits read without a cache keep what a set in memory keeps.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use super::*;
use crate::preprocess::PreprocessError;
use crate::read::{ReadSplitError, SplitReader};
use crate::registry::Registry;
use crate::task::Task;
use std::sync::Arc;

fn task(folder: &Path, steps: &str) -> Arc<Task> {
    let text = format!(
        "[vocabulary.bytes]\nbyte = true\n[task.docs]\nsource = {{ jsonl = {{ train = \"*.jsonl\" }}, columns = {{ text = \
         \"string?\", n = \"float64?\", ids = \"list<int32>?\" }}, on_bad_row = \"skip\" }}\n\
         features = {{ text = {{ vocabulary = \"bytes\" }} }}\nsteps = [{steps}]\n"
    );
    let registry = Registry::from_text(folder.join("seqio.toml"), text).unwrap();
    registry.task("docs").unwrap()
}

/// Two files with bad rows, nulls, floats and lists, every content many times.
fn write_files(folder: &Path) {
    for file in 0..2 {
        let mut text = String::new();
        for row in 0..300 {
            let n = ["0.0", "-0.0", "1.5", "null"][(row * 7 + file) % 4];
            let ids = ["[]", "[1]", "[1,3]", "null", "[1,2]"][row * 11 % 5];
            match row % 13 {
                12 => text.push_str("bad\n"),
                11 => writeln!(text, "{{\"text\":null,\"n\":{n},\"ids\":{ids}}}").unwrap(),
                _ => writeln!(text, "{{\"text\":\"t{}\",\"n\":{n},\"ids\":{ids}}}", row % 9).unwrap(),
            }
        }
        std::fs::write(folder.join(format!("{file}.jsonl")), text).unwrap();
    }
}

/// File and ordinal of each example.
fn rows(reader: SplitReader) -> Vec<(u32, u64)> {
    let chunks = reader.map(|chunk| chunk.unwrap());
    chunks
        .flat_map(|chunk| {
            let file = chunk.range.file;
            chunk.examples.rows.into_iter().map(move |row| (file, row.origins[0].row))
        })
        .collect()
}

fn scratch(memory_bytes: u64) -> Scratch {
    Scratch::temporary(memory_bytes)
}

/// The first lines of equal content of what `key` picks from a record.
fn naive(folder: &Path, key: impl Fn(&serde_json::Value) -> Option<String>) -> Vec<(u32, u64)> {
    let mut seen = BTreeSet::new();
    let mut rows = Vec::new();
    for file in 0..2 {
        let text = std::fs::read_to_string(folder.join(format!("{file}.jsonl"))).unwrap();
        for (row, line) in (0..).zip(text.lines()) {
            let Ok(record) = serde_json::from_str(line) else { continue };
            if key(&record).is_none_or(|key| seen.insert(key)) {
                rows.push((file, row));
            }
        }
    }
    rows
}

#[test]
fn every_way_to_read_a_split_keeps_the_first_of_equal_examples() {
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path());
    let float = |value: &serde_json::Value| Some(format!("{:?}", value["n"].as_f64()? + 0.0));
    let list = |value: &serde_json::Value| value["ids"].as_array().map(|ids| format!("{ids:?}"));
    let text = |value: &serde_json::Value| value["text"].as_str().map(str::to_owned);
    let both = |value: &serde_json::Value| Some(format!("{} {}", text(value)?, float(value)?));
    let cases: [(&str, Vec<(u32, u64)>); 4] = [
        ("\"text\"", naive(folder.path(), text)),
        ("\"n\"", naive(folder.path(), float)),
        ("[\"ids\"]", naive(folder.path(), list)),
        ("[\"n\", \"text\"]", naive(folder.path(), both)),
    ];
    let split = "train".parse().unwrap();
    for (by, expected) in cases {
        let task =
            task(folder.path(), &format!("{{ op = \"deduplicate\", by = {by} }}, {{ op = \"tokenize\" }}"));
        assert!(expected.len() < 400, "{by}: {}", expected.len());
        for memory in [0, 1 << 20] {
            let (choices, reports) = SplitChoices::find(&task, &split, &scratch(memory)).unwrap();
            let reader = SplitReader::new(Arc::clone(&task), &split).unwrap().chosen(choices);
            assert_eq!(rows(reader), expected, "{by}");
            let counts = &reports[0].counts;
            assert_eq!(reports[0].examples - counts.dropped, expected.len() as u64, "{by}");
        }
        let reader = SplitReader::new(Arc::clone(&task), &split).unwrap().choosing();
        assert!(reader.is_exact());
        assert_eq!(rows(reader), expected, "{by}");
    }
}

#[test]
fn a_slice_is_compared_within_itself() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("0.jsonl"), "{\"text\":\"a\"}\n{\"text\":\"b\"}\n{\"text\":\"a\"}\n")
        .unwrap();
    std::fs::write(folder.path().join("1.jsonl"), "{\"text\":\"a\"}\n{\"text\":\"b\"}\n").unwrap();
    let task = task(folder.path(), "{ op = \"deduplicate\", by = \"text\" }, { op = \"tokenize\" }");
    for (split, expected) in [
        ("train", vec![(0, 0), (0, 1)]),
        ("train[2:]", vec![(0, 2), (1, 1)]),
        ("train[1:3]", vec![(0, 1), (0, 2)]),
    ] {
        let split = split.parse().unwrap();
        let (choices, _) = SplitChoices::find(&task, &split, &scratch(0)).unwrap();
        let reader = SplitReader::new(Arc::clone(&task), &split).unwrap().chosen(choices);
        assert_eq!(rows(reader), expected, "{split}");
    }
}

#[test]
fn several_steps_see_what_the_earlier_ones_keep_and_token_ids_can_be_compared() {
    let folder = tempfile::tempdir().unwrap();
    let line = |text: &str, n: u32| format!("{{\"text\":\"{text}\",\"n\":{n}}}\n");
    let text = [line("a", 1), line("a", 2), line("b", 2), line("c", 1), line("a", 3), line("d", 4)].concat();
    std::fs::write(folder.path().join("0.jsonl"), text).unwrap();
    let steps = "{ op = \"deduplicate\", by = \"n\" }, { op = \"tokenize\" }, { op = \"deduplicate\", by = \"text\" }";
    let task = task(folder.path(), steps);
    let split = "train".parse().unwrap();
    let (choices, reports) = SplitChoices::find(&task, &split, &scratch(0)).unwrap();
    let reader = SplitReader::new(Arc::clone(&task), &split).unwrap().chosen(choices);
    assert_eq!(rows(reader), [(0, 0), (0, 5)], "n keeps 1 2 3 4 of a a a d");
    let told: Vec<_> =
        reports.iter().map(|report| (report.step.number, report.examples, report.counts.dropped)).collect();
    assert_eq!(told, [(1, 6, 2), (3, 4, 2)]);
    let reader = SplitReader::new(Arc::clone(&task), &split).unwrap().choosing();
    assert_eq!(rows(reader), [(0, 0), (0, 5)]);
}

#[test]
fn a_task_is_not_read_without_the_choices_of_its_steps() {
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path());
    let task = task(folder.path(), "{ op = \"deduplicate\", by = \"text\" }, { op = \"tokenize\" }");
    let mut reader = SplitReader::new(Arc::clone(&task), &"train".parse().unwrap()).unwrap();
    let Some(Err(ReadSplitError::Step { error, .. })) = reader.next() else { panic!("read without choices") };
    let PreprocessError::InTask { error, .. } = *error else { panic!("{error}") };
    assert!(matches!(*error, PreprocessError::NotChosen { step: "deduplicate" }), "{error}");
}
