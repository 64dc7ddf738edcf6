//! Running one step over examples in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::dataset::{InMemoryExamples, StoreError};
use crate::feature::Feature;
use crate::item::{Drawing, ItemSteps, NamedItemStep};
use crate::preprocess::{PreprocessError, Preprocessor, StepContext};
use crate::vocabulary::{PassThroughVocabulary, SharedVocabulary, SpecialIds};

/// Sequences by feature.
pub(super) type Sequences = BTreeMap<String, Vec<i32>>;

/// 1,000 ids with EOS 1, of which the last 100 are sentinels.
pub(super) fn thousand_ids() -> SharedVocabulary {
    let special = SpecialIds { pad: 0, eos: Some(1), bos: None, unk: None };
    Arc::new(PassThroughVocabulary::new(900, 100, true, special).unwrap())
}

/// Features of one vocabulary that ask for an EOS, with lengths.
pub(super) fn context(features: &[&str], lengths: &[(&str, usize)]) -> StepContext {
    let feature = |name: &&str| {
        let feature = Feature {
            vocabulary: thousand_ids(),
            vocabulary_name: "thousand".to_owned(),
            add_eos: true,
            required: true,
        };
        ((*name).to_owned(), feature)
    };
    let lengths = lengths.iter().map(|(name, length)| ((*name).to_owned(), *length)).collect();
    let mut ctx = crate::testing::context("targets", Some(1));
    ctx.output_features = features.iter().map(feature).collect();
    ctx.lengths = lengths;
    ctx
}

/// The example that is a run of ids.
pub(super) fn document(first: i32, length: usize) -> Sequences {
    [("targets".to_owned(), (first..).take(length).collect())].into()
}

/// A step under a seed.
pub(super) fn run(
    step: &dyn Preprocessor,
    ctx: &StepContext,
    examples: &[Sequences],
    seed: u64,
) -> Result<Vec<Sequences>, String> {
    let order: Vec<u64> = (0..examples.len() as u64).collect();
    run_in_order(step, ctx, examples, &order, seed)
}

/// A step under a seed, over examples in an order of one's choice.
pub(super) fn run_in_order(
    step: &dyn Preprocessor,
    ctx: &StepContext,
    examples: &[Sequences],
    order: &[u64],
    seed: u64,
) -> Result<Vec<Sequences>, String> {
    let names: Vec<&str> =
        examples.first().map_or(Vec::new(), |first| first.keys().map(String::as_str).collect());
    let column =
        |name: &&str| -> Vec<Vec<i32>> { examples.iter().map(|example| example[*name].clone()).collect() };
    let store = InMemoryExamples::of(names.iter().map(|name| (*name, column(name))));
    let planned = step.item_step(ctx).expect("it plans items");
    let named = NamedItemStep {
        name: step.name().to_owned(),
        occurrence: 0,
        words: String::new(),
        step: planned.map_err(|error: PreprocessError| error.to_string())?,
    };
    let steps =
        ItemSteps::new(vec![named], names.iter().map(|name| (*name).to_owned()).collect(), Vec::new());
    let words = |error: StoreError| error.to_string();
    let items = steps.plan(&store, order, Drawing { seed, task: "docs", epoch: 0 }).map_err(words)?;
    let read = |item: &crate::item::Item| {
        let one = |(name, rope): &(Arc<str>, crate::item::Rope)| {
            let tokens = rope.to_vec(&store)?;
            assert_eq!(tokens.len(), rope.len() as usize);
            Ok((name.to_string(), tokens))
        };
        item.sequences().iter().map(one).collect::<Result<Sequences, StoreError>>()
    };
    items.iter().map(|item| read(item).map_err(words)).collect()
}

/// What was corrupted, from inputs and targets with sentinels from 999 down.
pub(super) fn restored(inputs: &[i32], targets: &[i32]) -> Vec<i32> {
    let cut = |ids: &[i32]| -> Vec<Vec<i32>> {
        let sentinels: Vec<i32> = ids.iter().copied().filter(|id| *id >= 900).collect();
        assert_eq!(sentinels, (0..sentinels.len() as i32).map(|k| 999 - k).collect::<Vec<_>>());
        ids.split(|id| *id >= 900).map(<[i32]>::to_vec).collect()
    };
    let noise_first = inputs.first().is_some_and(|id| *id >= 900);
    let (kept, noise) = (cut(inputs), cut(targets));
    let (first, second) = if noise_first { (kept, noise) } else { (noise, kept) };
    let mut all = Vec::new();
    for place in 0..first.len().max(second.len()) {
        all.extend(first.get(place).into_iter().flatten());
        all.extend(second.get(place).into_iter().flatten());
    }
    all
}
