//! From the features of a `tf.train.Example` to columns.
//!
//! ```text
//! columns = { text = "string", ids = "list<int32>", label = "int32?" }
//! text: bytes ["a"]   ids: ints [1, 2]            -> text: "a", ids: [1, 2], label: null
//! text: bytes ["a", "b"]                          -> bad row: `text` should be a string, but has 2 values
//! ids: ints [1]                                   -> bad row: there is no feature `text`, only `ids`
//! ```
//!
//! A column of one value takes features of one value; a list takes any number, with matrices row after row. A feature that
//! is there without a kind, or empty in a column with `?`, is missing; of a list it is empty. Whole numbers are read as
//! floats where the column is one, and 0 and 1 as truth values, but texts and floats only as what they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

use crate::preprocess::PRETOKENIZED_SUFFIX;
use crate::source::column::{ColumnSpec, ScalarType};
use crate::source::json_columns::{JsonColumn, JsonValue, Misfit};
use crate::source::tfrecord::proto::{FeatureProto, Values, features};
use crate::text::{nearest, quoted};

/// What old caches of SeqIO add to a feature's name where later ones add [`PRETOKENIZED_SUFFIX`].
pub(in crate::source) const OLD_SUFFIX: &str = "_plaintext";

/// Names of features in a message.
const MOST_NAMES: usize = 12;

/// The columns to read.
#[derive(Clone, Debug)]
pub(super) struct ExampleColumns {
    columns: BTreeMap<String, ColumnSpec>,
    old_names: bool,
}

impl ExampleColumns {
    pub(super) fn new(columns: BTreeMap<String, ColumnSpec>) -> Self {
        Self { columns, old_names: false }
    }

    /// Takes what old caches of SeqIO call `x_plaintext` for `x_pretokenized`, where that is not there.
    pub(super) fn or_old_names(self) -> Self {
        Self { old_names: true, ..self }
    }

    fn feature<'f>(
        &self,
        column: &str,
        features: &'f BTreeMap<String, FeatureProto>,
    ) -> Option<&'f FeatureProto> {
        let old = || {
            let stem = column.strip_suffix(PRETOKENIZED_SUFFIX).filter(|_| self.old_names)?;
            features.get(&format!("{stem}{OLD_SUFFIX}"))
        };
        features.get(column).or_else(old)
    }
}

/// The examples read so far.
pub(super) struct ExampleTable<'c> {
    spec: &'c ExampleColumns,
    columns: Vec<JsonColumn<'c>>,
    num_rows: usize,
}

impl<'c> ExampleTable<'c> {
    /// An empty table for about `num_bytes` of records.
    pub(super) fn new(spec: &'c ExampleColumns, num_bytes: usize) -> Self {
        let share = num_bytes / spec.columns.len().max(1);
        let columns =
            spec.columns.iter().map(|(name, &column)| JsonColumn::new(name, column, share)).collect();
        Self { spec, columns, num_rows: 0 }
    }

    /// Adds a record as a row, or says what is wrong with it and adds nothing.
    pub(super) fn push(&mut self, data: &[u8]) -> Result<(), String> {
        let done = features(data).and_then(|features| self.read(&features));
        match done {
            Ok(()) => {
                self.columns.iter_mut().for_each(JsonColumn::commit);
                self.num_rows += 1;
            }
            Err(_) => self.columns.iter_mut().for_each(|column| column.truncate(self.num_rows)),
        }
        done
    }

    fn read(&mut self, features: &BTreeMap<String, FeatureProto>) -> Result<(), String> {
        for column in &mut self.columns {
            let name = column.name;
            let feature = self.spec.feature(name, features);
            match feature.and_then(|feature| feature.values.as_ref()) {
                Some(values) => push(column, values)?,
                None if feature.is_some() && column.is_list() => column.end_list(),
                None if column.spec.optional => column.push_null(),
                None if feature.is_some() => return Err(format!("`{name}` has no value")),
                None => return Err(no_feature(name, features)),
            }
        }
        Ok(())
    }

    /// The columns as Arrow has them.
    pub(super) fn finish(self, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
        let arrays = self.columns.into_iter().map(JsonColumn::finish).collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.num_rows));
        RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)
    }
}

fn no_feature(name: &str, features: &BTreeMap<String, FeatureProto>) -> String {
    let found = || features.keys().map(String::as_str);
    let hint = nearest(name, found()).map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"));
    let more = match features.len().checked_sub(MOST_NAMES) {
        None | Some(0) => String::new(),
        Some(more) => format!(" and {more} more"),
    };
    format!("there is no feature `{name}`, only {}{more}{hint}", quoted(found().take(MOST_NAMES)))
}

/// Adds the values of a feature to a column.
fn push(column: &mut JsonColumn<'_>, values: &Values) -> Result<(), String> {
    let scalar = column.spec.data.scalar();
    let fits = match values {
        Values::Bytes(_) => scalar == ScalarType::String,
        Values::Floats(_) => matches!(scalar, ScalarType::Float32 | ScalarType::Float64),
        Values::Ints(_) => scalar != ScalarType::String,
    };
    let (name, phrase) = (column.name, column.spec.data.phrase());
    if !fits && values.len() > 0 {
        return Err(format!("`{name}` should be {phrase}, but holds {}", values.words()));
    }
    let is_list = column.is_list();
    if !is_list && values.len() != 1 {
        if values.len() == 0 && column.spec.optional {
            column.push_null();
            return Ok(());
        }
        let found = crate::text::counted(values.len() as u64, "value");
        return Err(format!("`{name}` should be {phrase}, but has {found}"));
    }
    for index in 0..values.len() {
        let what = || if is_list { format!("item {} of `{name}`", index + 1) } else { format!("`{name}`") };
        let value = value(values, index, scalar).map_err(|problem| format!("{} {problem}", what()))?;
        let added = if is_list { column.push_item(&value) } else { column.push(&value) };
        added.map_err(|Misfit| format!("{} should be {}, but is {value}", what(), scalar.phrase()))?;
    }
    if is_list {
        column.end_list();
    }
    Ok(())
}

fn value(values: &Values, index: usize, wanted: ScalarType) -> Result<JsonValue<'_>, String> {
    Ok(match values {
        Values::Bytes(list) => JsonValue::String(
            str::from_utf8(&list.value[index])
                .map_err(|error| format!("is not valid UTF-8 at byte {}", error.valid_up_to() + 1))?,
        ),
        Values::Floats(list) => JsonValue::Float(list.value[index].into()),
        Values::Ints(list) => match (list.value[index], wanted) {
            (0, ScalarType::Bool) => JsonValue::Bool(false),
            (1, ScalarType::Bool) => JsonValue::Bool(true),
            (int, _) => JsonValue::Int(int.into()),
        },
    })
}
