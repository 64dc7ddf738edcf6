//! An SQL expression over the columns of examples: parsed and checked once, evaluated on chunk after chunk.
//!
//! ```text
//! "length(text) > 3 AND lang = 'en'"   over   text: string, lang: string   ->   bool
//! text: "abcd"  lang: "en"   ->   true        text: "abcd"  lang: null   ->   null
//! ```
//!
//! The value for a row depends on that row alone, however rows are cut into chunks. That is more than the engine promises:
//! it may evaluate `10 / n` also for the rows that `n <> 0 AND 10 / n > 2` has decided already, so that an error would
//! depend on the neighbours. A chunk that fails is therefore halved until the rows at fault are alone, and only an error
//! that a row makes by itself counts.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, new_empty_array};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Schema};
use seqio_sql::{Mistake, SqlExpression, arrow_in_words};

use crate::caught::caught;
use crate::sql::engine::installed;
use crate::sql::thread::{gave_up, on_large_stack};

/// An expression that fits the columns it was checked against.
#[derive(Debug)]
pub(crate) struct Expression(Box<dyn SqlExpression>);

/// The first row on which an expression failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowFailure {
    /// The row's number in the chunk.
    pub(crate) row: usize,
    /// What went wrong.
    pub(crate) problem: String,
}

impl Expression {
    /// Reads an expression and checks it against columns. `AS name` at its end gives it a name.
    pub(crate) fn parse(text: &str, columns: &Schema) -> Result<Self, Mistake> {
        let engine = installed()?;
        let parsed = on_large_stack(|| engine.parse(text, columns));
        Ok(Self(parsed.unwrap_or_else(|words| Err(Mistake::Other(words)))?))
    }

    /// The type of its values: strings are `Utf8`, lists `List`.
    pub(crate) fn data_type(&self) -> &DataType {
        self.0.data_type()
    }

    /// Its name, if it has one.
    pub(crate) fn name(&self) -> Option<&str> {
        self.0.name()
    }

    /// Its value for each row of a chunk that has the columns it was checked against.
    pub(crate) fn evaluate(&self, chunk: &RecordBatch) -> Result<ArrayRef, RowFailure> {
        let mut parts = Vec::new();
        self.evaluate_rows(chunk, 0..chunk.num_rows(), &mut parts)?;
        match parts.as_slice() {
            [] => Ok(new_empty_array(self.data_type())),
            [whole] => Ok(Arc::clone(whole)),
            _ => {
                let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
                concat(&parts).map_err(|error| RowFailure { row: 0, problem: arrow_in_words(&error) })
            }
        }
    }

    fn evaluate_rows(
        &self,
        chunk: &RecordBatch,
        rows: Range<usize>,
        parts: &mut Vec<ArrayRef>,
    ) -> Result<(), RowFailure> {
        if rows.is_empty() {
            return Ok(());
        }
        // A function of the engine that panics, as on a text too large for memory, fails on its row like any other.
        let evaluated = caught(|| self.0.evaluate(&chunk.slice(rows.start, rows.len())));
        match evaluated.unwrap_or_else(|panic| Err(gave_up(&*panic))) {
            Ok(values) => parts.push(values),
            Err(problem) if rows.len() == 1 => return Err(RowFailure { row: rows.start, problem }),
            Err(_) => {
                let middle = rows.start + rows.len() / 2;
                self.evaluate_rows(chunk, rows.start..middle, parts)?;
                self.evaluate_rows(chunk, middle..rows.end, parts)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
