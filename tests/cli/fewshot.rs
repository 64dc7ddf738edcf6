//! Exemplars of a split in front of each example.

use crate::support::{Project, files_below};

const TASKS: &str = r#"[vocabulary.bytes]
byte = true

[task.quiz]
source   = { jsonl = { train = "data/train.jsonl", validation = "data/valid.jsonl" }, columns = { q = "string", a = "string" } }
features = { inputs = { vocabulary = "bytes" }, targets = { vocabulary = "bytes" } }
steps    = [
  { op = "rekey", to_from = { inputs = "q", targets = "a" } },
  { op = "fewshot", num_shots = 2, split = "train", targets_prefix = "=" },
  { op = "tokenize", keep_pretokenized = true },
]
"#;

/// Ten questions to learn from and three to ask.
fn quiz() -> Project {
    let project = Project::empty();
    project.write("seqio.toml", TASKS);
    let question = |number: usize| format!("{{\"q\":\"{number}+{number}\",\"a\":\"{}\"}}\n", 2 * number);
    project.write("data/train.jsonl", (0..10).map(question).collect::<String>());
    project.write("data/valid.jsonl", (20..23).map(question).collect::<String>());
    project
}

fn prompts(project: &Project, arguments: &str) -> Vec<String> {
    let shown = project.seqio(&format!("inspect quiz {arguments} -n 20 --json")).ok().json();
    let prompt = |one: &serde_json::Value| one["columns"]["inputs_pretokenized"].as_str().unwrap().to_owned();
    shown.as_array().unwrap().iter().map(prompt).collect()
}

#[test]
fn each_example_has_exemplars_of_the_split_but_not_itself() {
    let project = quiz();
    for (split, first) in [("train", 0), ("validation", 20)] {
        let prompts = prompts(&project, &format!("--split {split}"));
        assert_eq!(prompts.len(), if split == "train" { 10 } else { 3 });
        for (number, prompt) in prompts.iter().enumerate() {
            let parts: Vec<&str> = prompt.split("\n\n").collect();
            let number = first + number;
            assert_eq!(parts[2], format!("{number}+{number}="));
            for exemplar in &parts[..2] {
                let (question, answer) = exemplar.split_once('=').unwrap();
                let shown: usize = question.split('+').next().unwrap().parse().unwrap();
                assert!(shown < 10 && shown != number && answer == (2 * shown).to_string(), "{prompt}");
            }
            assert_ne!(parts[0], parts[1]);
        }
    }
}

#[test]
fn caches_do_not_depend_on_threads_and_follow_the_exemplars() {
    let project = quiz();
    let shards = |folder: &str| {
        let files = files_below(&project.path(folder).join("quiz"));
        let shards = files.into_iter().filter(|file| file.to_string_lossy().contains("validation-"));
        shards.map(|file| std::fs::read(file).unwrap()).collect::<Vec<_>>()
    };
    project.seqio("cache build quiz --split validation --cache-dir one --threads 1").ok();
    project.seqio("cache build quiz --split validation --cache-dir two --threads 3").ok();
    assert_eq!(shards("one"), shards("two"));
    let again = project.seqio("cache build quiz --split validation --cache-dir one --json").ok().json();
    assert_eq!(again["was_fresh"], true);
    let folder =
        files_below(&project.path("one")).into_iter().find(|file| file.ends_with("manifest.json")).unwrap();
    let folder = folder.parent().unwrap().to_owned();
    let question = |number: usize| format!("{{\"q\":\"{number}-{number}\",\"a\":\"0\"}}\n");
    project.write("data/train.jsonl", (0..10).map(question).collect::<String>());
    let again = project.seqio("cache build quiz --split validation --cache-dir one --json").ok().json();
    assert_eq!(again["was_fresh"], false, "its prompts have other exemplars now");
    // The old cache is read without the sources.
    std::fs::remove_dir_all(project.path("data")).unwrap();
    let shown =
        project.seqio(&format!("inspect --cache {} --split validation -n 1", folder.display())).ok().out();
    assert!(shown.contains("20+20"), "{shown}");
}

#[test]
fn a_split_that_is_not_there_or_too_small_is_told_with_its_place() {
    let project = quiz();
    project.write("seqio.toml", TASKS.replace("split = \"train\"", "split = \"trian\""));
    insta::assert_snapshot!("no_split", project.seqio("explain quiz").fails(3));
    project.write("seqio.toml", TASKS.replace("num_shots = 2", "num_shots = 10"));
    insta::assert_snapshot!("too_few", project.seqio("explain quiz").fails(3));
}
