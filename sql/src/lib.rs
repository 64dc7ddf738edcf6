//! SQL over tables and columns, by DataFusion, nothing of which shows outside of this crate.
//!
//! ```text
//! tables (rows by columns) + "SELECT d.text FROM docs d JOIN meta m ON d.id = m.id"   ->   rows, as they come
//! columns of a row         + "length(text) > 200 AND lang = 'en'"                     ->   true, false or null
//! rows, as they come       + key                                                      ->   rows in the order of the key
//! ```
//!
//! The crate knows neither tasks nor files: it is what takes DataFusion's generic code to compile, apart from the rest.
//!
//! - **The engine recurses over what a person wrote.** Whoever calls [`Engine`], [`tables_of`] or [`Expression::parse`]
//!   does so on a thread with a stack of [`STACK_BYTES`].
//! - **It may panic**, as on a value too large for memory; whoever calls catches that.
//! - **What a person got wrong is told in parts** ([`Mistake`]), so that the words, and the name that was perhaps meant,
//!   are those of whoever tells it.

mod disk;
mod engine;
mod error;
mod expression;
mod memory;
mod mistake;
mod order;
mod review;
mod scan;
mod session;
mod sort;
mod statement;
mod stop;
mod table;
mod words;

pub use self::engine::{Checked, Engine, Join};
pub use self::error::SqlError;
pub use self::expression::Expression;
pub use self::mistake::{ColumnName, Mistake};
pub use self::review::Rules;
pub use self::sort::{KeySorter, NextRow, SortedRow, SortedRows, gather};
pub use self::statement::tables_of;
pub use self::stop::Stop;
pub use self::table::{Table, TableError, TableRows};
pub use self::words::arrow_in_words;

/// The stack that the engine may need. It is taken as it is used.
pub const STACK_BYTES: usize = 512 << 20;
