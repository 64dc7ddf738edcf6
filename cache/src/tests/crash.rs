//! A job stopped anywhere is gone on with, and the result is the same to the byte.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::tiny::{World, build, files, lines, small};
use crate::build::BuildConfig;
use crate::error::CacheError;
use crate::progress::{BuildProgress, Commit, NoProgress};
use crate::store::CacheState;

/// Stops a job at its k-th commit.
pub(super) struct StopAt {
    commits: AtomicU64,
    at: u64,
    cancel: Arc<AtomicBool>,
}

impl BuildProgress for StopAt {
    fn committed(&self, _commit: Commit) {
        if self.commits.fetch_add(1, Ordering::Relaxed) + 1 == self.at {
            self.cancel.store(true, Ordering::Relaxed);
        }
    }
}

pub(super) fn stopping(threads: usize, at: u64) -> (BuildConfig, StopAt) {
    let config = small(threads);
    let stop = StopAt { commits: AtomicU64::new(0), at, cancel: Arc::clone(&config.cancel) };
    (config, stop)
}

fn world() -> World {
    World::new(&[
        ("train-a", &lines("a", 30)),
        ("train-b.stream", &lines("b", 20)),
        ("validation", &lines("v", 12)),
    ])
}

const SPLITS: [&str; 2] = ["train", "validation"];

#[test]
fn stopping_at_any_commit_changes_no_byte_and_nothing_is_done_twice() {
    let world = world();
    let counted = AtomicU64::new(0);
    struct Count<'a>(&'a AtomicU64);
    impl BuildProgress for Count<'_> {
        fn committed(&self, _commit: Commit) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    world.try_build("whole", &SPLITS, &small(1), &Count(&counted)).unwrap();
    let commits = counted.into_inner();
    let expected = files(world.caches("whole").root());
    assert!(commits > 20, "{commits} commits");
    for at in 1..commits {
        let name = format!("stopped-{at}");
        let (config, stop) = stopping(1, at);
        let error = world.try_build(&name, &SPLITS, &config, &stop).unwrap_err();
        assert!(matches!(error, CacheError::Interrupted { .. }), "{error}");
        assert!(error.hint().unwrap().contains("same command again"));
        let unfinished = world.caches(&name).list().unwrap();
        assert!(
            matches!(unfinished[0].state, CacheState::Unfinished { running: false, .. }),
            "{unfinished:?}"
        );

        let counted = AtomicU64::new(0);
        let report = world.try_build(&name, &SPLITS, &small(2), &Count(&counted)).unwrap();
        assert_eq!(counted.into_inner() + at, commits, "stopped at {at}");
        let reused: u64 = report.splits.iter().map(|split| split.ranges.reused).sum();
        assert!(reused > 0, "stopped at {at}");
        assert!(files(world.caches(&name).root()) == expected, "stopped at {at}");
    }
}

#[test]
fn a_job_stopped_many_times_ends_with_the_same_bytes() {
    let world = world();
    world.build("whole", &SPLITS, &small(1));
    let mut jobs = 0;
    loop {
        let (config, stop) = stopping(3, 2);
        jobs += 1;
        match world.try_build("stopped", &SPLITS, &config, &stop) {
            Ok(_) => break,
            Err(error) => assert!(matches!(error, CacheError::Interrupted { .. }), "{error}"),
        }
    }
    assert!(jobs > 3, "{jobs}");
    assert!(files(world.caches("stopped").root()) == files(world.caches("whole").root()));
}

#[test]
fn a_range_is_gone_on_with_where_its_last_part_ended() {
    let mut world = World::new(&[("train-a", &lines("a", 90)), ("validation.stream", &lines("v", 60))]);
    world.range_bytes = 900;
    let parts = |threads, at| {
        let (mut config, stop) = stopping(threads, at);
        config.geometry.part_bytes = 40;
        config.memory_bytes = 1;
        (config, stop)
    };
    world.build("whole", &SPLITS, &small(1));
    let whole = world.task();
    build(&whole, &world.caches("again"), &SPLITS, &small(1), &NoProgress).unwrap();
    let chunks = whole.chunks_parsed.load(Ordering::Relaxed);
    for at in [1, 2, 3, 5, 8, 13, 21] {
        let name = format!("stopped-{at}");
        let task = world.task();
        let (config, stop) = parts(1, at);
        build(&task, &world.caches(&name), &SPLITS, &config, &stop).unwrap_err();
        let report = build(&task, &world.caches(&name), &SPLITS, &parts(2, 0).0, &NoProgress).unwrap();
        assert_eq!(task.chunks_parsed.load(Ordering::Relaxed), chunks, "nothing is encoded twice");
        assert!(report.splits.iter().any(|split| split.ranges.partly_reused > 0 || split.ranges.reused > 0));
        assert!(files(world.caches(&name).root()) == files(world.caches("whole").root()), "stopped at {at}");
    }
}

#[test]
fn damaged_and_half_written_work_is_done_again() {
    let world = world();
    world.build("whole", &SPLITS, &small(1));
    let expected = files(world.caches("whole").root());
    let (config, stop) = stopping(1, 18);
    world.try_build("stopped", &SPLITS, &config, &stop).unwrap_err();
    let root = world.caches("stopped").root().to_owned();
    let left = files(&root);
    assert!(left.keys().any(|name| name.contains("/cache/train-00000")), "{:?}", left.keys());
    for (number, (name, bytes)) in left.iter().enumerate() {
        // Every kind of file, and every kind of damage; not each on each, as every build syncs its files.
        for damage in [number % 3].into_iter().filter(|_| number % 4 < 3) {
            let damaged = match damage {
                0 => bytes[..bytes.len() / 2].to_vec(),
                1 => [&bytes[..], b"x"].concat(),
                _ => {
                    let mut flipped = bytes.clone();
                    if let Some(byte) = flipped.get_mut(bytes.len() / 3) {
                        *byte ^= 1;
                    }
                    flipped
                }
            };
            std::fs::write(root.join(name), &damaged).unwrap();
            let copy = world.caches(&format!("copy-{damage}-{}", name.replace('/', "_")));
            copy_folder(&root, copy.root());
            let task = world.task();
            build(&task, &copy, &SPLITS, &small(2), &NoProgress).unwrap();
            assert!(files(copy.root()) == expected, "damage {damage} of {name}");
            std::fs::write(root.join(name), bytes).unwrap();
        }
    }
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_folder(&path, &target)
        } else {
            std::fs::copy(&path, &target).map(drop).unwrap()
        }
    }
}

#[test]
fn spills_of_splits_that_are_not_asked_for_again_stay_for_later() {
    let world = world();
    let (config, stop) = stopping(1, 25);
    world.try_build("caches", &SPLITS, &config, &stop).unwrap_err();
    world.build("caches", &["validation"], &small(1));
    let chunks = world.task();
    let report = build(&chunks, &world.caches("caches"), &["train"], &small(1), &NoProgress).unwrap();
    assert_eq!(report.splits[0].ranges.reused, report.splits[0].ranges.total);
    assert_eq!(chunks.chunks_read.load(Ordering::Relaxed), 0);
    let list = world.caches("caches").list().unwrap();
    assert!(list.iter().all(|info| matches!(info.state, CacheState::Complete(_))), "{list:?}");
}

#[test]
fn a_finished_cache_is_not_built_again() {
    let world = world();
    assert!(!world.build("caches", &SPLITS, &small(1)).splits[0].was_fresh);
    let task = world.task();
    let report = build(&task, &world.caches("caches"), &SPLITS, &small(1), &NoProgress).unwrap();
    assert!(report.splits.iter().all(|split| split.was_fresh));
    assert_eq!(task.chunks_read.load(Ordering::Relaxed), 0);
}

#[test]
fn two_builders_at_once_are_told_of_each_other() {
    let world = world();
    struct Second<'a>(&'a World, AtomicBool);
    impl BuildProgress for Second<'_> {
        fn committed(&self, _commit: Commit) {
            let error = self.0.try_build("caches", &["train"], &small(1), &NoProgress).unwrap_err();
            assert!(matches!(error, CacheError::Locked { .. }), "{error}");
            let list = self.0.caches("caches").list().unwrap();
            if let CacheState::Unfinished { running, .. } = &list[0].state {
                assert!(running);
                assert!(self.0.caches("caches").remove(&list[0].folder).is_err());
            }
            self.1.store(true, Ordering::Relaxed);
        }
    }
    let second = Second(&world, AtomicBool::new(false));
    world.try_build("caches", &["train"], &small(1), &second).unwrap();
    assert!(second.1.into_inner());
}
