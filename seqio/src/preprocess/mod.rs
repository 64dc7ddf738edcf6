//! Steps from examples to examples: the trait, the table, the errors.

use std::fmt::Debug;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;

use crate::example::Examples;
use crate::feature::{FeatureLengths, Features};
use crate::text::quoted;
use crate::vocabulary::VocabularyError;

/// What a step may know besides its examples.
#[derive(Clone, Debug, Default)]
pub struct StepContext {
    /// The task's output features.
    pub output_features: Features,
    /// Lengths that hold at this place: the task's own above the boundary, the run's below; empty if none are set.
    pub lengths: FeatureLengths,
}

/// A change to one token sequence that needs no look at its ids, so that packing can be planned from lengths alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenEdit {
    /// Keeps the first ids.
    Trim {
        /// How many.
        max_length: usize,
    },
    /// Appends one id.
    Append {
        /// The id.
        id: i32,
    },
}

/// One pure step from examples to examples.
///
/// Laws, checked for every step by `testing::assert_step_laws`: the result has exactly `output_schema`; it depends on
/// nothing but the examples, their ids and `ctx`; and rows in another order or another cut give the same result for
/// each id.
pub trait Preprocessor: Debug + Send + Sync {
    /// The step's name in task files, plans and errors.
    fn name(&self) -> &'static str;

    /// Counts up when the step's results change, so that caches made before are not taken for new ones.
    fn version(&self) -> u32 {
        1
    }

    /// Whether results depend on `ctx.lengths`: such steps belong below the cache boundary.
    fn needs_lengths(&self) -> bool {
        false
    }

    /// The columns `apply` will return, or why it cannot run, before any data is read.
    fn output_schema(&self, input: &SchemaRef, ctx: &StepContext) -> Result<SchemaRef, PreprocessError>;

    /// Transforms one chunk of examples.
    fn apply(&self, examples: Examples, ctx: &StepContext) -> Result<Examples, PreprocessError>;

    /// The step as edits of the sequences of `feature`, in order, if that is all it does: only such steps may stand
    /// below the cache boundary.
    fn token_edits(&self, _feature: &str, _ctx: &StepContext) -> Option<Vec<TokenEdit>> {
        None
    }
}

/// Why a step refused its input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PreprocessError {
    /// A column that the step needs is not there.
    #[error("step `{step}` needs {what} `{name}`, but the examples have only {}", quoted(found))]
    Missing {
        /// The step.
        step: &'static str,
        /// `feature` or `column`.
        what: &'static str,
        /// The name looked for.
        name: String,
        /// The columns there are.
        found: Vec<String>,
    },
    /// A column has another type than the step works on.
    #[error("step `{step}` needs `{column}` to be {expected}, but it is {found}")]
    WrongType {
        /// The step.
        step: &'static str,
        /// The column.
        column: String,
        /// What it would have to be.
        expected: &'static str,
        /// What it is.
        found: DataType,
    },
    /// The step's settings or place make no sense.
    #[error("step `{step}`: {problem}")]
    Setting {
        /// The step.
        step: &'static str,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A vocabulary could not encode a text.
    #[error("step `{step}`, feature `{feature}`: {error}")]
    Vocabulary {
        /// The step.
        step: &'static str,
        /// The feature.
        feature: String,
        /// Why.
        #[source]
        error: VocabularyError,
    },
    /// Arrow refused a batch.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

impl PreprocessError {
    /// A missing column, with what was there instead.
    pub fn missing(step: &'static str, what: &'static str, name: &str, schema: &Schema) -> Self {
        let found = schema.fields().iter().map(|field| field.name().clone()).collect();
        Self::Missing { step, what, name: name.to_owned(), found }
    }
}
