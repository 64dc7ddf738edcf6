//! Neighbouring sentences of a text, two by two.
//!
//! ```text
//! text: "A. B. C."   ->   first: "A."  second: "B."    first: "B."  second: "C."
//! ```

use arrow::datatypes::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preprocess::PreprocessError;
use crate::preprocess::text::sentences::{pairs, sentences_by_line};
use crate::preprocess::text::{Kind, Pieces, Plan, Row, TextStep, Value, text_key, yes};

/// Makes an example of each two sentences that follow each other in one line, `first` and `second`. A sentence ends
/// behind `.`, `!` and `?`, or with its line. Texts without two such sentences are dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct NeighboringPairs {
    /// The column of the text.
    #[serde(default = "text_key")]
    pub text_key: String,
    /// Whether a sentence can be the second of one pair and the first of the next.
    #[serde(default = "yes")]
    pub reuse_sentences: bool,
}

impl Default for NeighboringPairs {
    fn default() -> Self {
        Self { text_key: text_key(), reuse_sentences: true }
    }
}

impl TextStep for NeighboringPairs {
    const NAME: &'static str = "neighboring_pairs";
    const MAKES_MANY: bool = true;

    type State = ();

    fn plan(&self, _input: &Schema) -> Result<(Plan, ()), PreprocessError> {
        Ok((Plan::reads([(&self.text_key, Kind::Text)]).texts(&["first", "second"]), ()))
    }

    fn row(&self, (): &(), row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError> {
        for line in sentences_by_line(row.text(0)) {
            for (first, second) in pairs(&line, self.reuse_sentences) {
                out.push(row, &[Value::Text(first), Value::Text(second)])?;
            }
        }
        Ok(())
    }
}
