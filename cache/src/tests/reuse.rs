//! A build that takes examples over from an old cache makes the same bytes as one that encodes everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::crash::stopping;
use super::tiny::{TinyTask, World, build, files, lines, small};
use crate::build::{BuildConfig, BuildReport};
use crate::compression::Compression;
use crate::error::CacheError;
use crate::progress::{BuildProgress, NoProgress};
use crate::reuse::Reuse;
use crate::verify::verify;

const SPLITS: [&str; 2] = ["train", "validation"];

fn reusing(config: BuildConfig, folder: &std::path::Path) -> BuildConfig {
    BuildConfig { reuse: Some(Reuse::Folder(folder.to_owned())), ..config }
}

/// Builds into `name` with examples of the cache in `old`, and says how many chunks were encoded.
fn build_from(world: &World, name: &str, old: &str, config: BuildConfig) -> (BuildReport, u64) {
    let folder = world.caches(old).list().unwrap()[0].folder.clone();
    let task = world.task();
    let report = build(&task, &world.caches(name), &SPLITS, &reusing(config, &folder), &NoProgress).unwrap();
    (report, task.chunks_parsed.load(Ordering::Relaxed))
}

fn chunks(task: &TinyTask) -> u64 {
    task.chunks_parsed.load(Ordering::Relaxed)
}

fn world() -> World {
    World::new(&[
        ("train-b", &lines("b", 40)),
        ("train-c.stream", &lines("c", 20)),
        ("train-e", &lines("e", 12)),
        ("validation-b", &lines("v", 15)),
    ])
}

/// New files before, between and behind, one grown, one gone: all that can happen at once.
fn append(world: &World) {
    world.write("train-a", &lines("new", 9));
    world.write("train-b", &(lines("b", 40) + &lines("more", 30)));
    world.write("train-d.stream", &lines("d", 11));
    std::fs::remove_file(world.sources().join("train-e")).unwrap();
    world.write("train-f", &lines("f", 7));
    world.write("validation-a", &lines("w", 5));
}

#[test]
fn appended_data_make_the_cache_that_a_full_build_makes_in_any_form_with_any_threads() {
    let world = world();
    for (name, form) in [("old", Compression::None), ("old-zstd", Compression::Zstd)] {
        world.build(name, &SPLITS, &BuildConfig { compression: Some(form), ..small(2) });
    }
    append(&world);
    let whole = world.task();
    build(&whole, &world.caches("whole"), &SPLITS, &small(1), &NoProgress).unwrap();
    let expected = files(world.caches("whole").root());
    for (old, threads, memory_bytes) in [("old", 1, 1 << 30), ("old", 4, 1), ("old-zstd", 3, 1 << 20)] {
        let name = format!("from-{old}-{threads}");
        let config = BuildConfig { memory_bytes, ..small(threads) };
        let (report, encoded) = build_from(&world, &name, old, config);
        assert!(files(world.caches(&name).root()) == expected, "{name}");
        assert!(encoded < chunks(&whole) * 2 / 3, "{encoded} of {} chunks encoded again", chunks(&whole));
        let ranges = report.splits[0].ranges;
        assert!(ranges.from_cache > 10 && ranges.from_cache < ranges.total, "{ranges:?}");
        assert!(report.splits[1].ranges.from_cache > 0);
        let left = report.splits[0].reused.as_ref().unwrap().left.clone();
        assert!(left.contains("`train-a` is new") && left.contains("`train-e` is gone"), "{left}");
        assert_eq!(verify(&report.splits[0].folder, &|_| {}).problems, []);
    }
    // And into the other form.
    let zstd = BuildConfig { compression: Some(Compression::Zstd), ..small(2) };
    world.build("whole-zstd", &SPLITS, &zstd);
    build_from(&world, "zstd-from-plain", "old", zstd);
    assert!(files(world.caches("zstd-from-plain").root()) == files(world.caches("whole-zstd").root()));
}

#[test]
fn nothing_is_encoded_if_nothing_changed() {
    let world = world();
    world.build("old", &SPLITS, &small(2));
    let (report, encoded) = build_from(&world, "again", "old", small(1));
    assert_eq!(encoded, 0);
    assert!(files(world.caches("again").root()) == files(world.caches("old").root()));
    let ranges = report.splits[0].ranges;
    assert_eq!((ranges.from_cache, ranges.reused), (ranges.total, 0));
    assert_eq!(report.splits[0].reused.as_ref().unwrap().left, "");
}

#[test]
fn a_file_that_grew_is_encoded_from_where_it_differs() {
    for name in ["train", "train.stream"] {
        grown_file(name);
    }
}

fn grown_file(file: &str) {
    let mut world = World::new(&[(file, &lines("a", 60)), ("validation", "v\n")]);
    world.range_bytes = 120;
    world.build("old", &SPLITS, &small(2));
    for (number, text) in [lines("a", 60) + &lines("b", 20), lines("a", 61), "x".to_owned() + &lines("a", 60)]
        .into_iter()
        .enumerate()
    {
        world.write(file, &text);
        let name = format!("whole-{number}");
        let whole = world.task();
        build(&whole, &world.caches(&name), &SPLITS, &small(1), &NoProgress).unwrap();
        let from = format!("from-{number}");
        let (_, encoded) = build_from(&world, &from, "old", small(2));
        assert!(files(world.caches(&from).root()) == files(world.caches(&name).root()), "{number}");
        assert_eq!(encoded < chunks(&whole) / 2, number < 2, "{encoded} of {}", chunks(&whole));
    }
}

#[test]
fn bad_records_and_what_encoders_met_are_counted_as_in_a_full_build() {
    let bad = |prefix: &str, count: usize| {
        (0..count)
            .map(
                |line| {
                    if line % 3 == 0 { format!("!{prefix}{line}\n") } else { format!("{prefix}? {line}\n") }
                },
            )
            .collect::<String>()
    };
    let world = World::new(&[("train-b", &bad("b", 30)), ("train-c", &bad("c", 9)), ("validation", "v\n")]);
    let task = || TinyTask { on_bad_row: seqio::OnBadRow::Skip, ..world.task() };
    build(&task(), &world.caches("old"), &SPLITS, &small(2), &NoProgress).unwrap();
    world.write("train-a", &bad("a", 4));
    std::fs::remove_file(world.sources().join("train-c")).unwrap();
    world.write("train-d", &bad("d", 20));
    build(&task(), &world.caches("whole"), &SPLITS, &small(2), &NoProgress).unwrap();
    let old = world.caches("old").list().unwrap()[0].folder.clone();
    let report =
        build(&task(), &world.caches("from"), &SPLITS, &reusing(small(2), &old), &NoProgress).unwrap();
    assert!(files(world.caches("from").root()) == files(world.caches("whole").root()));
    let statistics = &report.splits[0].statistics;
    assert_eq!(statistics.bad_rows.count, 10 + 2 + 7);
    assert!(statistics.features["targets"].unknown_tokens > 20);
}

#[test]
fn a_build_that_is_stopped_goes_on_with_or_without_the_old_cache() {
    let world = world();
    world.build("old", &SPLITS, &small(2));
    let old = world.caches("old").list().unwrap()[0].folder.clone();
    append(&world);
    world.build("whole", &SPLITS, &small(1));
    let expected = files(world.caches("whole").root());
    let mut stopped = 0;
    for at in [1, 3, 9, 15, 24, 30, 36] {
        for again in [true, false] {
            let name = format!("stopped-{at}-{again}");
            let (config, stop) = stopping(1, at);
            if let Err(error) = world.try_build(&name, &SPLITS, &reusing(config, &old), &stop) {
                assert!(matches!(error, CacheError::Interrupted { .. }), "{error}");
                stopped += 1;
            }
            let config = if again { reusing(small(2), &old) } else { small(2) };
            world.build(&name, &SPLITS, &config);
            assert!(files(world.caches(&name).root()) == expected, "{name}");
        }
    }
    assert!(stopped > 8, "{stopped}");
    // The other way round: begun without, gone on with it.
    for at in [5, 20, 40] {
        let name = format!("begun-{at}");
        let (config, stop) = stopping(1, at);
        world.try_build(&name, &SPLITS, &config, &stop).unwrap_err();
        world.build(&name, &SPLITS, &reusing(small(2), &old));
        assert!(files(world.caches(&name).root()) == expected, "{name}");
    }
}

#[test]
fn any_flipped_byte_of_the_old_shards_stops_the_build_or_changes_nothing() {
    let world = World::new(&[("train", &lines("a", 8)), ("validation", "v\n")]);
    world.build("old", &SPLITS, &small(1));
    let old = world.caches("old").list().unwrap()[0].folder.clone();
    world.write("train-2", &lines("b", 3));
    world.build("whole", &SPLITS, &small(1));
    let expected = files(world.caches("whole").root());
    let mut refused = 0;
    for (name, bytes) in files(&old).into_iter().filter(|(name, _)| name.starts_with("train")) {
        for at in (0..bytes.len()).step_by(bytes.len() / 9 + 1) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            std::fs::write(old.join(&name), &flipped).unwrap();
            let target = format!("flipped-{name}-{at}");
            match world.try_build(&target, &SPLITS, &reusing(small(2), &old), &NoProgress) {
                Err(error) => {
                    assert!(error.to_string().contains("is damaged"), "{error}");
                    refused += 1;
                }
                // Lengths are counted anew from the ids.
                Ok(_) => assert!(files(world.caches(&target).root()) == expected, "{name}, byte {at}"),
            }
        }
        std::fs::write(old.join(&name), &bytes).unwrap();
    }
    assert!(refused > 20, "{refused}");
}

#[test]
fn an_old_cache_that_does_not_fit_is_refused_in_words() {
    let world = world();
    let folder = world.build("old", &["train"], &small(2)).splits[0].folder.clone();
    let refused = |task: &TinyTask, splits: &[&str]| {
        let error = build(task, &world.caches("new"), splits, &reusing(small(1), &folder), &NoProgress);
        let error = error.unwrap_err();
        assert!(matches!(error, CacheError::CannotReuse { .. }), "{error}");
        assert!(error.hint().unwrap().contains("without `--reuse`"));
        error.to_string().replace(&*folder.to_string_lossy(), "[old]")
    };
    let other = TinyTask { version: 2, ..world.task() };
    insta::assert_snapshot!(refused(&other, &["train"]), @"[old] cannot be reused: it is of another definition: step 1 `bytes` had version 1 and has version 2: this program gives other results");
    insta::assert_snapshot!(refused(&world.task(), &["train[:10]"]), @"[old] cannot be reused: `train[:10]` is a slice, and which records belong to one depends on all files");
    std::fs::remove_file(folder.join("train.pieces.json")).unwrap();
    insta::assert_snapshot!(refused(&world.task(), &["train"]), @"[old] cannot be reused: it has no `train.pieces.json`: the program that built it kept none");
}

#[test]
fn a_split_that_the_old_cache_does_not_hold_is_encoded_and_the_latest_is_found() {
    let world = world();
    world.build("caches", &["train"], &small(2));
    append(&world);
    world.build("whole", &SPLITS, &small(2));
    struct Heard(std::sync::Mutex<Vec<String>>);
    impl BuildProgress for Heard {
        fn notice(&self, words: &str) {
            self.0.lock().unwrap().push(words.to_owned());
        }
    }
    let heard = Heard(Default::default());
    let latest = BuildConfig { reuse: Some(Reuse::Latest), ..small(2) };
    let report = world.try_build("caches", &SPLITS, &latest, &heard).unwrap();
    assert!(report.splits[0].ranges.from_cache > 0 && report.splits[0].reused.is_some());
    assert_eq!((report.splits[1].ranges.from_cache, &report.splits[1].reused), (0, &None));
    assert!(files(&report.splits[0].folder) == files(&world.caches("whole").list().unwrap()[0].folder));
    assert!(heard.0.lock().unwrap().iter().any(|words| words.contains("is out of date")));
}

#[test]
fn progress_counts_what_is_taken_over() {
    let world = world();
    world.build("old", &SPLITS, &small(2));
    append(&world);
    struct Last(AtomicU64);
    impl BuildProgress for Last {
        fn update(&self, status: &crate::BuildStatus) {
            self.0.fetch_max(status.ranges_from_cache, Ordering::Relaxed);
        }
    }
    let last = Arc::new(Last(AtomicU64::new(0)));
    let old = world.caches("old").list().unwrap()[0].folder.clone();
    let report = world.try_build("new", &["train"], &reusing(small(1), &old), &*last).unwrap();
    assert_eq!(last.0.load(Ordering::Relaxed), report.splits[0].ranges.from_cache);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_old_and_any_new_data_make_the_full_build(
        old in prop::collection::btree_map(0u8..5, prop::collection::vec("[a-z?!]{0,20}", 0..25), 1..4),
        new in prop::collection::btree_map(0u8..5, prop::collection::vec("[a-z?!]{0,20}", 0..25), 1..4),
        grow in any::<bool>(),
        threads in 1usize..4,
        zstd in any::<bool>(),
        shuffled in any::<bool>(),
    ) {
        let split = if shuffled { "train" } else { "validation" };
        let world = World::new(&[]);
        let name = |file: u8| format!("{split}-{file}{}", if file == 3 { ".stream" } else { "" });
        let text = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        let task = || TinyTask { on_bad_row: seqio::OnBadRow::Skip, ..world.task() };
        old.iter().for_each(|(&file, lines)| world.write(&name(file), &text(lines)));
        let form = Some(if zstd { Compression::Zstd } else { Compression::None });
        build(&task(), &world.caches("old"), &[split], &BuildConfig { compression: form, ..small(threads) }, &NoProgress).unwrap();
        for (&file, lines) in &new {
            // A file of both grew, or is another one.
            let before = old.get(&file).filter(|_| grow).map_or(String::new(), |lines| text(lines));
            world.write(&name(file), &(before + &text(lines)));
        }
        build(&task(), &world.caches("whole"), &[split], &small(1), &NoProgress).unwrap();
        let folder = world.caches("old").list().unwrap()[0].folder.clone();
        build(&task(), &world.caches("from"), &[split], &reusing(small(threads), &folder), &NoProgress).unwrap();
        prop_assert!(files(world.caches("from").root()) == files(world.caches("whole").root()));
    }
}
