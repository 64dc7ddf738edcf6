//! The folder of a run: whose it is, and that only one process trains in it.
//!
//! ```text
//! RUN/config.toml     the configuration, complete
//!     checkpoints/    metrics.jsonl    events.out.tfevents.…
//!     .lock           held by the process that trains
//! ```

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use seqio::DefinitionErrors;

use crate::checkpoint;
use crate::config::{Difference, RunConfig, RunFile};

const CONFIGURATION: &str = "config.toml";
const LOCK: &str = ".lock";

/// Why a run cannot go into its folder.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Another run is there.
    #[error("`{}` holds a run of another configuration; there → now: {}", folder.display(), listed(differences))]
    Other {
        /// The folder.
        folder: PathBuf,
        /// What forbids to go on.
        differences: Vec<Difference>,
    },
    /// There are checkpoints, but nothing that says of what.
    #[error("`{}` holds checkpoints, but not the `{CONFIGURATION}` of their run", folder.display())]
    Unknown {
        /// The folder.
        folder: PathBuf,
    },
    /// The configuration that is there cannot be read.
    #[error("the configuration of the run in `{}` cannot be read", folder.display())]
    Unreadable {
        /// The folder.
        folder: PathBuf,
        /// What is wrong with it.
        #[source]
        errors: DefinitionErrors,
    },
    /// Another process trains in it.
    #[error("another process is training in `{}`", folder.display())]
    Busy {
        /// The folder.
        folder: PathBuf,
    },
    /// The system refused.
    #[error("could not {action} `{}`: {error}", path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// With which file or folder.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

impl FolderError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Other { .. } => {
                Some("put these settings back to go on with it, or choose another `run.dir` for a new run")
            }
            Self::Unknown { .. } | Self::Unreadable { .. } => Some("choose another `run.dir`"),
            Self::Busy { .. } => Some("wait for it, stop it, or choose another `run.dir`"),
            Self::Io { .. } => None,
        }
    }

    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Io { action, path, error }
    }
}

/// Differences that are told of; settings of another optimizer are many.
const MOST_DIFFERENCES: usize = 6;

fn listed(differences: &[Difference]) -> String {
    let shown = differences.iter().take(MOST_DIFFERENCES).map(ToString::to_string);
    let shown = shown.collect::<Vec<_>>().join("; ");
    match differences.len().saturating_sub(MOST_DIFFERENCES) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

impl RunConfig {
    /// What is different from the run in its folder; nothing if there is none, or none that differs. A run that could
    /// not go on there is refused.
    pub fn differences_in_folder(&self) -> Result<Vec<Difference>, FolderError> {
        let folder = &self.run.dir;
        let path = folder.join(CONFIGURATION);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return match has_checkpoints(folder) {
                    true => Err(FolderError::Unknown { folder: folder.clone() }),
                    false => Ok(Vec::new()),
                };
            }
            Err(error) => return Err(FolderError::io("read", &path)(error)),
        };
        if !has_checkpoints(folder) {
            // Nothing was learnt there that could be lost or mixed up.
            return Ok(Vec::new());
        }
        let before = RunFile::parse(&path, &text, &[])
            .map_err(|errors| FolderError::Unreadable { folder: folder.clone(), errors })?;
        let differences = before.config.differences(self);
        let forbidding: Vec<Difference> = differences.iter().filter(|one| one.forbids).cloned().collect();
        match forbidding.is_empty() {
            true => Ok(differences),
            false => Err(FolderError::Other { folder: folder.clone(), differences: forbidding }),
        }
    }

    /// Makes the folder, or goes on in it: nobody else may train there until the result is dropped. What is different
    /// from the run that is there, and does not matter, comes back.
    pub fn enter_folder(&self) -> Result<(EnteredFolder, Vec<Difference>), FolderError> {
        let folder = &self.run.dir;
        fs::create_dir_all(folder).map_err(FolderError::io("make the folder", folder))?;
        let path = folder.join(LOCK);
        let lock = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(FolderError::io("open", &path))?;
        if let Err(TryLockError::WouldBlock) = lock.try_lock() {
            return Err(FolderError::Busy { folder: folder.clone() });
        }
        let entered = EnteredFolder { lock };
        let differences = self.differences_in_folder()?;
        let path = folder.join(CONFIGURATION);
        let text = self.to_toml();
        if fs::read_to_string(&path).ok().as_ref() != Some(&text) {
            write(&path, &text).map_err(FolderError::io("write", &path))?;
        }
        Ok((entered, differences))
    }
}

/// Keeps others out of the folder of a run.
#[derive(Debug)]
pub struct EnteredFolder {
    lock: File,
}

impl Drop for EnteredFolder {
    fn drop(&mut self) {
        // A process that is being started may hold the file open for a moment longer than this one.
        let _ = self.lock.unlock();
    }
}

fn has_checkpoints(folder: &Path) -> bool {
    // What cannot be looked at is taken for something.
    checkpoint::list(folder).map_or(true, |listed| !listed.is_empty())
}

/// Whole, or not at all: a process that is killed leaves the file as it was.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let aside = path.with_extension("toml.tmp");
    let mut file = File::create(&aside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&aside, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(folder: &Path, settings: &[&str]) -> RunConfig {
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        let mut config =
            RunFile::parse(Path::new("run.toml"), crate::config::example(), &settings).unwrap().config;
        config.run.dir = folder.join("run");
        config
    }

    #[test]
    fn a_run_goes_on_with_what_does_not_matter_changed_and_no_other_does() {
        let folder = tempfile::tempdir().unwrap();
        let first = config(folder.path(), &[]);
        let (entered, differences) = first.enter_folder().unwrap();
        assert_eq!(differences, []);
        let busy = first.enter_folder().unwrap_err();
        assert!(matches!(busy, FolderError::Busy { .. }) && busy.hint().is_some());
        drop(entered);
        let other = config(folder.path(), &["data.batch_size=64", "train.steps=3"]);
        assert_eq!(other.enter_folder().unwrap().1, [], "nothing was learnt yet");
        let checkpoint = first.run.dir.join("checkpoints/step-00000001");
        let (entered, _) = first.enter_folder().unwrap();
        fs::create_dir_all(&checkpoint).unwrap();
        drop(entered);

        let longer = config(folder.path(), &["train.steps=200000"]);
        let (_, differences) = longer.enter_folder().unwrap();
        assert_eq!(differences.len(), 1);
        assert_eq!(longer.differences_in_folder().unwrap(), []);

        let words = other.enter_folder().unwrap_err().to_string();
        assert!(words.ends_with("there → now: `data.batch_size`: 128 → 64"), "{words}");
        assert_eq!(longer.differences_in_folder().unwrap(), [], "nothing was written");
    }

    #[test]
    fn checkpoints_of_an_unknown_run_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path(), &[]);
        fs::create_dir_all(config.run.dir.join("checkpoints/step-00000001")).unwrap();
        assert!(matches!(config.enter_folder().unwrap_err(), FolderError::Unknown { .. }));
        fs::write(config.run.dir.join(CONFIGURATION), "[model]\n").unwrap();
        assert!(matches!(config.enter_folder().unwrap_err(), FolderError::Unreadable { .. }));
    }
}
