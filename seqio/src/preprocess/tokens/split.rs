//! Long sequences cut into segments.
//!
//! ```text
//! max_tokens_per_segment 4    targets: 11 ids   ->   targets: 4 ids   targets: 4 ids   targets: 3 ids
//! ```

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::item::ItemStep;
use crate::objective::SegmentRule;
use crate::preprocess::tokens::course::Course;
use crate::preprocess::tokens::settings::{INPUTS, TARGETS, accepted, default, room};
use crate::preprocess::tokens::{Outcome, TokenStep};
use crate::preprocess::{PreprocessError, StepContext};

/// Cuts every sequence into segments of `max_tokens_per_segment` ids; the last is shorter. Empty sequences are dropped, and
/// all features that are not named here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::every(512))]
pub struct SplitTokens {
    /// Length of segments.
    pub max_tokens_per_segment: u32,
    /// If set, the length is drawn for each sequence, its logarithm being uniform between those of this and of
    /// `max_tokens_per_segment`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "none: always `max_tokens_per_segment`"))]
    pub min_tokens_per_segment: Option<u32>,
    /// The feature whose sequences are cut.
    #[serde(default = "default::targets")]
    pub feature_key: String,
    /// Features of the same length, which are cut in the same places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-default" = "none"))]
    pub additional_feature_keys: Vec<String>,
    /// Features that every segment gets as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-default" = "none"))]
    pub passthrough_feature_keys: Vec<String>,
}

impl SplitTokens {
    /// Segments of so many ids of `targets`.
    pub fn every(max_tokens_per_segment: u32) -> Self {
        Self {
            max_tokens_per_segment,
            min_tokens_per_segment: None,
            feature_key: default::targets(),
            additional_feature_keys: Vec::new(),
            passthrough_feature_keys: Vec::new(),
        }
    }
}

impl TokenStep for SplitTokens {
    const NAME: &'static str = "split_tokens";

    fn needs_lengths_of(&self, _ctx: &StepContext) -> Vec<String> {
        Vec::new()
    }

    fn outcome(&self) -> Outcome {
        outcome(&self.feature_key, &self.additional_feature_keys, &self.passthrough_feature_keys)
    }

    fn check(&self, _ctx: &StepContext) -> Result<(), PreprocessError> {
        accepted(Self::NAME, self.rule().check())
    }

    fn item_step(&self, _ctx: &StepContext) -> Result<Arc<dyn ItemStep>, PreprocessError> {
        Ok(split(
            self.rule(),
            &self.feature_key,
            &self.additional_feature_keys,
            &self.passthrough_feature_keys,
        ))
    }
}

impl SplitTokens {
    fn rule(&self) -> SegmentRule {
        SegmentRule { max_tokens: self.max_tokens_per_segment, min_tokens: self.min_tokens_per_segment }
    }
}

fn outcome(feature: &str, additional: &[String], passthrough: &[String]) -> Outcome {
    Outcome::keeping([feature]).and(additional).and(passthrough)
}

fn split(
    rule: SegmentRule,
    feature: &str,
    additional: &[String],
    passthrough: &[String],
) -> Arc<dyn ItemStep> {
    let words = match rule.min_tokens {
        None => format!("{feature}: segments of {}", rule.max_tokens),
        Some(least) => format!("{feature}: segments of {least} to {}", rule.max_tokens),
    };
    Arc::new(Course::over(feature, words).aligned(additional).passed(passthrough).segments(rule))
}

/// Declares a step that cuts to the length of a feature.
macro_rules! split_to_length {
    ($(#[$doc:meta])* $step:ident, $name:literal, $of:ident, $least:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        #[schemars(example = Self::default())]
        pub struct $step {
            /// The feature whose sequences are cut.
            #[serde(default = "default::targets")]
            pub feature_key: String,
            /// Features of the same length, which are cut in the same places.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            #[schemars(extend("x-default" = "none"))]
            pub additional_feature_keys: Vec<String>,
            /// Features that every segment gets as they are.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            #[schemars(extend("x-default" = "none"))]
            pub passthrough_feature_keys: Vec<String>,
        }

        impl Default for $step {
            fn default() -> Self {
                Self {
                    feature_key: default::targets(),
                    additional_feature_keys: Vec::new(),
                    passthrough_feature_keys: Vec::new(),
                }
            }
        }

        impl TokenStep for $step {
            const NAME: &'static str = $name;

            fn needs_lengths_of(&self, _ctx: &StepContext) -> Vec<String> {
                vec![$of.to_owned()]
            }

            fn outcome(&self) -> Outcome {
                outcome(&self.feature_key, &self.additional_feature_keys, &self.passthrough_feature_keys)
            }

            fn check(&self, _ctx: &StepContext) -> Result<(), PreprocessError> {
                Ok(())
            }

            fn item_step(&self, ctx: &StepContext) -> Result<Arc<dyn ItemStep>, PreprocessError> {
                let rule = SegmentRule { max_tokens: room(Self::NAME, ctx, $of)?, min_tokens: $least };
                accepted(Self::NAME, rule.check())?;
                Ok(split(rule, &self.feature_key, &self.additional_feature_keys, &self.passthrough_feature_keys))
            }
        }
    };
}

split_to_length! {
    /// Cuts every sequence into segments as long as `inputs`, less one if these have `add_eos`; otherwise as `split_tokens`.
    SplitTokensToInputsLength, "split_tokens_to_inputs_length", INPUTS, None
}

split_to_length! {
    /// Cuts every sequence into segments as long as `targets`, less one if these have `add_eos`; otherwise as
    /// `split_tokens`.
    SplitTokensToTargetsLength, "split_tokens_to_targets_length", TARGETS, None
}

split_to_length! {
    /// Cuts every sequence into segments of one length, drawn for each sequence: its logarithm is uniform from that of 8 to
    /// that of the length of `inputs`, less one if these have `add_eos`.
    SplitTokensToRandomLength, "split_tokens_to_random_length", INPUTS, Some(8)
}
