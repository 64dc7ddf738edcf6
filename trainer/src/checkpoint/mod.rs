//! Checkpoints: named tensors on disk, and everything else that a run needs to go on exactly.
//!
//! ```text
//! <run>/checkpoints/step-00001000/parameters.safetensors
//!                                 optimizer.safetensors
//!                                 state.json    step, place in the data, configuration, metrics, hashes of the files
//! ```
//!
//! A checkpoint is written beside its place, as `step-00001000.tmp-…`, and renamed when all of it is on the disk. So
//! under its name it is whole, or it was damaged later; that is found by its hashes and told.
//!
//! - [`Saving`] writes one; [`Keep`] says which stay.
//! - [`latest`], [`list`] and [`Checkpoint::open`] find them.
//! - [`plan`] and [`restore`] bring tensors into a model, whole, without the optimizer, or renamed by an [`Assignment`].
//! - [`Safetensors`] and [`T5xCheckpoint`] are what tensors are read from: [`TensorSource`]s.

mod disk;
mod element;
mod error;
#[cfg(test)]
mod faults;
mod folder;
mod keep;
mod restore;
mod safetensors;
mod save;
mod state;
mod t5x;

use std::collections::BTreeSet;

use crate::shape::Shape;

pub use element::Element;
pub use error::{BoxError, CheckpointError};
pub use folder::{Checkpoint, Listed, latest, list, remove_after};
pub use keep::{Best, Keep, Mode};
pub use restore::{Assignment, Differences, Misshapen, Missing, Plan, Take, plan, restore};
pub use safetensors::{Safetensors, write_safetensors};
pub use save::Saving;
pub use state::RunState;
pub use t5x::T5xCheckpoint;

/// What is known of a tensor in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// The length of every axis.
    pub shape: Shape,
    /// What it is stored as.
    pub element: Element,
}

/// Named tensors that can be read one by one.
pub trait TensorSource {
    /// Where they are, for messages.
    fn origin(&self) -> String;

    /// The names, sorted.
    fn names(&self) -> Vec<&str>;

    /// What is known of a tensor.
    fn spec(&self, name: &str) -> Option<&TensorSpec>;

    /// The numbers of a tensor, row-major. Nothing of them is kept, and no second copy is made.
    fn read(&self, name: &str) -> Result<Vec<f32>, CheckpointError>;
}

/// The error about a tensor that is not in a source.
fn no_tensor(source: &dyn TensorSource, name: &str) -> CheckpointError {
    CheckpointError::NoTensor {
        origin: source.origin(),
        name: name.to_owned(),
        nearest: seqio::nearest(name, source.names()).map(str::to_owned),
    }
}

/// The tensors of a source whose names begin with a prefix, without it.
pub struct Under<'a> {
    source: &'a dyn TensorSource,
    prefix: String,
    names: BTreeSet<String>,
}

impl<'a> Under<'a> {
    /// Of `target/decoder/…` under `target/` comes `decoder/…`.
    pub fn new(source: &'a dyn TensorSource, prefix: &str) -> Self {
        let names = source.names().into_iter().filter_map(|name| name.strip_prefix(prefix));
        Self { source, prefix: prefix.to_owned(), names: names.map(str::to_owned).collect() }
    }

    /// Leaves out the tensors whose names, without the prefix, are not wanted.
    pub fn retain(&mut self, is_wanted: impl FnMut(&String) -> bool) {
        self.names.retain(is_wanted);
    }

    fn whole(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

impl TensorSource for Under<'_> {
    fn origin(&self) -> String {
        format!("{} under `{}`", self.source.origin(), self.prefix)
    }

    fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }

    fn spec(&self, name: &str) -> Option<&TensorSpec> {
        if self.names.contains(name) { self.source.spec(&self.whole(name)) } else { None }
    }

    fn read(&self, name: &str) -> Result<Vec<f32>, CheckpointError> {
        if self.names.contains(name) {
            self.source.read(&self.whole(name))
        } else {
            Err(no_tensor(self, name))
        }
    }
}

/// Room for so many floats, or words: a damaged length must not end the process.
fn zeros(elements: usize) -> Result<Vec<f32>, String> {
    let mut values = Vec::new();
    values.try_reserve_exact(elements).map_err(|_| format!("there is no memory for {elements} numbers"))?;
    values.resize(elements, 0.0);
    Ok(values)
}

/// The number of elements of a shape read from a file, unless no machine holds them.
fn checked_elements(dims: &[usize]) -> Option<usize> {
    let elements = dims.iter().try_fold(1usize, |product, dim| product.checked_mul(*dim))?;
    elements.checked_mul(8).filter(|bytes| *bytes <= isize::MAX as usize).map(|_| elements)
}
