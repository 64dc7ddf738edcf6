//! Whom a pronoun means, as the Winograd schemas of SuperGLUE ask it, with marks in the text.
//!
//! ```text
//! text: "This is a test sentence ."  span1: "test" at 3  span2: "a" at 2  label: 1
//!     ->   inputs: "wsc text: This is # a # * test * sentence ."  targets: "True"
//! ```

use arrow::datatypes::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preprocess::PreprocessError;
use crate::preprocess::text::clean::is_pattern_space;
use crate::preprocess::text::{Kind, Pieces, Plan, Row, TextStep, Value, label_name};

/// Marks the noun of `span1_text` by `*` and the pronoun of `span2_text` by `#`, each if it begins with the word of its
/// index in `text`, and asks whether they are the same: `targets` are `False`, `True`, or `<unk>` where `label` is -1 or
/// null. `idx` stays, if it is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self {})]
pub struct Wsc {}

impl TextStep for Wsc {
    const NAME: &'static str = "wsc";

    type State = [String; 2];

    fn plan(&self, input: &Schema) -> Result<(Plan, [String; 2]), PreprocessError> {
        let reads = [
            ("text", Kind::Text),
            ("span1_text", Kind::Text),
            ("span1_index", Kind::Whole),
            ("span2_text", Kind::Text),
            ("span2_index", Kind::Whole),
            ("label", Kind::Whole),
        ];
        let plan = Plan::reads(reads).texts(&["inputs", "targets"]).keeps_any(input, &["idx"]);
        Ok((plan, ["False", "True"].map(str::to_owned)))
    }

    fn row(&self, labels: &[String; 2], row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError> {
        let index = |column: usize| match row.whole(column) {
            Some(index) if index >= 0 => Ok(index as u64),
            Some(index) => Err(row.fail(column, format!("it must be 0 or more, but is {index}"))),
            None => Err(row.fail(column, "it must be 0 or more, but is null")),
        };
        let (noun, pronoun) = (index(2)?, index(4)?);
        let text = mark_span(row.text(0), row.text(1), noun, '*');
        // The marks of the noun are words too.
        let pronoun = pronoun.saturating_add(if noun < pronoun { 2 } else { 0 });
        let text = mark_span(&text, row.text(3), pronoun, '#');
        let inputs = format!("wsc text: {text}");
        out.push(row, &[Value::Text(&inputs), Value::Text(label_name(row, 5, labels)?)])
    }
}

/// The text with marks around `span`, if it begins behind `words` words with one character of white space each.
fn mark_span(text: &str, span: &str, words: u64, mark: char) -> String {
    let mut rest = text;
    for _ in 0..words {
        let Some(end) = rest.find(is_pattern_space).filter(|end| *end > 0) else { return text.to_owned() };
        rest = &rest[end + 1..];
    }
    match rest.strip_prefix(span) {
        Some(after) => {
            let before = &text[..text.len() - rest.len()];
            format!("{before}{mark} {span} {mark}{after}")
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_marked_at_its_word_or_not_at_all() {
        assert_eq!(mark_span("a b c", "b", 1, '*'), "a * b * c");
        assert_eq!(mark_span("a b c", "a b", 0, '#'), "# a b # c");
        for (text, words) in [("a b c", 0), ("a b c", 3), ("a  b", 1), ("", 1)] {
            assert_eq!(mark_span(text, "b", words, '*'), text);
        }
    }
}
