//! A random part of a long sequence, and random points to cut a sequence at.
//!
//! ```text
//! 23 tokens, at most 5    one of 0..5, 5..10, 10..15, 15..20, 20..23         on a grid
//! 23 tokens, at most 5    from -4..23 on, what of 5 tokens is there           uniform_random_start
//! ```

use crate::rng::Key;

/// A part of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// The first token.
    pub(crate) from: u32,
    /// How many tokens.
    pub(crate) length: u32,
}

/// Which part of a sequence is taken: T5's `select_random_chunk`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkRule {
    /// Greatest length of the part.
    pub(crate) max_length: u32,
    /// If set, the greatest length is drawn for each sequence, from this one to `max_length`.
    pub(crate) min_length: Option<u32>,
    /// Whether the part may begin anywhere, instead of at a multiple of its length.
    pub(crate) uniform_random_start: bool,
}

impl ChunkRule {
    /// T5's chunks of long documents.
    pub(crate) fn at_most(max_length: u32) -> Self {
        Self { max_length, min_length: None, uniform_random_start: false }
    }

    /// What is wrong with the settings, in words.
    pub(crate) fn check(&self) -> Result<(), String> {
        let least = self.min_length.unwrap_or(self.max_length);
        if self.max_length == 0 {
            return Err("`max_length` is 0; it must be at least 1".to_owned());
        }
        if least == 0 || least > self.max_length {
            return Err(format!(
                "`min_length` is {least}; it must be at least 1 and not above the greatest length, {}",
                self.max_length
            ));
        }
        Ok(())
    }

    /// The part of a sequence of `length` tokens that belongs to `key`; of an empty sequence there is none. Every token
    /// is as likely to be in it as any other.
    pub(crate) fn chunk(&self, length: u32, key: Key) -> Option<Chunk> {
        if length == 0 {
            return None;
        }
        let mut draws = key.draws();
        let least = self.min_length.unwrap_or(self.max_length);
        let size = least + draws.below_u32(self.max_length - least + 1);
        if self.uniform_random_start {
            // From 1 - size to length - 1, counted from 0.
            let start = draws.below(u64::from(length) + u64::from(size) - 1) as i64 - i64::from(size - 1);
            let from = start.max(0) as u32;
            let end = (start + i64::from(size)).min(i64::from(length)) as u32;
            return Some(Chunk { from, length: end - from });
        }
        let from = draws.below_u32(length.div_ceil(size)) * size;
        Some(Chunk { from, length: size.min(length - from) })
    }
}

/// A place to cut `length` tokens in two, neither being empty: any from 1 to `length` - 1. A sequence of fewer than two
/// tokens is cut behind all it has.
pub(crate) fn split_point(length: u32, key: Key) -> u32 {
    if length < 2 {
        return length;
    }
    1 + key.draws().below_u32(length - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(seed: u64) -> Key {
        Key::new("test", seed, "chunk", 0)
    }

    #[test]
    fn every_token_is_taken_as_often_as_any_other() {
        for rule in [
            ChunkRule::at_most(5),
            ChunkRule { uniform_random_start: true, ..ChunkRule::at_most(5) },
            ChunkRule { uniform_random_start: true, min_length: Some(3), ..ChunkRule::at_most(9) },
        ] {
            let mut counts = [0i64; 23];
            for seed in 0..10_000 {
                let Chunk { from, length } = rule.chunk(23, key(seed)).unwrap();
                counts[from as usize..(from + length) as usize].iter_mut().for_each(|count| *count += 1);
            }
            let mean = counts.iter().sum::<i64>() / 23;
            assert!(counts.iter().all(|count| (count - mean).abs() < 200), "{rule:?}: {counts:?}");
        }
    }

    #[test]
    fn chunks_never_change() {
        let uniform = ChunkRule { uniform_random_start: true, min_length: Some(3), ..ChunkRule::at_most(9) };
        let chunks: Vec<_> = (0..4)
            .flat_map(|seed| [ChunkRule::at_most(5), uniform].map(|rule| rule.chunk(23, key(seed)).unwrap()))
            .map(|Chunk { from, length }| (from, length))
            .collect();
        insta::assert_snapshot!(format!("{chunks:?}"), @"[(5, 5), (1, 7), (20, 3), (21, 2), (15, 5), (16, 7), (20, 3), (18, 4)]");
    }

    #[test]
    fn lengths_that_make_no_sense_are_refused() {
        let problem = |max_length, min_length| {
            ChunkRule { max_length, min_length, uniform_random_start: false }.check().unwrap_err()
        };
        insta::assert_snapshot!(problem(0, None), @"`max_length` is 0; it must be at least 1");
        insta::assert_snapshot!(problem(5, Some(6)), @"`min_length` is 6; it must be at least 1 and not above the greatest length, 5");
        assert_eq!(ChunkRule { min_length: Some(5), ..ChunkRule::at_most(5) }.check(), Ok(()));
    }

    #[test]
    fn split_points_are_uniform() {
        let mut counts = [0i64; 15];
        for seed in 0..3000 {
            counts[split_point(16, key(seed)) as usize - 1] += 1;
        }
        let chi_squared = counts.iter().map(|count| (count - 200).pow(2)).sum::<i64>() as f64 / 200.0;
        assert!((2.0..36.0).contains(&chi_squared), "{counts:?}");
        assert_eq!([0, 1, 2].map(|length| split_point(length, key(0))), [0, 1, 1]);
    }

    proptest! {
        #[test]
        fn a_chunk_lies_in_its_sequence(length in 0u32..100, max in 1u32..50, less in 0u32..50, uniform: bool, seed: u64) {
            let min_length = (less > 0).then(|| max.saturating_sub(less).max(1));
            let rule = ChunkRule { max_length: max, min_length, uniform_random_start: uniform };
            prop_assert_eq!(rule.check(), Ok(()));
            let Some(chunk) = rule.chunk(length, key(seed)) else {
                prop_assert_eq!(length, 0);
                return Ok(());
            };
            prop_assert!((1..=max).contains(&chunk.length));
            prop_assert!(chunk.from + chunk.length <= length);
            if !uniform && min_length.is_none() {
                prop_assert!(chunk.length == max || chunk.from + chunk.length == length);
            }
        }
    }
}
