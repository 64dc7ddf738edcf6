//! SQL over tables and columns: what is asked of an engine, and what it answers. The engine itself is another crate, which
//! a program installs.
//!
//! ```text
//! tables (rows by columns) + "SELECT d.text FROM docs d JOIN meta m ON d.id = m.id"   ->   rows, as they come
//! columns of a row         + "length(text) > 200 AND lang = 'en'"                     ->   true, false or null
//! rows, as they come       + key                                                      ->   rows in the order of the key
//! ```
//!
//! The crate knows neither tasks nor files, and no engine: an engine takes long to compile, and nothing but the program
//! should wait for that.
//!
//! - **An engine recurses over what a person wrote.** Whoever asks an [`SqlEngine`] does so on a thread with a stack of
//!   [`STACK_BYTES`].
//! - **It may panic**, as on a value too large for memory; whoever calls catches that.
//! - **What a person got wrong is told in parts** ([`Mistake`]), so that the words, and the name that was perhaps meant,
//!   are those of whoever tells it.

mod database;
mod engine;
mod error;
mod mistake;
mod run_file;
mod sort;
mod stop;
mod table;
mod words;

pub use self::database::{Checked, Database, Join, Rules};
pub use self::engine::{NoEngine, SqlEngine, SqlExpression, install, installed};
pub use self::error::SqlError;
pub use self::mistake::{ColumnName, Mistake};
pub use self::sort::{KeySorter, NextRow, SortedRow, SortedRows, gather};
pub use self::stop::Stop;
pub use self::table::{Table, TableError, TableRows};
pub use self::words::{arrow_in_words, sentence};

/// The stack that an engine may need. It is taken as it is used.
pub const STACK_BYTES: usize = 512 << 20;
