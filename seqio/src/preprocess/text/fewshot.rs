//! Exemplars in front of each example: few-shot prompts.
//!
//! ```text
//! { num_shots = 2, split = "train", inputs_prefix = "Q: ", targets_prefix = " A: " }
//! inputs: "e"  targets: "f"   ->   inputs: "Q: q7 A: a7\n\nQ: q2 A: a2\n\nQ: e A:"  targets: "f"
//! ```

use arrow::datatypes::{Schema, SchemaRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::example::{ExampleId, Examples};
use crate::preprocess::exemplars::{Exemplar, ExemplarRequest, Exemplars};
use crate::preprocess::text::{Kind, Pieces, Plan, Row, TextStep, Value, apply, output_schema, setting};
use crate::preprocess::{PreprocessError, Preprocessor, StepContext};

/// Puts exemplars before the `inputs` of each example, each its inputs and its targets, then a separator; all other columns
/// stay. They are written in the step, or taken from a split of the task, as they are after the steps before this one.
///
/// Of a split the first `pool` examples are read, once, when the task is opened (of a query all its rows are). The
/// exemplars of an example are drawn from them by its id; it is never among them itself, nor one with the same inputs. What
/// they say is part of what a cache is named by: if the split changes, so do the caches of all splits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::of_split("train", 2))]
pub struct Fewshot {
    /// How many exemplars stand before an example.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "all of `exemplars`"))]
    pub num_shots: Option<usize>,
    /// The split that exemplars are taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "none"))]
    pub split: Option<String>,
    /// How many examples from the front of the split exemplars are drawn from.
    #[serde(default = "thousand")]
    pub pool: usize,
    /// The exemplars themselves, in place of those of a split.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        extend("x-default" = "none", "x-type" = "list of { inputs, targets }"),
        example = vec![Exemplar::new("2 + 2", "4")]
    )]
    pub exemplars: Vec<Exemplar>,
    /// Whether all examples have the same: of `exemplars` the first, of a split some drawn once.
    #[serde(default)]
    pub fixed: bool,
    /// What stands before each inputs.
    #[serde(default)]
    pub inputs_prefix: String,
    /// What stands before each targets; before those of the example itself without white space at its end.
    #[serde(default)]
    pub targets_prefix: String,
    /// What stands behind each exemplar.
    #[serde(default = "blank_line")]
    pub example_separator: String,
    /// What stands before all, with a separator behind it.
    #[serde(default)]
    pub prompt: String,
    /// Whether exemplars stand in the opposite order.
    #[serde(default)]
    pub reverse: bool,
}

fn thousand() -> usize {
    1000
}

fn blank_line() -> String {
    "\n\n".to_owned()
}

impl Default for Fewshot {
    fn default() -> Self {
        Self {
            num_shots: None,
            split: None,
            pool: thousand(),
            exemplars: Vec::new(),
            fixed: false,
            inputs_prefix: String::new(),
            targets_prefix: String::new(),
            example_separator: blank_line(),
            prompt: String::new(),
            reverse: false,
        }
    }
}

impl Fewshot {
    /// Draws exemplars from a split.
    pub fn of_split(split: impl Into<String>, num_shots: usize) -> Self {
        Self { num_shots: Some(num_shots), split: Some(split.into()), ..Self::default() }
    }

    /// Shows these exemplars.
    pub fn of(exemplars: impl IntoIterator<Item = Exemplar>) -> Self {
        Self { exemplars: exemplars.into_iter().collect(), ..Self::default() }
    }

    fn shots(&self) -> usize {
        self.num_shots.unwrap_or(self.exemplars.len())
    }

    /// The exemplars of a row, in the order in which they are shown.
    fn chosen<'a>(&self, row: &Row<'_>, all: &'a Exemplars) -> Vec<&'a Exemplar> {
        let list = all.list();
        let same = all.same(&row.row.id, row.text(0));
        let shots = self.shots();
        let is_other = |place: &usize| same.binary_search(place).is_err();
        let mut places: Vec<usize> = if self.fixed || shots >= list.len() {
            let order: Vec<usize> = match (self.fixed, self.split.is_some()) {
                // One more for each that may be the example itself.
                (true, true) => {
                    row.ctx.random.example(&ExampleId([0; 16])).choose(shots + same.len(), list.len())
                }
                _ => (0..list.len()).collect(),
            };
            order.into_iter().filter(is_other).take(shots).collect()
        } else {
            // Numbers among the others, turned into places by stepping over the same.
            let drawn = row.draws().choose(shots, list.len() - same.len());
            let place =
                |number: usize| same.iter().fold(number, |place, same| place + usize::from(*same <= place));
            drawn.into_iter().map(place).collect()
        };
        if self.reverse {
            places.reverse();
        }
        places.into_iter().map(|place| &list[place]).collect()
    }
}

/// What comes before the inputs, and the exemplars that are written in the step.
pub(super) struct Prompt {
    prompt: String,
    written: Exemplars,
}

impl TextStep for Fewshot {
    const NAME: &'static str = "fewshot";

    type State = Prompt;

    fn plan(&self, input: &Schema) -> Result<(Plan, Prompt), PreprocessError> {
        match (&self.split, self.num_shots, self.exemplars.len()) {
            (Some(_), _, 1..) => {
                return Err(setting(
                    Self::NAME,
                    "`split` and `exemplars` both say where exemplars are from; keep one",
                ));
            }
            (Some(_), None, 0) => {
                return Err(setting(Self::NAME, "`num_shots` is missing: how many exemplars of the split?"));
            }
            (Some(split), Some(shots), 0) if self.pool <= shots => {
                let (pool, least) = (self.pool, shots + 1);
                let problem = format!(
                    "`pool` is {pool}, but for {shots} exemplars of `{split}` it must be {least} or more"
                );
                return Err(setting(Self::NAME, problem));
            }
            (None, Some(shots), written) if shots > written => {
                let problem = format!(
                    "`num_shots` is {shots}, but `exemplars` has {written}; write more, or name a split, `split = \"train\"`"
                );
                return Err(setting(Self::NAME, problem));
            }
            _ => {}
        }
        let prompt = match self.prompt.is_empty() {
            true => String::new(),
            false => format!("{}{}", self.prompt, self.example_separator),
        };
        let written = Exemplars::new(self.exemplars.iter().map(|exemplar| (None, exemplar.clone())));
        let plan = Plan::reads([("inputs", Kind::Text), ("targets", Kind::Text)]);
        Ok((plan.replaces(input, "inputs"), Prompt { prompt, written }))
    }

    fn row(&self, prompt: &Prompt, row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError> {
        let all = match (&self.split, &row.ctx.exemplars) {
            (None, _) => &prompt.written,
            (Some(_), Some(read)) => read.as_ref(),
            (Some(split), None) => {
                return Err(setting(Self::NAME, format!("the exemplars of split `{split}` were not read")));
            }
        };
        let mut inputs = prompt.prompt.clone();
        for exemplar in self.chosen(row, all) {
            let pieces = [
                &self.inputs_prefix,
                &exemplar.inputs,
                &self.targets_prefix,
                &exemplar.targets,
                &self.example_separator,
            ];
            pieces.into_iter().for_each(|piece| inputs.push_str(piece));
        }
        for piece in [self.inputs_prefix.as_str(), row.text(0), self.targets_prefix.trim_end()] {
            inputs.push_str(piece);
        }
        out.push(row, &[Value::Text(&inputs)])
    }
}

impl Preprocessor for Fewshot {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn output_schema(&self, input: &SchemaRef, _ctx: &StepContext) -> Result<SchemaRef, PreprocessError> {
        output_schema(self, input)
    }

    fn apply(&self, examples: Examples, ctx: &StepContext) -> Result<Examples, PreprocessError> {
        apply(self, examples, ctx)
    }

    fn exemplars(&self) -> Option<ExemplarRequest<'_>> {
        let split = self.split.as_deref()?;
        Some(ExemplarRequest { split, most: self.pool, least: self.shots() + 1 })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::AsArray;
    use serde_json::Value as Json;

    use super::*;
    use crate::testing::{assert_step_laws, text_examples};
    use crate::vocabulary::golden::rows as golden_rows;

    fn inputs_of(examples: &Examples) -> Vec<String> {
        let column = examples.columns.column_by_name("inputs").unwrap();
        column.as_string::<i32>().iter().map(|text| text.unwrap().to_owned()).collect()
    }

    /// Each row of SeqIO's answers has shots of its own, and the zero-shot case has none.
    #[test]
    fn prompts_are_written_as_seqio_writes_them() {
        let pairs = |numbers: [usize; 2]| numbers.map(|n| Exemplar::new(format!("q{n}"), format!("a{n}")));
        let mut compared = 0;
        for case in golden_rows("seqio/fewshot.jsonl") {
            let kwargs = &case["kwargs"];
            let mut settings = kwargs.clone();
            settings.as_object_mut().unwrap().remove("note");
            for (number, expected) in case["output"].as_array().unwrap().iter().enumerate() {
                let mut step: Fewshot = serde_json::from_value(settings.clone()).unwrap();
                if kwargs["note"] != "zero shots" {
                    step.exemplars = pairs([2 * number + 1, 2 * number + 2]).to_vec();
                }
                let (inputs, targets) = (format!("e{}", number + 1), format!("f{}", number + 1));
                let input = text_examples(&[("inputs", &[Some(&*inputs)]), ("targets", &[Some(&*targets)])]);
                let output = step.apply(input, &StepContext::default()).unwrap();
                assert_eq!(inputs_of(&output)[0], expected["inputs"].as_str().unwrap(), "{kwargs}");
                compared += 1;
            }
            assert!(matches!(case["fn"], Json::String(ref name) if name == "fewshot_preprocessor"));
        }
        assert_eq!(compared, 10);
    }

    /// Twelve examples that are also the pool.
    fn of_itself() -> (Examples, StepContext) {
        let questions: Vec<String> = (0..12).map(|n| format!("q{n}")).collect();
        let texts: Vec<Option<&str>> = questions.iter().map(|text| Some(text.as_str())).collect();
        let input = text_examples(&[("inputs", &texts), ("targets", &texts)]);
        let pool = input.rows.iter().zip(&questions);
        let pool = pool.map(|(row, text)| (Some(row.id), Exemplar::new(text, text)));
        let exemplars = Some(Arc::new(Exemplars::new(pool)));
        (input, StepContext { exemplars, ..StepContext::default() })
    }

    #[test]
    fn the_example_itself_is_never_shown_and_shots_differ_from_example_to_example() {
        let (input, ctx) = of_itself();
        for step in [
            Fewshot::of_split("train", 3),
            Fewshot::of_split("train", 11),
            Fewshot { fixed: true, ..Fewshot::of_split("train", 3) },
        ] {
            assert_step_laws(&step, &ctx, &input);
            let prompts = inputs_of(&step.apply(input.clone(), &ctx).unwrap());
            let mut all = std::collections::BTreeSet::new();
            for (number, prompt) in prompts.iter().enumerate() {
                let mut parts: Vec<&str> = prompt.split("\n\n").collect();
                assert_eq!(parts.pop().unwrap(), format!("q{number}"));
                let different: std::collections::BTreeSet<&str> = parts.iter().copied().collect();
                assert_eq!(
                    (parts.len(), different.len()),
                    (step.num_shots.unwrap(), step.num_shots.unwrap())
                );
                assert!(!parts.contains(&format!("q{number}q{number}").as_str()), "{prompt}");
                all.insert(parts.join(" "));
            }
            assert!(if step.fixed { all.len() <= 4 } else { all.len() >= 11 }, "{all:?}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_data() {
        let schema = of_itself().0.columns.schema();
        let refused =
            |step: Fewshot| step.output_schema(&schema, &StepContext::default()).unwrap_err().to_string();
        insta::assert_snapshot!(refused(Fewshot { num_shots: Some(2), ..Fewshot::default() }), @r#"step `fewshot`: `num_shots` is 2, but `exemplars` has 0; write more, or name a split, `split = "train"`"#);
        insta::assert_snapshot!(refused(Fewshot { split: Some("train".to_owned()), ..Fewshot::default() }), @"step `fewshot`: `num_shots` is missing: how many exemplars of the split?");
        insta::assert_snapshot!(refused(Fewshot { pool: 3, ..Fewshot::of_split("train", 3) }), @"step `fewshot`: `pool` is 3, but for 3 exemplars of `train` it must be 4 or more");
        let both = Fewshot { exemplars: vec![Exemplar::new("q", "a")], ..Fewshot::of_split("train", 1) };
        insta::assert_snapshot!(refused(both), @"step `fewshot`: `split` and `exemplars` both say where exemplars are from; keep one");
    }
}
