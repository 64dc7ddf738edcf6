//! Epoch order: examples a second, in bulk as streams read them, and one by one.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use seqio::{EpochOrder, OrderKind};

const PLACES: usize = 1 << 16;

fn orders() -> [(&'static str, EpochOrder); 4] {
    let order = |name, examples, kind| (name, EpochOrder::new(examples, kind, 7, "docs", 0));
    [
        order("storage", 1 << 40, OrderKind::Storage),
        order("blocks of 4096", 1 << 40, OrderKind::default()),
        order("full, 2^33", 1 << 33, OrderKind::Full),
        // Just over a power of two: every other result has to be walked on.
        order("full, 2^32 + 1", (1 << 32) + 1, OrderKind::Full),
    ]
}

fn bulk(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("order/bulk");
    group.throughput(Throughput::Elements(PLACES as u64));
    for (name, order) in orders() {
        let mut out = vec![0; PLACES];
        let mut first = 0;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                order.examples(first, &mut out);
                first = (first + PLACES as u64) % (1 << 31);
                black_box(&out);
            });
        });
    }
    group.finish();
}

fn single(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("order/single");
    group.throughput(Throughput::Elements(1));
    for (name, order) in orders() {
        let mut place = 0;
        let mut next = || {
            place = (place + 7919) % (1 << 31);
            place
        };
        group.bench_function(format!("example_at, {name}"), |bencher| {
            bencher.iter(|| order.example_at(next()));
        });
        group.bench_function(format!("place_of, {name}"), |bencher| {
            bencher.iter(|| order.place_of(next()));
        });
    }
    group.finish();
}

criterion_group!(benches, bulk, single);
criterion_main!(benches);
