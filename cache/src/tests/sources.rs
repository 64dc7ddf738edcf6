//! Sources that change, vanish, or hold bad records.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seqio::Split;

use super::tiny::{World, build, files, lines, small};
use crate::error::CacheError;
use crate::progress::{BuildProgress, Commit, NoProgress};
use crate::store::Found;

fn find(world: &World, version: u32) -> Found {
    let mut task = world.task();
    task.version = version;
    let split: Split = "train".parse().unwrap();
    world.caches("caches").find_split(&task, &split).unwrap()
}

#[test]
fn a_changed_definition_and_a_changed_source_are_told_apart_in_words() {
    let world = World::new(&[("train-a", "one\ntwo\n"), ("train-b.stream", "three\n")]);
    assert!(matches!(find(&world, 1), Found::Missing));
    world.build("caches", &["train"], &small(1));
    assert!(matches!(find(&world, 1), Found::Fresh { notice: None, .. }));

    let reason = |found: Found| match found {
        Found::Stale { reason } => reason,
        other => panic!("not stale: {other:?}"),
    };
    insta::assert_snapshot!(reason(find(&world, 2)), @"the definition changed: step 1 `bytes` had version 1 and has version 2: this program gives other results");
    world.write("train-a", "one\ntwo!\n");
    insta::assert_snapshot!(reason(find(&world, 1)), @"the source changed: `train-a` has 9 bytes instead of 8");
    world.write("train-a", "one\nTWO\n");
    insta::assert_snapshot!(reason(find(&world, 1)), @"the source changed: the content of `train-a` is another");
    world.write("train-a", "one\ntwo\n");
    world.write("train-c", "");
    insta::assert_snapshot!(reason(find(&world, 1)), @"the source changed: `train-c` is new");
    std::fs::remove_file(world.sources().join("train-c")).unwrap();
    std::fs::remove_file(world.sources().join("train-a")).unwrap();
    insta::assert_snapshot!(reason(find(&world, 1)), @"the source changed: `train-a` is gone");
}

#[test]
fn a_touched_source_is_compared_by_content_once() {
    let world = World::new(&[("train-a", "one\ntwo\n"), ("train-b.stream", "three\n")]);
    world.build("caches", &["train", "train[:2]"], &small(1));
    for name in ["train-a", "train-b.stream"] {
        let text = std::fs::read_to_string(world.sources().join(name)).unwrap();
        std::fs::remove_file(world.sources().join(name)).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        world.write(name, &text);
    }
    let task = world.task();
    let find = |split: &str| world.caches("caches").find_split(&task, &split.parse().unwrap()).unwrap();
    assert!(matches!(find("train"), Found::Fresh { notice: None, .. }));
    let read = task.chunks_read.load(Ordering::Relaxed);
    assert!(read > 0);
    assert!(matches!(find("train"), Found::Fresh { .. }));
    assert_eq!(task.chunks_read.load(Ordering::Relaxed), read, "the second look is at times alone");
    assert!(matches!(find("train[:2]"), Found::Fresh { .. }));
}

#[test]
fn absent_sources_are_told_once_and_the_cache_is_used() {
    let world = World::new(&[("train", "one\n")]);
    world.build("caches", &["train"], &small(1));
    std::fs::remove_file(world.sources().join("train")).unwrap();
    match find(&world, 1) {
        Found::Fresh { notice: Some(notice), .. } => {
            insta::assert_snapshot!(notice, @"the sources of `team:tiny`, split `train`, are not here; the cache is used unchecked");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_bad_record_stops_the_job_with_file_and_line() {
    let world =
        World::new(&[("train-a", &lines("a", 11)), ("train-b", &(lines("b", 7) + "!\n" + &lines("c", 30)))]);
    for threads in [1, 4] {
        let error = world.try_build("caches", &["train"], &small(threads), &NoProgress).unwrap_err();
        assert!(error.to_string().ends_with("train-b, line 8: it begins with `!`"), "{error}");
        assert!(error.hint().unwrap().contains("on_bad_row = \"skip\""));
    }
}

#[test]
fn a_source_that_changes_while_it_is_read_stops_the_job_and_its_ranges_are_done_again() {
    let world = World::new(&[("train-a", &lines("a", 9)), ("train-b", &lines("b", 9))]);
    struct Change<'a>(&'a World);
    impl BuildProgress for Change<'_> {
        fn committed(&self, commit: Commit) {
            if commit == Commit::Spill {
                self.0.write("train-b", &lines("c", 12));
            }
        }
    }
    let error = world.try_build("caches", &["train"], &small(1), &Change(&world)).unwrap_err();
    assert!(matches!(&error, CacheError::SourceChanged { path } if path.ends_with("train-b")), "{error}");
    let report = world.build("caches", &["train"], &small(1));
    let ranges = report.splits[0].ranges;
    assert!(ranges.reused > 0 && ranges.reused < ranges.total, "{ranges:?}");
    world.build("again", &["train"], &small(1));
    assert!(files(world.caches("caches").root()) == files(world.caches("again").root()));
}

#[test]
fn a_file_that_is_added_before_others_moves_no_id_and_no_work_is_lost() {
    let world = World::new(&[("train-b", &lines("b", 9)), ("train-c.stream", &lines("c", 9))]);
    let mut config = small(1);
    config.cancel = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    struct Stop(std::sync::Arc<std::sync::atomic::AtomicBool>);
    impl BuildProgress for Stop {
        fn committed(&self, commit: Commit) {
            if commit == Commit::Shard {
                self.0.store(true, Ordering::Relaxed);
            }
        }
    }
    world.try_build("caches", &["train"], &config, &Stop(std::sync::Arc::clone(&config.cancel))).unwrap_err();
    world.write("train-a", &lines("a", 9));
    let task = world.task();
    let report = build(&task, &world.caches("caches"), &["train"], &small(2), &NoProgress).unwrap();
    let ranges = report.splits[0].ranges;
    assert!(ranges.reused > 0 && ranges.reused < ranges.total, "{ranges:?}");
    world.build("again", &["train"], &small(1));
    assert!(files(world.caches("caches").root()) == files(world.caches("again").root()));
}

#[test]
fn a_read_only_folder_is_told_with_its_path() {
    let world = World::new(&[("train", "one\n")]);
    std::fs::write(world.caches("caches").root(), "a file where a folder should be").unwrap();
    let error = world.try_build("caches", &["train"], &small(1), &NoProgress).unwrap_err();
    assert!(error.to_string().starts_with("cannot create "), "{error}");
}

#[test]
fn a_slice_that_moved_while_no_job_ran_is_encoded_again_where_it_moved() {
    let world = World::new(&[("train-b", &lines("b", 30))]);
    let cancel = small(1);
    struct Stop(Arc<AtomicBool>);
    impl BuildProgress for Stop {
        fn committed(&self, commit: Commit) {
            // All ranges of the slice are encoded by then.
            self.0.store(commit == Commit::Shard, Ordering::Relaxed);
        }
    }
    world.try_build("caches", &["train[:50%]"], &cancel, &Stop(Arc::clone(&cancel.cancel))).unwrap_err();
    world.write("train-c", &lines("c", 9));
    world.build("caches", &["train[:50%]"], &small(1));
    world.build("whole", &["train[:50%]"], &small(1));
    assert!(files(world.caches("caches").root()) == files(world.caches("whole").root()));
}
