//! T5X's decoder-only network (`examples/decoder_only`): causal, or with inputs that see each other.

use std::rc::Rc;

use crate::model::layers::{Context, Mode, Stack, Tokens};
use crate::model::{ModelConfig, Parameters};
use crate::tape::{Tape, TapeError, Var};

/// Logits f32[B, L, V].
pub fn decoder_only(
    tape: &mut Tape,
    config: &Rc<ModelConfig>,
    parameters: &Rc<Parameters>,
    tokens: &Tokens,
    mode: Mode,
) -> Result<Var, TapeError> {
    let context = Context { config: Rc::clone(config), parameters: Rc::clone(parameters), mode };
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
