//! What is known of a row of logits after one look at them, in a form in which that of parts can be put together.

use rayon::prelude::*;

use super::{CrossEntropy, Part, SOURCE};
use crate::cpu::CpuArgs;
use crate::cpu::math::exp;
use crate::gpu::{GpuArgs, Kernel, linear_groups};
use crate::op::Op;
use crate::ops::reduction::sum_of;
use crate::shape::{Kind, Spec};
use crate::tape::{Recorded, Tape, TapeError, Var};

static PARTS: Kernel = Kernel { name: "cross_entropy", source: SOURCE, entry: "parts" };
static STATISTICS: Kernel = Kernel { name: "cross_entropy", source: SOURCE, entry: "statistics" };

/// How many numbers are known of a row: the largest logit, its class, the sum of exp(logit − largest), the sum of
/// logit − largest, the logit of the target (0 where it is elsewhere), and how many classes there are.
pub(super) const STATISTICS_WIDTH: usize = 6;

/// Of these, what a kernel keeps of a part of a row.
const PART_WIDTH: usize = 4;
/// Invocations that share a row.
const PARTS_OF_ROW: usize = 32;

/// The class of the largest logit where all are no numbers.
const NO_CLASS: f32 = -1.0;

pub(super) fn parts_of_row(classes: usize) -> usize {
    classes.div_ceil(8).clamp(1, PARTS_OF_ROW)
}

/// The statistics that a [`CrossEntropy`] takes, of the classes that are here: `f32[1, R, 6]`. Those of
/// several parts follow each other along the first axis.
///
/// It has no derivative of its own: that of the losses is by the logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CrossEntropyStatistics(pub(super) CrossEntropy);

impl Op for CrossEntropyStatistics {
    fn name(&self) -> &'static str {
        "cross_entropy_statistics"
    }

    /// The statistics, and room for those of parts of rows.
    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        let [logits, targets] = inputs else {
            return Err("it takes logits and targets".to_owned());
        };
        let rows = self.0.check(logits, &[targets])?;
        if targets.kind != Kind::I32 {
            return Err("targets are i32".to_owned());
        }
        let parts = [rows, parts_of_row(logits.shape.width()), PART_WIDTH];
        Ok(vec![Spec::f32([1, rows, STATISTICS_WIDTH]), Spec::f32(parts)])
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let (logits, targets) = (args.input(0), args.ints(1));
        let classes = args.dims(0).last().copied().unwrap_or(1);
        let Part { first_class, all_classes } = self.0.part_of(classes);
        let differences = self.0.smoothed(all_classes).off != 0.0;
        let rows = args.output(0).par_chunks_mut(STATISTICS_WIDTH);
        rows.zip(logits.par_chunks(classes)).zip(targets).for_each(|((statistics, logits), &target)| {
            let target = usize::try_from(target).ok().and_then(|target| target.checked_sub(first_class));
            statistics.copy_from_slice(&Row::of(logits, first_class, target, differences).numbers());
        });
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let (rows, classes) = (args.shape(0).rows(), args.shape(0).width());
        let params = self.0.params(rows, classes, 1);
        let (logits, targets) = (args.input(0), args.input(1));
        let (statistics, parts) = (args.output(0), args.output(1));
        args.dispatch(&PARTS, &[logits, parts], &params, linear_groups(rows * parts_of_row(classes), 64));
        let buffers = [logits, targets, parts, statistics];
        args.dispatch(&STATISTICS, &buffers, &params, linear_groups(rows, 64));
    }

    fn backward(&self, _: &mut Tape, _: &Recorded, _: &[Option<Var>]) -> Result<Vec<Option<Var>>, TapeError> {
        Ok(vec![None; 2])
    }
}

/// The statistics of a row.
pub(super) struct Row {
    pub(super) max: f32,
    /// The first class whose logit is the largest.
    pub(super) place: f32,
    /// Of exp(logit − max).
    pub(super) sum: f32,
    /// Of logit − max, where it is asked for.
    pub(super) differences: f32,
    pub(super) logit: f32,
    pub(super) classes: f32,
}

impl Row {
    /// `target` counts from the first class here.
    fn of(logits: &[f32], first_class: usize, target: Option<usize>, differences: bool) -> Self {
        let max = largest(logits);
        let base = base_of(max);
        let place = logits.iter().position(|x| *x == max);
        Self {
            max,
            place: place.map_or(NO_CLASS, |place| (first_class + place) as f32),
            sum: sum_of(logits, |x| exp(x - base)),
            differences: if differences { sum_of(logits, |x| x - base) } else { 0.0 },
            logit: target.and_then(|target| logits.get(target)).copied().unwrap_or(0.0),
            classes: logits.len() as f32,
        }
    }

    /// What is known of the whole row, from the numbers of its parts in their order. Of one part it is the same numbers.
    pub(super) fn joined<'a>(parts: impl Iterator<Item = &'a [f32]> + Clone) -> Self {
        let (mut max, mut place) = (f32::NEG_INFINITY, NO_CLASS);
        for part in parts.clone() {
            if part[0] > max || place == NO_CLASS {
                (max, place) = (part[0], part[1]);
            }
        }
        let base = base_of(max);
        let mut row = Self { max, place, sum: 0.0, differences: 0.0, logit: 0.0, classes: 0.0 };
        for part in parts {
            let lower = part[0] - base;
            row.sum += part[2] * exp(lower);
            row.differences += part[3] + lower * part[5];
            row.logit += part[4];
            row.classes += part[5];
        }
        row
    }

    fn numbers(&self) -> [f32; STATISTICS_WIDTH] {
        [self.max, self.place, self.sum, self.differences, self.logit, self.classes]
    }
}

/// What logits are lowered by: the largest of them, or nothing where all are minus infinity, which count for nothing.
fn base_of(max: f32) -> f32 {
    if max == f32::NEG_INFINITY { 0.0 } else { max }
}

/// In independent lanes, so that the loop is vectorised.
fn largest(x: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let mut lanes = [f32::NEG_INFINITY; 16];
    let chunks = x.chunks_exact(lanes.len());
    let rest = chunks.remainder();
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, x)| *lane = larger(*lane, *x));
    }
    lanes.iter_mut().zip(rest).for_each(|(lane, x)| *lane = larger(*lane, *x));
    lanes.into_iter().fold(f32::NEG_INFINITY, larger)
}
