//! The operations, one a file: shapes, both implementations, the derivative, and a test that compares them.

mod accumulate;
mod activation;
mod add;
mod attention;
mod cross_entropy;
mod dropout;
mod embedding;
mod exchange;
mod fill;
mod matmul;
pub mod optimizer;
pub(crate) mod reduction;
mod rms_norm;
mod rows;
mod scale;
mod select;
pub(crate) mod slice;
mod sum;
mod sum_squares;

pub use accumulate::Accumulate;
pub use activation::{Activate, Activation, Gated};
pub use add::Add;
pub use attention::Attention;
pub use cross_entropy::{CrossEntropy, CrossEntropyStatistics};
pub use dropout::Dropout;
pub use embedding::{Embedding, TokenError, token_index};
pub use exchange::{Enter, Exchange};
pub use fill::Fill;
pub use matmul::Matmul;
pub use rms_norm::RmsNorm;
pub use rows::Rows;
pub use scale::Scale;
pub use select::Select;
pub use sum::Sum;
pub use sum_squares::SumSquares;
