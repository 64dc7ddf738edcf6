//! T5's objectives, from task files.

use crate::support::Project;

const TASKS: &str = r#"[vocabulary.bytes]
byte      = true
extra_ids = 100

[task.spans]
source   = { jsonl = { train = "data/train-*.jsonl" }, columns = { text = "string" } }
features = { inputs = { vocabulary = "bytes" }, targets = { vocabulary = "bytes" } }
steps    = [
  { op = "rekey", to_from = { targets = "text" } },
  { op = "tokenize" },
  { op = "cache" },
  { op = "span_corruption" },
  { op = "append_eos" },
]

[task.middle]
source   = { jsonl = { train = "data/train-*.jsonl" }, columns = { text = "string" } }
features = { targets = { vocabulary = "bytes" } }
steps    = [
  { op = "rekey", to_from = { targets = "text" } },
  { op = "tokenize" },
  { op = "cache" },
  { op = "reduce_concat_tokens" },
  { op = "split_tokens", max_tokens_per_segment = 60 },
  { op = "fill_in_the_middle", prefix_id = 358, suffix_id = 357, middle_id = 356, fim_rate = 1.0 },
  { op = "append_eos" },
]
"#;

fn project() -> Project {
    let project = Project::new();
    project.write("seqio.toml", TASKS);
    project
}

#[test]
fn every_epoch_has_other_spans_and_every_run_the_same() {
    let project = project();
    let shape = "stream spans --batch-size 2 --lengths inputs=64,targets=16";
    let rows = |options: &str| project.seqio(&format!("{shape} {options}")).ok().json_lines();
    let first = rows("--steps 4");
    let ids = |row: &serde_json::Value, name: &str| -> Vec<i64> {
        row[name].as_array().unwrap().iter().map(|id| id.as_i64().unwrap()).collect()
    };
    for row in &first {
        let (inputs, targets) = (ids(row, "encoder_input_tokens"), ids(row, "decoder_target_tokens"));
        assert!(inputs.contains(&358) && targets.contains(&358), "{row}");
        assert!(inputs.contains(&1) && targets.contains(&1), "{row}");
    }
    assert_eq!(first, rows("--steps 4"));
    assert_eq!(first[4..], rows("--start 2 --steps 2")[..]);
    assert_ne!(first, rows("--steps 4 --seed 1"));
}

#[test]
fn targets_that_would_be_too_long_are_refused_before_data() {
    let project = project();
    let refused =
        project.seqio("stream spans --batch-size 2 --lengths inputs=64,targets=8 --steps 1").fails(1);
    assert!(refused.contains("targets need a length of 14, but theirs is 8"), "{refused}");
}

#[test]
fn lengths_that_nobody_asked_for_stop_no_statistics() {
    let project = project();
    project.write("seqio.toml", TASKS.replace("extra_ids = 100", "extra_ids = 20"));
    project.seqio("stats spans").ok();
    let refused = project.seqio("stats spans --lengths inputs=512,targets=114").fails(1);
    assert!(refused.contains("sentinels"), "{refused}");
}

#[test]
fn the_middle_is_put_last_in_every_row() {
    let project = project();
    let rows = project.seqio("stream middle --batch-size 2 --lengths 64 --steps 2").ok().json_lines();
    for row in rows {
        let ids = row["decoder_target_tokens"].as_array().unwrap();
        assert!([356, 357, 358].iter().all(|id| ids.contains(&(*id).into())), "{row}");
    }
}
