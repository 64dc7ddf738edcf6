//! What a gradient is multiplied by for its row or its column: the inverse roots of factored second moments.
//!
//! ```text
//! columns  v f32[S]                      ->  1 / √v
//! rows     v f32[S], totals f32[B]       ->  1 / √(v / mean), the mean of a batch's rows being total / rows
//! ```

use crate::cpu::CpuArgs;
use crate::gpu::{GpuArgs, Kernel, PRELUDE, linear_groups};
use crate::op::Op;
use crate::ops::optimizer::{COMMON, Layout};
use crate::shape::Spec;
use crate::tape::{Recorded, Tape, TapeError, Var};

static FACTORS: Kernel =
    Kernel { name: "factors", source: &[PRELUDE, COMMON, include_str!("factors.wgsl")], entry: "factors" };

/// Inverse roots, of rows relative to their mean.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Factors {
    /// Of the second moments themselves.
    pub(crate) layout: Layout,
    /// How many rows a batch has on all ranks; `None`: these are columns.
    pub(crate) rows: Option<usize>,
}

impl Op for Factors {
    fn name(&self) -> &'static str {
        "factors"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        match (inputs, self.rows) {
            ([v], None) => Ok(vec![v.clone()]),
            ([v, totals], Some(_)) if totals.shape.elements() == self.layout.batches() => Ok(vec![v.clone()]),
            _ => Err("it takes second moments, those of rows with the total of each batch".to_owned()),
        }
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let (v, factors) = (args.input(0), args.output(0));
        let Some(rows) = self.rows else {
            return factors.iter_mut().zip(v).for_each(|(factor, v)| *factor = 1.0 / v.sqrt());
        };
        let totals = args.input(1);
        for (i, (factor, v)) in factors.iter_mut().zip(v).enumerate() {
            let mean = totals[self.layout.batch_of(i)] / rows as f32;
            *factor = 1.0 / (v / mean).sqrt();
        }
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let elements = args.shape(0).elements();
        let mut params = self.layout.params().to_vec();
        params.extend([elements as u32, (self.rows.unwrap_or(0) as f32).to_bits()]);
        // Columns have no totals; something has to be bound.
        let totals = args.input(args.num_inputs() - 1);
        let buffers = [args.input(0), totals, args.output(0)];
        args.dispatch(&FACTORS, &buffers, &params, linear_groups(elements, 64));
    }

    fn backward(
        &self,
        _: &mut Tape,
        node: &Recorded,
        _: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        Ok(vec![None; node.inputs.len()])
    }
}
