//! Steps that make several examples of one, or none.

use serde_json::Value;

use crate::support::{Project, files_below};

/// Pages of several sentences in two files: of every fourth nothing is made.
fn pages() -> Project {
    let project = Project::empty();
    project.write("seqio.toml", TASKS);
    let page = |number: usize| {
        let sentences: String = (0..number % 4).map(|part| format!("Page {number} part {part}. ")).collect();
        format!("{{\"id\":{number},\"text\":\"{sentences}End.\"}}\n")
    };
    project.write("data/a.jsonl", (0..60).map(page).collect::<String>());
    project.write("data/b.jsonl", (60..90).map(page).collect::<String>());
    project
}

const TASKS: &str = r#"[vocabulary.bytes]
byte = true

[task.pairs]
source   = { jsonl = { train = "data/*.jsonl" }, columns = { id = "int64", text = "string" } }
features = { inputs = { vocabulary = "bytes" }, targets = { vocabulary = "bytes" } }
shuffle  = []
steps    = [
  { op = "neighboring_pairs" },
  { op = "rekey", to_from = { inputs = "first", targets = "second" } },
  { op = "tokenize" },
  { op = "append_eos" },
]

[task.shuffled]
source   = { jsonl = { train = "data/*.jsonl" }, columns = { id = "int64", text = "string" } }
features = { inputs = { vocabulary = "bytes" }, targets = { vocabulary = "bytes" } }
steps    = [
  { op = "fill_in_the_blank" },
  { op = "deduplicate", by = "inputs" },
  { op = "tokenize" },
]
"#;

/// Of 90 pages 23 have no pair, 23 one, 22 two and 22 three.
const PAIRS: u64 = 23 + 22 * 2 + 22 * 3;

#[test]
fn a_line_that_gave_several_examples_is_found_with_all_of_them() {
    let project = pages();
    let built = project.seqio("cache build pairs").ok().out();
    assert!(built.contains(&format!("{PAIRS} examples")), "{built}");
    assert!(built.contains("step 1 (`neighboring_pairs`) dropped 23 examples"), "{built}");
    let shape = "--batch-size 4 --lengths inputs=64,targets=64 --epochs 1";
    for (line, examples) in [(4, 3), (3, 2), (2, 1)] {
        let found = project.seqio(&format!("find data/a.jsonl:{line} pairs {shape} --json")).ok().json();
        let examples_found = found[0]["examples"].as_array().unwrap();
        assert_eq!(examples_found.len(), examples, "{found}");
        for example in examples_found {
            let step = example["sightings"][0]["pieces"][0]["step"].as_u64().unwrap();
            let batch = project.seqio(&format!("batch pairs {shape} --step {step} --json")).ok().out();
            assert!(batch.contains(&format!("a.jsonl:{line}\"")), "{batch}");
        }
    }
    let nothing = project.seqio(&format!("find data/a.jsonl:1 pairs {shape}")).fails(1);
    assert!(nothing.contains("gave no example for line 1"), "{nothing}");
}

#[test]
fn streams_are_the_same_with_a_cache_and_without_for_any_threads() {
    let project = pages();
    let shape =
        "--batch-size 4 --lengths inputs=32,targets=32 --epochs 1 --order storage --digest --format none";
    let uncached = project.seqio(&format!("stream pairs {shape} --no-cache")).ok().out();
    assert!(uncached.lines().count() > 10, "{uncached}");
    project.seqio("cache build pairs --threads 3").ok();
    assert_eq!(project.seqio(&format!("stream pairs {shape}")).ok().out(), uncached);
    let half = project.seqio(&format!("stream pairs {shape} --start 5")).ok().out();
    assert!(uncached.ends_with(&half) && half.len() < uncached.len(), "{half}");
}

#[test]
fn caches_have_the_same_bytes_for_any_threads_and_memory_and_ids_of_their_own() {
    let project = pages();
    let shards = |folder: &str| {
        let files = files_below(&project.path(folder).join("shuffled"));
        let shards = files.into_iter().filter(|file| file.to_string_lossy().contains("train-"));
        shards.map(|file| std::fs::read(file).unwrap()).collect::<Vec<_>>()
    };
    project.seqio("cache build shuffled --cache-dir one --threads 1").ok();
    project.seqio("cache build shuffled --cache-dir two --threads 3 --memory 1MiB").ok();
    assert_eq!(shards("one"), shards("two"));
    let inspected = project.seqio("inspect shuffled -n 400 --json").ok().json();
    let ids: Vec<&str> =
        inspected.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    let different: std::collections::BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), different.len());
    let stats = project.seqio("stats shuffled --cache-dir one --json").ok().json();
    let dropped: Vec<(u64, u64)> = stats[0]["dropped"].as_array().unwrap().iter().map(numbers).collect();
    // A page of one word has no gap; two halves of a text can only be equal by chance.
    assert_eq!(dropped[0], (1, 23), "{stats}");
    assert_eq!(ids.len() as u64, (90 - 23) * 2 - dropped.get(1).map_or(0, |(_, examples)| *examples));
}

fn numbers(dropped: &Value) -> (u64, u64) {
    (dropped["step"].as_u64().unwrap(), dropped["examples"].as_u64().unwrap())
}

#[test]
fn what_was_made_of_a_row_of_a_query_is_found_by_its_key() {
    let project = pages();
    let task = r#"
[task.rows]
source   = { sql = { train = "SELECT id, text FROM pages WHERE id < 40" }, key = "id", tables = { pages = { jsonl = "data/*.jsonl" } } }
features = { inputs = { vocabulary = "bytes" }, targets = { vocabulary = "bytes" } }
steps    = [
  { op = "neighboring_pairs" },
  { op = "rekey", to_from = { inputs = "first", targets = "second" } },
  { op = "tokenize" },
]
"#;
    project.write("seqio.toml", format!("{TASKS}{task}"));
    project.seqio("cache build rows").ok();
    let shape = "--batch-size 4 --lengths inputs=64,targets=64 --epochs 1";
    let found = project.seqio(&format!("find id=7 rows {shape} --json")).ok().json();
    assert_eq!((found[0]["key"].as_str(), found[0]["examples"].as_array().unwrap().len()), (Some("id=7"), 3));
}

#[test]
fn new_data_and_workers_give_the_bytes_of_one_job() {
    let project = pages();
    let shards = |folder: &str| {
        let files = files_below(&project.path(folder).join("pairs"));
        let newest = files.iter().filter(|file| file.ends_with("manifest.json"));
        let newest = newest.max_by_key(|file| std::fs::metadata(file).unwrap().modified().unwrap()).unwrap();
        let folder = newest.parent().unwrap().to_owned();
        let shards = files.into_iter().filter(|file| file.starts_with(&folder));
        let shards = shards.filter(|file| file.to_string_lossy().contains("train-"));
        shards.map(|file| std::fs::read(file).unwrap()).collect::<Vec<_>>()
    };
    project.seqio("cache build pairs --cache-dir old").ok();
    project.write("data/c.jsonl", "{\"id\":90,\"text\":\"One. Two. Three.\"}\n");
    project.seqio("cache build pairs --cache-dir old --reuse auto").ok();
    project.seqio("cache build pairs --cache-dir new").ok();
    assert_eq!(shards("old"), shards("new"));
    for worker in ["0/2", "1/2"] {
        project.seqio(&format!("cache build pairs --cache-dir shared --worker {worker}")).ok();
    }
    project.seqio("cache finish pairs --cache-dir shared").ok();
    assert_eq!(shards("shared"), shards("new"));
}
