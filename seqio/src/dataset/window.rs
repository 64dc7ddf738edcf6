//! Windows of a stored split: which examples each holds, and its rows, planned from lengths alone.
//!
//! ```text
//! 5 examples, W = 4, for ever    positions 0 1 2 3 | 4 0' 1' 2' | 3' 4' 0" 1" | …   (primes: epochs)
//! ```

use std::sync::{Arc, Mutex, PoisonError};

use crate::batch::Array;
use crate::convert::{Row, RowWriter, WindowPlan, WindowPlanner};
use crate::dataset::cursor::Rows;
use crate::dataset::error::DatasetError;
use crate::dataset::order::EpochOrder;
use crate::dataset::store::{ExampleStore, StoreError};
use crate::dataset::stream::Stream;

/// A planned window and what is needed to read its rows.
#[derive(Debug)]
pub(crate) struct Window {
    store: Arc<dyn ExampleStore>,
    writer: Arc<RowWriter>,
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
        planner: &mut WindowPlanner,
        writer: Arc<RowWriter>,
        store: Arc<dyn ExampleStore>,
        index: u64,
    ) -> Self {
        let mut lengths = Lengths::default();
        let examples: Vec<u64> = (0..store.num_examples()).collect();
        lengths.read(&writer, store.as_ref(), &examples);
        let plan = planner.plan(&lengths.slices(), index);
        Self { store, writer, examples, plan }
    }

    /// A row by its number in the window.
    pub(crate) fn row(&self, row: u64) -> Row<'_> {
        self.plan.row(row as usize)
    }

    /// The example behind an item.
    pub(crate) fn example(&self, item: u32) -> u64 {
        self.examples[item as usize]
    }

    /// Writes a row, by its number in the window, to a row of arrays.
    pub(crate) fn write_row(&self, row: u64, arrays: &mut [Array], place: usize) -> Result<(), StoreError> {
        let pieces = self.row(row).pieces().map(|piece| (self.example(piece.item), piece.spans));
        self.writer.write_row(self.store.as_ref(), pieces, arrays, place)
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
    fn read(&mut self, writer: &RowWriter, store: &dyn ExampleStore, examples: &[u64]) {
        self.0.resize_with(writer.task_features().count(), Vec::new);
        for (lengths, (feature, edits)) in self.0.iter_mut().zip(writer.task_features()) {
            lengths.resize(examples.len(), 0);
            store.lengths(feature, examples, lengths);
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
    store: Arc<dyn ExampleStore>,
    pub(crate) writer: Arc<RowWriter>,
    num_examples: u64,
    /// Positions in all epochs; `None` if the stream is open-ended.
    num_positions: Option<u64>,
    scratch: Mutex<Vec<Scratch>>,
}

impl StoredWindows {
    pub(crate) fn new(stream: Arc<Stream>, store: Arc<dyn ExampleStore>) -> Result<Self, DatasetError> {
        let writer = Arc::new(stream.writer(store.features())?);
        let num_examples = store.num_examples();
        if num_examples == 0 {
            return Err(stream.empty("examples"));
        }
        let num_positions = match stream.config.epochs {
            Some(epochs) => Some(num_examples.checked_mul(epochs).ok_or_else(|| DatasetError::Setting {
                setting: "epochs",
                problem: format!(
                    "{epochs} epochs of {num_examples} examples cannot be counted; leave epochs out"
                ),
            })?),
            None => None,
        };
        Ok(Self { stream, store, writer, num_examples, num_positions, scratch: Mutex::default() })
    }

    pub(crate) fn store(&self) -> Arc<dyn ExampleStore> {
        Arc::clone(&self.store)
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
        let (store, writer) = (Arc::clone(&self.store), Arc::clone(&self.writer));
        (!examples.is_empty()).then_some(Window { store, writer, examples, plan })
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
        scratch.lengths.read(&self.writer, self.store.as_ref(), examples);
        scratch.planner.plan_into(&scratch.lengths.slices(), index, &mut scratch.plan);
    }
}
