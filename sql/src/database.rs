//! What a query runs over and within, and what is known of it before it runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use crate::stop::Stop;
use crate::table::Table;

/// Tables, and what queries over them may take of the machine. Nothing but the tables shows in rows.
#[derive(Clone, Debug)]
pub struct Database {
    /// Tables by name.
    pub tables: BTreeMap<String, Arc<dyn Table>>,
    /// Bytes that operators may take.
    pub memory_bytes: u64,
    /// Folder for what does not fit; that of the system if none is named.
    pub temporary: Option<PathBuf>,
    /// Ends a query early.
    pub stop: Stop,
}

/// What a query may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// All that a SELECT can.
    Any,
    /// What gives the same set of rows in each run: no chance, no clock, and nothing that the order of rows decides.
    Reproducible,
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
