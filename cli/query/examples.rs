//! Examples, chunk after chunk: out of a cache, or computed from the source; only what a query needs of them.
//!
//! ```text
//! needs lengths alone       -> the cache's lengths, no ids, no origins
//! needs columns and places  -> the examples themselves, and where each is from
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, AsArray as _, RecordBatch};
use arrow::datatypes::SchemaRef;
use seqio::{
    ExampleId, ExampleRow, ExampleStore as _, QueryTableError, Split, SplitChoices, SplitReader, Task,
};
use seqio_cache::CachedSplit;

/// Examples of a cache at a time: as many as a batch has at most.
const CHUNK: u64 = 1024;

/// Where examples come from.
#[derive(Clone, Debug)]
pub(super) enum ExampleSource {
    /// The source, before any step.
    Raw(SourceSplit),
    /// The source, through the steps above the cache boundary.
    Computed(SourceSplit, SplitChoices),
    /// A cache.
    Cached(Arc<CachedSplit>),
}

/// A split of a task's source.
#[derive(Clone, Debug)]
pub(super) struct SourceSplit {
    pub(super) task: Arc<Task>,
    pub(super) split: Split,
    /// Bad records passed over, at the most of all readings.
    pub(super) bad_rows: Arc<AtomicU64>,
}

impl SourceSplit {
    fn reader(&self) -> Result<SplitReader, QueryTableError> {
        Ok(SplitReader::new(Arc::clone(&self.task), &self.split)?)
    }
}

/// What is needed of examples besides their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// The columns of the data.
    pub(super) columns: bool,
    /// Ids, keys, files and rows.
    pub(super) places: bool,
    /// Lengths of token features.
    pub(super) lengths: bool,
}

/// Consecutive examples.
#[derive(Debug)]
pub(super) struct ExampleChunk {
    /// The number of the first: in the cache, or in the order of the source.
    pub(super) first: u64,
    /// How many.
    pub(super) len: usize,
    /// The columns of the data, if they are needed.
    pub(super) columns: Option<RecordBatch>,
    /// Where they come from, if that is needed.
    pub(super) places: Vec<ExamplePlace>,
    /// Lengths of each feature, if they are needed.
    pub(super) lengths: Vec<Vec<u32>>,
}

/// Where an example comes from.
#[derive(Debug)]
pub(super) struct ExamplePlace {
    pub(super) id: ExampleId,
    pub(super) key: Option<Arc<str>>,
    pub(super) file: Option<String>,
    /// The record in the file, from 1.
    pub(super) row: Option<u64>,
}

impl ExamplePlace {
    /// `first_row` records of the file stand before those that origins count.
    fn new(row: ExampleRow, file: Option<String>, first_row: u64) -> Self {
        let number = row.origins.first().map(|origin| first_row + origin.row + 1);
        Self { id: row.id, key: row.key, file, row: number }
    }
}

/// Chunks of examples.
pub(super) type ExampleChunks = Box<dyn Iterator<Item = Result<ExampleChunk, QueryTableError>> + Send>;

impl ExampleSource {
    /// The columns of the data.
    pub(super) fn schema(&self) -> SchemaRef {
        match self {
            Self::Raw(SourceSplit { task, .. }) => {
                task.schemas().first().cloned().unwrap_or_else(|| Arc::clone(task.cached_schema()))
            }
            Self::Computed(SourceSplit { task, .. }, _) => Arc::clone(task.cached_schema()),
            Self::Cached(split) => split.schema(),
        }
    }

    /// The names of the token features, sorted.
    pub(super) fn features(&self) -> Vec<String> {
        match self {
            Self::Raw(..) => Vec::new(),
            Self::Computed(SourceSplit { task, .. }, _) => task.features().keys().cloned().collect(),
            Self::Cached(split) => split.features().to_vec(),
        }
    }

    /// Whether examples have keys.
    pub(super) fn has_keys(&self) -> bool {
        match self {
            Self::Raw(source) | Self::Computed(source, _) => !source.task.source().key().is_empty(),
            Self::Cached(split) => !split.split_manifest().key.is_empty(),
        }
    }

    /// The examples from front to back.
    pub(super) fn chunks(&self, needs: Needs) -> Result<ExampleChunks, QueryTableError> {
        match self {
            Self::Cached(split) => {
                let split = Arc::clone(split);
                let end = split.num_examples();
                let step = if needs.columns || needs.places { CHUNK } else { 64 * CHUNK };
                let starts = (0..end).step_by(step as usize);
                Ok(Box::new(starts.map(move |start| cached(&split, start, (start + step).min(end), needs))))
            }
            Self::Raw(source) => Ok(Box::new(self.read(source, source.reader()?.raw(), needs))),
            Self::Computed(source, choices) => {
                let reader = source.reader()?.chosen(choices.clone());
                Ok(Box::new(self.read(source, reader, needs)))
            }
        }
    }

    fn read(&self, source: &SourceSplit, reader: SplitReader, needs: Needs) -> ReadChunks {
        let bad_rows = Arc::clone(&source.bad_rows);
        ReadChunks { reader, features: self.features(), next: 0, needs, bad_rows }
    }
}

fn cached(split: &CachedSplit, start: u64, end: u64, needs: Needs) -> Result<ExampleChunk, QueryTableError> {
    let mut chunk = ExampleChunk {
        first: start,
        len: (end - start) as usize,
        columns: None,
        places: Vec::new(),
        lengths: Vec::new(),
    };
    if needs.columns {
        chunk.columns = Some(split.examples(start..end)?);
    }
    if needs.places {
        for example in start..end {
            let row = split.example_row(example)?;
            let file = row.origins.first().and_then(|origin| split.file_name(origin)).map(str::to_owned);
            chunk.places.push(ExamplePlace::new(row, file, 0));
        }
    }
    if needs.lengths {
        let examples: Vec<u64> = (start..end).collect();
        for feature in 0..split.features().len() {
            let mut lengths = vec![0; examples.len()];
            split.lengths(feature, &examples, &mut lengths);
            chunk.lengths.push(lengths);
        }
    }
    Ok(chunk)
}

/// Examples read from the source.
struct ReadChunks {
    reader: SplitReader,
    features: Vec<String>,
    next: u64,
    needs: Needs,
    bad_rows: Arc<AtomicU64>,
}

impl Iterator for ReadChunks {
    type Item = Result<ExampleChunk, QueryTableError>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.reader.next();
        self.bad_rows.fetch_max(self.reader.bad_rows(), Ordering::Relaxed);
        let read = match read? {
            Ok(read) => read,
            Err(error) => return Some(Err(error.into())),
        };
        let (len, first) = (read.examples.len(), self.next);
        self.next += len as u64;
        let lengths = match self.needs.lengths {
            true => self.features.iter().map(|feature| lengths(&read.examples.columns, feature)).collect(),
            false => Vec::new(),
        };
        let mut places = Vec::new();
        if self.needs.places {
            let file = self.reader.files().get(read.range.file as usize).map(|file| file.name.clone());
            let rows = read.examples.rows.into_iter();
            places.extend(rows.map(|row| ExamplePlace::new(row, file.clone(), read.first_row)));
        }
        let columns = self.needs.columns.then_some(read.examples.columns);
        Some(Ok(ExampleChunk { first, len, columns, places, lengths }))
    }
}

/// A null sequence counts as an empty one.
fn lengths(columns: &RecordBatch, feature: &str) -> Vec<u32> {
    let Some(lists) = columns.column_by_name(feature).and_then(|column| column.as_list_opt::<i32>()) else {
        return vec![0; columns.num_rows()];
    };
    (0..lists.len()).map(|row| if lists.is_null(row) { 0 } else { lists.value_length(row) as u32 }).collect()
}
