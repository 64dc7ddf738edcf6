//! Which window a row is in: the number of rows of each window, counted once and kept in a file.
//!
//! ```text
//! rows a window   [ 310,  305,  312 ]
//! rows before     [   0,  310,  615, 927 ]      row 700 is in window 2
//! ```
//!
//! The index is never needed to go on from a state. It is extended as far as a jump needs, and a file that is
//! missing, damaged or of another stream is only a reason to count again.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::fingerprint::Fingerprint;

/// First bytes of an index file; the digit is the version.
const MAGIC: &[u8; 8] = b"SQIOROW1";

/// Rows of the first windows of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowIndex {
    /// Rows before each known window, and after the last.
    before: Vec<u64>,
}

impl Default for RowIndex {
    fn default() -> Self {
        Self { before: vec![0] }
    }
}

impl RowIndex {
    /// Number of windows counted.
    pub(crate) fn num_windows(&self) -> u64 {
        self.before.len() as u64 - 1
    }

    /// Rows in all windows counted.
    pub(crate) fn num_rows(&self) -> u64 {
        *self.before.last().expect("there is always a first entry")
    }

    /// Rows before `window`, if that is known.
    pub(crate) fn rows_before(&self, window: u64) -> Option<u64> {
        self.before.get(usize::try_from(window).ok()?).copied()
    }

    /// The window that `row` is in, and the rows before it, if that is known.
    pub(crate) fn window_of(&self, row: u64) -> Option<(u64, u64)> {
        if row >= self.num_rows() {
            return None;
        }
        let window = self.before.partition_point(|before| *before <= row) - 1;
        Some((window as u64, self.before[window]))
    }

    /// Adds the rows of the next windows.
    pub(crate) fn extend(&mut self, rows: impl IntoIterator<Item = u32>) {
        let mut before = self.num_rows();
        for rows in rows {
            before += u64::from(rows);
            self.before.push(before);
        }
    }

    fn to_bytes(&self, stream: &Fingerprint) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(stream.as_bytes());
        bytes.extend_from_slice(&self.num_windows().to_le_bytes());
        for pair in self.before.windows(2) {
            let rows = u32::try_from(pair[1] - pair[0]).expect("rows were added as u32");
            bytes.extend_from_slice(&rows.to_le_bytes());
        }
        let sum = blake3::hash(&bytes);
        bytes.extend_from_slice(sum.as_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8], stream: &Fingerprint) -> Option<Self> {
        let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(32)?)?;
        let (magic, rest) = body.split_at_checked(8)?;
        let (owner, rest) = rest.split_at_checked(32)?;
        let (count, rows) = rest.split_at_checked(8)?;
        let count = u64::from_le_bytes(count.try_into().ok()?);
        let sound = magic == MAGIC
            && owner == stream.as_bytes()
            && sum == blake3::hash(body).as_bytes()
            && count.checked_mul(4) == Some(rows.len() as u64);
        sound.then(|| {
            let mut index = Self::default();
            index.extend(
                rows.chunks_exact(4).map(|rows| u32::from_le_bytes([rows[0], rows[1], rows[2], rows[3]])),
            );
            index
        })
    }
}

/// The folders in which the index of one stream may lie, best first.
#[derive(Clone, Debug, Default)]
pub(crate) struct IndexFile {
    pub(crate) folders: Vec<PathBuf>,
}

impl IndexFile {
    /// The longest sound index found, if any.
    pub(crate) fn load(&self, stream: &Fingerprint) -> Option<RowIndex> {
        self.folders
            .iter()
            .filter_map(|folder| fs::read(folder.join(file_name(stream))).ok())
            .filter_map(|bytes| RowIndex::from_bytes(&bytes, stream))
            .max_by_key(RowIndex::num_windows)
    }

    /// Writes the index to the first folder that takes it; with none it lives in memory only.
    pub(crate) fn save(&self, stream: &Fingerprint, index: &RowIndex) -> Option<PathBuf> {
        let bytes = index.to_bytes(stream);
        self.folders.iter().find_map(|folder| write_aside(folder, &file_name(stream), &bytes).ok())
    }
}

fn file_name(stream: &Fingerprint) -> String {
    format!("{stream}.rows")
}

/// Writes a file so that a reader sees all of it or nothing.
pub(crate) fn write_aside(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    fs::create_dir_all(folder)?;
    let aside =
        folder.join(format!(".{name}.{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    let target = folder.join(name);
    let written = fs::File::create(&aside)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&aside, &target));
    if let Err(error) = written {
        // Nothing is lost if it stays behind, so a failure to remove it is not worth a message.
        let _ = fs::remove_file(&aside);
        return Err(error);
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> Fingerprint {
        Fingerprint::of_bytes(b"ab")
    }

    fn index() -> RowIndex {
        let mut index = RowIndex::default();
        index.extend([310, 0, 305]);
        index.extend([312]);
        index
    }

    #[test]
    fn a_row_is_found_in_its_window_and_empty_windows_have_none() {
        let index = index();
        assert_eq!(index.window_of(0), Some((0, 0)));
        assert_eq!(index.window_of(309), Some((0, 0)));
        assert_eq!(index.window_of(310), Some((2, 310)));
        assert_eq!(index.window_of(926), Some((3, 615)));
        assert_eq!(index.window_of(927), None);
        assert_eq!((index.num_windows(), index.num_rows()), (4, 927));
        assert_eq!(RowIndex::default().window_of(0), None);
    }

    #[test]
    fn a_file_is_read_back_and_any_damage_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let file = IndexFile { folders: vec![folder.path().join("indexes")] };
        assert_eq!(file.load(&stream()), None);
        let path = file.save(&stream(), &index()).unwrap();
        assert_eq!(file.load(&stream()), Some(index()));
        let sound = fs::read(&path).unwrap();
        for place in 0..sound.len() {
            let mut damaged = sound.clone();
            damaged[place] ^= 1;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(file.load(&stream()), None, "byte {place}");
            fs::write(&path, &sound[..place]).unwrap();
            assert_eq!(file.load(&stream()), None, "cut at {place}");
        }
        let other = Fingerprint::of_bytes(b"cd");
        fs::write(folder.path().join("indexes").join(file_name(&other)), &sound).unwrap();
        assert_eq!(file.load(&other), None, "of another stream");
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let blocked = folder.path().join("file");
        fs::write(&blocked, "in the way").unwrap();
        let good = folder.path().join("good");
        let file = IndexFile { folders: vec![blocked.join("sub"), good.clone()] };
        let path = file.save(&stream(), &index()).unwrap();
        assert!(path.starts_with(&good));
        assert_eq!(file.load(&stream()), Some(index()));
        assert_eq!(IndexFile { folders: vec![blocked] }.save(&stream(), &index()), None);
    }
}
