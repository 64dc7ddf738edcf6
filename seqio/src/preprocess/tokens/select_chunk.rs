//! A random part of each sequence that is too long.
//!
//! ```text
//! max_length 5    targets: 23 ids   ->   targets: one of 0..5, 5..10, 10..15, 15..20, 20..23
//! ```

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::item::ItemStep;
use crate::objective::ChunkRule;
use crate::preprocess::tokens::course::Course;
use crate::preprocess::tokens::settings::{accepted, default, room};
use crate::preprocess::tokens::{Outcome, TokenStep};
use crate::preprocess::{PreprocessError, StepContext};

/// Of a sequence that is longer than `max_length` it takes a random part, another one every epoch, so that every token is
/// as likely to be seen as any other. Empty sequences are dropped, and all features that are not named here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::at_most(65_536))]
pub struct SelectRandomChunk {
    /// Greatest length of the part.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "the feature's length, less one if it has `add_eos`"))]
    pub max_length: Option<u32>,
    /// If set, the greatest length is drawn for each sequence, from this to `max_length`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "none: always `max_length`"))]
    pub min_length: Option<u32>,
    /// The part may begin anywhere, even before the sequence, so that parts at its ends are shorter. Otherwise it begins at
    /// a multiple of its length.
    #[serde(default)]
    pub uniform_random_start: bool,
    /// The feature whose sequences are cut.
    #[serde(default = "default::targets")]
    pub feature_key: String,
    /// Features of the same length, of which the same part is taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-default" = "none"))]
    pub additional_feature_keys: Vec<String>,
    /// Features that are passed on as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-default" = "none"))]
    pub passthrough_feature_keys: Vec<String>,
}

impl SelectRandomChunk {
    /// Parts of at most `max_length` ids of `targets`.
    pub fn at_most(max_length: u32) -> Self {
        Self {
            max_length: Some(max_length),
            min_length: None,
            uniform_random_start: false,
            feature_key: default::targets(),
            additional_feature_keys: Vec::new(),
            passthrough_feature_keys: Vec::new(),
        }
    }

    fn rule(&self, max_length: u32) -> ChunkRule {
        let Self { min_length, uniform_random_start, .. } = *self;
        ChunkRule { max_length, min_length, uniform_random_start }
    }
}

impl TokenStep for SelectRandomChunk {
    const NAME: &'static str = "select_random_chunk";

    fn needs_lengths_of(&self, _ctx: &StepContext) -> Vec<String> {
        if self.max_length.is_some() { Vec::new() } else { vec![self.feature_key.clone()] }
    }

    fn outcome(&self) -> Outcome {
        Outcome::keeping([self.feature_key.as_str()])
            .and(&self.additional_feature_keys)
            .and(&self.passthrough_feature_keys)
    }

    fn check(&self, _ctx: &StepContext) -> Result<(), PreprocessError> {
        let max_length = self.max_length.unwrap_or(u32::MAX);
        accepted(Self::NAME, self.rule(max_length).check())
    }

    fn item_step(&self, ctx: &StepContext) -> Result<Arc<dyn ItemStep>, PreprocessError> {
        let max_length = self.max_length.map_or_else(|| room(Self::NAME, ctx, &self.feature_key), Ok)?;
        let rule = self.rule(max_length);
        accepted(Self::NAME, rule.check())?;
        let words = format!("{}: a random part of at most {max_length}", self.feature_key);
        let course = Course::over(&self.feature_key, words)
            .aligned(&self.additional_feature_keys)
            .passed(&self.passthrough_feature_keys)
            .chunk(rule);
        Ok(Arc::new(course))
    }
}
