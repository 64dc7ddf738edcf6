//! Steps that look at a whole split: a pass over its keys for each of them, before the split is encoded.
//!
//! ```text
//! train.work/keys-1/                 sorted keys with positions, part after part, like the spills of rows
//! train.work/choice-1.drops, .json   who goes, sorted by position; and what it was made from
//! train.work/keys-2-<choices>/       of a second such step: with the choices of the first
//! train.work/rows-<choices>/         the spills of rows, which are good with these choices only
//! ```
//!
//! A job that is killed goes on where it was: with the keys that are committed, or with the choices.
//!
//! Of several workers each takes the keys of its own share. Who finds all keys there makes the choices, the same as
//! everybody else would; who does not waits for the others, or leaves the rows for another time if they are not at work.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seqio::{
    Drops, DuplicateCounts, Examples, KeyRecord, Position, RawChunk, Repeated, Scratch, SplitChoices,
    WholeSplitError, WholeSplitStep, find_duplicates,
};
use serde::{Deserialize, Serialize};

use crate::commit::{self, Durability};
use crate::encode::{BuildContext, EncodedRange, Extent, ranges_in_order, read_split};
use crate::error::CacheError;
use crate::hashed::HashedFile;
use crate::input::{RangeKey, ReadJob, SplitPlan};
use crate::layout::hex;
use crate::parts::{Check, RangeParts, committed_parts, unfinished_jobs};
use crate::pass::{Made, MakeError, Pass, PassBatch};
use crate::progress::{BuildPhase, Commit, Counters};
use crate::share::{OwnShare, Share};
use crate::spill::{RunEntry, hash_file};

/// The choices of all whole-split steps.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) choices: SplitChoices,
    /// Each step with what it found.
    pub(crate) steps: Vec<ChosenStep>,
    /// Where the rows are spilled that are encoded with these choices.
    pub(crate) rows: PathBuf,
    /// Records of its file before each range.
    pub(crate) first_rows: BTreeMap<RangeKey, u64>,
}

/// A whole-split step, and what it found.
#[derive(Debug)]
pub(crate) struct ChosenStep {
    pub(crate) step: WholeSplitStep,
    pub(crate) examples: u64,
    pub(crate) counts: DuplicateCounts,
    pub(crate) drops: Drops,
}

/// Whose keys a job takes before it chooses.
#[derive(Clone, Copy)]
pub(crate) enum Keys<'a> {
    /// All that are missing: it is alone.
    All,
    /// Those of its share. The function gives the workers of the same number that live.
    Share(&'a OwnShare, &'a dyn Fn() -> Result<BTreeSet<Share>, CacheError>),
    /// None: others have taken them.
    None,
}

/// Makes the choices that an earlier job has not; if keys are missing that are none of this job's, these are given back.
pub(crate) fn choose<'a>(
    context: BuildContext<'_>,
    plan: &SplitPlan,
    work: &Path,
    keys: Keys<'_>,
    counters: impl Fn() -> Counters<'a>,
) -> Result<Result<Chosen, Vec<ReadJob>>, CacheError> {
    let mut chosen = Chosen {
        choices: SplitChoices::none(),
        steps: Vec::new(),
        rows: work.to_owned(),
        first_rows: BTreeMap::new(),
    };
    // Everything below a choice is in a folder named by it: what was made with other choices is not taken for good.
    let mut made_with = String::new();
    for (number, step) in context.input.whole_split_steps().into_iter().enumerate() {
        let counters = counters();
        let folder = folder_for(work, &format!("keys-{}", number + 1), &made_with)?;
        let pass = KeysPass { context, number, choices: &chosen.choices };
        let done = match take_keys(plan, &folder, &counters, keys, &pass)? {
            Ok(done) => done,
            Err(missing) => return Ok(Err(missing)),
        };
        let ranges = ranges_in_order(plan, done, None).0;
        let path = work.join(format!("choice-{}", number + 1));
        let record = ChoiceRecord::reuse_or_make(context, &folder, &path, &ranges, &counters)?;
        let open = || Drops::open(&path.with_extension("drops")).map_err(failed);
        chosen.choices.push(open()?);
        chosen.steps.push(ChosenStep {
            step,
            examples: ranges.iter().map(|range| range.parts.sum(|part| part.rows)).sum(),
            counts: record.counts(),
            drops: open()?,
        });
        chosen.first_rows = ranges.iter().map(|range| ((range.file, range.start), range.first_row)).collect();
        made_with = hex(blake3::hash(format!("{made_with} {}", record.blake3).as_bytes()).as_bytes());
    }
    if !chosen.steps.is_empty() {
        chosen.rows = folder_for(work, "rows", &made_with)?;
    }
    Ok(Ok(chosen))
}

/// The keys of a whole split, or what is missing of them.
fn take_keys(
    plan: &SplitPlan,
    folder: &Path,
    counters: &Counters<'_>,
    keys: Keys<'_>,
    pass: &KeysPass<'_>,
) -> Result<Result<BTreeMap<RangeKey, RangeParts>, Vec<ReadJob>>, CacheError> {
    let context = pass.context;
    match keys {
        Keys::All => {
            return read_split(context, plan, folder, counters, Extent::default(), pass).map(Ok);
        }
        Keys::Share(own, living) => {
            let extent = Extent { own: Some(own), old: None };
            read_split(context, plan, folder, counters, extent, pass)?;
            let missing = wait_for_keys(context, plan, folder, counters, own, living)?;
            if !missing.is_empty() {
                return Ok(Err(missing));
            }
        }
        Keys::None => {}
    }
    let done = committed_parts(context.pool, plan, folder, None, Check::Bytes)?;
    let missing = unfinished_jobs(plan, folder, &done, None);
    Ok(if missing.is_empty() { Ok(done) } else { Err(missing) })
}

/// Between two looks at the work of others: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));

/// Waits for the keys of workers that live; gives what is missing of the others.
fn wait_for_keys(
    context: BuildContext<'_>,
    plan: &SplitPlan,
    folder: &Path,
    counters: &Counters<'_>,
    own: &OwnShare,
    living: &dyn Fn() -> Result<BTreeSet<Share>, CacheError>,
) -> Result<Vec<ReadJob>, CacheError> {
    let (mut pause, longest) = PAUSES;
    let mut is_told = false;
    loop {
        // Who lives is looked at first: what one has done that is dead by then is seen.
        let living = living()?;
        let done = committed_parts(context.pool, plan, folder, None, Check::Sizes)?;
        let missing = unfinished_jobs(plan, folder, &done, None);
        let waits_for: BTreeSet<Share> =
            missing.iter().filter_map(|job| own.owner(*job)).filter(|share| living.contains(share)).collect();
        // Whoever waits for another is further than he is, so that nobody waits in a circle.
        if waits_for.is_empty() {
            return Ok(missing);
        }
        if context.is_cancelled() {
            return Err(CacheError::Interrupted { done: "the keys of its share".to_owned() });
        }
        if !is_told {
            let workers: Vec<String> = waits_for.iter().map(|share| format!("worker {share}")).collect();
            counters.notice(&format!("waits for the keys of {}", workers.join(", ")));
            is_told = true;
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(longest);
    }
}

/// The folder `kind` of these choices; those of others go.
fn folder_for(work: &Path, kind: &str, made_with: &str) -> Result<PathBuf, CacheError> {
    let name = match made_with.get(..16) {
        Some(choices) => format!("{kind}-{choices}"),
        None => kind.to_owned(),
    };
    for entry in fs::read_dir(work).map_err(CacheError::io("read", work))? {
        let entry = entry.map_err(CacheError::io("read", work))?;
        let other = entry.file_name();
        let of_kind = other.to_str().is_some_and(|other| other.starts_with(&format!("{kind}-")));
        if of_kind && other != *name {
            commit::remove(&entry.path())?;
        }
    }
    let folder = work.join(name);
    commit::create_folder(&folder)?;
    Ok(folder)
}

/// An error of the library as one of a build.
pub(crate) fn failed(error: WholeSplitError) -> CacheError {
    match error {
        WholeSplitError::Io { action, path, error } => CacheError::Io { action, path, error },
        WholeSplitError::Stopped => CacheError::Interrupted { done: "the keys of all examples".to_owned() },
        error => CacheError::io("find duplicates in", Path::new("the source"))(std::io::Error::other(error)),
    }
}

/// Takes the keys of examples.
struct KeysPass<'a> {
    context: BuildContext<'a>,
    number: usize,
    choices: &'a SplitChoices,
}

impl Pass for KeysPass<'_> {
    type Batch = Vec<KeyRecord>;

    const PHASE: BuildPhase = BuildPhase::Comparing;
    const KEEPS_REJECTS: bool = false;

    fn make(
        &self,
        _plan: &SplitPlan,
        chunk: &RawChunk,
        examples: Examples,
    ) -> Result<Made<Vec<KeyRecord>>, MakeError> {
        let keys = self.context.input.split_keys(self.number, chunk.range, examples, self.choices)?;
        Ok(Made {
            batch: keys.records,
            examples: keys.examples,
            row_bytes: 0,
            tokens: 0,
            counts: BTreeMap::new(),
            characters: BTreeMap::new(),
            dropped: BTreeMap::new(),
        })
    }

    fn write_run(
        &self,
        work: &Path,
        stem: &str,
        batches: Vec<Vec<KeyRecord>>,
    ) -> Result<RunEntry, CacheError> {
        let mut records = batches.concat();
        records.sort_unstable();
        let file = format!("{stem}.keys");
        let path = work.join(&file);
        let mut writer = HashedFile::create(&path)?;
        for record in &records {
            writer.write_all(record).map_err(CacheError::io("write", &path))?;
        }
        let rows = records.len() as u64;
        let (bytes, blake3) = writer.commit(Durability::Process)?;
        Ok(RunEntry { file, bytes, rows, blake3 })
    }
}

impl PassBatch for Vec<KeyRecord> {
    fn len(&self) -> usize {
        self.len()
    }

    fn memory(&self) -> u64 {
        // Twice: once as they came, once sorted.
        2 * (self.len() * size_of::<KeyRecord>()) as u64
    }
}

/// A step's choices, committed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChoiceRecord {
    /// Hash of the keys that they were made from.
    inputs: String,
    compared: u64,
    dropped: u64,
    repeated_keys: u64,
    most_repeated: Vec<RepeatedRecord>,
    /// Of the file of drops.
    blake3: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RepeatedRecord {
    file: u32,
    start: u64,
    ordinal: u64,
    occurrence: u32,
    copies: u64,
}

impl ChoiceRecord {
    fn reuse_or_make(
        context: BuildContext<'_>,
        folder: &Path,
        path: &Path,
        ranges: &[EncodedRange],
        counters: &Counters<'_>,
    ) -> Result<Self, CacheError> {
        let inputs = inputs_digest(ranges);
        let (drops, record) = (path.with_extension("drops"), path.with_extension("json"));
        if let Ok(known) = commit::read_checked_json::<Self>(&record)
            && known.inputs == inputs
            && hash_file(&drops).is_ok_and(|hash| hash == known.blake3)
        {
            return Ok(known);
        }
        let runs = ranges.iter().flat_map(|range| &range.parts.parts).filter_map(|part| part.run.as_ref());
        let runs = runs.map(|run| folder.join(&run.file)).collect();
        let scratch = Scratch {
            folder: folder.to_owned(),
            memory_bytes: context.memory,
            stop: Arc::clone(context.cancel),
        };
        let mut out = HashedFile::create(&drops)?;
        let counts = find_duplicates(runs, &scratch, &mut out).map_err(failed)?;
        let (_, blake3) = out.commit(Durability::Process)?;
        let made = Self {
            inputs,
            compared: counts.compared,
            dropped: counts.dropped,
            repeated_keys: counts.repeated_keys,
            most_repeated: counts.most_repeated.iter().map(RepeatedRecord::of).collect(),
            blake3,
        };
        commit::write(&record, commit::to_checked_json(&made).as_bytes(), Durability::Process)?;
        counters.committed(Commit::Choice);
        Ok(made)
    }

    fn counts(&self) -> DuplicateCounts {
        DuplicateCounts {
            compared: self.compared,
            dropped: self.dropped,
            repeated_keys: self.repeated_keys,
            most_repeated: self.most_repeated.iter().map(|repeated| repeated.value()).collect(),
        }
    }
}

impl RepeatedRecord {
    fn of(repeated: &Repeated) -> Self {
        let Repeated { kept: Position { file, start, ordinal, occurrence }, copies } = *repeated;
        Self { file, start, ordinal, occurrence, copies }
    }

    fn value(self) -> Repeated {
        let Self { file, start, ordinal, occurrence, copies } = self;
        Repeated { kept: Position { file, start, ordinal, occurrence }, copies }
    }
}

/// A hash of all keys and where they stand.
fn inputs_digest(ranges: &[EncodedRange]) -> String {
    let mut hasher = blake3::Hasher::new();
    for EncodedRange { parts: RangeParts { parts }, file, start, .. } in ranges {
        for part in parts {
            let run = part.run.as_ref().map_or("", |run| run.blake3.as_str());
            hasher.update(format!("{file} {start} {} {run}\n", part.content.rows).as_bytes());
        }
    }
    hex(hasher.finalize().as_bytes())
}
