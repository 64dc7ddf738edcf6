//! The table with a row a token.
//!
//! ```text
//! example 7, targets [37, 1704, 1]   ->   7 targets 0 37 "▁The" | 7 targets 1 1704 "▁quick" | 7 targets 2 1 "</s>"
//! ```

use std::sync::Arc;

use arrow::array::{
    Array, AsArray as _, Int32Builder, Int64Builder, RecordBatch, RecordBatchOptions, StringBuilder,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use seqio::{Feature, Features, QueryTable, QueryTableError, QueryTableRows};

use super::examples::{ExampleChunk, ExampleChunks, ExampleSource, Needs};
use super::projected;

/// Tokens that a batch has at least, if there are as many.
const BATCH_TOKENS: usize = 8192;

/// A row a token.
#[derive(Debug)]
pub(super) struct TokenTable {
    source: ExampleSource,
    features: Features,
}

impl TokenTable {
    /// Of these examples, with these vocabularies.
    pub(super) fn new(source: ExampleSource, features: Features) -> Self {
        Self { source, features }
    }
}

/// Its columns.
pub(super) fn columns() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("example", DataType::Int64, false),
        Field::new("feature", DataType::Utf8, false),
        Field::new("position", DataType::Int32, false),
        Field::new("id", DataType::Int32, false),
        Field::new("piece", DataType::Utf8, true),
    ]))
}

impl QueryTable for TokenTable {
    fn columns(&self) -> SchemaRef {
        columns()
    }

    fn read(&self, columns: &[usize]) -> Result<QueryTableRows, QueryTableError> {
        let chunks = self.source.chunks(Needs { columns: true, ..Needs::default() })?;
        Ok(Box::new(TokenRows {
            chunks,
            chunk: None,
            next: 0,
            features: self.features.clone(),
            schema: projected(&self::columns(), columns)?,
            columns: columns.to_vec(),
        }))
    }
}

struct TokenRows {
    chunks: ExampleChunks,
    chunk: Option<ExampleChunk>,
    /// The next example of the chunk.
    next: usize,
    features: Features,
    schema: SchemaRef,
    columns: Vec<usize>,
}

/// Rows that are being collected; only the columns that are wanted are filled.
#[derive(Default)]
struct Building {
    rows: usize,
    examples: Int64Builder,
    features: StringBuilder,
    positions: Int32Builder,
    ids: Int32Builder,
    pieces: StringBuilder,
}

impl Iterator for TokenRows {
    type Item = Result<RecordBatch, QueryTableError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut building = Building::default();
        while building.rows < BATCH_TOKENS {
            match &self.chunk {
                Some(chunk) if self.next < chunk.len => {
                    self.add(&mut building);
                    self.next += 1;
                }
                _ => match self.chunks.next() {
                    Some(Ok(chunk)) => (self.chunk, self.next) = (Some(chunk), 0),
                    Some(Err(error)) => return Some(Err(error)),
                    None => break,
                },
            }
        }
        (building.rows > 0).then(|| self.finish(building))
    }
}

impl TokenRows {
    /// Adds the tokens of the next example.
    fn add(&self, building: &mut Building) {
        let Some((chunk, columns)) =
            self.chunk.as_ref().and_then(|chunk| Some((chunk, chunk.columns.as_ref()?)))
        else {
            return;
        };
        let example = (chunk.first + self.next as u64) as i64;
        for (name, feature) in &self.features {
            let lists = columns.column_by_name(name).and_then(|column| column.as_list_opt::<i32>());
            let Some(lists) = lists.filter(|lists| lists.is_valid(self.next)) else { continue };
            let ids = lists.value(self.next);
            let Some(ids) = ids.as_primitive_opt::<Int32Type>() else { continue };
            building.rows += ids.len();
            for &column in &self.columns {
                building.fill(column, example, name, feature, ids.values());
            }
        }
    }

    fn finish(&self, mut building: Building) -> Result<RecordBatch, QueryTableError> {
        let rows = RecordBatchOptions::new().with_row_count(Some(building.rows));
        let columns = self.columns.iter().map(|column| building.column(*column)).collect();
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &rows)?)
    }
}

impl Building {
    fn fill(&mut self, column: usize, example: i64, name: &str, feature: &Feature, ids: &[i32]) {
        match column {
            0 => ids.iter().for_each(|_| self.examples.append_value(example)),
            1 => ids.iter().for_each(|_| self.features.append_value(name)),
            2 => (0..ids.len()).for_each(|position| self.positions.append_value(position as i32)),
            3 => self.ids.append_slice(ids),
            _ => ids.iter().for_each(|id| self.pieces.append_option(feature.vocabulary.piece(*id))),
        }
    }

    fn column(&mut self, column: usize) -> arrow::array::ArrayRef {
        match column {
            0 => Arc::new(self.examples.finish()),
            1 => Arc::new(self.features.finish()),
            2 => Arc::new(self.positions.finish()),
            3 => Arc::new(self.ids.finish()),
            _ => Arc::new(self.pieces.finish()),
        }
    }
}
