//! The SQL engine: one query over some tables, planned and run on a thread of its own.
//!
//! ```text
//! Engine::new({docs, meta}, budget) . run("SELECT …")   ->   batches of at most 512 rows, as they come
//! ```
//!
//! - **Partitions and batches of a constant number and size**: the machine does not decide how a query is run. It is one
//!   partition, and two where joins are sorted, which nothing does that depends on an order.
//! - **A thread with a large stack**: the engine recurses over what a person wrote. Plans never leave such threads.
//! - **Memory is that of the budget**; what does not fit is spilled. What cannot be spilled, as one side of a hash join,
//!   is an error of its own kind, so that a caller can try again by sorting.
//! - **A panic of the engine is an error** like any other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use crossbeam_channel::{Receiver, Sender, bounded};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, TableReference};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility, WindowFunctionDefinition};
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::SessionConfig;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use futures::StreamExt as _;

use crate::caught::{caught, words_of};
use crate::source::ReadBudget;
use crate::sql::error::SqlError;
use crate::sql::memory::WatchedPool;
use crate::sql::table::{EngineTable, Table};
use crate::text::{nearest, quoted};

/// Rows that operators hand on at a time. Few, as rows of documents are large.
pub(crate) const BATCH_ROWS: usize = 512;
/// Nested parentheses and subqueries.
const MAX_NESTING: usize = 100;
/// A query that a person or program wrote is shorter.
const MAX_QUERY_BYTES: usize = 64 << 10;
/// Functions that stand in the place of a table.
const TABLE_FUNCTIONS: [&str; 2] = ["generate_series", "range"];
/// Taken as it is used.
const STACK_BYTES: usize = 512 << 20;
/// With less than this the engine cannot even spill.
const LEAST_MEMORY_BYTES: u64 = 32 << 20;

/// Set to make a query end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop {
    own: Arc<AtomicBool>,
    budget: Arc<AtomicBool>,
}

impl Stop {
    pub(super) fn is_set(&self) -> bool {
        self.own.load(Ordering::Relaxed) || self.budget.load(Ordering::Relaxed)
    }
}

/// How tables are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// One side is held in memory: fast.
    Hashed,
    /// Both are sorted, and spilled where they have to be: slower, in any memory.
    Sorted,
}

/// What a caller makes of a plan: refuses it, or changes it so that it suits.
pub(crate) type Review = fn(LogicalPlan) -> Result<Reviewed, SqlError>;

/// A plan that may be run.
pub(crate) struct Reviewed {
    pub(crate) plan: LogicalPlan,
    /// Whether results depend on the order in which operators get their rows, so that nothing may be spilled.
    pub(crate) is_order_sensitive: bool,
}

/// What is known of a query before it runs.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    /// The columns of its rows, as the engine has them.
    pub(crate) schema: SchemaRef,
    /// The tables that it reads, sorted.
    pub(crate) tables: Vec<String>,
    /// Whether nothing may be spilled while it runs.
    pub(crate) is_order_sensitive: bool,
}

/// Tables, and how to run queries over them.
pub(crate) struct Engine {
    tables: BTreeMap<String, Arc<dyn Table>>,
    budget: ReadBudget,
}

impl Engine {
    pub(crate) fn new(tables: BTreeMap<String, Arc<dyn Table>>, budget: ReadBudget) -> Self {
        Self { tables, budget }
    }

    /// Sees that a query can be run, without a look at any row.
    pub(crate) fn check(&self, sql: &str, review: Review) -> Result<Checked, SqlError> {
        on_large_stack(|| {
            let session = Session::new(self, Join::Hashed)?;
            let (Reviewed { plan, is_order_sensitive }, tables) = session.plan(sql, review)?;
            let schema = Arc::new(plan.schema().as_arrow().clone());
            // Optimizing finds mistakes that planning lets pass, as constants that overflow.
            session.state.optimize(&plan).map_err(SqlError::of_engine)?;
            Ok(Checked { schema, tables, is_order_sensitive })
        })
    }

    /// Runs a query. Its rows come in no particular order unless it asks for one.
    pub(crate) fn run(&self, sql: &str, review: Review, join: Join) -> Result<Rows, SqlError> {
        let session = Session::new(self, join)?;
        let stop = session.stop.clone();
        let (sender, receiver) = bounded(1);
        let sql = sql.to_owned();
        let work = move || {
            let done = caught(|| session.run(&sql, review, &sender));
            let failed = match done {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error,
                Err(panic) => gave_up(&*panic),
            };
            let _ = sender.send(Err(failed));
        };
        let thread = thread_builder().spawn(work).map_err(|error| no_thread(&error))?;
        Ok(Rows { receiver: Some(receiver), stop, thread: Some(thread) })
    }
}

/// The rows of a query, batch after batch. After an error there are none.
pub(crate) struct Rows {
    receiver: Option<Receiver<Result<RecordBatch, SqlError>>>,
    stop: Stop,
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
        self.stop.own.store(true, Ordering::Relaxed);
        self.receiver = None;
        if let Some(thread) = self.thread.take() {
            // Its temporary files go with it. It catches its own panics.
            let _ = thread.join();
        }
    }
}

/// The engine made ready for one query.
struct Session {
    state: SessionState,
    pool: Arc<WatchedPool>,
    stop: Stop,
    tables: Vec<String>,
}

impl Session {
    fn new(engine: &Engine, join: Join) -> Result<Self, SqlError> {
        let stop = Stop { own: Arc::default(), budget: Arc::clone(&engine.budget.cancel) };
        let bytes = engine.budget.memory_bytes.max(LEAST_MEMORY_BYTES);
        let pool = Arc::new(WatchedPool::new(usize::try_from(bytes).unwrap_or(usize::MAX)));
        let disk = match &engine.budget.temporary {
            Some(folder) => DiskManagerMode::Directories(vec![folder.clone()]),
            None => DiskManagerMode::OsTmpDirectory,
        };
        let disk = DiskManagerBuilder::default().with_mode(disk).with_max_temp_directory_size(u64::MAX);
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::clone(&pool) as _)
            .with_disk_manager_builder(disk)
            .build_arc()
            .map_err(SqlError::of_engine)?;
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
        for (name, table) in &engine.tables {
            let most_rows = if join == Join::Sorted { most_rows } else { usize::MAX };
            let table = EngineTable { table: Arc::clone(table), stop: stop.clone(), most_rows };
            let name = TableReference::bare(name.as_str());
            let schema = state.schema_for_ref(name.clone()).map_err(SqlError::of_engine)?;
            schema.register_table(name.table().to_owned(), Arc::new(table)).map_err(SqlError::of_engine)?;
        }
        Ok(Self { state, pool, stop, tables: engine.tables.keys().cloned().collect() })
    }

    fn plan(&self, sql: &str, review: Review) -> Result<(Reviewed, Vec<String>), SqlError> {
        let statement = one_select(sql)?;
        let tables = self.used_tables(sql, &statement)?;
        let plan = block_on(self.state.statement_to_plan(statement))?.map_err(SqlError::of_engine)?;
        Ok((review(plan)?, tables))
    }

    /// The tables that a query reads. Those that are not declared are refused, with the nearest that is.
    fn used_tables(&self, sql: &str, statement: &Statement) -> Result<Vec<String>, SqlError> {
        let mut used = Vec::new();
        let references = self.state.resolve_table_references(statement).map_err(SqlError::of_engine)?;
        for reference in references {
            let (name, whole) = (reference.table(), reference.to_string());
            if self.tables.contains(&whole) {
                used.push(whole);
                continue;
            }
            if self.state.table_functions().contains_key(name) {
                continue;
            }
            let found = quoted(&self.tables);
            let problem = if name.contains(['/', '\\']) || name.contains("://") || whole.contains('.') {
                format!(
                    "`{whole}` is no declared table; files are declared under `tables` and named by their \
                     table; there are {found}"
                )
            } else {
                let near = nearest(name, self.tables.iter().map(String::as_str));
                let near = near.map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"));
                format!("there is no table `{name}`, only {found}{near}")
            };
            return Err(SqlError::Query { problem, place: only_place(sql, name) });
        }
        used.sort();
        used.dedup();
        Ok(used)
    }

    fn run(
        &self,
        sql: &str,
        review: Review,
        sender: &Sender<Result<RecordBatch, SqlError>>,
    ) -> Result<(), SqlError> {
        let (Reviewed { plan, is_order_sensitive }, _) = self.plan(sql, review)?;
        block_on(async {
            let plan = self.state.create_physical_plan(&plan).await.map_err(SqlError::of_engine)?;
            let mut rows = execute_stream(plan, self.state.task_ctx()).map_err(SqlError::of_engine)?;
            while let Some(batch) = rows.next().await {
                let batch = batch.map_err(SqlError::of_engine)?;
                if is_order_sensitive && self.pool.has_refused() {
                    return Err(SqlError::Memory {
                        hint: "it sums floats or keeps the order of rows, and would not give the same result \
                               from disk: raise `--memory`, or cast what it sums to decimal",
                    });
                }
                if self.stop.is_set() {
                    return Err(SqlError::Stopped);
                }
                if sender.send(Ok(batch)).is_err() {
                    return Ok(());
                }
            }
            Ok(())
        })?
    }
}

/// The names of the tables that a query reads, sorted.
pub(crate) fn tables_of(sql: &str) -> Result<Vec<String>, SqlError> {
    on_large_stack(|| {
        let (references, _) =
            resolve_table_references(&one_select(sql)?, false).map_err(SqlError::of_engine)?;
        let mut names: Vec<String> = references.iter().map(ToString::to_string).collect();
        names.retain(|name| !TABLE_FUNCTIONS.contains(&name.as_str()));
        names.sort();
        names.dedup();
        Ok(names)
    })
}

/// The one SELECT that a query has to be.
fn one_select(sql: &str) -> Result<Statement, SqlError> {
    if sql.len() > MAX_QUERY_BYTES {
        let bytes = sql.len();
        return Err(SqlError::query(format!(
            "the query has {bytes} bytes, and {MAX_QUERY_BYTES} are allowed"
        )));
    }
    let dialect = GenericDialect {};
    let parser = DFParserBuilder::new(sql).with_dialect(&dialect).with_recursion_limit(MAX_NESTING).build();
    let mut statements =
        parser.and_then(|mut parser| parser.parse_statements()).map_err(SqlError::of_engine)?;
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

/// Refuses functions whose value changes from one run to the next, anywhere in a plan.
pub(crate) fn refuse_volatile(plan: &LogicalPlan) -> Result<(), SqlError> {
    let mut refused = None;
    let walked = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            refused = refused.take().or_else(|| volatile_function(expression));
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if refused.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    walked.map_err(SqlError::of_engine)?;
    match refused {
        Some(name) => Err(SqlError::query(format!(
            "`{name}` gives another value in each run, so that rows could not be made again; leave it out or write \
             the value itself"
        ))),
        None => Ok(()),
    }
}

/// The name of a function in an expression that is not a function of its arguments alone.
fn volatile_function(expression: &Expr) -> Option<String> {
    use datafusion::common::tree_node::TreeNode as _;
    let mut found = None;
    let _ = expression.apply(|part| {
        let (name, volatility) = match part {
            Expr::ScalarFunction(call) => (call.func.name(), call.func.signature().volatility),
            Expr::AggregateFunction(call) => (call.func.name(), call.func.signature().volatility),
            Expr::WindowFunction(call) => match &call.fun {
                WindowFunctionDefinition::AggregateUDF(function) => {
                    (function.name(), function.signature().volatility)
                }
                WindowFunctionDefinition::WindowUDF(function) => {
                    (function.name(), function.signature().volatility)
                }
            },
            Expr::ScalarVariable(_, names) => {
                found = Some(names.join("."));
                return Ok(TreeNodeRecursion::Stop);
            }
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        if volatility == Volatility::Immutable {
            return Ok(TreeNodeRecursion::Continue);
        }
        found = Some(name.to_owned());
        Ok::<_, DataFusionError>(TreeNodeRecursion::Stop)
    });
    found
}

/// Line and column of a word that stands once in a text.
fn only_place(text: &str, word: &str) -> Option<(u64, u64)> {
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

/// Runs something asynchronous to its end on this thread.
fn block_on<T>(work: impl Future<Output = T>) -> Result<T, SqlError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|error| no_thread(&error))?;
    Ok(runtime.block_on(work))
}

/// Runs `work` where deep recursion does no harm.
fn on_large_stack<T: Send>(work: impl FnOnce() -> Result<T, SqlError> + Send) -> Result<T, SqlError> {
    std::thread::scope(|scope| {
        let thread =
            thread_builder().spawn_scoped(scope, || caught(work)).map_err(|error| no_thread(&error))?;
        thread.join().flatten().unwrap_or_else(|panic| Err(gave_up(&*panic)))
    })
}

fn thread_builder() -> std::thread::Builder {
    std::thread::Builder::new().name("sql".to_owned()).stack_size(STACK_BYTES)
}

fn no_thread(error: &std::io::Error) -> SqlError {
    SqlError::Run(format!("no thread for the SQL engine: {error}"))
}

fn gave_up(panic: &(dyn std::any::Any + Send)) -> SqlError {
    let words = words_of(panic).and_then(|words| words.lines().next()).unwrap_or("no reason");
    SqlError::Run(format!("the SQL engine gave up: {words}"))
}
