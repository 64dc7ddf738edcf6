//! The one place where an error becomes text.
//!
//! ```text
//! error: cannot read task `docs`
//!   cause: no file matches `data/train-*.jsonl`
//!
//! hint: check `source` in seqio.toml
//! ```

use std::fmt::{self, Write as _};
use std::io;
use std::process::ExitCode;

use seqio::{DefinitionErrors, ReadSplitError, StoreError};
use seqio_cache::CacheError;
use seqio_trainer::checkpoint::CheckpointError;
use seqio_trainer::config::FolderError;
use seqio_trainer::train::TrainError;

use crate::output::{Paint, Style};

/// Success.
pub(crate) const EXIT_OK: u8 = 0;
/// It could not be done: data or files are missing, unreadable or not as expected, or the system refused.
pub(crate) const EXIT_ERROR: u8 = 1;
/// The command line makes no sense.
pub(crate) const EXIT_USAGE: u8 = 2;
/// A definition or a run file has mistakes, or is not there.
pub(crate) const EXIT_DEFINITION: u8 = 3;
/// A cache or a checkpoint is not as it was written.
pub(crate) const EXIT_DAMAGED: u8 = 4;
/// Stopped by Ctrl-C (or SIGTERM), as shells count it.
pub(crate) const EXIT_INTERRUPTED: u8 = 130;

/// An error with what to do about it.
#[derive(Debug)]
struct Hinted {
    error: anyhow::Error,
    hint: String,
}

impl fmt::Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Hinted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// A command line that parses but makes no sense: exit code 2.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Caches are not as they were written.
#[derive(Debug)]
pub(crate) struct DamageFound(pub(crate) String);

impl fmt::Display for DamageFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DamageFound {}

/// There is no task file.
#[derive(Debug)]
pub(crate) struct NoTaskFile(pub(crate) String);

impl fmt::Display for NoTaskFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoTaskFile {}

/// The person asked to stop; what was done so far is kept.
#[derive(Debug)]
pub(crate) struct Interrupted {
    /// How to go on.
    pub(crate) go_on: String,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("at your request; what was done is kept")
    }
}

impl std::error::Error for Interrupted {}

/// Adds what to do about an error.
pub(crate) trait WithHint<T> {
    /// The same result, its error with a hint.
    fn hint(self, hint: impl FnOnce() -> String) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> WithHint<T> for Result<T, E> {
    fn hint(self, hint: impl FnOnce() -> String) -> anyhow::Result<T> {
        self.map_err(|error| Hinted { error: error.into(), hint: hint() }.into())
    }
}

/// An error with what to do about it, if that is known.
pub(crate) fn hinted(error: impl Into<anyhow::Error>, hint: Option<impl Into<String>>) -> anyhow::Error {
    match hint {
        Some(hint) => Hinted { error: error.into(), hint: hint.into() }.into(),
        None => error.into(),
    }
}

/// A usage error, ready to be returned.
pub(crate) fn usage(message: impl Into<String>) -> anyhow::Error {
    UsageError(message.into()).into()
}

/// The text for standard error; `None` if nothing needs saying (the reader of our output went away).
pub(crate) fn text(error: &anyhow::Error, paint: Paint) -> Option<String> {
    if is_broken_pipe(error) {
        return None;
    }
    let mut hints = Vec::new();
    let mut messages: Vec<String> = Vec::new();
    for cause in error.chain() {
        hints.extend(cause.downcast_ref::<Hinted>().map(|hinted| hinted.hint.clone()));
        hints.extend(hint_of(cause));
        let (message, own_hints) = split_hints(&cause.to_string());
        hints.extend(own_hints);
        // Errors that print their source themselves would have it twice.
        if !messages.last().is_some_and(|last| last.contains(message.as_str())) {
            messages.push(message);
        }
    }
    let interrupted = find::<Interrupted>(error);
    hints.extend(interrupted.map(|interrupted| interrupted.go_on.clone()));
    let label = if interrupted.is_some() { "stopped:" } else { "error:" };
    let mut out = String::new();
    for (place, message) in messages.iter().enumerate() {
        let mut lines = message.lines();
        let first = lines.next().unwrap_or_default();
        let _ = match place {
            0 => writeln!(out, "{} {first}", paint.text(Style::Error, label)),
            _ => writeln!(out, "  cause: {first}"),
        };
        for line in lines {
            let indent = if place == 0 { "" } else { "  " };
            let _ = writeln!(out, "{}", format!("{indent}{line}").trim_end());
        }
    }
    hints.dedup();
    if !hints.is_empty() {
        out.push('\n');
    }
    for hint in hints {
        let _ = writeln!(out, "{} {hint}", paint.text(Style::Hint, "hint:"));
    }
    Some(out)
}

/// Takes the line `hint: …` out of a message that carries one. A list of mistakes keeps its hints where they are.
fn split_hints(message: &str) -> (String, Vec<String>) {
    let hint = |line: &str| line.trim_start().strip_prefix("hint: ").map(str::to_owned);
    let hints: Vec<String> = message.lines().filter_map(hint).collect();
    if hints.len() != 1 {
        return (message.to_owned(), Vec::new());
    }
    let kept: Vec<&str> = message.lines().filter(|line| hint(line).is_none()).collect();
    (kept.join("\n").trim_end().to_owned(), hints)
}

/// What is to be done about the errors of libraries.
fn hint_of(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let hinted = error.downcast_ref::<Hinted>();
    let cache = error.downcast_ref().or_else(|| hinted?.error.downcast_ref::<CacheError>());
    let read = error.downcast_ref().or_else(|| hinted?.error.downcast_ref::<ReadSplitError>());
    match read {
        Some(ReadSplitError::BadRow { .. } | ReadSplitError::Damaged { .. }) => Some(
            "mend the file, or write in the task's source `on_bad_row = \"skip\"` to skip and count such records, or \
                 `\"set_aside\"` to keep them in a file as well"
                .to_owned(),
        ),
        _ => cache?.hint(),
    }
}

/// The exit code that goes with an error.
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    ExitCode::from(match error {
        error if is_broken_pipe(error) => EXIT_OK,
        error if find::<Interrupted>(error).is_some() => EXIT_INTERRUPTED,
        error if find::<UsageError>(error).is_some() => EXIT_USAGE,
        error if is_damage(error) => EXIT_DAMAGED,
        error if is_definition(error) => EXIT_DEFINITION,
        _ => EXIT_ERROR,
    })
}

/// Whether a cache is not as it was written.
fn is_damage(error: &anyhow::Error) -> bool {
    find::<DamageFound>(error).is_some()
        || find::<CacheError>(error).is_some_and(|error| matches!(error, CacheError::Damaged { .. }))
        || find::<StoreError>(error).is_some_and(|error| error.is_damage)
        || find::<TrainError>(error)
            .is_some_and(|error| matches!(error, TrainError::Checkpoint(CheckpointError::Damaged { .. })))
}

/// Whether a task file or a run file is at fault. Where only the files that it speaks of are absent, it is not.
fn is_definition(error: &anyhow::Error) -> bool {
    find::<NoTaskFile>(error).is_some()
        || find::<FolderError>(error).is_some_and(|error| matches!(error, FolderError::Other { .. }))
        || find::<DefinitionErrors>(error).is_some_and(|errors| !errors.only_sources())
}

/// Whether the reader of our output closed it, as `| head` does: no error of ours.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    find::<io::Error>(error).is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The first error of type `E` among the causes, also under hints.
fn find<E: std::error::Error + Send + Sync + 'static>(error: &anyhow::Error) -> Option<&E> {
    error.downcast_ref::<E>().or_else(|| {
        error.chain().find_map(|cause| match cause.downcast_ref::<Hinted>() {
            Some(hinted) => find(&hinted.error),
            None => cause.downcast_ref(),
        })
    })
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};

    use super::*;

    fn plain(error: &anyhow::Error) -> String {
        text(error, Paint::plain()).unwrap_or_default()
    }

    #[test]
    fn causes_follow_the_error_and_hints_stand_apart() {
        let error = Err::<(), _>(anyhow!("no file matches `data/*.jsonl`"))
            .hint(|| "check `source` in seqio.toml".to_owned())
            .context("cannot read task `docs`")
            .unwrap_err();
        insta::assert_snapshot!(plain(&error), @r"
        error: cannot read task `docs`
          cause: no file matches `data/*.jsonl`

        hint: check `source` in seqio.toml
        ");
        assert_eq!(format!("{:?}", exit_code(&error)), format!("{:?}", ExitCode::from(EXIT_ERROR)));
    }

    #[test]
    fn a_hint_inside_a_message_is_set_apart_too() {
        let error = anyhow!("unknown field `feature`\n  --> seqio.toml:12\nhint: did you mean `features`?");
        insta::assert_snapshot!(plain(&error), @r"
        error: unknown field `feature`
          --> seqio.toml:12

        hint: did you mean `features`?
        ");
    }

    #[test]
    fn a_cause_that_the_error_already_told_is_not_repeated() {
        let error = anyhow!("disk is full").context("cannot write `a`: disk is full");
        insta::assert_snapshot!(plain(&error), @"error: cannot write `a`: disk is full");
    }

    #[test]
    fn usage_errors_and_interruptions_have_their_own_exit_codes() {
        let code = |error: &anyhow::Error| format!("{:?}", exit_code(error));
        assert_eq!(code(&usage("no")), format!("{:?}", ExitCode::from(2)));
        let stopped: anyhow::Error = Interrupted { go_on: "run it again".to_owned() }.into();
        assert_eq!(code(&stopped), format!("{:?}", ExitCode::from(130)));
        insta::assert_snapshot!(plain(&stopped), @r"
        stopped: at your request; what was done is kept

        hint: run it again
        ");
    }

    #[test]
    fn a_reader_that_goes_away_is_no_error() {
        let error = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("cannot write");
        assert_eq!(text(&error, Paint::plain()), None);
        assert_eq!(format!("{:?}", exit_code(&error)), format!("{:?}", ExitCode::from(0)));
    }
}
