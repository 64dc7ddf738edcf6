//! Another trainer on the same stream: a bag of words in plain Rust, behind the trait that `seqio train` reads by.
//!
//! The next byte is guessed from the sum of a vector for each of the eight bytes before it, whatever their order.
//!
//! ```text
//! cargo run --release --example bag_of_words
//! ```

use std::error::Error;
use std::fs;
use std::sync::Arc;

use seqio::{Batch, Converter, Dataset, DatasetConfig, InMemoryExamples, StreamTask, Values};
use seqio_trainer::train::{BatchSource, DatasetSource};

/// Bytes, after padding and the end of a document.
const VOCABULARY: usize = 258;
/// How many bytes back the model looks.
const CONTEXT: usize = 8;
const STEPS: u64 = 60;

/// Scores of the next byte for each byte seen, and for none.
struct BagOfWords {
    scores: Vec<f32>,
    bias: Vec<f32>,
}

impl BagOfWords {
    fn new() -> Self {
        Self { scores: vec![0.0; VOCABULARY * VOCABULARY], bias: vec![0.0; VOCABULARY] }
    }

    /// Learns from a row, and gives its summed loss and number of targets.
    fn learn(&mut self, targets: &[i32], segments: &[i32], rate: f32) -> (f64, usize) {
        let (mut loss, mut counted) = (0.0, 0);
        for (place, (&target, &segment)) in targets.iter().zip(segments).enumerate() {
            if segment == 0 {
                continue;
            }
            // What was packed before this document is not looked at.
            let first = place.saturating_sub(CONTEXT);
            let seen: Vec<usize> = (first..place)
                .filter(|before| segments[*before] == segment)
                .map(|before| targets[before] as usize)
                .collect();
            let mut logits = self.bias.clone();
            for byte in &seen {
                let scores = &self.scores[byte * VOCABULARY..(byte + 1) * VOCABULARY];
                logits.iter_mut().zip(scores).for_each(|(logit, score)| *logit += score);
            }
            let largest = logits.iter().copied().fold(f32::MIN, f32::max);
            let sum: f32 = logits.iter().map(|logit| (logit - largest).exp()).sum();
            loss += f64::from(sum.ln() + largest - logits[target as usize]);
            counted += 1;
            for (class, logit) in logits.iter().enumerate() {
                let wanted = f32::from(u8::from(class == target as usize));
                let change = rate * (wanted - (logit - largest).exp() / sum);
                self.bias[class] += change;
                for byte in &seen {
                    self.scores[byte * VOCABULARY + class] += change;
                }
            }
        }
        (loss, counted)
    }
}

/// A feature of a batch, row by row.
fn rows<'a>(batch: &'a Batch, feature: &str) -> Result<std::slice::Chunks<'a, i32>, String> {
    let array = batch.arrays.iter().find(|array| array.name == feature).ok_or(format!("no `{feature}`"))?;
    match &array.values {
        Values::I32(ids) => Ok(ids.chunks(array.length)),
        Values::F32(_) => Err(format!("`{feature}` holds no ids")),
    }
}

/// Everything a trainer needs: batches one after the other, whoever makes them.
#[allow(clippy::print_stdout)]
fn train(source: &mut dyn BatchSource) -> Result<(), Box<dyn Error>> {
    let mut model = BagOfWords::new();
    while let Some(batch) = source.next().map_err(|error| error.to_string())? {
        if batch.step >= STEPS {
            break;
        }
        let (mut loss, mut counted) = (0.0, 0);
        let segments = rows(&batch, "decoder_segment_ids")?;
        for (targets, segments) in rows(&batch, "decoder_target_tokens")?.zip(segments) {
            let (of_row, targets) = model.learn(targets, segments, 0.02);
            loss += of_row;
            counted += targets;
        }
        if batch.step.is_multiple_of(10) {
            let digest = source.digest(&batch);
            println!(
                "step {:3}  loss {:.3} a byte  batch {digest}",
                batch.step,
                loss / f64::from(counted as u32)
            );
        }
        source.recycle(batch);
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/quickstart/data/docs-train.jsonl");
    let mut documents = Vec::new();
    for line in fs::read_to_string(path)?.lines() {
        let document: serde_json::Value = serde_json::from_str(line)?;
        let text = document["text"].as_str().ok_or("a document without `text`")?;
        // 0 is padding, 1 ends a document.
        documents.push(text.bytes().map(|byte| i32::from(byte) + 2).chain([1]).collect());
    }
    let examples = InMemoryExamples::of([("targets", documents)]);
    let task = StreamTask::new("docs", "quick start");
    let config = DatasetConfig::new("train", Converter::Lm, [("targets", 512)]).batch_size(4).seed(7);
    let dataset = Dataset::new(task, Arc::new(examples), config)?;
    train(&mut DatasetSource::new(Arc::new(dataset)).map_err(|error| error.to_string())?)
}
