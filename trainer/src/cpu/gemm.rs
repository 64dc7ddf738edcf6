//! Products of matrices on the host, by crate `gemm-f32`: the one module of this crate with unsafe code, since that crate
//! takes pointers. Views are checked when they are made; blocks of a product are disjoint.

#![allow(unsafe_code)]

use std::marker::PhantomData;

use rayon::prelude::*;

/// A matrix that is read: any two strides over a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix<'a> {
    values: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// Rows of `columns` numbers, one after the other.
    pub(crate) fn new(values: &'a [f32], rows: usize, columns: usize) -> Self {
        Self::strided(values, rows, columns, columns)
    }

    /// Rows that begin `row_stride` numbers after one another.
    pub(crate) fn strided(values: &'a [f32], rows: usize, columns: usize, row_stride: usize) -> Self {
        assert!(fits(values.len(), rows, columns, row_stride), "the matrix is within its slice");
        Self { values, rows, columns, row_stride, column_stride: 1 }
    }

    /// Rows as columns.
    pub(crate) fn transposed(self) -> Self {
        Self {
            values: self.values,
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }

    /// Some of the rows.
    fn part_of_rows(self, first: usize, rows: usize) -> Self {
        assert!(first + rows <= self.rows, "rows of the matrix");
        let start = (first * self.row_stride).min(self.values.len());
        Self { values: &self.values[start..], rows, ..self }
    }
}

/// A matrix that is written: rows of adjacent numbers, which begin `row_stride` numbers after one another.
#[derive(Debug)]
pub(crate) struct MatrixMut<'a> {
    /// Its first number; `rows` by `columns` of them, as the stride says, may be written through it, by nobody else.
    first: *mut f32,
    rows: usize,
    columns: usize,
    row_stride: usize,
    values: PhantomData<&'a mut [f32]>,
}

// SAFETY: it is an exclusive borrow of the numbers it covers, and `f32` may be sent.
unsafe impl Send for MatrixMut<'_> {}

impl<'a> MatrixMut<'a> {
    /// Rows of `columns` numbers, one after the other.
    pub(crate) fn new(values: &'a mut [f32], rows: usize, columns: usize) -> Self {
        Self::strided(values, rows, columns, columns)
    }

    /// Rows that begin `row_stride` numbers after one another.
    pub(crate) fn strided(values: &'a mut [f32], rows: usize, columns: usize, row_stride: usize) -> Self {
        assert!(fits(values.len(), rows, columns, row_stride), "the matrix is within its slice");
        Self { first: values.as_mut_ptr(), rows, columns, row_stride, values: PhantomData }
    }

    /// Cut into blocks of at most so many rows and columns, with the first row and column of each.
    fn blocks(self, rows: usize, columns: usize) -> Vec<(usize, usize, Self)> {
        let Self { first, rows: all_rows, columns: all_columns, row_stride, .. } = self;
        let firsts = (0..all_rows)
            .step_by(rows)
            .flat_map(|row| (0..all_columns).step_by(columns).map(move |column| (row, column)));
        let block = |(row, column): (usize, usize)| {
            let block = MatrixMut {
                // Within the matrix, thus within its slice; blocks have no number in common, and `self` is consumed.
                first: first.wrapping_add(row * row_stride + column),
                rows: rows.min(all_rows - row),
                columns: columns.min(all_columns - column),
                row_stride,
                values: PhantomData,
            };
            (row, column, block)
        };
        firsts.map(block).collect()
    }
}

/// Are all numbers of such a matrix within a slice of this length, and no number in two rows?
fn fits(length: usize, rows: usize, columns: usize, row_stride: usize) -> bool {
    if rows == 0 || columns == 0 {
        return true;
    }
    let last_row = (rows - 1).checked_mul(row_stride);
    let end = last_row.and_then(|start| start.checked_add(columns));
    (rows == 1 || row_stride >= columns) && end.is_some_and(|end| end <= length)
}

/// `c = a b`, on rayon's threads if it is worth it. How it is cut depends on shapes alone, and no sum is cut.
pub(crate) fn multiply(a: Matrix<'_>, b: Matrix<'_>, c: MatrixMut<'_>) {
    let block = block(a, b);
    multiply_in_blocks(a, b, c, block);
}

/// `c = a b`, in blocks of so many rows and columns.
fn multiply_in_blocks(a: Matrix<'_>, b: Matrix<'_>, c: MatrixMut<'_>, (rows, columns): (usize, usize)) {
    if rows >= c.rows && columns >= c.columns {
        return multiply_here(a, b, c);
    }
    c.blocks(rows, columns).into_par_iter().for_each(|(row, column, c)| {
        let a = a.part_of_rows(row, c.rows);
        let b = b.transposed().part_of_rows(column, c.columns).transposed();
        multiply_here(a, b, c);
    });
}

/// Rows and columns of the blocks that a product is cut into: about a millisecond of work each, and not so small that
/// it takes longer to bring the sides into the order in which they are read.
fn block(a: Matrix<'_>, b: Matrix<'_>) -> (usize, usize) {
    let (mut rows, mut columns, depth) = (a.rows, b.columns, a.columns);
    // Every block of columns reorders `a` if its rows lie across, every block of rows always reorders `b`.
    let (least_rows, least_columns, rows_a_column) = match (a.column_stride, b.column_stride) {
        (1, 1) => (512, 256, 4),
        (1, _) => (1024, 256, 4),
        _ => (512, 512, 1),
    };
    let most = if least_columns == 256 { 1 << 27 } else { 1 << 29 };
    // Thin products wait for memory.
    while rows.max(64) * columns.max(64) * depth >= most {
        let (can_cut_rows, can_cut_columns) = (rows >= 2 * least_rows, columns >= 2 * least_columns);
        if can_cut_rows && (rows >= rows_a_column * columns || !can_cut_columns) {
            rows = rows.div_ceil(2).next_multiple_of(16);
        } else if can_cut_columns {
            columns = columns.div_ceil(2).next_multiple_of(16);
        } else {
            break;
        }
    }
    (rows, columns)
}

/// `c = a b`, on this thread.
pub(crate) fn multiply_here(a: Matrix<'_>, b: Matrix<'_>, c: MatrixMut<'_>) {
    product(a, b, c, false);
}

/// `c += a b`, on this thread.
pub(crate) fn multiply_add_here(a: Matrix<'_>, b: Matrix<'_>, c: MatrixMut<'_>) {
    product(a, b, c, true);
}

fn product(a: Matrix<'_>, b: Matrix<'_>, c: MatrixMut<'_>, add: bool) {
    let shapes = (a.rows, a.columns, b.columns);
    assert_eq!(shapes, (c.rows, b.rows, c.columns), "rows, depth and columns of a product");
    // The kernels want columns of `c` together, so it is its transpose that is computed: `cᵀ = bᵀ aᵀ`.
    // SAFETY: `a`, `b` and `c` were checked to lie within their slices when they were made, and shapes agree. `c` is
    // borrowed exclusively, so neither input overlaps it; its numbers are read only to be added to.
    unsafe {
        gemm_f32::gemm::f32::get_gemm_fn()(
            c.columns,
            c.rows,
            a.columns,
            c.first,
            c.row_stride as isize,
            1,
            add,
            b.values.as_ptr(),
            b.row_stride as isize,
            b.column_stride as isize,
            a.values.as_ptr(),
            a.row_stride as isize,
            a.column_stride as isize,
            if add { 1.0 } else { 0.0 },
            1.0,
            false,
            false,
            false,
            gemm_common::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, assert_close};

    fn numbers(random: &mut Random, count: usize) -> Vec<f32> {
        (0..count).map(|_| random.normal()).collect()
    }

    /// The definition, in double precision.
    fn plain(a: Matrix<'_>, b: Matrix<'_>) -> Vec<f32> {
        let at = |m: Matrix<'_>, row: usize, column: usize| {
            f64::from(m.values[row * m.row_stride + column * m.column_stride])
        };
        let cell = |row, column| (0..a.columns).map(|k| at(a, row, k) * at(b, k, column)).sum::<f64>() as f32;
        (0..a.rows)
            .flat_map(|row| (0..b.columns).map(move |column| (row, column)))
            .map(|(r, c)| cell(r, c))
            .collect()
    }

    #[test]
    fn products_of_any_strides_are_the_sums_that_define_them() {
        let mut random = Random::new(1);
        for (rows, depth, columns) in
            [(1, 1, 1), (1, 7, 300), (5, 1, 3), (33, 0, 4), (0, 3, 4), (300, 65, 131), (257, 520, 50)]
        {
            let (a, b) = (
                numbers(&mut random, (depth + 3) * (rows + 3)),
                numbers(&mut random, (depth + 3) * (columns + 3)),
            );
            for (a_turned, b_turned) in [(false, false), (false, true), (true, false), (true, true)] {
                let view = |values, rows, columns, turned: bool| match turned {
                    false => Matrix::strided(values, rows, columns, columns + 2),
                    true => Matrix::strided(values, columns, rows, rows + 3).transposed(),
                };
                let (a, b) = (view(&a, rows, depth, a_turned), view(&b, depth, columns, b_turned));
                let (expected, what) = (plain(a, b), format!("{rows} x {depth} x {columns}"));
                for block in [(rows, columns), (64, 100), (512, 32), (70, 512)] {
                    let mut c = vec![f32::NAN; rows * columns];
                    multiply_in_blocks(a, b, MatrixMut::new(&mut c, rows, columns), block);
                    assert_close(&expected, &c, 5e-6, &format!("{what} by {block:?}"));
                }
                let mut c = vec![0.0; rows * columns];
                for times in [1.0, 2.0] {
                    multiply_add_here(a, b, MatrixMut::new(&mut c, rows, columns));
                    let parts: Vec<f32> = c.iter().map(|c| c / times).collect();
                    assert_close(&expected, &parts, 5e-6, &format!("{what}, added {times} times"));
                }
            }
        }
    }

    #[test]
    fn numbers_between_rows_stay() {
        let (a, b) = (vec![1.0; 6], vec![1.0; 8]);
        let mut c = vec![7.0; 3 * 5 - 1];
        multiply_here(Matrix::new(&a, 3, 2), Matrix::new(&b, 2, 4), MatrixMut::strided(&mut c, 3, 4, 5));
        assert_eq!(c, [2.0, 2.0, 2.0, 2.0, 7.0, 2.0, 2.0, 2.0, 2.0, 7.0, 2.0, 2.0, 2.0, 2.0]);
    }

    #[test]
    fn large_products_are_cut_and_small_ones_are_not() {
        let values = vec![0.0; 2048 * 4096];
        let matrix = |rows, columns| Matrix::new(&values, rows, columns);
        assert_eq!(block(matrix(512, 64), matrix(512, 64).transposed()), (512, 512));
        assert_eq!(block(matrix(512, 512), matrix(512, 512)), (512, 256));
        assert_eq!(block(matrix(2048, 256), matrix(256, 1024)), (1024, 256));
        assert_eq!(block(matrix(2048, 1024), matrix(256, 1024).transposed()), (1024, 256));
        assert_eq!(block(matrix(2048, 256).transposed(), matrix(2048, 4096)), (256, 512));
        assert_eq!(block(matrix(8, 512), matrix(512, 16000)), (8, 4000));
        assert_eq!(block(matrix(1500, 2000), matrix(2000, 100)), (752, 100));
    }
}
