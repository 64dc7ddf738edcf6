//! Bad records that are set aside: spilled while a split is encoded, and put in the source's order at the end.
//!
//! ```text
//! train.work/<part>.rejects    16 {"reason":"it is too long","row":"…"}       the ordinal in the range comes first
//! train.rejects.jsonl          {"file":"a.jsonl","line":17,"reason":"it is too long","row":"…"}
//! ```
//!
//! The chunks of a range are spread over its parts as they came; each part has its own in order, so that what is
//! merged depends on the source alone.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use seqio::{BadRow, RawChunk};
use serde::{Deserialize, Serialize};

use crate::commit::{self, Durability};
use crate::encode::{Encoded, EncodedRange};
use crate::error::CacheError;
use crate::hashed::HashedFile;
use crate::layout::{hex, rejects_file};
use crate::manifest::RejectsEntry;
use crate::parts::Check;

/// What was set aside of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RejectsSpill {
    /// Its name in the work folder.
    file: String,
    /// Size of what each chunk gave, in the order of the file.
    chunks: BTreeMap<u64, u64>,
    /// Hash of its bytes.
    blake3: String,
}

impl RejectsSpill {
    /// Writes what the chunks of a part gave; nothing if they gave nothing.
    pub(crate) fn write(
        work: &Path,
        stem: &str,
        chunks: &BTreeMap<u64, Vec<u8>>,
    ) -> Result<Option<Self>, CacheError> {
        if chunks.values().all(Vec::is_empty) {
            return Ok(None);
        }
        let file = format!("{stem}.rejects");
        let bytes: Vec<u8> = chunks.values().flatten().copied().collect();
        commit::write(&work.join(&file), &bytes, Durability::Process)?;
        let sizes = chunks.iter().map(|(&number, lines)| (number, lines.len() as u64));
        Ok(Some(Self { file, chunks: sizes.collect(), blake3: hex(blake3::hash(&bytes).as_bytes()) }))
    }

    /// Whether the file is as it was written.
    pub(crate) fn is_good(&self, work: &Path, check: Check) -> bool {
        check.passes(&work.join(&self.file), self.chunks.values().sum(), &self.blake3)
    }
}

/// The bad records of a chunk, a line each.
pub(crate) fn reject_lines(chunk: &RawChunk, bad_rows: &[BadRow]) -> Vec<u8> {
    let mut lines = Vec::new();
    for bad in bad_rows {
        lines.extend_from_slice(format!("{} ", bad.ordinal).as_bytes());
        serde_json::to_writer(&mut lines, &chunk.reject(bad)).expect("texts are written to memory");
        lines.push(b'\n');
    }
    lines
}

/// Writes the file of a split's bad records in the order of the source.
pub(crate) fn write_rejects(
    folder: &Path,
    split: &str,
    encoded: &Encoded,
    work: &Path,
) -> Result<RejectsEntry, CacheError> {
    let name = rejects_file(split);
    let path = folder.join(&name);
    let mut writer = HashedFile::create(&path)?;
    let mut records = 0;
    let mut old = match &encoded.old_rejects {
        Some(path) => Some(OldRejects::open(path)?),
        None => None,
    };
    for range in &encoded.ranges {
        if let Some(old) = old.as_mut().filter(|_| range.old.is_some()) {
            records += range.old_rejects.end - range.old_rejects.start;
            old.copy(&range.old_rejects, &mut writer, &path)?;
            continue;
        }
        let file = serde_json::to_string(&encoded.files[range.file as usize].name).expect("a text is JSON");
        for_each_reject(range, work, |ordinal, json| {
            records += 1;
            // JSON goes on after its opening brace.
            writeln!(writer, "{{\"file\":{file},\"line\":{},{}", range.first_row + ordinal + 1, &json[1..])
                .map_err(CacheError::io("write", &path))
        })?;
    }
    let (bytes, blake3) = writer.commit(Durability::Disk)?;
    Ok(RejectsEntry { name, records, bytes, blake3 })
}

/// The bad records of a range in order: the ordinal of each in it, and its JSON.
fn for_each_reject(
    range: &EncodedRange,
    work: &Path,
    mut each: impl FnMut(u64, &str) -> Result<(), CacheError>,
) -> Result<(), CacheError> {
    let spills: Vec<&RejectsSpill> =
        range.parts.parts.iter().filter_map(|part| part.rejects.as_ref()).collect();
    let mut chunks: Vec<(u64, usize, u64)> = Vec::new();
    let mut readers = Vec::new();
    for (index, spill) in spills.iter().enumerate() {
        chunks.extend(spill.chunks.iter().map(|(&number, &size)| (number, index, size)));
        let path = work.join(&spill.file);
        readers.push(BufReader::new(File::open(&path).map_err(CacheError::io("read", &path))?));
    }
    chunks.sort_unstable();
    for (_, index, size) in chunks {
        let path = work.join(&spills[index].file);
        let mut text = String::new();
        let reader = &mut readers[index];
        reader.take(size).read_to_string(&mut text).map_err(CacheError::io("read", &path))?;
        for line in text.lines() {
            let parsed = line.split_once(' ').and_then(|(ordinal, json)| Some((ordinal.parse().ok()?, json)));
            match parsed {
                Some((ordinal, json)) if json.starts_with('{') => each(ordinal, json)?,
                _ => return Err(CacheError::damaged(&path, "a line of it is not as it was written")),
            }
        }
    }
    Ok(())
}

/// The bad records of an old cache, some of which are taken over as they are: file, line and record are the same.
struct OldRejects {
    path: PathBuf,
    reader: BufReader<File>,
    /// Lines read so far. Ranges stand in the same order as in the old cache.
    next: u64,
    line: Vec<u8>,
}

impl OldRejects {
    fn open(path: &Path) -> Result<Self, CacheError> {
        let file = File::open(path).map_err(CacheError::io("read", path))?;
        Ok(Self { path: path.to_owned(), reader: BufReader::new(file), next: 0, line: Vec::new() })
    }

    /// Writes these lines.
    fn copy(&mut self, lines: &Range<u64>, writer: &mut impl Write, target: &Path) -> Result<(), CacheError> {
        while self.next < lines.end {
            self.line.clear();
            self.reader.read_until(b'\n', &mut self.line).map_err(CacheError::io("read", &self.path))?;
            if self.line.is_empty() {
                return Err(CacheError::damaged(
                    &self.path,
                    "it has fewer lines than its cache has bad records",
                ));
            }
            if self.next >= lines.start {
                writer.write_all(&self.line).map_err(CacheError::io("write", target))?;
            }
            self.next += 1;
        }
        Ok(())
    }
}
