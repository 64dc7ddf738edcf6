//! What gradients are multiplied by so that their common norm is at most a threshold.
//!
//! ```text
//! squares f32[1], the sum of the squares of all gradients  ->  threshold · min(1 / threshold, 1 / √squares) f32[1]
//! ```

use crate::cpu::CpuArgs;
use crate::gpu::{GpuArgs, Kernel};
use crate::op::Op;
use crate::shape::Spec;
use crate::tape::{Recorded, Tape, TapeError, Var};

static CLIP: Kernel = Kernel { name: "clip", source: &[include_str!("clip.wgsl")], entry: "clip" };

/// 1, or less where the norm of all gradients is above the threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClipByGlobalNorm {
    threshold: f32,
}

impl ClipByGlobalNorm {
    /// The largest norm, more than 0.
    pub fn new(threshold: f32) -> Self {
        Self { threshold }
    }
}

impl Op for ClipByGlobalNorm {
    fn name(&self) -> &'static str {
        "clip_by_global_norm"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        match inputs {
            [squares] if *squares == Spec::f32([1]) => Ok(vec![squares.clone()]),
            _ => Err("it takes a sum of squares f32[1]".to_owned()),
        }
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let of_norm = 1.0 / args.input(0)[0].sqrt();
        let most = 1.0 / self.threshold;
        // What is not a number stays none.
        args.output(0)[0] = self.threshold * if of_norm > most { most } else { of_norm };
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let buffers = [args.input(0), args.output(0)];
        args.dispatch(&CLIP, &buffers, &[self.threshold.to_bits()], [1, 1, 1]);
    }

    fn backward(&self, _: &mut Tape, _: &Recorded, _: &[Option<Var>]) -> Result<Vec<Option<Var>>, TapeError> {
        Ok(vec![None])
    }
}
