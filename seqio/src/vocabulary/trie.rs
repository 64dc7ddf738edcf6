//! A byte trie in a double array: which of many strings a text begins with, one memory access a byte.
//!
//! ```text
//! strings   "a" = 3, "ab" = 9, "abcd" = 4
//! prefixes of "abcx"   (1, 3), (2, 9)
//! ```

use std::collections::BTreeMap;

/// Units are handed out in blocks of this size, so that `base ^ byte` never leaves the array.
const BLOCK: usize = 256;
/// How many of the last blocks are searched for room; older ones are full enough to be left alone.
const OPEN_BLOCKS: usize = 16;

/// Label of a unit that belongs to no string; no byte equals it.
const EMPTY: u64 = 0x100;
const BASE_SHIFT: u32 = 9;
const VALUE_SHIFT: u32 = 36;
const BASE_MASK: u64 = (1 << (VALUE_SHIFT - BASE_SHIFT)) - 1;

/// The most units a trie may have: what a base field holds.
const MAX_UNITS: usize = 1 << (VALUE_SHIFT - BASE_SHIFT);

/// A place in a trie: where a walk has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u32);

/// An immutable set of byte strings with values below 2^27.
///
/// A unit is packed as label (9 bits), base (27 bits), value + 1 (28 bits). The child of a unit by byte `b` is at
/// `base ^ b` and carries the label `b`; no two units share a base, so the label alone proves the parent. Base 0 is
/// never given out: units without children have it, and no unit `b` carries the label `b`.
#[derive(Debug)]
pub(super) struct Trie {
    units: Vec<u64>,
    max_len: usize,
}

impl Trie {
    /// Where every walk begins.
    pub(super) const fn root(&self) -> Place {
        Place(BLOCK as u32)
    }

    /// Length of the longest string.
    pub(super) fn max_len(&self) -> usize {
        self.max_len
    }

    /// Goes one byte on: the new place, and the value of the string that ends there.
    #[inline]
    pub(super) fn step(&self, place: Place, byte: u8) -> Option<(Place, Option<u32>)> {
        let unit = self.units[(place.0 ^ u32::from(byte)) as usize];
        if unit & 0x1ff != u64::from(byte) {
            return None;
        }
        let value = (unit >> VALUE_SHIFT) as u32;
        Some((Place(((unit >> BASE_SHIFT) & BASE_MASK) as u32), value.checked_sub(1)))
    }

    /// The value of exactly `text`.
    #[inline]
    pub(super) fn get(&self, text: &[u8]) -> Option<u32> {
        let mut place = self.root();
        let mut value = None;
        for &byte in text {
            (place, value) = self.step(place, byte)?;
        }
        value
    }

    /// Length and value of the longest string that `text` begins with, among the `limit` shortest ones.
    #[inline]
    pub(super) fn longest_prefix(&self, text: &[u8], limit: usize) -> Option<(usize, u32)> {
        let mut place = self.root();
        let (mut best, mut found) = (None, 0);
        for (at, &byte) in text.iter().enumerate() {
            let Some((next, value)) = self.step(place, byte) else { break };
            if let Some(value) = value {
                best = Some((at + 1, value));
                found += 1;
                if found == limit {
                    break;
                }
            }
            place = next;
        }
        best
    }

    /// Builds the trie of `strings`, none of them empty; `None` if they need more units than a base can address.
    pub(super) fn build(strings: &BTreeMap<&[u8], u32>) -> Option<Self> {
        let sorted: Vec<(&[u8], u32)> = strings.iter().map(|(text, value)| (*text, *value)).collect();
        let mut builder = Builder::default();
        builder.add_block(); // for base 0
        builder.add_block(); // the root's children
        builder.take_base(BLOCK);
        let mut labels = Vec::new();
        // Ranges of `sorted` that share their first `depth` bytes, with the unit that stands for those bytes.
        let mut open = vec![(0, sorted.len(), 0, None)];
        while let Some((from, to, depth, unit)) = open.pop() {
            labels.clear();
            let mut at = from;
            if let Some(unit) = unit {
                if sorted[at].0.len() == depth {
                    builder.units[unit] |= (u64::from(sorted[at].1) + 1) << VALUE_SHIFT;
                    at += 1;
                }
                if at == to {
                    continue;
                }
            }
            while at < to {
                let label = sorted[at].0[depth];
                let end = at + sorted[at..to].partition_point(|(text, _)| text[depth] == label);
                labels.push((label, at, end));
                at = end;
            }
            let base = match unit {
                None => BLOCK,
                Some(unit) => {
                    let base = builder.find_base(&labels)?;
                    builder.take_base(base);
                    builder.units[unit] |= (base as u64) << BASE_SHIFT;
                    base
                }
            };
            for &(label, from, to) in &labels {
                let child = base ^ usize::from(label);
                builder.take_unit(child, label);
                open.push((from, to, depth + 1, Some(child)));
            }
        }
        let max_len = sorted.iter().map(|(text, _)| text.len()).max().unwrap_or(0);
        Some(Self { units: builder.units, max_len })
    }
}

#[derive(Default)]
struct Builder {
    units: Vec<u64>,
    /// One bit a unit: is it free?
    free: Vec<u64>,
    /// One bit a unit: is it some unit's base?
    bases: Vec<u64>,
}

impl Builder {
    fn add_block(&mut self) {
        self.units.resize(self.units.len() + BLOCK, EMPTY);
        self.free.resize(self.units.len() / 64, !0);
        self.bases.resize(self.units.len() / 64, 0);
        self.bases[0] |= 1;
    }

    fn take_base(&mut self, base: usize) {
        self.bases[base / 64] |= 1 << (base % 64);
    }

    fn take_unit(&mut self, unit: usize, label: u8) {
        self.free[unit / 64] &= !(1 << (unit % 64));
        self.units[unit] = u64::from(label);
    }

    fn is_free(&self, unit: usize) -> bool {
        self.free[unit / 64] >> (unit % 64) & 1 == 1
    }

    /// A base nobody has, all of whose children by `labels` are free.
    fn find_base(&mut self, labels: &[(u8, usize, usize)]) -> Option<usize> {
        let first = usize::from(labels[0].0);
        let window = self.units.len().saturating_sub(OPEN_BLOCKS * BLOCK) / 64;
        for word in window..self.free.len() {
            let mut bits = self.free[word];
            while bits != 0 {
                let base = (word * 64 + bits.trailing_zeros() as usize) ^ first;
                bits &= bits - 1;
                let taken = self.bases[base / 64] >> (base % 64) & 1 == 1;
                if !taken && labels[1..].iter().all(|label| self.is_free(base ^ usize::from(label.0))) {
                    return Some(base);
                }
            }
        }
        if self.units.len() + BLOCK > MAX_UNITS {
            return None;
        }
        let base = self.units.len();
        self.add_block();
        Some(base)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn trie<'a>(strings: &[&'a [u8]]) -> (Trie, BTreeMap<&'a [u8], u32>) {
        let strings = strings.iter().zip(0..).map(|(text, value)| (*text, value)).collect();
        (Trie::build(&strings).unwrap(), strings)
    }

    #[test]
    fn a_walk_meets_every_string_that_the_text_begins_with() {
        let (trie, _) = trie(&[b"a", b"ab", b"abcd"]);
        assert_eq!(trie.get(b"ab"), Some(1));
        assert_eq!(trie.get(b"abc"), None);
        assert_eq!(trie.longest_prefix(b"abcx", usize::MAX), Some((2, 1)));
        assert_eq!(trie.longest_prefix(b"abcde", usize::MAX), Some((4, 2)));
        assert_eq!(trie.longest_prefix(b"abcde", 1), Some((1, 0)));
        assert_eq!(trie.longest_prefix(b"\0", usize::MAX), None);
        assert_eq!(trie.max_len(), 4);
    }

    #[test]
    fn an_empty_trie_matches_nothing() {
        let (trie, _) = trie(&[]);
        assert!((0..=255).all(|byte| trie.get(&[byte]).is_none()));
    }

    proptest! {
        #[test]
        fn it_holds_what_was_put_in_and_nothing_else(
            strings in prop::collection::btree_set(prop::collection::vec(any::<u8>(), 1..5), 0..400),
            probes in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..5), 0..50),
        ) {
            let strings: Vec<&[u8]> = strings.iter().map(Vec::as_slice).collect();
            let (trie, map) = trie(&strings);
            for text in strings.iter().copied().chain(probes.iter().map(Vec::as_slice)) {
                prop_assert_eq!(trie.get(text), map.get(text).copied());
            }
        }
    }
}
