//! Inputs and targets made of `targets` under a noise mask of one's choice.
//!
//! ```text
//! targets: [10, 11, 12, 13, 14]    mask . x x . .
//!    ->   inputs: [10, 99, 13, 14]    targets: [99, 11, 12, 98]
//! ```

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::item::ItemStep;
use crate::objective::{DenoiseFn, MaskRule, Replacements};
use crate::preprocess::tokens::course::Course;
use crate::preprocess::tokens::denoising::Denoising;
use crate::preprocess::tokens::noise_mask_fn::NoiseMaskFn;
use crate::preprocess::tokens::settings::{
    TARGETS, accepted, default, feature, percent, refused, same_vocabulary,
};
use crate::preprocess::tokens::{Outcome, TokenStep};
use crate::preprocess::{PreprocessError, StepContext};

/// Some tokens of `targets` become noise, others every epoch; `inputs` and `targets` are made of the sequence and its mask,
/// by functions named as T5's. All features that are not named here are dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::spans())]
pub struct Denoise {
    /// Share of tokens that are noise.
    pub noise_density: f64,
    /// Which tokens are noise.
    pub noise_mask_fn: NoiseMaskFn,
    /// What `inputs` become.
    pub inputs_fn: DenoiseFn,
    /// What `targets` become.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "the sequence as it was"))]
    pub targets_fn: Option<DenoiseFn>,
    /// Mean length of spans of noise, for `random_spans_noise_mask`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 3.0))]
    pub mean_noise_span_length: Option<f64>,
    /// Turns the mask by a random number of places, for `random_spans_noise_mask`: otherwise no sequence begins with noise,
    /// and all end with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub random_roll: Option<bool>,
    /// Least length of spans, for `regular_noise_mask`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 1))]
    pub min_span_length: Option<u32>,
    /// Greatest length of spans, for `regular_noise_mask`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 5))]
    pub max_span_length: Option<u32>,
    /// The first ids of the vocabulary that no random token is, for functions that put random tokens.
    #[serde(default = "reserved")]
    pub num_reserved_tokens: u32,
    /// Probability of a random token, for `noise_token_to_random_token_or_sentinel`.
    #[serde(default = "tenth")]
    pub random_prob: f64,
    /// How many of the last ids of the vocabulary may be sentinels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "its `extra_ids`"))]
    pub num_sentinels: Option<u32>,
    /// The feature that is made.
    #[serde(default = "default::inputs")]
    pub input_feature_key: String,
    /// Features that are passed on as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-default" = "none"))]
    pub passthrough_feature_keys: Vec<String>,
}

fn reserved() -> u32 {
    3
}

fn tenth() -> f64 {
    0.1
}

impl Denoise {
    /// A mask, and what inputs and targets become.
    pub fn new(
        noise_density: f64,
        noise_mask_fn: NoiseMaskFn,
        inputs_fn: DenoiseFn,
        targets_fn: Option<DenoiseFn>,
    ) -> Self {
        Self {
            noise_density,
            noise_mask_fn,
            inputs_fn,
            targets_fn,
            mean_noise_span_length: None,
            random_roll: None,
            min_span_length: None,
            max_span_length: None,
            num_reserved_tokens: reserved(),
            random_prob: tenth(),
            num_sentinels: None,
            input_feature_key: default::inputs(),
            passthrough_feature_keys: Vec::new(),
        }
    }

    /// T5's spans behind sentinels.
    pub fn spans() -> Self {
        let targets = DenoiseFn::NonnoiseSpanToUniqueSentinel;
        let mask = NoiseMaskFn::RandomSpansNoiseMask;
        Self::new(0.15, mask, DenoiseFn::NoiseSpanToUniqueSentinel, Some(targets))
    }

    fn mask(&self) -> MaskRule {
        let density = self.noise_density;
        match self.noise_mask_fn {
            NoiseMaskFn::RandomSpansNoiseMask => MaskRule::RandomSpans {
                density,
                mean_span: self.mean_noise_span_length.unwrap_or(3.0),
                roll: self.random_roll.unwrap_or(false),
            },
            NoiseMaskFn::IidNoiseMask => MaskRule::Iid { density },
            NoiseMaskFn::RegularNoiseMask => MaskRule::Regular {
                density,
                min_span: self.min_span_length.unwrap_or(1),
                max_span: self.max_span_length.unwrap_or(5),
            },
            NoiseMaskFn::RandomPrefixNoiseMask => MaskRule::RandomPrefix { density },
        }
    }

    /// Settings of another mask than the one that is asked for.
    fn check_unused(&self) -> Result<(), PreprocessError> {
        let spans = self.noise_mask_fn == NoiseMaskFn::RandomSpansNoiseMask;
        let regular = self.noise_mask_fn == NoiseMaskFn::RegularNoiseMask;
        let settings = [
            (
                "mean_noise_span_length",
                self.mean_noise_span_length.is_some(),
                spans,
                "random_spans_noise_mask",
            ),
            ("random_roll", self.random_roll.is_some(), spans, "random_spans_noise_mask"),
            ("min_span_length", self.min_span_length.is_some(), regular, "regular_noise_mask"),
            ("max_span_length", self.max_span_length.is_some(), regular, "regular_noise_mask"),
        ];
        match settings.iter().find(|(_, given, used, _)| *given && !used) {
            None => Ok(()),
            Some((name, _, _, mask)) => {
                let problem =
                    format!("`{name}` is a setting of `{mask}` and would have no effect; leave it out");
                Err(refused(Self::NAME, problem))
            }
        }
    }

    fn denoising(&self, ctx: &StepContext) -> Result<Denoising, PreprocessError> {
        let vocabulary = &feature(Self::NAME, ctx, TARGETS)?.vocabulary;
        let by = Replacements::new(
            vocabulary.as_ref(),
            self.num_sentinels,
            self.num_reserved_tokens,
            self.random_prob,
        );
        Ok(Denoising::new(self.mask(), self.inputs_fn, self.targets_fn, by))
    }
}

impl TokenStep for Denoise {
    const NAME: &'static str = "denoise";

    fn needs_lengths_of(&self, _ctx: &StepContext) -> Vec<String> {
        Vec::new()
    }

    fn outcome(&self) -> Outcome {
        Outcome::keeping([TARGETS])
            .and(&self.passthrough_feature_keys)
            .making(&[self.input_feature_key.as_str()])
    }

    fn check(&self, ctx: &StepContext) -> Result<(), PreprocessError> {
        check_made(Self::NAME, &self.input_feature_key, &self.passthrough_feature_keys)?;
        same_vocabulary(Self::NAME, ctx, &self.input_feature_key, TARGETS)?;
        self.check_unused()?;
        accepted(Self::NAME, self.denoising(ctx)?.check(None))
    }

    fn item_step(&self, ctx: &StepContext) -> Result<Arc<dyn ItemStep>, PreprocessError> {
        let words = format!(
            "{}, {TARGETS}: denoising, {} noise",
            self.input_feature_key,
            percent(self.noise_density)
        );
        let course = Course::over(TARGETS, words)
            .passed(&self.passthrough_feature_keys)
            .denoise(&self.input_feature_key, self.denoising(ctx)?);
        Ok(Arc::new(course))
    }
}

/// Refuses to pass on what is made, and inputs that would take the place of the targets.
pub(super) fn check_made(
    step: &'static str,
    made: &str,
    passthrough: &[String],
) -> Result<(), PreprocessError> {
    if made == TARGETS {
        return Err(refused(
            step,
            format!("inputs cannot be called `{TARGETS}`; that is what they are made of"),
        ));
    }
    match passthrough.iter().find(|name| *name == made || *name == TARGETS) {
        None => Ok(()),
        Some(name) => {
            let problem = format!(
                "`{name}` cannot be passed on: the step makes it; leave it out of `passthrough_feature_keys`"
            );
            Err(refused(step, problem))
        }
    }
}
