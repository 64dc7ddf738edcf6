//! A text as the targets of a language model.
//!
//! ```text
//! text: "Here is some text."   ->   inputs: ""  targets: "Here is some text."
//! ```

use arrow::datatypes::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preprocess::PreprocessError;
use crate::preprocess::text::{Kind, Pieces, Plan, Row, TextStep, Value, text_key};

/// Makes a text the `targets`, beside empty `inputs`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct Lm {
    /// The column of the text.
    #[serde(default = "text_key")]
    pub text_key: String,
}

impl Default for Lm {
    fn default() -> Self {
        Self { text_key: text_key() }
    }
}

impl TextStep for Lm {
    const NAME: &'static str = "lm";

    type State = ();

    fn plan(&self, _input: &Schema) -> Result<(Plan, ()), PreprocessError> {
        Ok((Plan::reads([(&self.text_key, Kind::Text)]).texts(&["inputs", "targets"]), ()))
    }

    fn row(&self, (): &(), row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError> {
        out.push(row, &[Value::Text(""), Value::Text(row.text(0))])
    }
}
