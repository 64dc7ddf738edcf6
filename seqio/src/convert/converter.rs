//! The table of converters: which task features each reads and which model features it puts out.
//!
//! ```text
//! lm       targets          ->  decoder_target_tokens, decoder_input_tokens, decoder_loss_weights
//! enc_dec  inputs, targets  ->  the same, and encoder_input_tokens
//! packed                        and *_segment_ids, *_positions
//! ```

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::convert::{ConvertError, MAX_LENGTH};
use crate::feature::FeatureLengths;

/// What kind of model the rows are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Converter {
    /// A decoder-only model; SeqIO's `LMFeatureConverter`.
    Lm,
    /// An encoder-decoder model; SeqIO's `EncDecFeatureConverter`.
    EncDec,
}

/// The numbers of a model feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// Ids, segments, positions.
    I32,
    /// Weights.
    F32,
}

/// A model feature: an array of shape `[B, length]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelFeature {
    /// SeqIO's name.
    pub name: &'static str,
    /// Its numbers.
    pub dtype: Dtype,
    /// Width of a row.
    pub length: usize,
}

impl Converter {
    /// The task features it reads, sorted by name.
    pub fn task_features(self) -> &'static [&'static str] {
        match self {
            Self::Lm => &["targets"],
            Self::EncDec => &["inputs", "targets"],
        }
    }

    /// Checks that there is a fitting length for each feature that is read, and for no other.
    pub fn check_lengths(self, lengths: &FeatureLengths) -> Result<(), ConvertError> {
        self.limits(lengths).map(drop)
    }

    /// The lengths in the order of [`Self::task_features`].
    pub fn limits(self, lengths: &FeatureLengths) -> Result<Vec<usize>, ConvertError> {
        if let Some(extra) = lengths.keys().find(|name| !self.task_features().contains(&name.as_str())) {
            return Err(ConvertError::ExtraLength { converter: self, feature: extra.clone() });
        }
        let limit = |feature: &&'static str| match lengths.get(*feature) {
            Some(length) if (1..=MAX_LENGTH).contains(length) => Ok(*length),
            Some(length) => {
                Err(ConvertError::LengthOutOfRange { feature: (*feature).to_owned(), length: *length })
            }
            None => {
                let found = lengths.keys().cloned().collect();
                Err(ConvertError::MissingLength { converter: self, feature, found })
            }
        };
        self.task_features().iter().map(limit).collect()
    }

    /// The model features put out, sorted by name. `row_valid`, which every batch has besides, is not among them.
    pub fn model_features(
        self,
        lengths: &FeatureLengths,
        packed: bool,
    ) -> Result<Vec<ModelFeature>, ConvertError> {
        let limits = self.limits(lengths)?;
        let (encoder, decoder) = match (self, limits.as_slice()) {
            (Self::EncDec, [inputs, targets]) => (Some(*inputs), *targets),
            (_, limits) => (None, limits.iter().copied().max().unwrap_or(1)),
        };
        let i32 = |name, length| ModelFeature { name, dtype: Dtype::I32, length };
        let mut features = vec![
            i32("decoder_input_tokens", decoder),
            ModelFeature { name: "decoder_loss_weights", dtype: Dtype::F32, length: decoder },
        ];
        if packed {
            features.extend([i32("decoder_positions", decoder), i32("decoder_segment_ids", decoder)]);
        }
        features.push(i32("decoder_target_tokens", decoder));
        if let Some(encoder) = encoder {
            features.push(i32("encoder_input_tokens", encoder));
            if packed {
                features.extend([i32("encoder_positions", encoder), i32("encoder_segment_ids", encoder)]);
            }
        }
        Ok(features)
    }
}

impl fmt::Display for Converter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lm => "lm",
            Self::EncDec => "enc_dec",
        })
    }
}

impl FromStr for Converter {
    type Err = ConvertError;

    fn from_str(name: &str) -> Result<Self, ConvertError> {
        match name {
            "lm" => Ok(Self::Lm),
            "enc_dec" => Ok(Self::EncDec),
            _ => Err(ConvertError::unknown("converter", name, &["lm", "enc_dec"])),
        }
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
            assert!(features.is_sorted_by_key(|feature| feature.name));
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
    fn a_mistyped_name_is_answered_with_the_nearest() {
        insta::assert_snapshot!(
            Converter::from_str("encdec").unwrap_err(),
            @"there is no converter `encdec`; there are `lm`, `enc_dec`; did you mean `enc_dec`?"
        );
        for converter in [Converter::Lm, Converter::EncDec] {
            assert_eq!(converter.to_string().parse(), Ok(converter));
        }
    }
}
