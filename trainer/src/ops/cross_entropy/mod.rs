//! Cross-entropy of T5X: label smoothing, z-loss, a weight for every token, and T5X's own derivative; over a vocabulary
//! that may be cut into parts.
//!
//! ```text
//! CrossEntropyStatistics   logits f32[.., V], targets i32[..], R rows of V  ->  statistics f32[1, R, 6]
//! CrossEntropy             logits, targets, weights f32[..], statistics f32[M, R, 6] of M parts in their order
//!                            ->  loss f32[R], z f32[R], correct f32[R], log_z f32[R]
//! ```
//!
//! Where each rank has the logits of some classes, only the few numbers of a row go from rank to rank. Logits are read
//! once for them and once in the backward pass, where the gradient takes their place.

mod backward;
mod statistics;
#[cfg(test)]
mod tests;

use rayon::prelude::*;

use self::backward::CrossEntropyBackward;
pub use self::statistics::CrossEntropyStatistics;
use self::statistics::{Row, STATISTICS_WIDTH};
use crate::cpu::CpuArgs;
use crate::cpu::math::ln;
use crate::gpu::{GpuArgs, Kernel, PRELUDE, linear_groups};
use crate::op::Op;
use crate::shape::{Kind, Spec};
use crate::tape::{Recorded, Tape, TapeError, Var};

const SOURCE: &[&str] = &[PRELUDE, include_str!("cross_entropy.wgsl")];
static LOSSES: Kernel = Kernel { name: "cross_entropy", source: SOURCE, entry: "losses" };

/// A vocabulary of so many classes or more is refused: a class is a float among the statistics, which is exact below.
const TOO_MANY_CLASSES: usize = 1 << 24;

/// Weighted cross-entropy of every token.
///
/// Output 0 is `weight · (cross-entropy + z_loss · log²Z − entropy of the smoothed target)`, 1 the part of the z-loss
/// in it, 2 is 1 where the weight is not 0 and the first of the largest logits is the target's, 3 is log Z. Only
/// output 0 has a derivative, and only by the logits, which are not read before it. A target outside of the vocabulary
/// is no class at all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CrossEntropy {
    z_loss: f32,
    label_smoothing: f32,
    part: Option<Part>,
}

/// Which classes have their logits here, if not all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    first_class: usize,
    all_classes: usize,
}

/// What a target counts, for its class and for each of the others, and what a perfect prediction would cost.
#[derive(Clone, Copy)]
struct Smoothed {
    on: f32,
    off: f32,
    entropy: f32,
}

impl CrossEntropy {
    /// `z_loss`: what log²Z costs; `label_smoothing`: the share of a target that all other classes get.
    pub fn new(z_loss: f32, label_smoothing: f32) -> Self {
        Self { z_loss, label_smoothing, part: None }
    }

    /// The logits are those from `first_class` on of a vocabulary of `all_classes`; targets are classes of all of it.
    pub fn part(mut self, first_class: usize, all_classes: usize) -> Self {
        self.part = Some(Part { first_class, all_classes });
        self
    }

    /// What makes the statistics that it takes, out of the same logits and targets.
    pub fn statistics(self) -> CrossEntropyStatistics {
        CrossEntropyStatistics(self)
    }

    /// Which of the classes these logits are of.
    fn part_of(&self, classes: usize) -> Part {
        self.part.unwrap_or(Part { first_class: 0, all_classes: classes })
    }

    fn smoothed(&self, all_classes: usize) -> Smoothed {
        if self.label_smoothing == 0.0 {
            return Smoothed { on: 1.0, off: 0.0, entropy: 0.0 };
        }
        let (on, others) = (1.0 - f64::from(self.label_smoothing), (all_classes - 1) as f64);
        let off = (1.0 - on) / others;
        let entropy = -(on * on.ln() + others * off * (off + 1e-20).ln());
        Smoothed { on: on as f32, off: off as f32, entropy: entropy as f32 }
    }

    /// How many rows there are, or what is wrong with logits and with what each row of them has.
    fn check(&self, logits: &Spec, per_row: &[&Spec]) -> Result<usize, String> {
        let (rows, classes) = (logits.shape.rows(), logits.shape.width());
        let fits = per_row.iter().all(|spec| spec.shape.elements() == rows);
        if logits.kind != Kind::F32 || logits.shape.rank() == 0 || !fits {
            return Err(
                "it takes logits f32[.., V], and a target (i32) and a weight (f32) for every row".into()
            );
        }
        let Part { first_class, all_classes } = self.part_of(classes);
        if classes == 0 || first_class.saturating_add(classes) > all_classes {
            return Err(format!(
                "{classes} classes from class {first_class} on are no part of {all_classes} classes"
            ));
        }
        if all_classes >= TOO_MANY_CLASSES {
            return Err("a vocabulary has less than 2^24 classes".to_owned());
        }
        if self.label_smoothing != 0.0 && all_classes < 2 {
            return Err("label smoothing needs at least 2 classes".to_owned());
        }
        if !(0.0..1.0).contains(&self.label_smoothing) {
            return Err(format!(
                "label smoothing is {}; it is at least 0 and less than 1",
                self.label_smoothing
            ));
        }
        Ok(rows)
    }

    /// What all kernels are told.
    fn params(&self, rows: usize, classes: usize, shards: usize) -> Vec<u32> {
        let Part { first_class, all_classes } = self.part_of(classes);
        let Smoothed { on, off, entropy } = self.smoothed(all_classes);
        let mut params = [rows, classes, statistics::parts_of_row(classes)].map(|word| word as u32).to_vec();
        params.extend([on, off, entropy, self.z_loss].map(f32::to_bits));
        params.extend([first_class, all_classes, shards].map(|word| word as u32));
        params
    }

    /// What a token costs, its target being one of all classes or none.
    fn token_loss(&self, row: &Row, is_class: bool, log_sum: f32, of: Smoothed) -> f32 {
        let Smoothed { on, off, entropy } = of;
        let of_target = if is_class { (on - off) * (row.logit - row.max - log_sum) } else { 0.0 };
        let of_others = if off == 0.0 { 0.0 } else { off * (row.differences - row.classes * log_sum) };
        let log_z = row.max + log_sum;
        -of_target - of_others + self.z_loss * log_z * log_z - entropy
    }
}

impl Op for CrossEntropy {
    fn name(&self) -> &'static str {
        "cross_entropy"
    }

    /// The four numbers of every row, and what its gradient needs: the largest logit, and the sum of exponentials.
    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        let [logits, targets, weights, statistics] = inputs else {
            return Err("it takes logits, targets, weights and statistics".to_owned());
        };
        let rows = self.check(logits, &[targets, weights])?;
        if targets.kind != Kind::I32 || weights.kind != Kind::F32 {
            return Err("targets are i32, weights f32".to_owned());
        }
        let &[shards, ..] = statistics.shape.dims() else {
            return Err("statistics have three axes".to_owned());
        };
        if *statistics != Spec::f32([shards, rows, STATISTICS_WIDTH]) {
            return Err(format!("statistics of these rows are f32[parts, {rows}, {STATISTICS_WIDTH}]"));
        }
        let (classes, all_classes) = (logits.shape.width(), self.part_of(logits.shape.width()).all_classes);
        if shards == 0 || (shards == 1) != (classes == all_classes) {
            return Err(format!(
                "logits of {classes} of {all_classes} classes do not go with statistics of {shards} parts"
            ));
        }
        let mut outputs = vec![Spec::f32([rows]); 4];
        outputs.push(Spec::f32([rows, 2]));
        Ok(outputs)
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let (targets, weights, statistics) = (args.ints(1), args.input(2), args.input(3));
        let classes = args.dims(0).last().copied().unwrap_or(1);
        let all_classes = self.part_of(classes).all_classes;
        let smoothed = self.smoothed(all_classes);
        let outputs = [args.output(0), args.output(1), args.output(2), args.output(3)];
        let [losses, z_losses, corrects, log_zs] = outputs;
        let (rows, softmax) = (losses.len(), args.output(4).par_chunks_mut(2));
        let outputs = losses.par_iter_mut().zip(z_losses).zip(corrects).zip(log_zs).zip(softmax);
        outputs.zip(targets).zip(weights).enumerate().for_each(|(at, ((outputs, &target), &weight))| {
            let ((((loss, z_loss), correct), log_z), softmax) = outputs;
            let row = Row::joined(statistics.chunks_exact(STATISTICS_WIDTH).skip(at).step_by(rows));
            let is_class = usize::try_from(target).is_ok_and(|target| target < all_classes);
            let log_sum = ln(row.sum);
            *log_z = row.max + log_sum;
            *z_loss = weight * (self.z_loss * *log_z * *log_z);
            *correct = f32::from(u8::from(weight != 0.0 && is_class && target as f32 == row.place));
            *loss = weight * self.token_loss(&row, is_class, log_sum, smoothed);
            softmax.copy_from_slice(&[row.max, row.sum]);
        });
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let (rows, classes) = (args.shape(0).rows(), args.shape(0).width());
        let shards = args.shape(3).dims()[0];
        let mut buffers = vec![args.input(3), args.input(1), args.input(2)];
        buffers.extend((0..5).map(|i| args.output(i)));
        args.dispatch(&LOSSES, &buffers, &self.params(rows, classes, shards), linear_groups(rows, 64));
    }

    fn backward(
        &self,
        tape: &mut Tape,
        node: &Recorded,
        gradients: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        let Some(gradient) = gradients[0].filter(|_| node.needs(0)) else { return Ok(vec![None; 4]) };
        let mut inputs = node.inputs[..3].to_vec();
        inputs.extend([node.outputs[4], gradient, node.outputs[3]]);
        let of_logits = tape.record(CrossEntropyBackward(*self), &inputs)?;
        Ok(vec![Some(of_logits), None, None, None])
    }
}
