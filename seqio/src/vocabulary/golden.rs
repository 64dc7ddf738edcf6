//! Reads files below `tests/golden/` for tests; a file that is not there fails its test.

use std::path::Path;

use serde_json::Value;

/// The bytes of a file, decompressed if only `NAME.zst` is there.
pub(crate) fn bytes(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden").join(name);
    if let Ok(bytes) = std::fs::read(&path) {
        return bytes;
    }
    let packed = path.with_file_name(format!("{}.zst", path.file_name().unwrap().to_str().unwrap()));
    let packed = std::fs::read(&packed).unwrap_or_else(|error| panic!("{}: {error}", packed.display()));
    zstd::decode_all(packed.as_slice()).unwrap()
}

/// The rows of a JSONL file.
pub(crate) fn rows(name: &str) -> Vec<Value> {
    let text = String::from_utf8(bytes(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A JSON array of numbers as ids.
pub(crate) fn ids(value: &Value) -> Vec<i32> {
    value.as_array().unwrap().iter().map(|id| i32::try_from(id.as_i64().unwrap()).unwrap()).collect()
}
