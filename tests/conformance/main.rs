//! Vectors made by running SeqIO itself, from `tests/golden/seqio`.

mod autoregressive_inputs;
mod feature_converters;
mod golden;
mod rows;
mod trim_and_pack;
