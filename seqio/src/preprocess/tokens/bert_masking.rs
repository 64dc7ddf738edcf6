//! BERT's objective (Devlin et al. 2018, arXiv 1810.04805): some tokens are hidden in `inputs`, `targets` are all of them.
//!
//! ```text
//! targets: [10, 11, 12, 13, 14, 15]    chosen 11, 13, 14
//!    ->   inputs: [10, 99, 12, 57, 14, 15]    targets: [10, 11, 12, 13, 14, 15]    loss_weights: [0, 1, 0, 1, 1, 0]
//! ```

use std::ops::Range;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::dataset::StoreError;
use crate::item::{Draws, Item, ItemStep, Rope, TokenOp};
use crate::objective::{Replacements, random_id};
use crate::preprocess::tokens::denoise::check_made;
use crate::preprocess::tokens::settings::{TARGETS, default, feature, percent, refused, same_vocabulary};
use crate::preprocess::tokens::{Outcome, TokenStep};
use crate::preprocess::{PreprocessError, StepContext};
use crate::rng::Key;

/// Chooses 15 % of the tokens of `targets`, others every epoch. In `inputs` eight of ten chosen tokens become the mask id,
/// one a random id, and one stays. `targets` stay whole; which tokens were chosen is in `weights_feature_key`, if it is
/// given. All other features are dropped.
///
/// The converter `encoder` puts loss where inputs have the mask id; that is all chosen tokens if `mask_prob` is 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct BertMasking {
    /// Probability that a token is chosen.
    #[serde(default = "density")]
    pub noise_density: f64,
    /// Probability that a chosen token becomes the mask id.
    #[serde(default = "mask_prob")]
    pub mask_prob: f64,
    /// Probability that a chosen token becomes a random id; those left stay.
    #[serde(default = "random_prob")]
    pub random_prob: f64,
    /// The mask id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "the first sentinel: the last id, if the vocabulary has `extra_ids`"))]
    pub mask_id: Option<i32>,
    /// The first ids of the vocabulary that no random token is.
    #[serde(default = "reserved")]
    pub num_reserved_tokens: u32,
    /// The feature that is made.
    #[serde(default = "default::inputs")]
    pub input_feature_key: String,
    /// A feature to be made that has 1 for chosen tokens and 0 for others; its vocabulary may be `pass_through = 2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "none"))]
    pub weights_feature_key: Option<String>,
}

fn density() -> f64 {
    0.15
}

fn mask_prob() -> f64 {
    0.8
}

fn random_prob() -> f64 {
    0.1
}

fn reserved() -> u32 {
    3
}

impl Default for BertMasking {
    fn default() -> Self {
        Self {
            noise_density: density(),
            mask_prob: mask_prob(),
            random_prob: random_prob(),
            mask_id: None,
            num_reserved_tokens: reserved(),
            input_feature_key: default::inputs(),
            weights_feature_key: None,
        }
    }
}

impl BertMasking {
    fn masking(&self, ctx: &StepContext) -> Result<Masking, PreprocessError> {
        let targets = feature(Self::NAME, ctx, TARGETS)?;
        let by = Replacements::new(targets.vocabulary.as_ref(), None, self.num_reserved_tokens, 0.0);
        let size = targets.vocabulary.vocab_size();
        let mask_id = match self.mask_id {
            Some(id) if usize::try_from(id).is_ok_and(|id| id < size) => id,
            Some(id) => {
                let problem = format!(
                    "`mask_id` is {id}, but ids of vocabulary `{}` are 0 to {}",
                    targets.vocabulary_name,
                    size.saturating_sub(1)
                );
                return Err(refused(Self::NAME, problem));
            }
            None if by.num_sentinels > 0 => by.first_sentinel,
            None => {
                let problem = format!(
                    "vocabulary `{}` has no `extra_ids` to mask with; give it one, or name an id with `mask_id`",
                    targets.vocabulary_name
                );
                return Err(refused(Self::NAME, problem));
            }
        };
        Ok(Masking {
            chosen: self.noise_density,
            masked: self.mask_prob,
            random: self.random_prob,
            mask_id,
            random_ids: by.random_ids,
        })
    }

    fn made(&self) -> Vec<&str> {
        let weights = self.weights_feature_key.as_deref();
        std::iter::once(self.input_feature_key.as_str()).chain(weights).collect()
    }
}

/// What becomes of single tokens.
#[derive(Clone, Debug)]
struct Masking {
    chosen: f64,
    masked: f64,
    random: f64,
    mask_id: i32,
    random_ids: Range<i32>,
}

impl Masking {
    /// Inputs of `tokens`. A token takes as many draws whatever becomes of it, so that weights need no look at inputs.
    fn inputs(&self, tokens: &[i32], key: Key, out: &mut [i32]) {
        let mut draws = key.draws();
        for (out, token) in out.iter_mut().zip(tokens) {
            let chosen = draws.chance(self.chosen);
            let share = draws.unit();
            let random = random_id(&self.random_ids, &mut draws);
            *out = match share {
                _ if !chosen => *token,
                share if share < self.masked => self.mask_id,
                share if share < self.masked + self.random => random,
                _ => *token,
            };
        }
    }

    fn weights(&self, key: Key, out: &mut [i32]) {
        let mut draws = key.draws();
        for out in out {
            *out = i32::from(draws.chance(self.chosen));
            draws.unit();
            draws.unit();
        }
    }
}

#[derive(Debug)]
struct Inputs(Masking);

impl TokenOp for Inputs {
    fn write(&self, inputs: &[&[i32]], key: Key, out: &mut [i32]) -> Result<(), String> {
        let [tokens] = inputs else { return Err("inputs are made of one sequence".to_owned()) };
        self.0.inputs(tokens, key, out);
        Ok(())
    }
}

#[derive(Debug)]
struct Weights(Masking);

impl TokenOp for Weights {
    fn write(&self, _inputs: &[&[i32]], key: Key, out: &mut [i32]) -> Result<(), String> {
        self.0.weights(key, out);
        Ok(())
    }
}

/// The step with its operations.
#[derive(Debug)]
struct Masked {
    targets: Arc<str>,
    inputs: (Arc<str>, Arc<dyn TokenOp>),
    weights: Option<(Arc<str>, Arc<dyn TokenOp>)>,
    words: String,
}

impl ItemStep for Masked {
    fn plan(&self, items: Vec<Item>, draws: &Draws<'_>) -> Result<Vec<Item>, StoreError> {
        let masked = |mut item: Item| -> Result<Item, StoreError> {
            let key = draws.key(&item)?;
            let tokens = item.take(&self.targets).unwrap_or_default();
            let length = tokens.len();
            let (name, op) = &self.inputs;
            let mut sequences =
                vec![(Arc::clone(name), Rope::made(Arc::clone(op), vec![tokens.clone()], key, length))];
            if let Some((name, op)) = &self.weights {
                sequences.push((Arc::clone(name), Rope::made(Arc::clone(op), Vec::new(), key, length)));
            }
            sequences.push((Arc::clone(&self.targets), tokens));
            Ok(item.with_sequences(sequences))
        };
        items.into_iter().map(masked).collect()
    }

    fn in_words(&self) -> String {
        self.words.clone()
    }
}

impl TokenStep for BertMasking {
    const NAME: &'static str = "bert_masking";

    fn needs_lengths_of(&self, _ctx: &StepContext) -> Vec<String> {
        Vec::new()
    }

    fn outcome(&self) -> Outcome {
        Outcome::keeping([TARGETS]).making(&self.made())
    }

    fn check(&self, ctx: &StepContext) -> Result<(), PreprocessError> {
        check_made(Self::NAME, &self.input_feature_key, &[])?;
        same_vocabulary(Self::NAME, ctx, &self.input_feature_key, TARGETS)?;
        if let Some(weights) = &self.weights_feature_key {
            feature(Self::NAME, ctx, weights)?;
            if *weights == self.input_feature_key || weights == TARGETS {
                let problem = format!(
                    "weights cannot be called `{weights}`; the step has another feature of that name"
                );
                return Err(refused(Self::NAME, problem));
            }
        }
        let shares = [
            ("noise_density", self.noise_density),
            ("mask_prob", self.mask_prob),
            ("random_prob", self.random_prob),
            ("mask_prob` + `random_prob", self.mask_prob + self.random_prob),
        ];
        for (name, share) in shares {
            if !(0.0..=1.0 + 1e-9).contains(&share) {
                return Err(refused(Self::NAME, format!("`{name}` is {share}; it must be from 0 to 1")));
            }
        }
        let masking = self.masking(ctx)?;
        if masking.random_ids.is_empty() {
            let problem = format!(
                "there is no id for random tokens: `num_reserved_tokens` is {}, and the vocabulary has {} ids besides \
                 its extra ids",
                masking.random_ids.start, masking.random_ids.end
            );
            return Err(refused(Self::NAME, problem));
        }
        Ok(())
    }

    fn item_step(&self, ctx: &StepContext) -> Result<Arc<dyn ItemStep>, PreprocessError> {
        let masking = self.masking(ctx)?;
        let inputs: Arc<dyn TokenOp> = Arc::new(Inputs(masking.clone()));
        let weights = |name: &String| -> (Arc<str>, Arc<dyn TokenOp>) {
            (name.as_str().into(), Arc::new(Weights(masking.clone())))
        };
        Ok(Arc::new(Masked {
            targets: TARGETS.into(),
            inputs: (self.input_feature_key.as_str().into(), inputs),
            weights: self.weights_feature_key.as_ref().map(weights),
            words: format!("{}: {} of the ids masked", self.input_feature_key, percent(self.noise_density)),
        }))
    }
}
