//! Where caches are: found, opened, listed, removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seqio::Split;

use crate::changes::{self, Look, SourceState, files_now, source_state};
use crate::commit;
use crate::difference::first_few;
use crate::error::CacheError;
use crate::explain::definition_changes;
use crate::input::BuildInput;
use crate::layout::{
    STAGED, building_fingerprint, is_cache_folder, is_converting_folder, is_removed_folder, removed_folder,
    short_hex, split_of_work_folder, task_folder, work_folder,
};
use crate::log::BuildLog;
use crate::manifest::CacheManifest;
use crate::reader::CachedSplit;
use crate::roster::{Roster, WorkerInfo};

/// A folder of caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheDir {
    root: PathBuf,
}

/// One cache, opened: all splits that one job built.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
    manifest: Arc<CacheManifest>,
}

impl Cache {
    /// Opens the cache in a folder; neither task file nor sources are needed.
    pub fn open(folder: &Path) -> Result<Self, CacheError> {
        Ok(Self { folder: folder.to_owned(), manifest: Arc::new(CacheManifest::read(folder)?) })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What it holds.
    pub fn manifest(&self) -> &Arc<CacheManifest> {
        &self.manifest
    }

    /// How it was built, if the log is whole.
    pub fn log(&self) -> Option<BuildLog> {
        BuildLog::read(&self.folder).ok()
    }

    /// Opens one of its splits.
    pub fn split(&self, split: &str) -> Result<CachedSplit, CacheError> {
        CachedSplit::open(&self.folder, &self.manifest, split)
    }

    /// The bytes of its vocabulary files, by vocabulary, checked against the manifest.
    pub fn vocabulary_files(&self) -> Result<std::collections::BTreeMap<String, Vec<u8>>, CacheError> {
        let mut files = std::collections::BTreeMap::new();
        for (name, file) in &self.manifest.vocabulary_files {
            let path = self.folder.join(&file.path);
            let bytes = fs::read(&path).map_err(CacheError::io("read", &path))?;
            if crate::layout::hex(blake3::hash(&bytes).as_bytes()) != file.blake3 {
                return Err(CacheError::damaged(&path, "it is not the file that was stored"));
            }
            files.insert(name.clone(), bytes);
        }
        Ok(files)
    }
}

/// What [`CacheDir::find`] found.
#[derive(Debug)]
pub enum Found {
    /// A cache of this definition and these sources.
    Fresh {
        /// The split, opened.
        split: Box<CachedSplit>,
        /// Something to tell once, as that the sources are gone.
        notice: Option<String>,
    },
    /// Only caches of another definition or of other sources.
    Stale {
        /// What changed, in words.
        reason: String,
    },
    /// None at all.
    Missing,
}

/// Where a split is cached.
#[derive(Debug)]
pub(crate) enum Located {
    Fresh {
        cache: Cache,
        notice: Option<String>,
    },
    /// `same_definition`: only the source is another.
    Stale {
        reason: String,
        same_definition: bool,
    },
    Missing,
}

/// One line of `seqio cache list`.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheInfo {
    /// Where it is.
    pub folder: PathBuf,
    /// Whether it is finished.
    pub state: CacheState,
    /// Bytes of its files.
    pub bytes: u64,
}

/// Whether a cache is finished.
#[derive(Clone, Debug, PartialEq)]
pub enum CacheState {
    /// It is.
    Complete(Box<CacheManifest>),
    /// It is being built, or a job was interrupted.
    Unfinished {
        /// The splits begun.
        splits: Vec<String>,
        /// Whether a job of this machine is at it.
        running: bool,
        /// The workers that share in it, if there are any, by split.
        workers: Vec<WorkerInfo>,
    },
    /// It cannot be read.
    Unreadable(String),
}

impl CacheDir {
    /// The caches below `root`, which need not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn locate(&self, input: &dyn BuildInput, split: &Split) -> Result<Located, CacheError> {
        let name = split.to_string();
        let fingerprint = input.fingerprint().to_string();
        let mut same_definition = Vec::new();
        let mut other_definition = Vec::new();
        for folder in cache_folders(&task_folder(&self.root, input.task()))? {
            // A cache that cannot be read is as good as none; `list` and `verify` show it.
            let Ok(cache) = Cache::open(&folder) else { continue };
            if cache.manifest.splits.contains_key(&name) {
                let same = cache.manifest.cache_fingerprint == fingerprint;
                if same { same_definition.push(cache) } else { other_definition.push(cache) }
            }
        }
        let mut reason = None;
        let files = if same_definition.is_empty() { Vec::new() } else { files_now(input, split)? };
        for cache in same_definition {
            match source_state(&cache, input, split, &files, Look::Enough)? {
                SourceState::Same => return Ok(Located::Fresh { cache, notice: None }),
                SourceState::Absent => {
                    let notice = format!(
                        "the sources of `{}`, split `{name}`, are not here; the cache is used unchecked",
                        input.task()
                    );
                    return Ok(Located::Fresh { cache, notice: Some(notice) });
                }
                SourceState::Different(changes) => reason = Some(changes::words(&changes)),
            }
        }
        if let Some(reason) = reason {
            return Ok(Located::Stale { reason, same_definition: true });
        }
        let latest = other_definition
            .into_iter()
            .max_by_key(|cache| cache.log().map_or(0, |log| log.finished_unix_seconds));
        Ok(match latest {
            Some(cache) => {
                let changes = definition_changes(input, &cache.manifest);
                let words = first_few(changes.into_iter().map(|change| change.words));
                Located::Stale { reason: format!("the definition changed: {words}"), same_definition: false }
            }
            None => Located::Missing,
        })
    }

    pub(crate) fn find_split(&self, input: &dyn BuildInput, split: &Split) -> Result<Found, CacheError> {
        Ok(match self.locate(input, split)? {
            Located::Fresh { cache, notice } => {
                Found::Fresh { split: Box::new(cache.split(&split.to_string())?), notice }
            }
            Located::Stale { reason, .. } => Found::Stale { reason },
            Located::Missing => Found::Missing,
        })
    }

    /// All caches, finished or not, sorted by folder.
    pub fn list(&self) -> Result<Vec<CacheInfo>, CacheError> {
        let mut found = Vec::new();
        if self.root.is_dir() {
            list_folder(&self.root, &mut found)?;
        }
        found.sort_by(|a, b| a.folder.cmp(&b.folder));
        Ok(found)
    }

    /// Deletes a cache, finished or not, and gives the bytes that were freed.
    pub fn remove(&self, folder: &Path) -> Result<u64, CacheError> {
        self.remove_locked(folder, false)
    }

    /// The same, also of a build whose lock a job on another machine left behind.
    pub fn remove_taking_over(&self, folder: &Path) -> Result<u64, CacheError> {
        self.remove_locked(folder, true)
    }

    fn remove_locked(&self, folder: &Path, take_over: bool) -> Result<u64, CacheError> {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or("");
        let parent = folder.parent().unwrap_or(Path::new("."));
        let not_a_cache =
            |problem: &str| CacheError::NotACache { path: folder.to_owned(), problem: problem.to_owned() };
        if !folder.is_dir() {
            return Err(not_a_cache("there is no such folder"));
        }
        let _lock = match building_fingerprint(name) {
            Some(fingerprint) => Some(Roster { folder: parent, fingerprint }.take_all(take_over)?),
            None if [is_cache_folder, is_removed_folder, is_converting_folder].iter().any(|is| is(name)) => {
                None
            }
            None => return Err(not_a_cache("its name is not that of a cache")),
        };
        let bytes = folder_bytes(folder);
        remove_folder(folder)?;
        // Empty task folders go with their last cache; others stay.
        let mut parent = Some(parent);
        while let Some(empty) = parent.filter(|parent| *parent != self.root && parent.starts_with(&self.root))
        {
            if fs::remove_dir(empty).is_err() {
                break;
            }
            parent = empty.parent();
        }
        Ok(bytes)
    }
}

/// Deletes a folder so that no part of it can be taken for a cache.
pub(crate) fn remove_folder(folder: &Path) -> Result<(), CacheError> {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or("cache");
    let doomed = folder.with_file_name(removed_folder(name));
    fs::rename(folder, &doomed).map_err(CacheError::io("remove", folder))?;
    commit::remove(&doomed)
}

/// The finished caches of a task.
pub(crate) fn cache_folders(task: &Path) -> Result<Vec<PathBuf>, CacheError> {
    folders(task, is_cache_folder)
}

/// What of a task's folder has such a name, sorted.
pub(crate) fn folders(task: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, CacheError> {
    let entries = match fs::read_dir(task) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(CacheError::io("read", task)(error)),
    };
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry.map_err(CacheError::io("read", task))?;
        if entry.file_name().to_str().is_some_and(&is_wanted) {
            folders.push(entry.path());
        }
    }
    folders.sort();
    Ok(folders)
}

fn list_folder(folder: &Path, found: &mut Vec<CacheInfo>) -> Result<(), CacheError> {
    for entry in fs::read_dir(folder).map_err(CacheError::io("read", folder))? {
        let path = entry.map_err(CacheError::io("read", folder))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if !path.is_dir() {
            continue;
        }
        let state = if is_cache_folder(name) {
            match CacheManifest::read(&path) {
                Ok(manifest) => CacheState::Complete(Box::new(manifest)),
                Err(error) => CacheState::Unreadable(error.to_string()),
            }
        } else if let Some(fingerprint) = building_fingerprint(name) {
            let splits = works(&path);
            let roster = Roster { folder, fingerprint };
            let workers = splits
                .iter()
                .flat_map(|split| roster.workers(split, &path.join(work_folder(split))))
                .collect();
            CacheState::Unfinished { running: roster.is_at_work(), splits, workers }
        } else if is_removed_folder(name) {
            CacheState::Unreadable("a job died while it deleted this".to_owned())
        } else if is_converting_folder(name) {
            CacheState::Unreadable(
                "a job that converts a cache works here, or died; the cache itself is whole".to_owned(),
            )
        } else {
            if !name.starts_with('.') {
                list_folder(&path, found)?;
            }
            continue;
        };
        found.push(CacheInfo { bytes: folder_bytes(&path), folder: path, state });
    }
    Ok(())
}

/// The splits that a building folder has spills of.
pub(crate) fn works(building: &Path) -> Vec<String> {
    let entries = fs::read_dir(building).into_iter().flatten().flatten();
    let mut splits: Vec<String> = entries
        .filter(|entry| entry.file_name() != STAGED)
        .filter_map(|entry| split_of_work_folder(entry.file_name().to_str()?))
        .collect();
    splits.sort();
    splits
}

/// Bytes of all files below a folder.
pub(crate) fn folder_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => folder_bytes(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

/// The first 16 digits of a task's cache fingerprint, as they stand in folder names.
pub(crate) fn short_fingerprint(input: &dyn BuildInput) -> String {
    short_hex(input.fingerprint().as_bytes())
}
