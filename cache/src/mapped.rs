//! Files read in place. The one module of this crate with `unsafe` code.
//!
//! A map is sound while nobody shortens the file. Caches are written once, under another name, and never changed
//! after their rename; spills are read only under the lock of the job that wrote them. Someone who truncates a file of
//! a cache while a program reads it kills that program (SIGBUS), as with every memory-mapped format.
#![allow(unsafe_code)]

use std::fs::File;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow::buffer::Buffer;
use memmap2::Mmap;

use crate::error::CacheError;

// Numbers on disk are little-endian and read without a copy.
const _: () =
    assert!(cfg!(target_endian = "little"), "caches are read in place, so only on little-endian machines");

/// Maps a whole file. The buffer keeps the map alive.
pub(crate) fn map_file(path: &Path) -> Result<Buffer, CacheError> {
    let file = File::open(path).map_err(CacheError::io("read", path))?;
    let found = file.metadata().map_err(CacheError::io("read", path))?.len();
    if found == 0 {
        return Ok(Buffer::from_vec(Vec::<u8>::new()));
    }
    // SAFETY: the file is not written any more (see the head of this module).
    let map = unsafe { Mmap::map(&file) }.map_err(CacheError::io("map", path))?;
    let map = Arc::new(map);
    let bytes: &[u8] = &map;
    let length = bytes.len();
    let start = NonNull::from(bytes).cast::<u8>();
    // SAFETY: `start` points to `length` readable bytes that live as long as `map`, which the buffer owns; the
    // bytes of a read-only map are never written.
    Ok(unsafe { Buffer::from_custom_allocation(start, length, map) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_file_has_the_bytes_of_the_file_and_an_empty_one_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for content in [&b"some bytes"[..], b""] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(map_file(&path).unwrap().as_slice(), content);
        }
        assert!(map_file(&folder.path().join("absent")).is_err());
    }
}
