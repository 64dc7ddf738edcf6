//! The folder of a cache that SeqIO wrote: which files it has for a split.
//!
//! ```text
//! cache/my/task/COMPLETED, info.train.json, stats.train.json, train.tfrecord-00000-of-00064, …
//! ```

use std::path::{Path, PathBuf};

use crate::source::patterns::list_files;
use crate::source::seqio_cache::info::{Info, read_examples, read_info};
use crate::source::{SourceError, SourceFile};
use crate::text::quoted;

/// Where a split is, and what it should hold.
#[derive(Debug)]
pub(in crate::source) struct CachedSplit {
    pub(super) info: Info,
    /// Number of examples, if it is kept.
    pub(super) examples: Option<u64>,
    /// Where that number stands.
    pub(super) stats: PathBuf,
    /// The shards in order.
    pub(in crate::source) shards: Vec<SourceFile>,
}

/// The only file that a pattern of one folder matches.
fn one(base_dir: &Path, pattern: &str, name: &str) -> Result<Option<PathBuf>, SourceError> {
    match list_files(base_dir, &[format!("{pattern}/{name}")]) {
        Ok(files) if files.len() == 1 => Ok(files.into_iter().next().map(|file| file.path)),
        Ok(_) => Err(SourceError::Definition {
            problem: format!("`{pattern}` matches several folders; a split is in one cache"),
        }),
        Err(SourceError::NoFiles { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Looks at a split in the folder that `pattern` names.
pub(in crate::source) fn cached_split(
    base_dir: &Path,
    pattern: &str,
    split: &str,
) -> Result<CachedSplit, SourceError> {
    let pattern = pattern.trim_end_matches('/');
    let shown = || base_dir.join(pattern);
    let Some(path) = one(base_dir, pattern, &format!("info.{split}.json"))? else {
        let found = list_files(base_dir, &[format!("{pattern}/info.*.json")]).unwrap_or_default();
        let splits = found.iter().filter_map(|file| {
            let name = file.path.file_name()?.to_str()?;
            name.strip_prefix("info.")?.strip_suffix(".json").map(str::to_owned)
        });
        let splits: Vec<String> = splits.collect();
        let problem = match splits.is_empty() {
            true => format!("is no cache of SeqIO: it has no `info.{split}.json`"),
            false => format!("has no `info.{split}.json`; it has the splits {}", quoted(splits)),
        };
        return Err(SourceError::malformed(&shown(), problem));
    };
    if one(base_dir, pattern, "COMPLETED")?.is_none() {
        let problem = "has no `COMPLETED`, so that SeqIO did not finish it; build it again, or make an empty file of \
                       this name if you know it to be whole";
        return Err(SourceError::malformed(&shown(), problem));
    }
    let info = read_info(&path)?;
    let stats = path.with_file_name(format!("stats.{split}.json"));
    let shards = shards(base_dir, pattern, split, info.num_shards)?;
    Ok(CachedSplit { examples: read_examples(&stats)?, info, stats, shards })
}

/// The shards of a split; all of them must be there.
fn shards(
    base_dir: &Path,
    pattern: &str,
    split: &str,
    num_shards: u64,
) -> Result<Vec<SourceFile>, SourceError> {
    let files = match list_files(base_dir, &[format!("{pattern}/{split}.tfrecord-*-of-{num_shards:05}")]) {
        Err(SourceError::NoFiles { .. }) => Vec::new(),
        files => files?,
    };
    let missing = |index: &u64| {
        let name = format!("{split}.tfrecord-{index:05}-of-{num_shards:05}");
        !files.iter().any(|file| file.path.ends_with(&name))
    };
    let count = files.len() as u64;
    match (0..num_shards).find(missing) {
        None if count == num_shards => Ok(files),
        Some(index) => Err(SourceError::malformed(
            &base_dir.join(pattern),
            format!(
                "should have {num_shards} shards of `{split}`, but `{split}.tfrecord-{index:05}-of-{num_shards:05}` is \
                 not there"
            ),
        )),
        None => Err(SourceError::malformed(
            &base_dir.join(pattern),
            format!("should have {num_shards} shards of `{split}`, but has {count}"),
        )),
    }
}
