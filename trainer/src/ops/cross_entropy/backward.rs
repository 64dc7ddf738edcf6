//! The gradient of the logits, in their place.

use rayon::prelude::*;

use super::{CrossEntropy, SOURCE, Smoothed};
use crate::cpu::math::exp;
use crate::cpu::{CHUNK, CpuArgs};
use crate::gpu::{GpuArgs, Kernel, linear_groups};
use crate::op::Op;
use crate::shape::Spec;
use crate::tape::{Recorded, Tape, TapeError, Var};

static BACKWARD: Kernel = Kernel { name: "cross_entropy", source: SOURCE, entry: "backward" };

/// `weight · g · [(1 + 2 · z_loss · log Z) · softmax − smoothed target]`, for the classes that are here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CrossEntropyBackward(pub(super) CrossEntropy);

impl Op for CrossEntropyBackward {
    fn name(&self) -> &'static str {
        "cross_entropy_backward"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        match inputs {
            [logits, targets, weights, softmax, gradient, log_z] => {
                let rows = self.0.check(logits, &[targets, weights, gradient, log_z])?;
                match *softmax == Spec::f32([rows, 2]) {
                    true => Ok(vec![logits.clone()]),
                    false => Err(format!("maxima and sums of exponentials are f32[{rows}, 2]")),
                }
            }
            _ => Err("it takes logits, targets, weights, maxima and sums, a gradient and log Z".to_owned()),
        }
    }

    fn overwrites(&self) -> &[usize] {
        &[0]
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let (targets, weights, softmax) = (args.ints(1), args.input(2), args.input(3));
        let (gradients, classes) = (args.input(4), args.dims(0).last().copied().unwrap_or(1));
        let part = self.0.part_of(classes);
        let Smoothed { on, off, .. } = self.0.smoothed(part.all_classes);
        let rows = args.output(0).par_chunks_mut(classes);
        let given = targets.par_iter().zip(weights).zip(gradients).zip(args.input(5));
        let given = given.zip(softmax.par_chunks(2));
        rows.zip(given).for_each(|(row, ((((&target, &weight), &gradient), &log_z), softmax))| {
            let scale = weight * gradient;
            if scale == 0.0 {
                return row.fill(0.0);
            }
            let (max, sum) = (softmax[0], softmax[1]);
            let of_softmax = scale * ((1.0 + 2.0 * self.0.z_loss * log_z) / sum);
            let of_others = scale * off;
            row.par_chunks_mut(CHUNK).for_each(|row| {
                row.iter_mut().for_each(|x| *x = of_softmax * exp(*x - max) - of_others);
            });
            let target = usize::try_from(target).ok().and_then(|target| target.checked_sub(part.first_class));
            if let Some(x) = target.and_then(|target| row.get_mut(target)) {
                *x -= scale * (on - off);
            }
        });
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let (rows, classes) = (args.shape(0).rows(), args.shape(0).width());
        let params = self.0.params(rows, classes, 1);
        let mut buffers = vec![args.output(0)];
        buffers.extend((1..6).map(|i| args.input(i)));
        args.dispatch(&BACKWARD, &buffers, &params, linear_groups(rows * classes, 64));
    }

    /// Second derivatives are not recorded.
    fn backward(&self, _: &mut Tape, _: &Recorded, _: &[Option<Var>]) -> Result<Vec<Option<Var>>, TapeError> {
        Ok(vec![None; 6])
    }
}
