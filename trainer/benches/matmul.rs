//! Products of matrices: GFLOP per CPU second on the host, and per second on an adapter with either family of kernels.
//!
//! ```text
//! cargo bench -p seqio-trainer --bench matmul [-- ADAPTER]     `cpu`: the host alone
//! ```

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench may stop, and prints")]

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use seqio_trainer::cpu::CpuArgs;
use seqio_trainer::engine::{Engine, ProgramId, Target};
use seqio_trainer::gpu::{Device, GpuArgs, Kernel};
use seqio_trainer::host::HostTensor;
use seqio_trainer::op::Op;
use seqio_trainer::ops::Matmul;
use seqio_trainer::program::Program;
use seqio_trainer::shape::Spec;
use seqio_trainer::store::Stores;
use seqio_trainer::tape::{Recorded, Tape, TapeError, Var};

/// Forward, and the two derivatives, of layers of width 256 over 2048 tokens; attention of 64 a head; a square.
const CASES: [(&str, Matmul, &[usize], &[usize]); 12] = [
    ("nn  512 x  512 x  512", Matmul::nn(), &[512, 512], &[512, 512]),
    ("nn 2048 x  256 x 1024", Matmul::nn(), &[2048, 256], &[256, 1024]),
    ("nn 2048 x 1024 x  256", Matmul::nn(), &[2048, 1024], &[1024, 256]),
    ("nn 2048 x  256 x  256", Matmul::nn(), &[2048, 256], &[256, 256]),
    ("nn 2048 x  256 x 4096", Matmul::nn(), &[2048, 256], &[256, 4096]),
    ("nt 2048 x 1024 x  256", Matmul::nt(), &[2048, 1024], &[256, 1024]),
    ("nt 2048 x  256 x  256", Matmul::nt(), &[2048, 256], &[256, 256]),
    ("tn 1024 x 2048 x  256", Matmul::tn(), &[2048, 1024], &[2048, 256]),
    ("tn  256 x 2048 x 1024", Matmul::tn(), &[2048, 256], &[2048, 1024]),
    ("tn  256 x 2048 x 4096", Matmul::tn(), &[2048, 256], &[2048, 4096]),
    ("nt  16 of 512 x 64 x 512", Matmul::nt().batched(), &[16, 512, 64], &[16, 512, 64]),
    ("nn  511 x  511 x  511", Matmul::nn(), &[511, 511], &[511, 511]),
];

/// Reads a tensor, so that it has to be there.
#[derive(Debug)]
struct Look;

static LOOK: Kernel = Kernel {
    name: "look",
    source: &["
        @group(0) @binding(0) var<uniform> unused: vec4<u32>;
        @group(0) @binding(1) var<storage, read> x: array<f32>;
        @group(0) @binding(2) var<storage, read_write> y: array<f32>;
        @compute @workgroup_size(1)
        fn look() {
            y[0] = x[unused.x];
        }
    "],
    entry: "look",
};

impl Op for Look {
    fn name(&self) -> &'static str {
        "look"
    }

    fn outputs(&self, _: &[Spec]) -> Result<Vec<Spec>, String> {
        Ok(vec![Spec::f32([1])])
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        args.output(0)[0] = args.input(0)[0];
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let buffers = [args.input(0), args.output(0)];
        args.dispatch(&LOOK, &buffers, &[0], [1, 1, 1]);
    }

    fn backward(&self, _: &mut Tape, _: &Recorded, _: &[Option<Var>]) -> Result<Vec<Option<Var>>, TapeError> {
        Ok(vec![None])
    }
}

/// Multiplies a case `times` times a run; the best of some runs, in seconds of the clock and of processors.
fn measure(target: Target, op: Matmul, a: &[usize], b: &[usize], times: usize) -> (f64, f64) {
    let (mut stores, mut tape) = (Stores::new(), Tape::new());
    let sides = [stores.add("a", Spec::f32(a)), stores.add("b", Spec::f32(b))];
    let inputs = sides.map(|side| tape.stored(&stores, side));
    let mut looks = Vec::new();
    for _ in 0..times {
        let product = tape.record(op, &inputs).unwrap();
        looks.push(tape.record(Look, &[product]).unwrap());
    }
    let program = Program::new(&tape, &looks).unwrap();
    let mut engine = Engine::new(target, &stores, vec![program]).unwrap();
    for (side, shape) in sides.into_iter().zip([a, b]) {
        let numbers = (0..shape.iter().product()).map(|i: usize| (i * 7919 % 1009) as f32 / 1009.0 - 0.5);
        engine.write(&stores, side, &HostTensor::F32(numbers.collect())).unwrap();
    }
    let mut best = (f64::INFINITY, f64::INFINITY);
    for _ in 0..6 {
        let (clock, processors) = (Instant::now(), processor_seconds());
        engine.run(ProgramId(0), |_| None).unwrap();
        best.0 = best.0.min(clock.elapsed().as_secs_f64());
        best.1 = best.1.min(processor_seconds() - processors);
    }
    (best.0 / times as f64, best.1 / times as f64)
}

fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Floating-point operations of a case, in thousand millions.
fn gigaflops(op: Matmul, a: &[usize], b: &[usize]) -> f64 {
    let outputs = op.outputs(&[Spec::f32(a), Spec::f32(b)]).unwrap();
    let [a, b, c] = [Spec::f32(a), Spec::f32(b), outputs[0].clone()].map(|spec| spec.shape.elements() as f64);
    // Of M K, K N and M N, and a batch's B once more in each.
    let batch = if outputs[0].shape.rank() == 3 { outputs[0].shape.dims()[0] as f64 } else { 1.0 };
    2e-9 * (a * b * c / batch).sqrt()
}

fn main() {
    let wanted = std::env::args().skip(1).find(|word| !word.starts_with("--"));
    let device = match wanted.as_deref() {
        Some("cpu") => None,
        wanted => Some(Device::open(wanted.unwrap_or("auto")).unwrap()),
    };
    let threads = std::thread::available_parallelism().unwrap().get();
    println!("host: {threads} threads, GFLOP a second of one processor (and of the clock)");
    if let Some(device) = &device {
        println!("adapter: {}, GFLOP a second of the clock (and of one processor)", device.info());
    }
    println!("{:24} {:>18} {:>18} {:>18}", "", "host", "direct", "tiled");
    for (name, op, a, b) in CASES {
        let work = gigaflops(op, a, b);
        let (clock, processor) = measure(Target::Cpu { threads }, op, a, b, (4.0 / work).ceil() as usize);
        print!("{name:24} {:9.1} ({:6.1})", work / processor, work / clock);
        for device in device.iter().flat_map(|device| [device.as_software(), device.as_hardware()]) {
            let times = if device.info().device_type == "cpu" { 1 } else { 64 };
            let (clock, processor) = measure(Target::Gpu(device), op, a, b, times);
            print!(" {:9.2} ({:6.2})", work / clock, work / processor);
        }
        println!();
    }
}
