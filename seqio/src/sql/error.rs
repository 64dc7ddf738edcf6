//! What goes wrong with a query, in this project's words.

use datafusion::common::{Column, DataFusionError, SchemaError};
use datafusion::sql::sqlparser::parser::ParserError;

use crate::source::SourceError;
use crate::sql::words::{in_words, sentence};
use crate::text::{nearest, quoted};

/// Why a query cannot be run, or not to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SqlError {
    /// The query is not one that can be run.
    #[error("{problem}{}", place.map_or_else(String::new, |(line, column)| {
        format!(" (line {line}, column {column} of the query)")
    }))]
    Query {
        /// What is wrong and what to do.
        problem: String,
        /// Line and column in the query, from 1.
        place: Option<(u64, u64)>,
    },
    /// A table cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// It needs more memory than it may take.
    #[error("the query needs more memory than it may take; {hint}")]
    Memory {
        /// What to do.
        hint: &'static str,
    },
    /// It failed on some rows.
    #[error("{0}")]
    Run(String),
    /// Someone asked it to stop.
    #[error("interrupted")]
    Stopped,
}

impl SqlError {
    pub(crate) fn query(problem: impl Into<String>) -> Self {
        Self::Query { problem: problem.into(), place: None }
    }

    /// An error of the engine, told while a query was made ready or while it ran.
    pub(crate) fn of_engine(error: DataFusionError) -> Self {
        match error {
            DataFusionError::Collection(mut errors) if !errors.is_empty() => {
                return Self::of_engine(errors.swap_remove(0));
            }
            DataFusionError::External(error) if error.is::<Self>() => {
                return *error.downcast::<Self>().expect("its type was just looked at");
            }
            _ => {}
        }
        let place = place_of(&error);
        let root = match error.find_root() {
            DataFusionError::Collection(errors) => errors.first().map_or(&error, DataFusionError::find_root),
            root => root,
        };
        if let DataFusionError::External(inner) = root
            && let Some(own) = inner.downcast_ref::<Self>()
        {
            return own.again();
        }
        match root {
            DataFusionError::SQL(parser, _) => {
                let words = match parser.as_ref() {
                    ParserError::TokenizerError(words) | ParserError::ParserError(words) => words.as_str(),
                    ParserError::RecursionLimitExceeded => "it is nested too deeply",
                };
                let (words, place) = split_place(words);
                Self::Query { problem: format!("the query cannot be read: {}", sentence(words)), place }
            }
            DataFusionError::SchemaError(schema, _) => {
                Self::Query { problem: schema_in_words(schema, place.is_some()), place }
            }
            DataFusionError::Plan(_) | DataFusionError::NotImplemented(_) => {
                Self::Query { problem: in_words(root), place }
            }
            DataFusionError::ResourcesExhausted(_) => Self::Memory { hint: "raise `--memory`" },
            other => Self::Run(in_words(other)),
        }
    }

    /// The same error once more, for one that the engine shares among its operators.
    fn again(&self) -> Self {
        match self {
            Self::Query { problem, place } => Self::Query { problem: problem.clone(), place: *place },
            Self::Source(error) => Self::Source(error.again()),
            Self::Memory { hint } => Self::Memory { hint },
            Self::Run(words) => Self::Run(words.clone()),
            Self::Stopped => Self::Stopped,
        }
    }
}

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

fn schema_in_words(error: &SchemaError, has_place: bool) -> String {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let name = field.flat_name();
            let names: Vec<String> = valid_fields.iter().map(Column::flat_name).collect();
            let near = nearest(&name, names.iter().map(String::as_str)).or_else(|| {
                let bare = valid_fields.iter().map(|field| field.name.as_str());
                nearest(&field.name, bare)
            });
            let near = near.map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"));
            format!("there is no column `{name}`, only {}{near}", quoted(names))
        }
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
    }
}
