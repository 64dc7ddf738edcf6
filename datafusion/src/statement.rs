//! The text of a query: one SELECT, and the tables that it names.

use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use seqio_sql::SqlError;

use crate::error::of_engine;

/// Nested parentheses and subqueries.
const MAX_NESTING: usize = 100;
/// A query that a person or program wrote is shorter.
const MAX_QUERY_BYTES: usize = 64 << 10;
/// Functions that stand in the place of a table.
const TABLE_FUNCTIONS: [&str; 2] = ["generate_series", "range"];

/// The names of the tables that a query reads, sorted.
pub(crate) fn tables_of(sql: &str) -> Result<Vec<String>, SqlError> {
    let (references, _) = resolve_table_references(&one_select(sql)?, false).map_err(of_engine)?;
    let mut names: Vec<String> = references.iter().map(ToString::to_string).collect();
    names.retain(|name| !TABLE_FUNCTIONS.contains(&name.as_str()));
    names.sort();
    names.dedup();
    Ok(names)
}

/// The one SELECT that a query has to be.
pub(crate) fn one_select(sql: &str) -> Result<Statement, SqlError> {
    if sql.len() > MAX_QUERY_BYTES {
        let bytes = sql.len();
        return Err(SqlError::query(format!(
            "the query has {bytes} bytes, and {MAX_QUERY_BYTES} are allowed"
        )));
    }
    let dialect = GenericDialect {};
    let parser = DFParserBuilder::new(sql).with_dialect(&dialect).with_recursion_limit(MAX_NESTING).build();
    let mut statements = parser.and_then(|mut parser| parser.parse_statements()).map_err(of_engine)?;
    if statements.len() > 1 {
        let number = statements.len();
        return Err(SqlError::query(format!("a query is one SELECT, and here are {number} statements")));
    }
    let Some(statement) = statements.pop_front() else {
        return Err(SqlError::query("the query is empty; write a SELECT"));
    };
    match &statement {
        Statement::Statement(inner) if matches!(inner.as_ref(), SqlStatement::Query(_)) => Ok(statement),
        other => {
            let text = other.to_string();
            let word = text.split_whitespace().next().unwrap_or("this").to_uppercase();
            Err(SqlError::query(format!("a query is one SELECT, and this is {word}")))
        }
    }
}

/// Line and column of a word that stands once in a text.
pub(crate) fn only_place(text: &str, word: &str) -> Option<(u64, u64)> {
    let mut found = text.match_indices(word);
    let (at, _) = found.next()?;
    if found.next().is_some() {
        return None;
    }
    let before = &text[..at];
    let line = before.matches('\n').count() as u64 + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() as u64 + 1;
    Some((line, column))
}
