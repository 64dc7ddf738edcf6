//! From the types of the columns of Parquet and Arrow files to those of a source.
//!
//! Dictionaries, views and large types are what they stand for: `Dictionary(Int8, Utf8View)` is read as `Utf8`.
//!
//! ```text
//! bytes "caf\xe9" as string  -> bad row: is not valid UTF-8 at byte 4
//! int64 3000000000 as int32  -> bad row: should be an int32, but is 3000000000
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringArray, StringBuilder};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type};
use arrow::error::ArrowError;
use arrow::util::display::array_value_to_string;

use crate::source::column::{ColumnType, ScalarType};
use crate::source::json_text::{is_json, json_texts};

/// The type that a column has when dictionaries, views and large types are taken for what they stand for.
fn plain(found: &DataType) -> DataType {
    match found {
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, values) => plain(values),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, 1..)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => {
            DataType::List(Arc::new(Field::new_list_field(plain(item.data_type()), true)))
        }
        found => found.clone(),
    }
}

/// The type that an undeclared column gets, if a source can have it.
pub(crate) fn column_type(found: &DataType) -> Option<ColumnType> {
    let scalar = |found: &DataType| {
        Some(match found {
            DataType::Utf8 => ScalarType::String,
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => {
                ScalarType::Int32
            }
            DataType::Int64 | DataType::UInt32 | DataType::UInt64 => ScalarType::Int64,
            DataType::Float16 | DataType::Float32 => ScalarType::Float32,
            DataType::Float64 => ScalarType::Float64,
            DataType::Boolean => ScalarType::Bool,
            _ => return None,
        })
    };
    match &plain(found) {
        DataType::List(item) => scalar(item.data_type()).map(ColumnType::List),
        found => scalar(found).map(ColumnType::Scalar),
    }
}

/// Whether values of a type found in a file can be read as a declared one, but for some that do not fit.
pub(super) fn is_readable_as(found: &DataType, wanted: ColumnType) -> bool {
    let scalar = |found: &DataType, wanted: ScalarType| match wanted {
        // Files of old writers have strings without saying so.
        ScalarType::String => matches!(found, DataType::Utf8 | DataType::Binary),
        ScalarType::Int32 | ScalarType::Int64 => found.is_integer(),
        ScalarType::Float32 | ScalarType::Float64 => found.is_integer() || found.is_floating(),
        ScalarType::Bool => *found == DataType::Boolean,
        ScalarType::Json => is_json(found),
    };
    if wanted == ColumnType::Scalar(ScalarType::Json) {
        return is_json(found);
    }
    match (&plain(found), wanted) {
        (DataType::List(item), ColumnType::List(wanted)) => scalar(item.data_type(), wanted),
        (found, ColumnType::Scalar(wanted)) => scalar(found, wanted),
        _ => false,
    }
}

/// Turns a column of a file into one of the source. Rows that do not fit become null and are told to `bad`.
pub(crate) fn convert(
    array: &ArrayRef,
    wanted: ColumnType,
    bad: &mut dyn FnMut(usize, String),
) -> Result<ArrayRef, ArrowError> {
    if wanted == ColumnType::Scalar(ScalarType::Json) {
        return json_texts(array);
    }
    let array = &as_plain(array)?;
    let scalar = match wanted {
        ColumnType::Scalar(scalar) => return convert_scalars(array, scalar, bad),
        ColumnType::List(scalar) => scalar,
    };
    let lists: &ListArray = array
        .as_list_opt()
        .ok_or_else(|| ArrowError::CastError(format!("{} is no list", array.data_type())))?;
    let (first, last) = (lists.value_offsets()[0], lists.value_offsets()[lists.len()]);
    let items = lists.values().slice(place(first), place(last - first));
    let mut misfits: Vec<(usize, String)> = Vec::new();
    let converted = convert_scalars(&items, scalar, &mut |item, reason| misfits.push((item, reason)))?;
    if items.null_count() > 0 {
        let nulls = (0..items.len()).filter(|&item| items.is_null(item));
        misfits.extend(nulls.map(|item| (item, format!("should be {}, but is null", scalar.phrase()))));
        misfits.sort();
    }
    let mut row = 0;
    for (item, reason) in misfits {
        while place(lists.value_offsets()[row + 1] - first) <= item {
            row += 1;
        }
        let number = item - place(lists.value_offsets()[row] - first) + 1;
        // What a null list hides is no item.
        if lists.is_valid(row) {
            bad(row, format!("item {number} {reason}"));
        }
    }
    let offsets = lists.value_offsets().iter().map(|offset| offset - first).collect();
    let field = Arc::new(Field::new_list_field(scalar.arrow(), true));
    let offsets = arrow::buffer::OffsetBuffer::new(offsets);
    Ok(Arc::new(ListArray::try_new(field, offsets, converted, lists.nulls().cloned())?))
}

/// The same values without dictionaries, views and large types.
fn as_plain(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let found = array.data_type();
    let wanted = plain(found);
    if *found == wanted
        || matches!((found, &wanted), (DataType::List(a), DataType::List(b)) if a.data_type() == b.data_type())
    {
        return Ok(Arc::clone(array));
    }
    match found {
        // One step at a time: not every cast from a dictionary is there.
        DataType::Dictionary(_, values) if **values != wanted => as_plain(&cast(array, values)?),
        _ => cast(array, &wanted),
    }
}

fn convert_scalars(
    array: &ArrayRef,
    wanted: ScalarType,
    bad: &mut dyn FnMut(usize, String),
) -> Result<ArrayRef, ArrowError> {
    if wanted == ScalarType::String && *array.data_type() == DataType::Binary {
        return Ok(Arc::new(convert_bytes(array, bad)));
    }
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let converted = cast_with_options(array, &wanted.arrow(), &options)?;
    let mut misfit = |row| {
        let value = array_value_to_string(array, row).unwrap_or_default();
        bad(row, format!("should be {}, but is {value}", wanted.phrase()));
    };
    if converted.null_count() > array.null_count() {
        (0..array.len()).filter(|&row| array.is_valid(row) && converted.is_null(row)).for_each(&mut misfit);
    }
    if let (Some(wide), Some(narrow)) =
        (array.as_primitive_opt::<Float64Type>(), converted.as_primitive_opt::<Float32Type>())
    {
        let overflows = |&row: &usize| wide.value(row).is_finite() && narrow.value(row).is_infinite();
        (0..array.len()).filter(|&row| array.is_valid(row)).filter(overflows).for_each(misfit);
    }
    Ok(converted)
}

fn convert_bytes(array: &ArrayRef, bad: &mut dyn FnMut(usize, String)) -> StringArray {
    let bytes = array.as_binary::<i32>();
    let (offsets, values, nulls) = bytes.clone().into_parts();
    if let Ok(strings) = StringArray::try_new(offsets, values, nulls) {
        return strings;
    }
    let mut strings = StringBuilder::with_capacity(bytes.len(), bytes.values().len());
    for row in 0..bytes.len() {
        match str::from_utf8(bytes.value(row)) {
            _ if bytes.is_null(row) => strings.append_null(),
            Ok(text) => strings.append_value(text),
            Err(error) => {
                bad(row, format!("is not valid UTF-8 at byte {}", error.valid_up_to() + 1));
                strings.append_null();
            }
        }
    }
    strings.finish()
}

/// A place in a column.
fn place(offset: i32) -> usize {
    usize::try_from(offset).expect("offsets of an Arrow array rise from zero")
}

#[cfg(test)]
mod tests {
    use arrow::array::{BinaryArray, Float64Array, Int64Array, ListBuilder, UInt64Array, UInt64Builder};

    use super::*;

    fn converted(array: ArrayRef, wanted: ColumnType) -> (ArrayRef, Vec<(usize, String)>) {
        let mut reasons = Vec::new();
        let array = convert(&array, wanted, &mut |row, reason| reasons.push((row, reason))).unwrap();
        assert_eq!(*array.data_type(), wanted.arrow());
        (array, reasons)
    }

    #[test]
    fn one_bad_string_spoils_only_its_row() {
        let bytes = BinaryArray::from_opt_vec(vec![Some(b"a"), None, Some(b"caf\xe9"), Some("é".as_bytes())]);
        let (array, reasons) = converted(Arc::new(bytes), ScalarType::String.into());
        assert_eq!(array.as_string::<i32>().iter().collect::<Vec<_>>(), [Some("a"), None, None, Some("é")]);
        assert_eq!(reasons, [(2, "is not valid UTF-8 at byte 4".to_owned())]);
    }

    #[test]
    fn a_number_that_does_not_fit_is_a_bad_row() {
        let numbers = Arc::new(Int64Array::from(vec![Some(1), None, Some(3_000_000_000)]));
        let (array, reasons) = converted(numbers, ScalarType::Int32.into());
        assert_eq!(array.null_count(), 2);
        assert_eq!(reasons, [(2, "should be an int32, but is 3000000000".to_owned())]);
        let (_, reasons) = converted(Arc::new(UInt64Array::from(vec![u64::MAX])), ScalarType::Int64.into());
        assert_eq!(reasons, [(0, "should be an int64, but is 18446744073709551615".to_owned())]);
        let floats = Arc::new(Float64Array::from(vec![1.5, f64::INFINITY, 1e300]));
        let (_, reasons) = converted(floats, ScalarType::Float32.into());
        assert_eq!(reasons, [(2, "should be a float32, but is 1e300".to_owned())]);
    }

    #[test]
    fn items_are_converted_and_found_in_their_rows() {
        let mut lists = ListBuilder::new(UInt64Builder::new());
        lists.append_value([Some(9)]);
        lists.append_value([Some(1), Some(2)]);
        lists.append_value([]);
        lists.append_null();
        lists.append_value([Some(3), None]);
        lists.append_value([Some(u64::MAX)]);
        let lists: ArrayRef = Arc::new(lists.finish());
        let (array, reasons) = converted(lists.slice(1, 5), ColumnType::List(ScalarType::Int32));
        assert_eq!(array.len(), 5);
        assert_eq!(array.as_list::<i32>().value(0).len(), 2);
        assert!(array.is_null(2));
        assert_eq!(
            reasons,
            [
                (3, "item 2 should be an int32, but is null".to_owned()),
                (4, "item 1 should be an int32, but is 18446744073709551615".to_owned()),
            ]
        );
    }
}
