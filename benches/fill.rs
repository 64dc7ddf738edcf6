//! Writing model features: tokens of weight > 0 a second, from ids held in two bytes, into a batch that is used again.

#![allow(clippy::unwrap_used, reason = "a bench may stop")]

mod lengths;

use std::collections::BTreeMap;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use seqio::{
    Converter, Digest, ExampleStore, InMemoryExamples, Packing, RowWriter, TokenEdit, WindowPlan,
    WindowPlanner,
};

use crate::lengths::{Numbers, log_normal};

const WINDOW: usize = 16_384;
const BATCH: usize = 8;

/// A window of documents with these lengths.
fn store(features: &[(&str, Vec<u32>)]) -> InMemoryExamples {
    let mut numbers = Numbers(5);
    let mut sequences = |lengths: &[u32]| -> Vec<Vec<i32>> {
        let mut ids = |length: &u32| (0..*length).map(|_| (numbers.bits() % 50_000) as i32).collect();
        lengths.iter().map(&mut ids).collect()
    };
    InMemoryExamples::of(features.iter().map(|(name, lengths)| (*name, sequences(lengths))))
}

fn plan(store: &dyn ExampleStore, writer: &RowWriter, limits: &[usize]) -> WindowPlan {
    let examples: Vec<u64> = (0..store.num_examples()).collect();
    let lengths: Vec<Vec<u32>> = writer
        .task_features()
        .map(|(feature, edits)| {
            let mut lengths = vec![0; examples.len()];
            store.lengths(feature, &examples, &mut lengths);
            edits.edit_lengths(&mut lengths);
            lengths
        })
        .collect();
    let lengths: Vec<&[u32]> = lengths.iter().map(Vec::as_slice).collect();
    WindowPlanner::new(limits, Packing::BestFit, 7, "docs").unwrap().plan(&lengths, 0)
}

fn fill(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fill");
    let eos = BTreeMap::from([("targets".to_owned(), vec![TokenEdit::Append { id: 1 }])]);
    let none = BTreeMap::new();
    let means = [100.0, 300.0, 1000.0];
    let lm = |mean: f64| vec![("targets", log_normal(WINDOW, mean, 1.0, 9))];
    let mut cases: Vec<_> = Vec::new();
    for mean in means {
        cases.push((format!("lm 2048, mean {mean}"), Converter::Lm, vec![2048], lm(mean), &none));
    }
    cases.push(("lm 2048, mean 300, eos appended".to_owned(), Converter::Lm, vec![2048], lm(300.0), &eos));
    let pairs =
        vec![("inputs", log_normal(WINDOW, 100.0, 0.8, 1)), ("targets", log_normal(WINDOW, 100.0, 0.8, 2))];
    cases.push((
        "enc_dec 512 and 512, means 100".to_owned(),
        Converter::EncDec,
        vec![512, 512],
        pairs,
        &none,
    ));
    for (name, converter, limits, features, edits) in cases {
        let store = store(&features);
        let names = converter.task_features().iter().map(|name| (*name).to_owned());
        let lengths = names.zip(limits.iter().copied()).collect();
        let writer = RowWriter::new(converter, &lengths, true, store.features(), edits).unwrap();
        let plan = plan(&store, &writer, &limits);
        let mut arrays = writer.new_arrays(BATCH);
        group.throughput(Throughput::Elements(plan.counts().tokens));
        group.bench_function(&name, |bencher| {
            bencher.iter(|| {
                for (index, row) in plan.rows().enumerate() {
                    let pieces = row.pieces().map(|piece| (u64::from(piece.item), piece.spans));
                    writer.write_row(&store, pieces, &mut arrays, index % BATCH).unwrap();
                    black_box(&arrays);
                }
            });
        });
    }
    group.finish();
}

fn digest(criterion: &mut Criterion) {
    let store = store(&[("targets", log_normal(WINDOW, 300.0, 1.0, 9))]);
    let lengths = BTreeMap::from([("targets".to_owned(), 2048)]);
    let writer = RowWriter::new(Converter::Lm, &lengths, true, store.features(), &BTreeMap::new()).unwrap();
    let mut arrays = writer.new_arrays(1);
    writer.write_example(&store, 0, &mut arrays, 0).unwrap();
    let mut group = criterion.benchmark_group("digest");
    group.throughput(Throughput::Bytes(5 * 4 * 2048));
    group.bench_function("row of lm 2048", |bencher| bencher.iter(|| Digest::of_row(&arrays, 0)));
    group.finish();
}

criterion_group!(benches, fill, digest);
criterion_main!(benches);
