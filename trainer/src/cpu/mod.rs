//! Running programs on the host: every operation's plain implementation, on rayon's threads.

mod engine;
pub(crate) mod gemm;
pub mod math;

pub use engine::CpuEngine;

use crate::shape::Spec;

/// Elements that one task of an element-wise operation takes: the cut depends on nothing but the shape.
pub const CHUNK: usize = 1 << 14;

/// What an operation works on. Overwritten inputs are not here: their numbers are in the outputs.
#[derive(Debug)]
pub struct CpuArgs<'a> {
    pub(crate) inputs: Vec<&'a [f32]>,
    pub(crate) input_specs: Vec<&'a Spec>,
    pub(crate) outputs: Vec<&'a mut [f32]>,
    pub(crate) output_specs: Vec<&'a Spec>,
}

impl<'a> CpuArgs<'a> {
    /// How many inputs there are.
    pub fn num_inputs(&self) -> usize {
        self.inputs.len()
    }

    /// The numbers of input `i`.
    pub fn input(&self, i: usize) -> &'a [f32] {
        self.inputs[i]
    }

    /// The integers of input `i`.
    pub fn ints(&self, i: usize) -> &'a [i32] {
        bytemuck::cast_slice(self.inputs[i])
    }

    /// The axes of input `i`.
    pub fn dims(&self, i: usize) -> &'a [usize] {
        self.input_specs[i].shape.dims()
    }

    /// The axes of output `i`.
    pub fn output_dims(&self, i: usize) -> &'a [usize] {
        self.output_specs[i].shape.dims()
    }

    /// The place for output `i`; empty when asked for again.
    pub fn output(&mut self, i: usize) -> &'a mut [f32] {
        std::mem::take(&mut self.outputs[i])
    }
}
