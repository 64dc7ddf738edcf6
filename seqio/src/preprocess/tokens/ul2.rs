//! UL2's mixture of denoisers (Tay et al. 2022, arXiv 2205.05131).
//!
//! ```text
//! targets: documents   ->   inputs: [R] 10 11 99 14    targets: 99 12 13        short spans
//!                           inputs: [S] 10 11 12       targets: 13 14 15        the rest of a text
//!                           inputs: [X] 99 16 98       targets: 99 10 ... 15    long spans, or many
//! ```

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::item::ItemStep;
use crate::objective::{ChunkRule, Denoiser, Denoisers, Replacements};
use crate::preprocess::tokens::course::Course;
use crate::preprocess::tokens::denoise::check_made;
use crate::preprocess::tokens::denoising::Denoising;
use crate::preprocess::tokens::settings::{
    JOINED_DOCUMENTS, LONGEST_CHUNK, TARGETS, default, feature, length, refused, same_vocabulary,
};
use crate::preprocess::tokens::{Outcome, TokenStep};
use crate::preprocess::{PreprocessError, StepContext};

/// Cuts documents into segments, draws a denoiser for each, and makes `inputs` and `targets` of it. Segments are as long as
/// their denoiser can take, so that inputs just fill their length, with their mode in front and their EOS. What would be
/// too long for `targets` is refused before data are read. Add `append_eos` behind it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct Ul2 {
    /// The denoisers.
    #[serde(default = "paper", skip_serializing_if = "is_paper")]
    #[schemars(extend("x-default" = "the paper's seven: R with spans of 3 and 8 at density 0.15; S; X with spans of 3, 8 \
                                     and 64 at density 0.5 and of 64 at 0.15; their modes `[R]`, `[S]` and `[X]`"))]
    #[schemars(example = vec![Ul2Denoiser::spans("[R]", 3.0, 0.15), Ul2Denoiser::prefix("[S]", 0.25)])]
    pub denoisers: Vec<Ul2Denoiser>,
    /// Joins 128 documents before cutting, without anything between them.
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
}

/// One denoiser of `ul2`: spans of noise, or, without `mean_noise_span_length`, a prefix and the rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::spans("[R]", 3.0, 0.15))]
pub struct Ul2Denoiser {
    /// The text in front of the inputs, encoded by the vocabulary.
    #[schemars(example = "[R]")]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("x-default" = "none"))]
    pub mode: String,
    /// Ids in front of the inputs, instead of `mode`.
    #[schemars(example = [32_096])]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-default" = "none"))]
    pub mode_ids: Vec<i32>,
    /// Mean length of spans of noise; without it the targets are what follows a prefix of random length.
    #[schemars(example = 3.0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "none: a prefix"))]
    pub mean_noise_span_length: Option<f64>,
    /// Share of tokens that are noise, or that are behind the prefix on average.
    #[schemars(example = 0.15)]
    pub noise_density: f64,
    /// How often it is drawn, against the others.
    #[schemars(example = 2.0)]
    #[serde(default = "one")]
    pub weight: f64,
}

fn one() -> f64 {
    1.0
}

impl Ul2Denoiser {
    /// Spans of noise.
    pub fn spans(mode: &str, mean_noise_span_length: f64, noise_density: f64) -> Self {
        Self { mean_noise_span_length: Some(mean_noise_span_length), ..Self::prefix(mode, noise_density) }
    }

    /// A prefix and the rest.
    pub fn prefix(mode: &str, noise_density: f64) -> Self {
        Self {
            mode: mode.to_owned(),
            mode_ids: Vec::new(),
            mean_noise_span_length: None,
            noise_density,
            weight: one(),
        }
    }
}

/// The denoisers of the paper's table 1.
fn paper() -> Vec<Ul2Denoiser> {
    vec![
        Ul2Denoiser::spans("[R]", 3.0, 0.15),
        Ul2Denoiser::spans("[R]", 8.0, 0.15),
        Ul2Denoiser::prefix("[S]", 0.25),
        Ul2Denoiser::spans("[X]", 3.0, 0.5),
        Ul2Denoiser::spans("[X]", 8.0, 0.5),
        Ul2Denoiser::spans("[X]", 64.0, 0.15),
        Ul2Denoiser::spans("[X]", 64.0, 0.5),
    ]
}

fn is_paper(denoisers: &[Ul2Denoiser]) -> bool {
    *denoisers == *paper()
}

impl Default for Ul2 {
    fn default() -> Self {
        Self {
            denoisers: paper(),
            merge_examples_to_reduce_padding: true,
            reserved_for_packing: 0,
            num_sentinels: None,
            input_feature_key: default::inputs(),
        }
    }
}

impl Ul2 {
    /// The denoisers for inputs and targets of these lengths.
    fn denoisers(
        &self,
        ctx: &StepContext,
        inputs: u32,
        targets: u32,
    ) -> Result<(Denoisers, Vec<Denoising>), PreprocessError> {
        let vocabulary = &feature(Self::NAME, ctx, TARGETS)?.vocabulary;
        let by = Replacements::new(vocabulary.as_ref(), self.num_sentinels, 0, 0.0);
        let mut list = Vec::new();
        let mut denoising = Vec::new();
        for (index, settings) in self.denoisers.iter().enumerate() {
            let wrong = |problem: String| {
                refused(Self::NAME, format!("denoiser {} of {}: {problem}", index + 1, self.denoisers.len()))
            };
            let mode = self.mode(ctx, settings).map_err(wrong)?;
            let Ul2Denoiser { noise_density, mean_noise_span_length, weight, .. } = *settings;
            let mode_length = u32::try_from(mode.len()).unwrap_or(u32::MAX);
            let denoiser =
                Denoiser::new(noise_density, mean_noise_span_length, mode_length, weight, inputs, targets)
                    .map_err(wrong)?;
            let (inputs_fn, targets_fn) = denoiser.functions();
            let made = Denoising::new(denoiser.mask, inputs_fn, Some(targets_fn), by.clone()).mode(mode);
            made.check(Some(denoiser.max_tokens)).map_err(wrong)?;
            list.push(denoiser);
            denoising.push(made);
        }
        let none = "no denoiser would ever be drawn; give `denoisers` at least one with a `weight` above 0";
        let denoisers = Denoisers::new(list).ok_or_else(|| refused(Self::NAME, none.to_owned()))?;
        Ok((denoisers, denoising))
    }

    fn mode(&self, ctx: &StepContext, settings: &Ul2Denoiser) -> Result<Vec<i32>, String> {
        let targets = feature(Self::NAME, ctx, TARGETS).map_err(|error| error.to_string())?;
        let size = targets.vocabulary.vocab_size();
        if let Some(id) = settings.mode_ids.iter().find(|id| !usize::try_from(**id).is_ok_and(|id| id < size))
        {
            return Err(format!(
                "`mode_ids` has {id}, but ids of the vocabulary are 0 to {}",
                size.saturating_sub(1)
            ));
        }
        if !settings.mode_ids.is_empty() {
            return Ok(settings.mode_ids.clone());
        }
        let mut ids = Vec::new();
        let encoded = targets.vocabulary.encode_into(&settings.mode, &mut ids);
        match encoded {
            _ if settings.mode.is_empty() => Ok(Vec::new()),
            Ok(_) => Ok(ids),
            Err(error) => {
                let name = &targets.vocabulary_name;
                Err(format!("vocabulary `{name}` cannot encode its mode ({error}); give ids with `mode_ids`"))
            }
        }
    }
}

impl TokenStep for Ul2 {
    const NAME: &'static str = "ul2";

    fn needs_lengths_of(&self, _ctx: &StepContext) -> Vec<String> {
        vec![self.input_feature_key.clone(), TARGETS.to_owned()]
    }

    fn outcome(&self) -> Outcome {
        Outcome::keeping([TARGETS]).making(&[self.input_feature_key.as_str()])
    }

    fn check(&self, ctx: &StepContext) -> Result<(), PreprocessError> {
        check_made(Self::NAME, &self.input_feature_key, &[])?;
        same_vocabulary(Self::NAME, ctx, &self.input_feature_key, TARGETS)?;
        for settings in &self.denoisers {
            self.mode(ctx, settings).map_err(|problem| refused(Self::NAME, problem))?;
        }
        Ok(())
    }

    fn item_step(&self, ctx: &StepContext) -> Result<Arc<dyn ItemStep>, PreprocessError> {
        let inputs =
            length(Self::NAME, ctx, &self.input_feature_key)?.saturating_sub(self.reserved_for_packing);
        let targets = length(Self::NAME, ctx, TARGETS)?;
        let (denoisers, denoising) = self.denoisers(ctx, inputs, targets)?;
        let joined = if self.merge_examples_to_reduce_padding { JOINED_DOCUMENTS } else { 1 };
        let words =
            format!("{}, {TARGETS}: one of {} denoisers a segment", self.input_feature_key, denoising.len());
        let course = Course::over(TARGETS, words)
            .chunk(ChunkRule::at_most(LONGEST_CHUNK))
            .join(joined)
            .choose(&self.input_feature_key, denoisers, denoising);
        Ok(Arc::new(course))
    }
}
