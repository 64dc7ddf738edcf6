//! The definition of a source as plain data.
//!
//! ```text
//! { jsonl = { train = "data/train-*.jsonl", validation = ["a.jsonl", "b.jsonl.gz"] },
//!   columns = { text = "string" }, on_bad_row = "skip", name = "docs" }
//! ```

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{SeqAccess, Visitor, value::SeqAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::json;

use crate::source::arrow_source::{ArrowSource, pin_arrow_columns};
use crate::source::column::{ColumnSpec, ColumnType};
use crate::source::csv_infer::pin_csv_columns;
use crate::source::csv_source::CsvSource;
use crate::source::dialect::{CsvDialect, Dialect};
use crate::source::interleave::{CutRecords, Interleave, InterleavedSource};
use crate::source::line_source::{LineSource, pin_jsonl_columns};
use crate::source::listing::{Listing, ListingKind};
use crate::source::location::local_pattern;
use crate::source::parquet::{ParquetSource, pin_parquet_columns};
use crate::source::patterns::check_patterns;
use crate::source::program::program_only;
use crate::source::seqio_cache::pin_seqio_cache_columns;
use crate::source::table_spec::TableSpec;
use crate::source::tfrecord::{TfRecordSource, pin_tfrecord_columns};
use crate::source::{DataSource, SourceError};
use crate::split::Split;

/// A source: which files hold the examples of each split, and how they are read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "SourceTable", into = "SourceTable")]
pub struct SourceSpec {
    /// What the files are.
    pub format: SourceFormat,
    /// Split to the patterns of its files, relative to the folder of the task file; of [`SourceFormat::Sql`] to its
    /// query, of [`SourceFormat::HfDataset`] and
    /// [`SourceFormat::SeqioCache`] to its folder, of [`SourceFormat::Program`] to a name, by itself.
    pub splits: BTreeMap<String, Vec<String>>,
    /// The columns to read; empty: those that the first file has.
    pub columns: BTreeMap<String, ColumnSpec>,
    /// How the text of CSV and TSV is taken apart.
    pub dialect: Dialect,
    /// What a record that cannot be read does.
    pub on_bad_row: OnBadRow,
    /// The name that enters example ids, if not the task's.
    pub name: Option<String>,
    /// Of text: how many lines at the head of each file are no examples.
    pub skip_header_lines: u64,
    /// Whether the files of a split take turns.
    pub interleave: Option<Interleave>,
    /// Of a query: the columns of its result that order rows and identify them.
    pub key: Vec<String>,
    /// Of a query: the tables that it reads.
    pub tables: BTreeMap<String, TableSpec>,
}

/// What the files of a source are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceFormat {
    /// Lines of text: one column `text`.
    Text,
    /// One JSON object a line.
    Jsonl,
    /// Comma-separated values, or with another delimiter.
    Csv,
    /// Tab-separated values.
    Tsv,
    /// Apache Parquet.
    Parquet,
    /// Apache Arrow IPC: files (Feather version 2 too) and streams.
    Arrow,
    /// TFRecord files of `tf.train.Example`s.
    Tfrecord,
    /// Data sets that Hugging Face's `datasets` saved to disk.
    HfDataset,
    /// Caches that SeqIO wrote, in its order.
    SeqioCache,
    /// What a program gives itself.
    Program,
    /// The rows of a query over tables.
    Sql,
}

/// What a record that cannot be read does.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum OnBadRow {
    /// It stops the run, with file and line.
    #[default]
    Fail,
    /// It is passed over and counted.
    Skip,
    /// It is passed over, counted, and kept in the cache with what is wrong with it.
    SetAside,
}

impl SourceSpec {
    /// Lines of text; `("train", "data/*.txt")` for each split or pattern.
    pub fn text<S: Into<String>, P: Into<String>>(splits: impl IntoIterator<Item = (S, P)>) -> Self {
        Self::new(SourceFormat::Text, splits)
    }

    /// JSON Lines.
    pub fn jsonl<S: Into<String>, P: Into<String>>(splits: impl IntoIterator<Item = (S, P)>) -> Self {
        Self::new(SourceFormat::Jsonl, splits)
    }

    /// Comma-separated values; other delimiters by [`SourceSpec::dialect`].
    pub fn csv<S: Into<String>, P: Into<String>>(splits: impl IntoIterator<Item = (S, P)>) -> Self {
        Self::new(SourceFormat::Csv, splits)
    }

    /// Tab-separated values.
    pub fn tsv<S: Into<String>, P: Into<String>>(splits: impl IntoIterator<Item = (S, P)>) -> Self {
        Self::new(SourceFormat::Tsv, splits)
    }

    /// Parquet files.
    pub fn parquet<S: Into<String>, P: Into<String>>(splits: impl IntoIterator<Item = (S, P)>) -> Self {
        Self::new(SourceFormat::Parquet, splits)
    }

    /// Arrow IPC files and streams.
    pub fn arrow<S: Into<String>, P: Into<String>>(splits: impl IntoIterator<Item = (S, P)>) -> Self {
        Self::new(SourceFormat::Arrow, splits)
    }

    /// TFRecord files of `tf.train.Example`s.
    pub fn tfrecord<S: Into<String>, P: Into<String>>(splits: impl IntoIterator<Item = (S, P)>) -> Self {
        Self::new(SourceFormat::Tfrecord, splits)
    }

    /// Data sets that Hugging Face's `datasets` saved to disk; `("train", "saved")` for each split.
    pub fn hf_dataset<S: Into<String>, P: Into<String>>(splits: impl IntoIterator<Item = (S, P)>) -> Self {
        Self::new(SourceFormat::HfDataset, splits)
    }

    /// Caches that SeqIO wrote; `("train", "cache/my/task")` for each split, by its name there.
    pub fn seqio_cache<S: Into<String>, P: Into<String>>(splits: impl IntoIterator<Item = (S, P)>) -> Self {
        Self::new(SourceFormat::SeqioCache, splits)
    }

    /// What a program gives itself; `("train", "stories")` for each split, by the name it is registered under.
    pub fn program<S: Into<String>, P: Into<String>>(splits: impl IntoIterator<Item = (S, P)>) -> Self {
        Self::new(SourceFormat::Program, splits)
    }

    /// Queries; `("train", "SELECT …")` for each split. They need a [`key`](Self::key) and [`tables`](Self::table).
    pub fn sql<S: Into<String>, P: Into<String>>(splits: impl IntoIterator<Item = (S, P)>) -> Self {
        Self::new(SourceFormat::Sql, splits)
    }

    pub(super) fn new<S: Into<String>, P: Into<String>>(
        format: SourceFormat,
        splits: impl IntoIterator<Item = (S, P)>,
    ) -> Self {
        let spec = Self {
            format,
            splits: BTreeMap::new(),
            columns: BTreeMap::new(),
            dialect: Dialect::default(),
            on_bad_row: OnBadRow::Fail,
            name: None,
            skip_header_lines: 0,
            interleave: None,
            key: Vec::new(),
            tables: BTreeMap::new(),
        };
        splits.into_iter().fold(spec, |spec, (split, pattern)| spec.files(split, pattern))
    }

    /// Adds a pattern to a split.
    #[must_use]
    pub fn files(mut self, split: impl Into<String>, pattern: impl Into<String>) -> Self {
        self.splits.entry(split.into()).or_default().push(pattern.into());
        self
    }

    /// Declares a column to read.
    #[must_use]
    pub fn column(mut self, name: impl Into<String>, column: impl Into<ColumnSpec>) -> Self {
        self.columns.insert(name.into(), column.into());
        self
    }

    /// Says how the text of CSV or TSV is taken apart.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Says what a record that cannot be read does.
    #[must_use]
    pub fn on_bad_row(mut self, on_bad_row: OnBadRow) -> Self {
        self.on_bad_row = on_bad_row;
        self
    }

    /// Passes over the first lines of each file of text.
    #[must_use]
    pub fn skip_header_lines(mut self, lines: u64) -> Self {
        self.skip_header_lines = lines;
        self
    }

    /// Lets the files of a split take turns.
    #[must_use]
    pub fn interleave(mut self, interleave: Interleave) -> Self {
        self.interleave = Some(interleave);
        self
    }

    /// Names the columns of a query's result that order rows and identify them.
    #[must_use]
    pub fn key<C: Into<String>>(mut self, columns: impl IntoIterator<Item = C>) -> Self {
        self.key = columns.into_iter().map(Into::into).collect();
        self
    }

    /// Adds a table that queries can read.
    #[must_use]
    pub fn table(mut self, name: impl Into<String>, table: TableSpec) -> Self {
        self.tables.insert(name.into(), table);
        self
    }

    /// Gives the source a name of its own.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sees that the definition makes sense, without a look at any file.
    pub fn check(&self) -> Result<(), SourceError> {
        let refuse = |problem: String| Err(SourceError::Definition { problem });
        if self.splits.is_empty() {
            return refuse("the source has no splits; name one, as `{ train = \"data/*.txt\" }`".to_owned());
        }
        for (split, patterns) in &self.splits {
            if let Err(error) = Split::whole(split) {
                return refuse(error.to_string());
            }
            if self.format != SourceFormat::Sql
                && (patterns.is_empty() || patterns.iter().any(String::is_empty))
            {
                return refuse(format!(
                    "split `{split}` has an empty pattern or none; leave it out or name its files"
                ));
            }
            if matches!(self.format, SourceFormat::HfDataset | SourceFormat::SeqioCache) && patterns.len() > 1
            {
                return refuse(format!("split `{split}` is in one folder; name that alone"));
            }
            if self.format == SourceFormat::Program {
                if patterns.len() > 1 {
                    return refuse(format!("split `{split}` is of one source; name that alone"));
                }
                continue;
            }
            patterns.iter().try_for_each(|pattern| local_pattern(pattern).map(drop))?;
        }
        self.check_order()?;
        if self.format == SourceFormat::Text && !self.columns.is_empty() {
            return refuse("lines of text have the one column `text`; leave `columns` out".to_owned());
        }
        match self.format {
            SourceFormat::Csv | SourceFormat::Tsv => self.check_dialect()?,
            _ if self.dialect != Dialect::default() => {
                return refuse("only `csv` and `tsv` have a `dialect`; leave it out".to_owned());
            }
            _ => {}
        }
        if self.name.as_deref() == Some("") {
            return refuse("the source's `name` is empty; leave it out or give it one".to_owned());
        }
        if self.format == SourceFormat::Sql {
            return self.check_query();
        }
        if !self.key.is_empty() || !self.tables.is_empty() {
            return refuse("`key` and `tables` are for `sql`; leave them out".to_owned());
        }
        Ok(())
    }

    /// Sees that what is passed over and whose turn it is make sense for the format.
    fn check_order(&self) -> Result<(), SourceError> {
        let part =
            |key: &str, problem: String| Err(SourceError::Part { keys: vec![key.to_owned()], problem });
        if self.skip_header_lines > 0 && self.format != SourceFormat::Text {
            let problem = "only `text` has `skip_header_lines`; leave it out (of `csv` the header is known)";
            return part("skip_header_lines", problem.to_owned());
        }
        let Some(interleave) = self.interleave else { return Ok(()) };
        match self.format {
            SourceFormat::Text
            | SourceFormat::Jsonl
            | SourceFormat::Csv
            | SourceFormat::Tsv
            | SourceFormat::Tfrecord => {}
            SourceFormat::SeqioCache => {
                return part(
                    "interleave",
                    "caches of SeqIO are read in its order; leave `interleave` out".to_owned(),
                );
            }
            SourceFormat::Parquet
            | SourceFormat::Arrow
            | SourceFormat::HfDataset
            | SourceFormat::Program
            | SourceFormat::Sql => {
                let problem = "only files of `text`, `jsonl`, `csv`, `tsv` and `tfrecord` take turns; leave `interleave` out";
                return part("interleave", problem.to_owned());
            }
        }
        match interleave.problem() {
            Some(problem) => part("interleave", problem),
            None => Ok(()),
        }
    }

    /// Sees that queries have what they need, without a look at what they say.
    fn check_query(&self) -> Result<(), SourceError> {
        let part = |keys: &[&str], problem: String| {
            Err(SourceError::Part { keys: keys.iter().copied().map(str::to_owned).collect(), problem })
        };
        if !cfg!(feature = "sql") {
            return part(&["sql"], "this program was built without SQL (feature `sql`)".to_owned());
        }
        for (split, queries) in &self.splits {
            if queries.len() != 1 || queries.iter().any(|query| query.trim().is_empty()) {
                return part(&["sql", split], format!("split `{split}` needs one query"));
            }
        }
        if self.key.is_empty() {
            let problem = "a query needs a `key`: the columns of its result that name each row, and by which rows are \
                           ordered, as `key = [\"id\"]`";
            return part(&["sql"], problem.to_owned());
        }
        for (index, name) in self.key.iter().enumerate() {
            if name.is_empty() || self.key[..index].contains(name) {
                return part(&["key"], format!("`key` names `{name}` twice or not at all"));
            }
        }
        if self.on_bad_row != OnBadRow::Fail {
            let problem = "a query cannot pass over bad records, as each could change other rows; leave `on_bad_row` \
                           out and mend the tables, or declare only the `columns` that are needed";
            return part(&["on_bad_row"], problem.to_owned());
        }
        for (name, table) in &self.tables {
            let mut letters = name.chars();
            let is_word = letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
                && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
            if !is_word {
                let problem = format!("`{name}` cannot name a table, only letters, digits and `_`");
                return part(&["tables", name], problem);
            }
            if let Err(error) = table.source().check() {
                return part(&["tables", name], format!("table `{name}`: {error}"));
            }
        }
        Ok(())
    }

    fn check_dialect(&self) -> Result<(), SourceError> {
        let refuse = |problem: String| Err(SourceError::Definition { problem });
        let dialect = self.csv_dialect()?;
        let lists = |(_, column): &(&String, &ColumnSpec)| matches!(column.data, ColumnType::List(_));
        if let Some((name, column)) = self.columns.iter().find(lists) {
            return refuse(format!(
                "column `{name}` is `{column}`, but a field of CSV is one value; declare it as a `string`, or use `jsonl`, \
                 `parquet` or `arrow`"
            ));
        }
        let names = dialect.names.unwrap_or_default();
        let missing = |(name, column): &(&String, &ColumnSpec)| {
            !column.optional && !names.is_empty() && !names.contains(name)
        };
        match self.columns.iter().find(missing) {
            Some((name, _)) => {
                refuse(format!("`header` names no column `{name}`, only {}", crate::text::quoted(&names)))
            }
            None => Ok(()),
        }
    }

    /// The dialect of CSV or TSV with its defaults.
    pub(crate) fn csv_dialect(&self) -> Result<CsvDialect, SourceError> {
        let problem = |problem| SourceError::Definition { problem: format!("`dialect`: {problem}") };
        self.dialect.resolve(self.format).map_err(problem)
    }

    /// The same definition with its columns declared: looks at the first file where they are not, and sees that the
    /// first file has them where they are. Every pattern must match something.
    pub(crate) fn pin(&self, name: &str, base_dir: &Path) -> Result<Self, SourceError> {
        self.check()?;
        #[cfg(feature = "sql")]
        if self.format == SourceFormat::Sql {
            return crate::sql::pin_queries(self, name, base_dir);
        }
        if self.format == SourceFormat::Program {
            return Err(program_only(self.splits.values().flatten().next().map_or("", String::as_str)));
        }
        for patterns in self.splits.values() {
            check_patterns(base_dir, patterns)?;
        }
        let listing = self.listing(name, base_dir);
        if self.format == SourceFormat::HfDataset {
            // Which files a split has is known from its folder alone.
            listing.split_names().iter().try_for_each(|split| listing.files(split).map(drop))?;
        }
        let columns = match self.format {
            SourceFormat::Text | SourceFormat::Sql | SourceFormat::Program => BTreeMap::new(),
            SourceFormat::Jsonl => pin_jsonl_columns(&listing, &self.columns)?,
            SourceFormat::Csv | SourceFormat::Tsv => {
                pin_csv_columns(&listing, &self.csv_dialect()?, &self.columns)?
            }
            SourceFormat::Parquet => pin_parquet_columns(&listing, &self.columns)?,
            SourceFormat::Arrow | SourceFormat::HfDataset => pin_arrow_columns(&listing, &self.columns)?,
            SourceFormat::Tfrecord => pin_tfrecord_columns(&listing, &self.columns)?,
            SourceFormat::SeqioCache => pin_seqio_cache_columns(&listing, &self.columns)?,
        };
        Ok(Self { columns, ..self.clone() })
    }

    /// Opens the source of a task called `name`, with patterns relative to `base_dir`.
    pub fn open(&self, name: &str, base_dir: &Path) -> Result<Arc<dyn DataSource>, SourceError> {
        self.pin(name, base_dir)?.open_pinned(name, base_dir)
    }

    /// Opens a definition whose columns are declared, without a look at any file.
    pub(crate) fn open_pinned(
        &self,
        name: &str,
        base_dir: &Path,
    ) -> Result<Arc<dyn DataSource>, SourceError> {
        let listing = self.listing(name, base_dir);
        let columns = self.columns.clone();
        Ok(match self.format {
            SourceFormat::Text => {
                self.in_turns(LineSource::text(listing).without_header(self.skip_header_lines))
            }
            SourceFormat::Jsonl => self.in_turns(LineSource::jsonl(listing, columns)),
            SourceFormat::Csv | SourceFormat::Tsv => {
                self.in_turns(CsvSource::new(listing, self.csv_dialect()?, columns))
            }
            SourceFormat::Program => {
                return Err(program_only(self.splits.values().flatten().next().map_or("", String::as_str)));
            }
            SourceFormat::Parquet => Arc::new(ParquetSource::new(listing, columns)),
            SourceFormat::Arrow | SourceFormat::HfDataset => Arc::new(ArrowSource::new(listing, columns)),
            SourceFormat::Tfrecord => self.in_turns(TfRecordSource::new(listing, columns)),
            SourceFormat::SeqioCache => {
                let shards = TfRecordSource::of_seqio_cache(listing, columns);
                Arc::new(InterleavedSource::new(Arc::new(shards), Interleave::default()))
            }
            #[cfg(feature = "sql")]
            SourceFormat::Sql => Arc::new(crate::sql::SqlSource::new(self, name, base_dir)?),
            #[cfg(not(feature = "sql"))]
            SourceFormat::Sql => {
                self.check()?;
                unreachable!("`check` refuses SQL in a program without it")
            }
        })
    }

    /// A source whose files take turns if the definition says so.
    fn in_turns<S: CutRecords + 'static>(&self, files: S) -> Arc<dyn DataSource> {
        match self.interleave {
            Some(order) => Arc::new(InterleavedSource::new(Arc::new(files), order)),
            None => Arc::new(files),
        }
    }

    pub(crate) fn listing(&self, name: &str, base_dir: &Path) -> Listing {
        Listing {
            name: self.name.as_deref().unwrap_or(name).to_owned(),
            base_dir: base_dir.to_owned(),
            splits: self.splits.clone(),
            kind: match self.format {
                SourceFormat::HfDataset => ListingKind::SavedDataset,
                SourceFormat::SeqioCache => ListingKind::SeqioCache,
                _ => ListingKind::Files,
            },
        }
    }
}

/// The form in task files. A key that is not required and has no default names a kind.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SourceTable {
    /// Lines of text: one column `text`, each line an example, empty ones too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "train": "books/**/*.txt" }))]
    text: Option<BTreeMap<String, Patterns>>,
    /// A JSON object a line; blank lines are passed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "train": "data/*.jsonl.gz", "validation": "data/valid.jsonl" }))]
    jsonl: Option<BTreeMap<String, Patterns>>,
    /// Comma-separated values, or with another delimiter: a record names the columns, the others are examples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "train": "tables/*.csv" }))]
    csv: Option<BTreeMap<String, Patterns>>,
    /// Tab-separated values, in which quotes are text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "train": "tables/*.tsv.gz" }))]
    tsv: Option<BTreeMap<String, Patterns>>,
    /// Parquet files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "train": ["part-0*.parquet", "more/*.parquet"] }))]
    parquet: Option<BTreeMap<String, Patterns>>,
    /// Arrow IPC files and streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "train": "data-*.arrow" }))]
    arrow: Option<BTreeMap<String, Patterns>>,
    /// TFRecord files of `tf.train.Example`s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "train": "train.tfrecord-*-of-*" }))]
    tfrecord: Option<BTreeMap<String, Patterns>>,
    /// Data sets that Hugging Face's `datasets` saved to disk: the folder of each split, or of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "train": "saved", "validation": "saved" }))]
    hf_dataset: Option<BTreeMap<String, String>>,
    /// Caches that SeqIO wrote: the folder of each split's, read in SeqIO's order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "train": "cache/my/task", "validation": "cache/my/task" }))]
    seqio_cache: Option<BTreeMap<String, String>>,
    /// What a program that uses this library gives itself: the name of the source that it registered, for each split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "train": "stories" }))]
    program: Option<BTreeMap<String, String>>,
    /// The rows of a query over `tables`, for each split, ordered and named by `key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        example = json!({ "train": "SELECT d.id, d.text FROM docs d JOIN meta m ON d.id = m.id WHERE m.score > 0.5" })
    )]
    sql: Option<BTreeMap<String, String>>,
    /// `sql` only, and required there: the columns of the result that order rows and name them.
    #[serde(default, skip_serializing_if = "no_patterns")]
    #[schemars(
        schema_with = "key_schema",
        example = vec!["id"],
        extend("x-default" = "none", "x-type" = "column or list of columns")
    )]
    key: Patterns,
    /// `sql` only: the tables that queries read, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(
        example = json!({ "docs": { "parquet": "docs-*.parquet" }, "meta": { "csv": "meta.csv" } }),
        extend("x-default" = "none", "x-type" = "table")
    )]
    tables: BTreeMap<String, TableSpec>,
    /// The columns to read and their types.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(
        example = json!({ "text": "string", "title": "string?" }),
        extend("x-default" = "those of the first file", "x-type" = "table of column = type")
    )]
    columns: BTreeMap<String, ColumnSpec>,
    /// `csv` and `tsv` only: how their text is taken apart.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(
        example = json!({ "delimiter": ";", "header": ["text", "label"] }),
        extend("x-default" = "see below", "x-type" = "table")
    )]
    dialect: Dialect,
    /// `text` only: how many lines at the head of each file are passed over.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(example = 1, extend("default" = 0))]
    skip_header_lines: u64,
    /// `text`, `jsonl`, `csv`, `tsv` and `tfrecord` only: the files of a split take turns, as SeqIO reads them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        example = Interleave { cycle_length: 16, block_length: 16 },
        extend("x-default" = "files one after the other", "x-type" = "table")
    )]
    interleave: Option<Interleave>,
    /// What a record that cannot be read does.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(example = OnBadRow::Skip, extend("default" = "fail"))]
    on_bad_row: OnBadRow,
    /// The name that enters example ids: with one of its own, a renamed task keeps its cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"docs", extend("x-default" = "the task's"))]
    name: Option<String>,
}

fn no_patterns(patterns: &Patterns) -> bool {
    patterns.0.is_empty()
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl TryFrom<SourceTable> for SourceSpec {
    type Error = String;

    fn try_from(table: SourceTable) -> Result<Self, String> {
        let formats = [
            (SourceFormat::Text, table.text),
            (SourceFormat::Jsonl, table.jsonl),
            (SourceFormat::Csv, table.csv),
            (SourceFormat::Tsv, table.tsv),
            (SourceFormat::Parquet, table.parquet),
            (SourceFormat::Arrow, table.arrow),
            (SourceFormat::Tfrecord, table.tfrecord),
            (SourceFormat::HfDataset, table.hf_dataset.map(single)),
            (SourceFormat::SeqioCache, table.seqio_cache.map(single)),
            (SourceFormat::Program, table.program.map(single)),
            (SourceFormat::Sql, table.sql.map(single)),
        ];
        let mut given = formats.into_iter().filter_map(|(format, splits)| Some((format, splits?)));
        let (Some((format, splits)), None) = (given.next(), given.next()) else {
            return Err(
                "a source has exactly one of `text`, `jsonl`, `csv`, `tsv`, `parquet`, `arrow`, `tfrecord`, `hf_dataset`, `seqio_cache`, \
                 `program` and `sql`"
                    .to_owned(),
            );
        };
        let splits = splits.into_iter().map(|(split, patterns)| (split, patterns.0)).collect();
        Ok(Self {
            format,
            splits,
            columns: table.columns,
            dialect: table.dialect,
            on_bad_row: table.on_bad_row,
            name: table.name,
            skip_header_lines: table.skip_header_lines,
            interleave: table.interleave,
            key: table.key.0,
            tables: table.tables,
        })
    }
}

/// One folder or query a split, as a pattern.
fn single(splits: BTreeMap<String, String>) -> BTreeMap<String, Patterns> {
    splits.into_iter().map(|(split, one)| (split, Patterns(vec![one]))).collect()
}

/// The folder or query of each split.
fn joined(splits: BTreeMap<String, Patterns>) -> BTreeMap<String, String> {
    splits.into_iter().map(|(split, one)| (split, one.0.into_iter().collect())).collect()
}

impl From<SourceSpec> for SourceTable {
    fn from(spec: SourceSpec) -> Self {
        let splits: BTreeMap<_, _> =
            spec.splits.into_iter().map(|(split, patterns)| (split, Patterns(patterns))).collect();
        let of = |format| (spec.format == format).then(|| splits.clone());
        Self {
            text: of(SourceFormat::Text),
            jsonl: of(SourceFormat::Jsonl),
            csv: of(SourceFormat::Csv),
            tsv: of(SourceFormat::Tsv),
            parquet: of(SourceFormat::Parquet),
            arrow: of(SourceFormat::Arrow),
            tfrecord: of(SourceFormat::Tfrecord),
            hf_dataset: of(SourceFormat::HfDataset).map(joined),
            seqio_cache: of(SourceFormat::SeqioCache).map(joined),
            program: of(SourceFormat::Program).map(joined),
            sql: of(SourceFormat::Sql).map(joined),
            key: Patterns(spec.key),
            tables: spec.tables,
            columns: spec.columns,
            dialect: spec.dialect,
            skip_header_lines: spec.skip_header_lines,
            interleave: spec.interleave,
            on_bad_row: spec.on_bad_row,
            name: spec.name,
        }
    }
}

/// The form of `key`.
fn key_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" }, "minItems": 1 }]
    })
}

/// One pattern, or a list of them.
#[derive(Clone, Default)]
pub(super) struct Patterns(pub(super) Vec<String>);

impl JsonSchema for Patterns {
    fn schema_name() -> Cow<'static, str> {
        "Patterns".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" }, "minItems": 1 }],
            "description": "a file pattern or a list of file patterns",
            "x-type": "pattern or list of patterns",
        })
    }
}

impl Serialize for Patterns {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [pattern] => pattern.serialize(serializer),
            patterns => patterns.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Patterns {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PatternsReader)
    }
}

struct PatternsReader;

impl<'de> Visitor<'de> for PatternsReader {
    type Value = Patterns;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a file pattern or a list of file patterns")
    }

    fn visit_str<E>(self, pattern: &str) -> Result<Patterns, E> {
        Ok(Patterns(vec![pattern.to_owned()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, patterns: A) -> Result<Patterns, A::Error> {
        Deserialize::deserialize(SeqAccessDeserializer::new(patterns)).map(Patterns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::column::ScalarType;

    const TOML: &str = r#"
        on_bad_row = "skip"
        name = "docs"
        jsonl = { train = "data/train-*.jsonl", validation = ["a.jsonl", "b.jsonl.gz"] }
        columns = { text = "string", ids = "list<int32>?" }
    "#;

    fn parse_error(toml: &str) -> String {
        toml::from_str::<SourceSpec>(toml).unwrap_err().message().to_owned()
    }

    #[test]
    fn the_builder_gives_what_the_table_gives_and_prints_back() {
        let parsed: SourceSpec = toml::from_str(TOML).unwrap();
        let built = SourceSpec::jsonl([
            ("train", "data/train-*.jsonl"),
            ("validation", "a.jsonl"),
            ("validation", "b.jsonl.gz"),
        ])
        .column("text", ScalarType::String)
        .column("ids", ColumnSpec::from(ColumnType::List(ScalarType::Int32)).optional())
        .on_bad_row(OnBadRow::Skip)
        .name("docs");
        assert_eq!(parsed, built);
        assert_eq!(toml::from_str::<SourceSpec>(&toml::to_string(&built).unwrap()).unwrap(), built);
        insta::assert_snapshot!(
            serde_json::to_string(&SourceSpec::text([("train", "a.txt")])).unwrap(),
            @r#"{"text":{"train":"a.txt"}}"#
        );
    }

    #[test]
    fn mistakes_in_the_table_are_explained() {
        insta::assert_snapshot!(parse_error("name = \"x\""), @"a source has exactly one of `text`, `jsonl`, `csv`, `tsv`, `parquet`, `arrow`, `tfrecord`, `hf_dataset`, `seqio_cache`, `program` and `sql`");
        insta::assert_snapshot!(parse_error("text = { train = \"a\" }\njsonl = { train = \"a\" }"), @"a source has exactly one of `text`, `jsonl`, `csv`, `tsv`, `parquet`, `arrow`, `tfrecord`, `hf_dataset`, `seqio_cache`, `program` and `sql`");
        insta::assert_snapshot!(parse_error("text = { train = 3 }"), @"invalid type: integer `3`, expected a file pattern or a list of file patterns");
        insta::assert_snapshot!(parse_error("xls = { train = \"a\" }"), @"unknown field `xls`, expected one of `text`, `jsonl`, `csv`, `tsv`, `parquet`, `arrow`, `tfrecord`, `hf_dataset`, `seqio_cache`, `program`, `sql`, `key`, `tables`, `columns`, `dialect`, `skip_header_lines`, `interleave`, `on_bad_row`, `name`");
        insta::assert_snapshot!(parse_error("jsonl = { train = \"a\" }\non_bad_row = \"ignore\""), @"unknown variant `ignore`, expected one of `fail`, `skip`, `set_aside`");
        assert!(
            parse_error("jsonl = { train = \"a\" }\ncolumns = { a = \"str\" }")
                .starts_with("unknown column type `str`")
        );
    }

    #[test]
    fn definitions_without_sense_are_refused_before_any_file_is_looked_at() {
        let refused = |spec: SourceSpec| spec.check().unwrap_err().to_string();
        let none: [(&str, &str); 0] = [];
        insta::assert_snapshot!(refused(SourceSpec::text(none)), @r#"the source has no splits; name one, as `{ train = "data/*.txt" }`"#);
        insta::assert_snapshot!(refused(SourceSpec::text([("train", "")])), @"split `train` has an empty pattern or none; leave it out or name its files");
        insta::assert_snapshot!(refused(toml::from_str("text = { train = [] }").unwrap()), @"split `train` has an empty pattern or none; leave it out or name its files");
        insta::assert_snapshot!(refused(SourceSpec::text([("a", "b")]).column("text", ScalarType::String)), @"lines of text have the one column `text`; leave `columns` out");
        insta::assert_snapshot!(refused(SourceSpec::text([("train[:5]", "b")])), @"split `train[:5]`: `[` cannot stand in the name, only letters, digits, `_`, `-` and `.`; a split is a name, or a slice as `train[:1%]`, `train[100:200]` or `train[50%:]`");
        insta::assert_snapshot!(refused(SourceSpec::csv([("a", "b")]).column("ids", ColumnType::List(ScalarType::Int32))), @"column `ids` is `list<int32>`, but a field of CSV is one value; declare it as a `string`, or use `jsonl`, `parquet` or `arrow`");
        insta::assert_snapshot!(refused(toml::from_str("csv = { train = 'a' }\ncolumns = { c = 'string' }\ndialect = { header = ['a', 'b'] }").unwrap()), @"`header` names no column `c`, only `a`, `b`");
        insta::assert_snapshot!(refused(toml::from_str("jsonl = { train = 'a' }\ndialect = { trim = true }").unwrap()), @"only `csv` and `tsv` have a `dialect`; leave it out");
        insta::assert_snapshot!(refused(toml::from_str("tsv = { train = 'a' }\ndialect = { delimiter = ';' }").unwrap()), @"`dialect`: the delimiter of `tsv` is a tab; for `;` write `csv` instead of `tsv`");
        insta::assert_snapshot!(refused(SourceSpec::text([("a", "b")]).name("")), @"the source's `name` is empty; leave it out or give it one");
    }
}
