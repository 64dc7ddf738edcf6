//! Texts with one gap that tells about how many words are missing.
//!
//! ```text
//! text: "one two three four five six"   ->   inputs: "fill: one _4_ six"  targets: "two three four five"
//! ```

use arrow::datatypes::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preprocess::PreprocessError;
use crate::preprocess::text::clean::{strip, words};
use crate::preprocess::text::{Kind, Pieces, Plan, Row, TextStep, Value, fill_label, setting, text_key};

/// Takes a random stretch of words out of each text as the `targets`, and puts `_n_` in its place, where `n` is the size
/// of `size_bins` that comes nearest to the number of words. Any number from the least size to the largest is as likely,
/// but one word stays at the least. Texts of fewer than two words, or of no more than the least size, are dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct FillInTheBlankSized {
    /// The sizes that gaps are told as.
    #[serde(default = "bins")]
    pub size_bins: Vec<u64>,
    /// The column of the text.
    #[serde(default = "text_key")]
    pub text_key: String,
    /// What the inputs begin with.
    #[serde(default = "fill_label")]
    pub label: String,
}

fn bins() -> Vec<u64> {
    (0..10).map(|power| 1 << power).collect()
}

impl Default for FillInTheBlankSized {
    fn default() -> Self {
        Self { size_bins: bins(), text_key: text_key(), label: fill_label() }
    }
}

impl TextStep for FillInTheBlankSized {
    const NAME: &'static str = "fill_in_the_blank_sized";

    /// The sizes, sorted.
    type State = Vec<u64>;

    fn plan(&self, _input: &Schema) -> Result<(Plan, Vec<u64>), PreprocessError> {
        let mut bins = self.size_bins.clone();
        bins.sort_unstable();
        if bins.first().is_none_or(|least| *least == 0) {
            return Err(setting(Self::NAME, "`size_bins` needs sizes of 1 or more, as `[1, 2, 4, 8]`"));
        }
        Ok((Plan::reads([(&self.text_key, Kind::Text)]).texts(&["inputs", "targets"]), bins))
    }

    fn row(&self, bins: &Vec<u64>, row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError> {
        let words = words(row.text(0));
        let (least, largest) = (bins[0], bins[bins.len() - 1].min((words.len() as u64).saturating_sub(1)));
        if least > largest {
            return Ok(());
        }
        let mut draws = row.draws();
        let size = least + draws.below(largest - least + 1);
        let bin = bins.iter().copied().min_by_key(|bin| bin.abs_diff(size)).unwrap_or(size);
        let size = size as usize;
        let start = draws.below((words.len() - size) as u64 + 1) as usize;
        let blank = format!("_{bin}_");
        let shown = [&words[..start], &[blank.as_str()][..], &words[start + size..]].concat().join(" ");
        let inputs = format!("{}{shown}", self.label);
        let targets = words[start..start + size].join(" ");
        out.push(row, &[Value::Text(strip(&inputs)), Value::Text(&targets)])
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;

    use super::*;
    use crate::preprocess::{Preprocessor as _, StepContext};
    use crate::testing::{assert_step_laws, text_examples};

    #[test]
    fn the_gap_filled_in_gives_the_text_and_its_size_is_the_nearest() {
        let text = "one two three four five six seven eight";
        let input =
            text_examples(&[("text", &[Some(text), Some("one"), Some("a b"), Some(text), Some(text)])]);
        let step = FillInTheBlankSized { size_bins: vec![1, 4], ..FillInTheBlankSized::default() };
        assert_step_laws(&step, &StepContext::default(), &input);
        let output = step.apply(input, &StepContext::default()).unwrap();
        assert_eq!(output.len(), 4);
        let column = |name: &str| output.columns.column_by_name(name).unwrap().as_string::<i32>().clone();
        for (inputs, targets) in column("inputs").iter().flatten().zip(column("targets").iter().flatten()) {
            let size = targets.split(' ').count();
            assert!((1..=4).contains(&size), "{targets}");
            let blank = if size <= 2 { "_1_" } else { "_4_" };
            let whole = inputs.replace(blank, targets);
            assert!(whole == format!("fill: {text}") || whole == "fill: a b", "{inputs} | {targets}");
        }
    }
}
