//! `manifest.json`: what a cache holds. It depends on the definition and the data alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::commit::{self, Durability};
use crate::compression::Compression;
use crate::error::CacheError;
use crate::layout::MANIFEST;
use crate::spill::hash_file;
use crate::stats::SplitStatistics;

/// The version of the format that definitions are hashed with, and that a cache has which needs nothing newer.
pub const FORMAT_VERSION: u32 = 1;

/// The newest version of the format that this program reads. A cache has it if it uses what is listed at
/// `CacheManifest::needed_version`; all else about the two versions is the same.
pub const NEWEST_FORMAT_VERSION: u32 = 2;

/// The word that says what kind of manifest it is.
const FORMAT: &str = "seqio-cache";

/// What a cache holds, and everything needed to read it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheManifest {
    /// `seqio-cache`.
    pub format: String,
    /// The version of the format.
    pub format_version: u32,
    /// The task's name.
    pub task: String,
    /// Hash of the definition above the boundary.
    pub cache_fingerprint: String,
    /// Hash of the splits' source digests.
    pub source_digest: String,
    /// The seed of the order in which shuffled splits are stored.
    pub cache_seed: u64,
    /// How its batches are compressed.
    #[serde(default, skip_serializing_if = "Compression::is_none")]
    pub compression: Compression,
    /// The definition, whole.
    pub definition: serde_json::Value,
    /// The part of it that decides the cache's bytes: what the fingerprint is the hash of.
    pub cache_definition: serde_json::Value,
    /// Vocabulary name to its file in the cache.
    pub vocabulary_files: BTreeMap<String, VocabularyFile>,
    /// The token features.
    pub features: BTreeMap<String, StoredFeature>,
    /// The splits.
    pub splits: BTreeMap<String, SplitManifest>,
}

/// A vocabulary's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VocabularyFile {
    /// Its path in the cache.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Its hash.
    pub blake3: String,
}

/// How a token feature is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredFeature {
    /// `uint16` or `uint32`.
    pub ids: String,
    /// Number of ids of its vocabulary.
    pub vocab_size: u64,
}

/// In which order a split is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StorageOrder {
    /// Sorted by a hash of cache seed and id.
    Shuffled,
    /// As in the source.
    Source,
}

/// A split of a cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitManifest {
    /// The order of its examples.
    pub order: StorageOrder,
    /// The source's name, part of the ids.
    pub source: String,
    /// Columns of the source whose values name each example; their text is in `_sql_key`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key: Vec<String>,
    /// Hash of the digests of its files.
    pub source_digest: String,
    /// Its source files; `_origin.file` counts them.
    pub files: Vec<SourceFileEntry>,
    /// Its shards, in order.
    pub shards: Vec<ShardEntry>,
    /// The file that tells what steps dropped as duplicates, if there are such steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicates: Option<DuplicatesFile>,
    /// The file of its bad records, where they are set aside (version 2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejects: Option<RejectsEntry>,
    /// What is known of it.
    pub statistics: SplitStatistics,
}

/// A source file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceFileEntry {
    /// Its path below the fixed prefix of the split's patterns.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Raw records read from it.
    pub records: u64,
    /// Hash of its content: `ranges:` of decompressed text range by range, `file:` of the file's bytes; `result` for the
    /// rows that a query makes of the other files.
    pub digest: String,
}

/// The bad records of a split, a line each: file, line, reason, and the record itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RejectsEntry {
    /// The file in the cache.
    pub name: String,
    /// Its lines.
    pub records: u64,
    /// Its size.
    pub bytes: u64,
    /// Its hash.
    pub blake3: String,
}

/// A shard: three files of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardEntry {
    /// The files' name without their ending.
    pub name: String,
    /// Its examples.
    pub examples: u64,
    /// Its record batches.
    pub batches: u64,
    /// Size of the `.arrow` file.
    pub arrow_bytes: u64,
    /// Size of the `.lengths` file.
    pub lengths_bytes: u64,
    /// Hash of the `.sums` file, which holds the checksums of the other two.
    pub sums_blake3: String,
}

/// A file with a line for each example that was dropped as a duplicate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DuplicatesFile {
    /// Its path in the cache.
    pub path: String,
    /// Its lines.
    pub lines: u64,
    /// Its size.
    pub bytes: u64,
    /// Its hash.
    pub blake3: String,
}

impl ShardEntry {
    /// Bytes of the three files.
    pub fn file_bytes(&self) -> u64 {
        self.arrow_bytes + self.lengths_bytes + 32 * self.batches + 48
    }
}

impl RejectsEntry {
    /// The path of the file in a cache's folder, if it is as it was written.
    pub(crate) fn checked(&self, folder: &Path) -> Result<PathBuf, CacheError> {
        checked(folder.join(&self.name), &self.blake3)
    }
}

impl DuplicatesFile {
    /// The path of the file in a cache's folder, if it is as it was written.
    pub(crate) fn checked(&self, folder: &Path) -> Result<PathBuf, CacheError> {
        checked(folder.join(&self.path), &self.blake3)
    }
}

fn checked(path: PathBuf, blake3: &str) -> Result<PathBuf, CacheError> {
    if hash_file(&path)? != blake3 {
        return Err(CacheError::damaged(&path, "its hash is not that in the manifest"));
    }
    Ok(path)
}

impl CacheManifest {
    /// The word that says what kind of manifest it is.
    pub(crate) fn format() -> String {
        FORMAT.to_owned()
    }

    /// The oldest version of the format that has all that this cache uses: 2 for compressed batches, counts of dropped
    /// examples, lists of duplicates, bad records that are set aside and keys of rows, else 1.
    pub(crate) fn needed_version(&self) -> u32 {
        let newer = [
            !self.compression.is_none(),
            self.splits.values().any(|split| !split.statistics.dropped.is_empty()),
            self.splits.values().any(|split| split.duplicates.is_some()),
            self.splits.values().any(|split| split.rejects.is_some()),
            self.splits.values().any(|split| !split.key.is_empty()),
        ];
        if newer.contains(&true) { NEWEST_FORMAT_VERSION } else { FORMAT_VERSION }
    }

    /// Reads the manifest of a cache folder.
    pub(crate) fn read(folder: &Path) -> Result<Self, CacheError> {
        let path = folder.join(MANIFEST);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let problem = if folder.is_dir() {
                    "it has no `manifest.json`, which is written last"
                } else {
                    "there is no such folder"
                };
                return Err(CacheError::NotACache { path: folder.to_owned(), problem: problem.to_owned() });
            }
            Err(error) => return Err(CacheError::io("read", &path)(error)),
        };
        let value = commit::checked_json(&path, &bytes)?;
        if value.get("format").and_then(serde_json::Value::as_str) != Some(FORMAT) {
            let problem = "its `manifest.json` is of another kind of folder".to_owned();
            return Err(CacheError::NotACache { path: folder.to_owned(), problem });
        }
        let found = value.get("format_version").and_then(serde_json::Value::as_u64).unwrap_or(0);
        if !(u64::from(FORMAT_VERSION)..=u64::from(NEWEST_FORMAT_VERSION)).contains(&found) {
            return Err(CacheError::Version { path, found, wanted: NEWEST_FORMAT_VERSION.into() });
        }
        serde_json::from_value(value).map_err(|error| CacheError::damaged(&path, error.to_string()))
    }

    /// Writes the manifest, which makes a folder a cache.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), CacheError> {
        let text = commit::to_checked_json(self);
        commit::write(&folder.join(MANIFEST), text.as_bytes(), Durability::Disk)
    }

    /// A split, or which ones there are.
    pub(crate) fn split(&self, folder: &Path, split: &str) -> Result<&SplitManifest, CacheError> {
        self.splits.get(split).ok_or_else(|| CacheError::NoSplit {
            path: folder.to_owned(),
            split: split.to_owned(),
            found: self.splits.keys().cloned().collect(),
        })
    }
}

impl SplitManifest {
    /// The file of its bad records, if they are set aside, in the cache's folder.
    pub fn rejects_path(&self, folder: &Path) -> Option<PathBuf> {
        Some(folder.join(&self.rejects.as_ref()?.name))
    }

    /// The file that lists its duplicates, if a step looks for any, in the cache's folder.
    pub fn duplicates_path(&self, folder: &Path) -> Option<PathBuf> {
        Some(folder.join(&self.duplicates.as_ref()?.path))
    }

    /// Number of examples.
    pub fn examples(&self) -> u64 {
        self.shards.iter().map(|shard| shard.examples).sum()
    }

    /// Bytes of the files of all its shards.
    pub fn file_bytes(&self) -> u64 {
        self.shards.iter().map(ShardEntry::file_bytes).sum()
    }
}
