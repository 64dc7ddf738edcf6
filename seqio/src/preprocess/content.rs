//! The content of values as bytes: the same for values that are equal, different for all others.
//!
//! ```text
//! "ab"          ->  's', 1 value, no nulls, 2 bytes, a b
//! [3, null]     ->  'l', 1 value, no nulls, ('n', 2 values, nulls 0 1, 3)
//! ```
//!
//! Every part has its length in front, so that no two values share their bytes. How a column is stored does not matter:
//! dictionaries and views count as what they hold. Among floats `-0.0` is `0.0`, and every NaN is the same.

use arrow::array::{Array, ArrayRef, AsArray, downcast_primitive_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};
use arrow::error::ArrowError;

/// Whether values of this type have a content that can be compared.
pub(super) fn is_comparable(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(..) | DataType::RunEndEncoded(..) => false,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => is_comparable(item.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| is_comparable(field.data_type())),
        DataType::Dictionary(_, value) => is_comparable(value),
        _ => true,
    }
}

/// A column as [`write_content`] reads it fastest.
pub(super) fn plain(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match column.data_type() {
        DataType::Dictionary(_, value) => arrow::compute::cast(column, value),
        _ => Ok(column.clone()),
    }
}

/// Appends the content of all values, which are of a type that [`is_comparable`].
pub(super) fn write_content(values: &ArrayRef, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    if matches!(values.data_type(), DataType::Dictionary(..)) {
        return write_content(&plain(values)?, out);
    }
    out.push(tag(values.data_type()));
    out.extend((values.len() as u64).to_le_bytes());
    let nulls = values.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    match &nulls {
        None => out.push(0),
        Some(nulls) => {
            out.push(1);
            out.extend(nulls.iter().map(u8::from));
        }
    }
    let valid = |index: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*index));
    let valid = (0..values.len()).filter(valid);
    let mut bytes = |value: &[u8]| {
        out.extend((value.len() as u64).to_le_bytes());
        out.extend(value);
    };
    match values.data_type() {
        DataType::Null => {}
        DataType::Boolean => out.extend(valid.map(|index| u8::from(values.as_boolean().value(index)))),
        DataType::Utf8 => {
            valid.for_each(|index| bytes(values.as_string::<i32>().value(index).as_bytes()));
        }
        DataType::LargeUtf8 => {
            valid.for_each(|index| bytes(values.as_string::<i64>().value(index).as_bytes()));
        }
        DataType::Utf8View => valid.for_each(|index| bytes(values.as_string_view().value(index).as_bytes())),
        DataType::Binary => valid.for_each(|index| bytes(values.as_binary::<i32>().value(index))),
        DataType::LargeBinary => valid.for_each(|index| bytes(values.as_binary::<i64>().value(index))),
        DataType::BinaryView => valid.for_each(|index| bytes(values.as_binary_view().value(index))),
        DataType::FixedSizeBinary(_) => {
            valid.for_each(|index| bytes(values.as_fixed_size_binary().value(index)));
        }
        DataType::Float16 => {
            let floats = values.as_primitive::<Float16Type>();
            valid.for_each(|index| out.extend(float(f64::from(floats.value(index)))));
        }
        DataType::Float32 => {
            let floats = values.as_primitive::<Float32Type>();
            valid.for_each(|index| out.extend(float(f64::from(floats.value(index)))));
        }
        DataType::Float64 => {
            let floats = values.as_primitive::<Float64Type>();
            valid.for_each(|index| out.extend(float(floats.value(index))));
        }
        DataType::List(_) => {
            for index in valid {
                write_content(&values.as_list::<i32>().value(index), out)?;
            }
        }
        DataType::LargeList(_) => {
            for index in valid {
                write_content(&values.as_list::<i64>().value(index), out)?;
            }
        }
        DataType::ListView(_) => {
            for index in valid {
                write_content(&values.as_list_view::<i32>().value(index), out)?;
            }
        }
        DataType::LargeListView(_) => {
            for index in valid {
                write_content(&values.as_list_view::<i64>().value(index), out)?;
            }
        }
        DataType::FixedSizeList(..) => {
            for index in valid {
                write_content(&values.as_fixed_size_list().value(index), out)?;
            }
        }
        DataType::Map(..) => {
            for index in valid {
                let entries: ArrayRef = std::sync::Arc::new(values.as_map().value(index));
                write_content(&entries, out)?;
            }
        }
        DataType::Struct(_) => {
            // What stands below a null row is no content.
            for index in valid {
                for column in values.as_struct().columns() {
                    write_content(&column.slice(index, 1), out)?;
                }
            }
        }
        _ => write_numbers(values, nulls.as_ref(), out)?,
    }
    Ok(())
}

/// The bytes of whole numbers, decimals, dates and times.
fn write_numbers(values: &ArrayRef, nulls: Option<&NullBuffer>, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    let (bytes, width) = downcast_primitive_array!(
        values => (values.values().inner().as_slice(), size_of_val(&values.values()[..]) / values.len().max(1)),
        other => return Err(ArrowError::NotYetImplemented(format!("comparing values of type {other}")))
    );
    match nulls {
        None => out.extend(bytes),
        Some(nulls) => nulls.valid_indices().for_each(|index| {
            out.extend(&bytes[index * width..(index + 1) * width]);
        }),
    }
    Ok(())
}

fn float(value: f64) -> [u8; 8] {
    let value = if value.is_nan() { f64::NAN } else { value + 0.0 };
    value.to_le_bytes()
}

/// Types that hold the same kind of value have the same tag.
fn tag(data_type: &DataType) -> u8 {
    match data_type {
        DataType::Null => b'0',
        DataType::Boolean => b'?',
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => b's',
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            b'b'
        }
        DataType::Float16 | DataType::Float32 | DataType::Float64 => b'f',
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::FixedSizeList(..) => b'l',
        DataType::Map(..) => b'm',
        DataType::Struct(_) => b'r',
        _ => b'n',
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        DictionaryArray, Float64Array, Int32Array, Int64Array, LargeStringArray, ListArray, StringArray,
        StringViewArray, StructArray,
    };
    use arrow::buffer::NullBuffer;
    use arrow::datatypes::{Field, Fields, Int32Type};

    use super::*;

    fn content(values: impl Array + 'static, row: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let values: ArrayRef = Arc::new(values);
        write_content(&values.slice(row, 1), &mut out).unwrap();
        out
    }

    #[test]
    fn how_a_text_is_stored_does_not_matter() {
        let texts = vec![Some("b"), Some("a"), None];
        for row in 0..3 {
            let expected = content(StringArray::from(texts.clone()), row);
            assert_eq!(content(LargeStringArray::from(texts.clone()), row), expected);
            assert_eq!(content(StringViewArray::from(texts.clone()), row), expected);
            let dictionary: DictionaryArray<Int32Type> = texts.iter().copied().collect();
            assert_eq!(content(dictionary, row), expected);
        }
    }

    #[test]
    fn floats_are_equal_as_numbers_are() {
        let floats = Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN, 1.0, f64::MIN_POSITIVE]);
        let of = |row| content(floats.clone(), row);
        assert_eq!(of(0), of(1));
        assert_eq!(of(2), of(3));
        assert_ne!(of(0), of(5));
        assert_ne!(of(2), of(4));
    }

    #[test]
    fn lists_cut_elsewhere_and_lists_with_nulls_are_different() {
        let list =
            |rows: Vec<Option<Vec<Option<i32>>>>| ListArray::from_iter_primitive::<Int32Type, _, _>(rows);
        let all = list(vec![
            Some(vec![Some(1), Some(2)]),
            Some(vec![Some(1), None]),
            Some(vec![None, Some(1)]),
            Some(vec![Some(1)]),
            Some(vec![]),
            None,
            Some(vec![Some(1), Some(0)]),
        ]);
        let contents: std::collections::BTreeSet<_> = (0..7).map(|row| content(all.clone(), row)).collect();
        assert_eq!(contents.len(), 7);
        assert_eq!(content(all.clone(), 0), content(list(vec![None, Some(vec![Some(1), Some(2)])]), 1));
    }

    #[test]
    fn what_stands_below_a_null_is_no_content() {
        let fields = Fields::from(vec![Field::new("n", DataType::Int32, true)]);
        let of = |numbers: Vec<i32>, valid: Vec<bool>| {
            let numbers: ArrayRef = Arc::new(Int32Array::from(numbers));
            StructArray::new(fields.clone(), vec![numbers], Some(NullBuffer::from(valid)))
        };
        assert_eq!(content(of(vec![7], vec![false]), 0), content(of(vec![8], vec![false]), 0));
        assert_ne!(content(of(vec![7], vec![true]), 0), content(of(vec![8], vec![true]), 0));
        let numbers = |hidden: i64| {
            Int64Array::new(vec![1, hidden, 3].into(), Some(NullBuffer::from(vec![true, false, true])))
        };
        let mut contents = [Vec::new(), Vec::new()];
        for (hidden, out) in [5, 6].into_iter().zip(&mut contents) {
            let values: ArrayRef = Arc::new(numbers(hidden));
            write_content(&values, out).unwrap();
        }
        assert_eq!(contents[0], contents[1]);
    }
}
