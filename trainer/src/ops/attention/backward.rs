//! The gradients of attention: probabilities are computed again, from the scores and their log-sum-exp.

use super::{Attention, Extent, cpu, gpu};
use crate::cpu::CpuArgs;
use crate::gpu::GpuArgs;
use crate::op::Op;
use crate::ops::Fill;
use crate::shape::Spec;
use crate::tape::{Recorded, Tape, TapeError, Var};

/// The gradients of queries (`needs[0]`), of keys and values (`needs[1]`), and of the table (`needs[2]`).
///
/// ```text
/// the inputs of attention, y, log-sum-exp, gradient of y [, gradient of log-sum-exp]
/// ->  [dq] [dk, dv] [dtable], and room for what kernels pass on to each other
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AttentionBackward {
    pub(super) attention: Attention,
    pub(super) needs_queries: bool,
    pub(super) needs_keys: bool,
    pub(super) needs_table: bool,
    pub(super) of_sums: bool,
}

/// Where the outputs are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) queries: Option<usize>,
    pub(super) keys: Option<usize>,
    pub(super) values: Option<usize>,
    pub(super) table: Option<usize>,
    /// The smaller inputs as kernels read them.
    pub(super) facts: usize,
    /// Log-sum-exp and the sum that the gradient of softmax subtracts, by row.
    pub(super) rows: usize,
    /// The gradient of the table, by row.
    pub(super) partial: usize,
}

impl AttentionBackward {
    pub(super) fn places(&self) -> Places {
        let mut next = 0;
        let mut take = |wanted: bool| {
            next += usize::from(wanted);
            wanted.then(|| next - 1)
        };
        let queries = take(self.computes_queries());
        let (keys, values, table) = (take(self.needs_keys), take(self.needs_keys), take(self.needs_table));
        Places { queries, keys, values, table, facts: next, rows: next + 1, partial: next + 2 }
    }

    /// The table's gradient comes with that of queries.
    fn computes_queries(&self) -> bool {
        self.needs_queries || self.needs_table
    }

    /// Where `y` is among the inputs.
    pub(super) fn y_at(&self) -> usize {
        self.attention.num_inputs()
    }
}

pub(super) fn record(
    attention: &Attention,
    tape: &mut Tape,
    node: &Recorded,
    gradients: &[Option<Var>],
) -> Result<Vec<Option<Var>>, TapeError> {
    let table = attention.table_at();
    let op = AttentionBackward {
        attention: *attention,
        needs_queries: node.needs(0),
        needs_keys: node.needs(1) || node.needs(2),
        needs_table: table.is_some_and(|at| node.needs(at)),
        of_sums: gradients[1].is_some(),
    };
    let of_y = match gradients[0] {
        Some(gradient) => gradient,
        None => tape.record(Fill::new(0.0, tape.shape(node.outputs[0]).clone()), &[])?,
    };
    let mut inputs = node.inputs.clone();
    inputs.extend([node.outputs[0], node.outputs[1], of_y]);
    inputs.extend(gradients[1]);
    let made = tape.record_all(op, &inputs)?;
    let places = op.places();
    let mut found = vec![None; node.inputs.len()];
    let wanted = [(0, places.queries), (1, places.keys), (2, places.values)];
    for (input, place) in wanted.into_iter().chain(table.map(|at| (at, places.table))) {
        found[input] = place.map(|place| made[place]);
    }
    Ok(found)
}

impl Op for AttentionBackward {
    fn name(&self) -> &'static str {
        "attention_backward"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        let own = self.attention.num_inputs();
        if inputs.len() != own + 3 + usize::from(self.of_sums) {
            return Err(format!("it takes {} inputs", own + 3 + usize::from(self.of_sums)));
        }
        let extent = self.attention.extent(&inputs[..own])?;
        let Extent { batch, queries, heads, buckets, .. } = extent;
        let (y, sums) = (&inputs[0], Spec::f32([batch, heads, queries]));
        let fits = [&inputs[own], &inputs[own + 2]].iter().all(|found| *found == y)
            && [Some(&inputs[own + 1]), inputs.get(own + 3)]
                .into_iter()
                .flatten()
                .all(|found| *found == sums);
        if !fits {
            return Err(format!("results and their gradients should be {y}, sums {sums}"));
        }
        let mut outputs = Vec::new();
        outputs.extend(self.computes_queries().then(|| inputs[0].clone()));
        outputs.extend(self.needs_keys.then(|| [inputs[1].clone(), inputs[2].clone()]).into_iter().flatten());
        outputs.extend(self.needs_table.then(|| Spec::f32([heads, buckets])));
        outputs.push(Spec::i32([gpu::Layout::new(&self.attention, &extent).len()]));
        outputs.push(Spec::f32([batch, heads, queries, 2]));
        // Kernels bind it even if there is nothing to write.
        let buckets = if self.needs_table { buckets } else { 1 };
        outputs.push(Spec::f32([batch, heads, queries, buckets]));
        Ok(outputs)
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        cpu::backward(self, args);
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        gpu::backward(self, args);
    }

    fn backward(
        &self,
        tape: &mut Tape,
        node: &Recorded,
        _: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        let reason = "it is not differentiated a second time".to_owned();
        Err(tape.mismatch(self.name(), &node.inputs, reason))
    }
}
