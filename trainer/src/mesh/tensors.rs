//! A rank's numbers, wherever they are.

use std::error::Error;

/// Why numbers could not be fetched or delivered.
pub type Failure = Box<dyn Error + Send + Sync>;

/// The tensors of a message on one rank, fetched and delivered piece by piece.
///
/// Tensors are counted as in the message; pieces of each kind come in ascending order of tensor and element, without
/// gaps. Fetching and delivering take turns: what is delivered may be where it was fetched from if inputs and results
/// have one shape, since no number is delivered before it was fetched.
pub trait Tensors {
    /// Fills `into` with numbers of an input, from element `at` on.
    fn fetch(&mut self, tensor: usize, at: usize, into: &mut [f32]) -> Result<(), Failure>;

    /// Takes numbers of a result, from element `at` on.
    fn deliver(&mut self, tensor: usize, at: usize, from: &[f32]) -> Result<(), Failure>;
}

/// Tensors in memory of the host; integers as the bits of floats.
#[derive(Debug)]
pub struct HostTensors<'a> {
    /// Empty where results replace inputs.
    inputs: Vec<&'a [f32]>,
    results: Vec<&'a mut [f32]>,
}

impl<'a> HostTensors<'a> {
    /// Inputs, and where results go.
    pub fn new(inputs: Vec<&'a [f32]>, results: Vec<&'a mut [f32]>) -> Self {
        Self { inputs, results }
    }

    /// Inputs that results replace.
    pub fn in_place(tensors: Vec<&'a mut [f32]>) -> Self {
        Self { inputs: Vec::new(), results: tensors }
    }
}

impl Tensors for HostTensors<'_> {
    fn fetch(&mut self, tensor: usize, at: usize, into: &mut [f32]) -> Result<(), Failure> {
        let input = match self.inputs.get(tensor) {
            Some(input) => Some(*input),
            None if self.inputs.is_empty() => self.results.get(tensor).map(|result| &**result),
            None => None,
        };
        let part = input.and_then(|input| input.get(at..at + into.len()));
        into.copy_from_slice(part.ok_or_else(|| missing("input", tensor, at + into.len()))?);
        Ok(())
    }

    fn deliver(&mut self, tensor: usize, at: usize, from: &[f32]) -> Result<(), Failure> {
        let part = self.results.get_mut(tensor).and_then(|result| result.get_mut(at..at + from.len()));
        part.ok_or_else(|| missing("result", tensor, at + from.len()))?.copy_from_slice(from);
        Ok(())
    }
}

fn missing(what: &str, tensor: usize, elements: usize) -> Failure {
    format!("{what} {tensor} is smaller than the {elements} elements that are needed").into()
}
