//! What makes two sources the same: digests of their content.
//!
//! ```text
//! text      `ranges:<hash of (start, records, hash of the chunks' hashes) of each range>`, decompressed
//! columnar  `file:<hash of the file's bytes>`; slices too, which do not read all of their files, and tables of queries
//! result    `result`: the rows of a query follow from the definition and the other files
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use seqio::{DataSource, FileRanges, RawChunk, RawRecords, SourceFile, SourceRange};

use crate::error::CacheError;
use crate::layout::hex;
use crate::spill::hash_file;

const FILE: &str = "file:";
const RANGES: &str = "ranges:";
/// The digest of the rows of a query.
pub(crate) const RESULT: &str = "result";

/// The hash of a chunk of text; `None` of columns.
pub(crate) fn chunk_digest(records: &RawRecords) -> Option<[u8; 32]> {
    match records {
        RawRecords::Lines(text) => Some(*blake3::hash(text).as_bytes()),
        RawRecords::Columns(_) => None,
    }
}

/// The hash of a range from those of its chunks in order.
pub(crate) fn range_digest<'a>(chunks: impl Iterator<Item = &'a [u8; 32]>) -> String {
    let mut hasher = blake3::Hasher::new();
    chunks.for_each(|chunk| {
        hasher.update(chunk);
    });
    hex(hasher.finalize().as_bytes())
}

/// The digest of a text file from (start, records, digest) of its ranges in order.
pub(crate) fn text_file_digest<'a>(ranges: impl Iterator<Item = (u64, u64, &'a str)>) -> String {
    let mut hasher = blake3::Hasher::new();
    for (start, records, digest) in ranges {
        hasher.update(&start.to_le_bytes());
        hasher.update(&records.to_le_bytes());
        hasher.update(digest.as_bytes());
    }
    format!("{RANGES}{}", hex(hasher.finalize().as_bytes()))
}

/// Whether a digest is that of a text file's ranges.
pub(crate) fn is_text_digest(digest: &str) -> bool {
    digest.starts_with(RANGES)
}

/// The digest of a file that is hashed whole.
pub(crate) fn whole_file_digest(path: &Path) -> Result<String, CacheError> {
    Ok(format!("{FILE}{}", hash_file(path)?))
}

/// The digest of a file as it is now, if `like` is of a kind that needs no reader of the source.
pub(crate) fn digest_without_reading(path: &Path, like: &str) -> Option<Result<String, CacheError>> {
    match like {
        RESULT => Some(Ok(RESULT.to_owned())),
        like if like.starts_with(FILE) => Some(whole_file_digest(path)),
        _ => None,
    }
}

/// The digest of a file as it is now, of the kind that `like` is.
pub(crate) fn digest_like(
    source: &dyn DataSource,
    file: &SourceFile,
    index: u32,
    like: &str,
) -> Result<String, CacheError> {
    if let Some(digest) = digest_without_reading(&file.path, like) {
        return digest;
    }
    let mut ranges: BTreeMap<u64, (u64, Vec<[u8; 32]>)> = BTreeMap::new();
    let mut read = |range: Option<SourceRange>| -> Result<(), CacheError> {
        for chunk in source.read(file, index, range, Box::new(|_| false))? {
            let RawChunk { range, num_records, records, .. } = chunk?;
            let (count, chunks) = ranges.entry(range.start).or_default();
            *count += num_records;
            chunks.extend(chunk_digest(&records));
        }
        Ok(())
    };
    match source.ranges(file, index)? {
        FileRanges::Known(known) => known.into_iter().try_for_each(|range| read(Some(range)))?,
        FileRanges::Streamed => read(None)?,
    }
    let ranges: Vec<(u64, u64, String)> = ranges
        .into_iter()
        .map(|(start, (records, chunks))| (start, records, range_digest(chunks.iter())))
        .collect();
    Ok(text_file_digest(ranges.iter().map(|(start, records, digest)| (*start, *records, digest.as_str()))))
}

/// The digest of a split from names and digests of its files.
pub(crate) fn split_digest<'a>(split: &str, files: impl Iterator<Item = (&'a str, &'a str)>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    let mut text = |text: &str| {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    };
    text(split);
    for (name, digest) in files {
        text(name);
        text(digest);
    }
    *hasher.finalize().as_bytes()
}
