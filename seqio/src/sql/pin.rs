//! The columns of a source of queries: those of its tables, and those that the engine sees in its results.
//!
//! ```text
//! "SELECT id, length(text) AS n FROM docs"   over   docs: id, text   ->   id: int64, n: int32
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use arrow::datatypes::{DataType, Schema};
use seqio_sql::{Checked, Rules, SqlError};

use crate::source::{ColumnSpec, ColumnType, ReadBudget, ScalarType, SourceError, SourceSpec, column_type};
use crate::sql::engine::Engine;
use crate::sql::source_table::open_tables;
use crate::sql::words::in_query;
use crate::text::{nearest, quoted};

/// The definition with the columns of its tables and of its result, once every query has been checked.
pub(crate) fn pin_queries(spec: &SourceSpec, name: &str, base_dir: &Path) -> Result<SourceSpec, SourceError> {
    let mut pinned = spec.clone();
    for (table, table_spec) in &mut pinned.tables {
        let opened = table_spec.source().pin(table, base_dir);
        let source = opened.map_err(|error| at(["tables", table], error, &format!("table `{table}`")))?;
        *table_spec = source.into();
    }
    let mut found: Option<(String, BTreeMap<String, ColumnSpec>)> = None;
    for (split, checked) in check_queries(&pinned, base_dir)? {
        let columns = result_columns(&checked.schema, &spec.key)
            .map_err(|problem| in_query(&split, &SqlError::query(problem)))?;
        match &found {
            None => found = Some((split, columns)),
            Some((first, of_first)) if *of_first != columns => {
                return Err(in_query(
                    &split,
                    &SqlError::query(format!(
                        "its columns are {}, and those of split `{first}` are {}; a source has the same columns in \
                         all splits",
                        columns_in_words(&columns),
                        columns_in_words(of_first)
                    )),
                ));
            }
            Some(_) => {}
        }
    }
    let columns = found.map(|(_, columns)| columns).unwrap_or_default();
    if !spec.columns.is_empty() && spec.columns != columns {
        return Err(SourceError::Definition {
            problem: format!(
                "the query of `{name}` gives the columns {}, and `columns` says {}; leave `columns` out, or write a CAST",
                columns_in_words(&columns),
                columns_in_words(&spec.columns)
            ),
        });
    }
    pinned.columns = columns;
    Ok(pinned)
}

/// Each query with what is known of it, or what is wrong with it.
pub(super) fn check_queries(
    pinned: &SourceSpec,
    base_dir: &Path,
) -> Result<Vec<(String, Checked)>, SourceError> {
    let tables = open_tables(pinned.tables.iter().map(|(name, table)| (name, table.source())), base_dir);
    let engine = Engine::new(tables, &ReadBudget::default());
    let query = |(split, query): (&String, &Vec<String>)| {
        let query = query.first().map_or("", String::as_str);
        let checked = engine.check(query, Rules::Reproducible).map_err(|error| in_query(split, &error))?;
        Ok((split.clone(), checked))
    };
    pinned.splits.iter().map(query).collect()
}

/// An error of a part of the definition. One of the system keeps its kind.
fn at<const N: usize>(keys: [&str; N], error: SourceError, within: &str) -> SourceError {
    match error {
        SourceError::Definition { problem } => SourceError::Part {
            keys: keys.map(str::to_owned).to_vec(),
            problem: format!("{within}: {problem}"),
        },
        other => other,
    }
}

fn columns_in_words(columns: &BTreeMap<String, ColumnSpec>) -> String {
    let columns: Vec<String> = columns.iter().map(|(name, column)| format!("`{name}` ({column})")).collect();
    if columns.is_empty() { "none".to_owned() } else { columns.join(", ") }
}

/// The columns that examples get from those of a result, or why they cannot.
fn result_columns(schema: &Schema, key: &[String]) -> Result<BTreeMap<String, ColumnSpec>, String> {
    let mut columns = BTreeMap::new();
    for field in schema.fields() {
        let name = field.name();
        let Some(data) = column_type(field.data_type()) else {
            return Err(format!(
                "column `{name}` is of type {}, which examples cannot have; {}",
                field.data_type(),
                cast_hint(name, field.data_type())
            ));
        };
        if columns.insert(name.clone(), ColumnSpec::from(data)).is_some() {
            return Err(format!("two columns are called `{name}`; give one another name with `AS`"));
        }
    }
    for name in key {
        let Some(column) = columns.get(name) else {
            let near = nearest(name, columns.keys().map(String::as_str));
            let near = near.map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"));
            return Err(format!(
                "the key `{name}` is no column of the result, which has {}{near}; select it",
                quoted(columns.keys())
            ));
        };
        match column.data {
            ColumnType::Scalar(
                ScalarType::String | ScalarType::Int32 | ScalarType::Int64 | ScalarType::Bool,
            ) => {}
            ColumnType::Scalar(_) => {
                return Err(format!(
                    "the key `{name}` is {}, and floats that look equal may not be; use a column of strings or whole \
                     numbers, or `CAST({name} AS string)`",
                    column.data.phrase()
                ));
            }
            ColumnType::List(_) => {
                return Err(format!(
                    "the key `{name}` is {}; use columns of strings, whole numbers or booleans",
                    column.data.phrase()
                ));
            }
        }
    }
    Ok(columns)
}

fn cast_hint(name: &str, data_type: &DataType) -> String {
    match data_type {
        DataType::Struct(fields) => {
            let field = fields.first().map_or("part", |field| field.name().as_str());
            format!("select its parts, as `{name}['{field}']`")
        }
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => {
            format!("write `CAST({name} AS double)` or `CAST({name} AS string)`")
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            "leave it out".to_owned()
        }
        DataType::Null => format!("say which: `CAST({name} AS string)`"),
        _ => format!("write `CAST({name} AS string)`"),
    }
}
