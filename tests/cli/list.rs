//! `seqio list`.

use crate::support::Project;

#[test]
fn tasks_are_listed_with_their_features_and_splits() {
    insta::assert_snapshot!(Project::new().seqio("list").ok().out());
}

#[test]
fn tasks_are_listed_as_json() {
    let tasks = Project::new().seqio("list tasks --json").ok().json();
    assert_eq!(tasks[0]["name"], "docs");
    assert_eq!(tasks[1]["features"], serde_json::json!(["inputs", "targets"]));
    assert_eq!(tasks[0]["splits"], serde_json::json!(["train", "validation"]));
}

#[test]
fn steps_are_listed_without_any_task_file() {
    let project = Project::empty();
    insta::assert_snapshot!(project.seqio("list steps").ok().out());
    let steps = project.seqio("list steps --json").ok().json();
    assert!(steps.as_array().unwrap().iter().any(|step| step["name"] == "append_eos"));
}

#[test]
fn kinds_are_listed_without_any_task_file() {
    let listed = Project::empty().seqio("list kinds").ok().out();
    for line in ["source      jsonl ", "vocabulary  byte ", "column      list<int32> "] {
        assert!(listed.contains(line), "`{line}` is not in\n{listed}");
    }
}

#[test]
fn vocabularies_are_listed_without_being_opened() {
    let project = Project::new();
    project.write("more.toml", "[vocabulary.t5]\nsentencepiece = \"gone.model\"\n");
    let ran = project.seqio("-f seqio.toml -f more.toml list vocabularies").ok();
    insta::assert_snapshot!(ran.out());
}

#[test]
fn a_missing_task_file_says_how_to_name_one() {
    let message = Project::empty().seqio("list").fails(3);
    insta::assert_snapshot!(message);
}

#[test]
fn every_mistake_of_a_task_file_is_told_with_its_place() {
    let project = Project::new();
    let text = String::from_utf8(project.read("seqio.toml")).unwrap();
    project.write("seqio.toml", text.replace("append_eos", "append_oes").replace("features =", "feature ="));
    insta::assert_snapshot!(project.seqio("list").fails(3));
}
