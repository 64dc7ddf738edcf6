//! `seqio cache build --worker i/n` and `seqio cache finish`: several processes that share a folder build one cache.

use std::process::Child;

use rustix::process::Signal;

use crate::cache::{content, large, signal};
use crate::support::{Project, files_below, wait_until};

fn whole(project: fn() -> Project, splits: &str) -> std::collections::BTreeMap<String, Vec<u8>> {
    let whole = project();
    whole.seqio(&format!("cache build docs {splits}")).ok();
    content(&whole.cache_of("docs"))
}

/// Times and the name of the cache's folder are other ones each time.
fn shown(text: &str) -> String {
    let words = |line: &str| {
        let mut words: Vec<&str> = line.split(' ').collect();
        for verb in ["encoded", "finished"] {
            if let Some(at) = words.iter().position(|word| *word == verb) {
                // `encoded in 12 ms: …`
                words.splice(at + 2..at + 4, ["[time]:"]);
            }
        }
        words.join(" ").split(" in seqio-cache").next().unwrap().to_owned() + "\n"
    };
    text.lines().map(words).collect()
}

/// A worker stopped in the middle of its life.
fn held(project: &Project, share: &str) -> Child {
    for _ in 0..50 {
        let child =
            project.command(&format!("cache build docs --split train --worker {share}")).spawn().unwrap();
        let lock = format!("worker-{}", share.replace('/', "-of-"));
        let folder = project.path("seqio-cache/docs");
        wait_until("the worker has its lock", || {
            files_below(&folder).iter().any(|path| {
                path.to_string_lossy().ends_with(&lock) && !std::fs::read(path).unwrap_or_default().is_empty()
            })
        });
        signal(&child, Signal::STOP);
        let is_stopped = || {
            let state = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
            state.rsplit(") ").next().and_then(|rest| rest.chars().next())
        };
        wait_until("the worker stands still", || matches!(is_stopped(), Some('T' | 'Z')));
        if is_stopped() == Some('T')
            && files_below(&folder).iter().any(|path| path.to_string_lossy().ends_with(&lock))
        {
            return child;
        }
        // It was quicker than the signal.
        signal(&child, Signal::CONT);
        project.ended(child).ok();
        std::fs::remove_dir_all(project.path("seqio-cache")).unwrap();
    }
    panic!("no worker could be caught alive");
}

#[test]
fn workers_and_a_finish_make_the_bytes_of_one_build() {
    let project = Project::new();
    let first = project.seqio("cache build docs --worker 2/3 --threads 1").ok();
    insta::assert_snapshot!(shown(&first.out()), @"
    docs train, worker 2/3: encoded in [time]: 0 of 2 pieces, 0 bytes of 3.98 KiB; 0 examples, 0 tokens
    docs validation, worker 2/3: encoded in [time]: 0 of 1 piece, 0 bytes of 340 bytes; 0 examples, 0 tokens
    ");
    insta::assert_snapshot!(first.err(), @"note: 1 of 3 workers of `docs` done; when all are, `seqio cache finish docs` makes the cache");
    let message = project.seqio("cache finish docs").fails(1);
    insta::assert_snapshot!(message, @"
    error: 3 of 3 pieces of task `docs` are not encoded yet
      worker 0/3, split `train`: `train-0.jsonl`
      worker 1/3, split `train`: `train-1.jsonl`
      worker 0/3, split `validation`: `valid.jsonl`

    hint: run `seqio cache build docs --worker 0/3` and `seqio cache build docs --worker 1/3`, then finish again; or `seqio cache build docs` encodes the rest here, alone
    ");
    project.seqio("cache build docs --worker 0/3 --threads 2 --memory 1MiB").ok();
    let last = project.seqio("cache build docs --worker 1/3 --json").ok();
    let lines = last.json_lines();
    assert_eq!((lines[0]["worker"].as_str(), lines[0]["workers_done"].as_u64()), (Some("1/3"), Some(3)));
    assert_eq!(lines[0]["pieces_of_split"], 2);
    assert!(
        last.err().contains("all workers of `docs` are done: `seqio cache finish docs` makes the cache"),
        "{}",
        last.err()
    );
    let finished = project.seqio("cache finish docs --threads 2").ok();
    insta::assert_snapshot!(shown(&finished.out()), @"
    docs train: finished in [time]: 60 examples, 3,419 tokens, 11.8 KiB
    docs validation: finished in [time]: 5 examples, 285 tokens, 2.78 KiB
    ");
    assert_eq!(finished.err(), "");
    assert!(content(&project.cache_of("docs")) == whole(Project::new, ""));
    let left = files_below(&project.path("seqio-cache"));
    assert!(!left.iter().any(|path| path.to_string_lossy().contains("worker")), "{left:?}");
    for command in ["cache finish docs", "cache build docs --worker 0/2", "cache build docs"] {
        assert!(project.seqio(command).ok().out().contains("is up to date"), "{command}");
    }
}

#[test]
fn killed_workers_go_on_under_another_number() {
    let project = large();
    let building = project.path("seqio-cache/docs");
    for (share, files) in [("0/2", 3), ("1/2", 6), ("1/4", 9)] {
        let mut child =
            project.command(&format!("cache build docs --split train --worker {share}")).spawn().unwrap();
        wait_until("some work is committed", || {
            files_below(&building).len() >= files || child.try_wait().unwrap().is_some()
        });
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let listed = project.seqio("cache list docs --json").ok().json();
    let workers = listed[0]["workers"].as_array().unwrap();
    assert!(
        workers.iter().all(|worker| worker["worker"] == "1/4" && worker["state"] != "at work"),
        "{workers:?}"
    );
    for share in ["2/3", "0/3"] {
        project.seqio(&format!("cache build docs --split train --worker {share}")).ok();
    }
    let finish = project.seqio("cache finish docs --split train");
    if finish.code != Some(0) {
        let message = finish.fails(1);
        assert!(
            message.contains("pieces of task `docs` are not encoded yet\n  worker 1/3, split `train`: "),
            "{message}"
        );
        let hint = "hint: run `seqio cache build docs --split train --worker 1/3`, then finish again; or `seqio cache \
                    build docs --split train` encodes the rest here, alone";
        assert!(message.contains(hint), "{message}");
    }
    project.seqio("cache build docs --split train --worker 1/3").ok();
    project.seqio("cache finish docs --split train").ok();
    assert!(content(&project.cache_of("docs")) == whole(large, "--split train"));
}

#[test]
fn a_build_without_workers_does_what_dead_ones_left() {
    let project = large();
    project.seqio("cache build docs --split train --worker 1/2").ok();
    let ran = project.seqio("cache build docs --split train").ok();
    assert!(ran.err().contains("reused"), "{}", ran.err());
    assert!(content(&project.cache_of("docs")) == whole(large, "--split train"));
}

#[test]
fn while_a_worker_lives_what_would_disturb_it_is_refused() {
    let project = large();
    let worker = held(&project, "0/2");
    for line in
        ["cache build docs --split train", "cache finish docs --split train", "cache build docs --worker 0/2"]
    {
        let message = project.seqio(line).fails(1);
        assert!(message.contains("another job builds this cache: worker 0/2, process "), "{line}: {message}");
        assert!(message.contains("hint: wait for it to end, or stop it"), "{line}: {message}");
    }
    let message = project.seqio("cache build docs --worker 2/3").fails(1);
    assert!(
        message.contains("pieces of `--worker 2/3` would be those of another worker too: worker 0/2"),
        "{message}"
    );
    // The other one may.
    project.seqio("cache build docs --split train --worker 1/2").ok();
    let message = project.seqio("cache remove docs").fails(1);
    assert!(message.contains("worker 0/2, process "), "{message}");
    let listed = project.seqio("cache list docs").ok().out();
    assert!(listed.contains("building") && listed.contains("\nworkers of "), "{listed}");
    signal(&worker, Signal::CONT);
    project.ended(worker).ok();
    project.seqio("cache finish docs --split train").ok();
    assert!(content(&project.cache_of("docs")) == whole(large, "--split train"));
}

#[test]
fn a_worker_of_another_host_is_refused_until_it_is_taken_over() {
    let project = large();
    project.seqio("cache build docs --split train --worker 1/2").ok();
    let building = std::fs::read_dir(project.path("seqio-cache/docs")).unwrap();
    let mut names = building.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let fingerprint = names.find_map(|name| name.strip_prefix(".building-").map(str::to_owned)).unwrap();
    let lock = format!("seqio-cache/docs/.lock-{fingerprint}.worker-0-of-2");
    let elsewhere = r#"{"host":"node-7","pid":7,"since_unix_seconds":1,"worker":"0/2"}"#;
    project.write(&lock, elsewhere);
    for line in
        ["cache finish docs --split train", "cache build docs --split train", "cache build docs --worker 0/2"]
    {
        let message = project.seqio(line).fails(1);
        assert!(
            message.contains("held by a job on another machine: worker 0/2, process 7 on `node-7`"),
            "{message}"
        );
        assert!(message.contains("run the same command with `--take-over`"), "{message}");
    }
    project.seqio("cache build docs --split train --worker 0/2 --take-over").ok();
    project.seqio("cache finish docs --split train").ok();
    assert!(content(&project.cache_of("docs")) == whole(large, "--split train"));
}

#[test]
fn a_worker_tells_its_share_in_its_progress() {
    let project = Project::new();
    let ran = project.seqio("cache build docs --split train --worker 0/2 --progress json").ok();
    let lines: Vec<serde_json::Value> =
        ran.err().lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let last = lines.last().unwrap();
    assert_eq!((last["worker"].as_str(), last["files"].as_u64()), (Some("0/2"), Some(1)));
    assert_eq!(last["bytes"], last["bytes_total"]);
    let plain = project.seqio("cache build docs --split train --worker 1/2 --progress plain").ok();
    assert!(plain.err().contains("docs train, worker 1/2: "), "{}", plain.err());
    assert!(plain.err().contains("1/1 files"), "{}", plain.err());
}

#[test]
fn a_share_that_is_none_is_a_command_line_that_makes_no_sense() {
    let project = Project::new();
    let message = project.seqio("cache build docs --worker 3/3").fails(2);
    assert!(
        message.contains("there is no worker 3 of 3: workers are counted from 0, so the last is `2/3`"),
        "{message}"
    );
    let message = project.seqio("cache build docs --worker 3").fails(2);
    assert!(message.contains("write worker 0 of 4 as `0/4`"), "{message}");
    project.seqio("cache build docs --worker 0/3 --dry-run").fails(2);
}
