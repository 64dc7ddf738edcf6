//! Every parameter of a network: T5X's name, shape, logical axes and first values.

use std::collections::BTreeMap;

use crate::model::{Architecture, ModelConfig, ModelError};
use crate::shape::Shape;
use crate::tape::Var;

/// How a parameter begins (T5X `layers.py`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Initializer {
    /// All ones: norm scales.
    Ones,
    /// Normal with deviation 1: embeddings.
    Normal,
    /// Truncated normal (two deviations) of variance 1 / `fan_in`: dense kernels.
    TruncatedNormal {
        /// Inputs of an output.
        fan_in: usize,
    },
    /// Normal of variance 1 / `fan_in`, divided by `divisor`: attention kernels; √head_dim for the query.
    ScaledNormal {
        /// Inputs of an output.
        fan_in: usize,
        /// What T5X folds into the query instead of scaling logits.
        divisor: f32,
    },
    /// Uniform of variance 1 / `fan_avg`: relative positions.
    Uniform {
        /// The mean of inputs and outputs.
        fan_avg: f32,
    },
}

/// A parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterSpec {
    /// T5X's path, as `decoder/layers_0/mlp/wo/kernel`.
    pub name: String,
    /// Its axes' lengths.
    pub shape: Shape,
    /// Its logical axes, as `["mlp", "embed"]`.
    pub axes: Vec<&'static str>,
    /// How it begins.
    pub initializer: Initializer,
}

/// Parameters on a tape, by name.
pub type Parameters = BTreeMap<String, Var>;

impl ModelConfig {
    /// All parameters, sorted by name.
    pub fn parameters(&self) -> Vec<ParameterSpec> {
        let mut list = List { config: self, specs: Vec::new() };
        let decoder_only = self.architecture == Architecture::DecoderOnly;
        let embedder = if decoder_only { "decoder/token_embedder" } else { "token_embedder" };
        list.add(
            format!("{embedder}/embedding"),
            [("vocab", self.vocab_size), ("embed", self.emb_dim)],
            Initializer::Normal,
        );
        if !decoder_only {
            list.stack("encoder", self.num_encoder_layers, &["attention"]);
        }
        let attentions: &[&'static str] =
            if decoder_only { &["self_attention"] } else { &["self_attention", "encoder_decoder_attention"] };
        list.stack("decoder", self.num_decoder_layers, attentions);
        if !self.logits_via_embedding {
            list.add(
                "decoder/logits_dense/kernel".to_owned(),
                [("embed", self.emb_dim), ("vocab", self.vocab_size)],
                Initializer::TruncatedNormal { fan_in: self.emb_dim },
            );
        }
        list.specs.sort_by(|a, b| a.name.cmp(&b.name));
        list.specs
    }

    /// How many numbers all parameters hold.
    pub fn parameter_count(&self) -> Result<u64, ModelError> {
        let mut total: u64 = 0;
        for spec in self.parameters() {
            let elements =
                spec.shape.dims().iter().try_fold(1u64, |product, dim| product.checked_mul(*dim as u64));
            total = elements.and_then(|elements| total.checked_add(elements)).ok_or(ModelError::TooLarge)?;
        }
        Ok(total)
    }
}

struct List<'a> {
    config: &'a ModelConfig,
    specs: Vec<ParameterSpec>,
}

/// The norm before a sublayer.
pub(super) fn norm_before(sublayer: &str) -> &'static str {
    match sublayer {
        "attention" => "pre_attention_layer_norm",
        "self_attention" => "pre_self_attention_layer_norm",
        "encoder_decoder_attention" => "pre_cross_attention_layer_norm",
        _ => "pre_mlp_layer_norm",
    }
}

impl List<'_> {
    fn add<const N: usize>(
        &mut self,
        name: String,
        axes: [(&'static str, usize); N],
        initializer: Initializer,
    ) {
        self.specs.push(ParameterSpec {
            name,
            shape: Shape::new(axes.map(|(_, length)| length)),
            axes: axes.map(|(axis, _)| axis).to_vec(),
            initializer,
        });
    }

    /// One of the two stacks: `layers` layers, the final norm, tables of relative positions.
    fn stack(&mut self, stack: &str, layers: usize, attentions: &[&'static str]) {
        let config = self.config;
        let (heads, buckets) = (config.num_heads, config.relpos_num_buckets);
        let fan_avg = (heads + buckets) as f32 / 2.0;
        self.add(format!("{stack}/{stack}_norm/scale"), [("embed", config.emb_dim)], Initializer::Ones);
        if config.scan_layers {
            // Flax computes fans from the shape of one layer; the scan stacks what it made.
            self.layer(&format!("{stack}/{stack}"), Some(layers), attentions);
            self.add(
                format!("{stack}/{stack}/relpos_bias/rel_embedding"),
                [("heads", heads), ("layers", layers), ("relpos_buckets", buckets)],
                Initializer::Uniform { fan_avg },
            );
        } else {
            for layer in 0..layers {
                self.layer(&format!("{stack}/layers_{layer}"), None, attentions);
            }
            self.add(
                format!("{stack}/relpos_bias/rel_embedding"),
                [("heads", heads), ("relpos_buckets", buckets)],
                Initializer::Uniform { fan_avg },
            );
        }
    }

    fn layer(&mut self, prefix: &str, stacked: Option<usize>, attentions: &[&'static str]) {
        let config = self.config;
        let (embed, heads, kv) = (config.emb_dim, config.num_heads, config.head_dim);
        let normal = |fan_in, divisor| Initializer::ScaledNormal { fan_in, divisor };
        for attention in attentions {
            for projection in ["query", "key", "value", "out"] {
                let name = format!("{prefix}/{attention}/{projection}/kernel");
                let divisor = if projection == "query" { (kv as f32).sqrt() } else { 1.0 };
                match (projection, stacked) {
                    ("out", None) => {
                        let axes = [("joined_kv", heads * kv), ("embed", embed)];
                        self.add(name, axes, normal(heads * kv, divisor));
                    }
                    ("out", Some(layers)) => {
                        let axes = [("heads", heads), ("layers", layers), ("kv", kv), ("embed", embed)];
                        self.add(name, axes, normal(heads * kv, divisor));
                    }
                    (_, None) => {
                        let axes = [("embed", embed), ("joined_kv", heads * kv)];
                        self.add(name, axes, normal(embed, divisor));
                    }
                    (_, Some(layers)) => {
                        let axes = [("embed", embed), ("layers", layers), ("heads", heads), ("kv", kv)];
                        self.add(name, axes, normal(embed, divisor));
                    }
                }
            }
            self.norm(format!("{prefix}/{}/scale", norm_before(attention)), stacked);
        }
        self.norm(format!("{prefix}/{}/scale", norm_before("mlp")), stacked);
        let gated: &[&str] = &["wi_0", "wi_1"];
        for wi in if config.mlp_activations.len() == 1 { &["wi"] } else { gated } {
            self.dense(
                format!("{prefix}/mlp/{wi}/kernel"),
                ("embed", embed),
                ("mlp", config.mlp_dim),
                stacked,
            );
        }
        self.dense(format!("{prefix}/mlp/wo/kernel"), ("mlp", config.mlp_dim), ("embed", embed), stacked);
    }

    fn norm(&mut self, name: String, stacked: Option<usize>) {
        let embed = ("embed", self.config.emb_dim);
        match stacked {
            Some(layers) => self.add(name, [embed, ("layers", layers)], Initializer::Ones),
            None => self.add(name, [embed], Initializer::Ones),
        }
    }

    fn dense(
        &mut self,
        name: String,
        from: (&'static str, usize),
        to: (&'static str, usize),
        stacked: Option<usize>,
    ) {
        let initializer = Initializer::TruncatedNormal { fan_in: from.1 };
        match stacked {
            Some(layers) => self.add(name, [from, ("layers", layers), to], initializer),
            None => self.add(name, [from, to], initializer),
        }
    }
}
