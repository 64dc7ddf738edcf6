//! `seqio stream`: batches, one after the other, to whoever trains on them.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use seqio::{Batch, DatasetIterator, DatasetState, Split, Task, UncachedDataset};

use crate::args::{Data, DigestName, FormatName, OrderName, StreamArgs};
use crate::build::tell_passed_over;
use crate::duplicates::choices;
use crate::interrupt::Interrupt;
use crate::output::{Notes, Out, write_stderr};
use crate::report::{Interrupted, WithHint as _, usage};
use crate::session::{Opened, Session, Wanted, check_split};
use crate::shape;
use crate::write::{ArrowStream, BatchWriter, Durable, JsonLines, NpyFolder, create, write_atomically};

/// Runs the command.
pub(crate) fn run(session: &Session, args: &StreamArgs, out: &mut Out) -> anyhow::Result<()> {
    let format = format(args);
    check_output(args, format, out)?;
    let interrupt = Interrupt::listen()?;
    let notes = out.notes();
    let mut uncached = None;
    let batches = open(session, args, &interrupt, notes, &mut uncached);
    let batches = interrupt.told(batches, "run the same command again to begin anew")?;
    let first = batches.step();
    let mut stream = Stream { batches, args, notes, written: 0 };
    let ended = match (format, &args.out) {
        (FormatName::None, _) => stream.write(&mut Digests { out, digest: args.digest }, None, &interrupt),
        (FormatName::Npy, folder) => {
            let mut folder = NpyFolder::create(folder.as_deref().unwrap_or(Path::new(".")))?;
            stream.write(&mut folder, args.digest, &interrupt)
        }
        (format, None) => {
            let mut writer = writer(format, out);
            stream.write(writer.as_mut(), args.digest, &interrupt)
        }
        (format, Some(path)) => {
            let mut writer = writer(format, BufWriter::with_capacity(1 << 20, create(path)?));
            stream.write(writer.as_mut(), args.digest, &interrupt)
        }
    };
    // A pipe that broke because the same Ctrl-C ended its reader is an interruption too.
    if interrupt.asked() {
        return Err(Interrupted { go_on: stream.go_on(first) }.into());
    }
    ended?;
    stream.tell_end(first);
    if let Some(Uncached { task, bad_rows }) = &uncached {
        tell_passed_over(task, &args.data.split, bad_rows.load(Ordering::Relaxed), notes);
    }
    Ok(())
}

/// A stream without a cache.
struct Uncached {
    task: Arc<Task>,
    /// Bad records passed over in an epoch.
    bad_rows: Arc<AtomicU64>,
}

fn format(args: &StreamArgs) -> FormatName {
    let default =
        if args.digest.is_some() && args.out.is_none() { FormatName::None } else { FormatName::Jsonl };
    args.format.unwrap_or(default)
}

/// Refuses what cannot be meant, before anything is built.
fn check_output(args: &StreamArgs, format: FormatName, out: &Out) -> anyhow::Result<()> {
    match (format, &args.out) {
        (FormatName::Npy, None) => {
            return Err(usage("`--format npy` writes a folder of files: name it with `--out DIR`"));
        }
        (FormatName::None, Some(_)) => {
            return Err(usage("`--format none` writes nothing, so there is no `--out`"));
        }
        (FormatName::Arrow, None) if out.terminal => {
            return Err(usage(
                "an Arrow stream is not for a terminal: pipe it into a program, or use `--out FILE`",
            ));
        }
        _ => {}
    }
    let endless = args.run.steps.is_none() && args.shape.epochs.and_then(|epochs| epochs.0).is_none();
    let fills_disk = args.out.is_some() || (format != FormatName::None && out.is_regular_file());
    if endless && fills_disk {
        return Err(usage("the stream has no end and would fill the disk: add `--steps N` or `--epochs E`"));
    }
    Ok(())
}

/// The batches from where the stream is to begin.
fn open(
    session: &Session,
    args: &StreamArgs,
    interrupt: &Interrupt,
    notes: Notes,
    uncached: &mut Option<Uncached>,
) -> anyhow::Result<DatasetIterator> {
    let state = match &args.state {
        Some(path) => read_state(path)?,
        None => None,
    };
    if args.no_cache {
        let dataset = open_uncached(session, args, interrupt, notes, uncached)?;
        return Ok(match &state {
            Some(state) => dataset.resume(state).hint(|| state_hint(args))?,
            None => dataset.iter_from(args.run.start)?,
        });
    }
    let opened = open_data(session, &args.data, args, interrupt, notes)?;
    let config = shape::config(&opened.task, opened.split.name(), &args.shape, args.batch_size)?;
    if let Some(words) = slow_order(&opened, args) {
        notes.note(words);
    }
    let dataset = shape::dataset(&opened, shape::for_run(config, &args.run, args.build.threads))?;
    Ok(match &state {
        Some(state) => dataset.resume(state).hint(|| state_hint(args))?,
        None => dataset.iter_from(args.run.start)?,
    })
}

/// Says that examples in any order make a compressed cache slow, if not all of it stays in memory.
fn slow_order(opened: &Opened, args: &StreamArgs) -> Option<String> {
    let manifest = opened.split.manifest();
    let kept = opened.split.split_manifest().statistics.bytes <= args.build.memory.0 / 2;
    if args.shape.order != OrderName::Full || manifest.compression.is_none() || kept {
        return None;
    }
    let folder = opened.split.folder().display();
    Some(format!(
        "`--order full` decompresses a batch of this cache for nearly every example; \
         `seqio cache convert --cache {folder} --compress none` makes it quick, and so does more `--memory`"
    ))
}

fn open_data(
    session: &Session,
    data: &Data,
    args: &StreamArgs,
    interrupt: &Interrupt,
    notes: Notes,
) -> anyhow::Result<Opened> {
    let wanted = Wanted { task: data.task.as_deref(), cache: data.cache.as_deref(), split: &data.split };
    session.open(wanted, &args.build, interrupt, notes)
}

fn open_uncached(
    session: &Session,
    args: &StreamArgs,
    interrupt: &Interrupt,
    notes: Notes,
    uncached: &mut Option<Uncached>,
) -> anyhow::Result<UncachedDataset> {
    let split: Split = args.data.split.parse()?;
    let name = args.data.task.as_deref().unwrap_or_default();
    let task = session.task(name, &interrupt.budget(args.build.memory))?;
    check_split(&task, &split)?;
    let config = shape::config(&task, &split.to_string(), &args.shape, args.batch_size)?;
    let config = shape::for_run(config, &args.run, args.build.threads);
    let data = format!("{}-uncached", task.cache_fingerprint(seqio_cache::FORMAT_VERSION));
    let stream_task = shape::stream_task(&task, data, &config.lengths)?;
    let choices = choices(&task, &split, args.build.memory.0, interrupt, notes)?;
    let bad_rows = Arc::<AtomicU64>::default();
    let examples = task.open_examples(&split, choices, Arc::clone(&bad_rows));
    *uncached = Some(Uncached { task, bad_rows });
    UncachedDataset::new(stream_task, examples, config)
        .hint(|| "add `--order storage`, or leave out `--no-cache`".to_owned())
}

fn read_state(path: &Path) -> anyhow::Result<Option<DatasetState>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read `{}`", path.display())),
    };
    let state =
        DatasetState::from_json(&text).with_context(|| format!("cannot go on from `{}`", path.display()))?;
    Ok(Some(state))
}

fn state_hint(args: &StreamArgs) -> String {
    let path = args.state.as_deref().unwrap_or(Path::new("")).display();
    format!("give the options it was saved with, or remove `{path}` to begin anew")
}

fn writer<'a>(format: FormatName, to: impl Write + 'a) -> Box<dyn BatchWriter + 'a> {
    match format {
        FormatName::Arrow => Box::new(ArrowStream::new(to)),
        FormatName::Jsonl | FormatName::Npy | FormatName::None => Box::new(JsonLines::new(to)),
    }
}

/// A stream on its way out.
struct Stream<'a> {
    batches: DatasetIterator,
    args: &'a StreamArgs,
    notes: Notes,
    written: u64,
}

impl Stream<'_> {
    /// Writes batches until the last one asked for, the end, or Ctrl-C. `digest` goes to standard error.
    fn write(
        &mut self,
        writer: &mut dyn BatchWriter,
        digest: Option<DigestName>,
        interrupt: &Interrupt,
    ) -> anyhow::Result<()> {
        while self.args.run.steps.is_none_or(|steps| self.written < steps) && !interrupt.asked() {
            let Some(batch) = self.batches.next() else { break };
            let batch = batch?;
            writer.write(&batch)?;
            if let Some(digest) = digest {
                write_stderr(&digest_lines(&batch, digest));
            }
            self.written += 1;
            self.save(Durable::No)?;
            self.batches.recycle(batch);
        }
        writer.finish()?;
        self.save(Durable::Yes)
    }

    fn save(&self, durable: Durable) -> anyhow::Result<()> {
        let Some(path) = &self.args.state else { return Ok(()) };
        let state = format!("{}\n", self.batches.state().to_json());
        write_atomically(path, state.as_bytes(), durable)
    }

    fn go_on(&self, first: u64) -> String {
        let next = first + self.written;
        match &self.args.state {
            Some(path) => {
                format!("run the same command again to go on at step {next}, kept in `{}`", path.display())
            }
            None => {
                format!("go on with `--start {next}`; with `--state FILE` the next run does so by itself")
            }
        }
    }

    fn tell_end(&self, first: u64) {
        let reached = self.args.run.steps.is_some_and(|steps| self.written >= steps);
        if self.args.run.steps.is_some() && !reached {
            self.notes.note(format!("the last epoch ended before step {}", first + self.written));
        }
        if self.batches.dropped_rows() > 0 {
            let rows = crate::format::counted(self.batches.dropped_rows(), "row");
            self.notes.note(format!("{rows} at the end did not fill a batch and were left out"));
        }
    }
}

/// Writes digests in place of batches.
struct Digests<'a> {
    out: &'a mut Out,
    digest: Option<DigestName>,
}

impl BatchWriter for Digests<'_> {
    fn write(&mut self, batch: &Batch) -> anyhow::Result<()> {
        if let Some(digest) = self.digest {
            self.out.write_all(digest_lines(batch, digest).as_bytes())?;
            self.out.flush()?;
        }
        Ok(())
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(self.out.flush()?)
    }
}

/// `step digest`, or `step row digest` for each row.
fn digest_lines(batch: &Batch, digest: DigestName) -> String {
    match digest {
        DigestName::Steps => format!("{} {}\n", batch.step, batch.digest()),
        DigestName::Rows => {
            let rows = (batch.first_row..).zip(batch.row_digests());
            rows.map(|(row, digest)| format!("{} {row} {digest}\n", batch.step)).collect()
        }
    }
}
