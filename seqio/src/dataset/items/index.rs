//! The beginnings of item windows in a file, beside the index of rows: a jump need not count what was counted before.
//!
//! A file that is missing, damaged or of another stream is only a reason to count again.

use std::fs;

use crate::dataset::index::{IndexFile, write_aside};
use crate::dataset::items::anchors::Anchor;
use crate::fingerprint::Fingerprint;

/// First bytes of a file; the digit is the version.
const MAGIC: &[u8; 8] = b"SQIOITM1";

/// Bytes of one entry: five numbers.
const ENTRY: usize = 40;

/// The files in which the beginnings of one stream may lie.
pub(crate) struct AnchorFile<'a>(pub(crate) &'a IndexFile);

impl AnchorFile<'_> {
    /// The most that a sound file knows.
    pub(crate) fn load(&self, stream: &Fingerprint) -> Vec<Anchor> {
        let files = self.0.folders.iter().filter_map(|folder| fs::read(folder.join(file_name(stream))).ok());
        let known = files.filter_map(|bytes| from_bytes(&bytes, stream));
        known.max_by_key(Vec::len).unwrap_or_default()
    }

    /// Writes to the first folder that takes it, if that is more than what is there.
    pub(crate) fn save(&self, stream: &Fingerprint, known: &[Anchor]) {
        let bytes = to_bytes(stream, known);
        let name = file_name(stream);
        let shorter = |folder: &std::path::PathBuf| {
            fs::metadata(folder.join(&name)).is_ok_and(|there| there.len() >= bytes.len() as u64)
        };
        let _ =
            self.0.folders.iter().any(|folder| shorter(folder) || write_aside(folder, &name, &bytes).is_ok());
    }
}

fn file_name(stream: &Fingerprint) -> String {
    format!("{stream}.items")
}

fn to_bytes(stream: &Fingerprint, known: &[Anchor]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(stream.as_bytes());
    for anchor in known {
        let Anchor { epoch, base, window, group, skip } = anchor;
        [epoch, base, window, group, skip]
            .iter()
            .for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    }
    let sum = blake3::hash(&bytes);
    bytes.extend_from_slice(sum.as_bytes());
    bytes
}

fn from_bytes(bytes: &[u8], stream: &Fingerprint) -> Option<Vec<Anchor>> {
    let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(32)?)?;
    let (magic, rest) = body.split_at_checked(8)?;
    let (owner, entries) = rest.split_at_checked(32)?;
    let sound = magic == MAGIC
        && owner == stream.as_bytes()
        && sum == blake3::hash(body).as_bytes()
        && entries.len().is_multiple_of(ENTRY);
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
    let entry = |entry: &[u8]| {
        let mut numbers = entry.chunks_exact(8).map(number);
        let mut next = || numbers.next().unwrap_or_default();
        Anchor { epoch: next(), base: next(), window: next(), group: next(), skip: next() }
    };
    sound.then(|| entries.chunks_exact(ENTRY).map(entry).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_back_and_any_damage_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let file = IndexFile { folders: vec![folder.path().to_owned()] };
        let file = AnchorFile(&file);
        let stream = Fingerprint::of_bytes(b"ab");
        let known = [Anchor::epoch(0, 0), Anchor { epoch: 1, base: 9, window: 2, group: 5, skip: 3 }];
        file.save(&stream, &known);
        assert_eq!(file.load(&stream), known);
        file.save(&stream, &known[..1]);
        assert_eq!(file.load(&stream), known, "what is known already is kept");
        let path = folder.path().join(file_name(&stream));
        let sound = fs::read(&path).unwrap();
        for place in 0..sound.len() {
            let mut damaged = sound.clone();
            damaged[place] ^= 1;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(file.load(&stream), [], "byte {place}");
        }
        assert_eq!(file.load(&Fingerprint::of_bytes(b"cd")), []);
    }
}
