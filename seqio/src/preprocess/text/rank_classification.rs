//! The choices of a question as examples of their own, to be ranked by how likely a model finds them.
//!
//! ```text
//! inputs: ["The farm needed ", "The farm wanted "]  targets: ["water", "cows"]  label: 0
//!     ->   idx: [5917…, 0]  inputs: "The farm needed "  targets: "water"  is_correct: true
//!          idx: [5917…, 1]  inputs: "The farm wanted "  targets: "cows"   is_correct: false
//! ```

use arrow::datatypes::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preprocess::PreprocessError;
use crate::preprocess::text::{Kind, Made, Pieces, Plan, Row, TextStep, Value, label_key};

/// Which choices of a question become examples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RankMode {
    /// All.
    #[default]
    Eval,
    /// The right ones.
    Train,
}

/// Makes an example of each choice: `inputs` and `targets`, `is_correct`, and `idx`, two numbers of which the first is the
/// same for all choices of a question (63 bits of its id) and the second counts them. A column that is a text and no list
/// is the same for all choices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct RankClassification {
    /// The column of the inputs of each choice: a list of texts, or a text.
    #[serde(default = "inputs")]
    pub inputs_key: String,
    /// The column of the targets of each choice: a list of texts, or a text.
    #[serde(default = "targets")]
    pub targets_key: String,
    /// The column of the right choice, counted from 0, or of a list of them.
    #[serde(default = "label_key")]
    pub label_key: String,
    /// A column of numbers that becomes `weight`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "none"), example = &"weight")]
    pub weight_key: Option<String>,
    /// `"eval"`: all choices become examples; `"train"`: the right ones.
    #[serde(default)]
    #[schemars(extend("x-type" = "\"eval\" or \"train\""))]
    pub mode: RankMode,
}

fn inputs() -> String {
    "inputs".to_owned()
}

fn targets() -> String {
    "targets".to_owned()
}

impl Default for RankClassification {
    fn default() -> Self {
        Self {
            inputs_key: inputs(),
            targets_key: targets(),
            label_key: label_key(),
            weight_key: None,
            mode: RankMode::Eval,
        }
    }
}

/// Whether a column has a text for each choice, or one for all.
fn kind_of(input: &Schema, name: &str) -> Kind {
    match input.column_with_name(name) {
        Some((_, field)) if Kind::Text.fits(field.data_type()) => Kind::Text,
        _ => Kind::Texts,
    }
}

impl TextStep for RankClassification {
    const NAME: &'static str = "rank_classification";
    const MAKES_MANY: bool = true;

    type State = ();

    fn plan(&self, input: &Schema) -> Result<(Plan, ()), PreprocessError> {
        let mut reads = vec![
            (self.inputs_key.as_str(), kind_of(input, &self.inputs_key)),
            (self.targets_key.as_str(), kind_of(input, &self.targets_key)),
            (self.label_key.as_str(), Kind::Wholes),
        ];
        if reads[0].1 == Kind::Text {
            // One of the two says how many choices there are.
            reads[1].1 = Kind::Texts;
        }
        let weight = self.weight_key.as_deref();
        reads.extend(weight.map(|weight| (weight, Kind::Number)));
        let plan = Plan::reads(reads).makes(Made::Pair("idx".to_owned())).texts(&["inputs", "targets"]);
        let plan = plan.makes(Made::Flag("is_correct".to_owned()));
        Ok((if weight.is_some() { plan.makes(Made::Number("weight".to_owned())) } else { plan }, ()))
    }

    fn row(&self, (): &(), row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError> {
        let choices = |column: usize| match row.names[column].1 {
            Kind::Text => None,
            _ => Some(row.texts(column)),
        };
        let (inputs, targets) = (choices(0), choices(1));
        let number = inputs.as_ref().or(targets.as_ref()).map_or(0, Vec::len);
        if let Some(targets) = targets.as_ref().filter(|targets| targets.len() != number) {
            let problem = format!("it has {} choices, but `{}` has {number}", targets.len(), self.inputs_key);
            return Err(row.fail(1, problem));
        }
        let right = row.wholes(2);
        let is_choice = |label: &i64| usize::try_from(*label).is_ok_and(|label| label < number);
        if let Some(label) = right.iter().find(|label| **label >= 0 && !is_choice(label)) {
            return Err(
                row.fail(2, format!("there is no choice {label}; there are {number}, counted from 0"))
            );
        }
        let mut weight = 0.0;
        if self.weight_key.is_some() {
            let Some(found) = row.number(3) else {
                return Err(row.fail(3, "it must be a number, but is null"));
            };
            weight = found;
        }
        let question = row.number_of_id();
        for choice in 0..number {
            let is_correct = right.contains(&(choice as i64));
            if self.mode == RankMode::Train && !is_correct {
                continue;
            }
            let of = |texts: &Option<Vec<&'_ str>>, column: usize| match texts {
                Some(texts) => texts[choice].to_owned(),
                None => row.text(column).to_owned(),
            };
            let values = [
                Value::Pair([question, choice as i64]),
                Value::Text(&of(&inputs, 0)),
                Value::Text(&of(&targets, 1)),
                Value::Flag(is_correct),
                Value::Number(weight),
            ];
            out.push(row, if self.weight_key.is_some() { &values } else { &values[..4] })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Float64Array, Int64Array, ListBuilder, RecordBatch, StringBuilder};

    use super::*;
    use crate::example::Examples;
    use crate::preprocess::{Preprocessor as _, StepContext};
    use crate::testing::{assert_step_laws, rows, show};

    fn farms() -> Examples {
        let list = |texts: [&[&str]; 2]| -> ArrayRef {
            let mut lists = ListBuilder::new(StringBuilder::new());
            for texts in texts {
                texts.iter().for_each(|text| lists.values().append_value(text));
                lists.append(true);
            }
            Arc::new(lists.finish())
        };
        let columns: [(&str, ArrayRef); 4] = [
            ("prefix", list([&["needed ", "wanted "], &["a", "b"]])),
            ("suffix", list([&["water", "cows"], &["c", "d"]])),
            ("label", Arc::new(Int64Array::from(vec![0, -1]))),
            ("weight", Arc::new(Float64Array::from(vec![1.0, 0.5]))),
        ];
        Examples::new(RecordBatch::try_from_iter(columns).unwrap(), rows(2))
    }

    fn step(mode: RankMode) -> RankClassification {
        RankClassification {
            inputs_key: "prefix".to_owned(),
            targets_key: "suffix".to_owned(),
            weight_key: Some("weight".to_owned()),
            mode,
            ..RankClassification::default()
        }
    }

    #[test]
    fn every_choice_becomes_an_example_of_its_question() {
        let output = step(RankMode::Eval).apply(farms(), &StepContext::default()).unwrap();
        insta::assert_snapshot!(show(&output), @r#"
        idx: [1525167374551691747, 0]  inputs: "needed "  targets: "water"  is_correct: true  weight: 1.0
        idx: [1525167374551691747, 1]  inputs: "wanted "  targets: "cows"  is_correct: false  weight: 1.0
        idx: [2127587768779392934, 0]  inputs: "a"  targets: "c"  is_correct: false  weight: 0.5
        idx: [2127587768779392934, 1]  inputs: "b"  targets: "d"  is_correct: false  weight: 0.5
        "#);
        assert_step_laws(&step(RankMode::Eval), &StepContext::default(), &farms());
    }

    #[test]
    fn in_training_only_the_right_choices_do() {
        let output = step(RankMode::Train).apply(farms(), &StepContext::default()).unwrap();
        assert_eq!(output.len(), 1);
        assert_eq!(output.dropped.values().sum::<u64>(), 1, "the question whose answer is not known");
        assert_step_laws(&step(RankMode::Train), &StepContext::default(), &farms());
    }
}
