//! How the batches of a cache are kept on the disk.
//!
//! ```text
//! none   mapped and read in place                      for training
//! zstd   each buffer of each batch compressed alone    for cold storage: the same batches in a half to a quarter of the room
//! ```
//!
//! Either way the files are plain Arrow IPC files, as any Arrow library reads them, with the same batches in them. It
//! is no part of a cache's fingerprint: examples, their order and every batch of a stream are the same.

use arrow::error::ArrowError;
use arrow::ipc::writer::IpcWriteOptions;
use arrow::ipc::{CompressionType, MetadataVersion};
use serde::{Deserialize, Serialize};

/// Zstandard's own default. Part of the format: another level would give other bytes.
const ZSTD_LEVEL: i32 = 3;
/// Buffers begin at multiples of this.
const ALIGNMENT: usize = 64;

/// How the batches of a cache are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// Not at all: batches are read in place.
    #[default]
    None,
    /// Each buffer by Zstandard, as Arrow IPC lays it down.
    Zstd,
}

impl Compression {
    /// Whether batches are read in place.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// How a cache of this form is described: "is stored …".
    pub fn words(self) -> &'static str {
        match self {
            Self::None => "uncompressed",
            Self::Zstd => "compressed by zstd",
        }
    }

    /// The word for it on the command line and in manifests.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Zstd => "zstd",
        }
    }

    pub(crate) fn write_options(self) -> Result<IpcWriteOptions, ArrowError> {
        let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?;
        match self {
            Self::None => Ok(options),
            Self::Zstd => options
                .try_with_compression(Some(CompressionType::ZSTD))?
                .try_with_compression_level(Some(ZSTD_LEVEL)),
        }
    }
}
