//! The laws every step obeys, and literal rows to test steps on.
//!
//! ```text
//! assert_step_laws(&Lowercase::default(), &context("targets", Some(1)), &text_examples(&[("targets", &[Some("A")])]));
//! ```

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int32Builder, ListBuilder, RecordBatch, StringArray, UInt64Array,
};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};

use crate::example::{EncodeCounts, ExampleId, ExampleRow, Examples, Origin};
use crate::feature::Feature;
use crate::preprocess::{Preprocessor, StepContext, TokenEdit, WholeSplit};
use crate::vocabulary::{SharedVocabulary, SpecialIds, Vocabulary, VocabularyError};

/// Asserts that `step` is honest about its schema, pure, and blind to the cut and the order of its rows; and that its
/// token edits, if it has any, are what it does.
///
/// # Panics
/// If a law is broken; the message names step and law.
pub fn assert_step_laws(step: &dyn Preprocessor, ctx: &StepContext, examples: &Examples) {
    let name = step.name();
    let apply = |examples: Examples| match step.apply(examples, ctx) {
        Ok(output) => output,
        Err(error) => panic!("`{name}` failed: {error}"),
    };
    let schema = match step.output_schema(&examples.columns.schema(), ctx) {
        Ok(schema) => schema,
        Err(error) => panic!("`{name}` refuses the examples: {error}"),
    };
    let whole = apply(examples.clone());
    assert_eq!(whole.columns.schema(), schema, "`{name}` returned other columns than it promised");
    assert_same(&whole, &apply(examples.clone()), &format!("`{name}` is not pure"));
    if let Some(step) = step.whole_split() {
        return assert_whole_split_laws(step, ctx, examples, &whole);
    }

    let rows = examples.len();
    for at in 0..=rows {
        let parts = [select(examples, 0..at), select(examples, at..rows)].map(apply);
        let joined = join(&parts);
        assert_same(&whole, &joined, &format!("`{name}` depends on where its rows are cut (here at {at})"));
    }
    // A step may drop examples and make several of one: those that it makes stand in their example's place.
    let alone: Vec<Examples> = (0..rows).map(|row| apply(select(examples, row..row + 1))).collect();
    let mut ids = std::collections::BTreeSet::new();
    for (row, made) in alone.iter().enumerate() {
        for made in &made.rows {
            assert!(ids.insert(made.id), "`{name}` gives two of its examples one id");
            let origins = &examples.rows[row].origins;
            assert_eq!(
                &made.origins, origins,
                "`{name}` makes an example of one record look like of another"
            );
        }
    }
    let place = |row: &ExampleRow| whole.rows.iter().position(|other| other.id == row.id);
    for shift in 0..rows {
        let order: Vec<usize> = (0..rows).map(|place| (place + shift) % rows).rev().collect();
        let moved = apply(select(examples, order.iter().copied()));
        let made: Vec<usize> = order.iter().flat_map(|row| &alone[*row].rows).filter_map(place).collect();
        let expected = select(&whole, made.into_iter());
        let expected = Examples { counts: whole.counts.clone(), dropped: whole.dropped.clone(), ..expected };
        assert_same(&expected, &moved, &format!("`{name}` depends on the order of its rows"));
    }
    for feature in ctx.output_features.keys() {
        assert_edits(step, ctx, examples, &whole, feature);
    }
}

/// The keys are those of example steps, and what is kept follows from them.
fn assert_whole_split_laws(step: &dyn WholeSplit, ctx: &StepContext, examples: &Examples, whole: &Examples) {
    let name = step.name();
    let keys = |examples: &Examples| match step.keys(examples, ctx) {
        Ok(keys) => keys,
        Err(error) => panic!("`{name}` failed: {error}"),
    };
    let expected = keys(examples);
    let rows = examples.len();
    for at in 0..=rows {
        let parts = [select(examples, 0..at), select(examples, at..rows)];
        let joined = parts.iter().flat_map(keys).collect::<Vec<_>>();
        assert_eq!(expected, joined, "the keys of `{name}` depend on where its rows are cut (here at {at})");
    }
    for shift in 0..rows {
        let order: Vec<usize> = (0..rows).map(|place| (place + shift) % rows).rev().collect();
        let moved = keys(&select(examples, order.iter().copied()));
        let expected: Vec<_> = order.iter().map(|row| expected[*row]).collect();
        assert_eq!(expected, moved, "the keys of `{name}` depend on the order of its rows");
    }
    let is_first = |row: &usize| expected[*row].is_none() || !expected[..*row].contains(&expected[*row]);
    let first: Vec<usize> = (0..rows).filter(is_first).collect();
    let kept = Examples {
        counts: whole.counts.clone(),
        dropped: whole.dropped.clone(),
        ..select(examples, first.into_iter())
    };
    assert_same(&kept, whole, &format!("`{name}` keeps others than the first of each key"));
}

fn assert_edits(
    step: &dyn Preprocessor,
    ctx: &StepContext,
    before: &Examples,
    after: &Examples,
    feature: &str,
) {
    let Some(edits) = step.token_edits(feature, ctx) else { return };
    let (Some(before), Some(after)) =
        (before.columns.column_by_name(feature), after.columns.column_by_name(feature))
    else {
        return;
    };
    for row in 0..after.len() {
        let mut ids = ids_of(before, row);
        for edit in &edits {
            match *edit {
                TokenEdit::Trim { max_length } => ids.truncate(max_length),
                TokenEdit::Append { id } => ids.push(id),
                TokenEdit::RepeatLast => ids.push(ids.last().copied().unwrap_or(0)),
            }
        }
        assert_eq!(
            ids,
            ids_of(after, row),
            "`{}` makes other edits of `{feature}` than it says",
            step.name()
        );
    }
}

fn ids_of(column: &ArrayRef, row: usize) -> Vec<i32> {
    if column.is_null(row) {
        return Vec::new();
    }
    column.as_list::<i32>().value(row).as_primitive::<Int32Type>().values().to_vec()
}

fn assert_same(expected: &Examples, found: &Examples, law: &str) {
    assert_eq!(expected.rows, found.rows, "{law}: ids or origins differ");
    assert_eq!(expected.columns, found.columns, "{law}");
    assert_eq!(expected.counts, found.counts, "{law}: counts differ");
    assert_eq!(expected.dropped, found.dropped, "{law}: numbers of dropped examples differ");
}

fn select(examples: &Examples, rows: impl Iterator<Item = usize> + Clone) -> Examples {
    let indices = UInt64Array::from_iter_values(rows.clone().map(|row| row as u64));
    let columns = take_record_batch(&examples.columns, &indices).expect("the rows are there");
    Examples::new(columns, rows.map(|row| examples.rows[row].clone()).collect())
}

fn join(parts: &[Examples]) -> Examples {
    let schema = parts[0].columns.schema();
    let columns =
        concat_batches(&schema, parts.iter().map(|part| &part.columns)).expect("the columns are the same");
    let rows = parts.iter().flat_map(|part| part.rows.iter().cloned()).collect();
    let mut joined = Examples::new(columns, rows);
    for (feature, counts) in parts.iter().flat_map(|part| &part.counts) {
        *joined.counts.entry(feature.clone()).or_default() += *counts;
    }
    for (step, dropped) in parts.iter().flat_map(|part| &part.dropped) {
        *joined.dropped.entry(*step).or_default() += dropped;
    }
    joined
}

/// Ids and origins for `count` examples.
pub fn rows(count: usize) -> Vec<ExampleRow> {
    let row = |row| {
        ExampleRow::new(
            ExampleId::new("test", "a.jsonl", 0, row),
            vec![Origin { file: 0, row, offset: 10 * row, length: 10 }],
        )
    };
    (0..count as u64).map(row).collect()
}

/// Examples with one token feature.
pub fn token_examples(feature: &str, sequences: Vec<Vec<i32>>) -> Examples {
    let mut builder = ListBuilder::new(Int32Builder::new());
    for ids in &sequences {
        builder.values().append_slice(ids);
        builder.append(true);
    }
    let column: ArrayRef = Arc::new(builder.finish());
    let schema = Schema::new(vec![Field::new(feature, column.data_type().clone(), false)]);
    let columns = RecordBatch::try_new(Arc::new(schema), vec![column]).expect("the column fits its field");
    Examples::new(columns, rows(sequences.len()))
}

/// Examples with text columns of one length.
///
/// # Panics
/// If there are no columns, or their lengths differ.
pub fn text_examples(columns: &[(&str, &[Option<&str>])]) -> Examples {
    let count = columns[0].1.len();
    let arrays = columns.iter().map(|(name, texts)| {
        let array: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
        (*name, array, true)
    });
    let columns = RecordBatch::try_from_iter_with_nullable(arrays).expect("columns have the same length");
    Examples::new(columns, rows(count))
}

/// A context with one feature, required and asking for an EOS, in a vocabulary of bytes.
pub fn context(name: &str, eos: Option<i32>) -> StepContext {
    let vocabulary = Arc::new(TestVocabulary { kind: "byte", size: 259, eos });
    let output_features = [(name.to_owned(), feature(vocabulary))].into();
    StepContext { output_features, ..StepContext::default() }
}

/// A feature that is required and asks for an EOS; its vocabulary is named `test`.
pub fn feature(vocabulary: SharedVocabulary) -> Feature {
    Feature { vocabulary, vocabulary_name: "test".to_owned(), add_eos: true, required: true }
}

/// A vocabulary that takes ids as they come.
pub fn pass_through(size: usize) -> SharedVocabulary {
    Arc::new(TestVocabulary { kind: "pass_through", size, eos: None })
}

/// Examples as text, a line each: `targets: [3, 9]  note: "x"`.
pub fn show(examples: &Examples) -> String {
    let schema = examples.columns.schema();
    let line = |row: usize| {
        let cells = schema.fields().iter().zip(examples.columns.columns());
        let cells = cells.map(|(field, column)| format!("{}: {}", field.name(), cell(column, row)));
        cells.collect::<Vec<_>>().join("  ")
    };
    (0..examples.len()).map(line).collect::<Vec<_>>().join("\n")
}

fn cell(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) {
        return "null".to_owned();
    }
    match column.data_type() {
        DataType::Utf8 => format!("{:?}", column.as_string::<i32>().value(row)),
        DataType::List(item) if *item.data_type() == DataType::Int32 => format!("{:?}", ids_of(column, row)),
        _ => arrow::util::display::array_value_to_string(column, row).unwrap_or_default(),
    }
}

/// SeqIO's byte vocabulary in a dozen lines, so that steps can be tested without files. `?` counts as unknown and
/// `</s>` as a special spelling.
#[derive(Debug)]
struct TestVocabulary {
    kind: &'static str,
    size: usize,
    eos: Option<i32>,
}

impl Vocabulary for TestVocabulary {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn vocab_size(&self) -> usize {
        self.size
    }

    fn extra_ids(&self) -> usize {
        0
    }

    fn special_ids(&self) -> SpecialIds {
        SpecialIds { pad: 0, eos: self.eos, bos: None, unk: Some(2) }
    }

    fn encode_into(&self, text: &str, ids: &mut Vec<i32>) -> Result<EncodeCounts, VocabularyError> {
        ids.extend(text.bytes().map(|byte| i32::from(byte) + 3));
        let count = |pattern: &str| text.matches(pattern).count() as u64;
        Ok(EncodeCounts { unknown: count("?"), special_spellings: count("</s>") })
    }

    fn decode(&self, ids: &[i32]) -> String {
        let bytes: Vec<u8> = ids.iter().filter_map(|id| u8::try_from(id - 3).ok()).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn piece(&self, id: i32) -> Option<String> {
        (id >= 0 && (id as usize) < self.size).then(|| self.decode(&[id]))
    }

    fn file(&self) -> Option<&[u8]> {
        None
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::SchemaRef;

    use super::*;
    use crate::preprocess::PreprocessError;

    /// A step that breaks the laws: it repeats the first row of a chunk.
    #[derive(Debug)]
    struct FirstRow;

    impl Preprocessor for FirstRow {
        fn name(&self) -> &'static str {
            "first_row"
        }

        fn output_schema(&self, input: &SchemaRef, _: &StepContext) -> Result<SchemaRef, PreprocessError> {
            Ok(Arc::clone(input))
        }

        fn apply(&self, examples: Examples, _: &StepContext) -> Result<Examples, PreprocessError> {
            let first = vec![0u64; examples.len()];
            let columns = take_record_batch(&examples.columns, &UInt64Array::from(first))?;
            Ok(examples.with_columns(columns))
        }
    }

    #[test]
    #[should_panic(expected = "`first_row` depends on where its rows are cut")]
    fn a_step_that_looks_at_its_chunk_is_caught() {
        let input = text_examples(&[("t", &[Some("a"), Some("b")])]);
        assert_step_laws(&FirstRow, &StepContext::default(), &input);
    }
}
