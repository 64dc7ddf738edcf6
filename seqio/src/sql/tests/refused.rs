//! Every kind of query that a source cannot have, refused before a row is read, with what to do.

use super::*;
use crate::source::OnBadRow;

fn refused(spec: &SourceSpec) -> String {
    let dir = folder();
    let error = spec.open("docs", dir.path()).map(|_| "accepted".to_owned());
    let words = error.unwrap_or_else(|error| error.to_string());
    words.replace(&*dir.path().to_string_lossy(), "DIR").replace("query of split `train`: ", "")
}

fn query(text: &str) -> String {
    refused(&spec(text))
}

#[test]
fn functions_that_give_another_value_in_each_run() {
    insta::assert_snapshot!(query("SELECT id, random() AS r FROM docs"), @"`random` gives another value in each run, so that rows could not be made again; leave it out or write the value itself");
    insta::assert_snapshot!(query("SELECT id, now() AS t FROM docs"), @"`now` gives another value in each run, so that rows could not be made again; leave it out or write the value itself");
    insta::assert_snapshot!(query("SELECT id, CAST(current_date AS string) AS t FROM docs"), @"`current_date` gives another value in each run, so that rows could not be made again; leave it out or write the value itself");
    insta::assert_snapshot!(query("SELECT id, current_timestamp AS t FROM docs"), @"`now` gives another value in each run, so that rows could not be made again; leave it out or write the value itself");
    insta::assert_snapshot!(query("SELECT id, current_time AS t FROM docs"), @"`current_time` gives another value in each run, so that rows could not be made again; leave it out or write the value itself");
    insta::assert_snapshot!(query("SELECT id, uuid() AS u FROM docs"), @"`uuid` gives another value in each run, so that rows could not be made again; leave it out or write the value itself");
    insta::assert_snapshot!(query("SELECT id FROM docs WHERE random() < 0.5"), @"`random` gives another value in each run, so that rows could not be made again; leave it out or write the value itself");
    insta::assert_snapshot!(query("SELECT id FROM docs WHERE id IN (SELECT id FROM meta ORDER BY random() LIMIT 3)"), @"`random` gives another value in each run, so that rows could not be made again; leave it out or write the value itself");
    insta::assert_snapshot!(query("WITH d AS (SELECT id, uuid() AS u FROM docs) SELECT id FROM d"), @"`uuid` gives another value in each run, so that rows could not be made again; leave it out or write the value itself");
    insta::assert_snapshot!(query("SELECT d.id FROM docs d JOIN meta m ON d.id = m.id AND random() > 0.1"), @"`random` gives another value in each run, so that rows could not be made again; leave it out or write the value itself");
    insta::assert_snapshot!(query("SELECT id FROM docs GROUP BY id HAVING max(random()) > 0.1"), @"`random` gives another value in each run, so that rows could not be made again; leave it out or write the value itself");
}

#[test]
fn statements_other_than_one_select() {
    insta::assert_snapshot!(query("INSERT INTO docs VALUES (1)"), @"a query is one SELECT, and this is INSERT");
    insta::assert_snapshot!(query("DELETE FROM docs"), @"a query is one SELECT, and this is DELETE");
    insta::assert_snapshot!(query("UPDATE docs SET id = 1"), @"a query is one SELECT, and this is UPDATE");
    insta::assert_snapshot!(query("CREATE TABLE t AS SELECT id FROM docs"), @"a query is one SELECT, and this is CREATE");
    insta::assert_snapshot!(query("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'"), @"a query is one SELECT, and this is CREATE");
    insta::assert_snapshot!(query("COPY docs TO 'out.csv'"), @"a query is one SELECT, and this is COPY");
    insta::assert_snapshot!(query("SET datafusion.execution.batch_size = 1"), @"a query is one SELECT, and this is SET");
    insta::assert_snapshot!(query("EXPLAIN SELECT id FROM docs"), @"a query is one SELECT, and this is EXPLAIN");
    insta::assert_snapshot!(query("SHOW TABLES"), @"a query is one SELECT, and this is SHOW");
    insta::assert_snapshot!(query("DROP TABLE docs"), @"a query is one SELECT, and this is DROP");
    insta::assert_snapshot!(query("SELECT id FROM docs; SELECT id FROM meta"), @"a query is one SELECT, and here are 2 statements");
    insta::assert_snapshot!(query("SELECT id INTO t FROM docs"), @"a query is one SELECT, and a part of this one writes something");
    insta::assert_snapshot!(query("-- nothing"), @"the query is empty; write a SELECT");
    insta::assert_snapshot!(query("SELEC id FROM docs"), @"the query cannot be read: expected: an SQL statement, found: SELEC (line 1, column 1 of the query)");
    insta::assert_snapshot!(query("SELECT id FROM docs WHERE"), @"the query cannot be read: expected: an expression, found: EOF");
}

#[test]
fn tables_that_are_not_declared() {
    insta::assert_snapshot!(query("SELECT id FROM dox"), @"there is no table `dox`, only `docs`, `meta` (did you mean `docs`?) (line 1, column 16 of the query)");
    insta::assert_snapshot!(query("SELECT d.id\nFROM docs d\nJOIN mega m ON d.id = m.id"), @"there is no table `mega`, only `docs`, `meta` (did you mean `meta`?) (line 3, column 6 of the query)");
    insta::assert_snapshot!(query("SELECT * FROM 'docs.jsonl'"), @"`docs.jsonl` is no declared table; files are declared under `tables` and named by their table; there are `docs`, `meta` (line 1, column 16 of the query)");
    insta::assert_snapshot!(query("SELECT * FROM '/etc/passwd.csv'"), @"`/etc/passwd.csv` is no declared table; files are declared under `tables` and named by their table; there are `docs`, `meta` (line 1, column 16 of the query)");
    insta::assert_snapshot!(query("SELECT * FROM \"s3://bucket/a.parquet\""), @"`s3://bucket/a.parquet` is no declared table; files are declared under `tables` and named by their table; there are `docs`, `meta` (line 1, column 16 of the query)");
    insta::assert_snapshot!(query("SELECT * FROM information_schema.tables"), @"`information_schema.tables` is no declared table; files are declared under `tables` and named by their table; there are `docs`, `meta` (line 1, column 34 of the query)");
    insta::assert_snapshot!(query("SELECT * FROM other.docs"), @"`other.docs` is no declared table; files are declared under `tables` and named by their table; there are `docs`, `meta` (line 1, column 21 of the query)");
}

#[test]
fn columns_that_are_not_there_or_that_examples_cannot_have() {
    insta::assert_snapshot!(query("SELECT id, txt FROM docs"), @"there is no column `txt`, only `docs.id`, `docs.score`, `docs.text` (did you mean `text`?) (line 1, column 12 of the query)");
    insta::assert_snapshot!(query("SELECT id,\n  d.langue\nFROM docs d"), @"there is no column `d.langue`, only `d.id`, `d.score`, `d.text` (line 2, column 3 of the query)");
    insta::assert_snapshot!(query("SELECT id FROM docs d JOIN meta m ON d.id = m.id"), @"several tables have a column `id`; write `table.id` (line 1, column 8 of the query)");
    insta::assert_snapshot!(query("SELECT id, text, upper(text) AS text FROM docs"), @"two columns are called `text`; give one another name with `AS`");
    insta::assert_snapshot!(query("SELECT d.id, m.id FROM docs d JOIN meta m ON d.id = m.id"), @"two columns are called `id`; give one another name with `AS`");
    insta::assert_snapshot!(query("SELECT id, CAST('2020-01-01' AS date) AS day FROM docs"), @"column `day` is of type Date32, which examples cannot have; write `CAST(day AS string)`");
    insta::assert_snapshot!(query("SELECT id, CAST(score AS decimal(10, 2)) AS s FROM docs"), @"column `s` is of type Decimal128(10, 2), which examples cannot have; write `CAST(s AS double)` or `CAST(s AS string)`");
    insta::assert_snapshot!(query("SELECT id, named_struct('a', 1) AS s FROM docs"), @r#"column `s` is of type Struct("a": Int64), which examples cannot have; select its parts, as `s['a']`"#);
    insta::assert_snapshot!(query("SELECT id, NULL AS n FROM docs"), @"column `n` is of type Null, which examples cannot have; say which: `CAST(n AS string)`");
    insta::assert_snapshot!(query("SELECT id, lenght(text) AS n FROM docs"), @"there is no function `lenght`; did you mean `length`? (line 1, column 12 of the query)");
    insta::assert_snapshot!(query("SELECT id, text + 1 AS n FROM docs WHERE text"), @"cannot create filter with non-boolean predicate 'docs.text' returning Utf8");
    insta::assert_snapshot!(query("SELECT id, $1 AS n FROM docs"), @"`$1` stands for a value that nothing gives; write the value itself");
}

#[test]
fn keys_that_name_no_row() {
    let with_key = |key: &[&str], text| refused(&spec(text).key(key.iter().copied()));
    insta::assert_snapshot!(with_key(&[], "SELECT id FROM docs"), @r#"a query needs a `key`: the columns of its result that name each row, and by which rows are ordered, as `key = ["id"]`"#);
    insta::assert_snapshot!(with_key(&["id", "id"], "SELECT id FROM docs"), @"`key` names `id` twice or not at all");
    insta::assert_snapshot!(with_key(&["idd"], "SELECT id, text FROM docs"), @"the key `idd` is no column of the result, which has `id`, `text` (did you mean `id`?); select it");
    insta::assert_snapshot!(with_key(&["score"], "SELECT score FROM docs"), @"the key `score` is a float64, and floats that look equal may not be; use a column of strings or whole numbers, or `CAST(score AS string)`");
    insta::assert_snapshot!(with_key(&["tags"], "SELECT tags FROM meta"), @"the key `tags` is a list of string; use columns of strings, whole numbers or booleans");
}

#[test]
fn rows_picked_without_an_order() {
    insta::assert_snapshot!(query("SELECT id FROM docs LIMIT 10"), @"LIMIT or OFFSET without ORDER BY takes any rows; add `ORDER BY`, or take a part with a slice, as `train[:1%]`");
    insta::assert_snapshot!(query("SELECT id FROM docs OFFSET 10"), @"LIMIT or OFFSET without ORDER BY takes any rows; add `ORDER BY`, or take a part with a slice, as `train[:1%]`");
    insta::assert_snapshot!(query("SELECT id FROM (SELECT id FROM docs LIMIT 5) ORDER BY id"), @"LIMIT or OFFSET without ORDER BY takes any rows; add `ORDER BY`, or take a part with a slice, as `train[:1%]`");
    insta::assert_snapshot!(query("SELECT id FROM docs WHERE EXISTS (SELECT 1 FROM meta LIMIT 1)"), @"LIMIT or OFFSET without ORDER BY takes any rows; add `ORDER BY`, or take a part with a slice, as `train[:1%]`");
    insta::assert_snapshot!(query("SELECT id, row_number() OVER () AS n FROM docs"), @"`row_number` over a window without ORDER BY takes rows as they come; write `OVER (… ORDER BY …)`");
    insta::assert_snapshot!(query("SELECT id, lag(text) OVER (PARTITION BY score) AS n FROM docs"), @"`lag` over a window without ORDER BY takes rows as they come; write `OVER (… ORDER BY …)`");
    insta::assert_snapshot!(query("SELECT id, sum(id) OVER (ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS n FROM docs"), @"`sum` over a window without ORDER BY takes rows as they come; write `OVER (… ORDER BY …)`");
    insta::assert_snapshot!(query("SELECT id, sum(score) OVER (ORDER BY id) AS n FROM docs"), @"`sum` of floats over a window that takes equal rows together depends on their order; write `ROWS BETWEEN … AND …`, or cast what it sums to decimal");
    insta::assert_snapshot!(query("SELECT id, array_agg(text) AS t FROM docs GROUP BY id"), @"`array_agg` without ORDER BY takes rows as they come; write `array_agg(… ORDER BY …)`");
    insta::assert_snapshot!(query("SELECT id, string_agg(text, ',') AS t FROM docs GROUP BY id"), @"`string_agg` without ORDER BY takes rows as they come; write `string_agg(… ORDER BY …)`");
    insta::assert_snapshot!(query("SELECT id, first_value(text) AS t FROM docs GROUP BY id"), @"`first_value` without ORDER BY takes rows as they come; write `first_value(… ORDER BY …)`");
    insta::assert_snapshot!(query("SELECT id, last_value(text) AS t FROM docs GROUP BY id"), @"`last_value` without ORDER BY takes rows as they come; write `last_value(… ORDER BY …)`");
    insta::assert_snapshot!(query("SELECT DISTINCT ON (score) id FROM docs"), @"DISTINCT ON without ORDER BY takes any row of several; add `ORDER BY`");
}

#[test]
fn definitions_without_sense() {
    insta::assert_snapshot!(refused(&spec("SELECT id FROM docs").on_bad_row(OnBadRow::Skip)), @"a query cannot pass over bad records, as each could change other rows; leave `on_bad_row` out and mend the tables, or declare only the `columns` that are needed");
    insta::assert_snapshot!(refused(&spec("SELECT id FROM docs").table("a-b", TableSpec::jsonl("docs.jsonl"))), @"`a-b` cannot name a table, only letters, digits and `_`");
    insta::assert_snapshot!(refused(&spec("SELECT id FROM docs").table("more", TableSpec::jsonl("absent-*.jsonl"))), @"no file matches `DIR/absent-*.jsonl`");
    insta::assert_snapshot!(refused(&spec("  ")), @"split `train` needs one query");
    insta::assert_snapshot!(refused(&spec("SELECT id FROM docs").files("train", "SELECT 1")), @"split `train` needs one query");
    insta::assert_snapshot!(
        refused(&spec("SELECT id FROM docs").files("validation", "SELECT id, text FROM docs")),
        @"query of split `validation`: its columns are `id` (int64), `text` (string), and those of split `train` are `id` (int64); a source has the same columns in all splits"
    );
    insta::assert_snapshot!(refused(&SourceSpec::jsonl([("train", "docs.jsonl")]).key(["id"])), @"`key` and `tables` are for `sql`; leave them out");
    let long = format!("SELECT id FROM docs WHERE id IN ({}1)", "1, ".repeat(30_000));
    insta::assert_snapshot!(query(&long), @"the query has 90035 bytes, and 65536 are allowed");
    let deep = format!("SELECT id FROM docs WHERE {}id = 1{}", "(".repeat(500), ")".repeat(500));
    insta::assert_snapshot!(query(&deep), @"the query cannot be read: it is nested too deeply");
}
