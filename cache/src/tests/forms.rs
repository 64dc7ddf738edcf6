//! Compressed and uncompressed caches hold the same, and each becomes the other without a byte lost.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use proptest::prelude::*;
use seqio::{Converter, Dataset, DatasetConfig, ExampleStore, StreamTask};

use super::crash::stopping;
use super::tiny::{World, files, lines, small};
use crate::build::BuildConfig;
use crate::compression::Compression;
use crate::error::CacheError;
use crate::reader::CachedSplit;
use crate::store::{Cache, CacheState};
use crate::verify::verify;

const SPLITS: [&str; 2] = ["train", "validation"];

fn zstd(config: BuildConfig) -> BuildConfig {
    BuildConfig { compression: Some(Compression::Zstd), ..config }
}

fn world() -> World {
    World::new(&[
        ("train-a", &lines("a", 60)),
        ("train-b.stream", &lines("b", 41)),
        ("validation", &lines("v", 25)),
    ])
}

/// All that a split tells of its examples.
fn content(split: &CachedSplit) -> String {
    let rows = split.examples(0..split.num_examples()).unwrap();
    let identities: Vec<_> = (0..split.num_examples())
        .map(|example| (split.id(example).unwrap(), split.origins(example).unwrap()))
        .collect();
    format!("{rows:?} {identities:?}")
}

#[test]
fn a_compressed_cache_holds_the_same_examples_in_the_same_batches() {
    let world = world();
    let plain = world.build("plain", &SPLITS, &small(2)).splits[0].folder.clone();
    let folder = world.build("zstd", &SPLITS, &zstd(small(2))).splits[0].folder.clone();
    assert_eq!(folder.file_name(), plain.file_name(), "it is no part of the fingerprint");
    assert_eq!(verify(&folder, &|_| {}).problems, []);
    let manifest = Cache::open(&folder).unwrap().manifest().clone();
    assert_eq!((manifest.compression, manifest.format_version), (Compression::Zstd, 2));
    assert_eq!(Cache::open(&plain).unwrap().manifest().format_version, 1);
    for name in SPLITS {
        let (plain, split) = (world.open("plain", name), world.open("zstd", name));
        assert_eq!(content(&split), content(&plain));
        let batches = |split: &CachedSplit| -> Vec<(u64, u64)> {
            split.split_manifest().shards.iter().map(|shard| (shard.examples, shard.batches)).collect()
        };
        assert_eq!(batches(&split), batches(&plain));
    }
    for (name, bytes) in files(&plain) {
        if name.ends_with(".lengths") {
            assert_eq!(std::fs::read(folder.join(&name)).unwrap(), bytes, "{name}");
        }
    }
}

#[test]
fn long_batches_are_smaller_compressed() {
    let mut world = World::new(&[("train", &lines("a", 5000))]);
    world.range_bytes = 1 << 20;
    let threads = |threads| BuildConfig { threads, ..BuildConfig::default() };
    let bytes = |name: &str, config: &BuildConfig| {
        world.build(name, &["train"], config).splits[0].statistics.file_bytes
    };
    let (plain, compressed) = (bytes("plain", &threads(1)), bytes("zstd", &zstd(threads(1))));
    assert!(compressed * 2 < plain, "{compressed} of {plain} bytes");
}

#[test]
fn neither_threads_nor_stops_change_a_byte_of_a_compressed_cache() {
    let world = world();
    world.build("one", &SPLITS, &zstd(small(1)));
    let expected = files(world.caches("one").root());
    world.build("many", &SPLITS, &BuildConfig { memory_bytes: 1, ..zstd(small(4)) });
    assert!(files(world.caches("many").root()) == expected);
    // The first job stages shards of the other form, which must not be taken.
    for (number, at) in [30, 38, 48].into_iter().enumerate() {
        let name = format!("stopped-{number}");
        let (config, stop) = stopping(1, at);
        world.try_build(&name, &SPLITS, &config, &stop).unwrap_err();
        world.build(&name, &SPLITS, &zstd(small(2)));
        assert!(files(world.caches(&name).root()) == expected, "stopped at {at}");
    }
}

#[test]
fn a_converted_cache_is_the_one_that_is_built_in_that_form() {
    let world = world();
    world.build("plain", &SPLITS, &small(1));
    world.build("zstd", &SPLITS, &zstd(small(1)));
    let folder = world.build("converted", &SPLITS, &small(2)).splits[0].folder.clone();
    let caches = world.caches("converted");
    let form = |compression, threads| {
        let counted = std::sync::atomic::AtomicU64::new(0);
        let count = |_, total| {
            assert!(counted.fetch_add(1, Ordering::Relaxed) < total);
        };
        let converted = caches.convert(&folder, compression, &small(threads), &count).unwrap();
        (converted, counted.into_inner())
    };
    let (converted, batches) = form(Compression::Zstd, 3);
    assert_eq!((converted.before, converted.now), (Compression::None, Compression::Zstd));
    assert!(batches > 20 && converted.bytes_now > 0 && converted.bytes_before > 0);
    assert!(files(caches.root()) == files(world.caches("zstd").root()));
    assert_eq!(form(Compression::Zstd, 1).1, 0, "it is that already");
    form(Compression::None, 1);
    assert!(files(caches.root()) == files(world.caches("plain").root()));
    assert_eq!(verify(&folder, &|_| {}).problems, []);
}

#[test]
fn a_conversion_that_stops_leaves_the_cache_as_it_was() {
    let world = world();
    let folder = world.build("caches", &SPLITS, &small(2)).splits[0].folder.clone();
    let caches = world.caches("caches");
    let before = files(caches.root());
    let config = small(1);
    let cancel = Arc::clone(&config.cancel);
    let stop = move |done, _| cancel.store(done >= 5, Ordering::Relaxed);
    let error = caches.convert(&folder, Compression::Zstd, &config, &stop).unwrap_err();
    assert!(matches!(error, CacheError::Interrupted { .. }), "{error}");
    assert!(files(caches.root()) == before);

    // What a killed one leaves is shown, can be removed, and is in nobody's way.
    let left =
        folder.with_file_name(format!(".converting-{}", folder.file_name().unwrap().to_str().unwrap()));
    std::fs::create_dir(&left).unwrap();
    std::fs::write(left.join("train-00000-of-00001.arrow"), "half").unwrap();
    let list = caches.list().unwrap();
    assert!(list.iter().any(|info| info.folder == left && matches!(info.state, CacheState::Unreadable(_))));
    caches.remove(&left).unwrap();
    std::fs::create_dir(&left).unwrap();
    caches.convert(&folder, Compression::Zstd, &small(1), &|_, _| {}).unwrap();
    assert!(!left.exists());
    assert!(matches!(caches.list().unwrap()[..], [ref one] if matches!(one.state, CacheState::Complete(_))));
}

#[test]
fn damage_is_found_while_a_cache_is_converted() {
    let world = world();
    let folder = world.build("caches", &SPLITS, &zstd(small(2))).splits[0].folder.clone();
    let name = format!("{}.arrow", world.open("caches", "train").split_manifest().shards[0].name);
    let path = folder.join(&name);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 8;
    std::fs::write(&path, &bytes).unwrap();
    let before = files(&folder);
    let error =
        world.caches("caches").convert(&folder, Compression::None, &small(2), &|_, _| {}).unwrap_err();
    assert!(error.to_string().contains(&format!("{name} is damaged: batch")), "{error}");
    assert!(files(&folder) == before);
}

#[test]
fn any_flipped_byte_of_a_compressed_shard_is_found_by_the_reader_or_when_it_opens() {
    let world = World::new(&[("validation", &lines("v", 9))]);
    let folder = world.build("caches", &["validation"], &zstd(small(1))).splits[0].folder.clone();
    let stem = world.open("caches", "validation").split_manifest().shards[0].name.clone();
    let path = folder.join(format!("{stem}.arrow"));
    let bytes = std::fs::read(&path).unwrap();
    for at in (0..bytes.len()).step_by(5) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        std::fs::write(&path, &flipped).unwrap();
        let found = match Cache::open(&folder).unwrap().split("validation") {
            Err(_) => true,
            Ok(split) => (0..split.num_examples())
                .any(|example| split.id(example).is_err() && split.examples(example..example + 1).is_err()),
        };
        assert!(found && !verify(&folder, &|_| {}).problems.is_empty(), "byte {at}");
    }
}

#[test]
fn a_cache_in_the_other_form_is_told_with_the_way_to_convert_it() {
    let world = world();
    world.build("caches", &SPLITS, &small(1));
    let again = world.build("caches", &SPLITS, &zstd(small(1)));
    let split = &again.splits[0];
    assert!(split.was_fresh);
    insta::assert_snapshot!(split.notice.as_deref().unwrap(), @"`team:tiny`, split `train`, is cached uncompressed; `seqio cache convert team:tiny --compress zstd` rewrites the cache without encoding anything again");
    assert_eq!(world.build("caches", &SPLITS, &small(1)).splits[0].notice, None, "nobody asked for a form");
}

#[test]
fn a_shuffled_epoch_decompresses_a_batch_once_or_twice() {
    let text: String = (0..20_000).map(|line| format!("{line}\n")).collect();
    let mut world = World::new(&[("train", &text)]);
    world.range_bytes = 1 << 20;
    let build = |name: &str, compression| {
        let config = BuildConfig { compression: Some(compression), ..BuildConfig::default() };
        world.build(name, &["train"], &config);
        Arc::new(world.open(name, "train"))
    };
    let (plain, split) = (build("plain", Compression::None), build("zstd", Compression::Zstd));
    let batches: u64 = split.split_manifest().shards.iter().map(|shard| shard.batches).sum();
    assert_eq!(batches, 20);
    let stream = |split: &Arc<CachedSplit>, threads, steps| {
        let task = StreamTask::new("tiny", "first");
        let mut config =
            DatasetConfig::new("train", Converter::Lm, [("targets", 64)]).batch_size(32).epochs(1);
        config.threads = Some(threads);
        let store = Arc::clone(split) as Arc<dyn ExampleStore>;
        let dataset = Dataset::new(task, store, config).unwrap();
        dataset.iter().unwrap().take(steps).collect::<Result<Vec<_>, _>>().unwrap()
    };
    let expected = stream(&plain, 1, usize::MAX);
    for threads in [1, 4] {
        let before = split.batches_decompressed();
        assert!(stream(&split, threads, usize::MAX) == expected);
        let read = split.batches_decompressed() - before;
        assert!(read <= batches * 3 / 2, "{read} of {batches} batches with {threads} threads");
    }
    // Without room for a window's batches it is slow, and right.
    split.set_decompressed_bytes(0);
    assert!(stream(&split, 2, 3)[..] == expected[..3]);
    assert_eq!(plain.batches_decompressed(), 0);
}

fn copy_folder(from: &Path, to: &Path) {
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

/// A cache that the first program wrote.
fn version_1() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/version-1/docs/070ff6f58652ace5-d4af11294c641119")
}

#[test]
fn a_cache_of_version_1_is_read_verified_and_converted() {
    assert_eq!(verify(&version_1(), &|_| {}).problems, []);
    let cache = Cache::open(&version_1()).unwrap();
    assert_eq!((cache.manifest().format_version, cache.manifest().compression), (1, Compression::None));
    let task = cache.task().unwrap();
    assert_eq!(task.cache_fingerprint(crate::FORMAT_VERSION).to_string(), cache.manifest().cache_fingerprint);
    let split = cache.split("train").unwrap();
    let texts = |split: &CachedSplit| {
        let mut texts: Vec<String> = (0..split.num_examples())
            .map(|example| {
                let mut length = [0];
                split.lengths(0, &[example], &mut length);
                let mut ids = vec![0; length[0] as usize];
                split.read_tokens(0, example, 0, &mut ids).unwrap();
                let file = split.file_name(&split.origins(example).unwrap()[0]).unwrap().to_owned();
                format!("{file}: {}", task.features()["targets"].vocabulary.decode(&ids))
            })
            .collect();
        texts.sort();
        texts
    };
    let expected: Vec<String> = (0..2)
        .flat_map(|file| (1..6).map(move |line| format!("train-{file}.jsonl: document {file}-{line} été")))
        .collect();
    assert_eq!(texts(&split), expected);

    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("docs").join(version_1().file_name().unwrap());
    copy_folder(&version_1(), &copy);
    let caches = crate::CacheDir::new(folder.path());
    caches.convert(&copy, Compression::Zstd, &BuildConfig::default(), &|_, _| {}).unwrap();
    assert_eq!(texts(&Cache::open(&copy).unwrap().split("train").unwrap()), expected);
    caches.convert(&copy, Compression::None, &BuildConfig::default(), &|_, _| {}).unwrap();
    assert!(files(&copy) == files(&version_1()), "there and back, to the byte");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn any_lines_are_the_same_in_both_forms(
        texts in prop::collection::vec("[a-z? ]{0,60}", 0..60),
        threads in 1usize..4,
    ) {
        let world = World::new(&[]);
        world.write("train", &texts.iter().map(|line| format!("{line}\n")).collect::<String>());
        world.build("plain", &["train"], &small(threads));
        let folder = world.build("zstd", &["train"], &zstd(small(threads))).splits[0].folder.clone();
        prop_assert_eq!(content(&world.open("zstd", "train")), content(&world.open("plain", "train")));
        world.caches("zstd").convert(&folder, Compression::None, &small(threads), &|_, _| {}).unwrap();
        prop_assert!(files(world.caches("zstd").root()) == files(world.caches("plain").root()));
    }
}
