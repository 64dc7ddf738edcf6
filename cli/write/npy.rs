//! A folder of NumPy files, one for each step and feature: `step-00000012.decoder_target_tokens.npy`.
//!
//! ```text
//! np.load("out/step-00000012.decoder_target_tokens.npy").shape   -> (8, 2048)
//! ```

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use seqio::{Array, Batch, Values};

use super::{BatchWriter, create};

/// Writes NumPy files into a folder.
#[derive(Debug)]
pub(crate) struct NpyFolder {
    folder: PathBuf,
    bytes: Vec<u8>,
}

impl NpyFolder {
    /// Makes the folder if need be.
    pub(crate) fn create(folder: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder `{}`", folder.display()))?;
        Ok(Self { folder: folder.to_owned(), bytes: Vec::new() })
    }
}

impl BatchWriter for NpyFolder {
    fn write(&mut self, batch: &Batch) -> anyhow::Result<()> {
        for array in &batch.arrays {
            encode(array, batch.num_rows, &mut self.bytes);
            let path = self.folder.join(format!("step-{:08}.{}.npy", batch.step, array.name));
            let temporary = path.with_extension("npy.tmp");
            let written = create(&temporary)?.write_all(&self.bytes);
            written
                .and_then(|()| std::fs::rename(&temporary, &path))
                .with_context(|| format!("cannot write `{}`", path.display()))?;
        }
        Ok(())
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Version 1.0 of the format: magic, version, length of the header, header padded to 64 bytes, numbers.
fn encode(array: &Array, rows: usize, bytes: &mut Vec<u8>) {
    let kind = match array.values {
        Values::I32(_) => "<i4",
        Values::F32(_) => "<f4",
    };
    let shape = match array.length {
        0 => format!("({rows},)"),
        length => format!("({rows}, {length})"),
    };
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    const BEFORE_HEADER: usize = 10;
    let end = (BEFORE_HEADER + header.len() + 1).next_multiple_of(64);
    header.extend(std::iter::repeat_n(' ', end - BEFORE_HEADER - header.len() - 1));
    header.push('\n');
    bytes.clear();
    bytes.extend_from_slice(b"\x93NUMPY\x01\x00");
    bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    match &array.values {
        Values::I32(values) => values.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes())),
        Values::F32(values) => values.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::tests::tiny_batch;

    #[test]
    fn each_feature_of_a_step_is_a_file_that_numpy_reads() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = NpyFolder::create(&folder.path().join("out")).unwrap();
        writer.write(&tiny_batch(12)).unwrap();
        writer.finish().unwrap();
        let read = |name: &str| std::fs::read(folder.path().join("out").join(name)).unwrap();

        let tokens = read("step-00000012.decoder_target_tokens.npy");
        assert_eq!(&tokens[..10], b"\x93NUMPY\x01\x00\x76\x00");
        let header = std::str::from_utf8(&tokens[10..128]).unwrap();
        assert_eq!(header.trim_end(), "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }");
        assert!(header.ends_with('\n'));
        let numbers: Vec<i32> =
            tokens[128..].chunks(4).map(|four| i32::from_le_bytes(four.try_into().unwrap())).collect();
        assert_eq!(numbers, [7, 1, 0, 0, 0, 0]);

        let valid = read("step-00000012.row_valid.npy");
        assert!(String::from_utf8_lossy(&valid).contains("'shape': (2,)"));
        assert_eq!(std::fs::read_dir(folder.path().join("out")).unwrap().count(), 3);
    }
}
