//! T5X's base metrics, as sums that can be added up over microbatches, ranks and steps.
//!
//! ```text
//! loss 119.8 over 23 weighted of 40 tokens  ->  loss_per_nonpadding_target_token 5.2, loss_per_all_target_tokens 3.0
//! ```

use std::collections::BTreeMap;

use seqio::{Batch, Values};

/// The end of the names of features that say which packed sequence a token is of.
const SEGMENT_IDS: &str = "_segment_ids";
/// What padding is counted in where nothing is packed.
const TOKENS: [&str; 2] = ["encoder_input_tokens", "decoder_target_tokens"];

/// What a step finds out about its loss: sums over tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Losses {
    /// Of the loss, weighted and divided as it is trained on.
    pub loss: f64,
    /// Of the z-loss in it.
    pub z_loss: f64,
    /// Tokens whose weight is not 0 and whose most likely class is the target.
    pub correct: f64,
}

impl Losses {
    /// Of all rows of both.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            loss: self.loss + other.loss,
            z_loss: self.z_loss + other.z_loss,
            correct: self.correct + other.correct,
        }
    }
}

/// The tokens of a feature.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FeatureCounts {
    /// Sequences that are not padding.
    pub examples: f64,
    /// Tokens that are not padding.
    pub non_padding: f64,
    /// All tokens.
    pub tokens: f64,
}

/// Sums that the base metrics are made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BaseMetrics {
    /// Of the losses.
    pub losses: Losses,
    /// Of the loss before it was divided: what it is a token does not depend on how it is normalized.
    pub token_loss: f64,
    /// Rows of the batches.
    pub rows: f64,
    /// Of the weights that the loss was summed with.
    pub weights: f64,
    /// Tokens whose weight is not 0.
    pub weighted_tokens: f64,
    /// All target tokens.
    pub target_tokens: f64,
    /// By feature.
    pub features: BTreeMap<String, FeatureCounts>,
}

impl BaseMetrics {
    /// Of a batch whose loss was summed with `weights`.
    pub fn new(batch: &Batch, weights: &[f32], losses: Losses) -> Self {
        let mut features = BTreeMap::new();
        for array in &batch.arrays {
            let Values::I32(values) = &array.values else { continue };
            if let Some(feature) = array.name.strip_suffix(SEGMENT_IDS) {
                features.insert(feature.to_owned(), FeatureCounts::of(values, array.length));
            }
        }
        if features.is_empty() {
            for array in batch.arrays.iter().filter(|array| TOKENS.contains(&array.name.as_str())) {
                let Values::I32(values) = &array.values else { continue };
                // Without packing every row is one segment.
                let ids: Vec<i32> = values.iter().map(|token| i32::from(*token != 0)).collect();
                features.insert(array.name.clone(), FeatureCounts::of(&ids, array.length));
            }
        }
        Self {
            losses,
            token_loss: losses.loss,
            rows: batch.num_rows as f64,
            weights: weights.iter().map(|weight| f64::from(*weight)).sum(),
            weighted_tokens: weights.iter().filter(|weight| **weight != 0.0).count() as f64,
            target_tokens: weights.len() as f64,
            features,
        }
    }

    /// Says what the loss is, and what it was divided by.
    pub(crate) fn with_losses(self, losses: Losses, factor: f32) -> Self {
        Self { losses, ..self }.divided_by(factor)
    }

    /// Says what the loss was divided by.
    pub fn divided_by(mut self, factor: f32) -> Self {
        self.token_loss = self.losses.loss * f64::from(factor);
        self
    }

    /// The loss of a token, each as heavy as its weight, however the loss is normalized.
    pub fn loss_per_token(&self) -> f64 {
        self.token_loss / self.weights
    }

    /// Adds those of other rows.
    pub fn add(&mut self, other: &Self) {
        self.losses = self.losses.plus(other.losses);
        self.token_loss += other.token_loss;
        self.rows += other.rows;
        self.weights += other.weights;
        self.weighted_tokens += other.weighted_tokens;
        self.target_tokens += other.target_tokens;
        for (feature, other) in &other.features {
            self.features.entry(feature.clone()).or_default().add(other);
        }
    }

    /// The metrics under T5X's names, those of time left out, when these are the sums of `steps` steps.
    pub fn values(&self, steps: u64) -> BTreeMap<String, f64> {
        let (steps, Losses { loss, z_loss, correct }) = (steps as f64, self.losses);
        let mut overall = FeatureCounts::default();
        let mut values = BTreeMap::new();
        for (feature, counts) in &self.features {
            values.insert(format!("effective_batch_size/{feature}"), counts.examples / steps);
            values.insert(format!("non_padding_fraction/{feature}"), counts.non_padding / counts.tokens);
            overall.add(counts);
        }
        if overall.tokens > 0.0 {
            values.insert("non_padding_fraction/overall".to_owned(), overall.non_padding / overall.tokens);
        }
        let cross_entropy = loss - z_loss;
        let named = [
            ("accuracy", correct / self.weighted_tokens),
            ("loss", loss / steps),
            ("loss_per_token", self.loss_per_token()),
            ("loss_per_nonpadding_target_token", loss / self.weights),
            ("loss_per_all_target_tokens", loss / self.target_tokens),
            ("cross_ent_loss", cross_entropy / steps),
            ("cross_ent_loss_per_all_target_tokens", cross_entropy / self.target_tokens),
            ("z_loss", z_loss / steps),
            ("z_loss_per_all_target_tokens", z_loss / self.target_tokens),
            ("non_padding_fraction/loss_weights", self.weights / self.target_tokens),
        ];
        values.extend(named.map(|(name, value)| (name.to_owned(), value)));
        values
    }
}

impl FeatureCounts {
    fn of(segment_ids: &[i32], length: usize) -> Self {
        Self {
            examples: count_packed_examples(segment_ids, length) as f64,
            non_padding: segment_ids.iter().filter(|id| **id != 0).count() as f64,
            tokens: segment_ids.len() as f64,
        }
    }

    fn add(&mut self, other: &Self) {
        self.examples += other.examples;
        self.non_padding += other.non_padding;
        self.tokens += other.tokens;
    }
}

/// How many sequences are packed into rows of `length` tokens, whose padding comes last.
pub fn count_packed_examples(segment_ids: &[i32], length: usize) -> usize {
    let of_row = |row: &[i32]| {
        let changes = row.windows(2).filter(|pair| pair[0] != pair[1]).count();
        // Every change begins a sequence or the padding.
        changes + 1 - usize::from(row.last() == Some(&0))
    };
    segment_ids.chunks_exact(length.max(1)).map(of_row).sum()
}

#[cfg(test)]
mod tests {
    use seqio::Array;

    use super::*;
    use crate::golden;
    use crate::train::{LossNormalizing, Targets};

    fn array<'a>(batch: &'a Batch, name: &str) -> Option<&'a Array> {
        batch.arrays.iter().find(|array| array.name == name)
    }

    fn ints<'a>(batch: &'a Batch, name: &str) -> Option<&'a [i32]> {
        array(batch, name).map(|array| match &array.values {
            Values::I32(values) => &values[..],
            Values::F32(_) => panic!("{name}"),
        })
    }

    /// Weights and factor of a batch.
    fn weigh(batch: &Batch, normalizing: LossNormalizing) -> (Vec<f32>, f32) {
        let Some(Array { values: Values::F32(weights), .. }) = array(batch, "decoder_loss_weights") else {
            panic!("no weights");
        };
        let targets = Targets {
            length: array(batch, "decoder_target_tokens").unwrap().length,
            tokens: ints(batch, "decoder_target_tokens").unwrap(),
            weights: Some(weights),
            packing: ints(batch, "decoder_segment_ids").zip(ints(batch, "decoder_positions")),
        };
        targets.weights_and_factor(normalizing).unwrap()
    }

    #[test]
    fn packed_examples_are_counted_as_in_t5x() {
        let golden = &golden::json("unit/loss.json")["count_packed_examples"];
        let ids: Vec<Vec<i32>> = serde_json::from_value(golden["segment_ids"].clone()).unwrap();
        assert_eq!(count_packed_examples(&ids.concat(), 6) as u64, golden["count"].as_u64().unwrap());
    }

    #[test]
    fn metrics_of_every_case_are_those_of_t5x() {
        let (mut compared, mut largest) = (0, 0.0f64);
        for case in ["encdec", "decoder_only"] {
            for (name, of_batch) in golden::json(&format!("{case}/loss.json")).as_object().unwrap() {
                let batch = golden::batch(case, name);
                for (name, of_case) in of_batch["cases"].as_object().unwrap() {
                    let normalizing = match &of_case["hyper"]["loss_normalizing_factor"] {
                        serde_json::Value::Null => LossNormalizing::Nothing,
                        factor => serde_json::from_value(factor.clone()).unwrap(),
                    };
                    let (weights, factor) = weigh(&batch, normalizing);
                    let expected: BTreeMap<String, f64> =
                        serde_json::from_value(of_case["metrics"].clone()).unwrap();
                    let tokens = weights.iter().filter(|weight| **weight != 0.0).count() as f64;
                    // What only the network knows is taken from T5X.
                    let (loss, z_loss) = (expected["loss"], expected["z_loss"]);
                    let losses = Losses { loss, z_loss, correct: (expected["accuracy"] * tokens).round() };
                    let mut found = BaseMetrics::new(&batch, &weights, losses).divided_by(factor).values(1);
                    // Ours alone: it undoes the division.
                    let (of_token, whole) = (found.remove("loss_per_token"), loss * f64::from(factor));
                    let tokens: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
                    assert_eq!(of_token, Some(whole / tokens), "{case} {name}");
                    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
                    for (metric, expected) in expected {
                        let apart = (found[&metric] - expected).abs() / expected.abs().max(1e-30);
                        assert!(apart <= 3e-7, "{case} {name} {metric}: {expected}, {}", found[&metric]);
                        largest = largest.max(apart);
                        compared += 1;
                    }
                }
            }
        }
        println!("{compared} metrics, apart by at most {largest:.1e} (relative)");
        assert!(compared > 400, "{compared}");
    }

    #[test]
    fn factors_divide_the_losses_of_t5x() {
        for case in ["encdec", "decoder_only"] {
            for (name, of_batch) in golden::json(&format!("{case}/loss.json")).as_object().unwrap() {
                let (batch, cases) = (golden::batch(case, name), &of_batch["cases"]);
                let whole = cases["z1e-4"]["loss"].as_f64().unwrap();
                for name in ["z1e-4_real_tokens", "z1e-4_total_tokens", "z1e-4_const100"] {
                    let normalizing = &cases[name]["hyper"]["loss_normalizing_factor"];
                    let (_, factor) = weigh(&batch, serde_json::from_value(normalizing.clone()).unwrap());
                    let (expected, found) =
                        (cases[name]["loss"].as_f64().unwrap(), whole / f64::from(factor));
                    assert!(
                        (found - expected).abs() <= 3e-7 * expected,
                        "{case} {name}: {expected}, {found}"
                    );
                }
            }
        }
    }

    #[test]
    fn sums_of_several_batches_are_averaged_by_step_or_by_token() {
        let batch = golden::batch("encdec", "packed");
        let losses = Losses { loss: 30.0, z_loss: 3.0, correct: 2.0 };
        let mut sums = BaseMetrics::new(&batch, &[1.0, 0.0, 1.0, 1.0], losses);
        sums.add(&BaseMetrics::new(&batch, &[1.0, 0.0, 0.0, 0.0], Losses { loss: 10.0, ..losses }));
        let values = sums.values(2);
        let of = |name: &str| values[name];
        assert_eq!((of("loss"), of("loss_per_nonpadding_target_token")), (20.0, 10.0));
        assert_eq!((of("accuracy"), of("loss_per_all_target_tokens")), (1.0, 5.0));
        assert_eq!((of("effective_batch_size/decoder"), of("z_loss")), (5.0, 3.0));
    }
}
