//! Pairs that wait to be merged: the best class first, and in it the leftmost.
//!
//! A heap serves short texts. In a text of millions of characters without a boundary its pops miss every cache, so
//! there each class has a list of its own, which is sorted once when its turn comes and then read front to back.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A queue of (class, place) that yields the smallest first.
pub(super) trait Agenda {
    fn push(&mut self, class: u32, place: u32);
    fn pop(&mut self) -> Option<(u32, u32)>;
}

/// One heap for all classes.
#[derive(Debug, Default)]
pub(super) struct Heap(BinaryHeap<Reverse<u64>>);

impl Agenda for Heap {
    fn push(&mut self, class: u32, place: u32) {
        self.0.push(Reverse(u64::from(class) << 32 | u64::from(place)));
    }

    fn pop(&mut self) -> Option<(u32, u32)> {
        self.0.pop().map(|Reverse(entry)| ((entry >> 32) as u32, entry as u32))
    }
}

/// One list a class.
#[derive(Debug)]
pub(super) struct Lists {
    classes: Vec<List>,
    /// Classes with entries, the best first.
    waiting: BinaryHeap<Reverse<u32>>,
}

#[derive(Clone, Debug, Default)]
struct List {
    /// Sorted once reading has begun.
    places: Vec<u32>,
    read: usize,
    /// What arrived after reading had begun.
    late: BinaryHeap<Reverse<u32>>,
    is_waiting: bool,
    is_read: bool,
}

impl Lists {
    pub(super) fn new(classes: usize) -> Self {
        Self { classes: vec![List::default(); classes], waiting: BinaryHeap::new() }
    }
}

impl Agenda for Lists {
    fn push(&mut self, class: u32, place: u32) {
        let list = &mut self.classes[class as usize];
        if list.is_read {
            list.late.push(Reverse(place));
        } else {
            list.places.push(place);
        }
        if !std::mem::replace(&mut list.is_waiting, true) {
            self.waiting.push(Reverse(class));
        }
    }

    fn pop(&mut self) -> Option<(u32, u32)> {
        while let Some(&Reverse(class)) = self.waiting.peek() {
            let list = &mut self.classes[class as usize];
            if !std::mem::replace(&mut list.is_read, true) {
                list.places.sort_unstable();
            }
            let next = list.places.get(list.read).copied();
            match (next, list.late.peek().copied()) {
                (None, None) => {
                    *list = List::default();
                    self.waiting.pop();
                }
                (Some(place), late) if late.is_none_or(|Reverse(late)| place <= late) => {
                    list.read += 1;
                    return Some((class, place));
                }
                (_, Some(Reverse(place))) => {
                    list.late.pop();
                    return Some((class, place));
                }
                (Some(_), None) => unreachable!("the arm above takes it"),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lists_yield_what_a_heap_yields(
            rounds in prop::collection::vec((prop::collection::vec((0_u32..6, 0_u32..50), 0..8), 0_usize..6), 0..40),
        ) {
            let (mut heap, mut lists) = (Heap::default(), Lists::new(6));
            for (pushes, pops) in rounds {
                for (class, place) in pushes {
                    heap.push(class, place);
                    lists.push(class, place);
                }
                for _ in 0..pops {
                    prop_assert_eq!(heap.pop(), lists.pop());
                }
            }
        }
    }
}
