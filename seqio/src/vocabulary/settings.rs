//! The choices a definition has about how text becomes ids.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which release of SentencePiece decides between equally good ways to cut a text.
///
/// 0.2.0 compares the sum of a path and a piece in double precision and keeps it in single. 0.2.3 adds in single
/// precision, moves large sums back to zero and scores user-defined pieces otherwise. About one line in a thousand of
/// hard text differs, and then in runs of punctuation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Arithmetic {
    /// SentencePiece 0.2.0.
    #[serde(rename = "0.2.0")]
    V0_2_0,
    /// SentencePiece 0.2.3.
    #[default]
    #[serde(rename = "0.2.3")]
    V0_2_3,
}
