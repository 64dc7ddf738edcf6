//! What steps share: finding and checking columns, and editing token sequences.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, ListArray, RecordBatch};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Int32Type, Schema, SchemaRef};

use crate::example::Examples;
use crate::feature::Features;
use crate::feature::LOSS_SUFFIX;
use crate::preprocess::{PreprocessError, Preprocessor, StepContext, TokenEdit};
use crate::text::{nearest, quoted};

/// The type of a token feature in memory: a list of int32.
pub fn token_type() -> DataType {
    DataType::List(token_item())
}

/// The item field of [`token_type`].
pub(crate) fn token_item() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Int32, true))
}

/// The column of a token feature.
pub(crate) fn token_field(name: &str) -> Field {
    Field::new(name, token_type(), false)
}

/// A token column from ids that lie one behind the other; `offsets` has one entry more than there are rows.
pub(crate) fn token_column(ids: Vec<i32>, offsets: Vec<i32>) -> ListArray {
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    ListArray::new(token_item(), offsets, Arc::new(Int32Array::from(ids)), None)
}

/// The position of the column that holds the tokens of `feature`.
pub(crate) fn token_index(
    step: &'static str,
    schema: &Schema,
    feature: &str,
) -> Result<usize, PreprocessError> {
    let Some((index, field)) = schema.column_with_name(feature) else {
        return Err(PreprocessError::missing(step, "feature", feature, schema));
    };
    match field.data_type() {
        DataType::List(item) if *item.data_type() == DataType::Int32 => Ok(index),
        found => Err(PreprocessError::WrongType {
            step,
            column: feature.to_owned(),
            expected: "token ids",
            found: found.clone(),
        }),
    }
}

/// Refuses names in a step's `features` that the task does not have.
pub(crate) fn check_features(
    step: &'static str,
    features: &[String],
    ctx: &StepContext,
) -> Result<(), PreprocessError> {
    for name in features {
        if !ctx.output_features.contains_key(name) {
            let known = ctx.output_features.keys().map(String::as_str);
            let problem = match nearest(name, known.clone()) {
                Some(near) => format!("there is no feature `{name}`; did you mean `{near}`?"),
                None => format!("there is no feature `{name}`; the task's features are {}", quoted(known)),
            };
            return Err(PreprocessError::Setting { step, problem });
        }
    }
    Ok(())
}

/// Whether a step limited to `features` works on `name`; no names mean all.
pub(crate) fn selects(features: &[String], name: &str) -> bool {
    features.is_empty() || features.iter().any(|feature| feature == name)
}

/// The feature that `name` is the loss mask of: `targets` for `targets_loss`, if the task has both.
///
/// Which tokens count in the loss has to stay beside them, so that steps edit a mask as they edit its feature.
pub(crate) fn masked_feature<'a>(name: &'a str, ctx: &StepContext) -> Option<&'a str> {
    name.strip_suffix(LOSS_SUFFIX).filter(|feature| ctx.output_features.contains_key(*feature))
}

/// The edits of a loss mask, from those of its feature.
pub(crate) fn mask_edits(edits: Vec<TokenEdit>) -> Vec<TokenEdit> {
    let edit = |edit| match edit {
        TokenEdit::Append { .. } => TokenEdit::RepeatLast,
        other => other,
    };
    edits.into_iter().map(edit).collect()
}

/// The schema of a step that only edits token sequences: its input's, if the sequences it edits are there.
pub(crate) fn edited_schema(
    step: &dyn Preprocessor,
    input: &SchemaRef,
    ctx: &StepContext,
    works_on: impl Fn(&str) -> bool,
) -> Result<SchemaRef, PreprocessError> {
    for (name, feature) in &ctx.output_features {
        let absent = !feature.required && input.column_with_name(name).is_none();
        if works_on(masked_feature(name, ctx).unwrap_or(name)) && !absent {
            token_index(step.name(), input, name)?;
        }
    }
    Ok(Arc::clone(input))
}

/// Applies a step's own [`TokenEdit`]s to every feature it has some for.
pub(crate) fn apply_edits(
    step: &dyn Preprocessor,
    examples: Examples,
    ctx: &StepContext,
) -> Result<Examples, PreprocessError> {
    let schema = examples.columns.schema();
    let mut columns = examples.columns.columns().to_vec();
    for (name, feature) in &ctx.output_features {
        let edits = step.token_edits(name, ctx).unwrap_or_default();
        let absent = !feature.required && schema.column_with_name(name).is_none();
        if edits.is_empty() || absent {
            continue;
        }
        let index = token_index(step.name(), &schema, name)?;
        columns[index] = edit(columns[index].as_list(), &edits, schema.field(index))?;
    }
    let columns = RecordBatch::try_new(schema, columns)?;
    Ok(examples.with_columns(columns))
}

/// A null sequence counts as an empty one.
fn edit(sequences: &ListArray, edits: &[TokenEdit], field: &Field) -> Result<ArrayRef, PreprocessError> {
    let values = sequences.values().as_primitive::<Int32Type>().values();
    let offsets = sequences.value_offsets();
    let mut ids = Vec::with_capacity(values.len() + sequences.len());
    let mut ends = Vec::with_capacity(sequences.len() + 1);
    ends.push(0);
    for row in 0..sequences.len() {
        let from = ids.len();
        if sequences.is_valid(row) {
            ids.extend_from_slice(&values[offsets[row] as usize..offsets[row + 1] as usize]);
        }
        for edit in edits {
            match *edit {
                TokenEdit::Trim { max_length } => ids.truncate(from.saturating_add(max_length)),
                TokenEdit::Append { id } => ids.push(id),
                TokenEdit::RepeatLast => ids.push(ids[from..].last().copied().unwrap_or(0)),
            }
        }
        ends.push(ids.len() as i32);
    }
    let DataType::List(item) = field.data_type() else {
        return Ok(Arc::new(token_column(ids, ends)));
    };
    let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, Arc::new(Int32Array::from(ids)), None)?))
}

/// Refuses token columns with ids that their vocabulary does not have.
pub(crate) fn check_token_ids(
    step: &'static str,
    examples: &Examples,
    features: &Features,
) -> Result<(), PreprocessError> {
    for (name, feature) in features {
        let Some(column) = examples.columns.column_by_name(name) else { continue };
        let lists = column.as_list::<i32>();
        let size = i32::try_from(feature.vocabulary.vocab_size()).unwrap_or(i32::MAX);
        let bad = |ids: &[i32]| ids.iter().copied().find(|id| !(0..size).contains(id));
        let values = lists.values().as_primitive::<Int32Type>();
        if values.null_count() == 0 && bad(values.values()).is_none() {
            continue;
        }
        for (row, ids) in lists.iter().enumerate() {
            let Some(ids) = ids else { continue };
            let ids = ids.as_primitive::<Int32Type>();
            let problem = match bad(ids.values()) {
                _ if ids.null_count() > 0 => "there is a null among its ids".to_owned(),
                Some(id) => format!(
                    "there is the id {id}, but ids of vocabulary `{}` are 0 to {}",
                    feature.vocabulary_name,
                    size - 1
                ),
                None => continue,
            };
            return Err(PreprocessError::row(step, name, problem, &examples.rows[row]));
        }
    }
    Ok(())
}
