//! Texts with random gaps, and what belongs in them.
//!
//! ```text
//! text: "The fat cat sat on the mat."
//!     ->   inputs: "fill: X cat sat on X mat."   targets: "The fat X the X"
//!          inputs: "fill: The fat X the X"       targets: "X cat sat on X mat."
//! ```

use arrow::datatypes::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preprocess::PreprocessError;
use crate::preprocess::text::clean::words;
use crate::preprocess::text::{Kind, Pieces, Plan, Row, TextStep, Value, fill_label, text_key};
use crate::rng::Draws;

/// Cuts each text between words at random, and makes two examples of it: in the first every other piece, from the second
/// on, is in the `inputs`, and those between are in the `targets`, each with `X` where the other has a piece; the second
/// example is the other way round. How finely a text is cut is drawn for each, from one cut in all its words to one every
/// second word. Texts of fewer than two words are dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct FillInTheBlank {
    /// The column of the text.
    #[serde(default = "text_key")]
    pub text_key: String,
    /// What the inputs begin with.
    #[serde(default = "fill_label")]
    pub label: String,
}

impl Default for FillInTheBlank {
    fn default() -> Self {
        Self { text_key: text_key(), label: fill_label() }
    }
}

impl TextStep for FillInTheBlank {
    const NAME: &'static str = "fill_in_the_blank";
    const MAKES_MANY: bool = true;

    type State = ();

    fn plan(&self, _input: &Schema) -> Result<(Plan, ()), PreprocessError> {
        Ok((Plan::reads([(&self.text_key, Kind::Text)]).texts(&["inputs", "targets"]), ()))
    }

    fn row(&self, (): &(), row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError> {
        let words = words(row.text(0));
        if words.len() < 2 {
            return Ok(());
        }
        let starts = starts(words.len(), &mut row.draws());
        let [first, second] = [0, 1].map(|which| with_gaps(&words, &starts, which));
        for (inputs, targets) in [(&second, &first), (&first, &second)] {
            let inputs = format!("{}{inputs}", self.label);
            out.push(row, &[Value::Text(&inputs), Value::Text(targets)])?;
        }
        Ok(())
    }
}

/// For each word whether a piece begins with it: always with the first, and with another at the least.
fn starts(num_words: usize, draws: &mut Draws) -> Vec<bool> {
    let probability = draws.log_uniform(1.0 / (num_words as f64 + 2.0), 0.5);
    let mut starts: Vec<bool> = (0..num_words).map(|word| word == 0 || draws.unit() < probability).collect();
    if !starts[1..].contains(&true) {
        let word = 1 + draws.below(num_words as u64 - 1) as usize;
        starts[word] = true;
    }
    starts
}

/// The pieces whose number, from 0, is even or odd as `which`, with `X` for each of the others.
fn with_gaps(words: &[&str], starts: &[bool], which: usize) -> String {
    let mut pieces = 0;
    let mut shown = Vec::with_capacity(words.len());
    for (word, start) in words.iter().zip(starts) {
        pieces += usize::from(*start);
        match ((pieces - 1) % 2 == which, start) {
            (true, _) => shown.push(*word),
            (false, true) => shown.push("X"),
            (false, false) => {}
        }
    }
    shown.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preprocess::{Preprocessor as _, StepContext};
    use crate::testing::{assert_step_laws, show, text_examples};

    #[test]
    fn pieces_and_gaps_change_places() {
        let words = ["The", "fat", "cat", "sat", "on", "the", "mat."];
        let starts = [true, false, true, false, false, true, true];
        assert_eq!(with_gaps(&words, &starts, 0), "The fat X the X");
        assert_eq!(with_gaps(&words, &starts, 1), "X cat sat on X mat.");
    }

    #[test]
    fn each_text_of_two_words_or_more_gives_two_examples_that_mirror_each_other() {
        let input = text_examples(&[("text", &[Some("one two"), Some("one"), None])]);
        let step = FillInTheBlank::default();
        assert_step_laws(&step, &StepContext::default(), &input);
        let output = step.apply(input, &StepContext::default()).unwrap();
        insta::assert_snapshot!(show(&output), @r#"
        inputs: "fill: X two"  targets: "one X"
        inputs: "fill: one X"  targets: "X two"
        "#);
        assert_eq!(output.dropped.values().sum::<u64>(), 2);
    }
}
