//! Keeps the named columns under new names, and no others.
//!
//! ```text
//! { to_from = { inputs = "en", targets = "de" } }
//! en: "one"  de: "eins"  n: 7   ->   inputs: "one"  targets: "eins"
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::example::Examples;
use crate::preprocess::{PreprocessError, Preprocessor, StepContext};

/// Renames columns. A null text becomes the empty text, as in SeqIO; other columns keep their nulls. An empty old name
/// makes a column of empty texts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::new(vec![("targets", "text")]))]
pub struct Rekey {
    /// New name to old name.
    #[schemars(extend("x-type" = "table of new name = old name"))]
    pub to_from: BTreeMap<String, String>,
}

impl Rekey {
    /// Renames by pairs of (new name, old name).
    pub fn new<N: Into<String>, O: Into<String>>(to_from: impl IntoIterator<Item = (N, O)>) -> Self {
        Self { to_from: to_from.into_iter().map(|(new, old)| (new.into(), old.into())).collect() }
    }
}

impl Preprocessor for Rekey {
    fn name(&self) -> &'static str {
        "rekey"
    }

    fn output_schema(&self, input: &SchemaRef, _ctx: &StepContext) -> Result<SchemaRef, PreprocessError> {
        if self.to_from.is_empty() {
            let problem =
                "`to_from` names no column, so nothing would be left; write `to_from = { new = \"old\" }`";
            return Err(PreprocessError::Setting { step: self.name(), problem: problem.to_owned() });
        }
        let absent =
            self.to_from.values().filter(|old| !old.is_empty() && input.column_with_name(old).is_none());
        let mut names: Vec<String> = absent.cloned().collect();
        names.sort();
        names.dedup();
        if !names.is_empty() {
            return Err(PreprocessError::missing_columns(self.name(), names, input));
        }
        let renamed = self.to_from.iter().filter_map(|(new, old)| {
            if old.is_empty() {
                return Some(Field::new(new, DataType::Utf8, false));
            }
            let (_, field) = input.column_with_name(old)?;
            let nullable = field.is_nullable() && *field.data_type() != DataType::Utf8;
            Some(Field::new(new, field.data_type().clone(), nullable))
        });
        Ok(Arc::new(Schema::new(renamed.collect::<Vec<_>>())))
    }

    fn apply(&self, examples: Examples, ctx: &StepContext) -> Result<Examples, PreprocessError> {
        let input = examples.columns.schema();
        let schema = self.output_schema(&input, ctx)?;
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.to_from.len());
        for old in self.to_from.values() {
            if old.is_empty() {
                columns.push(Arc::new(StringArray::from_iter_values(vec![""; examples.len()])));
                continue;
            }
            let column = examples.columns.column(input.index_of(old)?);
            columns.push(without_null_text(column));
        }
        let rows = RecordBatchOptions::new().with_row_count(Some(examples.len()));
        let columns = RecordBatch::try_new_with_options(schema, columns, &rows)?;
        Ok(examples.with_columns(columns))
    }
}

fn without_null_text(column: &ArrayRef) -> ArrayRef {
    if *column.data_type() != DataType::Utf8 || column.null_count() == 0 {
        return Arc::clone(column);
    }
    let texts = column.as_string::<i32>().iter().map(|text| text.unwrap_or_default());
    Arc::new(StringArray::from_iter_values(texts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_step_laws, show, text_examples};

    fn pairs() -> Examples {
        text_examples(&[("en", &[Some("one"), None]), ("de", &[Some("eins"), Some("")])])
    }

    #[test]
    fn only_the_named_columns_are_kept_and_null_text_is_empty() {
        let step = Rekey::new([("inputs", "en"), ("targets", "en")]);
        let output = step.apply(pairs(), &StepContext::default()).unwrap();
        insta::assert_snapshot!(show(&output), @r#"
        inputs: "one"  targets: "one"
        inputs: ""  targets: ""
        "#);
        assert_step_laws(&step, &StepContext::default(), &pairs());
    }

    #[test]
    fn every_absent_column_is_named_before_data() {
        let step = Rekey::new([("inputs", "eng"), ("targets", "fr"), ("more", "de")]);
        let error = step.output_schema(&pairs().columns.schema(), &StepContext::default()).unwrap_err();
        insta::assert_snapshot!(error, @"step `rekey` needs columns `eng`, `fr`, but the examples have only `en`, `de`");
    }

    #[test]
    fn a_map_of_nothing_is_refused() {
        let step = Rekey { to_from: BTreeMap::new() };
        let error = step.output_schema(&pairs().columns.schema(), &StepContext::default()).unwrap_err();
        insta::assert_snapshot!(error, @r#"step `rekey`: `to_from` names no column, so nothing would be left; write `to_from = { new = "old" }`"#);
    }
}
