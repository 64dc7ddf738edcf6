//! Sentences in many languages as a request to translate one into another.
//!
//! ```text
//! { source_language = "de", target_language = "en" }
//! language: ["de", "fr", "en"]  translation: ["Das ist gut.", "C'est bon.", "That is good."]
//!     ->   inputs: "translate German to English: Das ist gut."  targets: "That is good."
//! ```

use arrow::datatypes::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preprocess::PreprocessError;
use crate::preprocess::text::{Kind, Pieces, Plan, Row, TextStep, Translate, Value};
use crate::text::counted;

/// Picks two languages of the lists `language` and `translation`, which belong together, and does what `translate` does.
/// Examples that lack one of the two are dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::new("de", "en"))]
pub struct MultiTranslate {
    /// The language to translate from, as it stands in `language`: two letters, or with a region, as `zh-cn`.
    pub source_language: String,
    /// The language to translate to.
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

impl MultiTranslate {
    /// From one language to another, by their codes.
    pub fn new(source_language: impl Into<String>, target_language: impl Into<String>) -> Self {
        Self {
            source_language: source_language.into(),
            target_language: target_language.into(),
            source_name: None,
            target_name: None,
        }
    }
}

impl TextStep for MultiTranslate {
    const NAME: &'static str = "multi_translate";

    type State = String;

    fn plan(&self, _input: &Schema) -> Result<(Plan, String), PreprocessError> {
        let translate = Translate {
            source_language: self.source_language.clone(),
            target_language: self.target_language.clone(),
            source_name: self.source_name.clone(),
            target_name: self.target_name.clone(),
        };
        let plan = Plan::reads([("language", Kind::Texts), ("translation", Kind::Texts)]);
        Ok((plan.texts(&["inputs", "targets"]), translate.prefix(Self::NAME)?))
    }

    fn row(&self, prefix: &String, row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError> {
        let (languages, texts) = (row.texts(0), row.texts(1));
        if languages.len() != texts.len() {
            let (languages, texts) = (languages.len(), texts.len());
            return Err(row.fail(
                1,
                format!("it has {}, but `language` has {languages}", counted(texts as u64, "text")),
            ));
        }
        let find = |wanted: &str| {
            let place = languages.iter().position(|language| *language == wanted)?;
            texts.get(place).copied()
        };
        match (find(&self.source_language), find(&self.target_language)) {
            (Some(source), Some(target)) => {
                let inputs = format!("{prefix}{source}");
                out.push(row, &[Value::Text(&inputs), Value::Text(target)])
            }
            _ => Ok(()),
        }
    }
}
