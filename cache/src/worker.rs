//! One of several workers that build a cache together, on any machines that share the folder of caches.
//!
//! ```text
//! worker 0/2 and worker 1/2, at any time, in any order  ->  parts of all ranges in .building-<fingerprint>/
//! finish                                                ->  <fingerprint>-<source digest>/, as one job alone makes it
//! ```
//!
//! A worker does what a job does up to its merge, for the pieces that are its own. So whatever it leaves is taken up by
//! itself, by workers of another number, or by one job that builds the rest.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use seqio::Split;

use crate::build::{BuildConfig, check_space, stored_columns, thread_pool, wanted_splits};
use crate::choose::{Keys, choose};
use crate::commit;
use crate::encode::{BuildContext, encode_share};
use crate::error::CacheError;
use crate::input::{BuildInput, ReadJob, SplitPlan};
use crate::layout::{building_folder, task_folder, work_folder};
use crate::log::RangesDone;
use crate::progress::{BuildPhase, BuildProgress, Counters};
use crate::roster::{Recorder, Roster, SourcesRecord, WorkerState, workers_done};
use crate::share::{OwnShare, Share, piece_bytes};
use crate::store::{CacheDir, short_fingerprint};

/// What a worker did.
#[derive(Clone, Debug, PartialEq)]
pub struct ShareReport {
    /// The worker.
    pub share: Share,
    /// Each split asked for, in order.
    pub splits: Vec<SplitShareReport>,
}

impl ShareReport {
    /// How many workers are done with all splits that had to be encoded; `None` if none had.
    pub fn workers_done(&self) -> Option<u32> {
        self.splits.iter().filter(|split| split.cached_in.is_none()).map(|split| split.workers_done).min()
    }
}

/// What a worker did for one split.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SplitShareReport {
    /// The split.
    pub split: String,
    /// The finished cache that holds it already: there was nothing to do.
    pub cached_in: Option<PathBuf>,
    /// The workers whose keys are missing, where a step compares all examples of the split: until all have taken the
    /// keys of their shares, nobody knows which examples stay, and this worker has to be run again.
    pub awaits: Vec<Share>,
    /// Pieces of the worker: ranges, and files that only one reader can run through.
    pub pieces: u64,
    /// Pieces of all workers.
    pub pieces_of_split: u64,
    /// Bytes of the worker's pieces.
    pub source_bytes: u64,
    /// Bytes of the split's source.
    pub source_bytes_of_split: u64,
    /// Ranges of the worker, and how many of them an earlier job had done.
    pub ranges: RangesDone,
    /// Examples of the worker.
    pub examples: u64,
    /// Token ids in them.
    pub tokens: u64,
    /// Bad records skipped.
    pub bad_rows: u64,
    /// How many workers are done with the split, this one among them.
    pub workers_done: u32,
}

/// Encodes a worker's share of the splits that are not cached yet.
pub(crate) fn build_share(
    root: &CacheDir,
    input: &dyn BuildInput,
    splits: &[Split],
    share: Share,
    config: &BuildConfig,
    progress: &dyn BuildProgress,
) -> Result<ShareReport, CacheError> {
    let columns = stored_columns(input)?;
    let folder = task_folder(root.root(), input.task());
    commit::create_folder(&folder)?;
    let fingerprint = short_fingerprint(input);
    let roster = Roster { folder: &folder, fingerprint: &fingerprint };
    let _lock = roster.join(share, config.take_over)?;

    let (fresh, _) = wanted_splits(root, input, splits, config, progress)?;
    let pool = thread_pool(config, &folder)?;
    let context = config.context(input, &columns, &pool);
    let building = folder.join(building_folder(input.fingerprint().as_bytes()));
    config.lend_to(input.needed_source()?, Some(&building));
    let worker = Worker { context, config, progress, roster, share };
    let report = |split: &Split| {
        let name = split.to_string();
        match fresh.get(&name) {
            Some(cached) => {
                let cached_in = Some(cached.folder.clone());
                Ok(SplitShareReport { split: name, cached_in, ..SplitShareReport::default() })
            }
            None => worker.split(split, &building),
        }
    };
    let splits = splits.iter().map(report).collect::<Result<_, CacheError>>()?;
    Ok(ShareReport { share, splits })
}

struct Worker<'a> {
    context: BuildContext<'a>,
    config: &'a BuildConfig,
    progress: &'a dyn BuildProgress,
    roster: Roster<'a>,
    share: Share,
}

impl Worker<'_> {
    fn split(&self, split: &Split, building: &Path) -> Result<SplitShareReport, CacheError> {
        let Self { context, share, .. } = self;
        let name = split.to_string();
        let plan = SplitPlan::new(context.input.needed_source()?, split)?;
        check_space(self.roster.folder, context.input, &plan, building, self.config)?;
        let work = building.join(work_folder(&name));
        commit::create_folder(&work)?;
        self.agree_on_sources(&plan, &work)?;

        let own = OwnShare::new(&plan, *share);
        let all = plan.jobs();
        let mine: Vec<ReadJob> = all.iter().copied().filter(|job| own.has(*job)).collect();
        let files: BTreeSet<u32> = mine.iter().map(|job| job.file).collect();
        let bytes: u64 = mine.iter().map(|job| piece_bytes(&plan, *job)).sum();
        let recorder = Recorder::begin(self.progress, &work, *share, bytes)?;
        let task = context.input.task();
        let counters = || Counters::new(&recorder, task, &name, Some(*share), files.len() as u64, bytes);
        let living = || self.roster.living(share.count());
        let chosen = choose(*context, &plan, &work, Keys::Share(&own, &living), counters)?;
        let counters = counters();
        if let Ok(chosen) = &chosen {
            encode_share(*context, &plan, &chosen.rows, &counters, &own, &chosen.choices)?;
        }
        counters.enter(BuildPhase::Finishing);
        let status = counters.status();
        // Two that came at the same moment may both have found no record.
        self.agree_on_sources(&plan, &work)?;
        recorder.end(&status, if chosen.is_ok() { WorkerState::Done } else { WorkerState::Waiting })?;
        let missing_keys = chosen.err().unwrap_or_default();
        let awaits: BTreeSet<Share> = missing_keys.into_iter().filter_map(|job| own.owner(job)).collect();
        Ok(SplitShareReport {
            split: name,
            cached_in: None,
            awaits: awaits.into_iter().collect(),
            pieces: mine.len() as u64,
            pieces_of_split: all.len() as u64,
            source_bytes: bytes,
            source_bytes_of_split: plan.source_bytes(),
            ranges: status.ranges(),
            examples: status.examples,
            tokens: status.tokens,
            bad_rows: status.bad_rows,
            workers_done: workers_done(&work, share.count()),
        })
    }

    /// Makes sure that all workers who live see the same files, of the same sizes and times.
    fn agree_on_sources(&self, plan: &SplitPlan, work: &Path) -> Result<(), CacheError> {
        let here = SourcesRecord::of(plan);
        let Some(difference) = SourcesRecord::read(work).map(|there| there.difference(&here)) else {
            return here.write(work);
        };
        let Some(difference) = difference else { return Ok(()) };
        if self.roster.other_worker(self.share)?.is_some() {
            return Err(CacheError::OtherSources { split: plan.split.to_string(), difference });
        }
        self.progress.notice(&format!(
            "the source of split `{}` is another than for the workers before: {difference}; what they encoded of other \
             files is of no use now",
            plan.split
        ));
        here.write(work)
    }
}
