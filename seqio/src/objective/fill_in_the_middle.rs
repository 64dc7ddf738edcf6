//! Fill in the middle (Bavarian et al. 2022, arXiv 2207.14255), over tokens: a sequence is cut in three at random, and
//! the middle part put last.
//!
//! ```text
//! a b c | d e | f        prefix, middle, suffix
//! PSM   P a b c S f M d e E        prefix, suffix, middle
//! SPM   P S f M a b c d e E        suffix, prefix with the middle (the paper's second variant)
//! ```
//!
//! `P`, `S` and `M` are sentinels in front of the parts, and `E`, if there is one, ends the middle.

use std::ops::Range;

use crate::rng::Key;

/// How often a sequence is cut, and with which sentinels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MiddleRule {
    /// Probability that a sequence is cut.
    pub(crate) fim_rate: f64,
    /// Probability that a sequence which is cut has its suffix first.
    pub(crate) spm_rate: f64,
    /// In front of the prefix.
    pub(crate) prefix_id: i32,
    /// In front of the suffix.
    pub(crate) suffix_id: i32,
    /// In front of the middle.
    pub(crate) middle_id: i32,
    /// Behind the middle.
    pub(crate) end_id: Option<i32>,
}

/// What becomes of one sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MiddleCut {
    /// It stays as it is.
    Whole,
    /// Prefix, suffix, middle.
    PrefixFirst(Range<u32>),
    /// Suffix, prefix, middle.
    SuffixFirst(Range<u32>),
}

impl MiddleRule {
    /// What is wrong with the settings, in words.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (name, rate) in [("fim_rate", self.fim_rate), ("spm_rate", self.spm_rate)] {
            if !(0.0..=1.0).contains(&rate) {
                return Err(format!("`{name}` is {rate}; it must be from 0 to 1"));
            }
        }
        let named = [("prefix", self.prefix_id), ("suffix", self.suffix_id), ("middle", self.middle_id)];
        let named: Vec<_> = named.into_iter().chain(self.end_id.map(|id| ("end", id))).collect();
        for (index, (name, id)) in named.iter().enumerate() {
            if let Some((first, _)) = named[..index].iter().find(|(_, other)| other == id) {
                return Err(format!(
                    "`{first}` and `{name}` are both id {id}; a model could not tell them apart"
                ));
            }
        }
        Ok(())
    }

    /// What becomes of the sequence of `length` tokens that belongs to `key`. Both places to cut at are drawn from
    /// 0 to `length`, as BigCode's and the paper's code do.
    pub(crate) fn cut(&self, length: u32, key: Key) -> MiddleCut {
        let mut draws = key.draws();
        if !draws.chance(self.fim_rate) {
            return MiddleCut::Whole;
        }
        let suffix_first = draws.chance(self.spm_rate);
        let places = u64::from(length) + 1;
        let (a, b) = (draws.below(places) as u32, draws.below(places) as u32);
        let middle = a.min(b)..a.max(b);
        if suffix_first { MiddleCut::SuffixFirst(middle) } else { MiddleCut::PrefixFirst(middle) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(fim_rate: f64, spm_rate: f64, end_id: Option<i32>) -> MiddleRule {
        MiddleRule { fim_rate, spm_rate, prefix_id: 90, suffix_id: 91, middle_id: 92, end_id }
    }

    fn key(seed: u64) -> Key {
        Key::new("test", seed, "middle", 0)
    }

    #[test]
    fn rates_hold_and_middles_are_a_third_on_average() {
        let (mut whole, mut suffix_first, mut middles) = (0, 0, 0u64);
        for seed in 0..4000 {
            match rule(0.5, 0.25, None).cut(100, key(seed)) {
                MiddleCut::Whole => whole += 1,
                MiddleCut::PrefixFirst(middle) => middles += middle.len() as u64,
                MiddleCut::SuffixFirst(middle) => {
                    suffix_first += 1;
                    middles += middle.len() as u64;
                }
            }
        }
        assert!((1850..2150).contains(&whole), "{whole}");
        assert!((420..580).contains(&suffix_first), "{suffix_first}");
        let mean = middles as f64 / f64::from(4000 - whole);
        assert!((31.0..36.0).contains(&mean), "{mean}");
    }

    #[test]
    fn cuts_never_change() {
        let cuts: Vec<_> = (0..6).map(|seed| rule(0.7, 0.5, None).cut(100, key(seed))).collect();
        insta::assert_snapshot!(format!("{cuts:?}"), @"[PrefixFirst(18..75), SuffixFirst(6..81), PrefixFirst(7..84), PrefixFirst(4..73), PrefixFirst(61..81), SuffixFirst(23..91)]");
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        insta::assert_snapshot!(rule(1.5, 0.5, None).check().unwrap_err(), @"`fim_rate` is 1.5; it must be from 0 to 1");
        insta::assert_snapshot!(rule(0.5, -0.5, None).check().unwrap_err(), @"`spm_rate` is -0.5; it must be from 0 to 1");
        insta::assert_snapshot!(rule(0.5, 0.5, Some(91)).check().unwrap_err(), @"`suffix` and `end` are both id 91; a model could not tell them apart");
        assert_eq!(rule(0.5, 0.5, Some(93)).check(), Ok(()));
    }
}
