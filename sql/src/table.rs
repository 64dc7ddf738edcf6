//! A table of a query: rows read from front to back by one reader, only the columns that the query uses.

use std::error::Error;
use std::fmt::Debug;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

/// Why a table cannot be read.
pub type TableError = Box<dyn Error + Send + Sync>;

/// The rows of a table, batch after batch.
pub type TableRows = Box<dyn Iterator<Item = Result<RecordBatch, TableError>> + Send>;

/// Something that a query can read from front to back, any number of times.
///
/// Law: `read` gives the same rows in the same order each time.
pub trait Table: Debug + Send + Sync {
    /// All its columns.
    fn columns(&self) -> SchemaRef;

    /// Its size in bytes, about: the smaller side of a join is held in memory.
    fn bytes(&self) -> Option<u64> {
        None
    }

    /// Its rows with the columns at these places, in this order; other columns need not be read.
    fn read(&self, columns: &[usize]) -> Result<TableRows, TableError>;
}
