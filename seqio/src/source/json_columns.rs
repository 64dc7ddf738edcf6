//! Columns that grow value by value and can be taken back to the last good row.

use std::fmt;
use std::sync::Arc;

use arrow::array::{
    ArrayBuilder, ArrayRef, BooleanArray, ListArray, PrimitiveArray, StringArray, StringBuilder,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowPrimitiveType, Field, Float32Type, Float64Type, Int32Type, Int64Type};
use arrow::error::ArrowError;

use crate::source::column::{ColumnSpec, ColumnType, ScalarType};

/// A JSON value; compound ones only by kind.
pub(super) enum JsonValue<'a> {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    String(&'a str),
    List,
    Object,
}

impl fmt::Display for JsonValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => write!(f, "the number {value}"),
            Self::Float(value) => write!(f, "the number {value:?}"),
            Self::String(_) => f.write_str("a string"),
            Self::List => f.write_str("a list"),
            Self::Object => f.write_str("an object"),
        }
    }
}

/// A value is not of the column's type, or beyond its range.
pub(super) struct Misfit;

/// One column of the table being read.
pub(super) struct JsonColumn<'c> {
    pub(super) name: &'c str,
    pub(super) spec: ColumnSpec,
    values: Values,
    /// Ends of the lists in `values`; unused for scalars.
    list_ends: Vec<i32>,
    valid: Vec<bool>,
}

/// Values one after the other.
enum Values {
    /// Texts of whole rows, and the text of the row being read: a builder cannot be taken back, but what it has need
    /// not be checked for UTF-8 again.
    Text {
        done: StringBuilder,
        row: String,
    },
    /// Texts in lists.
    Texts {
        bytes: Vec<u8>,
        ends: Vec<i32>,
    },
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Bool(Vec<bool>),
}

impl<'c> JsonColumn<'c> {
    /// An empty column, with room for `num_bytes` of text if it is one.
    pub(super) fn new(name: &'c str, spec: ColumnSpec, num_bytes: usize) -> Self {
        let values = match spec.data.scalar() {
            ScalarType::String | ScalarType::Json => match spec.data {
                ColumnType::Scalar(_) => {
                    Values::Text { done: StringBuilder::with_capacity(0, num_bytes), row: String::new() }
                }
                ColumnType::List(_) => Values::Texts { bytes: Vec::new(), ends: vec![0] },
            },
            ScalarType::Int32 => Values::Int32(Vec::new()),
            ScalarType::Int64 => Values::Int64(Vec::new()),
            ScalarType::Float32 => Values::Float32(Vec::new()),
            ScalarType::Float64 => Values::Float64(Vec::new()),
            ScalarType::Bool => Values::Bool(Vec::new()),
        };
        Self { name, spec, values, list_ends: vec![0], valid: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.valid.len()
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self.spec.data, ColumnType::List(_))
    }

    /// Whether rows are any values, kept as JSON text.
    pub(super) fn is_json(&self) -> bool {
        self.spec.data == ColumnType::Scalar(ScalarType::Json)
    }

    /// Adds a row of text, which `read` writes, or null if it says so.
    pub(super) fn push_text<E>(
        &mut self,
        read: impl FnOnce(&mut String) -> Result<bool, E>,
    ) -> Result<(), E> {
        let Values::Text { row, .. } = &mut self.values else {
            self.push_null();
            return Ok(());
        };
        let is_null = read(row)?;
        if is_null {
            row.clear();
        }
        self.valid.push(!is_null);
        Ok(())
    }

    /// Adds a row that is a value or null.
    pub(super) fn push(&mut self, value: &JsonValue<'_>) -> Result<(), Misfit> {
        match value {
            JsonValue::Null => self.push_null(),
            _ if self.is_list() => return Err(Misfit),
            _ => {
                self.values.push(value)?;
                self.valid.push(true);
            }
        }
        Ok(())
    }

    pub(super) fn push_null(&mut self) {
        if self.is_list() {
            self.list_ends.push(index(self.values.len()));
        } else {
            self.values.push_default();
        }
        self.valid.push(false);
    }

    /// Adds an item to the list that is being read.
    pub(super) fn push_item(&mut self, value: &JsonValue<'_>) -> Result<(), Misfit> {
        self.values.push(value)
    }

    /// Adds the items since the last row as a row.
    pub(super) fn end_list(&mut self) {
        self.list_ends.push(index(self.values.len()));
        self.valid.push(true);
    }

    /// Takes back what is beyond the first `num_rows` rows, which are those that were committed.
    pub(super) fn truncate(&mut self, num_rows: usize) {
        self.valid.truncate(num_rows);
        if self.is_list() {
            self.list_ends.truncate(num_rows + 1);
            let end = self.list_ends.last().copied().unwrap_or(0);
            self.values.truncate(usize::try_from(end).expect("ends of lists are never negative"));
        } else {
            self.values.truncate(num_rows);
        }
    }

    /// Keeps the row that has been read.
    pub(super) fn commit(&mut self) {
        if let Values::Text { done, row } = &mut self.values {
            match self.valid.last() {
                Some(true) => done.append_value(&*row),
                _ => done.append_null(),
            }
            row.clear();
        }
    }

    pub(super) fn finish(self) -> Result<ArrayRef, ArrowError> {
        let nulls = (!self.valid.iter().all(|&valid| valid)).then(|| NullBuffer::from(self.valid));
        let ColumnType::List(scalar) = self.spec.data else { return self.values.finish(nulls) };
        let field = Arc::new(Field::new_list_field(scalar.arrow(), true));
        let ends = OffsetBuffer::new(ScalarBuffer::from(self.list_ends));
        Ok(Arc::new(ListArray::try_new(field, ends, self.values.finish(None)?, nulls)?))
    }
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Self::Text { done, .. } => done.len(),
            Self::Texts { ends, .. } => ends.len() - 1,
            Self::Int32(values) => values.len(),
            Self::Int64(values) => values.len(),
            Self::Float32(values) => values.len(),
            Self::Float64(values) => values.len(),
            Self::Bool(values) => values.len(),
        }
    }

    fn push(&mut self, value: &JsonValue<'_>) -> Result<(), Misfit> {
        match (self, value) {
            (Self::Text { row, .. }, JsonValue::String(text)) => row.push_str(text),
            (Self::Texts { bytes, ends }, JsonValue::String(text)) => {
                bytes.extend_from_slice(text.as_bytes());
                ends.push(index(bytes.len()));
            }
            (Self::Int32(values), &JsonValue::Int(int)) => values.push(int.try_into().map_err(|_| Misfit)?),
            (Self::Int64(values), &JsonValue::Int(int)) => values.push(int.try_into().map_err(|_| Misfit)?),
            // JSON's `-0` is a whole number that only a float has, so that is what the parser makes of it.
            (Self::Int32(values), &JsonValue::Float(float)) if is_minus_zero(float) => values.push(0),
            (Self::Int64(values), &JsonValue::Float(float)) if is_minus_zero(float) => values.push(0),
            (Self::Float64(values), &JsonValue::Int(int)) => values.push(int as f64),
            (Self::Float64(values), &JsonValue::Float(float)) => values.push(float),
            (Self::Float32(values), &JsonValue::Int(int)) => values.push(int as f32),
            (Self::Float32(values), &JsonValue::Float(float)) => {
                let narrow = float as f32;
                if narrow.is_infinite() && float.is_finite() {
                    return Err(Misfit);
                }
                values.push(narrow);
            }
            (Self::Bool(values), &JsonValue::Bool(value)) => values.push(value),
            _ => return Err(Misfit),
        }
        Ok(())
    }

    fn push_default(&mut self) {
        match self {
            Self::Text { .. } => {}
            Self::Texts { bytes, ends } => ends.push(index(bytes.len())),
            Self::Int32(values) => values.push(0),
            Self::Int64(values) => values.push(0),
            Self::Float32(values) => values.push(0.0),
            Self::Float64(values) => values.push(0.0),
            Self::Bool(values) => values.push(false),
        }
    }

    fn truncate(&mut self, len: usize) {
        match self {
            Self::Text { row, .. } => row.clear(),
            Self::Texts { bytes, ends } => {
                ends.truncate(len + 1);
                let end = ends.last().copied().unwrap_or(0);
                bytes.truncate(usize::try_from(end).expect("ends of texts are never negative"));
            }
            Self::Int32(values) => values.truncate(len),
            Self::Int64(values) => values.truncate(len),
            Self::Float32(values) => values.truncate(len),
            Self::Float64(values) => values.truncate(len),
            Self::Bool(values) => values.truncate(len),
        }
    }

    fn finish(self, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        fn primitive<T: ArrowPrimitiveType>(
            values: Vec<T::Native>,
            nulls: Option<NullBuffer>,
        ) -> Result<ArrayRef, ArrowError> {
            Ok(Arc::new(PrimitiveArray::<T>::try_new(ScalarBuffer::from(values), nulls)?))
        }
        match self {
            Self::Text { mut done, .. } => Ok(Arc::new(done.finish())),
            Self::Texts { bytes, ends } => {
                let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
                Ok(Arc::new(StringArray::try_new(ends, Buffer::from_vec(bytes), nulls)?))
            }
            Self::Int32(values) => primitive::<Int32Type>(values, nulls),
            Self::Int64(values) => primitive::<Int64Type>(values, nulls),
            Self::Float32(values) => primitive::<Float32Type>(values, nulls),
            Self::Float64(values) => primitive::<Float64Type>(values, nulls),
            Self::Bool(values) => Ok(Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls))),
        }
    }
}

/// A place in a column.
fn index(place: usize) -> i32 {
    i32::try_from(place).expect("a chunk is shorter than 2 GiB, and its values than the chunk")
}

fn is_minus_zero(float: f64) -> bool {
    float == 0.0 && float.is_sign_negative()
}
