//! What optimizers are made of: operations that change parameters and state in place, and the small sums between them.
//!
//! Sums over axes that a rank holds only a part of are tensors of their own, so that what all ranks found can be added
//! between two operations. None of these has a derivative.

mod adamw;
mod axis_sums;
mod change;
mod clip;
mod factored;
mod factors;
mod layout;
mod second_moment;
mod step_size;
mod unfactored;

pub use adamw::AdamW;
pub(crate) use axis_sums::AxisSums;
pub(crate) use change::Change;
pub use clip::ClipByGlobalNorm;
pub(crate) use factored::{FactoredApply, FactoredUpdateSquares};
pub(crate) use factors::Factors;
pub use layout::FactorDim;
pub(crate) use layout::Layout;
pub(crate) use second_moment::SecondMoment;
pub(crate) use step_size::{ParameterScale, StepSize};
pub(crate) use unfactored::{UnfactoredApply, UnfactoredMoment};

/// The uniform struct `Layout`, places in it, and what is not a number.
const COMMON: &str = include_str!("common.wgsl");
/// Entry points that change parameters by a kernel's `update_of`.
const APPLY_SOURCE: &str = include_str!("apply.wgsl");

/// How many numbers an optimizer gets from the host at every step.
pub(crate) const SCALARS: usize = 4;
