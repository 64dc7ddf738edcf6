//! Batches to files: an Arrow IPC file with a checksum for each batch, and a shard of three files.
//!
//! ```text
//! train-00000-of-00016.arrow     the batches
//! train-00000-of-00016.lengths   all lengths of the first token feature, then of the second, ... as u32
//! train-00000-of-00016.sums      a batch: offset u64, length u32, rows u32, checksum 16 bytes;
//!                                then the checksums of head, tail and lengths file
//! ```

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Schema;
use arrow::ipc::writer::FileWriter;

use crate::columns::StoredColumns;
use crate::commit::{self, Durability, NewFile};
use crate::compression::Compression;
use crate::error::CacheError;
use crate::layout::{hex, shard_file};
use crate::manifest::ShardEntry;
use crate::stats::LengthCounts;

/// The first half of a blake3 hash.
pub(crate) type Sum = [u8; 16];

/// The checksum of some bytes of a file.
pub(crate) fn sum(bytes: &[u8]) -> Sum {
    let mut sum = [0; 16];
    sum.copy_from_slice(&blake3::hash(bytes).as_bytes()[..16]);
    sum
}

/// What `.sums` says of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchSum {
    /// Where its message begins.
    pub(crate) offset: u64,
    /// Bytes of its message.
    pub(crate) length: u32,
    /// Its rows.
    pub(crate) rows: u32,
    /// Checksum of its message.
    pub(crate) sum: Sum,
}

impl BatchSum {
    /// Bytes of an entry.
    pub(crate) const BYTES: usize = 32;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&self.rows.to_le_bytes());
        out.extend_from_slice(&self.sum);
    }

    fn read(entry: &[u8]) -> Self {
        Self {
            offset: u64::from_le_bytes(entry[..8].try_into().expect("eight bytes")),
            length: u32::from_le_bytes(entry[8..12].try_into().expect("four bytes")),
            rows: u32::from_le_bytes(entry[12..16].try_into().expect("four bytes")),
            sum: entry[16..32].try_into().expect("sixteen bytes"),
        }
    }
}

/// A whole `.sums` file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// One for each batch.
    pub(crate) batches: Vec<BatchSum>,
    /// Of the bytes before the first batch.
    pub(crate) head: Sum,
    /// Of the bytes after the last batch.
    pub(crate) tail: Sum,
    /// Of the lengths file.
    pub(crate) lengths: Sum,
}

impl Sums {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BatchSum::BYTES * self.batches.len() + 48);
        for batch in &self.batches {
            batch.write(&mut bytes);
        }
        for sum in [&self.head, &self.tail, &self.lengths] {
            bytes.extend_from_slice(sum);
        }
        bytes
    }

    /// `None` if the length is wrong.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (entries, last) = bytes.split_at_checked(bytes.len().checked_sub(48)?)?;
        if entries.len() % BatchSum::BYTES != 0 {
            return None;
        }
        let three = |index: usize| last[16 * index..16 * (index + 1)].try_into().expect("sixteen bytes");
        Some(Self {
            batches: entries.chunks_exact(BatchSum::BYTES).map(BatchSum::read).collect(),
            head: three(0),
            tail: three(1),
            lengths: three(2),
        })
    }
}

/// An Arrow IPC file being written under its temporary name.
pub(crate) struct TableWriter {
    arrow: FileWriter<Vec<u8>>,
    file: NewFile,
    position: u64,
    checksums: Checksums,
    sums: Sums,
}

/// Which checksums are wanted of a file.
enum Checksums {
    /// None.
    No,
    /// One of each batch.
    Batches,
    /// One of all its bytes.
    Whole(Box<blake3::Hasher>),
}

/// A file whose bytes are written, still under its temporary name.
pub(crate) struct WrittenTable {
    file: NewFile,
    pub(crate) bytes: u64,
    pub(crate) checksum: Option<[u8; 32]>,
    pub(crate) sums: Sums,
}

impl TableWriter {
    /// Begins a file with a checksum for each batch.
    fn create_summed(path: &Path, schema: &Schema, compression: Compression) -> Result<Self, CacheError> {
        Self::new(path, schema, Checksums::Batches, compression)
    }

    /// Begins a file with one checksum for all of it.
    pub(crate) fn create_hashed(path: &Path, schema: &Schema) -> Result<Self, CacheError> {
        Self::new(path, schema, Checksums::Whole(Box::default()), Compression::None)
    }

    /// Begins a file without checksums.
    pub(crate) fn create(path: &Path, schema: &Schema) -> Result<Self, CacheError> {
        Self::new(path, schema, Checksums::No, Compression::None)
    }

    fn new(
        path: &Path,
        schema: &Schema,
        checksums: Checksums,
        compression: Compression,
    ) -> Result<Self, CacheError> {
        let file = NewFile::create(path)?;
        let arrow = FileWriter::try_new_with_options(Vec::new(), schema, compression.write_options()?)?;
        let mut writer = Self { arrow, file, position: 0, checksums, sums: Sums::default() };
        writer.sums.head = writer.put()?.1;
        Ok(writer)
    }

    /// Appends a batch.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), CacheError> {
        let offset = self.position;
        self.arrow.write(batch)?;
        let (length, sum) = self.put()?;
        let too_long = || arrow::error::ArrowError::OffsetOverflowError(length);
        let length = u32::try_from(length).map_err(|_| too_long())?;
        let rows = u32::try_from(batch.num_rows()).expect("a batch closes at 1,024 rows");
        self.sums.batches.push(BatchSum { offset, length, rows, sum });
        Ok(())
    }

    /// Writes the footer.
    pub(crate) fn finish(mut self) -> Result<WrittenTable, CacheError> {
        self.arrow.finish()?;
        let end = self.put()?;
        if self.sums.batches.is_empty() {
            // Without a batch the whole file is its head.
            self.sums.head = sum_of_file(self.file.temporary())?;
            self.sums.tail = sum(b"");
        } else {
            self.sums.tail = end.1;
        }
        Ok(WrittenTable {
            file: self.file,
            bytes: self.position,
            checksum: match self.checksums {
                Checksums::Whole(hasher) => Some(*hasher.finalize().as_bytes()),
                Checksums::No | Checksums::Batches => None,
            },
            sums: self.sums,
        })
    }

    /// Moves what Arrow has encoded to the file.
    fn put(&mut self) -> Result<(usize, Sum), CacheError> {
        let bytes = self.arrow.get_mut();
        let mut checksum = Sum::default();
        match &mut self.checksums {
            Checksums::No => {}
            Checksums::Batches => checksum = sum(bytes),
            Checksums::Whole(hasher) => {
                hasher.update(bytes);
            }
        }
        self.file.write_all(bytes).map_err(CacheError::io("write", self.file.temporary()))?;
        let length = bytes.len();
        self.position += length as u64;
        bytes.clear();
        Ok((length, checksum))
    }
}

fn sum_of_file(path: &Path) -> Result<Sum, CacheError> {
    let read = |path: &Path| -> io::Result<Vec<u8>> { std::fs::read(path) };
    Ok(sum(&read(path).map_err(CacheError::io("read", path))?))
}

impl WrittenTable {
    /// Gives the file its final name.
    pub(crate) fn commit(self, durability: Durability) -> Result<(), CacheError> {
        self.file.commit(durability)
    }
}

/// A shard being written: its three files appear together when it is finished.
pub(crate) struct ShardWriter<'a> {
    columns: &'a StoredColumns,
    table: TableWriter,
    folder: PathBuf,
    stem: String,
    lengths: Vec<Vec<u32>>,
}

impl<'a> ShardWriter<'a> {
    pub(crate) fn create(
        folder: &Path,
        stem: &str,
        columns: &'a StoredColumns,
        compression: Compression,
    ) -> Result<Self, CacheError> {
        let path = shard_file(folder, stem, "arrow");
        let table = TableWriter::create_summed(&path, &columns.shard, compression)?;
        let lengths = vec![Vec::new(); columns.tokens.len()];
        Ok(Self { columns, table, folder: folder.to_owned(), stem: stem.to_owned(), lengths })
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), CacheError> {
        for (lengths, token) in self.lengths.iter_mut().zip(&self.columns.tokens) {
            let offsets = batch.column(token.index).as_list::<i32>().value_offsets();
            lengths.extend(offsets.windows(2).map(|ends| (ends[1] - ends[0]) as u32));
        }
        self.table.write(batch)
    }

    /// Commits the three files and gives the shard's line in the manifest, and its lengths counted.
    pub(crate) fn finish(self) -> Result<(ShardEntry, Vec<LengthCounts>), CacheError> {
        let lengths: Vec<u8> =
            self.lengths.iter().flatten().flat_map(|length| length.to_le_bytes()).collect();
        let mut table = self.table.finish()?;
        table.sums.lengths = sum(&lengths);
        let sums = table.sums.to_bytes();
        let entry = ShardEntry {
            name: self.stem.clone(),
            examples: table.sums.batches.iter().map(|batch| u64::from(batch.rows)).sum(),
            batches: table.sums.batches.len() as u64,
            arrow_bytes: table.bytes,
            lengths_bytes: lengths.len() as u64,
            sums_blake3: hex(blake3::hash(&sums).as_bytes()),
        };
        let path = |ending| shard_file(&self.folder, &self.stem, ending);
        commit::write(&path("lengths"), &lengths, Durability::Disk)?;
        commit::write(&path("sums"), &sums, Durability::Disk)?;
        table.commit(Durability::Disk)?;
        let counts = self.lengths.iter().map(|lengths| LengthCounts::of(lengths)).collect();
        Ok((entry, counts))
    }
}
