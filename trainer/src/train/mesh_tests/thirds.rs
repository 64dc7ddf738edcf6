//! Three ranks, as T5's small models with their six heads can be spread.

use std::collections::BTreeMap;

use super::{MODES, on_cpu, tiny};
use crate::optimizer::{AdafactorConfig, AdamWConfig, OptimizerConfig};
use crate::train::TrainerConfig;
use crate::train::tests::Place;

/// Losses of five steps, and all parameters.
fn trained(place: &Place, config: &TrainerConfig) -> (Vec<f64>, BTreeMap<String, Vec<f32>>) {
    let mut trainer = tiny::trainer(place, config);
    let losses = tiny::losses(&mut trainer, 5);
    let names = trainer.parameters().into_iter().map(|(name, _)| name);
    let read = |name: String| {
        let values = trainer.read(&name).unwrap();
        (name, values)
    };
    (losses, names.map(read).collect())
}

#[test]
fn six_heads_on_three_ranks_learn_what_they_learn_on_one() {
    let factored = AdafactorConfig { min_dim_size_to_factor: 16, ..AdafactorConfig::default() };
    let optimizers = [
        ("adafactor", OptimizerConfig::Adafactor(factored), 0.02),
        ("adamw", OptimizerConfig::AdamW(AdamWConfig::default()), 1e-3),
    ];
    for (name, optimizer, learning_rate) in optimizers {
        let schedule = tiny::constant(learning_rate);
        let config = TrainerConfig { optimizer, schedule, ..tiny::config(6) };
        let (expected, whole) = trained(&on_cpu((1, 1), (1, 1)), &config);
        for mode in MODES {
            let (losses, found) = trained(&on_cpu((1, 3), mode), &config);
            let loss = tiny::apart(&expected, &losses);
            let parameter = whole.iter().map(|(name, whole)| {
                let apart = whole.iter().zip(&found[name]).map(|(a, b)| (a - b).abs());
                (apart.fold(0.0, f32::max), name)
            });
            let (parameter, of) = parameter.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
            println!("{name}, {mode:?}: losses apart by {loss:.1e}, parameters by {parameter:.1e} ({of})");
            assert!(loss <= 1e-5 && parameter <= 1e-4, "{name}, {mode:?}: {loss}, {parameter} of {of}");
        }
    }
}
