//! Names to tasks and vocabularies: reads task files, finds every mistake in them, and opens what is asked for.
//!
//! ```text
//! Registry::load(["seqio.toml"])   texts are read, every table is decoded, names are checked    (milliseconds)
//! registry.task("docs")            its vocabularies are opened, its source's heads are read, its columns followed
//! registry.check()                 the same for everything that is defined
//! ```

mod parse;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use self::parse::{Defined, Parsed, parse};
use crate::error::{DefinitionError, DefinitionErrorKind, DefinitionErrors};
use crate::locate::{Locator, Part, TaskText};
use crate::preprocess::CustomSteps;
use crate::source::{ProgramSources, SourceError, SourceFormat, SourceSpec};
use crate::task::{
    BuildRequest, Columns, Definition, OpenVocabulary, Task, TaskFile, TaskSpec, build, step_in_words,
};
use crate::text::{nearest, quoted};
use crate::vocabulary::{SharedVocabulary, VocabularyError, VocabularySpec};

/// Tasks and vocabularies by name; a value, not a global.
#[derive(Debug, Default)]
pub struct Registry {
    vocabularies: BTreeMap<String, Known<VocabularySpec>>,
    tasks: BTreeMap<String, Known<TaskSpec>>,
    /// Tasks whose names can be checked, but nothing else.
    broken: BTreeSet<String>,
    /// Vocabularies that are there, but whose tables have mistakes.
    broken_vocabularies: BTreeSet<String>,
    custom: CustomSteps,
    sources: ProgramSources,
    open: Mutex<BTreeMap<String, Arc<OpenVocabulary>>>,
    built: Mutex<BTreeMap<String, Arc<Task>>>,
}

/// A spec, the folder that its paths start from, and the table it was read from.
#[derive(Debug)]
struct Known<T> {
    spec: T,
    folder: PathBuf,
    locator: Locator,
}

impl Known<TaskSpec> {
    /// The task with what its steps read from files in its steps.
    fn resolved(&self, name: &str) -> Result<Self, DefinitionErrors> {
        let Self { spec, folder, locator } = self;
        let mut spec = spec.clone();
        let mut errors = Vec::new();
        let steps = spec.steps.len();
        for (index, step) in spec.steps.iter_mut().enumerate() {
            match step.resolved(folder) {
                None => {}
                Some(Ok(resolved)) => *step = resolved,
                Some(Err((setting, problem))) => {
                    let key = |name: &str| Part::Key(name.to_owned());
                    let place = locator.value(&[key("steps"), Part::Index(index), key(setting)]);
                    let place = place.or_else(|| locator.step(index));
                    let error = DefinitionError::new(problem).at(place).within(format!("task `{name}`"));
                    errors.push(error.within(step_in_words(index, steps, step.op())));
                }
            }
        }
        DefinitionErrors::none_or(errors)?;
        Ok(Self { spec, folder: folder.clone(), locator: locator.clone() })
    }
}

impl Registry {
    /// Reads task files. Every mistake that their texts show is found; what lies in other files is looked at when a
    /// task is asked for.
    pub fn load<P: AsRef<Path>>(paths: &[P]) -> Result<Self, DefinitionErrors> {
        Self::load_with(paths, CustomSteps::new())
    }

    /// [`Registry::load`] for a program with steps of its own.
    pub fn load_with<P: AsRef<Path>>(paths: &[P], custom: CustomSteps) -> Result<Self, DefinitionErrors> {
        let mut registry = Self { custom, ..Self::default() };
        let mut errors = Vec::new();
        for path in paths {
            let path = path.as_ref();
            match std::fs::read_to_string(path) {
                Ok(text) => errors.extend(registry.add(TaskText { path: path.to_owned(), text })),
                Err(error) => {
                    let problem = format!("cannot read the task file `{}`: {error}", path.display());
                    errors.push(DefinitionError::new(problem).hint("name another with `-f FILE`"));
                }
            }
        }
        registry.checked(errors)
    }

    /// Reads the text of one task file; `path` is for messages, and its folder is where relative paths start.
    pub fn from_text(path: impl Into<PathBuf>, text: impl Into<String>) -> Result<Self, DefinitionErrors> {
        let mut registry = Self::default();
        let errors = registry.add(TaskText { path: path.into(), text: text.into() });
        registry.checked(errors)
    }

    /// Takes definitions made in Rust; relative paths start from `folder`.
    pub fn from_task_file(file: TaskFile, folder: impl Into<PathBuf>) -> Result<Self, DefinitionErrors> {
        Self::from_task_file_with(file, folder, CustomSteps::new())
    }

    /// [`Registry::from_task_file`] for a program with steps of its own.
    pub fn from_task_file_with(
        file: TaskFile,
        folder: impl Into<PathBuf>,
        custom: CustomSteps,
    ) -> Result<Self, DefinitionErrors> {
        let folder = folder.into();
        let mut registry = Self { custom, ..Self::default() };
        for (name, spec) in file.vocabulary {
            let known = Known { spec, folder: folder.clone(), locator: Locator::nowhere() };
            registry.vocabularies.insert(name, known);
        }
        for (name, spec) in file.task {
            registry.tasks.insert(name, Known { spec, folder: folder.clone(), locator: Locator::nowhere() });
        }
        registry.checked(Vec::new())
    }

    /// The same registry for a program with sources of its own, which tasks name by `program`.
    #[must_use]
    pub fn with_sources(mut self, sources: ProgramSources) -> Self {
        self.sources = sources;
        self.built.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        self
    }

    /// Names of the tasks, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.tasks.keys().map(String::as_str)
    }

    /// The tasks as they are defined, by name.
    pub fn specs(&self) -> impl Iterator<Item = (&str, &TaskSpec)> {
        self.tasks.iter().map(|(name, known)| (name.as_str(), &known.spec))
    }

    /// The vocabularies as they are defined, by name.
    pub fn vocabularies(&self) -> impl Iterator<Item = (&str, &VocabularySpec)> {
        self.vocabularies.iter().map(|(name, known)| (name.as_str(), &known.spec))
    }

    /// The program's own steps.
    pub fn custom_steps(&self) -> &CustomSteps {
        &self.custom
    }

    /// Where a task is defined, as `file:line:column`; `None` for one made in Rust.
    pub fn place_of(&self, task: &str) -> Option<String> {
        Some(self.tasks.get(task)?.locator.name()?.to_string())
    }

    /// Opens a vocabulary.
    pub fn vocabulary(&self, name: &str) -> Result<SharedVocabulary, DefinitionErrors> {
        Ok(Arc::clone(&self.open_vocabulary(name)?.vocabulary))
    }

    /// Opens a task: its vocabularies are read, its source's heads looked at, and its columns followed to the features.
    pub fn task(&self, name: &str) -> Result<Arc<Task>, DefinitionErrors> {
        if let Some(task) = self.built.lock().unwrap_or_else(PoisonError::into_inner).get(name) {
            return Ok(Arc::clone(task));
        }
        let known = &self.known(name)?.resolved(name)?;
        let mut errors = Vec::new();
        let vocabularies = self.open_vocabularies(known, &mut errors);
        let source = open_source(name, known, &self.sources, &mut errors);
        let (Some(source), true) = (source, errors.is_empty()) else {
            return Err(DefinitionErrors::new(errors));
        };
        let task = self.build(name, known, vocabularies, source)?;
        let task = Arc::new(task);
        self.built.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), Arc::clone(&task));
        Ok(task)
    }

    /// Opens a task without its source, for use with a cache made from another definition of it: what only the source
    /// shows is taken from there. The cache is this task's if their fingerprints are equal.
    pub fn task_without_source(
        &self,
        name: &str,
        cached: &Definition,
    ) -> Result<Arc<Task>, DefinitionErrors> {
        let known = &self.known(name)?.resolved(name)?;
        let mut errors = Vec::new();
        let vocabularies = self.open_vocabularies(known, &mut errors);
        DefinitionErrors::none_or(errors)?;
        let declared = &known.spec.source.columns;
        let columns = Columns::Cached {
            schema: cached.schema().map_err(DefinitionError::new)?,
            columns: if declared.is_empty() { cached.source_columns.clone() } else { declared.clone() },
            step_versions: None,
            exemplars: cached.exemplars.clone(),
        };
        Ok(Arc::new(self.build(name, known, vocabularies, columns)?))
    }

    /// Opens every task and vocabulary and tells every mistake.
    pub fn check(&self) -> Result<(), DefinitionErrors> {
        DefinitionErrors::none_or(self.check_all_but(&BTreeSet::new()))
    }

    fn check_all_but(&self, tasks: &BTreeSet<String>) -> Vec<DefinitionError> {
        let vocabularies = self.vocabularies.keys().filter_map(|name| self.open_vocabulary(name).err());
        let tasks = self.tasks.keys().filter(|name| !tasks.contains(*name));
        let errors = vocabularies.chain(tasks.filter_map(|name| self.task(name).err()));
        errors.flat_map(DefinitionErrors::into_vec).collect()
    }

    fn known(&self, name: &str) -> Result<&Known<TaskSpec>, DefinitionErrors> {
        self.tasks.get(name).ok_or_else(|| {
            let hint = match nearest(name, self.names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if self.tasks.is_empty() => "no task is defined".to_owned(),
                None => format!("the tasks are {}", quoted(self.names())),
            };
            DefinitionError::new(format!("there is no task `{name}`")).hint(hint).into()
        })
    }

    fn build(
        &self,
        name: &str,
        known: &Known<TaskSpec>,
        vocabularies: BTreeMap<String, Arc<OpenVocabulary>>,
        columns: Columns,
    ) -> Result<Task, DefinitionErrors> {
        let Known { spec, locator, .. } = known;
        let request = BuildRequest { name, spec, vocabularies, columns, custom: &self.custom, locator };
        build(request).map_err(DefinitionErrors::new)
    }

    fn open_vocabularies(
        &self,
        known: &Known<TaskSpec>,
        errors: &mut Vec<DefinitionError>,
    ) -> BTreeMap<String, Arc<OpenVocabulary>> {
        let mut open = BTreeMap::new();
        for feature in known.spec.features.values() {
            let name = &feature.vocabulary;
            if open.contains_key(name) {
                continue;
            }
            match self.open_vocabulary(name) {
                Ok(vocabulary) => {
                    open.insert(name.clone(), vocabulary);
                }
                Err(mistakes) => errors.extend(mistakes.into_vec()),
            }
        }
        open
    }

    fn open_vocabulary(&self, name: &str) -> Result<Arc<OpenVocabulary>, DefinitionErrors> {
        if let Some(open) = self.open.lock().unwrap_or_else(PoisonError::into_inner).get(name) {
            return Ok(Arc::clone(open));
        }
        let Some(known) = self.vocabularies.get(name) else {
            let error = DefinitionError::new(format!("there is no vocabulary `{name}`"));
            return Err(error.hint(vocabulary_hint(name, &self.vocabularies)).into());
        };
        let open = open_vocabulary(known)
            .map_err(|error| DefinitionErrors::from((*error).within(format!("vocabulary `{name}`"))))?;
        let open = Arc::new(OpenVocabulary::new(known.spec.clone(), open));
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), Arc::clone(&open));
        Ok(open)
    }

    /// Takes in what a file defines and returns its mistakes.
    fn add(&mut self, text: TaskText) -> Vec<DefinitionError> {
        let text = Arc::new(text);
        let folder = text.folder().to_owned();
        let Parsed { vocabularies, tasks, mut broken_tasks, mut errors } = parse(&text, &self.custom);
        self.broken.append(&mut broken_tasks);
        let broken = vocabularies.iter().filter(|defined| defined.spec.is_none());
        self.broken_vocabularies.extend(broken.map(|defined| defined.name.clone()));
        insert_all("vocabulary", vocabularies, &folder, &mut self.vocabularies, &mut errors);
        insert_all("task", tasks, &folder, &mut self.tasks, &mut errors);
        errors
    }

    /// The registry, if its texts hold no mistakes. If they do, what is well formed is looked at closely, so that a
    /// person sees all mistakes at once; files of sources may then be absent.
    fn checked(self, mut errors: Vec<DefinitionError>) -> Result<Self, DefinitionErrors> {
        let wrong = self.check_names();
        if errors.is_empty() && wrong.is_empty() {
            return Ok(self);
        }
        let mut wrong_tasks = self.broken.clone();
        wrong_tasks.extend(wrong.iter().map(|(task, _)| task.clone()));
        // What they lack has been told.
        let uses_broken = |known: &Known<TaskSpec>| {
            let mut features = known.spec.features.values();
            features.any(|feature| self.broken_vocabularies.contains(&feature.vocabulary))
        };
        wrong_tasks
            .extend(self.tasks.iter().filter(|(_, known)| uses_broken(known)).map(|(task, _)| task.clone()));
        errors.extend(wrong.into_iter().map(|(_, error)| error));
        let more = self.check_all_but(&wrong_tasks);
        errors.extend(more.into_iter().filter(|error| error.kind == DefinitionErrorKind::Definition));
        Err(DefinitionErrors::new(errors))
    }

    /// What can be told from the definitions alone, once all files are read: mistakes with the task they are in.
    fn check_names(&self) -> Vec<(String, DefinitionError)> {
        let mut errors = Vec::new();
        for (name, known) in &self.tasks {
            let in_name =
                problem_of_name(name).map(|problem| DefinitionError::new(problem).at(known.locator.name()));
            for mut error in in_name.into_iter().chain(self.check_spec(known)) {
                error.context.insert(0, format!("task `{name}`"));
                errors.push((name.clone(), error));
            }
        }
        errors
    }

    fn check_spec(&self, known: &Known<TaskSpec>) -> Vec<DefinitionError> {
        let Known { spec, locator, .. } = known;
        let key = |name: &str| Part::Key(name.to_owned());
        let mut errors = Vec::new();
        if spec.features.is_empty() {
            let hint = "write `features = { targets = { vocabulary = \"...\" } }`";
            let place = locator.key(&[key("features")]);
            errors.push(DefinitionError::new("the task has no features").hint(hint).at(place));
        }
        for (name, feature) in &spec.features {
            let is_there =
                |name| self.vocabularies.contains_key(name) || self.broken_vocabularies.contains(name);
            if !is_there(&feature.vocabulary) {
                let place = locator.value(&[key("features"), key(name), key("vocabulary")]);
                let error = DefinitionError::new(format!("there is no vocabulary `{}`", feature.vocabulary));
                let hint = vocabulary_hint(&feature.vocabulary, &self.vocabularies);
                errors.push(error.hint(hint).at(place).within(format!("feature `{name}`")));
            }
        }
        if let Err(error) = spec.source.check() {
            let place = match &error {
                SourceError::Location { pattern, .. } => locator.text_in("source", &|text| text == pattern),
                SourceError::Part { keys, .. } => {
                    let path = std::iter::once(key("source")).chain(keys.iter().map(|name| key(name)));
                    locator.value(&path.collect::<Vec<_>>())
                }
                _ => locator.value(&[key("source")]),
            };
            errors.push(DefinitionError::new(error.to_string()).at(place).within("source"));
        }
        for split in spec.shuffle.iter().flatten() {
            let whole = split.split('[').next().unwrap_or(split);
            let splits = spec.source.splits.keys().map(String::as_str);
            if !spec.source.splits.contains_key(whole) {
                let hint = match nearest(whole, splits.clone()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("the splits are {}", quoted(splits)),
                };
                let problem = format!("`shuffle` names `{split}`, which is no split of the source");
                let place = locator.text_in("shuffle", &|text| text == split);
                errors.push(DefinitionError::new(problem).hint(hint).at(place));
            }
        }
        for (name, length) in &spec.lengths {
            let names = spec.features.keys().map(String::as_str);
            if !spec.features.contains_key(name) {
                let hint = match nearest(name, names.clone()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("the features are {}", quoted(names)),
                };
                let error =
                    DefinitionError::new(format!("`lengths` speaks of `{name}`, which is no feature"));
                errors.push(error.hint(hint).at(locator.key(&[key("lengths"), key(name)])));
            }
            if *length == 0 {
                let error =
                    DefinitionError::new(format!("the length of `{name}` must be 1 or more, but is 0"));
                errors.push(error.at(locator.value(&[key("lengths"), key(name)])));
            }
        }
        errors
    }
}

fn insert_all<T>(
    what: &str,
    defined: Vec<Defined<Option<T>>>,
    folder: &Path,
    known: &mut BTreeMap<String, Known<T>>,
    errors: &mut Vec<DefinitionError>,
) {
    for Defined { name, spec, locator } in defined {
        if let Some(first) = known.get(&name) {
            let place = first.locator.name().map_or_else(|| "in Rust".to_owned(), |place| place.to_string());
            let error = DefinitionError::new(format!("{what} `{name}` is defined already, at {place}"));
            errors
                .push(error.hint("rename one of the two, or leave out one of the files").at(locator.name()));
            continue;
        }
        if let Some(spec) = spec {
            known.insert(name, Known { spec, folder: folder.to_owned(), locator });
        }
    }
}

fn vocabulary_hint(name: &str, known: &BTreeMap<String, Known<VocabularySpec>>) -> String {
    let names = known.keys().map(String::as_str);
    match nearest(name, names.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => format!("define it: `[vocabulary.{name}]`"),
        None => format!("the vocabularies are {}; define it with `[vocabulary.{name}]`", quoted(names)),
    }
}

/// SeqIO's rule, `^[\w\d\.\:_#]+$`, and that each part between colons can be a folder.
fn problem_of_name(name: &str) -> Option<String> {
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '#');
    if let Some(bad) = name.chars().find(|&c| !allowed(c)) {
        return Some(format!(
            "a task's name has letters, digits, `_`, `.`, `:` and `#`, but `{name}` has `{bad}`"
        ));
    }
    if name.split(':').any(|part| matches!(part, "" | "." | "..")) {
        return Some(format!("`:` cuts a task's name into folders, but a part of `{name}` cannot be one"));
    }
    None
}

fn open_vocabulary(known: &Known<VocabularySpec>) -> Result<SharedVocabulary, Box<DefinitionError>> {
    let Known { spec, folder, locator } = known;
    let at_file = || locator.value(&[Part::Key(spec.kind().to_owned())]);
    let file = match spec.path() {
        Some(path) => {
            let path = folder.join(path);
            let read = std::fs::read(&path);
            Some(read.map_err(|error| {
                let problem = format!("cannot read `{}`: {error}", path.display());
                let hint = "paths in a task file start from the folder that the file is in";
                Box::new(DefinitionError::new(problem).hint(hint).at(at_file()))
            })?)
        }
        None => None,
    };
    spec.open(file).map_err(|error| {
        let place = match &error {
            VocabularyError::Setting { setting, .. } => locator.value(&[Part::Key((*setting).to_owned())]),
            _ => at_file(),
        };
        let problem = match (&error, spec.path()) {
            (VocabularyError::Malformed { problem }, Some(path)) => {
                format!("`{}`: {problem}", folder.join(path).display())
            }
            _ => error.to_string(),
        };
        Box::new(DefinitionError::new(problem).at(place))
    })
}

fn open_source(
    name: &str,
    known: &Known<TaskSpec>,
    sources: &ProgramSources,
    errors: &mut Vec<DefinitionError>,
) -> Option<Columns> {
    let Known { spec, folder, locator } = known;
    let opened = if spec.source.format == SourceFormat::Program {
        let own = spec.source.name.as_deref().unwrap_or(name);
        spec.source.check().and_then(|()| sources.open(own, &spec.source.splits, &spec.source.columns))
    } else {
        spec.source
            .pin(name, folder)
            .and_then(|pinned| Ok((pinned.open_pinned(name, folder)?, pinned.columns)))
    };
    let error = match opened {
        Ok((source, columns)) => return Some(Columns::Source { source, columns }),
        Err(error) => error,
    };
    errors.push(source_error(&error, name, locator));
    if matches!(spec.source.format, SourceFormat::Sql | SourceFormat::Program) {
        return None;
    }
    // Opening stops at the first pattern that matches nothing: the others are tried one by one.
    for (split, pattern) in
        spec.source.splits.iter().flat_map(|(split, patterns)| patterns.iter().map(move |p| (split, p)))
    {
        let alone =
            SourceSpec { splits: [(split.clone(), vec![pattern.clone()])].into(), ..spec.source.clone() };
        if let Err(error @ SourceError::NoFiles { .. }) = alone.open(name, folder) {
            errors.push(source_error(&error, name, locator));
        }
    }
    None
}

fn source_error(error: &SourceError, task: &str, locator: &Locator) -> DefinitionError {
    let mentioned = match error {
        SourceError::NoFiles { pattern } => pattern.clone(),
        SourceError::Program { name, .. } => name.clone(),
        SourceError::Io { path, .. } | SourceError::Malformed { path, .. } => path.display().to_string(),
        _ => String::new(),
    };
    let place = match error {
        SourceError::Part { keys, .. } => {
            let keys = keys.iter().map(|name| Part::Key(name.clone()));
            let path: Vec<Part> = std::iter::once(Part::Key("source".to_owned())).chain(keys).collect();
            locator.value(&path)
        }
        _ => locator.text_in("source", &|text| {
            // A URL is mentioned as its path.
            let text = text.strip_prefix("file://").unwrap_or(text);
            let before = mentioned.strip_suffix(text).filter(|_| !text.is_empty());
            before.is_some_and(|before| before.is_empty() || before.ends_with('/') || text.starts_with('/'))
        }),
    };
    let kind = match error {
        SourceError::NoFiles { .. } | SourceError::Io { .. } | SourceError::Program { .. } => {
            DefinitionErrorKind::Source
        }
        _ => DefinitionErrorKind::Definition,
    };
    let hint = match error {
        SourceError::NoFiles { .. } => {
            Some("paths in a task file start from the folder that the file is in".to_owned())
        }
        _ => None,
    };
    DefinitionError::new(error.to_string())
        .maybe_hint(hint)
        .at(place)
        .of_kind(kind)
        .within(format!("task `{task}`"))
        .within("source")
}

#[cfg(test)]
mod tests;
