//! SQL over files and examples, by DataFusion. Nothing of DataFusion shows outside of this module.
//!
//! ```text
//! tables (rows by columns) + "SELECT d.text FROM docs d JOIN meta m ON d.id = m.id"   ->   rows, as they come
//! columns of a row         + "length(text) > 200 AND lang = 'en'"                     ->   true, false or null
//! ```

mod engine;
mod error;
mod expression;
mod memory;
mod order;
mod query;
mod sort;
mod source;
mod source_table;
mod table;
mod words;

pub(crate) use self::expression::{Expression, ExpressionError};
pub use self::query::{Query, QueryError, QueryRows, QueryTable, QueryTableError, QueryTableRows};
pub(crate) use self::source::{SqlSource, pin_queries};

#[cfg(test)]
mod tests;
