//! T5's first objective: tokens are noise one by one, and neighbours share a sentinel.
//!
//! ```text
//! targets: 10 11 12 13 14 15    mask . x . . x x    ->   inputs: 10 99 12 13 98    targets: 99 11 98 14 15
//! ```

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::item::ItemStep;
use crate::objective::{ChunkRule, DenoiseFn, MaskRule, Replacements, SegmentRule};
use crate::preprocess::tokens::course::Course;
use crate::preprocess::tokens::denoising::Denoising;
use crate::preprocess::tokens::settings::{
    INPUTS, JOINED_DOCUMENTS, LONGEST_CHUNK, TARGETS, accepted, feature, percent, room, same_vocabulary,
};
use crate::preprocess::tokens::{Outcome, TokenStep};
use crate::preprocess::{PreprocessError, StepContext};

/// 15 % of the tokens are noise, each by itself; otherwise as `span_corruption`. Documents are joined, 128 at a time, and
/// cut into segments as long as `inputs`, less one if these have `add_eos`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct IidDenoising {
    /// Share of tokens that are noise.
    #[serde(default = "density")]
    pub noise_density: f64,
    /// How many of the last ids of the vocabulary may be sentinels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "its `extra_ids`"))]
    pub num_sentinels: Option<u32>,
}

fn density() -> f64 {
    0.15
}

impl Default for IidDenoising {
    fn default() -> Self {
        Self { noise_density: density(), num_sentinels: None }
    }
}

impl IidDenoising {
    fn denoising(&self, ctx: &StepContext) -> Result<Denoising, PreprocessError> {
        let vocabulary = &feature(Self::NAME, ctx, TARGETS)?.vocabulary;
        let by = Replacements::new(vocabulary.as_ref(), self.num_sentinels, 0, 0.0);
        let mask = MaskRule::Iid { density: self.noise_density };
        let (inputs, targets) =
            (DenoiseFn::NoiseSpanToUniqueSentinel, DenoiseFn::NonnoiseSpanToUniqueSentinel);
        Ok(Denoising::new(mask, inputs, Some(targets), by))
    }
}

impl TokenStep for IidDenoising {
    const NAME: &'static str = "iid_denoising";

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
        let words =
            format!("{INPUTS}, {TARGETS}: {} of {segment} ids, each by itself", percent(self.noise_density));
        let course = Course::over(TARGETS, words)
            .chunk(ChunkRule::at_most(LONGEST_CHUNK))
            .join(JOINED_DOCUMENTS)
            .segments(SegmentRule::every(segment))
            .denoise(INPUTS, self.denoising(ctx)?);
        Ok(Arc::new(course))
    }
}
