//! A finished cache taken over by the build of another: appended data without encoding the old again.
//!
//! ```text
//! old cache: a.jsonl (3 pieces), b.jsonl (2)     now: a.jsonl grown, b.jsonl as it was, c.jsonl new
//! taken over: the pieces of b, and those of a whose text has the hash it had, up to the first that has not
//! encoded: the rest of a, and c     ->     the same bytes as if everything had been encoded
//! ```
//!
//! The definition has to be the same. Files are compared as everywhere: path, size and time, else their content.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use seqio::{DataSource, FileRanges, RawChunk, SourceFile, SourceRange, Split};

use crate::columns::StoredColumns;
use crate::difference::first_few;
use crate::digest::{chunk_digest, digest_like, range_digest};
use crate::error::CacheError;
use crate::explain::definition_changes;
use crate::input::{BuildInput, RangeKey, SplitPlan};
use crate::layout::task_folder;
use crate::log::SourceStamp;
use crate::old_run::{KeptFile, OldRun};
use crate::parts::{FileState, PartRecord, RangeParts};
use crate::pieces::{Piece, Pieces, pieces_file};
use crate::store::{Cache, CacheDir, cache_folders};

/// Which finished cache a build may take examples from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// This one, which has to be of the same definition.
    Folder(PathBuf),
    /// Of each split the newest of the same definition, if there is one.
    Latest,
}

/// What became of an old cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reused {
    /// Its folder.
    pub folder: PathBuf,
    /// What was not taken over and why, in words; empty if nothing.
    pub left: String,
}

/// What a split takes over.
#[derive(Debug)]
pub(crate) struct OldSplit {
    /// The old cache's folder.
    pub(crate) folder: PathBuf,
    /// Its shards.
    pub(crate) run: Arc<OldRun>,
    /// The bad records that it set aside, if it did.
    pub(crate) rejects: Option<PathBuf>,
    /// The ranges that need not be encoded, with their rows in the old split.
    pub(crate) ranges: BTreeMap<RangeKey, OldRange>,
    /// The digests of files that are taken over whole.
    pub(crate) digests: BTreeMap<u32, String>,
    /// The starts of the ranges of files that only one reader can run through.
    pub(crate) streamed: BTreeMap<u32, BTreeSet<u64>>,
    /// What is not taken over, in words; empty if nothing.
    pub(crate) left: String,
}

/// A range that is taken over.
#[derive(Clone, Debug)]
pub(crate) struct OldRange {
    pub(crate) piece: Piece,
    pub(crate) rows: std::ops::Range<u64>,
    /// Its lines among the bad records that are set aside.
    pub(crate) rejects: std::ops::Range<u64>,
}

impl OldRange {
    /// As if it had been encoded by this job, but for its rows.
    pub(crate) fn parts(&self, plan: &SplitPlan, key: RangeKey) -> RangeParts {
        let part = PartRecord {
            file: FileState::of(plan.file(key.0)),
            file_index: key.0,
            start: self.piece.start,
            end: self.piece.end,
            window: None,
            content: self.piece.whole(),
            run: None,
            rejects: None,
        };
        RangeParts { parts: vec![part] }
    }
}

/// The cache that a split can be taken from; `None` if there is none, or if it does not hold the split.
pub(crate) fn find_old(
    root: &CacheDir,
    input: &dyn BuildInput,
    split: &Split,
    reuse: &Reuse,
) -> Result<Option<Cache>, CacheError> {
    let name = split.to_string();
    match reuse {
        Reuse::Folder(folder) => {
            let cache = Cache::open(folder)?;
            check(&cache, input, split)?;
            Ok(cache.manifest().splits.contains_key(&name).then_some(cache))
        }
        Reuse::Latest => {
            let fits = |cache: &Cache| {
                cache.manifest().splits.contains_key(&name) && check(cache, input, split).is_ok()
            };
            let caches = cache_folders(&task_folder(root.root(), input.task()))?;
            let caches = caches.iter().filter_map(|folder| Cache::open(folder).ok()).filter(fits);
            Ok(caches.max_by_key(|cache| cache.log().map_or(0, |log| log.finished_unix_seconds)))
        }
    }
}

/// Whether anything of a cache can be right in the cache of a split.
fn check(cache: &Cache, input: &dyn BuildInput, split: &Split) -> Result<(), CacheError> {
    let refused = |problem: String| Err(CacheError::CannotReuse { path: cache.folder().to_owned(), problem });
    let manifest = cache.manifest();
    if manifest.task != input.task() {
        return refused(format!("it is a cache of task `{}`, not of `{}`", manifest.task, input.task()));
    }
    let changes = definition_changes(input, manifest);
    if !changes.is_empty() {
        let words = first_few(changes.into_iter().map(|change| change.words));
        return refused(format!("it is of another definition: {words}"));
    }
    if manifest.cache_fingerprint != input.fingerprint().to_string() {
        return refused("it is of another definition".to_owned());
    }
    if let Some(why) = needs_all(input) {
        return refused(why);
    }
    if split.is_slice() {
        return refused(format!(
            "`{split}` is a slice, and which records belong to one depends on all files"
        ));
    }
    let name = split.to_string();
    if manifest.splits.contains_key(&name) && !pieces_file(cache.folder(), &name).exists() {
        return refused(format!(
            "it has no `{}`: the program that built it kept none",
            pieces_file(std::path::Path::new(""), &name).display()
        ));
    }
    Ok(())
}

/// Why an example may depend on records that are not its own, so that what a piece gave once it need not give again.
fn needs_all(input: &dyn BuildInput) -> Option<String> {
    let format = &input.cache_definition()["source"]["format"];
    if format == "sql" || format.get("sql").is_some() {
        return Some("its rows come from a query, which may look at all files for each of them".to_owned());
    }
    let step = input.whole_split_steps().into_iter().next()?;
    Some(format!("step {} `{}` compares all examples of a split with each other", step.number, step.op))
}

/// Compares the files of a split with those of an old cache, and takes over what is as it was.
pub(crate) fn take_over(
    cache: &Cache,
    input: &dyn BuildInput,
    columns: &StoredColumns,
    plan: &SplitPlan,
) -> Result<OldSplit, CacheError> {
    let source = input.needed_source()?;
    let name = plan.split.to_string();
    let entry = cache.manifest().split(cache.folder(), &name)?;
    let pieces = Pieces::read(cache.folder(), &name, entry)?;
    let mut rows = Vec::with_capacity(pieces.pieces.len());
    let mut rejected = Vec::with_capacity(pieces.pieces.len());
    let (mut first, mut first_rejected) = (0, 0);
    for piece in &pieces.pieces {
        rows.push(first..first + piece.content.rows);
        rejected.push(first_rejected..first_rejected + piece.content.bad_rows);
        first += piece.content.rows;
        first_rejected += piece.content.bad_rows;
    }
    let rejects = match &entry.rejects {
        Some(rejects) => Some(rejects.checked(cache.folder())?),
        None => None,
    };
    let log = cache.log();
    let stamps = log.as_ref().and_then(|log| log.sources.get(&name)).map_or(&[][..], Vec::as_slice);

    let mut left = Vec::new();
    let mut kept: Vec<Option<KeptFile>> = vec![None; entry.files.len()];
    let (mut ranges, mut digests, mut streamed) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for ((index, file), how) in (0u32..).zip(&plan.files).zip(&plan.ranges) {
        let Some(old) = (0u32..).zip(&entry.files).find(|(_, old)| old.name == file.name) else {
            left.push(format!("`{}` is new", file.name));
            continue;
        };
        let (old_index, old) = old;
        if source.is_result(file) {
            left.push(format!("`{}` is the result of a query and is made again", file.name));
            continue;
        }
        let of_file: Vec<&Piece> = pieces.of_file(old_index).collect();
        let known = |piece: &Piece| match how {
            FileRanges::Known(known) => {
                known.contains(&SourceRange { file: index, start: piece.start, end: piece.end })
            }
            FileRanges::Streamed => true,
        };
        let same = stamps.contains(&SourceStamp::of(file))
            || (file.bytes == old.bytes && digest_like(source, file, index, &old.digest)? == old.digest);
        let taken = match how {
            _ if same && of_file.iter().all(|piece| known(piece)) => of_file.len(),
            how => same_prefix(source, file, index, how, &of_file)?,
        };
        let whole = same && taken == of_file.len();
        // Where the file is read from on, if it is not taken over whole.
        let next = of_file.get(taken).map(|piece| piece.start);
        if whole {
            digests.insert(index, old.digest.clone());
            if *how == FileRanges::Streamed {
                streamed.insert(index, of_file.iter().map(|piece| piece.start).collect());
            }
        } else if taken == 0 {
            left.push(format!("`{}` changed and is encoded again", file.name));
        } else {
            let from = next.map_or_else(|| "its old end".to_owned(), |next| format!("byte {next}"));
            left.push(format!("`{}` changed and is encoded again from {from} on", file.name));
        }
        if taken > 0 {
            let below = next.filter(|_| !whole).unwrap_or(u64::MAX);
            kept[old_index as usize] = Some(KeptFile { file: index, below });
        }
        let first = pieces.pieces.partition_point(|piece| piece.file < old_index);
        for (offset, piece) in of_file.iter().take(taken).enumerate() {
            let place = first + offset;
            let (rows, rejects) = (rows[place].clone(), rejected[place].clone());
            let range = OldRange { piece: (*piece).clone(), rows, rejects };
            ranges.insert((index, piece.start), range);
        }
    }
    for gone in entry.files.iter().filter(|old| plan.files.iter().all(|file| file.name != old.name)) {
        left.push(format!("`{}` is gone, and its examples with it", gone.name));
    }
    let seed = input.is_shuffled(plan.split.name()).then(|| input.cache_seed());
    Ok(OldSplit {
        folder: cache.folder().to_owned(),
        rejects,
        run: Arc::new(OldRun::open(cache, &name, columns, kept, seed)?),
        ranges,
        digests,
        streamed,
        left: first_few(left),
    })
}

/// How many pieces at the front of a changed text file have the text they had.
fn same_prefix(
    source: &dyn DataSource,
    file: &SourceFile,
    index: u32,
    how: &FileRanges,
    pieces: &[&Piece],
) -> Result<usize, CacheError> {
    match how {
        FileRanges::Known(known) => {
            for (place, piece) in pieces.iter().enumerate() {
                let range = SourceRange { file: index, start: piece.start, end: piece.end };
                if !known.contains(&range) || same_pieces(source, file, index, Some(range), &[piece])? == 0 {
                    return Ok(place);
                }
            }
            Ok(pieces.len())
        }
        FileRanges::Streamed => same_pieces(source, file, index, None, pieces),
    }
}

/// How many of `pieces` a reader that begins at the first of them finds as they were.
fn same_pieces(
    source: &dyn DataSource,
    file: &SourceFile,
    index: u32,
    range: Option<SourceRange>,
    pieces: &[&Piece],
) -> Result<usize, CacheError> {
    let (mut place, mut records, mut chunks) = (0, 0, Vec::new());
    for chunk in source.read(file, index, range, Box::new(|_| false))? {
        let RawChunk { range, num_records, records: text, last_of_range, damage, .. } = chunk?;
        let Some(piece) = pieces.get(place).filter(|piece| piece.start == range.start) else { break };
        if damage.is_some() {
            break;
        }
        records += num_records;
        chunks.extend(chunk_digest(&text));
        if last_of_range {
            let digest = piece.content.text_digest.as_ref();
            if records != piece.content.records || digest != Some(&range_digest(chunks.iter())) {
                break;
            }
            place += 1;
            records = 0;
            chunks.clear();
        }
    }
    Ok(place)
}
