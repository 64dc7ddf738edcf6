//! Where in an epoch the items of a window begin: the prefix counts of a task whose items are not its examples.
//!
//! ```text
//! windows of 4 items, groups of 3, 5, 1 items     window 0: group 0, skip 0    window 1: group 1, skip 1
//! position 9 is the first of epoch 1              window 2: group 2, skip 0
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The beginning of an item window, and so of some positions of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Anchor {
    /// The epoch.
    pub(crate) epoch: u64,
    /// Position in the stream of the epoch's first item.
    pub(crate) base: u64,
    /// The item window, counted in its epoch.
    pub(crate) window: u64,
    /// The group in which the window's first item stands.
    pub(crate) group: u64,
    /// Items of that group that belong to windows before.
    pub(crate) skip: u64,
}

impl Anchor {
    /// The beginning of an epoch.
    pub(crate) fn epoch(epoch: u64, base: u64) -> Self {
        Self { epoch, base, window: 0, group: 0, skip: 0 }
    }

    /// The position of the window's first item, with `size` items a full window.
    pub(crate) fn position(&self, size: u64) -> u64 {
        self.base.saturating_add(self.window.saturating_mul(size))
    }
}

/// A window whose number of items is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) anchor: Anchor,
    /// Items in the window: all windows but the last of an epoch are full.
    pub(crate) items: u64,
}

/// What is known of the beginnings of windows, by position. The first entry is that of the stream, and a place that a
/// saved state has told may stand apart from the others.
#[derive(Debug)]
pub(crate) struct Anchors {
    /// Items a full window.
    pub(crate) size: u64,
    known: BTreeMap<u64, (Anchor, Option<u64>)>,
    /// Items in the whole stream, once that is known.
    pub(crate) end: Option<u64>,
    /// Epochs without an item, one after the other, up to the last one counted.
    pub(crate) empty_epochs: u64,
}

/// What is known of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It is in this window.
    In(Counted),
    /// The last beginning known before it, from which to count on.
    From(Anchor),
    /// The stream ends before it.
    After,
}

impl Anchors {
    pub(crate) fn new(size: u64) -> Self {
        let mut anchors = Self { size, known: BTreeMap::new(), end: None, empty_epochs: 0 };
        anchors.insert(Anchor::epoch(0, 0));
        anchors
    }

    /// Takes note of a beginning. Of epochs without items, which begin at the same position as the one after them, the
    /// last counts, whoever comes to tell of an earlier one.
    pub(crate) fn insert(&mut self, anchor: Anchor) {
        let place = self.known.entry(anchor.position(self.size)).or_insert((anchor, None));
        if place.0.epoch < anchor.epoch {
            *place = (anchor, None);
        }
    }

    /// Takes note of how many items a window has.
    pub(crate) fn count(&mut self, anchor: &Anchor, items: u64) {
        self.insert(*anchor);
        match self.known.get_mut(&anchor.position(self.size)) {
            Some((there, known)) if there == anchor => *known = Some(items),
            _ => {}
        }
    }

    /// The window of a position.
    pub(crate) fn find(&self, position: u64) -> Found {
        if self.end.is_some_and(|end| position >= end) {
            return Found::After;
        }
        match self.known.range(..=position).next_back() {
            Some((at, (anchor, Some(items)))) if position - at < *items => {
                Found::In(Counted { anchor: *anchor, items: *items })
            }
            Some((_, (anchor, _))) => Found::From(*anchor),
            None => Found::From(Anchor::epoch(0, 0)),
        }
    }

    /// Beginnings in order, as far as they follow each other from that of the stream.
    pub(crate) fn chain(&self) -> impl Iterator<Item = Anchor> {
        let mut next = Some(0);
        std::iter::from_fn(move || {
            let at = next?;
            let (anchor, items) = self.known.get(&at)?;
            next = items.map(|items| at + items);
            Some(*anchor)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_without_items_gives_way_to_the_next_and_never_comes_back() {
        let mut anchors = Anchors::new(4);
        let first = Anchor::epoch(0, 0);
        anchors.count(&first, 3);
        for epoch in [1, 3, 2, 1] {
            anchors.insert(Anchor::epoch(epoch, 3));
        }
        anchors.count(&Anchor::epoch(1, 3), 2);
        assert_eq!(anchors.find(2), Found::In(Counted { anchor: first, items: 3 }));
        assert_eq!(anchors.find(3), Found::From(Anchor::epoch(3, 3)));
        anchors.count(&Anchor::epoch(3, 3), 1);
        assert_eq!(anchors.find(3), Found::In(Counted { anchor: Anchor::epoch(3, 3), items: 1 }));
        assert_eq!(anchors.chain().count(), 2);
    }
}
