//! Examples held in memory: small data sets, tests, and the windows of a stream without a cache.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray, Int32Array, ListArray};
use arrow::datatypes::{DataType, Int32Type};

use crate::dataset::store::{ExampleStore, StoreError};
use crate::example::{ExampleId, ExampleRow, Examples, Origin};
use crate::text::quoted;

/// An [`ExampleStore`] in memory. Ids take two bytes each as long as all of a feature fit, as in a cache.
#[derive(Clone, Debug, Default)]
pub struct InMemoryExamples {
    features: Vec<String>,
    columns: Vec<Column>,
    rows: Vec<ExampleRow>,
}

/// The sequences of one feature, end to end.
#[derive(Clone, Debug)]
struct Column {
    /// Where each sequence begins, and where the last ends.
    offsets: Vec<usize>,
    ids: Ids,
}

#[derive(Clone, Debug)]
enum Ids {
    U16(Vec<u16>),
    I32(Vec<i32>),
}

impl Ids {
    fn len(&self) -> usize {
        match self {
            Self::U16(ids) => ids.len(),
            Self::I32(ids) => ids.len(),
        }
    }

    fn extend(&mut self, more: &[i32]) {
        if let Self::U16(ids) = self {
            if more.iter().all(|id| u16::try_from(*id).is_ok()) {
                ids.extend(more.iter().map(|id| *id as u16));
                return;
            }
            *self = Self::I32(ids.iter().map(|id| i32::from(*id)).collect());
        }
        if let Self::I32(ids) = self {
            ids.extend_from_slice(more);
        }
    }
}

impl InMemoryExamples {
    /// An empty store of these features.
    pub fn new(features: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut features: Vec<String> = features.into_iter().map(Into::into).collect();
        features.sort();
        features.dedup();
        let columns =
            features.iter().map(|_| Column { offsets: vec![0], ids: Ids::U16(Vec::new()) }).collect();
        Self { features, columns, rows: Vec::new() }
    }

    /// A store of these sequences: example i has the i-th of each feature. Ids are made up.
    ///
    /// # Panics
    /// If features have different numbers of sequences.
    pub fn of<'a>(features: impl IntoIterator<Item = (&'a str, Vec<Vec<i32>>)>) -> Self {
        let features: BTreeMap<&str, Vec<Vec<i32>>> = features.into_iter().collect();
        let mut store = Self::new(features.keys().copied());
        let num_examples = features.values().next().map_or(0, Vec::len);
        assert!(
            features.values().all(|sequences| sequences.len() == num_examples),
            "every example has every feature"
        );
        for example in 0..num_examples {
            let origin = Origin { file: 0, row: example as u64, offset: 0, length: 0 };
            let row = ExampleRow::new(ExampleId::new("memory", "", 0, example as u64), vec![origin]);
            let sequences: Vec<&[i32]> =
                features.values().map(|sequences| sequences[example].as_slice()).collect();
            store.push(row, &sequences);
        }
        store
    }

    /// Appends one example: its sequences in the order of [`ExampleStore::features`].
    ///
    /// # Panics
    /// If there are not as many sequences as features.
    pub fn push(&mut self, row: ExampleRow, sequences: &[&[i32]]) {
        assert_eq!(sequences.len(), self.columns.len(), "an example has one sequence a feature");
        for (column, sequence) in self.columns.iter_mut().zip(sequences) {
            column.ids.extend(sequence);
            column.offsets.push(column.ids.len());
        }
        self.rows.push(row);
    }

    /// Appends the rows `from..to` of a chunk, which must have a list-of-int32 column for each feature.
    pub fn append(&mut self, examples: &Examples, from: usize, to: usize) -> Result<(), StoreError> {
        let columns = self
            .features
            .iter()
            .map(|feature| token_column(examples, feature))
            .collect::<Result<Vec<&ListArray>, StoreError>>()?;
        for (column, lists) in self.columns.iter_mut().zip(columns) {
            for row in from..to {
                if lists.is_valid(row) {
                    let ids = lists.value(row);
                    let ids: &Int32Array = ids.as_primitive::<Int32Type>();
                    column.ids.extend(ids.values());
                }
                column.offsets.push(column.ids.len());
            }
        }
        self.rows.extend_from_slice(&examples.rows[from..to]);
        Ok(())
    }
}

fn token_column<'a>(examples: &'a Examples, feature: &str) -> Result<&'a ListArray, StoreError> {
    let schema = examples.columns.schema_ref();
    match examples.columns.column_by_name(feature) {
        Some(column) => match column.data_type() {
            DataType::List(item) if *item.data_type() == DataType::Int32 => Ok(column.as_list::<i32>()),
            found => Err(StoreError::new(format!(
                "feature `{feature}` must be a list of int32 token ids, but it is {found}"
            ))),
        },
        None => Err(StoreError::new(format!(
            "the examples have no column `{feature}`; they have {}",
            quoted(schema.fields().iter().map(|field| field.name()))
        ))),
    }
}

impl ExampleStore for InMemoryExamples {
    fn num_examples(&self) -> u64 {
        self.rows.len() as u64
    }

    fn features(&self) -> &[String] {
        &self.features
    }

    fn lengths(&self, feature: usize, examples: &[u64], out: &mut [u32]) {
        let offsets = &self.columns[feature].offsets;
        for (out, example) in out.iter_mut().zip(examples) {
            let example = *example as usize;
            *out = (offsets[example + 1] - offsets[example]) as u32;
        }
    }

    fn read_tokens(
        &self,
        feature: usize,
        example: u64,
        from: usize,
        out: &mut [i32],
    ) -> Result<(), StoreError> {
        let column = &self.columns[feature];
        let row = usize::try_from(example).unwrap_or(usize::MAX);
        let (Some(first), Some(end)) = (column.offsets.get(row), column.offsets.get(row.saturating_add(1)))
        else {
            return Err(self.no_example(example));
        };
        let start = first + from;
        if start + out.len() > *end {
            let (length, to) = (end - first, from + out.len());
            let problem =
                format!("example {example} has {length} ids of feature {feature}, not {from}..{to}");
            return Err(StoreError::new(problem));
        }
        match &column.ids {
            Ids::U16(ids) => {
                let ids = &ids[start..start + out.len()];
                out.iter_mut().zip(ids).for_each(|(out, id)| *out = i32::from(*id));
            }
            Ids::I32(ids) => out.copy_from_slice(&ids[start..start + out.len()]),
        }
        Ok(())
    }

    fn id(&self, example: u64) -> Result<ExampleId, StoreError> {
        Ok(self.row(example)?.id)
    }

    fn origins(&self, example: u64) -> Result<Vec<Origin>, StoreError> {
        Ok(self.row(example)?.origins.clone())
    }
}

impl InMemoryExamples {
    fn row(&self, example: u64) -> Result<&ExampleRow, StoreError> {
        self.rows.get(example as usize).ok_or_else(|| self.no_example(example))
    }

    fn no_example(&self, example: u64) -> StoreError {
        StoreError::new(format!("there is no example {example}; there are {}", self.rows.len()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::RecordBatch;
    use arrow::datatypes::{Field, Schema};

    use super::*;

    fn row(ordinal: u64) -> ExampleRow {
        ExampleRow::new(ExampleId::new("docs", "a", 0, ordinal), Vec::new())
    }

    #[test]
    fn sequences_are_read_back_in_parts() {
        let mut store = InMemoryExamples::new(["targets", "inputs"]);
        store.push(row(0), &[&[1, 2, 3], &[9]]);
        store.push(row(1), &[&[], &[70_000, 5]]);
        assert_eq!(store.features(), ["inputs", "targets"]);
        let mut lengths = [0; 3];
        store.lengths(0, &[1, 0, 1], &mut lengths);
        assert_eq!(lengths, [0, 3, 0]);
        let mut ids = [0; 2];
        store.read_tokens(0, 0, 1, &mut ids).unwrap();
        assert_eq!(ids, [2, 3]);
        store.read_tokens(1, 1, 0, &mut ids).unwrap();
        assert_eq!(ids, [70_000, 5]);
        store.read_tokens(1, 0, 0, &mut ids[..1]).unwrap();
        assert_eq!(ids, [9, 5]);
        let error = store.read_tokens(1, 0, 0, &mut ids).unwrap_err();
        assert_eq!(error.to_string(), "example 0 has 1 ids of feature 1, not 0..2");
        assert_eq!(
            store.read_tokens(1, 2, 0, &mut ids).unwrap_err().to_string(),
            "there is no example 2; there are 2"
        );
        assert_eq!(store.id(1).unwrap(), row(1).id);
        assert!(store.id(2).is_err());
    }

    #[test]
    fn arrow_chunks_are_appended_and_a_null_is_an_empty_sequence() {
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(1), Some(2)]),
            None,
            Some(vec![Some(3)]),
        ]);
        let schema = Schema::new(vec![Field::new("targets", lists.data_type().clone(), true)]);
        let columns = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(lists)]).unwrap();
        let examples = Examples::new(columns, (0..3).map(row).collect());
        let mut store = InMemoryExamples::new(["targets"]);
        store.append(&examples, 1, 3).unwrap();
        store.append(&examples, 0, 1).unwrap();
        let mut lengths = [0; 3];
        store.lengths(0, &[0, 1, 2], &mut lengths);
        assert_eq!(lengths, [0, 1, 2]);
        assert_eq!(store.id(0).unwrap(), row(1).id);
        let error = InMemoryExamples::new(["inputs"]).append(&examples, 0, 1).unwrap_err();
        assert_eq!(error.to_string(), "the examples have no column `inputs`; they have `targets`");
    }
}
