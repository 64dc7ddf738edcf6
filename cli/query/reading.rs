//! How much a slow query has read: one line on standard error, if that is a terminal.
//!
//! ```text
//! ⠹ 1,204,224 rows of `raw`
//! ```

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow::datatypes::SchemaRef;
use indicatif::{ProgressBar, ProgressDrawTarget};
use seqio::{QueryTable, QueryTableError, QueryTableRows};

use crate::format::count;

/// A query that is done by then shows nothing.
const SLOW: Duration = Duration::from_secs(1);

/// Watches tables while they are read.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    bar: ProgressBar,
    began: Instant,
    is_shown: Arc<AtomicBool>,
    is_wanted: bool,
}

impl Reading {
    /// Shows nothing yet; with `quiet` never.
    pub(crate) fn new(quiet: bool) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let is_wanted = !quiet && std::io::stderr().is_terminal();
        Self { bar, began: Instant::now(), is_shown: Arc::default(), is_wanted }
    }

    /// The same tables, watched.
    pub(crate) fn watch(
        &self,
        tables: BTreeMap<String, Arc<dyn QueryTable>>,
    ) -> BTreeMap<String, Arc<dyn QueryTable>> {
        let watched = |(name, table): (String, Arc<dyn QueryTable>)| {
            let reading = self.clone();
            let rows = Arc::default();
            (name.clone(), Arc::new(Watched { reading, name, table, rows }) as Arc<dyn QueryTable>)
        };
        tables.into_iter().map(watched).collect()
    }

    fn tell(&self, table: &str, rows: u64) {
        if !self.is_wanted || self.began.elapsed() < SLOW {
            return;
        }
        if !self.is_shown.swap(true, Ordering::Relaxed) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_message(format!("{} rows of `{table}`", count(rows)));
        self.bar.tick();
    }

    /// Makes room for rows.
    pub(crate) fn clear(&self) {
        if self.is_shown.swap(false, Ordering::Relaxed) {
            self.bar.set_draw_target(ProgressDrawTarget::hidden());
        }
    }

    /// Shows no more.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// A table whose rows are counted.
#[derive(Debug)]
struct Watched {
    reading: Reading,
    name: String,
    table: Arc<dyn QueryTable>,
    rows: Arc<AtomicU64>,
}

impl QueryTable for Watched {
    fn columns(&self) -> SchemaRef {
        self.table.columns()
    }

    fn read(&self, columns: &[usize]) -> Result<QueryTableRows, QueryTableError> {
        let (reading, name, rows) = (self.reading.clone(), self.name.clone(), Arc::clone(&self.rows));
        let batches = self.table.read(columns)?;
        Ok(Box::new(batches.inspect(move |batch| {
            if let Ok(batch) = batch {
                let read = batch.num_rows() as u64;
                reading.tell(&name, rows.fetch_add(read, Ordering::Relaxed) + read);
            }
        })))
    }
}
