//! A text cut in two at random: the beginning is given, the rest is asked for.
//!
//! ```text
//! targets: [10, 11, 12, 13, 14]   ->   inputs: [10, 11, 12]   targets: [13, 14]
//! ```

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::item::ItemStep;
use crate::objective::{ChunkRule, DenoiseFn, MaskRule, Replacements, SegmentRule};
use crate::preprocess::tokens::course::Course;
use crate::preprocess::tokens::denoising::Denoising;
use crate::preprocess::tokens::settings::{
    INPUTS, LONGEST_CHUNK, TARGETS, accepted, feature, room, same_vocabulary,
};
use crate::preprocess::tokens::{Outcome, TokenStep};
use crate::preprocess::{PreprocessError, StepContext};

/// Cuts documents into segments as long as `inputs`, less one if these have `add_eos`, and each segment in two: a prefix of
/// random length becomes `inputs`, the rest `targets`. The prefix of a segment of one token is empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct PrefixLm {
    /// Share of a segment, on average, that is not prefix; at most 0.5. At 0.5 every prefix is as likely as any other;
    /// with less, short prefixes do not occur.
    #[serde(default = "half")]
    pub noise_density: f64,
}

fn half() -> f64 {
    0.5
}

impl Default for PrefixLm {
    fn default() -> Self {
        Self { noise_density: half() }
    }
}

impl PrefixLm {
    fn denoising(&self, ctx: &StepContext) -> Result<Denoising, PreprocessError> {
        let vocabulary = &feature(Self::NAME, ctx, TARGETS)?.vocabulary;
        let mask = MaskRule::RandomPrefix { density: self.noise_density };
        let by = Replacements::new(vocabulary.as_ref(), None, 0, 0.0);
        Ok(Denoising::new(mask, DenoiseFn::DropNonnoiseTokens, Some(DenoiseFn::DropNoiseTokens), by))
    }
}

impl TokenStep for PrefixLm {
    const NAME: &'static str = "prefix_lm";

    fn needs_lengths_of(&self, _ctx: &StepContext) -> Vec<String> {
        vec![INPUTS.to_owned()]
    }

    fn outcome(&self) -> Outcome {
        Outcome::keeping([TARGETS]).making(&[INPUTS])
    }

    fn check(&self, ctx: &StepContext) -> Result<(), PreprocessError> {
        same_vocabulary(Self::NAME, ctx, INPUTS, TARGETS)?;
        accepted(Self::NAME, self.denoising(ctx)?.check(None))
    }

    fn item_step(&self, ctx: &StepContext) -> Result<Arc<dyn ItemStep>, PreprocessError> {
        let segment = room(Self::NAME, ctx, INPUTS)?;
        let words = format!("{INPUTS}, {TARGETS}: {segment} ids cut in two");
        let course = Course::over(TARGETS, words)
            .chunk(ChunkRule::at_most(LONGEST_CHUNK))
            .segments(SegmentRule::every(segment))
            .denoise(INPUTS, self.denoising(ctx)?);
        Ok(Arc::new(course))
    }
}
