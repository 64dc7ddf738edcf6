//! Values kept as JSON text: those of JSON Lines as they stand, those of nested Arrow columns written out.
//!
//! ```text
//! columns = { messages = "json" }
//! {"messages": [{"role": "user"}]}               -> messages: "[{\"role\":\"user\"}]"
//! list<struct<role, content>> [{user, null}]     -> messages: "[{\"role\":\"user\"}]"
//! ```
//!
//! Keys keep their order. A field of a struct that is null is left out: Arrow cannot say that a record lacks a field, and
//! fills it with a null. A column of strings is taken for JSON text as it is.

use std::fmt::{self, Write as _};

use arrow::array::{Array, ArrayRef, AsArray, StringArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::error::ArrowError;
use arrow::util::display::array_value_to_string;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// Appends the JSON value that it reads to a text, and says whether it is null.
pub(super) struct JsonTextReader<'t> {
    pub(super) text: &'t mut String,
}

impl JsonTextReader<'_> {
    fn plain(self, value: impl fmt::Display) -> bool {
        write!(self.text, "{value}").expect("writing to a string cannot fail");
        false
    }
}

impl<'de> DeserializeSeed<'de> for JsonTextReader<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<bool, D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonTextReader<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        self.text.push_str("null");
        Ok(true)
    }

    fn visit_bool<E>(self, value: bool) -> Result<bool, E> {
        Ok(self.plain(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<bool, E> {
        Ok(self.plain(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<bool, E> {
        Ok(self.plain(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<bool, E> {
        push_float(value, self.text);
        Ok(false)
    }

    fn visit_str<E>(self, value: &str) -> Result<bool, E> {
        push_string(value, self.text);
        Ok(false)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<bool, A::Error> {
        self.text.push('[');
        let start = self.text.len();
        loop {
            let before = self.text.len();
            if before > start {
                self.text.push(',');
            }
            if list.next_element_seed(JsonTextReader { text: &mut *self.text })?.is_none() {
                self.text.truncate(before);
                break;
            }
        }
        self.text.push(']');
        Ok(false)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        self.text.push('{');
        let start = self.text.len();
        loop {
            let before = self.text.len();
            if before > start {
                self.text.push(',');
            }
            if map.next_key_seed(JsonTextReader { text: &mut *self.text })?.is_none() {
                self.text.truncate(before);
                break;
            }
            self.text.push(':');
            map.next_value_seed(JsonTextReader { text: &mut *self.text })?;
        }
        self.text.push('}');
        Ok(false)
    }
}

fn push_string(value: &str, text: &mut String) {
    text.push_str(&serde_json::to_string(value).expect("a string is JSON"));
}

fn push_float(value: f64, text: &mut String) {
    match serde_json::Number::from_f64(value) {
        Some(number) => write!(text, "{number}").expect("writing to a string cannot fail"),
        None => text.push_str("null"),
    }
}

/// Whether values of a type found in a file can be written as JSON.
pub(crate) fn is_json(found: &DataType) -> bool {
    match found {
        DataType::Null
        | DataType::Boolean
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Float16
        | DataType::Float32
        | DataType::Float64 => true,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => is_json(item.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| is_json(field.data_type())),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                matches!(fields[0].data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
                    && is_json(fields[1].data_type())
            }
            _ => false,
        },
        DataType::Dictionary(_, values) => is_json(values),
        found => found.is_integer(),
    }
}

/// A column of a file as JSON text; one of strings as it is.
pub(crate) fn json_texts(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let is_text =
        |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    match array.data_type() {
        DataType::Dictionary(_, values) if is_text(values) => return cast(array, &DataType::Utf8),
        data_type if is_text(data_type) => return cast(array, &DataType::Utf8),
        _ => {}
    }
    let mut texts = StringBuilder::new();
    let mut text = String::new();
    for row in 0..array.len() {
        if array.is_null(row) || *array.data_type() == DataType::Null {
            texts.append_null();
            continue;
        }
        text.clear();
        push_value(array, row, &mut text)?;
        texts.append_value(&text);
    }
    let texts: StringArray = texts.finish();
    Ok(std::sync::Arc::new(texts))
}

fn push_value(array: &ArrayRef, row: usize, text: &mut String) -> Result<(), ArrowError> {
    if array.is_null(row) {
        text.push_str("null");
        return Ok(());
    }
    match array.data_type() {
        DataType::Null => text.push_str("null"),
        DataType::Utf8 => push_string(array.as_string::<i32>().value(row), text),
        DataType::LargeUtf8 => push_string(array.as_string::<i64>().value(row), text),
        DataType::Utf8View => push_string(array.as_string_view().value(row), text),
        DataType::Float32 => {
            // By its own shortest form, not that of the nearest number of 64 bits.
            let value = array.as_primitive::<Float32Type>().value(row);
            match value.is_finite() {
                true => text.push_str(&serde_json::to_string(&value).unwrap_or_else(|_| "null".to_owned())),
                false => text.push_str("null"),
            }
        }
        DataType::Float64 => push_float(array.as_primitive::<Float64Type>().value(row), text),
        DataType::Float16 => push_value(&cast(&array.slice(row, 1), &DataType::Float32)?, 0, text)?,
        DataType::List(_) => push_items(&array.as_list::<i32>().value(row), text)?,
        DataType::LargeList(_) => push_items(&array.as_list::<i64>().value(row), text)?,
        DataType::FixedSizeList(..) => push_items(&array.as_fixed_size_list().value(row), text)?,
        DataType::ListView(item) | DataType::LargeListView(item) => {
            push_value(&cast(&array.slice(row, 1), &DataType::LargeList(item.clone()))?, 0, text)?;
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            let there = fields.iter().zip(columns).filter(|(_, column)| !column.is_null(row));
            push_object(there.map(|(field, column)| (field.name().as_str(), column, row)), text)?;
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let keys = cast(entries.column(0), &DataType::Utf8)?;
            let keys = keys.as_string::<i32>();
            let pairs = (0..entries.len()).map(|entry| (keys.value(entry), entries.column(1), entry));
            push_object(pairs, text)?;
        }
        DataType::Dictionary(_, values) => push_value(&cast(&array.slice(row, 1), values)?, 0, text)?,
        // Whole numbers and booleans look alike in both.
        _ => text.push_str(&array_value_to_string(array, row)?),
    }
    Ok(())
}

fn push_items(items: &ArrayRef, text: &mut String) -> Result<(), ArrowError> {
    text.push('[');
    for item in 0..items.len() {
        if item > 0 {
            text.push(',');
        }
        push_value(items, item, text)?;
    }
    text.push(']');
    Ok(())
}

fn push_object<'a>(
    pairs: impl Iterator<Item = (&'a str, &'a ArrayRef, usize)>,
    text: &mut String,
) -> Result<(), ArrowError> {
    text.push('{');
    for (number, (key, values, row)) in pairs.enumerate() {
        if number > 0 {
            text.push(',');
        }
        push_string(key, text);
        text.push(':');
        push_value(values, row, text)?;
    }
    text.push('}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float32Array, Int32Array, ListArray, StructArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{Field, Fields};

    use super::*;

    /// Messages as data sets keep them: a list of structs, with a null for what a message lacks.
    fn messages() -> ArrayRef {
        let fields = Fields::from(vec![
            Field::new("role", DataType::Utf8, true),
            Field::new("content", DataType::LargeUtf8, true),
            Field::new("n", DataType::Int32, true),
        ]);
        let roles: ArrayRef = Arc::new(StringArray::from(vec!["user", "assistant", "user"]));
        let contents: ArrayRef = cast(
            &(Arc::new(StringArray::from(vec![Some("a \"b\""), None, Some("é\n")])) as ArrayRef),
            &DataType::LargeUtf8,
        )
        .unwrap();
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![None, Some(-3), None]));
        let structs = StructArray::new(fields.clone(), vec![roles, contents, numbers], None);
        let item = Arc::new(Field::new_list_field(DataType::Struct(fields), true));
        let nulls = Some(vec![true, true, false].into());
        Arc::new(ListArray::new(item, OffsetBuffer::from_lengths([2, 1, 0]), Arc::new(structs), nulls))
    }

    fn texts(array: &ArrayRef) -> Vec<Option<String>> {
        assert!(is_json(array.data_type()), "{}", array.data_type());
        let texts = json_texts(array).unwrap();
        texts.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
    }

    #[test]
    fn nested_columns_are_written_out_without_what_is_null() {
        let expected = [
            Some(r#"[{"role":"user","content":"a \"b\""},{"role":"assistant","n":-3}]"#.to_owned()),
            Some(r#"[{"role":"user","content":"é\n"}]"#.to_owned()),
            None,
        ];
        assert_eq!(texts(&messages()), expected);
        assert_eq!(texts(&messages().slice(1, 2)), expected[1..]);
        let floats: ArrayRef = Arc::new(Float32Array::from(vec![Some(0.1), Some(f32::NAN), None]));
        assert_eq!(texts(&floats), [Some("0.1".to_owned()), Some("null".to_owned()), None]);
    }

    #[test]
    fn strings_are_json_text_already() {
        let strings: ArrayRef = Arc::new(StringArray::from(vec![Some("[1]"), None]));
        assert_eq!(texts(&strings), [Some("[1]".to_owned()), None]);
        assert!(!is_json(&DataType::Date32));
    }

    #[test]
    fn values_of_json_lines_stand_as_they_were() {
        for (json, kept) in [
            (r#" [ {"b" : 1.0, "a": [null, true, -2, "\u00e9"]}, {}, [] ] "#, None),
            ("18446744073709551615", None),
            ("1e300", Some("1e+300")),
            (r#""x""#, None),
        ] {
            let mut text = String::new();
            let mut reader = serde_json::Deserializer::from_str(json);
            assert!(!JsonTextReader { text: &mut text }.deserialize(&mut reader).unwrap());
            let compact: String = json.replace("\\u00e9", "é").split_whitespace().collect();
            assert_eq!(text, kept.unwrap_or(&compact));
        }
    }
}
