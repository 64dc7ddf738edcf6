//! Values made by running T5X, for tests: `tests/golden/t5x/`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

#[allow(dead_code)]
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

pub(crate) fn json(path: &str) -> Value {
    serde_json::from_slice(&bytes(path)).unwrap()
}

#[allow(dead_code)]
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
