//! Drops the examples for which an SQL condition does not hold.
//!
//! ```text
//! { where = "length(text) > 3 AND lang = 'en'" }
//! text: "abcd"  lang: "en"    ->   stays
//! text: "abcd"  lang: null    ->   is dropped: null is not true
//! ```

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Int32Type, SchemaRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::example::Examples;
use crate::preprocess::sql::{Prepared, SqlSetting};
use crate::preprocess::{PreprocessError, Preprocessor, StepContext, type_name};

const STEP: &str = "filter";

/// Keeps the examples for which the condition is true, with their ids; where it is false or null they are dropped, and
/// counted. The condition is SQL over the columns at this place, token features among them:
/// `cardinality(targets) <= 512`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::new("length(text) > 200"))]
pub struct Filter {
    /// An SQL expression that is true or false for each example.
    #[serde(rename = "where")]
    pub condition: String,
    #[serde(skip)]
    prepared: Prepared<SqlSetting>,
}

impl Filter {
    /// Keeps the examples for which `condition` is true.
    pub fn new(condition: impl Into<String>) -> Self {
        Self { condition: condition.into(), prepared: Prepared::default() }
    }

    fn prepared(&self, columns: &SchemaRef) -> Result<Arc<SqlSetting>, PreprocessError> {
        self.prepared.get(columns, || {
            if self.condition.trim().is_empty() {
                let problem =
                    "`where` is empty; write a condition, as `where = \"length(text) > 200\"`".to_owned();
                return Err(PreprocessError::Setting { step: STEP, problem });
            }
            let setting = SqlSetting::check(STEP, "`where`".to_owned(), &self.condition, columns)?;
            match setting.data_type() {
                DataType::Boolean => Ok(setting),
                found => {
                    let problem = format!(
                        "`where` must be true or false, but it is `{}`; compare it with something, as `… > 0`",
                        type_name(found)
                    );
                    Err(PreprocessError::Setting { step: STEP, problem })
                }
            }
        })
    }
}

impl Preprocessor for Filter {
    fn name(&self) -> &'static str {
        STEP
    }

    fn output_schema(&self, input: &SchemaRef, _ctx: &StepContext) -> Result<SchemaRef, PreprocessError> {
        self.prepared(input)?;
        Ok(Arc::clone(input))
    }

    fn apply(&self, examples: Examples, ctx: &StepContext) -> Result<Examples, PreprocessError> {
        let holds = self.prepared(&examples.columns.schema())?.evaluate(&examples)?;
        let keep: Vec<bool> = holds.as_boolean().iter().map(|holds| holds == Some(true)).collect();
        let mut counts = examples.counts.clone();
        for (name, counts) in &mut counts {
            counts.unknown = counts.unknown.saturating_sub(unknown_dropped(name, &examples, &keep, ctx));
        }
        Ok(Examples { counts, ..examples.keep(&keep)? })
    }
}

/// Unknown ids of a feature in the examples that are dropped: they do not come into the statistics.
fn unknown_dropped(feature: &str, examples: &Examples, keep: &[bool], ctx: &StepContext) -> u64 {
    let unknown = ctx.output_features.get(feature).and_then(|feature| feature.vocabulary.special_ids().unk);
    let (Some(unknown), Some(column)) = (unknown, examples.columns.column_by_name(feature)) else { return 0 };
    let DataType::List(item) = column.data_type() else { return 0 };
    if *item.data_type() != DataType::Int32 {
        return 0;
    }
    let lists = column.as_list::<i32>();
    let dropped = (0..lists.len()).filter(|&row| !keep[row] && lists.is_valid(row));
    let of_row = |row: usize| {
        let ids = lists.value(row);
        ids.as_primitive::<Int32Type>().values().iter().filter(|id| **id == unknown).count() as u64
    };
    dropped.map(of_row).sum()
}

#[cfg(test)]
#[cfg(feature = "sql")]
mod tests {
    use super::*;
    use crate::example::EncodeCounts;
    use crate::testing::{assert_step_laws, context, show, text_examples, token_examples};

    fn documents() -> Examples {
        text_examples(&[
            ("text", &[Some("abcd"), Some("abcd"), Some("ab"), None, Some("abcde")]),
            ("lang", &[Some("en"), None, Some("en"), Some("en"), Some("de")]),
        ])
    }

    #[test]
    fn examples_stay_where_the_condition_is_true_and_keep_their_ids() {
        let step = Filter::new("length(text) > 3 AND lang = 'en'");
        let output = step.apply(documents(), &StepContext::default()).unwrap();
        insta::assert_snapshot!(show(&output), @r#"text: "abcd"  lang: "en""#);
        assert_eq!(output.rows, documents().rows[..1]);
        for condition in
            ["length(text) > 3 AND lang = 'en'", "lang IS NULL OR text LIKE '%e'", "true", "1 = 2"]
        {
            assert_step_laws(&Filter::new(condition), &StepContext::default(), &documents());
        }
    }

    #[test]
    fn token_features_can_be_looked_at() {
        let input = || token_examples("targets", vec![vec![5, 2, 7], vec![2], vec![], vec![9, 9]]);
        for (condition, lengths) in [
            ("cardinality(targets) <= 2", vec![1, 0, 2]),
            ("array_has(targets, 7)", vec![3]),
            ("NOT array_has(targets, 2)", vec![0, 2]),
        ] {
            let step = Filter::new(condition);
            let output = step.apply(input(), &context("targets", Some(1))).unwrap();
            let lists = output.columns.column(0).as_list::<i32>();
            let found: Vec<usize> = (0..lists.len()).map(|row| lists.value(row).len()).collect();
            assert_eq!(found, lengths, "{condition}");
            assert_step_laws(&step, &context("targets", Some(1)), &input());
        }
    }

    #[test]
    fn unknown_ids_of_dropped_examples_are_not_counted() {
        let mut input = token_examples("targets", vec![vec![5, 2, 2], vec![2, 6]]);
        let met = EncodeCounts { unknown: 3, special_spellings: 0 };
        input.counts.insert("targets".to_owned(), met);
        let step = Filter::new("cardinality(targets) < 3");
        let output = step.apply(input, &context("targets", Some(1))).unwrap();
        assert_eq!(output.counts["targets"].unknown, 1);
    }

    #[test]
    fn an_error_is_that_of_the_first_row_at_fault_however_rows_are_cut() {
        let input = text_examples(&[("n", &[Some("4"), Some("0"), Some("x"), Some("0")])]);
        let guarded = Filter::new("n <> '0' AND n <> 'x' AND 8 / CAST(n AS int) > 1");
        assert_step_laws(&guarded, &StepContext::default(), &input);
        let output = guarded.apply(input.clone(), &StepContext::default()).unwrap();
        assert_eq!(output.len(), 1);
        let unguarded = Filter::new("8 / CAST(n AS int) > 1");
        let error = unguarded.apply(input, &StepContext::default()).unwrap_err();
        assert_eq!(error.origins()[0].row, 1);
        insta::assert_snapshot!(error, @"step `filter`, `where`: division by zero (record 2 of file 1, example 9d86b5cda28fc7a6691657e6bf69bf81)");
    }

    fn refused(condition: &str) -> String {
        let schema = documents().columns.schema();
        Filter::new(condition).output_schema(&schema, &StepContext::default()).unwrap_err().to_string()
    }

    #[test]
    fn a_condition_that_is_none_is_refused_before_data() {
        insta::assert_snapshot!(refused("length(txt) > 3"), @"step `filter` needs column `txt`, but the examples have only `text`, `lang`");
        insta::assert_snapshot!(refused("length(text)"), @"step `filter`: `where` must be true or false, but it is `int32`; compare it with something, as `… > 0`");
        insta::assert_snapshot!(refused(" "), @r#"step `filter`: `where` is empty; write a condition, as `where = "length(text) > 200"`"#);
    }
}
