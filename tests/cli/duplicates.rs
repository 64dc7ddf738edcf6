//! `deduplicate`: what is dropped, and how it is told by `cache build`, `stats`, `explain`, `inspect` and `stream`.

use std::collections::BTreeSet;

use crate::cache::content;
use crate::support::{Project, files_below, wait_until};

const TASKS: &str = r#"[vocabulary.bytes]
byte = true

[task.docs]
source   = { jsonl = { train = "data/train-*.jsonl", validation = "data/valid.jsonl" }, columns = { text = "string?", n = "int64" } }
features = { targets = { vocabulary = "bytes" } }
shuffle  = []
steps    = [
  { op = "deduplicate", by = "text" },
  { op = "rekey", to_from = { targets = "text" } },
  { op = "tokenize" },
  { op = "append_eos" },
]

[task.ids]
source   = { jsonl = { train = "data/train-*.jsonl" }, columns = { text = "string?", n = "int64" } }
features = { targets = { vocabulary = "bytes" } }
steps    = [
  { op = "rekey", to_from = { targets = "text" } },
  { op = "tokenize" },
  { op = "deduplicate", by = ["targets"] },
]

[task.below]
source   = { jsonl = { train = "data/train-*.jsonl" }, columns = { text = "string?", n = "int64" } }
features = { text = { vocabulary = "bytes" } }
steps    = [{ op = "tokenize" }, { op = "cache" }, { op = "deduplicate", by = "text" }]
"#;

/// 120 records in three files, of 25 texts and some without one.
fn project() -> Project {
    let project = Project::empty();
    project.write("seqio.toml", TASKS);
    for file in 0..3 {
        let line = |row: usize| match (file * 7 + row) % 28 {
            25.. => format!("{{\"text\":null,\"n\":{row}}}\n"),
            n => format!("{{\"text\":\"document {n}\",\"n\":{row}}}\n"),
        };
        project.write(&format!("data/train-{file}.jsonl"), (0..40).map(line).collect::<String>());
    }
    project.write("data/valid.jsonl", "{\"text\":\"document 1\",\"n\":0}\n".repeat(3));
    project
}

/// What a set of texts in memory keeps, as file and line, and how many lines there are.
fn naive(project: &Project) -> (Vec<String>, usize) {
    let mut seen = BTreeSet::new();
    let mut kept = Vec::new();
    let mut lines = 0;
    for file in 0..3 {
        let name = format!("data/train-{file}.jsonl");
        let text = String::from_utf8(project.read(&name)).unwrap();
        for (number, line) in text.lines().enumerate() {
            lines += 1;
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            if record["text"].is_null() || seen.insert(record["text"].to_string()) {
                kept.push(format!("{name}:{}", number + 1));
            }
        }
    }
    (kept, lines)
}

#[test]
fn a_build_tells_what_it_dropped_and_lists_every_case() {
    let project = project();
    let (kept, lines) = naive(&project);
    let built = project.seqio("cache build docs --split train --json").ok().json_lines();
    let told = &built[0]["duplicates"][0];
    assert_eq!(told["dropped"], (lines - kept.len()) as u64);
    assert_eq!(built[0]["examples"], kept.len() as u64);
    let listing = built[0]["duplicates_file"].as_str().unwrap().to_owned();
    let listing = String::from_utf8(project.read(&listing)).unwrap();
    assert_eq!(listing.lines().count(), lines - kept.len());
    for line in listing.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let record = |file: &str, row: &str| -> serde_json::Value {
            let text = project.read(&format!("data/{}", line[file].as_str().unwrap()));
            let row = line[row].as_u64().unwrap() as usize;
            serde_json::from_str(String::from_utf8(text).unwrap().lines().nth(row).unwrap()).unwrap()
        };
        assert_eq!(record("file", "row")["text"], record("kept_file", "kept_row")["text"]);
        assert!(kept.contains(&format!(
            "data/{}:{}",
            line["kept_file"].as_str().unwrap(),
            line["kept_row"].as_u64().unwrap() + 1
        )));
    }
    let again = project.seqio("cache build docs --split train").ok().out();
    let shown: Vec<&str> = again.lines().skip(1).take(4).collect();
    insta::assert_snapshot!(shown.join("\n"));
    let stats = project.seqio("stats docs --split train").ok().out();
    assert!(shown.iter().all(|line| stats.contains(line)), "{stats}");
    assert_eq!(project.seqio("stats docs --split train --json").ok().json()[0]["duplicates"][0], *told);
    project.seqio("cache verify docs").ok();
}

#[test]
fn threads_and_memory_change_no_byte_and_no_cache_gives_the_same_batches() {
    let caches: Vec<_> = ["--threads 1", "--threads 4", "--threads 2 --memory 1MiB"]
        .iter()
        .map(|options| {
            let project = project();
            project.seqio(&format!("cache build docs {options}")).ok();
            content(&project.cache_of("docs"))
        })
        .collect();
    assert!(caches[0].keys().any(|name| name == "train.duplicates.jsonl"));
    assert!(caches[0] == caches[1] && caches[0] == caches[2]);

    let project = project();
    let stream = "stream docs --split train --batch-size 4 --lengths 64 --epochs 2 --order storage --digest=rows --format none";
    let uncached = project.seqio(&format!("{stream} --no-cache --memory 1MiB")).ok();
    assert!(uncached.err().contains("step 1, deduplicate by text: "), "{}", uncached.err());
    assert_eq!(uncached.out(), project.seqio(stream).ok().out());
    assert!(!uncached.out().is_empty());
}

#[test]
fn token_ids_are_compared_after_tokenize() {
    let project = project();
    let built = project.seqio("cache build ids --json").ok().json_lines();
    assert_eq!(built[0]["examples"], 26, "25 texts, and the empty one that nulls become");
    assert_eq!(built[0]["duplicates"][0]["step"], 3);
    assert_eq!(built[0]["duplicates"][0]["by"], serde_json::json!(["targets"]));
}

#[test]
fn inspect_shows_the_examples_that_stay() {
    let project = project();
    let (kept, _) = naive(&project);
    let shown = project.seqio("inspect docs --split train -n 200 --json").ok().json();
    let places: Vec<&str> =
        shown.as_array().unwrap().iter().map(|example| example["place"].as_str().unwrap()).collect();
    assert_eq!(places, kept);
    let raw = project.seqio("inspect docs --split train -n 200 --stage raw --json").ok().json();
    assert_eq!(raw.as_array().unwrap().len(), 120);
}

#[test]
fn a_split_is_said_to_be_read_twice() {
    let project = project();
    let explained = project.seqio("explain docs").ok().out();
    insta::assert_snapshot!(explained.lines().filter(|line| line.contains("read")).collect::<Vec<_>>().join("\n"), @r"
      each split is read twice, and the steps before the comparison run each time
          compares all examples of a split, which is read once more for it
    ");
    let estimate = project.seqio("cache build docs --dry-run --split train").ok().out();
    assert!(estimate.contains("in 3 files, read 2 times"), "{estimate}");
    assert!(estimate.contains("before duplicates are dropped"), "{estimate}");
}

#[test]
fn below_the_boundary_it_is_refused_in_words() {
    let project = project();
    insta::assert_snapshot!(project.seqio("explain below").fails(3));
}

#[test]
fn find_names_the_record_that_was_kept_in_the_place_of_a_duplicate() {
    let project = project();
    let found = "--split train --batch-size 4 --lengths 64 --epochs 1";
    let dropped = project.seqio(&format!("find data/train-1.jsonl:3 {found} docs")).fails(1);
    let error = dropped.lines().find(|line| line.starts_with("error")).unwrap();
    insta::assert_snapshot!(error, @"error: train-1.jsonl:3 was dropped from task `docs`, split `train`, by step 1, as a duplicate of train-0.jsonl:10");
    assert!(
        project.seqio(&format!("find data/train-0.jsonl:10 {found} docs")).ok().out().contains("is example")
    );
}

#[test]
fn workers_compare_their_shares_and_wait_for_each_other() {
    let whole = project();
    whole.seqio("cache build docs").ok();
    let project = project();
    let first = project.seqio("cache build docs --worker 0/2").ok();
    assert!(first.out().starts_with("docs train, worker 0/2: compared in "), "{}", first.out());
    insta::assert_snapshot!(first.err(), @"note: a step of `docs` compares all examples of a split: run `--worker 1/2`, then `--worker 0/2` again (run all at the same time, each waits for the others)");
    let message = project.seqio("cache finish docs").fails(1);
    assert!(
        message.contains("hint: run `seqio cache build docs --worker 1/2`, then finish again"),
        "{message}"
    );
    let second = project.command("cache build docs --worker 1/2").spawn().unwrap();
    project.ended(second).ok();
    project.seqio("cache build docs --worker 0/2").ok();
    project.seqio("cache finish docs").ok();
    assert!(content(&project.cache_of("docs")) == content(&whole.cache_of("docs")));
}

#[test]
fn a_killed_build_goes_on_and_the_result_is_the_same() {
    let large = || {
        let project = project();
        let text = String::from_utf8(project.read("data/train-0.jsonl")).unwrap();
        for file in 0..12 {
            let text: String =
                (0..200).map(|part| text.replace("document", &format!("document {}", part / 2))).collect();
            project.write(&format!("data/train-{file}.jsonl"), text);
        }
        project
    };
    let whole = large();
    whole.seqio("cache build docs --split train").ok();
    let project = large();
    let building = project.path("seqio-cache/docs");
    for files in [2, 12, 28, 34, 44] {
        let mut child = project.command("cache build docs --split train").spawn().unwrap();
        wait_until("some work is committed", || {
            files_below(&building).len() >= files || child.try_wait().unwrap().is_some()
        });
        child.kill().unwrap();
        child.wait().unwrap();
    }
    project.seqio("cache build docs --split train").ok();
    assert!(content(&project.cache_of("docs")) == content(&whole.cache_of("docs")));
}
