//! The key of a row of a result: the values of its key columns.

use arrow::array::{ArrayRef, AsArray as _};
use arrow::datatypes::{Int32Type, Int64Type};

use crate::key::KeyValue;

/// The key of a row whose key columns are these.
pub(super) fn key_of(columns: &[&ArrayRef], row: usize) -> Vec<KeyValue> {
    let value = |column: &&ArrayRef| {
        if let Some(number) = whole_number(column, row) {
            KeyValue::Number(number)
        } else if let Some(flags) = column.as_boolean_opt() {
            KeyValue::Flag(flags.value(row))
        } else {
            // Of the types that a key can have only text is left.
            KeyValue::Text(column.as_string_opt::<i32>().map_or("", |texts| texts.value(row)).to_owned())
        }
    };
    columns.iter().map(value).collect()
}

fn whole_number(column: &ArrayRef, row: usize) -> Option<i64> {
    if let Some(numbers) = column.as_primitive_opt::<Int64Type>() {
        return Some(numbers.value(row));
    }
    column.as_primitive_opt::<Int32Type>().map(|numbers| i64::from(numbers.value(row)))
}
