//! The steps below the boundary of one task, and what they make of a group of examples.
//!
//! ```text
//! group of 3 examples   reduce_concat_tokens, split_tokens   ->   5 items, in order, no token read
//! ```

use std::sync::Arc;

use crate::convert::DEFAULT_WINDOW;
use crate::dataset::{ExampleStore, StoreError};
use crate::item::{Draws, Item, ItemStep, Rope, StoredSpan};
use crate::rng::Key;

/// Examples a group, unless a step takes more together.
pub const DEFAULT_GROUP: usize = 128;

/// A step with what tells it from others.
#[derive(Clone, Debug)]
pub struct NamedItemStep {
    /// Its name in task files.
    pub name: String,
    /// How many steps of this name stand before it.
    pub occurrence: u64,
    /// Settings, version and lengths, complete: equal words, equal results.
    pub words: String,
    /// The step.
    pub step: Arc<dyn ItemStep>,
}

/// The steps below the boundary of a task that does more there than trim and append.
#[derive(Clone, Debug)]
pub struct ItemSteps {
    steps: Vec<NamedItemStep>,
    stored: Vec<String>,
    features: Vec<String>,
    window: u64,
}

/// An item with its tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeItem {
    /// The examples that it is made of, sorted.
    pub examples: Vec<u64>,
    /// Its sequences by feature.
    pub sequences: Vec<(String, Vec<i32>)>,
}

impl PartialEq for ItemSteps {
    fn eq(&self, other: &Self) -> bool {
        self.words() == other.words() && self.stored == other.stored && self.features == other.features
    }
}

/// What random choices of an epoch depend on besides step and item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawing<'a> {
    pub(crate) seed: u64,
    pub(crate) task: &'a str,
    pub(crate) epoch: u64,
}

impl ItemSteps {
    /// Steps in order. They read the features `stored`, and `features` come out of them; both are sorted by name.
    pub fn new(steps: Vec<NamedItemStep>, stored: Vec<String>, features: Vec<String>) -> Self {
        Self { steps, stored, features, window: DEFAULT_WINDOW }
    }

    /// Shuffles so many items together instead of [`DEFAULT_WINDOW`]; at least one.
    pub fn with_window(self, window: u64) -> Self {
        Self { window: window.max(1), ..self }
    }

    /// Items of an epoch that are shuffled together.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// The features of the examples that go in.
    pub fn stored(&self) -> &[String] {
        &self.stored
    }

    /// The steps.
    pub fn steps(&self) -> &[NamedItemStep] {
        &self.steps
    }

    /// The features that come out.
    pub fn features(&self) -> &[String] {
        &self.features
    }

    /// Examples a group: as many as the step that takes the most together, and [`DEFAULT_GROUP`] if all look at items
    /// one by one, where it is only a unit of counting.
    pub fn group(&self) -> usize {
        match self.steps.iter().map(|step| step.step.merges()).max() {
            None | Some(0 | 1) => DEFAULT_GROUP,
            Some(merged) => merged,
        }
    }

    /// Everything that decides what comes out.
    pub fn words(&self) -> String {
        let steps: Vec<&str> = self.steps.iter().map(|step| step.words.as_str()).collect();
        format!("{}; groups of {}, items shuffled {} at a time", steps.join("; "), self.group(), self.window)
    }

    /// What the steps make of all examples of a store, in its order: for showing a few.
    pub fn carry_out(
        &self,
        store: &dyn ExampleStore,
        seed: u64,
        task: &str,
        epoch: u64,
    ) -> Result<Vec<MadeItem>, StoreError> {
        let examples: Vec<u64> = (0..store.num_examples()).collect();
        let mut made = Vec::new();
        for group in examples.chunks(self.group()) {
            for item in self.plan(store, group, Drawing { seed, task, epoch })? {
                let tokens = |feature: &String| {
                    let rope = item.sequence(feature)?;
                    Some(rope.to_vec(store).map(|tokens| (feature.clone(), tokens)))
                };
                let sequences = self.features.iter().filter_map(tokens).collect::<Result<_, _>>()?;
                let mut examples: Vec<u64> = item.sources().iter().map(|span| span.example).collect();
                examples.dedup();
                if examples.is_empty() {
                    examples.push(item.example());
                }
                made.push(MadeItem { examples, sequences });
            }
        }
        Ok(made)
    }

    /// The items that a group of examples gives, in order.
    pub(crate) fn plan(
        &self,
        store: &dyn ExampleStore,
        examples: &[u64],
        drawing: Drawing<'_>,
    ) -> Result<Vec<Item>, StoreError> {
        let mut items = stored(store, examples);
        for step in &self.steps {
            let purpose = format!("step.{}.{}", step.name, step.occurrence);
            let root = Key::new(&purpose, drawing.seed, drawing.task, drawing.epoch);
            let draws = Draws { root, store };
            let merges = step.step.merges().max(1);
            let mut planned = Vec::with_capacity(items.len());
            if merges == 1 {
                // Steps that look at each item by itself get all of a group: a list an item would cost more than the
                // step.
                planned = step.step.plan(items, &draws)?;
            } else {
                let mut left = items.into_iter().peekable();
                while left.peek().is_some() {
                    planned.extend(step.step.plan(left.by_ref().take(merges).collect(), &draws)?);
                }
            }
            items = planned;
        }
        Ok(items)
    }
}

/// Examples as items, before any step.
fn stored(store: &dyn ExampleStore, examples: &[u64]) -> Vec<Item> {
    let mut lengths = vec![0; examples.len()];
    let names: Vec<Arc<str>> = store.features().iter().map(|name| name.as_str().into()).collect();
    let mut sequences: Vec<Vec<(Arc<str>, Rope)>> =
        examples.iter().map(|_| Vec::with_capacity(names.len() + 1)).collect();
    for (feature, name) in names.iter().enumerate() {
        store.lengths(feature, examples, &mut lengths);
        for ((example, len), sequences) in examples.iter().zip(&lengths).zip(&mut sequences) {
            let span = StoredSpan { feature, example: *example, from: 0, len: *len };
            sequences.push((Arc::clone(name), Rope::stored(span)));
        }
    }
    examples.iter().zip(sequences).map(|(example, sequences)| Item::new(*example, sequences)).collect()
}
