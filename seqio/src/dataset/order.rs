//! In which order an epoch goes through the examples: pure arithmetic, both ways.
//!
//! ```text
//! 10 examples, blocks of 4, seed 7, task `docs`, epoch 0:   places    0 1 2 3 | 4 5 6 7 | 8 9
//!                                                           examples  0 2 3 1 | 6 8 7 9 | 4 5
//! ```
//!
//! Examples are cut into blocks of b in storage order, the last one short. The blocks are permuted, and the places
//! inside each, so reads over a cache that is itself shuffled stay near one another. A `turn` drawn for each epoch
//! moves the borders of the blocks.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::convert::ConvertError;
use crate::dataset::permutation::Permutation;
use crate::rng::Key;

/// Block size unless one is given.
pub const DEFAULT_BLOCK: u64 = 4096;

/// How an epoch is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderKind {
    /// As stored, every epoch.
    Storage,
    /// Blocks in random order, and in random order inside.
    Blocks {
        /// Examples a block; 0 counts as 1.
        size: u64,
    },
    /// One permutation of all examples.
    Full,
}

impl Default for OrderKind {
    fn default() -> Self {
        Self::Blocks { size: DEFAULT_BLOCK }
    }
}

impl FromStr for OrderKind {
    type Err = ConvertError;

    fn from_str(name: &str) -> Result<Self, ConvertError> {
        match name {
            "storage" => Ok(Self::Storage),
            "blocks" => Ok(Self::default()),
            "full" => Ok(Self::Full),
            _ => Err(ConvertError::unknown("order", name, &["storage", "blocks", "full"])),
        }
    }
}

impl fmt::Display for OrderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Storage => "storage",
            Self::Blocks { .. } => "blocks",
            Self::Full => "full",
        })
    }
}

/// The order of one epoch: a bijection between places and examples, both 0..n.
#[derive(Clone, Copy, Debug)]
pub struct EpochOrder {
    num_examples: u64,
    shuffle: Option<Shuffle>,
}

impl EpochOrder {
    /// The order that belongs to (seed, task, epoch).
    pub fn new(num_examples: u64, kind: OrderKind, seed: u64, task: &str, epoch: u64) -> Self {
        let block = match kind {
            OrderKind::Storage => return Self { num_examples, shuffle: None },
            OrderKind::Blocks { size } => size,
            OrderKind::Full => num_examples,
        };
        let shuffle = (num_examples > 0).then(|| Shuffle::new(num_examples, block.max(1), seed, task, epoch));
        Self { num_examples, shuffle }
    }

    /// Number of examples.
    pub fn num_examples(&self) -> u64 {
        self.num_examples
    }

    /// The example at `place`, if there is such a place.
    pub fn example_at(&self, place: u64) -> Option<u64> {
        let mut example = [0];
        (self.examples(place, &mut example) == 1).then_some(example[0])
    }

    /// The place at which `example` is seen, if there is such an example.
    pub fn place_of(&self, example: u64) -> Option<u64> {
        if example >= self.num_examples {
            return None;
        }
        Some(self.shuffle.as_ref().map_or(example, |shuffle| shuffle.place_of(example)))
    }

    /// Writes the examples at `first_place`, `first_place + 1` … to `out`, as far as there are places, and returns how
    /// many were written.
    pub fn examples(&self, first_place: u64, out: &mut [u64]) -> usize {
        let left = self.num_examples.saturating_sub(first_place);
        let count = usize::try_from(left).map_or(out.len(), |left| left.min(out.len()));
        let out = &mut out[..count];
        match &self.shuffle {
            None => out.iter_mut().zip(first_place..).for_each(|(out, place)| *out = place),
            Some(shuffle) => shuffle.examples(first_place, out),
        }
        count
    }
}

/// A shuffled epoch of at least one example.
#[derive(Clone, Copy, Debug)]
struct Shuffle {
    num_examples: u64,
    block: u64,
    last_block: u64,
    last_size: u64,
    /// The slot in which the short last block stands.
    last_slot: u64,
    turn: u64,
    blocks: Permutation,
    places: Key,
}

impl Shuffle {
    fn new(num_examples: u64, block: u64, seed: u64, task: &str, epoch: u64) -> Self {
        let num_blocks = num_examples.div_ceil(block);
        let blocks = Permutation::new(num_blocks, Key::new("order.blocks", seed, task, epoch));
        Self {
            num_examples,
            block,
            last_block: num_blocks - 1,
            last_size: num_examples - (num_blocks - 1) * block,
            last_slot: blocks.invert(num_blocks - 1),
            turn: Key::new("order.turn", seed, task, epoch).value() % num_examples,
            blocks,
            places: Key::new("order.places", seed, task, epoch),
        }
    }

    fn examples(&self, mut place: u64, mut out: &mut [u64]) {
        while !out.is_empty() {
            let (slot, offset) = self.slot_of(place);
            let block = self.blocks.apply(slot);
            let size = if block == self.last_block { self.last_size } else { self.block };
            let count = usize::try_from(size - offset).map_or(out.len(), |left| left.min(out.len()));
            let (run, rest) = out.split_at_mut(count);
            Permutation::new(size, self.places.child(block)).apply_run(offset, run);
            let first = self.turned(block * self.block);
            run.iter_mut().for_each(|example| *example = add_modulo(first, *example, self.num_examples));
            place += count as u64;
            out = rest;
        }
    }

    fn place_of(&self, example: u64) -> u64 {
        let unturned = add_modulo(example, self.num_examples - self.turn, self.num_examples);
        let (block, offset) = (unturned / self.block, unturned % self.block);
        let size = if block == self.last_block { self.last_size } else { self.block };
        let slot = self.blocks.invert(block);
        let place = Permutation::new(size, self.places.child(block)).invert(offset);
        match slot <= self.last_slot {
            true => slot * self.block + place,
            false => (slot - 1) * self.block + self.last_size + place,
        }
    }

    /// Slot of a place, and the place's offset in it. All slots are full but the one of the short block.
    fn slot_of(&self, place: u64) -> (u64, u64) {
        let last = self.last_slot * self.block;
        if place < last {
            (place / self.block, place % self.block)
        } else if place - last < self.last_size {
            (self.last_slot, place - last)
        } else {
            let place = place - self.last_size;
            (place / self.block + 1, place % self.block)
        }
    }

    fn turned(&self, example: u64) -> u64 {
        add_modulo(example, self.turn, self.num_examples)
    }
}

/// `(a + b) % n` for a below n and b at most n, also where the sum does not fit.
fn add_modulo(a: u64, b: u64, n: u64) -> u64 {
    let (sum, overflow) = a.overflowing_add(b);
    if overflow || sum >= n { sum.wrapping_sub(n) } else { sum }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(order: &EpochOrder) -> Vec<u64> {
        (0..order.num_examples()).map(|place| order.example_at(place).unwrap()).collect()
    }

    fn kind() -> impl Strategy<Value = OrderKind> {
        prop_oneof![
            Just(OrderKind::Storage),
            Just(OrderKind::Full),
            (0u64..100).prop_map(|size| OrderKind::Blocks { size }),
            (0u64..10_000).prop_map(|size| OrderKind::Blocks { size }),
        ]
    }

    #[test]
    fn storage_order_is_the_order_of_storage() {
        assert_eq!(all(&EpochOrder::new(5, OrderKind::Storage, 7, "docs", 3)), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn an_empty_epoch_has_no_places() {
        for kind in [OrderKind::Storage, OrderKind::default(), OrderKind::Full] {
            let order = EpochOrder::new(0, kind, 7, "docs", 0);
            assert_eq!((order.example_at(0), order.place_of(0)), (None, None));
        }
    }

    #[test]
    fn orders_never_change() {
        let kinds = [OrderKind::Blocks { size: 4 }, OrderKind::Full];
        let orders = kinds.map(|kind| all(&EpochOrder::new(10, kind, 7, "docs", 0)));
        insta::assert_snapshot!(format!("{orders:?}"), @"[[0, 2, 3, 1, 6, 8, 7, 9, 4, 5], [6, 8, 4, 1, 5, 9, 3, 0, 2, 7]]");
    }

    #[test]
    fn seed_task_and_epoch_all_change_the_order() {
        let kind = OrderKind::Blocks { size: 16 };
        let orders = [
            EpochOrder::new(1000, kind, 7, "docs", 0),
            EpochOrder::new(1000, kind, 8, "docs", 0),
            EpochOrder::new(1000, kind, 7, "code", 0),
            EpochOrder::new(1000, kind, 7, "docs", 1),
        ]
        .map(|order| all(&order));
        for (i, order) in orders.iter().enumerate() {
            assert!(!orders[..i].contains(order));
        }
    }

    #[test]
    fn the_turn_moves_block_borders_from_epoch_to_epoch() {
        let kind = OrderKind::Blocks { size: 100 };
        let mut borders: Vec<u64> = (0..20)
            .map(|epoch| {
                // All full blocks hold consecutive examples modulo n, so the least one of the first slot that does
                // not wrap tells the turn modulo the block size.
                let order = EpochOrder::new(10_000, kind, 7, "docs", epoch);
                let slot: Vec<u64> = (0..100).map(|place| order.example_at(place).unwrap()).collect();
                slot.iter().min().unwrap() % 100
            })
            .collect();
        borders.sort_unstable();
        borders.dedup();
        assert!(borders.len() > 10, "{borders:?}");
    }

    #[test]
    fn a_slot_holds_consecutive_examples() {
        let order = EpochOrder::new(1 << 30, OrderKind::default(), 7, "docs", 0);
        let mut slot = vec![0; 4096];
        order.examples(0, &mut slot);
        slot.sort_unstable();
        assert!(slot.windows(2).all(|pair| pair[1] == pair[0] + 1));
    }

    proptest! {
        #[test]
        fn is_a_bijection_with_its_inverse(n in 0u64..3000, kind in kind(), seed: u64, epoch: u64) {
            let order = EpochOrder::new(n, kind, seed, "docs", epoch);
            let mut examples = all(&order);
            for (place, example) in examples.iter().enumerate() {
                prop_assert_eq!(order.place_of(*example), Some(place as u64));
            }
            examples.sort_unstable();
            prop_assert!(examples.into_iter().eq(0..n));
            prop_assert_eq!((order.example_at(n), order.place_of(n)), (None, None));
        }

        #[test]
        fn inverts_at_any_size(n in 1u64.., kind in kind(), seed: u64, place: u64) {
            let order = EpochOrder::new(n, kind, seed, "docs", 0);
            let example = order.example_at(place % n).unwrap();
            prop_assert!(example < n);
            prop_assert_eq!(order.place_of(example), Some(place % n));
        }

        #[test]
        fn bulk_equals_single_lookups(n in 1u64..20_000, kind in kind(), seed: u64, first in 0u64..20_000, len in 0usize..9000) {
            let order = EpochOrder::new(n, kind, seed, "docs", 1);
            let mut out = vec![u64::MAX; len];
            let count = order.examples(first, &mut out);
            prop_assert_eq!(count as u64, n.saturating_sub(first).min(len as u64));
            for (place, example) in (first..).zip(&out[..count]) {
                prop_assert_eq!(order.example_at(place), Some(*example));
            }
            prop_assert!(out[count..].iter().all(|untouched| *untouched == u64::MAX));
        }
    }
}
