//! The product's promise for tasks whose steps below the boundary drop, merge, split and make sequences: against a model
//! that runs the steps on tokens, from the first example on.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, ListArray, RecordBatch};
use arrow::datatypes::Int32Type;
use proptest::prelude::*;

use crate::batch::{Batch, Values};
use crate::convert::{Converter, Packing};
use crate::dataset::promise::{requests, row};
use crate::dataset::*;
use crate::example::Examples;
use crate::item::{Draws, Item, ItemStep, ItemSteps, NamedItemStep, Rope, TokenOp};
use crate::rng::Key;

/// Batches of an open-ended stream that are looked at.
const OPEN_ENDED: usize = 10;

/// Drops items at random, one in so many.
#[derive(Debug)]
struct Drop(u64);

impl ItemStep for Drop {
    fn plan(&self, items: Vec<Item>, draws: &Draws<'_>) -> Result<Vec<Item>, StoreError> {
        let mut kept = Vec::new();
        for item in items {
            if draws.key(&item)?.value() % self.0 != 0 {
                kept.push(item);
            }
        }
        Ok(kept)
    }

    fn in_words(&self) -> String {
        "drops".to_owned()
    }
}

/// Joins so many items.
#[derive(Debug)]
struct Merge(usize);

impl ItemStep for Merge {
    fn merges(&self) -> usize {
        self.0
    }

    fn plan(&self, items: Vec<Item>, _draws: &Draws<'_>) -> Result<Vec<Item>, StoreError> {
        if self.0 == 1 {
            return Ok(items);
        }
        let mut items = items.into_iter();
        let Some(first) = items.next() else { return Ok(Vec::new()) };
        let mut joined = first.sequence("targets").cloned().unwrap_or_default();
        items.for_each(|mut item| joined.append(item.take("targets").unwrap_or_default()));
        Ok(vec![first.with_sequences(vec![("targets".into(), joined)])])
    }

    fn in_words(&self) -> String {
        "merges".to_owned()
    }
}

/// Cuts items into pieces of a random length up to this.
#[derive(Debug)]
struct Cut(u32);

impl ItemStep for Cut {
    fn plan(&self, items: Vec<Item>, draws: &Draws<'_>) -> Result<Vec<Item>, StoreError> {
        let mut pieces = Vec::new();
        for item in items {
            let rope = item.sequence("targets").cloned().unwrap_or_default();
            let len = (draws.key(&item)?.value() % u64::from(self.0)) as u32 + 1;
            for index in 0..rope.len().div_ceil(len) {
                let piece = rope.slice(index * len, len);
                pieces.push(item.piece(u64::from(index), vec![("targets".into(), piece)]));
            }
        }
        Ok(pieces)
    }

    fn in_words(&self) -> String {
        "cuts".to_owned()
    }
}

/// Makes inputs of targets: turned around, with a random id added to each.
#[derive(Debug)]
struct Turn;

impl TokenOp for Turn {
    fn write(&self, inputs: &[&[i32]], key: Key, out: &mut [i32]) -> Result<(), String> {
        let more = (key.value() % 7) as i32;
        out.iter_mut().zip(inputs[0].iter().rev()).for_each(|(out, id)| *out = id + more);
        Ok(())
    }
}

impl ItemStep for Turn {
    fn plan(&self, mut items: Vec<Item>, draws: &Draws<'_>) -> Result<Vec<Item>, StoreError> {
        for item in &mut items {
            let rope = item.sequence("targets").cloned().unwrap_or_default();
            let (key, len) = (draws.key(item)?, rope.len());
            item.set(&"inputs".into(), Rope::made(Arc::new(Turn), vec![rope], key, len));
        }
        Ok(items)
    }

    fn in_words(&self) -> String {
        "turns".to_owned()
    }
}

/// A random stream: data and definition.
#[derive(Clone, Debug)]
struct Case {
    /// Lengths of the targets of each example.
    lengths: Vec<usize>,
    drop: u64,
    merge: usize,
    cut: u32,
    item_window: u64,
    config: DatasetConfig,
}

fn case() -> impl Strategy<Value = Case> {
    let steps = (2u64..5, 1usize..5, 1u32..9, 1u64..12);
    let lengths = prop::collection::vec(1usize..14, 8..40);
    (lengths, steps, requests(Just(false)), any::<bool>()).prop_map(
        |(lengths, (drop, merge, cut, item_window), config, drop_remainder)| {
            let config = DatasetConfig { drop_remainder, ..config };
            Case { lengths, drop, merge, cut, item_window, config }
        },
    )
}

impl Case {
    fn tokens(&self, example: usize) -> Vec<i32> {
        (0..self.lengths[example] as i32).map(|at| 100 * (example as i32 + 1) + at).collect()
    }

    fn store(&self) -> InMemoryExamples {
        let mut store = InMemoryExamples::new(["targets"]);
        for example in 0..self.lengths.len() {
            store.push(row(example), &[&self.tokens(example)]);
        }
        store
    }

    fn steps(&self) -> ItemSteps {
        let step = |name: &str, step: Arc<dyn ItemStep>| NamedItemStep {
            name: name.to_owned(),
            occurrence: 0,
            words: format!("{step:?}"),
            step,
        };
        let steps = vec![
            step("drop", Arc::new(Drop(self.drop))),
            step("merge", Arc::new(Merge(self.merge))),
            step("cut", Arc::new(Cut(self.cut))),
            step("turn", Arc::new(Turn)),
        ];
        ItemSteps::new(steps, vec!["targets".to_owned()], vec!["inputs".to_owned(), "targets".to_owned()])
            .with_window(self.item_window)
    }

    fn task(&self) -> StreamTask {
        StreamTask::new("docs", "test").items(self.steps())
    }

    fn dataset(&self, change: impl FnOnce(DatasetConfig) -> DatasetConfig) -> Dataset {
        Dataset::new(self.task(), Arc::new(self.store()), change(self.config.clone())).unwrap()
    }

    fn uncached(&self, chunk: usize) -> UncachedDataset {
        let case = self.clone();
        let open: OpenExamples = Arc::new(move || {
            let all: Vec<usize> = (0..case.lengths.len()).collect();
            let case = case.clone();
            let chunks: Vec<_> = all.chunks(chunk).map(|examples| Ok(case.chunk(examples))).collect();
            Ok(Box::new(chunks.into_iter()))
        });
        UncachedDataset::new(self.task(), open, self.config.clone()).unwrap()
    }

    fn chunk(&self, examples: &[usize]) -> Examples {
        let sequences = examples.iter().map(|example| self.tokens(*example));
        let column: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(
            sequences.map(|ids| Some(ids.into_iter().map(Some).collect::<Vec<_>>())),
        ));
        let columns = RecordBatch::try_from_iter([("targets", column)]).unwrap();
        Examples::new(columns, examples.iter().map(|example| row(*example)).collect())
    }

    /// The key of an item that begins with this example, at the step of this name.
    fn key(&self, step: &str, epoch: u64, example: usize, piece: Option<u64>) -> Key {
        let id = row(example).id.0;
        let half = |from: usize| u64::from_le_bytes(id[from..from + 8].try_into().unwrap());
        let path = piece.map_or(0, |piece| Item::new(0, Vec::new()).piece(piece, Vec::new()).path());
        let root = Key::new(&format!("step.{step}.0"), self.config.seed, "docs", epoch);
        root.child(half(0)).child(half(8)).child(path)
    }

    /// Inputs and targets of the items of an epoch in order, by running the steps on tokens.
    fn model(&self, epoch: u64) -> Vec<[Vec<i32>; 2]> {
        let n = self.lengths.len() as u64;
        let order = EpochOrder::new(n, self.config.order, self.config.seed, "docs", epoch);
        let mut examples = vec![0; n as usize];
        order.examples(0, &mut examples);
        let group = if self.merge > 1 { self.merge } else { crate::item::DEFAULT_GROUP };
        let mut items = Vec::new();
        for group in examples.chunks(group) {
            let kept: Vec<usize> = group
                .iter()
                .map(|example| *example as usize)
                .filter(|example| !self.key("drop", epoch, *example, None).value().is_multiple_of(self.drop))
                .collect();
            for merged in kept.chunks(self.merge) {
                let tokens: Vec<i32> = merged.iter().flat_map(|example| self.tokens(*example)).collect();
                let len = self.key("cut", epoch, merged[0], None).value() % u64::from(self.cut) + 1;
                for (piece, targets) in (0..).zip(tokens.chunks(len as usize)) {
                    let more = (self.key("turn", epoch, merged[0], Some(piece)).value() % 7) as i32;
                    items.push([targets.iter().rev().map(|id| id + more).collect(), targets.to_vec()]);
                }
            }
        }
        items
    }

    /// Whether a stream that ends has no items at all, which is an error.
    fn is_empty(&self) -> bool {
        self.config.epochs.is_some_and(|epochs| (0..epochs).all(|epoch| self.model(epoch).is_empty()))
    }
}

fn some(batches: DatasetIterator) -> Vec<Batch> {
    batches.take(OPEN_ENDED).map(Result::unwrap).collect()
}

fn digests(batches: &[Batch]) -> Vec<Digest> {
    batches.iter().map(Batch::digest).collect()
}

fn i32s<'a>(batch: &'a Batch, name: &str) -> (&'a [i32], usize) {
    let array = batch.arrays.iter().find(|array| array.name == name).unwrap();
    match &array.values {
        Values::I32(values) => (values, array.length),
        Values::F32(_) => unreachable!("tokens are i32"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn threads_and_restarts_do_not_matter(case in case(), at in 0usize..OPEN_ENDED) {
        prop_assume!(!case.is_empty());
        let all = some(case.dataset(|config| config).iter().unwrap());
        for threads in [1, 3] {
            let ahead = case.dataset(|config| config.read_ahead(4, threads));
            prop_assert_eq!(&digests(&some(ahead.iter().unwrap())), &digests(&all));
        }
        let at = at.min(all.len());
        // Another process: it knows nothing but the saved state.
        let mut first = case.dataset(|config| config.read_ahead(2, 2)).iter().unwrap();
        prop_assert_eq!(first.by_ref().take(at).count(), at);
        let state = DatasetState::from_json(&first.state().to_json()).unwrap();
        let resumed = some(case.dataset(|config| config).resume(&state).unwrap());
        prop_assert_eq!(&digests(&resumed[..all.len() - at]), &digests(&all[at..]));
        // Any step can be visited, by counting.
        let visited = some(case.dataset(|config| config).iter_from(at as u64).unwrap());
        prop_assert_eq!(&digests(&visited[..all.len() - at]), &digests(&all[at..]));
    }

    #[test]
    fn readers_of_one_data_set_do_not_disturb_each_other(case in case()) {
        prop_assume!(!case.is_empty());
        let all = digests(&some(case.dataset(|config| config).iter().unwrap()));
        let dataset = case.dataset(|config| config);
        let all_at_once = std::thread::scope(|scope| {
            let dataset = &dataset;
            let from = |at: usize| scope.spawn(move || digests(&some(dataset.iter_from(at as u64).unwrap())));
            let readers: Vec<_> = (0..4).map(|reader| (reader % 2).min(all.len())).map(|at| (at, from(at))).collect();
            readers.into_iter().map(|(at, reader)| (at, reader.join().unwrap())).collect::<Vec<_>>()
        });
        for (at, found) in all_at_once {
            prop_assert_eq!(&found[..all.len() - at], &all[at..]);
        }
    }

    #[test]
    fn hosts_share_the_rows(case in case(), hosts in 1u64..4) {
        prop_assume!(!case.is_empty());
        let whole = some(case.dataset(|config| config).iter().unwrap());
        let parts: Vec<Vec<Batch>> =
            (0..hosts).map(|host| some(case.dataset(|config| config.host(host, hosts)).iter().unwrap())).collect();
        for (step, batch) in whole.iter().enumerate() {
            let shared: Vec<Digest> = parts.iter().flat_map(|part| part[step].row_digests()).collect();
            prop_assert_eq!(shared, batch.row_digests());
        }
    }

    #[test]
    fn without_a_cache_the_batches_are_those_of_a_cache_in_source_order(case in case(), chunk in 1usize..9) {
        prop_assume!(!case.is_empty());
        let case = Case { config: case.config.clone().order(OrderKind::Storage), ..case };
        let cached = some(case.dataset(|config| config).iter().unwrap());
        let read = some(case.uncached(chunk).iter().unwrap());
        prop_assert_eq!(digests(&read), digests(&cached));
        let later = some(case.uncached(chunk).iter_from(2.min(cached.len() as u64)).unwrap());
        prop_assert_eq!(&digests(&later[..cached.len().saturating_sub(2)]), &digests(&cached[2.min(cached.len())..]));
    }

    #[test]
    fn the_items_are_those_that_the_steps_make_of_tokens(case in case()) {
        prop_assume!(!case.is_empty());
        // Rows as long as items get, one item a row, so that rows show the items.
        let config = DatasetConfig::new("train", Converter::EncDec, [("inputs", 64), ("targets", 64)])
            .packing(Packing::None)
            .order(case.config.order)
            .seed(case.config.seed)
            .window(case.config.window.unwrap_or(5))
            .batch_size(1)
            .epochs(2)
            .read_ahead(0, 1);
        let case = Case { config, ..case };
        prop_assume!(!case.is_empty());
        let expected: Vec<Vec<[Vec<i32>; 2]>> = (0..2).map(|epoch| case.model(epoch)).collect();
        let dataset = case.dataset(|config| config);
        let mut rows = dataset.iter().unwrap().map(|batch| {
            let batch = batch.unwrap();
            ["encoder_input_tokens", "decoder_target_tokens"].map(|name| i32s(&batch, name).0.to_vec())
        });
        let padded = |item: &[Vec<i32>; 2]| item.clone().map(|mut ids| { ids.resize(64, 0); ids });
        for items in &expected {
            for window in items.chunks(case.item_window as usize) {
                let mut found: Vec<_> = rows.by_ref().take(window.len()).collect();
                let mut wanted: Vec<_> = window.iter().map(padded).collect();
                if case.config.order != OrderKind::Storage {
                    found.sort();
                    wanted.sort();
                }
                prop_assert_eq!(found, wanted);
            }
        }
        prop_assert!(rows.next().is_none());
        let count = expected.iter().map(Vec::len).sum::<usize>() as u64;
        prop_assert_eq!(dataset.num_rows().unwrap(), Some(count));
    }

    #[test]
    fn the_index_of_a_run_before_changes_nothing(case in case(), at in 0u64..OPEN_ENDED as u64) {
        prop_assume!(!case.is_empty());
        let folder = tempfile::tempdir().unwrap();
        let dataset = || case.dataset(|config| config).with_index_folders([folder.path().to_owned()]);
        let all = some(dataset().iter().unwrap());
        let at = at.min(all.len() as u64);
        for _ in 0..2 {
            let visited = some(dataset().iter_from(at).unwrap());
            prop_assert_eq!(&digests(&visited[..all.len() - at as usize]), &digests(&all[at as usize..]));
        }
    }
}

proptest! {
    // Every step of two epochs is traced, so there are few.
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn what_is_found_is_what_is_traced(case in case(), example in 0usize..8) {
        let config = case.config.clone().epochs(2);
        let case = Case { lengths: case.lengths[..8].to_vec(), config, ..case };
        prop_assume!(!case.is_empty());
        let dataset = case.dataset(|config| config);
        let steps = dataset.num_steps().unwrap().unwrap();
        let mut traced: BTreeMap<(u64, u64), usize> = BTreeMap::new();
        for step in 0..steps {
            for row in dataset.trace(step).unwrap().rows {
                for piece in row.pieces {
                    if piece.sources.iter().any(|source| source.example == example as u64) {
                        *traced.entry((piece.epoch, piece.position)).or_default() += 1;
                    }
                }
            }
        }
        let mut found: BTreeMap<(u64, u64), usize> = BTreeMap::new();
        for sighting in dataset.find(example as u64, 0..2).unwrap() {
            let seen = sighting.pieces.iter().filter(|piece| piece.step.is_some()).count();
            if seen > 0 {
                found.insert((sighting.epoch, sighting.position), seen);
            }
        }
        prop_assert_eq!(found, traced);
    }
}
