//! The operations, one a file: shapes, both implementations, the derivative, and a test that compares them.

mod add;
mod fill;
mod matmul;

pub use add::Add;
pub use fill::Fill;
pub use matmul::{Kernels, Matmul};
