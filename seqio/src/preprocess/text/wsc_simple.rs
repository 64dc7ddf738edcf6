//! Whom a pronoun means, as the Winograd schemas of SuperGLUE ask it, with the noun as the answer.
//!
//! ```text
//! text: "Mitchell asked Tom if he could lend some money."  span1_text: "Tom"  span2: "he" at 4
//!     ->   inputs: "wsc: Mitchell asked Tom if *he* could lend some money."  targets: "Tom"
//! ```

use arrow::datatypes::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preprocess::PreprocessError;
use crate::preprocess::text::{Kind, Pieces, Plan, Row, TextStep, Value, wsc_label};

/// Marks the pronoun of `span2_text` at the word `span2_index` of `text`; the noun of `span1_text` is the `targets`,
/// whether it is the right one or not. `label` and `idx` stay, those that are there.
///
/// Words stand between single blanks. Punctuation behind the pronoun is set off by a blank; where the index is not quite
/// right, the nearest word that is the pronoun is marked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct WscSimple {
    /// What the inputs begin with.
    #[serde(default = "wsc_label")]
    pub label: String,
    /// Drops the examples whose `label` is not 1, in which the noun is not the one that is meant: for training.
    #[serde(default)]
    pub correct_referent_only: bool,
}

impl Default for WscSimple {
    fn default() -> Self {
        Self { label: wsc_label(), correct_referent_only: false }
    }
}

impl TextStep for WscSimple {
    const NAME: &'static str = "wsc_simple";

    type State = ();

    fn plan(&self, input: &Schema) -> Result<(Plan, ()), PreprocessError> {
        let mut reads = vec![
            ("text", Kind::Text),
            ("span1_text", Kind::Text),
            ("span2_text", Kind::Text),
            ("span2_index", Kind::Whole),
        ];
        if self.correct_referent_only {
            reads.push(("label", Kind::Whole));
        }
        let plan = Plan::reads(reads).texts(&["inputs", "targets"]);
        Ok((plan.keeps_any(input, &["label", "idx"]), ()))
    }

    fn row(&self, (): &(), row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError> {
        if self.correct_referent_only && row.whole(4) != Some(1) {
            return Ok(());
        }
        let Some(index) = row.whole(3) else {
            return Err(row.fail(3, "it must be the place of a word, but is null"));
        };
        let Some(text) = mark_pronoun(row.text(0), row.text(2), index) else {
            let problem = format!("`{}` is no word of the text", row.text(2));
            return Err(row.fail(2, problem));
        };
        let inputs = format!("{} {text}", self.label);
        out.push(row, &[Value::Text(&inputs), Value::Text(row.text(1))])
    }
}

/// The text with `*pronoun*` in place of the word that is the pronoun and stands nearest to `index`, if there is one.
fn mark_pronoun(text: &str, pronoun: &str, index: i64) -> Option<String> {
    let words: Vec<&str> = text.split(' ').collect();
    let is_end = |rest: &str| !rest.contains(char::is_alphanumeric);
    let is_pronoun = |word: &str| word.strip_prefix(pronoun).is_some_and(is_end);
    let places = (0..words.len()).filter(|place| !pronoun.is_empty() && is_pronoun(words[*place]));
    let place = places.min_by_key(|place| (*place as i64).abs_diff(index))?;
    let rest = words[place].strip_prefix(pronoun).unwrap_or_default();
    let marked = if rest.is_empty() { format!("*{pronoun}*") } else { format!("*{pronoun}* {rest}") };
    let mut words = words;
    words[place] = &marked;
    Some(words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_that_is_the_pronoun_is_marked() {
        let marked = |text: &str, index: i64| mark_pronoun(text, "it", index);
        assert_eq!(marked("He put it in it .", 2).unwrap(), "He put *it* in it .");
        assert_eq!(marked("He put it in it .", 4).unwrap(), "He put it in *it* .");
        assert_eq!(
            marked("Some day he may use it , he said", 4).unwrap(),
            "Some day he may use *it* , he said"
        );
        assert_eq!(marked("Good for it,\" he said. ", 2).unwrap(), "Good for *it* ,\" he said. ");
        assert_eq!(marked("its kitten sits", 0), None);
        assert_eq!(mark_pronoun("a b", "", 0), None);
    }
}
