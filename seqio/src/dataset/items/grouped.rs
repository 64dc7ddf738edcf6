//! The items of a stored split: which there are at which position, planned group by group from lengths.
//!
//! ```text
//! examples in the order of the epoch   [ group 0 ][ group 1 ][ group 2 ] …      cut by the step that merges the most
//! steps below the boundary             items 0 1 2 | 3 4 5 6 7 | 8 …            numbered in order
//! item windows                         [ 2 0 1 3 ][ 7 5 6 4 ][ 8 …              shuffled inside, unless kept in order
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;

use crate::dataset::error::DatasetError;
use crate::dataset::items::anchors::{Anchor, Anchors, Counted, Found};
use crate::dataset::items::store::{HeldItem, PlannedItems};
use crate::dataset::order::{EpochOrder, OrderKind};
use crate::dataset::permutation::Permutation;
use crate::dataset::store::ExampleStore;
use crate::dataset::stream::Stream;
use crate::item::{Drawing, Item, ItemSteps};
use crate::rng::Key;

/// Groups counted at a time: enough for all cores, and few enough not to overshoot by much.
const FIRST_COUNT: u64 = 16;
const LAST_COUNT: u64 = 4096;

/// Planned windows that are kept: neighbours are wanted soon.
const KEPT: usize = 4;

/// Steps that drop at random may leave an epoch without an item, but not so many in a row.
pub(crate) const MOST_EMPTY_EPOCHS: u64 = 1000;

/// All items of a stored split.
#[derive(Debug)]
pub(crate) struct GroupedItems {
    stream: Arc<Stream>,
    steps: ItemSteps,
    store: Arc<dyn ExampleStore>,
    num_examples: u64,
    group: u64,
    /// Items of an epoch that are shuffled together.
    window: u64,
    anchors: Mutex<Anchors>,
    kept: Mutex<VecDeque<(Anchor, Arc<PlannedItems>)>>,
}

impl GroupedItems {
    pub(crate) fn new(stream: Arc<Stream>, steps: ItemSteps, store: Arc<dyn ExampleStore>) -> Self {
        let group = steps.group() as u64;
        let num_examples = store.num_examples();
        let window = steps.window();
        let anchors = Mutex::new(Anchors::new(window));
        Self { stream, steps, store, num_examples, group, window, anchors, kept: Mutex::default() }
    }

    fn anchors(&self) -> MutexGuard<'_, Anchors> {
        self.anchors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn num_groups(&self) -> u64 {
        self.num_examples.div_ceil(self.group)
    }

    fn order(&self, epoch: u64) -> EpochOrder {
        let config = &self.stream.config;
        EpochOrder::new(self.num_examples, config.order, config.seed, &self.stream.task, epoch)
    }

    /// Items in the whole stream, as far as that is known already.
    pub(crate) fn known_end(&self) -> Option<u64> {
        self.anchors().end
    }

    /// Takes note of where a window begins, from a saved state or an index file.
    pub(crate) fn insert(&self, anchor: Anchor) {
        self.anchors().insert(anchor);
    }

    /// Beginnings of windows, as far as they are known without a gap.
    pub(crate) fn known(&self) -> Vec<Anchor> {
        self.anchors().chain().collect()
    }

    /// Where the window of a position begins, if that is known.
    pub(crate) fn anchor_at(&self, position: u64) -> Option<Anchor> {
        match self.anchors().find(position) {
            Found::In(counted) => Some(counted.anchor),
            Found::From(anchor) => Some(anchor).filter(|anchor| anchor.position(self.window) <= position),
            Found::After => None,
        }
    }

    /// Counts until it is known where the window of `position` begins, or that the stream ends before it.
    pub(crate) fn reach(&self, position: u64, parallel: bool) -> Result<(), DatasetError> {
        self.counted(position, parallel).map(drop)
    }

    /// The window of a position; `None` after the end.
    fn counted(&self, position: u64, parallel: bool) -> Result<Option<Counted>, DatasetError> {
        loop {
            let found = self.anchors().find(position);
            match found {
                Found::In(counted) => return Ok(Some(counted)),
                Found::After => return Ok(None),
                Found::From(anchor) => self.count_on(anchor, position, parallel)?,
            }
        }
    }

    /// The epoch of a position, and the place of its item in it.
    pub(crate) fn epoch_of(&self, position: u64) -> Result<Option<(u64, u64)>, DatasetError> {
        let counted = self.counted(position, false)?;
        Ok(counted.map(|counted| (counted.anchor.epoch, position - counted.anchor.base)))
    }

    /// How many epochs the first `items` items are.
    pub(crate) fn epochs_at(&self, items: u64) -> Result<f64, DatasetError> {
        let Some(last) = items.checked_sub(1) else { return Ok(0.0) };
        let Some(counted) = self.counted(last, true)? else { return Ok(0.0) };
        let base = counted.anchor.base;
        // The epoch's end is where the next one begins.
        let mut position = counted.anchor.position(self.window) + counted.items;
        while let Some(next) = self.counted(position, true)? {
            if next.anchor.epoch != counted.anchor.epoch {
                break;
            }
            position = next.anchor.position(self.window) + next.items;
        }
        Ok(counted.anchor.epoch as f64 + (items - base) as f64 / (position - base) as f64)
    }

    /// The items at `positions`, fewer if the stream ends before.
    pub(crate) fn items(&self, positions: std::ops::Range<u64>) -> Result<Vec<HeldItem>, DatasetError> {
        let mut held = Vec::with_capacity((positions.end - positions.start) as usize);
        let mut position = positions.start;
        while position < positions.end {
            let Some((counted, planned)) = self.planned(position)? else { break };
            let from = position - counted.anchor.position(self.window);
            let to = counted.items.min(from + positions.end - position);
            held.extend((from..to).map(|at| HeldItem {
                planned: Arc::clone(&planned),
                index: self.item_at(&counted, at) as u32,
            }));
            position += to - from;
        }
        Ok(held)
    }

    /// The number in its window of the item that stands at `place` in it.
    fn item_at(&self, counted: &Counted, place: u64) -> u64 {
        self.shuffle(counted).map_or(place, |shuffle| shuffle.apply(place))
    }

    fn shuffle(&self, counted: &Counted) -> Option<Permutation> {
        let config = &self.stream.config;
        let Anchor { epoch, window, .. } = counted.anchor;
        let key = || Key::new("items.window", config.seed, &self.stream.task, epoch).child(window);
        (config.order != OrderKind::Storage).then(|| Permutation::new(counted.items, key()))
    }

    /// The positions in `epoch` of the items that are made of an example.
    pub(crate) fn positions_of(&self, example: u64, epoch: u64) -> Result<Vec<u64>, DatasetError> {
        let Some(place) = self.order(epoch).place_of(example) else { return Ok(Vec::new()) };
        let group = place / self.group;
        let mut found = Vec::new();
        // Windows are gone through from the first: their beginnings are counted anyhow to know the positions.
        let mut here = self.counted(0, true)?;
        while let Some(counted) = here {
            let Anchor { epoch: at, group: first, .. } = counted.anchor;
            let start = counted.anchor.position(self.window);
            let next = self.counted(start + counted.items, true)?;
            if (at, first) > (epoch, group) {
                break;
            }
            let last = match next {
                Some(next) if next.anchor.epoch == at => next.anchor.group,
                _ => u64::MAX,
            };
            if at == epoch && group <= last {
                let planned = self.plan_window(counted.anchor)?;
                let shuffle = self.shuffle(&counted);
                let holds = |item: &Item| item.sources().iter().any(|span| span.example == example);
                for (number, _) in (0..).zip(&planned.items).filter(|(_, item)| holds(item)) {
                    found.push(start + shuffle.map_or(number, |shuffle| shuffle.invert(number)));
                }
            }
            here = next;
        }
        found.sort_unstable();
        Ok(found)
    }

    /// The window of a position with its items; `None` after the end.
    fn planned(&self, position: u64) -> Result<Option<(Counted, Arc<PlannedItems>)>, DatasetError> {
        loop {
            let found = self.anchors().find(position);
            match found {
                Found::After => return Ok(None),
                Found::In(counted) => return Ok(Some((counted, self.plan_window(counted.anchor)?))),
                // The next window: planning it counts it.
                Found::From(anchor) if position - anchor.position(self.window) < self.window => {
                    self.plan_window(anchor).map(drop)?;
                }
                Found::From(anchor) => self.count_on(anchor, position, false)?,
            }
        }
    }

    /// Plans the window that begins here, and takes note of where the next one does.
    fn plan_window(&self, anchor: Anchor) -> Result<Arc<PlannedItems>, DatasetError> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, planned)) = kept().iter().find(|(at, _)| *at == anchor) {
            return Ok(Arc::clone(planned));
        }
        let order = self.order(anchor.epoch);
        let mut walk = Walk::new(self, anchor);
        let mut items: Vec<Item> = Vec::with_capacity(self.window as usize);
        let mut skip = anchor.skip as usize;
        let mut examples = vec![0; self.group as usize];
        while walk.anchor == anchor && walk.group < self.num_groups() {
            let planned = self.plan_group(anchor.epoch, &order, walk.group, &mut examples)?;
            walk.add(planned.len() as u64, &mut self.anchors());
            items.extend(planned.into_iter().skip(skip));
            skip = 0;
        }
        items.truncate(self.window as usize);
        if walk.group == self.num_groups() {
            walk.end_epoch(&mut self.anchors())?;
        }
        let planned = Arc::new(PlannedItems { store: Arc::clone(&self.store), items });
        // An epoch without items leaves nothing to keep.
        if !planned.items.is_empty() {
            let mut kept = kept();
            if kept.len() >= KEPT {
                kept.pop_front();
            }
            kept.push_back((anchor, Arc::clone(&planned)));
        }
        Ok(planned)
    }

    /// Counts items from `anchor` on, until the window of `position` is counted or the stream ends.
    fn count_on(&self, anchor: Anchor, position: u64, parallel: bool) -> Result<(), DatasetError> {
        let mut walk = Walk::new(self, anchor);
        let mut count = FIRST_COUNT;
        loop {
            let epoch = walk.anchor.epoch;
            let order = self.order(epoch);
            let to = walk.group.saturating_add(count).min(self.num_groups());
            let groups = walk.group..to;
            let items = |group: u64| {
                let mut examples = vec![0; self.group as usize];
                self.plan_group(epoch, &order, group, &mut examples).map(|items| items.len() as u64)
            };
            let counts: Vec<u64> = match parallel {
                true => groups.into_par_iter().map(items).collect::<Result<_, _>>()?,
                false => groups.map(items).collect::<Result<_, _>>()?,
            };
            let mut anchors = self.anchors();
            counts.into_iter().for_each(|items| walk.add(items, &mut anchors));
            if to == self.num_groups() && !walk.end_epoch(&mut anchors)? {
                return Ok(());
            }
            if walk.anchor.position(self.window) > position {
                return Ok(());
            }
            if parallel {
                count = (count * 2).min(LAST_COUNT);
            }
        }
    }

    fn plan_group(
        &self,
        epoch: u64,
        order: &EpochOrder,
        group: u64,
        examples: &mut [u64],
    ) -> Result<Vec<Item>, DatasetError> {
        let places = order.examples(group * self.group, examples);
        let Stream { config, task, .. } = self.stream.as_ref();
        let drawing = Drawing { seed: config.seed, task, epoch };
        let items = self.steps.plan(self.store.as_ref(), &examples[..places], drawing);
        items.map_err(|error| self.stream.not_planned(epoch, group, error))
    }
}

/// Goes from group to group and notes where windows begin.
struct Walk<'a> {
    items: &'a GroupedItems,
    /// The window that is being filled.
    anchor: Anchor,
    /// Items it has.
    have: u64,
    /// The next group.
    group: u64,
    /// Items of the next group that belong to windows before.
    skip: u64,
}

impl<'a> Walk<'a> {
    fn new(items: &'a GroupedItems, anchor: Anchor) -> Self {
        Self { items, anchor, have: 0, group: anchor.group, skip: anchor.skip }
    }

    /// The next group has `count` items.
    fn add(&mut self, count: u64, anchors: &mut Anchors) {
        let window = self.items.window;
        self.have += count - self.skip;
        (self.skip, self.group) = (0, self.group + 1);
        while self.have >= window {
            self.have -= window;
            let (group, skip) = match self.have {
                0 => (self.group, 0),
                left => (self.group - 1, count - left),
            };
            anchors.count(&self.anchor, window);
            self.anchor = Anchor { window: self.anchor.window + 1, group, skip, ..self.anchor };
            // Behind the last group no window begins, but the next epoch.
            if group < self.items.num_groups() {
                anchors.insert(self.anchor);
            }
        }
    }

    /// There is no next group. Says whether there is another epoch.
    fn end_epoch(&mut self, anchors: &mut Anchors) -> Result<bool, DatasetError> {
        let GroupedItems { stream, window, .. } = self.items;
        let position = self.anchor.position(*window) + self.have;
        let is_empty = position == self.anchor.base;
        anchors.empty_epochs = if is_empty { anchors.empty_epochs + 1 } else { 0 };
        if self.have > 0 {
            anchors.count(&self.anchor, self.have);
        }
        let epoch = self.anchor.epoch + 1;
        let ends = stream.config.epochs.is_some_and(|epochs| epoch >= epochs);
        if anchors.empty_epochs > MOST_EMPTY_EPOCHS || ends && position == 0 {
            return Err(stream.empty("items: the steps below the cache boundary drop all examples"));
        }
        if ends {
            anchors.end = Some(position);
        } else {
            anchors.insert(Anchor::epoch(epoch, position));
        }
        *self = Self::new(self.items, Anchor::epoch(epoch, position));
        Ok(!ends)
    }
}
