//! `seqio find`: at which steps a line of a source file is seen.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use rayon::prelude::*;
use seqio::{ExampleStore as _, Sighting};
use seqio_cache::Duplicate;
use serde::Serialize;

use crate::args::FindArgs;
use crate::format::count;
use crate::interrupt::Interrupt;
use crate::output::{Align, Out, Table};
use crate::report::{WithHint as _, usage};
use crate::session::{Opened, Session, Wanted};
use crate::shape;

/// Epochs looked at in a stream without end.
const EPOCHS: u64 = 3;

#[derive(Serialize)]
struct FoundIn {
    task: String,
    file: String,
    line: u64,
    examples: Vec<FoundExample>,
}

#[derive(Serialize)]
struct FoundExample {
    example: u64,
    sightings: Vec<Sighting>,
}

/// Runs the command.
pub(crate) fn run(session: &Session, args: &FindArgs, out: &mut Out) -> anyhow::Result<()> {
    let interrupt = Interrupt::listen()?;
    let tasks = match (&args.task, &args.cache) {
        (None, None) => tasks_reading(session, args)?,
        (task, _) => vec![task.clone()],
    };
    let mut found = Vec::new();
    for task in tasks {
        let wanted = Wanted { task: task.as_deref(), cache: args.cache.as_deref(), split: &args.split };
        let opened = session.open(wanted, &args.build, &interrupt, out.notes())?;
        interrupt.release();
        found.push(find_in(&opened, args)?);
    }
    if args.json.wanted {
        return out.json(&found);
    }
    for found in &found {
        print(found, args.batch_size.batch_size.into(), out)?;
    }
    Ok(())
}

/// The tasks of the task files whose split reads the file.
fn tasks_reading(session: &Session, args: &FindArgs) -> anyhow::Result<Vec<Option<String>>> {
    let registry = session.registry()?;
    let wanted = real(&args.place.file);
    let split: seqio::Split = args.split.parse()?;
    let mut tasks = Vec::new();
    for name in registry.names() {
        let Ok(task) = registry.task(name) else { continue };
        let files = task.source().files(split.name()).unwrap_or_default();
        if files.iter().any(|file| real(&file.path) == wanted) {
            tasks.push(Some(name.to_owned()));
        }
    }
    if tasks.is_empty() {
        let problem = anyhow::anyhow!("no task reads `{}` in split `{split}`", args.place.file.display());
        return Err(problem).hint(|| {
            "name the split with `--split`; if the file is gone, name the task and the file as the cache knows it"
                .to_owned()
        });
    }
    Ok(tasks)
}

fn find_in(opened: &Opened, args: &FindArgs) -> anyhow::Result<FoundIn> {
    let mut config = shape::config(&opened.task, opened.split.name(), &args.shape, args.batch_size)?;
    config.threads = args.build.threads.map(|threads| threads as usize);
    let epochs = config.epochs.unwrap_or(EPOCHS);
    let file = file_index(opened, &args.place.file)?;
    let row = args.place.line - 1;
    let split = &opened.split;
    // Whoever asks for one line waits a moment: origins are not sorted by place.
    let examples: Vec<u64> = (0..split.num_examples())
        .into_par_iter()
        .filter_map(|example| match split.origins(example) {
            Ok(origins) => {
                origins.iter().any(|origin| origin.file == file && origin.row == row).then_some(Ok(example))
            }
            Err(error) => Some(Err(error)),
        })
        .collect::<Result<_, _>>()?;
    let name =
        split.split_manifest().files.get(file as usize).map_or("", |file| file.name.as_str()).to_owned();
    if examples.is_empty() {
        if let Some(Duplicate { step, kept_file, kept_row, .. }) = split.find_duplicate(&name, row)? {
            let (line, kept) = (args.place.line, format!("{kept_file}:{}", kept_row + 1));
            let (task, split) = (opened.task.name(), split.name());
            let problem =
                format!("{name}:{line} was dropped from task `{task}`, split `{split}`, by step {step}");
            return Err(anyhow::anyhow!("{problem}, as a duplicate of {kept}"))
                .hint(|| "look for the one that was kept in its place".to_owned());
        }
        anyhow::bail!(
            "`{name}` gave no example for line {} to task `{}`, split `{}`: the line is blank, bad, not there, or within a record \
             that begins in a line before",
            args.place.line,
            opened.task.name(),
            split.name()
        );
    }
    let dataset = shape::dataset(opened, config)?;
    let sightings = |example| {
        let sightings = dataset.find(example, 0..epochs)?;
        Ok(FoundExample { example, sightings })
    };
    let examples = examples.into_iter().map(sightings).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(FoundIn { task: opened.task.name().to_owned(), file: name, line: args.place.line, examples })
}

/// Which of the split's files is meant: by its path where the sources are here, else by the end of its name.
fn file_index(opened: &Opened, wanted: &Path) -> anyhow::Result<u32> {
    let split: seqio::Split = opened.split.name().parse()?;
    let files = opened.task.source().files(split.name()).unwrap_or_default();
    let known = &opened.split.split_manifest().files;
    let path = real(wanted);
    if let Some(file) = files.iter().find(|file| real(&file.path) == path)
        && let Some(index) = known.iter().position(|known| known.name == file.name)
    {
        return u32::try_from(index).context("there are too many files");
    }
    let ends = |name: &str| wanted.ends_with(name) || Path::new(name).ends_with(wanted);
    let fitting: Vec<usize> = (0..known.len()).filter(|index| ends(&known[*index].name)).collect();
    match fitting.as_slice() {
        [index] => u32::try_from(*index).context("there are too many files"),
        [] => {
            let names = known.iter().take(8).map(|file| file.name.as_str());
            let more = if known.len() > 8 {
                format!(" and {} more", count(known.len() as u64 - 8))
            } else {
                String::new()
            };
            Err(usage(format!(
                "task `{}`, split `{}` has no file `{}`; it has {}{more}",
                opened.task.name(),
                opened.split.name(),
                wanted.display(),
                seqio::quoted(names)
            )))
        }
        several => Err(usage(format!(
            "`{}` can be {}; write more of the path",
            wanted.display(),
            seqio::quoted(several.iter().map(|index| known[*index].name.as_str()))
        ))),
    }
}

fn real(path: &Path) -> std::path::PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn print(found: &FoundIn, batch_size: u64, out: &mut Out) -> anyhow::Result<()> {
    for example in &found.examples {
        writeln!(
            out,
            "{}:{} is example {} of task `{}`",
            found.file, found.line, example.example, found.task
        )?;
        let mut table = Table::new([
            ("epoch", Align::Right),
            ("step", Align::Right),
            ("row", Align::Right),
            ("segment", Align::Right),
            ("tokens", Align::Left),
        ]);
        for sighting in &example.sightings {
            for piece in &sighting.pieces {
                let parts = piece.parts.iter().filter(|part| part.len > 0);
                let parts =
                    parts.map(|part| format!("{} {}..{}", part.feature, part.from, part.from + part.len));
                table.row([
                    sighting.epoch.to_string(),
                    piece.step.map_or_else(|| "none".to_owned(), |step| step.to_string()),
                    (piece.row % batch_size).to_string(),
                    piece.segment.to_string(),
                    parts.collect::<Vec<_>>().join(", "),
                ]);
            }
            if sighting.pieces.is_empty() {
                let never = "never: it has no tokens".to_owned();
                table.row([sighting.epoch.to_string(), "-".into(), "-".into(), "-".into(), never]);
            }
        }
        let paint = out.paint;
        table.write(out, paint, 2)?;
    }
    Ok(())
}
