//! How far a run is: a bar on a terminal, lines of text or JSON where asked for, nothing in a pipe.
//!
//! ```text
//! ██████▌──────  58 %  pairs step 5,800 of 10,000, 4 min 2 s left
//! loss 3.2142, 18.1 k tokens/s
//! {"step":5800,"steps":10000,"loss":3.2142,"tokens_per_second":18120.4,"seconds_left":242.1,"finished":false}
//! ```

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::args::ProgressName;
use crate::format::{amount, count, duration};
use crate::output::{Notes, write_stderr};
use crate::progress::Kind;

/// What the newest step counts for in the pace, which the older ones make.
const NEWEST: f64 = 0.1;

/// What is shown of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StepDone {
    /// Steps done since the run began.
    pub(crate) step: u64,
    /// Its loss a token.
    pub(crate) loss: f64,
    /// Its tokens with a loss.
    pub(crate) tokens: u64,
}

/// Shows [`StepDone`] as asked.
#[derive(Debug)]
pub(crate) struct TrainProgress {
    kind: Kind,
    task: String,
    /// The step at which the run ends.
    steps: u64,
    last: Option<StepDone>,
    last_at: Instant,
    pace: Option<Pace>,
    shown: Option<Instant>,
}

/// Of a step, the newest counting most.
#[derive(Clone, Copy, Debug)]
struct Pace {
    seconds: f64,
    tokens: f64,
}

#[derive(Serialize)]
struct Line {
    step: u64,
    steps: u64,
    loss: f64,
    tokens_per_second: Option<f64>,
    seconds_left: Option<f64>,
    finished: bool,
}

impl TrainProgress {
    /// Progress of a run on `task` that ends at step `steps`.
    pub(crate) fn new(name: ProgressName, task: &str, steps: u64, notes: Notes) -> Self {
        let kind = Kind::new(name, notes);
        if let Kind::Bar(bar) = &kind {
            bar.set_length(steps.max(1));
        }
        let task = task.to_owned();
        Self { kind, task, steps, last: None, last_at: Instant::now(), pace: None, shown: None }
    }

    /// Shows a step.
    pub(crate) fn update(&mut self, done: StepDone) {
        // The first step compiles and warms up: it says nothing about the pace.
        if self.last.is_some() {
            let now = Pace { seconds: self.last_at.elapsed().as_secs_f64(), tokens: done.tokens as f64 };
            let mix = |before: f64, now: f64| before + NEWEST * (now - before);
            self.pace = Some(self.pace.map_or(now, |pace| Pace {
                seconds: mix(pace.seconds, now.seconds),
                tokens: mix(pace.tokens, now.tokens),
            }));
        }
        (self.last, self.last_at) = (Some(done), Instant::now());
        let Some(every) = self.kind.every() else { return };
        if self.shown.is_none_or(|shown| shown.elapsed() >= every) {
            self.shown = Some(Instant::now());
            self.show(done, false);
        }
    }

    /// Prints lines above the bar, if there is one.
    pub(crate) fn beside(&self, print: impl FnOnce()) {
        match &self.kind {
            Kind::Bar(bar) => bar.suspend(print),
            _ => print(),
        }
    }

    /// Shows the end.
    pub(crate) fn end(&mut self) {
        match (&self.kind, self.last) {
            (Kind::Bar(bar), _) => bar.finish_and_clear(),
            (_, Some(done)) => self.show(done, done.step >= self.steps),
            (_, None) => {}
        }
    }

    fn show(&self, done: StepDone, finished: bool) {
        match &self.kind {
            Kind::Bar(bar) => {
                bar.set_position(done.step.min(self.steps));
                bar.set_prefix(self.place(done));
                bar.set_message(self.words(done));
            }
            Kind::Plain => write_stderr(&format!("{}: {}\n", self.place(done), self.words(done))),
            Kind::Json => {
                let line = Line {
                    step: done.step,
                    steps: self.steps,
                    loss: done.loss,
                    tokens_per_second: self.tokens_per_second(),
                    seconds_left: self.left(done).map(|left| left.as_secs_f64()),
                    finished,
                };
                // Plain numbers always serialise.
                write_stderr(&(serde_json::to_string(&line).unwrap_or_default() + "\n"));
            }
            Kind::None => {}
        }
    }

    fn place(&self, done: StepDone) -> String {
        let left = self.left(done).map_or(String::new(), |left| format!(", {} left", duration(left)));
        format!("{} step {} of {}{left}", self.task, count(done.step), count(self.steps))
    }

    fn words(&self, done: StepDone) -> String {
        let rate =
            self.tokens_per_second().map_or(String::new(), |rate| format!(", {} tokens/s", amount(rate)));
        format!("loss {:.4}{rate}", done.loss)
    }

    fn tokens_per_second(&self) -> Option<f64> {
        self.pace.filter(|pace| pace.seconds > 0.0).map(|pace| pace.tokens / pace.seconds)
    }

    fn left(&self, done: StepDone) -> Option<Duration> {
        let steps = self.steps.saturating_sub(done.step) as f64;
        self.pace.and_then(|pace| Duration::try_from_secs_f64(steps * pace.seconds).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(step: u64) -> StepDone {
        StepDone { step, loss: 3.25, tokens: 1000 }
    }

    #[test]
    fn progress_is_told_in_steps_loss_tokens_and_time_left() {
        let mut progress = TrainProgress::new(ProgressName::None, "pairs", 12_000, Notes::plain());
        progress.update(done(1));
        assert_eq!(progress.place(done(1)), "pairs step 1 of 12,000");
        assert_eq!(progress.words(done(1)), "loss 3.2500");
        progress.pace = Some(Pace { seconds: 0.5, tokens: 1000.0 });
        assert_eq!(progress.place(done(11_880)), "pairs step 11,880 of 12,000, 1 min 0 s left");
        assert_eq!(progress.words(done(11_880)), "loss 3.2500, 2000 tokens/s");
    }

    #[test]
    fn the_first_step_says_nothing_about_the_pace() {
        let mut progress = TrainProgress::new(ProgressName::None, "pairs", 10, Notes::plain());
        progress.last_at = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        progress.update(done(1));
        assert!(progress.pace.is_none());
        progress.update(done(2));
        assert!(progress.left(done(2)).unwrap() < Duration::from_secs(60));
    }
}
