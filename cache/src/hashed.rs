//! A new file whose hash is known when it is whole.
//!
//! ```text
//! create `train.duplicates.jsonl`, write lines   ->   commit: the file under its name, its bytes, their blake3 hash
//! ```

use std::io::{BufWriter, Write};
use std::path::Path;

use crate::commit::{Durability, NewFile};
use crate::error::CacheError;
use crate::layout::hex;

/// A file that is hashed while it is written.
pub(crate) struct HashedFile {
    file: BufWriter<NewFile>,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl HashedFile {
    pub(crate) fn create(path: &Path) -> Result<Self, CacheError> {
        let file = BufWriter::with_capacity(1 << 16, NewFile::create(path)?);
        Ok(Self { file, hasher: blake3::Hasher::new(), bytes: 0 })
    }

    /// Gives the file its name; says how long it is, and its hash.
    pub(crate) fn commit(mut self, durability: Durability) -> Result<(u64, String), CacheError> {
        self.file.flush().map_err(CacheError::io("write", self.file.get_ref().path()))?;
        let (file, _) = self.file.into_parts();
        file.commit(durability)?;
        Ok((self.bytes, hex(self.hasher.finalize().as_bytes())))
    }
}

impl Write for HashedFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}
