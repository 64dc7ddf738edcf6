//! How far a build is: bars on a terminal, lines of text or JSON where asked for, nothing in a pipe.
//!
//! ```text
//! ██████▌──────  58 %  docs train encoding, 4 min 2 s left
//! 412/700 files, 6.10 GiB of 10.4 GiB, 9,311,002 examples, 1.52 G tokens, 18.1 M tokens/s
//! {"task":"docs","split":"train","phase":"encoding","files":412,"files_total":700,"bytes":6549825945,…}
//! ```

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::args::ProgressName;
use crate::format::{amount, bytes, count, duration};
use crate::output::{Notes, Paint, write_stderr};

const PLAIN_EVERY: Duration = Duration::from_secs(5);
const JSON_EVERY: Duration = Duration::from_secs(1);
const DRAW_EVERY: Duration = Duration::from_millis(100);

/// What has been done so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Done {
    /// The split being built.
    pub(crate) split: String,
    /// The worker, as `1/4`, if it is one of several; files and bytes are those of its share then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worker: Option<String>,
    /// What is being done: `checking`, `comparing`, `encoding`, `merging`, `finishing`.
    pub(crate) phase: String,
    /// Source files read to their end.
    pub(crate) files: u64,
    /// Source files in all.
    pub(crate) files_total: u64,
    /// Bytes of source files read.
    pub(crate) bytes: u64,
    /// Bytes of all source files.
    pub(crate) bytes_total: u64,
    /// Examples encoded, those of an earlier run included.
    pub(crate) examples: u64,
    /// Tokens in them.
    pub(crate) tokens: u64,
    /// Examples written to shards.
    pub(crate) examples_merged: u64,
    /// Pieces of work that an earlier run had finished.
    pub(crate) pieces_reused: u64,
    /// Bytes of intermediate files.
    pub(crate) spill_bytes: u64,
}

impl Done {
    /// How much of this phase is done, and of how much.
    fn share(&self) -> (u64, u64) {
        match self.phase.as_str() {
            "merging" => (self.examples_merged, self.examples),
            _ => (self.bytes, self.bytes_total),
        }
    }

    /// What is being worked on.
    fn subject(&self, task: &str) -> String {
        let worker = self.worker.as_ref().map_or(String::new(), |worker| format!(", worker {worker}"));
        format!("{task} {}{worker}", self.split)
    }

    fn is_same_phase(&self, other: &Self) -> bool {
        self.phase == other.phase && self.split == other.split
    }
}

/// Shows [`Done`] as asked.
#[derive(Debug)]
pub(crate) struct Progress {
    kind: Kind,
    task: String,
    began: Instant,
    phase_began: Instant,
    /// How far the work was when the phase began.
    first: Option<Done>,
    last: Done,
    shown: Option<Instant>,
}

/// How progress is shown.
#[derive(Debug)]
pub(crate) enum Kind {
    /// By a bar.
    Bar(ProgressBar),
    /// By lines of text.
    Plain,
    /// By lines of JSON.
    Json,
    /// Not at all.
    None,
}

impl Kind {
    /// As asked; by itself a bar on a terminal, and nothing elsewhere.
    pub(crate) fn new(name: ProgressName, notes: Notes) -> Self {
        match name {
            _ if notes.quiet => Self::None,
            ProgressName::Auto if std::io::stderr().is_terminal() => Self::Bar(bar(notes.paint)),
            ProgressName::Auto | ProgressName::None => Self::None,
            ProgressName::Plain => Self::Plain,
            ProgressName::Json => Self::Json,
        }
    }

    /// How long what is shown stays; `None` if nothing is.
    pub(crate) fn every(&self) -> Option<Duration> {
        match self {
            Self::Bar(_) => Some(DRAW_EVERY),
            Self::Plain => Some(PLAIN_EVERY),
            Self::Json => Some(JSON_EVERY),
            Self::None => None,
        }
    }
}

impl Drop for Kind {
    fn drop(&mut self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    task: &'a str,
    #[serde(flatten)]
    done: &'a Done,
    seconds: f64,
    tokens_per_second: f64,
    seconds_left: Option<f64>,
    finished: bool,
}

impl Progress {
    /// Progress of work on `task`.
    pub(crate) fn new(name: ProgressName, task: &str, notes: Notes) -> Self {
        let now = Instant::now();
        Self {
            kind: Kind::new(name, notes),
            task: task.to_owned(),
            began: now,
            phase_began: now,
            first: None,
            last: Done::default(),
            shown: None,
        }
    }

    /// Shows how far the work is; may be called as often as one likes.
    pub(crate) fn update(&mut self, done: Done) {
        if self.first.as_ref().is_none_or(|first| !first.is_same_phase(&done)) {
            self.phase_began = Instant::now();
            self.first = Some(done.clone());
            self.shown = None;
        }
        self.last = done;
        let Some(every) = self.kind.every() else { return };
        if self.shown.is_none_or(|shown| shown.elapsed() >= every) {
            self.shown = Some(Instant::now());
            self.show(false);
        }
    }

    /// Shows the end of the work.
    pub(crate) fn end(&mut self, finished: bool) {
        match &self.kind {
            Kind::Bar(bar) => bar.finish_and_clear(),
            _ => self.show(finished),
        }
    }

    fn show(&self, finished: bool) {
        let done = &self.last;
        match &self.kind {
            Kind::Bar(bar) => {
                let (part, whole) = done.share();
                bar.set_length(whole.max(1));
                bar.set_position(part.min(whole.max(1)));
                let left = self.left(done).map_or(String::new(), |left| format!(", {} left", duration(left)));
                bar.set_prefix(format!("{} {}{left}", done.subject(&self.task), done.phase));
                bar.set_message(self.words(done));
            }
            Kind::Plain => {
                let left = self.left(done).map_or(String::new(), |left| format!(", {} left", duration(left)));
                let words = self.words(done) + &left;
                write_stderr(&format!("{}: {}, {words}\n", done.subject(&self.task), done.phase));
            }
            Kind::Json => {
                let line = Line {
                    task: &self.task,
                    done,
                    seconds: self.began.elapsed().as_secs_f64(),
                    tokens_per_second: self.tokens_per_second(done),
                    seconds_left: self.left(done).map(|left| left.as_secs_f64()),
                    finished,
                };
                // Plain numbers and strings always serialise.
                write_stderr(&(serde_json::to_string(&line).unwrap_or_default() + "\n"));
            }
            Kind::None => {}
        }
    }

    fn words(&self, done: &Done) -> String {
        let (part, whole) = done.share();
        let mut words = vec![match done.phase.as_str() {
            "merging" => format!("{} of {} examples", count(part), count(whole)),
            _ => format!(
                "{}/{} files, {} of {}, {} examples",
                count(done.files),
                count(done.files_total),
                bytes(part),
                bytes(whole),
                count(done.examples)
            ),
        }];
        words.push(format!("{} tokens", amount(done.tokens as f64)));
        let rate = self.tokens_per_second(done);
        if rate > 0.0 {
            words.push(format!("{} tokens/s", amount(rate)));
        }
        words.join(", ")
    }

    fn tokens_per_second(&self, done: &Done) -> f64 {
        let before = self.first.as_ref().map_or(0, |first| first.tokens);
        let seconds = self.phase_began.elapsed().as_secs_f64();
        if seconds > 0.0 { done.tokens.saturating_sub(before) as f64 / seconds } else { 0.0 }
    }

    /// How long the rest of the phase takes at the speed so far; not told in its first second.
    fn left(&self, done: &Done) -> Option<Duration> {
        let passed = self.phase_began.elapsed().as_secs_f64();
        let (part, whole) = done.share();
        let before = self.first.as_ref().map_or(0, |first| first.share().0);
        let moved = part.checked_sub(before).filter(|moved| *moved > 0)?;
        let rest = whole.checked_sub(part)?;
        let seconds = rest as f64 / moved as f64 * passed;
        (passed >= 1.0).then(|| Duration::try_from_secs_f64(seconds).ok()).flatten()
    }
}

fn bar(paint: Paint) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
    // Two lines, so that what matters most is seen on a narrow terminal too.
    let template = match paint.is_on() {
        true => "{bar:24.cyan/dim} {percent:>3} %  {prefix}\n{wide_msg}",
        false => "{bar:24} {percent:>3} %  {prefix}\n{wide_msg}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏─"));
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_in_files_bytes_examples_and_tokens() {
        let progress = Progress::new(ProgressName::None, "docs", Notes::plain());
        let done = Done {
            phase: "encoding".to_owned(),
            files: 412,
            files_total: 1700,
            bytes: 6 << 30,
            bytes_total: 10 << 30,
            examples: 1_000_000,
            ..Done::default()
        };
        insta::assert_snapshot!(progress.words(&done), @"412/1,700 files, 6.00 GiB of 10.0 GiB, 1,000,000 examples, 0 tokens");
    }

    #[test]
    fn the_time_left_is_told_once_it_is_known() {
        let mut progress = Progress::new(ProgressName::None, "docs", Notes::plain());
        let done = Done { bytes: 25, bytes_total: 100, ..Done::default() };
        progress.first = Some(Done::default());
        assert_eq!(progress.left(&done), None);
        progress.phase_began = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        assert_eq!(progress.left(&done).unwrap().as_secs(), 30);
    }
}
