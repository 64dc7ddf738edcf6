//! Keeps some columns under their names, in the order they are listed, and computes others.
//!
//! ```text
//! { columns = ["text", "length(text) AS characters"] }
//! id: 7  text: "abc"  html: "<p>…"   ->   text: "abc"  characters: 3
//! { except = ["html"] }
//! id: 7  text: "abc"  html: "<p>…"   ->   id: 7  text: "abc"
//! ```

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::example::Examples;
use crate::preprocess::sql::{Prepared, SqlSetting, canonical_sql};
use crate::preprocess::{PreprocessError, Preprocessor, StepContext, column_names};

const STEP: &str = "select";

/// Keeps columns as they are, nulls too: unlike `rekey` it gives none another name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::new(vec!["id", "text"]))]
pub struct Select {
    /// The columns to keep, in this order; or SQL expressions with a name: `length(text) AS characters`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-default" = "all but `except`"))]
    pub columns: Vec<String>,
    /// The columns to leave out, instead of those to keep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-default" = "none"))]
    pub except: Vec<String>,
    #[serde(skip)]
    prepared: Prepared<Selection>,
}

/// What the settings come to for some columns.
#[derive(Debug)]
struct Selection {
    columns: Vec<Selected>,
    schema: SchemaRef,
}

#[derive(Debug)]
enum Selected {
    /// The column of the input at this place.
    Kept(usize),
    Computed(SqlSetting),
}

impl Select {
    /// Keeps these columns, in this order.
    pub fn new<C: Into<String>>(columns: impl IntoIterator<Item = C>) -> Self {
        Self { columns: columns.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Keeps all columns but these.
    pub fn except<C: Into<String>>(columns: impl IntoIterator<Item = C>) -> Self {
        Self { except: columns.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Whether a column is computed: whether an entry looks like more than a name.
    pub(crate) fn computes(&self) -> bool {
        self.columns.iter().any(|entry| !is_name(entry))
    }

    /// The step as it counts for a fingerprint.
    pub(crate) fn canonical(&self) -> Self {
        let entry = |entry: &String| match entry.to_lowercase().split_whitespace().any(|word| word == "as") {
            true => canonical_sql(entry),
            // Blanks count in the name of a column.
            false => entry.clone(),
        };
        Self { columns: self.columns.iter().map(entry).collect(), ..self.clone() }
    }

    fn prepared(&self, input: &SchemaRef) -> Result<Arc<Selection>, PreprocessError> {
        self.prepared.get(input, || self.selection(input))
    }

    fn selection(&self, input: &SchemaRef) -> Result<Selection, PreprocessError> {
        let setting = |problem: String| PreprocessError::Setting { step: STEP, problem };
        let entries = match (self.columns.is_empty(), self.except.is_empty()) {
            (false, true) => self.columns.clone(),
            (true, false) => {
                missing(self.except.iter(), input)?;
                let kept = column_names(input).into_iter().filter(|name| !self.except.contains(name));
                let kept: Vec<String> = kept.collect();
                if kept.is_empty() {
                    return Err(setting(
                        "`except` names all columns, so that nothing would be left".to_owned(),
                    ));
                }
                kept
            }
            (true, true) => {
                let words = "it names no column; write `columns = [\"text\", \"id\"]` for those to keep, or \
                             `except = [\"html\"]` for those to leave out";
                return Err(setting(words.to_owned()));
            }
            (false, false) => {
                return Err(setting(
                    "`columns` and `except` say the same twice; keep one of them".to_owned(),
                ));
            }
        };
        missing(entries.iter().filter(|entry| is_name(entry)), input)?;
        let mut columns = Vec::new();
        let mut fields: Vec<FieldRef> = Vec::new();
        for entry in &entries {
            let (column, field) = selected(entry, input)?;
            if fields.iter().any(|other| other.name() == field.name()) {
                return Err(setting(format!("`columns` has `{}` twice", field.name())));
            }
            columns.push(column);
            fields.push(field);
        }
        Ok(Selection { columns, schema: Arc::new(Schema::new(fields)) })
    }
}

/// A column of this name goes before an expression that reads the same.
fn selected(entry: &str, input: &Schema) -> Result<(Selected, FieldRef), PreprocessError> {
    if let Some((index, _)) = input.column_with_name(entry) {
        return Ok((Selected::Kept(index), Arc::clone(&input.fields()[index])));
    }
    let computed = SqlSetting::check(STEP, format!("`{entry}`"), entry, input)?;
    let Some(name) = computed.name() else {
        let problem = format!("`{entry}` has no name; write `{entry} AS name`");
        return Err(PreprocessError::Setting { step: STEP, problem });
    };
    let field = computed_field(name, computed.data_type());
    Ok((Selected::Computed(computed), field))
}

/// The field of a computed column. What SQL gives may always be null.
pub(crate) fn computed_field(name: &str, data_type: &DataType) -> FieldRef {
    Arc::new(Field::new(name, data_type.clone(), true))
}

/// Whether an entry can be nothing but the name of a column.
fn is_name(entry: &str) -> bool {
    entry.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':'))
}

fn missing<'a>(names: impl Iterator<Item = &'a String>, input: &Schema) -> Result<(), PreprocessError> {
    let names: Vec<String> = names.filter(|name| input.column_with_name(name).is_none()).cloned().collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(PreprocessError::missing_columns(STEP, names, input))
}

impl Preprocessor for Select {
    fn name(&self) -> &'static str {
        STEP
    }

    fn output_schema(&self, input: &SchemaRef, _ctx: &StepContext) -> Result<SchemaRef, PreprocessError> {
        Ok(Arc::clone(&self.prepared(input)?.schema))
    }

    fn apply(&self, examples: Examples, _ctx: &StepContext) -> Result<Examples, PreprocessError> {
        let selection = self.prepared(&examples.columns.schema())?;
        let column = |selected: &Selected| match selected {
            Selected::Kept(index) => Ok(Arc::clone(examples.columns.column(*index))),
            Selected::Computed(expression) => expression.evaluate(&examples),
        };
        let columns: Vec<ArrayRef> = selection.columns.iter().map(column).collect::<Result<_, _>>()?;
        let rows = RecordBatchOptions::new().with_row_count(Some(examples.len()));
        let columns = RecordBatch::try_new_with_options(Arc::clone(&selection.schema), columns, &rows)?;
        Ok(examples.with_columns(columns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_step_laws, show, text_examples};

    fn pages() -> Examples {
        text_examples(&[
            ("id", &[Some("1"), Some("2")]),
            ("text", &[Some("abc"), None]),
            ("html", &[Some("<p>"), Some("")]),
        ])
    }

    fn shown(step: &Select) -> String {
        assert_step_laws(step, &StepContext::default(), &pages());
        show(&step.apply(pages(), &StepContext::default()).unwrap())
    }

    fn refused(step: &Select) -> String {
        step.output_schema(&pages().columns.schema(), &StepContext::default()).unwrap_err().to_string()
    }

    #[test]
    fn columns_stand_as_they_are_listed_and_keep_their_nulls() {
        insta::assert_snapshot!(shown(&Select::new(["text", "id"])), @r#"
        text: "abc"  id: "1"
        text: null  id: "2"
        "#);
        insta::assert_snapshot!(shown(&Select::except(["html"])), @r#"
        id: "1"  text: "abc"
        id: "2"  text: null
        "#);
    }

    #[test]
    #[cfg(feature = "sql")]
    fn a_column_can_be_computed() {
        let step = Select::new(["id", "coalesce(length(text), 0) AS characters", "upper(html) AS html"]);
        insta::assert_snapshot!(shown(&step), @r#"
        id: "1"  characters: 3  html: "<P>"
        id: "2"  characters: 0  html: ""
        "#);
    }

    #[test]
    fn senseless_lists_are_refused_before_data() {
        insta::assert_snapshot!(refused(&Select::new(["text", "txt"])), @"step `select` needs column `txt`, but the examples have only `id`, `text`, `html`");
        insta::assert_snapshot!(refused(&Select::except(["htm"])), @"step `select` needs column `htm`, but the examples have only `id`, `text`, `html`");
        insta::assert_snapshot!(refused(&Select::new(["text", "text"])), @"step `select`: `columns` has `text` twice");
        insta::assert_snapshot!(refused(&Select::except(["id", "text", "html"])), @"step `select`: `except` names all columns, so that nothing would be left");
        insta::assert_snapshot!(refused(&Select::default()), @r#"step `select`: it names no column; write `columns = ["text", "id"]` for those to keep, or `except = ["html"]` for those to leave out"#);
        let both = Select { except: vec!["html".to_owned()], ..Select::new(["text"]) };
        insta::assert_snapshot!(refused(&both), @"step `select`: `columns` and `except` say the same twice; keep one of them");
    }

    #[test]
    #[cfg(feature = "sql")]
    fn a_computed_column_needs_a_name() {
        insta::assert_snapshot!(refused(&Select::new(["length(text)"])), @"step `select`: `length(text)` has no name; write `length(text) AS name`");
    }
}
