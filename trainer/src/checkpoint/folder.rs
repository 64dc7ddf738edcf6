//! The checkpoints of a run, found and checked.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::checkpoint::disk::{self, ASIDE};
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::safetensors::Safetensors;
use crate::checkpoint::state::{Recorded, RunState, STATE};

/// The files of a checkpoint that hold tensors.
pub(crate) const PARAMETERS: &str = "parameters.safetensors";
pub(crate) const OPTIMIZER: &str = "optimizer.safetensors";

/// A file that keeps a checkpoint for good.
const PINNED: &str = "PINNED";

/// Everything of ours in a checkpoint; the state goes first, so that what is left is none.
const FILES: [&str; 4] = [STATE, PARAMETERS, OPTIMIZER, PINNED];

/// Held by whoever saves or removes.
const LOCK: &str = ".lock";

/// Where a run's checkpoints are.
pub(crate) fn checkpoints(run: &Path) -> PathBuf {
    run.join("checkpoints")
}

/// The name of a step's checkpoint.
pub(crate) fn name_of(step: u64) -> String {
    format!("step-{step:08}")
}

fn step_of(name: &str) -> Option<u64> {
    let step = name.strip_prefix("step-")?.parse().ok()?;
    (name_of(step) == name).then_some(step)
}

/// Whether a folder is of a writer of ours that did not come to its end.
fn is_leftover(name: &str) -> bool {
    let unique =
        |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    name.split_once(ASIDE).is_some_and(|(name, rest)| step_of(name).is_some() && unique(rest))
}

/// A checkpoint of a run, seen from outside.
#[derive(Debug)]
pub struct Listed {
    /// Updates done.
    pub step: u64,
    /// Its folder.
    pub path: PathBuf,
    /// Whether it is kept for good.
    pub is_pinned: bool,
    /// What it says of itself, or why it is none. Hashes are not checked yet.
    pub state: Result<RunState, CheckpointError>,
}

/// All checkpoints of a run, the oldest first.
pub fn list(run: &Path) -> Result<Vec<Listed>, CheckpointError> {
    let listed = paths(&checkpoints(run))?.into_iter().map(|(step, path)| {
        let is_pinned = is_pinned(&path);
        let state = opened(&path).map(|checkpoint| checkpoint.recorded.state);
        Listed { step, path, is_pinned, state }
    });
    Ok(listed.collect())
}

/// The newest checkpoint of a run, every byte checked. One that is damaged is an error and is not passed over: going on
/// from an older one is for people to decide.
pub fn latest(run: &Path) -> Result<Option<Checkpoint>, CheckpointError> {
    let Some((_, path)) = paths(&checkpoints(run))?.pop_last() else { return Ok(None) };
    let mut checkpoint = Checkpoint::open(&path)?;
    checkpoint.verify()?;
    Ok(Some(checkpoint))
}

/// Removes the checkpoints of a run after a step, for a run that goes on from there on another way: else a later
/// restart would go on from one of them. Says which.
pub fn remove_after(run: &Path, step: u64) -> Result<Vec<PathBuf>, CheckpointError> {
    let folder = checkpoints(run);
    let later: Vec<PathBuf> =
        paths(&folder)?.into_iter().filter(|(at, _)| *at > step).map(|(_, path)| path).collect();
    if let Some(path) = later.iter().find(|path| is_pinned(path)) {
        return Err(CheckpointError::Pinned { path: path.clone() });
    }
    if !later.is_empty() {
        let _lock = lock(&folder)?;
        // The newest first: whenever this stops, what is left is a run up to some step.
        for path in later.iter().rev() {
            remove(path)?;
        }
    }
    Ok(later)
}

/// A whole checkpoint, ready to be restored.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    recorded: Recorded,
    is_verified: bool,
}

impl Checkpoint {
    /// Opens a checkpoint by its folder: its state is checked, and the lengths of its files.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        opened(path).map_err(|error| with_older(path, error))
    }

    /// Checks every byte of it, once.
    pub fn verify(&mut self) -> Result<(), CheckpointError> {
        self.recorded.files.keys().try_for_each(|name| self.check(name))?;
        self.is_verified = true;
        Ok(())
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All that a run needs besides tensors.
    pub fn state(&self) -> &RunState {
        &self.recorded.state
    }

    /// The parameters; every byte of them is checked, unless it was before.
    pub fn parameters(&self) -> Result<Safetensors, CheckpointError> {
        self.tensors(PARAMETERS)
    }

    /// The state of the optimizer; every byte of it is checked, unless it was before.
    pub fn optimizer(&self) -> Result<Safetensors, CheckpointError> {
        self.tensors(OPTIMIZER)
    }

    fn tensors(&self, name: &str) -> Result<Safetensors, CheckpointError> {
        self.check(name)?;
        Safetensors::open(&self.path.join(name))
    }

    fn check(&self, name: &str) -> Result<(), CheckpointError> {
        let path = self.path.join(name);
        let checked = match self.recorded.files.get(name) {
            Some(_) if self.is_verified => Ok(()),
            Some(record) => disk::verify(&path, record),
            None => Err(CheckpointError::damaged(&path, "it is not part of this checkpoint")),
        };
        checked.map_err(|error| with_older(&self.path, error))
    }
}

fn opened(path: &Path) -> Result<Checkpoint, CheckpointError> {
    if !path.is_dir() {
        return Err(CheckpointError::unsupported(path, "there is no such folder"));
    }
    let recorded = Recorded::read(path)?;
    for (name, record) in &recorded.files {
        // Names from a file must not lead elsewhere.
        if !FILES.contains(&name.as_str()) {
            return Err(CheckpointError::damaged(&path.join(STATE), format!("it names a file `{name}`")));
        }
        disk::verify_length(&path.join(name), record)?;
    }
    Ok(Checkpoint { path: path.to_owned(), recorded, is_verified: false })
}

/// Adds to the error about a checkpoint the newest one before it that is whole.
fn with_older(path: &Path, error: CheckpointError) -> CheckpointError {
    let CheckpointError::Damaged { path: file, problem, .. } = error else { return error };
    let step = path.file_name().and_then(|name| step_of(name.to_str()?));
    let siblings = path.parent().map(paths).and_then(Result::ok).unwrap_or_default();
    let is_whole = |path: &Path| {
        opened(path).is_ok_and(|checkpoint| {
            checkpoint
                .recorded
                .files
                .iter()
                .all(|(name, record)| disk::verify(&path.join(name), record).is_ok())
        })
    };
    let older = step.and_then(|step| {
        siblings
            .into_iter()
            .rev()
            .filter(|(at, _)| *at < step)
            .map(|(_, path)| path)
            .find(|path| is_whole(path))
    });
    CheckpointError::Damaged { path: file, problem, older }
}

/// Folders of checkpoints by their steps, in order.
pub(crate) fn paths(folder: &Path) -> Result<BTreeMap<u64, PathBuf>, CheckpointError> {
    let read = |error| CheckpointError::io("read", folder)(error);
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(read(error)),
    };
    let mut found = BTreeMap::new();
    for entry in entries {
        let entry = entry.map_err(read)?;
        if let Some(step) = entry.file_name().to_str().and_then(step_of)
            && entry.path().is_dir()
        {
            found.insert(step, entry.path());
        }
    }
    Ok(found)
}

pub(crate) fn is_pinned(path: &Path) -> bool {
    path.join(PINNED).exists()
}

/// The lock of a folder of checkpoints, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that is being started holds it open too, for a moment. Where this
        // fails the lock was none.
        let _ = self.0.unlock();
    }
}

/// Makes the folder of checkpoints and takes its lock, or says that somebody has it.
pub(crate) fn lock(folder: &Path) -> Result<Lock, CheckpointError> {
    fs::create_dir_all(folder).map_err(CheckpointError::io("create", folder))?;
    let path = folder.join(LOCK);
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(CheckpointError::io("open", &path))?;
    match file.try_lock() {
        // A file system without locks is no reason not to save.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(Lock(file)),
        Err(TryLockError::WouldBlock) => Err(CheckpointError::Busy { folder: folder.to_owned() }),
    }
}

/// Removes a checkpoint: first its name, so that half of it is none.
pub(crate) fn remove(path: &Path) -> Result<(), CheckpointError> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(disk::suffix());
    let aside = PathBuf::from(aside);
    disk::rename(path, &aside)?;
    remove_aside(&aside)
}

/// Removes what is not under its name, but nothing that somebody else put there.
pub(crate) fn remove_aside(path: &Path) -> Result<(), CheckpointError> {
    disk::remove_folder(path, &FILES)
}

/// Removes what killed writers left. The lock has to be held: nobody else is writing.
pub(crate) fn remove_leftovers(folder: &Path) -> Result<(), CheckpointError> {
    let read = |error| CheckpointError::io("read", folder)(error);
    for entry in fs::read_dir(folder).map_err(read)? {
        let entry = entry.map_err(read)?;
        if entry.file_name().to_str().is_some_and(is_leftover) && entry.path().is_dir() {
            remove_aside(&entry.path())?;
        }
    }
    Ok(())
}
