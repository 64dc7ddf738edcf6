//! `seqio stream`.

use std::io::{BufRead as _, BufReader};

use arrow::array::AsArray as _;
use arrow::datatypes::Int32Type;
use arrow::ipc::reader::StreamReader;
use rustix::process::Signal;

use crate::cache::signal;
use crate::support::Project;

const SHAPE: &str = "docs --batch-size 4 --lengths 96";

fn built() -> Project {
    let project = Project::new();
    project.seqio("cache build docs pairs").ok();
    project
}

fn digests(project: &Project, options: &str) -> Vec<String> {
    let ran = project.seqio(&format!("stream {SHAPE} --digest {options}")).ok();
    ran.out().lines().map(str::to_owned).collect()
}

#[test]
fn a_task_without_a_cache_gets_one_first_and_says_so() {
    let project = Project::new();
    let first = project.seqio(&format!("stream {SHAPE} --steps 1")).ok();
    insta::assert_snapshot!(first.err());
    let second = project.seqio(&format!("stream {SHAPE} --steps 1")).ok();
    assert_eq!(second.err(), "");
    assert_eq!(first.out(), second.out());
}

#[test]
fn jsonl_is_a_line_a_row() {
    let rows = built().seqio(&format!("stream {SHAPE} --steps 2")).ok().json_lines();
    assert_eq!(rows.len(), 8);
    assert_eq!((&rows[5]["step"], &rows[5]["row"]), (&1.into(), &5.into()));
    assert_eq!(rows[0]["decoder_target_tokens"].as_array().unwrap().len(), 96);
}

#[test]
fn arrow_is_a_record_batch_a_step() {
    let project = built();
    let ran = project.seqio(&format!("stream {SHAPE} --steps 3 --format arrow")).ok();
    let rows = project.seqio(&format!("stream {SHAPE} --steps 3")).ok().json_lines();
    let reader = StreamReader::try_new(ran.stdout.as_slice(), None).unwrap();
    let mut row = 0;
    let mut steps = 0;
    for batch in reader {
        let batch = batch.unwrap();
        let tokens = batch.column_by_name("decoder_target_tokens").unwrap().as_fixed_size_list();
        for place in 0..batch.num_rows() {
            let ids = tokens.value(place);
            let ids = serde_json::json!(ids.as_primitive::<Int32Type>().values().to_vec());
            assert_eq!(ids, rows[row]["decoder_target_tokens"]);
            row += 1;
        }
        steps += 1;
    }
    assert_eq!((steps, row), (3, 12));
}

#[test]
fn npy_is_a_file_for_each_step_and_feature() {
    let project = built();
    let shape = "stream pairs --batch-size 2 --lengths inputs=32,targets=16 --epochs 1 --format npy";
    project.seqio(&format!("{shape} --out batches")).ok();
    let bytes = project.read("batches/step-00000000.encoder_input_tokens.npy");
    assert!(String::from_utf8_lossy(&bytes[..128]).contains("'shape': (2, 32)"));
    insta::assert_snapshot!(project.seqio(shape).fails(2));
}

#[test]
fn digests_are_the_same_on_any_number_of_threads_and_however_far_ahead() {
    let project = built();
    let expected = digests(&project, "--steps 12");
    assert_eq!(expected.len(), 12);
    for options in ["--threads 1 --read-ahead 0", "--threads 2 --read-ahead 1", "--threads 8 --read-ahead 64"]
    {
        assert_eq!(digests(&project, &format!("--steps 12 {options}")), expected, "{options}");
    }
}

#[test]
fn hosts_share_the_rows_of_a_batch() {
    let project = built();
    let lines = |options: &str| {
        let ran = project.seqio(&format!("stream {SHAPE} --steps 5 --digest=rows {options}")).ok();
        ran.out().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let whole = lines("");
    for hosts in [2, 3] {
        let mut joined: Vec<String> =
            (0..hosts).flat_map(|host| lines(&format!("--host {host}/{hosts}"))).collect();
        joined.sort_by_key(|line| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap());
        assert_eq!(joined, whole, "{hosts} hosts");
    }
}

#[test]
fn a_stream_can_begin_at_any_step() {
    let project = built();
    let all = digests(&project, "--epochs 2");
    for start in 0..=all.len() {
        assert_eq!(digests(&project, &format!("--epochs 2 --start {start}")), all[start..], "from {start}");
    }
    let message = project.seqio(&format!("stream {SHAPE} --digest --epochs 2 --start 999")).fails(1);
    assert!(message.contains("there is no step 999"), "{message}");
}

#[test]
fn a_state_file_carries_the_stream_on_after_every_stop() {
    let project = built();
    let all = digests(&project, "--epochs 2");
    let mut resumed = Vec::new();
    while resumed.len() < all.len() {
        resumed.extend(digests(&project, "--epochs 2 --state run.json --steps 3"));
    }
    assert_eq!(resumed, all);
    assert_eq!(digests(&project, "--epochs 2 --state run.json"), Vec::<String>::new());
}

#[test]
fn a_state_of_another_stream_is_refused_in_words() {
    let project = built();
    project.seqio(&format!("stream {SHAPE} --digest --steps 2 --state run.json")).ok();
    let other = "stream docs --batch-size 4 --lengths 64 --digest --steps 2 --state run.json";
    let message = project.seqio(other).fails(1);
    assert!(message.contains("lengths: targets 96 → targets 64"), "{message}");
    assert!(message.contains("hint: give the options it was saved with"), "{message}");
    project.write("run.json", "{}");
    let message = project.seqio(other).fails(1);
    assert!(message.contains("cannot go on from `run.json`"), "{message}");
}

#[test]
fn ctrl_c_keeps_the_place() {
    let project = built();
    let mut command = project.command(&format!("stream {SHAPE} --digest --state run.json"));
    let mut child = command.spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut seen: Vec<String> = Vec::new();
    for _ in 0..5 {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        seen.push(line.trim().to_owned());
    }
    signal(&child, Signal::INT);
    seen.extend(reader.lines().map(|line| line.unwrap()));
    let ran = project.ended(child);
    assert_eq!(ran.code, Some(130), "{}", ran.err());
    assert!(ran.err().contains("hint: run the same command again to go on at step"), "{}", ran.err());
    let next = digests(&project, "--state run.json --steps 4");
    let expected = digests(&project, &format!("--steps {}", seen.len() + 4));
    assert_eq!([seen, next].concat(), expected);
}

#[test]
fn without_a_cache_the_rows_are_those_of_a_cache_in_source_order() {
    let project = built();
    let shape = "--split validation --order storage --epochs 2 --digest=rows";
    let cached = project.seqio(&format!("stream {SHAPE} {shape}")).ok().out();
    let uncached = project.seqio(&format!("stream {SHAPE} {shape} --no-cache")).ok().out();
    assert!(!cached.is_empty());
    assert_eq!(cached, uncached);
    let message = project.seqio(&format!("stream {SHAPE} --no-cache --digest --steps 1")).fails(1);
    assert!(message.contains("hint: add `--order storage`, or leave out `--no-cache`"), "{message}");
}

#[test]
fn a_cache_folder_is_enough() {
    let project = built();
    let expected = digests(&project, "--steps 3");
    let folder = project.cache_of("docs");
    std::fs::rename(project.path("data"), project.path("gone")).unwrap();
    std::fs::remove_file(project.path("seqio.toml")).unwrap();
    let line = format!("stream --cache {} --batch-size 4 --lengths 96 --steps 3 --digest", folder.display());
    let ran = project.seqio(&line).ok();
    assert_eq!(ran.out().lines().collect::<Vec<_>>(), expected);
    assert_eq!(ran.err().matches("sources").count(), 1, "{}", ran.err());
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_built() {
    let project = Project::new();
    let message = |options: &str| project.seqio(&format!("stream {SHAPE} {options}")).fails(2);
    insta::assert_snapshot!("endless_file", message("--out rows.jsonl"));
    insta::assert_snapshot!("none_with_out", message("--format none --out rows.jsonl --steps 1"));
    assert!(!project.path("seqio-cache").exists());
}

#[test]
fn lengths_and_converter_that_do_not_fit_the_task_are_refused() {
    let project = built();
    let message = |line: &str| project.seqio(line);
    insta::assert_snapshot!(
        "length_of_no_feature",
        message("stream docs --batch-size 4 --lengths target=8 --steps 1").fails(2)
    );
    insta::assert_snapshot!(
        "length_missing",
        message("stream pairs --batch-size 4 --lengths targets=8 --steps 1").fails(2)
    );
    insta::assert_snapshot!(
        "converter_does_not_fit",
        message("stream docs --converter enc_dec --batch-size 4 --lengths inputs=8,targets=8 --steps 1")
            .fails(1)
    );
}

#[test]
fn the_end_of_the_last_epoch_is_told() {
    let project = built();
    let ran = project.seqio(&format!("stream {SHAPE} --digest --epochs 1 --steps 999")).ok();
    assert!(ran.err().contains("note: the last epoch ended before step"), "{}", ran.err());
}
