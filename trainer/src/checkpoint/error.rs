//! Why a checkpoint could not be saved or restored.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::checkpoint::restore::Differences;

/// An error of whoever hands over or takes tensors.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a checkpoint could not be saved or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
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
    /// A file is not as it was written.
    #[error("{} is damaged: {problem}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
        /// The newest checkpoint before this one that is whole.
        older: Option<PathBuf>,
    },
    /// A file of another program, or of another version of this one.
    #[error("{} cannot be read: {problem}", path.display())]
    Unsupported {
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        problem: String,
        /// What to do about it.
        hint: Option<&'static str>,
    },
    /// A tensor that is not there.
    #[error("{origin} holds no tensor `{name}`")]
    NoTensor {
        /// What was looked through.
        origin: String,
        /// The name.
        name: String,
        /// The name that is most like it.
        nearest: Option<String>,
    },
    /// A tensor could not be handed over or taken.
    #[error("tensor `{name}`: {problem}")]
    Tensor {
        /// The tensor.
        name: String,
        /// What is wrong.
        problem: BoxError,
    },
    /// Two savers at once.
    #[error("another process is saving a checkpoint in {}", folder.display())]
    Busy {
        /// The folder of checkpoints.
        folder: PathBuf,
    },
    /// A checkpoint that is kept on purpose would have to go.
    #[error("{} is pinned", path.display())]
    Pinned {
        /// The checkpoint.
        path: PathBuf,
    },
    /// Rules of a restore that mean nothing.
    #[error("{}", problems.join("\n"))]
    Rules {
        /// What is wrong with each.
        problems: Vec<String>,
    },
    /// The model and the checkpoint do not hold the same tensors.
    #[error("{0}")]
    Differ(Box<Differences>),
}

impl CheckpointError {
    /// An error of the system: `CheckpointError::io("write", path)` is made for `map_err`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Io { action, path, error }
    }

    /// A file that is not as it was written.
    pub(crate) fn damaged(path: &Path, problem: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), problem: problem.into(), older: None }
    }

    /// Something that was written on purpose, but not for this program.
    pub(crate) fn unsupported(path: &Path, problem: impl Into<String>) -> Self {
        Self::Unsupported { path: path.to_owned(), problem: problem.into(), hint: None }
    }

    pub(crate) fn tensor(name: &str) -> impl FnOnce(BoxError) -> Self {
        let name = name.to_owned();
        move |problem| Self::Tensor { name, problem }
    }

    /// What to do about it, if there is something to say.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Io { error, .. } => match error.kind() {
                ErrorKind::StorageFull => "make room; the checkpoints saved before are untouched",
                ErrorKind::QuotaExceeded => {
                    "make room within the quota; the checkpoints saved before are untouched"
                }
                ErrorKind::FileTooLarge => {
                    "let this user write larger files (`ulimit -f`); the checkpoints saved before are untouched"
                }
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => "give this user access",
                _ => return None,
            },
            Self::Damaged { older, .. } => {
                return older
                    .as_ref()
                    .map(|older| format!("the newest one before it is {}", older.display()));
            }
            Self::Unsupported { hint, .. } => return hint.map(str::to_owned),
            Self::NoTensor { nearest, .. } => {
                return nearest.as_ref().map(|nearest| format!("did you mean `{nearest}`?"));
            }
            Self::Busy { .. } => "give every run a folder of its own",
            Self::Pinned { .. } => "remove its file `PINNED`, or go on in another folder",
            Self::Differ(differences) => return differences.hint(),
            Self::Tensor { .. } | Self::Rules { .. } => return None,
        };
        Some(hint.to_owned())
    }
}
