//! The rules by which tokens become noise: T5's four noise masks.
//!
//! ```text
//! random_spans_noise_mask    . . . x x x . . . . . . . x x .   a fixed number of tokens in a fixed number of spans
//! iid_noise_mask             . x . . . . x x . . . . . . x .   each token by itself
//! regular_noise_mask         . x x . . . . . . x x . . . . .   spans of one length at one distance
//! random_prefix_noise_mask   x x x x x x x x x . . . . . . .   a prefix
//! ```

use crate::objective::random_spans::{SpanBuffer, SpanCounts};
use crate::objective::{MaskCounts, NoiseMask, ObjectiveError};
use crate::rng::Key;

/// How tokens become noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum MaskRule {
    /// `random_spans_noise_mask`.
    RandomSpans {
        /// Share of tokens that are noise.
        density: f64,
        /// Mean length of spans of noise.
        mean_span: f64,
        /// Whether the mask is turned by a random number of places, so that it need not begin without noise.
        roll: bool,
    },
    /// `iid_noise_mask`.
    Iid {
        /// Probability that a token is noise.
        density: f64,
    },
    /// `regular_noise_mask`.
    Regular {
        /// Share of tokens that are noise.
        density: f64,
        /// Least length of spans.
        min_span: u32,
        /// Greatest length of spans.
        max_span: u32,
    },
    /// `random_prefix_noise_mask`: noise is what stands in front.
    RandomPrefix {
        /// Share, on average, of tokens that are behind the prefix; at most a half.
        density: f64,
    },
}

/// A mask with the memory to draw the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct MaskBuffer {
    mask: NoiseMask,
    spans: SpanBuffer,
}

impl MaskBuffer {
    /// The mask drawn last.
    pub(crate) fn mask(&self) -> &NoiseMask {
        &self.mask
    }
}

impl MaskRule {
    /// Longer sequences are not tried by `check`: T5 masks none that is longer.
    const CHECKED_LENGTH: u32 = 1 << 16;

    /// What is wrong with the settings, in words: also that some sequence of at most `max_length` tokens, if that is
    /// known, could not be masked.
    pub(crate) fn check(&self, max_length: Option<u32>) -> Result<(), String> {
        let share = |density: f64, greatest: f64| match (0.0..=greatest).contains(&density) {
            true => Ok(()),
            false => Err(format!("`noise_density` is {density}; it must be from 0 to {greatest}")),
        };
        match *self {
            Self::Iid { density } => share(density, 1.0),
            Self::RandomPrefix { density } => share(density, 0.5),
            Self::Regular { density, min_span, max_span } => {
                share(density, 1.0)?;
                if density == 0.0 {
                    return Err("`noise_density` is 0; spans at equal distances need some noise".to_owned());
                }
                if min_span == 0 || min_span > max_span {
                    return Err(format!(
                        "spans are to be from `min_span_length` {min_span} to `max_span_length` {max_span} long; \
                         the first must be at least 1 and the second not less"
                    ));
                }
                Ok(())
            }
            Self::RandomSpans { density, mean_span, .. } => {
                share(density, 1.0)?;
                if !(mean_span >= 1.0 && mean_span.is_finite()) {
                    return Err(format!("`mean_noise_span_length` is {mean_span}; it must be at least 1"));
                }
                let longest =
                    max_length.map_or(Self::CHECKED_LENGTH, |longest| longest.min(Self::CHECKED_LENGTH));
                match (1..=longest).find_map(|length| self.counts(length).err()) {
                    Some(error) => Err(error.to_string()),
                    None => Ok(()),
                }
            }
        }
    }

    /// What is in the mask of `length` tokens, if that follows from the length alone.
    pub(crate) fn counts(&self, length: u32) -> Result<Option<MaskCounts>, ObjectiveError> {
        match *self {
            Self::RandomSpans { density: 0.0, .. } => Ok(Some(noiseless(length))),
            Self::RandomSpans { density, mean_span, roll } => {
                let counts = SpanCounts::of(length, density, mean_span)?;
                Ok((!roll).then(|| counts.in_mask(length)))
            }
            Self::Iid { .. } | Self::Regular { .. } | Self::RandomPrefix { .. } => Ok(None),
        }
    }

    /// The mask of `length` tokens that belongs to `key`.
    pub(crate) fn draw<'a>(
        &self,
        length: u32,
        key: Key,
        buffer: &'a mut MaskBuffer,
    ) -> Result<&'a NoiseMask, ObjectiveError> {
        let mask = &mut buffer.mask;
        mask.clear();
        match *self {
            Self::RandomSpans { density: 0.0, .. } => mask.push(false, length),
            Self::RandomSpans { density, mean_span, roll } => {
                let counts = SpanCounts::of(length, density, mean_span)?;
                buffer.spans.draw(counts, length, roll, key, mask);
            }
            Self::Iid { density } => {
                let mut draws = key.draws();
                (0..length).for_each(|_| mask.push(draws.chance(density), 1));
            }
            Self::Regular { density, min_span, max_span } => {
                let mut draws = key.draws();
                let span = min_span + draws.below_u32(max_span - min_span + 1);
                let period = (span as f32 / density as f32).round_ties_even() as u32;
                let offset = draws.below_u32(period);
                push_regular(mask, length, span, period, offset);
            }
            Self::RandomPrefix { density } => {
                let prefix = prefix_length(length, density, key);
                mask.push(true, prefix);
                mask.push(false, length - prefix);
            }
        }
        Ok(mask)
    }
}

fn noiseless(length: u32) -> MaskCounts {
    MaskCounts { tokens: length, nonnoise_spans: u32::from(length > 0), ..MaskCounts::default() }
}

/// Token i is noise where `(i + offset) % period < span`.
fn push_regular(mask: &mut NoiseMask, length: u32, span: u32, period: u32, offset: u32) {
    let mut left = length;
    let mut phase = offset;
    while left > 0 {
        let noise = phase < span;
        let run = if noise { span - phase } else { period - phase }.min(left);
        mask.push(noise, run);
        left -= run;
        phase = (phase + run) % period;
    }
}

/// How many of `length` tokens are the prefix: any number from [`least_prefix`] to `length` - 1, so that `density` of the
/// tokens are behind it on average.
pub(crate) fn prefix_length(length: u32, density: f64, key: Key) -> u32 {
    let least = least_prefix(length, density);
    least + key.draws().below_u32(length.saturating_sub(least).max(1))
}

/// Shortest prefix: round((1 - 2 `density`)(`length` - 1)), but at least 1, and always less than `length`. That of one
/// token or none is empty.
pub(crate) fn least_prefix(length: u32, density: f64) -> u32 {
    let greatest = length.saturating_sub(1);
    let least = ((1.0 - 2.0 * density) as f32 * greatest as f32).round_ties_even() as u32;
    least.max(1).min(greatest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule() -> impl Strategy<Value = MaskRule> {
        let density = prop_oneof![Just(0.15), Just(0.5), Just(0.25), 0.01..0.5f64];
        prop_oneof![
            (density.clone(), 2.0..20.0f64, any::<bool>())
                .prop_map(|(density, mean_span, roll)| MaskRule::RandomSpans { density, mean_span, roll }),
            density.clone().prop_map(|density| MaskRule::Iid { density }),
            (density.clone(), 1u32..4, 0u32..9).prop_map(|(density, min_span, more)| MaskRule::Regular {
                density,
                min_span,
                max_span: min_span + more
            }),
            density.prop_map(|density| MaskRule::RandomPrefix { density }),
        ]
    }

    fn drawn(rule: MaskRule, length: u32, seed: u64) -> NoiseMask {
        let mut buffer = MaskBuffer::default();
        rule.draw(length, Key::new("test", seed, "mask", 0), &mut buffer).unwrap().clone()
    }

    #[test]
    fn masks_never_change() {
        let masks = [
            MaskRule::RandomSpans { density: 0.3, mean_span: 2.0, roll: false },
            MaskRule::Iid { density: 0.3 },
            MaskRule::Regular { density: 0.3, min_span: 1, max_span: 5 },
            MaskRule::RandomPrefix { density: 0.5 },
        ]
        .map(|rule| drawn(rule, 24, 7).written());
        insta::assert_snapshot!(masks.join("\n"), @r"
001000000000000111101001
000001100110100011010000
000000000001111100000000
111111111111111111110000
");
    }

    #[test]
    fn what_no_mask_can_be_made_of_is_refused_before_data() {
        let problem = |rule: MaskRule, max_length| rule.check(max_length).unwrap_err();
        let spans = |density, mean_span| MaskRule::RandomSpans { density, mean_span, roll: false };
        insta::assert_snapshot!(problem(spans(0.5, 1.0), None), @"a sequence of 3 ids would have 2 spans of noise and only 1 id to stand between them; lower `noise_density` or raise `mean_noise_span_length`");
        insta::assert_snapshot!(problem(spans(0.9, 3.0), None), @"a sequence of 6 ids would have 2 spans of noise and only 1 id to stand between them; lower `noise_density` or raise `mean_noise_span_length`");
        insta::assert_snapshot!(problem(spans(1.5, 3.0), None), @"`noise_density` is 1.5; it must be from 0 to 1");
        insta::assert_snapshot!(problem(spans(0.15, 0.5), None), @"`mean_noise_span_length` is 0.5; it must be at least 1");
        insta::assert_snapshot!(problem(spans(f64::NAN, 3.0), None), @"`noise_density` is NaN; it must be from 0 to 1");
        insta::assert_snapshot!(problem(MaskRule::RandomPrefix { density: 0.7 }, None), @"`noise_density` is 0.7; it must be from 0 to 0.5");
        insta::assert_snapshot!(problem(MaskRule::Regular { density: 0.0, min_span: 1, max_span: 5 }, None), @"`noise_density` is 0; spans at equal distances need some noise");
        insta::assert_snapshot!(problem(MaskRule::Regular { density: 0.2, min_span: 0, max_span: 5 }, None), @"spans are to be from `min_span_length` 0 to `max_span_length` 5 long; the first must be at least 1 and the second not less");
        for (density, mean_span) in
            [(0.15, 3.0), (0.15, 8.0), (0.5, 3.0), (0.5, 8.0), (0.5, 64.0), (0.15, 64.0)]
        {
            assert_eq!(spans(density, mean_span).check(None), Ok(()));
        }
        assert_eq!(spans(0.5, 1.0).check(Some(2)), Ok(()), "no longer sequence comes");
    }

    #[test]
    fn prefixes_are_uniform() {
        let mut counts = [0i64; 16];
        for seed in 0..3200 {
            counts[prefix_length(17, 0.5, Key::new("test", seed, "prefix", 0)) as usize - 1] += 1;
        }
        // 16 cells of 200: chi squared has mean 15 and standard deviation 5.5.
        let chi_squared = counts.iter().map(|count| (count - 200).pow(2)).sum::<i64>() as f64 / 200.0;
        assert!((2.0..37.0).contains(&chi_squared), "{counts:?}");
    }

    #[test]
    fn a_density_is_kept_on_average() {
        for (rule, density) in [
            (MaskRule::Iid { density: 0.15 }, 0.15),
            (MaskRule::Regular { density: 0.25, min_span: 1, max_span: 4 }, 0.25),
            (MaskRule::RandomPrefix { density: 0.25 }, 0.75),
        ] {
            let noise: u32 = (0..2000).map(|seed| drawn(rule, 100, seed).counts().noise_tokens).sum();
            let found = f64::from(noise) / 200_000.0;
            assert!((found - density).abs() < 0.01, "{rule:?}: {found}");
        }
    }

    proptest! {
        #[test]
        fn counts_from_the_length_are_those_of_the_mask(rule in rule(), length in 0u32..300, seed: u64) {
            let mask = drawn(rule, length, seed);
            prop_assert_eq!(mask.counts().tokens, length);
            prop_assert_eq!(mask.clone(), drawn(rule, length, seed));
            if let Some(counts) = rule.counts(length).unwrap() {
                prop_assert_eq!(counts, mask.counts());
            }
            if let MaskRule::RandomPrefix { .. } = rule {
                prop_assert!(mask.counts().noise_tokens < length.max(1));
            }
        }

        #[test]
        fn regular_masks_are_what_their_formula_says(length in 0u32..100, span in 1u32..6, more in 0u32..30, turn: u32) {
            let period = span + more;
            let mut mask = NoiseMask::default();
            push_regular(&mut mask, length, span, period, turn % period);
            let expected: Vec<bool> = (0..length).map(|i| (i + turn % period) % period < span).collect();
            prop_assert_eq!(mask.bits().collect::<Vec<_>>(), expected);
        }
    }
}
