//! Tasks from task files: the same promises over real sources and vocabularies.

use std::sync::Arc;

use seqio::{ExampleStore, Registry, Split, Task};

use super::tiny::{World, files};
use crate::build::BuildConfig;
use crate::progress::NoProgress;
use crate::store::{Cache, Found};

const TASK: &str = r#"
[vocabulary.bytes]
byte = true

[task.docs]
source   = { jsonl = { train = "train-*.jsonl", validation = "validation.jsonl" }, columns = { text = "string" } }
features = { targets = { vocabulary = "bytes" } }
steps    = [ { op = "rekey", to_from = { targets = "text" } }, { op = "tokenize" }, { op = "cache" }, { op = "append_eos" } ]
"#;

fn task(world: &World, text: &str) -> Arc<Task> {
    Registry::from_text(world.sources().join("seqio.toml"), text).unwrap().task("docs").unwrap()
}

fn jsonl(prefix: &str, count: usize) -> String {
    (0..count).map(|line| format!("{{\"text\": \"{prefix} {line} é\"}}\n")).collect()
}

fn world() -> World {
    World::new(&[
        ("train-a.jsonl", &jsonl("a", 3000)),
        ("train-b.jsonl", &jsonl("b", 10)),
        ("validation.jsonl", &jsonl("v", 20)),
    ])
}

fn splits(names: &[&str]) -> Vec<Split> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn config(threads: usize) -> BuildConfig {
    BuildConfig { threads, ..BuildConfig::default() }
}

#[test]
fn a_cache_gives_its_task_back_without_task_file_and_sources() {
    let world = world();
    let task = task(&world, TASK);
    let caches = world.caches("caches");
    let report = caches.build(&task, &splits(&["train", "validation"]), &config(2), &NoProgress).unwrap();
    std::fs::remove_dir_all(world.sources()).unwrap();

    let cache = Cache::open(&report.splits[0].folder).unwrap();
    let again = cache.task().unwrap();
    assert_eq!(again.cache_fingerprint(1), task.cache_fingerprint(1));
    assert_eq!(again.definition(), task.definition());
    let split = cache.split("validation").unwrap();
    let mut ids = vec![0; 6];
    split.read_tokens(0, 3, 0, &mut ids).unwrap();
    assert_eq!(again.features()["targets"].vocabulary.decode(&ids), "v 3 é");
    let found = caches.find(&again, &"validation".parse().unwrap()).unwrap();
    assert!(matches!(found, Found::Fresh { notice: Some(_), .. }), "{found:?}");
    assert_eq!(
        caches.build(&again, &splits(&["train"]), &config(1), &NoProgress).unwrap().splits[0].folder,
        report.splits[0].folder
    );
    let error = caches.build(&again, &splits(&["test"]), &config(1), &NoProgress).unwrap_err();
    insta::assert_snapshot!(error, @"task `docs` was opened from its cache and has no source to build from");
}

#[test]
fn threads_change_no_byte_of_a_real_task() {
    let world = world();
    let task = task(&world, TASK);
    for threads in [1, 2, 8] {
        let caches = world.caches(&format!("caches-{threads}"));
        caches
            .build(&task, &splits(&["train", "validation", "train[:1%]"]), &config(threads), &NoProgress)
            .unwrap();
        assert!(files(caches.root()) == files(world.caches("caches-1").root()), "{threads} threads");
    }
}

#[test]
fn steps_below_the_boundary_change_no_cache_and_steps_above_are_named() {
    let world = world();
    let caches = world.caches("caches");
    caches.build(&task(&world, TASK), &splits(&["train"]), &config(1), &NoProgress).unwrap();
    let train: Split = "train".parse().unwrap();
    let without_eos = TASK.replace(", { op = \"append_eos\" }", "");
    assert!(matches!(caches.find(&task(&world, &without_eos), &train).unwrap(), Found::Fresh { .. }));
    let keeping = TASK.replace("op = \"tokenize\"", "op = \"tokenize\", keep_pretokenized = true");
    match caches.find(&task(&world, &keeping), &train).unwrap() {
        Found::Stale { reason } => {
            insta::assert_snapshot!(reason, @"the definition changed: step 2 `tokenize`: `keep_pretokenized` was false and is true");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_estimate_of_small_data_is_near_the_truth() {
    let world = world();
    let task = task(&world, TASK);
    let caches = world.caches("caches");
    let train = splits(&["train"]);
    let estimate = caches.estimate(&task, &train[0], &config(1)).unwrap();
    let report = caches.build(&task, &train, &config(1), &NoProgress).unwrap();
    let statistics = &report.splits[0].statistics;
    let near = |estimate: u64, truth: u64| estimate.abs_diff(truth) * 10 < truth;
    assert!(near(estimate.examples, statistics.examples), "{estimate:?}");
    assert!(near(estimate.tokens["targets"], statistics.features["targets"].tokens), "{estimate:?}");
    assert!(near(estimate.cache_bytes, statistics.file_bytes), "{estimate:?} {statistics:?}");
    assert!(
        estimate.peak_bytes > estimate.cache_bytes && estimate.free_bytes > 0 && estimate.cpu_seconds > 0.0
    );
}

#[test]
fn characters_are_counted_of_the_examples_that_are_left() {
    let lines = ["aé", "b", "aé", "ccc"].map(|text| format!("{{\"text\": \"{text}\"}}\n")).concat();
    let world = World::new(&[("train-a.jsonl", &lines), ("validation.jsonl", "{\"text\": \"\"}\n")]);
    let caches = world.caches("caches");
    let characters = |task: &Task, split: &str| {
        let report = caches.build(task, &splits(&[split]), &config(2), &NoProgress).unwrap();
        report.splits[0].statistics.seqio.get("targets_chars").copied()
    };
    assert_eq!(characters(&task(&world, TASK), "train"), Some(8));
    assert_eq!(characters(&task(&world, TASK), "validation"), Some(0));
    // What a step drops after `tokenize` does not count.
    let distinct =
        TASK.replace("{ op = \"cache\" }", "{ op = \"deduplicate\", by = \"targets\" }, { op = \"cache\" }");
    assert_eq!(characters(&task(&world, &distinct), "train"), Some(6));
    // Of ids nobody knows the text.
    let world = World::new(&[("train-a.jsonl", "{\"text\": [5, 6]}\n"), ("validation.jsonl", "")]);
    let ids = TASK.replace("text = \"string\"", "text = \"list<int32>\"");
    let caches = world.caches("caches");
    let report = caches.build(&task(&world, &ids), &splits(&["train"]), &config(1), &NoProgress).unwrap();
    assert_eq!(report.splits[0].statistics.characters("targets"), None);
}
