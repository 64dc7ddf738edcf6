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

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int32Type, Int64Type, Schema, SchemaRef};

use crate::example::{ExampleId, ExampleRow, Examples, Origin};
use crate::key::{KeyValue, key_text};
use crate::source::{
    ColumnSpec, ColumnType, DataSource, FileRanges, ParsedChunk, RawChunk, RawChunks, RawRecords, ReadBudget,
    ScalarType, SourceError, SourceFile, SourceRange, SourceSpec, TABLE, column_type, convert,
    declared_schema,
};
use crate::sql::engine::{Checked, Engine, Join};
use crate::sql::error::SqlError;
use crate::sql::order::review;
use crate::sql::sort::{KeySorter, NextRow, SortedRow, SortedRows, gather};
use crate::sql::source_table::SourceTable;
use crate::sql::table::Table;
use crate::text::{nearest, quoted};

/// Rows of a range of a result.
pub(crate) const RANGE_ROWS: u64 = 1 << 16;
/// A chunk has at most this many rows,
const CHUNK_ROWS: usize = 1024;
/// and ends with the row that brings it to this many bytes.
const CHUNK_BYTES: u64 = 1 << 20;
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

/// The definition with the columns of its tables and of its result, once every query has been checked.
pub(crate) fn pin_queries(spec: &SourceSpec, name: &str, base_dir: &Path) -> Result<SourceSpec, SourceError> {
    let mut pinned = spec.clone();
    for (table, table_spec) in &mut pinned.tables {
        let opened = table_spec.source().pin(table, base_dir);
        let source = opened.map_err(|error| at(["tables", table], error, &format!("table `{table}`")))?;
        *table_spec = source.into();
    }
    let mut found: Option<(String, BTreeMap<String, ColumnSpec>)> = None;
    for (split, checked) in check_queries(&pinned, base_dir)? {
        let columns = result_columns(&checked.schema, &spec.key)
            .map_err(|problem| in_query(&split, &SqlError::query(problem)))?;
        match &found {
            None => found = Some((split, columns)),
            Some((first, of_first)) if *of_first != columns => {
                return Err(in_query(
                    &split,
                    &SqlError::query(format!(
                        "its columns are {}, and those of split `{first}` are {}; a source has the same columns in \
                         all splits",
                        in_words(&columns),
                        in_words(of_first)
                    )),
                ));
            }
            Some(_) => {}
        }
    }
    let columns = found.map(|(_, columns)| columns).unwrap_or_default();
    if !spec.columns.is_empty() && spec.columns != columns {
        return Err(SourceError::Definition {
            problem: format!(
                "the query of `{name}` gives the columns {}, and `columns` says {}; leave `columns` out, or write a CAST",
                in_words(&columns),
                in_words(&spec.columns)
            ),
        });
    }
    pinned.columns = columns;
    Ok(pinned)
}

fn check_queries(pinned: &SourceSpec, base_dir: &Path) -> Result<Vec<(String, Checked)>, SourceError> {
    let tables = open_tables(pinned.tables.iter().map(|(name, table)| (name, table.source())), base_dir);
    let engine = Engine::new(tables, ReadBudget::default());
    let query = |(split, query): (&String, &Vec<String>)| {
        let query = query.first().map_or("", String::as_str);
        let checked = engine.check(query, review).map_err(|error| in_query(split, &error))?;
        Ok((split.clone(), checked))
    };
    pinned.splits.iter().map(query).collect()
}

/// Tables that are pinned, for the engine.
fn open_tables<'a>(
    tables: impl Iterator<Item = (&'a String, &'a SourceSpec)>,
    base_dir: &Path,
) -> BTreeMap<String, Arc<dyn Table>> {
    let open = |(name, table): (&String, &SourceSpec)| {
        let table: Arc<dyn Table> = Arc::new(SourceTable::new(name, table.clone(), base_dir));
        (name.clone(), table)
    };
    tables.map(open).collect()
}

/// An error of a query of this split.
fn in_query(split: &str, error: &SqlError) -> SourceError {
    match error {
        SqlError::Source(error) => error.again(),
        error => SourceError::Part {
            keys: vec!["sql".to_owned(), split.to_owned()],
            problem: format!("query of split `{split}`: {error}"),
        },
    }
}

/// An error of a part of the definition. One of the system keeps its kind.
fn at<const N: usize>(keys: [&str; N], error: SourceError, within: &str) -> SourceError {
    match error {
        SourceError::Definition { problem } => SourceError::Part {
            keys: keys.map(str::to_owned).to_vec(),
            problem: format!("{within}: {problem}"),
        },
        other => other,
    }
}

fn in_words(columns: &BTreeMap<String, ColumnSpec>) -> String {
    let columns: Vec<String> = columns.iter().map(|(name, column)| format!("`{name}` ({column})")).collect();
    if columns.is_empty() { "none".to_owned() } else { columns.join(", ") }
}

/// The columns that examples get from those of a result, or why they cannot.
fn result_columns(schema: &Schema, key: &[String]) -> Result<BTreeMap<String, ColumnSpec>, String> {
    let mut columns = BTreeMap::new();
    for field in schema.fields() {
        let name = field.name();
        let Some(data) = column_type(field.data_type()) else {
            return Err(format!(
                "column `{name}` is of type {}, which examples cannot have; {}",
                field.data_type(),
                cast_hint(name, field.data_type())
            ));
        };
        if columns.insert(name.clone(), ColumnSpec::from(data)).is_some() {
            return Err(format!("two columns are called `{name}`; give one another name with `AS`"));
        }
    }
    for name in key {
        let Some(column) = columns.get(name) else {
            let near = nearest(name, columns.keys().map(String::as_str));
            let near = near.map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"));
            return Err(format!(
                "the key `{name}` is no column of the result, which has {}{near}; select it",
                quoted(columns.keys())
            ));
        };
        match column.data {
            ColumnType::Scalar(
                ScalarType::String | ScalarType::Int32 | ScalarType::Int64 | ScalarType::Bool,
            ) => {}
            ColumnType::Scalar(_) => {
                return Err(format!(
                    "the key `{name}` is {}, and floats that look equal may not be; use a column of strings or whole \
                     numbers, or `CAST({name} AS string)`",
                    column.data.phrase()
                ));
            }
            ColumnType::List(_) => {
                return Err(format!(
                    "the key `{name}` is {}; use columns of strings, whole numbers or booleans",
                    column.data.phrase()
                ));
            }
        }
    }
    Ok(columns)
}

fn cast_hint(name: &str, data_type: &DataType) -> String {
    match data_type {
        DataType::Struct(fields) => {
            let field = fields.first().map_or("part", |field| field.name().as_str());
            format!("select its parts, as `{name}['{field}']`")
        }
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => {
            format!("write `CAST({name} AS double)` or `CAST({name} AS string)`")
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            "leave it out".to_owned()
        }
        DataType::Null => format!("say which: `CAST({name} AS string)`"),
        _ => format!("write `CAST({name} AS string)`"),
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
        Engine::new(open_tables(tables, &self.base_dir), budget)
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
        for batch in self.engine(split).run(&split.query, review, join)? {
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
        let key = self.key_places();
        Ok(Box::new(ResultChunks {
            split: name.to_owned(),
            schema: Arc::clone(&self.schema),
            key,
            index,
            skip,
            rows: Some(rows),
            next: None,
            num_rows: 0,
        }))
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
            let batches = self.engine(split).run(&split.query, review, join)?;
            let mut count = 0;
            for batch in batches {
                count += batch?.num_rows() as u64;
            }
            Ok(count)
        };
        let mut left = split.joined(count).map_err(|error| in_query(name, &error))?;
        let mut counts = Vec::new();
        let mut start = 0;
        loop {
            let rows = left.min(RANGE_ROWS);
            counts.push((range(index, start), rows));
            left -= rows;
            start += RANGE_ROWS;
            if left == 0 {
                return Ok(counts);
            }
        }
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

fn range(file: u32, start: u64) -> SourceRange {
    SourceRange { file, start, end: start + RANGE_ROWS }
}

/// The chunks of a sorted result.
struct ResultChunks {
    split: String,
    schema: SchemaRef,
    key: Vec<usize>,
    index: u32,
    skip: Box<dyn Fn(u64) -> bool + Send>,
    rows: Option<SortedRows>,
    /// The row that the next chunk begins with.
    next: Option<SortedRow>,
    /// Rows given out.
    num_rows: u64,
}

impl ResultChunks {
    /// The next row, if there is one.
    fn row(&mut self) -> Result<Option<SortedRow>, SqlError> {
        if let Some(row) = self.next.take() {
            return Ok(Some(row));
        }
        match self.rows.as_mut().and_then(Iterator::next).transpose()? {
            None => Ok(None),
            Some(NextRow::Row(row)) => Ok(Some(row)),
            Some(NextRow::SameKey(row)) => {
                let names: Vec<String> =
                    self.key.iter().map(|&at| self.schema.field(at).name().clone()).collect();
                let columns = row.columns();
                let key: Vec<&ArrayRef> = self.key.iter().map(|&at| columns.column(at)).collect();
                let key = key_text(&names, &key_of(&key, 0));
                Err(SqlError::Run(format!(
                    "several rows have the key {key}; a key names one row: add columns to `key`, or select one row for \
                     each with GROUP BY"
                )))
            }
        }
    }

    fn chunk(&mut self) -> Result<Option<RawChunk>, SqlError> {
        let start = self.num_rows / RANGE_ROWS * RANGE_ROWS;
        let first_ordinal = self.num_rows - start;
        let mut picked = Vec::new();
        let mut bytes = 0;
        while picked.len() < CHUNK_ROWS && bytes < CHUNK_BYTES && self.num_rows - start < RANGE_ROWS {
            let Some(row) = self.row()? else { break };
            bytes += row.bytes();
            picked.push(row);
            self.num_rows += 1;
        }
        if picked.is_empty() && self.num_rows > 0 {
            return Ok(None);
        }
        let failed = |error| SqlError::Run(format!("rows cannot be put together: {error}"));
        let last_of_range = self.num_rows - start == RANGE_ROWS || picked.is_empty();
        Ok(Some(RawChunk {
            range: range(self.index, start),
            first_ordinal,
            num_records: picked.len() as u64,
            first_offset: start + first_ordinal,
            records: RawRecords::Columns(gather(&self.schema, &picked).map_err(failed)?),
            last_of_range,
            damage: None,
        }))
    }

    fn next_chunk(&mut self) -> Result<Option<RawChunk>, SqlError> {
        let Some(mut chunk) = self.chunk()? else { return Ok(None) };
        if !chunk.last_of_range {
            self.next = self.row()?;
            chunk.last_of_range = self.next.is_none();
        }
        Ok(Some(chunk))
    }
}

impl Iterator for ResultChunks {
    type Item = Result<RawChunk, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.rows.as_ref()?;
            match self.next_chunk() {
                Ok(Some(chunk)) => {
                    if chunk.num_records == 0 {
                        // The only one there is.
                        self.rows = None;
                    }
                    if (self.skip)(chunk.range.start) {
                        continue;
                    }
                    return Some(Ok(chunk));
                }
                Ok(None) => {
                    self.rows = None;
                    return None;
                }
                Err(error) => {
                    self.rows = None;
                    return Some(Err(in_query(&self.split, &error)));
                }
            }
        }
    }
}

/// The key of a row whose key columns are these.
fn key_of(columns: &[&ArrayRef], row: usize) -> Vec<KeyValue> {
    let value = |column: &&ArrayRef| {
        if let Some(number) = whole_number(column, row) {
            KeyValue::Number(number)
        } else if let Some(flags) = column.as_boolean_opt() {
            KeyValue::Flag(flags.value(row))
        } else {
            // Of the types that a key can have only text is left.
            KeyValue::Text(column.as_string_opt::<i32>().map_or("", |texts| texts.value(row)).to_owned())
        }
    };
    columns.iter().map(value).collect()
}

fn whole_number(column: &ArrayRef, row: usize) -> Option<i64> {
    if let Some(numbers) = column.as_primitive_opt::<Int64Type>() {
        return Some(numbers.value(row));
    }
    column.as_primitive_opt::<Int32Type>().map(|numbers| i64::from(numbers.value(row)))
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
