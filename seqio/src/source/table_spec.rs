//! The definition of a table of a query as plain data: files, and how they are read.
//!
//! ```text
//! tables = { docs = { parquet = "docs-*.parquet" }, meta = { jsonl = ["a.jsonl", "b.jsonl.gz"], columns = { n = "int64" } } }
//! ```

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::source::column::ColumnSpec;
use crate::source::dialect::{CsvDialect, Dialect};
use crate::source::spec::{Patterns, SourceFormat, SourceSpec, is_default};

/// The one split of a table.
pub(crate) const TABLE: &str = "table";

/// A table that queries can read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "TableTable", into = "TableTable")]
pub struct TableSpec(SourceSpec);

impl TableSpec {
    /// Lines of text: one column `text`.
    pub fn text(pattern: impl Into<String>) -> Self {
        Self(SourceSpec::text([(TABLE, pattern)]))
    }

    /// JSON Lines.
    pub fn jsonl(pattern: impl Into<String>) -> Self {
        Self(SourceSpec::jsonl([(TABLE, pattern)]))
    }

    /// Comma-separated values; other delimiters by [`TableSpec::dialect`].
    pub fn csv(pattern: impl Into<String>) -> Self {
        Self(SourceSpec::csv([(TABLE, pattern)]))
    }

    /// Tab-separated values.
    pub fn tsv(pattern: impl Into<String>) -> Self {
        Self(SourceSpec::tsv([(TABLE, pattern)]))
    }

    /// Parquet files.
    pub fn parquet(pattern: impl Into<String>) -> Self {
        Self(SourceSpec::parquet([(TABLE, pattern)]))
    }

    /// Arrow IPC files and streams.
    pub fn arrow(pattern: impl Into<String>) -> Self {
        Self(SourceSpec::arrow([(TABLE, pattern)]))
    }

    /// Adds more files.
    #[must_use]
    pub fn files(self, pattern: impl Into<String>) -> Self {
        Self(self.0.files(TABLE, pattern))
    }

    /// Declares a column to read.
    #[must_use]
    pub fn column(self, name: impl Into<String>, column: impl Into<ColumnSpec>) -> Self {
        Self(self.0.column(name, column))
    }

    /// Says how the text of CSV or TSV is taken apart.
    #[must_use]
    pub fn dialect(self, dialect: Dialect) -> Self {
        Self(self.0.dialect(dialect))
    }

    /// The dialect with its defaults, of CSV and TSV.
    pub(crate) fn csv_dialect(&self) -> Option<CsvDialect> {
        match self.0.format {
            SourceFormat::Csv | SourceFormat::Tsv => self.0.csv_dialect().ok(),
            _ => None,
        }
    }

    /// The same files as a source.
    pub(crate) fn source(&self) -> &SourceSpec {
        &self.0
    }

    /// The patterns of its files.
    pub fn patterns(&self) -> &[String] {
        self.0.splits.get(TABLE).map_or(&[], Vec::as_slice)
    }

    /// What its files are.
    pub fn format(&self) -> SourceFormat {
        self.0.format
    }

    /// The columns to read; empty: those that the first file has.
    pub fn columns(&self) -> &BTreeMap<String, ColumnSpec> {
        &self.0.columns
    }
}

impl From<SourceSpec> for TableSpec {
    fn from(source: SourceSpec) -> Self {
        Self(source)
    }
}

/// A table of a query. Exactly one key names its files and says what they are.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TableTable {
    /// Lines of text: one column `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"words.txt")]
    text: Option<Patterns>,
    /// A JSON object a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"data/*.jsonl.gz")]
    jsonl: Option<Patterns>,
    /// Comma-separated values, or with another delimiter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"tables/*.csv")]
    csv: Option<Patterns>,
    /// Tab-separated values, in which quotes are text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"tables/*.tsv.gz")]
    tsv: Option<Patterns>,
    /// Parquet files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = vec!["part-0*.parquet", "more/*.parquet"])]
    parquet: Option<Patterns>,
    /// Arrow IPC files and streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"data-*.arrow")]
    arrow: Option<Patterns>,
    /// The columns to read and their types.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(
        example = json!({ "id": "int64", "title": "string?" }),
        extend("x-default" = "those of the first file", "x-type" = "table of column = type")
    )]
    columns: BTreeMap<String, ColumnSpec>,
    /// `csv` and `tsv` only: how their text is taken apart.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(
        example = json!({ "delimiter": ";", "header": ["id", "label"] }),
        extend("x-default" = "as for a source", "x-type" = "table")
    )]
    dialect: Dialect,
}

impl TryFrom<TableTable> for TableSpec {
    type Error = String;

    fn try_from(table: TableTable) -> Result<Self, String> {
        let formats = [
            (SourceFormat::Text, table.text),
            (SourceFormat::Jsonl, table.jsonl),
            (SourceFormat::Csv, table.csv),
            (SourceFormat::Tsv, table.tsv),
            (SourceFormat::Parquet, table.parquet),
            (SourceFormat::Arrow, table.arrow),
        ];
        let mut given = formats.into_iter().filter_map(|(format, patterns)| Some((format, patterns?)));
        let (Some((format, patterns)), None) = (given.next(), given.next()) else {
            return Err(
                "a table has exactly one of `text`, `jsonl`, `csv`, `tsv`, `parquet` and `arrow`".to_owned()
            );
        };
        let none: [(&str, &str); 0] = [];
        let mut source = SourceSpec::new(format, none);
        source.splits.insert(TABLE.to_owned(), patterns.0);
        source.columns = table.columns;
        source.dialect = table.dialect;
        Ok(Self(source))
    }
}

impl From<TableSpec> for TableTable {
    fn from(table: TableSpec) -> Self {
        let patterns = table.patterns().to_vec();
        let of = |format| (table.format() == format).then(|| Patterns(patterns.clone()));
        Self {
            text: of(SourceFormat::Text),
            jsonl: of(SourceFormat::Jsonl),
            csv: of(SourceFormat::Csv),
            tsv: of(SourceFormat::Tsv),
            parquet: of(SourceFormat::Parquet),
            arrow: of(SourceFormat::Arrow),
            columns: table.0.columns,
            dialect: table.0.dialect,
        }
    }
}
