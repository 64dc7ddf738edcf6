//! A query that a person asks: tables that a program describes, rows as they come.
//!
//! ```text
//! documents: file, tokens, …   +   "SELECT file, count(*) AS n FROM documents WHERE tokens > 8192 GROUP BY file"
//!     ->   file: "a.jsonl"  n: 3
//! ```
//!
//! Nothing follows from its result, so that everything a SELECT can say is allowed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use seqio_sql::{Join, Rules, SqlError, Table};

use crate::ReadBudget;
use crate::sql::engine::{Engine, Rows, tables_of};
use crate::sql::words::in_words;

/// A SELECT over some tables, checked and ready to run.
///
/// The program has to install an engine before, as `seqio_datafusion::install()` does; here there is none:
///
/// ```
/// let error = seqio::Query::table_names("SELECT id FROM docs").unwrap_err();
/// assert!(error.to_string().starts_with("this program has no SQL engine: "));
/// ```
pub struct Query {
    engine: Engine,
    sql: String,
    columns: SchemaRef,
}

/// Why a query cannot be run, or not to its end.
#[derive(Debug, thiserror::Error)]
#[error("{}", in_words(.0))]
pub struct QueryError(SqlError);

impl QueryError {
    /// Whether it ended because the budget's `cancel` was set.
    pub fn is_interrupted(&self) -> bool {
        matches!(self.0, SqlError::Stopped)
    }
}

impl Query {
    /// The names of the tables that a query reads, sorted: only they need to be opened.
    pub fn table_names(sql: &str) -> Result<Vec<String>, QueryError> {
        tables_of(sql).map_err(QueryError)
    }

    /// Checks a query against tables; no row is read. It sorts and joins within the budget, and on disk what is more.
    pub fn new(
        sql: &str,
        tables: BTreeMap<String, Arc<dyn Table>>,
        budget: ReadBudget,
    ) -> Result<Self, QueryError> {
        let engine = Engine::new(tables, &budget);
        let columns = engine.check(sql, Rules::Any).map_err(QueryError)?.schema;
        Ok(Self { engine, sql: sql.to_owned(), columns })
    }

    /// The columns of its rows.
    pub fn columns(&self) -> &SchemaRef {
        &self.columns
    }

    /// Runs it. Rows that are not asked for any more are not read either.
    pub fn run(&self) -> Result<QueryRows, QueryError> {
        let rows = self.engine.run(&self.sql, Rules::Any, Join::Hashed).map_err(QueryError)?;
        Ok(QueryRows { rows, again: Some((self.engine.clone(), self.sql.clone())) })
    }
}

impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Query({})", self.sql)
    }
}

/// The rows of a query, batch after batch. After an error there are none.
pub struct QueryRows {
    rows: Rows,
    /// For another try while no row has been given out.
    again: Option<(Engine, String)>,
}

impl fmt::Debug for QueryRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QueryRows")
    }
}

impl Iterator for QueryRows {
    type Item = Result<RecordBatch, QueryError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut next = self.rows.next();
        // Joins that do not fit into memory are sorted on disk instead.
        if let (Some((engine, sql)), Some(Err(SqlError::Memory { .. }))) = (self.again.take(), &next) {
            match engine.run(&sql, Rules::Any, Join::Sorted) {
                Ok(rows) => {
                    self.rows = rows;
                    next = self.rows.next();
                }
                Err(error) => next = Some(Err(error)),
            }
        }
        next.map(|batch| batch.map_err(QueryError))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatchOptions, StringArray};
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};

    use seqio_sql::{TableError, TableRows};

    use super::*;

    /// `n`: 0, 1, 2, …; `word`: "w0", "w1", …, in batches of 100.
    #[derive(Debug)]
    struct Numbers(i64);

    impl Table for Numbers {
        fn columns(&self) -> SchemaRef {
            let fields =
                vec![Field::new("n", DataType::Int64, false), Field::new("word", DataType::Utf8, true)];
            Arc::new(Schema::new(fields))
        }

        fn read(&self, columns: &[usize]) -> Result<TableRows, TableError> {
            let (end, columns) = (self.0, columns.to_vec());
            let schema = Arc::new(self.columns().project(&columns)?);
            Ok(Box::new((0..end).step_by(100).map(move |start| {
                if start == 700 {
                    return Err("row 700 is broken".into());
                }
                let numbers = start..end.min(start + 100);
                let column = |column: &usize| -> ArrayRef {
                    match column {
                        0 => Arc::new(Int64Array::from_iter_values(numbers.clone())),
                        _ => {
                            Arc::new(StringArray::from_iter_values(numbers.clone().map(|n| format!("w{n}"))))
                        }
                    }
                };
                let rows = RecordBatchOptions::new().with_row_count(Some(numbers.clone().count()));
                let columns = columns.iter().map(column).collect();
                Ok(RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &rows)?)
            })))
        }
    }

    fn query(sql: &str, rows: i64) -> Result<Query, QueryError> {
        let tables: BTreeMap<String, Arc<dyn Table>> =
            BTreeMap::from([("numbers".to_owned(), Arc::new(Numbers(rows)) as Arc<dyn Table>)]);
        Query::new(sql, tables, ReadBudget { memory_bytes: 32 << 20, ..ReadBudget::default() })
    }

    fn numbers(sql: &str, rows: i64) -> Vec<i64> {
        let batches: Vec<RecordBatch> =
            query(sql, rows).unwrap().run().unwrap().map(Result::unwrap).collect();
        batches
            .iter()
            .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec())
            .collect()
    }

    fn refused(sql: &str) -> String {
        query(sql, 10).map(|query| query.run().unwrap().count()).unwrap_err().to_string()
    }

    #[test]
    fn rows_are_chosen_sorted_and_summed_up() {
        assert_eq!(
            numbers("SELECT n FROM numbers WHERE word LIKE '%9' ORDER BY n DESC", 40),
            [39, 29, 19, 9]
        );
        assert_eq!(numbers("SELECT count(*) FROM numbers", 650), [650]);
        assert_eq!(numbers("WITH t AS (SELECT n % 2 AS odd FROM numbers) SELECT sum(odd) FROM t", 10), [5]);
        let joined = "SELECT count(*) FROM numbers a JOIN numbers b ON a.n = b.n + 1 WHERE random() < 2";
        assert_eq!(numbers(joined, 30), [29]);
    }

    #[test]
    fn what_is_not_asked_for_is_not_read() {
        assert_eq!(numbers("SELECT n FROM numbers LIMIT 3", 1000), [0, 1, 2]);
        let mut rows = query("SELECT word FROM numbers", 1000).unwrap().run().unwrap();
        assert!(rows.by_ref().take(2).all(|batch| batch.is_ok()));
        let error = rows.find_map(Result::err).unwrap();
        insta::assert_snapshot!(error, @"row 700 is broken");
    }

    #[test]
    fn the_tables_of_a_query_are_known_before_they_are_opened() {
        let names = |sql: &str| Query::table_names(sql).map_err(|error| error.to_string());
        let both =
            "WITH w AS (SELECT * FROM a) SELECT * FROM w JOIN b USING (x) WHERE y IN (SELECT z FROM a)";
        assert_eq!(names(both), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(names("SELECT 1"), Ok(vec![]));
        assert_eq!(names("SELECT * FROM generate_series(1, 3)"), Ok(vec![]));
        assert!(names("SELEKT 1").is_err());
    }

    #[test]
    fn what_is_no_select_is_refused_in_words() {
        insta::assert_snapshot!(refused("DROP TABLE numbers"), @"a query is one SELECT, and this is DROP");
        insta::assert_snapshot!(refused("INSERT INTO numbers VALUES (1, 'a')"), @"a query is one SELECT, and this is INSERT");
        insta::assert_snapshot!(refused("CREATE TABLE t AS SELECT 1"), @"a query is one SELECT, and this is CREATE");
        insta::assert_snapshot!(refused("COPY numbers TO 'x.csv'"), @"a query is one SELECT, and this is COPY");
        insta::assert_snapshot!(refused("SET a = 1"), @"a query is one SELECT, and this is SET");
        insta::assert_snapshot!(refused("SELECT 1; SELECT 2"), @"a query is one SELECT, and here are 2 statements");
        insta::assert_snapshot!(refused("SELECT m FROM numbers"), @"there is no column `m`, only `numbers.n`, `numbers.word` (did you mean `n`?) (line 1, column 8 of the query)");
        insta::assert_snapshot!(refused("SELECT * FROM nummers"), @"there is no table `nummers`, only `numbers` (did you mean `numbers`?) (line 1, column 15 of the query)");
        insta::assert_snapshot!(refused("SELECT lenght(word) FROM numbers"), @"there is no function `lenght`; did you mean `length`? (line 1, column 8 of the query)");
        insta::assert_snapshot!(refused("SELECT * FROM '/etc/passwd'"), @"`/etc/passwd` is no declared table; files are declared under `tables` and named by their table; there are `numbers` (line 1, column 16 of the query)");
        insta::assert_snapshot!(refused(""), @"the query is empty; write a SELECT");
    }

    #[test]
    fn a_sort_larger_than_its_memory_is_spilled() {
        let wide = "SELECT max(n) FROM (SELECT n, repeat(word, 20000) AS w FROM numbers ORDER BY w, n) WHERE w <> 'x'";
        assert_eq!(numbers(wide, 690), [689]);
    }
}
