//! Passages with a gap in a sentence about them, as ReCoRD has them.
//!
//! ```text
//! passage: "A passage."  query: "A @placeholder flies."  entities: ["penguin", "pigeon"]  answers: ["pigeon"]
//!     ->   inputs: "record query: A @placeholder flies. entities: penguin, pigeon passage: A passage."
//!          targets: "pigeon"  answers: ["pigeon"]
//! ```

use arrow::datatypes::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preprocess::PreprocessError;
use crate::preprocess::text::{Kind, Made, Pieces, Plan, Row, TextStep, Value};

/// Makes an example of each of the `answers`, which are the `targets`, and one with `<unk>` where there is none: `query`,
/// the list `entities` and `passage` are the `inputs`. The list `answers` stays, and `idx/passage` and `idx/query`, those
/// that are there.
///
/// Highlights of the passage, which stand behind lines `@highlight`, become sentences of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self {})]
pub struct Record {}

impl TextStep for Record {
    const NAME: &'static str = "record";
    const MAKES_MANY: bool = true;

    type State = ();

    fn plan(&self, input: &Schema) -> Result<(Plan, ()), PreprocessError> {
        let reads = [
            ("passage", Kind::Text),
            ("query", Kind::Text),
            ("entities", Kind::Texts),
            ("answers", Kind::Texts),
        ];
        let plan = Plan::reads(reads).keeps_any(input, &["idx/passage", "idx/query"]);
        Ok((plan.texts(&["inputs", "targets"]).makes(Made::Texts("answers".to_owned())), ()))
    }

    fn row(&self, (): &(), row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError> {
        let (query, entities) = (row.text(1), row.texts(2).join(", "));
        let passage = with_sentences(row.text(0));
        let inputs = format!("record query: {query} entities: {entities} passage: {passage}");
        let answers: Vec<String> = row.texts(3).into_iter().map(str::to_owned).collect();
        let mut push = |targets: &str| {
            out.push(row, &[Value::Text(&inputs), Value::Text(targets), Value::Texts(&answers)])
        };
        match answers.is_empty() {
            true => push("<unk>"),
            false => answers.iter().try_for_each(|answer| push(answer)),
        }
    }
}

/// The passage with a full stop and a blank for each mark of a highlight, or a blank where a sentence has ended.
fn with_sentences(passage: &str) -> String {
    const MARK: &str = "\n@highlight\n";
    let mut pieces = passage.split(MARK);
    let mut whole = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        whole.push_str(if whole.ends_with(['.', '?', '!', '"', '\'']) { " " } else { ". " });
        whole.push_str(piece);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn highlights_become_sentences() {
        assert_eq!(
            with_sentences("He came.\n@highlight\nHe saw\n@highlight\nHe won"),
            "He came. He saw. He won"
        );
        assert_eq!(with_sentences("a @highlight b"), "a @highlight b");
    }
}
