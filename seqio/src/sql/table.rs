//! A table of a query: rows read from front to back by one reader, only the columns that the query uses.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::TableType;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};

use crate::sql::engine::Stop;
use crate::sql::error::SqlError;

/// The rows of a table, batch after batch.
pub(crate) type TableRows = Box<dyn Iterator<Item = std::result::Result<RecordBatch, SqlError>> + Send>;

/// Something that a query can read.
///
/// Law: `scan` gives the same rows in the same order each time.
pub(crate) trait Table: fmt::Debug + Send + Sync {
    /// All its columns.
    fn schema(&self) -> SchemaRef;

    /// Its rows from front to back, with the columns at these places, in this order.
    fn scan(&self, columns: &[usize]) -> std::result::Result<TableRows, SqlError>;
}

/// A table as the engine sees it.
#[derive(Debug)]
pub(super) struct EngineTable {
    pub(super) table: Arc<dyn Table>,
    pub(super) stop: Stop,
}

impl TableProvider for EngineTable {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    // What the attribute `async_trait` makes of `async fn scan`.
    fn scan<'a, 'b, 'c, 'd, 'async_trait>(
        &'a self,
        _state: &'b dyn Session,
        projection: Option<&'c Vec<usize>>,
        _filters: &'d [Expr],
        _limit: Option<usize>,
    ) -> Pin<Box<dyn Future<Output = Result<Arc<dyn ExecutionPlan>>> + Send + 'async_trait>>
    where
        'a: 'async_trait,
        'b: 'async_trait,
        'c: 'async_trait,
        'd: 'async_trait,
        Self: 'async_trait,
    {
        let all = self.table.schema();
        let columns = projection.cloned().unwrap_or_else(|| (0..all.fields().len()).collect());
        let (table, stop) = (Arc::clone(&self.table), self.stop.clone());
        Box::pin(async move {
            let schema = Arc::new(all.project(&columns)?);
            let partition = TablePartition { table, columns, schema: Arc::clone(&schema), stop };
            let scan =
                StreamingTableExec::try_new(schema, vec![Arc::new(partition)], None, None, false, None)?;
            Ok(Arc::new(scan) as Arc<dyn ExecutionPlan>)
        })
    }
}

/// The one partition of a table.
#[derive(Debug)]
struct TablePartition {
    table: Arc<dyn Table>,
    columns: Vec<usize>,
    schema: SchemaRef,
    stop: Stop,
}

impl PartitionStream for TablePartition {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let stop = self.stop.clone();
        let external = |error: SqlError| DataFusionError::External(Box::new(error));
        let rows: Box<dyn Iterator<Item = Result<RecordBatch>> + Send> = match self.table.scan(&self.columns)
        {
            Ok(rows) => Box::new(rows.map(move |batch| {
                if stop.is_set() { Err(external(SqlError::Stopped)) } else { batch.map_err(external) }
            })),
            Err(error) => Box::new(std::iter::once(Err(external(error)))),
        };
        let stream = futures::stream::iter(rows);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream))
    }
}
