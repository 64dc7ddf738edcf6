//! `seqio find`: at which steps a line of a source file is seen.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use rayon::prelude::*;
use seqio::{ExampleStore as _, Sighting, WrittenKey};
use seqio_cache::{Duplicate, SplitManifest};
use serde::Serialize;

use crate::args::FindArgs;
use crate::format::count;
use crate::interrupt::Interrupt;
use crate::output::{Align, Out, Table};
use crate::report::{WithHint as _, usage};
use crate::session::{Opened, Session, Wanted};
use crate::shape;
use crate::value::{ExamplePlace, FileLine};

/// Epochs looked at in a stream without end.
const EPOCHS: u64 = 3;

#[derive(Serialize)]
struct FoundIn {
    task: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
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
    let file = match &args.place {
        ExamplePlace::Line(place) => &place.file,
        ExamplePlace::Key(key) => return Err(usage(format!("name the task that has the row `{key}`"))),
    };
    let registry = session.registry()?;
    let wanted = real(file);
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
        let problem = anyhow::anyhow!("no task reads `{}` in split `{split}`", file.display());
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
    let mut found = FoundIn {
        task: opened.task.name().to_owned(),
        file: None,
        line: None,
        key: None,
        examples: Vec::new(),
    };
    let examples = match &args.place {
        ExamplePlace::Line(place) => {
            let (name, examples) = examples_of_line(opened, place)?;
            (found.file, found.line) = (Some(name), Some(place.line));
            examples
        }
        ExamplePlace::Key(key) => {
            let examples = examples_of_key(opened, key)?;
            let example = examples.first().copied().unwrap_or_default();
            found.key = opened.split.key(example)?.map(|key| key.to_string());
            examples
        }
    };
    let dataset = shape::dataset(opened, config)?;
    let sightings = |example| {
        let sightings = dataset.find(example, 0..epochs)?;
        Ok(FoundExample { example, sightings })
    };
    found.examples = examples.into_iter().map(sightings).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(found)
}

/// The examples that a line gave, and the name of its file; an error if there are none.
fn examples_of_line(opened: &Opened, place: &FileLine) -> anyhow::Result<(String, Vec<u64>)> {
    let file = file_index(opened, &place.file)?;
    let row = place.line - 1;
    let split = &opened.split;
    let manifest = split.split_manifest();
    let name = manifest.files.get(file as usize).map_or("", |file| file.name.as_str()).to_owned();
    // Whoever asks for one line waits a moment: origins are not sorted by place.
    let examples: Vec<u64> = if let Some(keys) = keys_of_line(manifest, &name, place.line) {
        examples_with_keys(opened, &keys)?
    } else {
        let examples = (0..split.num_examples()).into_par_iter();
        let examples = examples.filter_map(|example| match split.origins(example) {
            Ok(origins) => {
                origins.iter().any(|origin| origin.file == file && origin.row == row).then_some(Ok(example))
            }
            Err(error) => Some(Err(error)),
        });
        examples.collect::<Result<_, _>>()?
    };
    if examples.is_empty() {
        if let Some(Duplicate { step, kept_file, kept_row, .. }) = split.find_duplicate(&name, row)? {
            let (line, kept) = (place.line, format!("{kept_file}:{}", kept_row + 1));
            let (task, split) = (opened.task.name(), split.name());
            let problem =
                format!("{name}:{line} was dropped from task `{task}`, split `{split}`, by step {step}");
            return Err(anyhow::anyhow!("{problem}, as a duplicate of {kept}"))
                .hint(|| "look for the one that was kept in its place".to_owned());
        }
        anyhow::bail!(
            "`{name}` gave no example for line {} to task `{}`, split `{}`: the line is blank, bad, not there, or within a record \
             that begins in a line before",
            place.line,
            opened.task.name(),
            split.name()
        );
    }
    Ok((name, examples))
}

/// The key of a line where files take turns: their examples are known by it.
fn keys_of_line(manifest: &SplitManifest, file: &str, line: u64) -> Option<Vec<String>> {
    let takes_turns = manifest.files.last().is_some_and(|file| file.name.ends_with(".interleaved"));
    let [file_key, unit] = manifest.key.as_slice() else { return None };
    let file = serde_json::Value::from(file);
    (takes_turns && file_key == "file").then(|| vec![format!("{file_key}={file}, {unit}={line}")])
}

/// The examples of the row with a key; an error if there are none.
fn examples_of_key(opened: &Opened, key: &WrittenKey) -> anyhow::Result<Vec<u64>> {
    let split = &opened.split;
    let (task, manifest) = (opened.task.name(), split.split_manifest());
    if manifest.key.is_empty() {
        return Err(usage(format!(
            "the rows of task `{task}` have no keys; name a line of a file, as `docs/a.jsonl:17`"
        )));
    }
    let keys = key.texts(&manifest.key);
    let keys = keys.map_err(|words| usage(format!("task `{task}`: {words}")))?;
    let examples = examples_with_keys(opened, &keys)?;
    if examples.is_empty() {
        anyhow::bail!(
            "no row of task `{task}`, split `{}` has the key `{key}`: the source gives none, or a step dropped it",
            split.name()
        );
    }
    Ok(examples)
}

/// The examples of rows with these keys.
fn examples_with_keys(opened: &Opened, keys: &[String]) -> anyhow::Result<Vec<u64>> {
    let split = &opened.split;
    let examples = (0..split.num_examples()).into_par_iter().filter_map(|example| match split.key(example) {
        Ok(key) => key.is_some_and(|key| keys.iter().any(|wanted| **wanted == *key)).then_some(Ok(example)),
        Err(error) => Some(Err(error)),
    });
    Ok(examples.collect::<Result<_, _>>()?)
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
    let place = match (&found.file, found.line, &found.key) {
        (Some(file), Some(line), _) => format!("{file}:{line}"),
        (_, _, key) => key.clone().unwrap_or_default(),
    };
    for example in &found.examples {
        writeln!(out, "{place} is example {} of task `{}`", example.example, found.task)?;
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
