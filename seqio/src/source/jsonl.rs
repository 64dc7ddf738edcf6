//! JSON Lines: every line an object; its fields of the columns' names are read, others are passed over.
//!
//! ```text
//! columns = { text = "string", n = "int64?" }
//! {"text": "a", "n": 1, "meta": {}}   -> text: "a", n: 1
//! {"text": "b"}                       -> text: "b", n: null
//! {"n": 2}                            -> bad row: there is no field `text`, only `n`
//!                                     -> a blank line is neither an example nor bad
//! ```
//!
//! An explicit null is a null. Where a field stands twice the last one counts, as in Python. Whole numbers are read
//! as floats where the column is one, but not the other way round. A column of type `json` keeps any value as text.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::example::Examples;
use crate::source::column::ColumnSpec;
use crate::source::json_columns::{JsonColumn, JsonValue, Misfit};
use crate::source::json_text::JsonTextReader;
use crate::source::record::{broken_record, lines};
use crate::source::{ParsedChunk, RawChunk, SourceError, SourceFile};

/// The Arrow columns of declared ones, sorted by name.
pub(crate) fn declared_schema(columns: &BTreeMap<String, ColumnSpec>) -> SchemaRef {
    let fields = columns.iter().map(|(name, column)| Field::new(name, column.data.arrow(), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

pub(super) fn parse_jsonl(
    source: &str,
    columns: &BTreeMap<String, ColumnSpec>,
    schema: &SchemaRef,
    file: &SourceFile,
    chunk: &RawChunk,
) -> Result<ParsedChunk, SourceError> {
    let num_bytes = chunk.records.text().len();
    let mut table = JsonTable::new(columns, num_bytes);
    let mut rows = Vec::new();
    let mut bad_rows = Vec::new();
    for line in lines(chunk) {
        let parsed = match &line.text {
            Ok(text) if is_blank(text) => continue,
            Ok(text) => table.push(text),
            Err(reason) => Err(reason.clone()),
        };
        match parsed {
            Ok(()) => rows.push(line.row(source, file, chunk)),
            Err(reason) => bad_rows.push(line.bad(reason)),
        }
    }
    bad_rows.extend(broken_record(chunk));
    let columns = table.finish(schema).map_err(|error| SourceError::malformed(&file.path, error))?;
    Ok(ParsedChunk { examples: Examples::new(columns, rows), bad_rows })
}

/// Whether a line has nothing but JSON white space.
pub(super) fn is_blank(line: &str) -> bool {
    line.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
}

/// The rows read so far.
pub(super) struct JsonTable<'c> {
    columns: Vec<JsonColumn<'c>>,
    num_rows: usize,
}

impl<'c> JsonTable<'c> {
    /// An empty table for about `num_bytes` of JSON.
    pub(super) fn new(columns: &'c BTreeMap<String, ColumnSpec>, num_bytes: usize) -> Self {
        let share = num_bytes / columns.len().max(1);
        let columns = columns.iter().map(|(name, &column)| JsonColumn::new(name, column, share)).collect();
        Self { columns, num_rows: 0 }
    }

    /// Adds the object on a line as a row, or says what is wrong with it and adds nothing.
    pub(super) fn push(&mut self, line: &str) -> Result<(), String> {
        let done = self.read(line).and_then(|()| self.fill_absent(line));
        match done {
            Ok(()) => {
                self.columns.iter_mut().for_each(JsonColumn::commit);
                self.num_rows += 1;
            }
            Err(_) => self.columns.iter_mut().for_each(|column| column.truncate(self.num_rows)),
        }
        done
    }

    fn read(&mut self, line: &str) -> Result<(), String> {
        let mut json = serde_json::Deserializer::from_str(line);
        let mut problem = None;
        let row = RowReader { columns: &mut self.columns, num_rows: self.num_rows, problem: &mut problem };
        let read = json.deserialize_any(row).and_then(|()| json.end());
        match (problem, read) {
            (Some(problem), _) => Err(problem),
            (None, Err(error)) => Err(syntax_error(&error)),
            (None, Ok(())) => Ok(()),
        }
    }

    fn fill_absent(&mut self, line: &str) -> Result<(), String> {
        for column in self.columns.iter_mut().filter(|column| column.len() == self.num_rows) {
            if !column.spec.optional {
                return Err(no_field(column.name, line));
            }
            column.push_null();
        }
        Ok(())
    }

    /// The columns as Arrow has them.
    pub(super) fn finish(
        self,
        schema: &SchemaRef,
    ) -> Result<arrow::array::RecordBatch, arrow::error::ArrowError> {
        let arrays = self.columns.into_iter().map(JsonColumn::finish).collect::<Result<_, _>>()?;
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(self.num_rows));
        arrow::array::RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)
    }
}

/// The words of the parser without `at line 1 column 7`, for the line is known.
pub(super) fn syntax_error(error: &serde_json::Error) -> String {
    let words = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let words = words.strip_suffix(&place).unwrap_or(&words);
    format!("is not valid JSON: {words} at byte {} of the line", error.column())
}

fn no_field(name: &str, line: &str) -> String {
    let found: BTreeMap<String, IgnoredAny> = serde_json::from_str(line).unwrap_or_default();
    let found: BTreeSet<&str> = found.keys().map(String::as_str).collect();
    let hint = match crate::text::nearest(name, found.iter().copied()) {
        Some(near) => format!(" (did you mean `{near}`?)"),
        None => String::new(),
    };
    let more = if found.len() > 12 { format!(" and {} more", found.len() - 12) } else { String::new() };
    format!(
        "there is no field `{name}`, only {}{more}{hint}",
        crate::text::quoted(found.into_iter().take(12))
    )
}

/// Reads one object into the columns.
struct RowReader<'t, 'c> {
    columns: &'t mut [JsonColumn<'c>],
    num_rows: usize,
    problem: &'t mut Option<String>,
}

impl RowReader<'_, '_> {
    fn not_an_object<E: serde::de::Error>(self, found: &JsonValue<'_>) -> Result<(), E> {
        *self.problem = Some(format!("should be an object, but is {found}"));
        Err(E::custom(""))
    }
}

/// Gives every kind of JSON value but the compound ones to one method.
macro_rules! visit_plain_values {
    ($method:ident) => {
        fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
            self.$method(&JsonValue::Null)
        }
        fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
            self.$method(&JsonValue::Bool(value))
        }
        fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
            self.$method(&JsonValue::Int(value.into()))
        }
        fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
            self.$method(&JsonValue::Int(value.into()))
        }
        fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
            self.$method(&JsonValue::Float(value))
        }
        fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
            self.$method(&JsonValue::String(value))
        }
    };
}

impl<'de> Visitor<'de> for RowReader<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    visit_plain_values!(not_an_object);

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        self.not_an_object(&JsonValue::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key_seed(KeyReader { columns: self.columns })? {
            match key {
                Some(index) => {
                    let column = &mut self.columns[index];
                    column.truncate(self.num_rows);
                    map.next_value_seed(CellReader { column, problem: &mut *self.problem })?;
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Reads a key as the index of its column, if it has one.
struct KeyReader<'t, 'c> {
    columns: &'t [JsonColumn<'c>],
}

impl<'de> DeserializeSeed<'de> for KeyReader<'_, '_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<Self::Value, D::Error> {
        key.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for KeyReader<'_, '_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a field name")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.columns.binary_search_by(|column| column.name.cmp(key)).ok())
    }
}

/// Reads the value of a column.
struct CellReader<'t, 'c> {
    column: &'t mut JsonColumn<'c>,
    problem: &'t mut Option<String>,
}

impl CellReader<'_, '_> {
    fn put<E: serde::de::Error>(self, value: &JsonValue<'_>) -> Result<(), E> {
        self.column.push(value).map_err(|Misfit| {
            let wanted = self.column.spec.data.phrase();
            *self.problem = Some(format!("`{}` should be {wanted}, but is {value}", self.column.name));
            E::custom("")
        })
    }
}

impl<'de> DeserializeSeed<'de> for CellReader<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        match self.column.is_json() {
            true => self.column.push_text(|text| JsonTextReader { text }.deserialize(value)),
            false => value.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for CellReader<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    visit_plain_values!(put);

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        if !self.column.is_list() {
            return self.put(&JsonValue::List);
        }
        let mut number = 1;
        while list
            .next_element_seed(ItemReader { column: &mut *self.column, number, problem: &mut *self.problem })?
            .is_some()
        {
            number += 1;
        }
        self.column.end_list();
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        self.put(&JsonValue::Object)
    }
}

/// Reads an item of a list column.
struct ItemReader<'t, 'c> {
    column: &'t mut JsonColumn<'c>,
    number: usize,
    problem: &'t mut Option<String>,
}

impl ItemReader<'_, '_> {
    fn put<E: serde::de::Error>(self, value: &JsonValue<'_>) -> Result<(), E> {
        self.column.push_item(value).map_err(|Misfit| {
            let wanted = self.column.spec.data.scalar().phrase();
            let (number, name) = (self.number, self.column.name);
            *self.problem = Some(format!("item {number} of `{name}` should be {wanted}, but is {value}"));
            E::custom("")
        })
    }
}

impl<'de> DeserializeSeed<'de> for ItemReader<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ItemReader<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an item")
    }

    visit_plain_values!(put);

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        self.put(&JsonValue::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        self.put(&JsonValue::Object)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::source::SourceRange;
    use crate::source::compression::tests::listed;
    use crate::source::testing::show;

    fn columns(declared: &[(&str, &str)]) -> BTreeMap<String, ColumnSpec> {
        declared.iter().map(|(name, column)| (name.to_string(), column.parse().unwrap())).collect()
    }

    fn parse(declared: &[(&str, &str)], jsonl: &[u8]) -> String {
        let columns = columns(declared);
        let (_dir, file) = listed("a.jsonl", b"");
        let chunk = RawChunk {
            range: SourceRange { file: 0, start: 0, end: 1 << 20 },
            first_ordinal: 0,
            num_records: 0,
            first_offset: 0,
            records: crate::source::RawRecords::Lines(jsonl.to_vec()),
            last_of_range: true,
            damage: None,
        };
        show(&parse_jsonl("docs", &columns, &declared_schema(&columns), &file, &chunk).unwrap())
    }

    /// The reason why a line is bad.
    fn reason(declared: &[(&str, &str)], line: &str) -> String {
        let shown = parse(declared, line.as_bytes());
        assert_eq!(shown.lines().count(), 1, "{shown}");
        shown.trim().strip_prefix("bad 0 @0: ").unwrap_or_else(|| panic!("{shown}")).to_owned()
    }

    const TEXT: &[(&str, &str)] = &[("text", "string")];

    #[test]
    fn named_fields_are_read_and_others_passed_over() {
        let jsonl =
            "{\"text\": \"a\", \"n\": 1, \"meta\": {\"k\": [1e999, {}]}}\n{\"text\": \"b\"}\n{\"n\": 2}\n";
        insta::assert_snapshot!(parse(&[("text", "string"), ("n", "int64?")], jsonl.as_bytes()), @r"
        row 0 @0+49: n=1 text=a
        row 1 @50+13: n=null text=b
        bad 2 @64: there is no field `text`, only `n`
        ");
    }

    #[test]
    fn a_zero_may_have_a_sign_in_every_column_of_numbers() {
        // JSONTestSuite's `y_number_minus_zero.json`.
        let declared = &[("d", "float64"), ("i", "int32"), ("l", "list<int64>")];
        insta::assert_snapshot!(parse(declared, b"{\"d\": -0, \"i\": -0, \"l\": [-0, 0]}"), @"row 0 @0+32: d=-0.0 i=0 l=[0, 0]");
        assert!(reason(&[("i", "int32")], "{\"i\": -0.5}").contains("should be an int32"));
    }

    #[test]
    fn any_value_can_be_kept_as_json_text() {
        let jsonl = concat!(
            "{\"m\": [ {\"role\": \"user\", \"n\": 1.50} ]}\n",
            "{\"m\": \"x\"}\n{\"m\": null}\n{}\n{\"m\": [1, }\n{\"m\": 1, \"m\": {}}\n"
        );
        insta::assert_snapshot!(parse(&[("m", "json?")], jsonl.as_bytes()), @r#"
        row 0 @0+38: m=[{"role":"user","n":1.5}]
        row 1 @39+10: m="x"
        row 2 @50+11: m=null
        row 3 @62+2: m=null
        bad 4 @65: is not valid JSON: expected value at byte 11 of the line
        row 5 @77+17: m={}
        "#);
    }

    #[test]
    fn every_type_is_read_and_an_explicit_null_is_a_null() {
        let declared = &[
            ("b", "bool"),
            ("d", "float64"),
            ("f", "float32"),
            ("i", "int32"),
            ("l", "int64"),
            ("li", "list<int32>"),
            ("ls", "list<string>"),
            ("s", "string"),
        ];
        let jsonl = r#"
            {"b": true, "d": 0.1, "f": 1, "i": -2147483648, "l": 9223372036854775807, "li": [1, 2], "ls": ["x", ""], "s": "\u00e9\ud83d\ude00\"\n"}
            {"b": null, "d": null, "f": null, "i": null, "l": null, "li": null, "ls": null, "s": null}
            {"b": false, "d": -1, "f": 0.5, "i": 0, "l": 0, "li": [], "ls": [], "s": ""}
        "#;
        insta::assert_snapshot!(parse(declared, jsonl.as_bytes()), @r#"
        row 1 @1+147: b=true d=0.1 f=1.0 i=-2147483648 l=9223372036854775807 li=[1, 2] ls=[x, ] s=é😀"\n
        row 2 @149+102: b=null d=null f=null i=null l=null li=null ls=null s=null
        row 3 @252+88: b=false d=-1.0 f=0.5 i=0 l=0 li=[] ls=[] s=
        "#);
    }

    #[test]
    fn blank_lines_count_but_are_neither_examples_nor_bad() {
        let jsonl = b"\n \t\r\n{\"text\": \"a\"}\r\n\n";
        insta::assert_snapshot!(parse(TEXT, jsonl), @"row 2 @5+13: text=a");
    }

    #[test]
    fn a_byte_order_mark_at_the_start_is_no_json() {
        let jsonl = "\u{feff}{\"text\": \"a\"}\n\u{feff}{\"text\": \"b\"}\n";
        insta::assert_snapshot!(parse(TEXT, jsonl.as_bytes()), @r"
        row 0 @0+16: text=a
        bad 1 @17: is not valid JSON: expected value at byte 1 of the line
        ");
    }

    #[test]
    fn where_a_field_stands_twice_the_last_one_counts() {
        let declared = &[("ids", "list<int32>"), ("text", "string")];
        let jsonl = br#"{"text": "a", "ids": [1, 2], "text": "bc", "ids": [3]}
            {"t\u0065xt": "escaped", "ids": []}
            {"text": 1, "ids": [], "text": "b"}"#;
        insta::assert_snapshot!(parse(declared, jsonl), @r"
        row 0 @0+54: ids=[3] text=bc
        row 1 @55+47: ids=[] text=escaped
        bad 2 @103: `text` should be a string, but is the number 1
        ");
    }

    #[test]
    fn a_bad_row_leaves_nothing_behind() {
        let declared = &[("a", "string"), ("ids", "list<int32>"), ("z", "int32")];
        let jsonl = br#"{"a": "x", "ids": [1], "z": 1}
{"a": "y", "ids": [2, 3, "no"], "z": 2}
{"a": "y", "ids": [2, 3], "z": 2.5}
{"a": "y", "ids": [2, 3]
{"a": "w", "ids": [4], "z": 3}"#;
        insta::assert_snapshot!(parse(declared, jsonl), @r"
        row 0 @0+30: a=x ids=[1] z=1
        bad 1 @31: item 3 of `ids` should be an int32, but is a string
        bad 2 @71: `z` should be an int32, but is the number 2.5
        bad 3 @107: is not valid JSON: EOF while parsing an object at byte 24 of the line
        row 4 @132+30: a=w ids=[4] z=3
        ");
    }

    #[test]
    fn what_does_not_fit_is_said_in_words() {
        let of = |column: &str, value: &str| reason(&[("x", column)], &format!("{{\"x\": {value}}}"));
        assert_eq!(of("string", "true"), "`x` should be a string, but is true");
        assert_eq!(of("string", "[\"a\"]"), "`x` should be a string, but is a list");
        assert_eq!(of("string", "{}"), "`x` should be a string, but is an object");
        assert_eq!(of("bool", "1"), "`x` should be a bool, but is the number 1");
        assert_eq!(of("int32", "2147483648"), "`x` should be an int32, but is the number 2147483648");
        assert_eq!(
            of("int64", "9223372036854775808"),
            "`x` should be an int64, but is the number 9223372036854775808"
        );
        assert_eq!(of("int64", "1e3"), "`x` should be an int64, but is the number 1000.0");
        assert_eq!(of("float32", "1e39"), "`x` should be a float32, but is the number 1e39");
        assert_eq!(of("float64", "\"1\""), "`x` should be a float64, but is a string");
        assert_eq!(of("list<int32>", "1"), "`x` should be a list of int32, but is the number 1");
        assert_eq!(of("list<int32>", "[1, null]"), "item 2 of `x` should be an int32, but is null");
        assert_eq!(of("list<string>", "[[]]"), "item 1 of `x` should be a string, but is a list");
    }

    #[test]
    fn what_is_not_json_is_said_with_its_byte() {
        let of = |line: &str| reason(TEXT, line);
        insta::assert_snapshot!(of("nonsense"), @"is not valid JSON: expected ident at byte 2 of the line");
        insta::assert_snapshot!(of("[]"), @"should be an object, but is a list");
        insta::assert_snapshot!(of("7"), @"should be an object, but is the number 7");
        insta::assert_snapshot!(of(r#"{"text": "a"} {"text": "b"}"#), @"is not valid JSON: trailing characters at byte 15 of the line");
        insta::assert_snapshot!(of(r#"{"text": "a""#), @"is not valid JSON: EOF while parsing an object at byte 12 of the line");
        insta::assert_snapshot!(of(r#"{"text": "\ud800"}"#), @"is not valid JSON: unexpected end of hex escape at byte 17 of the line");
        insta::assert_snapshot!(of(r#"{"text": NaN}"#), @"is not valid JSON: expected value at byte 10 of the line");
        insta::assert_snapshot!(of("{\"text\": \"a\0b\"}"), @r"is not valid JSON: control character (\u0000-\u001F) found while parsing a string at byte 12 of the line");
        insta::assert_snapshot!(reason(&[("x", "float64")], "{\"x\": 1e999}"), @"is not valid JSON: number out of range at byte 11 of the line");
    }

    #[test]
    fn a_missing_field_is_named_with_the_fields_there_are() {
        insta::assert_snapshot!(reason(TEXT, r#"{"txt": "a", "id": 3}"#), @"there is no field `text`, only `id`, `txt` (did you mean `txt`?)");
        insta::assert_snapshot!(reason(TEXT, "{}"), @"there is no field `text`, only nothing");
        let many: Vec<String> = (10..40).map(|i| format!("\"{i}\": 1")).collect();
        insta::assert_snapshot!(reason(TEXT, &format!("{{{}}}", many.join(", "))), @"there is no field `text`, only `10`, `11`, `12`, `13`, `14`, `15`, `16`, `17`, `18`, `19`, `20`, `21` and 18 more");
    }

    #[test]
    fn a_line_that_is_not_unicode_is_bad_wherever_the_bad_byte_stands() {
        let jsonl = b"{\"text\": \"a\", \"x\": \"\xff\"}\n{\"text\": \"b\"}\n";
        insta::assert_snapshot!(parse(TEXT, jsonl), @r"
        bad 0 @0: is not valid UTF-8 at byte 21 of the line
        row 1 @24+13: text=b
        ");
    }

    #[test]
    fn nesting_to_any_depth_takes_no_stack() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let deep = format!("{}1{}", open.repeat(1_000_000), close.repeat(1_000_000));
            let line = format!("{{\"x\": {deep}, \"text\": \"a\"}}");
            assert!(parse(TEXT, line.as_bytes()).ends_with("text=a\n"));
            assert!(reason(TEXT, &format!("{{\"text\": {deep}}}")).starts_with("`text` should be a string"));
            assert!(reason(TEXT, &deep).len() < 100);
        }
        let unclosed = reason(TEXT, &format!("{{\"x\": {}", "[".repeat(1_000_000)));
        assert!(unclosed.starts_with("is not valid JSON: EOF while parsing a list"), "{unclosed}");
    }

    fn json_like() -> impl Strategy<Value = Vec<u8>> {
        let token = prop::sample::select(vec![
            "{",
            "}",
            "[",
            "]",
            ":",
            ",",
            "\"text\"",
            "\"n\"",
            "\"ids\"",
            "1",
            "-2.5",
            "1e400",
            "null",
            "true",
            "\"a\\u00e9\"",
            "\"\\ud83d\"",
            " ",
            "\n",
            "\r\n",
            "\u{feff}",
            "\0",
            "é",
            "{\"text\": \"a\", \"n\": 1, \"ids\": [1]}\n",
        ]);
        let token = prop_oneof![
            20 => token.prop_map(|token| token.as_bytes().to_vec()),
            1 => prop::collection::vec(any::<u8>(), 0..4),
        ];
        prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat())
    }

    proptest! {
        #[test]
        fn any_bytes_give_examples_and_bad_rows_and_each_line_stands_alone(bytes in json_like()) {
            let declared = &[("ids", "list<int32>"), ("n", "float32?"), ("text", "string")];
            let whole = parse(declared, &bytes);
            let mut alone = String::new();
            for line in bytes.split_inclusive(|&byte| byte == b'\n') {
                alone.push_str(&parse(declared, line));
            }
            let contents = |shown: &str| -> Vec<String> {
                shown.lines().map(|line| line.split_once(": ").unwrap().1.to_owned()).collect()
            };
            // Only the first line of a file may have a byte order mark, and alone each line is the first.
            if !bytes.windows(4).any(|window| window == b"\n\xef\xbb\xbf") {
                prop_assert_eq!(contents(&whole), contents(&alone));
            }
        }

        #[test]
        fn what_is_read_is_what_a_plain_parser_reads(bytes in json_like()) {
            let shown = parse(&[("text", "string")], &bytes);
            for (number, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
                let line = line.strip_prefix("\u{feff}".as_bytes()).filter(|_| number == 0).unwrap_or(line);
                let Ok(value) = serde_json::from_slice::<serde_json::Value>(line) else { continue };
                let expected = match value.get("text") {
                    Some(serde_json::Value::String(text)) => text.clone(),
                    Some(serde_json::Value::Null) => "null".to_owned(),
                    _ => continue,
                };
                let found = shown.lines().find(|line| line.split(' ').nth(1) == Some(&number.to_string())).unwrap();
                // Of a field that stands twice, the first may be what makes the row a bad one.
                let twice = found.contains("`text` should be a string");
                prop_assert!(twice || found.ends_with(&format!(": text={expected}")), "{found}");
            }
        }
    }
}
