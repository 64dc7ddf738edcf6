//! A whole number as a sum of positive parts, all such sums being equally likely.
//!
//! ```text
//! 7 in 3 parts   cuts after 2 and 6 of the places 1 2 3 4 5 6    ->  2 4 1
//! ```
//!
//! T5 shuffles a flag for each place and cuts where flags are set: any k - 1 of n - 1 places, all sets being equally
//! likely. Here such a set is drawn by Floyd's algorithm, at the price of a draw a part instead of a place.

use crate::rng::Draws;

/// Parts of a whole; its memory is used again by the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Composition {
    total: u32,
    /// Bit i: a part ends behind the first i + 1.
    cuts: Vec<u64>,
}

impl Composition {
    /// Draws `parts` parts of `total`; there is at least one, and not more than `total`.
    pub(crate) fn draw(&mut self, total: u32, parts: u32, draws: &mut Draws) {
        debug_assert!((1..=total).contains(&parts), "every part is at least 1");
        let places = total - 1;
        self.total = total;
        self.cuts.clear();
        self.cuts.resize(places.div_ceil(u64::BITS) as usize, 0);
        for last in places - (parts - 1)..places {
            let place = draws.below_u32(last + 1);
            if !self.cut(place) {
                self.cut(last);
            }
        }
    }

    /// Cuts behind `place`, and says whether there was no cut yet.
    fn cut(&mut self, place: u32) -> bool {
        let word = &mut self.cuts[(place / u64::BITS) as usize];
        let bit = 1 << (place % u64::BITS);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// The parts in order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = u32> {
        let mut from = 0;
        self.ends().chain([self.total]).map(move |to| {
            let part = to - from;
            from = to;
            part
        })
    }

    /// Where all parts but the last end.
    fn ends(&self) -> impl Iterator<Item = u32> {
        self.cuts.iter().zip((1..).step_by(u64::BITS as usize)).flat_map(|(word, first)| {
            let mut bits = *word;
            std::iter::from_fn(move || {
                let end = (bits != 0).then(|| first + bits.trailing_zeros());
                bits &= bits.wrapping_sub(1);
                end
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::rng::Key;

    fn parts(total: u32, parts: u32, seed: u64) -> Vec<u32> {
        let mut composition = Composition::default();
        composition.draw(total, parts, &mut Key::new("test", seed, "composition", 0).draws());
        composition.parts().collect()
    }

    #[test]
    fn all_compositions_are_equally_likely() {
        // 9 in 4 parts: 56 compositions. Chi squared has mean 55 and standard deviation 10.5.
        for (total, count, cells) in [(9, 4, 56), (8, 2, 7), (8, 7, 7)] {
            let mut seen = BTreeMap::new();
            for seed in 0..200 * cells {
                *seen.entry(parts(total, count, seed)).or_insert(0i64) += 1;
            }
            assert_eq!(seen.len() as u64, cells);
            let chi_squared = seen.values().map(|count| (count - 200).pow(2)).sum::<i64>() as f64 / 200.0;
            let (mean, deviation) = ((cells - 1) as f64, (2.0 * (cells - 1) as f64).sqrt());
            assert!((chi_squared - mean).abs() < 4.0 * deviation, "{total} in {count}: {chi_squared}");
        }
    }

    #[test]
    fn a_part_of_many_is_as_long_as_its_law_says() {
        // The first part of n in k is l with probability C(n - l - 1, k - 2) / C(n - 1, k - 1): here 1, 2, 3 and more.
        let mut counts = [0i64; 4];
        for seed in 0..10_000 {
            counts[parts(77, 26, seed)[0].min(4) as usize - 1] += 1;
        }
        let first = 25.0 / 76.0;
        let second = first * (51.0 / 75.0);
        let third = second * (50.0 / 74.0);
        let expected = [first, second, third, 1.0 - first - second - third].map(|share| share * 10_000.0);
        let chi_squared: f64 =
            counts.iter().zip(expected).map(|(count, mean)| (*count as f64 - mean).powi(2) / mean).sum();
        assert!(chi_squared < 16.0, "{counts:?} {expected:?}");
    }

    #[test]
    fn compositions_never_change() {
        insta::assert_snapshot!(format!("{:?} {:?}", parts(77, 6, 0), parts(435, 6, 1)), @"[17, 24, 5, 25, 5, 1] [39, 88, 115, 12, 142, 39]");
    }

    proptest! {
        #[test]
        fn parts_are_positive_and_add_up(total in 1u32..2000, share in 0.0..1.0f64, seed: u64) {
            let count = 1 + (f64::from(total) * share) as u32;
            let parts = parts(total, count.min(total), seed);
            prop_assert_eq!(parts.len() as u32, count.min(total));
            prop_assert!(parts.iter().all(|part| *part > 0));
            prop_assert_eq!(parts.iter().sum::<u32>(), total);
        }
    }
}
