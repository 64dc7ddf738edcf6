//! Values made by running T5X, for tests: `tests/golden/t5x/`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use seqio::{Array, Batch, Values};
use serde_json::Value;

use crate::model::{Architecture, ModelConfig};
use crate::ops::Activation;

/// Tensors by name: axes and numbers.
pub(crate) type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// The bytes of a file below `tests/golden/t5x`, which may be compressed there.
pub(crate) fn bytes(path: &str) -> Vec<u8> {
    let base = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/t5x").join(path);
    if let Ok(bytes) = std::fs::read(&base) {
        return bytes;
    }
    let compressed = base.with_file_name(format!("{}.zst", base.file_name().unwrap().to_str().unwrap()));
    let bytes =
        std::fs::read(&compressed).unwrap_or_else(|error| panic!("{}: {error}", compressed.display()));
    zstd::decode_all(bytes.as_slice()).unwrap()
}

/// Whether there is such a file.
pub(crate) fn exists(path: &str) -> bool {
    let base = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/t5x");
    base.join(path).exists() || base.join(format!("{path}.zst")).exists()
}

pub(crate) fn json(path: &str) -> Value {
    serde_json::from_slice(&bytes(path)).unwrap()
}

pub(crate) fn tensors(path: &str) -> Tensors {
    let bytes = bytes(path);
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let table: BTreeMap<String, Value> = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
    let data = &bytes[8 + header..];
    let mut tensors = Tensors::new();
    for (name, entry) in table.into_iter().filter(|(name, _)| name != "__metadata__") {
        let numbers = |key: &str| -> Vec<usize> { serde_json::from_value(entry[key].clone()).unwrap() };
        let (shape, span) = (numbers("shape"), numbers("data_offsets"));
        assert!(matches!(entry["dtype"].as_str(), Some("F32" | "I32")), "{name}");
        let values =
            data[span[0]..span[1]].chunks(4).map(|word| f32::from_le_bytes(word.try_into().unwrap()));
        tensors.insert(name, (shape, values.collect()));
    }
    tensors
}

/// The network of a case.
pub(crate) fn config(case: &str) -> ModelConfig {
    let json = json(&format!("{case}/config.json"));
    let size = |key: &str| json[key].as_u64().map_or(0, |size| size as usize);
    let decoder_only = json["network"].as_str().unwrap().ends_with("decoder_only");
    let activations: Vec<Activation> = serde_json::from_value(json["mlp_activations"].clone()).unwrap();
    ModelConfig {
        architecture: if decoder_only { Architecture::DecoderOnly } else { Architecture::EncoderDecoder },
        vocab_size: size("vocab_size"),
        emb_dim: size("emb_dim"),
        num_heads: size("num_heads"),
        head_dim: size("head_dim"),
        mlp_dim: size("mlp_dim"),
        num_encoder_layers: size("num_encoder_layers"),
        num_decoder_layers: size("num_decoder_layers").max(size("num_layers")),
        mlp_activations: activations,
        dropout_rate: 0.0,
        logits_via_embedding: json["logits_via_embedding"].as_bool().unwrap(),
        inputs_bidirectional_attention: false,
        scan_layers: json["scan_layers"].as_bool().unwrap_or(false),
        relpos_num_buckets: 32,
        relpos_max_distance: 128,
        layer_norm_eps: 1e-6,
        recompute: false,
    }
}

/// A batch of a case.
pub(crate) fn batch(case: &str, name: &str) -> Batch {
    let json = json(&format!("{case}/batch_{name}.json"));
    let (mut arrays, mut num_rows) = (Vec::new(), 0);
    for (feature, rows) in json.as_object().unwrap() {
        let rows: Vec<Vec<f64>> = serde_json::from_value(rows.clone()).unwrap();
        num_rows = rows.len();
        let (length, numbers) = (rows[0].len(), rows.concat());
        let values = if feature.ends_with("loss_weights") {
            Values::F32(numbers.into_iter().map(|x| x as f32).collect())
        } else {
            Values::I32(numbers.into_iter().map(|x| x as i32).collect())
        };
        arrays.push(Array { name: feature.clone(), length, values });
    }
    Batch { step: 0, first_row: 0, num_rows, arrays }
}
