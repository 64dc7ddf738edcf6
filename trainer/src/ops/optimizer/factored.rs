//! Adafactor's update of a parameter whose second moments are factored into rows and columns.
//!
//! ```text
//! update = gradient · row factor · column factor
//! parameter ← (1 − weight decay) · parameter − step size · update
//! ```

use rayon::prelude::*;

use crate::cpu::{CHUNK, CpuArgs};
use crate::gpu::{BufferRef, GpuArgs, Kernel, PRELUDE, linear_groups};
use crate::op::Op;
use crate::ops::optimizer::layout::total;
use crate::ops::optimizer::{APPLY_SOURCE, COMMON, Change, Layout};
use crate::ops::reduction::{REDUCTION, Reduction};
use crate::shape::Spec;
use crate::tape::{Recorded, Tape, TapeError, Var};

const SOURCE: &[&str] = &[PRELUDE, REDUCTION, COMMON, include_str!("factored.wgsl"), APPLY_SOURCE];
static SQUARES: Kernel = Kernel { name: "factored", source: SOURCE, entry: "update_squares" };
static APPLY: Kernel = Kernel { name: "factored", source: SOURCE, entry: "apply" };
static APPLY_WITH_MOMENTUM: Kernel =
    Kernel { name: "factored", source: SOURCE, entry: "apply_with_momentum" };

/// The sum of the squares of the update, for each of the parameters that are stacked:
/// `gradient f32[S], row factors, column factors -> f32[B]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FactoredUpdateSquares {
    pub(crate) layout: Layout,
    /// Over all axes along which parameters are not stacked.
    pub(crate) reduction: Reduction,
}

impl Op for FactoredUpdateSquares {
    fn name(&self) -> &'static str {
        "factored_update_squares"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        let [_, _, _] = inputs else {
            return Err("it takes a gradient, row factors and column factors".to_owned());
        };
        Ok(std::iter::once(Spec::f32([self.layout.batches()])).chain(self.reduction.scratch()).collect())
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let (gradients, rows, columns) = (args.input(0), args.input(1), args.input(2));
        let layout = &self.layout;
        let inner = layout.inner();
        let of_chunk = |(chunk, gradients): (usize, &[f32])| {
            let mut sums = vec![0.0; layout.batches()];
            for run in layout.runs(chunk * CHUNK, gradients.len()) {
                let gradients = &gradients[run.start..run.start + run.length];
                match (inner.row, inner.column) {
                    (0, 0) => {
                        let factor = rows[run.row] * columns[run.column];
                        layout.add_squares(&mut sums, &run, gradients, |g| g * factor);
                    }
                    (0, _) => {
                        let pairs = (gradients, &columns[run.column..run.column + run.length]);
                        let row = rows[run.row];
                        layout.add_squares_of_pairs(&mut sums, &run, pairs, |g, column| g * row * column);
                    }
                    (_, 0) => {
                        let pairs = (gradients, &rows[run.row..run.row + run.length]);
                        let column = columns[run.column];
                        layout.add_squares_of_pairs(&mut sums, &run, pairs, |g, row| g * row * column);
                    }
                    _ => {
                        let factors = rows[run.row..].iter().zip(&columns[run.column..]);
                        let sums = sums[run.batch..].iter_mut();
                        for ((sum, g), (row, column)) in sums.zip(gradients).zip(factors) {
                            let update = g * row * column;
                            *sum += update * update;
                        }
                    }
                }
            }
            sums
        };
        let parts: Vec<Vec<f32>> = gradients.par_chunks(CHUNK).enumerate().map(of_chunk).collect();
        total(&parts, args.output(0));
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let (reduction, splits) = (&self.reduction, self.reduction.splits());
        let scratch: Vec<BufferRef> = (1..=reduction.scratch().len()).map(|i| args.output(i)).collect();
        let sums = args.output(0);
        let first = scratch.first().copied().unwrap_or(sums);
        let params = params(&self.layout, Some(reduction), 0, [0, 0]);
        let buffers = [first, args.input(0), args.input(1), args.input(2)];
        args.dispatch(&SQUARES, &buffers, &params, linear_groups(splits * reduction.outputs(), 64));
        reduction.finish(args, sums, &scratch);
    }

    fn backward(&self, _: &mut Tape, _: &Recorded, _: &[Option<Var>]) -> Result<Vec<Option<Var>>, TapeError> {
        Ok(vec![None; 3])
    }
}

/// Changes a parameter, and its momentum where there is one:
/// `parameter, (momentum,) gradient, row factors, column factors, step sizes f32[B], scalars -> parameter (, momentum)`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FactoredApply {
    pub(crate) layout: Layout,
    pub(crate) change: Change,
}

impl Op for FactoredApply {
    fn name(&self) -> &'static str {
        "factored_apply"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        let changed = self.overwrites().len();
        if inputs.len() != changed + 5 || inputs[..=changed].iter().any(|spec| *spec != inputs[0]) {
            return Err(
                "parameter, momentum and gradient are of one shape; factors and numbers follow".into()
            );
        }
        Ok(inputs[..changed].to_vec())
    }

    fn overwrites(&self) -> &[usize] {
        if self.change.momentum.is_some() { &[0, 1] } else { &[0] }
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let at = self.overwrites().len();
        let [gradients, rows, columns, steps, scalars] = [0, 1, 2, 3, 4].map(|i| args.input(at + i));
        let parameters = args.output(0);
        let momenta = if at == 2 { args.output(1) } else { &mut [] };
        let (layout, inner) = (&self.layout, self.layout.inner());
        // Without momentum as many empty chunks as there are others.
        let momenta: Vec<&mut [f32]> = momenta.chunks_mut(CHUNK).collect();
        let mut momenta: Vec<Option<&mut [f32]>> = momenta.into_iter().map(Some).collect();
        momenta.resize_with(parameters.len().div_ceil(CHUNK), || None);
        let chunks = parameters.par_chunks_mut(CHUNK).zip(gradients.par_chunks(CHUNK)).zip(momenta);
        chunks.enumerate().for_each(|(chunk, ((parameters, gradients), mut momenta))| {
            for run in layout.runs(chunk * CHUNK, gradients.len()) {
                let span = run.start..run.start + run.length;
                let momenta = momenta.as_deref_mut().map(|momenta| &mut momenta[span.clone()]);
                let (parameters, gradients) = (&mut parameters[span.clone()], &gradients[span]);
                let (step, decay) = (steps[run.batch], scalars[3]);
                match (inner.row, inner.column) {
                    (0, 0) => {
                        let (row, column) = (rows[run.row], columns[run.column]);
                        let updates = gradients.iter().map(|g| step * (g * row * column));
                        self.change.apply(parameters, momenta, updates, decay);
                    }
                    (0, _) => {
                        let (row, columns) = (rows[run.row], &columns[run.column..]);
                        let updates =
                            gradients.iter().zip(columns).map(|(g, column)| step * (g * row * column));
                        self.change.apply(parameters, momenta, updates, decay);
                    }
                    (_, 0) => {
                        let (rows, column) = (&rows[run.row..], columns[run.column]);
                        let updates = gradients.iter().zip(rows).map(|(g, row)| step * (g * row * column));
                        self.change.apply(parameters, momenta, updates, decay);
                    }
                    _ => {
                        let factors = rows[run.row..].iter().zip(&columns[run.column..]);
                        let of = gradients.iter().zip(factors).zip(&steps[run.batch..]);
                        let updates = of.map(|((g, (row, column)), step)| step * (g * row * column));
                        self.change.apply(parameters, momenta, updates, decay);
                    }
                }
            }
        });
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let (at, elements) = (self.overwrites().len(), args.shape(0).elements());
        let params = params(&self.layout, None, elements, self.change.params());
        let mut buffers = vec![args.output(0)];
        buffers.extend([0, 1, 2, 3, 4].map(|i| args.input(at + i)));
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

/// Words of the kernels' uniform struct.
pub(super) fn params(
    layout: &Layout,
    reduction: Option<&Reduction>,
    elements: usize,
    change: [u32; 2],
) -> Vec<u32> {
    let mut params = layout.params().to_vec();
    params.extend(reduction.map_or([0; 12], |reduction| reduction.params(reduction.splits())));
    params.push(elements as u32);
    params.extend(change);
    params
}
