//! Nothing half-written is ever found under its final name.
//!
//! ```text
//! write `x.1f2e3d4c-0.tmp` -> (fsync) -> rename to `x` -> (fsync of the folder)
//! ```
//!
//! Spills are renamed without an fsync: they carry checksums, so one that a power cut has torn is found and redone.
//! Files of a cache are synced before the manifest is.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::CacheError;
use crate::layout::hex;
use crate::log::host_name;

/// Whether a commit has to survive a power cut, or only the death of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The file is checked before it is used again.
    Process,
    /// The file is synced to the disk.
    Disk,
}

/// The ending of a file while it is written.
pub(crate) const TEMPORARY: &str = ".tmp";

/// A file while it is written, under a name of its own: a worker that was thought dead writes into nobody else's file, nor
/// do two threads that make the same one.
#[derive(Debug)]
pub(crate) struct NewFile {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
}

impl NewFile {
    /// Begins the file that will be called `path`.
    pub(crate) fn create(path: &Path) -> Result<Self, CacheError> {
        static PROCESS: LazyLock<String> = LazyLock::new(|| {
            hex(&blake3::hash(format!("{} {}", host_name(), std::process::id()).as_bytes()).as_bytes()[..4])
        });
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}-{}{TEMPORARY}", *PROCESS, NEXT.fetch_add(1, Ordering::Relaxed)));
        let temporary = PathBuf::from(name);
        let file = File::create(&temporary).map_err(CacheError::io("create", &temporary))?;
        Ok(Self { file, temporary, path: path.to_owned() })
    }

    /// Where it is now.
    pub(crate) fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// What it will be called.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name.
    pub(crate) fn commit(self, durability: Durability) -> Result<(), CacheError> {
        let Self { file, temporary, path } = self;
        if durability == Durability::Disk {
            file.sync_all().map_err(CacheError::io("write", &temporary))?;
        }
        drop(file);
        fs::rename(&temporary, path).map_err(CacheError::io("rename", &temporary))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// Writes a whole file under its final name.
pub(crate) fn write(path: &Path, bytes: &[u8], durability: Durability) -> Result<(), CacheError> {
    let mut file = NewFile::create(path)?;
    file.write_all(bytes).map_err(CacheError::io("write", file.temporary()))?;
    file.commit(durability)
}

/// Makes renames in a folder last through a power cut.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), CacheError> {
    let handle = File::open(folder).map_err(CacheError::io("open", folder))?;
    handle.sync_all().map_err(CacheError::io("sync", folder))
}

/// Creates a folder with those above it.
pub(crate) fn create_folder(folder: &Path) -> Result<(), CacheError> {
    fs::create_dir_all(folder).map_err(CacheError::io("create", folder))
}

/// Deletes a file or a folder that need not exist.
pub(crate) fn remove(path: &Path) -> Result<(), CacheError> {
    let is_folder = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    let removed = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(CacheError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// JSON whose last line is a checksum of all above it, so that any flipped byte is found.
pub(crate) fn to_checked_json<T: Serialize>(value: &T) -> String {
    let json = serde_json::to_string_pretty(value).expect("maps with string keys and plain numbers");
    let body = json.strip_suffix("\n}").expect("a struct with fields");
    let head = format!("{body},\n");
    let checksum = hex(blake3::hash(head.as_bytes()).as_bytes());
    format!("{head}  \"checksum\": \"{checksum}\"\n}}\n")
}

/// Checks the last line of [`to_checked_json`] and gives the JSON without it.
pub(crate) fn checked_json(path: &Path, bytes: &[u8]) -> Result<serde_json::Value, CacheError> {
    let damaged = |problem: &str| CacheError::damaged(path, problem);
    let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is not UTF-8"))?;
    let at =
        text.rfind("  \"checksum\": \"").ok_or_else(|| damaged("its last line, the checksum, is missing"))?;
    let (head, last) = text.split_at(at);
    let checksum = hex(blake3::hash(head.as_bytes()).as_bytes());
    if last != format!("  \"checksum\": \"{checksum}\"\n}}\n") {
        return Err(damaged("its checksum, the last line, does not fit the lines above"));
    }
    let body = head.strip_suffix(",\n").ok_or_else(|| damaged("it is not laid out as it was written"))?;
    serde_json::from_str(&format!("{body}\n}}")).map_err(|error| damaged(&error.to_string()))
}

/// Reads JSON that [`to_checked_json`] wrote.
pub(crate) fn read_checked_json<T: DeserializeOwned>(path: &Path) -> Result<T, CacheError> {
    let bytes = fs::read(path).map_err(CacheError::io("read", path))?;
    let value = checked_json(path, &bytes)?;
    serde_json::from_value(value).map_err(|error| CacheError::damaged(path, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Record {
        name: String,
        parts: Vec<u32>,
    }

    #[test]
    fn any_flipped_byte_of_checked_json_is_found() {
        let record = Record { name: "checksum".to_owned(), parts: vec![1, 2] };
        let text = to_checked_json(&record);
        let path = Path::new("record.json");
        let back: Record = serde_json::from_value(checked_json(path, text.as_bytes()).unwrap()).unwrap();
        assert_eq!(back, record);
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                assert!(checked_json(path, &bytes).is_err(), "byte {at}, bit {bit}");
            }
            assert!(checked_json(path, &text.as_bytes()[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn a_file_appears_under_its_name_only_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.arrow");
        let mut file = NewFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        assert!(!path.exists());
        file.commit(Durability::Disk).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"half");
    }
}
