//! Why a cache does or does not match: for each cache of a task, what changed since it was built.
//!
//! ```text
//! train  .../070ff6f58652ace5-d4af11294c641119   step 2 `tokenize`: `keep_pretokenized` was false and is true
//!        .../5b1a7c2e9f0d4e11-d4af11294c641119   matches
//! ```

use std::collections::BTreeSet;
use std::path::PathBuf;

use seqio::{SourceFile, Split, Task};
use serde::Serialize;

use crate::changes::{Look, SourceChange, SourceState, files_now, source_state};
use crate::compression::Compression;
use crate::difference::{Difference, differences};
use crate::error::CacheError;
use crate::input::BuildInput;
use crate::layout::{building_fingerprint, task_folder};
use crate::manifest::CacheManifest;
use crate::roster::Roster;
use crate::store::{Cache, CacheDir, cache_folders, folders, short_fingerprint, works};

/// How the caches of a task stand to its definition and sources as they are now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheExplanation {
    /// The task.
    pub task: String,
    /// The fingerprint of its definition above the boundary.
    pub cache_fingerprint: String,
    /// Each split.
    pub splits: Vec<SplitCaches>,
    /// Builds that have not ended.
    pub unfinished: Vec<UnfinishedBuild>,
    /// Folders that cannot be read as caches.
    pub unreadable: Vec<UnreadableCache>,
}

/// The caches that hold a split.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SplitCaches {
    /// The split.
    pub split: String,
    /// Whether one of them matches.
    pub up_to_date: bool,
    /// What there is, the matching ones first.
    pub caches: Vec<ExplainedCache>,
}

/// One cache that holds a split.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExplainedCache {
    /// Where it is.
    pub folder: PathBuf,
    /// Whether it is of this definition and of these sources.
    pub matches: bool,
    /// Whether the sources are away, so that they could not be compared.
    pub sources_absent: bool,
    /// How it is compressed, which is no reason not to match.
    pub compression: Compression,
    /// Its examples of the split.
    pub examples: u64,
    /// What differs in the definition above the boundary.
    pub definition: Vec<Difference>,
    /// What differs in the source files.
    pub sources: Vec<SourceChange>,
}

/// A build that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnfinishedBuild {
    /// Its folder.
    pub folder: PathBuf,
    /// Whether it is of this definition.
    pub matches: bool,
    /// Whether a job of this machine is at it.
    pub running: bool,
    /// The splits begun.
    pub splits: Vec<String>,
}

/// A folder that cannot be read as a cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadableCache {
    /// The folder.
    pub folder: PathBuf,
    /// Why not.
    pub problem: String,
}

impl CacheDir {
    /// Compares the caches of a task with it, split by split: those asked for, or if none is, all that the source has
    /// or a cache holds.
    pub fn explain(&self, task: &Task, splits: &[Split]) -> Result<CacheExplanation, CacheError> {
        self.explain_input(task, splits)
    }

    pub(crate) fn explain_input(
        &self,
        input: &dyn BuildInput,
        splits: &[Split],
    ) -> Result<CacheExplanation, CacheError> {
        let mut caches = Vec::new();
        let mut unreadable = Vec::new();
        for folder in cache_folders(&task_folder(self.root(), input.task()))? {
            match Cache::open(&folder) {
                Ok(cache) => caches.push(cache),
                Err(error) => unreadable.push(UnreadableCache { folder, problem: error.to_string() }),
            }
        }
        let splits = if splits.is_empty() { all_splits(input, &caches) } else { splits.to_vec() };
        let splits = splits.iter().map(|split| explain_split(input, split, &caches));
        Ok(CacheExplanation {
            task: input.task().to_owned(),
            cache_fingerprint: input.fingerprint().to_string(),
            splits: splits.collect::<Result<_, _>>()?,
            unfinished: self.unfinished(input)?,
            unreadable,
        })
    }

    fn unfinished(&self, input: &dyn BuildInput) -> Result<Vec<UnfinishedBuild>, CacheError> {
        let folder = task_folder(self.root(), input.task());
        let wanted = short_fingerprint(input);
        let build = |path: PathBuf| {
            let fingerprint = building_fingerprint(path.file_name()?.to_str()?)?;
            let running = Roster { folder: &folder, fingerprint }.is_at_work();
            let (matches, splits) = (fingerprint == wanted, works(&path));
            Some(UnfinishedBuild { matches, running, splits, folder: path })
        };
        let builds = folders(&folder, |name| building_fingerprint(name).is_some())?;
        Ok(builds.into_iter().filter_map(build).collect())
    }
}

fn all_splits(input: &dyn BuildInput, caches: &[Cache]) -> Vec<Split> {
    let of_source = input.source().map(|source| source.splits()).unwrap_or_default();
    let of_caches = caches.iter().flat_map(|cache| cache.manifest().splits.keys().cloned());
    let names: BTreeSet<String> = of_source.into_iter().chain(of_caches).collect();
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

fn explain_split(input: &dyn BuildInput, split: &Split, caches: &[Cache]) -> Result<SplitCaches, CacheError> {
    let name = split.to_string();
    let files = files_now(input, split)?;
    let holding = caches.iter().filter(|cache| cache.manifest().splits.contains_key(&name));
    let mut caches =
        holding.map(|cache| explain_cache(input, split, &files, cache)).collect::<Result<Vec<_>, _>>()?;
    caches.sort_by_key(|cache| (!cache.matches, !cache.definition.is_empty()));
    Ok(SplitCaches { up_to_date: caches.iter().any(|cache| cache.matches), split: name, caches })
}

fn explain_cache(
    input: &dyn BuildInput,
    split: &Split,
    files: &[SourceFile],
    cache: &Cache,
) -> Result<ExplainedCache, CacheError> {
    let manifest = cache.manifest();
    let definition = definition_changes(input, manifest);
    let other_source = definition.iter().any(|difference| difference.part == "source");
    let look = if other_source { Look::Outside } else { Look::All };
    let state = source_state(cache, input, split, files, look)?;
    let sources_absent = state == SourceState::Absent;
    let sources = match state {
        SourceState::Different(changes) => changes,
        SourceState::Same | SourceState::Absent => Vec::new(),
    };
    Ok(ExplainedCache {
        folder: cache.folder().to_owned(),
        matches: definition.is_empty() && sources.is_empty(),
        sources_absent,
        compression: manifest.compression,
        examples: manifest.splits[&split.to_string()].examples(),
        definition,
        sources,
    })
}

/// What differs between the definition of a cache and the present one; nothing if the fingerprints are equal.
pub(crate) fn definition_changes(input: &dyn BuildInput, manifest: &CacheManifest) -> Vec<Difference> {
    if manifest.cache_fingerprint == input.fingerprint().to_string() {
        return Vec::new();
    }
    differences(&manifest.cache_definition, &input.cache_definition())
}
