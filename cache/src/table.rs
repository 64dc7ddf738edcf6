//! An Arrow IPC file read in place, batch by batch.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::{FileDecoder, read_footer_length};
use arrow::ipc::{Block, MetadataVersion, root_as_footer};

use crate::error::CacheError;
use crate::mapped::map_file;
use crate::writer::{Sum, Sums, sum};

/// Bytes at the end of a file: the footer's length and the magic word.
const TRAILER: usize = 10;

/// A mapped file, and where its batches are.
#[derive(Debug)]
pub(crate) struct Table {
    path: PathBuf,
    bytes: Buffer,
    blocks: Arc<[BlockPlace]>,
    schema: SchemaRef,
    version: MetadataVersion,
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
        Self::of(path, map_file(path)?)
    }

    /// The same for a file of a shard, whose head and footer are checked before anything in them is believed.
    pub(crate) fn open_summed(path: &Path, sums: &Sums) -> Result<Self, CacheError> {
        let bytes = map_file(path)?;
        let place = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
        let first = sums.batches.first().map_or(bytes.len(), |batch| place(batch.offset));
        let end = sums
            .batches
            .last()
            .map_or(bytes.len(), |batch| place(batch.offset).saturating_add(batch.length as usize));
        let is = |part: Option<&[u8]>, known: Sum| part.is_some_and(|part| sum(part) == known);
        if !is(bytes.get(..first), sums.head) || !is(bytes.get(end..), sums.tail) {
            return Err(CacheError::damaged(path, "the checksum of its head or footer is wrong"));
        }
        let table = Self::of(path, bytes)?;
        let places = sums.batches.iter().map(|batch| (place(batch.offset), batch.length as usize));
        if !places.eq((0..table.num_batches()).map(|batch| table.batch_place(batch))) {
            return Err(CacheError::damaged(path, "its footer has other batches than its checksums"));
        }
        Ok(table)
    }

    fn of(path: &Path, bytes: Buffer) -> Result<Self, CacheError> {
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
        let version = footer.version();
        let decoder = FileDecoder::new(Arc::clone(&schema), version);
        Ok(Self { path: path.to_owned(), bytes, blocks: blocks.into(), schema, version, decoder })
    }

    /// The same map, with only some of its columns decoded.
    pub(crate) fn with_columns(&self, columns: Vec<usize>) -> Self {
        Self {
            path: self.path.clone(),
            bytes: self.bytes.clone(),
            blocks: Arc::clone(&self.blocks),
            schema: Arc::clone(&self.schema),
            version: self.version,
            decoder: FileDecoder::new(Arc::clone(&self.schema), self.version).with_projection(columns),
        }
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
    fn batch_place(&self, batch: usize) -> (usize, usize) {
        let place = self.blocks[batch];
        (place.offset, place.length())
    }

    /// Decodes a batch; without copying its columns if they are not compressed.
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
