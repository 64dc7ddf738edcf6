//! `seqio query`.

use std::process::Command;

use crate::support::{Project, Ran};

/// Runs `seqio query SQL` with further arguments.
fn query(project: &Project, sql: &str, more: &str) -> Ran {
    let mut command = project.command("query");
    command.arg(sql).args(more.split_whitespace());
    project.run(&mut command)
}

#[test]
fn which_files_have_long_documents_is_asked_in_a_line() {
    let project = Project::new();
    let sql = "SELECT file, count(*) AS n, max(tokens) AS longest FROM documents WHERE tokens > 80 \
               GROUP BY file ORDER BY file";
    let computed = query(&project, sql, "--task docs").ok();
    insta::assert_snapshot!(computed.out());
    insta::assert_snapshot!(computed.err(), @"note: `docs`, split `train`, has no cache: its examples are computed from the source");
    project.seqio("cache build docs").ok();
    let cached = query(&project, sql, "--task docs").ok();
    assert_eq!((cached.out(), cached.err().as_str()), (computed.out(), ""));
}

#[test]
fn cached_and_computed_tables_hold_the_same() {
    let project = Project::new();
    let queries = [
        "SELECT _id, _file, _row, _tokens, _targets_tokens, targets FROM examples ORDER BY _id",
        "SELECT id, file, row, tokens, inputs_tokens, targets_tokens FROM documents ORDER BY id",
        "SELECT feature, id, piece, count(*) AS n, max(position) AS last FROM tokens GROUP BY 1, 2, 3 ORDER BY 1, 2",
        "SELECT count(*) AS n FROM tokens",
        "SELECT r.en, cardinality(e.inputs) AS n FROM raw r JOIN examples e ON r._id = e._id ORDER BY r.en",
    ];
    let answers = || queries.map(|sql| query(&project, sql, "--task pairs --json").ok().out());
    let computed = answers();
    project.seqio("cache build pairs").ok();
    assert_eq!(answers(), computed);
    insta::assert_snapshot!(computed[1]);
    let folder = format!("--cache {}", project.cache_of("pairs").display());
    assert_eq!(query(&Project::empty(), queries[1], &(folder + " --json")).ok().out(), computed[1]);
}

#[test]
fn raw_rows_have_the_columns_of_the_source_and_their_place() {
    let project = Project::new();
    let sql = "SELECT en, _file, _row FROM raw WHERE length(fr) > 4 ORDER BY _row DESC";
    insta::assert_snapshot!(query(&project, sql, "--task pairs --csv").ok().out());
    let sliced =
        query(&project, "SELECT _file, _row FROM raw", "--task docs --split train[39:41] --csv").ok();
    assert_eq!(sliced.out(), "_file,_row\ntrain-0.jsonl,40\ntrain-1.jsonl,1\n");
}

#[test]
fn statistics_are_those_of_the_cache() {
    let project = Project::new();
    let sql = "SELECT value FROM statistics WHERE split = 'train' AND statistic = 'examples'";
    let message = query(&project, sql, "--task docs").fails(1);
    insta::assert_snapshot!(message, @r"
    error: the table `statistics` is that of a cache, and `docs`, split `train`, has no cache

    hint: `seqio cache build docs` makes one
    ");
    project.seqio("cache build docs").ok();
    assert_eq!(query(&project, sql, "--task docs --csv").ok().out(), "value\n60.0\n");
    let all = "SELECT split, feature, statistic, value FROM statistics WHERE split = 'validation'";
    insta::assert_snapshot!(query(&project, all, "--task docs").ok().out());
}

#[test]
fn tables_are_listed_with_their_columns() {
    let project = Project::new();
    insta::assert_snapshot!(project.seqio("query --tables --task pairs").ok().out());
    let tables = project.seqio("query --tables --task docs --json").ok().json();
    assert_eq!(tables[0]["table"], "raw");
    assert_eq!(tables[0]["columns"][0], serde_json::json!({ "name": "text", "type": "string" }));
}

#[test]
fn mistakes_are_told_before_anything_is_read() {
    let project = Project::new();
    let fails = |sql: &str| query(&project, sql, "--task docs").fails(1);
    insta::assert_snapshot!(fails("SELECT txt FROM raw"), @"error: there is no column `txt`, only `raw.text`, `raw._id`, `raw._file`, `raw._row` (did you mean `text`?) (line 1, column 8 of the query)");
    insta::assert_snapshot!(fails("SELECT * FROM document"), @r"
    error: there is no table `document`, only `raw`, `examples`, `documents`, `tokens`, `statistics`

    hint: did you mean `documents`?
    ");
    insta::assert_snapshot!(fails("DELETE FROM raw"), @"error: a query is one SELECT, and this is DELETE");
    insta::assert_snapshot!(fails("SELECT count( FROM raw"), @"error: the query cannot be read: expected: ), found: raw (line 1, column 20 of the query)");
    insta::assert_snapshot!(query(&project, "SELECT 1 FROM raw", "").fails(2), @"error: name a task with `--task`, or a cache folder with `--cache`; the tasks are `docs`, `pairs`");
    insta::assert_snapshot!(query(&project, "SELECT 1 FROM raw", "--task doc").fails(3), @r"
    error: there is no task `doc`

    hint: did you mean `docs`?
    ");
    assert_eq!(query(&project, "SELECT 1 + 1 AS two", "--json").ok().out(), "{\"two\":2}\n");
}

#[test]
fn a_row_that_cannot_be_read_ends_the_query_with_its_line() {
    let project = Project::new();
    project.write("data/train-1.jsonl", "{\"text\":\"a\"}\n{\"text\":7}\n");
    let message = query(&project, "SELECT count(*) FROM raw", "--task docs").fails(1);
    assert!(message.contains("train-1.jsonl, line 2: "), "{message}");
    let some = query(&project, "SELECT text FROM raw", "--task docs --limit 3 --json").ok();
    assert_eq!(some.json_lines().len(), 3, "rows that are not asked for are not read");
    let tasks = String::from_utf8(project.read("seqio.toml")).unwrap();
    project.write(
        "seqio.toml",
        tasks.replace("{ text = \"string\" } }", "{ text = \"string\" }, on_bad_row = \"skip\" }"),
    );
    let skipped = query(&project, "SELECT count(*) AS n FROM raw", "--task docs --json").ok();
    assert_eq!(skipped.out(), "{\"n\":41}\n");
    assert!(skipped.err().contains("skipped 1 bad record"), "{}", skipped.err());
}

#[test]
fn a_large_sort_stays_within_its_memory() {
    let project = Project::new();
    let sql = "SELECT length(wide) FROM (SELECT repeat(text, 20) AS wide, _row, value FROM raw \
               CROSS JOIN generate_series(1, 900) ORDER BY value DESC, _row)";
    let rows = query(&project, sql, "--task docs --memory 32MiB --csv").ok().out();
    assert_eq!(rows.lines().count(), 1 + 60 * 900);
}

#[test]
fn a_terminal_gets_a_hundred_rows_and_a_note() {
    let project = Project::new();
    let mut script = Command::new("script");
    let line = format!("{} query 'SELECT * FROM generate_series(1, 500)'", env!("CARGO_BIN_EXE_seqio"));
    script.args(["-qec", &line, "/dev/null"]).current_dir(project.path("")).env("TERM", "xterm");
    script.stdin(std::process::Stdio::null());
    script.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let shown = project.run(&mut script).ok().out();
    assert!(shown.contains("these are the first 100 rows; `--limit N` shows others"), "{shown}");
    assert!(!shown.contains("101"), "{shown}");
}

#[test]
fn filtered_examples_are_in_no_table_but_raw() {
    let project = Project::new();
    let tasks = String::from_utf8(project.read("seqio.toml")).unwrap();
    let filtered = tasks.replace(
        "{ op = \"rekey\", to_from = { targets = \"text\" } },",
        "{ op = \"filter\", where = \"length(text) > 50\" }, { op = \"rekey\", to_from = { targets = \"text\" } },",
    );
    project.write("seqio.toml", filtered);
    let count = |table: &str| {
        let ran = query(&project, &format!("SELECT count(*) AS n FROM {table}"), "--task docs --json").ok();
        ran.json_lines()[0]["n"].as_u64().unwrap()
    };
    let (raw, left) = (count("raw"), count("documents"));
    assert_eq!((raw, count("examples")), (60, left));
    assert!(left > 0 && left < 60, "{left}");
}

#[test]
fn duplicates_are_in_no_table_but_raw() {
    let project = Project::new();
    let tasks = String::from_utf8(project.read("seqio.toml")).unwrap();
    let step =
        "{ op = \"deduplicate\", by = \"text\" }, { op = \"rekey\", to_from = { targets = \"text\" } },";
    project.write("seqio.toml", tasks.replace("{ op = \"rekey\", to_from = { targets = \"text\" } },", step));
    let lines = project.read("data/train-0.jsonl");
    project.write("data/train-1.jsonl", &lines);
    let sql =
        "SELECT (SELECT count(*) FROM raw) AS raw, count(*) AS examples, max(file) AS file FROM documents";
    let computed = query(&project, sql, "--task docs --json").ok();
    assert_eq!(computed.out(), "{\"raw\":80,\"examples\":40,\"file\":\"train-0.jsonl\"}\n");
    project.seqio("cache build docs").ok();
    assert_eq!(query(&project, sql, "--task docs --json").ok().out(), computed.out());
}
