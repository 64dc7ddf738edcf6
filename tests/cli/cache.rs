//! `seqio cache build | list | verify | remove`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Project, documents, files_below, wait_until};

/// Names and bytes of a cache's files, but for the log of what varies.
pub(crate) fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = files_below(folder).into_iter().filter(|path| !path.ends_with("build.log.json"));
    files
        .map(|path| {
            let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
            (name, std::fs::read(path).unwrap())
        })
        .collect()
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
}

/// A task with enough text to be caught while it is encoded.
pub(crate) fn large() -> Project {
    let project = Project::new();
    let text = documents(0..2000);
    for file in 0..12 {
        project.write(&format!("data/train-{file}.jsonl"), text.repeat(5));
    }
    project
}

#[test]
fn a_build_says_what_it_made_and_a_second_finds_it_up_to_date() {
    let project = Project::new();
    let first = project.seqio("cache build docs").ok();
    let shown = |text: String| {
        let text = regex_time(&text);
        text.lines()
            .map(|line| line.split(" in seqio-cache").next().unwrap().to_owned() + "\n")
            .collect::<String>()
    };
    insta::assert_snapshot!("build", shown(first.out()));
    assert_eq!(first.err(), "", "no progress in a pipe");
    insta::assert_snapshot!("build_again", shown(project.seqio("cache build docs").ok().out()));
}

/// `built in 12 ms` without the time.
fn regex_time(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("built in ") {
        let after = &rest[at + 9..];
        let end = after.find(": ").unwrap();
        out.push_str(&rest[..at]);
        out.push_str("built in [time]");
        rest = &after[end..];
    }
    out + rest
}

#[test]
fn threads_and_memory_change_no_byte() {
    let caches: Vec<_> = ["--threads 1", "--threads 4", "--threads 2 --memory 1MiB"]
        .iter()
        .map(|options| {
            let project = Project::new();
            project.seqio(&format!("cache build docs {options}")).ok();
            content(&project.cache_of("docs"))
        })
        .collect();
    assert!(caches[0].len() >= 4);
    assert!(caches[0] == caches[1] && caches[0] == caches[2]);
}

#[test]
fn progress_is_machine_readable_as_json() {
    let ran = Project::new().seqio("cache build docs --split train --progress json").ok();
    let lines: Vec<serde_json::Value> =
        ran.err().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = lines.last().unwrap();
    assert_eq!(last["finished"], true);
    assert_eq!(last["examples"], 60);
    assert_eq!(last["files"], 2);
    assert!(last["tokens"].as_u64().unwrap() > 60);
    let plain = Project::new().seqio("cache build docs --split train --progress plain").ok();
    assert!(plain.err().contains("2/2 files"), "{}", plain.err());
}

#[test]
fn a_dry_run_estimates_and_writes_nothing() {
    let project = Project::new();
    let estimates = project.seqio("cache build docs --dry-run --json").ok().json_lines();
    assert_eq!(estimates.len(), 2);
    let examples = estimates[0]["examples"].as_u64().unwrap();
    assert!((30..=120).contains(&examples), "{examples}");
    assert!(project.seqio("cache build docs --dry-run").ok().out().contains("tokens"));
    assert!(files_below(&project.path("seqio-cache")).is_empty());
}

#[test]
fn caches_are_listed_verified_and_removed() {
    let project = Project::new();
    assert_eq!(project.seqio("cache list").ok().out(), "no caches in `seqio-cache`\n");
    project.seqio("cache build docs pairs").ok();
    let listed = project.seqio("cache list --json").ok().json();
    assert_eq!(listed.as_array().unwrap().len(), 2);
    assert_eq!(listed[0]["task"], "docs");
    assert_eq!(listed[0]["up_to_date"], serde_json::json!(["train", "validation"]));
    assert_eq!(listed[0]["examples"], 65);
    assert!(project.seqio("cache list pairs").ok().out().contains("train (shuffled)"));
    assert!(project.seqio("cache verify").ok().out().starts_with("whole: "));
    assert!(project.seqio("cache remove docs --dry-run").ok().out().starts_with("would remove seqio-cache"));
    assert!(project.seqio("cache remove docs").ok().out().starts_with("removed seqio-cache"));
    assert!(!project.path("seqio-cache/docs").exists());
    assert_eq!(project.seqio("cache list --json").ok().json().as_array().unwrap().len(), 1);
    insta::assert_snapshot!(project.seqio("cache remove pars").fails(1));
}

#[test]
fn only_stale_caches_go_when_asked_for() {
    let project = Project::new();
    project.seqio("cache build docs --split train").ok();
    project.write("data/train-1.jsonl", documents(40..70));
    project.seqio("cache build docs").ok();
    let listed = project.seqio("cache list").ok().out();
    assert!(listed.contains("up to date") && listed.contains("out of date"), "{listed}");
    let removed = project.seqio("cache remove docs --stale").ok().out();
    assert_eq!(removed.lines().count(), 1, "{removed}");
    assert!(project.seqio("cache build docs").ok().out().contains("docs train: is up to date"));
}

#[test]
fn caches_are_kept_where_the_option_or_the_environment_says() {
    let project = Project::new();
    project.seqio("cache build pairs --cache-dir elsewhere").ok();
    assert!(!files_below(&project.path("elsewhere/pairs")).is_empty());
    let mut command = project.command("cache build pairs");
    project.run(command.env("SEQIO_CACHE_DIR", project.path("third"))).ok();
    assert!(!files_below(&project.path("third/pairs")).is_empty());
    assert!(!project.path("seqio-cache").exists());
}

#[test]
fn ctrl_c_stops_cleanly_says_how_to_go_on_and_the_result_is_the_same() {
    let project = large();
    let whole = large();
    whole.seqio("cache build docs --split train").ok();
    let child = project.command("cache build docs --split train --progress json").spawn().unwrap();
    let building = project.path("seqio-cache/docs");
    wait_until("the build has begun", || !files_below(&building).is_empty());
    signal(&child, Signal::INT);
    let stopped = project.ended(child);
    if stopped.code == Some(130) {
        assert!(
            stopped.err().contains("hint: run the same command again to go on from there"),
            "{}",
            stopped.err()
        );
    } else {
        // The build was quicker than the signal.
        assert_eq!(stopped.code, Some(0), "{}", stopped.err());
    }
    project.seqio("cache build docs --split train").ok();
    assert!(content(&project.cache_of("docs")) == content(&whole.cache_of("docs")));
}

#[test]
fn a_killed_build_goes_on_and_the_result_is_the_same() {
    let whole = large();
    whole.seqio("cache build docs --split train").ok();
    let project = large();
    let building = project.path("seqio-cache/docs");
    for files in [2, 6, 10] {
        let child = project.command("cache build docs --split train").spawn().unwrap();
        let mut child = child;
        wait_until("some work is committed", || {
            files_below(&building).len() >= files || child.try_wait().unwrap().is_some()
        });
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let last = project.seqio("cache build docs --split train").ok();
    assert!(
        last.err().contains("reused") || last.out().contains("is up to date"),
        "{}{}",
        last.out(),
        last.err()
    );
    assert!(content(&project.cache_of("docs")) == content(&whole.cache_of("docs")));
}

#[test]
fn a_second_builder_is_told_who_holds_the_cache() {
    let project = large();
    let first = project.command("cache build docs --split train").spawn().unwrap();
    let building = project.path("seqio-cache/docs");
    wait_until("the build has begun", || files_below(&building).len() >= 2);
    signal(&first, Signal::STOP);
    let second = project.seqio("cache build docs --split train");
    signal(&first, Signal::CONT);
    if second.code == Some(0) {
        assert!(second.out().contains("is up to date"), "{}", second.out());
    } else {
        let message = second.fails(1);
        assert!(message.contains("another job builds this cache"), "{message}");
        assert!(message.contains("hint: wait for it to end, or stop it"), "{message}");
    }
    project.ended(first).ok();
    assert!(project.seqio("cache build docs --split train").ok().out().contains("is up to date"));
}

#[test]
fn a_compressed_cache_streams_the_same_batches_and_becomes_the_other_form_and_back() {
    let project = Project::new();
    let lines = [
        "stream docs --batch-size 4 --lengths 96 --digest=rows --epochs 2 --threads 1",
        "stream docs --batch-size 4 --lengths 96 --digest=rows --epochs 2 --threads 4 --memory 1MiB",
        "stream docs --batch-size 4 --lengths 96 --digest --epochs 1 --order full",
        "inspect docs -n 3 --json",
        "batch docs --batch-size 4 --lengths 96 --step 2 --json",
        "plan docs --batch-size 4 --lengths 96 --epochs 2 --json",
        "find docs data/train-0.jsonl:3 --batch-size 4 --lengths 96 --json",
    ];
    let lines = lines.map(|line| line.replace("find docs data", "find data"));
    project.seqio("cache build docs").ok();
    let expected: Vec<String> = lines.iter().map(|line| project.seqio(line).ok().out()).collect();
    let plain = content(&project.cache_of("docs"));

    let other = Project::new();
    other.seqio("cache build docs --compress zstd").ok();
    for (line, expected) in lines.iter().zip(&expected) {
        assert_eq!(other.seqio(line).ok().out(), *expected, "{line}");
    }
    let folder = other.cache_of("docs");
    let line =
        format!("stream --cache {} --batch-size 4 --lengths 96 --digest=rows --epochs 2", folder.display());
    assert_eq!(other.seqio(&line).ok().out(), expected[0]);
    assert!(other.seqio("cache verify").ok().out().starts_with("whole: "));
    assert_eq!(other.seqio("cache list --json").ok().json()[0]["compression"], "zstd");
    assert!(other.seqio("cache list").ok().out().contains(" zstd"));
    assert!(other.seqio("stats docs --split train").ok().out().contains("60 examples"));
    let bench = other.seqio("bench infeed docs --batch-size 4 --lengths 96 --steps 3 --json").ok().json();
    assert!(bench["batches_decompressed"].as_u64().unwrap() > 0, "{bench}");
    let slow = "stream docs --batch-size 4 --lengths 96 --digest --epochs 1 --order full --memory 1KiB";
    let ran = other.seqio(slow).ok();
    assert_eq!(ran.out(), expected[2]);
    assert!(
        ran.err().contains("decompresses a batch of this cache for nearly every example"),
        "{}",
        ran.err()
    );
    assert!(!project.seqio(slow).ok().err().contains("decompresses"));
    let zstd = content(&folder);
    assert!(zstd != plain);

    // In the other form: told how, and done without the sources.
    let ran = project.seqio("cache build docs --compress zstd").ok();
    assert!(ran.out().contains("is up to date"), "{}", ran.out());
    let told =
        "`seqio cache convert docs --compress zstd` rewrites the cache without encoding anything again";
    assert!(ran.err().contains(told), "{}", ran.err());
    std::fs::rename(project.path("data"), project.path("away")).unwrap();
    let shown = project.seqio("cache convert docs --compress zstd").ok().out();
    assert!(shown.contains("compressed by zstd now"), "{shown}");
    assert!(content(&project.cache_of("docs")) == zstd);
    assert!(
        project
            .seqio("cache convert docs --compress zstd")
            .ok()
            .out()
            .contains("is compressed by zstd already")
    );
    let back = project.seqio("cache convert docs --compress none --json").ok().json();
    assert_eq!((&back["compression_before"], &back["compression"]), (&"zstd".into(), &"none".into()));
    assert!(content(&project.cache_of("docs")) == plain);
}

#[test]
fn why_a_cache_does_not_match_is_told_in_words() {
    let project = Project::new();
    let shown = project.seqio("cache explain docs").ok().out();
    assert!(shown.contains("split `train` has no cache; `seqio cache build docs` makes one"), "{shown}");
    project.seqio("cache build docs").ok();
    let shown = project.seqio("cache explain docs").ok().out();
    assert!(shown.contains("split `train` is cached and up to date") && shown.contains("matches"), "{shown}");

    let text = String::from_utf8(project.read("seqio.toml")).unwrap();
    let changed =
        text.replacen("{ op = \"tokenize\" }", "{ op = \"tokenize\", keep_pretokenized = true }", 1);
    project.write("seqio.toml", changed.replacen("[task.docs]", "[task.docs]\ncache_seed = 7", 1));
    project.write("data/train-2.jsonl", documents(60..70));
    project.write("data/train-0.jsonl", documents(0..41));
    let shown = project.seqio("cache explain docs --split train").ok().out();
    for words in [
        "split `train` is out of date; 1 cache of it would not be used",
        "definition: step 2 `tokenize`: `keep_pretokenized` was false and is true",
        "definition: the cache seed was 0 and is 7",
        "source: `train-2.jsonl` is new",
        "source: `train-0.jsonl` has ",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let json = project.seqio("cache explain docs --split train --json").ok().json();
    let cache = &json["splits"][0]["caches"][0];
    assert_eq!(cache["matches"], false);
    assert_eq!(cache["definition"][1]["before"].as_bool(), Some(false), "{cache}");
    assert_eq!(cache["sources"].as_array().unwrap().len(), 2);
    // The reason that a build gives is in the same words.
    let told = project.seqio("cache build docs --split train").ok().err();
    assert!(told.contains("step 2 `tokenize`: `keep_pretokenized` was false and is true"), "{told}");
    let message = project.seqio("cache explain dcs").fails(3);
    assert!(message.contains("did you mean `docs`?"), "{message}");
}

#[test]
fn appended_data_are_cached_by_encoding_only_what_is_new_with_the_same_bytes() {
    let append = |project: &Project| {
        project.write("data/train-00.jsonl", documents(100..110));
        project.write("data/train-2.jsonl", documents(60..90));
        project.write("data/train-1.jsonl", documents(40..61));
    };
    let whole = Project::new();
    append(&whole);
    whole.seqio("cache build docs").ok();
    let expected = content(&whole.cache_of("docs"));
    for (form, options) in [("none", "--threads 1"), ("zstd", "--threads 4 --memory 1MiB")] {
        let project = Project::new();
        project.seqio(&format!("cache build docs --compress {form}")).ok();
        let old = project.cache_of("docs");
        append(&project);
        let stale = project.seqio("cache build docs --dry-run").ok();
        assert!(stale.out().contains("docs train"), "{}", stale.out());
        let line = format!("cache build docs --cache-dir new --reuse {} {options}", old.display());
        let ran = project.seqio(&line).ok();
        for words in [
            "split `train`: took 1 of 4 pieces, 40 examples, from `",
            "`train-00.jsonl` is new; `train-1.jsonl` changed and is encoded again; `train-2.jsonl` is new",
            "split `validation`: took 1 of 1 piece, 5 examples, from `",
        ] {
            assert!(ran.err().contains(words), "{words}: {}", ran.err());
        }
        let folder = std::fs::read_dir(project.path("new/docs")).unwrap();
        let folder =
            folder.map(|entry| entry.unwrap().path()).find(|path| path.join("manifest.json").exists());
        assert!(content(&folder.unwrap()) == expected, "{form}");
        project.seqio("cache verify --cache-dir new").ok();
    }
}

#[test]
fn the_newest_cache_of_the_definition_is_reused_when_asked_for_and_offered_when_not() {
    let project = Project::new();
    project.seqio("cache build docs --split train").ok();
    project.write("data/train-2.jsonl", documents(60..70));
    let json = project.seqio("cache build docs --split train --reuse auto --json").ok().json();
    assert_eq!((&json["pieces_from_cache"], &json["examples_from_cache"]), (&2.into(), &60.into()));
    project.write("data/train-3.jsonl", documents(70..75));
    let told = project.seqio("cache build docs --split train").ok().err();
    assert!(
        told.contains("`train-3.jsonl` is new; `--reuse auto` would take over what is as it was"),
        "{told}"
    );
    // Nothing that could be reused is said, and no error.
    let told = project.seqio("cache build pairs --reuse auto").ok().err();
    assert!(told.contains("no cache of this definition that can be reused"), "{told}");
}

#[test]
fn an_old_cache_that_does_not_fit_is_refused_with_what_differs() {
    let project = Project::new();
    project.seqio("cache build docs pairs").ok();
    let old = project.cache_of("docs").display().to_string();
    let message = project.seqio(&format!("cache build pairs --cache-dir new --reuse {old}")).fails(1);
    assert!(message.contains("cannot be reused: it is a cache of task `docs`, not of `pairs`"), "{message}");
    assert!(message.contains("hint: build without `--reuse`"), "{message}");
    let text = String::from_utf8(project.read("seqio.toml")).unwrap();
    project.write("seqio.toml", text.replacen("{ op = \"append_eos\" },", "", 1));
    let message = project.seqio(&format!("cache build docs --reuse {old}")).fails(1);
    assert!(
        message.contains("it is of another definition: ")
            && message.contains("step `append_eos`, at place 3, is gone"),
        "{message}"
    );
    let message = project.seqio("cache build docs --reuse nowhere").fails(1);
    assert!(message.contains("nowhere is not a cache: there is no such folder"), "{message}");
    project.seqio("cache build docs --worker 0/2 --reuse auto").fails(2);

    // What an example gives has to follow from its own record.
    let project = Project::new();
    let text = String::from_utf8(project.read("seqio.toml")).unwrap();
    let step = "steps    = [\n  { op = \"deduplicate\", by = \"text\" },";
    project.write("seqio.toml", text.replacen("steps    = [", step, 1));
    project.seqio("cache build docs").ok();
    let old = project.cache_of("docs").display().to_string();
    project.write("data/train-2.jsonl", documents(55..70));
    let message = project.seqio(&format!("cache build docs --reuse {old}")).fails(1);
    assert!(
        message.contains("step 1 `deduplicate` compares all examples of a split with each other"),
        "{message}"
    );
    project.seqio("cache build docs --reuse auto").ok();
}

#[test]
fn a_lock_of_another_host_holds_until_it_is_taken_over() {
    let project = Project::new();
    project.seqio("cache build docs").ok();
    let folder = project.cache_of("docs");
    let expected = content(&folder);
    let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
    let fingerprint = name.split('-').next().unwrap();
    project.seqio("cache remove docs").ok();
    let lock = format!("seqio-cache/docs/.lock-{fingerprint}");
    let forge = || project.write(&lock, r#"{"host":"elsewhere","pid":7,"since_unix_seconds":1793324040}"#);
    forge();
    for line in ["cache build docs", "stream docs --batch-size 4 --lengths 96 --steps 1 --format none"] {
        let message = project.seqio(line).fails(1);
        assert!(
            message.contains(
                "held by a job on another machine: process 7 on `elsewhere`, since 2026-10-30 01:34 UTC"
            ),
            "{message}"
        );
        let hint = "hint: make sure that job is dead, then run the same command with `--take-over`";
        assert!(message.contains(hint), "{message}");
    }
    assert!(project.path(&lock).exists());
    project.seqio("cache build docs --take-over").ok();
    assert!(content(&project.cache_of("docs")) == expected);
    assert!(!project.path(&lock).exists(), "who takes a lock over gives it back in the end");

    // What that job left is gone on with, or removed, under the same condition.
    let building = format!("seqio-cache/docs/.building-{fingerprint}");
    project.seqio("cache remove docs").ok();
    project.write(&format!("{building}/train.work/left.json"), "{}");
    forge();
    let message = project.seqio("cache remove docs").fails(1);
    assert!(message.contains("with `--take-over`"), "{message}");
    project.seqio("cache remove docs --take-over").ok();
    assert!(!project.path(&building).exists());
}
