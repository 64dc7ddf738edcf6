//! The types that a column of raw examples can have, as they are written in definitions.
//!
//! ```text
//! columns = { text = "string", ids = "list<int32>", title = "string?", messages = "json" }
//! ```

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::text::nearest;

/// What one value can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScalarType {
    /// Unicode text.
    String,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// A number of 32 bits.
    Float32,
    /// A number of 64 bits.
    Float64,
    /// True or false.
    Bool,
    /// Any value, kept as JSON text.
    Json,
}

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ColumnType {
    /// One value a row.
    Scalar(ScalarType),
    /// Any number of values a row.
    List(ScalarType),
}

/// A column that a source reads: `"string"`, or `"string?"` where a record may lack it.
///
/// A record that lacks a column without `?` is a bad row. An explicit null is a null in either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ColumnSpec {
    /// Its type.
    pub data: ColumnType,
    /// Whether a record may lack it and then has a null.
    pub optional: bool,
}

impl ScalarType {
    const ALL: [Self; 7] =
        [Self::String, Self::Int32, Self::Int64, Self::Float32, Self::Float64, Self::Bool, Self::Json];

    fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Bool => "bool",
            Self::Json => "json",
        }
    }

    /// What a value is, in words.
    fn meaning(self) -> &'static str {
        match self {
            Self::String => "Unicode text",
            Self::Int32 => "a whole number of 32 bits",
            Self::Int64 => "a whole number of 64 bits",
            Self::Float32 => "a number of 32 bits",
            Self::Float64 => "a number of 64 bits",
            Self::Bool => "true or false",
            Self::Json => "any value, kept as JSON text: objects, lists of objects",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scalar| scalar.as_str() == name)
    }

    /// What a list can be of: a list of any values is itself a value.
    fn items() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|scalar| *scalar != Self::Json)
    }

    pub(super) fn arrow(self) -> DataType {
        match self {
            Self::String | Self::Json => DataType::Utf8,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::Float32 => DataType::Float32,
            Self::Float64 => DataType::Float64,
            Self::Bool => DataType::Boolean,
        }
    }
}

impl ColumnType {
    /// The type of a value, or of an item of a list.
    pub(super) fn scalar(self) -> ScalarType {
        match self {
            Self::Scalar(scalar) | Self::List(scalar) => scalar,
        }
    }

    /// The type in memory.
    pub fn arrow(self) -> DataType {
        match self {
            Self::Scalar(scalar) => scalar.arrow(),
            Self::List(scalar) => DataType::List(Arc::new(Field::new_list_field(scalar.arrow(), true))),
        }
    }

    /// The type in a sentence: `a string`, `an int32`, `a list of int32`.
    pub(crate) fn phrase(self) -> String {
        match self {
            Self::Scalar(scalar) => scalar.phrase(),
            Self::List(scalar) => format!("a list of {scalar}"),
        }
    }
}

impl ScalarType {
    /// The type in a sentence.
    pub(crate) fn phrase(self) -> String {
        let article = if matches!(self, Self::Int32 | Self::Int64) { "an" } else { "a" };
        format!("{article} {self}")
    }
}

impl From<ScalarType> for ColumnType {
    fn from(scalar: ScalarType) -> Self {
        Self::Scalar(scalar)
    }
}

impl From<ScalarType> for ColumnSpec {
    fn from(scalar: ScalarType) -> Self {
        ColumnType::Scalar(scalar).into()
    }
}

impl From<ColumnType> for ColumnSpec {
    fn from(data: ColumnType) -> Self {
        Self { data, optional: false }
    }
}

impl ColumnSpec {
    /// The same column, which a record may lack.
    pub fn optional(self) -> Self {
        Self { optional: true, ..self }
    }
}

impl fmt::Display for ScalarType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(scalar) => scalar.fmt(f),
            Self::List(scalar) => write!(f, "list<{scalar}>"),
        }
    }
}

impl fmt::Display for ColumnSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.data, if self.optional { "?" } else { "" })
    }
}

impl FromStr for ColumnSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, optional) = text.strip_suffix('?').map_or((text, false), |name| (name, true));
        let item = name.strip_prefix("list<").and_then(|rest| rest.strip_suffix('>'));
        let data = match item {
            Some("json") => return Err("a list of any values is `json` itself: write `json`".to_owned()),
            Some(item) => ScalarType::from_name(item).map(ColumnType::List),
            None => ScalarType::from_name(name).map(ColumnType::Scalar),
        };
        match data {
            Some(data) => Ok(Self { data, optional }),
            None => Err(unknown_type(text, item.unwrap_or(name))),
        }
    }
}

fn unknown_type(text: &str, scalar: &str) -> String {
    let names = ScalarType::ALL.map(ScalarType::as_str);
    let hint = match nearest(scalar, names) {
        Some(name) => format!(" (did you mean `{name}`?)"),
        None => String::new(),
    };
    format!(
        "unknown column type `{text}`{hint}; a column is {}, a list of these as `list<int32>`, and with `?` at the \
         end one that records may lack",
        crate::text::quoted(names)
    )
}

impl TryFrom<String> for ColumnSpec {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl JsonSchema for ColumnSpec {
    fn schema_name() -> Cow<'static, str> {
        "ColumnSpec".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let one =
            |name: String, meaning: String| serde_json::json!({ "const": name, "description": meaning });
        let mut types: Vec<_> = ScalarType::ALL
            .iter()
            .map(|scalar| one(scalar.to_string(), format!("{}.", scalar.meaning())))
            .collect();
        types.extend(ScalarType::items().map(|scalar| {
            one(
                ColumnType::List(scalar).to_string(),
                format!("any number of values, each {}.", scalar.meaning()),
            )
        }));
        let optional: Vec<_> = types
            .iter()
            .filter_map(|known| {
                Some(one(
                    format!("{}?", known["const"].as_str()?),
                    "the same, which a record may lack.".to_owned(),
                ))
            })
            .collect();
        types.extend(optional);
        json_schema!({ "oneOf": types, "description": "the type of a column", "x-type": "column type" })
    }
}

impl From<ColumnSpec> for String {
    fn from(column: ColumnSpec) -> Self {
        column.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_prints_as_it_is_written() {
        for text in ["json", "json?"] {
            assert_eq!(text.parse::<ColumnSpec>().unwrap().to_string(), text);
        }
        for scalar in ScalarType::items() {
            for text in [format!("{scalar}"), format!("list<{scalar}>"), format!("list<{scalar}>?")] {
                assert_eq!(text.parse::<ColumnSpec>().unwrap().to_string(), text);
            }
        }
    }

    #[test]
    fn an_unknown_type_is_refused_with_the_types_there_are() {
        insta::assert_snapshot!("list<int23>".parse::<ColumnSpec>().unwrap_err(), @"unknown column type `list<int23>` (did you mean `int32`?); a column is `string`, `int32`, `int64`, `float32`, `float64`, `bool`, `json`, a list of these as `list<int32>`, and with `?` at the end one that records may lack");
        for text in ["", "?", "list<list<int32>>", "list<json>", "list<string", "String", "string??"] {
            assert!(text.parse::<ColumnSpec>().is_err(), "{text}");
        }
    }
}
