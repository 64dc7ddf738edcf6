//! The engine made ready for one query: its settings, its memory, its tables.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::TableReference;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::SessionConfig;
use datafusion::sql::parser::Statement;
use futures::StreamExt as _;
use seqio_sql::{Database, Join, Mistake, Rules, SqlError, Stop};

use crate::disk::disk;
use crate::error::of_engine;
use crate::memory::WatchedPool;
use crate::review::{Reviewed, review};
use crate::scan::EngineTable;
use crate::statement::{one_select, only_place};

/// Rows that operators hand on at a time. Few, as rows of documents are large.
const BATCH_ROWS: usize = 512;
/// With less than this the engine cannot even spill.
const LEAST_MEMORY_BYTES: u64 = 32 << 20;

/// The engine made ready for one query.
pub(crate) struct Session {
    state: SessionState,
    pool: Arc<WatchedPool>,
    stop: Stop,
    tables: Vec<String>,
}

impl Session {
    pub(crate) fn new(database: &Database, join: Join) -> Result<Self, SqlError> {
        let bytes = database.memory_bytes.max(LEAST_MEMORY_BYTES);
        let pool = Arc::new(WatchedPool::new(usize::try_from(bytes).unwrap_or(usize::MAX)));
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::clone(&pool) as _)
            .with_disk_manager_builder(disk(database.temporary.clone()))
            .build_arc()
            .map_err(of_engine)?;
        // The engine sorts for joins only where there are several partitions to sort; each sorter keeps some batches.
        let (partitions, most_rows) = match join {
            Join::Hashed => (1, BATCH_ROWS),
            Join::Sorted => (2, BATCH_ROWS / 8),
        };
        let mut config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(most_rows);
        let options = config.options_mut();
        options.execution.planning_concurrency = 1;
        options.execution.collect_statistics = false;
        options.execution.sort_spill_reservation_bytes = 1 << 20;
        options.optimizer.prefer_hash_join = join == Join::Hashed;
        options.sql_parser.enable_ident_normalization = false;
        options.sql_parser.map_string_types_to_utf8view = false;
        options.sql_parser.collect_spans = true;
        let state = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(runtime)
            .with_default_features()
            .build();
        for (name, table) in &database.tables {
            let most_rows = if join == Join::Sorted { most_rows } else { usize::MAX };
            let table = EngineTable { table: Arc::clone(table), stop: database.stop.clone(), most_rows };
            let name = TableReference::bare(name.as_str());
            let schema = state.schema_for_ref(name.clone()).map_err(of_engine)?;
            schema.register_table(name.table().to_owned(), Arc::new(table)).map_err(of_engine)?;
        }
        Ok(Self {
            state,
            pool,
            stop: database.stop.clone(),
            tables: database.tables.keys().cloned().collect(),
        })
    }

    pub(crate) fn plan(&self, sql: &str, rules: Rules) -> Result<(Reviewed, Vec<String>), SqlError> {
        let statement = one_select(sql)?;
        let tables = self.used_tables(sql, &statement)?;
        let plan = block_on(self.state.statement_to_plan(statement))?.map_err(of_engine)?;
        Ok((review(plan, rules)?, tables))
    }

    /// The tables that a query reads. Those that are not declared are refused, with the nearest that is.
    fn used_tables(&self, sql: &str, statement: &Statement) -> Result<Vec<String>, SqlError> {
        let mut used = Vec::new();
        let references = self.state.resolve_table_references(statement).map_err(of_engine)?;
        for reference in references {
            let (name, whole) = (reference.table(), reference.to_string());
            if self.tables.contains(&whole) {
                used.push(whole);
                continue;
            }
            if self.state.table_functions().contains_key(name) {
                continue;
            }
            let tables = self.tables.clone();
            let mistake = if name.contains(['/', '\\']) || name.contains("://") || whole.contains('.') {
                Mistake::NotDeclared { name: whole, tables }
            } else {
                Mistake::NoTable { name: name.to_owned(), tables }
            };
            return Err(SqlError::Query { mistake, place: only_place(sql, name) });
        }
        used.sort();
        used.dedup();
        Ok(used)
    }

    /// Finds what planning lets pass.
    pub(crate) fn optimize(&self, plan: &LogicalPlan) -> Result<(), SqlError> {
        self.state.optimize(plan).map(drop).map_err(of_engine)
    }

    pub(crate) fn run(
        &self,
        sql: &str,
        rules: Rules,
        take: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<(), SqlError> {
        let (Reviewed { plan, is_order_sensitive }, _) = self.plan(sql, rules)?;
        block_on(async {
            let plan = self.state.create_physical_plan(&plan).await.map_err(of_engine)?;
            let mut rows = execute_stream(plan, self.state.task_ctx()).map_err(of_engine)?;
            while let Some(batch) = rows.next().await {
                let batch = batch.map_err(of_engine)?;
                if is_order_sensitive && self.pool.has_refused() {
                    return Err(SqlError::Memory {
                        hint: "it sums floats or keeps the order of rows, and would not give the same result \
                               from disk: raise `--memory`, or cast what it sums to decimal",
                    });
                }
                if self.stop.is_set() {
                    return Err(SqlError::Stopped);
                }
                if !take(batch) {
                    return Ok(());
                }
            }
            Ok(())
        })?
    }
}

/// Runs something asynchronous to its end on this thread.
fn block_on<T>(work: impl Future<Output = T>) -> Result<T, SqlError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(|error| SqlError::Run(format!("the SQL engine cannot be started: {error}")))?;
    Ok(runtime.block_on(work))
}
