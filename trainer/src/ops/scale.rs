//! A tensor times a number that is known when it is recorded.
//!
//! ```text
//! x f32[S]  ->  x * factor f32[S], in the place of x
//! ```

use rayon::prelude::*;

use crate::cpu::{CHUNK, CpuArgs};
use crate::gpu::{GpuArgs, Kernel, PRELUDE, linear_groups};
use crate::op::Op;
use crate::shape::{Kind, Spec};
use crate::tape::{Recorded, Tape, TapeError, Var};

static SCALE: Kernel =
    Kernel { name: "scale", source: &[PRELUDE, include_str!("scale.wgsl")], entry: "scale" };

/// `x * factor`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    factor: f32,
}

impl Scale {
    /// Times this.
    pub fn new(factor: f32) -> Self {
        Self { factor }
    }
}

impl Op for Scale {
    fn name(&self) -> &'static str {
        "scale"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        match inputs {
            [x] if x.kind == Kind::F32 => Ok(vec![x.clone()]),
            _ => Err("it takes one tensor of floats".to_owned()),
        }
    }

    fn overwrites(&self) -> &[usize] {
        &[0]
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        args.output(0).par_chunks_mut(CHUNK).for_each(|x| x.iter_mut().for_each(|x| *x *= self.factor));
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let elements = args.shape(0).elements();
        let params = [elements as u32, self.factor.to_bits()];
        args.dispatch(&SCALE, &[args.output(0)], &params, linear_groups(elements, 64));
    }

    fn backward(
        &self,
        tape: &mut Tape,
        _: &Recorded,
        gradients: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        gradients
            .iter()
            .map(|gradient| gradient.map(|gradient| tape.record(*self, &[gradient])).transpose())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, check};

    #[test]
    fn both_implementations_agree_and_the_derivative_is_right() {
        for shape in [vec![1], vec![3, 5], vec![2, 7, 13]] {
            check(Case::new(61).normal("x", &shape[..]), |tape, inputs| {
                tape.record_all(Scale::new(-0.3), inputs)
            });
        }
    }
}
