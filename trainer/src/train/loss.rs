//! What the loss is divided by, and the weights it is summed with: T5X's `loss_normalizing_factor`.
//!
//! ```text
//! weights      1 1 0 1 1 | 0 1 1 1      a packed row; segments with 2, 2 and 3 weighted tokens
//! per segment  ½ ½ 0 ½ ½ | 0 ⅓ ⅓ ⅓      AVERAGE_PER_SEQUENCE; the loss is divided by their sum, 3
//! ```

use serde::{Deserialize, Serialize};

/// What the loss, a sum over tokens, is divided by.
///
/// In a file it is a number, or one of `"NONE"`, `"NUM_REAL_TARGET_TOKENS"`, `"NUM_TOTAL_TARGET_TOKENS"` and
/// `"AVERAGE_PER_SEQUENCE"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub enum LossNormalizing {
    /// By nothing: the loss is a sum.
    #[default]
    Nothing,
    /// By this number, which is more than 0.
    Number(f32),
    /// By the sum of the batch's weights.
    NumRealTargetTokens,
    /// By all target tokens of the batch, padding and all.
    NumTotalTargetTokens,
    /// The mean over sequences of the mean over each sequence's weighted tokens; packed sequences count on their own.
    AveragePerSequence,
}

/// Why a loss cannot be normalized.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LossError {
    /// A word that means nothing.
    #[error(
        "`loss_normalizing_factor` is `{0}`; it is a number, `NONE`, `NUM_REAL_TARGET_TOKENS`, \
         `NUM_TOTAL_TARGET_TOKENS` or `AVERAGE_PER_SEQUENCE`"
    )]
    Unknown(String),
    /// A number that one cannot divide by.
    #[error("`loss_normalizing_factor` is {0}; a number has to be finite and more than 0")]
    NotPositive(f64),
    /// Features of one batch that have different sizes.
    #[error("`{feature}` and the targets differ in size: {found} and {expected}")]
    Size {
        /// The feature.
        feature: &'static str,
        /// Its size.
        found: usize,
        /// How many targets there are.
        expected: usize,
    },
}

/// How it stands in a file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Number(f64),
    Name(String),
}

impl TryFrom<Written> for LossNormalizing {
    type Error = LossError;

    fn try_from(written: Written) -> Result<Self, LossError> {
        match written {
            Written::Number(number) if number as f32 > 0.0 && (number as f32).is_finite() => {
                Ok(Self::Number(number as f32))
            }
            Written::Number(number) => Err(LossError::NotPositive(number)),
            // T5X takes any case.
            Written::Name(name) => match name.to_uppercase().as_str() {
                "NONE" => Ok(Self::Nothing),
                "NUM_REAL_TARGET_TOKENS" => Ok(Self::NumRealTargetTokens),
                "NUM_TOTAL_TARGET_TOKENS" => Ok(Self::NumTotalTargetTokens),
                "AVERAGE_PER_SEQUENCE" => Ok(Self::AveragePerSequence),
                _ => Err(LossError::Unknown(name)),
            },
        }
    }
}

impl From<LossNormalizing> for Written {
    fn from(normalizing: LossNormalizing) -> Self {
        let name = match normalizing {
            LossNormalizing::Nothing => "NONE",
            LossNormalizing::Number(number) => return Self::Number(f64::from(number)),
            LossNormalizing::NumRealTargetTokens => "NUM_REAL_TARGET_TOKENS",
            LossNormalizing::NumTotalTargetTokens => "NUM_TOTAL_TARGET_TOKENS",
            LossNormalizing::AveragePerSequence => "AVERAGE_PER_SEQUENCE",
        };
        Self::Name(name.to_owned())
    }
}

/// The targets of a batch: rows of `length` tokens, as the feature converters make them.
#[derive(Clone, Copy, Debug)]
pub struct Targets<'a> {
    /// Tokens of a row.
    pub length: usize,
    /// `decoder_target_tokens`.
    pub tokens: &'a [i32],
    /// `decoder_loss_weights`.
    pub weights: Option<&'a [f32]>,
    /// `decoder_segment_ids` and `decoder_positions` of packed rows.
    pub packing: Option<(&'a [i32], &'a [i32])>,
}

impl Targets<'_> {
    /// The weight of every token, as `normalizing` changes it, and what the weighted sum is then divided by.
    ///
    /// Without weights, tokens that are not padding weigh 1. (T5X does so only where it normalizes; its sum without
    /// weights counts padding as well.)
    pub fn weights_and_factor(&self, normalizing: LossNormalizing) -> Result<(Vec<f32>, f32), LossError> {
        self.check()?;
        let mut weights = match self.weights {
            Some(weights) => weights.to_vec(),
            None => self.tokens.iter().map(|token| f32::from(u8::from(*token > 0))).collect(),
        };
        let sum = |weights: &[f32]| weights.iter().map(|weight| f64::from(*weight)).sum::<f64>() as f32;
        let factor = match normalizing {
            LossNormalizing::Nothing => 1.0,
            LossNormalizing::Number(number) => number,
            LossNormalizing::NumRealTargetTokens => sum(&weights),
            LossNormalizing::NumTotalTargetTokens => self.tokens.len() as f32,
            LossNormalizing::AveragePerSequence => {
                self.average_per_sequence(&mut weights);
                sum(&weights)
            }
        };
        Ok((weights, factor))
    }

    fn check(&self) -> Result<(), LossError> {
        let expected = self.tokens.len();
        let features = [
            ("decoder_loss_weights", self.weights.map(<[f32]>::len)),
            ("decoder_segment_ids", self.packing.map(|(ids, _)| ids.len())),
            ("decoder_positions", self.packing.map(|(_, positions)| positions.len())),
        ];
        for (feature, found) in features {
            if let Some(found) = found.filter(|found| *found != expected) {
                return Err(LossError::Size { feature, found, expected });
            }
        }
        Ok(())
    }

    /// Divides every weight by the sum of its sequence; where that is 0, weights become 0.
    fn average_per_sequence(&self, weights: &mut [f32]) {
        let length = self.length.max(1);
        for (row, weights) in weights.chunks_mut(length).enumerate() {
            let Some((ids, positions)) = self.packing else {
                divide(weights);
                continue;
            };
            let row = row * length..row * length + weights.len();
            let (ids, positions) = (&ids[row.clone()], &positions[row]);
            // A sequence begins where the position is 0; padding, which comes last, is no sequence.
            let end = ids.iter().rposition(|id| *id != 0).map_or(0, |last| last + 1);
            weights[end..].fill(0.0);
            let mut start = 0;
            while start < end {
                let next = positions[start + 1..end].iter().position(|position| *position == 0);
                let stop = next.map_or(end, |next| start + 1 + next);
                divide(&mut weights[start..stop]);
                start = stop;
            }
        }
    }
}

/// Makes the sum 1, or every weight 0.
fn divide(weights: &mut [f32]) {
    let sum: f32 = weights.iter().sum();
    for weight in weights {
        let share = *weight / sum;
        *weight = if share.is_finite() { share } else { 0.0 };
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::golden;

    fn numbers<T: serde::de::DeserializeOwned>(value: &Value) -> (usize, Vec<T>) {
        let rows: Vec<Vec<T>> = serde_json::from_value(value.clone()).unwrap();
        (rows[0].len(), rows.into_iter().flatten().collect())
    }

    #[test]
    fn packed_sequences_are_averaged_as_in_t5x() {
        let golden = &golden::json("unit/loss.json")["average_per_sequence_packed"];
        let (length, weights) = numbers::<f32>(&golden["decoder_loss_weights"]);
        let (_, ids) = numbers::<i32>(&golden["decoder_segment_ids"]);
        let (_, positions) = numbers::<i32>(&golden["decoder_positions"]);
        let packing = Some((&ids[..], &positions[..]));
        let targets = Targets { length, tokens: &ids, weights: Some(&weights), packing };
        let (weights, factor) = targets.weights_and_factor(LossNormalizing::AveragePerSequence).unwrap();
        assert_eq!(weights, numbers::<f32>(&golden["loss_weights"]).1);
        assert_eq!(f64::from(factor), golden["loss_normalizing_factor"].as_f64().unwrap());
    }

    #[test]
    fn rows_without_weight_stay_without() {
        let (tokens, weights) = ([5, 6, 0, 0, 0, 0], [1.0, 3.0, 0.0, 0.0, 0.0, 0.0]);
        let targets = Targets { length: 3, tokens: &tokens, weights: Some(&weights), packing: None };
        let (weights, factor) = targets.weights_and_factor(LossNormalizing::AveragePerSequence).unwrap();
        assert_eq!((&weights[..], factor), (&[0.25, 0.75, 0.0, 0.0, 0.0, 0.0][..], 1.0));
    }

    #[test]
    fn tokens_other_than_padding_weigh_1_by_default() {
        let targets = Targets { length: 2, tokens: &[7, 0, 0, 3, 9, 1], weights: None, packing: None };
        let of = |normalizing| targets.weights_and_factor(normalizing).unwrap();
        let weights = vec![1.0, 0.0, 0.0, 1.0, 1.0, 1.0];
        assert_eq!(of(LossNormalizing::Nothing), (weights.clone(), 1.0));
        assert_eq!(of(LossNormalizing::Number(3.5)), (weights.clone(), 3.5));
        assert_eq!(of(LossNormalizing::NumRealTargetTokens), (weights.clone(), 4.0));
        assert_eq!(of(LossNormalizing::NumTotalTargetTokens), (weights, 6.0));
    }

    #[test]
    fn files_hold_a_number_or_a_word() {
        let read =
            |text: &str| serde_json::from_str::<LossNormalizing>(text).map_err(|error| error.to_string());
        assert_eq!(read("233472"), Ok(LossNormalizing::Number(233_472.0)));
        assert_eq!(read("\"num_real_target_tokens\""), Ok(LossNormalizing::NumRealTargetTokens));
        for normalizing in [
            LossNormalizing::Nothing,
            LossNormalizing::Number(0.5),
            LossNormalizing::NumTotalTargetTokens,
            LossNormalizing::AveragePerSequence,
        ] {
            assert_eq!(read(&serde_json::to_string(&normalizing).unwrap()), Ok(normalizing));
        }
        insta::assert_snapshot!(read("\"MEAN\"").unwrap_err(), @"`loss_normalizing_factor` is `MEAN`; it is a number, `NONE`, `NUM_REAL_TARGET_TOKENS`, `NUM_TOTAL_TARGET_TOKENS` or `AVERAGE_PER_SEQUENCE`");
        insta::assert_snapshot!(read("0").unwrap_err(), @"`loss_normalizing_factor` is 0; a number has to be finite and more than 0");
    }

    #[test]
    fn features_of_different_sizes_are_refused() {
        let targets = Targets { length: 2, tokens: &[1, 2], weights: Some(&[1.0]), packing: None };
        let error = targets.weights_and_factor(LossNormalizing::Nothing).unwrap_err();
        insta::assert_snapshot!(error, @"`decoder_loss_weights` and the targets differ in size: 1 and 2");
    }
}
