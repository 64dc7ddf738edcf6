//! Steps that drop and compute: `filter`, `select`, `format` with expressions.

use crate::support::{Project, files_below};

/// Pages in three languages: 90 in two files, most too short.
fn pages() -> Project {
    let project = Project::empty();
    project.write("seqio.toml", TASKS);
    let page = |number: usize| {
        let lang = ["\"en\"", "\"de\"", "null"][number % 3];
        let words = "word ".repeat(number % 5);
        format!("{{\"id\":{number},\"lang\":{lang},\"text\":\"page {number} {words}\",\"html\":\"<p>\"}}\n")
    };
    project.write("data/a.jsonl", (0..60).map(page).collect::<String>());
    project.write("data/b.jsonl", (60..90).map(page).collect::<String>());
    project
}

const TASKS: &str = r#"[vocabulary.bytes]
byte = true

[task.english]
source   = { jsonl = { train = "data/*.jsonl" }, columns = { id = "int64", lang = "string?", text = "string", html = "string" } }
features = { targets = { vocabulary = "bytes" } }
steps    = [
  { op = "filter", where = "lang = 'en'" },
  { op = "select", except = ["html", "lang"] },
  { op = "format", set = { targets = "{id}: {text}" }, compute = { letters = "length(text)" } },
  { op = "tokenize" },
  { op = "filter", where = "cardinality(targets) > 20 -- long ones" },
  { op = "select", columns = ["targets", "letters * 2 AS doubled", "id"] },
]
"#;

#[test]
fn dropped_examples_are_counted_wherever_a_person_looks() {
    let project = pages();
    let built = project.seqio("cache build english").ok().out();
    assert!(built.contains("18 examples"), "{built}");
    assert!(
        built
            .contains("\n  step 1 (`filter`) dropped 60 examples\n  step 5 (`filter`) dropped 12 examples\n")
    );
    let stats = project.seqio("stats english").ok().out();
    assert!(stats.contains("\n  step 1 (`filter`) dropped 60 examples\n"), "{stats}");
    let json = project.seqio("stats english --json").ok().json();
    assert_eq!(json[0]["dropped"][1], serde_json::json!({ "step": 5, "op": "filter", "examples": 12 }));
    insta::assert_snapshot!(project.seqio("explain english").ok().out());
    let inspected = project.seqio("inspect english -n 2").ok();
    insta::assert_snapshot!(inspected.out());
    insta::assert_snapshot!(inspected.err());
    let again = project.seqio("cache build english --json").ok().json();
    assert_eq!(
        (again["was_fresh"].as_bool(), again["dropped"][0]["examples"].as_u64()),
        (Some(true), Some(60))
    );
}

#[test]
fn examples_that_stay_keep_their_ids_and_are_found() {
    let project = pages();
    let found = project.seqio("inspect english -n 99 --json").ok().json();
    let raw = project.seqio("inspect english -n 99 --stage raw --json").ok().json();
    let id_of = |place: &str| {
        let raw = raw.as_array().unwrap().iter().find(|one| one["place"] == place).unwrap();
        raw["id"].clone()
    };
    for example in found.as_array().unwrap() {
        assert_eq!(example["id"], id_of(example["place"].as_str().unwrap()));
    }
    let line = "batch english --batch-size 4 --lengths 64 --step 0 --json";
    let batch = project.seqio(line).ok().out();
    assert!(batch.contains("a.jsonl") || batch.contains("b.jsonl"), "{batch}");
}

#[test]
fn a_cache_is_the_same_for_any_threads_and_memory_and_has_format_2() {
    let project = pages();
    let shards = |folder: &str| {
        let files = files_below(&project.path(folder).join("english"));
        let shards = files.into_iter().filter(|file| file.to_string_lossy().contains("train-"));
        shards.map(|file| std::fs::read(file).unwrap()).collect::<Vec<_>>()
    };
    project.seqio("cache build english --cache-dir one --threads 1").ok();
    project.seqio("cache build english --cache-dir two --threads 3 --memory 1MiB").ok();
    assert_eq!(shards("one"), shards("two"));
    let manifest = files_below(&project.path("one")).into_iter().find(|file| file.ends_with("manifest.json"));
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(manifest.unwrap()).unwrap()).unwrap();
    assert_eq!(manifest["format_version"], 2);
    project.seqio("cache verify --cache-dir one").ok();
}

#[test]
fn what_makes_no_difference_keeps_the_cache() {
    let project = pages();
    project.seqio("cache build english").ok();
    let changed = TASKS.replace("cardinality(targets) > 20 -- long ones", "cardinality( targets )>20");
    project.write("seqio.toml", &changed);
    assert!(project.seqio("cache build english").ok().out().contains("is up to date"));
    project.write("seqio.toml", changed.replace(">20", ">21"));
    let built = project.seqio("cache build english").ok();
    assert!(!built.out().contains("is up to date"), "{}", built.out());
    assert!(built.err().contains("cardinality(targets)>21"), "{}", built.err());
}

#[test]
fn a_value_that_cannot_be_names_its_line() {
    let project = pages();
    project.write("seqio.toml", TASKS.replace("lang = 'en'", "100 / (id - 63) > 0"));
    let message = project.seqio("cache build english").fails(1);
    assert!(message.contains("b.jsonl, line 4: ") && message.contains("division by zero"), "{message}");
    let message = project.seqio("inspect english -n 90").fails(1);
    assert!(message.contains("b.jsonl, line 4: "), "{message}");
}

#[test]
fn mistakes_are_shown_where_they_stand() {
    let project = pages();
    project.write("seqio.toml", TASKS.replace("lang = 'en'", "lagn = 'en'"));
    insta::assert_snapshot!(project.seqio("explain english").fails(3));
    project.write("seqio.toml", TASKS.replace("lang = 'en'", "random() < 0.1"));
    insta::assert_snapshot!(project.seqio("explain english").fails(3));
    let below =
        TASKS.replace("  { op = \"tokenize\" },\n", "  { op = \"tokenize\" },\n  { op = \"cache\" },\n");
    project.write("seqio.toml", below);
    insta::assert_snapshot!(project.seqio("explain english").fails(3));
}

#[test]
fn a_filter_that_leaves_nothing_leaves_an_empty_cache() {
    let project = pages();
    project.write("seqio.toml", TASKS.replace("lang = 'en'", "lang = 'none'"));
    let built = project.seqio("cache build english").ok().out();
    assert!(
        built.contains("0 examples") && built.contains("step 1 (`filter`) dropped 90 examples"),
        "{built}"
    );
    let shown = project.seqio("inspect english").ok();
    assert!(shown.out().contains("split `train` has no examples"), "{}", shown.out());
}

#[test]
fn reading_without_a_cache_drops_the_same_examples() {
    let project = pages();
    let line = "stream english --batch-size 2 --lengths 64 --order storage --epochs 1 --format jsonl";
    let spec = TASKS.replace("features = {", "shuffle  = []\nfeatures = {");
    project.write("seqio.toml", spec);
    let cached = project.seqio(line).ok().stdout;
    let computed = project.seqio(&format!("{line} --no-cache")).ok().stdout;
    assert_eq!(cached, computed);
}
