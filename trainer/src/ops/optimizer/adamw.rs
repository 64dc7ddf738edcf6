//! AdamW with decoupled weight decay, as optax has it.
//!
//! ```text
//! m ← β₁ m + (1 − β₁) g          v ← β₂ v + (1 − β₂) g²
//! p ← p − learning rate · ((m / c₁) / (√(v / c₂) + ε) + weight decay · p),   cᵢ = 1 − βᵢᵗ
//! ```

use rayon::prelude::*;

use crate::cpu::{CHUNK, CpuArgs};
use crate::gpu::{GpuArgs, Kernel, PRELUDE, linear_groups};
use crate::op::Op;
use crate::ops::optimizer::SCALARS;
use crate::shape::{Kind, Spec};
use crate::tape::{Recorded, Tape, TapeError, Var};

static ADAMW: Kernel =
    Kernel { name: "adamw", source: &[PRELUDE, include_str!("adamw.wgsl")], entry: "adamw" };

/// `p, m, v, gradient, scale f32[1], scalars -> p, m, v`, in their places. `scalars` are the learning rate and both
/// bias corrections c₁ and c₂; the gradient is multiplied by `scale` first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// What the first moment keeps of itself.
    pub beta1: f32,
    /// 1 − β₁, rounded from a number with more digits.
    pub mixing1: f32,
    /// What the second moment keeps of itself.
    pub beta2: f32,
    /// 1 − β₂.
    pub mixing2: f32,
    /// What keeps the divisor from 0.
    pub epsilon: f32,
    /// The share of the parameter that is taken off, times the learning rate.
    pub weight_decay: f32,
}

impl Op for AdamW {
    fn name(&self) -> &'static str {
        "adamw"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        match inputs {
            [p, m, v, gradient, scale, scalars]
                if [m, v, gradient].into_iter().all(|spec| spec == p)
                    && p.kind == Kind::F32
                    && *scale == Spec::f32([1])
                    && *scalars == Spec::f32([SCALARS]) =>
            {
                Ok(vec![p.clone(), m.clone(), v.clone()])
            }
            _ => Err("parameter, both moments and gradient are of one shape; a scale f32[1] and the step's \
                      numbers follow"
                .to_owned()),
        }
    }

    fn overwrites(&self) -> &[usize] {
        &[0, 1, 2]
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let (gradients, scale, scalars) = (args.input(3), args.input(4)[0], args.input(5));
        let (learning_rate, correction1, correction2) = (scalars[0], scalars[1], scalars[2]);
        let changed = args.output(0).par_chunks_mut(CHUNK).zip(args.output(1).par_chunks_mut(CHUNK));
        let changed = changed.zip(args.output(2).par_chunks_mut(CHUNK)).zip(gradients.par_chunks(CHUNK));
        changed.for_each(|(((parameters, m), v), gradients)| {
            for (((x, m), v), g) in parameters.iter_mut().zip(m).zip(v).zip(gradients) {
                let g = g * scale;
                *m = self.mixing1 * g + self.beta1 * *m;
                *v = self.mixing2 * (g * g) + self.beta2 * *v;
                let update = *m / correction1 / ((*v / correction2).sqrt() + self.epsilon);
                *x -= learning_rate * (update + self.weight_decay * *x);
            }
        });
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let elements = args.shape(0).elements();
        let numbers = [self.beta1, self.mixing1, self.beta2, self.mixing2, self.epsilon, self.weight_decay];
        let mut params = vec![elements as u32];
        params.extend(numbers.map(f32::to_bits));
        let [x, m, v] = [0, 1, 2].map(|i| args.output(i));
        let buffers = [x, m, v, args.input(3), args.input(4), args.input(5)];
        args.dispatch(&ADAMW, &buffers, &params, linear_groups(elements, 64));
    }

    fn backward(&self, _: &mut Tape, _: &Recorded, _: &[Option<Var>]) -> Result<Vec<Option<Var>>, TapeError> {
        Ok(vec![None; 6])
    }
}
