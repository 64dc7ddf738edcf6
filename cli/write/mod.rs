//! Batches as bytes: the formats of `seqio stream`.

mod arrow;
mod jsonl;
mod npy;

use std::io::Write;
use std::path::Path;

use anyhow::Context as _;
use seqio::Batch;

pub(crate) use self::arrow::ArrowStream;
pub(crate) use self::jsonl::JsonLines;
pub(crate) use self::npy::NpyFolder;

/// Writes the batches of a stream one after the other. After `write` the batch has left this program.
pub(crate) trait BatchWriter {
    /// Writes one batch.
    fn write(&mut self, batch: &Batch) -> anyhow::Result<()>;

    /// Ends the stream.
    fn finish(&mut self) -> anyhow::Result<()>;
}

/// Makes a file, and says which if it cannot.
pub(crate) fn create(path: &Path) -> anyhow::Result<std::fs::File> {
    std::fs::File::create(path).with_context(|| format!("cannot write `{}`", path.display()))
}

/// Whether a file must outlive a crash of the machine, and not just of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durable {
    /// It is written often, and soon again.
    No,
    /// It is written for the last time.
    Yes,
}

/// Replaces `path` in one step: whoever reads it sees the old content or the new, never a part.
pub(crate) fn write_atomically(path: &Path, content: &[u8], durable: Durable) -> anyhow::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = std::fs::File::create(&temporary)
        .and_then(|mut file| {
            file.write_all(content)?;
            if durable == Durable::Yes { file.sync_data() } else { Ok(()) }
        })
        .and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written.with_context(|| format!("cannot write `{}`", path.display()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use seqio::{Array, Values};

    /// Two rows of three tokens, the second a filler.
    pub(crate) fn tiny_batch(step: u64) -> Batch {
        let array = |name: &str, length, values| Array { name: name.to_owned(), length, values };
        Batch {
            step,
            first_row: 2 * step,
            num_rows: 2,
            arrays: vec![
                array("decoder_loss_weights", 3, Values::F32(vec![1.0, 1.0, 0.0, 0.0, 0.0, 0.0])),
                array("decoder_target_tokens", 3, Values::I32(vec![7, 1, 0, 0, 0, 0])),
                array("row_valid", 0, Values::I32(vec![1, 0])),
            ],
        }
    }

    #[test]
    fn a_file_is_replaced_in_one_step_and_a_failure_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        write_atomically(&path, b"one", Durable::No).unwrap();
        write_atomically(&path, b"two", Durable::Yes).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let error = write_atomically(&folder.path().join("no/state.json"), b"x", Durable::No).unwrap_err();
        assert!(error.to_string().ends_with("no/state.json`"), "{error}");
    }
}
