//! Lines cut into columns of text.
//!
//! ```text
//! text: "a b\tc d"   ->   inputs: "a b"  targets: "c d"
//! ```

use arrow::datatypes::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preprocess::PreprocessError;
use crate::preprocess::text::{Kind, Pieces, Plan, Row, TextStep, Value, setting, tab, text_key};
use crate::text::counted;

/// Cuts a text at every delimiter into as many columns as are named; quotes mean nothing. A source of `tsv` does the same
/// and more, for files that are tables as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct ParseTsv {
    /// The column of the text.
    #[serde(default = "text_key")]
    pub text_key: String,
    /// The names of the columns, in the order of the text.
    #[serde(default = "names")]
    pub field_names: Vec<String>,
    /// What stands between them.
    #[serde(default = "tab")]
    pub field_delim: String,
}

fn names() -> Vec<String> {
    ["inputs", "targets"].map(str::to_owned).to_vec()
}

impl Default for ParseTsv {
    fn default() -> Self {
        Self { text_key: text_key(), field_names: names(), field_delim: tab() }
    }
}

impl TextStep for ParseTsv {
    const NAME: &'static str = "parse_tsv";

    type State = ();

    fn plan(&self, _input: &Schema) -> Result<(Plan, ()), PreprocessError> {
        if self.field_names.is_empty() {
            return Err(setting(Self::NAME, "`field_names` names no column"));
        }
        check_delimiter(Self::NAME, &self.field_delim)?;
        let names: Vec<&str> = self.field_names.iter().map(String::as_str).collect();
        Ok((Plan::reads([(&self.text_key, Kind::Text)]).texts(&names), ()))
    }

    fn row(&self, (): &(), row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError> {
        let fields = split_fields(row, &self.field_delim, self.field_names.len(), "`field_names` has")?;
        let values: Vec<Value<'_>> = fields.into_iter().map(Value::Text).collect();
        out.push(row, &values)
    }
}

/// Refuses a delimiter that cuts nowhere.
pub(super) fn check_delimiter(step: &'static str, delimiter: &str) -> Result<(), PreprocessError> {
    match delimiter.is_empty() {
        true => {
            Err(setting(step, "`field_delim` is empty; write what stands between the fields, as `\"\\t\"`"))
        }
        false => Ok(()),
    }
}

/// The fields of a row's text, which must be as many as the settings say.
pub(super) fn split_fields<'a>(
    row: &Row<'a>,
    delimiter: &str,
    number: usize,
    says: &str,
) -> Result<Vec<&'a str>, PreprocessError> {
    let fields: Vec<&str> = row.text(0).split(delimiter).collect();
    match fields.len() == number {
        true => Ok(fields),
        false => {
            Err(row.fail(0, format!("it has {}, but {says} {number}", counted(fields.len() as u64, "field"))))
        }
    }
}
