//! `seqio explain`.

use crate::support::Project;

#[test]
fn the_path_of_a_task_is_printed_before_any_data_is_read() {
    insta::assert_snapshot!(Project::new().seqio("explain docs").ok().out());
}

#[test]
fn the_path_is_printed_as_json() {
    let path = Project::new().seqio("explain pairs --lengths inputs=8,targets=8 --json").ok().json();
    assert_eq!(path["task"], "pairs");
    assert_eq!(path["stages"][0]["op"], "format");
}

#[test]
fn a_mistyped_task_gets_the_nearest_name() {
    insta::assert_snapshot!(Project::new().seqio("explain dosc").fails(3));
}
