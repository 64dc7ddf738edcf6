//! Tasks whose source is a query.

use std::ops::Range;

use rustix::process::Signal;

use crate::cache::signal;
use crate::support::{Project, files_below, wait_until};

/// A join of two tables, and a filter of one.
const TASKS: &str = r#"[vocabulary.bytes]
byte = true

[task.joined.source]
sql    = { train = "SELECT d.id, d.text, m.lang FROM docs d JOIN meta m ON d.id = m.id WHERE m.lang <> 'fr'", validation = "SELECT id, text, 'en' AS lang FROM docs WHERE id < 5" }
key    = ["lang", "id"]
tables = { docs = { jsonl = "docs-*.jsonl" }, meta = { jsonl = "meta.jsonl" } }

[task.joined]
features = { targets = { vocabulary = "bytes" } }
steps    = [{ op = "rekey", to_from = { targets = "text" } }, { op = "tokenize" }, { op = "append_eos" }]
"#;

fn docs(ids: Range<usize>) -> String {
    ids.map(|id| format!("{{\"id\":{id},\"text\":\"document {id} {}\"}}\n", "x".repeat(id % 30))).collect()
}

fn project() -> Project {
    let project = Project::empty();
    project.write("seqio.toml", TASKS);
    project.write("docs-0.jsonl", docs(0..150));
    project.write("docs-1.jsonl", docs(150..300));
    let meta = |id: usize| format!("{{\"id\":{id},\"lang\":\"{}\"}}\n", ["en", "de", "fr"][id % 3]);
    project.write("meta.jsonl", (0..300).rev().map(meta).collect::<String>());
    project
}

/// Names and bytes of a cache's files but the log, which may vary.
fn content(project: &Project) -> Vec<(String, Vec<u8>)> {
    let folder = project.cache_of("joined");
    let files = files_below(&folder).into_iter().filter(|path| !path.ends_with("build.log.json"));
    files
        .map(|path| {
            let bytes = std::fs::read(&path).unwrap();
            (path.strip_prefix(&folder).unwrap().to_string_lossy().into_owned(), bytes)
        })
        .collect()
}

#[test]
fn a_query_is_explained_with_its_tables_and_key() {
    insta::assert_snapshot!(project().seqio("explain joined").ok().out());
}

#[test]
fn rows_are_known_by_their_keys_in_every_command() {
    let project = project();
    insta::assert_snapshot!("raw", project.seqio("inspect joined --stage raw -n 2").ok().out());
    project.seqio("cache build joined").ok();
    project.seqio("cache verify").ok();
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(project.cache_of("joined").join("manifest.json")).unwrap())
            .unwrap();
    assert_eq!(manifest["format_version"], 2);
    assert_eq!(manifest["splits"]["train"]["key"], serde_json::json!(["lang", "id"]));
    let shape = "--batch-size 4 --lengths 64 --epochs 1";
    let found = project.seqio(&format!("find lang=de,id=31 joined {shape} --json")).ok().json();
    assert_eq!(found[0]["key"], "lang=\"de\", id=31");
    let step = found[0]["examples"][0]["sightings"][0]["pieces"][0]["step"].as_u64().unwrap();
    let batch = project.seqio(&format!("batch joined {shape} --step {step} --json")).ok();
    assert!(batch.out().contains(r#""key":"lang=\"de\", id=31""#), "{}", batch.out());
    assert!(batch.out().contains("document 31 x"), "{}", batch.out());
    insta::assert_snapshot!("absent", project.seqio(&format!("find lang=fr,id=32 joined {shape}")).fails(1));
    insta::assert_snapshot!("other_key", project.seqio(&format!("find id=32 joined {shape}")).fails(2));
    insta::assert_snapshot!("no_task", project.seqio(&format!("find id=32 {shape}")).fails(2));
    project.seqio("stats joined").ok();
    let uncached =
        format!("stream joined --split validation --no-cache --order storage {shape} --format none --digest");
    let cached = uncached.replace(" --no-cache", "");
    assert_eq!(project.seqio(&uncached).ok().out(), project.seqio(&cached).ok().out());
}

#[test]
fn a_changed_table_or_query_makes_a_cache_stale_in_words() {
    let project = project();
    project.seqio("cache build joined").ok();
    let again = project.seqio("cache build joined").ok();
    assert!(
        again.out().contains("is up to date")
            || again.err().contains("up to date")
            || again.out().contains("already"),
        "{}{}",
        again.out(),
        again.err()
    );
    project.write("docs-1.jsonl", docs(150..301));
    let told = project.seqio("cache build joined --split train").ok();
    assert!(
        format!("{}{}", told.out(), told.err()).contains("`docs/docs-1.jsonl` has "),
        "{}{}",
        told.out(),
        told.err()
    );
    project.write("seqio.toml", TASKS.replace("<> 'fr'", "= 'en'"));
    let told = project.seqio("cache build joined --split train").ok();
    assert!(
        format!("{}{}", told.out(), told.err()).contains("`source.sql.train` was"),
        "{}{}",
        told.out(),
        told.err()
    );
    std::fs::remove_file(project.path("meta.jsonl")).unwrap();
    let away = project.seqio("stream joined --batch-size 4 --lengths 64 --epochs 1 --format none").ok();
    assert!(away.err().contains("the sources of `joined` are not here"), "{}", away.err());
}

#[test]
fn caches_are_the_same_with_any_threads_and_memory_by_workers_and_of_records_in_another_order() {
    let expected = {
        let project = project();
        project.seqio("cache build joined --threads 1 --memory 64MiB").ok();
        content(&project)
    };
    let other = project();
    other.seqio("cache build joined --threads 3 --memory 1GiB").ok();
    assert_eq!(content(&other), expected);
    let workers = project();
    for worker in ["1/2", "0/2"] {
        workers.seqio(&format!("cache build joined --worker {worker}")).ok();
    }
    workers.seqio("cache finish joined").ok();
    assert_eq!(content(&workers), expected);
    let turned = project();
    let lines = String::from_utf8(turned.read("docs-0.jsonl")).unwrap();
    turned.write("docs-0.jsonl", lines.lines().rev().map(|line| format!("{line}\n")).collect::<String>());
    turned.seqio("cache build joined").ok();
    let shards = |content: Vec<(String, Vec<u8>)>| -> Vec<(String, Vec<u8>)> {
        content.into_iter().filter(|(name, _)| name.ends_with(".arrow")).collect()
    };
    assert_eq!(shards(content(&turned)), shards(expected), "the order of records in a table is no matter");
}

#[test]
fn a_slice_counts_rows_of_the_result() {
    let project = project();
    project.seqio("cache build joined --split train[:10]").ok();
    let shown = project.seqio("inspect joined --split train[:10] --json -n 20").ok().json();
    assert_eq!(shown.as_array().unwrap().len(), 10);
    assert_eq!(shown[9]["key"], "lang=\"de\", id=28");
}

#[test]
fn mistakes_in_a_query_are_told_with_their_place_before_any_row_is_read() {
    let project = project();
    let told_with = |code: i32, from: &str, to: &str| {
        assert!(TASKS.contains(from), "{from}");
        project.write("seqio.toml", TASKS.replace(from, to));
        project.seqio("cache build joined").fails(code)
    };
    let told = |from: &str, to: &str| told_with(3, from, to);
    insta::assert_snapshot!("volatile", told("m.lang <> 'fr'", "random() < 0.5"));
    insta::assert_snapshot!("no_table", told("JOIN meta m", "JOIN mata m"));
    insta::assert_snapshot!("no_column", told("d.text, m.lang", "d.txt, m.lang"));
    insta::assert_snapshot!("no_key", told("key    = [\"lang\", \"id\"]\n", ""));
    insta::assert_snapshot!("key_not_selected", told("key    = [\"lang\", \"id\"]", "key = \"ident\""));
    insta::assert_snapshot!(
        "bad_table",
        told("meta = { jsonl = \"meta.jsonl\" }", "meta = { csw = \"meta.csv\" }")
    );
    insta::assert_snapshot!("no_files", told_with(1, "\"meta.jsonl\"", "\"mata.jsonl\""));
    insta::assert_snapshot!("skip", told("key    =", "on_bad_row = \"skip\"\nkey    ="));
    insta::assert_snapshot!("equal_keys", told_with(1, "key    = [\"lang\", \"id\"]", "key = \"lang\""));
}

/// A task that drops duplicates of the rows of a query.
fn of_query(query: &str) -> Project {
    let project = Project::empty();
    let text = format!(
        "[vocabulary.bytes]\nbyte = true\n[task.made]\nsource = {{ sql = {{ train = \"{query}\" }}, key = \"id\" }}\n\
         features = {{ targets = {{ vocabulary = \"bytes\" }} }}\n\
         steps = [{{ op = \"deduplicate\", by = \"text\" }}, {{ op = \"rekey\", to_from = {{ targets = \"text\" }} }}, \
         {{ op = \"tokenize\" }}]\n"
    );
    project.write("seqio.toml", text);
    project
}

/// Commands that read a query without a cache.
const READERS: [&str; 4] = [
    "inspect made",
    "query --task made SELECT(max(id))FROM(raw)",
    "stream made --no-cache --order storage --batch-size 4 --lengths 64 --epochs 1 --format none",
    "cache build made --dry-run",
];

#[test]
fn without_a_cache_a_query_takes_the_memory_of_its_command() {
    // More groups than fit, and sums that must not be spilled.
    let sums = "SELECT value % 1200000 AS id, 'x' AS text, sum(value / 3.0) AS s FROM generate_series(1, 1200000) GROUP BY 1";
    let project = of_query(sums);
    for command in READERS {
        let told = project.seqio(&format!("{command} --memory 32MiB")).fails(1);
        assert!(told.contains("the query needs more memory than it may take"), "{command}: {told}");
    }
}

#[test]
fn without_a_cache_a_query_ends_when_its_command_is_asked_to_stop() {
    let project =
        of_query("SELECT value AS id, repeat('x', 2000) AS text FROM generate_series(1, 1000000000)");
    let folder = project.path("tmp");
    std::fs::create_dir(&folder).unwrap();
    let has_spilled = || std::fs::read_dir(&folder).unwrap().next().is_some();
    for command in READERS {
        let mut child = project.command(&format!("{command} --memory 32MiB"));
        let child = child.env("TMPDIR", &folder).spawn().unwrap();
        wait_until("rows are sorted on disk", has_spilled);
        signal(&child, Signal::INT);
        let told = project.ended(child).fails(130);
        assert!(told.contains("stopped: at your request"), "{command}: {told}");
        assert!(!has_spilled(), "{command} has left its temporary files");
    }
}

#[test]
fn the_cost_of_a_query_can_be_measured() {
    let measured = project().seqio("bench cache joined --limit 1MB --json").ok().json();
    assert_eq!(measured["examples"], 200);
}
