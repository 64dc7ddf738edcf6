//! T5's encoder-decoder (T5X `examples/t5`, `examples/scalable_t5`).

use std::rc::Rc;
use std::sync::Arc;

use crate::model::layers::{Context, Encoded, Mode, Stack, Tokens};
use crate::model::{ModelConfig, Parameters};
use crate::partition::Placement;
use crate::tape::{Tape, TapeError, Var};

/// Logits f32[B, L, V] of the decoder's tokens and this rank's part of the vocabulary, from its parts of the parameters.
pub fn encoder_decoder(
    tape: &mut Tape,
    config: &Arc<ModelConfig>,
    parameters: &Rc<Parameters>,
    placement: &Placement,
    encoder: &Tokens,
    decoder: &Tokens,
    mode: Mode,
) -> Result<Var, TapeError> {
    let context = Context {
        config: Arc::clone(config),
        parameters: Rc::clone(parameters),
        placement: *placement,
        mode,
    };
    let embedded = context.embed(tape, "token_embedder", encoder)?;
    let stack = Stack {
        name: "encoder",
        layers: config.num_encoder_layers,
        self_attention: "attention",
        causal: false,
    };
    let states = context.stack(tape, stack, embedded, encoder, None)?;
    let embedded = context.embed(tape, "token_embedder", decoder)?;
    let stack = Stack {
        name: "decoder",
        layers: config.num_decoder_layers,
        self_attention: "self_attention",
        causal: true,
    };
    let encoded = Encoded { states, groups: encoder.groups };
    let states = context.stack(tape, stack, embedded, decoder, Some(encoded))?;
    context.logits(tape, states, "token_embedder")
}
