//! The source of a task that is a query: rows of tables in files, ordered and identified by key columns.
//!
//! ```text
//! sql    = { train = "SELECT d.id, d.text FROM docs d JOIN meta m ON d.id = m.id WHERE m.score > 0.5" }
//! key    = ["id"]
//! tables = { docs = { parquet = "docs-*.parquet" }, meta = { jsonl = "meta.jsonl" } }
//!
//! files of `train`   docs/docs-0.parquet, docs/docs-1.parquet, meta/meta.jsonl, train.sql
//! rows               of train.sql: the result sorted by `id`; the id of a row is a hash of the source's name and its key
//! ```
//!
//! The tables' files are listed so that a change of one is seen, and have no ranges; the last file of a split is its
//! result. That is read like a file which only one reader can run through: it is cut into ranges of a fixed number of
//! rows and chunks of a fixed size.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array as _, ArrayRef, AsArray as _, RecordBatch};
use arrow::datatypes::SchemaRef;
use seqio_sql::{Checked, Join, KeySorter, Rules, SortedRows, SqlError};

use crate::example::{ExampleId, ExampleRow, Examples, Origin};
use crate::key::{KeyValue, key_text};
use crate::source::numbered::{range_at, ranges_of};
use crate::source::{
    ColumnSpec, DataSource, FileRanges, ParsedChunk, RawChunk, RawChunks, RawRecords, ReadBudget,
    SourceError, SourceFile, SourceRange, SourceSpec, TABLE, convert, declared_schema,
};
use crate::sql::engine::Engine;
use crate::sql::key::key_of;
use crate::sql::pin::check_queries;
use crate::sql::result::{ResultChunks, ResultFile};
use crate::sql::source_table::open_tables;
use crate::sql::words::in_query;

/// What a result is called: `train.sql`.
const ENDING: &str = ".sql";

/// A source whose examples are the rows of queries.
#[derive(Debug)]
pub(crate) struct SqlSource {
    name: String,
    base_dir: PathBuf,
    /// Query and tables by split.
    splits: BTreeMap<String, Split>,
    key: Vec<String>,
    /// Tables with their columns declared or inferred.
    tables: BTreeMap<String, SourceSpec>,
    columns: BTreeMap<String, ColumnSpec>,
    schema: SchemaRef,
    budget: Mutex<ReadBudget>,
}

#[derive(Clone, Debug)]
struct Split {
    query: String,
    tables: Vec<String>,
    is_order_sensitive: bool,
}

impl Split {
    /// What `run` gives of the query. Joins are hashed, and sorted where that takes too much memory: the rows are the same.
    fn joined<T>(&self, run: impl Fn(Join) -> Result<T, SqlError>) -> Result<T, SqlError> {
        match run(Join::Hashed) {
            Err(SqlError::Memory { .. }) if !self.is_order_sensitive => run(Join::Sorted),
            done => done,
        }
    }
}

impl SqlSource {
    /// Opens a definition whose columns are pinned.
    pub(crate) fn new(pinned: &SourceSpec, name: &str, base_dir: &Path) -> Result<Self, SourceError> {
        let checked = check_queries(pinned, base_dir)?;
        let split = |(split, checked): (String, Checked)| {
            let query =
                pinned.splits.get(&split).and_then(|query| query.first()).cloned().unwrap_or_default();
            let Checked { tables, is_order_sensitive, .. } = checked;
            (split, Split { query, tables, is_order_sensitive })
        };
        Ok(Self {
            name: pinned.name.as_deref().unwrap_or(name).to_owned(),
            base_dir: base_dir.to_owned(),
            splits: checked.into_iter().map(split).collect(),
            key: pinned.key.clone(),
            tables: pinned
                .tables
                .iter()
                .map(|(name, table)| (name.clone(), table.source().clone()))
                .collect(),
            schema: declared_schema(&pinned.columns),
            columns: pinned.columns.clone(),
            budget: Mutex::default(),
        })
    }

    fn split(&self, name: &str) -> Result<&Split, SourceError> {
        self.splits
            .get(name)
            .ok_or_else(|| SourceError::NoSplit { split: name.to_owned(), found: self.splits() })
    }

    /// The split whose result `file` is.
    fn split_of(&self, file: &SourceFile) -> Option<(&str, &Split)> {
        let name = file.name.strip_suffix(ENDING).filter(|name| !name.contains('/'))?;
        self.splits.get_key_value(name).map(|(name, split)| (name.as_str(), split))
    }

    fn budget(&self) -> ReadBudget {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The engine with half of the memory. The sorter has a quarter; the encoders begin when the engine is done.
    fn engine(&self, split: &Split) -> Engine {
        let mut budget = self.budget();
        budget.memory_bytes /= 2;
        let tables = split.tables.iter().filter_map(|name| self.tables.get_key_value(name));
        Engine::new(open_tables(tables, &self.base_dir), &budget)
    }

    /// The places of the key in the schema.
    fn key_places(&self) -> Vec<usize> {
        self.key.iter().filter_map(|name| self.schema.index_of(name).ok()).collect()
    }

    /// The rows of a split, in order.
    fn sorted(&self, split: &Split) -> Result<SortedRows, SqlError> {
        split.joined(|join| self.sorted_by(split, join))
    }

    fn sorted_by(&self, split: &Split, join: Join) -> Result<SortedRows, SqlError> {
        let budget = self.budget();
        let key = self.key_places();
        let mut sorter = KeySorter::new(&self.schema, key, budget.memory_bytes / 4, budget.temporary)?;
        for batch in self.engine(split).run(&split.query, Rules::Reproducible, join)? {
            let batch = self.converted(&batch?)?;
            if batch.num_rows() > 0 {
                sorter.push(batch)?;
            }
        }
        sorter.finish()
    }

    /// A batch of the engine with the columns of the source.
    fn converted(&self, batch: &RecordBatch) -> Result<RecordBatch, SqlError> {
        let failed =
            |error: arrow::error::ArrowError| SqlError::Run(format!("a row cannot be read: {error}"));
        for name in &self.key {
            let nulls = batch.column_by_name(name).and_then(|column| column.logical_nulls());
            let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else { continue };
            let row = (0..batch.num_rows()).find(|&row| nulls.is_null(row)).unwrap_or_default();
            return Err(SqlError::Run(format!(
                "the key `{name}` is null in the row {}; leave such rows out, as `WHERE {name} IS NOT NULL`",
                row_in_words(batch, row)
            )));
        }
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.columns.len());
        for (name, column) in &self.columns {
            let gone = || SqlError::Run(format!("the result has no column `{name}` any more"));
            let found = batch.column_by_name(name).ok_or_else(gone)?;
            let mut bad = None;
            let converted = convert(found, column.data, &mut |row, reason| {
                bad.get_or_insert((row, reason));
            });
            if let Some((row, reason)) = bad {
                let row = row_in_words(batch, row);
                return Err(SqlError::Run(format!("`{name}` {reason} in the row {row}")));
            }
            columns.push(converted.map_err(failed)?);
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(failed)
    }
}

impl DataSource for SqlSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn splits(&self) -> Vec<String> {
        self.splits.keys().cloned().collect()
    }

    fn files(&self, split: &str) -> Result<Vec<SourceFile>, SourceError> {
        let Split { query, tables, .. } = self.split(split)?;
        let mut files = Vec::new();
        let mut hasher = blake3::Hasher::new();
        hasher.update(query.as_bytes());
        for table in tables {
            let Some(spec) = self.tables.get(table) else { continue };
            for mut file in spec.listing(table, &self.base_dir).files(TABLE)? {
                file.name = format!("{table}/{}", file.name);
                hasher.update(file.name.as_bytes());
                hasher.update(&[0]);
                hasher.update(&file.bytes.to_le_bytes());
                hasher.update(&file.modified_ns.to_le_bytes());
                files.push(file);
            }
        }
        let name = format!("{split}{ENDING}");
        let mut state = [0; 8];
        state.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        // It is another file when one of the tables' is.
        let modified_ns = i128::from(u64::from_le_bytes(state) >> 1);
        files.push(SourceFile { path: PathBuf::from(&name), name, bytes: 0, modified_ns });
        Ok(files)
    }

    fn ranges(&self, file: &SourceFile, _index: u32) -> Result<FileRanges, SourceError> {
        Ok(if self.is_result(file) { FileRanges::Streamed } else { FileRanges::Known(Vec::new()) })
    }

    fn read(
        &self,
        file: &SourceFile,
        index: u32,
        _range: Option<SourceRange>,
        skip: Box<dyn Fn(u64) -> bool + Send>,
    ) -> Result<RawChunks, SourceError> {
        let Some((name, split)) = self.split_of(file) else { return Ok(Box::new(std::iter::empty())) };
        let rows = self.sorted(split).map_err(|error| in_query(name, &error))?;
        let (schema, key) = (Arc::clone(&self.schema), self.key_places());
        let file = ResultFile { split: name.to_owned(), index, schema, key };
        Ok(Box::new(ResultChunks::new(file, rows, skip)))
    }

    fn parse(&self, _file: &SourceFile, chunk: &RawChunk) -> Result<ParsedChunk, SourceError> {
        let columns = match &chunk.records {
            RawRecords::Columns(columns) => columns.clone(),
            RawRecords::Lines(_) => RecordBatch::new_empty(Arc::clone(&self.schema)),
        };
        let key: Vec<&ArrayRef> = self.key_places().iter().map(|&at| columns.column(at)).collect();
        let rows = (0..columns.num_rows()).zip(chunk.first_ordinal..).map(|(row, ordinal)| {
            let values = key_of(&key, row);
            let bytes: Vec<Vec<u8>> = values.iter().map(KeyValue::bytes).collect();
            let offset = chunk.range.start + ordinal;
            ExampleRow {
                id: ExampleId::of_key(&self.name, bytes.iter().map(Vec::as_slice)),
                origins: vec![Origin { file: chunk.range.file, row: ordinal, offset, length: 0 }],
                key: Some(key_text(&self.key, &values).into()),
            }
        });
        let rows = rows.collect();
        Ok(ParsedChunk { examples: Examples::new(columns, rows), bad_rows: Vec::new() })
    }

    fn count_records(&self, file: &SourceFile, index: u32) -> Result<Vec<(SourceRange, u64)>, SourceError> {
        let Some((name, split)) = self.split_of(file) else { return Ok(Vec::new()) };
        let count = |join| -> Result<u64, SqlError> {
            let batches = self.engine(split).run(&split.query, Rules::Reproducible, join)?;
            let mut count = 0;
            for batch in batches {
                count += batch?.num_rows() as u64;
            }
            Ok(count)
        };
        let mut counts = ranges_of(index, split.joined(count).map_err(|error| in_query(name, &error))?);
        if counts.is_empty() {
            // A result without rows has an empty range all the same.
            counts.push((range_at(index, 0), 0));
        }
        Ok(counts)
    }

    fn line_of(&self, _file: &SourceFile, range: SourceRange, ordinal: u64) -> Result<u64, SourceError> {
        Ok(range.start + ordinal + 1)
    }

    fn set_budget(&self, budget: &ReadBudget) {
        *self.budget.lock().unwrap_or_else(PoisonError::into_inner) = budget.clone();
    }

    fn is_result(&self, file: &SourceFile) -> bool {
        self.split_of(file).is_some()
    }

    fn key(&self) -> &[String] {
        &self.key
    }
}

fn value_in_words(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) {
        return "null".to_owned();
    }
    if let Some(text) = column.as_string_opt::<i32>() {
        return KeyValue::Text(text.value(row).to_owned()).to_string();
    }
    arrow::util::display::array_value_to_string(column, row).unwrap_or_default()
}

/// The first columns of a row, for messages.
fn row_in_words(rows: &RecordBatch, row: usize) -> String {
    let schema = rows.schema();
    let columns = schema.fields().iter().zip(rows.columns()).take(6).map(|(field, column)| {
        let value = value_in_words(column, row);
        let short: String = value.chars().take(40).collect();
        let more = if short.len() < value.len() { "…" } else { "" };
        format!("{}={short}{more}", field.name())
    });
    columns.collect::<Vec<_>>().join(", ")
}
