//! A comparatively thin trainer for T5-like encoder-decoders and GPT-like decoders, on wgpu compute shaders or on the
//! host's processor.
//!
//! A model is a plain function that records operations on a [`Tape`](tape::Tape); `backward` goes on with the
//! gradients; a [`Program`](program::Program) plans their memory; an [`Engine`](engine::Engine) runs it, every step
//! the same dispatches.

pub mod checkpoint;
pub mod config;
pub mod cpu;
pub mod engine;
#[cfg(test)]
mod golden;
pub mod gpu;
pub mod host;
pub mod log;
pub mod mesh;
pub mod model;
mod number;
pub mod op;
pub mod ops;
pub mod optimizer;
pub mod program;
pub mod random;
pub mod shape;
pub mod store;
pub mod tape;
#[cfg(test)]
mod testing;
pub mod train;
