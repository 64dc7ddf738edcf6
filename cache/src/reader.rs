//! A split of a cache, read in place: any example by its number, without copying more than its ids.
//!
//! ```text
//! example 2,051 of `train`  ->  shard 0  ->  batch 2, row 3  ->  ids 17..903 of the batch
//! ```
//!
//! Lengths of files, sums, lengths and footers are checked when the split is opened, a batch when it is first touched.
//! Compressed batches are decompressed when they are needed, ids apart from identities, and kept as far as memory goes.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, ListArray, RecordBatch, StringArray};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use rayon::prelude::*;
use seqio::{ExampleId, ExampleStore, Origin, StoreError};

use crate::columns::{ID, ORIGIN, SQL_KEY};
use crate::decoded::{DEFAULT_LIMIT, Decoded};
use crate::error::CacheError;
use crate::layout::shard_file;
use crate::manifest::{CacheManifest, ShardEntry, SplitManifest};
use crate::mapped::map_file;
use crate::rows::{OriginLists, TokenLists, TokenValues};
use crate::table::Table;
use crate::verify::read_sums;
use crate::writer::{BatchSum, sum};

/// Rows for each entry of the table that leads from a row to its batch: as many as a batch has at most.
const ROWS_A_STEP: usize = 1024;

/// A split of a cache, opened for reading by any number of threads.
#[derive(Debug)]
pub struct CachedSplit {
    folder: PathBuf,
    name: String,
    manifest: Arc<CacheManifest>,
    features: Vec<String>,
    /// Bytes of an id, by feature.
    id_bytes: Vec<u64>,
    /// Number of the first example of each shard, and of one past the last.
    firsts: Vec<u64>,
    shards: Vec<Shard>,
    /// The batches of a compressed split: ids at 2 n, identities at 2 n + 1.
    decompressed: Option<Decoded<Content>>,
    tokens_read: ThreadCounters,
}

impl CachedSplit {
    /// Opens a split of the cache in `folder`.
    pub(crate) fn open(
        folder: &Path,
        manifest: &Arc<CacheManifest>,
        split: &str,
    ) -> Result<Self, CacheError> {
        let entry = manifest.split(folder, split)?;
        let features: Vec<String> = manifest.features.keys().cloned().collect();
        let mut shards: Vec<Shard> = entry
            .shards
            .par_iter()
            .map(|shard| Shard::open(folder, shard, &features))
            .collect::<Result<_, _>>()?;
        let mut batches = 0;
        for shard in &mut shards {
            shard.first_batch = batches;
            batches += shard.sums.len();
        }
        let decompressed =
            (!manifest.compression.is_none()).then(|| Decoded::new(2 * batches, DEFAULT_LIMIT));
        let mut firsts = vec![0];
        for shard in &entry.shards {
            firsts.push(firsts[firsts.len() - 1] + shard.examples);
        }
        let id_bytes = manifest.features.values().map(|feature| if feature.ids == "uint16" { 2 } else { 4 });
        Ok(Self {
            folder: folder.to_owned(),
            name: split.to_owned(),
            id_bytes: id_bytes.collect(),
            manifest: Arc::clone(manifest),
            features,
            firsts,
            shards,
            decompressed,
            tokens_read: ThreadCounters::default(),
        })
    }

    /// Sets the memory for decompressed batches, in bytes. Without compression nothing is kept.
    pub fn set_decompressed_bytes(&self, bytes: u64) {
        self.decompressed.iter().for_each(|decompressed| decompressed.set_limit(bytes));
    }

    /// How often the ids or the identities of a batch have been decompressed so far, by all threads.
    pub fn batches_decompressed(&self) -> u64 {
        self.decompressed.as_ref().map_or(0, Decoded::made)
    }

    /// The folder of the cache.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The split's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The manifest of the cache.
    pub fn manifest(&self) -> &Arc<CacheManifest> {
        &self.manifest
    }

    /// The split's part of the manifest.
    pub fn split_manifest(&self) -> &SplitManifest {
        &self.manifest.splits[&self.name]
    }

    /// The file that tells what was dropped as a duplicate, if steps of the task look for duplicates.
    pub fn duplicates_file(&self) -> Option<PathBuf> {
        self.split_manifest().duplicates_path(self.folder())
    }

    /// The name of a source file that an [`Origin`] names by its index.
    pub fn file_name(&self, origin: &Origin) -> Option<&str> {
        self.split_manifest().files.get(origin.file as usize).map(|file| file.name.as_str())
    }

    /// Bytes of token ids read from the disk's format so far, by all threads.
    pub fn tokens_read_bytes(&self) -> u64 {
        self.tokens_read.sum()
    }

    /// All columns that the task has at the boundary, token features as `List<Int32>`.
    pub fn schema(&self) -> SchemaRef {
        match self.shards.first() {
            Some(shard) => widened_schema(shard.all.schema()),
            None => Arc::new(Schema::empty()),
        }
    }

    /// Consecutive examples with all their columns.
    pub fn examples(&self, examples: Range<u64>) -> Result<RecordBatch, CacheError> {
        let schema = self.schema();
        let mut parts = Vec::new();
        let mut next = examples.start;
        let end = examples.end.min(self.num_examples());
        while next < end {
            let (shard, row) = self.locate(next);
            let shard = &self.shards[shard];
            let (batch, row) = shard.locate(row);
            let rows = shard.whole_batch(batch)?;
            let length = (rows.num_rows() - row).min((end - next) as usize);
            parts.push(widened(&schema, &rows.slice(row, length))?);
            next += length as u64;
        }
        Ok(arrow::compute::concat_batches(&schema, &parts)?)
    }

    /// Shard and row in it. The example exists.
    fn locate(&self, example: u64) -> (usize, usize) {
        let shard = if self.shards.len() == 1 {
            0
        } else {
            self.firsts.partition_point(|&first| first <= example) - 1
        };
        (shard, (example - self.firsts[shard]) as usize)
    }

    fn check(&self, example: u64) -> Result<(), StoreError> {
        if example < self.num_examples() {
            return Ok(());
        }
        let problem =
            format!("there is no example {example}; split `{}` has {}", self.name, self.num_examples());
        Err(StoreError::new(problem))
    }

    /// Gives `use_row` the batch of an example, checked, and the row in it.
    fn row<T>(
        &self,
        example: u64,
        part: Part,
        use_row: impl FnOnce(&Content, usize) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.check(example)?;
        let (shard, row) = self.locate(example);
        let shard = &self.shards[shard];
        let (batch, row) = shard.locate(row);
        match &self.decompressed {
            None => use_row(shard.in_place(batch, part)?, row),
            Some(decompressed) => {
                let slot = 2 * (shard.first_batch + batch) + part as usize;
                let content = decompressed.get(slot, || shard.decompressed(batch, part))?;
                use_row(&content, row)
            }
        }
    }
}

impl ExampleStore for CachedSplit {
    fn num_examples(&self) -> u64 {
        self.firsts[self.firsts.len() - 1]
    }

    fn features(&self) -> &[String] {
        &self.features
    }

    fn lengths(&self, feature: usize, examples: &[u64], out: &mut [u32]) {
        // Neighbours in the order are mostly neighbours in a shard.
        let mut shard = 0;
        let mut of_shard: &[u32] = &[];
        let mut range = 0..0;
        for (length, &example) in out.iter_mut().zip(examples) {
            if !range.contains(&example) {
                if example >= self.num_examples() {
                    *length = 0;
                    continue;
                }
                shard = self.locate(example).0;
                of_shard = self.shards[shard].lengths_of(feature);
                range = self.firsts[shard]..self.firsts[shard + 1];
            }
            *length = of_shard[(example - self.firsts[shard]) as usize];
        }
    }

    fn read_tokens(
        &self,
        feature: usize,
        example: u64,
        from: usize,
        out: &mut [i32],
    ) -> Result<(), StoreError> {
        self.row(example, Part::Tokens, |content, row| {
            let lists = &content.tokens[feature];
            let span = lists.span(row);
            let start = span.start + from;
            let end = start + out.len();
            if end > span.end {
                let problem = format!(
                    "ids {from}..{} of feature `{}` of example {example} are asked for, but it has {}",
                    from + out.len(),
                    self.features[feature],
                    span.len()
                );
                return Err(StoreError::new(problem));
            }
            match &lists.values {
                TokenValues::Narrow(ids) => {
                    out.iter_mut().zip(&ids[start..end]).for_each(|(out, &id)| *out = i32::from(id));
                }
                TokenValues::Wide(ids) => {
                    out.iter_mut().zip(&ids[start..end]).for_each(|(out, &id)| *out = id as i32);
                }
            }
            self.tokens_read.add(out.len() as u64 * self.id_bytes[feature]);
            Ok(())
        })
    }

    fn id(&self, example: u64) -> Result<ExampleId, StoreError> {
        self.row(example, Part::Identity, |content, row| {
            let mut id = [0; 16];
            id.copy_from_slice(&content.ids[16 * row..16 * (row + 1)]);
            Ok(ExampleId(id))
        })
    }

    fn origins(&self, example: u64) -> Result<Vec<Origin>, StoreError> {
        self.row(example, Part::Identity, |content, row| {
            Ok(content.origins.iter().flat_map(|origins| origins.get(row)).collect())
        })
    }

    fn place(&self, example: u64) -> Result<String, StoreError> {
        let origins = self.origins(example)?;
        let place = |origin: &Origin| format!("{}:{}", self.file_name(origin).unwrap_or("?"), origin.row + 1);
        let mut places: Vec<String> = origins.iter().map(place).collect();
        places.extend(self.key(example)?.map(|key| key.to_string()));
        places.push(format!("id {:?}", self.id(example)?));
        Ok(places.join(", "))
    }

    fn key(&self, example: u64) -> Result<Option<Arc<str>>, StoreError> {
        self.row(example, Part::Identity, |content, row| {
            Ok(content.keys.as_ref().map(|keys| keys.value(row).into()))
        })
    }
}

/// The columns of a batch that are read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Ids of the token features.
    Tokens = 0,
    /// `_id`, `_origin` and `_sql_key`.
    Identity = 1,
}

/// A shard: its columns that are read together, all its columns, its lengths, and its batches as they are touched.
#[derive(Debug)]
struct Shard {
    tokens: Table,
    identity: Table,
    all: Table,
    /// Places of the token features among the columns.
    token_columns: Vec<usize>,
    lengths: ScalarBuffer<u32>,
    examples: usize,
    sums: Vec<BatchSum>,
    /// Number of its first batch among those of the split.
    first_batch: usize,
    /// First row of each batch.
    batch_firsts: Vec<u32>,
    /// The batch that has row 0, 1,024, 2,048, ...
    steps: Vec<u32>,
    batches: Vec<[OnceLock<Result<Content, String>>; 2]>,
}

/// One part of a batch that has been checked and decoded. If it is not compressed everything points into the map.
#[derive(Debug)]
struct Content {
    tokens: Vec<TokenLists>,
    ids: ScalarBuffer<u8>,
    origins: Option<OriginLists>,
    keys: Option<StringArray>,
}

impl Shard {
    fn open(folder: &Path, entry: &ShardEntry, features: &[String]) -> Result<Self, CacheError> {
        let path = shard_file(folder, &entry.name, "arrow");
        let lengths_path = shard_file(folder, &entry.name, "lengths");
        for (path, bytes) in [(&path, entry.arrow_bytes), (&lengths_path, entry.lengths_bytes)] {
            let found = std::fs::metadata(path).map_err(CacheError::io("read", path))?.len();
            if found != bytes {
                return Err(CacheError::damaged(path, format!("it has {found} bytes instead of {bytes}")));
            }
        }
        let sums = read_sums(folder, entry)?;
        let all = Table::open_summed(&path, &sums)?;
        let examples = usize::try_from(entry.examples).expect("a shard's lengths fit into memory");
        let lengths = map_file(&lengths_path)?;
        if lengths.len() != 4 * examples * features.len() || sum(&lengths) != sums.lengths {
            return Err(CacheError::damaged(&lengths_path, "its checksum is wrong"));
        }
        let lengths =
            if lengths.is_empty() { ScalarBuffer::from(Vec::new()) } else { ScalarBuffer::from(lengths) };

        let mut token_columns = Vec::new();
        for feature in features {
            let index = all.schema().index_of(feature);
            token_columns
                .push(index.map_err(|_| CacheError::damaged(&path, format!("no column `{feature}`")))?);
        }
        let mut identity_columns = Vec::new();
        for name in [ID, ORIGIN] {
            let index = all.schema().index_of(name);
            identity_columns
                .push(index.map_err(|_| CacheError::damaged(&path, format!("no column `{name}`")))?);
        }
        identity_columns.extend(all.schema().index_of(SQL_KEY));
        let tokens = all.with_columns(token_columns.clone());
        let identity = all.with_columns(identity_columns);
        let mut batch_firsts = Vec::with_capacity(sums.batches.len());
        let mut steps = Vec::new();
        let mut first = 0usize;
        for (batch, entry) in (0u32..).zip(&sums.batches) {
            batch_firsts.push(first as u32);
            first += entry.rows as usize;
            while steps.len() * ROWS_A_STEP < first {
                steps.push(batch);
            }
        }
        if first != examples {
            return Err(CacheError::damaged(
                &path,
                format!("its batches have {first} rows instead of {examples}"),
            ));
        }
        let batches = sums.batches.iter().map(|_| Default::default()).collect();
        Ok(Self {
            tokens,
            identity,
            all,
            token_columns,
            lengths,
            examples,
            sums: sums.batches,
            first_batch: 0,
            batch_firsts,
            steps,
            batches,
        })
    }

    fn lengths_of(&self, feature: usize) -> &[u32] {
        &self.lengths[feature * self.examples..(feature + 1) * self.examples]
    }

    /// Batch and row in it.
    fn locate(&self, row: usize) -> (usize, usize) {
        let mut batch = self.steps[row / ROWS_A_STEP] as usize;
        while self.batch_firsts.get(batch + 1).is_some_and(|&first| first as usize <= row) {
            batch += 1;
        }
        (batch, row - self.batch_firsts[batch] as usize)
    }

    /// A part of a batch that is not compressed, checked and decoded the first time.
    fn in_place(&self, batch: usize, part: Part) -> Result<&Content, CacheError> {
        let content = self.batches[batch][part as usize].get_or_init(|| self.content(batch, part));
        content.as_ref().map_err(|problem| self.damaged(batch, problem))
    }

    /// All columns of a batch, checked.
    fn whole_batch(&self, batch: usize) -> Result<RecordBatch, CacheError> {
        let rows = self.check(batch).and_then(|()| self.rows(&self.all, batch));
        rows.map_err(|problem| self.damaged(batch, &problem))
    }

    fn damaged(&self, batch: usize, problem: &str) -> CacheError {
        CacheError::damaged(self.all.path(), format!("batch {batch}: {problem}"))
    }

    fn check(&self, batch: usize) -> Result<(), String> {
        match sum(self.all.batch_bytes(batch)) == self.sums[batch].sum {
            true => Ok(()),
            false => Err("its checksum is wrong".to_owned()),
        }
    }

    fn rows(&self, table: &Table, batch: usize) -> Result<RecordBatch, String> {
        let (rows, expected) =
            (table.batch(batch).map_err(|error| error.to_string())?, self.sums[batch].rows);
        match rows.num_rows() == expected as usize {
            true => Ok(rows),
            false => Err(format!("it has {} rows instead of {expected}", rows.num_rows())),
        }
    }

    /// A part of a batch, checked and decoded.
    fn content(&self, batch: usize, part: Part) -> Result<Content, String> {
        self.check(batch)?;
        let other_columns = || "it has other columns than the manifest says".to_owned();
        match part {
            Part::Tokens => {
                let rows = self.rows(&self.tokens, batch)?;
                let mut tokens = Vec::with_capacity(self.token_columns.len());
                for &index in &self.token_columns {
                    let column = rows.column_by_name(self.all.schema().field(index).name());
                    tokens.push(column.and_then(TokenLists::of).ok_or_else(other_columns)?);
                }
                Ok(Content { tokens, ids: ScalarBuffer::from(Vec::new()), origins: None, keys: None })
            }
            Part::Identity => {
                let rows = self.rows(&self.identity, batch)?;
                let column = |name: &str| rows.column_by_name(name).ok_or_else(other_columns);
                let ids = column(ID)?.as_fixed_size_binary_opt().filter(|ids| ids.value_length() == 16);
                let ids = ids.ok_or_else(other_columns)?;
                let ids = ScalarBuffer::<u8>::from(ids.values().slice_with_length(0, 16 * rows.num_rows()));
                let origins = OriginLists::of(column(ORIGIN)?).ok_or_else(other_columns)?;
                let keys = match rows.column_by_name(SQL_KEY) {
                    Some(keys) => Some(keys.as_string_opt::<i32>().ok_or_else(other_columns)?.clone()),
                    None => None,
                };
                Ok(Content { tokens: Vec::new(), ids, origins: Some(origins), keys })
            }
        }
    }

    /// A part of a compressed batch, and the bytes that it takes in memory.
    fn decompressed(&self, batch: usize, part: Part) -> Result<(Content, u64), CacheError> {
        let content = self.content(batch, part).map_err(|problem| self.damaged(batch, &problem))?;
        let bytes = content.memory();
        Ok((content, bytes))
    }
}

impl Content {
    /// Bytes held in memory, about.
    fn memory(&self) -> u64 {
        let tokens: u64 = self.tokens.iter().map(TokenLists::memory).sum();
        let keys = self.keys.as_ref().map_or(0, |keys| keys.values().len() + 4 * keys.len()) as u64;
        tokens + self.ids.len() as u64 + self.origins.as_ref().map_or(0, OriginLists::memory) + keys
    }
}

/// The task's columns as they were at the boundary: without identities, with `Int32` ids.
fn widened_schema(stored: &SchemaRef) -> SchemaRef {
    let fields =
        stored.fields().iter().filter(|field| ![ID, ORIGIN, SQL_KEY].contains(&field.name().as_str()));
    let fields: Vec<Field> = fields
        .map(|field| match narrow_item(field.data_type()) {
            true => {
                let ids = Arc::new(Field::new_list_field(DataType::Int32, true));
                Field::new(field.name(), DataType::List(ids), true)
            }
            false => field.as_ref().clone(),
        })
        .collect();
    Arc::new(Schema::new(fields))
}

fn widened(schema: &SchemaRef, rows: &RecordBatch) -> Result<RecordBatch, CacheError> {
    let columns = schema.fields().iter().map(|field| {
        let column = rows.column_by_name(field.name()).expect("the schema was made from this one");
        if narrow_item(column.data_type()) {
            widened_lists(column.as_list(), field)
        } else {
            Arc::clone(column)
        }
    });
    Ok(RecordBatch::try_new(Arc::clone(schema), columns.collect())?)
}

fn narrow_item(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(item) if !item.is_nullable() && matches!(item.data_type(), DataType::UInt16 | DataType::UInt32))
}

fn widened_lists(lists: &ListArray, field: &Field) -> ArrayRef {
    let item = match field.data_type() {
        DataType::List(item) => Arc::clone(item),
        _ => unreachable!("the field was made for ids"),
    };
    let values = arrow::compute::cast(lists.values(), &DataType::Int32);
    let values = values.unwrap_or_else(|_| Arc::new(Int32Array::new_null(lists.values().len())));
    Arc::new(ListArray::new(item, lists.offsets().clone(), values, None))
}

/// A counter that threads add to without getting in each other's way.
#[derive(Debug, Default)]
struct ThreadCounters([Padded; 16]);

#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded(AtomicU64);

impl ThreadCounters {
    fn add(&self, amount: u64) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        thread_local!(static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) as usize);
        let mine = MINE.with(|&mine| mine);
        self.0[mine % self.0.len()].0.fetch_add(amount, Ordering::Relaxed);
    }

    fn sum(&self) -> u64 {
        self.0.iter().map(|counter| counter.0.load(Ordering::Relaxed)).sum()
    }
}
