//! Keeps the examples whose text is neither too short nor too long.
//!
//! ```text
//! { feature_key = "text", min_length = 2, max_length = 4 }
//! text: "a"   text: "ab"   text: "abcde"   text: "éé"   ->   text: "ab"   text: "éé"
//! ```

use arrow::datatypes::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preprocess::PreprocessError;
use crate::preprocess::text::{Kind, Pieces, Plan, Row, TextStep, setting};

/// Drops the examples whose text has too few or too many bytes of UTF-8; both limits are allowed lengths. A null is the
/// empty text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct FilterByStringLength {
    /// The column of the text.
    #[serde(default = "targets")]
    pub feature_key: String,
    /// The fewest bytes.
    #[serde(default = "one")]
    pub min_length: u64,
    /// The most bytes.
    #[serde(default = "million")]
    pub max_length: u64,
}

fn targets() -> String {
    "targets".to_owned()
}

fn one() -> u64 {
    1
}

fn million() -> u64 {
    1_000_000
}

impl Default for FilterByStringLength {
    fn default() -> Self {
        Self { feature_key: targets(), min_length: one(), max_length: million() }
    }
}

impl TextStep for FilterByStringLength {
    const NAME: &'static str = "filter_by_string_length";

    type State = ();

    fn plan(&self, input: &Schema) -> Result<(Plan, ()), PreprocessError> {
        if self.min_length > self.max_length {
            let (least, most) = (self.min_length, self.max_length);
            return Err(setting(
                Self::NAME,
                format!("`min_length` is {least}, more than `max_length`, {most}"),
            ));
        }
        Ok((Plan::reads([(&self.feature_key, Kind::Text)]).keeps_others(input), ()))
    }

    fn row(&self, (): &(), row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError> {
        match (self.min_length..=self.max_length).contains(&(row.text(0).len() as u64)) {
            true => out.push(row, &[]),
            false => Ok(()),
        }
    }
}
