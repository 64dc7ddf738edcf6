//! `deduplicate`: of examples with the same content in some columns the first stays.
//!
//! ```text
//! { op = "deduplicate", by = "text" }
//! a.jsonl:1 "x", a.jsonl:2 "y", a.jsonl:3 "x", b.jsonl:1 "y"   ->   a.jsonl:1 "x", a.jsonl:2 "y"
//! ```
//!
//! First means in the order of the source: files by name, records as in the file. An example with a null in one of the
//! columns is not compared and stays: nothing says what it would be a copy of. Empty texts and empty sequences are
//! values like any other, and so are nulls inside lists.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{SeqAccess, Visitor, value::SeqAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::example::Examples;
use crate::preprocess::content::{is_comparable, plain, write_content};
use crate::preprocess::{PreprocessError, Preprocessor, SplitKey, StepContext, WholeSplit, type_name};

const STEP: &str = "deduplicate";

/// Of examples that are equal in all of some columns, keeps the first in the order of the source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::by(vec!["text"]))]
pub struct Deduplicate {
    /// The columns that are compared: the name of one, or a list of names.
    #[serde(serialize_with = "write_names", deserialize_with = "read_names")]
    #[schemars(schema_with = "names_schema")]
    pub by: Vec<String>,
}

fn names_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" }, "minItems": 1 }],
        "x-type": "column or list of columns",
    })
}

impl Deduplicate {
    /// Compares these columns.
    pub fn by<S: Into<String>>(columns: impl IntoIterator<Item = S>) -> Self {
        Self { by: columns.into_iter().map(Into::into).collect() }
    }
}

impl Preprocessor for Deduplicate {
    fn name(&self) -> &'static str {
        STEP
    }

    fn output_schema(&self, input: &SchemaRef, _ctx: &StepContext) -> Result<SchemaRef, PreprocessError> {
        let refuse =
            |problem: &str| Err(PreprocessError::Setting { step: STEP, problem: problem.to_owned() });
        if self.by.is_empty() {
            return refuse("`by` names no column; name those that are compared, as `by = \"text\"`");
        }
        for (place, name) in self.by.iter().enumerate() {
            if self.by[..place].contains(name) {
                return refuse(&format!("`by` names `{name}` twice"));
            }
            let Some((_, field)) = input.column_with_name(name) else {
                return Err(PreprocessError::missing(STEP, "column", name, input));
            };
            if !is_comparable(field.data_type()) {
                let problem = format!(
                    "values of type `{}` cannot be compared (`{name}`)",
                    type_name(field.data_type())
                );
                return refuse(&problem);
            }
        }
        Ok(Arc::clone(input))
    }

    fn apply(&self, examples: Examples, ctx: &StepContext) -> Result<Examples, PreprocessError> {
        let mut seen = BTreeSet::new();
        let keys = self.keys(&examples, ctx)?;
        let keep: Vec<bool> = keys.into_iter().map(|key| key.is_none_or(|key| seen.insert(key))).collect();
        Ok(examples.keep(&keep)?)
    }

    fn whole_split(&self) -> Option<&dyn WholeSplit> {
        Some(self)
    }
}

impl WholeSplit for Deduplicate {
    fn columns(&self) -> Vec<String> {
        self.by.clone()
    }

    fn keys(&self, examples: &Examples, _: &StepContext) -> Result<Vec<Option<SplitKey>>, PreprocessError> {
        let hash_key = blake3::derive_key("seqio deduplicate", b"content of columns");
        let schema = examples.columns.schema_ref();
        let column = |name: &String| -> Result<ArrayRef, PreprocessError> {
            let column = examples.columns.column_by_name(name);
            Ok(plain(column.ok_or_else(|| PreprocessError::missing(STEP, "column", name, schema))?)?)
        };
        let columns: Vec<ArrayRef> = self.by.iter().map(column).collect::<Result<_, _>>()?;
        let nulls: Vec<_> = columns.iter().filter_map(|column| column.logical_nulls()).collect();
        let mut content = Vec::new();
        let mut key = |row: usize| {
            if nulls.iter().any(|nulls| nulls.is_null(row)) {
                return Ok(None);
            }
            content.clear();
            for column in &columns {
                write_content(&column.slice(row, 1), &mut content)?;
            }
            Ok(Some(*blake3::keyed_hash(&hash_key, &content).as_bytes()))
        };
        (0..examples.len()).map(&mut key).collect()
    }
}

fn write_names<S: Serializer>(names: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    match names {
        [name] => name.serialize(serializer),
        names => names.serialize(serializer),
    }
}

fn read_names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    deserializer.deserialize_any(NamesReader)
}

struct NamesReader;

impl<'de> Visitor<'de> for NamesReader {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a column or a list of names")
    }

    fn visit_str<E>(self, name: &str) -> Result<Vec<String>, E> {
        Ok(vec![name.to_owned()])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, names: A) -> Result<Vec<String>, A::Error> {
        Deserialize::deserialize(SeqAccessDeserializer::new(names))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, RecordBatch};
    use arrow::datatypes::{DataType, Field, Schema, UnionFields, UnionMode};

    use super::*;
    use crate::testing::{assert_step_laws, show, text_examples, token_examples};

    fn kept(step: &Deduplicate, examples: Examples) -> String {
        show(&step.apply(examples, &StepContext::default()).unwrap())
    }

    #[test]
    fn the_first_of_equal_examples_stays() {
        let texts = [Some("x"), Some("y"), Some("x"), Some(""), Some("y"), Some("")];
        insta::assert_snapshot!(kept(&Deduplicate::by(["text"]), text_examples(&[("text", &texts)])), @r#"
        text: "x"
        text: "y"
        text: ""
        "#);
    }

    #[test]
    fn several_columns_must_all_be_equal() {
        let examples = text_examples(&[
            ("a", &[Some("x"), Some("x"), Some("x"), Some("xy")]),
            ("b", &[Some("yz"), Some("z"), Some("yz"), Some("z")]),
        ]);
        insta::assert_snapshot!(kept(&Deduplicate::by(["a", "b"]), examples), @r#"
        a: "x"  b: "yz"
        a: "x"  b: "z"
        a: "xy"  b: "z"
        "#);
    }

    #[test]
    fn examples_with_a_null_key_are_not_compared() {
        let examples = text_examples(&[
            ("a", &[None, Some("x"), None, Some("x"), Some("x")]),
            ("b", &[Some("z"), Some("z"), Some("z"), Some("z"), None]),
        ]);
        insta::assert_snapshot!(kept(&Deduplicate::by(["a", "b"]), examples), @r#"
        a: null  b: "z"
        a: "x"  b: "z"
        a: null  b: "z"
        a: "x"  b: null
        "#);
    }

    #[test]
    fn token_sequences_are_compared_by_their_ids() {
        let examples =
            token_examples("targets", vec![vec![1, 2], vec![1], vec![1, 2], vec![], vec![2, 1], vec![]]);
        insta::assert_snapshot!(kept(&Deduplicate::by(["targets"]), examples), @r"
        targets: [1, 2]
        targets: [1]
        targets: []
        targets: [2, 1]
        ");
    }

    #[test]
    fn obeys_the_laws_of_whole_split_steps() {
        let texts = [Some("x"), None, Some("x"), Some("y"), None];
        let examples = text_examples(&[("text", &texts), ("other", &[Some("a"); 5])]);
        assert_step_laws(&Deduplicate::by(["text"]), &StepContext::default(), &examples);
        assert_step_laws(&Deduplicate::by(["text", "other"]), &StepContext::default(), &examples);
    }

    #[test]
    fn one_name_and_a_list_of_one_are_the_same() {
        let one: Deduplicate = toml::from_str("by = \"text\"").unwrap();
        let list: Deduplicate = toml::from_str("by = [\"text\"]").unwrap();
        assert_eq!(one, list);
        insta::assert_snapshot!(serde_json::to_string(&list).unwrap(), @r#"{"by":"text"}"#);
        let two = Deduplicate::by(["a", "b"]);
        insta::assert_snapshot!(serde_json::to_string(&two).unwrap(), @r#"{"by":["a","b"]}"#);
    }

    #[test]
    fn mistakes_are_refused_before_data_is_read() {
        let union = DataType::Union(UnionFields::empty(), UnionMode::Sparse);
        let schema = Arc::new(Schema::new(vec![
            Field::new("text", DataType::Utf8, true),
            Field::new("odd", DataType::new_list(union, true), true),
        ]));
        let refused = |by: &[&str]| {
            let step = Deduplicate::by(by.iter().copied());
            step.output_schema(&schema, &StepContext::default()).unwrap_err().to_string()
        };
        insta::assert_snapshot!(refused(&[]), @"step `deduplicate`: `by` names no column; name those that are compared, as `by = \"text\"`");
        insta::assert_snapshot!(refused(&["txt"]), @"step `deduplicate` needs column `txt`, but the examples have only `text`, `odd`");
        insta::assert_snapshot!(refused(&["text", "text"]), @"step `deduplicate`: `by` names `text` twice");
        assert!(refused(&["odd"]).contains("cannot be compared (`odd`)"));
    }

    #[test]
    fn a_column_of_nulls_alone_drops_nothing() {
        let nulls: ArrayRef = arrow::array::new_null_array(&DataType::Null, 3);
        assert_eq!(nulls.null_count(), 0, "which is why nulls are asked for by meaning");
        let columns = RecordBatch::try_from_iter_with_nullable([("n", nulls, true)]).unwrap();
        let examples = Examples::new(columns, crate::testing::rows(3));
        assert_eq!(Deduplicate::by(["n"]).apply(examples, &StepContext::default()).unwrap().len(), 3);
    }
}
