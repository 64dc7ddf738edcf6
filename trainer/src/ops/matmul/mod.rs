//! Products of matrices, the bulk of every step's work.
//!
//! ```text
//! nn   a f32[.., K]  b f32[K, N]   ->  a b    f32[.., N]
//! nt   a f32[.., K]  b f32[N, K]   ->  a bᵀ   f32[.., N]
//! tn   a f32[.., M]  b f32[.., N]  ->  aᵀ b   f32[M, N]
//! ```
//!
//! The derivatives of each are the two others, so that nothing is ever transposed in memory.

mod kernels;

use rayon::prelude::*;

use crate::cpu::CpuArgs;
use crate::cpu::gemm::{Matrix, MatrixMut, multiply};
use crate::gpu::GpuArgs;
use crate::op::Op;
use crate::shape::{Kind, Shape, Spec};
use crate::tape::{Recorded, Tape, TapeError, Var};

/// Which of two matrices is read with its rows as columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Nn,
    Nt,
    Tn,
}

/// The product of two matrices, or of many pairs of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Matmul {
    layout: Layout,
    batched: bool,
}

impl Matmul {
    /// `a b`: a f32[.., K] whose leading axes are rows, b f32[K, N].
    pub const fn nn() -> Self {
        Self::new(Layout::Nn)
    }

    /// `a bᵀ`: a f32[.., K] whose leading axes are rows, b f32[N, K].
    pub const fn nt() -> Self {
        Self::new(Layout::Nt)
    }

    /// `aᵀ b`: a f32[.., M], b f32[.., N], summed over the leading axes of both.
    pub const fn tn() -> Self {
        Self::new(Layout::Tn)
    }

    /// One product for every index of the first of three axes of both.
    pub const fn batched(self) -> Self {
        Self { batched: true, ..self }
    }

    const fn new(layout: Layout) -> Self {
        Self { layout, batched: false }
    }

    const fn of(self, layout: Layout) -> Self {
        Self { layout, ..self }
    }

    /// What is multiplied, or what is wrong with it.
    fn sizes(self, a: &Shape, b: &Shape) -> Result<Sizes, String> {
        if self.batched {
            let (&[batch, a0, a1], &[batch_of_b, b0, b1]) = (a.dims(), b.dims()) else {
                return Err("batched, it takes two tensors of three axes".to_owned());
            };
            if batch != batch_of_b {
                return Err("batched, it takes as many matrices on the left as on the right".to_owned());
            }
            return self.sizes_of(batch, [a0, a1], [b0, b1]);
        }
        if a.rank() == 0 {
            return Err("its left side needs at least one axis".to_owned());
        }
        if self.layout == Layout::Tn {
            if b.rank() == 0 || a.dims()[..a.rank() - 1] != b.dims()[..b.rank() - 1] {
                return Err(
                    "it sums over all axes but the last, which must be those of both sides".to_owned()
                );
            }
        } else if b.rank() != 2 {
            return Err("its right side needs two axes".to_owned());
        }
        self.sizes_of(1, [a.rows(), a.width()], [b.rows(), b.width()])
    }

    fn sizes_of(self, batch: usize, a: [usize; 2], b: [usize; 2]) -> Result<Sizes, String> {
        let ([rows, depth], [depth_of_b, columns]) = match self.layout {
            Layout::Nn => (a, b),
            Layout::Nt => (a, [b[1], b[0]]),
            Layout::Tn => ([a[1], a[0]], b),
        };
        if depth != depth_of_b {
            return Err(format!(
                "it sums over an axis of {depth} on the left and of {depth_of_b} on the right"
            ));
        }
        Ok(Sizes { batch, rows, depth, columns })
    }
}

/// `batch` times a matrix of `rows` by `depth`, by one of `depth` by `columns`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sizes {
    batch: usize,
    rows: usize,
    depth: usize,
    columns: usize,
}

/// The sizes of what was recorded.
fn checked(sizes: Result<Sizes, String>) -> Sizes {
    sizes.expect("the shapes were checked when the operation was recorded")
}

impl Op for Matmul {
    fn name(&self) -> &'static str {
        match self.layout {
            Layout::Nn => "matmul_nn",
            Layout::Nt => "matmul_nt",
            Layout::Tn => "matmul_tn",
        }
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        let [a, b] = inputs else {
            return Err("it takes two tensors".to_owned());
        };
        if a.kind != Kind::F32 || b.kind != Kind::F32 {
            return Err("it takes floats".to_owned());
        }
        let Sizes { batch, rows, columns, .. } = self.sizes(&a.shape, &b.shape)?;
        Ok(vec![Spec::f32(match (self.batched, self.layout) {
            (true, _) => Shape::from([batch, rows, columns]),
            (false, Layout::Tn) => Shape::from([rows, columns]),
            (false, Layout::Nn | Layout::Nt) => a.shape.with_width(columns),
        })])
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let sizes = self.sizes(&args.input_specs[0].shape, &args.input_specs[1].shape);
        let Sizes { rows, depth, columns, .. } = checked(sizes);
        let (a, b, c) = (args.input(0), args.input(1), args.output(0));
        if c.is_empty() {
            return;
        }
        c.par_chunks_mut(rows * columns).enumerate().for_each(|(i, c)| {
            let a = &a[i * rows * depth..(i + 1) * rows * depth];
            let b = &b[i * depth * columns..(i + 1) * depth * columns];
            let a = match self.layout {
                Layout::Nn | Layout::Nt => Matrix::new(a, rows, depth),
                Layout::Tn => Matrix::new(a, depth, rows).transposed(),
            };
            let b = match self.layout {
                Layout::Nn | Layout::Tn => Matrix::new(b, depth, columns),
                Layout::Nt => Matrix::new(b, columns, depth).transposed(),
            };
            multiply(a, b, MatrixMut::new(c, rows, columns));
        });
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let sizes = checked(self.sizes(args.shape(0), args.shape(1)));
        kernels::dispatch(args, self.layout, sizes);
    }

    fn backward(
        &self,
        tape: &mut Tape,
        node: &Recorded,
        gradients: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        let ([a, b], Some(dy)) = ([node.inputs[0], node.inputs[1]], gradients[0]) else {
            return Ok(vec![None, None]);
        };
        let (nn, nt, tn) = (self.of(Layout::Nn), self.of(Layout::Nt), self.of(Layout::Tn));
        let (for_a, for_b) = match self.layout {
            Layout::Nn => ((nt, [dy, b]), (tn, [a, dy])),
            Layout::Nt => ((nn, [dy, b]), (tn, [dy, a])),
            Layout::Tn => ((nt, [b, dy]), (nn, [a, dy])),
        };
        let mut gradient =
            |i, (op, inputs): (Self, [Var; 2])| node.needs(i).then(|| tape.record(op, &inputs)).transpose();
        Ok(vec![gradient(0, for_a)?, gradient(1, for_b)?])
    }
}

#[cfg(test)]
mod tests;
