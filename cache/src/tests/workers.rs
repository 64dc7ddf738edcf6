//! Several workers and a finish make the bytes that one job makes, whoever dies when.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use seqio::Split;

use super::tiny::{By, TinyTask, World, build, files, lines, small};
use crate::build::{BuildConfig, BuildReport, Missing, build_splits};
use crate::error::CacheError;
use crate::progress::{BuildProgress, BuildStatus, Commit, NoProgress};
use crate::roster::WorkerState;
use crate::store::CacheState;
use crate::worker::{ShareReport, build_share};

const SPLITS: [&str; 3] = ["train", "validation", "train[:30%]"];

fn world() -> World {
    World::new(&[
        ("train-a", &lines("a", 30)),
        ("train-b.stream", &lines("b", 20)),
        ("train-c", ""),
        ("train-d", &lines("d", 3)),
        ("validation", &lines("v", 12)),
    ])
}

fn work(
    world: &World,
    name: &str,
    share: &str,
    config: &BuildConfig,
    progress: &dyn BuildProgress,
) -> Result<ShareReport, CacheError> {
    work_on(&world.task(), world, name, share, config, progress)
}

fn work_on(
    task: &TinyTask,
    world: &World,
    name: &str,
    share: &str,
    config: &BuildConfig,
    progress: &dyn BuildProgress,
) -> Result<ShareReport, CacheError> {
    build_share(&world.caches(name), task, &splits(), share.parse().unwrap(), config, progress)
}

fn finish(world: &World, name: &str, config: &BuildConfig) -> Result<BuildReport, CacheError> {
    finish_of(&world.task(), world, name, config)
}

fn finish_of(
    task: &TinyTask,
    world: &World,
    name: &str,
    config: &BuildConfig,
) -> Result<BuildReport, CacheError> {
    build_splits(&world.caches(name), task, &splits(), Missing::Refuse, config, &NoProgress)
}

fn splits() -> Vec<Split> {
    SPLITS.iter().map(|split| split.parse().unwrap()).collect()
}

fn expected(world: &World) -> BTreeMap<String, Vec<u8>> {
    world.build("whole", &SPLITS, &small(1));
    files(world.caches("whole").root())
}

/// Stops a job at its k-th commit.
struct StopAt(AtomicU64, u64, Arc<AtomicBool>);

impl BuildProgress for StopAt {
    fn committed(&self, _commit: Commit) {
        if self.0.fetch_add(1, Ordering::Relaxed) + 1 == self.1 {
            self.2.store(true, Ordering::Relaxed);
        }
    }
}

/// Runs a worker that is stopped at its k-th commit if it lives so long.
fn stopped_work(world: &World, name: &str, share: &str, at: u64) {
    let config = small(1 + at as usize % 3);
    let stop = StopAt(AtomicU64::new(0), at, Arc::clone(&config.cancel));
    if let Err(error) = work(world, name, share, &config, &stop) {
        assert!(matches!(error, CacheError::Interrupted { .. }), "{error}");
    }
}

#[test]
fn any_number_of_workers_in_any_order_makes_the_bytes_of_one_job() {
    let world = world();
    let expected = expected(&world);
    for count in [1u32, 2, 3, 7, 40] {
        let name = format!("workers-{count}");
        let (mut pieces, mut pieces_of_split) = (0, 0);
        for index in (0..count).rev() {
            let report =
                work(&world, &name, &format!("{index}/{count}"), &small(1 + index as usize % 2), &NoProgress);
            let report = report.unwrap();
            assert_eq!(report.workers_done(), Some(count - index));
            pieces += report.splits[0].pieces;
            pieces_of_split = report.splits[0].pieces_of_split;
            assert_eq!(report.splits[0].ranges.reused, 0);
        }
        let report = finish(&world, &name, &small(2)).unwrap();
        assert!(report.splits.iter().all(|split| split.ranges.reused == split.ranges.total));
        assert_eq!(pieces, pieces_of_split);
        assert!(files(world.caches(&name).root()) == expected, "{count} workers");
        // What is cached is left alone by workers too.
        let again = work(&world, &name, "0/2", &small(1), &NoProgress).unwrap();
        assert!(again.splits.iter().all(|split| split.cached_in.is_some()));
        assert!(finish(&world, &name, &small(1)).unwrap().splits.iter().all(|split| split.was_fresh));
        assert!(files(world.caches(&name).root()) == expected);
    }
}

#[test]
fn workers_that_die_go_on_under_any_number_and_nothing_is_done_twice() {
    let world = world();
    let expected = expected(&world);
    for seed in 0..6u64 {
        let name = format!("dying-{seed}");
        for round in 0..4u64 {
            let count = 1 + (seed + round * round) % 4;
            for index in 0..count {
                stopped_work(
                    &world,
                    &name,
                    &format!("{index}/{count}"),
                    1 + (seed * 5 + round * 3 + index) % 7,
                );
            }
        }
        let encoded = AtomicU64::new(0);
        struct Count<'a>(&'a AtomicU64);
        impl BuildProgress for Count<'_> {
            fn committed(&self, commit: Commit) {
                if commit == Commit::Spill {
                    self.0.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        for share in ["0/3", "1/3", "2/3"] {
            work(&world, &name, share, &small(2), &Count(&encoded)).unwrap();
        }
        let before = encoded.load(Ordering::Relaxed);
        for share in ["0/2", "1/2"] {
            work(&world, &name, share, &small(2), &Count(&encoded)).unwrap();
        }
        assert_eq!(encoded.into_inner(), before, "all was encoded already");
        finish(&world, &name, &small(1)).unwrap();
        assert!(files(world.caches(&name).root()) == expected, "seed {seed}");
    }
}

#[test]
fn one_job_goes_on_where_workers_ended() {
    let world = world();
    let expected = expected(&world);
    stopped_work(&world, "caches", "0/2", 3);
    work(&world, "caches", "1/2", &small(1), &NoProgress).unwrap();
    let report = world.build("caches", &SPLITS, &small(2));
    assert!(report.splits.iter().map(|split| split.ranges.reused).sum::<u64>() > 3);
    assert!(files(world.caches("caches").root()) == expected);
}

#[test]
fn finishing_names_what_is_missing_and_who_owes_it() {
    let world = world();
    let error = finish(&world, "caches", &small(1)).unwrap_err();
    let CacheError::Incomplete { pieces, missing, .. } = &error else { panic!("{error}") };
    assert_eq!(missing.iter().map(|missing| missing.pieces).sum::<u64>(), *pieces);
    for share in ["0/3", "2/3"] {
        work(&world, "caches", share, &small(1), &NoProgress).unwrap();
    }
    let error = finish(&world, "caches", &small(1)).unwrap_err();
    insta::assert_snapshot!(error, @"
    8 of 21 pieces of task `team:tiny` are not encoded yet
      worker 1/3, split `train`: `train-a` (pieces 1, 3, 5, 7, 9 of 10)
      worker 1/3, split `validation`: `validation` (piece 2 of 4)
      worker 1/3, split `train[:30%]`: `train-a` (pieces 2, 5 of 10)
    ");
    insta::assert_snapshot!(error.hint().unwrap(), @"run `seqio cache build team:tiny --split train --split 'train[:30%]' --split validation --worker 1/3`, then finish again; or `seqio cache build team:tiny --split train --split 'train[:30%]' --split validation` encodes the rest here, alone");
    work(&world, "caches", "1/3", &small(1), &NoProgress).unwrap();
    finish(&world, "caches", &small(1)).unwrap();
}

#[test]
fn what_is_damaged_after_the_workers_ended_is_owed_again() {
    let world = world();
    let expected = expected(&world);
    for share in ["0/2", "1/2"] {
        work(&world, "caches", share, &small(1), &NoProgress).unwrap();
    }
    let spill = spills(world.caches("caches").root()).swap_remove(3);
    let mut bytes = std::fs::read(&spill).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&spill, bytes).unwrap();
    let error = finish(&world, "caches", &small(1)).unwrap_err();
    let CacheError::Incomplete { missing, .. } = &error else { panic!("{error}") };
    let [owed] = &missing[..] else { panic!("{error}") };
    work(&world, "caches", &owed.share.to_string(), &small(1), &NoProgress).unwrap();
    finish(&world, "caches", &small(1)).unwrap();
    assert!(files(world.caches("caches").root()) == expected);
}

fn spills(root: &Path) -> Vec<PathBuf> {
    let names = files(root).into_keys().filter(|name| name.ends_with(".arrow"));
    names.map(|name| root.join(name)).collect()
}

/// Tries something else while a worker is at work.
struct Meanwhile<'a, F: Fn() + Sync>(F, &'a AtomicBool);

impl<F: Fn() + Sync> BuildProgress for Meanwhile<'_, F> {
    fn update(&self, status: &BuildStatus) {
        if status.examples > 0 && !self.1.swap(true, Ordering::Relaxed) {
            (self.0)();
        }
    }
}

#[test]
fn while_a_worker_lives_only_workers_of_the_same_number_may_join() {
    let world = world();
    let expected = expected(&world);
    let tried = AtomicBool::new(false);
    let meanwhile = || {
        let refused = |error: CacheError| error.to_string().split(", process").next().unwrap().to_owned();
        let same = work(&world, "caches", "1/3", &small(1), &NoProgress).unwrap_err();
        insta::assert_snapshot!(refused(same), @"another job builds this cache: worker 1/3");
        let other = work(&world, "caches", "0/2", &small(1), &NoProgress).unwrap_err();
        assert_eq!(
            other.hint().unwrap(),
            "wait for it to end, or stop it; then any number of workers can go on"
        );
        insta::assert_snapshot!(refused(other), @"pieces of `--worker 0/2` would be those of another worker too: worker 1/3");
        let job = world.try_build("caches", &SPLITS, &small(1), &NoProgress).unwrap_err();
        insta::assert_snapshot!(refused(job), @"another job builds this cache: worker 1/3");
        let finish = finish(&world, "caches", &small(1)).unwrap_err();
        insta::assert_snapshot!(refused(finish), @"another job builds this cache: worker 1/3");
        let list = world.caches("caches").list().unwrap();
        let CacheState::Unfinished { running, workers, .. } = &list[0].state else { panic!("{list:?}") };
        assert!(running);
        assert_eq!((workers.len(), workers[0].state), (1, WorkerState::AtWork));
        assert!(world.caches("caches").remove(&list[0].folder).is_err());
        work(&world, "caches", "2/3", &small(1), &NoProgress).unwrap();
    };
    work(&world, "caches", "1/3", &small(1), &Meanwhile(meanwhile, &tried)).unwrap();
    assert!(tried.into_inner());
    let list = world.caches("caches").list().unwrap();
    let CacheState::Unfinished { running, workers, .. } = &list[0].state else { panic!("{list:?}") };
    assert!(!running);
    assert!(workers.iter().all(|worker| worker.state == WorkerState::Done), "{workers:?}");
    work(&world, "caches", "0/3", &small(1), &NoProgress).unwrap();
    finish(&world, "caches", &small(1)).unwrap();
    assert!(files(world.caches("caches").root()) == expected);
}

#[test]
fn while_a_job_builds_no_worker_may_join() {
    let world = world();
    let tried = AtomicBool::new(false);
    let meanwhile = || {
        let error = work(&world, "caches", "0/2", &small(1), &NoProgress).unwrap_err();
        assert!(error.to_string().starts_with("another job builds this cache: process"), "{error}");
    };
    world.try_build("caches", &SPLITS, &small(1), &Meanwhile(meanwhile, &tried)).unwrap();
    assert!(tried.into_inner());
}

#[test]
fn a_worker_of_another_machine_counts_until_it_is_taken_over() {
    let world = world();
    stopped_work(&world, "caches", "0/2", 2);
    let list = world.caches("caches").list().unwrap();
    let CacheState::Unfinished { workers, .. } = &list[0].state else { panic!("{list:?}") };
    assert_eq!(workers[0].state, WorkerState::Stopped);
    let fingerprint = list[0].folder.file_name().unwrap().to_str().unwrap().replace(".building-", "");
    let lock = list[0].folder.with_file_name(format!(".lock-{fingerprint}.worker-0-of-2"));
    let elsewhere = r#"{"host":"elsewhere","pid":7,"since_unix_seconds":1,"worker":"0/2"}"#;
    std::fs::write(&lock, elsewhere).unwrap();
    let list = world.caches("caches").list().unwrap();
    let CacheState::Unfinished { running: false, workers, .. } = &list[0].state else { panic!("{list:?}") };
    assert_eq!(workers[0].state, WorkerState::AtWork, "as far as can be told from here");

    work(&world, "caches", "1/2", &small(1), &NoProgress).unwrap();
    let refused = |result: Result<(), CacheError>| {
        let error = result.unwrap_err();
        assert!(error.hint().unwrap().contains("--take-over"), "{error}");
        assert!(error.to_string().contains("worker 0/2, process 7 on `elsewhere`"), "{error}");
    };
    refused(work(&world, "caches", "0/2", &small(1), &NoProgress).map(drop));
    refused(world.try_build("caches", &SPLITS, &small(1), &NoProgress).map(drop));
    refused(finish(&world, "caches", &small(1)).map(drop));
    refused(work(&world, "caches", "0/3", &small(1), &NoProgress).map(drop));
    let take_over = BuildConfig { take_over: true, ..small(1) };
    work(&world, "caches", "0/3", &take_over, &NoProgress).unwrap();
    assert!(!lock.exists());
    std::fs::write(&lock, elsewhere).unwrap();
    world.try_build("caches", &SPLITS, &take_over, &NoProgress).unwrap();
    assert!(files(world.caches("caches").root()) == expected(&world));
}

#[test]
fn workers_that_see_other_files_are_refused_while_others_live() {
    let world = world();
    let tried = AtomicBool::new(false);
    let meanwhile = || {
        world.write("train-e", "more\n");
        let error = work(&world, "caches", "1/2", &small(1), &NoProgress).unwrap_err();
        insta::assert_snapshot!(error, @"the source of split `train` is not the one that the other workers see: `train-e` is only here");
        assert!(error.hint().unwrap().contains("rsync -t"), "{error}");
        std::fs::remove_file(world.sources().join("train-e")).unwrap();
    };
    work(&world, "caches", "0/2", &small(1), &Meanwhile(meanwhile, &tried)).unwrap();
    assert!(tried.into_inner());
    // Afterwards the source may have changed: what others encoded of files that are still the same is kept.
    world.write("train-e", "more\n");
    struct Told(AtomicU64);
    impl BuildProgress for Told {
        fn notice(&self, words: &str) {
            assert!(words.contains("`train-e` is only here"), "{words}");
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let told = Told(AtomicU64::new(0));
    work(&world, "caches", "1/2", &small(1), &told).unwrap();
    assert_eq!(told.0.into_inner(), 2, "`train` and its slice");
    work(&world, "caches", "0/2", &small(1), &NoProgress).unwrap();
    finish(&world, "caches", &small(1)).unwrap();
    assert!(files(world.caches("caches").root()) == expected(&world));
    // Whoever finishes must see the same too.
    world.write("train-f", "more\n");
    work(&world, "caches", "0/1", &small(1), &NoProgress).unwrap();
    world.write("train-f", "other\n");
    let error = finish(&world, "caches", &small(1)).unwrap_err();
    insta::assert_snapshot!(error, @"the source of split `train` is not the one that the other workers see: `train-f` has 6 bytes here and 5 there");
}

#[test]
fn a_worker_leaves_the_parts_of_others_alone() {
    let world = world();
    work(&world, "caches", "1/2", &small(1), &NoProgress).unwrap();
    let left = files(world.caches("caches").root());
    // Nothing of them is whole now.
    for name in left.keys().filter(|name| name.ends_with(".arrow")) {
        std::fs::write(world.caches("caches").root().join(name), "x").unwrap();
    }
    work(&world, "caches", "0/2", &small(1), &NoProgress).unwrap();
    let now = files(world.caches("caches").root());
    assert!(left.keys().all(|name| now.contains_key(name)));
    work(&world, "caches", "1/2", &small(1), &NoProgress).unwrap();
    finish(&world, "caches", &small(1)).unwrap();
    assert!(files(world.caches("caches").root()) == expected(&world));
}

#[test]
fn what_a_dead_worker_had_half_written_goes_when_its_share_is_gone_on_with() {
    let world = world();
    work(&world, "caches", "1/2", &small(1), &NoProgress).unwrap();
    let left: Vec<PathBuf> = spills(world.caches("caches").root())
        .into_iter()
        .map(|path| path.with_extension("arrow.0a0a0a0a.tmp"))
        .collect();
    left.iter().for_each(|path| std::fs::write(path, "half").unwrap());
    work(&world, "caches", "0/2", &small(1), &NoProgress).unwrap();
    assert!(left.iter().all(|path| path.exists()), "they may be of a worker that lives");
    work(&world, "caches", "1/2", &small(1), &NoProgress).unwrap();
    assert!(left.iter().all(|path| !path.exists()));
}

/// Many equal lines, in several files and ranges, and two steps that keep the first of each.
fn repeated() -> (World, TinyTask) {
    let text = |from: usize| -> String {
        (from..from + 40).map(|line| format!("line {}\n", line * 5 % 17)).collect()
    };
    let files =
        [("train-a", text(0)), ("train-b.stream", text(3)), ("train-c", text(9)), ("validation", text(1))];
    let world = World::new(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    let mut task = world.task();
    task.deduplicate = vec![By::Text, By::Text];
    build(&task, &world.caches("whole"), &SPLITS, &small(1), &NoProgress).unwrap();
    (world, task)
}

#[test]
fn where_all_examples_are_compared_workers_of_one_after_the_other_are_run_again() {
    let (world, task) = repeated();
    let share = |index: u32| format!("{index}/3");
    let mut rounds = 0;
    loop {
        rounds += 1;
        let mut awaits = Vec::new();
        for index in 0..3 {
            let report = work_on(&task, &world, "caches", &share(index), &small(2), &NoProgress).unwrap();
            awaits.push(report.splits[0].awaits.len());
        }
        if rounds == 1 {
            assert_eq!(awaits, [2, 1, 2], "the last one chooses, and then waits for keys of the second step");
            let list = world.caches("caches").list().unwrap();
            let CacheState::Unfinished { workers, .. } = &list[0].state else { panic!("{list:?}") };
            assert!(workers.iter().any(|worker| worker.state == WorkerState::Waiting), "{workers:?}");
            let error = finish_of(&task, &world, "caches", &small(1)).unwrap_err();
            assert!(matches!(error, CacheError::Incomplete { .. }), "{error}");
        }
        if awaits == [0, 0, 0] {
            break;
        }
    }
    assert_eq!(rounds, 3);
    let report = finish_of(&task, &world, "caches", &small(2)).unwrap();
    assert!(report.splits[0].statistics.duplicates[0].dropped > 0);
    assert!(files(world.caches("caches").root()) == files(world.caches("whole").root()));
}

#[test]
fn where_all_examples_are_compared_workers_at_the_same_time_wait_for_each_other() {
    let (world, task) = repeated();
    for count in [2, 5] {
        let name = format!("caches-{count}");
        // Some die first, under other numbers.
        for (share, at) in [("0/3", 2), ("2/3", 5), ("1/4", 3)] {
            let config = small(1);
            let stop = StopAt(AtomicU64::new(0), at, Arc::clone(&config.cancel));
            let _ = work_on(&task, &world, &name, share, &config, &stop);
        }
        std::thread::scope(|scope| {
            for index in 0..count {
                let (task, world, name) = (&task, &world, &name);
                scope.spawn(move || {
                    let share = format!("{index}/{count}");
                    // A worker that began before the others were there may have to be run again, once a step and
                    // split at most, and as often as another began late.
                    let is_done = |_| {
                        let report = work_on(task, world, name, &share, &small(2), &NoProgress).unwrap();
                        report.splits.iter().all(|split| split.awaits.is_empty())
                    };
                    assert!((0..1000).any(is_done), "worker {share} waits for ever");
                });
            }
        });
        finish_of(&task, &world, &name, &small(2)).unwrap();
        assert!(files(world.caches(&name).root()) == files(world.caches("whole").root()), "{count} workers");
    }
}
