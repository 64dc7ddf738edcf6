//! Draws from one random stream, one after the other.

use std::collections::BTreeMap;

use crate::rng::Key;
use crate::rng::logarithm::{exp, ln};

/// The draws of a key: the n-th, from 0, is made of the value of the key's n-th child. They are the same on every machine.
#[derive(Clone, Debug)]
pub struct Draws {
    key: Key,
    count: u64,
}

impl Draws {
    pub(super) fn new(key: Key) -> Self {
        Self { key, count: 0 }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let bits = self.key.child(self.count).value();
        self.count += 1;
        bits
    }

    /// A whole number below `bound`, all equally likely but for a part in 2^64 / `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// As [`below`](Self::below), for lengths and places.
    pub fn below_u32(&mut self, bound: u32) -> u32 {
        self.below(u64::from(bound)) as u32
    }

    /// A multiple of 2^-53 from 0 on and below 1; all are equally likely.
    pub fn unit(&mut self) -> f64 {
        const SCALE: f64 = 1.0 / (1u64 << 53) as f64;
        (self.bits() >> 11) as f64 * SCALE
    }

    /// True with this probability: never for 0, always for 1.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A number from `low` to `high`, both above 0; its logarithm is equally likely anywhere between theirs.
    pub fn log_uniform(&mut self, low: f64, high: f64) -> f64 {
        let (from, to) = (ln(low), ln(high));
        exp(from + self.unit() * (to - from))
    }

    /// Puts `items` into an order of which all are equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    /// `count` different numbers below `bound`, or all if there are fewer, in an order of which all are equally likely.
    pub fn choose(&mut self, count: usize, bound: usize) -> Vec<usize> {
        // The front of a shuffle, of which only what moved is kept.
        let mut moved: BTreeMap<usize, usize> = BTreeMap::new();
        let mut chosen = Vec::with_capacity(count.min(bound));
        for place in 0..count.min(bound) {
            let other = place + self.below((bound - place) as u64) as usize;
            let at = |place: usize| moved.get(&place).copied().unwrap_or(place);
            let (first, found) = (at(place), at(other));
            chosen.push(found);
            moved.insert(other, first);
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::ExampleId;
    use crate::rng::StepRandom;

    fn draws(number: u64) -> Draws {
        Key::new("test", 7, "draws", number).draws()
    }

    /// Chi squared of `counts` against equal cells.
    fn chi_squared(counts: &[u64]) -> f64 {
        let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        counts.iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum()
    }

    #[test]
    fn draws_never_change() {
        let mut draws = draws(0);
        let below: Vec<u64> = (0..8).map(|_| draws.below(1000)).collect();
        let units: Vec<f64> = (0..3).map(|_| draws.unit()).collect();
        let mut order = [0, 1, 2, 3, 4, 5, 6, 7];
        draws.shuffle(&mut order);
        insta::assert_snapshot!(format!("{below:?} {units:?} {order:?}"), @"[995, 63, 109, 504, 430, 120, 846, 461] [0.675435257240373, 0.1270640511106078, 0.7909460027861188] [1, 0, 3, 5, 6, 2, 7, 4]");
    }

    #[test]
    fn the_n_th_draw_is_of_the_n_th_child() {
        let key = Key::new("test", 7, "draws", 0);
        let mut draws = key.draws();
        for index in 0..100 {
            assert_eq!(draws.below(1 << 32), key.child(index).value() >> 32);
        }
    }

    #[test]
    fn whole_numbers_are_uniform_at_any_bound() {
        // Chi squared of n cells has mean n - 1 and standard deviation sqrt(2 (n - 1)).
        for bound in [2u64, 3, 7, 64, 100, 1000] {
            let mut draws = draws(bound);
            let mut counts = vec![0; bound as usize];
            (0..200 * bound).for_each(|_| counts[draws.below(bound) as usize] += 1);
            let (mean, deviation) = ((bound - 1) as f64, (2.0 * (bound - 1) as f64).sqrt());
            let found = chi_squared(&counts);
            assert!((found - mean).abs() < 4.0 * deviation, "{bound}: {found}");
        }
    }

    #[test]
    fn units_are_uniform_and_pairs_of_them_independent() {
        let mut draws = draws(1);
        let mut counts = vec![0; 256];
        for _ in 0..25_600 {
            let (a, b) = (draws.unit(), draws.unit());
            assert!((0.0..1.0).contains(&a));
            counts[(a * 16.0) as usize * 16 + (b * 16.0) as usize] += 1;
        }
        let found = chi_squared(&counts);
        assert!((165.0..345.0).contains(&found), "{found}");
    }

    #[test]
    fn chances_hold() {
        let mut draws = draws(2);
        assert!((0..1000).all(|_| draws.chance(1.0) && !draws.chance(0.0)));
        let hits = (0..10_000).filter(|_| draws.chance(0.15)).count();
        assert!((1350..1650).contains(&hits), "{hits}");
    }

    #[test]
    fn all_orders_of_four_are_equally_likely() {
        let mut draws = draws(3);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..24 * 200 {
            let mut order = [0, 1, 2, 3];
            draws.shuffle(&mut order);
            *counts.entry(order).or_insert(0u64) += 1;
        }
        let counts: Vec<u64> = counts.into_values().collect();
        assert_eq!(counts.len(), 24);
        let found = chi_squared(&counts);
        assert!((5.0..55.0).contains(&found), "{found}");
    }

    #[test]
    fn draws_for_steps_never_change() {
        let mut draws = StepRandom::new("a", 1, "docs", 0).example(&ExampleId([1; 16]));
        let below: Vec<u64> = (0..4).map(|_| draws.below(1000)).collect();
        let shown = format!(
            "{below:?} {} {:.12} {:?}",
            draws.unit(),
            draws.log_uniform(2.0, 512.0),
            draws.choose(4, 9)
        );
        insta::assert_snapshot!(shown, @"[149, 888, 972, 499] 0.6166792670822827 11.547535212672 [5, 6, 2, 1]");
        let mut order = [0, 1, 2, 3, 4, 5];
        draws.shuffle(&mut order);
        insta::assert_snapshot!(format!("{order:?} {:016x}", draws.bits()), @"[0, 5, 4, 2, 3, 1] 96f7ba400578fff5");
    }

    #[test]
    fn logarithms_are_as_likely_as_they_should_be() {
        let random = StepRandom::new("a", 0, "docs", 0);
        let mut counts = [0u32; 7];
        let mut low = 0;
        for number in 0..7000u64 {
            let mut draws = random.example(&ExampleId([3; 16]).part(number));
            counts[draws.below(7) as usize] += 1;
            low += u32::from(draws.log_uniform(1.0, 100.0) < 10.0);
        }
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
        assert!((3300..3700).contains(&low), "half of them are below the root of 100: {low}");
    }

    #[test]
    fn what_is_chosen_is_different_and_every_choice_comes() {
        let random = StepRandom::new("a", 0, "docs", 0);
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..200u64 {
            let chosen = random.example(&ExampleId([3; 16]).part(number)).choose(2, 4);
            assert!(chosen[0] != chosen[1] && chosen.iter().all(|one| *one < 4), "{chosen:?}");
            seen.insert(chosen);
        }
        assert_eq!(seen.len(), 12);
        let mut all = random.example(&ExampleId([3; 16])).choose(9, 5);
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4]);
    }
}
