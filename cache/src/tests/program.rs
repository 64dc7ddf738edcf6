//! Caches of sources that a program makes itself.

use std::sync::Arc;

use seqio::{ExampleStore, ProgramSource, ProgramSources, Registry, ScalarType, Split, Task};
use serde_json::json;

use super::tiny::{World, files};
use crate::build::BuildConfig;
use crate::progress::NoProgress;
use crate::store::{Cache, Found};

const TASK: &str = r#"
[vocabulary.bytes]
byte = true

[task.docs]
source   = { program = { train = "numbers", validation = "few" } }
features = { text = { vocabulary = "bytes" } }
steps    = [ { op = "tokenize" }, { op = "append_eos" } ]
"#;

/// A task whose training examples come from a function, in batches of so many, and whose others are a list.
fn task(version: &str, batch: usize, last: &str) -> Arc<Task> {
    let numbers = ProgramSource::new(version).column("text", ScalarType::String).split("train", move || {
        let rows = (0..3000).map(|row| format!("row {row}")).collect::<Vec<_>>();
        let batches = rows.chunks(batch).map(|rows| {
            let texts = Arc::new(arrow::array::StringArray::from(rows.to_vec())) as arrow::array::ArrayRef;
            Ok(arrow::array::RecordBatch::try_from_iter([("text", texts)])?)
        });
        Ok(batches.collect::<Vec<_>>())
    });
    let few = ProgramSource::new("1").column("text", ScalarType::String);
    let few = few.examples("validation", [json!({ "text": "one" }), json!({ "text": last })]).unwrap();
    let sources = ProgramSources::new().register("numbers", numbers).register("few", few);
    Registry::from_text("seqio.toml", TASK).unwrap().with_sources(sources).task("docs").unwrap()
}

fn splits() -> Vec<Split> {
    ["train", "validation"].map(|name| name.parse().unwrap()).to_vec()
}

#[test]
fn batches_and_threads_change_no_byte_and_versions_are_told_apart() {
    let world = World::new(&[]);
    let built = |name: &str, task: &Task, threads: usize| {
        let config = BuildConfig { threads, ..BuildConfig::default() };
        let caches = world.caches(name);
        let report = caches.build(task, &splits(), &config, &NoProgress).unwrap();
        (caches, report.splits[0].folder.clone())
    };
    let first = task("1", 3000, "two");
    let (caches, folder) = built("a", &first, 1);
    let (_, other) = built("b", &task("1", 7, "two"), 3);
    assert_eq!(files(&folder), files(&other));

    let cache = Cache::open(&folder).unwrap();
    assert_eq!(cache.split("train").unwrap().num_examples(), 3000);
    assert_eq!(cache.task().unwrap().cache_fingerprint(1), first.cache_fingerprint(1));
    let state = |task: &Task, split: &str| match caches.find(task, &split.parse().unwrap()).unwrap() {
        Found::Fresh { .. } => "fresh".to_owned(),
        Found::Stale { reason } => reason,
        Found::Missing => "missing".to_owned(),
    };
    assert_eq!(state(&first, "train"), "fresh");
    insta::assert_snapshot!(state(&task("2", 3000, "two"), "train"), @"the source changed: `train, version 2` is new; `train, version 1` is gone");
    let changed = state(&task("1", 3000, "three"), "validation");
    assert!(changed.contains("`validation, version "), "{changed}");
}
