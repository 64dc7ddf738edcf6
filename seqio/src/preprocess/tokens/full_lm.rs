//! Whole texts as targets: documents ended with EOS, joined, and cut where rows are full.
//!
//! ```text
//! length 4    targets: [5, 6, 7]   targets: [8, 9]   ->   targets: [5, 6, 7, 1]   targets: [8, 9, 1]
//! ```

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::item::ItemStep;
use crate::objective::{ChunkRule, SegmentRule};
use crate::preprocess::tokens::course::Course;
use crate::preprocess::tokens::settings::{
    JOINED_DOCUMENTS, LONGEST_CHUNK, TARGETS, feature, length, refused,
};
use crate::preprocess::tokens::{Outcome, TokenStep};
use crate::preprocess::{PreprocessError, StepContext};

/// Ends documents with EOS if `targets` have `add_eos`, joins 128 at a time, and cuts them into segments as long as
/// `targets`: EOS stands at the ends of documents alone. Do not add `append_eos` behind it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self {})]
pub struct FullLm {}

/// As `full_lm`, but the last segment of each batch of documents is filled up with 0: what `pack_prefix_lm_encoder_decoder`
/// and `pack_prefix_lm_decoder_only` need.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self {})]
pub struct TargetsForPrefixLmObjective {}

/// The id at the ends of documents, if they have one.
fn end(step: &'static str, ctx: &StepContext) -> Result<Option<i32>, PreprocessError> {
    let targets = feature(step, ctx, TARGETS)?;
    match targets.vocabulary.special_ids().eos {
        None if targets.add_eos => {
            let name = &targets.vocabulary_name;
            let problem = format!(
                "feature `{TARGETS}` asks for an EOS, but vocabulary `{name}` has none; set `eos` in \
                 `[vocabulary.{name}]`, or `add_eos = false` for the feature"
            );
            Err(refused(step, problem))
        }
        eos => Ok(eos.filter(|_| targets.add_eos)),
    }
}

fn course(step: &'static str, ctx: &StepContext) -> Result<(Course, u32), PreprocessError> {
    let segment = length(step, ctx, TARGETS)?;
    if segment == 0 {
        return Err(refused(step, format!("the length of `{TARGETS}` is 0: there is no room for a token")));
    }
    let words = format!("{TARGETS}: {JOINED_DOCUMENTS} joined, segments of {segment}");
    let course = Course::over(TARGETS, words)
        .chunk(ChunkRule::at_most(LONGEST_CHUNK))
        .end(end(step, ctx)?)
        .join(JOINED_DOCUMENTS)
        .segments(SegmentRule::every(segment));
    Ok((course, segment))
}

impl TokenStep for FullLm {
    const NAME: &'static str = "full_lm";

    fn needs_lengths_of(&self, _ctx: &StepContext) -> Vec<String> {
        vec![TARGETS.to_owned()]
    }

    fn outcome(&self) -> Outcome {
        Outcome::keeping([TARGETS])
    }

    fn check(&self, ctx: &StepContext) -> Result<(), PreprocessError> {
        end(Self::NAME, ctx).map(|_| ())
    }

    fn item_step(&self, ctx: &StepContext) -> Result<Arc<dyn ItemStep>, PreprocessError> {
        Ok(Arc::new(course(Self::NAME, ctx)?.0))
    }
}

impl TokenStep for TargetsForPrefixLmObjective {
    const NAME: &'static str = "targets_for_prefix_lm_objective";

    fn needs_lengths_of(&self, _ctx: &StepContext) -> Vec<String> {
        vec![TARGETS.to_owned()]
    }

    fn outcome(&self) -> Outcome {
        Outcome::keeping([TARGETS])
    }

    fn check(&self, ctx: &StepContext) -> Result<(), PreprocessError> {
        end(Self::NAME, ctx).map(|_| ())
    }

    fn item_step(&self, ctx: &StepContext) -> Result<Arc<dyn ItemStep>, PreprocessError> {
        let (course, segment) = course(Self::NAME, ctx)?;
        Ok(Arc::new(course.pad(segment, 0)))
    }
}
