//! Bad records set aside: all of them, in the source's order, the same bytes however a job goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use seqio::OnBadRow;

use super::tiny::{World, build, files, small};
use crate::build::{BuildConfig, Missing, build_splits};
use crate::error::CacheError;
use crate::progress::{BuildProgress, Commit, NoProgress};
use crate::reuse::Reuse;
use crate::verify::verify;
use crate::worker::build_share;

const SPLITS: [&str; 3] = ["train", "validation", "train[30%:70%]"];

/// Lines of which about a third are bad.
fn lines(prefix: &str, count: usize) -> String {
    let bad = |line: usize| if line * 5 % 7 < 3 { "!" } else { "" };
    (0..count).map(|line| format!("{}{prefix}{line} \"{}\n", bad(line), "x".repeat(line % 4))).collect()
}

fn world() -> World {
    let mut world = World::new(&[
        ("train-a", &lines("a", 30)),
        ("train-b.stream", &lines("b", 20)),
        ("train-c", ""),
        ("validation", "good\n"),
    ]);
    world.on_bad_row = OnBadRow::SetAside;
    world
}

/// What the file of a split has to hold, from the sources alone.
fn expected(world: &World, names: &[&str], records: std::ops::Range<usize>) -> String {
    let mut text = String::new();
    let mut number = 0;
    for name in names {
        let source = std::fs::read_to_string(world.sources().join(name)).unwrap();
        for (line, row) in source.lines().enumerate() {
            if row.starts_with('!') && records.contains(&number) {
                let row = serde_json::json!(row);
                text += &format!(
                    "{{\"file\":\"{name}\",\"line\":{},\"reason\":\"it begins with `!`\",\"row\":{row}}}\n",
                    line + 1
                );
            }
            number += 1;
        }
    }
    text
}

fn stopping(threads: usize, at: u64) -> (BuildConfig, Stop) {
    let mut config = small(threads);
    config.geometry.part_bytes = 60;
    let stop = Stop { commits: AtomicU64::new(0), at, cancel: Arc::clone(&config.cancel) };
    (config, stop)
}

struct Stop {
    commits: AtomicU64,
    at: u64,
    cancel: Arc<AtomicBool>,
}

impl BuildProgress for Stop {
    fn committed(&self, _commit: Commit) {
        if self.commits.fetch_add(1, Ordering::Relaxed) + 1 == self.at {
            self.cancel.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn every_bad_record_is_in_the_file_with_its_place_and_reason() {
    let world = world();
    let report = world.build("caches", &SPLITS, &small(3));
    let shown: Vec<String> = report
        .splits
        .iter()
        .map(|split| std::fs::read_to_string(split.rejects.as_ref().unwrap()).unwrap())
        .collect();
    assert_eq!(shown[0], expected(&world, &["train-a", "train-b.stream"], 0..50));
    assert_eq!(shown[1], "", "a file without lines says that there was nothing to set aside");
    assert_eq!(shown[2], expected(&world, &["train-a", "train-b.stream"], 15..35));
    for (split, text) in report.splits.iter().zip(&shown) {
        let manifest = world.open("caches", &split.split).split_manifest().clone();
        let rejects = manifest.rejects.unwrap();
        assert_eq!((rejects.records, rejects.bytes), (text.lines().count() as u64, text.len() as u64));
        assert_eq!(split.statistics.bad_rows.count, rejects.records);
    }
    let manifest = String::from_utf8(
        files(world.caches("caches").root())
            .remove(
                report.splits[0]
                    .folder
                    .strip_prefix(world.caches("caches").root())
                    .unwrap()
                    .join("manifest.json")
                    .to_str()
                    .unwrap(),
            )
            .unwrap(),
    )
    .unwrap();
    assert!(manifest.contains("\"format_version\": 2"), "{manifest}");
}

#[test]
fn what_is_skipped_only_makes_a_cache_of_version_1() {
    let mut world = world();
    world.on_bad_row = OnBadRow::Skip;
    let report = world.build("caches", &["train"], &small(1));
    assert_eq!(report.splits[0].rejects, None);
    let manifest = std::fs::read_to_string(report.splits[0].folder.join("manifest.json")).unwrap();
    assert!(manifest.contains("\"format_version\": 1") && !manifest.contains("rejects"), "{manifest}");
}

#[test]
fn threads_memory_and_stops_change_no_byte_of_it() {
    let world = world();
    world.build("whole", &SPLITS, &small(1));
    let whole = files(world.caches("whole").root());
    assert_eq!(whole.keys().filter(|name| name.ends_with(".rejects.jsonl")).count(), 3);
    let little = BuildConfig { memory_bytes: 1, ..small(4) };
    world.build("little", &SPLITS, &little);
    assert!(files(world.caches("little").root()) == whole);
    for at in [1, 2, 3, 5, 8, 11, 14, 17, 20] {
        let name = format!("stopped-{at}");
        let (config, stop) = stopping(2, at);
        let error = world.try_build(&name, &SPLITS, &config, &stop).unwrap_err();
        assert!(matches!(error, CacheError::Interrupted { .. }), "{error}");
        world.build(&name, &SPLITS, &small(2));
        assert!(files(world.caches(&name).root()) == whole, "stopped at {at}");
    }
}

#[test]
fn spilled_bad_records_that_are_damaged_are_set_aside_again() {
    let world = world();
    world.build("whole", &SPLITS, &small(1));
    let whole = files(world.caches("whole").root());
    for damage in 0..3 {
        let name = format!("damaged-{damage}");
        let (config, stop) = stopping(1, 6);
        world.try_build(&name, &SPLITS, &config, &stop).unwrap_err();
        let root = world.caches(&name).root().to_owned();
        let spilled: Vec<String> =
            files(&root).into_keys().filter(|name| name.ends_with(".rejects")).collect();
        assert!(!spilled.is_empty());
        for file in spilled {
            let path = root.join(file);
            let mut bytes = std::fs::read(&path).unwrap();
            match damage {
                0 => bytes.truncate(3),
                1 => bytes[4] ^= 1,
                _ => {
                    std::fs::remove_file(&path).unwrap();
                    continue;
                }
            }
            std::fs::write(&path, bytes).unwrap();
        }
        world.build(&name, &SPLITS, &small(2));
        assert!(files(&root) == whole, "damage {damage}");
    }
}

#[test]
fn workers_set_the_same_records_aside() {
    let world = world();
    world.build("whole", &SPLITS, &small(1));
    let splits: Vec<_> = SPLITS.iter().map(|split| split.parse().unwrap()).collect();
    let caches = world.caches("workers");
    for share in ["1/3", "2/3", "0/3"] {
        build_share(&caches, &world.task(), &splits, share.parse().unwrap(), &small(2), &NoProgress).unwrap();
    }
    build_splits(&caches, &world.task(), &splits, Missing::Refuse, &small(1), &NoProgress).unwrap();
    assert!(files(caches.root()) == files(world.caches("whole").root()));
}

#[test]
fn what_is_taken_over_from_an_old_cache_brings_its_bad_records() {
    let world = world();
    let old = world.build("old", &["train"], &small(1)).splits[0].folder.clone();
    world.write("train-0", &lines("new", 5));
    world.write("train-b.stream", &(lines("b", 20) + &lines("more", 9)));
    world.build("whole", &["train"], &small(1));
    let config = BuildConfig { reuse: Some(Reuse::Folder(old.clone())), ..small(2) };
    let report = world.build("reused", &["train"], &config);
    assert!(report.splits[0].ranges.from_cache > 3);
    assert!(files(world.caches("reused").root()) == files(world.caches("whole").root()));

    let path = old.join("train.rejects.jsonl");
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap().replace('a', "b")).unwrap();
    let error = world.try_build("damaged", &["train"], &config, &NoProgress).unwrap_err();
    assert!(error.to_string().contains("train.rejects.jsonl is damaged"), "{error}");
}

#[test]
fn any_flipped_byte_of_it_is_found() {
    let world = world();
    let report = build(&world.task(), &world.caches("caches"), &["train"], &small(1), &NoProgress).unwrap();
    let (folder, path) = (&report.splits[0].folder, report.splits[0].rejects.clone().unwrap());
    assert_eq!(verify(folder, &|_| {}).problems, []);
    let bytes = std::fs::read(&path).unwrap();
    for at in (0..bytes.len()).step_by(17) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1;
        std::fs::write(&path, flipped).unwrap();
        assert!(verify(folder, &|_| {}).problems.iter().any(|problem| problem.path == path), "byte {at}");
    }
    std::fs::remove_file(&path).unwrap();
    assert!(verify(folder, &|_| {}).problems.iter().any(|problem| problem.path == path));
}
