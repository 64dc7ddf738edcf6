//! A table as the engine reads it: one partition, that says how large it is and ends when it is told to.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::datasource::TableType;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use seqio_sql::{SqlError, Stop, Table};

use crate::error::into_engine;

/// A table as the engine sees it.
#[derive(Debug)]
pub(crate) struct EngineTable {
    pub(crate) table: Arc<dyn Table>,
    pub(crate) stop: Stop,
    /// Batches with more rows are cut.
    pub(crate) most_rows: usize,
}

impl TableProvider for EngineTable {
    fn schema(&self) -> SchemaRef {
        self.table.columns()
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
        let all = self.table.columns();
        let columns = projection.cloned().unwrap_or_else(|| (0..all.fields().len()).collect());
        let (table, stop, most_rows) = (Arc::clone(&self.table), self.stop.clone(), self.most_rows);
        Box::pin(async move {
            let schema = Arc::new(all.project(&columns)?);
            let bytes = table.bytes();
            let partition = TablePartition { table, columns, schema: Arc::clone(&schema), stop, most_rows };
            let scan =
                StreamingTableExec::try_new(schema, vec![Arc::new(partition)], None, None, false, None)?;
            Ok(Arc::new(TableScan { scan: Arc::new(scan), bytes }) as Arc<dyn ExecutionPlan>)
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
    most_rows: usize,
}

impl PartitionStream for TablePartition {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let stop = self.stop.clone();
        let most_rows = self.most_rows;
        let rows: Box<dyn Iterator<Item = Result<RecordBatch>> + Send> = match self.table.read(&self.columns)
        {
            Ok(rows) => Box::new(
                rows.map(move |batch| match stop.is_set() {
                    true => Err(into_engine(SqlError::Stopped)),
                    false => batch.map_err(|error| into_engine(SqlError::Table(error.into()))),
                })
                .flat_map(move |batch| cut(batch, most_rows)),
            ),
            Err(error) => Box::new(std::iter::once(Err(into_engine(SqlError::Table(error.into()))))),
        };
        let stream = futures::stream::iter(rows);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream))
    }
}

/// Pieces of a batch with at most this many rows, each with memory of its own: operators count the memory of what they
/// hold, and a piece that shares the memory of its batch counts as the whole.
fn cut(batch: Result<RecordBatch>, most_rows: usize) -> Vec<Result<RecordBatch>> {
    match batch {
        Ok(batch) if batch.num_rows() > most_rows => {
            let rows = u32::try_from(batch.num_rows()).unwrap_or(u32::MAX);
            let starts = (0..rows).step_by(most_rows);
            let piece = |start: u32| {
                let end = rows.min(start.saturating_add(u32::try_from(most_rows).unwrap_or(u32::MAX)));
                Ok(take_record_batch(&batch, &UInt32Array::from_iter_values(start..end))?)
            };
            starts.map(piece).collect()
        }
        batch => vec![batch],
    }
}

/// The scan of a table that knows about how large the table is.
#[derive(Debug)]
struct TableScan {
    scan: Arc<dyn ExecutionPlan>,
    bytes: Option<u64>,
}

impl DisplayAs for TableScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TableScan")
    }
}

impl ExecutionPlan for TableScan {
    fn name(&self) -> &'static str {
        "TableScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.scan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.scan.execute(partition, context)
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        if let Some(bytes) = self.bytes {
            statistics.total_byte_size = Precision::Inexact(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        Ok(Arc::new(statistics))
    }
}
