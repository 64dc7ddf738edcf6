//! `seqio inspect`.

use crate::support::Project;

#[test]
fn tokens_are_shown_beside_their_text_without_a_cache() {
    let project = Project::new();
    insta::assert_snapshot!(project.seqio("inspect docs -n 2").ok().out());
    assert!(!project.path("seqio-cache").exists());
}

#[test]
fn raw_examples_are_those_of_the_source() {
    insta::assert_snapshot!(Project::new().seqio("inspect pairs -n 2 --stage raw").ok().out());
}

#[test]
fn model_rows_show_segments_positions_weights_and_padding() {
    let ran = Project::new().seqio("inspect pairs -n 1 --stage model --lengths inputs=40,targets=16").ok();
    insta::assert_snapshot!(ran.out());
}

#[test]
fn segments_are_coloured_when_asked_for() {
    let project = Project::new();
    let plain = project.seqio("inspect docs -n 1 --stage model --lengths 400").ok().out();
    assert!(!plain.contains('\u{1b}'));
    let coloured = project.seqio("inspect docs -n 1 --stage model --lengths 400 --color always").ok().out();
    assert!(coloured.contains("\u{1b}[36m") && coloured.contains("\u{1b}[33m"), "{coloured}");
}

#[test]
fn examples_are_shown_as_json() {
    let project = Project::new();
    let examples = project.seqio("inspect docs --split validation -n 9 --json").ok().json();
    assert_eq!(examples.as_array().unwrap().len(), 5);
    assert_eq!(examples[0]["columns"]["targets"]["text"], "document 60 and more and more");
    let place = examples[0]["place"].as_str().unwrap();
    assert!(place.ends_with("valid.jsonl:1"), "{place}");
    let rows = project.seqio("inspect docs -n 2 --stage model --lengths 64 --json").ok().json();
    assert_eq!(rows[0]["features"]["decoder_target_tokens"].as_array().unwrap().len(), 64);
}

#[test]
fn a_slice_shows_its_own_records() {
    let examples = Project::new().seqio("inspect docs --split train[39:41] -n 5 --json").ok().json();
    let places: Vec<&str> =
        examples.as_array().unwrap().iter().map(|one| one["place"].as_str().unwrap()).collect();
    assert_eq!(places.len(), 2);
    assert!(places[0].ends_with("train-0.jsonl:40") && places[1].ends_with("train-1.jsonl:1"), "{places:?}");
}

#[test]
fn a_cache_folder_is_enough() {
    let project = Project::new();
    project.seqio("cache build docs").ok();
    let folder = project.cache_of("docs");
    let line = format!("inspect --cache {} --split validation -n 1 --json", folder.display());
    let without_files = Project::empty();
    let examples = without_files.seqio(&line).ok().json();
    assert_eq!(examples[0]["columns"]["targets"]["text"], "document 60 and more and more");
}

#[test]
fn a_mistyped_split_gets_the_nearest_name() {
    insta::assert_snapshot!(Project::new().seqio("inspect docs --split trian").fails(1));
}

#[test]
fn stage_model_without_lengths_says_how_to_give_them() {
    insta::assert_snapshot!(Project::new().seqio("inspect docs --stage model").fails(2));
}
