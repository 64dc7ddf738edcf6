//! A tensor of one number.

use crate::cpu::CpuArgs;
use crate::gpu::{GpuArgs, Kernel, PRELUDE, linear_groups};
use crate::op::Op;
use crate::shape::{Shape, Spec};
use crate::tape::{Recorded, Tape, TapeError, Var};

static FILL: Kernel = Kernel { name: "fill", source: &[PRELUDE, include_str!("fill.wgsl")], entry: "fill" };

/// No inputs; every element is the same number.
#[derive(Clone, Debug, PartialEq)]
pub struct Fill {
    value: f32,
    shape: Shape,
}

impl Fill {
    /// `value` everywhere.
    pub fn new(value: f32, shape: impl Into<Shape>) -> Self {
        Self { value, shape: shape.into() }
    }
}

impl Op for Fill {
    fn name(&self) -> &'static str {
        "fill"
    }

    fn outputs(&self, _: &[Spec]) -> Result<Vec<Spec>, String> {
        Ok(vec![Spec::f32(self.shape.clone())])
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        args.output(0).fill(self.value);
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let elements = self.shape.elements();
        let buffers = [args.output(0)];
        args.dispatch(&FILL, &buffers, &[elements as u32, self.value.to_bits()], linear_groups(elements, 64));
    }

    fn backward(&self, _: &mut Tape, _: &Recorded, _: &[Option<Var>]) -> Result<Vec<Option<Var>>, TapeError> {
        Ok(Vec::new())
    }
}
