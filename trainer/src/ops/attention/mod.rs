//! Attention of several heads, with T5's position bias and with masks that are never written down: groups of packed
//! examples, causality, prefixes.
//!
//! ```text
//! q f32[B, Lq, H·d], k f32[B, Lk, H·d], v f32[B, Lk, H·d], q_groups i32[B, Lq], k_groups i32[B, Lk]
//! relative:   table f32[H, buckets], bucket of every distance i32[Lq + Lk - 1]
//! prefix:     prefix i32[B, L]
//! dropout:    key i32[2]
//! ->  softmax(q·k + bias) v  f32[B, Lq, H·d], log-sum-exp f32[B, H, Lq]
//! ```
//!
//! Scores are not divided by √d: T5 leaves that to the initial weights. Memory is linear in the lengths.

mod backward;
mod cpu;
mod gpu;
#[cfg(test)]
mod tests;

use self::backward::AttentionBackward;
use crate::cpu::CpuArgs;
use crate::gpu::GpuArgs;
use crate::op::Op;
use crate::shape::{Shape, Spec};
use crate::tape::{Recorded, Tape, TapeError, Var};

/// What a forbidden key's score is lowered by. With float32 nothing else is left of it, so that a query without any key
/// attends to all of them alike.
const FORBIDDEN: f32 = -1e10;

/// Attention of several heads.
///
/// A query sees a key if both are of one group, a positive number, and, where it is causal, the key is no later or both
/// are part of the prefix. The input at distance `key - query + Lq - 1` of the buckets tells the column of the table whose
/// number is added to the score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    heads: usize,
    causal: bool,
    relative: bool,
    prefix: bool,
    dropout: Option<Dropout>,
    part: Option<Part>,
}

/// Where the batch rows and heads here are in a whole that is spread over ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    first_row: usize,
    first_head: usize,
    whole_heads: usize,
}

/// Probabilities that are set to zero, the same for all queries of a head: one draw for every batch row, head and key.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Dropout {
    rate: f32,
    site: u32,
}

impl Dropout {
    /// What probabilities that are kept are multiplied by.
    fn scale(self) -> f32 {
        1.0 / (1.0 - self.rate)
    }
}

/// The lengths of all axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    batch: usize,
    queries: usize,
    keys: usize,
    heads: usize,
    /// Elements of a head.
    width: usize,
    /// Columns of the table; 0 without one.
    buckets: usize,
}

impl Extent {
    /// How many distances from a query to a key there are.
    fn distances(&self) -> usize {
        self.queries + self.keys - 1
    }
}

impl Attention {
    /// Of this many heads, every query seeing all keys of its group.
    pub fn new(heads: usize) -> Self {
        Self { heads, causal: false, relative: false, prefix: false, dropout: None, part: None }
    }

    /// Queries do not see later keys.
    pub fn causal(mut self, causal: bool) -> Self {
        self.causal = causal;
        self
    }

    /// With a bias by distance: two more inputs.
    pub fn relative(mut self) -> Self {
        self.relative = true;
        self
    }

    /// Causal but for a prefix, all of which sees all of it: one more input, not 0 there.
    pub fn prefix(mut self) -> Self {
        (self.causal, self.prefix) = (true, true);
        self
    }

    /// With probabilities dropped at this rate after softmax, the others scaled up: one more input, the key.
    pub fn dropout(mut self, rate: f32, site: u32) -> Self {
        self.dropout = Some(Dropout { rate, site });
        self
    }

    /// The heads are some of `whole_heads`, from `first_head` on, and the batch rows those from `first_row` on: dropout
    /// drops what it would drop of the whole.
    pub fn part(mut self, first_row: usize, first_head: usize, whole_heads: usize) -> Self {
        self.part = Some(Part { first_row, first_head, whole_heads });
        self
    }

    /// The whole that the heads are part of; by default they are all of it.
    fn whole(&self) -> Part {
        self.part.unwrap_or(Part { first_row: 0, first_head: 0, whole_heads: self.heads })
    }

    /// Which head of the whole one here is; heads are counted over all batch rows.
    fn head_of_whole(&self, here: usize) -> usize {
        let Part { first_row, first_head, whole_heads } = self.whole();
        (first_row + here / self.heads) * whole_heads + first_head + here % self.heads
    }

    /// Where the table is among the inputs, before the buckets.
    fn table_at(&self) -> Option<usize> {
        self.relative.then_some(5)
    }

    fn prefix_at(&self) -> Option<usize> {
        self.prefix.then_some(5 + 2 * usize::from(self.relative))
    }

    fn key_at(&self) -> Option<usize> {
        self.dropout.map(|_| 5 + 2 * usize::from(self.relative) + usize::from(self.prefix))
    }

    fn num_inputs(&self) -> usize {
        5 + 2 * usize::from(self.relative) + usize::from(self.prefix) + usize::from(self.dropout.is_some())
    }

    /// The lengths of all axes, or what does not go together.
    fn extent(&self, inputs: &[Spec]) -> Result<Extent, String> {
        if inputs.len() != self.num_inputs() {
            return Err(format!("it takes {} inputs", self.num_inputs()));
        }
        let (&[batch, queries, row], &[_, keys, _]) = (inputs[0].shape.dims(), inputs[1].shape.dims()) else {
            return Err("queries and keys are f32[batch, length, heads * width]".to_owned());
        };
        if self.heads == 0 || row % self.heads != 0 {
            return Err(format!("rows of {row} cannot be cut into {} heads", self.heads));
        }
        let buckets = self.table_at().map_or(0, |at| inputs[at].shape.width());
        let extent = Extent { batch, queries, keys, heads: self.heads, width: row / self.heads, buckets };
        if [batch, queries, keys, row].contains(&0) || (self.relative && buckets == 0) {
            return Err("an axis is empty".to_owned());
        }
        if let Some(Part { first_head, whole_heads, .. }) = self.part
            && first_head.saturating_add(self.heads) > whole_heads
        {
            return Err(format!(
                "{} heads from head {first_head} on are no part of {whole_heads}",
                self.heads
            ));
        }
        if self.prefix && queries != keys {
            return Err("a prefix is of queries and keys of one length".to_owned());
        }
        let mut wanted = vec![
            ("queries", Spec::f32([batch, queries, row])),
            ("keys", Spec::f32([batch, keys, row])),
            ("values", Spec::f32([batch, keys, row])),
            ("the groups of queries", Spec::i32([batch, queries])),
            ("the groups of keys", Spec::i32([batch, keys])),
        ];
        if self.relative {
            wanted.push(("the table of biases", Spec::f32([self.heads, buckets])));
            wanted.push(("the buckets", Spec::i32([extent.distances()])));
        }
        if self.prefix {
            wanted.push(("the prefix", Spec::i32([batch, queries])));
        }
        if let Some(Dropout { rate, .. }) = self.dropout {
            if !(0.0..1.0).contains(&rate) {
                return Err(format!("a rate is at least 0 and below 1, not {rate}"));
            }
            let Part { first_row, whole_heads, .. } = self.whole();
            let elements = first_row.saturating_add(batch).saturating_mul(whole_heads).saturating_mul(keys);
            if u32::try_from(elements).is_err() {
                return Err("a mask has less than 2^32 elements".to_owned());
            }
            wanted.push(("the key", Spec::i32([2])));
        }
        match wanted.iter().zip(inputs).find(|((_, wanted), found)| wanted != *found) {
            Some(((name, wanted), _)) => Err(format!("{name} should be {wanted}")),
            None => Ok(extent),
        }
    }

    /// The same of shapes that were checked when it was recorded.
    fn known_extent<'a>(&self, dims: impl Fn(usize) -> &'a [usize]) -> Extent {
        let (q, k) = (dims(0), dims(1));
        let buckets = self.table_at().map_or(0, |at| dims(at)[1]);
        Extent {
            batch: q[0],
            queries: q[1],
            keys: k[1],
            heads: self.heads,
            width: q[2] / self.heads,
            buckets,
        }
    }
}

impl Op for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }

    /// The result, the log-sum-exp of every row of scores, and room for what kernels need of the smaller inputs.
    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        let extent = self.extent(inputs)?;
        let sums = Shape::new([extent.batch, extent.heads, extent.queries]);
        Ok(vec![inputs[0].clone(), Spec::f32(sums), Spec::i32([gpu::Layout::new(self, &extent).len()])])
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        cpu::forward(self, args);
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        gpu::forward(self, args);
    }

    fn backward(
        &self,
        tape: &mut Tape,
        node: &Recorded,
        gradients: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        backward::record(self, tape, node, gradients)
    }
}
