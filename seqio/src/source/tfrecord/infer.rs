//! The columns of a TFRecord source where the definition declares none, and an early look at those it declares.
//!
//! A sample decides: the first 1,000 records (of the first range) of the first file that has any, splits and files in
//! order of their names. A feature that has one value in all of them is a column of one value, another a list; one that
//! some records lack is optional. Bytes that are no text are left out, for no column can hold them.
//!
//! ```text
//! text: ["a"], ids: [1, 2]  |  text: ["b"], ids: [], score: [0.5]
//!   -> text: string, ids: list<int32>, score: float32?
//! ```

use std::collections::BTreeMap;

use crate::source::column::{ColumnSpec, ColumnType, ScalarType};
use crate::source::infer::{SAMPLE_RECORDS, declaration, no_records};
use crate::source::listing::Listing;
use crate::source::tfrecord::chunks::{Cutting, RecordChunks};
use crate::source::tfrecord::example::{ExampleColumns, ExampleTable};
use crate::source::tfrecord::frames::{check_begins, frames_of};
use crate::source::tfrecord::proto::{Values, features};
use crate::source::{SourceError, SourceFile, SourceRange};

/// The columns of a TFRecord source: the declared ones if they fit its first records, else those of these records.
pub(in crate::source) fn pin_tfrecord_columns(
    listing: &Listing,
    declared: &BTreeMap<String, ColumnSpec>,
) -> Result<BTreeMap<String, ColumnSpec>, SourceError> {
    for split in listing.split_names() {
        for file in listing.files(&split)? {
            check_begins(&file)?;
            if !declared.is_empty() {
                if check_declared(&file, declared)? {
                    return Ok(declared.clone());
                }
            } else if let Some(columns) = infer_columns(&file)? {
                return Ok(columns);
            }
        }
    }
    if declared.is_empty() { Err(no_records(&listing.name)) } else { Ok(declared.clone()) }
}

/// Sees that the columns fit at least one record of the sample; false if the file has no records.
fn check_declared(file: &SourceFile, declared: &BTreeMap<String, ColumnSpec>) -> Result<bool, SourceError> {
    let columns = ExampleColumns::new(declared.clone());
    sample(file, "fits the declared columns", |data| ExampleTable::new(&columns, 0).push(data))
}

/// Infers the columns of a file; `None` if it has no records.
fn infer_columns(file: &SourceFile) -> Result<Option<BTreeMap<String, ColumnSpec>>, SourceError> {
    let mut shapes: BTreeMap<String, Shape> = BTreeMap::new();
    let mut records = 0;
    let found = sample(file, "can be read", |data| {
        let features = features(data)?;
        records += 1;
        for (name, feature) in features {
            let shape = shapes.entry(name).or_default();
            shape.add(feature.values.as_ref());
        }
        Ok(())
    })?;
    if !found {
        return Ok(None);
    }
    let mut columns = BTreeMap::new();
    let mut mixed = None;
    let mut left_out = Vec::new();
    for (name, shape) in shapes {
        match (shape.mixed, shape.column()) {
            (Some(kinds), _) => {
                mixed.get_or_insert((name, kinds));
            }
            (None, Some(data)) => {
                columns.insert(name, ColumnSpec { data, optional: shape.records < records });
            }
            (None, None) => left_out.push(name),
        }
    }
    if let Some((name, (a, b))) = mixed {
        let problem = format!(
            "feature `{name}` holds {a} and {b}, which no column can; declare the columns to read, as `columns = {}`",
            declaration(&columns)
        );
        return Err(SourceError::malformed(&file.path, problem));
    }
    if columns.is_empty() {
        let problem = format!(
            "has no feature that can be read, only what is empty or bytes that are no text: {}",
            crate::text::quoted(left_out)
        );
        return Err(SourceError::malformed(&file.path, problem));
    }
    Ok(Some(columns))
}

/// Gives the first records to `read`: whether there are any, and an error if it refused all.
fn sample(
    file: &SourceFile,
    done: &str,
    mut read: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<bool, SourceError> {
    let cutting = Cutting::default();
    let range = SourceRange { file: 0, start: 0, end: cutting.range_bytes };
    let (mut records, mut good, mut first_bad) = (0, false, None);
    'chunks: for chunk in RecordChunks::open(file, 0, Some(range), cutting, Box::new(|_| false))? {
        let chunk = chunk?;
        for frame in frames_of(chunk.records.text()) {
            if records == SAMPLE_RECORDS {
                break 'chunks;
            }
            records += 1;
            match frame.data(chunk.first_offset + frame.start as u64).and_then(&mut read) {
                Ok(()) => good = true,
                Err(reason) => {
                    first_bad.get_or_insert((records, reason));
                }
            }
        }
        if let (0, Some(damage)) = (records, &chunk.damage) {
            return Err(SourceError::malformed(&file.path, damage));
        }
    }
    match first_bad {
        Some((record, reason)) if !good => {
            let problem = format!("none of the first {records} records {done}: record {record}: {reason}");
            Err(SourceError::malformed(&file.path, problem))
        }
        _ => Ok(good),
    }
}

/// What the values of a feature have in common.
#[derive(Debug, Default)]
struct Shape {
    /// Records that have it.
    records: usize,
    /// What its values are, and that in words.
    kind: Option<(Kind, &'static str)>,
    /// What it is where it has no values.
    kind_of_none: Option<Kind>,
    /// Two kinds that it has, in words.
    mixed: Option<(&'static str, &'static str)>,
    /// Whether each record has one value.
    is_list: bool,
}

/// What values are.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Bytes { are_text: bool },
    Floats,
    Ints { fit_32_bits: bool },
}

impl Kind {
    fn of(values: &Values) -> Self {
        match values {
            Values::Bytes(list) => {
                Self::Bytes { are_text: list.value.iter().all(|bytes| str::from_utf8(bytes).is_ok()) }
            }
            Values::Floats(_) => Self::Floats,
            Values::Ints(list) => {
                Self::Ints { fit_32_bits: list.value.iter().all(|&int| i32::try_from(int).is_ok()) }
            }
        }
    }

    /// What both are, if they are of a kind.
    fn join(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Bytes { are_text: a }, Self::Bytes { are_text: b }) => {
                Some(Self::Bytes { are_text: a && b })
            }
            (Self::Floats, Self::Floats) => Some(Self::Floats),
            (Self::Ints { fit_32_bits: a }, Self::Ints { fit_32_bits: b }) => {
                Some(Self::Ints { fit_32_bits: a && b })
            }
            _ => None,
        }
    }
}

impl Shape {
    fn add(&mut self, values: Option<&Values>) {
        self.records += 1;
        let Some(values) = values else {
            self.is_list = true;
            return;
        };
        self.is_list |= values.len() != 1;
        let (new, words) = (Kind::of(values), values.words());
        match self.kind {
            // An empty list may be of any kind.
            _ if values.len() == 0 => _ = self.kind_of_none.get_or_insert(new),
            None => self.kind = Some((new, words)),
            Some((old, old_words)) => match old.join(new) {
                Some(both) => self.kind = Some((both, words)),
                None => _ = self.mixed.get_or_insert((old_words, words)),
            },
        }
    }

    /// The column that holds such values, if one does.
    fn column(&self) -> Option<ColumnType> {
        let scalar = match self.kind.map(|(kind, _)| kind).or(self.kind_of_none)? {
            Kind::Bytes { are_text: true } => ScalarType::String,
            Kind::Bytes { are_text: false } => return None,
            Kind::Floats => ScalarType::Float32,
            Kind::Ints { fit_32_bits: true } if self.is_list => ScalarType::Int32,
            Kind::Ints { .. } => ScalarType::Int64,
        };
        Some(if self.is_list { ColumnType::List(scalar) } else { ColumnType::Scalar(scalar) })
    }
}
