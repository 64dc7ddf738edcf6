//! Examples that a program makes itself: by a function that gives record batches, or as a plain list.
//!
//! ```text
//! ProgramSource::new("1").column("text", ScalarType::String).split("train", || Ok(batches))
//!
//! registered as `stories`   ->   source = { program = { train = "stories" } }     in any task file of the program
//! ```
//!
//! Laws: a function gives the same rows each time; an example's id is a hash of the source's name, the split and its number, from 0: how a function cuts its rows into
//! batches does not matter. Functions are called again for each reading, and must give the same rows each time.

mod rows;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{Array as _, RecordBatch};
use arrow::datatypes::SchemaRef;
use serde::Serialize;

use crate::example::{ExampleId, ExampleRow, Examples, Origin};
use crate::source::column::ColumnSpec;
use crate::source::columns::is_readable_as;
use crate::source::jsonl::{JsonTable, declared_schema};
use crate::source::numbered::{NumberedChunks, ranges_of};
use crate::source::{
    DataSource, FileRanges, ParsedChunk, RawChunk, RawChunks, RawRecords, SourceError, SourceFile,
    SourceRange,
};
use crate::text::{nearest, quoted};

use self::rows::Rows;

/// What a function of a program's own can fail with.
pub type ProgramError = Box<dyn std::error::Error + Send + Sync>;

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ProgramError>> + Send>;
type OpenSplit = Arc<dyn Fn() -> Result<Batches, ProgramError> + Send + Sync>;

/// A source of a program's own, with the splits that it has.
///
/// ```
/// use seqio::{ProgramSource, ProgramSources, Registry, ScalarType, Split, SplitReader};
/// use serde_json::json;
///
/// let stories = ProgramSource::new("1")
///     .column("text", ScalarType::String)
///     .examples("train", [json!({"text": "one"}), json!({"text": "two"})])?;
/// let registry = Registry::from_text(
///     "stories.toml",
///     r#"
///     [vocabulary.bytes]
///     byte = true
///     [task.stories]
///     source   = { program = { train = "stories" } }
///     features = { text = { vocabulary = "bytes" } }
///     steps    = [{ op = "tokenize" }, { op = "append_eos" }]
///     "#,
/// )?
/// .with_sources(ProgramSources::new().register("stories", stories));
/// let task = registry.task("stories")?;
/// let read: usize = SplitReader::new(task, &"train[1:]".parse::<Split>()?)?
///     .map(|chunk| Ok(chunk?.examples.len()))
///     .sum::<Result<_, seqio::ReadSplitError>>()?;
/// assert_eq!(read, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ProgramSource {
    version: String,
    columns: BTreeMap<String, ColumnSpec>,
    splits: BTreeMap<String, ProgramSplit>,
}

#[derive(Clone)]
struct ProgramSplit {
    /// What tells it from others of the same name: the source's version, or the hash of a list.
    version: String,
    open: OpenSplit,
}

impl ProgramSource {
    /// A source without columns and splits yet. `version` tells caches of other data apart: give another one when
    /// functions give other rows. Lists are told apart by what they hold.
    pub fn new(version: impl Into<String>) -> Self {
        Self { version: version.into(), columns: BTreeMap::new(), splits: BTreeMap::new() }
    }

    /// Adds a column. Batches need to have it unless it is optional, and may have others.
    #[must_use]
    pub fn column(mut self, name: impl Into<String>, column: impl Into<ColumnSpec>) -> Self {
        self.columns.insert(name.into(), column.into());
        self
    }

    /// Adds a split whose rows `open` gives, in batches of any size. It is called for each reading and has to give the
    /// same rows each time.
    #[must_use]
    pub fn split<F, I>(mut self, name: impl Into<String>, open: F) -> Self
    where
        F: Fn() -> Result<I, ProgramError> + Send + Sync + 'static,
        I: IntoIterator<Item = Result<RecordBatch, ProgramError>>,
        I::IntoIter: Send + 'static,
    {
        let open: OpenSplit = Arc::new(move || Ok(Box::new(open()?.into_iter())));
        self.splits.insert(name.into(), ProgramSplit { version: self.version.clone(), open });
        self
    }

    /// Adds a split of these examples, whose fields are columns. Columns have to be there already.
    pub fn examples<T: Serialize>(
        mut self,
        name: impl Into<String>,
        examples: impl IntoIterator<Item = T>,
    ) -> Result<Self, SourceError> {
        let name = name.into();
        let mut table = JsonTable::new(&self.columns, 0);
        for (example, number) in examples.into_iter().zip(1u64..) {
            let refused = |problem: String| SourceError::Definition {
                problem: format!("example {number} of split `{name}`: {problem}"),
            };
            let json = serde_json::to_string(&example).map_err(|error| refused(error.to_string()))?;
            table.push(&json).map_err(refused)?;
        }
        let rows =
            table.finish(&declared_schema(&self.columns)).map_err(|error| SourceError::Definition {
                problem: format!("the examples of split `{name}` cannot be put together: {error}"),
            })?;
        let version = content(&rows);
        let open: OpenSplit = Arc::new(move || Ok(Box::new(std::iter::once(Ok(rows.clone())))));
        self.splits.insert(name, ProgramSplit { version, open });
        Ok(self)
    }
}

impl fmt::Debug for ProgramSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProgramSource(version {}, {})", self.version, quoted(self.splits.keys()))
    }
}

/// What rows hold, in 16 letters.
fn content(rows: &RecordBatch) -> String {
    let mut hasher = blake3::Hasher::new();
    for row in 0..rows.num_rows() {
        for column in rows.columns() {
            let shown = (!column.is_null(row))
                .then(|| arrow::util::display::array_value_to_string(column, row).unwrap_or_default());
            let shown = shown.as_deref();
            hasher.update(&[u8::from(shown.is_some())]);
            hasher.update(&(shown.map_or(0, str::len) as u64).to_le_bytes());
            hasher.update(shown.unwrap_or_default().as_bytes());
        }
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

/// An open source, and its columns.
type WithColumns = (Arc<dyn DataSource>, BTreeMap<String, ColumnSpec>);

/// The sources of a program's own, by name.
#[derive(Clone, Debug, Default)]
pub struct ProgramSources {
    sources: BTreeMap<String, ProgramSource>,
}

impl ProgramSources {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets task files name `source`; one of the same name is replaced.
    #[must_use]
    pub fn register(mut self, name: impl Into<String>, source: ProgramSource) -> Self {
        self.sources.insert(name.into(), source);
        self
    }

    /// Their names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.sources.keys().map(String::as_str)
    }

    /// The source of a task called `name`: of each split the one that `splits` names. With its columns, of which
    /// `declared` may choose some.
    pub(crate) fn open(
        &self,
        name: &str,
        splits: &BTreeMap<String, Vec<String>>,
        declared: &BTreeMap<String, ColumnSpec>,
    ) -> Result<WithColumns, SourceError> {
        let mut opened = BTreeMap::new();
        let mut columns = declared.clone();
        for (split, names) in splits {
            let wanted = names.first().map_or("", String::as_str);
            let part = |problem: String| SourceError::Part {
                keys: vec!["program".to_owned(), split.clone()],
                problem,
            };
            let Some(source) = self.sources.get(wanted) else {
                if self.sources.is_empty() {
                    return Err(program_only(wanted));
                }
                let hint = nearest(wanted, self.names());
                let hint = hint.map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"));
                let there = quoted(self.names());
                return Err(SourceError::Program {
                    name: wanted.to_owned(),
                    problem: format!("this program has no source `{wanted}` of its own, only {there}{hint}"),
                });
            };
            let Some(found) = source.splits.get(split) else {
                let there = quoted(source.splits.keys());
                return Err(part(format!(
                    "the program's source `{wanted}` has no split `{split}`, only {there}"
                )));
            };
            if columns.is_empty() {
                columns = source.columns.clone();
            }
            for (column, spec) in &columns {
                let problem = match source.columns.get(column) {
                    None if spec.optional => continue,
                    Some(own) if is_readable_as(&own.data.arrow(), spec.data) => continue,
                    None => format!("has no column `{column}`, only {}", quoted(source.columns.keys())),
                    Some(own) => {
                        format!("has `{column}` as {}, not as {}", own.data.phrase(), spec.data.phrase())
                    }
                };
                return Err(part(format!("the program's source `{wanted}` {problem}")));
            }
            opened.insert(split.clone(), found.clone());
        }
        let schema = declared_schema(&columns);
        let source =
            OpenProgramSource { name: name.to_owned(), columns: columns.clone(), schema, splits: opened };
        Ok((Arc::new(source), columns))
    }
}

/// A source of a program's own that only the program's registry can open.
pub(crate) fn program_only(name: &str) -> SourceError {
    let problem = format!(
        "`{name}` is a source of a program's own: only a program that registers it, by `Registry::with_sources`, can read it"
    );
    SourceError::Program { name: name.to_owned(), problem }
}

/// The splits that a task has of a program's sources.
struct OpenProgramSource {
    name: String,
    columns: BTreeMap<String, ColumnSpec>,
    schema: SchemaRef,
    splits: BTreeMap<String, ProgramSplit>,
}

impl fmt::Debug for OpenProgramSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenProgramSource({}, {})", self.name, quoted(self.splits.keys()))
    }
}

impl OpenProgramSource {
    fn split(&self, split: &str) -> Result<&ProgramSplit, SourceError> {
        self.splits.get(split).ok_or_else(|| SourceError::NoSplit {
            split: split.to_owned(),
            found: self.splits.keys().cloned().collect(),
        })
    }

    /// The split that a file holds.
    fn split_of(&self, file: &SourceFile) -> Result<(&str, &ProgramSplit), SourceError> {
        let found = self.splits.iter().find(|(name, split)| file.name == file_name(name, split));
        found.map(|(name, split)| (name.as_str(), split)).ok_or_else(|| SourceError::NoSplit {
            split: file.name.clone(),
            found: self.splits.keys().cloned().collect(),
        })
    }

    fn rows(&self, file: &SourceFile) -> Result<Rows, SourceError> {
        let (name, split) = self.split_of(file)?;
        let batches = (split.open)().map_err(|error| failed(name, 0, &error.to_string()))?;
        Ok(Rows::new(name, &self.columns, &self.schema, batches))
    }
}

/// What a split is called where files are: another version is another file.
fn file_name(name: &str, split: &ProgramSplit) -> String {
    format!("{name}, version {}", split.version)
}

fn failed(split: &str, row: u64, problem: &str) -> SourceError {
    let problem = format!("the program's split `{split}` failed after {row} rows: {problem}");
    SourceError::Definition { problem }
}

impl DataSource for OpenProgramSource {
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
        let name = file_name(split, self.split(split)?);
        Ok(vec![SourceFile { path: PathBuf::from(&name), name, bytes: 0, modified_ns: 0 }])
    }

    fn ranges(&self, file: &SourceFile, _index: u32) -> Result<FileRanges, SourceError> {
        self.split_of(file)?;
        Ok(FileRanges::Streamed)
    }

    fn read(
        &self,
        file: &SourceFile,
        index: u32,
        range: Option<SourceRange>,
        skip: Box<dyn Fn(u64) -> bool + Send>,
    ) -> Result<RawChunks, SourceError> {
        let only = range.map(|range| range.start);
        Ok(Box::new(NumberedChunks::new(self.rows(file)?, index, only, skip)))
    }

    fn parse(&self, file: &SourceFile, chunk: &RawChunk) -> Result<ParsedChunk, SourceError> {
        let (split, _) = self.split_of(file)?;
        let columns = match &chunk.records {
            RawRecords::Columns(columns) => columns.clone(),
            RawRecords::Lines(_) => RecordBatch::new_empty(Arc::clone(&self.schema)),
        };
        let row = |(_, ordinal): (usize, u64)| {
            let offset = chunk.range.start + ordinal;
            let origin = Origin { file: chunk.range.file, row: ordinal, offset, length: 0 };
            ExampleRow::new(ExampleId::new(&self.name, split, chunk.range.start, ordinal), vec![origin])
        };
        let rows = (0..columns.num_rows()).zip(chunk.first_ordinal..).map(row).collect();
        Ok(ParsedChunk { examples: Examples::new(columns, rows), bad_rows: Vec::new() })
    }

    fn count_records(&self, file: &SourceFile, index: u32) -> Result<Vec<(SourceRange, u64)>, SourceError> {
        let mut rows = self.rows(file)?;
        let mut count = 0;
        while let Some(part) = rows.next(usize::MAX, &mut 0)? {
            count += part.num_rows() as u64;
        }
        Ok(ranges_of(index, count))
    }

    fn line_of(&self, _file: &SourceFile, range: SourceRange, ordinal: u64) -> Result<u64, SourceError> {
        Ok(range.start + ordinal + 1)
    }

    /// What a split holds follows from the version in its name.
    fn is_result(&self, _file: &SourceFile) -> bool {
        true
    }
}
