//! Saving a checkpoint: beside its place, then under its name.
//!
//! ```text
//! step-00001000.tmp-…/parameters.safetensors, optimizer.safetensors, state.json   (each synced)
//!   -> step-00001000   (the folder synced before, the one around it after)
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::checkpoint::disk::{self, FileRecord, NewFile};
use crate::checkpoint::error::{BoxError, CheckpointError};
use crate::checkpoint::folder::{self, Lock, OPTIMIZER, PARAMETERS};
use crate::checkpoint::safetensors;
use crate::checkpoint::state::{Recorded, RunState, STATE};
use crate::shape::Shape;

/// A checkpoint while it is written. Dropped before [`commit`](Self::commit), it leaves nothing.
#[derive(Debug)]
pub struct Saving {
    aside: PathBuf,
    path: PathBuf,
    state: RunState,
    files: BTreeMap<String, FileRecord>,
    is_aside: bool,
    _lock: Lock,
}

impl Saving {
    /// Begins the checkpoint of this state in the folder of a run; removes what killed writers left there.
    pub fn begin(run: &Path, state: RunState) -> Result<Self, CheckpointError> {
        let folder = folder::checkpoints(run);
        let lock = folder::lock(&folder)?;
        folder::remove_leftovers(&folder)?;
        let name = folder::name_of(state.step);
        let path = folder.join(&name);
        if folder::is_pinned(&path) {
            return Err(CheckpointError::Pinned { path });
        }
        let aside = folder.join(format!("{name}{}", disk::suffix()));
        disk::create_folder(&aside)?;
        Ok(Self { aside, path, state, files: BTreeMap::new(), is_aside: true, _lock: lock })
    }

    /// Writes the parameters, in this order; `read` hands over one at a time.
    pub fn parameters(
        &mut self,
        tensors: &[(String, Shape)],
        read: impl FnMut(&str) -> Result<Vec<f32>, BoxError>,
    ) -> Result<(), CheckpointError> {
        self.tensors(PARAMETERS, tensors, read)
    }

    /// Writes the state of the optimizer, in this order; `read` hands over one at a time.
    pub fn optimizer(
        &mut self,
        tensors: &[(String, Shape)],
        read: impl FnMut(&str) -> Result<Vec<f32>, BoxError>,
    ) -> Result<(), CheckpointError> {
        self.tensors(OPTIMIZER, tensors, read)
    }

    fn tensors(
        &mut self,
        name: &str,
        tensors: &[(String, Shape)],
        read: impl FnMut(&str) -> Result<Vec<f32>, BoxError>,
    ) -> Result<(), CheckpointError> {
        let path = self.aside.join(name);
        let mut file = NewFile::create(&path)?;
        safetensors::write(&mut file, &path, tensors, &BTreeMap::new(), read)?;
        self.files.insert(name.to_owned(), file.finish()?);
        Ok(())
    }

    /// Gives the checkpoint its name, in place of one of the same step if there is one. Says what it is called.
    pub fn commit(mut self) -> Result<PathBuf, CheckpointError> {
        let recorded =
            Recorded { state: std::mem::take(&mut self.state), files: std::mem::take(&mut self.files) };
        let mut file = NewFile::create(&self.aside.join(STATE))?;
        file.append(recorded.to_text().as_bytes())?;
        file.finish()?;
        disk::sync_folder(&self.aside)?;
        let is_replacing = self.path.exists();
        if is_replacing {
            disk::exchange(&self.aside, &self.path)?;
        } else {
            disk::rename(&self.aside, &self.path)?;
            self.is_aside = false;
        }
        // The folder of checkpoints may be new too.
        for folder in self.path.ancestors().skip(1).take(2) {
            disk::sync_folder(folder)?;
        }
        Ok(self.path.clone())
    }
}

impl Drop for Saving {
    fn drop(&mut self) {
        if self.is_aside {
            // What cannot be removed now is removed at the next save.
            let _ = folder::remove_aside(&self.aside);
        }
    }
}
