//! Tables with a row an example: the data's own columns, and what is known of each example besides.
//!
//! ```text
//! raw        text, lang, …, _id, _file, _row
//! examples   targets, …, _example, _id, _file, _row, _tokens, _targets_tokens
//! documents  example, id, file, row, tokens, targets_tokens
//! ```
//!
//! Beside columns of the data ours begin with `_`; a column of the data that has such a name goes before ours.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use seqio::{QueryTable, QueryTableError, QueryTableRows};

use super::examples::{ExampleChunk, ExampleSource, Needs};
use super::projected;

/// A table with a row an example.
#[derive(Debug)]
pub(super) struct ExampleTable {
    source: ExampleSource,
    schema: SchemaRef,
    columns: Vec<Column>,
}

/// What a column holds.
#[derive(Clone, Copy, Debug)]
enum Column {
    /// A column of the data.
    Data(usize),
    Example,
    Id,
    Key,
    File,
    Row,
    /// Tokens of all features.
    Tokens,
    /// Tokens of one.
    FeatureTokens(usize),
}

impl Column {
    fn needs(self) -> Needs {
        let none = Needs::default();
        match self {
            Self::Data(_) => Needs { columns: true, ..none },
            Self::Example => none,
            Self::Id | Self::Key | Self::File | Self::Row => Needs { places: true, ..none },
            Self::Tokens | Self::FeatureTokens(_) => Needs { lengths: true, ..none },
        }
    }

    fn data_type(self) -> DataType {
        match self {
            Self::Id | Self::Key | Self::File => DataType::Utf8,
            _ => DataType::Int64,
        }
    }

    fn values(self, chunk: &ExampleChunk) -> ArrayRef {
        let places = chunk.places.iter();
        match self {
            Self::Data(index) => Arc::clone(chunk.columns.as_ref().expect("it was asked for").column(index)),
            Self::Example => {
                let numbers = chunk.first..chunk.first + chunk.len as u64;
                Arc::new(Int64Array::from_iter_values(numbers.map(|number| number as i64)))
            }
            Self::Id => {
                Arc::new(StringArray::from_iter_values(places.map(|place| format!("{:?}", place.id))))
            }
            Self::Key => Arc::new(StringArray::from_iter(places.map(|place| place.key.as_deref()))),
            Self::File => Arc::new(StringArray::from_iter(places.map(|place| place.file.as_deref()))),
            Self::Row => Arc::new(Int64Array::from_iter(places.map(|place| place.row.map(|row| row as i64)))),
            Self::Tokens => {
                let tokens =
                    |row: usize| chunk.lengths.iter().map(|lengths| i64::from(lengths[row])).sum::<i64>();
                Arc::new(Int64Array::from_iter_values((0..chunk.len).map(tokens)))
            }
            Self::FeatureTokens(feature) => {
                Arc::new(Int64Array::from_iter_values(chunk.lengths[feature].iter().copied().map(i64::from)))
            }
        }
    }
}

impl ExampleTable {
    /// The rows of the source.
    pub(super) fn raw(source: ExampleSource) -> Self {
        Self::with_data(source, &[Column::Id, Column::File, Column::Row])
    }

    /// Examples at the cache boundary.
    pub(super) fn examples(source: ExampleSource) -> Self {
        let own = [Column::Example, Column::Id, Column::File, Column::Row, Column::Tokens];
        Self::with_data(source, &own)
    }

    fn with_data(source: ExampleSource, own: &[Column]) -> Self {
        let data = source.schema();
        let mut columns: Vec<Column> = (0..data.fields().len()).map(Column::Data).collect();
        let mut fields: Vec<FieldRef> = data.fields().iter().map(Arc::clone).collect();
        for (name, column) in own_columns(&source, own) {
            let name = format!("_{name}");
            if data.column_with_name(&name).is_none() {
                columns.push(column);
                fields.push(Arc::new(Field::new(name, column.data_type(), true)));
            }
        }
        Self { source, schema: Arc::new(Schema::new(fields)), columns }
    }

    /// Where examples are from, and their lengths.
    pub(super) fn documents(source: ExampleSource) -> Self {
        let own = [Column::Example, Column::Id, Column::File, Column::Row, Column::Tokens];
        let columns = own_columns(&source, &own);
        let field = |(name, column): &(String, Column)| Field::new(name, column.data_type(), true);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        Self { source, schema, columns: columns.into_iter().map(|(_, column)| column).collect() }
    }
}

/// Our columns with their names: those named, a key where there are keys, the lengths of each feature.
fn own_columns(source: &ExampleSource, own: &[Column]) -> Vec<(String, Column)> {
    let mut columns = Vec::new();
    for &column in own {
        let name = match column {
            Column::Example => "example",
            Column::Id => "id",
            Column::Key => "key",
            Column::File => "file",
            Column::Row => "row",
            Column::Tokens | Column::FeatureTokens(_) | Column::Data(_) => "tokens",
        };
        columns.push((name.to_owned(), column));
        if matches!(column, Column::Id) && source.has_keys() {
            columns.push(("key".to_owned(), Column::Key));
        }
    }
    let features = source.features().into_iter().enumerate();
    columns.extend(features.map(|(index, name)| (format!("{name}_tokens"), Column::FeatureTokens(index))));
    columns
}

impl QueryTable for ExampleTable {
    fn columns(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn read(&self, columns: &[usize]) -> Result<QueryTableRows, QueryTableError> {
        let schema = projected(&self.schema, columns)?;
        let columns: Vec<Column> = columns.iter().map(|&index| self.columns[index]).collect();
        let needs = columns.iter().map(|column| column.needs()).fold(Needs::default(), |all, needs| Needs {
            columns: all.columns || needs.columns,
            places: all.places || needs.places,
            lengths: all.lengths || needs.lengths,
        });
        let chunks = self.source.chunks(needs)?;
        Ok(Box::new(chunks.map(move |chunk| {
            let chunk = chunk?;
            let values = columns.iter().map(|column| column.values(&chunk)).collect();
            let rows = RecordBatchOptions::new().with_row_count(Some(chunk.len));
            Ok(RecordBatch::try_new_with_options(Arc::clone(&schema), values, &rows)?)
        })))
    }
}
