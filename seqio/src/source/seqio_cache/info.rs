//! What SeqIO keeps beside the shards of a cache: `info.<split>.json` and `stats.<split>.json`.
//!
//! ```text
//! { "features": { "targets": { "dtype": "int32", "shape": [null] } }, "num_shards": 64, "seqio_version": "0.0.20" }
//! { "examples": 360, "targets_tokens": 10948, … }
//! ```
//!
//! A feature of rank 0 is a column of one value, any other a list, row after row. Caches of before there were versions say
//! `int64` where they mean `int32`, and `_plaintext` for what is called `_pretokenized` since.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::preprocess::PRETOKENIZED_SUFFIX;
use crate::source::SourceError;
use crate::source::column::{ColumnSpec, ColumnType, ScalarType};
use crate::source::tfrecord::OLD_SUFFIX;
use crate::text::quoted;

/// What the shards of a split hold.
#[derive(Debug)]
pub(super) struct Info {
    /// The columns; what no column can hold is left out.
    pub(super) columns: BTreeMap<String, ColumnSpec>,
    pub(super) num_shards: u64,
}

#[derive(Deserialize)]
struct InfoFile {
    features: BTreeMap<String, FeatureInfo>,
    num_shards: u64,
    #[serde(default)]
    seqio_version: Option<String>,
}

#[derive(Deserialize)]
struct FeatureInfo {
    dtype: String,
    shape: Vec<Option<IgnoredAny>>,
}

#[derive(Deserialize)]
struct StatsFile {
    examples: Option<u64>,
}

fn read(path: &Path) -> Result<Vec<u8>, SourceError> {
    std::fs::read(path).map_err(|error| SourceError::io(path, error))
}

/// Reads `info.<split>.json`.
pub(super) fn read_info(path: &Path) -> Result<Info, SourceError> {
    let file: InfoFile = serde_json::from_slice(&read(path)?).map_err(|error| {
        SourceError::malformed(path, format!("is no info file of a SeqIO cache: {error}"))
    })?;
    let is_old = file.seqio_version.is_none_or(|version| version.starts_with("0.pre"));
    let (mut columns, mut left_out) = (BTreeMap::new(), Vec::new());
    for (feature, info) in file.features {
        let Some(scalar) = scalar(&info.dtype, is_old) else {
            left_out.push(format!("{feature} ({})", info.dtype));
            continue;
        };
        let data = if info.shape.is_empty() { ColumnType::Scalar(scalar) } else { ColumnType::List(scalar) };
        let column = match feature.strip_suffix(OLD_SUFFIX).filter(|_| is_old) {
            Some(stem) => format!("{stem}{PRETOKENIZED_SUFFIX}"),
            None => feature,
        };
        columns.insert(column, data.into());
    }
    if columns.is_empty() {
        let problem = format!("names no feature that can be read, only {}", quoted(left_out));
        return Err(SourceError::malformed(path, problem));
    }
    Ok(Info { columns, num_shards: file.num_shards })
}

/// What values of a TensorFlow type are read as.
fn scalar(dtype: &str, is_old: bool) -> Option<ScalarType> {
    Some(match dtype {
        "int64" if is_old => ScalarType::Int32,
        "int64" | "uint32" | "uint64" => ScalarType::Int64,
        "int32" | "int16" | "int8" | "uint16" | "uint8" => ScalarType::Int32,
        "bool" => ScalarType::Bool,
        "float32" | "float16" | "bfloat16" => ScalarType::Float32,
        "float64" => ScalarType::Float64,
        "string" => ScalarType::String,
        _ => return None,
    })
}

/// Examples that `stats.<split>.json` says there are; `None` if there is no such file.
pub(super) fn read_examples(path: &Path) -> Result<Option<u64>, SourceError> {
    if !path.exists() {
        return Ok(None);
    }
    let file: StatsFile = serde_json::from_slice(&read(path)?).map_err(|error| {
        SourceError::malformed(path, format!("is no statistics file of a SeqIO cache: {error}"))
    })?;
    Ok(file.examples)
}
