//! What queries give.

use super::*;
use crate::example::ExampleId;
use crate::key::KeyValue;
use crate::source::{FileRanges, RawChunk, ScalarType};

fn rows(text: &str) -> String {
    let dir = folder();
    read(&*open(dir.path(), &spec(text)), "train")
}

#[test]
fn a_join_and_a_filter_give_rows_in_the_order_of_their_keys() {
    insta::assert_snapshot!(rows(
        "SELECT d.id, d.text, m.lang FROM docs d JOIN meta m ON d.id = m.id WHERE d.score >= 0.8 ORDER BY d.text DESC"
    ), @r###"
id=8: 8 | fr | text 8
id=18: 18 | en | text 18
id=28: 28 | de | text 28
id=38: 38 | fr | text 38
"###);
}

#[test]
fn values_of_every_type_come_out_as_they_are() {
    insta::assert_snapshot!(rows(
        "SELECT id, tags, id > 3 AS flag, CAST(id AS int) AS small, CAST(id AS double) / 4 AS f, CAST(NULL AS string) AS t, \
         arrow_cast(lang, 'Utf8View') AS v, make_array(id, 2) AS l FROM meta WHERE id < 5"
    ), @r###"
id=0: 0.0 | false | 0 | [0, 2] | 0 |  | [a, b] | en
id=2: 0.5 | false | 2 | [2, 2] | 2 |  | [a, b] | fr
id=4: 1.0 | true | 4 | [4, 2] | 4 |  | [a, b] | de
"###);
}

#[test]
fn names_are_as_they_stand_and_functions_in_any_case() {
    insta::assert_snapshot!(
        rows("SELECT id, UPPER(text) AS Loud, Length(text) AS \"how long\" FROM docs WHERE id = 12"),
        @"id=12: TEXT 12 | 7 | 12"
    );
}

#[test]
fn what_picks_rows_by_an_order_breaks_ties_by_the_other_columns() {
    insta::assert_snapshot!(rows("SELECT id, text FROM docs ORDER BY score DESC LIMIT 3"), @r###"
id=9: 9 | text 9
id=19: 19 | text 19
id=29: 29 | text 29
"###);
    insta::assert_snapshot!(rows("SELECT id FROM docs ORDER BY score LIMIT 2 OFFSET 1"), @r###"
id=10: 10
id=20: 20
"###);
    insta::assert_snapshot!(
        rows(
            "SELECT id, n FROM (SELECT id, row_number() OVER (PARTITION BY score ORDER BY score) AS n FROM docs) \
             WHERE n = 1 AND id < 4"
        ),
        @r###"
id=0: 0 | 1
id=1: 1 | 1
id=2: 2 | 1
id=3: 3 | 1
"###
    );
    insta::assert_snapshot!(
        rows("SELECT min(id) AS id, array_agg(id ORDER BY score) AS ids FROM docs WHERE id % 10 < 2 GROUP BY score"),
        @r###"
id=0: 0 | [0, 10, 20, 30]
id=1: 1 | [1, 11, 21, 31]
"###
    );
    insta::assert_snapshot!(
        rows("SELECT min(id) AS id, first_value(text ORDER BY score DESC) AS t FROM docs"),
        @"id=0: 0 | text 19"
    );
    insta::assert_snapshot!(
        rows("SELECT min(id) AS id, string_agg(text, '+' ORDER BY score) AS t FROM docs WHERE id % 10 = 7"),
        @"id=7: 7 | text 17+text 27+text 37+text 7"
    );
    insta::assert_snapshot!(rows("SELECT DISTINCT ON (score) id, score FROM docs WHERE id % 10 < 2 ORDER BY score"), @r###"
id=0: 0 | 0.0
id=1: 1 | 0.1
"###);
    insta::assert_snapshot!(
        rows(
            "SELECT id, lag(id) OVER (ORDER BY score) AS before, rank() OVER (ORDER BY score) AS r, \
             sum(id) OVER (ORDER BY score) AS s, count(*) OVER () AS n FROM docs WHERE id % 10 < 2 AND id < 20"
        ),
        @r###"
id=0:  | 0 | 4 | 1 | 10
id=1: 10 | 1 | 4 | 3 | 22
id=10: 0 | 10 | 4 | 1 | 10
id=11: 1 | 11 | 4 | 3 | 22
"###
    );
}

#[test]
fn ids_are_of_the_source_and_the_key_so_that_other_rows_move_none() {
    let dir = folder();
    let id = |spec: &SourceSpec, key: &str| {
        let source = open(dir.path(), spec);
        let files = source.files("train").unwrap();
        let result = files.last().unwrap();
        let chunks = source.read(result, 1, None, Box::new(|_| false)).unwrap();
        let rows = chunks.flat_map(|chunk| source.parse(result, &chunk.unwrap()).unwrap().examples.rows);
        rows.into_iter().find(|row| row.key.as_deref() == Some(key)).unwrap().id
    };
    let few = id(&spec("SELECT id, text FROM docs WHERE id > 20"), "id=30");
    let many = id(&spec("SELECT id, score FROM docs"), "id=30");
    let narrow = id(&spec("SELECT CAST(id AS int) AS id FROM docs"), "id=30");
    assert_eq!(few, many);
    assert_eq!(few, narrow);
    assert_eq!(few, ExampleId::of_key("docs", [&KeyValue::Number(30).bytes()[..]]));
    let text = id(&spec("SELECT CAST(id AS string) AS id FROM docs"), "id=\"30\"");
    assert_ne!(few, text);
    assert_ne!(few, id(&spec("SELECT id FROM docs").name("other"), "id=30"));
}

#[test]
fn the_files_of_a_split_are_those_of_the_tables_that_its_query_reads_and_its_result() {
    let dir = folder();
    let both = spec("SELECT d.id FROM docs d JOIN meta m ON d.id = m.id").files("few", "SELECT id FROM meta");
    let source = open(dir.path(), &both);
    let names =
        |split| -> Vec<String> { source.files(split).unwrap().into_iter().map(|file| file.name).collect() };
    assert_eq!(names("train"), ["docs/docs.jsonl", "meta/meta.jsonl", "train.sql"]);
    assert_eq!(names("few"), ["meta/meta.jsonl", "few.sql"]);
    let files = source.files("train").unwrap();
    assert_eq!(source.ranges(&files[0], 0).unwrap(), FileRanges::Known(Vec::new()));
    assert_eq!(source.ranges(&files[2], 2).unwrap(), FileRanges::Streamed);
    assert!(source.is_result(&files[2]) && !source.is_result(&files[0]));
    std::fs::write(dir.path().join("meta.jsonl"), "{\"id\": 1, \"lang\": \"en\"}\n").unwrap();
    let changed = source.files("train").unwrap();
    assert_eq!(files[0], changed[0]);
    assert_ne!(files[2], changed[2], "the result is another when a table is");
}

#[test]
fn a_result_is_cut_into_ranges_and_chunks_by_its_rows_alone() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("one.jsonl"), "{\"n\": 1}\n").unwrap();
    let chunks = |rows: u64, memory: u64| -> Vec<RawChunk> {
        let query =
            format!("SELECT value AS id, repeat('x', value % 4000) AS text FROM generate_series(1, {rows})");
        let source = open(dir.path(), &SourceSpec::sql([("train", query)]).key(["id"]));
        source.set_budget(&ReadBudget { memory_bytes: memory, ..ReadBudget::default() });
        let files = source.files("train").unwrap();
        let counted: u64 = source.count_records(&files[0], 0).unwrap().iter().map(|(_, count)| count).sum();
        assert_eq!(counted, rows);
        source.read(&files[0], 0, None, Box::new(|_| false)).unwrap().map(Result::unwrap).collect()
    };
    let shape = |chunks: &[RawChunk]| -> Vec<(u64, u64, u64, bool)> {
        let shape = |chunk: &RawChunk| {
            (chunk.range.start, chunk.first_ordinal, chunk.num_records, chunk.last_of_range)
        };
        chunks.iter().map(shape).collect()
    };
    assert_eq!(shape(&chunks(0, 0)), [(0, 0, 0, true)]);
    let large = chunks(70_000, u64::MAX);
    assert_eq!(shape(&large), shape(&chunks(70_000, 1)));
    let last: Vec<(u64, u64, u64, bool)> =
        shape(&large).into_iter().filter(|(.., last_of_range)| *last_of_range).collect();
    assert_eq!(last.len(), 2);
    assert_eq!(last[0].1 + last[0].2, 65_536);
    assert_eq!((last[1].0, last[1].1 + last[1].2), (65_536, 70_000 - 65_536));
    assert!(large.iter().all(|chunk| chunk.num_records <= 1024));
}

#[test]
fn declared_columns_of_tables_are_read_as_declared() {
    let dir = folder();
    let spec = SourceSpec::sql([("train", "SELECT id, score FROM docs WHERE id < 2")]).key(["id"]).table(
        "docs",
        TableSpec::jsonl("docs.jsonl").column("id", ScalarType::Float64).column("score", ScalarType::Float32),
    );
    let error = spec.open("docs", dir.path()).unwrap_err().to_string();
    assert!(error.contains("the key `id` is a float64"), "{error}");
    let spec = SourceSpec::sql([("train", "SELECT id, score FROM docs WHERE id < 2")]).key(["id"]).table(
        "docs",
        TableSpec::jsonl("docs.jsonl").column("id", ScalarType::Int32).column("score", ScalarType::Float32),
    );
    let source = open(dir.path(), &spec);
    insta::assert_snapshot!(read(&*source, "train"), @r###"
id=0: 0 | 0.0
id=1: 1 | 0.1
"###);
    assert_eq!(source.schema().field(1).data_type(), &arrow::datatypes::DataType::Float32);
}
