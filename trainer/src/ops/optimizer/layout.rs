//! How the elements of a parameter belong to rows, columns and batches.
//!
//! ```text
//! query kernels of all layers  [embed, layers, heads, kv]  =  [row, batch, column, column]
//! statistics of rows [embed, layers], of columns [layers, heads, kv], one step size a layer [layers]
//! ```

use serde::{Deserialize, Serialize};

use crate::ops::reduction::{sum_of, sum_of_pairs};

/// What Adafactor does along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FactorDim {
    /// Nothing: the second moments are not factored along it.
    None,
    /// What is stacked along it is a parameter each.
    Batch,
    /// It is a part of the rows.
    Row,
    /// It is a part of the columns.
    #[serde(alias = "col")]
    Column,
}

/// An axis, with its strides in the tensors of rows, columns and batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    length: usize,
    pub(super) row: usize,
    pub(super) column: usize,
    pub(super) batch: usize,
}

/// Neighbouring elements: where they are, and rows, columns and batches of the first of them.
pub(super) struct Run {
    pub(super) start: usize,
    pub(super) length: usize,
    pub(super) row: usize,
    pub(super) column: usize,
    pub(super) batch: usize,
}

/// Axes of a parameter, neighbours of one kind merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// At least one, the innermost last.
    axes: Vec<Axis>,
    batches: usize,
}

impl Layout {
    /// More axes than this are not laid out.
    const MOST: usize = 4;

    /// Of a tensor whose axes are these; `None` where more than four kinds of axes alternate.
    pub(crate) fn new(dims: &[usize], kinds: &[FactorDim]) -> Option<Self> {
        let mut merged: Vec<(FactorDim, usize)> = Vec::new();
        for (&length, &kind) in dims.iter().zip(kinds).filter(|(length, _)| **length != 1) {
            match merged.last_mut() {
                Some((last, merged)) if *last == kind => *merged *= length,
                _ => merged.push((kind, length)),
            }
        }
        if merged.is_empty() {
            merged.push((FactorDim::None, 1));
        }
        let (mut rows, mut columns, mut batches) = (1, 1, 1);
        let mut axes: Vec<Axis> = Vec::new();
        for &(kind, length) in merged.iter().rev() {
            let stride = |size: &mut usize, kinds: [FactorDim; 2]| {
                let stride = if kinds.contains(&kind) { *size } else { 0 };
                *size *= if stride > 0 { length } else { 1 };
                stride
            };
            axes.push(Axis {
                length,
                row: stride(&mut rows, [FactorDim::Row, FactorDim::Batch]),
                column: stride(&mut columns, [FactorDim::Column, FactorDim::Batch]),
                batch: stride(&mut batches, [FactorDim::Batch, FactorDim::Batch]),
            });
        }
        axes.reverse();
        (axes.len() <= Self::MOST).then_some(Self { axes, batches })
    }

    /// How many parameters are stacked here.
    pub(crate) fn batches(&self) -> usize {
        self.batches
    }

    /// The innermost axis.
    pub(super) fn inner(&self) -> Axis {
        self.axes.last().copied().unwrap_or(Axis { length: 1, row: 0, column: 0, batch: 0 })
    }

    /// Words of the uniform struct `Layout`.
    pub(super) fn params(&self) -> [u32; 20] {
        let mut words = [0; 20];
        words[0] = self.axes.len() as u32;
        words[1..5].fill(1);
        for (i, axis) in self.axes.iter().rev().enumerate() {
            for (field, word) in [axis.length, axis.row, axis.column, axis.batch].into_iter().enumerate() {
                words[1 + 4 * field + i] = word as u32;
            }
        }
        words
    }

    /// The batch of an element.
    pub(super) fn batch_of(&self, element: usize) -> usize {
        self.run(element, element + 1).batch
    }

    /// The elements from `first` on, `length` of them, cut where the innermost axis ends. `start` counts from `first`.
    pub(super) fn runs(&self, first: usize, length: usize) -> impl Iterator<Item = Run> + '_ {
        let mut at = first;
        std::iter::from_fn(move || {
            if at >= first + length {
                return None;
            }
            let mut run = self.run(at, first + length);
            run.start = at - first;
            at += run.length;
            Some(run)
        })
    }

    fn run(&self, element: usize, end: usize) -> Run {
        let inner = self.inner().length.max(1);
        let mut run = Run {
            start: 0,
            length: (inner - element % inner).min(end - element),
            row: 0,
            column: 0,
            batch: 0,
        };
        let mut rest = element;
        for axis in self.axes.iter().rev() {
            let i = rest % axis.length.max(1);
            rest /= axis.length.max(1);
            run.row += i * axis.row;
            run.column += i * axis.column;
            run.batch += i * axis.batch;
        }
        run
    }

    /// Adds the squares of the elements of `run` to the sums of their batches.
    pub(super) fn add_squares(&self, sums: &mut [f32], run: &Run, x: &[f32], of: impl Fn(f32) -> f32) {
        if self.inner().batch == 0 {
            let square = |x: f32| of(x) * of(x);
            sums[run.batch] += sum_of(x, square);
        } else {
            sums[run.batch..].iter_mut().zip(x).for_each(|(sum, x)| *sum += of(*x) * of(*x));
        }
    }

    /// The same of products of elements and what stands beside them.
    pub(super) fn add_squares_of_pairs(
        &self,
        sums: &mut [f32],
        run: &Run,
        (x, y): (&[f32], &[f32]),
        of: impl Fn(f32, f32) -> f32,
    ) {
        if self.inner().batch == 0 {
            sums[run.batch] += sum_of_pairs(x, y, |x, y| of(x, y) * of(x, y));
        } else {
            let pairs = x.iter().zip(y);
            sums[run.batch..].iter_mut().zip(pairs).for_each(|(sum, (x, y))| *sum += of(*x, *y) * of(*x, *y));
        }
    }
}

/// The sums of sums of parts, in the order of the parts.
pub(super) fn total(parts: &[Vec<f32>], sums: &mut [f32]) {
    for (i, sum) in sums.iter_mut().enumerate() {
        *sum = parts.iter().map(|part| f64::from(part[i])).sum::<f64>() as f32;
    }
}
