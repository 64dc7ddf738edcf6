//! Pairs of sentences in two languages as a request to translate.
//!
//! ```text
//! { source_language = "de", target_language = "en" }
//! de: "Das ist gut."  en: "That is good."
//!     ->   inputs: "translate German to English: Das ist gut."  targets: "That is good."
//! ```

use arrow::datatypes::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preprocess::PreprocessError;
use crate::preprocess::text::languages::language_name;
use crate::preprocess::text::{Kind, Pieces, Plan, Row, TextStep, Value, setting};

/// Puts `translate German to English: ` before the text of one column as `inputs`, and takes the text of the other as
/// `targets`. The columns are named by the codes of their languages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::new("de", "en"))]
pub struct Translate {
    /// The language to translate from, which is the name of its column: two letters, or with a region, as `zh-cn`.
    pub source_language: String,
    /// The language to translate to, and its column.
    pub target_language: String,
    /// The English name of the first language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "that of its code"), example = &"German")]
    pub source_name: Option<String>,
    /// The English name of the second language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "that of its code"), example = &"English")]
    pub target_name: Option<String>,
}

impl Translate {
    /// From one language to another, by their codes.
    pub fn new(source_language: impl Into<String>, target_language: impl Into<String>) -> Self {
        Self {
            source_language: source_language.into(),
            target_language: target_language.into(),
            source_name: None,
            target_name: None,
        }
    }

    /// What stands before the text.
    pub(super) fn prefix(&self, step: &'static str) -> Result<String, PreprocessError> {
        let name = |key: &str, code: &str, name: &Option<String>| match (name, language_name(code)) {
            (Some(name), _) => Ok(name.clone()),
            (None, Some(name)) => Ok(name.to_owned()),
            (None, None) => Err(setting(
                step,
                format!(
                    "`{code}` is no code of a language that it knows the name of; write the name, `{key} = \"…\"`"
                ),
            )),
        };
        let from = name("source_name", &self.source_language, &self.source_name)?;
        let to = name("target_name", &self.target_language, &self.target_name)?;
        Ok(format!("translate {from} to {to}: "))
    }
}

impl TextStep for Translate {
    const NAME: &'static str = "translate";

    type State = String;

    fn plan(&self, _input: &Schema) -> Result<(Plan, String), PreprocessError> {
        let reads = [(&self.source_language, Kind::Text), (&self.target_language, Kind::Text)];
        Ok((Plan::reads(reads).texts(&["inputs", "targets"]), self.prefix(Self::NAME)?))
    }

    fn row(&self, prefix: &String, row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError> {
        let inputs = format!("{prefix}{}", row.text(0));
        out.push(row, &[Value::Text(&inputs), Value::Text(row.text(1))])
    }
}
