//! Turns the text of every output feature into token ids.
//!
//! ```text
//! inputs: "a b"  note: "x"   ->   inputs: [71, 72]  note: "x"
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::example::{EncodeCounts, ExampleRow, Examples};
use crate::feature::Feature;
use crate::preprocess::columns::{token_column, token_field};
use crate::preprocess::{PreprocessError, Preprocessor, StepContext};

/// What `keep_pretokenized` adds to a feature's name.
pub const PRETOKENIZED_SUFFIX: &str = "_pretokenized";

const STEP: &str = "tokenize";

/// Encodes the text of each output feature with the feature's vocabulary; other columns stay as they are.
///
/// A feature whose column is a list of whole numbers already (pass-through ids, pre-tokenized data) is checked
/// against its vocabulary's size instead and kept. A null text or list is an empty sequence. A feature with
/// `required = false` may have no column at all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct Tokenize {
    /// Keeps each text that is encoded, as column `<feature>_pretokenized`.
    #[serde(default)]
    pub keep_pretokenized: bool,
}

impl Tokenize {
    /// Keeps each text that is encoded, as column `<feature>_pretokenized`.
    pub fn keep_pretokenized(mut self) -> Self {
        self.keep_pretokenized = true;
        self
    }
}

impl Preprocessor for Tokenize {
    fn name(&self) -> &'static str {
        STEP
    }

    fn output_schema(&self, input: &SchemaRef, ctx: &StepContext) -> Result<SchemaRef, PreprocessError> {
        let mut fields: Vec<_> = input.fields().iter().map(Arc::clone).collect();
        for (name, feature) in &ctx.output_features {
            let Some((index, field)) = input.column_with_name(name) else {
                if feature.required {
                    return Err(PreprocessError::missing(STEP, "feature", name, input));
                }
                continue;
            };
            let content = Content::of(name, field.data_type(), feature)?;
            fields[index] = Arc::new(token_field(name));
            if content == Content::Text && self.keep_pretokenized {
                let kept = format!("{name}{PRETOKENIZED_SUFFIX}");
                if input.column_with_name(&kept).is_some() {
                    let problem =
                        format!("the text of `{name}` cannot be kept: there is a column `{kept}` already");
                    return Err(PreprocessError::Setting { step: STEP, problem });
                }
                fields.push(Arc::new(Field::new(kept, DataType::Utf8, field.is_nullable())));
            }
        }
        Ok(Arc::new(Schema::new(fields)))
    }

    fn apply(&self, examples: Examples, ctx: &StepContext) -> Result<Examples, PreprocessError> {
        let input = examples.columns.schema();
        let schema = self.output_schema(&input, ctx)?;
        let mut columns = examples.columns.columns().to_vec();
        let mut counts: BTreeMap<String, EncodeCounts> = BTreeMap::new();
        let mut characters = BTreeMap::new();
        for (name, feature) in &ctx.output_features {
            let Some((index, field)) = input.column_with_name(name) else { continue };
            let column = Arc::clone(&columns[index]);
            match Content::of(name, field.data_type(), feature)? {
                Content::Text => {
                    let texts = cast(&column, &DataType::Utf8)?;
                    let (tokens, met) = encode(name, feature, &texts, &examples.rows)?;
                    columns[index] = Arc::new(tokens);
                    counts.insert(name.clone(), met);
                    characters.insert(name.clone(), characters_of(&texts));
                    if self.keep_pretokenized {
                        columns.push(texts);
                    }
                }
                Content::Ids => {
                    columns[index] = Arc::new(checked_ids(name, feature, &column, &examples.rows)?)
                }
            }
        }
        let columns = RecordBatch::try_new(schema, columns)?;
        let mut examples = examples.with_columns(columns);
        for (name, met) in counts {
            *examples.counts.entry(name).or_default() += met;
        }
        examples.characters.extend(characters);
        Ok(examples)
    }
}

/// What a feature's column holds before the step.
#[derive(Clone, Copy, PartialEq)]
enum Content {
    Text,
    Ids,
}

impl Content {
    fn of(name: &str, data_type: &DataType, feature: &Feature) -> Result<Self, PreprocessError> {
        let is_pass_through = feature.vocabulary.kind() == "pass_through";
        match data_type {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View if !is_pass_through => Ok(Self::Text),
            DataType::List(item) | DataType::LargeList(item) if item.data_type().is_integer() => {
                Ok(Self::Ids)
            }
            found => Err(PreprocessError::WrongType {
                step: STEP,
                column: name.to_owned(),
                expected: if is_pass_through {
                    "a list of whole numbers (its vocabulary is `pass_through`)"
                } else {
                    "text, or a list of token ids"
                },
                found: found.clone(),
            }),
        }
    }
}

fn encode(
    name: &str,
    feature: &Feature,
    texts: &ArrayRef,
    rows: &[ExampleRow],
) -> Result<(ListArray, EncodeCounts), PreprocessError> {
    let texts = texts.as_string::<i32>();
    // About four bytes of text make a token: one allocation is enough for most chunks.
    let mut ids = Vec::with_capacity(texts.values().len() / 3);
    let mut ends = Vec::with_capacity(texts.len() + 1);
    let mut counts = EncodeCounts::default();
    ends.push(0);
    for (row, text) in texts.iter().enumerate() {
        if let Some(text) = text {
            counts += feature
                .vocabulary
                .encode_into(text, &mut ids)
                .map_err(|error| PreprocessError::row(STEP, name, error.to_string(), &rows[row]))?;
        }
        ends.push(end_offset(name, ids.len(), &rows[row])?);
    }
    Ok((token_column(ids, ends), counts))
}

/// The characters of each text; a null has none.
fn characters_of(texts: &ArrayRef) -> Vec<u32> {
    let count = |text: &str| u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
    texts.as_string::<i32>().iter().map(|text| text.map_or(0, count)).collect()
}

fn end_offset(name: &str, end: usize, row: &ExampleRow) -> Result<i32, PreprocessError> {
    i32::try_from(end).map_err(|_| {
        let problem = "the chunk of examples holds over 2,147,483,647 ids".to_owned();
        PreprocessError::row(STEP, name, problem, row)
    })
}

/// Lists of whole numbers of any width as token ids.
fn checked_ids(
    name: &str,
    feature: &Feature,
    column: &ArrayRef,
    rows: &[ExampleRow],
) -> Result<ListArray, PreprocessError> {
    let wide = Field::new_list_field(DataType::Int64, true);
    // A number that does not fit becomes null here, and is refused as one below.
    let lists = cast(column, &DataType::List(Arc::new(wide)))?;
    let lists = lists.as_list::<i32>();
    let numbers = lists.values().as_primitive::<Int64Type>();
    let (values, offsets) = (numbers.values(), lists.value_offsets());
    let size = feature.vocabulary.vocab_size() as i64;
    let mut ids = Vec::with_capacity(values.len());
    let mut ends = Vec::with_capacity(lists.len() + 1);
    ends.push(0);
    for row in 0..lists.len() {
        if lists.is_valid(row) {
            let range = offsets[row] as usize..offsets[row + 1] as usize;
            let bad = range.clone().find(|&at| numbers.is_null(at) || !(0..size).contains(&values[at]));
            if let Some(at) = bad {
                let position = at - range.start;
                let found = if numbers.is_null(at) {
                    format!("the id at position {position} is null or does not fit 64 bits")
                } else {
                    format!("the id at position {position} is {}", values[at])
                };
                let vocabulary = &feature.vocabulary_name;
                let problem = format!("{found}, but ids of vocabulary `{vocabulary}` are 0 to {}", size - 1);
                return Err(PreprocessError::row(STEP, name, problem, &rows[row]));
            }
            ids.extend(values[range].iter().map(|&id| id as i32));
        }
        ends.push(end_offset(name, ids.len(), &rows[row])?);
    }
    Ok(token_column(ids, ends))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Builder, ListBuilder};
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{assert_step_laws, context, feature, pass_through, rows, show, text_examples};

    fn lists(lists: &[Option<&[i64]>]) -> Examples {
        let mut builder = ListBuilder::new(Int64Builder::new());
        for list in lists {
            match list {
                Some(list) => {
                    builder.values().append_slice(list);
                    builder.append(true);
                }
                None => builder.append(false),
            }
        }
        let column: ArrayRef = Arc::new(builder.finish());
        let columns = RecordBatch::try_from_iter_with_nullable([("ids", column, true)]).unwrap();
        Examples::new(columns, rows(lists.len()))
    }

    fn pass_through_context(size: usize) -> StepContext {
        let output_features = [("ids".to_owned(), feature(pass_through(size)))].into();
        StepContext { output_features, ..StepContext::default() }
    }

    #[test]
    fn text_becomes_ids_and_other_columns_stay() {
        let input = text_examples(&[("targets", &[Some("ab"), None, Some("")]), ("note", &[Some("x"); 3])]);
        let ctx = context("targets", Some(1));
        let output = Tokenize::default().apply(input.clone(), &ctx).unwrap();
        insta::assert_snapshot!(show(&output), @r#"
        targets: [100, 101]  note: "x"
        targets: []  note: "x"
        targets: []  note: "x"
        "#);
        assert_step_laws(&Tokenize::default(), &ctx, &input);
        assert_step_laws(&Tokenize::default().keep_pretokenized(), &ctx, &input);
    }

    #[test]
    fn the_text_is_kept_beside_its_ids_if_asked_for() {
        let input = text_examples(&[("targets", &[Some("ab")])]);
        let output =
            Tokenize::default().keep_pretokenized().apply(input, &context("targets", Some(1))).unwrap();
        insta::assert_snapshot!(show(&output), @r#"targets: [100, 101]  targets_pretokenized: "ab""#);
    }

    #[test]
    fn unknown_ids_and_special_spellings_are_counted_for_each_feature() {
        let input = text_examples(&[("targets", &[Some("a?"), Some("</s>")])]);
        let output = Tokenize::default().apply(input, &context("targets", Some(1))).unwrap();
        assert_eq!(output.counts["targets"], EncodeCounts { unknown: 1, special_spellings: 1 });
        assert_eq!(output.characters["targets"], [2, 4]);
        let kept = output.keep(&[false, true]).unwrap();
        assert_eq!(kept.characters["targets"], [4]);
    }

    #[test]
    fn lists_of_ids_are_kept_and_null_lists_are_empty() {
        let input = lists(&[Some(&[0, 9]), None, Some(&[])]);
        let output = Tokenize::default().apply(input.clone(), &pass_through_context(10)).unwrap();
        insta::assert_snapshot!(show(&output), @r"
        ids: [0, 9]
        ids: []
        ids: []
        ");
        assert_step_laws(&Tokenize::default(), &pass_through_context(10), &input);
    }

    #[test]
    fn an_id_out_of_range_names_the_record() {
        let error =
            Tokenize::default().apply(lists(&[Some(&[1]), Some(&[3, 10])]), &pass_through_context(10));
        insta::assert_snapshot!(error.unwrap_err(), @"step `tokenize`, feature `ids`: the id at position 1 is 10, but ids of vocabulary `test` are 0 to 9 (record 2 of file 1, example 9d86b5cda28fc7a6691657e6bf69bf81)");
        let error = Tokenize::default().apply(lists(&[Some(&[-1])]), &pass_through_context(10));
        insta::assert_snapshot!(error.unwrap_err(), @"step `tokenize`, feature `ids`: the id at position 0 is -1, but ids of vocabulary `test` are 0 to 9 (record 1 of file 1, example 952a7ba57f2b31e3486428d68be24aee)");
    }

    #[test]
    fn text_cannot_pass_through() {
        let input = text_examples(&[("ids", &[Some("ab")])]);
        let error = Tokenize::default()
            .output_schema(&input.columns.schema(), &pass_through_context(10))
            .unwrap_err();
        insta::assert_snapshot!(error, @"step `tokenize` needs `ids` to be a list of whole numbers (its vocabulary is `pass_through`), but it is `string`");
    }

    #[test]
    fn an_optional_feature_may_be_absent() {
        let input = text_examples(&[("note", &[Some("x")])]);
        let mut ctx = context("targets", Some(1));
        assert!(Tokenize::default().output_schema(&input.columns.schema(), &ctx).is_err());
        ctx.output_features.get_mut("targets").unwrap().required = false;
        assert_eq!(
            Tokenize::default().output_schema(&input.columns.schema(), &ctx).unwrap(),
            input.columns.schema()
        );
        assert_step_laws(&Tokenize::default(), &ctx, &input);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn obeys_the_step_laws_on_any_text(texts in prop::collection::vec(prop::option::of(".{0,12}"), 0..6)) {
            let texts: Vec<Option<&str>> = texts.iter().map(Option::as_deref).collect();
            let input = text_examples(&[("targets", &texts)]);
            assert_step_laws(&Tokenize::default().keep_pretokenized(), &context("targets", Some(1)), &input);
        }
    }
}
