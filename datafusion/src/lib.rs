//! DataFusion as the SQL engine of a program that uses `seqio`; nothing of it shows outside of this crate.
//!
//! ```no_run
//! seqio_datafusion::install(); // First thing in `main`: from here on tasks may say SQL.
//! ```
//!
//! The crate knows what `seqio-sql` asks of an engine and nothing else of ours, so that the crates which ask compile beside
//! DataFusion and not after it.

mod disk;
mod engine;
mod error;
mod expression;
mod memory;
mod order;
mod review;
mod scan;
mod session;
mod statement;
mod words;

pub use self::engine::install;
