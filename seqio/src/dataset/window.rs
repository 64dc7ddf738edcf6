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
use crate::dataset::items::{GroupedItems, ItemStore};
use crate::dataset::order::EpochOrder;
use crate::dataset::store::{ExampleStore, StoreError};
use crate::dataset::stream::Stream;
use crate::item::{Item, ItemSteps, StoredSpan};

/// No one leaves so many windows of items without a token.
pub(crate) const MOST_EMPTY_WINDOWS: u64 = 4096;

/// A planned window and what is needed to read its rows.
#[derive(Debug)]
pub(crate) struct Window {
    store: Arc<dyn ExampleStore>,
    writer: Arc<RowWriter>,
    /// The example of each item.
    examples: Vec<u64>,
    /// What the items are made of, where they are more than examples.
    items: Option<Arc<ItemStore>>,
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
        Self { store, writer, examples, items: None, plan }
    }

    /// Plans a window of items.
    pub(crate) fn of_items(
        planner: &mut WindowPlanner,
        writer: Arc<RowWriter>,
        items: ItemStore,
        index: u64,
    ) -> Self {
        let items = Arc::new(items);
        let window = Self::of_store(planner, writer, Arc::clone(&items) as Arc<dyn ExampleStore>, index);
        Self { items: Some(items), ..window }
    }

    /// The stretches of stored sequences that an item is made of; none if it is an example as it is stored.
    pub(crate) fn sources(&self, item: u32) -> Vec<StoredSpan> {
        self.items.as_ref().map(|items| items.sources(u64::from(item))).unwrap_or_default()
    }

    /// A row by its number in the window.
    pub(crate) fn row(&self, row: u64) -> Row<'_> {
        self.plan.row(row as usize)
    }

    /// The stored example behind an item: the first, if it is made of several.
    pub(crate) fn stored_example(&self, item: u32) -> u64 {
        let example = self.example(item);
        let made = self.items.as_ref().and_then(|items| items.item(example));
        made.map_or(example, Item::example)
    }

    /// The number of an item in the window's store.
    fn example(&self, item: u32) -> u64 {
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
    /// Positions in all epochs; `None` if the stream is open-ended, or its positions are items that must be counted.
    num_positions: Option<u64>,
    /// What the positions are if not examples.
    grouped: Option<GroupedItems>,
    scratch: Mutex<Vec<Scratch>>,
}

impl StoredWindows {
    pub(crate) fn new(stream: Arc<Stream>, store: Arc<dyn ExampleStore>) -> Result<Self, DatasetError> {
        let features = stream.items.as_ref().map_or(store.features(), ItemSteps::features);
        let writer = Arc::new(stream.writer(features)?);
        let num_examples = store.num_examples();
        if num_examples == 0 {
            return Err(stream.empty("examples"));
        }
        let grouped = stream
            .items
            .clone()
            .map(|steps| GroupedItems::new(Arc::clone(&stream), steps, Arc::clone(&store)));
        let num_positions = match stream.config.epochs.filter(|_| grouped.is_none()) {
            Some(epochs) => Some(num_examples.checked_mul(epochs).ok_or_else(|| DatasetError::Setting {
                setting: "epochs",
                problem: format!(
                    "{epochs} epochs of {num_examples} examples cannot be counted; leave epochs out"
                ),
            })?),
            None => None,
        };
        Ok(Self { stream, store, writer, num_examples, num_positions, grouped, scratch: Mutex::default() })
    }

    pub(crate) fn store(&self) -> Arc<dyn ExampleStore> {
        Arc::clone(&self.store)
    }

    pub(crate) fn num_examples(&self) -> u64 {
        self.num_examples
    }

    /// What the positions are if not examples.
    pub(crate) fn grouped(&self) -> Option<&GroupedItems> {
        self.grouped.as_ref()
    }

    /// Whether the stream ends.
    pub(crate) fn is_finite(&self) -> bool {
        self.stream.config.epochs.is_some()
    }

    /// Positions in all epochs, as far as that is known; `None` also if the stream is open-ended.
    fn known_positions(&self) -> Option<u64> {
        self.grouped.as_ref().map_or(self.num_positions, GroupedItems::known_end)
    }

    /// Number of windows, as far as that is known without counting; `None` also if the stream is open-ended.
    pub(crate) fn known_windows(&self) -> Option<u64> {
        self.known_positions().map(|positions| positions.div_ceil(self.stream.window))
    }

    /// Number of windows; `None` if the stream is open-ended. Items are counted, if the positions are items.
    pub(crate) fn num_windows(&self) -> Result<Option<u64>, DatasetError> {
        if !self.is_finite() {
            return Ok(None);
        }
        if let Some(grouped) = &self.grouped {
            grouped.reach(u64::MAX, true)?;
        }
        Ok(self.known_windows())
    }

    /// Makes it known which items the windows up to this one have; `parallel` on all threads.
    pub(crate) fn reach(&self, window: u64, parallel: bool) -> Result<(), DatasetError> {
        match &self.grouped {
            Some(grouped) => grouped.reach(window.saturating_mul(self.stream.window), parallel),
            None => Ok(()),
        }
    }

    /// This many windows one after the other without a row mean that there will never be one: they hold every example at
    /// least once, or far more items than anyone would leave empty.
    pub(crate) fn barren_windows(&self) -> u64 {
        let an_epoch = self.num_examples.div_ceil(self.stream.window) + 1;
        an_epoch + if self.grouped.is_some() { MOST_EMPTY_WINDOWS } else { 0 }
    }

    /// The positions of a window; empty after the end. Of items that are not counted yet it may go beyond the end.
    pub(crate) fn positions(&self, window: u64) -> std::ops::Range<u64> {
        let limit = self.known_positions().unwrap_or(u64::MAX);
        let border = |window: Option<u64>| {
            window.and_then(|window| window.checked_mul(self.stream.window)).map_or(limit, |at| at.min(limit))
        };
        border(Some(window))..border(window.checked_add(1))
    }

    /// The epoch of a position, and its place there.
    pub(crate) fn epoch_of(&self, position: u64) -> Result<(u64, u64), DatasetError> {
        let one_to_one = (position / self.num_examples, position % self.num_examples);
        match &self.grouped {
            Some(grouped) => Ok(grouped.epoch_of(position)?.unwrap_or(one_to_one)),
            None => Ok(one_to_one),
        }
    }

    /// The positions at which an example is seen in an epoch.
    pub(crate) fn positions_of(&self, example: u64, epoch: u64) -> Result<Vec<u64>, DatasetError> {
        if let Some(grouped) = &self.grouped {
            return grouped.positions_of(example, epoch);
        }
        let place = self.epoch_order(epoch).place_of(example);
        let position = place.and_then(|place| epoch.checked_mul(self.num_examples)?.checked_add(place));
        Ok(position.into_iter().collect())
    }

    fn epoch_order(&self, epoch: u64) -> EpochOrder {
        let config = &self.stream.config;
        EpochOrder::new(self.num_examples, config.order, config.seed, &self.stream.task, epoch)
    }

    /// Plans a window; `None` after the end.
    pub(crate) fn window(&self, index: u64) -> Result<Option<Window>, DatasetError> {
        if let Some(grouped) = &self.grouped {
            return self.with_scratch(|scratch| {
                let items = self.items(grouped, index)?;
                let window = Window::of_items(&mut scratch.planner, Arc::clone(&self.writer), items, index);
                Ok((!window.examples.is_empty()).then_some(window))
            });
        }
        let (examples, plan) = self.with_scratch(|scratch| {
            self.plan_into(index, scratch);
            (std::mem::take(&mut scratch.examples), std::mem::take(&mut scratch.plan))
        });
        let (store, writer) = (Arc::clone(&self.store), Arc::clone(&self.writer));
        Ok((!examples.is_empty()).then_some(Window { store, writer, examples, items: None, plan }))
    }

    /// Looks at the plan of a window without keeping it.
    pub(crate) fn with_plan<R>(
        &self,
        index: u64,
        look: impl FnOnce(&WindowPlan) -> R,
    ) -> Result<R, DatasetError> {
        self.with_scratch(|scratch| {
            match &self.grouped {
                Some(grouped) => {
                    let items = self.items(grouped, index)?;
                    let all: Vec<u64> = (0..items.num_examples()).collect();
                    scratch.lengths.read(&self.writer, &items, &all);
                    scratch.planner.plan_into(&scratch.lengths.slices(), index, &mut scratch.plan);
                }
                None => self.plan_into(index, scratch),
            }
            Ok(look(&scratch.plan))
        })
    }

    fn items(&self, grouped: &GroupedItems, index: u64) -> Result<ItemStore, DatasetError> {
        let features = self.stream.items.as_ref().map_or(&[][..], ItemSteps::features);
        Ok(ItemStore::new(features.into(), grouped.items(self.positions(index))?))
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
            let (epoch, place) = (position / self.num_examples, position % self.num_examples);
            let written = self.epoch_order(epoch).examples(place, left);
            position += written as u64;
            left = &mut left[written..];
        }
        scratch.lengths.read(&self.writer, self.store.as_ref(), examples);
        scratch.planner.plan_into(&scratch.lengths.slices(), index, &mut scratch.plan);
    }
}
