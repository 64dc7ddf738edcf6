//! Masks of random spans: how much is noise follows from the length, where it is from the key.
//!
//! ```text
//! 512 tokens, density 0.15, mean span 3:   77 tokens of noise in 26 spans, between them 435 tokens in 26 stretches
//! ```

use crate::objective::composition::Composition;
use crate::objective::{MaskCounts, NoiseMask, ObjectiveError};
use crate::rng::Key;

/// How many tokens are noise, and in how many spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpanCounts {
    /// Tokens; T5 masks two where there are fewer, and cuts the mask.
    tokens: u32,
    noise_tokens: u32,
    /// Spans of noise, and stretches between them.
    spans: u32,
}

impl SpanCounts {
    /// The counts for a sequence of `length` tokens. Products are rounded as in T5: in float32, halves to even.
    pub(crate) fn of(length: u32, density: f64, mean_span: f64) -> Result<Self, ObjectiveError> {
        let tokens = length.max(2);
        let noise_tokens = (tokens as f32 * density as f32).round_ties_even() as u32;
        let noise_tokens = noise_tokens.clamp(1, tokens - 1);
        let spans = ((noise_tokens as f32 / mean_span as f32).round_ties_even() as u32).max(1);
        let between = tokens - noise_tokens;
        if spans > between || spans > noise_tokens {
            return Err(ObjectiveError::TooManySpans { length, spans, between });
        }
        Ok(Self { tokens, noise_tokens, spans })
    }

    /// What is in the mask of a sequence of `length` tokens, if it is not rolled.
    pub(crate) fn in_mask(self, length: u32) -> MaskCounts {
        match length {
            0 => MaskCounts::default(),
            1 => MaskCounts { tokens: 1, noise_tokens: 0, noise_spans: 0, nonnoise_spans: 1 },
            _ => MaskCounts {
                tokens: length,
                noise_tokens: self.noise_tokens,
                noise_spans: self.spans,
                nonnoise_spans: self.spans,
            },
        }
    }
}

/// Memory for masks of random spans.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpanBuffer {
    noise: Composition,
    nonnoise: Composition,
}

impl SpanBuffer {
    /// Writes the mask of `length` tokens: stretches that are not noise and spans of noise in turn, all masks with these
    /// counts being equally likely; then, to `roll` it, turned by a random number of places.
    pub(crate) fn draw(
        &mut self,
        counts: SpanCounts,
        length: u32,
        roll: bool,
        key: Key,
        mask: &mut NoiseMask,
    ) {
        mask.clear();
        if length < 2 {
            mask.push(false, length);
            return;
        }
        self.noise.draw(counts.noise_tokens, counts.spans, &mut key.child(0).draws());
        self.nonnoise.draw(counts.tokens - counts.noise_tokens, counts.spans, &mut key.child(1).draws());
        for (nonnoise, noise) in self.nonnoise.parts().zip(self.noise.parts()) {
            mask.push(false, nonnoise);
            mask.push(true, noise);
        }
        if roll {
            mask.roll(key.child(2).draws().below_u32(length));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn drawn(length: u32, density: f64, mean_span: f64, roll: bool, seed: u64) -> NoiseMask {
        let counts = SpanCounts::of(length, density, mean_span).unwrap();
        let mut mask = NoiseMask::default();
        let key = Key::new("test", seed, "spans", 0);
        SpanBuffer::default().draw(counts, length, roll, key, &mut mask);
        mask
    }

    #[test]
    fn masks_never_change() {
        let masks = [(16, false), (16, true), (60, false)]
            .map(|(length, roll)| drawn(length, 0.3, 2.0, roll, 7).written());
        insta::assert_snapshot!(masks.join(" "), @"0000000111000011 1100001100000001 011000000011110011110000010000000100000010100000000001100011");
    }

    #[test]
    fn density_and_mean_span_are_what_is_asked_for() {
        for (density, mean_span) in [(0.15, 3.0), (0.5, 8.0), (0.15, 64.0)] {
            let counts = drawn(10_000, density, mean_span, false, 1).counts();
            let found = f64::from(counts.noise_tokens) / 10_000.0;
            assert!((found - density).abs() < 1e-4, "{found}");
            let found = f64::from(counts.noise_tokens) / f64::from(counts.noise_spans);
            assert!((found / mean_span - 1.0).abs() < 0.03, "{found}");
        }
    }

    #[test]
    fn every_token_is_noise_about_as_often_as_any_other_once_masks_are_rolled() {
        let mut counts = [0i64; 100];
        for seed in 0..4000 {
            for (count, noise) in counts.iter_mut().zip(drawn(100, 0.15, 3.0, true, seed).bits()) {
                *count += i64::from(noise);
            }
        }
        // 600 of 4,000 on average, standard deviation 23.
        assert!(counts.iter().all(|count| (480..720).contains(count)), "{counts:?}");
    }

    proptest! {
        #[test]
        fn counts_follow_from_the_length(
            length in 0u32..700,
            (density, mean_span) in prop_oneof![Just((0.15, 3.0)), Just((0.5, 3.0)), Just((0.0, 1.0)), Just((0.3, 8.0))],
            seed: u64,
        ) {
            let counts = SpanCounts::of(length, density, mean_span).unwrap();
            let mask = drawn(length, density, mean_span, false, seed);
            prop_assert_eq!(mask.counts(), counts.in_mask(length));
            if length > 1 {
                prop_assert_eq!(mask.bits().next(), Some(false));
                prop_assert_eq!(mask.bits().last(), Some(true));
            }
            let rolled = drawn(length, density, mean_span, true, seed).counts();
            prop_assert_eq!(rolled.noise_tokens, mask.counts().noise_tokens);
            prop_assert!(rolled.noise_spans.abs_diff(mask.counts().noise_spans) <= 1);
        }
    }
}
