//! `seqio plan`.

use crate::support::Project;

#[test]
fn a_run_is_planned_from_lengths_alone() {
    let project = Project::new();
    project.seqio("cache build docs").ok();
    insta::assert_snapshot!(project.seqio("plan docs --batch-size 4 --lengths 128 --epochs 2").ok().out());
}

#[test]
fn the_plan_says_as_many_steps_as_the_stream_has() {
    let project = Project::new();
    project.seqio("cache build docs").ok();
    for pack in ["best_fit", "greedy", "none"] {
        let shape = format!("docs --batch-size 4 --lengths 96 --epochs 2 --pack {pack} --window 96");
        let plan = project.seqio(&format!("plan {shape} --json")).ok().json();
        let digests = project.seqio(&format!("stream {shape} --digest")).ok().out();
        assert_eq!(plan["steps"].as_u64().unwrap(), digests.lines().count() as u64, "{pack}");
    }
}
