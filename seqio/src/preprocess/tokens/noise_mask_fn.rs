//! The noise masks of task files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which tokens of a sequence become noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoiseMaskFn {
    /// A fixed number of tokens in a fixed number of spans, where they are being random.
    RandomSpansNoiseMask,
    /// Each token by itself.
    IidNoiseMask,
    /// Spans of one random length at one distance.
    RegularNoiseMask,
    /// A prefix of random length.
    RandomPrefixNoiseMask,
}
