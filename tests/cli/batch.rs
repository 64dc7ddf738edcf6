//! `seqio batch`.

use crate::support::Project;

#[test]
fn each_piece_is_decoded_and_traced_to_its_file_and_line() {
    let project = Project::new();
    project.seqio("cache build docs").ok();
    insta::assert_snapshot!(
        project.seqio("batch docs --batch-size 2 --lengths 100 --step 1 --order storage").ok().out()
    );
}

#[test]
fn every_piece_says_what_its_line_holds() {
    let project = Project::new();
    project.seqio("cache build docs").ok();
    let step = project.seqio("batch docs --batch-size 4 --lengths 96 --step 2 --json").ok().json();
    let mut pieces = 0;
    for piece in step["rows"].as_array().unwrap().iter().flat_map(|row| row["pieces"].as_array().unwrap()) {
        let (file, line) = piece["place"].as_str().unwrap().rsplit_once(':').unwrap();
        let name = std::path::Path::new(file).file_name().unwrap().to_str().unwrap();
        let text = String::from_utf8(project.read(&format!("data/{name}"))).unwrap();
        let text = text.lines().nth(line.parse::<usize>().unwrap() - 1).unwrap();
        let part = &piece["parts"][0];
        let shown = part["text"].as_str().unwrap();
        assert!(text.contains(shown), "{text} {shown}");
        pieces += 1;
    }
    assert!(pieces > 4);
}

#[test]
fn the_batch_is_that_of_the_stream() {
    let project = Project::new();
    project.seqio("cache build docs").ok();
    let shape = "docs --batch-size 4 --lengths 96";
    let step = project.seqio(&format!("batch {shape} --step 2 --json")).ok().json();
    let digest = project.seqio(&format!("stream {shape} --start 2 --steps 1 --digest")).ok().out();
    assert_eq!(digest.trim(), format!("2 {}", step["digest"].as_str().unwrap()));
    let rows = project.seqio(&format!("stream {shape} --start 2 --steps 1 --format jsonl")).ok().json_lines();
    let row = step["rows"][1]["model"]["features"]["decoder_target_tokens"].clone();
    assert_eq!(rows[1]["decoder_target_tokens"], row);
}

#[test]
fn a_step_after_the_end_is_refused_in_words() {
    let project = Project::new();
    project.seqio("cache build docs").ok();
    let message = project.seqio("batch docs --batch-size 4 --lengths 96 --step 999 --epochs 1").fails(1);
    insta::assert_snapshot!(message);
}
