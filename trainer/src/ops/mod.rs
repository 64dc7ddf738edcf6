//! The operations, one a file: shapes, both implementations, the derivative, and a test that compares them.

mod accumulate;
mod add;
mod cross_entropy;
mod fill;
mod matmul;
mod reduction;
mod sum;
mod sum_squares;

pub use accumulate::Accumulate;
pub use add::Add;
pub use cross_entropy::CrossEntropy;
pub use fill::Fill;
pub use matmul::{Kernels, Matmul};
pub use sum::Sum;
pub use sum_squares::SumSquares;
