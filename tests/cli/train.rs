//! `seqio train`.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Project, Ran, wait_until};

/// A network that learns in no time, on the processor.
const RUN: &str = r#"
[model]
architecture = "decoder_only"
vocab_size = 384
emb_dim = 16
num_heads = 2
head_dim = 8
mlp_dim = 32
num_decoder_layers = 1
logits_via_embedding = true

[data]
task = "docs"
lengths = { targets = 32 }
batch_size = 4

[train]
steps = 6
log_every = 1
loss_normalizing_factor = "NUM_REAL_TARGET_TOKENS"

[schedule]
factors = "constant"
base_learning_rate = 0.01

[checkpoint]
every = 2
keep = 2

[eval]
every = 3
batches = 2
tasks = [{ task = "docs", name = "held_out" }]

[device]
adapter = "cpu"

[run]
dir = "run"
"#;

pub(crate) fn project() -> Project {
    let project = Project::new();
    project.write("run.toml", RUN);
    project
}

/// What `metrics.jsonl` says of a metric, by step.
pub(crate) fn logged(project: &Project, folder: &str, metric: &str) -> Vec<(u64, Value)> {
    let text = String::from_utf8(project.read(&format!("{folder}/metrics.jsonl"))).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .filter_map(|line| {
            let value = line.get(metric).cloned().filter(|value| !value.is_null())?;
            Some((line["step"].as_u64().unwrap(), value))
        })
        .collect()
}

pub(crate) fn train(project: &Project, settings: &[&str]) -> Ran {
    let mut command = project.command("train run.toml");
    project.run(command.args(settings.iter().flat_map(|setting| ["--set", setting])))
}

#[test]
fn a_decoder_learns_from_rows_of_inputs_and_targets() {
    let project = project();
    // With one layer nobody who has a loss would notice.
    let settings = [
        "data.task=pairs",
        "model.num_decoder_layers=2",
        "data.converter=prefix_lm",
        "data.lengths={inputs=24, targets=8}",
        "eval.tasks=[{task='pairs', split='train'}]",
    ];
    for attention in ["false", "true"] {
        let attention = [
            format!("model.inputs_bidirectional_attention={attention}"),
            format!("run.dir=with_{attention}"),
        ];
        let settings: Vec<&str> = settings.into_iter().chain(attention.iter().map(String::as_str)).collect();
        train(&project, &settings).ok();
    }
    let losses = |folder: &str| logged(&project, folder, "train/loss");
    assert_eq!((losses("with_true").len(), losses("with_false").len()), (6, 6));
    assert_ne!(losses("with_true"), losses("with_false"), "inputs that see each other give other numbers");
    let message =
        train(&project, &[&settings[..2], &settings[3..], &["data.converter=enc_dec"]].concat()).fails(3);
    assert!(message.contains("`enc_dec` makes batches for another kind of network"), "{message}");
}

#[test]
fn the_example_is_printed_and_checked() {
    let project = Project::new();
    let example = project.seqio("train --example").ok();
    assert!(example.out().contains("[schedule]\n"), "{}", example.out());
    project.write("run.toml", &example.stdout);
    let set = [
        "model.preset=t5_1_1/tiny",
        "data.batch_size=2",
        "eval={tasks=[{task='docs'}]}",
        "device.adapter=cpu",
    ];
    let mut command = project.command("train run.toml --dry-run");
    command.args(set.iter().flat_map(|set| ["--set", set]));
    // `docs` has no inputs, and is what the example's task is not.
    let message = project.run(&mut command).fails(3);
    assert!(message.contains("reads the feature `inputs`, but task `docs` has `targets`"), "{message}");
}

#[test]
fn a_run_learns_evaluates_and_keeps_checkpoints() {
    let project = project();
    let ran = train(&project, &[]).ok();
    let out = ran.out();
    assert!(out.contains("step 3  held_out  loss ") && out.contains("step 6  held_out  loss "), "{out}");
    assert!(out.contains("step 6 of 6, in `run/checkpoints/step-00000006`"), "{out}");
    let steps: Vec<u64> = logged(&project, "run", "train/loss").iter().map(|(step, _)| *step).collect();
    assert_eq!(steps, [1, 2, 3, 4, 5, 6]);
    assert_eq!(logged(&project, "run", "eval/held_out/accuracy").len(), 2);
    let mut kept: Vec<String> = std::fs::read_dir(project.path("run/checkpoints"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("step-"))
        .collect();
    kept.sort();
    assert_eq!(kept, ["step-00000004", "step-00000006"]);

    let again = train(&project, &[]).ok();
    assert!(again.err().contains("goes on at step 6"), "{}", again.err());
    let longer = train(&project, &["train.steps=8"]).ok();
    assert!(longer.err().contains("changed since the run began: `train.steps`: 6 → 8"), "{}", longer.err());
    assert_eq!(logged(&project, "run", "train/loss").len(), 8);
}

#[test]
fn a_run_that_goes_on_has_the_numbers_of_one_that_never_stopped() {
    let project = project();
    train(&project, &["run.dir=whole"]).ok();
    train(&project, &["run.dir=parts", "train.steps=3", "device.threads=1"]).ok();
    train(&project, &["run.dir=parts", "device.threads=3"]).ok();
    for metric in ["train/loss", "train/gradient_norm", "train/parameter_norm", "eval/held_out/loss"] {
        let (whole, parts) = (logged(&project, "whole", metric), logged(&project, "parts", metric));
        assert!(whole.len() >= 2, "{metric}");
        assert_eq!(whole, parts, "{metric}");
    }
}

#[test]
fn the_run_of_another_configuration_is_refused() {
    let project = project();
    train(&project, &["train.steps=1"]).ok();
    insta::assert_snapshot!(train(&project, &["data.batch_size=2", "optimizer.name=adamw"]).fails(3));
    // The folder keeps the whole configuration, which is a run file.
    let ran = project.seqio("train run/config.toml --set train.steps=2").ok();
    assert!(ran.out().contains("step 2 of 2"), "{}", ran.out());
}

#[test]
fn mistakes_come_before_anything_is_built() {
    let project = project();
    let set = ["train.step=3", "data.batch_size=0", "model.vocab_size=100"];
    insta::assert_snapshot!(train(&project, &set).fails(3));
    let message = train(&project, &["model.vocab_size=100"]).fails(3);
    insta::assert_snapshot!(message);
    let message = train(&project, &["data.task=dosc"]).fails(3);
    assert!(message.contains("did you mean `docs`?"), "{message}");
    let message = train(&project, &["data.epochs=1", "train.steps=1000"]).fails(3);
    assert!(message.contains("`steps` is 1000, but 1 epoch of `docs` give"), "{message}");
    let message = train(&project, &["device.adapter=abacus"]).fails(1);
    assert!(message.contains("no adapter is called `abacus`"), "{message}");
    assert!(!project.path("run").exists());
    project.seqio("train absent.toml").fails(3);
    project.seqio("train").fails(2);
}

#[test]
fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let project = project();
    let ran = project.seqio("train run.toml --dry-run").ok();
    assert!(ran.err().contains("`docs`, split `train`, has no up-to-date cache"), "{}", ran.err());
    let (summary, configuration) =
        ran.out().split_once("\n\n").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    assert!(summary.contains("parameters in 12 tensors"), "{summary}");
    assert!(configuration.contains("relpos_num_buckets = 32\n"), "{configuration}");
    assert!(!project.path("run").exists() && !project.path("seqio-cache").exists());
    project.seqio("cache build docs").ok();
    let ran = project.seqio("train run.toml --dry-run").ok();
    assert_eq!(ran.err(), "");
    assert!(ran.out().contains("split `train`, 60 examples"), "{}", ran.out());
}

/// The file has to be there for as long as the process that holds it.
#[test]
fn two_processes_do_not_train_in_one_folder() {
    let project = project();
    train(&project, &["train.steps=1"]).ok();
    let path = project.path("run/.lock");
    let held = std::fs::File::options().write(true).open(Path::new(&path)).unwrap();
    held.try_lock().unwrap();
    let message = train(&project, &[]).fails(1);
    assert!(message.contains("another process is training in"), "{message}");
    drop(held);
    train(&project, &[]).ok();
}

#[test]
fn a_stopped_run_says_how_to_go_on() {
    let project = project();
    let mut command =
        project.command("train run.toml --progress json --set train.steps=100000 --set eval.every=100000");
    let child = command.spawn().unwrap();
    wait_until("some steps are done", || project.path("run/checkpoints/step-00000004").exists());
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::INT).unwrap();
    let message = project.ended(child).fails(130);
    assert!(message.contains("`seqio train run.toml` goes on at step "), "{message}");
    assert!(message.contains("\"tokens_per_second\":"), "{message}");
    train(&project, &["train.steps=1"]).ok();
}
