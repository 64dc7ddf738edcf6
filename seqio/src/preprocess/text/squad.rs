//! Questions about a passage as SQuAD has them.
//!
//! ```text
//! question: "What's it?"  context: "It's a cat."  answers: ["a cat", "cat"]
//!     ->   inputs: "question: What ' s it ? context: It ' s a cat . "  targets: "a cat"  …
//! ```

use arrow::datatypes::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preprocess::PreprocessError;
use crate::preprocess::text::clean::{join_collapsed, pad_punctuation};
use crate::preprocess::text::{Kind, Made, Pieces, Plan, Row, TextStep, Value, yes};

/// Makes a question and its passage the `inputs`, and the first of the `answers` the `targets`, with blanks around all
/// punctuation. `question`, `context` and the list `answers` stay beside them, with blanks too, and `id` as it is.
///
/// SQuAD's `answers` are a structure in some data sets: a source of SQL takes its list, `SELECT answers['text'] AS
/// answers`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct Squad {
    /// Whether the passage is part of the inputs; without it they are `squad trivia question: ` and the question.
    #[serde(default = "yes")]
    pub include_context: bool,
}

impl Default for Squad {
    fn default() -> Self {
        Self { include_context: true }
    }
}

impl TextStep for Squad {
    const NAME: &'static str = "squad";

    type State = ();

    fn plan(&self, input: &Schema) -> Result<(Plan, ()), PreprocessError> {
        let reads = [("question", Kind::Text), ("context", Kind::Text), ("answers", Kind::Texts)];
        let plan = Plan::reads(reads).texts(&["inputs", "targets"]).keeps_any(input, &["id"]);
        Ok((plan.texts(&["context", "question"]).makes(Made::Texts("answers".to_owned())), ()))
    }

    fn row(&self, (): &(), row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError> {
        let (question, context) = (pad_punctuation(row.text(0)), pad_punctuation(row.text(1)));
        let answers: Vec<String> = row.texts(2).into_iter().map(pad_punctuation).collect();
        let Some(first) = answers.first() else {
            let problem = "it has no answer; drop such examples before, `{ op = \"filter\", where = \
                           \"cardinality(answers) > 0\" }`";
            return Err(row.fail(2, problem));
        };
        let inputs = match self.include_context {
            true => join_collapsed(&["question:", &question, "context:", &context]),
            false => join_collapsed(&["squad trivia question:", &question]),
        };
        out.push(
            row,
            &[
                Value::Text(&inputs),
                Value::Text(first),
                Value::Text(&context),
                Value::Text(&question),
                Value::Texts(&answers),
            ],
        )
    }
}
