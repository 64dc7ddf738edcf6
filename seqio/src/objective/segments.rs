//! A sequence cut into segments, one behind the other.
//!
//! ```text
//! 11 tokens, at most 4     4 4 3
//! 11 tokens, from 2 to 8   one length a sequence, here 5:   5 5 1
//! ```

use crate::objective::Chunk;
use crate::rng::Key;

/// How long segments are: T5's `split_tokens`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentRule {
    /// Greatest length.
    pub(crate) max_tokens: u32,
    /// If set, the length is drawn for each sequence, its logarithm being uniform from that of this one to that of
    /// `max_tokens`.
    pub(crate) min_tokens: Option<u32>,
}

impl SegmentRule {
    /// Segments of one length.
    pub(crate) fn every(max_tokens: u32) -> Self {
        Self { max_tokens, min_tokens: None }
    }

    /// What is wrong with the settings, in words.
    pub(crate) fn check(&self) -> Result<(), String> {
        let least = self.min_tokens.unwrap_or(self.max_tokens);
        if self.max_tokens == 0 {
            return Err("segments would have no tokens; they must have at least 1".to_owned());
        }
        if least == 0 || least > self.max_tokens {
            return Err(format!(
                "segments are to have at least {least} tokens and at most {}; the first must be from 1 to the second",
                self.max_tokens
            ));
        }
        Ok(())
    }

    /// Whether a key makes a difference.
    pub(crate) fn is_random(&self) -> bool {
        self.min_tokens.is_some()
    }

    /// The length of the segments of the sequence that belongs to `key`; the last may be shorter.
    pub(crate) fn segment_length(&self, key: Key) -> u32 {
        let Some(least) = self.min_tokens else { return self.max_tokens };
        let length = log_uniform(f64::from(least), f64::from(self.max_tokens), key.draws().unit());
        (length as u32).clamp(least, self.max_tokens)
    }

    /// The segments of a sequence of `length` tokens that belong to `key`; of an empty sequence there are none.
    pub(crate) fn segments(&self, length: u32, key: Key) -> impl Iterator<Item = Chunk> + use<> {
        let size = self.segment_length(key).max(1);
        let starts = (0..length).step_by(size as usize);
        starts.map(move |from| Chunk { from, length: size.min(length - from) })
    }
}

/// `least` · (`greatest` / `least`)^`share`, by square roots and products alone: these are rounded in the same way on all
/// machines, and powers are not.
fn log_uniform(least: f64, greatest: f64, share: f64) -> f64 {
    let mut root = greatest / least;
    let mut value = least;
    let mut share = share;
    for _ in 0..f64::MANTISSA_DIGITS {
        root = root.sqrt();
        share *= 2.0;
        if share >= 1.0 {
            share -= 1.0;
            value *= root;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(seed: u64) -> Key {
        Key::new("test", seed, "segments", 0)
    }

    #[test]
    fn logarithms_of_lengths_are_uniform() {
        let rule = SegmentRule { max_tokens: 4096, min_tokens: Some(1) };
        let mut octaves = [0i64; 12];
        for seed in 0..12 * 200 {
            octaves[rule.segment_length(key(seed)).ilog2().min(11) as usize] += 1;
        }
        let chi_squared = octaves.iter().map(|count| (count - 200).pow(2)).sum::<i64>() as f64 / 200.0;
        assert!(chi_squared < 30.0, "{octaves:?}");
    }

    #[test]
    fn segment_lengths_never_change() {
        let rule = SegmentRule { max_tokens: 512, min_tokens: Some(8) };
        let lengths: Vec<u32> = (0..12).map(|seed| rule.segment_length(key(seed))).collect();
        insta::assert_snapshot!(format!("{lengths:?}"), @"[72, 153, 27, 298, 145, 36, 24, 77, 325, 52, 410, 475]");
    }

    #[test]
    fn lengths_that_make_no_sense_are_refused() {
        let problem = |max_tokens, min_tokens| SegmentRule { max_tokens, min_tokens }.check().unwrap_err();
        insta::assert_snapshot!(problem(0, None), @"segments would have no tokens; they must have at least 1");
        insta::assert_snapshot!(problem(7, Some(8)), @"segments are to have at least 8 tokens and at most 7; the first must be from 1 to the second");
    }

    proptest! {
        #[test]
        fn the_power_is_a_power(least in 1.0..100.0f64, ratio in 1.0..1e6f64, share in 0.0..1.0f64) {
            let found = log_uniform(least, least * ratio, share);
            let expected = least * ratio.powf(share);
            prop_assert!((found / expected - 1.0).abs() < 1e-12, "{} {}", found, expected);
        }

        #[test]
        fn segments_lie_one_behind_the_other(length in 0u32..200, max in 1u32..50, less in 0u32..50, seed: u64) {
            let min_tokens = (less > 0).then(|| max.saturating_sub(less).max(1));
            let rule = SegmentRule { max_tokens: max, min_tokens };
            prop_assert_eq!(rule.check(), Ok(()));
            let mut at = 0;
            for segment in rule.segments(length, key(seed)) {
                prop_assert_eq!(segment.from, at);
                prop_assert!((1..=max).contains(&segment.length));
                at += segment.length;
            }
            prop_assert_eq!(at, length);
        }
    }
}
