//! What the SQL engine refuses, in words, with the name that was perhaps meant.
//!
//! ```text
//! NoFunction { name: "lenght", instead: "length" }   ->   there is no function `lenght`; did you mean `length`?
//! ```

use std::error::Error;

use seqio_sql::{Mistake, SqlError};

use crate::preprocess::type_name;
use crate::source::SourceError;
use crate::text::{nearest, quoted};

/// Why a query cannot be run, or not to its end.
pub(super) fn in_words(error: &SqlError) -> String {
    match error {
        SqlError::Query { mistake, place: None } => mistake_in_words(mistake),
        SqlError::Query { mistake, place: Some((line, column)) } => {
            format!("{} (line {line}, column {column} of the query)", mistake_in_words(mistake))
        }
        SqlError::Table(error) => in_full(&**error),
        SqlError::Memory { hint } => format!("the query needs more memory than it may take; {hint}"),
        SqlError::Run(words) => words.clone(),
        SqlError::Stopped => "interrupted".to_owned(),
    }
}

/// An error of the query of a split as one of its source.
pub(super) fn in_query(split: &str, error: &SqlError) -> SourceError {
    if let SqlError::Table(error) = error
        && let Some(error) = error.downcast_ref::<SourceError>()
    {
        return error.again();
    }
    SourceError::Part {
        keys: vec!["sql".to_owned(), split.to_owned()],
        problem: format!("query of split `{split}`: {}", in_words(error)),
    }
}

/// A mistake as part of a sentence.
pub(crate) fn mistake_in_words(mistake: &Mistake) -> String {
    match mistake {
        Mistake::NoTable { name, tables } => {
            let near = perhaps(nearest(name, tables.iter().map(String::as_str)));
            format!("there is no table `{name}`, only {}{near}", quoted(tables))
        }
        Mistake::NotDeclared { name, tables } => format!(
            "`{name}` is no declared table; files are declared under `tables` and named by their table; there are {}",
            quoted(tables)
        ),
        Mistake::NoColumn { column, columns } => {
            let whole = nearest(&column.whole, columns.iter().map(|column| column.whole.as_str()));
            let bare = || nearest(&column.bare, columns.iter().map(|column| column.bare.as_str()));
            let names = quoted(columns.iter().map(|column| &column.whole));
            format!("there is no column `{}`, only {names}{}", column.whole, perhaps(whole.or_else(bare)))
        }
        Mistake::NoFunction { name, instead } => {
            match instead.as_deref().and_then(|instead| nearest(name, [instead])) {
                Some(near) => format!("there is no function `{name}`; did you mean `{near}`?"),
                None => format!("there is no function `{name}`"),
            }
        }
        Mistake::NotOfType { value, data_type } => {
            let wanted = type_name(data_type);
            format!("`{value}` is no `{wanted}`, which it is compared with or used as")
        }
        Mistake::Other(words) => words.clone(),
    }
}

fn perhaps(near: Option<&str>) -> String {
    near.map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"))
}

/// An error with its causes, each of which says more than the one before.
fn in_full(error: &(dyn Error + 'static)) -> String {
    if let Some(source) = error.downcast_ref::<SourceError>() {
        return source.to_string();
    }
    let mut words = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_words = cause.to_string();
        if !words.contains(&cause_words) {
            words = format!("{words}: {cause_words}");
        }
        next = cause.source();
    }
    words
}
