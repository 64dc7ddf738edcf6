//! A network whose parameters are stored tensors.

use std::rc::Rc;

use seqio::Batch;

use crate::model::{
    Architecture, InputError, InputShape, Mode, ModelConfig, ModelError, ParameterSpec, Parameters,
    decoder_only, encoder_decoder, floats, ints, token_inputs,
};
use crate::ops::{CrossEntropy, Sum};
use crate::shape::Spec;
use crate::store::{StoreId, Stores};
use crate::tape::{Tape, TapeError, Var};
use crate::train::{Objective, Targets};

/// A network with a place for each parameter.
#[derive(Clone, Debug)]
pub struct Network {
    /// Its sizes and flags.
    pub config: Rc<ModelConfig>,
    /// Its parameters and where they are kept, sorted by name.
    pub parameters: Vec<(ParameterSpec, StoreId)>,
}

/// What a loss is made of, each `f32[1]`, summed over the tokens of the rows.
#[derive(Clone, Copy, Debug)]
pub struct LossVars {
    /// All of it, what is minimised.
    pub loss: Var,
    /// The part by which logits are kept small.
    pub z_loss: Var,
    /// Weights of the tokens that were predicted right.
    pub correct: Var,
}

/// Name of the input that weighs tokens, f32[B, L]: the loss's weights, divided by its normalizing factor.
pub(crate) const WEIGHTS: &str = "loss_weights";
/// Name of the input that dropout draws from, i32[2].
pub(crate) const DROPOUT_KEY: &str = "dropout_key";

/// The targets of all rows of a batch.
pub(crate) fn targets_of(batch: &Batch, length: usize) -> Result<Targets<'_>, InputError> {
    let ids = |feature| ints(batch, feature, length);
    let has = |feature: &str| batch.arrays.iter().any(|array| array.name == feature);
    let weights = match has("decoder_loss_weights") {
        true => Some(floats(batch, "decoder_loss_weights", length)?),
        false => None,
    };
    let packing = match has("decoder_segment_ids") && has("decoder_positions") {
        true => Some((ids("decoder_segment_ids")?, ids("decoder_positions")?)),
        false => None,
    };
    Ok(Targets { length, tokens: ids("decoder_target_tokens")?, weights, packing })
}

impl Network {
    /// A place for each parameter among `stores`.
    pub fn new(config: ModelConfig, stores: &mut Stores) -> Result<Self, ModelError> {
        config.check()?;
        config.parameter_count()?;
        let place = |spec: ParameterSpec| {
            let id = stores.add(spec.name.clone(), Spec::f32(spec.shape.clone()));
            (spec, id)
        };
        let parameters = config.parameters().into_iter().map(place).collect();
        Ok(Self { config: Rc::new(config), parameters })
    }

    /// The parameters on a tape.
    pub fn on(&self, tape: &mut Tape, stores: &Stores) -> Parameters {
        self.parameters.iter().map(|(spec, id)| (spec.name.clone(), tape.stored(stores, *id))).collect()
    }

    /// Records the network over inputs of this shape: logits f32[B, L, V].
    pub fn logits(
        &self,
        tape: &mut Tape,
        parameters: &Rc<Parameters>,
        shape: InputShape,
        mode: Mode,
    ) -> Result<Var, TapeError> {
        let config = &self.config;
        match config.architecture {
            Architecture::DecoderOnly => {
                let tokens = token_inputs(tape, config, "decoder", shape.rows, shape.decoder_length)?;
                decoder_only(tape, config, parameters, &tokens, mode)
            }
            Architecture::EncoderDecoder => {
                let encoder = token_inputs(tape, config, "encoder", shape.rows, shape.encoder_length)?;
                let decoder = token_inputs(tape, config, "decoder", shape.rows, shape.decoder_length)?;
                encoder_decoder(tape, config, parameters, &encoder, &decoder, mode)
            }
        }
    }

    /// Records the loss over inputs of this shape.
    pub fn losses(
        &self,
        tape: &mut Tape,
        parameters: &Rc<Parameters>,
        shape: InputShape,
        objective: &Objective,
        train: bool,
    ) -> Result<LossVars, TapeError> {
        let mode = match train && self.config.dropout_rate > 0.0 {
            true => Mode::Train { dropout_key: tape.input(DROPOUT_KEY, Spec::i32([2]))? },
            false => Mode::Evaluate,
        };
        let logits = self.logits(tape, parameters, shape, mode)?;
        let tokens = [shape.rows, shape.decoder_length];
        let targets = tape.input("targets", Spec::i32(tokens))?;
        let weights = tape.input(WEIGHTS, Spec::f32(tokens))?;
        let op = CrossEntropy::new(objective.z_loss, objective.label_smoothing);
        let statistics = tape.record(op.statistics(), &[logits, targets])?;
        let parts = tape.record_all(op, &[logits, targets, weights, statistics])?;
        Ok(LossVars {
            loss: tape.record(Sum, &[parts[0]])?,
            z_loss: tape.record(Sum, &[parts[1]])?,
            correct: tape.record(Sum, &[parts[2]])?,
        })
    }
}
