//! `seqio find`.

use crate::support::Project;

#[test]
fn a_line_is_found_at_the_steps_that_show_it() {
    let project = Project::new();
    project.seqio("cache build docs").ok();
    let shape = "--batch-size 4 --lengths 96";
    let found = project.seqio(&format!("find data/train-1.jsonl:3 {shape} --epochs 3 --json")).ok().json();
    assert_eq!(found[0]["task"], "docs");
    let sightings = found[0]["examples"][0]["sightings"].as_array().unwrap();
    assert_eq!(sightings.len(), 3);
    for sighting in sightings {
        let step = sighting["pieces"][0]["step"].as_u64().unwrap();
        let batch = project.seqio(&format!("batch docs {shape} --epochs 3 --step {step} --json")).ok();
        assert!(batch.out().contains("train-1.jsonl:3\""), "{}", batch.out());
    }
    insta::assert_snapshot!(project.seqio(&format!("find data/train-1.jsonl:3 {shape}")).ok().out());
}

#[test]
fn a_line_that_gave_no_example_and_a_file_that_no_task_reads_are_told_apart() {
    let project = Project::new();
    project.seqio("cache build docs").ok();
    let shape = "--batch-size 4 --lengths 96";
    insta::assert_snapshot!(
        "no_such_line",
        project.seqio(&format!("find data/train-1.jsonl:99 {shape}")).fails(1)
    );
    insta::assert_snapshot!(
        "no_such_file",
        project.seqio(&format!("find data/other.jsonl:1 {shape}")).fails(1)
    );
    insta::assert_snapshot!(
        "no_such_file_of_task",
        project.seqio(&format!("find other.jsonl:1 docs {shape}")).fails(2)
    );
}
