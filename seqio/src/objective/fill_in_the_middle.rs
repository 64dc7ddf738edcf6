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

    /// How many tokens a cut adds.
    pub(crate) fn added(&self, cut: &MiddleCut) -> u32 {
        match cut {
            MiddleCut::Whole => 0,
            MiddleCut::PrefixFirst(_) | MiddleCut::SuffixFirst(_) => 3 + u32::from(self.end_id.is_some()),
        }
    }

    /// Appends to `out` what becomes of `tokens`.
    pub(crate) fn apply(&self, tokens: &[i32], cut: &MiddleCut, out: &mut Vec<i32>) {
        let parts = |middle: &Range<u32>| {
            let (head, suffix) = tokens.split_at(middle.end as usize);
            let (prefix, middle) = head.split_at(middle.start as usize);
            (prefix, middle, suffix)
        };
        match cut {
            MiddleCut::Whole => {
                out.extend_from_slice(tokens);
                return;
            }
            MiddleCut::PrefixFirst(middle) => {
                let (prefix, middle, suffix) = parts(middle);
                out.push(self.prefix_id);
                out.extend_from_slice(prefix);
                out.push(self.suffix_id);
                out.extend_from_slice(suffix);
                out.push(self.middle_id);
                out.extend_from_slice(middle);
            }
            MiddleCut::SuffixFirst(middle) => {
                let (prefix, middle, suffix) = parts(middle);
                out.extend([self.prefix_id, self.suffix_id]);
                out.extend_from_slice(suffix);
                out.push(self.middle_id);
                out.extend_from_slice(prefix);
                out.extend_from_slice(middle);
            }
        }
        out.extend(self.end_id);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule(fim_rate: f64, spm_rate: f64, end_id: Option<i32>) -> MiddleRule {
        MiddleRule { fim_rate, spm_rate, prefix_id: 90, suffix_id: 91, middle_id: 92, end_id }
    }

    fn key(seed: u64) -> Key {
        Key::new("test", seed, "middle", 0)
    }

    #[test]
    fn parts_change_places() {
        let made = |cut, end_id| {
            let mut out = Vec::new();
            rule(1.0, 0.5, end_id).apply(&[1, 2, 3, 4, 5, 6], &cut, &mut out);
            out
        };
        assert_eq!(made(MiddleCut::PrefixFirst(3..5), None), [90, 1, 2, 3, 91, 6, 92, 4, 5]);
        assert_eq!(made(MiddleCut::SuffixFirst(3..5), None), [90, 91, 6, 92, 1, 2, 3, 4, 5]);
        assert_eq!(made(MiddleCut::PrefixFirst(0..0), Some(93)), [90, 91, 1, 2, 3, 4, 5, 6, 92, 93]);
        assert_eq!(made(MiddleCut::Whole, Some(93)), [1, 2, 3, 4, 5, 6]);
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

    proptest! {
        #[test]
        fn all_tokens_stay_and_the_length_is_known(length in 0u32..40, spm in 0.0..1.0f64, end: bool, seed: u64) {
            let rule = rule(0.8, spm, end.then_some(93));
            let tokens: Vec<i32> = (0..length as i32).collect();
            let cut = rule.cut(length, key(seed));
            let mut out = Vec::new();
            rule.apply(&tokens, &cut, &mut out);
            prop_assert_eq!(out.len() as u32, length + rule.added(&cut));
            out.retain(|id| *id < 90);
            out.sort_unstable();
            prop_assert_eq!(out, tokens);
        }
    }
}
