//! What the engine calls an error, and an error of ours on its way through the engine.

use std::error::Error;
use std::fmt;

use datafusion::common::{DataFusionError, SchemaError};
use datafusion::sql::sqlparser::parser::ParserError;
use seqio_sql::{Mistake, SqlError, sentence};

use crate::words::{in_words, mistake};

/// An error of the engine, told while a query was made ready or while it ran.
pub(crate) fn of_engine(error: DataFusionError) -> SqlError {
    match error {
        DataFusionError::Collection(mut errors) if !errors.is_empty() => {
            return of_engine(errors.swap_remove(0));
        }
        DataFusionError::External(error) if error.is::<Carried>() => {
            return error.downcast::<Carried>().expect("its type was just looked at").0;
        }
        _ => {}
    }
    let place = place_of(&error);
    let root = match error.find_root() {
        DataFusionError::Collection(errors) => errors.first().map_or(&error, DataFusionError::find_root),
        root => root,
    };
    match root {
        // One that the engine shares among its operators.
        DataFusionError::External(inner) if inner.is::<Carried>() => {
            let carried = inner.downcast_ref::<Carried>();
            carried.expect("its type was just looked at").0.clone()
        }
        DataFusionError::SQL(parser, _) => {
            let words = match parser.as_ref() {
                ParserError::TokenizerError(words) | ParserError::ParserError(words) => words.as_str(),
                ParserError::RecursionLimitExceeded => "it is nested too deeply",
            };
            let (words, place) = split_place(words);
            let words = format!("the query cannot be read: {}", sentence(words));
            SqlError::Query { mistake: Mistake::Other(words), place }
        }
        DataFusionError::SchemaError(schema, _) => {
            let mistake = ambiguous(schema, place.is_some()).unwrap_or_else(|| mistake(root));
            SqlError::Query { mistake, place }
        }
        DataFusionError::Plan(_) | DataFusionError::NotImplemented(_) => {
            SqlError::Query { mistake: mistake(root), place }
        }
        DataFusionError::ResourcesExhausted(_) => SqlError::Memory { hint: "raise `--memory`" },
        other => SqlError::Run(in_words(other)),
    }
}

/// The error on its way through the engine.
pub(crate) fn into_engine(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(Carried(error)))
}

/// An error of ours while the engine has it; nobody reads it there.
#[derive(Debug)]
struct Carried(SqlError);

impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl Error for Carried {}

/// Where in the query the engine sees the mistake.
fn place_of(error: &DataFusionError) -> Option<(u64, u64)> {
    let mut found = None;
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(DataFusionError::Diagnostic(diagnostic, _)) = error.downcast_ref::<DataFusionError>()
            && let Some(span) = diagnostic.span
        {
            found = Some((span.start.line, span.start.column));
        }
        next = error.source();
    }
    found
}

/// The words of the parser without ` at Line: 1, Column: 3`, and that place.
fn split_place(words: &str) -> (&str, Option<(u64, u64)>) {
    let Some((before, place)) = words.rsplit_once(" at Line: ") else { return (words, None) };
    let Some((line, column)) = place.split_once(", Column: ") else { return (words, None) };
    match (line.trim().parse(), column.trim().parse()) {
        (Ok(line), Ok(column)) => (before, Some((line, column))),
        _ => (words, None),
    }
}

/// A name that several columns have.
fn ambiguous(error: &SchemaError, has_place: bool) -> Option<Mistake> {
    let words = match error {
        SchemaError::FieldNotFound { .. } => return None,
        SchemaError::AmbiguousReference { field } if has_place => {
            let name = &field.name;
            format!("several tables have a column `{name}`; write `table.{name}`")
        }
        // Without a place it is no name that was written.
        SchemaError::AmbiguousReference { field } => {
            format!("two columns are called `{}`; give one another name with `AS`", field.name)
        }
        SchemaError::DuplicateQualifiedField { name, .. }
        | SchemaError::DuplicateUnqualifiedField { name } => {
            format!("two columns are called `{name}`; give one another name with `AS`")
        }
    };
    Some(Mistake::Other(words))
}
