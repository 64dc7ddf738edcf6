//! What both networks are made of: attention, MLP and norm in pre-norm residual blocks.

use std::rc::Rc;

use crate::model::buckets::bucket_table;
use crate::model::parameters::norm_before;
use crate::model::{ModelConfig, Parameters};
use crate::ops::{Activate, Add, Attention, Dropout, Embedding, Gated, Matmul, RmsNorm, Scale, Select};
use crate::shape::Shape;
use crate::tape::{Tape, TapeError, Var};

/// Whether the network is trained or asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// Dropout, from this key: `i32[2]`.
    Train {
        /// The key of the step's random numbers.
        dropout_key: Var,
    },
    /// No dropout.
    Evaluate,
}

/// The tokens of one side, as the host hands them over. `B` rows of `L` tokens.
#[derive(Clone, Copy, Debug)]
pub struct Tokens {
    /// What goes in, i32[B, L].
    pub ids: Var,
    /// Places of `ids` sorted by id, i32[B * L].
    pub order: Var,
    /// Where each id's places start in `order`, i32[V + 1].
    pub starts: Var,
    /// The segment of each token, from 1; 0 for padding: i32[B, L]. Tokens see tokens of their segment.
    pub groups: Var,
    /// 1 for tokens that see each other whatever their order: i32[B, L].
    pub prefix: Option<Var>,
}

/// What every part of a network needs.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) config: Rc<ModelConfig>,
    pub(super) parameters: Rc<Parameters>,
    pub(super) mode: Mode,
}

/// One of the two stacks of layers.
#[derive(Clone, Copy)]
pub(super) struct Stack {
    pub(super) name: &'static str,
    pub(super) layers: usize,
    pub(super) self_attention: &'static str,
    pub(super) causal: bool,
}

/// What a decoder looks at in the encoder.
#[derive(Clone, Copy)]
pub(super) struct Encoded {
    pub(super) states: Var,
    pub(super) groups: Var,
}

impl Context {
    /// Embedded tokens, [B, L, D].
    pub(super) fn embed(&self, tape: &mut Tape, table: &str, tokens: &Tokens) -> Result<Var, TapeError> {
        let table_name = format!("{table}/embedding");
        let inputs = [self.parameters[&table_name], tokens.ids, tokens.order, tokens.starts];
        let embedded = tape.record(Embedding::whole(), &inputs)?;
        tape.label(embedded, table);
        Ok(embedded)
    }

    /// A stack of layers over embedded tokens, with its final norm.
    pub(super) fn stack(
        &self,
        tape: &mut Tape,
        stack: Stack,
        embedded: Var,
        tokens: &Tokens,
        encoded: Option<Encoded>,
    ) -> Result<Var, TapeError> {
        let length = tape.shape(embedded).dims()[1];
        let table = bucket_table(&self.config, length, !stack.causal);
        let buckets = tape.constant("relpos_buckets", [2 * length - 1], table);
        let mut x = self.dropout(tape, embedded, true)?;
        for layer in 0..stack.layers {
            let part = Layer { context: self.clone(), stack, layer, x, tokens: *tokens, encoded, buckets };
            x = if self.config.recompute {
                tape.recomputed(move |tape| Ok(vec![part.record(tape)?]))?[0]
            } else {
                part.record(tape)?
            };
        }
        tape.scoped(stack.name, |tape| {
            let name = format!("{}_norm", stack.name);
            let scale = self.parameters[&format!("{}/{name}/scale", stack.name)];
            let y = self.norm(tape, &name, x, scale)?;
            // T5X draws the encoder's last mask for every place, all others for all places of a row at once.
            self.dropout(tape, y, stack.causal)
        })
    }

    /// Logits, [B, L, V].
    pub(super) fn logits(&self, tape: &mut Tape, states: Var, table: &str) -> Result<Var, TapeError> {
        let logits = if self.config.logits_via_embedding {
            let scaled = tape.record(Scale::new(1.0 / (self.config.emb_dim as f32).sqrt()), &[states])?;
            tape.record(Matmul::nt(), &[scaled, self.parameters[&format!("{table}/embedding")]])?
        } else {
            tape.record(Matmul::nn(), &[states, self.parameters["decoder/logits_dense/kernel"]])?
        };
        tape.label(logits, "logits");
        Ok(logits)
    }

    fn norm(&self, tape: &mut Tape, name: &str, x: Var, scale: Var) -> Result<Var, TapeError> {
        let y = tape.record_all(RmsNorm::new(self.config.layer_norm_eps), &[x, scale])?[0];
        tape.label(y, name);
        Ok(y)
    }

    /// Dropout over [B, L, …]; `shared`: one mask for all places of a row.
    fn dropout(&self, tape: &mut Tape, x: Var, shared: bool) -> Result<Var, TapeError> {
        match self.mode {
            Mode::Train { dropout_key } if self.config.dropout_rate > 0.0 => {
                let places = if shared { tape.shape(x).dims()[1] } else { 1 };
                let site = tape.next_site();
                tape.record(Dropout::new(self.config.dropout_rate, site, places), &[x, dropout_key])
            }
            _ => Ok(x),
        }
    }
}

/// One layer, ready to be recorded, once or twice.
struct Layer {
    context: Context,
    stack: Stack,
    layer: usize,
    x: Var,
    tokens: Tokens,
    encoded: Option<Encoded>,
    buckets: Var,
}

impl Layer {
    fn record(&self, tape: &mut Tape) -> Result<Var, TapeError> {
        let name = format!("{}/layers_{}", self.stack.name, self.layer);
        tape.scoped(name.clone(), |tape| {
            let x = self.self_attention(tape, self.x)?;
            let x = match self.encoded {
                Some(encoded) => self.cross_attention(tape, x, encoded)?,
                None => x,
            };
            self.mlp(tape, x)
        })
        .inspect(|x| tape.label(*x, &name))
    }

    /// A parameter of this layer; of stacked ones its part, with axes joined to this shape.
    fn parameter(&self, tape: &mut Tape, name: &str, shape: impl Into<Shape>) -> Result<Var, TapeError> {
        let (stack, parameters) = (self.stack.name, &self.context.parameters);
        if self.context.config.scan_layers {
            let stacked = parameters[&format!("{stack}/{stack}/{name}")];
            tape.record(Select::new(1, self.layer, shape), &[stacked])
        } else {
            Ok(parameters[&format!("{stack}/layers_{}/{name}", self.layer)])
        }
    }

    fn norm(&self, tape: &mut Tape, sublayer: &str, x: Var) -> Result<Var, TapeError> {
        let name = norm_before(sublayer);
        let scale = self.parameter(tape, &format!("{name}/scale"), [self.context.config.emb_dim])?;
        self.context.norm(tape, name, x, scale)
    }

    /// x + Dropout(y).
    fn residual(&self, tape: &mut Tape, x: Var, y: Var) -> Result<Var, TapeError> {
        let y = self.context.dropout(tape, y, true)?;
        tape.record(Add, &[x, y])
    }

    fn self_attention(&self, tape: &mut Tape, x: Var) -> Result<Var, TapeError> {
        let (name, config) = (self.stack.self_attention, &self.context.config);
        let h = self.norm(tape, name, x)?;
        let table = if config.scan_layers {
            self.parameter(tape, "relpos_bias/rel_embedding", [config.num_heads, config.relpos_num_buckets])?
        } else {
            self.context.parameters[&format!("{}/relpos_bias/rel_embedding", self.stack.name)]
        };
        let op = Attention::new(config.num_heads).causal(self.stack.causal);
        let groups = self.tokens.groups;
        let y = self.attention(tape, name, op, [h, h], [groups, groups], Some(table))?;
        self.residual(tape, x, y)
    }

    fn cross_attention(&self, tape: &mut Tape, x: Var, encoded: Encoded) -> Result<Var, TapeError> {
        let name = "encoder_decoder_attention";
        let h = self.norm(tape, name, x)?;
        let op = Attention::new(self.context.config.num_heads);
        let groups = [self.tokens.groups, encoded.groups];
        let y = self.attention(tape, name, op, [h, encoded.states], groups, None)?;
        self.residual(tape, x, y)
    }

    /// Projections, attention, output projection; `from` and `groups` of queries and of keys.
    fn attention(
        &self,
        tape: &mut Tape,
        name: &str,
        mut op: Attention,
        from: [Var; 2],
        groups: [Var; 2],
        table: Option<Var>,
    ) -> Result<Var, TapeError> {
        let config = &self.context.config;
        let (embed, joined) = (config.emb_dim, config.joined_kv());
        let mut projected = Vec::with_capacity(3);
        for (projection, from) in [("query", from[0]), ("key", from[1]), ("value", from[1])] {
            let kernel = self.parameter(tape, &format!("{name}/{projection}/kernel"), [embed, joined])?;
            projected.push(tape.record(Matmul::nn(), &[from, kernel])?);
        }
        let mut inputs = projected;
        inputs.extend(groups);
        if let Some(table) = table {
            op = op.relative();
            inputs.extend([table, self.buckets]);
            if let Some(prefix) = self.tokens.prefix {
                op = op.prefix();
                inputs.push(prefix);
            }
        }
        if let Mode::Train { dropout_key } = self.context.mode
            && config.dropout_rate > 0.0
        {
            op = op.dropout(config.dropout_rate, tape.next_site());
            inputs.push(dropout_key);
        }
        let heads = tape.record_all(op, &inputs)?[0];
        let kernel = self.parameter(tape, &format!("{name}/out/kernel"), [joined, embed])?;
        let y = tape.record(Matmul::nn(), &[heads, kernel])?;
        tape.label(y, name);
        Ok(y)
    }

    fn mlp(&self, tape: &mut Tape, x: Var) -> Result<Var, TapeError> {
        let config = &self.context.config;
        let (embed, hidden) = (config.emb_dim, config.mlp_dim);
        let h = self.norm(tape, "mlp", x)?;
        let inner = match config.mlp_activations.as_slice() {
            [first, second] => {
                let wi_0 = self.parameter(tape, "mlp/wi_0/kernel", [embed, hidden])?;
                let wi_1 = self.parameter(tape, "mlp/wi_1/kernel", [embed, hidden])?;
                let a = tape.record(Matmul::nn(), &[h, wi_0])?;
                let b = tape.record(Matmul::nn(), &[h, wi_1])?;
                tape.record(Gated::new(*first, *second), &[a, b])?
            }
            only => {
                let wi = self.parameter(tape, "mlp/wi/kernel", [embed, hidden])?;
                let a = tape.record(Matmul::nn(), &[h, wi])?;
                only.first().map_or(Ok(a), |activation| tape.record(Activate::new(*activation), &[a]))?
            }
        };
        let inner = self.context.dropout(tape, inner, true)?;
        let wo = self.parameter(tape, "mlp/wo/kernel", [hidden, embed])?;
        let y = tape.record(Matmul::nn(), &[inner, wo])?;
        tape.label(y, "mlp");
        self.residual(tape, x, y)
    }
}
