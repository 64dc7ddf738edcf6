//! What becomes of a sequence under a mask: T5's functions for inputs and targets.
//!
//! ```text
//! tokens 10 11 12 13 14    mask . x x . .    100 ids
//! noise_span_to_unique_sentinel      10 99 13 14
//! nonnoise_span_to_unique_sentinel   99 11 12 98
//! drop_noise_tokens                  10 13 14
//! permute_noise_tokens               10 12 11 13 14     (or as it was)
//! ```

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::objective::{MaskCounts, NoiseMask, ObjectiveError};
use crate::rng::{Draws, Key};
use crate::vocabulary::Vocabulary;

/// What becomes of a sequence in which some tokens are noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DenoiseFn {
    /// Every token that is noise becomes the first sentinel.
    NoiseTokenToSentinel,
    /// Every span of noise becomes the first sentinel.
    NoiseSpanToSentinel,
    /// Every span of noise becomes a sentinel of its own: the first the last id of the vocabulary, each further one
    /// the id below.
    NoiseSpanToUniqueSentinel,
    /// Every stretch without noise becomes the first sentinel.
    NonnoiseSpanToSentinel,
    /// Every stretch without noise becomes a sentinel of its own.
    NonnoiseSpanToUniqueSentinel,
    /// What is noise goes.
    DropNoiseTokens,
    /// What is not noise goes.
    DropNonnoiseTokens,
    /// The tokens that are noise change places among each other.
    PermuteNoiseTokens,
    /// Every token that is noise becomes a random token of the same sequence.
    NoiseTokenToGatheredToken,
    /// Every token that is noise becomes a random id of the vocabulary, neither one of the first
    /// `num_reserved_tokens` nor an extra id.
    NoiseTokenToRandomToken,
    /// Every token that is noise becomes a random id with probability `random_prob`, otherwise the first sentinel.
    NoiseTokenToRandomTokenOrSentinel,
}

/// What may stand in the place of tokens.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Replacements {
    /// The sentinel of the first span; that of each further span is one less.
    pub(crate) first_sentinel: i32,
    /// How many sentinels there are.
    pub(crate) num_sentinels: u32,
    /// Random ids are from here.
    pub(crate) random_ids: Range<i32>,
    /// Probability of a random id instead of a sentinel, where both are possible.
    pub(crate) random_prob: f64,
}

impl Replacements {
    /// Replacements by ids of `vocabulary`. Its extra ids are the sentinels, unless its last `num_sentinels` ids are;
    /// random ids are neither among the first `num_reserved_tokens` nor extra ids.
    pub(crate) fn new(
        vocabulary: &dyn Vocabulary,
        num_sentinels: Option<u32>,
        num_reserved_tokens: u32,
        random_prob: f64,
    ) -> Self {
        let id = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        let size = vocabulary.vocab_size();
        let sentinels = num_sentinels.map_or(vocabulary.extra_ids(), |number| number as usize).min(size);
        Self {
            first_sentinel: vocabulary.sentinel_id(),
            num_sentinels: id(sentinels) as u32,
            random_ids: id(num_reserved_tokens as usize)..id(size.saturating_sub(vocabulary.extra_ids())),
            random_prob,
        }
    }
}

impl DenoiseFn {
    /// Length of what becomes of a sequence with such a mask.
    pub(crate) fn length(self, mask: MaskCounts) -> u32 {
        match self {
            Self::NoiseSpanToSentinel | Self::NoiseSpanToUniqueSentinel => {
                mask.tokens - mask.noise_tokens + mask.noise_spans
            }
            Self::NonnoiseSpanToSentinel | Self::NonnoiseSpanToUniqueSentinel => {
                mask.noise_tokens + mask.nonnoise_spans
            }
            Self::DropNoiseTokens => mask.tokens - mask.noise_tokens,
            Self::DropNonnoiseTokens => mask.noise_tokens,
            Self::NoiseTokenToSentinel
            | Self::PermuteNoiseTokens
            | Self::NoiseTokenToGatheredToken
            | Self::NoiseTokenToRandomToken
            | Self::NoiseTokenToRandomTokenOrSentinel => mask.tokens,
        }
    }

    /// How many sentinels a sequence with such a mask needs.
    fn sentinels(self, mask: MaskCounts) -> u32 {
        match self {
            Self::NoiseSpanToUniqueSentinel => mask.noise_spans,
            Self::NonnoiseSpanToUniqueSentinel => mask.nonnoise_spans,
            Self::NoiseTokenToSentinel
            | Self::NoiseSpanToSentinel
            | Self::NoiseTokenToRandomTokenOrSentinel => mask.noise_spans.min(1),
            Self::NonnoiseSpanToSentinel => mask.nonnoise_spans.min(1),
            Self::DropNoiseTokens
            | Self::DropNonnoiseTokens
            | Self::PermuteNoiseTokens
            | Self::NoiseTokenToGatheredToken
            | Self::NoiseTokenToRandomToken => 0,
        }
    }

    /// Refuses masks with more spans than there are sentinels for.
    pub(crate) fn check_sentinels(self, mask: MaskCounts, by: &Replacements) -> Result<(), ObjectiveError> {
        let spans = self.sentinels(mask);
        if spans > by.num_sentinels {
            return Err(ObjectiveError::TooFewSentinels { spans, sentinels: by.num_sentinels });
        }
        Ok(())
    }

    /// What is wrong with `by` whatever the mask, in words.
    pub(crate) fn check(self, by: &Replacements) -> Result<(), String> {
        let one = MaskCounts { tokens: 2, noise_tokens: 1, noise_spans: 1, nonnoise_spans: 1 };
        self.check_sentinels(one, by).map_err(|error| error.to_string())?;
        let random = matches!(self, Self::NoiseTokenToRandomToken | Self::NoiseTokenToRandomTokenOrSentinel);
        if random && by.random_ids.is_empty() {
            return Err(format!(
                "there is no id for random tokens: `num_reserved_tokens` is {}, and the vocabulary has {} ids besides \
                 its extra ids",
                by.random_ids.start, by.random_ids.end
            ));
        }
        if !(0.0..=1.0).contains(&by.random_prob) {
            return Err(format!("`random_prob` is {}; it must be from 0 to 1", by.random_prob));
        }
        Ok(())
    }

    /// Appends to `out` what becomes of `tokens`, whose mask is `mask`, under `key`. There are enough sentinels.
    pub(crate) fn apply(
        self,
        tokens: &[i32],
        mask: &NoiseMask,
        by: &Replacements,
        key: Key,
        out: &mut Vec<i32>,
    ) {
        let mut draws = key.draws();
        match self {
            Self::NoiseSpanToSentinel => replace_spans(tokens, mask, true, by.first_sentinel, 0, out),
            Self::NoiseSpanToUniqueSentinel => replace_spans(tokens, mask, true, by.first_sentinel, 1, out),
            Self::NonnoiseSpanToSentinel => replace_spans(tokens, mask, false, by.first_sentinel, 0, out),
            Self::NonnoiseSpanToUniqueSentinel => {
                replace_spans(tokens, mask, false, by.first_sentinel, 1, out);
            }
            Self::DropNoiseTokens => keep(tokens, mask, false, out),
            Self::DropNonnoiseTokens => keep(tokens, mask, true, out),
            Self::PermuteNoiseTokens => permute(tokens, mask, &mut draws, out),
            Self::NoiseTokenToSentinel => replace_tokens(tokens, mask, out, || by.first_sentinel),
            Self::NoiseTokenToGatheredToken => {
                replace_tokens(tokens, mask, out, || tokens[draws.below(tokens.len() as u64) as usize]);
            }
            Self::NoiseTokenToRandomToken => {
                replace_tokens(tokens, mask, out, || random_id(&by.random_ids, &mut draws));
            }
            Self::NoiseTokenToRandomTokenOrSentinel => replace_tokens(tokens, mask, out, || {
                if draws.chance(by.random_prob) {
                    random_id(&by.random_ids, &mut draws)
                } else {
                    by.first_sentinel
                }
            }),
        }
    }
}

/// A random id of a range that is not empty.
pub(crate) fn random_id(ids: &Range<i32>, draws: &mut Draws) -> i32 {
    ids.start + draws.below(ids.len() as u64) as i32
}

/// Every stretch that is noise, or every one that is not, becomes a sentinel; after each the next is `step` lower.
fn replace_spans(
    tokens: &[i32],
    mask: &NoiseMask,
    noise: bool,
    mut sentinel: i32,
    step: i32,
    out: &mut Vec<i32>,
) {
    for (is_noise, range) in mask.stretches() {
        if is_noise == noise {
            out.push(sentinel);
            sentinel -= step;
        } else {
            out.extend_from_slice(&tokens[range]);
        }
    }
}

fn keep(tokens: &[i32], mask: &NoiseMask, noise: bool, out: &mut Vec<i32>) {
    for (is_noise, range) in mask.stretches() {
        if is_noise == noise {
            out.extend_from_slice(&tokens[range]);
        }
    }
}

fn replace_tokens(tokens: &[i32], mask: &NoiseMask, out: &mut Vec<i32>, mut by: impl FnMut() -> i32) {
    for (is_noise, range) in mask.stretches() {
        if is_noise {
            out.extend(range.map(|_| by()));
        } else {
            out.extend_from_slice(&tokens[range]);
        }
    }
}

fn permute(tokens: &[i32], mask: &NoiseMask, draws: &mut Draws, out: &mut Vec<i32>) {
    let mut noise = Vec::with_capacity(mask.counts().noise_tokens as usize);
    keep(tokens, mask, true, &mut noise);
    draws.shuffle(&mut noise);
    let mut noise = noise.into_iter();
    for (is_noise, range) in mask.stretches() {
        if is_noise {
            out.extend(noise.by_ref().take(range.len()));
        } else {
            out.extend_from_slice(&tokens[range]);
        }
    }
}

#[cfg(test)]
impl DenoiseFn {
    /// All functions.
    pub(crate) const ALL: [Self; 11] = [
        Self::NoiseTokenToSentinel,
        Self::NoiseSpanToSentinel,
        Self::NoiseSpanToUniqueSentinel,
        Self::NonnoiseSpanToSentinel,
        Self::NonnoiseSpanToUniqueSentinel,
        Self::DropNoiseTokens,
        Self::DropNonnoiseTokens,
        Self::PermuteNoiseTokens,
        Self::NoiseTokenToGatheredToken,
        Self::NoiseTokenToRandomToken,
        Self::NoiseTokenToRandomTokenOrSentinel,
    ];
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::vocabulary::{ByteVocabulary, PassThroughVocabulary, SpecialIds};

    fn replacements(num_sentinels: u32) -> Replacements {
        Replacements { first_sentinel: 99, num_sentinels, random_ids: 3..80, random_prob: 0.1 }
    }

    fn applied(function: DenoiseFn, tokens: &[i32], bits: &str, seed: u64) -> Vec<i32> {
        let mut out = Vec::new();
        let key = Key::new("test", seed, "denoise", 0);
        function.apply(tokens, &NoiseMask::of(bits), &replacements(100), key, &mut out);
        out
    }

    #[test]
    fn inputs_and_targets_of_span_corruption_line_up() {
        let tokens = [10, 11, 12, 13, 14, 15, 16];
        let bits = "0011001";
        let made = |function| applied(function, &tokens, bits, 0);
        assert_eq!(made(DenoiseFn::NoiseSpanToUniqueSentinel), [10, 11, 99, 14, 15, 98]);
        assert_eq!(made(DenoiseFn::NonnoiseSpanToUniqueSentinel), [99, 12, 13, 98, 16]);
    }

    #[test]
    fn more_spans_than_sentinels_are_refused() {
        let mask = NoiseMask::of("0101010").counts();
        let check = |function: DenoiseFn, sentinels| function.check_sentinels(mask, &replacements(sentinels));
        assert_eq!(check(DenoiseFn::NoiseSpanToUniqueSentinel, 3), Ok(()));
        assert_eq!(check(DenoiseFn::NoiseSpanToSentinel, 1), Ok(()));
        assert_eq!(check(DenoiseFn::DropNoiseTokens, 0), Ok(()));
        let error = check(DenoiseFn::NonnoiseSpanToUniqueSentinel, 3).unwrap_err();
        insta::assert_snapshot!(error, @"a sequence needs 4 sentinels, one a span, but there are 3: give the vocabulary more `extra_ids`, make spans longer or sequences shorter, or let more of the last ids of the vocabulary be sentinels with `num_sentinels`");
    }

    #[test]
    fn sentinels_are_extra_ids_unless_told_otherwise() {
        let bytes = ByteVocabulary::new(0, true).unwrap();
        let by = Replacements::new(&bytes, None, 3, 0.1);
        assert_eq!((by.num_sentinels, by.random_ids.clone()), (0, 3..259));
        assert!(DenoiseFn::NoiseSpanToSentinel.check(&by).is_err());
        let by = Replacements::new(&bytes, Some(100), 3, 0.1);
        assert_eq!((by.first_sentinel, by.num_sentinels), (258, 100));
        assert_eq!(DenoiseFn::NoiseSpanToSentinel.check(&by), Ok(()));
        let by = Replacements::new(&ByteVocabulary::new(10, true).unwrap(), None, 3, 0.1);
        assert_eq!((by.first_sentinel, by.num_sentinels, by.random_ids), (268, 10, 3..259));
    }

    #[test]
    fn replacements_that_cannot_be_are_refused() {
        let special = SpecialIds { pad: 0, eos: None, bos: None, unk: None };
        let ids = PassThroughVocabulary::new(2, 1, true, special).unwrap();
        let by = Replacements::new(&ids, None, 3, 0.1);
        insta::assert_snapshot!(DenoiseFn::NoiseTokenToRandomToken.check(&by).unwrap_err(), @"there is no id for random tokens: `num_reserved_tokens` is 3, and the vocabulary has 2 ids besides its extra ids");
        let by = Replacements { random_prob: 2.0, ..replacements(1) };
        insta::assert_snapshot!(DenoiseFn::NoiseTokenToRandomTokenOrSentinel.check(&by).unwrap_err(), @"`random_prob` is 2; it must be from 0 to 1");
    }

    #[test]
    fn random_tokens_are_uniform_and_a_tenth_of_sentinels() {
        let tokens = vec![50; 7700];
        let bits = "1".repeat(7700);
        let mut counts = [0i64; 77];
        applied(DenoiseFn::NoiseTokenToRandomToken, &tokens, &bits, 1)
            .iter()
            .for_each(|id| counts[*id as usize - 3] += 1);
        // Chi squared of 77 cells of 100: mean 76, standard deviation 12.3.
        let chi_squared = counts.iter().map(|count| (count - 100).pow(2)).sum::<i64>() as f64 / 100.0;
        assert!((30.0..126.0).contains(&chi_squared), "{chi_squared}");
        let mixed = applied(DenoiseFn::NoiseTokenToRandomTokenOrSentinel, &tokens, &bits, 2);
        let random = mixed.iter().filter(|id| **id != 99).count();
        assert!((660..880).contains(&random), "{random}");
    }

    proptest! {
        #[test]
        fn lengths_from_the_mask_are_those_of_the_result(bits in "[01]{0,40}", seed: u64) {
            let tokens: Vec<i32> = (0..bits.len() as i32).map(|place| 100 + place).collect();
            let counts = NoiseMask::of(&bits).counts();
            for function in DenoiseFn::ALL {
                let made = applied(function, &tokens, &bits, seed);
                prop_assert_eq!(made.len() as u32, function.length(counts), "{:?}", function);
                prop_assert_eq!(&made, &applied(function, &tokens, &bits, seed));
                let sentinels = made.iter().filter(|id| (0..100).contains(&(99 - **id))).count() as u32;
                if matches!(function, DenoiseFn::NoiseSpanToUniqueSentinel | DenoiseFn::NonnoiseSpanToUniqueSentinel) {
                    prop_assert_eq!(sentinels, function.sentinels(counts));
                }
            }
        }

        #[test]
        fn what_is_not_noise_stays_and_what_is_permuted_is_all_there(bits in "[01]{0,40}", seed: u64) {
            let tokens: Vec<i32> = (0..bits.len() as i32).map(|place| 100 + place).collect();
            for function in DenoiseFn::ALL {
                let made = applied(function, &tokens, &bits, seed);
                if made.len() == tokens.len() && function.length(NoiseMask::of("01").counts()) == 2 {
                    for ((token, made), bit) in tokens.iter().zip(&made).zip(bits.chars()) {
                        let replaced = matches!(function, DenoiseFn::NonnoiseSpanToSentinel | DenoiseFn::NonnoiseSpanToUniqueSentinel);
                        prop_assert!(replaced || bit == '1' || token == made, "{:?}", function);
                    }
                }
            }
            let mut permuted = applied(DenoiseFn::PermuteNoiseTokens, &tokens, &bits, seed);
            permuted.sort_unstable();
            prop_assert_eq!(permuted, tokens);
        }
    }
}
