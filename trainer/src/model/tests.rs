//! The networks against T5X: logits and activations of every case, on the host and on the device.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::engine::{Engine, ProgramId, Target};
use crate::golden;
use crate::host::HostTensor;
use crate::model::inputs::{InputShape, host_inputs, token_inputs};
use crate::model::{
    Architecture, Mode, ModelConfig, decoder_only, encoder_decoder, relative_position_bucket,
};
use crate::partition::Placement;
use crate::program::Program;
use crate::store::{StoreId, Stores};
use crate::tape::{Tape, Var};
use crate::testing::device;

/// All cases with their batches.
const CASES: &[(&str, &[&str])] = &[
    ("encdec", &["unpacked", "packed"]),
    ("encdec_v1_0_tied", &["unpacked", "packed"]),
    ("decoder_only", &["lm", "prefix", "packed"]),
    ("decoder_only_untied", &["lm", "prefix", "packed"]),
    ("scalable_t5", &["unpacked", "packed"]),
];

fn config_of(case: &str, batch: &str) -> ModelConfig {
    let mut config = golden::config(case);
    config.inputs_bidirectional_attention = config.architecture == Architecture::DecoderOnly && batch != "lm";
    config
}

fn targets() -> [(&'static str, Target); 2] {
    [("host", Target::Cpu { threads: 2 }), ("device", Target::Gpu(device()))]
}

/// Logits and labelled activations of a case, by name.
fn forward(case: &str, batch_name: &str, config: &ModelConfig, target: Target) -> BTreeMap<String, Vec<f32>> {
    let weights = golden::tensors(&format!("{case}/weights.safetensors"));
    let batch = golden::batch(case, batch_name);
    let config = Arc::new(config.clone());
    let shape = InputShape::of(&config, &batch, 1).unwrap();
    let (mut stores, mut tape) = (Stores::new(), Tape::new());
    let specs = config.parameters();
    assert_eq!(specs.iter().map(|spec| &spec.name).collect::<Vec<_>>(), weights.keys().collect::<Vec<_>>());
    let ids: Vec<StoreId> = specs
        .iter()
        .map(|spec| {
            assert_eq!(spec.shape.dims(), weights[&spec.name].0, "{}", spec.name);
            stores.add(spec.name.clone(), crate::shape::Spec::f32(spec.shape.clone()))
        })
        .collect();
    let parameters = Rc::new(
        specs.iter().zip(&ids).map(|(spec, id)| (spec.name.clone(), tape.stored(&stores, *id))).collect(),
    );
    let decoder = token_inputs(&mut tape, &config, "decoder", shape.rows, shape.decoder_length).unwrap();
    let logits = match config.architecture {
        Architecture::DecoderOnly => {
            decoder_only(&mut tape, &config, &parameters, &Placement::alone(), &decoder, Mode::Evaluate)
        }
        Architecture::EncoderDecoder => {
            let encoder =
                token_inputs(&mut tape, &config, "encoder", shape.rows, shape.encoder_length).unwrap();
            encoder_decoder(
                &mut tape,
                &config,
                &parameters,
                &Placement::alone(),
                &encoder,
                &decoder,
                Mode::Evaluate,
            )
        }
    };
    logits.unwrap();
    let names: Vec<(String, Var)> = golden::tensors(&format!("{case}/forward_{batch_name}.safetensors"))
        .into_keys()
        .filter(|name| !name.ends_with("relpos_bias"))
        .map(|name| {
            let plain = name.trim_start_matches("act/");
            let (label, which) = plain.split_once('#').map_or((plain, 0), |(label, _)| (label, 1));
            let found = tape.named(label);
            assert!(found.len() > which, "nothing is labelled `{label}`");
            (name.clone(), found[which])
        })
        .collect();
    let results: Vec<Var> = names.iter().map(|(_, var)| *var).collect();
    let program = Program::new(&tape, &results).unwrap();
    let mut engine = Engine::new(target, &stores, vec![program]).unwrap();
    for (spec, id) in specs.iter().zip(ids) {
        engine.write(&stores, id, &HostTensor::F32(weights[&spec.name].1.clone())).unwrap();
    }
    let inputs = host_inputs(&config, shape, &batch).unwrap();
    let found = engine.run(ProgramId(0), |name| inputs.get(name)).unwrap();
    names.into_iter().map(|(name, _)| name).zip(found).collect()
}

#[test]
fn logits_and_activations_are_those_of_t5x() {
    for (case, batches) in CASES {
        for batch in *batches {
            let expected = golden::tensors(&format!("{case}/forward_{batch}.safetensors"));
            let (encoder, decoder) = real_tokens(case, batch);
            for (place, target) in targets() {
                let found = forward(case, batch, &config_of(case, batch), target);
                let mut largest = 0.0f32;
                for (name, found) in &found {
                    let (shape, expected) = &expected[name];
                    let real = if name.starts_with("act/encoder")
                        || name == "act/token_embedder" && !encoder.is_empty()
                    {
                        &encoder
                    } else {
                        &decoder
                    };
                    let width = shape[2];
                    for (token, _) in real.iter().enumerate().filter(|(_, real)| **real) {
                        for at in token * width..(token + 1) * width {
                            let difference = (expected[at] - found[at]).abs();
                            assert!(
                                difference <= 5e-5,
                                "{case}/{batch} on the {place}, {name}[{at}]: {} {}",
                                expected[at],
                                found[at]
                            );
                            largest = largest.max(difference);
                        }
                    }
                }
                println!("{case}/{batch} on the {place}: largest difference {largest:.2e}, tolerance 5e-5");
            }
        }
    }
}

/// Which tokens are not padding.
fn real_tokens(case: &str, batch: &str) -> (Vec<bool>, Vec<bool>) {
    let batch = golden::batch(case, batch);
    let real = |feature: &str| -> Vec<bool> {
        let array = batch.arrays.iter().find(|array| array.name == feature);
        array.map_or(Vec::new(), |array| match &array.values {
            seqio::Values::I32(ids) => ids.iter().map(|id| *id > 0).collect(),
            seqio::Values::F32(_) => panic!("{feature}"),
        })
    };
    (real("encoder_input_tokens"), real("decoder_target_tokens"))
}

#[test]
fn buckets_are_those_of_t5x() {
    let golden = golden::json("unit/relpos_buckets.json");
    let mut seen = 0;
    for case in golden["tables"].as_array().unwrap() {
        let (bidirectional, buckets, distance) = (
            case["bidirectional"].as_bool().unwrap(),
            case["num_buckets"].as_u64().unwrap() as usize,
            case["max_distance"].as_u64().unwrap() as usize,
        );
        let expected = case["bucket"].as_array().unwrap();
        for (relative, bucket) in (-600..).zip(expected) {
            let found = relative_position_bucket(relative, bidirectional, buckets, distance);
            assert_eq!(
                found as u64,
                bucket.as_u64().unwrap(),
                "{relative} of {buckets}/{distance} {bidirectional}"
            );
            seen += 1;
        }
    }
    assert_eq!(seen, 8 * 1201);
}
