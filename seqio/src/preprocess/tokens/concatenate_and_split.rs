//! Sequences joined and cut again, so that all rows are full.
//!
//! ```text
//! length 6, with EOS    targets: 7 ids   targets: 5 ids   ->   targets: 5 ids   targets: 5 ids   targets: 2 ids
//! ```

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::item::ItemStep;
use crate::objective::SegmentRule;
use crate::preprocess::tokens::course::Course;
use crate::preprocess::tokens::reduce_concat::check_batch;
use crate::preprocess::tokens::settings::{default, room};
use crate::preprocess::tokens::{Outcome, TokenStep};
use crate::preprocess::{PreprocessError, StepContext};

/// Joins the sequences of many examples and cuts them into segments as long as the feature, less one if it has `add_eos`.
/// All other features are dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct ConcatenateAndSplitToFixedLength {
    /// The feature whose sequences are joined and cut.
    #[serde(default = "default::targets")]
    pub feature_key: String,
    /// How many sequences are joined. Behind so many there may be one segment that is not full.
    #[serde(default = "joined")]
    pub batch_size: usize,
}

fn joined() -> usize {
    4096
}

impl Default for ConcatenateAndSplitToFixedLength {
    fn default() -> Self {
        Self { feature_key: default::targets(), batch_size: joined() }
    }
}

impl TokenStep for ConcatenateAndSplitToFixedLength {
    const NAME: &'static str = "concatenate_and_split_to_fixed_length";

    fn needs_lengths_of(&self, _ctx: &StepContext) -> Vec<String> {
        vec![self.feature_key.clone()]
    }

    fn outcome(&self) -> Outcome {
        Outcome::keeping([self.feature_key.as_str()])
    }

    fn check(&self, _ctx: &StepContext) -> Result<(), PreprocessError> {
        check_batch(Self::NAME, self.batch_size)
    }

    fn item_step(&self, ctx: &StepContext) -> Result<Arc<dyn ItemStep>, PreprocessError> {
        let rule = SegmentRule::every(room(Self::NAME, ctx, &self.feature_key)?);
        let words =
            format!("{}: {} joined, segments of {}", self.feature_key, self.batch_size, rule.max_tokens);
        Ok(Arc::new(Course::over(&self.feature_key, words).join(self.batch_size).segments(rule)))
    }
}
