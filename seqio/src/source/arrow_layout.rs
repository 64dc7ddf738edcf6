//! Checks a message of an Arrow file before Arrow's own reader sees it.
//!
//! That reader trusts places and lengths: it panics where a buffer lies outside of its message, and takes as much memory
//! as a compressed buffer says that it needs. Here every node and buffer of the columns that are read is looked at first.
//!
//! ```text
//! buffer at 4000 with 200 bytes, message of 4096          -> refused: a buffer lies outside of its message
//! compressed buffer of 30 bytes that holds 2^62 bytes     -> refused: a buffer says that it holds …
//! ```

use std::ops::Range;

use arrow::datatypes::{DataType, FieldRef, UnionMode};
use arrow::ipc::{MetadataVersion, RecordBatch};

/// Rows that a record batch may have.
const MAX_ROWS: i64 = i32::MAX as i64;

/// Values that a column may have, those of lists counted one by one.
const MAX_VALUES: i64 = 1 << 40;

/// Bytes that the buffers of a batch may have when they are decompressed.
const MAX_DECOMPRESSED: u64 = 8 << 30;

/// No frame of Zstandard or LZ4 holds more for each of its bytes.
const MAX_RATIO: u64 = 40_000;

/// The buffers of a batch that are read: where they are in its body.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NeededBuffers {
    pub(super) places: Vec<Range<usize>>,
    is_compressed: bool,
}

/// How many nodes and buffers a column takes.
struct Layout<'a> {
    version: MetadataVersion,
    nodes: usize,
    buffers: usize,
    /// Data buffers of each column of views.
    variadic: Box<dyn Iterator<Item = i64> + 'a>,
    num_buffers: usize,
}

impl Layout<'_> {
    fn add(&mut self, data_type: &DataType) -> Result<(), String> {
        self.nodes += 1;
        match data_type {
            DataType::Null => {}
            DataType::Utf8 | DataType::Binary | DataType::LargeUtf8 | DataType::LargeBinary => {
                self.buffers += 3
            }
            DataType::Utf8View | DataType::BinaryView => {
                let count = self.variadic.next().and_then(|count| usize::try_from(count).ok());
                let Some(count) = count.filter(|&count| count <= self.num_buffers) else {
                    return Err("a column of views has not the buffers that it says".to_owned());
                };
                self.buffers += 2 + count;
            }
            DataType::List(item) | DataType::LargeList(item) | DataType::Map(item, _) => {
                self.buffers += 2;
                self.add(item.data_type())?;
            }
            DataType::ListView(item) | DataType::LargeListView(item) => {
                self.buffers += 3;
                self.add(item.data_type())?;
            }
            DataType::FixedSizeList(item, _) => {
                self.buffers += 1;
                self.add(item.data_type())?;
            }
            DataType::Struct(fields) => {
                self.buffers += 1;
                fields.iter().try_for_each(|field| self.add(field.data_type()))?;
            }
            DataType::RunEndEncoded(ends, values) => {
                self.add(ends.data_type())?;
                self.add(values.data_type())?;
            }
            DataType::Union(fields, mode) => {
                self.buffers += usize::from(self.version < MetadataVersion::V5);
                self.buffers += if *mode == UnionMode::Dense { 2 } else { 1 };
                fields.iter().try_for_each(|(_, field)| self.add(field.data_type()))?;
            }
            _ => self.buffers += 2,
        }
        Ok(())
    }
}

/// The buffers that the columns at `roots` need, all of them checked; `fields` are all columns of the batch.
pub(super) fn needed_buffers(
    batch: &RecordBatch<'_>,
    fields: &[FieldRef],
    roots: &[usize],
    version: MetadataVersion,
    body_bytes: usize,
) -> Result<NeededBuffers, String> {
    if !(0..=MAX_ROWS).contains(&batch.length()) {
        return Err(format!("it says that it has {} rows", batch.length()));
    }
    let (Some(nodes), Some(buffers)) = (batch.nodes(), batch.buffers()) else {
        return Err("it has no columns".to_owned());
    };
    let mut layout = Layout {
        version,
        nodes: 0,
        buffers: 0,
        variadic: Box::new(batch.variadicBufferCounts().into_iter().flatten()),
        num_buffers: buffers.len(),
    };
    let mut needed = NeededBuffers { places: Vec::new(), is_compressed: batch.compression().is_some() };
    for (index, field) in fields.iter().enumerate() {
        let (first_node, first_buffer) = (layout.nodes, layout.buffers);
        layout.add(field.data_type())?;
        if layout.nodes > nodes.len() || layout.buffers > buffers.len() {
            return Err(format!("it has too few buffers for the columns up to `{}`", field.name()));
        }
        if !roots.contains(&index) {
            continue;
        }
        for node in (first_node..layout.nodes).map(|node| nodes.get(node)) {
            if !(0..=MAX_VALUES).contains(&node.length()) || !(0..=node.length()).contains(&node.null_count())
            {
                return Err(format!(
                    "column `{}` says that it has {} values and {} nulls",
                    field.name(),
                    node.length(),
                    node.null_count()
                ));
            }
        }
        for buffer in (first_buffer..layout.buffers).map(|buffer| buffers.get(buffer)) {
            let place = usize::try_from(buffer.offset()).ok().zip(usize::try_from(buffer.length()).ok());
            let place = place.and_then(|(start, length)| Some(start..start.checked_add(length)?));
            match place.filter(|place| place.end <= body_bytes) {
                Some(place) => needed.places.push(place),
                None => {
                    return Err(format!("a buffer of column `{}` lies outside of its message", field.name()));
                }
            }
        }
    }
    if layout.variadic.next().is_some() {
        return Err("it has more buffers of views than columns".to_owned());
    }
    Ok(needed)
}

impl NeededBuffers {
    /// Sees that what compressed buffers say of their content can be; `body` has the buffers in their places.
    pub(super) fn check_sizes(&self, body: &[u8]) -> Result<(), String> {
        if !self.is_compressed {
            return Ok(());
        }
        let mut all: u64 = 0;
        for place in self.places.iter().filter(|place| !place.is_empty()) {
            let Some((size, packed)) = body[place.clone()].split_first_chunk::<8>() else {
                return Err("a compressed buffer is shorter than its head".to_owned());
            };
            // -1 stands for a buffer that is not compressed.
            let size = match i64::from_le_bytes(*size) {
                -1 => continue,
                size => u64::try_from(size).unwrap_or(u64::MAX),
            };
            if size > (packed.len() as u64).saturating_mul(MAX_RATIO) {
                return Err(format!(
                    "a compressed buffer of {} bytes says that it holds {size}",
                    packed.len()
                ));
            }
            all = all.saturating_add(size);
        }
        if all > MAX_DECOMPRESSED {
            return Err(format!(
                "its columns take {all} bytes, more than {MAX_DECOMPRESSED}; write smaller record batches"
            ));
        }
        Ok(())
    }
}
