//! What is said of caches that match and of those that do not.

use super::tiny::{TinyTask, World, lines, small};
use crate::changes::FileChange;
use crate::explain::CacheExplanation;

fn explain(world: &World, task: &TinyTask, splits: &[&str]) -> CacheExplanation {
    let splits: Vec<_> = splits.iter().map(|split| split.parse().unwrap()).collect();
    world.caches("caches").explain_input(task, &splits).unwrap()
}

fn words(explanation: &CacheExplanation, split: usize) -> Vec<String> {
    let caches = explanation.splits[split].caches.iter();
    caches
        .map(|cache| {
            let definition = cache.definition.iter().map(|difference| difference.words.clone());
            let sources = cache.sources.iter().map(|change| change.words());
            definition.chain(sources).collect::<Vec<_>>().join("; ")
        })
        .collect()
}

#[test]
fn each_cache_of_each_split_is_told_with_all_that_changed() {
    let world = World::new(&[
        ("train-a", &lines("a", 5)),
        ("train-b", &lines("b", 5)),
        ("train-c", &lines("c", 5)),
        ("validation", "v\n"),
    ]);
    let nothing = explain(&world, &world.task(), &[]);
    assert_eq!(
        nothing.splits.iter().map(|split| split.split.as_str()).collect::<Vec<_>>(),
        ["train", "validation"]
    );
    assert!(nothing.splits.iter().all(|split| !split.up_to_date && split.caches.is_empty()));

    world.build("caches", &["train", "train[:3]"], &small(1));
    let fresh = explain(&world, &world.task(), &[]);
    assert_eq!(fresh.splits.len(), 3, "slices that are cached are told of too");
    assert!(fresh.splits[0].up_to_date && fresh.splits[0].caches[0].matches);
    assert!(!fresh.splits[2].up_to_date);

    // As many bytes, other ones.
    world.write("train-a", &lines("z", 5));
    world.write("train-b", &lines("b", 6));
    std::fs::remove_file(world.sources().join("train-c")).unwrap();
    world.write("train-d", "d\n");
    let stale = explain(&world, &TinyTask { version: 2, ..world.task() }, &["train"]);
    assert!(!stale.splits[0].up_to_date);
    let said = words(&stale, 0).join("\n");
    for part in [
        "step 1 `bytes` had version 1 and has version 2",
        "`train-b` has ",
        "`train-d` is new",
        "`train-c` is gone",
        "the content of `train-a` is another",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let changes: Vec<FileChange> =
        stale.splits[0].caches[0].sources.iter().map(|change| change.change).collect();
    assert_eq!(changes, [FileChange::Size, FileChange::New, FileChange::Gone, FileChange::Content]);

    // A second cache, which matches, comes first.
    world.build("caches", &["train"], &small(1));
    let both = explain(&world, &world.task(), &["train"]);
    assert_eq!(both.splits[0].caches.iter().map(|cache| cache.matches).collect::<Vec<_>>(), [true, false]);
    assert_eq!(words(&both, 0)[0], "");

    std::fs::remove_dir_all(world.sources()).unwrap();
    std::fs::create_dir(world.sources()).unwrap();
    let away = explain(&world, &world.task(), &["train"]);
    assert!(away.splits[0].caches.iter().all(|cache| cache.matches && cache.sources_absent));
}

#[test]
fn unfinished_and_unreadable_folders_are_told_too() {
    let world = World::new(&[("train", &lines("a", 30)), ("validation", "v\n")]);
    let folder = world.build("caches", &["validation"], &small(1)).splits[0].folder.clone();
    std::fs::write(folder.join("manifest.json"), "{}").unwrap();
    let (config, stop) = super::crash::stopping(1, 3);
    world.try_build("caches", &["train"], &config, &stop).unwrap_err();
    let explanation = explain(&world, &world.task(), &[]);
    assert!(explanation.unreadable[0].problem.contains("checksum"), "{:?}", explanation.unreadable);
    let unfinished = &explanation.unfinished[0];
    assert!(unfinished.matches && !unfinished.running);
    assert_eq!(unfinished.splits, ["train"]);
    let other = explain(&world, &TinyTask { version: 2, ..world.task() }, &[]);
    assert!(!other.unfinished[0].matches);
}
