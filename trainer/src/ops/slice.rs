//! Runs of a tensor at equal distances, and their way back: what [`Select`](super::Select) and [`Rows`](super::Rows)
//! have in common.
//!
//! ```text
//! ..[run]....  ..[run]....  ..[run]....        `stride` elements each, the run after `offset` of them
//! ```

use rayon::prelude::*;

use crate::cpu::CpuArgs;
use crate::gpu::{GpuArgs, Kernel, PRELUDE, linear_groups};
use crate::op::Op;
use crate::shape::{Kind, Shape, Spec};
use crate::tape::{Recorded, Tape, TapeError, Var};

const SOURCE: &[&str] = &[PRELUDE, include_str!("slice.wgsl")];
/// The runs of the first buffer are all of the second.
pub(crate) static SLICE: Kernel = Kernel { name: "slice", source: SOURCE, entry: "slice" };
static UNSLICE: Kernel = Kernel { name: "unslice", source: SOURCE, entry: "unslice" };
/// They are added to all of the second.
pub(crate) static ADD_RUNS: Kernel = Kernel { name: "slice", source: SOURCE, entry: "add" };
/// All of the first are the runs of the second.
pub(crate) static PLACE_RUNS: Kernel = Kernel { name: "slice", source: SOURCE, entry: "place" };

/// Which elements: of every `stride` of them, `run` after the first `offset`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Runs {
    pub(crate) offset: usize,
    pub(crate) run: usize,
    pub(crate) stride: usize,
}

impl Runs {
    pub(super) fn cpu(self, args: &mut CpuArgs<'_>) {
        let (from, to) = (args.input(0), args.output(0));
        let runs = to.par_chunks_mut(self.run.max(1)).zip(from.par_chunks(self.stride.max(1)));
        runs.for_each(|(to, from)| to.copy_from_slice(&from[self.offset..self.offset + self.run]));
    }

    pub(super) fn gpu(self, args: &mut GpuArgs<'_>) {
        let elements = args.output_shape(0).elements();
        let buffers = [args.input(0), args.output(0)];
        args.dispatch(&SLICE, &buffers, &self.params(elements), linear_groups(elements, 64));
    }

    /// Records the gradient of a tensor of this shape, of which they were taken.
    pub(super) fn backward(
        self,
        tape: &mut Tape,
        of: &Shape,
        gradients: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        let Some(gradient) = gradients[0] else { return Ok(vec![None]) };
        Ok(vec![Some(tape.record(Unslice { runs: self, shape: of.clone() }, &[gradient])?)])
    }

    /// The uniform struct of the kernels, for so many elements in all runs.
    pub(crate) fn params(self, elements: usize) -> [u32; 4] {
        [elements as u32, self.offset as u32, self.run as u32, self.stride as u32]
    }
}

/// The runs put back among zeros.
#[derive(Clone, Debug, PartialEq)]
struct Unslice {
    runs: Runs,
    shape: Shape,
}

impl Op for Unslice {
    fn name(&self) -> &'static str {
        "unslice"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        let runs = self.shape.elements().checked_div(self.runs.stride).unwrap_or(0);
        match inputs {
            [x] if x.kind == Kind::F32 && x.shape.elements() == runs * self.runs.run => {
                Ok(vec![Spec::f32(self.shape.clone())])
            }
            _ => Err(format!("it takes {runs} runs of {} floats", self.runs.run)),
        }
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let (from, to) = (args.input(0), args.output(0));
        let Runs { offset, run, stride } = self.runs;
        let runs = to.par_chunks_mut(stride.max(1)).zip(from.par_chunks(run.max(1)));
        runs.for_each(|(to, from)| {
            to[..offset].fill(0.0);
            to[offset..offset + run].copy_from_slice(from);
            to[offset + run..].fill(0.0);
        });
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let elements = args.output_shape(0).elements();
        let buffers = [args.input(0), args.output(0)];
        args.dispatch(&UNSLICE, &buffers, &self.runs.params(elements), linear_groups(elements, 64));
    }

    fn backward(
        &self,
        tape: &mut Tape,
        node: &Recorded,
        _: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        Err(tape.mismatch(self.name(), &node.inputs, "it is not differentiated again".to_owned()))
    }
}
