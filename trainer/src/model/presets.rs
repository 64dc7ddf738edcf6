//! Networks that people know by name.

use crate::model::{Architecture, ModelConfig, ModelError};
use crate::ops::Activation;

/// A network that people know by name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preset {
    /// As `t5_1_1/base`.
    pub name: &'static str,
    /// Parameters, in millions, as published or computed from T5X's shapes.
    pub millions: f64,
    family: Family,
    vocab_size: usize,
    emb_dim: usize,
    heads: (usize, usize),
    mlp_dim: usize,
    layers: (usize, usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Family {
    T5V10,
    T5V11,
    UmT5,
    Ul2,
    DecoderOnly,
}

const fn preset_of(
    name: &'static str,
    family: Family,
    sizes: (usize, usize, (usize, usize), usize, (usize, usize)),
    millions: f64,
) -> Preset {
    let (vocab_size, emb_dim, heads, mlp_dim, layers) = sizes;
    Preset { name, millions, family, vocab_size, emb_dim, heads, mlp_dim, layers }
}

use Family::{DecoderOnly, T5V10, T5V11, Ul2, UmT5};

/// Name, family, (vocabulary, width, (heads, width of a head), MLP, (encoder, decoder layers)), millions of parameters.
#[rustfmt::skip]
pub const PRESETS: &[Preset] = &[
    preset_of("t5_1_0/small", T5V10, (32128, 512, (8, 64), 2048, (6, 6)), 60.5),
    preset_of("t5_1_0/base", T5V10, (32128, 768, (12, 64), 3072, (12, 12)), 222.9),
    preset_of("t5_1_0/large", T5V10, (32128, 1024, (16, 64), 4096, (24, 24)), 737.7),
    preset_of("t5_1_0/3b", T5V10, (32128, 1024, (32, 128), 16384, (24, 24)), 2851.6),
    preset_of("t5_1_0/11b", T5V10, (32128, 1024, (128, 128), 65536, (24, 24)), 11307.3),
    preset_of("t5_1_1/tiny", T5V11, (32128, 8, (4, 3), 16, (2, 2)), 0.5),
    preset_of("t5_1_1/small", T5V11, (32128, 512, (6, 64), 1024, (8, 8)), 77.0),
    preset_of("t5_1_1/base", T5V11, (32128, 768, (12, 64), 2048, (12, 12)), 247.6),
    preset_of("t5_1_1/large", T5V11, (32128, 1024, (16, 64), 2816, (24, 24)), 783.2),
    preset_of("t5_1_1/xl", T5V11, (32128, 2048, (32, 64), 5120, (24, 24)), 2849.8),
    preset_of("t5_1_1/xxl", T5V11, (32128, 4096, (64, 64), 10240, (24, 24)), 11135.3),
    preset_of("mt5/small", T5V11, (250112, 512, (6, 64), 1024, (8, 8)), 300.2),
    preset_of("mt5/base", T5V11, (250112, 768, (12, 64), 2048, (12, 12)), 582.4),
    preset_of("mt5/large", T5V11, (250112, 1024, (16, 64), 2816, (24, 24)), 1229.6),
    preset_of("mt5/xl", T5V11, (250112, 2048, (32, 64), 5120, (24, 24)), 3742.6),
    preset_of("mt5/xxl", T5V11, (250112, 4096, (64, 64), 10240, (24, 24)), 12921.1),
    preset_of("umt5/small", UmT5, (256384, 512, (6, 64), 1024, (8, 8)), 306.6),
    preset_of("umt5/base", UmT5, (256384, 768, (12, 64), 2048, (12, 12)), 592.0),
    preset_of("umt5/xl", UmT5, (256384, 2048, (32, 64), 5120, (24, 24)), 3768.4),
    preset_of("umt5/xxl", UmT5, (256384, 4096, (64, 64), 10240, (24, 24)), 12972.5),
    preset_of("byt5/small", T5V11, (384, 1472, (6, 64), 3584, (12, 4)), 299.6),
    preset_of("byt5/base", T5V11, (384, 1536, (12, 64), 3968, (18, 6)), 581.7),
    preset_of("byt5/large", T5V11, (384, 1536, (16, 64), 3840, (36, 12)), 1228.2),
    preset_of("byt5/xl", T5V11, (384, 2560, (32, 64), 6720, (36, 12)), 3737.8),
    preset_of("byt5/xxl", T5V11, (384, 4672, (64, 64), 12352, (36, 12)), 12906.9),
    preset_of("ul2/20b", Ul2, (32128, 4096, (16, 256), 16384, (32, 32)), 19600.0),
    preset_of("decoder_only/base", DecoderOnly, (32128, 768, (12, 64), 2048, (0, 12)), 109.6),
    preset_of("decoder_only/large", DecoderOnly, (32128, 1024, (16, 64), 2816, (0, 24)), 341.0),
    preset_of("decoder_only/xl", DecoderOnly, (32128, 2048, (32, 64), 5120, (0, 24)), 1220.0),
    preset_of("decoder_only/xxl", DecoderOnly, (32128, 4096, (64, 64), 10240, (0, 24)), 4760.0),
];

impl Preset {
    /// The network.
    pub fn config(&self) -> ModelConfig {
        let decoder_only = self.family == DecoderOnly;
        ModelConfig {
            architecture: if decoder_only { Architecture::DecoderOnly } else { Architecture::EncoderDecoder },
            vocab_size: self.vocab_size,
            emb_dim: self.emb_dim,
            num_heads: self.heads.0,
            head_dim: self.heads.1,
            mlp_dim: self.mlp_dim,
            num_encoder_layers: self.layers.0,
            num_decoder_layers: self.layers.1,
            mlp_activations: match self.family {
                T5V10 => vec![Activation::Relu],
                Ul2 => vec![Activation::Silu, Activation::Linear],
                T5V11 | UmT5 | DecoderOnly => vec![Activation::Gelu, Activation::Linear],
            },
            dropout_rate: 0.0,
            logits_via_embedding: matches!(self.family, T5V10 | DecoderOnly),
            inputs_bidirectional_attention: false,
            scan_layers: self.family == UmT5,
            relpos_num_buckets: 32,
            relpos_max_distance: 128,
            layer_norm_eps: 1e-6,
            recompute: false,
        }
    }
}

/// The network of this name.
pub fn preset(name: &str) -> Result<ModelConfig, ModelError> {
    let found = PRESETS.iter().find(|preset| preset.name == name);
    found.map(Preset::config).ok_or_else(|| ModelError::NoPreset { name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_has_as_many_parameters_as_its_model() {
        for preset in PRESETS {
            let millions = preset.config().parameter_count().unwrap() as f64 / 1e6;
            let room = if preset.millions >= 1e4 && preset.family == Ul2 {
                100.0
            } else {
                0.051f64.max(preset.millions * 4e-3)
            };
            assert!(
                (millions - preset.millions).abs() <= room,
                "{}: {millions} against {}",
                preset.name,
                preset.millions
            );
            preset.config().check().unwrap();
        }
    }
}
