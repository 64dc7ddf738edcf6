//! The job that fills a cache: lock, encode, merge, commit.
//!
//! ```text
//! .lock-<fingerprint> -> .building-<fingerprint>/train.work/... -> .building-<fingerprint>/cache/train-00000-of-00002.arrow
//!                     -> .building-<fingerprint>/cache/manifest.json -> <fingerprint>-<source digest>/
//! ```
//!
//! Whatever ends it, the next job with the same definition goes on at what is not yet committed, and the result is the
//! same to the byte.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seqio::{DataSource, FileRanges, OnBadRow, ReadBudget, Split};

use crate::choose::{Chosen, Keys, choose};
use crate::columns::StoredColumns;
use crate::commit::{self, Durability};
use crate::compression::Compression;
use crate::digest::split_digest;
use crate::duplicates::tell_duplicates;
use crate::encode::{BuildContext, encode_split, encoded_split};
use crate::error::CacheError;
use crate::estimate::{estimate_split, free_bytes};
use crate::finish::{Unfinished, check_complete, incomplete};
use crate::input::{BuildInput, SplitPlan};
use crate::layout::{
    BUILD_LOG, STAGED, TEMPORARY, VOCABULARY, building_folder, cache_folder, file_name, hex, shard_files,
    task_folder, work_folder,
};
use crate::log::{BuildLog, RangesDone, SourceStamp, host_name, unix_seconds};
use crate::manifest::{CacheManifest, SplitManifest, StorageOrder, StoredFeature, VocabularyFile};
use crate::merge::merge_split;
use crate::pieces::Pieces;
use crate::progress::{BuildPhase, BuildProgress, Commit, Counters};
use crate::rejects::write_rejects;
use crate::reuse::{Reuse, Reused, find_old, take_over};
use crate::roster::Roster;
use crate::rows::Geometry;
use crate::stats::SplitStatistics;
use crate::store::{Cache, CacheDir, Located, folder_bytes, remove_folder, short_fingerprint};

/// Bytes of spills and shards for each byte of text, at most, but for odd tasks.
const MOST_CACHE_BYTES: u64 = 10;

/// How a job runs. Nothing of it shows in what it builds.
#[derive(Clone, Debug)]
pub struct BuildConfig {
    /// Threads.
    pub threads: usize,
    /// Memory that buffers may take, in bytes; the encoders' own comes on top.
    pub memory_bytes: u64,
    /// Take the lock of a job on another machine that did not end in peace.
    pub take_over: bool,
    /// How new caches are compressed. `None`: not at all, and an existing cache is right in either form.
    pub compression: Option<Compression>,
    /// A finished cache to take over what has not changed since.
    pub reuse: Option<Reuse>,
    /// Set by someone else to stop the job at the next chance.
    pub cancel: Arc<AtomicBool>,
    pub(crate) geometry: Geometry,
}

impl Default for BuildConfig {
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_bytes: 1 << 30,
            take_over: false,
            compression: None,
            reuse: None,
            cancel: Arc::default(),
            geometry: Geometry::default(),
        }
    }
}

impl BuildConfig {
    /// What a job passes on.
    pub(crate) fn context<'a>(
        &'a self,
        input: &'a dyn BuildInput,
        columns: &'a StoredColumns,
        pool: &'a rayon::ThreadPool,
    ) -> BuildContext<'a> {
        BuildContext {
            input,
            columns,
            geometry: self.geometry,
            pool,
            memory: self.memory_bytes,
            compression: self.compression.unwrap_or_default(),
            cancel: &self.cancel,
        }
    }

    /// Tells a source what reading it may take, with temporary files in a folder of a build, or of the system.
    pub(crate) fn lend_to(&self, source: &dyn DataSource, building: Option<&Path>) {
        source.set_budget(&ReadBudget {
            memory_bytes: self.memory_bytes,
            temporary: building.map(|building| building.join(TEMPORARY)),
            cancel: Arc::clone(&self.cancel),
        });
    }
}

/// What a job did.
#[derive(Clone, Debug, PartialEq)]
pub struct BuildReport {
    /// Each split asked for, in order.
    pub splits: Vec<SplitReport>,
}

/// What a job did for one split.
#[derive(Clone, Debug, PartialEq)]
pub struct SplitReport {
    /// The split.
    pub split: String,
    /// The cache that holds it.
    pub folder: PathBuf,
    /// Whether it was there already.
    pub was_fresh: bool,
    /// Ranges of the source, and how many an earlier job had done.
    pub ranges: RangesDone,
    /// Its statistics.
    pub statistics: SplitStatistics,
    /// The file that tells what was dropped as a duplicate, if steps look for duplicates.
    pub duplicates: Option<PathBuf>,
    /// What was taken over from an old cache.
    pub reused: Option<Reused>,
    /// The file of its bad records, where they are set aside.
    pub rejects: Option<PathBuf>,
    /// Something to tell once.
    pub notice: Option<String>,
}

/// What a job does about pieces that are not encoded yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// It encodes them.
    Encode,
    /// It says which they are: they are left to workers.
    Refuse,
}

/// Builds the caches of `splits` that are not there yet.
pub(crate) fn build_splits(
    root: &CacheDir,
    input: &dyn BuildInput,
    splits: &[Split],
    missing: Missing,
    config: &BuildConfig,
    progress: &dyn BuildProgress,
) -> Result<BuildReport, CacheError> {
    let columns = stored_columns(input)?;
    let folder = task_folder(root.root(), input.task());
    commit::create_folder(&folder)?;
    let fingerprint = short_fingerprint(input);
    let _lock = Roster { folder: &folder, fingerprint: &fingerprint }.take_all(config.take_over)?;

    let (mut reports, wanted) = wanted_splits(root, input, splits, config, progress)?;
    if !wanted.is_empty() {
        let pool = thread_pool(config, &folder)?;
        let context = config.context(input, &columns, &pool);
        let job = Job { root, context, config, progress, missing, folder: &folder, started: unix_seconds() };
        for report in job.run(&wanted)? {
            reports.insert(report.split.clone(), report);
        }
    }
    let splits = splits.iter().filter_map(|split| reports.get(&split.to_string()).cloned()).collect();
    Ok(BuildReport { splits })
}

/// The splits that are cached, and those that are not.
pub(crate) fn wanted_splits(
    root: &CacheDir,
    input: &dyn BuildInput,
    splits: &[Split],
    config: &BuildConfig,
    progress: &dyn BuildProgress,
) -> Result<(BTreeMap<String, SplitReport>, Vec<Split>), CacheError> {
    let mut reports: BTreeMap<String, SplitReport> = BTreeMap::new();
    let mut wanted = Vec::new();
    for split in splits {
        match root.locate(input, split)? {
            Located::Fresh { cache, notice } => {
                let name = split.to_string();
                let notice = notice.or_else(|| other_form(&cache, &name, config.compression));
                let manifest = &cache.manifest().splits[&name];
                let report = SplitReport {
                    folder: cache.folder().to_owned(),
                    was_fresh: true,
                    ranges: RangesDone::default(),
                    statistics: manifest.statistics.clone(),
                    duplicates: manifest.duplicates_path(cache.folder()),
                    reused: None,
                    rejects: manifest.rejects_path(cache.folder()),
                    notice,
                    split: name.clone(),
                };
                reports.insert(name, report);
            }
            Located::Stale { .. } | Located::Missing if wanted.contains(split) => {}
            Located::Stale { reason, same_definition } => {
                let may_reuse = same_definition && !split.is_slice() && config.reuse.is_none();
                let hint = match may_reuse {
                    true => "; `--reuse auto` would take over what is as it was",
                    false => "",
                };
                progress.notice(&format!("the cache of split `{split}` is out of date: {reason}{hint}"));
                wanted.push(split.clone());
            }
            Located::Missing => wanted.push(split.clone()),
        }
    }
    Ok((reports, wanted))
}

/// The threads of a job.
pub(crate) fn thread_pool(config: &BuildConfig, folder: &Path) -> Result<rayon::ThreadPool, CacheError> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(config.threads.max(1))
        .build()
        .map_err(|error| CacheError::io("start threads for", folder)(std::io::Error::other(error)))
}

/// Refuses to begin what the disk cannot hold. Where there is room for any task's cache nothing is sampled.
pub(crate) fn check_space(
    folder: &Path,
    input: &dyn BuildInput,
    plan: &SplitPlan,
    building: &Path,
    config: &BuildConfig,
) -> Result<(), CacheError> {
    let free = free_bytes(folder)?;
    let bound = plan.files.iter().zip(&plan.ranges).map(|(file, ranges)| match ranges {
        FileRanges::Known(_) => file.bytes.saturating_mul(MOST_CACHE_BYTES),
        FileRanges::Streamed if file.is_compressed() => file.bytes.saturating_mul(10 * MOST_CACHE_BYTES),
        FileRanges::Streamed => file.bytes.saturating_mul(MOST_CACHE_BYTES),
    });
    if bound.fold(0, u64::saturating_add) <= free {
        return Ok(());
    }
    // What cannot be sampled fails in the job itself, with better words.
    let Ok(mut estimate) = estimate_split(folder, input, &plan.split, config) else {
        return Ok(());
    };
    estimate.peak_bytes = estimate.peak_bytes.saturating_sub(folder_bytes(building));
    estimate.check_space(folder)
}

/// Says that a split is cached in another form than is asked for, and how to change that.
fn other_form(cache: &Cache, split: &str, wanted: Option<Compression>) -> Option<String> {
    let manifest = cache.manifest();
    let wanted = wanted.filter(|wanted| *wanted != manifest.compression)?;
    let (task, form) = (&manifest.task, manifest.compression.words());
    Some(format!(
        "`{task}`, split `{split}`, is cached {form}; `seqio cache convert {task} --compress {}` rewrites the cache \
         without encoding anything again",
        wanted.name()
    ))
}

/// The columns of a task's cache, with one for keys if its source has them.
pub(crate) fn stored_columns(input: &dyn BuildInput) -> Result<StoredColumns, CacheError> {
    let columns = StoredColumns::new(&input.cached_schema(), &input.vocab_sizes())?;
    let has_keys = input.source().is_some_and(|source| !source.key().is_empty());
    Ok(if has_keys { columns.with_sql_keys() } else { columns })
}

struct Job<'a> {
    root: &'a CacheDir,
    context: BuildContext<'a>,
    config: &'a BuildConfig,
    progress: &'a dyn BuildProgress,
    missing: Missing,
    folder: &'a Path,
    started: u64,
}

/// A split whose shards are staged.
struct BuiltSplit {
    split: Split,
    manifest: SplitManifest,
    ranges: RangesDone,
    stamps: Vec<SourceStamp>,
    /// Not of slices, which cannot be reused.
    pieces: Option<Pieces>,
    reused: Option<Reused>,
}

impl Job<'_> {
    fn run(&self, splits: &[Split]) -> Result<Vec<SplitReport>, CacheError> {
        let building = self.folder.join(building_folder(self.context.input.fingerprint().as_bytes()));
        let staged = building.join(STAGED);
        commit::create_folder(&staged)?;
        let source = self.context.input.needed_source()?;
        // A killed job has left it.
        commit::remove(&building.join(TEMPORARY))?;
        self.config.lend_to(source, Some(&building));
        let plan = |split| Ok(SplitPlan::new(source, split)?);
        let built: Vec<BuiltSplit> = match self.missing {
            Missing::Encode => {
                // What cannot be reused is refused before anything is built.
                let old = |split| self.old_cache(split);
                let old: Vec<Option<Cache>> = splits.iter().map(old).collect::<Result<_, CacheError>>()?;
                splits
                    .iter()
                    .zip(&old)
                    .map(|(split, old)| self.split(plan(split)?, None, old.as_ref(), &building, &staged))
                    .collect::<Result<_, CacheError>>()?
            }
            Missing::Refuse => {
                let plans: Vec<SplitPlan> = splits.iter().map(plan).collect::<Result<_, CacheError>>()?;
                let chosen = check_complete(self.context, &plans, &building, self.progress)?;
                plans
                    .into_iter()
                    .zip(chosen)
                    .map(|(plan, chosen)| self.split(plan, Some(chosen), None, &building, &staged))
                    .collect::<Result<_, CacheError>>()?
            }
        };
        commit::remove(&building.join(TEMPORARY))?;
        // The folder is gone, and the source may be read on.
        self.config.lend_to(source, None);
        let target = self.commit(&building, &staged, &built)?;
        Ok(built
            .into_iter()
            .map(|built| SplitReport {
                split: built.split.to_string(),
                folder: target.clone(),
                was_fresh: false,
                ranges: built.ranges,
                duplicates: built.manifest.duplicates_path(&target),
                rejects: built.manifest.rejects_path(&target),
                statistics: built.manifest.statistics,
                reused: built.reused,
                notice: None,
            })
            .collect())
    }

    /// The cache that a split is taken from as far as it goes.
    fn old_cache(&self, split: &Split) -> Result<Option<Cache>, CacheError> {
        let Some(reuse) = &self.config.reuse else { return Ok(None) };
        let old = find_old(self.root, self.context.input, split, reuse)?;
        if old.is_none() {
            let words = match reuse {
                Reuse::Folder(folder) => format!("`{}` holds no split `{split}`", folder.display()),
                Reuse::Latest => {
                    format!("no cache of this definition that can be reused holds split `{split}`")
                }
            };
            self.progress.notice(&format!("{words}; all of it is encoded"));
        }
        Ok(old)
    }

    /// Makes a split of what is missing, or, with choices made already, of what workers have encoded.
    fn split(
        &self,
        plan: SplitPlan,
        chosen: Option<Chosen>,
        old: Option<&Cache>,
        building: &Path,
        staged: &Path,
    ) -> Result<BuiltSplit, CacheError> {
        let input = self.context.input;
        let split = &plan.split;
        let name = split.to_string();
        let source = input.needed_source()?;
        check_space(self.folder, input, &plan, building, self.config)?;
        let old = old.map(|cache| take_over(cache, input, self.context.columns, &plan)).transpose()?;
        let work = building.join(work_folder(&name));
        commit::create_folder(&work)?;
        let counters = || {
            let (files, bytes) = (plan.files.len() as u64, plan.source_bytes());
            Counters::new(self.progress, input.task(), &name, None, files, bytes)
        };
        let missing = |jobs| incomplete(input, &[Unfinished { plan: &plan, work: work.clone(), jobs }]);
        let (chosen, counters, encoded) = match chosen {
            None => {
                let chosen = choose(self.context, &plan, &work, Keys::All, counters)?.map_err(missing)?;
                let counters = counters();
                let (rows, choices) = (&chosen.rows, &chosen.choices);
                let encoded = encode_split(self.context, &plan, rows, old.as_ref(), &counters, choices)?;
                (chosen, counters, encoded)
            }
            Some(chosen) => {
                let counters = counters();
                let encoded = encoded_split(self.context, &plan, &chosen.rows, &counters)?;
                // Something may be damaged that looked whole.
                (chosen, counters, encoded.map_err(missing)?)
            }
        };
        let shuffled = input.is_shuffled(split.name());
        let (shards, mut statistics) =
            merge_split(self.context, &name, shuffled, &encoded, &chosen.rows, staged, &counters)?;
        counters.enter(BuildPhase::Finishing);
        let (duplicates, duplicate_statistics) = tell_duplicates(&plan, &chosen, staged)?;
        statistics.duplicates = duplicate_statistics;
        let rejects = match input.on_bad_row() {
            OnBadRow::SetAside => Some(write_rejects(staged, &name, &encoded, &chosen.rows)?),
            OnBadRow::Fail | OnBadRow::Skip => None,
        };
        let status = counters.status();
        let pieces = (!split.is_slice()).then(|| Pieces::of(&encoded));
        let files = encoded.files.iter().map(|file| (file.name.as_str(), file.digest.as_str()));
        let manifest = SplitManifest {
            order: if shuffled { StorageOrder::Shuffled } else { StorageOrder::Source },
            source: source.name().to_owned(),
            key: source.key().to_vec(),
            source_digest: hex(&split_digest(&name, files)),
            files: encoded.files,
            shards,
            duplicates,
            rejects,
            statistics,
        };
        let ranges = status.ranges();
        let real = plan.files.iter().filter(|file| !source.is_result(file));
        let stamps = real.map(SourceStamp::of).collect();
        let reused = old.map(|old| Reused { folder: old.folder, left: old.left });
        Ok(BuiltSplit { split: split.clone(), manifest, ranges, stamps, pieces, reused })
    }

    /// Turns the staged files into a cache and clears what it was made from.
    fn commit(&self, building: &Path, staged: &Path, built: &[BuiltSplit]) -> Result<PathBuf, CacheError> {
        if self.config.cancel.load(Ordering::Relaxed) {
            return Err(CacheError::Interrupted { done: "all shards of all splits".to_owned() });
        }
        let input = self.context.input;
        self.drop_strangers(staged, built)?;
        let sources =
            built.iter().map(|built| (built.split.to_string(), built.manifest.source_digest.clone()));
        let sources: Vec<(String, String)> = sources.collect();
        let source_digest =
            split_digest("", sources.iter().map(|(split, digest)| (split.as_str(), digest.as_str())));
        let features = self.context.columns.tokens.iter().map(|token| {
            let ids = if token.is_narrow() { "uint16" } else { "uint32" };
            (token.name.clone(), StoredFeature { ids: ids.to_owned(), vocab_size: token.vocab_size as u64 })
        });
        let mut manifest = CacheManifest {
            format: CacheManifest::format(),
            format_version: 0,
            task: input.task().to_owned(),
            cache_fingerprint: input.fingerprint().to_string(),
            source_digest: hex(&source_digest),
            cache_seed: input.cache_seed(),
            compression: self.context.compression,
            definition: input.definition(),
            cache_definition: input.cache_definition(),
            vocabulary_files: self.store_vocabularies(staged)?,
            features: features.collect(),
            splits: built.iter().map(|built| (built.split.to_string(), built.manifest.clone())).collect(),
        };
        manifest.format_version = manifest.needed_version();
        for built in built {
            if let Some(pieces) = &built.pieces {
                pieces.write(staged, &built.split.to_string())?;
            }
        }
        self.log(built).write(staged)?;
        manifest.write(staged)?;
        commit::sync_folder(staged)?;

        let target = self.folder.join(cache_folder(input.fingerprint().as_bytes(), &source_digest));
        if target.exists() {
            // It is damaged or could not be read, or `locate` would have found it.
            remove_folder(&target)?;
        }
        fs::rename(staged, &target).map_err(CacheError::io("rename", staged))?;
        commit::sync_folder(self.folder)?;
        self.progress.committed(Commit::Cache);
        for built in built {
            commit::remove(&building.join(work_folder(&built.split.to_string())))?;
        }
        // Stays if it holds spills of splits that were not asked for this time.
        let _ = fs::remove_dir(building);
        Ok(target)
    }

    /// Removes what earlier jobs staged and this one does not use.
    fn drop_strangers(&self, staged: &Path, built: &[BuiltSplit]) -> Result<(), CacheError> {
        let shards = built.iter().flat_map(|built| &built.manifest.shards);
        let shards = shards.flat_map(|shard| shard_files(staged, &shard.name));
        let others = built.iter().flat_map(|built| {
            [built.manifest.duplicates_path(staged), built.manifest.rejects_path(staged)]
                .into_iter()
                .flatten()
        });
        let ours: BTreeSet<PathBuf> = shards.chain(others).collect();
        for entry in fs::read_dir(staged).map_err(CacheError::io("read", staged))? {
            let path = entry.map_err(CacheError::io("read", staged))?.path();
            if !ours.contains(&path) {
                commit::remove(&path)?;
            }
        }
        Ok(())
    }

    fn store_vocabularies(&self, staged: &Path) -> Result<BTreeMap<String, VocabularyFile>, CacheError> {
        let mut stored = BTreeMap::new();
        let definition = self.context.input.definition();
        for (name, bytes) in self.context.input.vocabulary_files() {
            let hash = hex(blake3::hash(bytes).as_bytes());
            let is_json = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
            let spec = &definition["vocabularies"][&name]["spec"];
            let is_of = |kinds: &[&str]| kinds.iter().any(|kind| spec[kind].is_string());
            let ending = if is_of(&["bert_wordpiece", "unigram", "partial_codepoint"]) {
                "txt"
            } else if is_json {
                "json"
            } else if is_of(&["tiktoken"]) {
                "tiktoken"
            } else {
                "model"
            };
            let path = format!("{VOCABULARY}/{}-{}.{ending}", file_name(&name), &hash[..16]);
            commit::create_folder(&staged.join(VOCABULARY))?;
            commit::write(&staged.join(&path), bytes, Durability::Disk)?;
            stored.insert(name, VocabularyFile { path, bytes: bytes.len() as u64, blake3: hash });
        }
        Ok(stored)
    }

    fn log(&self, built: &[BuiltSplit]) -> BuildLog {
        debug_assert!(BUILD_LOG.ends_with(".json"));
        BuildLog {
            program: format!("seqio-cache {}", env!("CARGO_PKG_VERSION")),
            host: host_name(),
            threads: self.config.threads,
            memory_bytes: self.config.memory_bytes,
            started_unix_seconds: self.started,
            finished_unix_seconds: unix_seconds(),
            ranges: built.iter().map(|built| (built.split.to_string(), built.ranges)).collect(),
            sources: built.iter().map(|built| (built.split.to_string(), built.stamps.clone())).collect(),
        }
    }
}
