//! Second half of a build: spills merged into shards.
//!
//! ```text
//! shuffled      shard i of N holds the keys whose first eight bytes k have floor(k * N / 2^64) = i
//! source order  shard i of N holds the rows floor(rows * i / N) .. floor(rows * (i + 1) / N)
//! ```
//!
//! N, the borders and the place where each batch closes follow from the rows alone. Runs are merged by a heap with one
//! cursor a run, so memory does not grow with the data; a few batches ahead are laid out at a time, gathered by all
//! threads, and written in order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use seqio::EncodeCounts;
use serde::{Deserialize, Serialize};

use crate::columns::StoredColumns;
use crate::commit::{self, Durability};
use crate::compression::Compression;
use crate::encode::{BuildContext, Encoded, EncodedRange};
use crate::error::CacheError;
use crate::layout::{hex, shard_stem};
use crate::manifest::ShardEntry;
use crate::old_run::OldRun;
use crate::progress::{BuildPhase, Commit, Counters, add};
use crate::rows::{BatchFill, Geometry, Pick, PickSource, SpillBatch, Target, gather};
use crate::spill::{Run, RunPlace};
use crate::stats::{
    BAD_ROWS_KEPT, BadRowExample, BadRowStatistics, DamagedFile, DroppedExamples, FeatureStatistics,
    LengthCounts, SplitStatistics,
};
use crate::verify::check_shard;
use crate::writer::{ShardWriter, TableWriter};

/// A shard that is committed to the staged cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShardRecord {
    /// Hash of everything that went into the shards of the split.
    inputs: String,
    entry: ShardEntry,
    lengths: Vec<LengthCounts>,
}

/// Merges a split's spills into the shards of `staged`, but for those an earlier job has merged.
pub(crate) fn merge_split(
    context: BuildContext<'_>,
    split: &str,
    shuffled: bool,
    encoded: &Encoded,
    work: &Path,
    staged: &Path,
    counters: &Counters<'_>,
) -> Result<(Vec<ShardEntry>, SplitStatistics), CacheError> {
    let bytes: u64 = encoded.ranges.iter().map(|range| range.parts.sum(|part| part.row_bytes)).sum();
    let count = usize::try_from(bytes.div_ceil(context.geometry.shard_bytes).max(1)).unwrap_or(usize::MAX);
    counters.shards_total.store(count as u64, Ordering::Relaxed);
    counters.enter(BuildPhase::Merging);
    let mut merge = Merge {
        context,
        split,
        count,
        layout: Layout::Source,
        encoded,
        inputs: inputs_digest(split, shuffled, context.compression, encoded),
        work,
        staged,
        counters,
    };
    if shuffled {
        let mut runs = merge.few_runs()?;
        // The old cache is one sorted run, however many shards it has.
        let whole = |run: &Arc<OldRun>| Run::Old { rows: 0..run.num_rows(), run: Arc::clone(run) };
        runs.extend(encoded.old.as_ref().map(|run| Arc::new(whole(run))));
        merge.layout = Layout::Shuffled(runs);
    }
    let records = merge.all_shards()?;
    merge.check_rows(&records)?;
    Ok((records.iter().map(|record| record.entry.clone()).collect(), merge.statistics(&records, bytes)))
}

/// Which runs are merged with which.
#[derive(Debug)]
enum Layout {
    /// All at once, by key.
    Shuffled(Vec<Arc<Run>>),
    /// Range after range.
    Source,
}

struct Merge<'a> {
    context: BuildContext<'a>,
    split: &'a str,
    count: usize,
    layout: Layout,
    encoded: &'a Encoded,
    inputs: String,
    work: &'a Path,
    staged: &'a Path,
    counters: &'a Counters<'a>,
}

impl Merge<'_> {
    fn all_shards(&self) -> Result<Vec<ShardRecord>, CacheError> {
        let next = AtomicU64::new(0);
        let results: Mutex<BTreeMap<usize, Result<ShardRecord, CacheError>>> = Mutex::default();
        let at_once = self.context.pool.current_num_threads().min(self.count);
        self.context.pool.scope(|scope| {
            for _ in 0..at_once {
                scope.spawn(|_| {
                    loop {
                        let shard = next.fetch_add(1, Ordering::Relaxed) as usize;
                        if shard >= self.count {
                            break;
                        }
                        let result = self.shard(shard, at_once);
                        let failed = result.is_err();
                        results.lock().expect("no thread panicked").insert(shard, result);
                        if failed {
                            next.store(self.count as u64, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let results = results.into_inner().expect("no thread panicked");
        // The first failure, even if later shards were not begun because of it.
        results.into_values().collect()
    }

    /// One shard, from an earlier job or merged now.
    fn shard(&self, shard: usize, at_once: usize) -> Result<ShardRecord, CacheError> {
        let stem = shard_stem(self.split, shard, self.count);
        let path = self.work.join(format!("shard-{shard:05}-of-{:05}.json", self.count));
        if let Ok(record) = commit::read_checked_json::<ShardRecord>(&path)
            && record.inputs == self.inputs
            && check_shard(self.staged, &record.entry).is_ok()
        {
            add(&self.counters.examples_merged, record.entry.examples);
            add(&self.counters.shards_done, 1);
            self.counters.tell();
            return Ok(record);
        }
        let mut rows = self.rows_of(shard)?;
        let columns = self.context.columns;
        let mut writer = ShardWriter::create(self.staged, &stem, columns, self.context.compression)?;
        let batches_ahead = self.batches_ahead(at_once);
        loop {
            self.check_cancelled()?;
            let layouts = rows.next_batches(columns, &self.context.geometry, batches_ahead)?;
            if layouts.is_empty() {
                break;
            }
            let batches: Vec<_> = layouts
                .par_iter()
                .map(|layout| gather(columns, &layout.sources, &layout.picks, Target::Shard))
                .collect::<Result<_, _>>()?;
            for batch in &batches {
                writer.write(batch)?;
                add(&self.counters.examples_merged, batch.num_rows() as u64);
            }
            self.counters.tell();
        }
        let (entry, lengths) = writer.finish()?;
        let record = ShardRecord { inputs: self.inputs.clone(), entry, lengths };
        commit::write(&path, commit::to_checked_json(&record).as_bytes(), Durability::Process)?;
        add(&self.counters.shards_done, 1);
        self.counters.committed(Commit::Shard);
        Ok(record)
    }

    /// The old cache has to hold the examples that its pieces say, or the new one would lack some.
    fn check_rows(&self, shards: &[ShardRecord]) -> Result<(), CacheError> {
        let Some(old) = &self.encoded.old else { return Ok(()) };
        let expected: u64 = self.encoded.ranges.iter().map(|range| range.parts.sum(|part| part.rows)).sum();
        let found: u64 = shards.iter().map(|shard| shard.entry.examples).sum();
        if found == expected {
            return Ok(());
        }
        let problem =
            format!("its pieces stand for other examples than it holds: {found} instead of {expected}");
        Err(CacheError::damaged(old.folder(), problem))
    }

    /// How many batches a shard lays out at a time: enough for all threads, as far as memory goes.
    fn batches_ahead(&self, at_once: usize) -> usize {
        let threads = self.context.pool.current_num_threads();
        let by_memory = self.context.memory / 4 / (at_once as u64 * self.context.geometry.batch_bytes);
        (2 * threads).div_ceil(at_once).min(usize::try_from(by_memory).unwrap_or(usize::MAX)).max(1)
    }

    fn rows_of(&self, shard: usize) -> Result<MergedRows, CacheError> {
        let (index, count) = (shard as u128, self.count as u128);
        match &self.layout {
            Layout::Shuffled(runs) => {
                // floor(k * N / 2^64) = i means ceil(i * 2^64 / N) <= k < ceil((i + 1) * 2^64 / N).
                let first = |index: u128| (index << 64).div_ceil(count);
                let from = first(index) << 64;
                let below = (index + 1 < count).then(|| first(index + 1) << 64);
                let mut rows = MergedRows::new(vec![Group::Open(runs.clone())], below, u64::MAX);
                rows.begin(self.context.columns, from)?;
                Ok(rows)
            }
            Layout::Source => {
                let total: u64 =
                    self.encoded.ranges.iter().map(|range| range.parts.sum(|part| part.rows)).sum();
                let border = |index: u128| (u128::from(total) * index / count) as u64;
                let (from, to) = (border(index), border(index + 1));
                let mut groups = Vec::new();
                let mut skip = 0;
                let mut first = 0;
                for range in &self.encoded.ranges {
                    let end = first + range.parts.sum(|part| part.rows);
                    if end > from && first < to {
                        if groups.is_empty() {
                            skip = from - first;
                        }
                        groups.push(match (&range.old, &self.encoded.old) {
                            (Some(rows), Some(run)) => {
                                let run = Run::Old { run: Arc::clone(run), rows: rows.clone() };
                                Group::Open(vec![Arc::new(run)])
                            }
                            _ => Group::Closed(self.runs_of(range)),
                        });
                    }
                    first = end;
                }
                groups.reverse();
                let mut rows = MergedRows::new(groups, None, to - from + skip);
                rows.begin(self.context.columns, 0)?;
                rows.skip(self.context.columns, skip)?;
                Ok(rows)
            }
        }
    }

    fn runs_of(&self, range: &EncodedRange) -> Vec<RunPlace> {
        let runs = range.parts.parts.iter().filter_map(|part| {
            let path = self.work.join(&part.run.as_ref()?.file);
            let file = (range.file != part.file_index).then_some(range.file);
            Some(RunPlace { path, first_row: range.first_row, file })
        });
        runs.collect()
    }

    /// All runs, opened once for all shards; if there are too many to have them all open (ten thousand small files), merged into fewer first.
    fn few_runs(&self) -> Result<Vec<Arc<Run>>, CacheError> {
        let most_runs = self.context.geometry.most_runs;
        let mut runs: Vec<RunPlace> =
            self.encoded.ranges.iter().flat_map(|range| self.runs_of(range)).collect();
        let mut merged = 0;
        while runs.len() > most_runs {
            // As many at a time as all threads together can have open.
            let groups = runs.chunks((most_runs / self.context.pool.current_num_threads()).max(2));
            let groups: Vec<(usize, &[RunPlace])> = (merged..).zip(groups).collect();
            let merge = |(index, group): &(usize, &[RunPlace])| self.merge_runs(*index, group);
            let fewer: Vec<RunPlace> =
                self.context.pool.install(|| groups.par_iter().map(merge).collect::<Result<_, _>>())?;
            merged += fewer.len();
            runs = fewer;
        }
        runs.iter().map(|run| Run::open(run).map(Arc::new)).collect()
    }

    fn merge_runs(&self, index: usize, runs: &[RunPlace]) -> Result<RunPlace, CacheError> {
        let BuildContext { columns, geometry, .. } = &self.context;
        let path = self.work.join(format!("merged-{index:05}.arrow"));
        let mut writer = TableWriter::create(&path, &columns.spill)?;
        let mut rows = MergedRows::new(vec![Group::Closed(runs.to_vec())], None, u64::MAX);
        rows.begin(columns, 0)?;
        loop {
            self.check_cancelled()?;
            let layout = rows.next_batch(columns, geometry)?;
            if layout.picks.is_empty() {
                break;
            }
            writer.write(&gather(columns, &layout.sources, &layout.picks, Target::Spill)?)?;
        }
        writer.finish()?.commit(Durability::Process)?;
        // Ordinals and files are those of the whole split now.
        Ok(RunPlace { path, first_row: 0, file: None })
    }

    fn check_cancelled(&self) -> Result<(), CacheError> {
        if !self.context.is_cancelled() {
            return Ok(());
        }
        let done = self.counters.shards_done.load(Ordering::Relaxed);
        Err(CacheError::Interrupted {
            done: format!("all encoded ranges, and {done} of {} shards", self.count),
        })
    }

    fn statistics(&self, shards: &[ShardRecord], bytes: u64) -> SplitStatistics {
        let mut counts: BTreeMap<&str, EncodeCounts> = BTreeMap::new();
        let mut characters: Option<BTreeMap<String, u64>> = None;
        let mut bad_rows = BadRowStatistics::default();
        let mut dropped: BTreeMap<usize, u64> = BTreeMap::new();
        for range in &self.encoded.ranges {
            let file = &self.encoded.files[range.file as usize].name;
            for content in range.parts.parts.iter().map(|part| &part.content) {
                if content.rows > 0 {
                    let sums = characters.get_or_insert_with(|| {
                        content.characters.keys().map(|feature| (feature.clone(), 0)).collect()
                    });
                    // Known of all rows, or not known.
                    sums.retain(|feature, _| content.characters.contains_key(feature));
                    for (feature, sum) in sums {
                        *sum += content.characters.get(feature).copied().unwrap_or_default();
                    }
                }
                for (feature, count) in &content.counts {
                    *counts.entry(feature).or_default() += *count;
                }
                for (&step, examples) in &content.dropped {
                    *dropped.entry(step).or_default() += examples;
                }
                bad_rows.count += content.bad_rows;
                if let Some(damage) = &content.damage {
                    bad_rows.damaged_files.push(DamagedFile { file: file.clone(), damage: damage.clone() });
                }
            }
            for (ordinal, reason) in range.parts.first_bad_rows() {
                if bad_rows.first.len() < BAD_ROWS_KEPT {
                    let row = range.first_row + ordinal;
                    bad_rows.first.push(BadRowExample { file: file.clone(), row, reason: reason.to_owned() });
                }
            }
        }
        let mut features = BTreeMap::new();
        for (index, token) in self.context.columns.tokens.iter().enumerate() {
            let mut lengths = LengthCounts::default();
            shards.iter().for_each(|shard| lengths.merge(&shard.lengths[index]));
            let count = counts.get(token.name.as_str()).copied().unwrap_or_default();
            features.insert(token.name.clone(), FeatureStatistics::new(&lengths, count, token.id_bytes()));
        }
        SplitStatistics {
            examples: shards.iter().map(|shard| shard.entry.examples).sum(),
            records: self.encoded.files.iter().map(|file| file.records).sum(),
            bytes,
            file_bytes: shards.iter().map(|shard| shard.entry.file_bytes()).sum(),
            features,
            bad_rows,
            dropped: dropped.into_iter().map(|(step, examples)| self.dropped(step, examples)).collect(),
            duplicates: Vec::new(),
            seqio: BTreeMap::new(),
        }
        .with_seqio_names(&characters.unwrap_or_default())
    }
}

impl Merge<'_> {
    fn dropped(&self, step: usize, examples: u64) -> DroppedExamples {
        DroppedExamples { step, op: self.context.input.step_name(step), examples }
    }
}

/// A hash of all that decides the shards of a split, so that those of another state of the sources are not reused.
fn inputs_digest(split: &str, shuffled: bool, compression: Compression, encoded: &Encoded) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(format!("{split}\n{shuffled}\n{}\n", compression.name()).as_bytes());
    for range in &encoded.ranges {
        let Some(first) = range.parts.parts.first() else { continue };
        let rows = range.parts.sum(|part| part.rows);
        let line = format!("{} {} {} {rows} {:?}\n", range.file, range.start, range.first_row, first.file);
        hasher.update(line.as_bytes());
    }
    hex(hasher.finalize().as_bytes())
}

/// A batch still to be gathered.
struct BatchLayout {
    sources: Vec<PickSource>,
    picks: Vec<Pick>,
}

/// Runs that are merged with each other.
enum Group {
    /// Open already.
    Open(Vec<Arc<Run>>),
    /// Opened when it is their turn.
    Closed(Vec<RunPlace>),
}

/// Where one run of a merge stands.
struct Cursor {
    run: Arc<Run>,
    batch_index: usize,
    batch: Arc<SpillBatch>,
    row: usize,
    /// Index of `batch` among the sources of the batch being laid out, and which one that is.
    slot: Option<(u64, u32)>,
}

/// The rows of a shard in order.
struct MergedRows {
    /// Groups of runs still to come, the next one last. One group's rows come before the next one's.
    groups: Vec<Group>,
    cursors: Vec<Cursor>,
    heap: BinaryHeap<Reverse<(u128, [u8; 16], usize)>>,
    /// Rows from this key on belong to the next shard.
    below: Option<u128>,
    /// Rows left.
    rows_left: u64,
    layouts: u64,
}

impl MergedRows {
    fn new(groups: Vec<Group>, below: Option<u128>, rows_left: u64) -> Self {
        Self { groups, cursors: Vec::new(), heap: BinaryHeap::new(), below, rows_left, layouts: 0 }
    }

    /// Opens the next group at the first key that is at least `from`.
    fn begin(&mut self, columns: &StoredColumns, from: u128) -> Result<(), CacheError> {
        self.cursors.clear();
        let runs = match self.groups.pop() {
            Some(Group::Open(runs)) => runs,
            Some(Group::Closed(places)) => {
                places.iter().map(|place| Run::open(place).map(Arc::new)).collect::<Result<_, _>>()?
            }
            None => Vec::new(),
        };
        for run in runs {
            if let Some((batch_index, batch, row)) = run.first_at(columns, from)? {
                let cursor = Cursor { run, batch_index, batch, row, slot: None };
                self.heap.push(Reverse((cursor.batch.key(row), cursor.batch.id(row), self.cursors.len())));
                self.cursors.push(cursor);
            }
        }
        Ok(())
    }

    /// The cursor that has the next row, if there is one.
    fn peek(&mut self, columns: &StoredColumns) -> Result<Option<usize>, CacheError> {
        if self.rows_left == 0 {
            return Ok(None);
        }
        while self.heap.is_empty() && !self.groups.is_empty() {
            self.begin(columns, 0)?;
        }
        Ok(match self.heap.peek() {
            Some(Reverse((key, _, cursor))) if self.below.is_none_or(|below| *key < below) => Some(*cursor),
            _ => None,
        })
    }

    /// Moves the cursor that `peek` gave to its next row.
    fn advance(&mut self, columns: &StoredColumns) -> Result<(), CacheError> {
        let Some(mut top) = self.heap.peek_mut() else { return Ok(()) };
        self.rows_left -= 1;
        let index = top.0.2;
        let cursor = &mut self.cursors[index];
        cursor.row += 1;
        if cursor.row == cursor.batch.len() {
            let Some((index, batch)) = cursor.run.batch_from(columns, cursor.batch_index + 1)? else {
                std::collections::binary_heap::PeekMut::pop(top);
                return Ok(());
            };
            (cursor.batch_index, cursor.batch, cursor.row, cursor.slot) = (index, batch, 0, None);
        }
        *top = Reverse((cursor.batch.key(cursor.row), cursor.batch.id(cursor.row), index));
        Ok(())
    }

    fn skip(&mut self, columns: &StoredColumns, rows: u64) -> Result<(), CacheError> {
        for _ in 0..rows {
            if self.peek(columns)?.is_some() {
                self.advance(columns)?;
            }
        }
        Ok(())
    }

    /// Lays out the next batches, up to `count`. Every batch but the last of the shard closes where the rows say.
    fn next_batches(
        &mut self,
        columns: &StoredColumns,
        geometry: &Geometry,
        count: usize,
    ) -> Result<Vec<BatchLayout>, CacheError> {
        let mut layouts = Vec::new();
        while layouts.len() < count {
            let layout = self.next_batch(columns, geometry)?;
            if layout.picks.is_empty() {
                break;
            }
            layouts.push(layout);
        }
        Ok(layouts)
    }

    fn next_batch(
        &mut self,
        columns: &StoredColumns,
        geometry: &Geometry,
    ) -> Result<BatchLayout, CacheError> {
        self.layouts += 1;
        let mut layout = BatchLayout { sources: Vec::new(), picks: Vec::new() };
        let mut fill = BatchFill::default();
        while let Some(index) = self.peek(columns)? {
            let cursor = &mut self.cursors[index];
            if fill.add(cursor.batch.row_bytes(cursor.row), geometry) {
                break;
            }
            let source = match cursor.slot {
                Some((layout, source)) if layout == self.layouts => source,
                _ => {
                    let source = layout.sources.len() as u32;
                    layout.sources.push(cursor.run.source(&cursor.batch));
                    cursor.slot = Some((self.layouts, source));
                    source
                }
            };
            layout.picks.push((source, cursor.row as u32));
            self.advance(columns)?;
        }
        Ok(layout)
    }
}
