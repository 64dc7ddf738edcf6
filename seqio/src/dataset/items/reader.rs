//! Items of examples that are read on the fly, in the order of the source.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::dataset::error::DatasetError;
use crate::dataset::items::grouped::MOST_EMPTY_EPOCHS;
use crate::dataset::items::store::{HeldItem, ItemStore, PlannedItems};
use crate::dataset::store::ExampleStore;
use crate::dataset::stream::Stream;
use crate::dataset::window_reader::WindowReader;
use crate::item::{Drawing, ItemSteps};

/// Turns groups of examples into items, and holds those that the next window begins with.
#[derive(Debug)]
pub(crate) struct ItemReader {
    steps: ItemSteps,
    /// Position of the first item held.
    position: u64,
    held: VecDeque<HeldItem>,
    /// The epoch of the last group, its groups so far, and its items.
    epoch: u64,
    groups: u64,
    items: u64,
    /// Epochs without an item, one after the other.
    empty_epochs: u64,
    ended: bool,
}

impl ItemReader {
    pub(crate) fn new(steps: ItemSteps) -> Self {
        Self {
            steps,
            position: 0,
            held: VecDeque::new(),
            epoch: 0,
            groups: 0,
            items: 0,
            empty_epochs: 0,
            ended: false,
        }
    }

    /// The items of window number `index`, which must not lie before the last one read; `None` after the end.
    pub(crate) fn read(
        &mut self,
        reader: &mut WindowReader,
        stream: &Stream,
        index: u64,
    ) -> Result<Option<ItemStore>, DatasetError> {
        let first = index.saturating_mul(stream.window);
        let size = usize::try_from(stream.window).unwrap_or(usize::MAX);
        while !self.ended && (self.position < first || self.held.len() < size) {
            self.pass(first);
            if self.position == first && self.held.len() >= size {
                break;
            }
            self.read_group(reader, stream)?;
        }
        self.pass(first);
        let items: Vec<HeldItem> = self.held.drain(..size.min(self.held.len())).collect();
        self.position += items.len() as u64;
        Ok((!items.is_empty()).then(|| ItemStore::new(self.steps.features().into(), items)))
    }

    /// Lets go of the items before `first`.
    fn pass(&mut self, first: u64) {
        let before = usize::try_from(first - self.position).unwrap_or(usize::MAX).min(self.held.len());
        self.held.drain(..before);
        self.position += before as u64;
    }

    fn read_group(&mut self, reader: &mut WindowReader, stream: &Stream) -> Result<(), DatasetError> {
        let group = reader.read_group(self.steps.group() as u64)?;
        let next = group.as_ref().map(|(epoch, _)| *epoch);
        if next != Some(self.epoch) {
            self.empty_epochs = if self.items == 0 { self.empty_epochs + 1 } else { 0 };
            let nothing = next.is_none() && self.position == 0 && self.held.is_empty();
            if self.empty_epochs > MOST_EMPTY_EPOCHS || nothing {
                return Err(stream.empty("items: the steps below the cache boundary drop all examples"));
            }
            (self.epoch, self.groups, self.items) = (next.unwrap_or_default(), 0, 0);
        }
        let Some((epoch, examples)) = group else {
            self.ended = true;
            return Ok(());
        };
        let store: Arc<dyn ExampleStore> = Arc::new(examples);
        let all: Vec<u64> = (0..store.num_examples()).collect();
        let drawing = Drawing { seed: stream.config.seed, task: &stream.task, epoch };
        let items = self.steps.plan(store.as_ref(), &all, drawing);
        let items = items.map_err(|error| stream.not_planned(epoch, self.groups, error))?;
        let planned = Arc::new(PlannedItems { store, items });
        let count = planned.items.len() as u32;
        self.held.extend((0..count).map(|index| HeldItem { planned: Arc::clone(&planned), index }));
        self.groups += 1;
        self.items += u64::from(count);
        Ok(())
    }
}
