//! Running programs on wgpu: adapters, pipelines, and a whole program in one submission.

mod adapter;
mod device;
mod engine;
mod exchange;
mod kernel;
mod shared;

pub use adapter::{AdapterError, AdapterInfo, adapters, choose};
pub use device::Device;
pub use engine::GpuEngine;
pub use kernel::{BufferRef, GpuArgs, Kernel, PRELUDE, Traits, linear_groups};
