//! What goes wrong with a query, apart from what an engine calls it.

use std::error::Error;
use std::sync::Arc;

use crate::mistake::Mistake;

/// Why a query cannot be run, or not to its end.
#[derive(Clone, Debug)]
pub enum SqlError {
    /// The query is not one that can be run.
    Query {
        /// What is wrong with it.
        mistake: Mistake,
        /// Line and column in the query, from 1.
        place: Option<(u64, u64)>,
    },
    /// A table cannot be read.
    Table(Arc<dyn Error + Send + Sync>),
    /// It needs more memory than it may take.
    Memory {
        /// What to do.
        hint: &'static str,
    },
    /// It failed on some rows, in words.
    Run(String),
    /// Someone asked it to stop.
    Stopped,
}

impl SqlError {
    /// A query with this mistake, in words.
    pub fn query(problem: impl Into<String>) -> Self {
        Self::Query { mistake: Mistake::Other(problem.into()), place: None }
    }
}
