//! A choice among several denoisers, one for each segment, as UL2 has it (Tay et al. 2022, arXiv 2205.05131).
//!
//! ```text
//! R  spans of 3 or 8, density 0.15                        short spans, little noise
//! S  a suffix                                             the rest of a text from its beginning
//! X  spans of 3 or 8, density 0.5; 64, 0.15 or 0.5        long spans or much noise
//! ```
//!
//! Each has its mode in front of the inputs, so that a model knows what is asked of it.

use crate::objective::span_lengths::SpanShape;
use crate::objective::{Chunk, DenoiseFn, MaskRule};
use crate::rng::Key;

/// One way to make inputs and targets of a segment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Denoiser {
    /// Which tokens are noise.
    pub(crate) mask: MaskRule,
    /// How often it is chosen, against the others.
    pub(crate) weight: f64,
    /// Longest segment whose inputs and targets fit.
    pub(crate) max_tokens: u32,
}

impl Denoiser {
    /// Spans of noise, or noise in front (`mean_span` `None`): what a sentinel stands for is asked, or what comes after.
    /// `inputs` and `targets` are the greatest lengths, with EOS; of the inputs' `mode_length` is taken already. What does
    /// not fit is said in words.
    pub(crate) fn new(
        density: f64,
        mean_span: Option<f64>,
        mode_length: u32,
        weight: f64,
        inputs: u32,
        targets: u32,
    ) -> Result<Self, String> {
        if !(weight >= 0.0 && weight.is_finite()) {
            return Err(format!("`weight` is {weight}; it must be at least 0"));
        }
        let room = inputs.saturating_sub(mode_length);
        let mask = match mean_span {
            Some(mean_span) => MaskRule::RandomSpans { density, mean_span, roll: false },
            None => MaskRule::RandomPrefix { density },
        };
        mask.check(Some(1))?;
        let max_tokens = match mean_span {
            Some(mean_span) => spans_that_fit(density, mean_span, room, targets)?,
            None => prefix_that_fits(density, room, targets)?,
        };
        mask.check(Some(max_tokens))?;
        Ok(Self { mask, weight, max_tokens })
    }

    /// The functions for inputs and targets.
    pub(crate) fn functions(&self) -> (DenoiseFn, DenoiseFn) {
        match self.mask {
            MaskRule::RandomPrefix { .. } => (DenoiseFn::DropNonnoiseTokens, DenoiseFn::DropNoiseTokens),
            _ => (DenoiseFn::NoiseSpanToUniqueSentinel, DenoiseFn::NonnoiseSpanToUniqueSentinel),
        }
    }
}

/// The longest segment for inputs of `inputs`; targets that are longer than `targets` are an error.
pub(crate) fn spans_that_fit(density: f64, mean_span: f64, inputs: u32, targets: u32) -> Result<u32, String> {
    let Some(lengths) = SpanShape::new(density, mean_span).lengths(inputs) else {
        return Err(format!(
            "no sequence fills inputs of length {inputs} at `noise_density` {density}: make the inputs longer or the \
             density lower"
        ));
    };
    if lengths.targets > targets {
        return Err(format!(
            "targets need a length of {}, but theirs is {targets}: at `noise_density` {density} and \
             `mean_noise_span_length` {mean_span} inputs of length {inputs} hold {} tokens; make the targets longer \
             or the inputs shorter",
            lengths.targets, lengths.tokens
        ));
    }
    Ok(lengths.tokens)
}

/// The longest segment whose prefix fits `inputs` and whose rest fits `targets`, both with EOS.
fn prefix_that_fits(density: f64, inputs: u32, targets: u32) -> Result<u32, String> {
    let rest = |tokens: u32| tokens - crate::objective::mask_rule::least_prefix(tokens, density);
    let fits = (2..inputs).rev().find(|tokens| rest(*tokens) < targets);
    fits.ok_or_else(|| {
        format!("no prefix fits inputs of length {inputs} and targets of length {targets}: make them longer")
    })
}

/// Denoisers to choose among.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Denoisers {
    list: Vec<Denoiser>,
    total_weight: f64,
}

impl Denoisers {
    /// A choice among `list`; `None` if nothing would ever be chosen.
    pub(crate) fn new(list: Vec<Denoiser>) -> Option<Self> {
        let total_weight = list.iter().map(|denoiser| denoiser.weight).sum();
        (total_weight > 0.0).then_some(Self { list, total_weight })
    }

    /// The place in `list` of the one that belongs to `key`.
    pub(crate) fn choose(&self, key: Key) -> usize {
        let mut left = key.draws().unit() * self.total_weight;
        let mut chosen = 0;
        for (index, denoiser) in self.list.iter().enumerate().filter(|(_, denoiser)| denoiser.weight > 0.0) {
            chosen = index;
            if left < denoiser.weight {
                break;
            }
            left -= denoiser.weight;
        }
        chosen
    }

    /// Cuts `length` tokens into segments, each as long as its own denoiser can take: the places of denoisers in `list`
    /// with their segments. The i-th belongs to the i-th child of `key`.
    pub(crate) fn segments(&self, length: u32, key: Key) -> impl Iterator<Item = (usize, Chunk)> {
        let mut from = 0;
        (0..).map_while(move |index| {
            let left = length - from;
            let chosen = (left > 0).then(|| self.choose(key.child(index)))?;
            let segment = Chunk { from, length: left.min(self.list[chosen].max_tokens) };
            from += segment.length;
            Some((chosen, segment))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::objective::MaskBuffer;

    fn key(seed: u64) -> Key {
        Key::new("test", seed, "ul2", 0)
    }

    fn denoisers(weights: [f64; 3]) -> Denoisers {
        let kinds = [(0.15, Some(3.0)), (0.25, None), (0.5, Some(3.0))];
        let list = kinds.into_iter().zip(weights).map(|((density, mean_span), weight)| {
            Denoiser::new(density, mean_span, 1, weight, 64, 64).unwrap()
        });
        Denoisers::new(list.collect()).unwrap()
    }

    #[test]
    fn weights_decide_how_often_each_is_chosen() {
        let denoisers = denoisers([1.0, 0.0, 3.0]);
        let mut counts = [0; 3];
        (0..4000).for_each(|seed| counts[denoisers.choose(key(seed))] += 1);
        assert_eq!(counts[1], 0);
        assert!((880..1120).contains(&counts[0]), "{counts:?}");
        assert_eq!(Denoisers::new(Vec::new()), None);
    }

    #[test]
    fn what_does_not_fit_is_refused_before_data() {
        let problem = |density, mean_span, inputs, targets| {
            Denoiser::new(density, mean_span, 1, 1.0, inputs, targets).unwrap_err()
        };
        insta::assert_snapshot!(problem(0.5, Some(3.0), 64, 32), @"targets need a length of 62, but theirs is 32: at `noise_density` 0.5 and `mean_noise_span_length` 3 inputs of length 63 hold 93 tokens; make the targets longer or the inputs shorter");
        insta::assert_snapshot!(problem(0.15, Some(3.0), 2, 32), @"no sequence fills inputs of length 1 at `noise_density` 0.15: make the inputs longer or the density lower");
        insta::assert_snapshot!(problem(0.25, None, 2, 32), @"no prefix fits inputs of length 1 and targets of length 32: make them longer");
        insta::assert_snapshot!(problem(0.75, None, 64, 32), @"`noise_density` is 0.75; it must be from 0 to 0.5");
        assert!(Denoiser::new(0.5, Some(3.0), 1, -1.0, 64, 64).is_err());
    }

    proptest! {
        #[test]
        fn segments_cover_the_sequence_and_fit(length in 0u32..2000, seed: u64) {
            let denoisers = denoisers([1.0, 1.0, 1.0]);
            let mut at = 0;
            let mut buffer = MaskBuffer::default();
            for (index, (chosen, segment)) in denoisers.segments(length, key(seed)).enumerate() {
                prop_assert_eq!(segment.from, at);
                prop_assert!(segment.length > 0);
                at += segment.length;
                let denoiser = &denoisers.list[chosen];
                let mask = denoiser.mask.draw(segment.length, key(seed).child(index as u64), &mut buffer).unwrap();
                let (inputs, targets) = denoiser.functions();
                let [inputs, targets] = [inputs, targets].map(|function| function.length(mask.counts()));
                prop_assert!(1 + inputs < 64 && targets < 64, "{:?} {} {}", denoiser, inputs, targets);
            }
            prop_assert_eq!(at, length);
        }
    }
}
