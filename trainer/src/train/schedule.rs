//! Learning rates by step: a product of named factors, as T5X's `create_learning_rate_scheduler` has them.
//!
//! ```text
//! 'constant * rsqrt_decay', base 1.0, warmup 10000  ->  0.01 for 10,000 steps, then 1 / √step
//! ```

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

/// One of the factors of a learning rate. `s` is the step less the offset, at least 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Factor {
    /// `base_learning_rate`.
    Constant,
    /// min(1, s / `warmup_steps`).
    LinearWarmup,
    /// `base_learning_rate` · min(s / `warmup_steps`, 1 + `decay_factor` · (`warmup_steps` − s)): it includes what
    /// `constant` and `linear_warmup` are.
    LinearDecay,
    /// 1 / √max(s, `warmup_steps`).
    RsqrtDecay,
    /// √`warmup_steps` / √max(s, `warmup_steps`).
    RsqrtNormalizedDecay,
    /// `decay_factor` to the power ⌊s / `steps_per_decay`⌋.
    DecayEvery,
    /// max(0, ½ (1 + cos(π · (p mod 1)))), p = max(0, (s − `warmup_steps`) / `steps_per_cycle`).
    CosineDecay,
}

const FACTORS: [(&str, Factor); 7] = [
    ("constant", Factor::Constant),
    ("linear_warmup", Factor::LinearWarmup),
    ("linear_decay", Factor::LinearDecay),
    ("rsqrt_decay", Factor::RsqrtDecay),
    ("rsqrt_normalized_decay", Factor::RsqrtNormalizedDecay),
    ("decay_every", Factor::DecayEvery),
    ("cosine_decay", Factor::CosineDecay),
];

/// Why there is no such schedule.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ScheduleError {
    /// A factor that does not exist.
    #[error("there is no factor `{name}`; there are {}", FACTORS.map(|(known, _)| format!("`{known}`")).join(", "))]
    UnknownFactor {
        /// What stands there.
        name: String,
    },
    /// A number that a schedule cannot have.
    #[error("`{field}` is {found}; it has to be {wanted}")]
    Number {
        /// The setting.
        field: &'static str,
        /// What it is.
        found: f64,
        /// What it should be, in words.
        wanted: &'static str,
    },
}

/// The settings of a schedule, as they stand in a file. What is left out has T5X's default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScheduleConfig {
    /// Names of factors with `*` between them: `constant`, `linear_warmup`, `linear_decay`, `rsqrt_decay`,
    /// `rsqrt_normalized_decay`, `decay_every`, `cosine_decay`.
    pub factors: String,
    /// What `constant` and `linear_decay` start from.
    pub base_learning_rate: f64,
    /// Steps until the learning rate is at its largest.
    pub warmup_steps: u64,
    /// What `decay_every` multiplies with; by how much `linear_decay` falls a step, as a share.
    pub decay_factor: f64,
    /// Steps between two falls of `decay_every`.
    pub steps_per_decay: u64,
    /// Steps of a half wave of `cosine_decay`.
    pub steps_per_cycle: u64,
    /// The step that counts as the first.
    pub step_offset: i64,
    /// The least learning rate. T5X's default keeps the first step of a warmup from being 0.
    pub min_learning_rate: f64,
}

impl Default for ScheduleConfig {
    fn default() -> Self {
        Self {
            factors: "constant * linear_warmup * rsqrt_decay".to_owned(),
            base_learning_rate: 0.5,
            warmup_steps: 1000,
            decay_factor: 0.5,
            steps_per_decay: 20_000,
            steps_per_cycle: 100_000,
            step_offset: 0,
            min_learning_rate: 1e-8,
        }
    }
}

/// The learning rate of every step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "ScheduleConfig", into = "ScheduleConfig")]
pub struct Schedule {
    config: ScheduleConfig,
    factors: Vec<Factor>,
}

impl Default for Schedule {
    /// T5X's: `constant * linear_warmup * rsqrt_decay`, base 0.5, 1000 steps of warmup.
    fn default() -> Self {
        Self {
            config: ScheduleConfig::default(),
            factors: vec![Factor::Constant, Factor::LinearWarmup, Factor::RsqrtDecay],
        }
    }
}

impl TryFrom<ScheduleConfig> for Schedule {
    type Error = ScheduleError;

    fn try_from(config: ScheduleConfig) -> Result<Self, ScheduleError> {
        Self::new(config)
    }
}

impl From<Schedule> for ScheduleConfig {
    fn from(schedule: Schedule) -> Self {
        schedule.config
    }
}

impl Schedule {
    /// Reads the factors, and refuses numbers that give no learning rate.
    pub fn new(config: ScheduleConfig) -> Result<Self, ScheduleError> {
        let factors = config.factors.split('*').map(|name| {
            let known = FACTORS.iter().find(|(known, _)| *known == name.trim());
            known
                .map(|(_, factor)| *factor)
                .ok_or_else(|| ScheduleError::UnknownFactor { name: name.trim().to_owned() })
        });
        let factors: Vec<Factor> = factors.collect::<Result<_, _>>()?;
        let uses = |wanted: &[Factor]| factors.iter().any(|factor| wanted.contains(factor));
        let warms_up = uses(&[Factor::LinearWarmup, Factor::LinearDecay, Factor::RsqrtDecay]);
        let steps = [
            ("warmup_steps", config.warmup_steps, warms_up || uses(&[Factor::RsqrtNormalizedDecay])),
            ("steps_per_decay", config.steps_per_decay, uses(&[Factor::DecayEvery])),
            ("steps_per_cycle", config.steps_per_cycle, uses(&[Factor::CosineDecay])),
        ];
        if let Some((field, ..)) = steps.into_iter().find(|(_, steps, used)| *used && *steps == 0) {
            return Err(ScheduleError::Number { field, found: 0.0, wanted: "at least 1 for these factors" });
        }
        let rates = [
            ("base_learning_rate", config.base_learning_rate),
            ("decay_factor", config.decay_factor),
            ("min_learning_rate", config.min_learning_rate),
        ];
        if let Some((field, found)) = rates.into_iter().find(|(_, rate)| !(rate.is_finite() && *rate >= 0.0))
        {
            return Err(ScheduleError::Number { field, found, wanted: "a finite number, at least 0" });
        }
        Ok(Self { config, factors })
    }

    /// The settings it was made of.
    pub fn config(&self) -> &ScheduleConfig {
        &self.config
    }

    /// The learning rate of the update that makes step `step + 1` of step `step`.
    pub fn learning_rate(&self, step: u64) -> f32 {
        let config = &self.config;
        let since = i128::from(step) - i128::from(config.step_offset);
        let (s, warmup) = (since.max(0) as f64, config.warmup_steps as f64);
        let of = |factor: &Factor| match factor {
            Factor::Constant => config.base_learning_rate,
            Factor::LinearWarmup => (s / warmup).min(1.0),
            Factor::LinearDecay => {
                config.base_learning_rate * (s / warmup).min(1.0 + config.decay_factor * (warmup - s))
            }
            Factor::RsqrtDecay => 1.0 / s.max(warmup).sqrt(),
            Factor::RsqrtNormalizedDecay => (warmup / s.max(warmup)).sqrt(),
            Factor::DecayEvery => config.decay_factor.powf((s / config.steps_per_decay as f64).floor()),
            Factor::CosineDecay => {
                let progress = ((s - warmup) / config.steps_per_cycle as f64).max(0.0);
                (0.5 * (1.0 + (PI * progress.fract()).cos())).max(0.0)
            }
        };
        let product: f64 = self.factors.iter().map(of).product();
        product.max(config.min_learning_rate) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden;

    #[test]
    fn learning_rates_are_those_of_t5x() {
        let golden = golden::json("unit/lr_schedule.json");
        let steps: Vec<u64> = serde_json::from_value(golden["steps"].clone()).unwrap();
        let cases = golden["cases"].as_array().unwrap();
        let mut largest = 0.0f64;
        for case in cases {
            let schedule: Schedule = serde_json::from_value(case["args"].clone()).unwrap();
            let expected: Vec<f64> = serde_json::from_value(case["learning_rate"].clone()).unwrap();
            assert_eq!(expected.len(), steps.len());
            for (step, expected) in steps.iter().zip(expected) {
                let found = f64::from(schedule.learning_rate(*step));
                let apart = (found - expected).abs();
                // In float32 1 + cos keeps few digits near the end of a half wave.
                let room = 1e-6 * expected + 1e-7 * schedule.config().base_learning_rate;
                assert!(apart <= room, "{} step {step}: {expected}, {found}", case["args"]);
                largest = largest.max(apart / room);
            }
        }
        assert_eq!(cases.len(), 9);
        println!("apart by at most {largest:.1e} of the tolerance");
    }

    #[test]
    fn a_file_holds_what_it_was_read_from() {
        let text = r#"{"factors":"linear_decay","warmup_steps":5}"#;
        let schedule: Schedule = serde_json::from_str(text).unwrap();
        let again: Schedule = serde_json::from_str(&serde_json::to_string(&schedule).unwrap()).unwrap();
        assert_eq!(again, schedule);
        assert_eq!(serde_json::from_str::<Schedule>("{}").unwrap(), Schedule::default());
        assert_eq!(Schedule::new(ScheduleConfig::default()).unwrap(), Schedule::default());
    }

    #[test]
    fn what_is_no_schedule_is_refused_in_words() {
        let refused = |text: &str| serde_json::from_str::<Schedule>(text).unwrap_err().to_string();
        insta::assert_snapshot!(refused(r#"{"factors":"constant * linear_warm_up"}"#), @"there is no factor `linear_warm_up`; there are `constant`, `linear_warmup`, `linear_decay`, `rsqrt_decay`, `rsqrt_normalized_decay`, `decay_every`, `cosine_decay`");
        insta::assert_snapshot!(refused(r#"{"warmup_steps":0}"#), @"`warmup_steps` is 0; it has to be at least 1 for these factors");
        insta::assert_snapshot!(refused(r#"{"factors":"constant","base_learning_rate":-1}"#), @"`base_learning_rate` is -1; it has to be a finite number, at least 0");
        insta::assert_snapshot!(refused(r#"{"warmup":10}"#), @"unknown field `warmup`, expected one of `factors`, `base_learning_rate`, `warmup_steps`, `decay_factor`, `steps_per_decay`, `steps_per_cycle`, `step_offset`, `min_learning_rate` at line 1 column 9");
        assert!(serde_json::from_str::<Schedule>(r#"{"factors":"constant","warmup_steps":0}"#).is_ok());
    }
}
