//! What is read from a cache is what was put in.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Int32Type, Int64Type};
use seqio::{
    ByteVocabulary, Converter, Dataset, DatasetConfig, ExampleStore, Feature, Horizon, ItemSteps,
    NamedItemStep, Preprocessor, SpanCorruption, StepContext, StreamTask,
};

use super::tiny::{World, files, lines, small};
use crate::reader::CachedSplit;
use crate::store::Cache;

/// The text column of all examples.
pub(crate) fn texts(split: &CachedSplit) -> Vec<String> {
    let rows = split.examples(0..split.num_examples()).unwrap();
    let texts = rows.column_by_name("text").unwrap().as_string::<i32>();
    texts.iter().flatten().map(str::to_owned).collect()
}

#[test]
fn an_unshuffled_split_is_read_in_the_order_of_the_source() {
    let world = World::new(&[("validation-a", &lines("a", 23)), ("validation-b.stream", &lines("b", 9))]);
    world.build("caches", &["validation"], &small(3));
    let split = world.open("caches", "validation");
    let expected: Vec<String> =
        [lines("a", 23), lines("b", 9)].concat().lines().map(|line| line.trim_end().to_owned()).collect();
    assert_eq!(texts(&split), expected);
    for example in 0..split.num_examples() {
        let origin = split.origins(example).unwrap()[0];
        let (file, row) = if example < 23 { (0, example) } else { (1, example - 23) };
        assert_eq!((u64::from(origin.file), origin.row), (file, row), "rows are counted through the file");
        let name = ["validation-a", "validation-b.stream"][file as usize];
        assert_eq!(split.file_name(&origin), Some(name));
        let text = std::fs::read(world.sources().join(name)).unwrap();
        let record = &text[origin.offset as usize..(origin.offset + origin.length) as usize];
        assert_eq!(std::str::from_utf8(record).unwrap().trim_end(), expected[example as usize]);
    }
}

#[test]
fn a_shuffled_split_is_sorted_by_key_and_has_every_example_once() {
    let world = World::new(&[("train", &lines("a", 100))]);
    world.build("caches", &["train"], &small(2));
    let split = world.open("caches", "train");
    let shards = &split.split_manifest().shards;
    assert!(shards.len() > 3, "{shards:?}");
    let keys: Vec<[u8; 16]> =
        (0..split.num_examples()).map(|example| split.id(example).unwrap().shuffle_key(0)).collect();
    assert!(keys.is_sorted());
    let mut first = 0;
    for (index, shard) in shards.iter().enumerate() {
        for key in &keys[first..first + shard.examples as usize] {
            let high = u128::from(u64::from_be_bytes(key[..8].try_into().unwrap()));
            assert_eq!((high * shards.len() as u128) >> 64, index as u128);
        }
        first += shard.examples as usize;
    }
    let mut found = texts(&split);
    found.sort();
    let mut expected: Vec<String> = lines("a", 100).lines().map(|line| line.trim_end().to_owned()).collect();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn tokens_lengths_and_columns_of_an_example_belong_together() {
    let world = World::new(&[("train", &lines("a", 50))]);
    world.build("caches", &["train"], &small(2));
    let split = world.open("caches", "train");
    assert_eq!(split.features(), ["inputs", "targets"]);
    let rows = split.examples(0..split.num_examples()).unwrap();
    assert_eq!(rows.column(0).data_type(), &DataType::new_list(DataType::Int32, true));
    let texts = texts(&split);
    let numbers: Vec<u64> = (0..split.num_examples()).rev().collect();
    for (feature, add) in [(1, 0), (0, 70_000)] {
        let mut lengths = vec![0; numbers.len()];
        split.lengths(feature, &numbers, &mut lengths);
        for (&example, &length) in numbers.iter().zip(&lengths) {
            let text = &texts[example as usize];
            assert_eq!(length as usize, text.len());
            let mut ids = vec![0; text.len()];
            split.read_tokens(feature, example, 0, &mut ids).unwrap();
            let expected: Vec<i32> = text.bytes().map(|byte| add + i32::from(byte)).collect();
            assert_eq!(ids, expected);
            let mut part = vec![0; 1];
            split.read_tokens(feature, example, 1, &mut part).unwrap();
            assert_eq!(part, expected[1..2]);
            assert!(split.read_tokens(feature, example, text.len(), &mut part).is_err());
            let column = rows.column_by_name(["inputs", "targets"][feature]).unwrap().as_list::<i32>();
            assert_eq!(column.value(example as usize).as_primitive::<Int32Type>().values(), &expected[..]);
        }
    }
    let half = rows.column_by_name("half").unwrap().as_primitive::<Int64Type>();
    assert!(half.iter().zip(&texts).all(|(half, text)| half.is_some() == (text.len() % 2 == 0)));
    assert!(split.id(split.num_examples()).is_err());
}

#[test]
fn the_reader_counts_the_bytes_of_the_ids_it_reads() {
    let world = World::new(&[("train", "abcd\n")]);
    world.build("caches", &["train"], &small(1));
    let split = world.open("caches", "train");
    split.read_tokens(0, 0, 0, &mut [0; 4]).unwrap();
    split.read_tokens(1, 0, 1, &mut [0; 3]).unwrap();
    assert_eq!(split.tokens_read_bytes(), 4 * 4 + 3 * 2);
}

#[test]
fn rows_of_corrupted_spans_are_planned_without_reading_a_token() {
    let world = World::new(&[("train", &lines("a longer line of text, number ", 600))]);
    world.build("caches", &["train"], &small(1));
    let split = Arc::new(world.open("caches", "train"));
    let feature = Feature {
        vocabulary: Arc::new(ByteVocabulary::new(100, true).unwrap()),
        vocabulary_name: "bytes".to_owned(),
        add_eos: true,
        required: true,
    };
    let names = ["inputs".to_owned(), "targets".to_owned()];
    let lengths = [("inputs", 64), ("targets", 32)];
    let ctx = StepContext {
        output_features: names.iter().map(|name| (name.clone(), feature.clone())).collect(),
        lengths: lengths.map(|(name, length)| (name.to_owned(), length)).into(),
        ..StepContext::default()
    };
    let step = SpanCorruption::default().item_step(&ctx).unwrap().unwrap();
    let name = "span_corruption".to_owned();
    let steps = vec![NamedItemStep { words: name.clone(), name, occurrence: 0, step }];
    let steps = ItemSteps::new(steps, names.to_vec(), names.to_vec());
    let config = DatasetConfig::new("train", Converter::EncDec, lengths).batch_size(4).read_ahead(0, 1);
    let task = StreamTask::new("spans", "first").items(steps);
    let dataset = Dataset::new(task, Arc::clone(&split) as Arc<dyn ExampleStore>, config).unwrap();
    let plan = dataset.plan(Horizon::Epochs(2)).unwrap();
    assert!(plan.rows > 100 && plan.fill["inputs"] > 0.5, "{plan:?}");
    assert_eq!(split.tokens_read_bytes(), 0);
    dataset.iter_from(3).unwrap().next().unwrap().unwrap();
    assert!(split.tokens_read_bytes() > 0);
}

#[test]
fn a_cache_is_read_without_task_and_sources() {
    let world = World::new(&[("train", &lines("a", 5))]);
    let folder = world.build("caches", &["train"], &small(1)).splits[0].folder.clone();
    std::fs::remove_dir_all(world.sources()).unwrap();
    let cache = Cache::open(&folder).unwrap();
    assert_eq!(cache.vocabulary_files().unwrap()["bytes"], b"{\"model\": \"bytes\"}");
    assert_eq!(cache.manifest().definition["steps"][0]["op"], "bytes");
    assert_eq!(cache.split("train").unwrap().num_examples(), 5);
    let error = cache.split("test").unwrap_err().to_string();
    assert!(error.ends_with("holds no split `test`, only `train`"), "{error}");
}

#[test]
fn an_empty_split_has_one_empty_shard() {
    let world = World::new(&[("train-a", ""), ("validation.stream", "")]);
    world.build("caches", &["train", "validation"], &small(2));
    for name in ["train", "validation"] {
        let split = world.open("caches", name);
        assert_eq!((split.num_examples(), split.split_manifest().shards.len()), (0, 1));
        assert_eq!(split.examples(0..10).unwrap().num_rows(), 0);
        assert_eq!(split.split_manifest().statistics.features["targets"].tokens, 0);
        split.lengths(0, &[], &mut []);
    }
    let report = crate::verify::verify(world.open("caches", "train").folder(), &|_| {});
    assert_eq!(report.problems, []);
}

#[test]
fn a_slice_is_a_split_of_its_own_and_slices_add_up() {
    let world = World::new(&[("validation-a", &lines("a", 23)), ("validation-b.stream", &lines("b", 14))]);
    let whole = ["validation[:10%]", "validation[10%:30]", "validation[30:]"];
    world.build("caches", &whole, &small(2));
    world.build("caches", &["validation"], &small(2));
    let parts: Vec<String> = whole.iter().flat_map(|name| texts(&world.open("caches", name))).collect();
    assert_eq!(parts, texts(&world.open("caches", "validation")));
    let slice = world.open("caches", "validation[30:]");
    let all = world.open("caches", "validation");
    for example in 0..slice.num_examples() {
        assert_eq!(slice.id(example).unwrap(), all.id(30 + example).unwrap());
        assert_eq!(slice.origins(example).unwrap(), all.origins(30 + example).unwrap());
    }
    let name = "validation~5B30~3A~5D-00000-of-00001.arrow";
    assert!(files(slice.folder()).contains_key(name), "{:?}", files(slice.folder()).keys());
}

#[test]
fn statistics_are_those_of_the_examples() {
    let world = World::new(&[("train", "ab?\n\n!bad\nabcd?\n")]);
    let mut task = world.task();
    task.on_bad_row = seqio::OnBadRow::Skip;
    let caches = world.caches("caches");
    let report =
        super::tiny::build(&task, &caches, &["train"], &small(2), &crate::progress::NoProgress).unwrap();
    let statistics = &report.splits[0].statistics;
    assert_eq!((statistics.examples, statistics.records, statistics.bad_rows.count), (3, 4, 1));
    assert_eq!((statistics.bad_rows.first[0].row, statistics.bad_rows.first[0].file.as_str()), (2, "train"));
    let targets = &statistics.features["targets"];
    assert_eq!((targets.tokens, targets.min_tokens, targets.max_tokens, targets.empty), (8, 0, 5, 1));
    assert_eq!((targets.unknown_tokens, targets.bytes), (2, 16));
    assert_eq!(statistics.seqio["targets_max_tokens"], 5);
    assert_eq!(statistics.seqio["examples"], 3);
}
