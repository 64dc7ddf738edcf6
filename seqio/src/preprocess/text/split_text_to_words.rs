//! Texts with the list of their words.
//!
//! ```text
//! text: "one two  three"   ->   text: "one two  three"  words: ["one", "two", "three"]
//! ```

use arrow::datatypes::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preprocess::PreprocessError;
use crate::preprocess::text::clean::words;
use crate::preprocess::text::{Kind, Made, Pieces, Plan, Row, TextStep, Value, text_key};

/// Adds the column `words`: what stands between white space of ASCII. Texts with few words are dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct SplitTextToWords {
    /// The column of the text.
    #[serde(default = "text_key")]
    pub text_key: String,
    /// Drops texts with fewer words.
    #[serde(default = "two")]
    pub min_num_words: usize,
}

fn two() -> usize {
    2
}

impl Default for SplitTextToWords {
    fn default() -> Self {
        Self { text_key: text_key(), min_num_words: two() }
    }
}

impl TextStep for SplitTextToWords {
    const NAME: &'static str = "split_text_to_words";

    type State = ();

    fn plan(&self, input: &Schema) -> Result<(Plan, ()), PreprocessError> {
        let plan = Plan::reads([(&self.text_key, Kind::Text)]).makes(Made::Texts("words".to_owned()));
        Ok((plan.keeps_others(input), ()))
    }

    fn row(&self, (): &(), row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError> {
        let words: Vec<String> = words(row.text(0)).into_iter().map(str::to_owned).collect();
        if words.len() < self.min_num_words {
            return Ok(());
        }
        out.push(row, &[Value::Texts(&words)])
    }
}
