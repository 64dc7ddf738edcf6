//! Neither threads nor memory nor the history of a job change a byte.

use proptest::prelude::*;

use super::tiny::{World, files, lines, small};
use crate::build::{BuildConfig, BuildReport};

#[test]
fn threads_change_no_byte() {
    let world = World::new(&[
        ("train-a", &lines("a", 60)),
        ("train-b.stream", &lines("b", 41)),
        ("validation", &lines("v", 25)),
    ]);
    world.build("one", &["train", "validation"], &small(1));
    let expected = files(world.caches("one").root());
    assert!(expected.keys().filter(|name| name.ends_with(".arrow")).count() > 5, "{:?}", expected.keys());
    for threads in [2, 8] {
        let name = format!("threads-{threads}");
        world.build(&name, &["train", "validation"], &small(threads));
        assert!(files(world.caches(&name).root()) == expected, "{threads} threads");
    }
}

#[test]
fn memory_changes_no_byte() {
    let mut world = World::new(&[("train-a", &lines("a", 150)), ("validation", &lines("v", 90))]);
    world.range_bytes = 500;
    let config = |memory_bytes, threads| BuildConfig { memory_bytes, ..small(threads) };
    let much = world.build("much", &["train", "validation"], &config(1 << 30, 1));
    let little = world.build("little", &["train", "validation"], &config(1, 3));
    assert!(files(world.caches("much").root()) == files(world.caches("little").root()));
    let spilled = |report: &BuildReport| report.splits[0].ranges.spill_bytes;
    assert!(spilled(&little) > spilled(&much), "little memory means more than one run a range");
}

#[test]
fn more_files_than_can_be_open_change_no_byte() {
    let names: Vec<String> = (0..40).map(|file| format!("train-{file:02}")).collect();
    let files_of: Vec<(&str, String)> = names.iter().map(|name| (name.as_str(), lines(name, 3))).collect();
    let world = World::new(&files_of.iter().map(|(name, text)| (*name, text.as_str())).collect::<Vec<_>>());
    let few = || {
        let mut config = small(3);
        config.geometry.most_runs = 4;
        config
    };
    world.build("all", &["train"], &small(1));
    world.build("few", &["train"], &few());
    assert!(files(world.caches("few").root()) == files(world.caches("all").root()));
}

#[test]
fn a_split_is_the_same_whether_it_is_built_alone_or_with_others() {
    let world = World::new(&[("train", &lines("a", 60)), ("validation", &lines("v", 25))]);
    let both = world.build("both", &["train", "validation"], &small(2)).splits[0].folder.clone();
    let alone = world.build("alone", &["train"], &small(2)).splits[0].folder.clone();
    let (both, alone) = (files(&both), files(&alone));
    for (name, bytes) in &alone {
        assert!(name == "manifest.json" || both[name] == *bytes, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_lines_in_any_files_come_back_the_same_from_one_thread_and_from_many(
        texts in prop::collection::vec(prop::collection::vec("[a-z? ]{0,30}", 0..20), 1..4),
        threads in 2usize..5,
    ) {
        let world = World::new(&[]);
        for (file, lines) in texts.iter().enumerate() {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            world.write(&format!("train-{file}{}", if file == 1 { ".stream" } else { "" }), &text);
        }
        world.build("one", &["train", "train[25%:75%]"], &small(1));
        world.build("many", &["train", "train[25%:75%]"], &small(threads));
        prop_assert!(files(world.caches("one").root()) == files(world.caches("many").root()));

        let split = world.open("one", "train");
        let total: usize = texts.iter().map(Vec::len).sum();
        prop_assert_eq!(split.split_manifest().statistics.examples, total as u64);
        let mut found: Vec<String> = super::reading::texts(&split);
        let mut expected: Vec<String> = texts.iter().flatten().map(|text| text.trim_end().to_owned()).collect();
        found.sort();
        expected.sort();
        prop_assert_eq!(found, expected);
    }
}
