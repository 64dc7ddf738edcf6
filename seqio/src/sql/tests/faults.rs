//! What goes wrong while rows are read.

use super::*;

fn rows(text: &str) -> String {
    let dir = folder();
    read(&*open(dir.path(), &spec(text)), "train").replace(&*dir.path().to_string_lossy(), "DIR")
}

#[test]
fn equal_keys_and_null_keys_are_told_with_the_row() {
    insta::assert_snapshot!(rows("SELECT id % 20 AS id, text FROM docs"), @"query of split `train`: several rows have the key id=0; a key names one row: add columns to `key`, or select one row for each with GROUP BY");
    insta::assert_snapshot!(rows("SELECT 'one' AS id, text FROM docs"), @r#"query of split `train`: several rows have the key id="one"; a key names one row: add columns to `key`, or select one row for each with GROUP BY"#);
    insta::assert_snapshot!(rows("SELECT m.id, d.text FROM docs d LEFT JOIN meta m ON d.id = m.id"), @r#"query of split `train`: the key `id` is null in the row id=null, text="text 1"; leave such rows out, as `WHERE id IS NOT NULL`"#);
}

#[test]
fn values_that_cannot_be_are_told() {
    insta::assert_snapshot!(rows("SELECT id, 10 / (id - 5) AS n FROM docs"), @"query of split `train`: division by zero");
    insta::assert_snapshot!(rows("SELECT id, CAST(text AS int) AS n FROM docs"), @"query of split `train`: cannot cast string 'text 0' to value of Int32 type");
    insta::assert_snapshot!(rows("SELECT id, arrow_cast(id - 5, 'UInt64') AS n FROM docs"), @"query of split `train`: can't cast value -5 to type UInt64");
    insta::assert_snapshot!(rows("SELECT id, arrow_cast('18446744073709551615', 'UInt64') AS n FROM docs"), @"query of split `train`: `n` should be an int64, but is 18446744073709551615 in the row id=0, n=18446744073709551615");
    insta::assert_snapshot!(rows("SELECT id, make_array(1, NULL) AS n FROM docs"), @"query of split `train`: `n` item 2 should be an int64, but is null in the row id=0, n=[1, ]");
    insta::assert_snapshot!(rows("SELECT id, (SELECT lang FROM meta) AS n FROM docs"), @"query of split `train`: scalar subquery returned more than one row");
}

#[test]
fn a_bad_record_of_a_table_ends_the_query_with_file_and_line() {
    let dir = folder();
    let query = spec("SELECT d.id FROM docs d JOIN meta m ON d.id = m.id");
    let source = open(dir.path(), &query);
    let told = || read(&*source, "train").replace(&*dir.path().to_string_lossy(), "DIR");
    std::fs::write(dir.path().join("meta.jsonl"), "{\"id\": 1}\n\n{\"id\": \"two\"}\n").unwrap();
    insta::assert_snapshot!(told(), @"DIR/meta.jsonl: line 3: `id` should be an int64, but is a string");
    std::fs::remove_file(dir.path().join("meta.jsonl")).unwrap();
    let error = source.files("train").unwrap_err().to_string();
    assert!(error.starts_with("no file matches"), "{error}");
}

#[test]
fn a_query_that_is_told_to_stop_stops() {
    let dir = folder();
    let source = open(dir.path(), &spec("SELECT id FROM docs"));
    let budget = ReadBudget::default();
    budget.cancel.store(true, std::sync::atomic::Ordering::Relaxed);
    source.set_budget(&budget);
    insta::assert_snapshot!(read(&*source, "train"), @"query of split `train`: interrupted");
}

#[test]
fn sums_of_floats_that_would_have_to_be_spilled_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let query =
        "SELECT value % 2000000 AS id, sum(value / 3.0) AS s FROM generate_series(1, 2000000) GROUP BY 1";
    let source = open(dir.path(), &SourceSpec::sql([("train", query)]).key(["id"]));
    source.set_budget(&small_budget());
    insta::assert_snapshot!(read(&*source, "train"), @"query of split `train`: the query needs more memory than it may take; it sums floats or keeps the order of rows, and would not give the same result from disk: raise `--memory`, or cast what it sums to decimal");
}

#[test]
fn a_long_chain_of_conditions_is_no_harm() {
    let dir = folder();
    let chain = (0..300).map(|n| format!("id={n}")).collect::<Vec<_>>().join(" OR ");
    let source = open(dir.path(), &spec(&format!("SELECT id FROM docs WHERE {}", chain)));
    assert_eq!(read(&*source, "train").lines().count(), 40);
}
