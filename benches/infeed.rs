//! How fast batches are made, in CPU time: tokens of weight > 0 a second, with every feature written and read.
//!
//! `cargo bench --bench infeed`; figures that were measured are in `benches/results/`.

mod lengths;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rustix::time::{ClockId, clock_gettime};
use seqio::{
    Batch, Converter, Dataset, DatasetConfig, ExampleId, ExampleRow, ExampleStore, Horizon, InMemoryExamples,
    Packing, StreamTask, TokenEdit, Values,
};

use crate::lengths::{Numbers, log_normal};

/// Documents, about 500 tokens each: 120 MB of two-byte ids.
const DOCUMENTS: usize = 120_000;

/// CPU time of all threads: what other programs do does not count.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// CPU time of `work`, run `times` times.
fn timed(times: u64, mut work: impl FnMut()) -> Duration {
    let start = cpu_time();
    (0..times).for_each(|_| work());
    cpu_time() - start
}

/// Documents of log-normal lengths, about 500 tokens in the targets and up to 400 in the inputs.
fn store() -> Arc<InMemoryExamples> {
    let lengths = log_normal(DOCUMENTS, 500.0, 1.0, 3);
    let mut numbers = Numbers(5);
    let ids: Vec<i32> = (0..1 << 16).map(|_| (numbers.bits() % 50_000) as i32).collect();
    let mut store = InMemoryExamples::new(["inputs", "targets"]);
    for (document, length) in lengths.iter().enumerate() {
        let start = document % 4096;
        let targets = &ids[start..start + (*length as usize).min(1 << 15)];
        let inputs = &targets[..(targets.len() / 2).min(400)];
        store.push(ExampleRow::new(ExampleId([0; 16]), Vec::new()), &[inputs, targets]);
    }
    Arc::new(store)
}

fn task() -> StreamTask {
    let edits = BTreeMap::from([("targets".to_owned(), vec![TokenEdit::Append { id: 1 }])]);
    StreamTask::new("bench", "memory").edits(edits)
}

/// Reads every number, as a consumer would; counts the weights.
fn read(batch: &Batch) -> u64 {
    let mut tokens = 0;
    for array in &batch.arrays {
        match &array.values {
            Values::I32(values) => {
                black_box(values.iter().fold(0i32, |sum, value| sum.wrapping_add(*value)));
            }
            Values::F32(values) => {
                tokens += values.iter().map(|weight| u64::from(*weight > 0.0)).sum::<u64>()
            }
        }
    }
    tokens
}

fn tokens_of(dataset: &Dataset, steps: usize) -> u64 {
    let batches = dataset.iter().expect("the request is sound").take(steps);
    batches.map(|batch| read(&batch.expect("memory can be read"))).sum()
}

fn infeed(criterion: &mut Criterion) {
    let store = store();
    let lm = || DatasetConfig::new("train", Converter::Lm, [("targets", 2048)]);
    let enc_dec = || DatasetConfig::new("train", Converter::EncDec, [("inputs", 512), ("targets", 512)]);
    let mut group = criterion.benchmark_group("infeed");
    for (name, config) in [
        ("lm 2048, batch 8, on the consumer's thread", lm().batch_size(8).read_ahead(0, 1)),
        ("lm 2048, batch 64, on the consumer's thread", lm().batch_size(64).read_ahead(0, 1)),
        ("lm 2048, batch 8, 8 ahead, 1 worker", lm().batch_size(8).read_ahead(8, 1)),
        ("lm 2048, batch 8, 8 ahead, 2 workers", lm().batch_size(8).read_ahead(8, 2)),
        ("lm 2048 unpacked, batch 8", lm().packing(Packing::None).batch_size(8).read_ahead(0, 1)),
        ("enc_dec 512, batch 8", enc_dec().batch_size(8).read_ahead(0, 1)),
    ] {
        let steps = 24_000_000 / 2048 / config.batch_sizes.size_at(0) as usize;
        let dataset = Dataset::new(task(), Arc::clone(&store) as Arc<dyn ExampleStore>, config);
        let dataset = dataset.expect("the request is sound");
        group.throughput(Throughput::Elements(tokens_of(&dataset, steps)));
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|times| {
                timed(times, || {
                    let mut batches = dataset.iter().expect("the request is sound");
                    for _ in 0..steps {
                        let batch = batches.next().expect("open-ended").expect("memory can be read");
                        black_box(read(&batch));
                        batches.recycle(batch);
                    }
                })
            });
        });
    }
    group.finish();
}

/// Planning alone: what an index costs, in examples.
fn planning(criterion: &mut Criterion) {
    let store = store();
    let mut group = criterion.benchmark_group("plan");
    group.throughput(Throughput::Elements(DOCUMENTS as u64));
    for packing in [Packing::BestFit, Packing::Greedy] {
        let config =
            DatasetConfig::new("train", Converter::Lm, [("targets", 2048)]).packing(packing).epochs(1);
        let dataset = Dataset::new(task(), Arc::clone(&store) as Arc<dyn ExampleStore>, config);
        let dataset = dataset.expect("the request is sound");
        group.bench_function(format!("one epoch, {packing}"), |bencher| {
            bencher.iter_custom(|times| {
                timed(times, || {
                    black_box(dataset.plan(Horizon::Epochs(1)).expect("lengths can be read"));
                })
            });
        });
    }
    group.finish();
}

/// The first batch: at the start, and from a state far away.
fn resume(criterion: &mut Criterion) {
    let store = store();
    let config =
        DatasetConfig::new("train", Converter::Lm, [("targets", 2048)]).batch_size(8).read_ahead(0, 1);
    let dataset = Dataset::new(task(), store, config).expect("the request is sound");
    let far = dataset.iter_from(20_000).expect("open-ended").state();
    let mut group = criterion.benchmark_group("first batch");
    for (name, state) in
        [("step 0", dataset.iter().expect("open-ended").state()), ("a state at step 20,000", far)]
    {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|times| {
                timed(times, || {
                    let mut batches = dataset.resume(&state).expect("its own state");
                    black_box(batches.next().expect("open-ended").expect("memory can be read"));
                })
            });
        });
    }
    group.finish();
}

/// What the machine can do at best.
fn memcpy(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("memcpy");
    for (name, bytes) in [("256 MiB", 256 << 20), ("320 KiB", 320 << 10)] {
        let (from, mut to) = (vec![1u8; bytes], vec![0u8; bytes]);
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(name, |bencher| {
            bencher
                .iter_custom(|times| timed(times, || black_box(&mut to).copy_from_slice(black_box(&from))));
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(3));
    targets = infeed, planning, resume, memcpy
}
criterion_main!(benches);
