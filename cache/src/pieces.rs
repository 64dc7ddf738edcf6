//! What is known of each range of a split's source: by this a later build can take examples over from a finished cache.
//!
//! ```text
//! train.pieces.json   a.jsonl 0..64 MiB: 81,233 records, 81,230 rows, hash of its text, what the encoders met
//! ```
//!
//! It follows from definition and data alone, as a manifest does, and is needed for nothing but `--reuse`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::commit::{self, Durability};
use crate::digest::{is_text_digest, text_file_digest};
use crate::encode::{Encoded, EncodedRange};
use crate::error::CacheError;
use crate::layout::file_name;
use crate::manifest::SplitManifest;
use crate::parts::PartContent;

/// All ranges of a split, in the source's order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pieces {
    pub(crate) pieces: Vec<Piece>,
}

/// One range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Piece {
    /// Index of its file in the manifest.
    pub(crate) file: u32,
    /// Its first byte or row group.
    pub(crate) start: u64,
    /// One past its last, as the source said.
    pub(crate) end: u64,
    /// What was encoded, without what depends on how.
    pub(crate) content: PartContent,
}

impl Piece {
    fn of(range: &EncodedRange) -> Self {
        let parts = &range.parts;
        let mut content = PartContent::default();
        parts.parts.iter().for_each(|part| content.merge(part.content.clone()));
        content.text_digest = parts.text_digest();
        content.chunks.clear();
        (content.last_chunk, content.source_bytes) = (None, 0);
        let end = parts.parts.first().map_or(range.start, |part| part.end);
        Self { file: range.file, start: range.start, end, content }
    }

    /// The same as an encoder would have committed it, in one go.
    pub(crate) fn whole(&self) -> PartContent {
        PartContent { chunks: BTreeMap::from([(0, None)]), last_chunk: Some(0), ..self.content.clone() }
    }
}

/// The path of a split's file.
pub(crate) fn pieces_file(folder: &Path, split: &str) -> PathBuf {
    folder.join(format!("{}.pieces.json", file_name(split)))
}

impl Pieces {
    pub(crate) fn of(encoded: &Encoded) -> Self {
        Self { pieces: encoded.ranges.iter().map(Piece::of).collect() }
    }

    pub(crate) fn write(&self, folder: &Path, split: &str) -> Result<(), CacheError> {
        let text = commit::to_checked_json(self);
        commit::write(&pieces_file(folder, split), text.as_bytes(), Durability::Disk)
    }

    /// Reads the pieces of a split; they have to fit its manifest.
    pub(crate) fn read(folder: &Path, split: &str, manifest: &SplitManifest) -> Result<Self, CacheError> {
        let path = pieces_file(folder, split);
        let pieces: Self = commit::read_checked_json(&path)?;
        match pieces.fit(manifest) {
            true => Ok(pieces),
            false => Err(CacheError::damaged(&path, "it does not fit the manifest")),
        }
    }

    fn fit(&self, manifest: &SplitManifest) -> bool {
        let in_order = self.pieces.is_sorted_by(|a, b| (a.file, a.start) < (b.file, b.start));
        let examples: u64 = self.pieces.iter().map(|piece| piece.content.rows).sum();
        let files = (0u32..).zip(&manifest.files).all(|(index, file)| {
            let of_file: Vec<&Piece> = self.of_file(index).collect();
            let records: u64 = of_file.iter().map(|piece| piece.content.records).sum();
            let digests = of_file.iter().map(|piece| {
                Some((piece.start, piece.content.records, piece.content.text_digest.as_deref()?))
            });
            let digests: Option<Vec<_>> = digests.collect();
            let same_text = !is_text_digest(&file.digest)
                || digests.is_some_and(|digests| text_file_digest(digests.into_iter()) == file.digest);
            records == file.records && same_text
        });
        let known = |piece: &Piece| (piece.file as usize) < manifest.files.len();
        in_order && examples == manifest.examples() && files && self.pieces.iter().all(known)
    }

    /// The pieces of one file, in order.
    pub(crate) fn of_file(&self, file: u32) -> impl Iterator<Item = &Piece> {
        let first = self.pieces.partition_point(|piece| piece.file < file);
        self.pieces[first..].iter().take_while(move |piece| piece.file == file)
    }
}
