//! What every command needs: the task files, the folder of caches, and a task ready to be read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use seqio::{DefinitionErrors, ExampleStore, ReadBudget, Registry, Split, Task};
use seqio_cache::{BuildConfig, Cache, CacheDir, CacheState, CachedSplit, FORMAT_VERSION, Found, SourcesNow};

use crate::args::{BuildSettings, Global};
use crate::build::Builder;
use crate::interrupt::Interrupt;
use crate::output::Notes;
use crate::report::{NoTaskFile, WithHint as _, usage};

const DEFAULT_TASK_FILE: &str = "seqio.toml";
const DEFAULT_CACHE_DIR: &str = "seqio-cache";

/// The settings that all commands share.
#[derive(Debug)]
pub(crate) struct Session {
    global: Global,
}

/// A task and one of its splits, cached.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    /// The task.
    pub(crate) task: Arc<Task>,
    /// The split.
    pub(crate) split: Arc<CachedSplit>,
}

/// Which data a command is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// The task's name; may be left out with a cache folder.
    pub(crate) task: Option<&'a str>,
    /// A cache folder.
    pub(crate) cache: Option<&'a Path>,
    /// The split.
    pub(crate) split: &'a str,
}

impl Session {
    /// From the command line.
    pub(crate) fn new(global: Global) -> Self {
        Self { global }
    }

    /// The same for a run, which names task files and the folder of caches where the command line does not.
    pub(crate) fn of_run(&self, files: &[PathBuf], cache_dir: Option<&Path>) -> Self {
        let mut global = self.global.clone();
        if global.files.is_empty() {
            global.files = files.to_vec();
        }
        global.cache_dir = global.cache_dir.or_else(|| cache_dir.map(Path::to_owned));
        Self { global }
    }

    /// The task files: those named, else the one here.
    pub(crate) fn task_files(&self) -> Vec<PathBuf> {
        match self.global.files.as_slice() {
            [] => vec![PathBuf::from(DEFAULT_TASK_FILE)],
            files => files.to_vec(),
        }
    }

    /// Reads the task files. Vocabularies and sources are looked at when a task is asked for.
    pub(crate) fn registry(&self) -> anyhow::Result<Registry> {
        if self.global.files.is_empty() && !Path::new(DEFAULT_TASK_FILE).exists() {
            return Err(NoTaskFile(format!("there is no `{DEFAULT_TASK_FILE}` here"))).hint(|| {
                "name a task file with `-f FILE`, go to its folder, or let `seqio init` write one".to_owned()
            });
        }
        Ok(Registry::load(&self.task_files())?)
    }

    /// A task that is going to be read.
    pub(crate) fn task(&self, name: &str, budget: &ReadBudget) -> anyhow::Result<Arc<Task>> {
        Ok(task_within(&self.registry()?, name, budget)?)
    }

    /// The folder of caches.
    pub(crate) fn cache_dir(&self) -> CacheDir {
        let from_environment =
            || std::env::var_os("SEQIO_CACHE_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let beside = || {
            let files = self.task_files();
            let folder = files.first().and_then(|file| file.parent()).map(Path::to_owned).unwrap_or_default();
            folder.join(DEFAULT_CACHE_DIR)
        };
        CacheDir::new(self.global.cache_dir.clone().or_else(from_environment).unwrap_or_else(beside))
    }

    /// A cached split of a task; what is not cached yet is built first.
    pub(crate) fn open(
        &self,
        wanted: Wanted<'_>,
        settings: &BuildSettings,
        interrupt: &Interrupt,
        notes: Notes,
    ) -> anyhow::Result<Opened> {
        let opened = match (wanted.cache, wanted.task) {
            (Some(folder), task) => open_folder(folder, task, wanted.split, notes)?,
            (None, Some(task)) => self.open_task(task, wanted.split, settings, interrupt, notes)?,
            (None, None) => return Err(usage("name a task, or a cache folder with `--cache DIR`")),
        };
        opened.split.set_decompressed_bytes(settings.memory.0 / 2);
        Ok(opened)
    }

    fn open_task(
        &self,
        name: &str,
        split: &str,
        settings: &BuildSettings,
        interrupt: &Interrupt,
        notes: Notes,
    ) -> anyhow::Result<Opened> {
        let split: Split = split.parse()?;
        let registry = self.registry()?;
        let task = match task_within(&registry, name, &interrupt.budget(settings.memory)) {
            Ok(task) => task,
            Err(errors) if errors.only_sources() => {
                return match self.open_without_source(&registry, name, &split, notes)? {
                    Some(opened) => Ok(opened),
                    None => Err(errors.into()),
                };
            }
            Err(errors) => return Err(errors.into()),
        };
        self.ensure(&task, std::slice::from_ref(&split), settings, interrupt, notes)?;
        match find(&self.cache_dir(), &task, &split)? {
            Found::Fresh { split, notice } => {
                notice.iter().for_each(|notice| notes.note(notice));
                Ok(Opened { task, split: Arc::new(*split) })
            }
            Found::Stale { reason } => {
                Err(anyhow::anyhow!("the cache of `{name}` went out of date at once: {reason}"))
            }
            Found::Missing => Err(anyhow::anyhow!("the cache of `{name}` was removed while it was opened")),
        }
    }

    /// Builds what is not cached of these splits, all in one cache.
    pub(crate) fn ensure(
        &self,
        task: &Task,
        splits: &[Split],
        settings: &BuildSettings,
        interrupt: &Interrupt,
        notes: Notes,
    ) -> anyhow::Result<()> {
        let cache_dir = self.cache_dir();
        let (name, root) = (task.name(), cache_dir.root().display());
        let (mut wanted, mut told) = (Vec::new(), Vec::new());
        for split in splits {
            let words = match find(&cache_dir, task, split)? {
                Found::Fresh { .. } => continue,
                Found::Stale { reason } => {
                    told.push(reason.clone());
                    let changed = format!("the cache of `{name}`, split `{split}`, is out of date: {reason}");
                    format!("{changed}; building a new one in `{root}`")
                }
                Found::Missing => {
                    format!("`{name}`, split `{split}`, has no cache yet; building it in `{root}`")
                }
            };
            check_split(task, split)?;
            notes.note(words);
            wanted.push(split.clone());
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let builder =
            Builder { cache_dir: &cache_dir, settings, compression: None, reuse: None, interrupt, notes };
        builder.build(task, &wanted, &told).map(drop)
    }

    /// The split in a cache of the task, or, in words, why there is none; nothing is built.
    #[cfg(feature = "sql")]
    pub(crate) fn look(&self, task: &Task, split: &Split, notes: Notes) -> Result<Arc<CachedSplit>, String> {
        let name = task.name();
        match find(&self.cache_dir(), task, split) {
            Ok(Found::Fresh { split, notice }) => {
                notice.iter().for_each(|notice| notes.note(notice));
                Ok(Arc::new(*split))
            }
            Ok(Found::Stale { reason }) => {
                Err(format!("the cache of `{name}`, split `{split}`, is out of date: {reason}"))
            }
            Ok(Found::Missing) => Err(format!("`{name}`, split `{split}`, has no cache")),
            Err(error) => Err(format!("{error:#}")),
        }
    }

    /// A cache of the task as it is defined now, its sources being absent.
    pub(crate) fn open_without_source(
        &self,
        registry: &Registry,
        name: &str,
        split: &Split,
        notes: Notes,
    ) -> anyhow::Result<Option<Opened>> {
        let split_name = split.to_string();
        let mut newest: Option<(u64, Cache, Arc<Task>)> = None;
        for info in self.cache_dir().list()? {
            let CacheState::Complete(manifest) = &info.state else { continue };
            if manifest.task != name || !manifest.splits.contains_key(&split_name) {
                continue;
            }
            let Ok(definition) = serde_json::from_value(manifest.definition.clone()) else { continue };
            let Ok(task) = registry.task_without_source(name, &definition) else { continue };
            if task.cache_fingerprint(FORMAT_VERSION).to_string() == manifest.cache_fingerprint {
                let cache = Cache::open(&info.folder)?;
                let finished = cache.log().map_or(0, |log| log.finished_unix_seconds);
                if newest.as_ref().is_none_or(|(before, ..)| *before <= finished) {
                    newest = Some((finished, cache, task));
                }
            }
        }
        let Some((_, cache, task)) = newest else { return Ok(None) };
        let split = cache.split(&split_name)?;
        notes.note(format!("the sources of `{name}` are not here; the cache is used unchecked"));
        Ok(Some(Opened { task, split: Arc::new(split) }))
    }
}

/// A task that is going to be read: its source may take as much of the machine.
pub(crate) fn task_within(
    registry: &Registry,
    name: &str,
    budget: &ReadBudget,
) -> Result<Arc<Task>, DefinitionErrors> {
    let task = registry.task(name)?;
    task.source().set_budget(budget);
    Ok(task)
}

/// A task and split from a cache folder alone.
pub(crate) fn open_folder(
    folder: &Path,
    task: Option<&str>,
    split: &str,
    notes: Notes,
) -> anyhow::Result<Opened> {
    let (task, cache) = task_of_cache(folder, task)?;
    let split = cache.split(&split.parse::<Split>()?.to_string())?;
    note_about_sources(&cache, split.name(), notes)?;
    Ok(Opened { task, split: Arc::new(split) })
}

/// Opens a cache folder and makes its task; `name`, if given, must be its name.
pub(crate) fn task_of_cache(folder: &Path, name: Option<&str>) -> anyhow::Result<(Arc<Task>, Cache)> {
    let cache = Cache::open(folder)?;
    let manifest = cache.manifest();
    if let Some(name) = name.filter(|name| *name != manifest.task) {
        return Err(usage(format!(
            "`{}` is a cache of task `{}`, not of `{name}`",
            folder.display(),
            manifest.task
        )));
    }
    Ok((Arc::new(cache.task()?), cache))
}

/// Looks for the cache of a split.
pub(crate) fn find(cache_dir: &CacheDir, task: &Task, split: &Split) -> anyhow::Result<Found> {
    cache_dir.find(task, split).with_context(|| format!("cannot look for the cache of `{}`", task.name()))
}

/// Says which splits there are if the one asked for is none of them.
pub(crate) fn check_split(task: &Task, split: &Split) -> anyhow::Result<()> {
    let splits = task.source().splits();
    if splits.iter().any(|name| name == split.name()) {
        return Ok(());
    }
    let problem = anyhow::anyhow!(
        "task `{}` has no split `{}`; it has {}",
        task.name(),
        split.name(),
        seqio::quoted(&splits)
    );
    match seqio::nearest(split.name(), splits.iter().map(String::as_str)) {
        Some(near) => Err(problem).hint(|| format!("did you mean `{near}`?")),
        None => Err(problem),
    }
}

impl Opened {
    /// What the data are: the same for the same definition and sources, wherever the cache is.
    pub(crate) fn data(&self) -> String {
        format!("{}-{}", self.split.manifest().cache_fingerprint, self.split.split_manifest().source_digest)
    }

    /// The split as a store of examples.
    pub(crate) fn store(&self) -> Arc<dyn ExampleStore> {
        Arc::clone(&self.split) as Arc<dyn ExampleStore>
    }

    /// Where the index of rows is kept: beside the cache, else in the user's cache folder.
    pub(crate) fn index_folders(&self) -> Vec<PathBuf> {
        let beside = self.split.folder().parent().map(|folder| folder.join(INDEX_FOLDER));
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let user = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or(home);
        beside.into_iter().chain(user.map(|folder| folder.join("seqio/index"))).collect()
    }
}

/// Holds the indexes of a task's streams, beside its caches.
pub(crate) const INDEX_FOLDER: &str = ".index";

/// What a build is told by the command line.
pub(crate) fn build_config(settings: &BuildSettings, interrupt: &Interrupt) -> BuildConfig {
    let mut config = BuildConfig::default();
    config.memory_bytes = settings.memory.0;
    config.take_over = settings.take_over;
    config.cancel = Arc::clone(interrupt.flag());
    if let Some(threads) = settings.threads {
        config.threads = threads as usize;
    }
    config
}

/// Compares the sources that a cache was made from with those that are there now.
fn note_about_sources(cache: &Cache, split: &str, notes: Notes) -> anyhow::Result<()> {
    match cache.sources_now(split)? {
        SourcesNow::Same => Ok(()),
        SourcesNow::Absent => {
            notes.note(format!(
                "the sources of `{}` are not here; the cache is used unchecked",
                cache.manifest().task
            ));
            Ok(())
        }
        SourcesNow::Different { reason } => {
            let folder = cache.folder().display();
            let problem = anyhow::anyhow!("the cache `{folder}` is out of date: {reason}");
            Err(problem).hint(|| {
                let task = &cache.manifest().task;
                format!("`seqio cache build {task}` makes a cache of the sources as they are now")
            })
        }
    }
}
