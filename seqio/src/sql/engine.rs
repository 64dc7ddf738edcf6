//! The SQL engine within a budget, on threads of its own.
//!
//! ```text
//! Engine::new({docs, meta}, budget) . run("SELECT …")   ->   batches of at most 512 rows, as they come
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use arrow::array::RecordBatch;
use crossbeam_channel::{Receiver, bounded};
use seqio_sql::{Checked, Database, Join, NoEngine, Rules, SqlEngine, SqlError, Stop, Table};

use crate::caught::caught;
use crate::source::ReadBudget;
use crate::sql::thread::{gave_up, on_large_stack, spawn};

/// Tables, and how to run queries over them.
#[derive(Clone)]
pub(super) struct Engine(Database);

impl Engine {
    pub(super) fn new(tables: BTreeMap<String, Arc<dyn Table>>, budget: &ReadBudget) -> Self {
        Self(Database {
            tables,
            memory_bytes: budget.memory_bytes,
            temporary: budget.temporary.clone(),
            stop: Stop::default().or(&budget.cancel),
        })
    }

    /// Sees that a query can be run, without a look at any row.
    pub(super) fn check(&self, sql: &str, rules: Rules) -> Result<Checked, SqlError> {
        let engine = installed()?;
        on_large_stack(|| engine.check(&self.0, sql, rules)).unwrap_or_else(|words| Err(SqlError::Run(words)))
    }

    /// Runs a query. Its rows come in no particular order unless it asks for one.
    pub(super) fn run(&self, sql: &str, rules: Rules, join: Join) -> Result<Rows, SqlError> {
        let engine = installed()?;
        let dropped = Arc::<AtomicBool>::default();
        let mut database = self.0.clone();
        database.stop = database.stop.or(&dropped);
        let sql = sql.to_owned();
        let (sender, receiver) = bounded(1);
        let work = move || {
            let mut take = |batch| sender.send(Ok(batch)).is_ok();
            let done = caught(|| engine.run(&database, &sql, rules, join, &mut take));
            if let Err(error) = done.unwrap_or_else(|panic| Err(SqlError::Run(gave_up(&*panic)))) {
                let _ = sender.send(Err(error));
            }
        };
        let thread = spawn(work).map_err(SqlError::Run)?;
        Ok(Rows { receiver: Some(receiver), dropped, thread: Some(thread) })
    }
}

/// The engine that the program has installed.
pub(super) fn installed() -> Result<&'static dyn SqlEngine, NoEngine> {
    // Tests of this crate have no `main` that could.
    #[cfg(test)]
    seqio_datafusion::install();
    seqio_sql::installed()
}

/// The names of the tables that a query reads, sorted.
pub(super) fn tables_of(sql: &str) -> Result<Vec<String>, SqlError> {
    let engine = installed()?;
    on_large_stack(|| engine.tables_of(sql)).unwrap_or_else(|words| Err(SqlError::Run(words)))
}

/// The rows of a query, batch after batch. After an error there are none.
pub(super) struct Rows {
    receiver: Option<Receiver<Result<RecordBatch, SqlError>>>,
    /// Ends the query.
    dropped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Iterator for Rows {
    type Item = Result<RecordBatch, SqlError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.receiver.as_ref()?.recv().ok();
        if !matches!(next, Some(Ok(_))) {
            self.receiver = None;
        }
        next
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::Relaxed);
        self.receiver = None;
        if let Some(thread) = self.thread.take() {
            // Its temporary files go with it. It catches its own panics.
            let _ = thread.join();
        }
    }
}
