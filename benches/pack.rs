//! Planning windows: examples a second, and how full the rows are (printed once for each case).

#![allow(clippy::print_stderr, reason = "the fill is a result of this bench")]
#![allow(clippy::unwrap_used, reason = "a bench may stop")]

mod lengths;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use seqio::{Packing, WindowPlan, WindowPlanner};

use crate::lengths::log_normal;

const WINDOW: usize = 16_384;
const WINDOWS: usize = 20;

struct Case {
    name: &'static str,
    limits: Vec<usize>,
    lengths: Vec<Vec<u32>>,
}

fn cases() -> Vec<Case> {
    let examples = WINDOW * WINDOWS;
    let one = |name, limit, mean| Case {
        name,
        limits: vec![limit],
        lengths: vec![log_normal(examples, mean, 1.0, 1)],
    };
    vec![
        one("row 512, mean 100", 512, 100.0),
        one("row 2048, mean 100", 2048, 100.0),
        one("row 2048, mean 300", 2048, 300.0),
        one("row 2048, mean 1000", 2048, 1000.0),
        one("row 8192, mean 1000", 8192, 1000.0),
        Case {
            name: "rows 512 and 512, means 100 and 100",
            limits: vec![512, 512],
            lengths: vec![log_normal(examples, 100.0, 0.8, 1), log_normal(examples, 100.0, 0.8, 2)],
        },
    ]
}

fn plan(criterion: &mut Criterion) {
    let cases = cases();
    for packing in [Packing::BestFit, Packing::Greedy] {
        let mut group = criterion.benchmark_group(format!("pack/{packing}"));
        group.throughput(Throughput::Elements((WINDOW * WINDOWS) as u64));
        for case in &cases {
            let mut planner = WindowPlanner::new(&case.limits, packing, 7, "docs").unwrap();
            let mut plan = WindowPlan::default();
            let mut all_windows = |each: &mut dyn FnMut(&WindowPlan)| {
                for window in 0..WINDOWS {
                    let items = window * WINDOW..(window + 1) * WINDOW;
                    let lengths: Vec<&[u32]> =
                        case.lengths.iter().map(|lengths| &lengths[items.clone()]).collect();
                    planner.plan_into(&lengths, window as u64, &mut plan);
                    each(&plan);
                }
            };
            let (mut rows, mut tokens) = (0, 0);
            all_windows(&mut |plan| {
                rows += plan.num_rows();
                tokens += plan.counts().tokens;
            });
            let places = rows * case.limits.iter().sum::<usize>();
            let fill = 100.0 * tokens as f64 / places as f64;
            eprintln!("{packing}, {}: {} rows a window, {fill:.3} % full", case.name, rows / WINDOWS);
            group.bench_function(case.name, |bencher| {
                bencher.iter(|| {
                    all_windows(&mut |plan| {
                        black_box(plan.num_rows());
                    })
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, plan);
criterion_main!(benches);
