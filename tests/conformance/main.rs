//! Vectors made by running SeqIO itself, from `tests/golden/seqio`.

#![allow(clippy::unwrap_used, reason = "tests may stop")]

mod autoregressive_inputs;
mod feature_converters;
mod golden;
mod rows;
mod trim_and_pack;
mod trim_and_pad;
