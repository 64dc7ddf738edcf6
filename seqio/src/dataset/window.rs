//! Windows of a stored split: which examples each holds, and its rows, planned from lengths alone.
//!
//! ```text
//! 5 examples, W = 4, for ever    positions 0 1 2 3 | 4 0' 1' 2' | 3' 4' 0" 1" | …   (primes: epochs)
//! ```

use std::sync::{Arc, Mutex, PoisonError};

use crate::convert::{Row, WindowPlan, WindowPlanner};
use crate::dataset::cursor::Rows;
use crate::dataset::error::DatasetError;
use crate::dataset::order::EpochOrder;
use crate::dataset::store::{ExampleStore, StoreError};
use crate::dataset::stream::Stream;
use crate::text::quoted;

/// A planned window and what is needed to read its rows.
#[derive(Debug)]
pub(crate) struct Window {
    store: Arc<dyn ExampleStore>,
    /// For each task feature of the converter its number in the store.
    features: Arc<[usize]>,
    /// The example of each item.
    examples: Vec<u64>,
    plan: WindowPlan,
}

impl Rows for Window {
    fn num_rows(&self) -> u64 {
        self.plan.num_rows() as u64
    }
}

impl Window {
    /// Plans a window of all examples of a store, in order.
    pub(crate) fn of_store(
        stream: &Stream,
        planner: &mut WindowPlanner,
        store: Arc<dyn ExampleStore>,
        index: u64,
    ) -> Result<Self, DatasetError> {
        let features = store_features(stream, store.as_ref())?.into();
        let mut lengths = Lengths::default();
        let examples: Vec<u64> = (0..store.num_examples()).collect();
        lengths.read(stream, store.as_ref(), &features, &examples);
        let plan = planner.plan(&lengths.slices(), index);
        Ok(Self { store, features, examples, plan })
    }

    pub(crate) fn plan(&self) -> &WindowPlan {
        &self.plan
    }

    /// A row by its number in the window.
    pub(crate) fn row(&self, row: u64) -> Row<'_> {
        self.plan.row(row as usize)
    }

    /// The example behind an item.
    pub(crate) fn example(&self, item: u32) -> u64 {
        self.examples[item as usize]
    }

    /// Writes ids of an item's edited sequence, from `from` on, to `out`.
    pub(crate) fn read(
        &self,
        stream: &Stream,
        feature: usize,
        item: u32,
        from: usize,
        out: &mut [i32],
    ) -> Result<(), StoreError> {
        stream.edits[feature].read(self.store.as_ref(), self.features[feature], self.example(item), from, out)
    }
}

/// Memory for planning one window after the other.
#[derive(Debug)]
pub(crate) struct Scratch {
    planner: WindowPlanner,
    examples: Vec<u64>,
    lengths: Lengths,
    plan: WindowPlan,
}

/// Edited lengths, a list a feature.
#[derive(Debug, Default)]
struct Lengths(Vec<Vec<u32>>);

impl Lengths {
    fn read(&mut self, stream: &Stream, store: &dyn ExampleStore, features: &[usize], examples: &[u64]) {
        self.0.resize_with(features.len(), Vec::new);
        for ((lengths, feature), edits) in self.0.iter_mut().zip(features).zip(&stream.edits) {
            lengths.resize(examples.len(), 0);
            store.lengths(*feature, examples, lengths);
            edits.edit_lengths(lengths);
        }
    }

    fn slices(&self) -> Vec<&[u32]> {
        self.0.iter().map(Vec::as_slice).collect()
    }
}

/// All windows of a stored split.
#[derive(Debug)]
pub(crate) struct StoredWindows {
    pub(crate) stream: Arc<Stream>,
    pub(crate) store: Arc<dyn ExampleStore>,
    features: Arc<[usize]>,
    num_examples: u64,
    /// Positions in all epochs; `None` if the stream is open-ended.
    num_positions: Option<u64>,
    scratch: Mutex<Vec<Scratch>>,
}

impl StoredWindows {
    pub(crate) fn new(stream: Arc<Stream>, store: Arc<dyn ExampleStore>) -> Result<Self, DatasetError> {
        let features = store_features(&stream, store.as_ref())?.into();
        let num_examples = store.num_examples();
        if num_examples == 0 {
            return Err(stream.empty("examples"));
        }
        let num_positions = match stream.config.epochs {
            Some(epochs) => Some(num_examples.checked_mul(epochs).ok_or_else(|| DatasetError::Setting {
                setting: "epochs",
                problem: format!("{epochs} epochs of {num_examples} examples cannot be counted; leave epochs out"),
            })?),
            None => None,
        };
        Ok(Self { stream, store, features, num_examples, num_positions, scratch: Mutex::default() })
    }

    pub(crate) fn num_examples(&self) -> u64 {
        self.num_examples
    }

    /// Number of windows; `None` if the stream is open-ended.
    pub(crate) fn num_windows(&self) -> Option<u64> {
        self.num_positions.map(|positions| positions.div_ceil(self.stream.window))
    }

    /// This many windows one after the other hold every example at least once.
    pub(crate) fn windows_an_epoch(&self) -> u64 {
        self.num_examples.div_ceil(self.stream.window) + 1
    }

    /// The positions of a window; empty after the end.
    pub(crate) fn positions(&self, window: u64) -> std::ops::Range<u64> {
        let limit = self.num_positions.unwrap_or(u64::MAX);
        let border = |window: Option<u64>| {
            window.and_then(|window| window.checked_mul(self.stream.window)).map_or(limit, |at| at.min(limit))
        };
        border(Some(window))..border(window.checked_add(1))
    }

    /// The epoch of a position, and its place there.
    pub(crate) fn epoch_of(&self, position: u64) -> (u64, u64) {
        (position / self.num_examples, position % self.num_examples)
    }

    pub(crate) fn epoch_order(&self, epoch: u64) -> EpochOrder {
        let config = &self.stream.config;
        EpochOrder::new(self.num_examples, config.order, config.seed, &self.stream.task, epoch)
    }

    /// Plans a window; `None` after the end.
    pub(crate) fn window(&self, index: u64) -> Option<Window> {
        let (examples, plan) = self.with_scratch(|scratch| {
            self.plan_into(index, scratch);
            (std::mem::take(&mut scratch.examples), std::mem::take(&mut scratch.plan))
        });
        let (store, features) = (Arc::clone(&self.store), Arc::clone(&self.features));
        (!examples.is_empty()).then_some(Window { store, features, examples, plan })
    }

    /// Looks at the plan of a window without keeping it.
    pub(crate) fn with_plan<R>(&self, index: u64, look: impl FnOnce(&WindowPlan) -> R) -> R {
        self.with_scratch(|scratch| {
            self.plan_into(index, scratch);
            look(&scratch.plan)
        })
    }

    fn with_scratch<R>(&self, work: impl FnOnce(&mut Scratch) -> R) -> R {
        let pool = || self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = pool().pop();
        let mut scratch = kept.unwrap_or_else(|| Scratch {
            planner: self.stream.planner(),
            examples: Vec::new(),
            lengths: Lengths::default(),
            plan: WindowPlan::default(),
        });
        let result = work(&mut scratch);
        pool().push(scratch);
        result
    }

    fn plan_into(&self, index: u64, scratch: &mut Scratch) {
        let positions = self.positions(index);
        let examples = &mut scratch.examples;
        examples.clear();
        examples.resize((positions.end - positions.start) as usize, 0);
        let (mut position, mut left) = (positions.start, examples.as_mut_slice());
        while !left.is_empty() {
            let (epoch, place) = self.epoch_of(position);
            let written = self.epoch_order(epoch).examples(place, left);
            position += written as u64;
            left = &mut left[written..];
        }
        scratch.lengths.read(&self.stream, self.store.as_ref(), &self.features, examples);
        scratch.planner.plan_into(&scratch.lengths.slices(), index, &mut scratch.plan);
    }
}

/// Finds the features that the converter reads in a store.
fn store_features(stream: &Stream, store: &dyn ExampleStore) -> Result<Vec<usize>, DatasetError> {
    let find = |feature: &&str| {
        store.features().iter().position(|name| name == feature).ok_or_else(|| DatasetError::Task {
            task: stream.task.clone(),
            problem: format!(
                "converter `{}` reads feature `{feature}`, but the examples have only {}",
                stream.config.converter,
                quoted(store.features())
            ),
        })
    };
    stream.features().iter().map(find).collect()
}
