//! The choices a definition has about how text becomes ids.

use serde::{Deserialize, Serialize};

/// Whose floating-point arithmetic a SentencePiece model is read with: releases differ in ties of equal scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Arithmetic {
    /// SentencePiece 0.2.0.
    #[serde(rename = "0.2.0")]
    V0_2_0,
    /// SentencePiece 0.2.3.
    #[default]
    #[serde(rename = "0.2.3")]
    V0_2_3,
}
