//! The sizes and flags of a network, with T5X's names.

use serde::{Deserialize, Serialize};

use crate::ops::Activation;
use crate::partition::PlacementError;

/// Which of the two networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Architecture {
    /// T5's encoder-decoder.
    EncoderDecoder,
    /// T5X's decoder-only network.
    DecoderOnly,
}

/// A network. The defaults of what may be left out are those of T5 1.1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// Which network.
    pub architecture: Architecture,
    /// Rows of the embedding; at least the largest id of the vocabulary and one.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub emb_dim: usize,
    /// Attention heads.
    pub num_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Width of the hidden layer of the MLP.
    pub mlp_dim: usize,
    /// Layers of the encoder; 0 without one.
    #[serde(default)]
    pub num_encoder_layers: usize,
    /// Layers of the decoder.
    pub num_decoder_layers: usize,
    /// One activation, or a gated pair.
    #[serde(default = "gated_gelu")]
    pub mlp_activations: Vec<Activation>,
    /// Share of activations that training drops.
    #[serde(default)]
    pub dropout_rate: f32,
    /// Logits by the embedding, divided by √emb_dim, instead of a matrix of their own.
    #[serde(default)]
    pub logits_via_embedding: bool,
    /// The inputs of a decoder-only network see each other whatever their order (a prefix language model).
    #[serde(default)]
    pub inputs_bidirectional_attention: bool,
    /// Parameters of all layers stacked on axis 1, a table of relative positions a layer (T5X's `scalable_t5`).
    #[serde(default)]
    pub scan_layers: bool,
    /// Buckets of relative positions.
    #[serde(default = "buckets")]
    pub relpos_num_buckets: usize,
    /// Distance from which on positions share the last bucket.
    #[serde(default = "distance")]
    pub relpos_max_distance: usize,
    /// What keeps the norm's root from zero.
    #[serde(default = "epsilon")]
    pub layer_norm_eps: f32,
    /// Compute the inside of a layer again in the backward pass instead of keeping it.
    #[serde(default)]
    pub recompute: bool,
}

fn gated_gelu() -> Vec<Activation> {
    vec![Activation::Gelu, Activation::Linear]
}

fn buckets() -> usize {
    32
}

fn distance() -> usize {
    128
}

fn epsilon() -> f32 {
    1e-6
}

/// Why a network cannot be.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum ModelError {
    /// A size that must not be zero is.
    #[error("`{field}` is 0; a network needs at least 1")]
    Zero {
        /// The setting.
        field: &'static str,
    },
    /// A setting that means nothing for this network.
    #[error("`num_encoder_layers` is {layers}, but {why}")]
    EncoderLayers {
        /// The setting.
        layers: usize,
        /// Why not.
        why: &'static str,
    },
    /// Neither one activation nor two.
    #[error("`mlp_activations` holds {found} names; it takes one, or two that are multiplied")]
    Activations {
        /// How many there are.
        found: usize,
    },
    /// A rate outside [0, 1).
    #[error("`dropout_rate` is {rate}; it is a share from 0 up to but without 1")]
    DropoutRate {
        /// The setting.
        rate: f32,
    },
    /// An odd or too small number of buckets, or a distance within them.
    #[error(
        "{buckets} buckets and a distance of {distance}: buckets are even, at least 4, and fewer than twice the distance"
    )]
    Buckets {
        /// `relpos_num_buckets`.
        buckets: usize,
        /// `relpos_max_distance`.
        distance: usize,
    },
    /// More parameters than one can count.
    #[error("the network has more parameters than this machine can count")]
    TooLarge,
    /// Bidirectional inputs of a network that has an encoder for them.
    #[error(
        "`inputs_bidirectional_attention` is for decoder-only networks; the encoder sees in both directions anyway"
    )]
    Bidirectional,
    /// Sizes that the ranks of a mesh cannot share.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// A preset that does not exist.
    #[error("there is no preset `{name}`")]
    NoPreset {
        /// What was asked for.
        name: String,
    },
}

impl ModelConfig {
    /// All attention heads side by side.
    pub fn joined_kv(&self) -> usize {
        self.num_heads * self.head_dim
    }

    /// Refuses what is no network.
    pub fn check(&self) -> Result<(), ModelError> {
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("emb_dim", self.emb_dim),
            ("num_heads", self.num_heads),
            ("head_dim", self.head_dim),
            ("mlp_dim", self.mlp_dim),
            ("num_decoder_layers", self.num_decoder_layers),
        ];
        if let Some((field, _)) = sizes.iter().find(|(_, size)| *size == 0) {
            return Err(ModelError::Zero { field });
        }
        let layers = self.num_encoder_layers;
        match self.architecture {
            Architecture::EncoderDecoder if layers == 0 => {
                return Err(ModelError::EncoderLayers { layers, why: "an encoder-decoder has at least one" });
            }
            Architecture::DecoderOnly if layers > 0 => {
                return Err(ModelError::EncoderLayers {
                    layers,
                    why: "a decoder-only network has no encoder",
                });
            }
            _ => {}
        }
        if self.inputs_bidirectional_attention && self.architecture == Architecture::EncoderDecoder {
            return Err(ModelError::Bidirectional);
        }
        if !(1..=2).contains(&self.mlp_activations.len()) {
            return Err(ModelError::Activations { found: self.mlp_activations.len() });
        }
        if !(0.0..1.0).contains(&self.dropout_rate) {
            return Err(ModelError::DropoutRate { rate: self.dropout_rate });
        }
        let (buckets, distance) = (self.relpos_num_buckets, self.relpos_max_distance);
        if buckets < 4 || buckets % 2 == 1 || distance <= buckets / 2 {
            return Err(ModelError::Buckets { buckets, distance });
        }
        Ok(())
    }
}
