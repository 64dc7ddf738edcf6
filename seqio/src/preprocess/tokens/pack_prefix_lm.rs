//! Rows of a prefix language model, made of targets that are as long as a row.
//!
//! ```text
//! two rows of 4, cut at 3          encoder_input_tokens   10 11 12 | 20         segments 1 1 1 2
//! 10 11 12 13   20 21 22 23   ->   decoder_target_tokens  13 | 21 22 23         segments 1 2 2 2
//!                                  decoder_input_tokens    0 |  0 21 22
//! one row, cut at 3                decoder_target_tokens  10 11 12 13           loss on 13, attention both ways up to it
//! ```

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::dataset::StoreError;
use crate::item::{Draws, Item, ItemStep, Rope, TokenOp};
use crate::objective::split_point;
use crate::preprocess::tokens::settings::{TARGETS, default, feature, length, refused};
use crate::preprocess::tokens::{Outcome, TokenStep};
use crate::preprocess::{PreprocessError, StepContext};
use crate::rng::Key;

/// Puts two sequences of `targets` into one row of an encoder-decoder model: the first up to a random place and the second
/// from its beginning fill the encoder, the rests fill the decoder. It makes all eight model features; their
/// lengths are that of `targets`, which must be even. `targets_for_prefix_lm_objective` in front of it makes what it needs;
/// an odd sequence at the end of an epoch is dropped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct PackPrefixLmEncoderDecoder {
    /// The id that has no loss.
    #[serde(default)]
    pub pad_id: i32,
}

/// Cuts each sequence of `targets`, which are as long as a row, at a random place into a prefix, over which attention goes
/// both ways, and the rest. It makes the four model features of a decoder-only model; their lengths are that of `targets`,
/// which must be even. `targets_for_prefix_lm_objective` in front of it makes what it needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct PackPrefixLmDecoderOnly {
    /// Whether the prefix has no loss.
    #[serde(default = "default::yes")]
    pub loss_on_targets_only: bool,
    /// The id that has no loss.
    #[serde(default)]
    pub pad_id: i32,
}

impl Default for PackPrefixLmDecoderOnly {
    fn default() -> Self {
        Self { loss_on_targets_only: true, pad_id: 0 }
    }
}

pub(super) const ENCODER_DECODER: [&str; 8] = [
    "encoder_input_tokens",
    "decoder_target_tokens",
    "decoder_input_tokens",
    "encoder_segment_ids",
    "encoder_positions",
    "decoder_segment_ids",
    "decoder_positions",
    "decoder_loss_weights",
];
pub(super) const DECODER_ONLY: [&str; 4] =
    ["decoder_target_tokens", "decoder_input_tokens", "decoder_loss_weights", "decoder_causal_attention"];

/// 1 where there is a token and 0 where there is padding.
#[derive(Debug)]
struct NotPadding {
    pad_id: i32,
}

impl TokenOp for NotPadding {
    fn write(&self, inputs: &[&[i32]], _key: Key, out: &mut [i32]) -> Result<(), String> {
        let [tokens] = inputs else { return Err("weights are made of one sequence".to_owned()) };
        out.iter_mut().zip(*tokens).for_each(|(out, token)| *out = i32::from(*token != self.pad_id));
        Ok(())
    }
}

/// A rope of several.
fn joined<const N: usize>(parts: [Rope; N]) -> Rope {
    let mut all = Rope::default();
    parts.into_iter().for_each(|part| all.append(part));
    all
}

fn constant(id: i32, length: u32) -> Rope {
    Rope::ids(vec![id; length as usize])
}

fn counting(length: u32) -> Rope {
    Rope::ids((0..length as i32).collect::<Vec<_>>())
}

/// Tokens moved on by one place, 0 in front.
fn shifted(tokens: &Rope) -> Rope {
    let last = tokens.len().saturating_sub(1);
    if tokens.is_empty() { Rope::default() } else { joined([constant(0, 1), tokens.slice(0, last)]) }
}

/// Rows of one length.
#[derive(Debug)]
pub(super) struct Rows {
    length: u32,
    loss: Loss,
    not_padding: Arc<dyn TokenOp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// Two sequences a row, for an encoder and a decoder.
    Decoder,
    /// One sequence a row: all of it.
    All,
    /// One sequence a row: what is behind the prefix.
    BehindPrefix,
}

impl Rows {
    pub(super) fn new(length: u32, loss: Loss, pad_id: i32) -> Self {
        Self { length, loss, not_padding: Arc::new(NotPadding { pad_id }) }
    }

    fn targets(&self, item: &mut Item) -> Result<Rope, StoreError> {
        let targets = item.take(TARGETS).unwrap_or_default();
        if targets.len() == self.length {
            return Ok(targets);
        }
        Err(StoreError::new(format!(
            "example {}: `{TARGETS}` has {} ids where a row has {}; put `targets_for_prefix_lm_objective` in front of \
             the step",
            item.example(),
            targets.len(),
            self.length
        )))
    }

    fn weights(&self, targets: &Rope, key: Key) -> Rope {
        Rope::made(Arc::clone(&self.not_padding), vec![targets.clone()], key, targets.len())
    }

    /// The row of two sequences that are cut at `split` and as far from the end.
    pub(super) fn encoder_decoder(&self, [first, second]: [&Rope; 2], split: u32, key: Key) -> [Rope; 8] {
        let rest = self.length - split;
        let (first_rest, second_rest) = (first.slice(split, rest), second.slice(rest, split));
        let targets = joined([first_rest.clone(), second_rest.clone()]);
        let weights = self.weights(&targets, key);
        [
            joined([first.slice(0, split), second.slice(0, rest)]),
            targets,
            joined([shifted(&first_rest), shifted(&second_rest)]),
            joined([constant(1, split), constant(2, rest)]),
            joined([counting(split), counting(rest)]),
            joined([constant(1, rest), constant(2, split)]),
            joined([counting(rest), counting(split)]),
            weights,
        ]
    }

    /// The row of one sequence that is cut at `split`.
    pub(super) fn decoder_only(&self, targets: &Rope, split: u32, key: Key) -> [Rope; 4] {
        let weights = match self.loss {
            Loss::BehindPrefix => {
                let behind = targets.slice(split, self.length - split);
                joined([constant(0, split), self.weights(&behind, key)])
            }
            Loss::All | Loss::Decoder => self.weights(targets, key),
        };
        let seen = (split + 1).min(self.length);
        let attention = joined([constant(1, seen), constant(0, self.length - seen)]);
        [targets.clone(), shifted(targets), weights, attention]
    }
}

pub(super) fn named<const N: usize>(names: [&str; N], ropes: [Rope; N]) -> Vec<(Arc<str>, Rope)> {
    names.into_iter().map(Arc::from).zip(ropes).collect()
}

impl ItemStep for Rows {
    fn merges(&self) -> usize {
        if self.loss == Loss::Decoder { 2 } else { 1 }
    }

    fn plan(&self, mut items: Vec<Item>, draws: &Draws<'_>) -> Result<Vec<Item>, StoreError> {
        if self.loss == Loss::Decoder {
            let [first, second] = items.as_mut_slice() else { return Ok(Vec::new()) };
            let key = draws.key(first)?;
            let ropes = [&self.targets(first)?, &self.targets(second)?];
            let row = self.encoder_decoder(ropes, split_point(self.length, key), key);
            return Ok(vec![first.with_sequences(named(ENCODER_DECODER, row))]);
        }
        let row = |mut item: Item| -> Result<Item, StoreError> {
            let key = draws.key(&item)?;
            let row = self.decoder_only(&self.targets(&mut item)?, split_point(self.length, key), key);
            Ok(item.with_sequences(named(DECODER_ONLY, row)))
        };
        items.into_iter().map(row).collect()
    }

    fn in_words(&self) -> String {
        match self.loss {
            Loss::Decoder => "two rows cut in two, for encoder and decoder".to_owned(),
            Loss::All | Loss::BehindPrefix => "each row a prefix and the rest".to_owned(),
        }
    }
}

fn row_length(step: &'static str, ctx: &StepContext, features: &[&str]) -> Result<u32, PreprocessError> {
    let row = length(step, ctx, TARGETS)?;
    if row == 0 || row % 2 == 1 {
        return Err(refused(
            step,
            format!("the length of `{TARGETS}` is {row}; it must be even and above 0"),
        ));
    }
    for name in features {
        match ctx.lengths.get(*name) {
            Some(other) if *other != row as usize => {
                let problem =
                    format!("`{name}` has the length {other} and `{TARGETS}` {row}; they must be equal");
                return Err(refused(step, problem));
            }
            _ => {}
        }
    }
    Ok(row)
}

fn check_features(step: &'static str, ctx: &StepContext, names: &[&str]) -> Result<(), PreprocessError> {
    names.iter().try_for_each(|name| feature(step, ctx, name).map(|_| ()))
}

impl TokenStep for PackPrefixLmEncoderDecoder {
    const NAME: &'static str = "pack_prefix_lm_encoder_decoder";

    fn needs_lengths_of(&self, _ctx: &StepContext) -> Vec<String> {
        vec![TARGETS.to_owned()]
    }

    fn outcome(&self) -> Outcome {
        Outcome::keeping([]).making(&ENCODER_DECODER)
    }

    fn check(&self, ctx: &StepContext) -> Result<(), PreprocessError> {
        check_features(Self::NAME, ctx, &ENCODER_DECODER)
    }

    fn item_step(&self, ctx: &StepContext) -> Result<Arc<dyn ItemStep>, PreprocessError> {
        let row = row_length(Self::NAME, ctx, &ENCODER_DECODER)?;
        Ok(Arc::new(Rows::new(row, Loss::Decoder, self.pad_id)))
    }
}

impl TokenStep for PackPrefixLmDecoderOnly {
    const NAME: &'static str = "pack_prefix_lm_decoder_only";

    fn needs_lengths_of(&self, _ctx: &StepContext) -> Vec<String> {
        vec![TARGETS.to_owned()]
    }

    fn outcome(&self) -> Outcome {
        Outcome::keeping([]).making(&DECODER_ONLY)
    }

    fn check(&self, ctx: &StepContext) -> Result<(), PreprocessError> {
        check_features(Self::NAME, ctx, &DECODER_ONLY)
    }

    fn item_step(&self, ctx: &StepContext) -> Result<Arc<dyn ItemStep>, PreprocessError> {
        let row = row_length(Self::NAME, ctx, &DECODER_ONLY)?;
        let loss = if self.loss_on_targets_only { Loss::BehindPrefix } else { Loss::All };
        Ok(Arc::new(Rows::new(row, loss, self.pad_id)))
    }
}
