//! An Arrow IPC file read in place, batch by batch.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::{FileDecoder, read_footer_length};
use arrow::ipc::{Block, root_as_footer};

use crate::error::CacheError;
use crate::mapped::map_file;

/// Bytes at the end of a file: the footer's length and the magic word.
const TRAILER: usize = 10;

/// A mapped file, and where its batches are.
#[derive(Debug)]
pub(crate) struct Table {
    path: PathBuf,
    bytes: Buffer,
    blocks: Vec<BlockPlace>,
    schema: SchemaRef,
    decoder: FileDecoder,
}

/// Where a batch is in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockPlace {
    offset: usize,
    metadata: usize,
    body: usize,
}

impl BlockPlace {
    fn length(&self) -> usize {
        self.metadata + self.body
    }
}

impl Table {
    /// Maps a file and reads its footer, no batch.
    pub(crate) fn open(path: &Path) -> Result<Self, CacheError> {
        let bytes = map_file(path)?;
        let damaged = |problem: &str| CacheError::damaged(path, problem);
        let trailer = bytes.len().checked_sub(TRAILER).ok_or_else(|| damaged("it is too short"))?;
        let last: [u8; TRAILER] = bytes[trailer..].try_into().expect("ten bytes");
        let footer_length = read_footer_length(last).map_err(|error| damaged(&error.to_string()))?;
        let footer_start =
            trailer.checked_sub(footer_length).ok_or_else(|| damaged("its footer is too long"))?;
        let footer = root_as_footer(&bytes[footer_start..trailer])
            .map_err(|error| damaged(&format!("its footer cannot be read: {error}")))?;
        let schema = footer.schema().ok_or_else(|| damaged("its footer has no schema"))?;
        let schema: SchemaRef = Arc::new(fb_to_schema(schema));
        let mut blocks = Vec::new();
        let mut end = 0;
        for block in footer.recordBatches().into_iter().flatten() {
            let place = place(block).filter(|place| {
                place.offset >= end && place.offset + place.length() <= footer_start && place.metadata >= 8
            });
            let place = place.ok_or_else(|| damaged("its footer places a batch outside the file"))?;
            end = place.offset + place.length();
            blocks.push(place);
        }
        let decoder = FileDecoder::new(Arc::clone(&schema), footer.version());
        Ok(Self { path: path.to_owned(), bytes, blocks, schema, decoder })
    }

    /// The same file, with only some of its columns decoded.
    pub(crate) fn with_columns(mut self, columns: Vec<usize>) -> Self {
        self.decoder = self.decoder.with_projection(columns);
        self
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn num_batches(&self) -> usize {
        self.blocks.len()
    }

    /// The bytes of a batch's message, head and body.
    pub(crate) fn batch_bytes(&self, batch: usize) -> &[u8] {
        let place = self.blocks[batch];
        &self.bytes[place.offset..place.offset + place.length()]
    }

    /// Offset and length of a batch's message.
    pub(crate) fn batch_place(&self, batch: usize) -> (usize, usize) {
        let place = self.blocks[batch];
        (place.offset, place.length())
    }

    /// The bytes before the first batch.
    pub(crate) fn head(&self) -> &[u8] {
        let end = self.blocks.first().map_or(self.bytes.len(), |first| first.offset);
        &self.bytes[..end]
    }

    /// The bytes after the last batch.
    pub(crate) fn tail(&self) -> &[u8] {
        let start = self.blocks.last().map_or(self.bytes.len(), |last| last.offset + last.length());
        &self.bytes[start..]
    }

    /// Decodes a batch without copying its columns.
    pub(crate) fn batch(&self, batch: usize) -> Result<RecordBatch, CacheError> {
        let place = self.blocks[batch];
        let block = Block::new(place.offset as i64, place.metadata as i32, place.body as i64);
        let message = self.bytes.slice_with_length(place.offset, place.length());
        let damaged = |problem: String| CacheError::damaged(&self.path, format!("batch {batch}: {problem}"));
        self.decoder
            .read_record_batch(&block, &message)
            .map_err(|error| damaged(error.to_string()))?
            .ok_or_else(|| damaged("it is empty".to_owned()))
    }
}

fn place(block: &Block) -> Option<BlockPlace> {
    let place = BlockPlace {
        offset: usize::try_from(block.offset()).ok()?,
        metadata: usize::try_from(block.metaDataLength()).ok()?,
        body: usize::try_from(block.bodyLength()).ok()?,
    };
    place.offset.checked_add(place.metadata)?.checked_add(place.body)?;
    Some(place)
}
