//! Adafactor's update of a parameter that has a second moment for every element.
//!
//! ```text
//! v ← decay · v + (1 − decay) · (gradient² + ε)
//! parameter ← (1 − weight decay) · parameter − step size · gradient / √v
//! ```

use rayon::prelude::*;

use crate::cpu::{CHUNK, CpuArgs};
use crate::gpu::{BufferRef, GpuArgs, Kernel, PRELUDE, linear_groups};
use crate::op::Op;
use crate::ops::optimizer::factored::params;
use crate::ops::optimizer::layout::total;
use crate::ops::optimizer::{APPLY_SOURCE, COMMON, Change, Layout, SCALARS};
use crate::ops::reduction::{REDUCTION, Reduction};
use crate::shape::Spec;
use crate::tape::{Recorded, Tape, TapeError, Var};

const SOURCE: &[&str] = &[PRELUDE, REDUCTION, COMMON, include_str!("unfactored.wgsl"), APPLY_SOURCE];
static MOMENT: Kernel = Kernel { name: "unfactored", source: SOURCE, entry: "moment" };
static APPLY: Kernel = Kernel { name: "unfactored", source: SOURCE, entry: "apply" };
static APPLY_WITH_MOMENTUM: Kernel =
    Kernel { name: "unfactored", source: SOURCE, entry: "apply_with_momentum" };

/// Changes the second moments, and sums the squares of the update for each of the parameters that are stacked:
/// `v, gradient, scale f32[1], scalars -> v, f32[B]`. The update is that of the gradient as it came, not scaled.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnfactoredMoment {
    pub(crate) layout: Layout,
    /// Over all axes along which parameters are not stacked.
    pub(crate) reduction: Reduction,
    pub(crate) epsilon: f32,
    pub(crate) skip_nan: bool,
}

impl Op for UnfactoredMoment {
    fn name(&self) -> &'static str {
        "unfactored_moment"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        match inputs {
            [v, gradient, scale, scalars]
                if v == gradient && *scale == Spec::f32([1]) && *scalars == Spec::f32([SCALARS]) =>
            {
                let sums = Spec::f32([self.layout.batches()]);
                Ok([v.clone(), sums].into_iter().chain(self.reduction.scratch()).collect())
            }
            _ => {
                Err("it takes moments, a gradient of their shape, a scale and the step's numbers".to_owned())
            }
        }
    }

    fn overwrites(&self) -> &[usize] {
        &[0]
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let (gradients, scale, scalars) = (args.input(1), args.input(2)[0], args.input(3));
        let (decay, mixing, layout) = (scalars[1], scalars[2], &self.layout);
        let of_chunk = |(chunk, (moments, gradients)): (usize, (&mut [f32], &[f32]))| {
            let mut sums = vec![0.0; layout.batches()];
            let mut new = [0.0; CHUNK];
            for ((new, v), g) in new.iter_mut().zip(moments.iter_mut()).zip(gradients) {
                let scaled = g * scale;
                *new = decay * *v + mixing * (scaled * scaled + self.epsilon);
                *v = if self.skip_nan && new.is_nan() { *v } else { *new };
            }
            for run in layout.runs(chunk * CHUNK, gradients.len()) {
                let span = run.start..run.start + run.length;
                let pairs = (&gradients[span.clone()], &new[span]);
                layout.add_squares_of_pairs(&mut sums, &run, pairs, |g, v| g / v.sqrt());
            }
            sums
        };
        let chunks = args.output(0).par_chunks_mut(CHUNK).zip(gradients.par_chunks(CHUNK));
        let parts: Vec<Vec<f32>> = chunks.enumerate().map(of_chunk).collect();
        total(&parts, args.output(1));
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let (reduction, splits) = (&self.reduction, self.reduction.splits());
        let scratch: Vec<BufferRef> = (2..2 + reduction.scratch().len()).map(|i| args.output(i)).collect();
        let sums = args.output(1);
        let first = scratch.first().copied().unwrap_or(sums);
        let change = [self.epsilon.to_bits(), u32::from(self.skip_nan)];
        let params = params(&self.layout, Some(reduction), 0, change);
        let buffers = [args.output(0), args.input(1), args.input(2), args.input(3), first];
        args.dispatch(&MOMENT, &buffers, &params, linear_groups(splits * reduction.outputs(), 64));
        reduction.finish(args, sums, &scratch);
    }

    fn backward(&self, _: &mut Tape, _: &Recorded, _: &[Option<Var>]) -> Result<Vec<Option<Var>>, TapeError> {
        Ok(vec![None; 4])
    }
}

/// Changes a parameter, and its momentum where there is one:
/// `parameter, (momentum,) gradient, v, scalars, step sizes f32[B] -> parameter (, momentum)`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnfactoredApply {
    pub(crate) layout: Layout,
    pub(crate) change: Change,
}

impl Op for UnfactoredApply {
    fn name(&self) -> &'static str {
        "unfactored_apply"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        let changed = self.overwrites().len();
        if inputs.len() != changed + 4 || inputs[..changed + 2].iter().any(|spec| *spec != inputs[0]) {
            return Err("parameter, momentum, gradient and moments are of one shape; numbers follow".into());
        }
        Ok(inputs[..changed].to_vec())
    }

    fn overwrites(&self) -> &[usize] {
        if self.change.momentum.is_some() { &[0, 1] } else { &[0] }
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let at = self.overwrites().len();
        let [gradients, moments, scalars, steps] = [0, 1, 2, 3].map(|i| args.input(at + i));
        let parameters = args.output(0);
        let momenta = if at == 2 { args.output(1) } else { &mut [] };
        let (layout, stacked_inside) = (&self.layout, self.layout.inner().batch != 0);
        // Without momentum as many empty chunks as there are others.
        let momenta: Vec<&mut [f32]> = momenta.chunks_mut(CHUNK).collect();
        let mut momenta: Vec<Option<&mut [f32]>> = momenta.into_iter().map(Some).collect();
        momenta.resize_with(parameters.len().div_ceil(CHUNK), || None);
        let given = gradients.par_chunks(CHUNK).zip(moments.par_chunks(CHUNK));
        let chunks = parameters.par_chunks_mut(CHUNK).zip(given).zip(momenta);
        chunks.enumerate().for_each(|(chunk, ((parameters, (gradients, moments)), mut momenta))| {
            for run in layout.runs(chunk * CHUNK, gradients.len()) {
                let span = run.start..run.start + run.length;
                let momenta = momenta.as_deref_mut().map(|momenta| &mut momenta[span.clone()]);
                let parameters = &mut parameters[span.clone()];
                let updates = gradients[span.clone()].iter().zip(&moments[span]).map(|(g, v)| g / v.sqrt());
                if stacked_inside {
                    let updates = updates.zip(&steps[run.batch..]).map(|(update, step)| step * update);
                    self.change.apply(parameters, momenta, updates, scalars[3]);
                } else {
                    let step = steps[run.batch];
                    self.change.apply(parameters, momenta, updates.map(|update| step * update), scalars[3]);
                }
            }
        });
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let (at, elements) = (self.overwrites().len(), args.shape(0).elements());
        let params = params(&self.layout, None, elements, self.change.params());
        let mut buffers = vec![args.output(0)];
        buffers.extend([0, 1, 2, 3].map(|i| args.input(at + i)));
        let kernel = if at == 2 {
            buffers.push(args.output(1));
            &APPLY_WITH_MOMENTUM
        } else {
            &APPLY
        };
        args.dispatch(kernel, &buffers, &params, linear_groups(elements, 64));
    }

    fn backward(
        &self,
        _: &mut Tape,
        node: &Recorded,
        _: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        Ok(vec![None; node.inputs.len()])
    }
}
