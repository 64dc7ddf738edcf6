//! From a batch, as a feature converter gives it, to what a network's program takes.
//!
//! ```text
//! decoder_input_tokens, decoder_segment_ids, …   ->   decoder/ids, decoder/order, decoder/starts, decoder/groups, …
//! ```

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use seqio::{Array, Batch, Values};

use crate::host::HostTensor;
use crate::model::{Architecture, ModelConfig, Tokens};
use crate::ops::{TokenError, token_index};
use crate::shape::Spec;
use crate::tape::{Tape, TapeError};

/// The shape of what a program takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputShape {
    /// Rows at once.
    pub rows: usize,
    /// Tokens of a row of the encoder; 0 without one.
    pub encoder_length: usize,
    /// Tokens of a row of the decoder.
    pub decoder_length: usize,
}

/// Why a batch does not fit a network.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// A feature that the network needs.
    #[error("the network needs the model feature `{feature}`, but batches have only {}", found.join(", "))]
    Missing {
        /// The feature.
        feature: &'static str,
        /// What there is.
        found: Vec<String>,
    },
    /// Floats for integers, or the reverse.
    #[error("the model feature `{feature}` should hold {wanted}")]
    WrongKind {
        /// The feature.
        feature: &'static str,
        /// What it should hold.
        wanted: &'static str,
    },
    /// Rows of another length than the program was made for.
    #[error("rows of `{feature}` hold {found} tokens, but the program takes {wanted}")]
    WrongLength {
        /// The feature.
        feature: &'static str,
        /// As it came.
        found: usize,
        /// As it should be.
        wanted: usize,
    },
    /// An id that the embedding does not have.
    #[error("model feature `{feature}`: {source}")]
    Token {
        /// The feature.
        feature: &'static str,
        /// Where and which.
        source: TokenError,
    },
}

/// Inputs of a program, by name.
pub type HostInputs = BTreeMap<String, HostTensor>;

impl InputShape {
    /// The shape of batches like this one, in `parts` parts.
    pub fn of(config: &ModelConfig, batch: &Batch, parts: usize) -> Result<Self, InputError> {
        let length = |feature| array(batch, feature).map(|array| array.length);
        Ok(Self {
            rows: batch.num_rows / parts.max(1),
            encoder_length: match config.architecture {
                Architecture::EncoderDecoder => length("encoder_input_tokens")?,
                Architecture::DecoderOnly => 0,
            },
            decoder_length: length("decoder_target_tokens")?,
        })
    }
}

/// The tokens of one side on a tape; `side` is `encoder` or `decoder`.
pub(crate) fn token_inputs(
    tape: &mut Tape,
    config: &ModelConfig,
    side: &str,
    rows: usize,
    length: usize,
) -> Result<Tokens, TapeError> {
    let mut input = |name: &str, spec: Spec| tape.input(&format!("{side}/{name}"), spec);
    Ok(Tokens {
        ids: input("ids", Spec::i32([rows, length]))?,
        order: input("order", Spec::i32([rows * length]))?,
        starts: input("starts", Spec::i32([config.vocab_size + 1]))?,
        groups: input("groups", Spec::i32([rows, length]))?,
        prefix: match side == "decoder" && config.inputs_bidirectional_attention {
            true => Some(input("prefix", Spec::i32([rows, length]))?),
            false => None,
        },
    })
}

/// What a program takes of a batch of its shape, but for loss weights and the dropout key.
pub fn host_inputs(config: &ModelConfig, shape: InputShape, batch: &Batch) -> Result<HostInputs, InputError> {
    let mut inputs = HostInputs::new();
    if config.architecture == Architecture::EncoderDecoder {
        let ids = ints(batch, "encoder_input_tokens", shape.encoder_length)?;
        let groups = groups(batch, ids, "encoder_segment_ids", shape.encoder_length)?;
        put_tokens(&mut inputs, config, "encoder", "encoder_input_tokens", ids, groups)?;
    }
    let length = shape.decoder_length;
    let targets = ints(batch, "decoder_target_tokens", length)?;
    if let Some(place) =
        targets.iter().position(|id| !(0..config.vocab_size as i64).contains(&i64::from(*id)))
    {
        let source = TokenError { place, id: targets[place], vocab_size: config.vocab_size };
        return Err(InputError::Token { feature: "decoder_target_tokens", source });
    }
    // Padding is judged by targets: the first input of a row is 0 too (T5X `make_decoder_mask`).
    let groups = groups(batch, targets, "decoder_segment_ids", length)?;
    let ids = ints(batch, "decoder_input_tokens", length)?;
    put_tokens(&mut inputs, config, "decoder", "decoder_input_tokens", ids, groups)?;
    if config.inputs_bidirectional_attention {
        let prefix = ints(batch, "decoder_causal_attention", length)?;
        inputs.insert("decoder/prefix".to_owned(), HostTensor::I32(prefix.to_vec()));
    }
    inputs.insert("targets".to_owned(), HostTensor::I32(targets.to_vec()));
    Ok(inputs)
}

/// Some rows of a batch; of all of them no copy is made.
pub(crate) fn part(batch: &Batch, rows: Range<usize>) -> Cow<'_, Batch> {
    if rows == (0..batch.num_rows) {
        return Cow::Borrowed(batch);
    }
    let cut = |array: &Array| {
        let width = array.length.max(1);
        let elements = rows.start * width..rows.end * width;
        let values = match &array.values {
            Values::I32(values) => Values::I32(values[elements].to_vec()),
            Values::F32(values) => Values::F32(values[elements].to_vec()),
        };
        Array { name: array.name.clone(), length: array.length, values }
    };
    Cow::Owned(Batch {
        step: batch.step,
        first_row: batch.first_row + rows.start as u64,
        num_rows: rows.len(),
        arrays: batch.arrays.iter().map(cut).collect(),
    })
}

fn put_tokens(
    inputs: &mut HostInputs,
    config: &ModelConfig,
    side: &str,
    feature: &'static str,
    ids: &[i32],
    groups: Vec<i32>,
) -> Result<(), InputError> {
    let index = token_index(ids, config.vocab_size);
    let (order, starts) = index.map_err(|source| InputError::Token { feature, source })?;
    let parts = [("ids", ids.to_vec()), ("order", order), ("starts", starts), ("groups", groups)];
    inputs.extend(parts.map(|(name, values)| (format!("{side}/{name}"), HostTensor::I32(values))));
    Ok(())
}

/// 0 for padding, else the segment; without segments 1.
fn groups(
    batch: &Batch,
    tokens: &[i32],
    segments: &'static str,
    length: usize,
) -> Result<Vec<i32>, InputError> {
    if batch.arrays.iter().all(|array| array.name != segments) {
        return Ok(tokens.iter().map(|token| i32::from(*token > 0)).collect());
    }
    let segments = ints(batch, segments, length)?;
    Ok(tokens.iter().zip(segments).map(|(token, segment)| if *token > 0 { *segment } else { 0 }).collect())
}

fn array<'a>(batch: &'a Batch, feature: &'static str) -> Result<&'a Array, InputError> {
    let found = || batch.arrays.iter().map(|array| format!("`{}`", array.name)).collect();
    let array = batch.arrays.iter().find(|array| array.name == feature);
    array.ok_or_else(|| InputError::Missing { feature, found: found() })
}

/// An integer feature.
pub(crate) fn ints<'a>(
    batch: &'a Batch,
    feature: &'static str,
    length: usize,
) -> Result<&'a [i32], InputError> {
    let array = array(batch, feature)?;
    check_length(array, feature, length)?;
    match &array.values {
        Values::I32(values) => Ok(values),
        Values::F32(_) => Err(InputError::WrongKind { feature, wanted: "integers" }),
    }
}

/// A feature of floats.
pub(crate) fn floats<'a>(
    batch: &'a Batch,
    feature: &'static str,
    length: usize,
) -> Result<&'a [f32], InputError> {
    let array = array(batch, feature)?;
    check_length(array, feature, length)?;
    match &array.values {
        Values::F32(values) => Ok(values),
        Values::I32(_) => Err(InputError::WrongKind { feature, wanted: "floats" }),
    }
}

fn check_length(array: &Array, feature: &'static str, wanted: usize) -> Result<(), InputError> {
    if array.length == wanted {
        return Ok(());
    }
    Err(InputError::WrongLength { feature, found: array.length, wanted })
}
