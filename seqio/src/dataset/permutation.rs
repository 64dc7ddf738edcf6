//! A keyed permutation of 0..n that needs no memory, with its inverse.
//!
//! ```text
//! n = 5, some key:   0 1 2 3 4  ->  3 0 4 2 1       invert: 3 -> 0
//! ```
//!
//! A Feistel network of six rounds over the smallest power of two that holds n, but at least 64; a result outside of
//! 0..n is put through the network again until it lies inside (cycle walking, on average less than one more pass). The two halves
//! of x are changed in turn, each by a hash of the other, so the halves need not be equally wide and every pass is
//! undone by running the rounds backwards.

use crate::rng::{GOLDEN, Key};

const ROUNDS: usize = 6;

/// Six rounds over fewer bits would not reach all permutations equally often, so a small n walks in 0..64.
const MIN_BITS: u32 = 6;

/// Halves of at most this many bits are hashed through tables when a run is long enough to pay for them.
const TABLE_BITS: u32 = 8;

/// A bijection of 0..n.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permutation {
    n: u64,
    left_bits: u32,
    right_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The permutation of 0..n that belongs to `key`.
    pub(crate) fn new(n: u64, key: Key) -> Self {
        let bits = if n > 1 { (u64::BITS - (n - 1).leading_zeros()).max(MIN_BITS) } else { 0 };
        let keys = std::array::from_fn(|round| key.child(round as u64).value());
        Self { n, left_bits: bits - bits / 2, right_bits: bits / 2, keys }
    }

    /// Where `x`, which is below n, goes.
    pub(crate) fn apply(&self, x: u64) -> u64 {
        debug_assert!(x < self.n, "cycle walking ends only from inside");
        let mut y = self.pass(x);
        while y >= self.n {
            y = self.pass(y);
        }
        y
    }

    /// What goes to `y`, which is below n.
    pub(crate) fn invert(&self, y: u64) -> u64 {
        debug_assert!(y < self.n, "cycle walking ends only from inside");
        let mut x = self.pass_back(y);
        while x >= self.n {
            x = self.pass_back(x);
        }
        x
    }

    /// Writes where `first`, `first + 1` … go; all of them lie below n.
    pub(crate) fn apply_run(&self, first: u64, out: &mut [u64]) {
        if self.left_bits <= TABLE_BITS && out.len() >= 2 << self.left_bits {
            let tables = RoundTables::new(self);
            walk_run(first, out, self.n, |x| tables.pass(x));
        } else {
            walk_run(first, out, self.n, |x| self.pass(x));
        }
    }

    fn pass(&self, x: u64) -> u64 {
        let (mut left, mut right) = (x >> self.right_bits, x & self.right_mask());
        for [left_key, right_key] in pairs(&self.keys) {
            left ^= round(left_key, right) & self.left_mask();
            right ^= round(right_key, left) & self.right_mask();
        }
        left << self.right_bits | right
    }

    fn pass_back(&self, y: u64) -> u64 {
        let (mut left, mut right) = (y >> self.right_bits, y & self.right_mask());
        for [left_key, right_key] in pairs(&self.keys).into_iter().rev() {
            right ^= round(right_key, left) & self.right_mask();
            left ^= round(left_key, right) & self.left_mask();
        }
        left << self.right_bits | right
    }

    fn left_mask(&self) -> u64 {
        (1 << self.left_bits) - 1
    }

    fn right_mask(&self) -> u64 {
        (1 << self.right_bits) - 1
    }
}

/// Walks many cycles side by side: those that are not inside yet are gone through again, so that no branch depends on
/// where a single one is.
fn walk_run(first: u64, out: &mut [u64], n: u64, pass: impl Fn(u64) -> u64) {
    let mut outside = [0u8; 256];
    for (chunk, first) in out.chunks_mut(outside.len()).zip((first..).step_by(outside.len())) {
        let mut count = 0;
        for (index, y) in chunk.iter_mut().enumerate() {
            *y = pass(first + index as u64);
            outside[count] = index as u8;
            count += usize::from(*y >= n);
        }
        while count > 0 {
            let mut left = 0;
            for at in 0..count {
                let index = outside[at];
                let y = pass(chunk[usize::from(index)]);
                chunk[usize::from(index)] = y;
                outside[left] = index;
                left += usize::from(y >= n);
            }
            count = left;
        }
    }
}

fn pairs(keys: &[u64; ROUNDS]) -> [[u64; 2]; ROUNDS / 2] {
    [[keys[0], keys[1]], [keys[2], keys[3]], [keys[4], keys[5]]]
}

/// A hash whose low 32 bits are used: both halves of a full product, folded. The keys are well mixed already.
fn round(key: u64, half: u64) -> u64 {
    let product = u128::from(key ^ half) * u128::from(GOLDEN);
    product as u64 ^ (product >> 64) as u64
}

/// The rounds of a small permutation, tabulated.
struct RoundTables {
    right_bits: u32,
    tables: [[u8; 1 << TABLE_BITS]; ROUNDS],
}

impl RoundTables {
    fn new(permutation: &Permutation) -> Self {
        let mut tables = [[0; 1 << TABLE_BITS]; ROUNDS];
        for (index, (table, key)) in tables.iter_mut().zip(permutation.keys).enumerate() {
            // Even rounds read the right half and change the left one, odd rounds the other way round.
            let (read_mask, mask) = match index % 2 {
                0 => (permutation.right_mask(), permutation.left_mask()),
                _ => (permutation.left_mask(), permutation.right_mask()),
            };
            for (half, value) in (0..=read_mask).zip(table.iter_mut()) {
                *value = (round(key, half) & mask) as u8;
            }
        }
        Self { right_bits: permutation.right_bits, tables }
    }

    fn pass(&self, x: u64) -> u64 {
        let [t0, t1, t2, t3, t4, t5] = &self.tables;
        let mut left = (x >> self.right_bits) as u8;
        let mut right = (x & ((1 << self.right_bits) - 1)) as u8;
        left ^= t0[usize::from(right)];
        right ^= t1[usize::from(left)];
        left ^= t2[usize::from(right)];
        right ^= t3[usize::from(left)];
        left ^= t4[usize::from(right)];
        right ^= t5[usize::from(left)];
        u64::from(left) << self.right_bits | u64::from(right)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn permutation(n: u64, seed: u64) -> Permutation {
        Permutation::new(n, Key::new("test", seed, "", 0))
    }

    #[test]
    fn all_permutations_of_a_few_come_up_about_equally_often() {
        for (n, permutations) in [(2, 2), (3, 6), (4, 24), (5, 120)] {
            let mut seen = std::collections::BTreeMap::<Vec<u64>, u32>::new();
            for seed in 0..permutations as u64 * 500 {
                let p = permutation(n, seed);
                *seen.entry((0..n).map(|x| p.apply(x)).collect()).or_default() += 1;
            }
            assert_eq!(seen.len(), permutations);
            assert!(seen.values().all(|count| (370..630).contains(count)), "{n}: {seen:?}");
        }
    }

    #[test]
    fn neighbours_end_up_far_apart() {
        // Of a random permutation of 4,096, |p(x + 1) - p(x)| is 1,365 on average.
        for seed in 0..50 {
            let p = permutation(4096, seed);
            let total: u64 = (1..4096).map(|x| p.apply(x).abs_diff(p.apply(x - 1))).sum();
            assert!((1200..1530).contains(&(total / 4095)), "{}", total / 4095);
        }
    }

    #[test]
    fn places_are_uniform_over_keys() {
        // Chi squared of 64 cells over 6,400 keys: mean 63, standard deviation 11.
        for x in [0, 1, 777, 4095] {
            let mut cells = [0i64; 64];
            for seed in 0..6400 {
                cells[(permutation(4096, seed).apply(x) / 64) as usize] += 1;
            }
            let chi_squared: i64 = cells.iter().map(|count| (count - 100).pow(2)).sum::<i64>() / 100;
            assert!((20..130).contains(&chi_squared), "{x}: {chi_squared}");
        }
    }

    #[test]
    fn neighbouring_places_and_neighbouring_keys_are_independent() {
        // Chi squared of 8 x 8 cells over 6,400 pairs: mean 63, standard deviation 11.
        let chi_squared = |pairs: &mut dyn Iterator<Item = (u64, u64)>| {
            let mut cells = [0i64; 64];
            pairs.for_each(|(a, b)| cells[(a / 512 * 8 + b / 512) as usize] += 1);
            cells.iter().map(|count| (count - 100).pow(2)).sum::<i64>() / 100
        };
        let root = Key::new("test", 7, "", 0);
        for x in [0, 5, 63, 64, 2048, 4000] {
            let p = |key: u64, x: u64| Permutation::new(4096, root.child(key)).apply(x);
            for step in [1, 2, 64] {
                let places = chi_squared(&mut (0..6400).map(|key| (p(key, x), p(key, x + step))));
                let keys = chi_squared(&mut (0..6400).map(|key| (p(key, x), p(key + step, x))));
                assert!((20..130).contains(&places), "{x} {step}: {places}");
                assert!((20..130).contains(&keys), "{x} {step}: {keys}");
            }
        }
    }

    proptest! {
        #[test]
        fn is_a_bijection_with_its_inverse(n in 1u64..5000, seed: u64) {
            let p = permutation(n, seed);
            let mut images: Vec<u64> = (0..n).map(|x| p.apply(x)).collect();
            for (x, y) in images.iter().enumerate() {
                prop_assert_eq!(p.invert(*y), x as u64);
            }
            images.sort_unstable();
            prop_assert!(images.into_iter().eq(0..n));
        }

        #[test]
        fn inverts_at_any_size(n in 1u64.., seed: u64, x: u64) {
            let p = permutation(n, seed);
            prop_assert!(p.apply(x % n) < n);
            prop_assert_eq!(p.invert(p.apply(x % n)), x % n);
        }

        #[test]
        fn a_run_equals_single_lookups(n in 1u64..70_000, seed: u64, from in 0.0..1.0f64, len in 0.0..1.0f64) {
            let p = permutation(n, seed);
            let first = (n as f64 * from) as u64;
            let mut out = vec![0; ((n - first) as f64 * len) as usize];
            p.apply_run(first, &mut out);
            prop_assert!(out.into_iter().eq((first..).take(((n - first) as f64 * len) as usize).map(|x| p.apply(x))));
        }
    }
}
