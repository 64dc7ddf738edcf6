//! A compute shader's entry point, and one dispatch of it.

use crate::program::Place;
use crate::shape::{Shape, Spec};

/// An entry point of a shader.
///
/// By convention binding 0 of group 0 is a uniform struct of four-byte words, bindings 1, 2, … are storage buffers in
/// the order in which they are handed over.
#[derive(Debug)]
pub struct Kernel {
    /// Its name in errors and timelines.
    pub name: &'static str,
    /// Pieces of WGSL, one after the other; `PRELUDE` first where its functions are used.
    pub source: &'static [&'static str],
    /// The function.
    pub entry: &'static str,
}

/// WGSL functions that many kernels use.
pub const PRELUDE: &str = include_str!("prelude.wgsl");

/// What a device is like, as far as kernels care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// It is a processor in disguise: barriers and workgroup memory are slow, registers are not.
    pub software: bool,
    /// Bytes of workgroup memory.
    pub workgroup_bytes: u32,
    /// Invocations of a workgroup.
    pub workgroup_invocations: u32,
}

/// A buffer of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferRef(pub(crate) Place);

/// One run of a kernel.
#[derive(Clone, Debug)]
pub(crate) struct Dispatch {
    pub(crate) kernel: &'static Kernel,
    pub(crate) constants: Vec<(&'static str, f64)>,
    pub(crate) buffers: Vec<BufferRef>,
    pub(crate) params: Vec<u32>,
    pub(crate) groups: [u32; 3],
}

/// What an operation records its dispatches with. An overwritten input is the same buffer as its output.
#[derive(Debug)]
pub struct GpuArgs<'a> {
    pub(crate) traits: Traits,
    pub(crate) inputs: &'a [(Place, Spec)],
    pub(crate) outputs: &'a [(Place, Spec)],
    pub(crate) dispatches: Vec<Dispatch>,
}

impl GpuArgs<'_> {
    /// What the device is like.
    pub fn traits(&self) -> Traits {
        self.traits
    }

    /// How many inputs there are.
    pub fn num_inputs(&self) -> usize {
        self.inputs.len()
    }

    /// The buffer of input `i`.
    pub fn input(&self, i: usize) -> BufferRef {
        BufferRef(self.inputs[i].0)
    }

    /// The buffer of output `i`.
    pub fn output(&self, i: usize) -> BufferRef {
        BufferRef(self.outputs[i].0)
    }

    /// The shape of input `i`.
    pub fn shape(&self, i: usize) -> &Shape {
        &self.inputs[i].1.shape
    }

    /// The shape of output `i`.
    pub fn output_shape(&self, i: usize) -> &Shape {
        &self.outputs[i].1.shape
    }

    /// Runs `kernel` on `groups` workgroups. `params` fill its uniform struct; floats go in by `f32::to_bits`.
    pub fn dispatch(
        &mut self,
        kernel: &'static Kernel,
        buffers: &[BufferRef],
        params: &[u32],
        groups: [u32; 3],
    ) {
        self.dispatch_with(kernel, &[], buffers, params, groups);
    }

    /// The same, with values for the kernel's `override` constants.
    pub fn dispatch_with(
        &mut self,
        kernel: &'static Kernel,
        constants: &[(&'static str, f64)],
        buffers: &[BufferRef],
        params: &[u32],
        groups: [u32; 3],
    ) {
        self.dispatches.push(Dispatch {
            kernel,
            constants: constants.to_vec(),
            buffers: buffers.to_vec(),
            params: params.to_vec(),
            groups,
        });
    }
}

/// Enough workgroups of `size` invocations for one invocation an element, as x and y: no axis may be longer than 65,535.
/// `linear_index` of the prelude is its inverse.
pub fn linear_groups(elements: usize, size: usize) -> [u32; 3] {
    let groups = elements.div_ceil(size).max(1) as u32;
    let x = groups.min(32_768);
    [x, groups.div_ceil(x), 1]
}
