//! The engine of a program: what it can do, and the one that is installed.
//!
//! ```text
//! main     install(&DataFusion)
//! later    installed()?.run(&database, "SELECT …", rules, join, &mut take)   ->   batches, as they come
//! without  installed()   ->   this program has no SQL engine: …
//! ```

use std::error::Error;
use std::fmt;
use std::sync::OnceLock;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Schema};

use crate::database::{Checked, Database, Join, Rules};
use crate::error::SqlError;
use crate::mistake::Mistake;

/// What plans and runs SQL, to its end on the thread that calls.
///
/// Laws: rows follow from the tables and the query alone, not from the machine, the memory or the way of joining; memory
/// is bounded by what a [`Database`] allows. What cannot be spilled, as one side of a hash join, is an error of its own
/// kind ([`SqlError::Memory`]), so that a caller can try again by sorting.
pub trait SqlEngine: Send + Sync {
    /// The names of the tables that a query reads, sorted.
    fn tables_of(&self, sql: &str) -> Result<Vec<String>, SqlError>;

    /// Sees that a query can be run, without a look at any row.
    fn check(&self, database: &Database, sql: &str, rules: Rules) -> Result<Checked, SqlError>;

    /// Runs a query, giving its rows to `take` batch after batch until that answers false. They come in no particular
    /// order unless the query asks for one.
    fn run(
        &self,
        database: &Database,
        sql: &str,
        rules: Rules,
        join: Join,
        take: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<(), SqlError>;

    /// Reads an expression and checks it against columns. `AS name` at its end gives it a name.
    fn parse(&self, text: &str, columns: &Schema) -> Result<Box<dyn SqlExpression>, Mistake>;
}

/// An expression that fits the columns it was checked against.
///
/// Law: the value for a row depends on that row alone, however rows are cut into chunks. Whether there is one need not: a
/// chunk may fail by one row that a guard has decided already. An error counts only if a row makes it by itself.
pub trait SqlExpression: fmt::Debug + Send + Sync {
    /// The type of its values: strings are `Utf8`, lists `List`.
    fn data_type(&self) -> &DataType;

    /// Its name, if it has one.
    fn name(&self) -> Option<&str>;

    /// Its value for each row of a chunk that has the columns it was checked against; or why there is none for some row,
    /// as part of a sentence.
    fn evaluate(&self, chunk: &RecordBatch) -> Result<ArrayRef, String>;
}

static INSTALLED: OnceLock<&'static dyn SqlEngine> = OnceLock::new();

/// Makes this the engine of the program. The first one stays: what is installed later changes nothing.
pub fn install(engine: &'static dyn SqlEngine) {
    let _ = INSTALLED.set(engine);
}

/// The engine of the program.
pub fn installed() -> Result<&'static dyn SqlEngine, NoEngine> {
    INSTALLED.get().copied().ok_or(NoEngine)
}

/// SQL in a program that has installed nothing to run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoEngine;

impl fmt::Display for NoEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "this program has no SQL engine: it has to install one first, as `seqio_datafusion::install()` does",
        )
    }
}

impl Error for NoEngine {}

impl From<NoEngine> for SqlError {
    fn from(none: NoEngine) -> Self {
        Self::Run(none.to_string())
    }
}

impl From<NoEngine> for Mistake {
    fn from(none: NoEngine) -> Self {
        Self::Other(none.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Refuses everything by its name.
    struct Named(&'static str);

    impl SqlEngine for Named {
        fn tables_of(&self, _: &str) -> Result<Vec<String>, SqlError> {
            Err(SqlError::query(self.0))
        }

        fn check(&self, _: &Database, _: &str, _: Rules) -> Result<Checked, SqlError> {
            Err(SqlError::query(self.0))
        }

        fn run(
            &self,
            _: &Database,
            _: &str,
            _: Rules,
            _: Join,
            _: &mut dyn FnMut(RecordBatch) -> bool,
        ) -> Result<(), SqlError> {
            Err(SqlError::query(self.0))
        }

        fn parse(&self, _: &str, _: &Schema) -> Result<Box<dyn SqlExpression>, Mistake> {
            Err(Mistake::Other(self.0.to_owned()))
        }
    }

    fn who_answers() -> Mistake {
        let parsed =
            installed().map_err(Mistake::from).and_then(|engine| engine.parse("1", &Schema::empty()));
        parsed.expect_err("no engine of this test parses anything")
    }

    #[test]
    fn there_is_none_until_one_is_installed_and_the_first_stays() {
        let none = "this program has no SQL engine: it has to install one first, as `seqio_datafusion::install()` does";
        assert_eq!(who_answers(), Mistake::Other(none.to_owned()));
        for engine in [&Named("first"), &Named("first"), &Named("second")] {
            install(engine);
            assert_eq!(who_answers(), Mistake::Other("first".to_owned()));
        }
    }
}
