//! Sums of a tensor over some of its axes, in a fixed order: what `Sum`, `SumSquares` and the optimizers stand on.
//!
//! ```text
//! x f32[a, b, c] over b  ->  f32[a * c]
//! ```
//!
//! On a device, `splits` invocations an output each sum every `splits`-th term; further dispatches sum their sums. On
//! the host, tasks sum runs of terms. Both cuts depend on the shape alone.

use rayon::prelude::*;

use crate::cpu::CHUNK;
use crate::gpu::{BufferRef, GpuArgs, Kernel, PRELUDE, linear_groups};
use crate::shape::Spec;

static SUMS: Kernel =
    Kernel { name: "sums", source: &[PRELUDE, REDUCTION, include_str!("sums.wgsl")], entry: "sums" };

/// WGSL: the uniform form of a [`Reduction`], and where its terms are.
pub(crate) const REDUCTION: &str = include_str!("reduction.wgsl");

/// Invocations that fill a large device.
const INVOCATIONS: usize = 1 << 16;
/// Terms that are worth an invocation of their own.
const TERMS: usize = 32;
/// Neighbouring invocations that read neighbouring numbers where terms are contiguous.
const NEIGHBOURS: usize = 16;
/// More sums than this are summed in two dispatches.
const AT_ONCE: usize = 256;
/// Accumulators of a sum on the host: independent, so that the loop is vectorised.
const LANES: usize = 16;
/// Outputs and terms of a task on the host, where neighbours are different outputs.
const BLOCK: (usize, usize) = (512, 128);

/// Places i = 0, 1, …, `length` - 1 along some axes: (i / inner) · outer_stride + (i % inner) · inner_stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Walk {
    length: usize,
    inner: usize,
    outer_stride: usize,
    inner_stride: usize,
}

impl Walk {
    fn new(axes: &[(usize, usize)]) -> Option<Self> {
        let (outer, inner) = match axes {
            [] => ((1, 0), (1, 0)),
            [inner] => ((1, 0), *inner),
            [outer, inner] => (*outer, *inner),
            _ => return None,
        };
        Some(Self {
            length: outer.0 * inner.0,
            inner: inner.0.max(1),
            outer_stride: outer.1,
            inner_stride: inner.1,
        })
    }

    fn at(&self, i: usize) -> usize {
        i / self.inner * self.outer_stride + i % self.inner * self.inner_stride
    }
}

/// Which elements of a tensor go into which sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reduction {
    kept: Walk,
    terms: Walk,
}

impl Reduction {
    /// Sums over the axes that are marked; `None` where kept and summed axes alternate more than twice.
    pub(crate) fn over(dims: &[usize], summed: &[bool]) -> Option<Self> {
        // Neighbouring axes of one fate are one axis: its length and stride.
        let mut merged: Vec<(bool, usize, usize)> = Vec::new();
        let mut stride = 1;
        for (&length, &summed) in dims.iter().zip(summed).rev().filter(|(length, _)| **length != 1) {
            match merged.last_mut() {
                Some((fate, merged, _)) if *fate == summed => *merged *= length,
                _ => merged.push((summed, length, stride)),
            }
            stride *= length;
        }
        merged.reverse();
        let of = |wanted: bool| {
            let axes = merged.iter().filter(|(summed, ..)| *summed == wanted);
            Walk::new(&axes.map(|(_, length, stride)| (*length, *stride)).collect::<Vec<_>>())
        };
        Some(Self { kept: of(false)?, terms: of(true)? })
    }

    /// One sum of everything.
    pub(crate) fn all(elements: usize) -> Self {
        let stride = if elements > 1 { 1 } else { 0 };
        let terms = Walk { length: elements, inner: elements.max(1), outer_stride: 0, inner_stride: stride };
        Self { kept: Walk { length: 1, inner: 1, outer_stride: 0, inner_stride: 0 }, terms }
    }

    /// `outputs` sums over the first axis of a tensor of two: [`terms`, `outputs`].
    fn over_first(terms: usize, outputs: usize) -> Self {
        Self {
            kept: Walk { length: outputs, inner: outputs.max(1), outer_stride: 0, inner_stride: 1 },
            terms: Walk { length: terms, inner: terms.max(1), outer_stride: 0, inner_stride: outputs },
        }
    }

    /// How many sums there are.
    pub(crate) fn outputs(&self) -> usize {
        self.kept.length
    }

    /// How many numbers go into each.
    pub(crate) fn terms(&self) -> usize {
        self.terms.length
    }

    /// Neighbours in memory go into one sum.
    fn contiguous_terms(&self) -> bool {
        self.terms.inner_stride == 1
    }

    /// Invocations of a device that share a sum.
    pub(crate) fn splits(&self) -> usize {
        let (outputs, terms) = (self.outputs().max(1), self.terms());
        let useful = terms.div_ceil(TERMS).min((INVOCATIONS / outputs).max(1));
        let least = if self.contiguous_terms() { NEIGHBOURS.min(terms.div_ceil(2)) } else { 1 };
        useful.max(least).max(1)
    }

    /// What the dispatches of an operation keep between them: outputs that nobody else reads.
    pub(crate) fn scratch(&self) -> Vec<Spec> {
        let of = |splits: &usize| Spec::f32([*splits, self.outputs()]);
        stages(self.splits()).iter().map(of).collect()
    }

    /// Words of the uniform struct `Reduction`.
    pub(crate) fn params(&self, splits: usize) -> [u32; 12] {
        let (kept, terms) = (&self.kept, &self.terms);
        [
            kept.length,
            terms.length,
            splits,
            usize::from(self.contiguous_terms()),
            kept.inner,
            kept.outer_stride,
            kept.inner_stride,
            terms.inner,
            terms.outer_stride,
            terms.inner_stride,
            0,
            0,
        ]
        .map(|word| word as u32)
    }

    /// Sums numbers, or their squares, into `sums`; `scratch` as [`scratch`](Self::scratch) wants it.
    pub(crate) fn dispatch(
        &self,
        args: &mut GpuArgs<'_>,
        x: BufferRef,
        square: bool,
        (sums, scratch): (BufferRef, &[BufferRef]),
    ) {
        let splits = self.splits();
        self.one(args, x, square, (splits, scratch.first().copied().unwrap_or(sums)));
        self.finish(args, sums, scratch);
    }

    /// Sums the `[splits, outputs]` sums that another kernel left in the first of `scratch`.
    pub(crate) fn finish(&self, args: &mut GpuArgs<'_>, sums: BufferRef, scratch: &[BufferRef]) {
        let stages = stages(self.splits());
        for (at, (from, terms)) in scratch.iter().zip(&stages).enumerate() {
            let splits = stages.get(at + 1).copied().unwrap_or(1);
            let to = scratch.get(at + 1).copied().unwrap_or(sums);
            Self::over_first(*terms, self.outputs()).one(args, *from, false, (splits, to));
        }
    }

    fn one(&self, args: &mut GpuArgs<'_>, x: BufferRef, square: bool, (splits, to): (usize, BufferRef)) {
        let mut params = self.params(splits).to_vec();
        params.push(u32::from(square));
        args.dispatch(&SUMS, &[x, to], &params, linear_groups(splits * self.outputs(), 64));
    }

    /// Sums `of` every number.
    pub(crate) fn sums(&self, x: &[f32], sums: &mut [f32], of: impl Fn(f32) -> f32 + Sync) {
        let outputs = self.outputs();
        if outputs == 0 {
            return;
        }
        let terms_of_task = if self.contiguous_terms() { CHUNK } else { BLOCK.1 };
        let parts = self.terms().div_ceil(terms_of_task).max(1);
        let mut partial = vec![0.0f32; parts * outputs];
        let range = |part: usize| part * terms_of_task..self.terms().min((part + 1) * terms_of_task);
        if self.contiguous_terms() {
            let outputs_of_task = (CHUNK / self.terms().clamp(1, CHUNK)).max(1);
            partial.par_chunks_mut(outputs_of_task).enumerate().for_each(|(task, sums)| {
                for (i, sum) in sums.iter_mut().enumerate() {
                    let i = task * outputs_of_task + i;
                    *sum = self.run(x, self.kept.at(i % outputs), range(i / outputs), &of);
                }
            });
        } else {
            partial.par_chunks_mut(outputs).enumerate().for_each(|(part, sums)| {
                sums.par_chunks_mut(BLOCK.0).enumerate().for_each(|(block, sums)| {
                    self.block(x, block * BLOCK.0, range(part), sums, &of);
                });
            });
        }
        sums.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, sums)| {
            for (i, sum) in sums.iter_mut().enumerate() {
                let of_output = partial[chunk * CHUNK + i..].iter().step_by(outputs);
                *sum = of_output.map(|x| f64::from(*x)).sum::<f64>() as f32;
            }
        });
    }

    /// The sum of these terms of the output at `start`, where neighbours go into one sum.
    fn run(
        &self,
        x: &[f32],
        start: usize,
        terms: std::ops::Range<usize>,
        of: &(impl Fn(f32) -> f32 + Sync),
    ) -> f32 {
        let (mut at, mut sum) = (terms.start, 0.0);
        while at < terms.end {
            let length = (self.terms.inner - at % self.terms.inner).min(terms.end - at);
            let from = start + self.terms.at(at);
            sum += sum_of(&x[from..from + length], of);
            at += length;
        }
        sum
    }

    /// Sums these terms of the outputs from `first` on, where neighbours go into different sums.
    fn block(
        &self,
        x: &[f32],
        first: usize,
        terms: std::ops::Range<usize>,
        sums: &mut [f32],
        of: &(impl Fn(f32) -> f32 + Sync),
    ) {
        let mut done = 0;
        while done < sums.len() {
            let output = first + done;
            let length = (self.kept.inner - output % self.kept.inner).min(sums.len() - done);
            let start = self.kept.at(output);
            for term in terms.clone() {
                let from = start + self.terms.at(term);
                let row = &x[from..from + length];
                sums[done..done + length].iter_mut().zip(row).for_each(|(sum, x)| *sum += of(*x));
            }
            done += length;
        }
    }
}

/// How many sums an output is in after each dispatch but the last.
fn stages(splits: usize) -> Vec<usize> {
    match splits {
        0 | 1 => vec![],
        _ if splits <= AT_ONCE => vec![splits],
        _ => vec![splits, splits.isqrt()],
    }
}

/// The sum of `of` each number.
pub(crate) fn sum_of(x: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let chunks = x.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, x)| *lane += of(*x));
    }
    lanes.iter_mut().zip(rest).for_each(|(lane, x)| *lane += of(*x));
    sum_lanes(lanes)
}

/// The sum of `of` each pair of numbers.
pub(crate) fn sum_of_pairs(x: &[f32], y: &[f32], of: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let (xs, ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    let rest = (xs.remainder(), ys.remainder());
    for (x, y) in xs.zip(ys) {
        lanes.iter_mut().zip(x).zip(y).for_each(|((lane, x), y)| *lane += of(*x, *y));
    }
    lanes.iter_mut().zip(rest.0).zip(rest.1).for_each(|((lane, x), y)| *lane += of(*x, *y));
    sum_lanes(lanes)
}

fn sum_lanes(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
        half /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_goes_into_its_sum_once() {
        let shapes: &[&[usize]] =
            &[&[1], &[7], &[3, 5], &[2, 3, 4], &[3, 1, 700], &[600, 3], &[2, 3, 5, 2], &[40, 1030]];
        for &dims in shapes {
            for marks in 0..1 << dims.len() {
                let summed: Vec<bool> = (0..dims.len()).map(|axis| marks >> axis & 1 == 1).collect();
                let Some(reduction) = Reduction::over(dims, &summed) else { panic!("{dims:?}, {summed:?}") };
                let elements: usize = dims.iter().product();
                let x: Vec<f32> = (0..elements).map(|i| (i % 101) as f32).collect();
                let mut expected = vec![0.0; reduction.outputs()];
                for (i, x) in x.iter().enumerate() {
                    expected[place(dims, &summed, i)] += x;
                }
                let mut found = vec![0.0; reduction.outputs()];
                reduction.sums(&x, &mut found, |x| x);
                assert_eq!(found, expected, "{dims:?}, {summed:?}");
            }
        }
    }

    /// The place among the kept axes.
    fn place(dims: &[usize], summed: &[bool], mut i: usize) -> usize {
        let (mut output, mut stride) = (0, 1);
        for (length, summed) in dims.iter().zip(summed).rev() {
            if !summed {
                output += i % length * stride;
                stride *= length;
            }
            i /= length;
        }
        output
    }

    #[test]
    fn axes_that_alternate_too_often_are_refused() {
        let summed = [true, false, true, false, true];
        assert_eq!(Reduction::over(&[2; 5], &summed), None);
        assert!(Reduction::over(&[2, 3, 1, 4, 2], &summed).is_some(), "an axis of length 1 is none");
    }
}
