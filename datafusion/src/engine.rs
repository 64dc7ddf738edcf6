//! DataFusion as an engine: one query over some tables, planned and run to its end on the thread that calls.
//!
//! ```text
//! run({ tables: {docs, meta}, … }, "SELECT …")   ->   batches of at most 512 rows, as they come
//! ```
//!
//! - **Partitions and batches of a constant number and size**: the machine does not decide how a query is run. It is one
//!   partition, and two where joins are sorted, which nothing does that depends on an order.
//! - **Memory is bounded**; what does not fit is spilled.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use seqio_sql::{Checked, Database, Join, Mistake, Rules, SqlEngine, SqlError, SqlExpression};

use crate::expression::Expression;
use crate::review::Reviewed;
use crate::session::Session;
use crate::statement::tables_of;

/// Makes DataFusion the SQL engine of this program. Once is enough, and more do no harm.
pub fn install() {
    seqio_sql::install(&DataFusion);
}

struct DataFusion;

impl SqlEngine for DataFusion {
    fn tables_of(&self, sql: &str) -> Result<Vec<String>, SqlError> {
        tables_of(sql)
    }

    fn check(&self, database: &Database, sql: &str, rules: Rules) -> Result<Checked, SqlError> {
        let session = Session::new(database, Join::Hashed)?;
        let (Reviewed { plan, is_order_sensitive }, tables) = session.plan(sql, rules)?;
        let schema = Arc::new(plan.schema().as_arrow().clone());
        // Optimizing finds mistakes that planning lets pass, as constants that overflow.
        session.optimize(&plan)?;
        Ok(Checked { schema, tables, is_order_sensitive })
    }

    fn run(
        &self,
        database: &Database,
        sql: &str,
        rules: Rules,
        join: Join,
        take: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<(), SqlError> {
        Session::new(database, join)?.run(sql, rules, take)
    }

    fn parse(&self, text: &str, columns: &Schema) -> Result<Box<dyn SqlExpression>, Mistake> {
        Ok(Box::new(Expression::parse(text, columns)?))
    }
}
