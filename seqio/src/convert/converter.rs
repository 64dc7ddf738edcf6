//! The table of converters: which task features each reads and which model features it puts out.
//!
//! ```text
//! lm         targets          ->  decoder_target_tokens, decoder_input_tokens, decoder_loss_weights
//! enc_dec    inputs, targets  ->  the same, and encoder_input_tokens
//! prefix_lm  inputs, targets  ->  one sequence of both, and decoder_causal_attention
//! packed                          and *_segment_ids, *_positions
//! ```

use std::fmt;

use crate::convert::{Conversion, ConvertError, ModelFeature, did_you_mean};
use crate::feature::FeatureLengths;
use crate::text::quoted;

/// What kind of model the rows are for. [`Conversion`] adds the settings that all kinds have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Converter {
    /// A decoder-only model; SeqIO's `LMFeatureConverter`.
    Lm,
    /// An encoder-decoder model; SeqIO's `EncDecFeatureConverter`.
    EncDec,
    /// A decoder-only model that reads inputs in both directions; SeqIO's `PrefixLMFeatureConverter`.
    PrefixLm {
        /// Whether inputs have no loss.
        loss_on_targets_only: bool,
    },
    /// As `PrefixLm`, with suffixes behind the targets; SeqIO's `PrefixSuffixLMFeatureConverter`.
    PrefixSuffixLm {
        /// Whether inputs have no loss.
        loss_on_targets_only: bool,
    },
    /// One of the three before, by the features that have a length; SeqIO's `DecoderFeatureConverter`.
    Decoder {
        /// Whether inputs have no loss.
        loss_on_targets_only: bool,
    },
    /// An encoder-only model that fills in what is masked; SeqIO's `EncoderFeatureConverter`.
    Encoder {
        /// The id that stands in the place of a masked token.
        mask_id: i32,
    },
    /// Task features under their own names, padded; SeqIO's `PassThroughFeatureConverter`.
    PassThrough,
    /// `Lm` whose examples are packed rows already; SeqIO's `PrePackedLMFeatureConverter`.
    PrepackedLm,
    /// `PrefixLm` whose examples are packed rows already; SeqIO's `PrePackedPrefixLMFeatureConverter`.
    PrepackedPrefixLm {
        /// Whether inputs have no loss.
        loss_on_targets_only: bool,
    },
    /// `EncDec` whose examples are packed rows already; SeqIO's `PrePackedEncDecFeatureConverter`.
    PrepackedEncDec,
}

/// What a converter is called, what it reads and what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConverterEntry {
    /// Its name.
    pub name: &'static str,
    /// The task features it reads, in words.
    pub reads: &'static str,
    /// The settings it has.
    pub settings: &'static [&'static str],
    /// What it is for.
    pub summary: &'static str,
}

/// The settings of what joins inputs and targets.
const JOINED: &[&str] = &["loss_on_targets_only", "bos_id", "passthrough", "cu_seqlens"];
/// The settings of what has a decoder.
const PLAIN: &[&str] = &["bos_id", "passthrough", "cu_seqlens"];

impl Converter {
    /// All converters.
    pub const TABLE: &[ConverterEntry] = &[
        ConverterEntry {
            name: "lm",
            reads: "targets",
            settings: PLAIN,
            summary: "a decoder alone, each token from those before it",
        },
        ConverterEntry {
            name: "enc_dec",
            reads: "inputs, targets",
            settings: PLAIN,
            summary: "an encoder over inputs, a decoder over targets",
        },
        ConverterEntry {
            name: "prefix_lm",
            reads: "inputs, targets",
            settings: JOINED,
            summary: "a decoder over inputs and then targets, in which inputs may see each other",
        },
        ConverterEntry {
            name: "prefix_suffix_lm",
            reads: "inputs, targets, suffixes",
            settings: JOINED,
            summary: "as `prefix_lm`, with suffixes behind the targets that are told apart",
        },
        ConverterEntry {
            name: "decoder",
            reads: "targets, and inputs, and suffixes",
            settings: JOINED,
            summary: "`lm`, `prefix_lm` or `prefix_suffix_lm`, by the features that have a length",
        },
        ConverterEntry {
            name: "encoder",
            reads: "inputs, targets",
            settings: &["mask_id", "passthrough", "cu_seqlens"],
            summary: "an encoder alone that fills in masked tokens, `mask_id` in the inputs, from the targets beside them",
        },
        ConverterEntry {
            name: "pass_through",
            reads: "every feature with a length",
            settings: &[],
            summary: "features under their own names, padded",
        },
        ConverterEntry {
            name: "prepacked_lm",
            reads: "targets, targets_positions, targets_segment_ids",
            settings: &["bos_id", "passthrough"],
            summary: "`lm` of examples that are packed rows",
        },
        ConverterEntry {
            name: "prepacked_prefix_lm",
            reads: "targets, targets_positions, targets_prefix, targets_segment_ids",
            settings: &["loss_on_targets_only", "bos_id", "passthrough"],
            summary: "`prefix_lm` of examples that are packed rows",
        },
        ConverterEntry {
            name: "prepacked_enc_dec",
            reads: "inputs, inputs_positions, inputs_segment_ids, and the same of targets",
            settings: &["bos_id", "passthrough"],
            summary: "`enc_dec` of examples that are packed rows",
        },
    ];

    /// The entry of a name in the table.
    pub fn entry(name: &str) -> Result<&'static ConverterEntry, ConvertError> {
        Self::TABLE.iter().find(|entry| entry.name == name).ok_or_else(|| ConvertError::UnknownConverter {
            name: name.to_owned(),
            known: quoted(Self::TABLE.iter().map(|entry| entry.name)),
            hint: did_you_mean(name, Self::TABLE.iter().map(|entry| entry.name)),
        })
    }

    /// The name in options and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lm => "lm",
            Self::EncDec => "enc_dec",
            Self::PrefixLm { .. } => "prefix_lm",
            Self::PrefixSuffixLm { .. } => "prefix_suffix_lm",
            Self::Decoder { .. } => "decoder",
            Self::Encoder { .. } => "encoder",
            Self::PassThrough => "pass_through",
            Self::PrepackedLm => "prepacked_lm",
            Self::PrepackedPrefixLm { .. } => "prepacked_prefix_lm",
            Self::PrepackedEncDec => "prepacked_enc_dec",
        }
    }

    /// The task features it reads, in the order of a row; for `decoder` all that it may read, for `pass_through` none,
    /// since it reads what there is.
    pub fn task_features(self) -> &'static [&'static str] {
        match self {
            Self::Lm => &["targets"],
            Self::EncDec | Self::PrefixLm { .. } | Self::Encoder { .. } => &["inputs", "targets"],
            Self::PrefixSuffixLm { .. } | Self::Decoder { .. } => &["inputs", "targets", "suffixes"],
            Self::PassThrough => &[],
            Self::PrepackedLm => &["targets", "targets_positions", "targets_segment_ids"],
            Self::PrepackedPrefixLm { .. } => {
                &["targets", "targets_positions", "targets_segment_ids", "targets_prefix"]
            }
            Self::PrepackedEncDec => &[
                "inputs",
                "inputs_positions",
                "inputs_segment_ids",
                "targets",
                "targets_positions",
                "targets_segment_ids",
            ],
        }
    }

    /// Whether task features stand one after the other in one row.
    pub fn joins_features(self) -> bool {
        matches!(self, Self::PrefixLm { .. } | Self::PrefixSuffixLm { .. })
    }

    /// Whether examples are packed rows already.
    pub fn is_prepacked(self) -> bool {
        matches!(self, Self::PrepackedLm | Self::PrepackedPrefixLm { .. } | Self::PrepackedEncDec)
    }

    /// Whether inputs have no loss, for converters that have the choice.
    pub fn loss_on_targets_only(self) -> Option<bool> {
        match self {
            Self::PrefixLm { loss_on_targets_only }
            | Self::PrefixSuffixLm { loss_on_targets_only }
            | Self::Decoder { loss_on_targets_only }
            | Self::PrepackedPrefixLm { loss_on_targets_only } => Some(loss_on_targets_only),
            _ => None,
        }
    }

    /// The converter that `decoder` stands for with these lengths; any other is itself.
    pub fn resolved(self, lengths: &FeatureLengths) -> Self {
        match self {
            Self::Decoder { loss_on_targets_only } if lengths.contains_key("suffixes") => {
                Self::PrefixSuffixLm { loss_on_targets_only }
            }
            Self::Decoder { loss_on_targets_only } if lengths.contains_key("inputs") => {
                Self::PrefixLm { loss_on_targets_only }
            }
            Self::Decoder { .. } => Self::Lm,
            other => other,
        }
    }

    /// [`Conversion::check_lengths`] without further settings.
    pub fn check_lengths(self, lengths: &FeatureLengths) -> Result<(), ConvertError> {
        Conversion::from(self).check_lengths(lengths)
    }

    /// [`Conversion::limits`] without further settings.
    pub fn limits(self, lengths: &FeatureLengths) -> Result<Vec<usize>, ConvertError> {
        Conversion::from(self).limits(lengths)
    }

    /// [`Conversion::model_features`] without further settings.
    pub fn model_features(
        self,
        lengths: &FeatureLengths,
        packed: bool,
    ) -> Result<Vec<ModelFeature>, ConvertError> {
        Conversion::from(self).model_features(lengths, packed)
    }
}

impl fmt::Display for Converter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Conversion::from(*self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths<const N: usize>(lengths: [(&str, usize); N]) -> FeatureLengths {
        lengths.map(|(name, length)| (name.to_owned(), length)).into_iter().collect()
    }

    #[test]
    fn model_features_are_sorted_by_name() {
        let lengths = lengths([("inputs", 10), ("targets", 7)]);
        for packed in [false, true] {
            let features = Converter::EncDec.model_features(&lengths, packed).unwrap();
            assert!(features.is_sorted_by(|a, b| a.name < b.name));
            assert_eq!(features.len(), if packed { 8 } else { 4 });
        }
    }

    #[test]
    fn lengths_that_do_not_fit_the_converter_are_refused_in_words() {
        let error = |lengths| Converter::EncDec.check_lengths(&lengths).unwrap_err();
        insta::assert_snapshot!(
            error(lengths([("inputs", 10)])),
            @"converter `enc_dec` needs a length for feature `targets`, but there are lengths only for `inputs`"
        );
        insta::assert_snapshot!(
            error(lengths([("inputs", 10), ("targets", 7), ("foo", 3)])),
            @"there is a length for feature `foo`, but converter `enc_dec` reads only `inputs`, `targets`"
        );
        insta::assert_snapshot!(
            error(lengths([("inputs", 10), ("targets", 0)])),
            @"the length of feature `targets` is 0; it must be from 1 to 16777216"
        );
    }

    #[test]
    fn a_decoder_is_what_its_lengths_say() {
        let decoder = Converter::Decoder { loss_on_targets_only: true };
        let resolved = |lengths| decoder.resolved(&lengths).name();
        assert_eq!(resolved(lengths([("targets", 7)])), "lm");
        assert_eq!(resolved(lengths([("inputs", 7), ("targets", 7)])), "prefix_lm");
        let all = lengths([("inputs", 7), ("suffixes", 7), ("targets", 7)]);
        assert_eq!(resolved(all), "prefix_suffix_lm");
    }
}
