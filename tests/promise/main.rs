//! The promise, tried on the built program: batch `s` is a pure function of (definition, data, seed, batch size, `s`).
//!
//! Random data and random tasks are streamed by different numbers of threads and hosts, from different places, with
//! interruptions, with other batch sizes, from caches and without; what comes out must be the same to the last bit.
//! `SEQIO_PROMISE_CASES=200 cargo test --test promise` tries more, `SEQIO_PROMISE_FIRST=17` begins elsewhere, and
//! `SEQIO_PROMISE_SCALE=50` makes the data larger.

// Helpers of tests stand outside `#[test]` functions; a failing one has to say which case it was.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod case;
mod files;
mod program;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Child;

use case::{Case, Random};
use program::{Program, RowDigest, digests, num_files, same_tree, work_options};

/// A number from the environment, for trying more by hand.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a whole number"))
}

/// Runs `check` on every case of the run.
fn for_each_case(salt: u64, check: impl Fn(&Case, &Program)) {
    let first = setting("SEQIO_PROMISE_FIRST", 0);
    for number in first..first + setting("SEQIO_PROMISE_CASES", 8) {
        let folder = tempfile::tempdir().unwrap();
        let case = Case::random(number * 16 + salt, folder.path(), setting("SEQIO_PROMISE_SCALE", 1));
        let program = Program::new(folder.path());
        println!("case {number}: {case:?}");
        check(&case, &program);
    }
}

/// The rows of the whole stream, as one thread without read-ahead gives them.
fn reference(case: &Case, program: &Program) -> Vec<RowDigest> {
    program.rows(case, &["--threads", "1", "--read-ahead", "0"])
}

#[test]
fn threads_and_read_ahead_change_no_row_and_no_byte_of_a_cache() {
    for_each_case(0, |case, program| {
        let expected = reference(case, program);
        assert!(!expected.is_empty());
        for threads in ["1", "2", "8"] {
            for read_ahead in ["0", "64"] {
                let rows = program.rows(case, &["--threads", threads, "--read-ahead", read_ahead]);
                assert_eq!(rows, expected, "{threads} threads, read-ahead {read_ahead}");
            }
        }
        let one = program.build(case, "cache-1", &["--threads", "1", "--memory", "2GiB"]);
        for (threads, memory) in [("2", "2GiB"), ("8", "1MiB"), ("1", "1MiB")] {
            let name = format!("cache-{threads}-{memory}");
            let other = program.build(case, &name, &["--threads", threads, "--memory", memory]);
            same_tree(&one, &other);
        }
    });
}

#[test]
fn an_old_cache_reused_makes_the_bytes_of_a_full_build() {
    for_each_case(9, |case, program| {
        // What a new record may do to old ones cannot be reused: that is refused in words.
        let case = &case.without_comparisons();
        let files = case.files();
        let last = files.last().unwrap();
        let away = case.folder.join("away");
        if files.len() > 1 {
            std::fs::rename(last, &away).unwrap();
        }
        program.build(case, "old", &[]);
        program.build(case, "old-zstd", &["--compress", "zstd"]);
        if files.len() > 1 {
            std::fs::rename(&away, last).unwrap();
        }
        let whole = program.build(case, "whole", &["--threads", "1"]);
        let zstd = program.build(case, "whole-zstd", &["--compress", "zstd"]);
        for (old, threads, memory) in [("old", "1", "2GiB"), ("old-zstd", "4", "1MiB"), ("old", "2", "1MiB")]
        {
            let name = format!("from-{old}-{threads}");
            let folder = program.cache_below(old);
            let reuse = ["--reuse", &folder, "--threads", threads, "--memory", memory];
            same_tree(&whole, &program.build(case, &name, &reuse));
            let compressed = [&reuse[..], &["--compress", "zstd"]].concat();
            same_tree(&zstd, &program.build(case, &format!("{name}-zstd"), &compressed));
        }
    });
}

#[test]
fn compression_changes_no_row_and_a_cache_converts_to_the_byte() {
    for_each_case(8, |case, program| {
        let rows = |cache: &str, threads: &str| {
            program.rows(case, &["--cache-dir", cache, "--threads", threads, "--memory", "1MiB"])
        };
        let plain = program.build(case, "plain", &[]);
        let zstd = program.build(case, "zstd", &["--compress", "zstd", "--threads", "1"]);
        let expected = rows("plain", "1");
        for threads in ["1", "2", "8"] {
            assert_eq!(rows("zstd", threads), expected, "{threads} threads");
        }
        let other =
            program.build(case, "zstd-8", &["--compress", "zstd", "--threads", "8", "--memory", "1MiB"]);
        same_tree(&zstd, &other);
        let turned = program.build(case, "turned", &[]);
        program.convert("turned", "zstd");
        same_tree(&zstd, &turned);
        assert_eq!(rows("turned", "2"), expected);
        program.convert("turned", "none");
        same_tree(&plain, &turned);
    });
}

#[test]
fn hosts_share_the_rows_of_every_step() {
    for_each_case(1, |case, program| {
        let expected = reference(case, program);
        for hosts in 1..=3 {
            let mut rows = Vec::new();
            let mut steps = Vec::new();
            for host in 0..hosts {
                let part = program.rows(case, &["--host", &format!("{host}/{hosts}")]);
                let own_share = case.batch_size * (host + 1) / hosts - case.batch_size * host / hosts;
                steps.push(if own_share == 0 { None } else { part.last().map(|row| row.step) });
                rows.extend(part);
            }
            rows.sort_by_key(|row| (row.step, row.row));
            assert_eq!(rows, expected, "{hosts} hosts");
            steps.retain(Option::is_some);
            assert!(steps.windows(2).all(|pair| pair[0] == pair[1]), "every host gets as many batches");
        }
    });
}

#[test]
fn stopping_and_going_on_at_every_step_changes_no_row() {
    for_each_case(2, |case, program| {
        let expected = reference(case, program);
        let last = expected.last().unwrap().step;
        // Many steps: stop at some of them only, so that the test ends.
        let stride = (last / 12).max(1).to_string();
        let mut rows = Vec::new();
        loop {
            let part = program.rows(case, &["--state", "state.json", "--steps", &stride]);
            if part.is_empty() {
                break;
            }
            rows.extend(part);
        }
        assert_eq!(rows, expected);
    });
}

#[test]
fn any_step_can_be_the_first() {
    for_each_case(3, |case, program| {
        let expected = reference(case, program);
        let last = expected.last().unwrap().step;
        let epoch = last / case.epochs.max(1);
        for start in [0, 1, epoch / 2, epoch.saturating_sub(1), epoch, epoch + 1, last, last + 1] {
            let rows = program.rows(case, &["--start", &start.to_string()]);
            let tail: Vec<RowDigest> = expected.iter().filter(|row| row.step >= start).cloned().collect();
            assert_eq!(rows, tail, "from step {start} of {last}");
        }
    });
}

#[test]
fn a_restart_may_change_the_batch_size_and_the_number_of_hosts() {
    for_each_case(4, |case, program| {
        let expected = reference(case, program);
        let last = expected.last().unwrap().step;
        let stops: BTreeSet<u64> =
            [1, last / 2, last].into_iter().filter(|stop| (1..=last).contains(stop)).collect();
        for stop in stops {
            let sequence: Vec<&str> = expected.iter().map(|row| row.digest.as_str()).collect();
            let (batch_size, hosts) = (case.batch_size % 5 + 2, 2);
            let mut rest = Vec::new();
            for host in 0..hosts {
                let state = format!("state-{stop}-{host}.json");
                let steps = stop.to_string();
                let first = program.rows(case, &["--state", &state, "--steps", &steps]);
                assert_eq!(first[..], expected[..first.len()]);
                let other = Case { batch_size, ..case.clone() };
                rest.extend(program.rows(&other, &["--state", &state, "--host", &format!("{host}/{hosts}")]));
            }
            rest.sort_by_key(|row| (row.step, row.row));
            let rest: Vec<&str> = rest.iter().map(|row| row.digest.as_str()).collect();
            let tail = &sequence[(stop * case.batch_size) as usize..];
            // Both end in rows that only fill up the last batch, as many as it takes.
            let padding = tail.len().min(rest.len());
            assert_eq!(rest[..padding], tail[..padding], "stopped at {stop}");
            let filler: Vec<&&str> = rest[padding..].iter().chain(&tail[padding..]).collect();
            assert!(filler.windows(2).all(|pair| pair[0] == pair[1]), "only empty rows may be left over");
        }
    });
}

#[test]
fn a_cache_kept_in_source_order_equals_no_cache() {
    for_each_case(5, |case, program| {
        let case = Case { order: "storage", shuffled: false, ..case.clone() };
        case.write_task_file();
        let cached = program.rows(&case, &[]);
        for extra in
            [&["--no-cache", "--threads", "1"][..], &["--no-cache", "--threads", "8", "--read-ahead", "64"]]
        {
            assert_eq!(program.rows(&case, extra), cached, "{extra:?}");
        }
        let last = cached.last().unwrap().step;
        let tail: Vec<RowDigest> = cached.iter().filter(|row| row.step > last / 2).cloned().collect();
        assert_eq!(program.rows(&case, &["--no-cache", "--start", &(last / 2 + 1).to_string()]), tail);
    });
}

#[test]
fn an_epoch_holds_every_record_of_the_source_once() {
    for_each_case(6, |case, program| {
        if !case.keeps_every_token() || !case.can_be_listed() {
            return;
        }
        let case = Case { epochs: 1, ..case.clone() };
        // (file, row, offset of the record, first token of the piece, tokens) of every piece of every row
        let mut seen: BTreeMap<(String, u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
        for step in 0..program.steps(&case) {
            for piece in program.pieces(&case, step) {
                seen.entry((piece.file, piece.row, piece.offset))
                    .or_default()
                    .push((piece.from, piece.length));
            }
        }
        let mut expected = program.source_rows(&case);
        let empty = program.empty_items(&case);
        for (place, pieces) in &mut seen {
            pieces.sort_unstable();
            let mut next = 0;
            for (from, length) in pieces {
                assert_eq!(*from, next, "the pieces of {place:?} join without gap or overlap");
                next += *length;
            }
            assert!(expected.remove(place), "{place:?} is not in the source");
        }
        assert_eq!(expected.len() as u64, empty, "only empty examples may be missing: {expected:?}");
    });
}

#[test]
fn the_digest_of_a_step_is_that_of_its_rows() {
    for_each_case(7, |case, program| {
        let rows = reference(case, program);
        let steps = digests(&program.stream(case, &["--digest"]));
        assert_eq!(steps.len() as u64, rows.last().unwrap().step + 1);
        for (step, digest) in steps.iter().enumerate() {
            let mut hasher = blake3::Hasher::new();
            for row in rows.iter().filter(|row| row.step == step as u64) {
                let hash = blake3::Hash::from_hex(&row.digest).expect("row digests are printed whole");
                hasher.update(hash.as_bytes());
            }
            assert_eq!(*digest, hasher.finalize().to_hex().to_string(), "step {step}");
        }
    });
}

#[test]
fn workers_that_die_and_change_their_number_make_the_bytes_of_one_build() {
    for_each_case(8, |case, program| {
        let mut random = Random::new(case.seed + case.examples);
        let form = random.pick(&[&[][..], &["--compress", "zstd"]]);
        let one = program.build(case, "one", form);
        let shared = program.path("shared");
        for _ in 0..random.below(4) {
            let count = 1 + random.below(5);
            let shares: Vec<u64> = (0..count).filter(|_| random.below(4) > 0).collect();
            let mut workers: Vec<Child> = shares
                .iter()
                .map(|index| program.start_worker("shared", &format!("{index}/{count}"), &mut random))
                .collect();
            // Each is killed when so many files are there, or has ended by then.
            for worker in &mut workers {
                let files = 1 + random.below(12) as usize;
                while num_files(&shared) < files && worker.try_wait().unwrap().is_none() {
                    std::thread::yield_now();
                }
                worker.kill().unwrap();
                worker.wait().unwrap();
            }
        }
        let count = 1 + random.below(4);
        // Where steps compare all examples, workers that did not meet the others have to be run again.
        for _ in 0..=case.num_comparisons() {
            let mut workers: Vec<Child> = (0..count)
                .map(|index| program.start_worker("shared", &format!("{index}/{count}"), &mut random))
                .collect();
            for worker in &mut workers {
                assert!(worker.wait().unwrap().success(), "a worker of {count}");
            }
        }
        let options = work_options(&mut random);
        let mut finish = vec!["cache", "finish", "t", "--cache-dir", "shared"];
        finish.extend(options.iter().map(String::as_str).chain(form.iter().copied()));
        program.run(&finish);
        same_tree(&one, &shared);
    });
}
