//! Encoding and decoding with SentencePiece models: bytes of text a second on one thread.
//!
//! `python benches/sentencepiece_speed.py MODEL` measures the C++ library on the same text.

#![allow(clippy::unwrap_used, reason = "a bench may stop")]

use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use seqio::{SentencePiece, SentencePieceOptions, Vocabulary};

/// Models in `tests/golden/tokenizers`.
const MODELS: [(&str, &str); 2] =
    [("unigram (T5)", "t5-spiece/spiece.model.zst"), ("bpe (Mistral v1)", "mistral-v1/tokenizer.model.zst")];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn open(model: &str) -> SentencePiece {
    let file = std::fs::File::open(root().join("tests/golden/tokenizers").join(model)).unwrap();
    SentencePiece::open(zstd::decode_all(file).unwrap(), &SentencePieceOptions::default()).unwrap()
}

/// The field `text` of each row of a JSONL file.
fn texts(path: &str) -> Vec<String> {
    let rows = std::fs::read_to_string(root().join(path)).unwrap();
    let text = |row: &str| {
        serde_json::from_str::<serde_json::Value>(row).unwrap()["text"].as_str().unwrap().to_owned()
    };
    rows.lines().map(text).collect()
}

fn encode(criterion: &mut Criterion) {
    let inputs = [
        ("documents", texts("examples/quickstart/data/docs-train.jsonl")),
        ("many languages", texts("tests/golden/tokenizers/vectors/t5-spiece.jsonl")),
        ("1 MB of ab", vec!["ab".repeat(500_000)]),
    ];
    let mut group = criterion.benchmark_group("encode");
    for (name, model) in MODELS {
        let vocabulary = open(model);
        for (what, texts) in &inputs {
            group.throughput(Throughput::Bytes(texts.iter().map(|text| text.len() as u64).sum()));
            group.bench_function(format!("{name}, {what}"), |bencher| {
                let mut ids = Vec::new();
                bencher.iter(|| {
                    for text in texts {
                        ids.clear();
                        vocabulary.encode_into(text, &mut ids).unwrap();
                        black_box(&ids);
                    }
                });
            });
        }
    }
    group.finish();
}

fn decode(criterion: &mut Criterion) {
    let texts = texts("examples/quickstart/data/docs-train.jsonl");
    let mut group = criterion.benchmark_group("decode");
    group.throughput(Throughput::Bytes(texts.iter().map(|text| text.len() as u64).sum()));
    for (name, model) in MODELS {
        let vocabulary = open(model);
        let encoded: Vec<Vec<i32>> = texts
            .iter()
            .map(|text| {
                let mut ids = Vec::new();
                vocabulary.encode_into(text, &mut ids).unwrap();
                ids
            })
            .collect();
        group.bench_function(name, |bencher| {
            bencher.iter(|| encoded.iter().for_each(|ids| drop(black_box(vocabulary.decode(ids)))));
        });
    }
    group.finish();
}

criterion_group!(benches, encode, decode);
criterion_main!(benches);
