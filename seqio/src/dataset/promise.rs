//! The product's promise, as laws over random streams: batch `s` depends on the definition, the data, the batch size
//! and `s`, and on nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, ListArray, RecordBatch};
use arrow::datatypes::Int32Type;
use proptest::prelude::*;

use crate::batch::{Batch, Values};
use crate::convert::{Converter, Packing};
use crate::dataset::*;
use crate::example::{ExampleId, ExampleRow, Examples, Origin};
use crate::preprocess::TokenEdit;

/// Batches of an open-ended stream that are looked at.
const OPEN_ENDED: usize = 12;

/// A random stream: data and definition.
#[derive(Clone, Debug)]
struct Case {
    /// Lengths of inputs and targets of each example.
    lengths: Vec<(usize, usize)>,
    append: bool,
    config: DatasetConfig,
}

/// Identity and origin of an example.
pub(super) fn row(example: usize) -> ExampleRow {
    let origin = Origin { file: 0, row: example as u64, offset: 0, length: 0 };
    ExampleRow::new(ExampleId::new("docs", "a", 0, example as u64), vec![origin])
}

/// Requests of any shape, for examples of a dozen tokens; for a decoder alone if `lm` says so.
pub(super) fn requests(lm: impl Strategy<Value = bool>) -> impl Strategy<Value = DatasetConfig> {
    let shape = (lm, 1usize..8, 1usize..10, 0..3u8, 1u64..14);
    let order = (0..3u8, 1u64..9, any::<u64>(), prop_oneof![Just(None), (1u64..4).prop_map(Some)], 1u64..9);
    (shape, order).prop_map(|(shape, order)| {
        let (lm, inputs, targets, packing, window) = shape;
        let (kind, block, seed, epochs, batch_size) = order;
        let (converter, limits) = if lm {
            (Converter::Lm, vec![("targets", targets)])
        } else {
            (Converter::EncDec, vec![("inputs", inputs), ("targets", targets)])
        };
        let group = limits.iter().map(|(_, limit)| *limit as u64).max().unwrap();
        let (packing, window) = match packing {
            0 => (Packing::None, window),
            1 => (Packing::Greedy, group * (1 + window % 3)),
            _ => (Packing::BestFit, window),
        };
        let order = match kind {
            0 => OrderKind::Storage,
            1 => OrderKind::Blocks { size: block },
            _ => OrderKind::Full,
        };
        let mut config = DatasetConfig::new("train", converter, limits)
            .packing(packing)
            .window(window)
            .order(order)
            .seed(seed)
            .batch_size(batch_size)
            .read_ahead(0, 1);
        config.epochs = epochs;
        config
    })
}

fn case() -> impl Strategy<Value = Case> {
    let lengths = prop_oneof![
        4 => prop::collection::vec((0usize..9, 0usize..14), 1..40),
        1 => prop::collection::vec((0usize..9, 0usize..14), 1..3),
    ];
    (lengths, requests(any::<bool>()), any::<bool>(), any::<bool>())
        .prop_map(|(lengths, config, append, drop_remainder)| {
            let config = DatasetConfig { drop_remainder, ..config };
            Case { lengths, append, config }
        })
        .prop_filter("an open-ended stream needs a token, or it has no rows", |case| {
            let has_tokens = |(inputs, targets): &(usize, usize)| match case.config.converter.kind {
                Converter::Lm => *targets > 0,
                _ => inputs + targets > 0,
            };
            case.config.epochs.is_some() || case.append || case.lengths.iter().any(has_tokens)
        })
}

impl Case {
    /// Id `100 * (example + 1) + offset`, and 50 more in the inputs: an id tells where it comes from.
    fn sequences(&self, example: usize) -> [Vec<i32>; 2] {
        let (inputs, targets) = self.lengths[example];
        let first = 100 * (example as i32 + 1);
        [
            (0..inputs as i32).map(|at| first + 50 + at).collect(),
            (0..targets as i32).map(|at| first + at).collect(),
        ]
    }

    fn store(&self) -> InMemoryExamples {
        let mut store = InMemoryExamples::new(["inputs", "targets"]);
        for example in 0..self.lengths.len() {
            let [inputs, targets] = self.sequences(example);
            store.push(row(example), &[&inputs, &targets]);
        }
        store
    }

    fn task(&self) -> StreamTask {
        let edits = if self.append { vec![TokenEdit::Append { id: 1 }] } else { Vec::new() };
        let edits = BTreeMap::from([("targets".to_owned(), edits)]);
        StreamTask::new("docs", "test").edits(edits)
    }

    fn dataset(&self, change: impl FnOnce(DatasetConfig) -> DatasetConfig) -> Dataset {
        Dataset::new(self.task(), Arc::new(self.store()), change(self.config.clone())).unwrap()
    }

    fn uncached(&self, chunk: usize, change: impl FnOnce(DatasetConfig) -> DatasetConfig) -> UncachedDataset {
        let case = self.clone();
        let open: OpenExamples = Arc::new(move || {
            let all: Vec<usize> = (0..case.lengths.len()).collect();
            let case = case.clone();
            let chunks: Vec<_> = all.chunks(chunk).map(|examples| Ok(case.chunk(examples))).collect();
            Ok(Box::new(chunks.into_iter()))
        });
        UncachedDataset::new(self.task(), open, change(self.config.clone())).unwrap()
    }

    fn chunk(&self, examples: &[usize]) -> Examples {
        let column = |feature: usize| -> ArrayRef {
            let sequences = examples.iter().map(|example| self.sequences(*example)[feature].clone());
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(
                sequences.map(|ids| Some(ids.into_iter().map(Some).collect::<Vec<_>>())),
            ))
        };
        let columns = RecordBatch::try_from_iter([("inputs", column(0)), ("targets", column(1))]).unwrap();
        Examples::new(columns, examples.iter().map(|example| row(*example)).collect())
    }
}

fn some(batches: DatasetIterator) -> Vec<Batch> {
    batches.take(OPEN_ENDED).map(Result::unwrap).collect()
}

/// Digests of rows that are not padding, from this row of the stream on.
fn rows(batches: &[Batch]) -> Vec<Digest> {
    let valid = |batch: &Batch, row: usize| match &batch.arrays.last().unwrap().values {
        Values::I32(valid) => valid[row] == 1,
        Values::F32(_) => unreachable!("row_valid is i32"),
    };
    let digests = batches.iter().flat_map(|batch| {
        batch
            .row_digests()
            .into_iter()
            .enumerate()
            .filter(|(row, _)| valid(batch, *row))
            .map(|(_, digest)| digest)
    });
    digests.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn threads_and_read_ahead_change_nothing(case in case()) {
        let expected = some(case.dataset(|config| config).iter().unwrap());
        for (read_ahead, threads) in [(0, 8), (1, 1), (64, 1), (64, 2), (64, 8)] {
            let dataset = case.dataset(|config| config.read_ahead(read_ahead, threads));
            prop_assert_eq!(&some(dataset.iter().unwrap()), &expected);
            // Used memory must not show through.
            let mut iterator = dataset.iter().unwrap();
            for batch in &expected {
                let found = iterator.next().unwrap().unwrap();
                prop_assert_eq!(&found, batch);
                iterator.recycle(found);
            }
        }
    }

    #[test]
    fn hosts_share_the_batches_of_one(case in case()) {
        let expected = some(case.dataset(|config| config).iter().unwrap());
        for hosts in [2, 3] {
            let parts: Vec<Vec<Batch>> = (0..hosts)
                .map(|host| some(case.dataset(|config| config.host(host, hosts)).iter().unwrap()))
                .collect();
            for part in &parts {
                prop_assert_eq!(part.len(), expected.len(), "every host has the same number of batches");
            }
            for (step, whole) in expected.iter().enumerate() {
                let digests: Vec<Digest> = parts.iter().flat_map(|part| part[step].row_digests()).collect();
                prop_assert_eq!(digests, whole.row_digests());
                let first: u64 = whole.first_row;
                prop_assert!(parts.iter().all(|part| part[step].step == step as u64 && part[step].first_row >= first));
            }
        }
    }

    #[test]
    fn starting_at_any_step_gives_the_batches_from_there(case in case()) {
        let dataset = case.dataset(|config| config);
        let expected = some(dataset.iter().unwrap());
        for start in 0..=expected.len() {
            // A dataset of its own, so that the index is made for this start.
            let found = some(case.dataset(|config| config).iter_from(start as u64).unwrap());
            let shared = found.len().min(expected.len() - start);
            prop_assert_eq!(&found[..shared], &expected[start..]);
        }
        if case.config.epochs.is_some() && expected.len() < OPEN_ENDED {
            prop_assert_eq!(dataset.num_steps().unwrap(), Some(expected.len() as u64));
            prop_assert!(dataset.iter_from(expected.len() as u64).unwrap().next().is_none());
            let beyond = dataset.iter_from(expected.len() as u64 + 1).unwrap_err();
            prop_assert!(beyond.to_string().contains("there is no step"), "{beyond}");
        }
    }

    #[test]
    fn stopping_anywhere_changes_no_row(case in case(), sizes in prop::collection::vec(1u64..9, 3)) {
        let expected = some(case.dataset(|config| config).iter().unwrap());
        let all = rows(&expected);
        for stop in 0..=expected.len() {
            let mut first = case.dataset(|config| config).iter().unwrap();
            first.by_ref().take(stop).for_each(drop);
            let json = first.state().to_json();
            prop_assert!(json.len() < 1000, "{} bytes", json.len());
            let state = DatasetState::from_json(&json).unwrap();
            let resumed = some(case.dataset(|config| config).resume(&state).unwrap());
            let shared = resumed.len().min(expected.len() - stop);
            prop_assert_eq!(&resumed[..shared], &expected[stop..]);

            // On three hosts, and with other batch sizes from here on; then the same once more.
            let [size, next, _] = sizes[..] else { unreachable!() };
            let hosts: Vec<Vec<Batch>> = (0..3)
                .map(|host| some(case.dataset(|config| config.batch_size(size).host(host, 3)).resume(&state).unwrap()))
                .collect();
            let whole = some(case.dataset(|config| config.batch_size(size)).resume(&state).unwrap());
            for (step, batch) in whole.iter().enumerate() {
                let digests: Vec<Digest> = hosts.iter().flat_map(|host| host[step].row_digests()).collect();
                prop_assert_eq!(digests, batch.row_digests());
            }
            let before = rows(&expected[..stop]).len();
            prop_assert!(same_start(&rows(&whole), &all[before..], case.config.drop_remainder));

            let mut second = case.dataset(|config| config.batch_size(size)).resume(&state).unwrap();
            let two: Vec<Batch> = second.by_ref().take(2).map(Result::unwrap).collect();
            let third = case.dataset(|config| config.batch_size(next)).resume(&second.state()).unwrap();
            prop_assert_eq!(third.batch_sizes().row_of(state.step), Some(state.row));
            let third = some(third);
            prop_assert!(same_start(
                &rows(&third),
                &all[(before + rows(&two).len()).min(all.len())..],
                case.config.drop_remainder,
            ));
        }
    }

    #[test]
    fn a_stream_without_a_cache_has_the_batches_of_one_in_storage_order(
        case in case(), chunk in 1usize..9, host in 0u64..2,
    ) {
        let storage = |config: DatasetConfig| config.order(OrderKind::Storage).host(host, 2);
        let expected = some(case.dataset(storage).iter().unwrap());
        for (read_ahead, threads) in [(0, 1), (64, 2)] {
            let uncached = case.uncached(chunk, |config| storage(config).read_ahead(read_ahead, threads));
            prop_assert_eq!(&some(uncached.iter().unwrap()), &expected);
            for start in 0..=expected.len() {
                let found = some(uncached.iter_from(start as u64).unwrap());
                let shared = found.len().min(expected.len() - start);
                prop_assert_eq!(&found[..shared], &expected[start..]);
                let mut first = uncached.iter().unwrap();
                first.by_ref().take(start).for_each(drop);
                let found = some(uncached.resume(&first.state()).unwrap());
                prop_assert_eq!(&found[..shared], &expected[start..]);
            }
        }
    }

    #[test]
    fn trace_and_find_are_inverse_and_agree_with_the_ids(case in case()) {
        let dataset = case.dataset(|config| config);
        let expected = some(dataset.iter().unwrap());
        let targets = case.config.converter.task_features(&case.config.lengths).len() - 1;
        let mut found = BTreeMap::new();
        for batch in &expected {
            let trace = dataset.trace(batch.step).unwrap();
            prop_assert_eq!(trace.first_row, batch.first_row);
            let ids = batch.arrays.iter().find(|array| array.name == "decoder_target_tokens").unwrap();
            let Values::I32(values) = &ids.values else { unreachable!("ids are i32") };
            for (row, traced) in values.chunks(ids.length).zip(&trace.rows) {
                let mut expected = Vec::new();
                for piece in &traced.pieces {
                    let part = &piece.parts[targets];
                    let mut sequence = case.sequences(piece.example as usize)[1].clone();
                    sequence.extend(case.append.then_some(1));
                    expected.extend_from_slice(&sequence[part.from as usize..(part.from + part.len) as usize]);
                    found
                        .entry((piece.example, piece.epoch))
                        .or_insert_with(Vec::new)
                        .push((batch.step, traced.row, piece.segment, piece.position, traced.window));
                }
                expected.resize(ids.length, 0);
                prop_assert_eq!(row, expected);
            }
        }
        let epochs = found.keys().map(|(_, epoch)| *epoch + 1).max().unwrap_or(0);
        for example in 0..case.lengths.len() as u64 {
            for sighting in dataset.find(example, 0..epochs).unwrap() {
                let last = expected.len() as u64;
                let mut seen: Vec<_> = sighting
                    .pieces
                    .iter()
                    .filter_map(|piece| {
                        let step = piece.step.filter(|step| *step < last)?;
                        Some((step, piece.row, piece.segment, sighting.position, sighting.window))
                    })
                    .collect();
                seen.sort();
                prop_assert_eq!(seen, found.remove(&(example, sighting.epoch)).unwrap_or_default());
            }
        }
        prop_assert!(found.is_empty(), "every piece traced is found");
    }

    #[test]
    fn every_token_is_seen_once_an_epoch(case in case()) {
        let epochs = 2;
        let mut case = case;
        case.config.drop_remainder = false;
        let dataset = case.dataset(|config| config.epochs(epochs));
        let batches: Vec<Batch> = dataset.iter().unwrap().map(Result::unwrap).collect();
        let mut seen = BTreeMap::new();
        for batch in &batches {
            for array in batch.arrays.iter().filter(|array| {
                ["decoder_target_tokens", "encoder_input_tokens"].contains(&array.name.as_str())
            }) {
                let Values::I32(ids) = &array.values else { unreachable!("ids are i32") };
                ids.iter().filter(|id| **id > 1).for_each(|id| *seen.entry(*id).or_insert(0u64) += 1);
            }
        }
        let limit = |feature: &str| case.config.lengths.get(feature).copied().unwrap_or(0);
        let splits = case.config.converter.kind == Converter::Lm && case.config.packing == Packing::BestFit;
        let expected: BTreeSet<i32> = (0..case.lengths.len())
            .flat_map(|example| {
                let [mut inputs, mut targets] = case.sequences(example);
                inputs.truncate(limit("inputs"));
                targets.truncate(if splits { usize::MAX } else { limit("targets") });
                inputs.into_iter().chain(targets)
            })
            .collect();
        prop_assert_eq!(seen.keys().copied().collect::<BTreeSet<_>>(), expected);
        prop_assert!(seen.values().all(|times| *times == epochs));

        let plan = dataset.plan(Horizon::Epochs(epochs)).unwrap();
        prop_assert_eq!(plan.steps, batches.len() as u64);
        prop_assert_eq!(plan.rows, rows(&batches).len() as u64);
        prop_assert_eq!(Some(plan.rows), dataset.num_rows().unwrap());
        let appended = if case.append { weights(&batches) - seen_targets(&seen) } else { 0 };
        prop_assert_eq!(plan.tokens["targets"], seen_targets(&seen) + appended);
        for steps in 0..batches.len() as u64 {
            let part = dataset.plan(Horizon::Steps(steps)).unwrap();
            prop_assert_eq!(part.tokens["targets"], weights(&batches[..steps as usize]));
        }
    }
}

/// Whether two sequences of rows agree as far as both go; the shorter may only end for want of a whole batch.
fn same_start(found: &[Digest], expected: &[Digest], _drop_remainder: bool) -> bool {
    let shared = found.len().min(expected.len());
    found[..shared] == expected[..shared] && (shared > 0 || found.is_empty() || expected.is_empty())
}

fn weights(batches: &[Batch]) -> u64 {
    let arrays = batches.iter().flat_map(|batch| &batch.arrays);
    let weights = arrays.filter(|array| array.name == "decoder_loss_weights");
    weights
        .map(|array| match &array.values {
            Values::F32(weights) => weights.iter().filter(|weight| **weight > 0.0).count() as u64,
            Values::I32(_) => unreachable!("weights are f32"),
        })
        .sum()
}

/// How many of the ids seen are of targets: those below 50 in their hundred.
fn seen_targets(seen: &BTreeMap<i32, u64>) -> u64 {
    seen.iter().filter(|(id, _)| **id % 100 < 50).map(|(_, times)| times).sum()
}
