//! Files as a table of a query: what a source of these files would give, without ids.
//!
//! ```text
//! { jsonl = "meta-*.jsonl.gz" } with the columns lang: string, n: int64, of which the query uses `n`   ->   n: 3, 5, …
//! ```
//!
//! A record that cannot be read ends the query, with file and line: rows that are left out unseen could change the
//! others, as sums and joins do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use seqio_sql::{Table, TableError, TableRows};

use crate::source::{
    DataSource, FileRanges, RawChunk, RawChunks, SourceError, SourceFile, SourceRange, SourceSpec, TABLE,
    declared_schema,
};

/// Tables that are pinned, for the engine.
pub(super) fn open_tables<'a>(
    tables: impl Iterator<Item = (&'a String, &'a SourceSpec)>,
    base_dir: &Path,
) -> BTreeMap<String, Arc<dyn Table>> {
    let open = |(name, table): (&String, &SourceSpec)| {
        let table: Arc<dyn Table> = Arc::new(SourceTable::new(name, table.clone(), base_dir));
        (name.clone(), table)
    };
    tables.map(open).collect()
}

/// A table in files, with its columns known.
#[derive(Debug)]
struct SourceTable {
    name: String,
    spec: SourceSpec,
    base_dir: PathBuf,
    schema: SchemaRef,
}

impl SourceTable {
    /// The table of a source whose columns are declared or have been inferred.
    fn new(name: &str, pinned: SourceSpec, base_dir: &Path) -> Self {
        let schema = declared_schema(&pinned.columns);
        Self { name: name.to_owned(), spec: pinned, base_dir: base_dir.to_owned(), schema }
    }
}

impl Table for SourceTable {
    fn columns(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn bytes(&self) -> Option<u64> {
        let files = self.spec.listing(&self.name, &self.base_dir).files(TABLE).ok()?;
        Some(files.iter().map(|file| file.bytes).sum())
    }

    fn read(&self, columns: &[usize]) -> Result<TableRows, TableError> {
        let wanted: Vec<&str> = columns.iter().map(|&at| self.schema.field(at).name().as_str()).collect();
        let mut spec = self.spec.clone();
        spec.columns.retain(|name, _| wanted.contains(&name.as_str()));
        let source = spec.open_pinned(&self.name, &self.base_dir)?;
        // The source has its columns in the order of their names, the query as it likes.
        let schema = source.schema();
        let places: Vec<usize> = wanted.iter().map(|name| schema.index_of(name)).collect::<Result<_, _>>()?;
        let mut work = Vec::new();
        let files = source.files(TABLE)?;
        for (index, file) in (0u32..).zip(&files) {
            match source.ranges(file, index)? {
                FileRanges::Known(ranges) => {
                    work.extend(ranges.into_iter().map(|range| (index, Some(range))))
                }
                FileRanges::Streamed => work.push((index, None)),
            }
        }
        Ok(Box::new(Scan { source, files, work: work.into_iter(), chunks: None, places, failed: false }))
    }
}

/// The rows of a table's files, one after the other.
struct Scan {
    source: Arc<dyn DataSource>,
    files: Vec<SourceFile>,
    work: std::vec::IntoIter<(u32, Option<SourceRange>)>,
    chunks: Option<(u32, RawChunks)>,
    places: Vec<usize>,
    failed: bool,
}

impl Scan {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, TableError> {
        loop {
            let Some((file, chunks)) = &mut self.chunks else {
                let Some((file, range)) = self.work.next() else { return Ok(None) };
                let chunks =
                    self.source.read(&self.files[file as usize], file, range, Box::new(|_| false))?;
                self.chunks = Some((file, chunks));
                continue;
            };
            let file = *file;
            let Some(chunk) = chunks.next() else {
                self.chunks = None;
                continue;
            };
            let batch = self.read(&self.files[file as usize], &chunk?)?;
            if batch.num_rows() > 0 {
                return Ok(Some(batch));
            }
        }
    }

    fn read(&self, file: &SourceFile, chunk: &RawChunk) -> Result<RecordBatch, TableError> {
        let parsed = self.source.parse(file, chunk)?;
        if let Some(bad) = parsed.bad_rows.first() {
            let line = self.source.line_of(file, chunk.range, bad.ordinal)?;
            let problem = format!("line {line}: {}", bad.reason);
            return Err(SourceError::Malformed { path: file.path.clone(), problem }.into());
        }
        if let Some(damage) = &chunk.damage {
            return Err(SourceError::Malformed { path: file.path.clone(), problem: damage.clone() }.into());
        }
        Ok(parsed.examples.columns.project(&self.places)?)
    }
}

impl Iterator for Scan {
    type Item = Result<RecordBatch, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let batch = self.next_batch();
        self.failed = batch.is_err();
        batch.transpose()
    }
}
