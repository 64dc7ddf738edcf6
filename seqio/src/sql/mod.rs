//! SQL over files and examples: what the engine that a program installs means for sources, steps and queries.
//!
//! ```text
//! tables in files    + "SELECT d.text FROM docs d JOIN meta m ON d.id = m.id" + key   ->   a source
//! columns of a row   + "length(text) > 200 AND lang = 'en'"                           ->   true, false or null
//! ```

mod engine;
mod expression;
mod key;
mod pin;
mod query;
mod result;
mod source;
mod source_table;
mod thread;
mod words;

pub use seqio_sql::{Table as QueryTable, TableError as QueryTableError, TableRows as QueryTableRows};

pub(crate) use seqio_sql::Mistake;

pub(crate) use self::expression::Expression;
pub(crate) use self::pin::pin_queries;
pub use self::query::{Query, QueryError, QueryRows};
pub(crate) use self::source::SqlSource;
pub(crate) use self::words::mistake_in_words;

#[cfg(test)]
mod tests;
