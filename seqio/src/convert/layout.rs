//! What rows are made of: a converter together with lengths, checked.
//!
//! ```text
//! prefix_lm, inputs 10, targets 7   ->  read inputs ≤ 10 and targets ≤ 7; decoder rows of 17: inputs, then targets
//! enc_dec, inputs 10, targets 7     ->  encoder rows of 10: inputs; decoder rows of 7: targets
//! ```

use crate::convert::{Conversion, ConvertError, Converter, MAX_LENGTH};
use crate::feature::FeatureLengths;

/// The numbers of a model feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// Ids, segments, positions.
    I32,
    /// Weights.
    F32,
}

/// A model feature: an array of shape `[B, length]`, or `[B]` for length 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFeature {
    /// SeqIO's name, or that of a task feature that is passed through.
    pub name: String,
    /// Its numbers.
    pub dtype: Dtype,
    /// Width of a row; 0 for one number a row.
    pub length: usize,
}

/// One of the two sides of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Encoder,
    Decoder,
}

/// What a model feature says of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// The tokens; of a decoder what it is to say.
    Tokens,
    /// The tokens one place later: what a decoder reads.
    Shifted,
    /// What an encoder alone is to say.
    Targets,
    Weights,
    SuffixWeights,
    Positions,
    Segments,
    /// 1 for places that see each other whatever their order.
    Causal,
    /// 0, and then the place after each segment.
    Ends,
    /// How many segments there are.
    Count,
}

/// What an array of a batch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    RowValid,
    Of(Side, Field),
    /// A copy of the task feature of this number.
    Copy(usize),
}

/// A side's rows.
#[derive(Clone, Debug)]
pub(super) struct SideLayout {
    pub(super) side: Side,
    /// Width of a row.
    pub(super) length: usize,
    /// The task features in it, one after the other, by number.
    pub(super) parts: Vec<Part>,
    pub(super) form: Form,
}

/// A task feature in a row.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// Its number among the task features.
    pub(super) feature: usize,
    pub(super) role: Role,
    /// Whether its tokens count in the loss.
    pub(super) loss: bool,
}

/// What a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Inputs,
    Targets,
    Suffixes,
}

/// How a side is made of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// What an encoder reads.
    Read,
    /// What a decoder says.
    Said,
    /// What a decoder says after a prefix.
    Prefixed,
    /// What an encoder reads and says: the part, and beside it the task feature of this number.
    Masked { targets: usize, mask_id: i32 },
    /// Packed rows: behind the tokens stand their positions and segments, and perhaps what is prefix.
    Prepacked { prefix: bool },
}

/// A converter with lengths.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// The task features read, in the order of spans and limits.
    pub(super) features: Vec<String>,
    pub(super) limits: Vec<usize>,
    pub(super) sides: Vec<SideLayout>,
    /// How many of the task features, the last ones, are copied.
    copied: usize,
    /// Room for the ends of segments; 0 if they are not wanted.
    ends: usize,
}

impl Layout {
    /// Checks lengths against the converter.
    pub(super) fn new(conversion: &Conversion, lengths: &FeatureLengths) -> Result<Self, ConvertError> {
        let kind = conversion.kind.resolved(lengths);
        let features = conversion.task_features(lengths);
        check_passthrough(conversion, kind)?;
        if let Some(extra) = lengths.keys().find(|name| !features.contains(name)) {
            return Err(ConvertError::ExtraLength {
                converter: conversion.clone(),
                feature: extra.clone(),
                reads: features,
            });
        }
        let limits: Vec<usize> =
            features.iter().map(|name| limit(conversion, lengths, name)).collect::<Result<_, _>>()?;
        if limits.is_empty() {
            let problem = "no feature has a length, so that there is nothing to pass through".to_owned();
            return Err(setting(kind, "lengths", problem));
        }
        if kind == Converter::PassThrough && features.iter().any(|name| name == ROW_VALID) {
            let problem = format!("every batch has a `{ROW_VALID}` of its own; `rekey` that feature");
            return Err(setting(kind, "lengths", problem));
        }
        let copied = match kind {
            Converter::PassThrough => features.len(),
            _ => conversion.passthrough.len(),
        };
        let own = &limits[..limits.len() - copied];
        if matches!(kind, Converter::Encoder { .. }) && own.first() != own.last() {
            let problem = format!(
                "inputs and targets stand side by side, so that their lengths must be equal; they are {} and {}",
                own.first().unwrap_or(&0),
                own.last().unwrap_or(&0)
            );
            return Err(setting(kind, "lengths", problem));
        }
        let length: usize = own.iter().sum();
        if kind.joins_features() && length > MAX_LENGTH {
            return Err(ConvertError::LengthOutOfRange {
                feature: features[..own.len()].join(" + "),
                length,
            });
        }
        let ends = if conversion.cu_seqlens { room_for_ends(kind, own) } else { 0 };
        Ok(Self { sides: sides(kind, own), features, limits, copied, ends })
    }

    /// The model features, sorted by name, without `row_valid`.
    pub(super) fn model_features(&self, packed: bool) -> Vec<ModelFeature> {
        let arrays = self.arrays(packed).into_iter();
        arrays.filter(|(slot, _)| *slot != Slot::RowValid).map(|(_, feature)| feature).collect()
    }

    /// All arrays of a batch, sorted by name.
    pub(super) fn arrays(&self, packed: bool) -> Vec<(Slot, ModelFeature)> {
        let row_valid = ModelFeature { name: ROW_VALID.to_owned(), dtype: Dtype::I32, length: 0 };
        let mut arrays = vec![(Slot::RowValid, row_valid)];
        for side in &self.sides {
            let array = |field: &Field| {
                let dtype = match field {
                    Field::Weights | Field::SuffixWeights => Dtype::F32,
                    _ => Dtype::I32,
                };
                let length = match field {
                    Field::Ends => self.ends,
                    Field::Count => 0,
                    _ => side.length,
                };
                let name = name(side.side, *field).to_owned();
                (Slot::Of(side.side, *field), ModelFeature { name, dtype, length })
            };
            arrays.extend(self.fields(side, packed).iter().map(array));
        }
        let copied =
            self.features.iter().zip(&self.limits).enumerate().skip(self.features.len() - self.copied);
        arrays.extend(copied.map(|(feature, (name, length))| {
            (Slot::Copy(feature), ModelFeature { name: name.clone(), dtype: Dtype::I32, length: *length })
        }));
        arrays.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        arrays
    }

    fn fields(&self, side: &SideLayout, packed: bool) -> Vec<Field> {
        let mut fields = match side.form {
            Form::Read => vec![Field::Tokens],
            Form::Said => vec![Field::Tokens, Field::Shifted, Field::Weights],
            Form::Prefixed => vec![Field::Tokens, Field::Shifted, Field::Weights, Field::Causal],
            Form::Masked { .. } => vec![Field::Tokens, Field::Targets, Field::Weights],
            Form::Prepacked { prefix } => {
                let mut fields = vec![Field::Tokens];
                if side.side == Side::Decoder {
                    fields.extend([Field::Shifted, Field::Weights]);
                }
                fields.extend(prefix.then_some(Field::Causal));
                fields
            }
        };
        if side.parts.iter().any(|part| part.role == Role::Suffixes) {
            fields.push(Field::SuffixWeights);
        }
        if packed || matches!(side.form, Form::Prepacked { .. }) {
            fields.extend([Field::Positions, Field::Segments]);
        }
        if packed && self.ends > 0 {
            fields.extend([Field::Ends, Field::Count]);
        }
        fields
    }
}

const ROW_VALID: &str = "row_valid";

/// All names that model features can have.
fn names() -> impl Iterator<Item = &'static str> {
    const FIELDS: [Field; 10] = [
        Field::Tokens,
        Field::Shifted,
        Field::Targets,
        Field::Weights,
        Field::SuffixWeights,
        Field::Positions,
        Field::Segments,
        Field::Causal,
        Field::Ends,
        Field::Count,
    ];
    let of = |side: Side| FIELDS.into_iter().map(move |field| name(side, field));
    of(Side::Encoder).chain(of(Side::Decoder)).chain([ROW_VALID])
}

fn name(side: Side, field: Field) -> &'static str {
    match (side, field) {
        (Side::Encoder, Field::Tokens | Field::Shifted) => "encoder_input_tokens",
        (Side::Encoder, Field::Targets) => "encoder_target_tokens",
        (Side::Encoder, Field::Weights) => "encoder_loss_weights",
        (Side::Encoder, Field::Positions) => "encoder_positions",
        (Side::Encoder, Field::Segments | Field::Causal) => "encoder_segment_ids",
        (Side::Encoder, Field::Ends) => "encoder_cu_seqlens",
        (Side::Encoder, Field::Count) => "encoder_num_segments",
        (Side::Decoder, Field::Tokens | Field::Targets) => "decoder_target_tokens",
        (Side::Decoder, Field::Shifted) => "decoder_input_tokens",
        (Side::Decoder, Field::Weights) => "decoder_loss_weights",
        (Side::Decoder, Field::Positions) => "decoder_positions",
        (Side::Decoder, Field::Segments) => "decoder_segment_ids",
        (Side::Decoder, Field::Causal) => "decoder_causal_attention",
        (Side::Decoder, Field::Ends) => "decoder_cu_seqlens",
        (Side::Decoder, Field::Count) => "decoder_num_segments",
        (_, Field::SuffixWeights) => "target_suffix_weights",
    }
}

fn sides(kind: Converter, limits: &[usize]) -> Vec<SideLayout> {
    let part = |feature, role, loss| Part { feature, role, loss };
    let side = |side, form, parts: Vec<Part>| SideLayout {
        side,
        length: match form {
            Form::Prefixed => parts.iter().map(|part| limits[part.feature]).sum(),
            _ => parts.first().map_or(1, |part| limits[part.feature]),
        },
        parts,
        form,
    };
    let inputs_lose = kind.loss_on_targets_only() == Some(false);
    let (encoder, decoder) = (Side::Encoder, Side::Decoder);
    match kind {
        Converter::Lm => vec![side(decoder, Form::Said, vec![part(0, Role::Targets, true)])],
        Converter::EncDec => vec![
            side(encoder, Form::Read, vec![part(0, Role::Inputs, false)]),
            side(decoder, Form::Said, vec![part(1, Role::Targets, true)]),
        ],
        Converter::PrefixLm { .. } => {
            let parts = vec![part(0, Role::Inputs, inputs_lose), part(1, Role::Targets, true)];
            vec![side(decoder, Form::Prefixed, parts)]
        }
        Converter::PrefixSuffixLm { .. } => {
            let parts = vec![
                part(0, Role::Inputs, inputs_lose),
                part(1, Role::Targets, true),
                part(2, Role::Suffixes, true),
            ];
            vec![side(decoder, Form::Prefixed, parts)]
        }
        Converter::Encoder { mask_id } => {
            let parts = vec![part(0, Role::Inputs, false)];
            vec![side(encoder, Form::Masked { targets: 1, mask_id }, parts)]
        }
        Converter::PrepackedLm => {
            let parts = vec![part(0, Role::Targets, true)];
            vec![side(decoder, Form::Prepacked { prefix: false }, parts)]
        }
        Converter::PrepackedPrefixLm { .. } => {
            let parts = vec![part(0, Role::Targets, true)];
            vec![side(decoder, Form::Prepacked { prefix: true }, parts)]
        }
        Converter::PrepackedEncDec => vec![
            side(encoder, Form::Prepacked { prefix: false }, vec![part(0, Role::Inputs, false)]),
            side(decoder, Form::Prepacked { prefix: false }, vec![part(3, Role::Targets, true)]),
        ],
        // `decoder` has been resolved.
        Converter::PassThrough | Converter::Decoder { .. } => Vec::new(),
    }
}

/// The most segments that a row can have, and one: every item of a packed row has a token in some feature.
fn room_for_ends(kind: Converter, limits: &[usize]) -> usize {
    match kind {
        Converter::Encoder { .. } => limits[0] + 1,
        _ => limits.iter().sum::<usize>() + 1,
    }
}

/// The length of a feature. What stands beside the tokens of a packed row is as long as they are.
fn limit(conversion: &Conversion, lengths: &FeatureLengths, feature: &str) -> Result<usize, ConvertError> {
    let tokens = match conversion.kind.is_prepacked() {
        true => ["_positions", "_segment_ids", "_prefix"].iter().find_map(|end| feature.strip_suffix(end)),
        false => None,
    };
    let tokens = tokens.filter(|tokens| ["inputs", "targets"].contains(tokens));
    let name = tokens.unwrap_or(feature);
    let length = match lengths.get(name) {
        Some(length) if (1..=MAX_LENGTH).contains(length) => *length,
        Some(length) => {
            return Err(ConvertError::LengthOutOfRange { feature: name.to_owned(), length: *length });
        }
        None => {
            return Err(ConvertError::MissingLength {
                converter: conversion.clone(),
                feature: name.to_owned(),
                found: lengths.keys().cloned().collect(),
            });
        }
    };
    match lengths.get(feature) {
        Some(own) if *own != length => {
            let problem = format!(
                "`{feature}` stands beside the tokens of `{name}`, so that it is as long; leave its length out or \
                 make it {length}; it is {own}"
            );
            Err(setting(conversion.kind, "lengths", problem))
        }
        _ => Ok(length),
    }
}

fn check_passthrough(conversion: &Conversion, kind: Converter) -> Result<(), ConvertError> {
    let names = &conversion.passthrough;
    for (index, name) in names.iter().enumerate() {
        let problem = match name.as_str() {
            "" => "a name is empty".to_owned(),
            _ if names[..index].contains(name) => format!("`{name}` is named twice"),
            _ if kind.task_features().contains(&name.as_str()) => {
                format!("`{name}` is read anyway; only other features can be passed through")
            }
            _ if names_of_arrays(name) => format!("`{name}` is the name of a model feature; `rekey` it"),
            _ if kind == Converter::PassThrough => "every feature is passed through".to_owned(),
            _ => continue,
        };
        return Err(setting(kind, "passthrough", problem));
    }
    Ok(())
}

fn names_of_arrays(name: &str) -> bool {
    names().any(|known| known == name)
}

fn setting(kind: Converter, setting: &str, problem: String) -> ConvertError {
    ConvertError::Setting { converter: kind.name(), setting: setting.to_owned(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(converter: &str, lengths: &[(&str, usize)], packed: bool) -> Result<String, ConvertError> {
        let lengths = lengths.iter().map(|(name, length)| ((*name).to_owned(), *length)).collect();
        let conversion: Conversion = converter.parse()?;
        let features = conversion.model_features(&lengths, packed)?;
        assert!(features.is_sorted_by(|a, b| a.name < b.name));
        let shown = features.iter().map(|feature| format!("{} {}", feature.name, feature.length));
        Ok(shown.collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn joined_features_share_a_row() {
        let lengths = [("inputs", 10), ("targets", 7)];
        insta::assert_snapshot!(features("prefix_lm:cu_seqlens=true", &lengths, true).unwrap(), @r"
        decoder_causal_attention 17
        decoder_cu_seqlens 18
        decoder_input_tokens 17
        decoder_loss_weights 17
        decoder_num_segments 0
        decoder_positions 17
        decoder_segment_ids 17
        decoder_target_tokens 17
        ");
        let lengths = [("inputs", 10), ("targets", 7), ("suffixes", 3)];
        insta::assert_snapshot!(features("decoder", &lengths, false).unwrap(), @r"
        decoder_causal_attention 20
        decoder_input_tokens 20
        decoder_loss_weights 20
        decoder_target_tokens 20
        target_suffix_weights 20
        ");
    }

    #[test]
    fn what_is_passed_through_has_its_own_length() {
        let lengths = [("targets", 7), ("year", 3)];
        insta::assert_snapshot!(features("lm:passthrough=year", &lengths, false).unwrap(), @r"
        decoder_input_tokens 7
        decoder_loss_weights 7
        decoder_target_tokens 7
        year 3
        ");
        insta::assert_snapshot!(features("pass_through", &lengths, false).unwrap(), @r"
        targets 7
        year 3
        ");
    }

    #[test]
    fn packed_rows_bring_their_segments() {
        insta::assert_snapshot!(features("prepacked_enc_dec", &[("inputs", 5), ("targets", 4)], false).unwrap(), @r"
        decoder_input_tokens 4
        decoder_loss_weights 4
        decoder_positions 4
        decoder_segment_ids 4
        decoder_target_tokens 4
        encoder_input_tokens 5
        encoder_positions 5
        encoder_segment_ids 5
        ");
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_words() {
        let error = |converter: &str, lengths: &[(&str, usize)]| {
            features(converter, lengths, false).unwrap_err().to_string()
        };
        insta::assert_snapshot!(
            error("encoder:mask_id=9", &[("inputs", 4), ("targets", 5)]),
            @"converter `encoder`, `lengths`: inputs and targets stand side by side, so that their lengths must be equal; they are 4 and 5"
        );
        insta::assert_snapshot!(
            error("lm:passthrough=targets", &[("targets", 5)]),
            @"converter `lm`, `passthrough`: `targets` is read anyway; only other features can be passed through"
        );
        insta::assert_snapshot!(
            error("lm:passthrough=row_valid", &[("targets", 5), ("row_valid", 1)]),
            @"converter `lm`, `passthrough`: `row_valid` is the name of a model feature; `rekey` it"
        );
        insta::assert_snapshot!(
            error("lm:passthrough=year", &[("targets", 5)]),
            @"converter `lm:passthrough=year` needs a length for feature `year`, but there are lengths only for `targets`"
        );
        insta::assert_snapshot!(
            error("prepacked_lm", &[("targets", 5), ("targets_positions", 4)]),
            @"converter `prepacked_lm`, `lengths`: `targets_positions` stands beside the tokens of `targets`, so that it is as long; leave its length out or make it 5; it is 4"
        );
        insta::assert_snapshot!(
            error("pass_through", &[]),
            @"converter `pass_through`, `lengths`: no feature has a length, so that there is nothing to pass through"
        );
    }
}
