//! What a run measures, for people and for programs: `metrics.jsonl` and TensorBoard's event files.
//!
//! ```text
//! {"step":100,"unix_seconds":1700000000.25,"train/learning_rate":0.01,"train/loss":3.5}
//! {"step":100,"unix_seconds":1700000001.5,"text":{"samples":"| inputs | prediction |…"}}
//! ```

mod append;
mod jsonl;
mod tfevents;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use jsonl::Jsonl;
use tfevents::Events;

/// Why something could not be logged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The system refused.
    #[error("could not {action} {}: {error}", path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// With which file or folder.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// A metric with the name of something else.
    #[error("a metric cannot be called `{name}`: lines of `metrics.jsonl` have a key of that name")]
    Reserved {
        /// The name.
        name: String,
    },
}

impl LogError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Io { action, path, error }
    }

    /// What to do about it, if there is something to say.
    pub fn hint(&self) -> Option<&'static str> {
        let Self::Io { error, .. } = self else { return Some("call it something else") };
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                Some("make room and go on from the last checkpoint")
            }
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Some("give this user access"),
            _ => None,
        }
    }
}

/// Writes what is measured to both. After every call it is in the files.
#[derive(Debug)]
pub struct MetricsWriter {
    jsonl: Jsonl,
    events: Events,
}

impl MetricsWriter {
    /// Opens the logs in a folder. What lies there of later steps than the one that was restored, or of any where none
    /// was, is of an attempt that came to nothing: lines of `metrics.jsonl` go, and TensorBoard is told.
    pub fn open(folder: &Path, restored: Option<u64>) -> Result<Self, LogError> {
        fs::create_dir_all(folder).map_err(LogError::io("create", folder))?;
        let jsonl = Jsonl::open(&folder.join("metrics.jsonl"), restored)?;
        let events = Events::create(folder, now(), restored)?;
        Ok(Self { jsonl, events })
    }

    /// Logs numbers of a step.
    pub fn scalars(&mut self, step: u64, scalars: &BTreeMap<String, f64>) -> Result<(), LogError> {
        let now = now();
        self.jsonl.scalars(step, now, scalars)?;
        self.events.scalars(step, now, scalars)
    }

    /// Logs a text of a step, for TensorBoard in Markdown.
    pub fn text(&mut self, step: u64, name: &str, text: &str) -> Result<(), LogError> {
        let now = now();
        self.jsonl.text(step, now, name, text)?;
        self.events.text(step, now, name, text)
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalars(loss: f64) -> BTreeMap<String, f64> {
        BTreeMap::from([("loss".to_owned(), loss)])
    }

    #[test]
    fn both_files_hold_the_same_after_every_call() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        let mut writer = MetricsWriter::open(&run, None).unwrap();
        for step in 1..=3u64 {
            writer.scalars(step, &scalars(0.5 / step as f64)).unwrap();
            writer.text(step, "note", "*so*").unwrap();
            let lines = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
            assert_eq!(lines.lines().count() as u64, 2 * step);
            assert!(lines.ends_with('\n'));
            let events = tfevents::tests::events_in(&run);
            assert_eq!(events.len() as u64, 2 + 2 * step);
        }
        let lines = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
        let scalars: Vec<(u64, f64)> = lines
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .filter_map(|line| Some((line["step"].as_u64()?, line["loss"].as_f64()?)))
            .collect();
        let events: Vec<(u64, f64)> = tfevents::tests::events_in(&run)
            .into_iter()
            .filter_map(|event| Some((event.step as u64, f64::from(event.scalar("loss")?))))
            .collect();
        let rounded: Vec<(u64, f64)> =
            scalars.iter().map(|(step, loss)| (*step, f64::from(*loss as f32))).collect();
        assert_eq!(rounded, events);
    }

    #[test]
    fn a_run_that_goes_on_has_one_history() {
        let folder = tempfile::tempdir().unwrap();
        let write = |restored: Option<u64>, steps: std::ops::Range<u64>, loss: f64| {
            let mut writer = MetricsWriter::open(folder.path(), restored).unwrap();
            for step in steps {
                writer.scalars(step, &scalars(loss)).unwrap();
            }
        };
        write(None, 1..8, 1.0);
        write(Some(4), 5..7, 2.0);
        write(Some(6), 7..9, 3.0);
        let lines = fs::read_to_string(folder.path().join("metrics.jsonl")).unwrap();
        let found: Vec<(u64, f64)> = lines
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .map(|line| (line["step"].as_u64().unwrap(), line["loss"].as_f64().unwrap()))
            .collect();
        let losses = [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0];
        assert_eq!(found, (1..).zip(losses).collect::<Vec<_>>());
        // TensorBoard reads the files in the order of their names, and forgets what a start says is void.
        let mut seen: Vec<(u64, f64)> = Vec::new();
        for event in tfevents::tests::events_in(folder.path()) {
            if event.is_start() {
                seen.retain(|(step, _)| *step < event.step as u64);
            }
            seen.extend(event.scalar("loss").map(|loss| (event.step as u64, f64::from(loss))));
        }
        assert_eq!(seen, found);
        // From scratch nothing of it counts.
        write(None, 1..2, 4.0);
        let lines = fs::read_to_string(folder.path().join("metrics.jsonl")).unwrap();
        assert_eq!(lines.lines().count(), 1);
    }

    #[test]
    fn names_that_mean_something_else_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = MetricsWriter::open(folder.path(), None).unwrap();
        let error = writer.scalars(1, &BTreeMap::from([("step".to_owned(), 1.0)])).unwrap_err();
        insta::assert_snapshot!(error, @"a metric cannot be called `step`: lines of `metrics.jsonl` have a key of that name");
        assert_eq!(fs::read_to_string(folder.path().join("metrics.jsonl")).unwrap(), "");
    }
}
