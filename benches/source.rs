//! Reading and parsing raw text: bytes a second on one thread.
//!
//! Documents of about 2 kB with escapes as real ones have (a line end every 80 bytes, some quotes), beside three
//! fields that nobody reads; plain parsing by `serde_json` into owned strings stands beside it for comparison.

#![allow(clippy::unwrap_used, reason = "a bench may stop")]

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use seqio::{DataSource, RawChunk, ScalarType, SourceFile, SourceSpec};

const DOCUMENTS: usize = 8_000;

/// Sentences of made-up words; every seventh has quotes, and every third line an accented letter.
fn document(number: usize) -> String {
    let mut text = String::new();
    let mut state = number as u64 + 1;
    let words =
        ["data", "the", "preprocess", "of", "token", "a", "boundary", "is", "sequence", "and", "mixture"];
    for line in 0..25 {
        for _ in 0..12 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(words[(state >> 33) as usize % words.len()]);
            text.push(' ');
        }
        if line % 7 == 0 {
            text.push_str("\"quoted\" ");
        }
        if line % 3 == 0 {
            text.push('é');
        }
        text.push('\n');
    }
    text
}

fn jsonl() -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0..DOCUMENTS {
        let meta = serde_json::json!({ "id": format!("doc-{number}"), "source": "made up", "score": 0.25 });
        let object = serde_json::json!({ "id": number, "meta": meta, "text": document(number), "url": "https://a.b/c" });
        serde_json::to_writer(&mut bytes, &object).unwrap();
        bytes.push(b'\n');
    }
    bytes
}

/// The same documents as quoted CSV.
fn csv() -> String {
    let mut csv = "id,source,text,url\n".to_owned();
    for number in 0..DOCUMENTS {
        let text = document(number).replace('"', "\"\"");
        csv.push_str(&format!("{number},made up,\"{text}\",https://a.b/c\n"));
    }
    csv
}

fn source(dir: &Path, spec: &SourceSpec) -> (Arc<dyn DataSource>, SourceFile) {
    let source = spec.open("bench", dir).unwrap();
    let file = source.files("train").unwrap().remove(0);
    (source, file)
}

fn chunks(source: &dyn DataSource, file: &SourceFile) -> Vec<RawChunk> {
    source.read(file, 0, None, Box::new(|_| false)).unwrap().map(Result::unwrap).collect()
}

fn parse(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let jsonl = jsonl();
    let text: String = (0..DOCUMENTS).map(document).collect();
    std::fs::write(dir.path().join("a.jsonl"), &jsonl).unwrap();
    std::fs::write(dir.path().join("a.jsonl.zst"), zstd::encode_all(&jsonl[..], 3).unwrap()).unwrap();
    std::fs::write(dir.path().join("a.txt"), &text).unwrap();
    let csv = csv();
    std::fs::write(dir.path().join("a.csv"), &csv).unwrap();

    let mut group = criterion.benchmark_group("source");
    group.sample_size(20);
    let of = |pattern: &str| SourceSpec::jsonl([("train", pattern)]).column("text", ScalarType::String);
    for (name, spec, bytes) in [
        ("jsonl", of("a.jsonl"), jsonl.len()),
        ("csv", SourceSpec::csv([("train", "a.csv")]).column("text", ScalarType::String), csv.len()),
        ("text lines", SourceSpec::text([("train", "a.txt")]), text.len()),
    ] {
        let (source, file) = source(dir.path(), &spec);
        let chunks = chunks(&*source, &file);
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(format!("parse {name}"), |bencher| {
            bencher.iter(|| {
                for chunk in &chunks {
                    black_box(source.parse(&file, chunk).unwrap());
                }
            });
        });
    }
    group.throughput(Throughput::Bytes(jsonl.len() as u64));
    group.bench_function("parse jsonl with serde_json alone", |bencher| {
        #[derive(serde::Deserialize)]
        struct Document {
            text: String,
        }
        bencher.iter(|| {
            for line in jsonl.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
                black_box(serde_json::from_slice::<Document>(line).unwrap().text);
            }
        });
    });
    for name in ["a.jsonl", "a.jsonl.zst", "a.csv"] {
        let spec = if name == "a.csv" { SourceSpec::csv([("train", name)]) } else { of(name) };
        let (source, file) = source(dir.path(), &spec);
        group.bench_function(format!("read {name}"), |bencher| {
            bencher.iter(|| black_box(chunks(&*source, &file).len()));
        });
    }
    group.finish();
}

criterion_group!(benches, parse);
criterion_main!(benches);
