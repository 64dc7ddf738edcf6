//! The choices of a question as examples of their own, written by templates.
//!
//! ```text
//! { inputs_formats = "{premise} Why?", targets_formats = ["I think {choice1}.", "I think {choice2}."] }
//! premise: "The farm needed water."  choice1: "It was dry"  choice2: "It was wet"  label: 0
//!     ->   idx: [5917…, 0]  inputs: "The farm needed water. Why?"  targets: "I think It was dry."  is_correct: true
//!          idx: [5917…, 1]  inputs: "The farm needed water. Why?"  targets: "I think It was wet."  is_correct: false
//! ```

use std::sync::Arc;

use arrow::array::{ArrayRef, ListBuilder, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use schemars::{JsonSchema, Schema as JsonSchemaOf, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::example::Examples;
use crate::preprocess::template::Template;
use crate::preprocess::text::rank_classification::{RankClassification, RankMode};
use crate::preprocess::text::{label_key, setting};
use crate::preprocess::{PreprocessError, Preprocessor, StepContext};

const STEP: &str = "rank_classification_formatter";

/// One template for all choices, or one for each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ChoiceFormats {
    /// The same for all choices.
    One(String),
    /// One for each choice, in their order.
    Each(Vec<String>),
}

/// Writes the `inputs` and `targets` of each choice by templates, and makes examples of them as `rank_classification`
/// does. In a template `{name}` is the value of a column, `{{` and `}}` are braces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::new("{premise} Why?", vec!["I think {choice1}.", "I think {choice2}."]))]
pub struct RankClassificationFormatter {
    /// The template of the inputs, or one for each choice.
    #[schemars(schema_with = "formats_schema")]
    pub inputs_formats: ChoiceFormats,
    /// The template of the targets, or one for each choice. One of the two is a list.
    #[schemars(schema_with = "formats_schema")]
    pub targets_formats: ChoiceFormats,
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

fn formats_schema(_: &mut SchemaGenerator) -> JsonSchemaOf {
    json_schema!({
        "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" }, "minItems": 1 }],
        "x-type": "template or list of templates",
    })
}

impl RankClassificationFormatter {
    /// One template of inputs, and one of targets for each choice.
    pub fn new<T: Into<String>>(
        inputs_format: impl Into<String>,
        targets_formats: impl IntoIterator<Item = T>,
    ) -> Self {
        Self {
            inputs_formats: ChoiceFormats::One(inputs_format.into()),
            targets_formats: ChoiceFormats::Each(targets_formats.into_iter().map(Into::into).collect()),
            label_key: label_key(),
            weight_key: None,
            mode: RankMode::Eval,
        }
    }

    /// The templates of inputs and of targets of each choice.
    fn templates(&self) -> Result<[Vec<Template>; 2], PreprocessError> {
        let of = |name: &str, formats: &ChoiceFormats| -> Result<(Vec<Template>, bool), PreprocessError> {
            let (formats, is_list) = match formats {
                ChoiceFormats::One(format) => (std::slice::from_ref(format), false),
                ChoiceFormats::Each(formats) => (formats.as_slice(), true),
            };
            let templates = formats.iter().map(|format| Template::setting(STEP, name, format));
            Ok((templates.collect::<Result<_, _>>()?, is_list))
        };
        let (mut inputs, inputs_are_many) = of("inputs_formats", &self.inputs_formats)?;
        let (mut targets, targets_are_many) = of("targets_formats", &self.targets_formats)?;
        match (inputs_are_many, targets_are_many) {
            (false, false) => {
                let problem = "one of `inputs_formats` and `targets_formats` must be a list, with a template for each choice";
                return Err(setting(STEP, problem));
            }
            (true, false) => targets = vec![targets[0].clone(); inputs.len()],
            (false, true) => inputs = vec![inputs[0].clone(); targets.len()],
            (true, true) if inputs.len() != targets.len() => {
                let (inputs, targets) = (inputs.len(), targets.len());
                let problem =
                    format!("`inputs_formats` has {inputs} templates, and `targets_formats` {targets}");
                return Err(setting(STEP, problem));
            }
            (true, true) => {}
        }
        if inputs.is_empty() {
            return Err(setting(STEP, "there is no template; write one for each choice"));
        }
        Ok([inputs, targets])
    }

    fn ranking(&self) -> RankClassification {
        RankClassification {
            label_key: self.label_key.clone(),
            weight_key: self.weight_key.clone(),
            mode: self.mode,
            ..RankClassification::default()
        }
    }

    /// The columns that the ranking gets: what it reads besides, and the lists of choices.
    fn ranked_columns(&self, input: &Schema) -> Result<Vec<usize>, PreprocessError> {
        let names = [Some(&self.label_key), self.weight_key.as_ref()];
        let index = |name: &String| match input.index_of(name) {
            Ok(index) => Ok(index),
            Err(_) => Err(PreprocessError::missing(STEP, "column", name, input)),
        };
        names.into_iter().flatten().map(index).collect()
    }
}

fn list_field(name: &str) -> FieldRef {
    let item = Arc::new(Field::new_list_field(DataType::Utf8, true));
    Arc::new(Field::new(name, DataType::List(item), false))
}

/// The fields of [`RankClassificationFormatter::ranked_columns`], under the names that they have there.
fn ranked_schema(input: &Schema, columns: &[usize]) -> SchemaRef {
    let kept = columns.iter().map(|index| Arc::clone(&input.fields()[*index]));
    Arc::new(Schema::new(kept.chain(["inputs", "targets"].map(list_field)).collect::<Vec<_>>()))
}

/// A mistake that the ranking found is one of this step.
fn renamed(error: PreprocessError) -> PreprocessError {
    match error {
        PreprocessError::WrongType { column, expected, found, .. } => {
            PreprocessError::WrongType { step: STEP, column, expected, found }
        }
        PreprocessError::Setting { problem, .. } => PreprocessError::Setting { step: STEP, problem },
        PreprocessError::Row { feature, problem, example, origins, .. } => {
            PreprocessError::Row { step: STEP, feature, problem, example, origins }
        }
        other => other,
    }
}

impl Preprocessor for RankClassificationFormatter {
    fn name(&self) -> &'static str {
        STEP
    }

    fn output_schema(&self, input: &SchemaRef, ctx: &StepContext) -> Result<SchemaRef, PreprocessError> {
        let [inputs, targets] = self.templates()?;
        Template::check(STEP, inputs.iter().chain(&targets), input)?;
        let columns = self.ranked_columns(input)?;
        if let Some(name) = ["inputs", "targets"]
            .into_iter()
            .find(|name| *name == self.label_key || self.weight_key.as_deref() == Some(name))
        {
            return Err(setting(
                STEP,
                format!("`{name}` is what it makes; give the column another name before"),
            ));
        }
        self.ranking().output_schema(&ranked_schema(input, &columns), ctx).map_err(renamed)
    }

    fn apply(&self, examples: Examples, ctx: &StepContext) -> Result<Examples, PreprocessError> {
        let input = examples.columns.schema();
        let columns = self.ranked_columns(&input)?;
        let mut ranked: Vec<ArrayRef> =
            columns.iter().map(|index| Arc::clone(examples.columns.column(*index))).collect();
        for templates in self.templates()? {
            let over = templates.iter().map(|template| template.over(&examples.columns));
            let over = over.collect::<Result<Vec<_>, _>>()?;
            let mut lists = ListBuilder::new(StringBuilder::new());
            let mut text = String::new();
            for (row, example) in examples.rows.iter().enumerate() {
                for template in &over {
                    text.clear();
                    template.write(row, &mut text);
                    if lists.values().values_slice().len() + text.len() > i32::MAX as usize {
                        let problem =
                            "the texts made from this chunk of the source take more than 2 GiB".to_owned();
                        return Err(PreprocessError::row(STEP, "inputs", problem, example));
                    }
                    lists.values().append_value(&text);
                }
                lists.append(true);
            }
            ranked.push(Arc::new(lists.finish()));
        }
        let ranked = RecordBatch::try_new(ranked_schema(&input, &columns), ranked)?;
        self.ranking().apply(examples.with_columns(ranked), ctx).map_err(renamed)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;

    use super::*;
    use crate::testing::{assert_step_laws, rows, show, text_examples};

    fn farms() -> Examples {
        let texts = text_examples(&[
            ("premise", &[Some("The farm needed water."), Some("It rained.")]),
            ("choice1", &[Some("It was dry"), Some("x")]),
            ("choice2", &[Some("It was wet"), Some("y")]),
        ]);
        let mut fields: Vec<FieldRef> = texts.columns.schema().fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new("label", DataType::Int64, true)));
        let mut columns = texts.columns.columns().to_vec();
        columns.push(Arc::new(Int64Array::from(vec![0, 1])));
        Examples::new(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap(), rows(2))
    }

    #[test]
    fn each_choice_is_written_by_its_template() {
        let mut step =
            RankClassificationFormatter::new("{premise} Why?", ["I think {choice1}.", "{{{choice2}}}"]);
        let output = step.apply(farms(), &StepContext::default()).unwrap();
        insta::assert_snapshot!(show(&output), @r#"
        idx: [1525167374551691747, 0]  inputs: "The farm needed water. Why?"  targets: "I think It was dry."  is_correct: true
        idx: [1525167374551691747, 1]  inputs: "The farm needed water. Why?"  targets: "{It was wet}"  is_correct: false
        idx: [2127587768779392934, 0]  inputs: "It rained. Why?"  targets: "I think x."  is_correct: false
        idx: [2127587768779392934, 1]  inputs: "It rained. Why?"  targets: "{y}"  is_correct: true
        "#);
        assert_step_laws(&step, &StepContext::default(), &farms());
        step.mode = RankMode::Train;
        let output = step.apply(farms(), &StepContext::default()).unwrap();
        insta::assert_snapshot!(show(&output), @r#"
        idx: [1525167374551691747, 0]  inputs: "The farm needed water. Why?"  targets: "I think It was dry."  is_correct: true
        idx: [2127587768779392934, 1]  inputs: "It rained. Why?"  targets: "{y}"  is_correct: true
        "#);
        assert_step_laws(&step, &StepContext::default(), &farms());
    }

    #[test]
    fn what_does_not_fit_is_refused_before_data() {
        let schema = farms().columns.schema();
        let refused = |step: &RankClassificationFormatter| {
            step.output_schema(&schema, &StepContext::default()).unwrap_err().to_string()
        };
        let step = RankClassificationFormatter::new("{premis}", ["{choice1}", "{choice3}"]);
        insta::assert_snapshot!(refused(&step), @"step `rank_classification_formatter` needs columns `premis`, `choice3`, but the examples have only `premise`, `choice1`, `choice2`, `label`");
        let mut step = RankClassificationFormatter::new("{premise}", ["{choice1}"]);
        step.inputs_formats = ChoiceFormats::Each(vec!["a".to_owned(), "b".to_owned()]);
        insta::assert_snapshot!(refused(&step), @"step `rank_classification_formatter`: `inputs_formats` has 2 templates, and `targets_formats` 1");
        step.targets_formats = ChoiceFormats::One("c".to_owned());
        step.label_key = "choice1".to_owned();
        insta::assert_snapshot!(refused(&step), @"step `rank_classification_formatter` needs `choice1` to be whole numbers, or lists of them, but it is `string`");
        step.inputs_formats = ChoiceFormats::One("d".to_owned());
        insta::assert_snapshot!(refused(&step), @"step `rank_classification_formatter`: one of `inputs_formats` and `targets_formats` must be a list, with a template for each choice");
    }
}
