//! What a person got wrong in a query or an expression, in parts.

use arrow::datatypes::DataType;

/// A mistake in what a person wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// There is no such table.
    NoTable {
        /// As it is written.
        name: String,
        /// The tables there are.
        tables: Vec<String>,
    },
    /// A file, or a table of somewhere else, in place of a table.
    NotDeclared {
        /// As it is written.
        name: String,
        /// The tables there are.
        tables: Vec<String>,
    },
    /// There is no such column.
    NoColumn {
        /// As it is written.
        column: ColumnName,
        /// The columns there are.
        columns: Vec<ColumnName>,
    },
    /// There is no such function.
    NoFunction {
        /// As it is written.
        name: String,
        /// The one that the engine would take instead, near or not.
        instead: Option<String>,
    },
    /// A constant that cannot be of the type that it is compared with or used as.
    NotOfType {
        /// The constant.
        value: String,
        /// The type.
        data_type: DataType,
    },
    /// Something else, in words: part of a sentence, without capital and full stop.
    Other(String),
}

/// The name of a column, with that of its table if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnName {
    /// `docs.text`, or `text`.
    pub whole: String,
    /// `text`.
    pub bare: String,
}
