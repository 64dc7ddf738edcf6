//! Questions with many passages and many answers as TriviaQA has them.
//!
//! ```text
//! question: "Who?"  wiki_context: ["Ann did.", "Bob and Ann."]  normalized_aliases: ["ann", "bob"]
//!     ->   inputs: "question: Who ? context: Ann did . "        targets: "ann"
//!          inputs: "question: Who ? context: Bob and Ann . "    targets: "ann"
//!          inputs: "question: Who ? context: Bob and Ann . "    targets: "bob"
//! ```

use arrow::datatypes::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preprocess::PreprocessError;
use crate::preprocess::text::clean::{join_collapsed, pad_punctuation};
use crate::preprocess::text::{Kind, Pieces, Plan, Row, TextStep, Value};

const CONTEXTS: [&str; 2] = ["wiki_context", "search_context"];

/// Makes an example of each passage and each answer that stands in it, upper and lower case aside: question and passage
/// are the `inputs`, the answer the `targets`, with blanks around all punctuation. A question none of whose passages has
/// an answer is dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct TriviaQa {
    /// The columns of the passages, lists of texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-default" = "`wiki_context` and `search_context`, those that are there"))]
    pub contexts: Vec<String>,
    /// The column of the answers, a list of texts.
    #[serde(default = "aliases")]
    pub answers: String,
}

fn aliases() -> String {
    "normalized_aliases".to_owned()
}

impl Default for TriviaQa {
    fn default() -> Self {
        Self { contexts: Vec::new(), answers: aliases() }
    }
}

impl TextStep for TriviaQa {
    const NAME: &'static str = "trivia_qa";
    const MAKES_MANY: bool = true;

    type State = ();

    fn plan(&self, input: &Schema) -> Result<(Plan, ()), PreprocessError> {
        let mut contexts = self.contexts.clone();
        if contexts.is_empty() {
            let there = CONTEXTS.iter().filter(|name| input.column_with_name(name).is_some());
            contexts = there.map(|name| (*name).to_owned()).collect();
        }
        if contexts.is_empty() {
            return Err(PreprocessError::missing(Self::NAME, "column", CONTEXTS[0], input));
        }
        let reads = [("question".to_owned(), Kind::Text), (self.answers.clone(), Kind::Texts)];
        let contexts = contexts.into_iter().map(|name| (name, Kind::Texts));
        Ok((Plan::reads(reads.into_iter().chain(contexts)).texts(&["inputs", "targets"]), ()))
    }

    fn row(&self, (): &(), row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError> {
        let question = pad_punctuation(row.text(0));
        let answers: Vec<String> = row.texts(1).into_iter().map(pad_punctuation).collect();
        let answers: Vec<(&String, String)> = answers
            .iter()
            .filter(|answer| !answer.trim().is_empty())
            .map(|answer| (answer, answer.to_lowercase()))
            .collect();
        for context in (2..row.names.len()).flat_map(|column| row.texts(column)) {
            let context = pad_punctuation(context);
            let lower = context.to_lowercase();
            for (answer, _) in answers.iter().filter(|(_, wanted)| lower.contains(wanted.as_str())) {
                let inputs = join_collapsed(&["question:", &question, "context:", &context]);
                out.push(row, &[Value::Text(&inputs), Value::Text(answer)])?;
            }
        }
        Ok(())
    }
}
