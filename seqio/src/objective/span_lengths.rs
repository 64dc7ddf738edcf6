//! How long sequences are to be cut so that spans of noise fill the inputs.
//!
//! ```text
//! inputs 512, density 0.15, mean span 3   ->   cut every 568 tokens; inputs are 512 and targets 114 long, with EOS
//! ```

/// Lengths that go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpanLengths {
    /// Tokens to be masked.
    pub(crate) tokens: u32,
    /// Targets that come of them, with EOS.
    pub(crate) targets: u32,
}

/// The length that spans leave of sequences: T5's `random_spans_helper`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SpanShape {
    /// Share of tokens that are noise; below 1.
    pub(crate) density: f64,
    /// Mean length of spans of noise.
    pub(crate) mean_span: f64,
    /// Sentinels a span in the inputs.
    pub(crate) sentinels_in_inputs: u32,
    /// Sentinels a span in the targets.
    pub(crate) sentinels_in_targets: u32,
}

impl SpanShape {
    /// No sequence is cut longer.
    const LONGEST: u32 = 1 << 24;

    /// T5's shape: a sentinel a span on both sides.
    pub(crate) fn new(density: f64, mean_span: f64) -> Self {
        Self { density, mean_span, sentinels_in_inputs: 1, sentinels_in_targets: 1 }
    }

    /// The lengths for inputs of at most `inputs` tokens with EOS. `None` if there are none: fewer than two inputs, or a
    /// density so near 1 that no length would fill them.
    ///
    /// Products are rounded as Python does, in float64 and halves to even. At a density of one half targets longer than
    /// the inputs are avoided by one token less.
    pub(crate) fn lengths(&self, inputs: u32) -> Option<SpanLengths> {
        let mut tokens = inputs.checked_sub(1).filter(|tokens| *tokens > 0)?;
        while self.inputs_and_targets(tokens + 1).0 <= u64::from(inputs) {
            tokens += 1;
            if tokens > Self::LONGEST {
                return None;
            }
        }
        let (inputs, targets) = self.inputs_and_targets(tokens);
        let hack = u32::from(self.density == 0.5 && targets > inputs);
        let targets = u32::try_from(targets).ok()?;
        Some(SpanLengths { tokens: tokens - hack, targets: targets - hack })
    }

    /// What `tokens` become, with EOS.
    fn inputs_and_targets(&self, tokens: u32) -> (u64, u64) {
        let noise = (f64::from(tokens) * self.density).round_ties_even() as u64;
        let spans = (noise as f64 / self.mean_span).round_ties_even() as u64;
        let inputs =
            u64::from(tokens).saturating_sub(noise) + spans * u64::from(self.sentinels_in_inputs) + 1;
        (inputs, noise + spans * u64::from(self.sentinels_in_targets) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t5_cuts_every_568_tokens() {
        let lengths = SpanShape::new(0.15, 3.0).lengths(512).unwrap();
        assert_eq!((lengths.tokens, lengths.targets), (568, 114));
    }

    #[test]
    fn lengths_that_cannot_be_are_none() {
        assert_eq!(SpanShape::new(0.15, 3.0).lengths(0), None);
        assert_eq!(SpanShape::new(0.15, 3.0).lengths(1), None);
        assert_eq!(SpanShape::new(1.0, 1e9).lengths(16), None);
    }
}
