//! Which tokens of a sequence are noise, as lengths of stretches.
//!
//! ```text
//! mask  . . . x x . x      stretches  3 2 1 1      7 tokens, 3 of noise, 2 spans of noise, 2 between
//! mask  x x . .            stretches  0 2 2        4 tokens, 2 of noise, 1 span of noise, 1 after it
//! ```

use std::ops::Range;

/// Which tokens of a sequence are noise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NoiseMask {
    /// Lengths of stretches that are in turn not noise and noise. None is 0 but the first.
    stretches: Vec<u32>,
}

/// What is in a mask: all that lengths of results depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MaskCounts {
    /// Tokens.
    pub(crate) tokens: u32,
    /// Tokens that are noise.
    pub(crate) noise_tokens: u32,
    /// Stretches of noise.
    pub(crate) noise_spans: u32,
    /// Stretches that are not noise.
    pub(crate) nonnoise_spans: u32,
}

impl NoiseMask {
    /// Makes it the mask of no tokens.
    pub(crate) fn clear(&mut self) {
        self.stretches.clear();
    }

    /// Appends `length` tokens that are noise or not.
    pub(crate) fn push(&mut self, noise: bool, length: u32) {
        if length == 0 {
            return;
        }
        if self.stretches.is_empty() {
            self.stretches.push(0);
        }
        let last = self.stretches.len() - 1;
        if (last % 2 == 1) == noise {
            self.stretches[last] += length;
        } else {
            self.stretches.push(length);
        }
    }

    /// The stretches in order: whether each is noise, and which tokens it holds.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = (bool, Range<usize>)> {
        let mut from = 0;
        self.stretches.iter().enumerate().filter(|(_, length)| **length > 0).map(move |(index, length)| {
            let to = from + *length as usize;
            let stretch = from..to;
            from = to;
            (index % 2 == 1, stretch)
        })
    }

    /// What is in it.
    pub(crate) fn counts(&self) -> MaskCounts {
        let mut counts = MaskCounts::default();
        for (noise, range) in self.stretches() {
            let length = range.len() as u32;
            counts.tokens += length;
            if noise {
                counts.noise_tokens += length;
                counts.noise_spans += 1;
            } else {
                counts.nonnoise_spans += 1;
            }
        }
        counts
    }

    /// Moves every token `offset` places on, and what goes over the end to the front; `offset` is at most the length.
    pub(crate) fn roll(&mut self, offset: u32) {
        let cut = self.counts().tokens.saturating_sub(offset) as usize;
        let mut rolled = Self::default();
        for (noise, range) in self.stretches() {
            rolled.push(noise, range.end.saturating_sub(range.start.max(cut)) as u32);
        }
        for (noise, range) in self.stretches() {
            rolled.push(noise, range.end.min(cut).saturating_sub(range.start) as u32);
        }
        *self = rolled;
    }
}

#[cfg(test)]
impl NoiseMask {
    /// Whether each token is noise.
    pub(crate) fn bits(&self) -> impl Iterator<Item = bool> {
        self.stretches().flat_map(|(noise, range)| std::iter::repeat_n(noise, range.len()))
    }

    /// The mask of a word of `0` and `1`.
    pub(crate) fn of(bits: &str) -> Self {
        let mut mask = Self::default();
        bits.chars().for_each(|bit| mask.push(bit == '1', 1));
        mask
    }

    /// The mask as a word of `0` and `1`.
    pub(crate) fn written(&self) -> String {
        self.bits().map(|noise| if noise { '1' } else { '0' }).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stretches_are_counted_wherever_they_begin() {
        let counts = |bits| {
            let MaskCounts { tokens, noise_tokens, noise_spans, nonnoise_spans } =
                NoiseMask::of(bits).counts();
            [tokens, noise_tokens, noise_spans, nonnoise_spans]
        };
        assert_eq!(counts(""), [0, 0, 0, 0]);
        assert_eq!(counts("0001101"), [7, 3, 2, 2]);
        assert_eq!(counts("1100"), [4, 2, 1, 1]);
        assert_eq!(counts("1"), [1, 1, 1, 0]);
        assert_eq!(counts("0"), [1, 0, 0, 1]);
    }

    proptest! {
        #[test]
        fn a_mask_is_its_bits(bits in proptest::collection::vec(any::<bool>(), 0..40)) {
            let mut mask = NoiseMask::default();
            bits.iter().for_each(|bit| mask.push(*bit, 1));
            prop_assert_eq!(mask.bits().collect::<Vec<_>>(), bits.clone());
            let counts = mask.counts();
            prop_assert_eq!(counts.tokens as usize, bits.len());
            prop_assert_eq!(counts.noise_tokens as usize, bits.iter().filter(|bit| **bit).count());
            let changes = bits.windows(2).filter(|pair| pair[0] != pair[1]).count();
            prop_assert_eq!(
                (counts.noise_spans + counts.nonnoise_spans) as usize,
                if bits.is_empty() { 0 } else { changes + 1 }
            );
        }

        #[test]
        fn rolling_turns_the_bits(bits in proptest::collection::vec(any::<bool>(), 1..40), turn in 0.0..1.0f64) {
            let mut mask = NoiseMask::default();
            bits.iter().for_each(|bit| mask.push(*bit, 1));
            let offset = (bits.len() as f64 * turn) as usize;
            mask.roll(offset as u32);
            let mut turned = bits;
            turned.rotate_right(offset);
            prop_assert_eq!(mask.bits().collect::<Vec<_>>(), turned);
        }
    }
}
