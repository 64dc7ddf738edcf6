//! Steps that keep the first of equal examples do what a set in memory does, however they are run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use seqio::{ExampleStore, SourceRange, Split, slice_windows};

use super::tiny::{By, TinyTask, World, build, files, lines, small};
use crate::build::{BuildConfig, BuildReport};
use crate::error::CacheError;
use crate::progress::{BuildProgress, Commit, NoProgress};
use crate::reader::CachedSplit;
use crate::stats::{DuplicateStatistics, RepeatedExample};
use crate::store::{CacheDir, Found};
use crate::verify::verify;

/// File name and ordinal of a record.
type Row = (String, u64);

/// What is expected of a split.
#[derive(Debug, Default, PartialEq)]
struct Naive {
    kept: Vec<Row>,
    /// Lines of the file of duplicates.
    lines: Vec<String>,
    statistics: Vec<DuplicateStatistics>,
}

/// De-duplicates as one would without thinking of memory: `files` in the order of their names, without line ends.
fn naive(files: &[(String, Vec<String>)], split: &Split, steps: &[By]) -> Naive {
    let range = |file: usize| SourceRange { file: file as u32, start: 0, end: 1 };
    let counts: Vec<_> =
        files.iter().enumerate().map(|(file, (_, lines))| (range(file), lines.len() as u64)).collect();
    let mut rows: Vec<(Row, &str)> = Vec::new();
    for (of, window) in slice_windows(split, &counts) {
        let (name, lines) = &files[of.file as usize];
        for row in window.filter(|row| !lines[*row as usize].starts_with('!')) {
            rows.push(((name.clone(), row), lines[row as usize].as_str()));
        }
    }
    let mut naive = Naive::default();
    for (index, by) in steps.iter().enumerate() {
        let mut first: BTreeMap<&str, (Row, u64)> = BTreeMap::new();
        let mut statistics = DuplicateStatistics {
            step: index + 1,
            op: "deduplicate".to_owned(),
            by: vec![format!("{by:?}")],
            examples: rows.len() as u64,
            ..DuplicateStatistics::default()
        };
        rows.retain(|((file, row), text)| {
            let key = if *by == By::Text { text } else { text.get(..1).unwrap_or("") };
            if text.starts_with('n') {
                statistics.without_key += 1;
                return true;
            }
            let Some(((kept_file, kept_row), copies)) = first.get_mut(key) else {
                first.insert(key, ((file.clone(), *row), 1));
                return true;
            };
            *copies += 1;
            statistics.dropped += 1;
            *statistics.dropped_by_file.entry(file.clone()).or_default() += 1;
            let step = index + 1;
            naive.lines.push(format!(
                "{{\"step\":{step},\"file\":\"{file}\",\"row\":{row},\"kept_file\":\"{kept_file}\",\"kept_row\":{kept_row}}}"
            ));
            false
        });
        let mut repeated: Vec<(Row, u64)> = first.into_values().filter(|(_, copies)| *copies > 1).collect();
        repeated.sort_by(|(row, copies), (other, more)| more.cmp(copies).then(row.cmp(other)));
        statistics.repeated = repeated.len() as u64;
        statistics.most_repeated = repeated
            .into_iter()
            .take(10)
            .map(|((file, row), copies)| RepeatedExample { file, row, copies })
            .collect();
        naive.statistics.push(statistics);
    }
    naive.kept = rows.into_iter().map(|(row, _)| row).collect();
    naive
}

/// The same of a cache, its examples in the order of the source.
fn found(split: &CachedSplit) -> Naive {
    let mut kept: Vec<Row> = (0..split.num_examples())
        .map(|example| {
            let origin = split.origins(example).unwrap()[0];
            (split.file_name(&origin).unwrap().to_owned(), origin.row)
        })
        .collect();
    kept.sort();
    let manifest = split.split_manifest();
    let listing = manifest.duplicates.as_ref().expect("there are steps that look for duplicates");
    let text = std::fs::read_to_string(split.folder().join(&listing.path)).unwrap();
    assert_eq!((listing.bytes, listing.lines), (text.len() as u64, text.lines().count() as u64));
    Naive {
        kept,
        lines: text.lines().map(str::to_owned).collect(),
        statistics: manifest.statistics.duplicates.clone(),
    }
}

fn task(world: &World, steps: &[By]) -> TinyTask {
    let mut task = world.task();
    task.deduplicate = steps.to_vec();
    task.on_bad_row = seqio::OnBadRow::Skip;
    task
}

fn open(task: &TinyTask, caches: &CacheDir, split: &str) -> CachedSplit {
    match caches.find_split(task, &split.parse().unwrap()).unwrap() {
        Found::Fresh { split, .. } => *split,
        other => panic!("no fresh cache: {other:?}"),
    }
}

fn run(world: &World, name: &str, steps: &[By], splits: &[&str], config: &BuildConfig) -> BuildReport {
    build(&task(world, steps), &world.caches(name), splits, config, &NoProgress).unwrap()
}

/// Lines of few different contents, some of them bad and some without a key.
fn world_of(texts: &[Vec<String>], range_bytes: u64) -> (World, Vec<(String, Vec<String>)>) {
    let mut world = World::new(&[]);
    world.range_bytes = range_bytes;
    let mut files = Vec::new();
    for (file, lines) in texts.iter().enumerate() {
        let name = format!("train-{file}{}", if file == 1 { ".stream" } else { "" });
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        world.write(&name, &text);
        files.push((name, lines.clone()));
    }
    (world, files)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_lines_are_deduplicated_as_a_set_in_memory_does_it(
        texts in prop::collection::vec(prop::collection::vec("!|n?[ab]{0,2}[a-c]?", 0..30), 1..4),
        steps in prop::collection::vec(prop_oneof![Just(By::Text), Just(By::Letter)], 1..3),
        range_bytes in prop_oneof![Just(7u64), Just(40)],
        threads in 1usize..4,
        memory_bytes in prop_oneof![Just(1u64), Just(1 << 30)],
    ) {
        let (world, files) = world_of(&texts, range_bytes);
        let config = BuildConfig { memory_bytes, ..small(threads) };
        let splits = ["train", "train[25%:75%]"];
        run(&world, "caches", &steps, &splits, &config);
        for split in splits {
            let found = found(&open(&task(&world, &steps), &world.caches("caches"), split));
            prop_assert_eq!(found, naive(&files, &split.parse().unwrap(), &steps), "{}", split);
        }
    }
}

/// More keys than are sorted at a time, in more runs than are merged at a time, most of them copies.
fn many() -> (World, Vec<(String, Vec<String>)>) {
    let line = |file: usize, row: usize| match (file * 31 + row * 17) % 11 {
        0..6 => "the same everywhere".to_owned(),
        6 => format!("n {row}"),
        _ => format!("{} {}", (b'a' + (row % 20) as u8) as char, row % 60),
    };
    let texts: Vec<Vec<String>> = (0..3).map(|file| (0..400).map(|row| line(file, row)).collect()).collect();
    world_of(&texts, 120)
}

#[test]
fn threads_and_memory_change_no_byte_and_no_duplicate() {
    let (world, lines) = many();
    let steps = [By::Text, By::Letter];
    let expected = naive(&lines, &"train".parse().unwrap(), &steps);
    assert!(expected.statistics.iter().all(|step| step.dropped > 10), "{:?}", expected.statistics);
    run(&world, "one", &steps, &["train"], &small(1));
    assert_eq!(found(&open(&task(&world, &steps), &world.caches("one"), "train")), expected);
    for (threads, memory_bytes) in [(1, 1), (3, 1), (2, 4000), (8, 1 << 30)] {
        let name = format!("{threads}-{memory_bytes}");
        run(&world, &name, &steps, &["train"], &BuildConfig { memory_bytes, ..small(threads) });
        assert!(files(world.caches(&name).root()) == files(world.caches("one").root()), "{name}");
    }
}

#[test]
fn a_split_of_equal_examples_comes_down_to_the_first() {
    let (world, lines) = world_of(&[vec!["x".to_owned(); 900], vec!["x".to_owned(); 300]], 100);
    let config = BuildConfig { memory_bytes: 1, ..small(2) };
    let report = run(&world, "caches", &[By::Text], &["train"], &config);
    let split = open(&task(&world, &[By::Text]), &world.caches("caches"), "train");
    assert_eq!(found(&split), naive(&lines, &"train".parse().unwrap(), &[By::Text]));
    assert_eq!(report.splits[0].statistics.examples, 1);
    assert_eq!(report.splits[0].statistics.duplicates[0].most_repeated[0].copies, 1200);
}

#[test]
fn a_split_without_examples_and_one_without_duplicates_have_an_empty_list() {
    let world = World::new(&[("train", ""), ("validation", &lines("v", 9))]);
    run(&world, "caches", &[By::Text], &["train", "validation"], &small(1));
    for (name, examples) in [("train", 0), ("validation", 9)] {
        let split = open(&task(&world, &[By::Text]), &world.caches("caches"), name);
        assert_eq!((split.num_examples(), found(&split).lines.len()), (examples, 0), "{name}");
    }
}

#[test]
fn a_cache_with_a_list_of_duplicates_has_version_2_and_one_without_has_version_1() {
    let (world, _) = many();
    let with = run(&world, "with", &[By::Text], &["train"], &small(1));
    let without = run(&world, "without", &[], &["train"], &small(1));
    for (report, version) in [(with, 2), (without, 1)] {
        let text = std::fs::read_to_string(report.splits[0].folder.join("manifest.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(manifest["format_version"], version);
        assert_eq!(manifest["splits"]["train"].get("duplicates").is_some(), version == 2);
    }
}

#[test]
fn a_changed_list_of_duplicates_is_found() {
    let (world, _) = many();
    let report = run(&world, "caches", &[By::Text], &["train"], &small(1));
    let (folder, path) = (&report.splits[0].folder, report.splits[0].duplicates.as_ref().unwrap());
    assert_eq!(verify(folder, &|_| {}).problems, []);
    let text = std::fs::read_to_string(path).unwrap();
    std::fs::write(path, text.replacen("\"row\":1", "\"row\":2", 1)).unwrap();
    let problems = verify(folder, &|_| {}).problems;
    assert_eq!(problems.len(), 1);
    assert_eq!(&problems[0].path, path);
    std::fs::remove_file(path).unwrap();
    assert_eq!(verify(folder, &|_| {}).problems.len(), 1);
}

struct Stop {
    commits: AtomicU64,
    at: u64,
    cancel: Arc<std::sync::atomic::AtomicBool>,
}

impl BuildProgress for Stop {
    fn committed(&self, _commit: Commit) {
        if self.commits.fetch_add(1, Ordering::Relaxed) + 1 == self.at {
            self.cancel.store(true, Ordering::Relaxed);
        }
    }
}

fn stopping(at: u64) -> (BuildConfig, Stop) {
    let config = small(1);
    let stop = Stop { commits: AtomicU64::new(0), at, cancel: Arc::clone(&config.cancel) };
    (config, stop)
}

fn few() -> World {
    let repeated = lines("a", 8).repeat(3);
    World::new(&[("train-a", &repeated), ("train-b.stream", &(lines("a", 4) + &lines("b", 6)))])
}

const STEPS: [By; 2] = [By::Text, By::Letter];

#[test]
fn stopping_at_any_commit_changes_no_byte_and_nothing_is_done_twice() {
    let world = few();
    let (config, count) = stopping(0);
    build(&task(&world, &STEPS), &world.caches("whole"), &["train"], &config, &count).unwrap();
    let commits = count.commits.into_inner();
    let expected = files(world.caches("whole").root());
    assert!(commits > 20, "{commits} commits");
    for at in 1..commits {
        let name = format!("stopped-{at}");
        let (config, stop) = stopping(at);
        let caches = world.caches(&name);
        let error = build(&task(&world, &STEPS), &caches, &["train"], &config, &stop).unwrap_err();
        assert!(matches!(error, CacheError::Interrupted { .. }), "{error}");
        let (config, rest) = stopping(0);
        build(&task(&world, &STEPS), &caches, &["train"], &config, &rest).unwrap();
        assert_eq!(rest.commits.into_inner() + at, commits, "stopped at {at}");
        assert!(files(caches.root()) == expected, "stopped at {at}");
    }
}

#[test]
fn a_source_that_changes_between_two_jobs_brings_no_old_choice_into_the_cache() {
    let world = few();
    let (config, count) = stopping(0);
    build(&task(&world, &STEPS), &world.caches("whole"), &["train"], &config, &count).unwrap();
    let commits = count.commits.into_inner();
    // Longer, so that no clock is needed to tell; its first line now comes before all copies.
    let changed = format!("b0 \nb1 x?y x?y \n{}", lines("c", 9).repeat(2));
    for at in 1..commits {
        let world = few();
        let caches = world.caches("caches");
        let (config, stop) = stopping(at);
        build(&task(&world, &STEPS), &caches, &["train"], &config, &stop).unwrap_err();
        world.write("train-a", &changed);
        build(&task(&world, &STEPS), &caches, &["train"], &small(1), &NoProgress).unwrap();
        run(&world, "fresh", &STEPS, &["train"], &small(1));
        assert!(files(caches.root()) == files(world.caches("fresh").root()), "stopped at {at}");
    }
}

#[test]
fn a_source_that_changes_between_the_passes_is_told() {
    let world = few();
    struct Change<'a>(&'a World);
    impl BuildProgress for Change<'_> {
        fn committed(&self, commit: Commit) {
            if commit == Commit::Choice {
                self.0.write("train-a", "other\n");
            }
        }
    }
    let error =
        build(&task(&world, &[By::Text]), &world.caches("caches"), &["train"], &small(1), &Change(&world));
    let error = error.unwrap_err();
    assert!(matches!(error, CacheError::SourceChanged { .. }), "{error}");
}

#[test]
fn damaged_keys_and_choices_are_made_again() {
    let world = few();
    run(&world, "whole", &STEPS, &["train"], &small(1));
    let expected = files(world.caches("whole").root());
    let (config, count) = stopping(0);
    build(&task(&world, &STEPS), &world.caches("count"), &["train"], &config, &count).unwrap();
    let last = count.commits.into_inner() - 2;
    let caches = world.caches("stopped");
    let (config, stop) = stopping(last);
    build(&task(&world, &STEPS), &caches, &["train"], &config, &stop).unwrap_err();
    let left = files(caches.root());
    assert!(left.keys().any(|name| name.ends_with("choice-2.drops")), "{:?}", left.keys());
    for (number, (name, bytes)) in left.iter().enumerate().filter(|(_, (name, _))| !name.contains("/rows-")) {
        let copy = world.caches(&format!("copy-{number}"));
        for (name, bytes) in &left {
            let path = copy.root().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        let damaged = if number % 2 == 0 { &bytes[..bytes.len() / 2] } else { b"x" };
        std::fs::write(copy.root().join(name), damaged).unwrap();
        build(&task(&world, &STEPS), &copy, &["train"], &small(2), &NoProgress).unwrap();
        assert!(files(copy.root()) == expected, "{name}");
    }
}
