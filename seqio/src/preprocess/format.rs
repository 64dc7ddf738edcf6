//! Fills columns from templates over other columns, or by SQL expressions.
//!
//! ```text
//! { set = { inputs = "translate: {en}", targets = "{fr}" } }
//! en: "one"  fr: "un"   ->   en: "one"  fr: "un"  inputs: "translate: one"  targets: "un"
//! { compute = { fr = "coalesce(fr, en)", n = "length(en)" } }
//! en: "one"  fr: null   ->   en: "one"  fr: "one"  n: 3
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::example::Examples;
use crate::preprocess::select::computed_field;
use crate::preprocess::sql::{Prepared, SqlSetting, canonical_sql};
use crate::preprocess::template::Template;
use crate::preprocess::{PreprocessError, Preprocessor, StepContext};

const STEP: &str = "format";

/// Sets columns: texts by templates, anything by SQL expressions; the others stay as they are. All see the columns as
/// they were before the step.
///
/// In a template `{name}` stands for the value of a column, `{{` and `}}` for braces. Whole numbers are written in
/// decimal, floats as `0.5` and `1.0`, booleans as `true` and `false`, and nulls as nothing. An expression gives a column
/// of its own type, with nulls where it is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::new(vec![("inputs", "translate English to French: {en}"), ("targets", "{fr}")]))]
pub struct Format {
    /// Column to template.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-type" = "table of column = template", "x-default" = "none"))]
    pub set: BTreeMap<String, String>,
    /// Column to SQL expression.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-type" = "table of column = expression", "x-default" = "none"))]
    pub compute: BTreeMap<String, String>,
    #[serde(skip)]
    prepared: Prepared<Vec<(String, SqlSetting)>>,
}

impl Format {
    /// Sets columns by pairs of (column, template).
    pub fn new<C: Into<String>, T: Into<String>>(set: impl IntoIterator<Item = (C, T)>) -> Self {
        let set = set.into_iter().map(|(column, template)| (column.into(), template.into())).collect();
        Self { set, ..Self::default() }
    }

    /// Computes columns by pairs of (column, SQL expression).
    #[must_use]
    pub fn compute<C: Into<String>, E: Into<String>>(
        mut self,
        compute: impl IntoIterator<Item = (C, E)>,
    ) -> Self {
        self.compute.extend(compute.into_iter().map(|(column, expr)| (column.into(), expr.into())));
        self
    }

    /// The step as it counts for a fingerprint.
    pub(crate) fn canonical(&self) -> Self {
        let canonical = |(column, expr): (&String, &String)| (column.clone(), canonical_sql(expr));
        Self { compute: self.compute.iter().map(canonical).collect(), ..self.clone() }
    }

    /// The expressions, checked.
    fn expressions(&self, input: &SchemaRef) -> Result<Arc<Vec<(String, SqlSetting)>>, PreprocessError> {
        self.prepared.get(input, || {
            let check = |(column, expr): (&String, &String)| {
                let place = format!("`compute.{column}`");
                Ok((column.clone(), SqlSetting::check(STEP, place, expr, input)?))
            };
            self.compute.iter().map(check).collect()
        })
    }

    fn templates(&self) -> Result<Vec<(&str, Template)>, PreprocessError> {
        let parse = |(column, template): (&'_ String, &String)| Template::setting(STEP, column, template);
        self.set.iter().map(|entry| Ok((entry.0.as_str(), parse(entry)?))).collect()
    }
}

impl Preprocessor for Format {
    fn name(&self) -> &'static str {
        STEP
    }

    fn output_schema(&self, input: &SchemaRef, _ctx: &StepContext) -> Result<SchemaRef, PreprocessError> {
        let setting = |problem: String| PreprocessError::Setting { step: STEP, problem };
        if self.set.is_empty() && self.compute.is_empty() {
            let words = "it fills no column; write `set = { column = \"template\" }` or \
                         `compute = { column = \"SQL expression\" }`";
            return Err(setting(words.to_owned()));
        }
        if let Some(column) = self.set.keys().find(|column| self.compute.contains_key(*column)) {
            return Err(setting(format!("`{column}` is filled twice, by `set` and by `compute`; keep one")));
        }
        let templates = self.templates()?;
        Template::check(STEP, templates.iter().map(|(_, template)| template), input)?;
        let expressions = self.expressions(input)?;
        let texts = templates.iter().map(|(column, _)| Arc::new(Field::new(*column, DataType::Utf8, false)));
        let computed = expressions.iter().map(|(column, expr)| computed_field(column, expr.data_type()));
        let mut fields: Vec<_> = input.fields().iter().map(Arc::clone).collect();
        for field in texts.chain(computed) {
            match input.column_with_name(field.name()) {
                Some((index, _)) => fields[index] = field,
                None => fields.push(field),
            }
        }
        Ok(Arc::new(Schema::new(fields)))
    }

    fn apply(&self, examples: Examples, ctx: &StepContext) -> Result<Examples, PreprocessError> {
        let input = examples.columns.schema();
        let schema = self.output_schema(&input, ctx)?;
        let mut columns = examples.columns.columns().to_vec();
        columns.resize(schema.fields().len(), Arc::new(StringArray::new_null(0)));
        for (column, template) in self.templates()? {
            columns[schema.index_of(column)?] = fill(&template, &examples.columns)?;
        }
        for (column, expression) in self.expressions(&input)?.iter() {
            columns[schema.index_of(column)?] = expression.evaluate(&examples)?;
        }
        let rows = RecordBatchOptions::new().with_row_count(Some(examples.len()));
        let columns = RecordBatch::try_new_with_options(schema, columns, &rows)?;
        Ok(examples.with_columns(columns))
    }
}

fn fill(template: &Template, columns: &RecordBatch) -> Result<ArrayRef, PreprocessError> {
    let template = template.over(columns)?;
    let mut texts = StringBuilder::new();
    let mut text = String::new();
    for row in 0..columns.num_rows() {
        text.clear();
        template.write(row, &mut text);
        texts.append_value(&text);
    }
    Ok(Arc::new(texts.finish()))
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, BooleanArray, Float64Array, Int64Array};

    use super::*;
    use crate::testing::{assert_step_laws, rows, show, text_examples};

    fn pairs() -> Examples {
        text_examples(&[("en", &[Some("one"), None]), ("fr", &[Some("un"), Some("{deux}")])])
    }

    #[test]
    fn templates_are_filled_and_other_columns_stay() {
        let step = Format::new([("inputs", "translate {{en}}: {en}"), ("fr", "{fr}{fr}")]);
        let output = step.apply(pairs(), &StepContext::default()).unwrap();
        insta::assert_snapshot!(show(&output), @r#"
        en: "one"  fr: "unun"  inputs: "translate {en}: one"
        en: null  fr: "{deux}{deux}"  inputs: "translate {en}: "
        "#);
        assert_step_laws(&step, &StepContext::default(), &pairs());
    }

    #[test]
    fn numbers_and_booleans_are_written_as_in_json() {
        let columns: [(&str, ArrayRef); 3] = [
            ("n", Arc::new(Int64Array::from(vec![Some(-3), None]))),
            ("x", Arc::new(Float64Array::from(vec![0.5, 1.0]))),
            ("b", Arc::new(BooleanArray::from(vec![true, false]))),
        ];
        let input = Examples::new(RecordBatch::try_from_iter(columns).unwrap(), rows(2));
        let step = Format::new([("t", "{n}|{x}|{b}")]);
        let output = step.apply(input, &StepContext::default()).unwrap();
        let texts = output.columns.column_by_name("t").unwrap().as_string::<i32>();
        assert_eq!(texts.iter().flatten().collect::<Vec<_>>(), ["-3|0.5|true", "|1.0|false"]);
    }

    #[test]
    #[cfg(feature = "sql")]
    fn columns_are_computed_from_what_was_there_before() {
        let step = Format::new([("fr", "{en}!")]).compute([("en", "coalesce(en, fr)"), ("n", "length(fr)")]);
        let output = step.apply(pairs(), &StepContext::default()).unwrap();
        insta::assert_snapshot!(show(&output), @r#"
        en: "one"  fr: "one!"  n: 2
        en: "{deux}"  fr: "!"  n: 6
        "#);
        assert_step_laws(&step, &StepContext::default(), &pairs());
    }

    #[test]
    fn a_column_is_filled_once() {
        let step = Format::new([("en", "{en}")]).compute([("en", "fr")]);
        let error = step.output_schema(&pairs().columns.schema(), &StepContext::default()).unwrap_err();
        insta::assert_snapshot!(error, @"step `format`: `en` is filled twice, by `set` and by `compute`; keep one");
        let error =
            Format::default().output_schema(&pairs().columns.schema(), &StepContext::default()).unwrap_err();
        insta::assert_snapshot!(error, @r#"step `format`: it fills no column; write `set = { column = "template" }` or `compute = { column = "SQL expression" }`"#);
    }

    #[test]
    fn unknown_columns_are_refused_before_data() {
        let step = Format::new([("inputs", "{en} {de} {es}")]);
        let error = step.output_schema(&pairs().columns.schema(), &StepContext::default()).unwrap_err();
        insta::assert_snapshot!(error, @"step `format` needs columns `de`, `es`, but the examples have only `en`, `fr`");
    }
}
