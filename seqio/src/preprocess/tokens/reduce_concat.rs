//! Sequences joined one behind the other.
//!
//! ```text
//! batch_size 2    targets: [3, 9]  targets: [4]  targets: [5, 6]   ->   targets: [3, 9, 4]  targets: [5, 6]
//! ```

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::item::ItemStep;
use crate::preprocess::tokens::course::Course;
use crate::preprocess::tokens::settings::{JOINED_DOCUMENTS, default, refused};
use crate::preprocess::tokens::{Outcome, TokenStep};
use crate::preprocess::{PreprocessError, StepContext};

/// Joins the sequences of `batch_size` examples that follow each other in an epoch, and drops all other features. With
/// `split_tokens` behind it, segments are full but for the last of each batch.
///
/// Nothing is put between the sequences: end them with `append_eos` before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct ReduceConcatTokens {
    /// The feature whose sequences are joined.
    #[serde(default = "default::targets")]
    pub feature_key: String,
    /// How many sequences are joined.
    #[serde(default = "joined_documents")]
    pub batch_size: usize,
}

fn joined_documents() -> usize {
    JOINED_DOCUMENTS
}

impl Default for ReduceConcatTokens {
    fn default() -> Self {
        Self { feature_key: default::targets(), batch_size: JOINED_DOCUMENTS }
    }
}

impl TokenStep for ReduceConcatTokens {
    const NAME: &'static str = "reduce_concat_tokens";

    fn needs_lengths_of(&self, _ctx: &StepContext) -> Vec<String> {
        Vec::new()
    }

    fn outcome(&self) -> Outcome {
        Outcome::keeping([self.feature_key.as_str()])
    }

    fn check(&self, _ctx: &StepContext) -> Result<(), PreprocessError> {
        check_batch(Self::NAME, self.batch_size)
    }

    fn item_step(&self, _ctx: &StepContext) -> Result<Arc<dyn ItemStep>, PreprocessError> {
        let words = format!("{}: {} joined", self.feature_key, self.batch_size);
        Ok(Arc::new(Course::over(&self.feature_key, words).join(self.batch_size)))
    }
}

/// Refuses numbers of sequences that cannot be joined.
pub(super) fn check_batch(step: &'static str, batch_size: usize) -> Result<(), PreprocessError> {
    const MOST: usize = 1 << 20;
    if (1..=MOST).contains(&batch_size) {
        return Ok(());
    }
    Err(refused(step, format!("`batch_size` is {batch_size}; it must be from 1 to {MOST}")))
}
