//! SQL over files and examples, by DataFusion. Nothing of DataFusion shows outside of this module.
//!
//! ```text
//! tables (rows by columns) + "SELECT d.text FROM docs d JOIN meta m ON d.id = m.id"   ->   rows, as they come
//! ```

#[allow(dead_code, reason = "until its first users are here")]
mod engine;
mod error;
mod memory;
mod table;
