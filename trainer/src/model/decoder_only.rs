//! T5X's decoder-only network (`examples/decoder_only`): causal, or with inputs that see each other.

use std::rc::Rc;
use std::sync::Arc;

use crate::model::layers::{Context, Mode, Stack, Tokens};
use crate::model::{ModelConfig, Parameters};
use crate::partition::Placement;
use crate::tape::{Tape, TapeError, Var};

/// Logits f32[B, L, V] of this rank's part of the vocabulary, from its parts of the parameters.
pub fn decoder_only(
    tape: &mut Tape,
    config: &Arc<ModelConfig>,
    parameters: &Rc<Parameters>,
    placement: &Placement,
    tokens: &Tokens,
    mode: Mode,
) -> Result<Var, TapeError> {
    let context = Context {
        config: Arc::clone(config),
        parameters: Rc::clone(parameters),
        placement: *placement,
        mode,
    };
    let embedded = context.embed(tape, "decoder/token_embedder", tokens)?;
    let stack = Stack {
        name: "decoder",
        layers: config.num_decoder_layers,
        self_attention: "self_attention",
        causal: true,
    };
    let states = context.stack(tape, stack, embedded, tokens, None)?;
    context.logits(tape, states, "decoder/token_embedder")
}
