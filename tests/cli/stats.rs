//! `seqio stats`.

use crate::support::{Project, documents};

#[test]
fn a_cache_tells_lengths_unknown_tokens_and_how_full_rows_get() {
    let project = Project::new();
    project.seqio("cache build docs").ok();
    insta::assert_snapshot!(project.seqio("stats docs --split validation --lengths 64").ok().out());
}

#[test]
fn statistics_are_json_for_all_splits() {
    let project = Project::new();
    let stats = project.seqio("stats docs --lengths 64 --lengths 128 --json").ok().json();
    assert_eq!(project.seqio("cache list --json").ok().json().as_array().unwrap().len(), 1);
    assert_eq!(stats[0]["split"], "train");
    assert_eq!(stats[0]["examples"], 60);
    let texts = documents(0..60);
    let texts = texts.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let characters: usize = texts.map(|line| line["text"].as_str().unwrap().chars().count()).sum();
    assert_eq!(stats[0]["seqio"]["targets_chars"], characters);
    assert_eq!(stats[1]["split"], "validation");
    assert_eq!(stats[0]["forecasts"].as_array().unwrap().len(), 2);
    assert!(stats[0]["forecasts"][0]["fill"]["targets"].as_f64().unwrap() > 0.5);
}
