//! Why a cache cannot be built, found or read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use arrow::error::ArrowError;
use seqio::{PreprocessError, SourceError, StoreError, lines_in_words};

use crate::share::Share;

/// Everything that can go wrong with a cache; [`CacheError::hint`] says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The system refused something.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// What was tried, as `write`.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: std::io::Error,
    },
    /// The source could not be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A task that came from a cache is to be built.
    #[error("task `{task}` was opened from its cache and has no source to build from")]
    NoSource {
        /// The task.
        task: String,
    },
    /// A raw record gives no example, and the task says to stop there.
    #[error("{}, line {line}: {reason}", path.display())]
    BadRow {
        /// The source file.
        path: PathBuf,
        /// The line, or row, counted from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A source file ends before it should (truncated or corrupt compression).
    #[error("{}: {damage}", path.display())]
    DamagedSource {
        /// The source file.
        path: PathBuf,
        /// What is wrong with it.
        damage: String,
    },
    /// A source file is another one than when the job began.
    #[error("{} changed while it was being read", path.display())]
    SourceChanged {
        /// The source file.
        path: PathBuf,
    },
    /// A step failed on examples of a file.
    #[error("{}, {}: {error}", path.display(), lines_in_words(*line, *exact))]
    Step {
        /// The source file.
        path: PathBuf,
        /// The line of the record at fault, or else of the first record of the chunk, counted from 1.
        line: u64,
        /// Whether it is the line of the record at fault.
        exact: bool,
        /// What the step said.
        #[source]
        error: Box<PreprocessError>,
    },
    /// The steps above the boundary gave ids that the vocabulary does not have.
    #[error("feature `{feature}` has the id {id}, but ids go from 0 to {}", size.saturating_sub(1))]
    IdOutOfRange {
        /// The feature.
        feature: String,
        /// The id.
        id: i64,
        /// Number of ids of the vocabulary.
        size: usize,
    },
    /// A column has a type that a cache cannot hold, or a name that it uses itself.
    #[error("column `{column}`: {problem}")]
    Column {
        /// The column.
        column: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The job was asked to stop, and did.
    #[error("stopped; kept for the next job: {done}")]
    Interrupted {
        /// How much is done, in words.
        done: String,
    },
    /// Another job is building the same cache on this machine.
    #[error("another job builds this cache: {holder}")]
    Locked {
        /// Who it is.
        holder: String,
    },
    /// A job on another machine has not said that it ended.
    #[error("{} is held by a job on another machine: {holder}", path.display())]
    LockedElsewhere {
        /// The lock file.
        path: PathBuf,
        /// Who it is.
        holder: String,
    },
    /// Workers of another number are at work.
    #[error("pieces of `--worker {share}` would be those of another worker too: {holder}")]
    OtherShares {
        /// The share asked for.
        share: Share,
        /// Who is at work.
        holder: String,
    },
    /// A worker sees another source than those that are at work.
    #[error("the source of split `{split}` is not the one that the other workers see: {difference}")]
    OtherSources {
        /// The split.
        split: String,
        /// What differs, in words.
        difference: String,
    },
    /// Workers have not encoded all that there is to merge.
    #[error("{}", incomplete(task, *pieces, missing))]
    Incomplete {
        /// The task.
        task: String,
        /// Pieces in all.
        pieces: u64,
        /// What is not there.
        missing: Vec<MissingPieces>,
        /// Options that say which splits are meant, as ` --split train`.
        options: String,
    },
    /// The disk is too small.
    #[error("the cache needs about {needed} bytes while it is built, but {} has {free} free", path.display())]
    DiskTooSmall {
        /// The cache folder.
        path: PathBuf,
        /// Bytes needed at the peak, estimated from a sample.
        needed: u64,
        /// Bytes free.
        free: u64,
    },
    /// A file of a cache is not as it was written.
    #[error("{} is damaged: {problem}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the batch if one is at fault.
        problem: String,
    },
    /// There is no cache there.
    #[error("{} is not a cache: {problem}", path.display())]
    NotACache {
        /// The folder.
        path: PathBuf,
        /// What is missing.
        problem: String,
    },
    /// The cache was written by another version of the format.
    #[error("{} has cache format {found}, but this program reads formats 1 to {wanted}", path.display())]
    Version {
        /// The manifest.
        path: PathBuf,
        /// The version it has.
        found: u64,
        /// The newest version this program reads.
        wanted: u64,
    },
    /// The cache does not hold that split.
    #[error("{} holds no split `{split}`, only {}", path.display(), seqio::quoted(found))]
    NoSplit {
        /// The cache folder.
        path: PathBuf,
        /// The split asked for.
        split: String,
        /// The splits there are.
        found: Vec<String>,
    },
    /// A cache exists, but of another definition or of other sources.
    #[error("the cache of `{task}`, split `{split}`, is out of date: {reason}")]
    Stale {
        /// The task.
        task: String,
        /// The split.
        split: String,
        /// What changed, in words.
        reason: String,
    },
    /// A build cannot take examples over from that cache.
    #[error("{} cannot be reused: {problem}", path.display())]
    CannotReuse {
        /// The cache folder.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
    /// The definition kept in a cache cannot be used.
    #[error("{}: the definition in this cache cannot be used: {problem}", path.display())]
    Definition {
        /// The cache folder.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// Arrow refused a batch.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

impl CacheError {
    /// An error of the system: `CacheError::io("write", path)` is made for `map_err`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Io { action, path, error }
    }

    /// A file that is not as it was written.
    pub(crate) fn damaged(path: &Path, problem: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), problem: problem.into() }
    }

    /// What to do about it, if there is something to say.
    pub fn hint(&self) -> Option<String> {
        if let Self::Incomplete { task, missing, options, .. } = self {
            let shares: BTreeSet<Share> = missing.iter().map(|missing| missing.share).collect();
            let commands: Vec<String> = shares
                .into_iter()
                .map(|share| format!("`seqio cache build {task}{options} --worker {share}`"))
                .collect();
            let all = format!("`seqio cache build {task}{options}` encodes the rest here, alone");
            return Some(format!("run {}, then finish again; or {all}", commands.join(" and ")));
        }
        let hint = match self {
            Self::Io { error, .. } => match error.kind() {
                std::io::ErrorKind::StorageFull => {
                    "make room and run the same command again; the work done so far is kept"
                }
                std::io::ErrorKind::FileTooLarge => {
                    "let this user write larger files (`ulimit -f`) and run the same command again; the work done so far \
                     is kept"
                }
                std::io::ErrorKind::QuotaExceeded => {
                    "make room within the quota and run the same command again; the work done so far is kept"
                }
                std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                    "give this user access, or choose another folder with `--cache-dir`"
                }
                _ => return None,
            },
            Self::NoSource { .. } => "name the task file with `-f`",
            Self::BadRow { .. } | Self::DamagedSource { .. } => {
                "mend the file, or write in the task's source `on_bad_row = \"skip\"` to skip and count such records, or \
                 `\"set_aside\"` to keep them in a file as well"
            }
            Self::SourceChanged { .. } => {
                "run the same command again once nothing writes to the file any more"
            }
            Self::Interrupted { .. } => "run the same command again to go on from there",
            Self::Locked { .. } => "wait for it to end, or stop it",
            Self::LockedElsewhere { .. } => {
                "make sure that job is dead, then run the same command with `--take-over`"
            }
            Self::OtherShares { .. } => {
                "wait for it to end, or stop it; then any number of workers can go on"
            }
            Self::OtherSources { .. } => {
                "give every worker the same files with the same times (a shared folder, `rsync -t`, `cp -p`); if they did \
                 change, stop the other workers first"
            }
            Self::DiskTooSmall { .. } => "make room, or choose another folder with `--cache-dir`",
            Self::Damaged { .. } => "remove the cache with `seqio cache remove` and build it again",
            Self::Version { .. } => {
                "build the cache again with this program, or read it with the one that wrote it"
            }
            Self::CannotReuse { .. } => {
                "build without `--reuse`, or name another cache; `seqio cache explain` compares them all"
            }
            Self::Stale { .. } => "run `seqio cache build` to make a new one",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// Pieces of a split that one worker owes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingPieces {
    /// The split.
    pub split: String,
    /// The worker.
    pub share: Share,
    /// How many pieces.
    pub pieces: u64,
    /// The files they are of, with the pieces meant.
    pub files: Vec<String>,
}

/// Files that are named of each worker.
const FILES_NAMED: usize = 6;

fn incomplete(task: &str, pieces: u64, missing: &[MissingPieces]) -> String {
    let count: u64 = missing.iter().map(|missing| missing.pieces).sum();
    let mut text = format!("{count} of {pieces} pieces of task `{task}` are not encoded yet");
    for MissingPieces { split, share, files, .. } in missing {
        let named = files[..files.len().min(FILES_NAMED)].join(", ");
        let more = match files.len().saturating_sub(FILES_NAMED) {
            0 => String::new(),
            1 => ", and 1 more file".to_owned(),
            more => format!(", and {more} more files"),
        };
        text = format!("{text}\n  worker {share}, split `{split}`: {named}{more}");
    }
    text
}

impl From<CacheError> for StoreError {
    fn from(error: CacheError) -> Self {
        let problem = match error.hint() {
            Some(hint) => format!("{error}; {hint}"),
            None => error.to_string(),
        };
        Self { problem, is_damage: matches!(error, CacheError::Damaged { .. }) }
    }
}
