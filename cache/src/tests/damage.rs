//! Any flipped byte is found, by `verify` always, by the reader at the latest when it touches the place.

use seqio::ExampleStore;

use super::tiny::{World, lines, small};
use crate::error::CacheError;
use crate::store::Cache;
use crate::verify::verify;

#[test]
fn any_flipped_byte_of_any_file_is_found() {
    let world = World::new(&[("train", &lines("a", 3)), ("validation", "v\n")]);
    let folder = world.build("caches", &["train", "validation"], &small(1)).splits[0].folder.clone();
    assert_eq!(verify(&folder, &|_| {}).problems, []);
    let mut paths = Vec::new();
    for entry in
        std::fs::read_dir(&folder).unwrap().chain(std::fs::read_dir(folder.join("vocabulary")).unwrap())
    {
        let path = entry.unwrap().path();
        if path.is_file() {
            paths.push(path);
        }
    }
    assert!(paths.iter().any(|path| path.ends_with("build.log.json")));
    for path in paths {
        let bytes = std::fs::read(&path).unwrap();
        // Every byte of short files; of long ones every seventh, which is no multiple of what they are made of.
        for at in (0..bytes.len()).step_by(if bytes.len() < 500 { 1 } else { 7 }) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            std::fs::write(&path, &flipped).unwrap();
            let problems = verify(&folder, &|_| {}).problems;
            assert!(problems.iter().any(|problem| problem.path == path), "byte {at} of {}", path.display());
        }
        std::fs::write(&path, &bytes).unwrap();
    }
}

#[test]
fn the_reader_names_shard_and_batch_when_it_touches_a_flipped_byte() {
    let world = World::new(&[("validation", &lines("v", 30))]);
    let folder = world.build("caches", &["validation"], &small(1)).splits[0].folder.clone();
    let name = format!("{}.arrow", world.open("caches", "validation").split_manifest().shards[1].name);
    let path = folder.join(&name);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 4;
    std::fs::write(&path, &bytes).unwrap();
    let split = Cache::open(&folder).unwrap().split("validation").unwrap();
    let mut broken = 0;
    for example in 0..split.num_examples() {
        if let Err(error) = split.id(example) {
            broken += 1;
            assert!(error.problem.contains(&format!("{name} is damaged: batch")), "{error}");
            assert!(error.problem.contains("seqio cache remove"), "{error}");
            assert!(split.examples(example..example + 1).is_err());
        }
    }
    assert!((1..=3).contains(&broken), "one batch of at most three rows: {broken}");
}

#[test]
fn a_cut_or_missing_file_is_found_when_the_split_is_opened() {
    let world = World::new(&[("validation", &lines("v", 5))]);
    let folder = world.build("caches", &["validation"], &small(1)).splits[0].folder.clone();
    for ending in ["arrow", "lengths", "sums"] {
        let path = folder.join(format!("validation-00000-of-00001.{ending}"));
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        let error = Cache::open(&folder).unwrap().split("validation").unwrap_err();
        assert!(matches!(&error, CacheError::Damaged { path: found, .. } if *found == path), "{error}");
        assert!(!verify(&folder, &|_| {}).problems.is_empty());
        std::fs::remove_file(&path).unwrap();
        let error = Cache::open(&folder).unwrap().split("validation").unwrap_err();
        assert!(error.to_string().contains(ending), "{error}");
        std::fs::write(&path, &bytes).unwrap();
    }
    assert!(Cache::open(&folder).unwrap().split("validation").is_ok());
}

#[test]
fn a_folder_without_a_manifest_is_not_a_cache() {
    let world = World::new(&[("validation", &lines("v", 5))]);
    let folder = world.build("caches", &["validation"], &small(1)).splits[0].folder.clone();
    std::fs::remove_file(folder.join("manifest.json")).unwrap();
    let error = Cache::open(&folder).unwrap_err();
    assert!(error.to_string().contains("is not a cache: it has no `manifest.json`"), "{error}");
    let report = world.build("caches", &["validation"], &small(1));
    assert!(!report.splits[0].was_fresh);
    assert!(Cache::open(&folder).is_ok(), "the new cache takes the place of the broken one");
}

#[test]
fn another_format_version_is_told_in_words() {
    let world = World::new(&[("validation", &lines("v", 5))]);
    let folder = world.build("caches", &["validation"], &small(1)).splits[0].folder.clone();
    let mut manifest = crate::manifest::CacheManifest::read(&folder).unwrap();
    manifest.format_version = 9;
    manifest.write(&folder).unwrap();
    let error = Cache::open(&folder).unwrap_err();
    assert!(
        error.to_string().ends_with("has cache format 9, but this program reads formats 1 to 2"),
        "{error}"
    );
}
