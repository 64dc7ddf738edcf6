//! Before the work of several workers becomes a cache: is all of it there, and if not, who owes what.
//!
//! ```text
//! pieces 1 to 8 of `train`, of which 3 and 7 have no record  ->  worker 1/4 owes `a.jsonl` (piece 3 of 5), …
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use seqio::FileRanges;

use crate::choose::{Chosen, Keys, choose};
use crate::commit;
use crate::encode::BuildContext;
use crate::error::{CacheError, MissingPieces};
use crate::input::{BuildInput, ReadJob, SplitPlan};
use crate::layout::work_folder;
use crate::parts::{Check, committed_parts, unfinished_jobs};
use crate::progress::{BuildProgress, Counters};
use crate::roster::{SourcesRecord, last_count};
use crate::share::{Share, Shares};

/// What is not encoded of a split.
#[derive(Debug)]
pub(crate) struct Unfinished<'a> {
    pub(crate) plan: &'a SplitPlan,
    pub(crate) work: PathBuf,
    pub(crate) jobs: Vec<ReadJob>,
}

/// The choices of each split, if nothing is missing as far as records and sizes tell; else an error that names what
/// workers still owe of any split.
pub(crate) fn check_complete(
    context: BuildContext<'_>,
    plans: &[SplitPlan],
    building: &Path,
    progress: &dyn BuildProgress,
) -> Result<Vec<Chosen>, CacheError> {
    let mut splits = Vec::new();
    let mut all_chosen = Vec::new();
    for plan in plans {
        let name = plan.split.to_string();
        let work = building.join(work_folder(&name));
        commit::create_folder(&work)?;
        let counters = || {
            let (files, bytes) = (plan.files.len() as u64, plan.source_bytes());
            Counters::new(progress, context.input.task(), &name, None, files, bytes)
        };
        let jobs = match choose(context, plan, &work, Keys::None, counters)? {
            Ok(chosen) => {
                let done = committed_parts(context.pool, plan, &chosen.rows, None, Check::Sizes)?;
                let jobs = unfinished_jobs(plan, &chosen.rows, &done, None);
                all_chosen.push(chosen);
                jobs
            }
            Err(missing_keys) => missing_keys,
        };
        splits.push(Unfinished { plan, work, jobs });
    }
    match splits.iter().all(|split| split.jobs.is_empty()) {
        true => Ok(all_chosen),
        false => Err(incomplete(context.input, &splits)),
    }
}

/// The error that says what of these splits is missing.
pub(crate) fn incomplete(input: &dyn BuildInput, splits: &[Unfinished<'_>]) -> CacheError {
    let count = splits.iter().filter_map(|split| last_count(&split.work)).next_back().unwrap_or(1);
    let mut missing = Vec::new();
    for Unfinished { plan, work, jobs } in splits.iter().filter(|split| !split.jobs.is_empty()) {
        let split = plan.split.to_string();
        let there = SourcesRecord::read(work);
        if let Some(difference) = there.and_then(|there| there.difference(&SourcesRecord::of(plan))) {
            return CacheError::OtherSources { split, difference };
        }
        let shares = Shares::new(plan, count);
        let mut owed: BTreeMap<Share, Vec<ReadJob>> = BTreeMap::new();
        for &job in jobs {
            let share = shares.owner(job).and_then(|index| Share::new(index, count));
            let share = share.expect("every piece of a split has an owner");
            owed.entry(share).or_default().push(job);
        }
        missing.extend(owed.into_iter().map(|(share, jobs)| MissingPieces {
            split: split.clone(),
            share,
            pieces: jobs.len() as u64,
            files: in_words(plan, &jobs),
        }));
    }
    let pieces = splits.iter().map(|split| split.plan.jobs().len() as u64).sum();
    CacheError::Incomplete { task: input.task().to_owned(), pieces, missing, options: options(input, splits) }
}

/// Pieces named in a message, of each file.
const PIECES_NAMED: usize = 8;

/// Pieces as a person knows them: the files, and which of their pieces if they have several.
fn in_words(plan: &SplitPlan, jobs: &[ReadJob]) -> Vec<String> {
    let mut files: BTreeMap<u32, Vec<ReadJob>> = BTreeMap::new();
    jobs.iter().for_each(|job| files.entry(job.file).or_default().push(*job));
    let words = |(file, jobs): (u32, Vec<ReadJob>)| {
        let name = &plan.file(file).name;
        let FileRanges::Known(ranges) = &plan.ranges[file as usize] else { return format!("`{name}`") };
        if jobs.len() == ranges.len() {
            return format!("`{name}`");
        }
        let place =
            |job: &ReadJob| 1 + ranges.iter().position(|range| Some(*range) == job.range).unwrap_or(0);
        let mut places: Vec<String> =
            jobs.iter().take(PIECES_NAMED).map(|job| place(job).to_string()).collect();
        if jobs.len() > PIECES_NAMED {
            places.push("…".to_owned());
        }
        let pieces = if jobs.len() == 1 { "piece" } else { "pieces" };
        format!("`{name}` ({pieces} {} of {})", places.join(", "), ranges.len())
    };
    files.into_iter().map(words).collect()
}

/// The options of a command that mean these splits.
fn options(input: &dyn BuildInput, splits: &[Unfinished<'_>]) -> String {
    let asked: BTreeSet<String> = splits.iter().map(|split| split.plan.split.to_string()).collect();
    let all: BTreeSet<String> = input.source().map(|source| source.splits()).into_iter().flatten().collect();
    if asked == all {
        return String::new();
    }
    let quoted = |split: &String| match split.contains('[') {
        true => format!(" --split '{split}'"),
        false => format!(" --split {split}"),
    };
    asked.iter().map(quoted).collect()
}
