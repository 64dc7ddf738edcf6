//! Sources of a program's own by the laws of sources, and what is refused.

use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, Int64Array, StringArray};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::example::ExampleId;
use crate::source::testing::show;
use crate::source::{ScalarType, SourceSpec};

/// A batch of numbered rows.
fn batch(rows: std::ops::Range<usize>) -> RecordBatch {
    let texts: ArrayRef =
        Arc::new(rows.clone().map(|row| Some(format!("row {row}"))).collect::<StringArray>());
    let numbers: ArrayRef = Arc::new(rows.map(|row| row as i64).collect::<Int64Array>());
    RecordBatch::try_from_iter([("text", texts), ("n", numbers)]).unwrap()
}

fn numbered() -> ProgramSource {
    ProgramSource::new("1").column("text", ScalarType::String).column("n", ScalarType::Int64)
}

/// Numbered rows in batches that end at these places.
fn cut(cuts: Vec<usize>) -> ProgramSource {
    numbered().split("train", move || {
        let mut start = 0;
        Ok(cuts.clone().into_iter().map(move |end| {
            let rows = start..end.max(start);
            start = rows.end;
            Ok(batch(rows))
        }))
    })
}

fn open(source: ProgramSource, split: &str) -> Result<Arc<dyn DataSource>, SourceError> {
    let sources = ProgramSources::new().register("own", source);
    let spec = SourceSpec::program([(split, "own")]);
    Ok(sources.open("docs", &spec.splits, &spec.columns)?.0)
}

fn chunks(source: &dyn DataSource, range: Option<SourceRange>) -> Result<Vec<RawChunk>, SourceError> {
    let file = &source.files("train").unwrap()[0];
    source.read(file, 0, range, Box::new(|_| false))?.collect()
}

/// Everything of a split: chunks as they are cut, and rows as they are shown.
fn all(source: &dyn DataSource) -> (Vec<(u64, u64, bool)>, String, Vec<ExampleId>) {
    let file = &source.files("train").unwrap()[0];
    let (mut cuts, mut shown, mut ids) = (Vec::new(), String::new(), Vec::new());
    for chunk in chunks(source, None).unwrap() {
        cuts.push((chunk.range.start + chunk.first_ordinal, chunk.num_records, chunk.last_of_range));
        let parsed = source.parse(file, &chunk).unwrap();
        ids.extend(parsed.examples.rows.iter().map(|row| row.id));
        shown += &show(&parsed);
    }
    (cuts, shown, ids)
}

#[test]
fn a_list_is_a_source() {
    let list = ProgramSource::new("1")
        .column("text", ScalarType::String)
        .column("label", ColumnSpec { optional: true, ..ScalarType::Int32.into() })
        .examples("train", [json!({"text": "one", "label": 1}), json!({"text": "two"})])
        .unwrap();
    let (_, shown, ids) = all(&*open(list, "train").unwrap());
    insta::assert_snapshot!(shown, @"
    row 0 @0+0: label=1 text=one
    row 1 @1+0: label=null text=two
    ");
    assert_eq!(ids, [0, 1].map(|row| ExampleId::new("docs", "train", 0, row)));
}

#[test]
fn lists_are_told_apart_by_what_they_hold_and_functions_by_their_version() {
    let name = |source: ProgramSource| open(source, "train").unwrap().files("train").unwrap()[0].name.clone();
    let list = |text: &str| {
        let source = ProgramSource::new("1").column("text", ScalarType::String);
        name(source.examples("train", [json!({ "text": text })]).unwrap())
    };
    assert_eq!(list("a"), list("a"));
    assert_ne!(list("a"), list("b"));
    assert_eq!(name(cut(vec![3])), "train, version 1");
}

#[test]
fn each_reading_calls_the_function_again_and_ranges_are_read_alone() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let source = numbered().split("train", move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok((0..7).map(|part| Ok(batch(part * 10_000..(part + 1) * 10_000))))
    });
    let source = open(source, "train").unwrap();
    let whole = chunks(&*source, None).unwrap();
    let second: Vec<_> = whole.iter().filter(|chunk| chunk.range.start > 0).collect();
    assert_eq!(second.len(), 5, "70,000 rows are 65,536 and 4,464");
    let alone = chunks(&*source, Some(second[0].range)).unwrap();
    assert_eq!(alone.len(), 5);
    assert!(alone.iter().zip(second).all(|(a, b)| a.first_ordinal == b.first_ordinal));
    let counts = source.count_records(&source.files("train").unwrap()[0], 0).unwrap();
    assert_eq!(counts.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [65_536, 4_464]);
    assert_eq!(calls.load(Ordering::Relaxed), 3);
    let slice =
        source.slice(&"train[65530:65540]".parse().unwrap(), &source.files("train").unwrap()).unwrap();
    assert_eq!(
        slice.windows.iter().map(|(_, window)| window.clone()).collect::<Vec<_>>(),
        [65_530..65_536, 0..4]
    );
}

#[test]
fn long_rows_make_short_chunks() {
    let source = ProgramSource::new("1").column("text", ScalarType::String);
    let rows = (0..10).map(|_| json!({ "text": "x".repeat(400_000) }));
    let source = open(source.examples("train", rows).unwrap(), "train").unwrap();
    let cuts: Vec<u64> = chunks(&*source, None).unwrap().iter().map(|chunk| chunk.num_records).collect();
    assert_eq!(cuts, [3, 3, 3, 1]);
}

#[test]
fn mistakes_are_told() {
    let refused = |source: ProgramSource, split: &str| open(source, split).unwrap_err().to_string();
    insta::assert_snapshot!(refused(cut(vec![1]), "test"), @"the program's source `own` has no split `test`, only `train`");
    let sources = ProgramSources::new().register("other", cut(vec![1]));
    let spec = SourceSpec::program([("train", "own")]);
    let error = sources.open("docs", &spec.splits, &spec.columns).unwrap_err().to_string();
    insta::assert_snapshot!(error, @"this program has no source `own` of its own, only `other`");
    insta::assert_snapshot!(spec.open("docs", std::path::Path::new("")).unwrap_err(), @"`own` is a source of a program's own: only a program that registers it, by `Registry::with_sources`, can read it");
    let list = ProgramSource::new("1").column("text", ScalarType::String);
    let error = list.examples("train", [json!({"text": "a"}), json!({"body": "b"})]).unwrap_err();
    insta::assert_snapshot!(error, @"example 2 of split `train`: there is no field `text`, only `body`");

    let failing =
        |source: ProgramSource| chunks(&*open(source, "train").unwrap(), None).unwrap_err().to_string();
    let other = ProgramSource::new("1").column("body", ScalarType::String);
    insta::assert_snapshot!(failing(other.split("train", || Ok([Ok(batch(0..2))]))), @"the program's split `train` failed after 0 rows: a batch has no column `body`, only `text`, `n`");
    let other = ProgramSource::new("1").column("text", ScalarType::Int32);
    insta::assert_snapshot!(failing(other.split("train", || Ok([Ok(batch(0..2))]))), @"the program's split `train` failed after 0 rows: column `text` should be an int32, but a batch has Utf8");
    let breaks =
        numbered().split("train", || Ok([Ok(batch(0..2)), Err(ProgramError::from("the line is down"))]));
    insta::assert_snapshot!(failing(breaks), @"the program's split `train` failed after 2 rows: the line is down");
    let never =
        numbered().split("train", || -> Result<Vec<_>, _> { Err(ProgramError::from("no connection")) });
    insta::assert_snapshot!(failing(never), @"the program's split `train` failed after 0 rows: no connection");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_cut_into_batches_gives_the_same_chunks_rows_and_ids(
        rows in 0..3000usize, mut cuts in prop::collection::vec(0..3000usize, 0..20),
    ) {
        cuts.retain(|cut| *cut < rows);
        cuts.sort_unstable();
        cuts.push(rows);
        let whole = all(&*open(cut(vec![rows]), "train").unwrap());
        prop_assert_eq!(all(&*open(cut(cuts), "train").unwrap()), whole.clone());
        prop_assert_eq!(whole.2.len(), rows);
    }
}
