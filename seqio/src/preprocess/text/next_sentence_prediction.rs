//! Whether one sentence follows another.
//!
//! ```text
//! text: "A. B. C."   ->   inputs: "nsp: A. B."  targets: "next"
//!                         inputs: "nsp: B. A."  targets: "not_next"
//! ```

use arrow::datatypes::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preprocess::PreprocessError;
use crate::preprocess::text::clean::strip;
use crate::preprocess::text::sentences::{pairs, sentences_by_line};
use crate::preprocess::text::{Kind, Pieces, Plan, Row, TextStep, Value, setting, text_key, yes};

/// Makes an example of each two neighbouring sentences: as they are, with `next` as `targets`, or, at random, with another
/// sentence of the same text in place of the second, with `not_next`. A pair that would get another sentence, but whose
/// text has none, is left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct NextSentencePrediction {
    /// The column of the text.
    #[serde(default = "text_key")]
    pub text_key: String,
    /// Whether a sentence can be the second of one pair and the first of the next.
    #[serde(default = "yes")]
    pub reuse_sentences: bool,
    /// Whether `sentence1: ` and `sentence2: ` stand before the sentences.
    #[serde(default)]
    pub label_sentences: bool,
    /// How likely a pair stays as it is.
    #[serde(default = "half")]
    pub p_neighbors: f64,
    /// What the inputs begin with.
    #[serde(default = "nsp")]
    pub label: String,
}

fn half() -> f64 {
    0.5
}

fn nsp() -> String {
    "nsp: ".to_owned()
}

impl Default for NextSentencePrediction {
    fn default() -> Self {
        Self {
            text_key: text_key(),
            reuse_sentences: true,
            label_sentences: false,
            p_neighbors: half(),
            label: nsp(),
        }
    }
}

impl TextStep for NextSentencePrediction {
    const NAME: &'static str = "next_sentence_prediction";
    const MAKES_MANY: bool = true;

    type State = ();

    fn plan(&self, _input: &Schema) -> Result<(Plan, ()), PreprocessError> {
        if !(0.0..=1.0).contains(&self.p_neighbors) {
            let problem = format!("`p_neighbors` must be from 0 to 1, but is {}", self.p_neighbors);
            return Err(setting(Self::NAME, problem));
        }
        Ok((Plan::reads([(&self.text_key, Kind::Text)]).texts(&["inputs", "targets"]), ()))
    }

    fn row(&self, (): &(), row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError> {
        let lines: Vec<Vec<&str>> = sentences_by_line(row.text(0)).collect();
        let mut draws = row.draws();
        for (first, next) in lines.iter().flat_map(|line| pairs(line, self.reuse_sentences)) {
            let (second, targets) = if draws.unit() < self.p_neighbors {
                (next, "next")
            } else {
                let others = || lines.iter().flatten().filter(|other| **other != first && **other != next);
                let number = draws.below(others().count() as u64) as usize;
                match others().nth(number) {
                    Some(other) => (*other, "not_next"),
                    None => continue,
                }
            };
            let [before, between] =
                if self.label_sentences { ["sentence1: ", "sentence2: "] } else { ["", ""] };
            let inputs = format!("{}{before}{first} {between}{second}", self.label);
            out.push(row, &[Value::Text(strip(&inputs)), Value::Text(targets)])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;

    use super::*;
    use crate::preprocess::{Preprocessor as _, StepContext};
    use crate::testing::{assert_step_laws, text_examples};

    #[test]
    fn what_is_called_next_is_next_and_nothing_else() {
        let text = (0..40).map(|number| format!("S{number}.")).collect::<Vec<_>>().join(" ");
        let input = text_examples(&[("text", &[Some(text.as_str()), Some("A. B."), Some("A."), None])]);
        let step = NextSentencePrediction { label_sentences: true, ..NextSentencePrediction::default() };
        assert_step_laws(&step, &StepContext::default(), &input);
        let output = step.apply(input, &StepContext::default()).unwrap();
        let column = |name: &str| output.columns.column_by_name(name).unwrap().as_string::<i32>().clone();
        let (inputs, targets) = (column("inputs"), column("targets"));
        let mut kept = 0;
        for (inputs, targets) in inputs.iter().flatten().zip(targets.iter().flatten()) {
            let pair = inputs.strip_prefix("nsp: sentence1: ").unwrap();
            let (first, second) = pair.split_once(" sentence2: ").unwrap();
            let is_next = text.contains(&format!("{first} {second}")) || pair.starts_with("A. ");
            assert_eq!(targets == "next", is_next, "{inputs}");
            assert_ne!(first, second);
            kept += usize::from(is_next);
        }
        assert!((10..30).contains(&kept), "{kept}");
    }
}
