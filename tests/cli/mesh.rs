//! `seqio train` over several ranks.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::wait_until;
use crate::train::{logged, project, train};

const MESH: &str = "mesh={data=2,model=2}";

fn numbers(logged: &[(u64, Value)]) -> Vec<f64> {
    logged.iter().map(|(_, value)| value.as_f64().unwrap()).collect()
}

/// Whether numbers are those of another mesh, where float32 sums have another order.
fn assert_near(one: &[(u64, Value)], other: &[(u64, Value)]) {
    assert_eq!(one.len(), other.len());
    for (one, other) in numbers(one).into_iter().zip(numbers(other)) {
        assert!((one / other - 1.0).abs() < 1e-4, "{one} {other}");
    }
}

/// A number of bytes that was told with three digits.
fn bytes_of(words: &str) -> f64 {
    let (number, unit) = words.rsplit_once(' ').unwrap();
    let unit = match unit {
        "bytes" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        _ => panic!("{words}"),
    };
    number.trim().parse::<f64>().unwrap() * unit
}

#[test]
fn a_run_over_a_mesh_has_the_losses_of_one_rank_and_goes_on_on_it() {
    let project = project();
    let ran = train(&project, &[MESH, "run.dir=mesh", "device.threads=2"]).ok();
    assert!(
        ran.err().contains("training on 4 ranks, 2 × 2 (data × model), each on cpu, 1 thread"),
        "{ran:?}"
    );
    assert!(ran.out().contains("step 6 of 6, in `mesh/checkpoints/step-00000006`"), "{ran:?}");
    train(&project, &["run.dir=alone"]).ok();
    train(&project, &[MESH, "run.dir=parts", "train.steps=3"]).ok();
    let ran = train(&project, &["run.dir=parts"]).ok();
    assert!(ran.err().contains("changed since the run began: `mesh.data`: 2 → not set"), "{ran:?}");
    // What is not said has no default that could differ.
    assert!(!ran.err().contains("partitioning_dims"), "{ran:?}");
    for metric in ["train/loss", "train/gradient_norm", "train/parameter_norm", "eval/held_out/loss"] {
        let [mesh, alone, parts] = ["mesh", "alone", "parts"].map(|folder| logged(&project, folder, metric));
        assert!(mesh.len() >= 2, "{metric}");
        assert_near(&mesh, &alone);
        assert_near(&mesh, &parts);
        // On one mesh the bits are the same.
        let so_far = parts.iter().filter(|(step, _)| *step <= 3).count();
        assert_eq!(mesh[..so_far], parts[..so_far], "{metric}");
    }
    // A run that begins on one rank goes on on several.
    train(&project, &["run.dir=alone", MESH, "train.steps=7"]).ok();
    assert_eq!(logged(&project, "alone", "train/loss").len(), 7);
}

#[test]
fn ranks_may_be_on_an_adapter_and_on_the_processor() {
    let project = project();
    let ran =
        train(&project, &["mesh={model=2,adapters=['auto','cpu']}", "run.dir=mixed", "train.steps=3"]).ok();
    assert!(
        ran.err().contains("training on 2 ranks, 1 × 2 (data × model): 1 on ")
            && ran.err().contains("; 1 on cpu"),
        "{ran:?}"
    );
    train(&project, &["run.dir=alone", "train.steps=3"]).ok();
    assert_near(&logged(&project, "mixed", "train/loss"), &logged(&project, "alone", "train/loss"));
    // Or on one device together.
    let shared = ["mesh={data=2,adapters=['auto'],share_devices=true}", "run.dir=shared", "train.steps=3"];
    train(&project, &shared).ok();
    assert_near(&logged(&project, "shared", "train/loss"), &logged(&project, "alone", "train/loss"));
}

#[test]
fn what_ranks_exchange_is_told_before_and_logged_after() {
    let project = project();
    let two = ["mesh.activation_partitioning_dims=2", "mesh.parameter_partitioning_dims=2"];
    for (folder, more) in [("one", &["train.microbatches=2"][..]), ("two", &two)] {
        let dir = format!("run.dir={folder}");
        let settings = [&[MESH, dir.as_str()], more].concat();
        let mut command = project.command("train run.toml --dry-run");
        let ran = project.run(command.args(settings.iter().flat_map(|set| ["--set", set]))).ok();
        let out = ran.out();
        let total = out.lines().find(|line| line.starts_with("in all")).unwrap();
        let words: Vec<&str> = total.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        train(&project, &settings).ok();
        for (place, name) in [(3, "out"), (4, "in")] {
            let metric = format!("train/timing/exchange_bytes_{name}_per_step");
            let found = numbers(&logged(&project, folder, &metric));
            assert_eq!(found.len(), 6);
            assert!(found.iter().all(|bytes| *bytes == found[0]), "{found:?}");
            assert!((bytes_of(words[place]) / found[0] - 1.0).abs() < 5e-3, "{total}\n{found:?}");
        }
        for share in ["wait", "copy"] {
            let metric = format!("train/timing/exchange_{share}_fraction");
            let shares = numbers(&logged(&project, folder, &metric));
            assert!(
                shares.len() == 6 && shares.iter().all(|share| (0.0..=1.0).contains(share)),
                "{shares:?}"
            );
        }
    }
    train(&project, &["run.dir=alone", "train.steps=1"]).ok();
    let log = String::from_utf8(project.read("alone/metrics.jsonl")).unwrap();
    assert!(!log.contains("exchange"), "{log}");
}

#[test]
fn a_dry_run_says_what_ranks_hold_and_exchange() {
    let project = project();
    for (name, dims) in [("dry_run_1_1", 1), ("dry_run_2_2", 2)] {
        let mesh = format!(
            "mesh={{data=2,model=2,activation_partitioning_dims={dims},parameter_partitioning_dims={dims}}}"
        );
        let mut command = project.command("train run.toml --dry-run --set device.threads=2 --set");
        let out = project.run(command.arg(mesh)).ok().out();
        let (report, _) = out.split_once("\n[model]").unwrap();
        insta::assert_snapshot!(name, report);
    }
}

#[test]
fn a_mesh_that_cannot_be_is_refused_with_what_could() {
    let project = project();
    let refused = [
        &["mesh.model=7"][..],
        &["mesh.model=3", "model.vocab_size=385", "model.num_heads=3", "model.mlp_dim=33"],
        &["mesh.data=3"],
        &["mesh.data=0"],
        &["mesh.model=0"],
        &["mesh.model=two"],
        &["mesh={data=4}", "train.microbatches=2"],
        &["mesh={data=3,parameter_partitioning_dims=2}", "data.batch_size=6"],
        &["mesh={model=2,adapters=['cpu','cpu','cpu']}"],
        &["mesh={adapters=['cpu','cpu','cpu']}"],
        &["mesh.adapters=[]"],
        &["mesh.adapters=cpu"],
        &["mesh.activation_partitioning_dims=3"],
        &["mesh.rows=2"],
    ];
    let messages = refused.map(|settings| train(&project, settings).fails(3));
    insta::assert_snapshot!(messages.join("----\n"));
    let message = train(&project, &["mesh={adapters=['cpu','abacus']}"]).fails(1);
    assert!(message.contains("no adapter is called `abacus`"), "{message}");
    assert!(!project.path("run").exists());
}

#[test]
fn a_timeline_shows_what_each_rank_does_in_a_step() {
    let project = project();
    let ran = project.run(project.command("train run.toml --timeline trace.json --set").arg(MESH)).ok();
    assert!(ran.err().contains("note: step 3 took ") && ran.err().contains("`trace.json`"), "{ran:?}");
    let trace: Value = serde_json::from_slice(&project.read("trace.json")).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let spans: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
    let (mut kinds, mut bounds) = (BTreeMap::<u64, BTreeSet<&str>>::new(), BTreeMap::new());
    for span in &spans {
        let (row, begin) = (span["tid"].as_u64().unwrap(), span["ts"].as_f64().unwrap());
        kinds.entry(row).or_default().insert(span["cat"].as_str().unwrap());
        let end = begin + span["dur"].as_f64().unwrap();
        let (first, last) = bounds.entry(row).or_insert((begin, end));
        (*first, *last) = (f64::min(*first, begin), f64::max(*last, end));
    }
    assert_eq!(kinds.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(
        kinds.values().all(|kinds| ["compute", "exchange", "copy"].iter().all(|kind| kinds.contains(kind)))
    );
    // All are at work at once.
    let begun = bounds.values().map(|(begin, _)| *begin).fold(0.0, f64::max);
    assert!(bounds.values().all(|(_, end)| *end > begun), "{bounds:?}");
    let names: Vec<&str> = events
        .iter()
        .filter(|event| event["name"] == "thread_name")
        .map(|event| event["args"]["name"].as_str().unwrap())
        .collect();
    assert!(names.len() == 4 && names[3].starts_with("rank 3 (data 1, model 1), cpu, "), "{names:?}");
    // Numbers are those of a run that nobody watched.
    train(&project, &[MESH, "run.dir=other"]).ok();
    assert_eq!(logged(&project, "run", "train/loss"), logged(&project, "other", "train/loss"));
}

#[test]
fn a_timeline_needs_ranks_steps_and_a_folder() {
    let project = project();
    let message = project.seqio("train run.toml --timeline trace.json").fails(2);
    insta::assert_snapshot!(message, @r"
    error: `--timeline` shows what several ranks do when, but this run has only one

    hint: spread the run over several, as by `--set mesh.model=2`
    ");
    let run = |line: &str| project.run(project.command(line).args(["--set", MESH]));
    let message = run("train run.toml --timeline no/trace.json").fails(1);
    insta::assert_snapshot!(message, @"error: cannot write `no/trace.json`: there is no folder `no`");
    assert!(!project.path("run").exists());
    let ran = run("train run.toml --set train.steps=2 --timeline trace.json").ok();
    assert!(ran.err().contains("the run ended before step 3 of this start"), "{ran:?}");
    assert!(!project.path("trace.json").exists());
    // The third step of a start, whatever step of the run it is.
    let ran = run("train run.toml --timeline trace.json").ok();
    assert!(ran.err().contains("note: step 5 took "), "{ran:?}");
}

#[test]
fn a_run_over_a_mesh_stops_when_it_is_asked_to() {
    let project = project();
    let mut command =
        project.command("train run.toml --set train.steps=100000 --set eval.every=100000 --set");
    let child = command.arg(MESH).spawn().unwrap();
    wait_until("some steps are done", || project.path("run/checkpoints/step-00000004").exists());
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::INT).unwrap();
    let message = project.ended(child).fails(130);
    assert!(message.contains("`seqio train run.toml` goes on at step "), "{message}");
}
