//! An article and its summary as a request to summarize.
//!
//! ```text
//! { article_key = "article", summary_key = "highlights" }
//! article: "An article."  highlights: "A summary."   ->   inputs: "summarize: An article."  targets: "A summary."
//! ```

use arrow::datatypes::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preprocess::PreprocessError;
use crate::preprocess::text::{Kind, Pieces, Plan, Row, TextStep, Value};

/// Puts `summarize: ` before an article as `inputs`, and takes its summary as `targets`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::new("article", "highlights"))]
pub struct Summarize {
    /// The column of the article.
    pub article_key: String,
    /// The column of the summary.
    pub summary_key: String,
}

impl Summarize {
    /// The article of one column, the summary of another.
    pub fn new(article_key: impl Into<String>, summary_key: impl Into<String>) -> Self {
        Self { article_key: article_key.into(), summary_key: summary_key.into() }
    }
}

impl TextStep for Summarize {
    const NAME: &'static str = "summarize";

    type State = ();

    fn plan(&self, _input: &Schema) -> Result<(Plan, ()), PreprocessError> {
        let reads = [(&self.article_key, Kind::Text), (&self.summary_key, Kind::Text)];
        Ok((Plan::reads(reads).texts(&["inputs", "targets"]), ()))
    }

    fn row(&self, (): &(), row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError> {
        let inputs = format!("summarize: {}", row.text(0));
        out.push(row, &[Value::Text(&inputs), Value::Text(row.text(1))])
    }
}
