//! The SQL engine: one query over some tables, planned and run to its end on the thread that calls.
//!
//! ```text
//! Engine { tables: {docs, meta}, … } . run("SELECT …")   ->   batches of at most 512 rows, as they come
//! ```
//!
//! - **Partitions and batches of a constant number and size**: the machine does not decide how a query is run. It is one
//!   partition, and two where joins are sorted, which nothing does that depends on an order.
//! - **Memory is bounded**; what does not fit is spilled. What cannot be spilled, as one side of a hash join, is an error
//!   of its own kind, so that a caller can try again by sorting.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::error::SqlError;
use crate::review::{Reviewed, Rules};
use crate::session::Session;
use crate::stop::Stop;
use crate::table::Table;

/// Tables, and what queries over them may take of the machine. Nothing but the tables shows in rows.
#[derive(Clone, Debug)]
pub struct Engine {
    /// Tables by name.
    pub tables: BTreeMap<String, Arc<dyn Table>>,
    /// Bytes that operators may take.
    pub memory_bytes: u64,
    /// Folder for what does not fit; that of the system if none is named.
    pub temporary: Option<PathBuf>,
    /// Ends a query early.
    pub stop: Stop,
}

/// How tables are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// One side is held in memory: fast.
    Hashed,
    /// Both are sorted, and spilled where they have to be: slower, in any memory.
    Sorted,
}

/// What is known of a query before it runs.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The columns of its rows, as the engine has them.
    pub schema: SchemaRef,
    /// The tables that it reads, sorted.
    pub tables: Vec<String>,
    /// Whether nothing may be spilled while it runs.
    pub is_order_sensitive: bool,
}

impl Engine {
    /// Sees that a query can be run, without a look at any row.
    pub fn check(&self, sql: &str, rules: Rules) -> Result<Checked, SqlError> {
        let session = Session::new(self, Join::Hashed)?;
        let (Reviewed { plan, is_order_sensitive }, tables) = session.plan(sql, rules)?;
        let schema = Arc::new(plan.schema().as_arrow().clone());
        // Optimizing finds mistakes that planning lets pass, as constants that overflow.
        session.optimize(&plan)?;
        Ok(Checked { schema, tables, is_order_sensitive })
    }

    /// Runs a query, giving its rows to `take` batch after batch until that answers false. They come in no particular
    /// order unless the query asks for one.
    pub fn run(
        &self,
        sql: &str,
        rules: Rules,
        join: Join,
        take: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<(), SqlError> {
        Session::new(self, join)?.run(sql, rules, take)
    }
}
