//! The columns of a JSON Lines source where the definition declares none, and an early look at those it declares.
//!
//! A sample decides: the first 1,000 records (of the first range) of the first file that has any, splits and files in
//! order of their names. A field that some records of the sample lack becomes optional (`string?`).
//!
//! ```text
//! {"text": "a", "n": 1}, {"text": null, "n": 2.5}, {"text": "b", "ids": [1]}
//!   -> text: string, n: float64?, ids: list<int32>?
//! ```

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::source::column::{ColumnSpec, ColumnType, ScalarType};
use crate::source::compression::check_name;
use crate::source::jsonl::{JsonTable, is_blank, syntax_error};
use crate::source::lines::{Cutting, LineChunks};
use crate::source::listing::Listing;
use crate::source::record::lines;
use crate::source::{SourceError, SourceFile, SourceRange};

/// Records that columns are inferred from.
pub(super) const SAMPLE_RECORDS: usize = 1000;

/// The columns of a source of records, by the first file that has any: `of_file` gives its columns, or `None` if it has no
/// records. Where no file has any, the declared ones are taken as they are.
pub(super) fn pin_by_records(
    listing: &Listing,
    declared: &BTreeMap<String, ColumnSpec>,
    of_file: impl Fn(&SourceFile) -> Result<Option<BTreeMap<String, ColumnSpec>>, SourceError>,
) -> Result<BTreeMap<String, ColumnSpec>, SourceError> {
    for split in listing.split_names() {
        for file in listing.files(&split)? {
            check_name(&file)?;
            if let Some(columns) = of_file(&file)? {
                return Ok(columns);
            }
        }
    }
    if declared.is_empty() { Err(no_records(&listing.name)) } else { Ok(declared.clone()) }
}

/// There is nothing to infer columns from.
pub(super) fn no_records(source: &str) -> SourceError {
    SourceError::Definition {
        problem: format!(
            "the files of `{source}` hold no records, so its columns cannot be inferred; declare them, as \
             `columns = {{ text = \"string\" }}`"
        ),
    }
}

/// Infers the columns of a file; `None` if it has no records.
pub(super) fn infer_columns(
    file: &SourceFile,
    cutting: Cutting,
) -> Result<Option<BTreeMap<String, ColumnSpec>>, SourceError> {
    let mut fields: BTreeMap<String, (Shape, usize)> = BTreeMap::new();
    let mut objects = 0;
    let sampled = sample(file, cutting, |line| {
        let object = serde_json::from_str::<BTreeMap<String, Shape>>(line).map_err(|error| {
            // A table without columns knows better words for what is no object.
            JsonTable::new(&BTreeMap::new(), 0).push(line).err().unwrap_or_else(|| syntax_error(&error))
        })?;
        objects += 1;
        for (name, shape) in object {
            let (joined, count) = fields.entry(name).or_insert((Shape::Null, 0));
            *joined = std::mem::replace(joined, Shape::Null).join(shape);
            *count += 1;
        }
        Ok(())
    })?;
    match sampled {
        Sampled::Nothing => return Ok(None),
        Sampled::Good => {}
        Sampled::Bad { records, line, reason } => {
            return Err(SourceError::Malformed {
                path: file.path.clone(),
                problem: format!("none of the first {records} records can be read: line {line} {reason}"),
            });
        }
    }
    let mut columns = BTreeMap::new();
    let mut problem = None;
    for (name, (shape, count)) in fields {
        match shape.column() {
            Ok(data) => {
                columns.insert(name, ColumnSpec { data, optional: count < objects });
            }
            Err(holds) => {
                let data = ColumnType::Scalar(ScalarType::Json);
                columns.insert(name.clone(), ColumnSpec { data, optional: count < objects });
                problem.get_or_insert((name, holds));
            }
        }
    }
    match problem {
        None => Ok(Some(columns)),
        Some((name, holds)) => Err(SourceError::Malformed {
            path: file.path.clone(),
            problem: format!(
                "field `{name}` holds {holds}, which only a column of JSON text can; declare the columns to read, as `columns = {}`",
                declaration(&columns)
            ),
        }),
    }
}

/// Sees that the declared columns fit at least one record of the sample; false if the file has no records.
pub(super) fn check_declared(
    columns: &BTreeMap<String, ColumnSpec>,
    file: &SourceFile,
    cutting: Cutting,
) -> Result<bool, SourceError> {
    let sampled = sample(file, cutting, |line| JsonTable::new(columns, 0).push(line))?;
    match sampled {
        Sampled::Nothing => Ok(false),
        Sampled::Good => Ok(true),
        Sampled::Bad { records, line, reason } => Err(SourceError::Malformed {
            path: file.path.clone(),
            problem: format!(
                "none of the first {records} records fits the declared columns: line {line}: {reason}"
            ),
        }),
    }
}

enum Sampled {
    /// There are no records.
    Nothing,
    /// Some record was read.
    Good,
    /// None was; this is the first.
    Bad { records: usize, line: u64, reason: String },
}

fn sample(
    file: &SourceFile,
    cutting: Cutting,
    mut read: impl FnMut(&str) -> Result<(), String>,
) -> Result<Sampled, SourceError> {
    let range = SourceRange { file: 0, start: 0, end: cutting.range_bytes };
    let mut records = 0;
    let mut good = false;
    let mut first_bad = None;
    for chunk in LineChunks::open(file, 0, Some(range), cutting, None, Box::new(|_| false))? {
        let chunk = chunk?;
        for line in lines(&chunk).filter(|line| !line.text.as_ref().is_ok_and(|text| is_blank(text))) {
            if records == SAMPLE_RECORDS {
                break;
            }
            records += 1;
            match line.text.and_then(&mut read) {
                Ok(()) => good = true,
                Err(reason) => {
                    first_bad.get_or_insert((line.ordinal + 1, reason));
                }
            }
        }
        if records == SAMPLE_RECORDS {
            break;
        }
    }
    Ok(match first_bad {
        Some((line, reason)) if !good => Sampled::Bad { records, line, reason },
        _ if good => Sampled::Good,
        _ => Sampled::Nothing,
    })
}

/// The columns as a definition declares them.
pub(super) fn declaration(columns: &BTreeMap<String, ColumnSpec>) -> String {
    let columns: Vec<String> =
        columns.iter().map(|(name, column)| format!("{} = \"{column}\"", key(name))).collect();
    if columns.is_empty() { "{ … }".to_owned() } else { format!("{{ {} }}", columns.join(", ")) }
}

fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { format!("{name:?}") }
}

/// What the values of a field have in common.
#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Null,
    Bool,
    Int { fits_32_bits: bool },
    Float,
    String,
    List(Box<Shape>),
    Object,
    Mixed(&'static str, &'static str),
}

impl Shape {
    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Null, shape) | (shape, Self::Null) => shape,
            (mixed @ Self::Mixed(..), _) | (_, mixed @ Self::Mixed(..)) => mixed,
            (Self::Int { fits_32_bits: a }, Self::Int { fits_32_bits: b }) => {
                Self::Int { fits_32_bits: a && b }
            }
            (Self::Int { .. } | Self::Float, Self::Int { .. } | Self::Float) => Self::Float,
            (Self::List(a), Self::List(b)) => Self::List(Box::new(a.join(*b))),
            (a, b) if a == b => a,
            (a, b) => Self::Mixed(a.words(), b.words()),
        }
    }

    fn words(&self) -> &'static str {
        match self {
            Self::Null => "nulls",
            Self::Bool => "booleans",
            Self::Int { .. } | Self::Float => "numbers",
            Self::String => "strings",
            Self::List(_) => "lists",
            Self::Object => "objects",
            Self::Mixed(..) => "several types",
        }
    }

    /// The column that holds such values, or words for what no column holds.
    fn column(&self) -> Result<ColumnType, String> {
        if let Self::List(items) = self {
            return match **items {
                Self::Int { fits_32_bits: true } => Ok(ColumnType::List(ScalarType::Int32)),
                ref items => match items.scalar() {
                    Some(scalar) => Ok(ColumnType::List(scalar)),
                    None => Err(match items.column() {
                        Err(holds) => format!("lists of {holds}"),
                        Ok(_) => "lists of lists".to_owned(),
                    }),
                },
            };
        }
        match self {
            Self::Mixed(a, b) => Err(format!("{a} and {b}")),
            shape => shape.scalar().map(ColumnType::Scalar).ok_or_else(|| shape.words().to_owned()),
        }
    }

    fn scalar(&self) -> Option<ScalarType> {
        match self {
            // Nothing is known of it, and text is what examples have most.
            Self::Null | Self::String => Some(ScalarType::String),
            Self::Bool => Some(ScalarType::Bool),
            Self::Int { .. } => Some(ScalarType::Int64),
            Self::Float => Some(ScalarType::Float64),
            Self::List(_) | Self::Object | Self::Mixed(..) => None,
        }
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        ShapeReader { is_item: false }.deserialize(value)
    }
}

/// Reads the shape of a value; of an item of a list only its kind, so that nesting takes no stack.
struct ShapeReader {
    is_item: bool,
}

impl<'de> DeserializeSeed<'de> for ShapeReader {
    type Value = Shape;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<Shape, D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ShapeReader {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(Shape::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Shape, E> {
        Ok(Shape::Bool)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Shape, E> {
        Ok(Shape::Int { fits_32_bits: i32::try_from(value).is_ok() })
    }

    fn visit_u64<E>(self, value: u64) -> Result<Shape, E> {
        if i64::try_from(value).is_err() {
            return Ok(Shape::Float);
        }
        Ok(Shape::Int { fits_32_bits: i32::try_from(value).is_ok() })
    }

    fn visit_f64<E>(self, _: f64) -> Result<Shape, E> {
        Ok(Shape::Float)
    }

    fn visit_str<E>(self, _: &str) -> Result<Shape, E> {
        Ok(Shape::String)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Shape, A::Error> {
        let mut items = Shape::Null;
        if self.is_item {
            while list.next_element::<IgnoredAny>()?.is_some() {}
        } else {
            while let Some(item) = list.next_element_seed(Self { is_item: true })? {
                items = items.join(item);
            }
        }
        Ok(Shape::List(Box::new(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shape, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Shape::Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::compression::tests::listed;

    fn infer(jsonl: &str) -> String {
        let (_dir, file) = listed("a.jsonl", jsonl.as_bytes());
        match infer_columns(&file, Cutting::default()) {
            Ok(Some(columns)) => declaration(&columns),
            Ok(None) => "no records".to_owned(),
            Err(error) => error.to_string().replace(file.path.to_str().unwrap(), "FILE"),
        }
    }

    #[test]
    fn columns_are_what_the_sample_has_in_common() {
        insta::assert_snapshot!(
            infer("{\"text\": \"a\", \"n\": 1}\n{\"text\": null, \"n\": 2.5}\n{\"text\": \"b\", \"ids\": [1]}\n"),
            @r#"{ ids = "list<int32>?", n = "float64?", text = "string" }"#
        );
        insta::assert_snapshot!(
            infer("{\"none\": null, \"big\": 9e99, \"huge\": 18446744073709551615, \"f\": false, \"n\": -5, \"odd key\": []}\n"),
            @r#"{ big = "float64", f = "bool", huge = "float64", n = "int64", none = "string", "odd key" = "list<string>" }"#
        );
        insta::assert_snapshot!(
            infer("{\"a\": [1, 3000000000], \"b\": [1, 0.5], \"c\": [\"x\", null]}\n"),
            @r#"{ a = "list<int64>", b = "list<float64>", c = "list<string>" }"#
        );
    }

    #[test]
    fn what_no_column_can_hold_is_named_with_the_columns_that_can_be_declared() {
        insta::assert_snapshot!(
            infer("{\"text\": \"a\", \"meta\": {\"k\": 1}}\n"),
            @r#"FILE: field `meta` holds objects, which only a column of JSON text can; declare the columns to read, as `columns = { meta = "json", text = "string" }`"#
        );
        insta::assert_snapshot!(
            infer("{\"x\": [[1]], \"n\": 1}\n"),
            @r#"FILE: field `x` holds lists of lists, which only a column of JSON text can; declare the columns to read, as `columns = { n = "int64", x = "json" }`"#
        );
        insta::assert_snapshot!(
            infer("{\"x\": 1}\n{\"x\": \"1\"}\n"),
            @r#"FILE: field `x` holds numbers and strings, which only a column of JSON text can; declare the columns to read, as `columns = { x = "json" }`"#
        );
    }

    #[test]
    fn bad_and_blank_records_of_the_sample_are_passed_over_unless_there_are_no_others() {
        assert_eq!(infer("\n  \n"), "no records");
        assert_eq!(infer(""), "no records");
        assert_eq!(infer("\nnonsense\n{\"a\": 1}\n"), r#"{ a = "int64" }"#);
        insta::assert_snapshot!(
            infer("\nnonsense\n[]\n"),
            @"FILE: none of the first 2 records can be read: line 2 is not valid JSON: expected ident at byte 2 of the line"
        );
        insta::assert_snapshot!(
            infer("[{\"a\": 1}]\n"),
            @"FILE: none of the first 1 records can be read: line 1 should be an object, but is a list"
        );
    }

    #[test]
    fn only_the_first_thousand_records_count() {
        let mut jsonl = "{\"a\": 1}\n\n".repeat(1000);
        jsonl.push_str("{\"a\": \"x\", \"b\": {}}\n");
        assert_eq!(infer(&jsonl), r#"{ a = "int64" }"#);
    }

    #[test]
    fn nesting_to_any_depth_takes_no_stack() {
        let deep = format!("{{\"a\": {}{}}}\n", "[".repeat(1_000_000), "]".repeat(1_000_000));
        assert!(infer(&deep).contains("field `a` holds lists of lists"));
        let deep = format!("{{\"a\": {}1{}}}\n", "{\"a\":".repeat(1_000_000), "}".repeat(1_000_000));
        assert!(infer(&deep).contains("field `a` holds objects"));
    }

    #[test]
    fn declared_columns_that_fit_no_record_are_refused_with_the_first_reason() {
        let (_dir, file) = listed("a.jsonl", b"{\"text\": \"a\"}\n{\"text\": \"b\"}\n");
        let columns = |name: &str, column: &str| BTreeMap::from([(name.to_owned(), column.parse().unwrap())]);
        let check = |columns| check_declared(&columns, &file, Cutting::default());
        assert!(check(columns("text", "string")).unwrap());
        let error = check(columns("txt", "string")).unwrap_err().to_string();
        assert!(
            error.ends_with(
                "none of the first 2 records fits the declared columns: line 1: there is no field `txt`, only \
                 `text` (did you mean `text`?)"
            ),
            "{error}"
        );
        let error = check(columns("text", "int32")).unwrap_err().to_string();
        assert!(error.ends_with("line 1: `text` should be an int32, but is a string"), "{error}");
    }
}
