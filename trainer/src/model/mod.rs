//! The networks, as plain functions that record on a tape: T5's encoder-decoder (1.0, 1.1, stacked) and T5X's
//! decoder-only network. Names of parameters and of labelled activations are T5X's.

mod buckets;
mod config;
mod decoder_only;
mod encoder_decoder;
mod init;
mod inputs;
mod layers;
mod parameters;
mod presets;
#[cfg(test)]
mod tests;

pub use buckets::relative_position_bucket;
pub use config::{Architecture, ModelConfig, ModelError};
pub use decoder_only::decoder_only;
pub use encoder_decoder::encoder_decoder;
pub use init::initial_values;
pub use inputs::{HostInputs, InputError, InputShape, host_inputs};
pub(crate) use inputs::{floats, ints, part, token_inputs};
pub use layers::{Mode, Tokens};
pub use parameters::{Initializer, ParameterSpec, Parameters};
pub use presets::{PRESETS, Preset, preset};
