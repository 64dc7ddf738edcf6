//! The tables that `seqio query` can read, opened when a query names them.
//!
//! ```text
//! documents of `docs`, split train   ->   its cache if there is one, else source and steps
//! ```

mod examples;
mod reading;
mod statistics;
mod table;
mod tokens;
mod write;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::{Schema, SchemaRef};
use seqio::{QueryTable, SourceFormat, Split, SplitChoices, Task};
use seqio_cache::CachedSplit;

use self::examples::{ExampleSource, SourceSplit};
pub(crate) use self::reading::Reading;
use self::statistics::StatisticsTable;
use self::table::ExampleTable;
use self::tokens::TokenTable;
pub(crate) use self::write::{RowFormat, RowWriter};
use crate::args::QueryArgs;
use crate::build::tell_passed_over;
use crate::duplicates::choices;
use crate::interrupt::Interrupt;
use crate::output::Notes;
use crate::report::{WithHint as _, usage};
use crate::session::{Session, check_split, open_folder, task_within};
use crate::value::ByteSize;

/// Each table with what it holds.
pub(crate) const TABLES: [(&str, &str); 5] = [
    ("raw", "the rows of the source"),
    ("examples", "what the steps above the cache boundary make of them"),
    ("documents", "a row an example: where it is from, and its lengths"),
    ("tokens", "a row a token"),
    ("statistics", "what `seqio stats` knows, of all splits of the cache"),
];

/// What a query is about: a split of a task, or of a cache folder.
pub(crate) struct QueryData<'a> {
    session: &'a Session,
    task: Arc<Task>,
    split: Split,
    args: &'a QueryArgs,
    interrupt: &'a Interrupt,
    notes: Notes,
    /// The split in the cache, once it was looked for, or why there is none.
    cached: OnceLock<Result<Arc<CachedSplit>, String>>,
    /// What steps keep that compare all examples, once it was found out.
    choices: OnceLock<SplitChoices>,
    bad_rows: Arc<AtomicU64>,
}

impl<'a> QueryData<'a> {
    /// Opens a task, or a cache folder.
    pub(crate) fn open(
        session: &'a Session,
        args: &'a QueryArgs,
        interrupt: &'a Interrupt,
        notes: Notes,
    ) -> anyhow::Result<Self> {
        let split: Split = args.split.parse()?;
        let data = |task, cached| {
            let (split, choices) = (split.clone(), OnceLock::new());
            Self { session, task, split, args, interrupt, notes, cached, choices, bad_rows: Arc::default() }
        };
        let task = args.task.as_deref();
        if let Some(folder) = &args.cache {
            let opened = open_folder(folder, task, &split.to_string(), notes)?;
            return Ok(data(opened.task, OnceLock::from(Ok(opened.split))));
        }
        let registry = session.registry()?;
        let names: Vec<&str> = registry.specs().map(|(name, _)| name).collect();
        let name = match (task, names.as_slice()) {
            (Some(name), _) => name,
            (None, [only]) => only,
            (None, _) => {
                return Err(usage(format!(
                    "name a task with `--task`, or a cache folder with `--cache`; the tasks are {}",
                    seqio::quoted(&names)
                )));
            }
        };
        // The other half is for the query itself.
        let budget = interrupt.budget(ByteSize(args.memory.0 / 2));
        let task = match task_within(&registry, name, &budget) {
            Ok(task) => task,
            Err(errors) if errors.only_sources() => {
                return match session.open_without_source(&registry, name, &split, notes)? {
                    Some(opened) => Ok(data(opened.task, OnceLock::from(Ok(opened.split)))),
                    None => Err(errors.into()),
                };
            }
            Err(errors) => return Err(errors.into()),
        };
        check_split(&task, &split)?;
        Ok(data(task, OnceLock::new()))
    }

    /// Memory for a query of these tables, once they are opened: half where their rows are made by a query too.
    pub(crate) fn memory(&self, names: &[String]) -> ByteSize {
        let is_computed = names.iter().any(|name| name == "raw") || matches!(self.cached.get(), Some(Err(_)));
        match self.task.spec().source.format {
            SourceFormat::Sql if is_computed => ByteSize(self.args.memory.0 / 2),
            _ => self.args.memory,
        }
    }

    /// Opens the tables that a query names.
    pub(crate) fn tables(&self, names: &[String]) -> anyhow::Result<BTreeMap<String, Arc<dyn QueryTable>>> {
        names.iter().map(|name| Ok((name.clone(), self.table(name)?))).collect()
    }

    fn table(&self, name: &str) -> anyhow::Result<Arc<dyn QueryTable>> {
        Ok(match name {
            "raw" => Arc::new(ExampleTable::raw(self.raw()?)),
            "examples" => Arc::new(ExampleTable::examples(self.examples()?)),
            "documents" => Arc::new(ExampleTable::documents(self.examples()?)),
            "tokens" => Arc::new(TokenTable::new(self.examples()?, self.task.features().clone())),
            "statistics" => match self.cached() {
                Ok(split) => Arc::new(StatisticsTable::new(split.manifest())?),
                Err(reason) => {
                    let task = self.task.name();
                    let problem = anyhow::anyhow!("the table `statistics` is that of a cache, and {reason}");
                    return Err(problem).hint(|| format!("`seqio cache build {task}` makes one"));
                }
            },
            other => {
                let names = TABLES.map(|(name, _)| name);
                let problem = anyhow::anyhow!("there is no table `{other}`, only {}", seqio::quoted(names));
                return match seqio::nearest(other, names) {
                    Some(near) => Err(problem).hint(|| format!("did you mean `{near}`?")),
                    None => Err(problem).hint(|| "`seqio query --tables` lists their columns".to_owned()),
                };
            }
        })
    }

    /// Each table with its columns; `None` for one that cannot be read here.
    pub(crate) fn columns(&self) -> Vec<(&'static str, &'static str, Option<SchemaRef>)> {
        let columns = |name: &str| -> Option<SchemaRef> {
            match name {
                "raw" => Some(ExampleTable::raw(self.raw().ok()?).columns()),
                "examples" => Some(ExampleTable::examples(self.examples_quietly()).columns()),
                "documents" => Some(ExampleTable::documents(self.examples_quietly()).columns()),
                "tokens" => Some(tokens::columns()),
                _ => Some(statistics::columns()),
            }
        };
        TABLES.map(|(name, summary)| (name, summary, columns(name))).into()
    }

    fn raw(&self) -> anyhow::Result<ExampleSource> {
        if !self.task.has_source() {
            return Err(usage(
                "a cache without its sources holds no raw examples, so there is no table `raw`",
            ));
        }
        Ok(ExampleSource::Raw(self.source()))
    }

    fn source(&self) -> SourceSplit {
        let (task, split) = (Arc::clone(&self.task), self.split.clone());
        SourceSplit { task, split, bad_rows: Arc::clone(&self.bad_rows) }
    }

    /// Says how many bad records were passed over while the source was read.
    pub(crate) fn tell_passed_over(&self) {
        let count = self.bad_rows.load(Ordering::Relaxed);
        tell_passed_over(&self.task, &self.args.split, count, self.notes);
    }

    /// The cache's examples, or how to compute them, which is told.
    fn examples(&self) -> anyhow::Result<ExampleSource> {
        if let (None, Err(reason)) = (self.cached.get(), self.cached()) {
            self.notes.note(format!("{reason}: its examples are computed from the source"));
        }
        if self.cached().is_err() && self.choices.get().is_none() {
            let memory = self.args.memory.0;
            let _ = self.choices.set(choices(&self.task, &self.split, memory, self.interrupt, self.notes)?);
        }
        Ok(self.examples_quietly())
    }

    fn examples_quietly(&self) -> ExampleSource {
        match self.cached() {
            Ok(split) => ExampleSource::Cached(split),
            Err(_) => {
                let choices = self.choices.get().cloned().unwrap_or_else(SplitChoices::none);
                ExampleSource::Computed(self.source(), choices)
            }
        }
    }

    /// The split in the cache, or why there is none.
    fn cached(&self) -> Result<Arc<CachedSplit>, String> {
        self.cached.get_or_init(|| self.session.look(&self.task, &self.split, self.notes)).clone()
    }
}

/// The fields of some of a table's columns.
fn projected(all: &Schema, columns: &[usize]) -> Result<SchemaRef, seqio::QueryTableError> {
    Ok(Arc::new(all.project(columns)?))
}
