//! Long texts cut into pieces of a random length.
//!
//! ```text
//! { min_words_per_segment = 2, max_words_per_segment = 4 }
//! text: "a b c d e f g"   ->   text: "a b c"    text: "d e f"    text: "g"
//! ```

use arrow::datatypes::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preprocess::PreprocessError;
use crate::preprocess::text::clean::words;
use crate::preprocess::text::{Kind, Pieces, Plan, Row, TextStep, Value, setting, text_key};

/// Cuts each text into examples of equally many words, the last perhaps of fewer. How many is drawn for each text, and its
/// logarithm is as likely anywhere between those of the shortest and the longest; the text that is left is the only column.
/// Texts without words are dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct RandomSplitText {
    /// The column of the text.
    #[serde(default = "text_key")]
    pub text_key: String,
    /// The fewest words of an example.
    #[serde(default = "shortest")]
    pub min_words_per_segment: u32,
    /// The most words of an example.
    #[serde(default = "longest")]
    pub max_words_per_segment: u32,
    /// Of a longer text only one stretch of so many words is taken, drawn at random; 0 takes all.
    #[serde(default = "most")]
    pub max_words_total: u32,
}

fn shortest() -> u32 {
    16
}

fn longest() -> u32 {
    512
}

fn most() -> u32 {
    8192
}

impl Default for RandomSplitText {
    fn default() -> Self {
        Self {
            text_key: text_key(),
            min_words_per_segment: shortest(),
            max_words_per_segment: longest(),
            max_words_total: most(),
        }
    }
}

impl TextStep for RandomSplitText {
    const NAME: &'static str = "random_split_text";
    const MAKES_MANY: bool = true;

    type State = ();

    fn plan(&self, _input: &Schema) -> Result<(Plan, ()), PreprocessError> {
        let (shortest, longest) = (self.min_words_per_segment, self.max_words_per_segment);
        if shortest == 0 || shortest > longest {
            let problem = format!(
                "`min_words_per_segment` is {shortest} and `max_words_per_segment` {longest}; the first must be 1 or more, \
                 and not more than the second"
            );
            return Err(setting(Self::NAME, problem));
        }
        Ok((Plan::reads([(&self.text_key, Kind::Text)]).texts(&[&self.text_key]), ()))
    }

    fn row(&self, (): &(), row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError> {
        let words = words(row.text(0));
        let mut draws = row.draws();
        let mut words = words.as_slice();
        let stretch = self.max_words_total as usize;
        if stretch > 0 && words.len() > stretch {
            let number = draws.below(words.len().div_ceil(stretch) as u64) as usize;
            words = words.chunks(stretch).nth(number).unwrap_or_default();
        }
        let (shortest, longest) = (self.min_words_per_segment, self.max_words_per_segment);
        let length = draws.log_uniform(f64::from(shortest), f64::from(longest)) as u32;
        for segment in words.chunks(length.clamp(shortest, longest) as usize) {
            out.push(row, &[Value::Text(&segment.join(" "))])?;
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
    fn segments_have_one_length_a_text_and_all_words_in_order() {
        let long = (0..1000).map(|word| format!("w{word}")).collect::<Vec<_>>().join(" ");
        let texts: Vec<Option<&str>> = [&long, "a b  c", "", " "].map(|text: &str| Some(text)).to_vec();
        let input = text_examples(&[("text", &texts)]);
        let step = RandomSplitText {
            min_words_per_segment: 2,
            max_words_per_segment: 60,
            max_words_total: 300,
            ..RandomSplitText::default()
        };
        assert_step_laws(&step, &StepContext::default(), &input);
        let output = step.apply(input, &StepContext::default()).unwrap();
        let made: Vec<&str> = output.columns.column(0).as_string::<i32>().iter().flatten().collect();
        let of_first: Vec<&str> = made.iter().copied().filter(|text| text.contains('w')).collect();
        let lengths: Vec<usize> = of_first.iter().map(|text| text.split(' ').count()).collect();
        let (last, others) = lengths.split_last().unwrap();
        assert!(others.iter().all(|length| *length == lengths[0]) && *last <= lengths[0], "{lengths:?}");
        let count: usize = lengths.iter().sum();
        assert!(count == 300 || count == 100, "one stretch: {count}");
        assert!(long.contains(&of_first.join(" ")));
        assert_eq!(output.dropped.values().sum::<u64>(), 2);
    }

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        let input = text_examples(&[("text", &[Some("a")])]);
        let step = RandomSplitText { min_words_per_segment: 600, ..RandomSplitText::default() };
        let error = step.output_schema(&input.columns.schema(), &StepContext::default()).unwrap_err();
        insta::assert_snapshot!(error, @"step `random_split_text`: `min_words_per_segment` is 600 and `max_words_per_segment` 512; the first must be 1 or more, and not more than the second");
    }
}
