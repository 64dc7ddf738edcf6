//! Templates: texts with values of columns in them.
//!
//! ```text
//! "translate {{en}}: {en}"   with en: "one"   ->   "translate {en}: one"
//! ```

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int64Type, Schema, UInt64Type};

use crate::preprocess::PreprocessError;

/// A template: `{name}` stands for a value, `{{` and `}}` for braces.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Template {
    parts: Vec<Part>,
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    Field(String),
}

impl Template {
    /// Reads a template; an error says what is wrong with it and what to do.
    pub(super) fn parse(template: &str) -> Result<Self, &'static str> {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut rest = template;
        while let Some(at) = rest.find(['{', '}']) {
            text.push_str(&rest[..at]);
            let brace = &rest[at..at + 1];
            let after = &rest[at + 1..];
            if let Some(behind) = after.strip_prefix(brace) {
                text.push_str(brace);
                rest = behind;
            } else if brace == "}" {
                return Err("a `}` without its `{`; write `}}` for a brace");
            } else {
                let Some(end) = after.find('}') else {
                    return Err("a `{` without its `}`; write `{{` for a brace");
                };
                let name = &after[..end];
                if name.is_empty() {
                    return Err("`{}` names no column; write `{column}`");
                }
                if name.contains('{') {
                    return Err("a `{` without its `}`; write `{{` for a brace");
                }
                if !text.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut text)));
                }
                parts.push(Part::Field(name.to_owned()));
                rest = &after[end + 1..];
            }
        }
        text.push_str(rest);
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        Ok(Self { parts })
    }

    /// Reads a template that stands in a step's settings under `name`.
    pub(super) fn setting(step: &'static str, name: &str, template: &str) -> Result<Self, PreprocessError> {
        Self::parse(template).map_err(|problem| PreprocessError::Setting {
            step,
            problem: format!("template `{template}` of `{name}`: {problem}"),
        })
    }

    /// The names in it, in order.
    pub(super) fn fields(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Field(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// Refuses names that are no columns, all at once, and columns that cannot be written as text.
    pub(super) fn check<'a>(
        step: &'static str,
        templates: impl IntoIterator<Item = &'a Self>,
        input: &Schema,
    ) -> Result<(), PreprocessError> {
        let mut absent: Vec<String> = Vec::new();
        for field in templates.into_iter().flat_map(Self::fields) {
            match input.column_with_name(field) {
                None if absent.iter().any(|name| name == field) => {}
                None => absent.push(field.to_owned()),
                Some((_, column)) if !can_be_written(column.data_type()) => {
                    return Err(PreprocessError::WrongType {
                        step,
                        column: field.to_owned(),
                        expected: "text, a number or a boolean",
                        found: column.data_type().clone(),
                    });
                }
                Some(_) => {}
            }
        }
        match absent.is_empty() {
            true => Ok(()),
            false => Err(PreprocessError::missing_columns(step, absent, input)),
        }
    }

    /// The template over the columns of some examples; they have all that it names.
    pub(super) fn over(&self, columns: &RecordBatch) -> Result<FilledTemplate, PreprocessError> {
        let values = self.parts.iter().map(|part| Values::of(part, columns));
        Ok(FilledTemplate { values: values.collect::<Result<_, _>>()? })
    }

    /// Appends the template's text with the values that `value` gives its names.
    pub(super) fn write_with<'v>(&self, text: &mut String, value: impl Fn(&str) -> &'v str) {
        for part in &self.parts {
            text.push_str(match part {
                Part::Text(piece) => piece,
                Part::Field(name) => value(name),
            });
        }
    }
}

/// A template over the columns of some examples.
pub(super) struct FilledTemplate {
    values: Vec<Values>,
}

impl FilledTemplate {
    /// Appends the text for a row.
    pub(super) fn write(&self, row: usize, text: &mut String) {
        self.values.iter().for_each(|value| value.write(row, text));
    }
}

fn can_be_written(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
                | DataType::Boolean
                | DataType::Float32
                | DataType::Float64
                | DataType::Null
        )
}

/// A column whose values can be written as text, or a text that is the same for every row.
enum Values {
    Text(String),
    Strings(ArrayRef),
    Signed(ArrayRef),
    Unsigned(ArrayRef),
    Float32(ArrayRef),
    Float64(ArrayRef),
    Booleans(ArrayRef),
    Nothing,
}

impl Values {
    fn of(part: &Part, columns: &RecordBatch) -> Result<Self, PreprocessError> {
        match part {
            Part::Text(text) => Ok(Self::Text(text.clone())),
            Part::Field(name) => Self::of_column(columns.column(columns.schema_ref().index_of(name)?)),
        }
    }

    fn of_column(column: &ArrayRef) -> Result<Self, PreprocessError> {
        Ok(match column.data_type() {
            DataType::Boolean => Self::Booleans(Arc::clone(column)),
            DataType::Float32 => Self::Float32(Arc::clone(column)),
            DataType::Float64 => Self::Float64(Arc::clone(column)),
            DataType::Null => Self::Nothing,
            signed if signed.is_signed_integer() => Self::Signed(cast(column, &DataType::Int64)?),
            unsigned if unsigned.is_unsigned_integer() => Self::Unsigned(cast(column, &DataType::UInt64)?),
            _ => Self::Strings(cast(column, &DataType::Utf8)?),
        })
    }

    /// Appends the value of a row: numbers in decimal, nothing for a null.
    fn write(&self, row: usize, text: &mut String) {
        let written = match self {
            Self::Text(piece) => {
                text.push_str(piece);
                Ok(())
            }
            Self::Nothing => Ok(()),
            Self::Strings(column) if column.is_valid(row) => {
                text.push_str(column.as_string::<i32>().value(row));
                Ok(())
            }
            Self::Signed(column) if column.is_valid(row) => {
                write!(text, "{}", column.as_primitive::<Int64Type>().value(row))
            }
            Self::Unsigned(column) if column.is_valid(row) => {
                write!(text, "{}", column.as_primitive::<UInt64Type>().value(row))
            }
            Self::Float32(column) if column.is_valid(row) => {
                write!(text, "{:?}", column.as_primitive::<Float32Type>().value(row))
            }
            Self::Float64(column) if column.is_valid(row) => {
                write!(text, "{:?}", column.as_primitive::<Float64Type>().value(row))
            }
            Self::Booleans(column) if column.is_valid(row) => {
                write!(text, "{}", column.as_boolean().value(row))
            }
            _ => Ok(()),
        };
        written.expect("writing to a string cannot fail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stray_braces_are_explained() {
        for (template, problem) in [
            ("a } b", "a `}` without its `{`; write `}}` for a brace"),
            ("a { b", "a `{` without its `}`; write `{{` for a brace"),
            ("{a{b}}", "a `{` without its `}`; write `{{` for a brace"),
            ("{}", "`{}` names no column; write `{column}`"),
        ] {
            assert_eq!(Template::parse(template), Err(problem), "{template}");
        }
        assert_eq!(Template::parse("}}{{").unwrap().parts, [Part::Text("}{".to_owned())]);
        assert_eq!(Template::parse("").unwrap().parts, []);
    }
}
