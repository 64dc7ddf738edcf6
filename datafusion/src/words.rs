//! What the SQL engine says, in this project's words, or in parts where a person got something wrong.
//!
//! ```text
//! SQL error: ParserError("Expected: end of expression, found: b at Line: 1, Column: 3")
//!     ->  it cannot be read: expected: end of expression, found: b at Line: 1, Column: 3
//! Error during planning: Invalid function 'lenght'.\nDid you mean 'length'?
//!     ->  Mistake::NoFunction { name: "lenght", instead: "length" }
//! ```

use arrow::error::ArrowError;
use datafusion::common::{Column, DataFusionError, SchemaError};
use datafusion::sql::sqlparser::parser::ParserError;
use seqio_sql::{ColumnName, Mistake, sentence};

/// What a person got wrong, as the engine says it while it reads and plans.
pub(crate) fn mistake(error: &DataFusionError) -> Mistake {
    match root(error) {
        DataFusionError::SchemaError(schema, _) => match schema.as_ref() {
            SchemaError::FieldNotFound { field, valid_fields } => Mistake::NoColumn {
                column: column_name(field),
                columns: valid_fields.iter().map(column_name).collect(),
            },
            _ => Mistake::Other(in_words(error)),
        },
        DataFusionError::Plan(words) => no_function(words).unwrap_or_else(|| Mistake::Other(in_words(error))),
        _ => Mistake::Other(in_words(error)),
    }
}

fn column_name(column: &Column) -> ColumnName {
    ColumnName { whole: column.flat_name(), bare: column.name.clone() }
}

fn no_function(words: &str) -> Option<Mistake> {
    let mut names = words.strip_prefix("Invalid function '")?.split('\'');
    let name = names.next().unwrap_or_default().to_owned();
    Some(Mistake::NoFunction { name, instead: names.nth(1).map(str::to_owned) })
}

/// An error of the engine as part of a sentence: one line, no capital, no full stop.
pub(crate) fn in_words(error: &DataFusionError) -> String {
    match root(error) {
        DataFusionError::SQL(parser, _) => match parser.as_ref() {
            ParserError::TokenizerError(words) | ParserError::ParserError(words) => {
                format!("it cannot be read: {}", sentence(words))
            }
            ParserError::RecursionLimitExceeded => "it is nested too deeply".to_owned(),
        },
        DataFusionError::ArrowError(arrow, _) => arrow_in_words(arrow),
        DataFusionError::ResourcesExhausted(words) => {
            format!("there is not enough memory: {}", sentence(words))
        }
        DataFusionError::NotImplemented(words) => {
            format!("the SQL engine cannot do this: {}", sentence(words))
        }
        other => planning_in_words(&other.message()),
    }
}

fn root(error: &DataFusionError) -> &DataFusionError {
    match error {
        // One of several; the others follow from it.
        DataFusionError::Collection(errors) => errors.first().map_or(error, root),
        _ => error.find_root(),
    }
}

/// An error of Arrow's kernels as part of a sentence. It may carry one of the engine.
pub(crate) fn arrow_in_words(error: &ArrowError) -> String {
    if let ArrowError::ExternalError(inner) = error
        && let Some(error) = inner.downcast_ref::<DataFusionError>()
    {
        return in_words(error);
    }
    seqio_sql::arrow_in_words(error)
}

/// An error of the planner.
fn planning_in_words(words: &str) -> String {
    let no_match = "Cannot infer common argument type for comparison operation ";
    if let Some(operation) = words.strip_prefix(no_match) {
        return format!("values of these types cannot be compared: `{}`", operation.trim_end_matches('.'));
    }
    if words.starts_with("Failed to coerce arguments")
        && let Some(name) = words.split('\'').nth(1)
        && let Some((_, types)) = words.split_once("coercion from ")
        && let Some((types, _)) = types.split_once(" to the signature")
    {
        return format!("the function `{name}` does not take `{types}`");
    }
    sentence(words)
}
