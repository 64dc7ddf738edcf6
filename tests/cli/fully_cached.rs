//! Tasks whose lengths are fixed and whose steps all stand above the cache.

use crate::support::Project;

const TASKS: &str = r#"[vocabulary.bytes]
byte = true

[task.pairs_i8_t4]
source   = { jsonl = { train = "pairs.jsonl" }, columns = { inputs = "string", targets = "string" } }
features = { inputs = { vocabulary = "bytes" }, targets = { vocabulary = "bytes" } }
lengths  = { inputs = 8, targets = 4 }
shuffle  = []
steps    = [{ op = "tokenize" }, { op = "append_eos_after_trim" }, { op = "cache" }]
"#;

fn project() -> Project {
    let project = Project::empty();
    project.write("seqio.toml", TASKS);
    project.write("pairs.jsonl", "{\"inputs\": \"aaaaaaaaaaaa\", \"targets\": \"bbbbbbbb\"}\n");
    project
}

#[test]
fn a_fully_cached_task_holds_sequences_as_they_are_streamed() {
    let project = project();
    project.seqio("cache build pairs_i8_t4").ok();
    let (a, b, eos) = (u64::from(b'a') + 3, u64::from(b'b') + 3, 1);
    let stream = |lengths: &str| {
        let line = "stream pairs_i8_t4 --batch-size 1 --pack none --epochs 1 --lengths";
        project.seqio(&format!("{line} {lengths}")).ok().json_lines().remove(0)
    };
    let row = stream("inputs=8,targets=4");
    assert_eq!(row["encoder_input_tokens"], serde_json::json!([a, a, a, a, a, a, a, eos]));
    assert_eq!(row["decoder_target_tokens"], serde_json::json!([b, b, b, eos]));
    // Wider rows are filled up; the sequences stay.
    let row = stream("inputs=10,targets=4");
    assert_eq!(row["encoder_input_tokens"], serde_json::json!([a, a, a, a, a, a, a, eos, 0, 0]));
    // The cache is of these lengths: others make another one.
    project.write("seqio.toml", TASKS.replace("inputs = 8", "inputs = 6"));
    let explained = project.seqio("cache explain pairs_i8_t4").ok().out();
    assert!(explained.contains("length of `inputs`"), "{explained}");
    let row = stream("inputs=8,targets=4");
    assert_eq!(row["encoder_input_tokens"], serde_json::json!([a, a, a, a, a, eos, 0, 0]));
}

#[test]
fn a_step_that_needs_a_length_stands_above_the_cache_only_if_the_task_fixes_it() {
    let project = project();
    project.write("seqio.toml", TASKS.replace("targets = 4", "").replace("inputs = 8, ", "inputs = 8"));
    let message = project.seqio("explain pairs_i8_t4").fails(3);
    assert!(message.contains("`append_eos_after_trim`") && message.contains("targets"), "{message}");
}
