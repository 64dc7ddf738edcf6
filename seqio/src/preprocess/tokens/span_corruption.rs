//! T5's objective: spans of noise go, a sentinel stands for each, and the targets are what was there.
//!
//! ```text
//! lengths inputs 512, targets 114    documents, 128 joined, cut every 568 tokens   ->
//!     inputs: 511 ids, 28 of them sentinels    targets: 113 ids, 28 of them sentinels    (each without its EOS)
//! ```

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::item::ItemStep;
use crate::objective::{ChunkRule, DenoiseFn, MaskRule, Replacements, SegmentRule, spans_that_fit};
use crate::preprocess::tokens::course::Course;
use crate::preprocess::tokens::denoise::check_made;
use crate::preprocess::tokens::denoising::Denoising;
use crate::preprocess::tokens::settings::{
    JOINED_DOCUMENTS, LONGEST_CHUNK, TARGETS, accepted, default, feature, length, percent, refused,
    same_vocabulary,
};
use crate::preprocess::tokens::{Outcome, TokenStep};
use crate::preprocess::{PreprocessError, StepContext};

/// Spans of `targets` become sentinels in `inputs`, and what stays becomes sentinels in `targets`: the objective of Raffel
/// et al. 2019. Sequences are cut so that inputs with their EOS just fill their length; targets that would be too long for
/// theirs are refused before data are read. Add `append_eos` behind it.
///
/// Of documents of over 65,536 tokens a random part is taken, another one every epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct SpanCorruption {
    /// Mean length of spans of noise.
    #[serde(default = "mean_span")]
    pub mean_noise_span_length: f64,
    /// Share of tokens that are noise.
    #[serde(default = "density")]
    pub noise_density: f64,
    /// Joins 128 documents before cutting, without anything between them, so that few inputs are shorter than they may
    /// be. Otherwise the last segment of each document is short.
    #[serde(default = "default::yes")]
    pub merge_examples_to_reduce_padding: bool,
    /// Ids of the inputs' length to leave free.
    #[serde(default)]
    pub reserved_for_packing: u32,
    /// How many of the last ids of the vocabulary may be sentinels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "its `extra_ids`"))]
    pub num_sentinels: Option<u32>,
    /// The feature that is made.
    #[serde(default = "default::inputs")]
    pub input_feature_key: String,
    /// Features that are passed on as they are; only without `merge_examples_to_reduce_padding`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-default" = "none"))]
    pub passthrough_feature_keys: Vec<String>,
}

fn mean_span() -> f64 {
    3.0
}

fn density() -> f64 {
    0.15
}

impl Default for SpanCorruption {
    fn default() -> Self {
        Self {
            mean_noise_span_length: mean_span(),
            noise_density: density(),
            merge_examples_to_reduce_padding: true,
            reserved_for_packing: 0,
            num_sentinels: None,
            input_feature_key: default::inputs(),
            passthrough_feature_keys: Vec::new(),
        }
    }
}

impl SpanCorruption {
    fn denoising(&self, ctx: &StepContext) -> Result<Denoising, PreprocessError> {
        let vocabulary = &feature(Self::NAME, ctx, TARGETS)?.vocabulary;
        let by = Replacements::new(vocabulary.as_ref(), self.num_sentinels, 0, 0.0);
        let mask = MaskRule::RandomSpans {
            density: self.noise_density,
            mean_span: self.mean_noise_span_length,
            roll: false,
        };
        let (inputs, targets) =
            (DenoiseFn::NoiseSpanToUniqueSentinel, DenoiseFn::NonnoiseSpanToUniqueSentinel);
        Ok(Denoising::new(mask, inputs, Some(targets), by))
    }
}

impl TokenStep for SpanCorruption {
    const NAME: &'static str = "span_corruption";

    fn needs_lengths_of(&self, _ctx: &StepContext) -> Vec<String> {
        vec![self.input_feature_key.clone(), TARGETS.to_owned()]
    }

    fn outcome(&self) -> Outcome {
        Outcome::keeping([TARGETS])
            .and(&self.passthrough_feature_keys)
            .making(&[self.input_feature_key.as_str()])
    }

    fn check(&self, ctx: &StepContext) -> Result<(), PreprocessError> {
        check_made(Self::NAME, &self.input_feature_key, &self.passthrough_feature_keys)?;
        same_vocabulary(Self::NAME, ctx, &self.input_feature_key, TARGETS)?;
        if self.merge_examples_to_reduce_padding && !self.passthrough_feature_keys.is_empty() {
            let problem = "`passthrough_feature_keys` cannot be passed on, since examples are joined; set \
                           `merge_examples_to_reduce_padding = false`";
            return Err(refused(Self::NAME, problem.to_owned()));
        }
        // Whether all lengths can be masked is known when the lengths are.
        accepted(Self::NAME, self.denoising(ctx)?.check(Some(1)))
    }

    fn item_step(&self, ctx: &StepContext) -> Result<Arc<dyn ItemStep>, PreprocessError> {
        let inputs =
            length(Self::NAME, ctx, &self.input_feature_key)?.saturating_sub(self.reserved_for_packing);
        let targets = length(Self::NAME, ctx, TARGETS)?;
        let segment = spans_that_fit(self.noise_density, self.mean_noise_span_length, inputs, targets)
            .map_err(|problem| refused(Self::NAME, problem))?;
        let denoising = self.denoising(ctx)?;
        accepted(Self::NAME, denoising.check(Some(segment)))?;
        let joined = if self.merge_examples_to_reduce_padding { JOINED_DOCUMENTS } else { 1 };
        let words = format!(
            "{}, {TARGETS}: {} of {segment} ids as spans of {} on average",
            self.input_feature_key,
            percent(self.noise_density),
            self.mean_noise_span_length
        );
        let course = Course::over(TARGETS, words)
            .passed(&self.passthrough_feature_keys)
            .chunk(ChunkRule::at_most(LONGEST_CHUNK))
            .join(joined)
            .segments(SegmentRule::every(segment))
            .denoise(&self.input_feature_key, denoising);
        Ok(Arc::new(course))
    }
}
