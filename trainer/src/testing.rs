//! The laws of operations, as one check: both implementations agree, every run gives the same bits whatever the number
//! of threads, and the derivative is the derivative.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use crate::engine::{Engine, ProgramId, Target};
use crate::gpu::Device;
use crate::host::HostTensor;
use crate::program::Program;
use crate::shape::{Kind, Shape, Spec};
use crate::store::Stores;
use crate::tape::{Tape, TapeError, Var};

/// The device that all tests of a process share, so that each pipeline is compiled once.
pub(crate) fn device() -> Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    DEVICE
        .get_or_init(|| Device::open("auto").unwrap_or_else(|error| panic!("{error}: {}", error.hint())))
        .clone()
}

/// Inputs of an operation under test, filled from a seed.
pub(crate) struct Case {
    random: Random,
    inputs: Vec<(String, Spec, HostTensor)>,
    tolerance: f32,
    fixed: Vec<String>,
}

/// A small generator: numbers for tests only.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn bits(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// In [0, 1).
    pub(crate) fn uniform(&mut self) -> f32 {
        (self.bits() >> 8) as f32 / (1 << 24) as f32
    }

    pub(crate) fn normal(&mut self) -> f32 {
        let (radius, angle) = ((1.0 - self.uniform()).ln() * -2.0, self.uniform() * std::f32::consts::TAU);
        radius.sqrt() * angle.cos()
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.bits() as usize % limit
    }

    /// So many numbers, normally distributed.
    pub(crate) fn normals(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.normal()).collect()
    }

    /// An axis of this length, cut into so many parts that are not empty.
    pub(crate) fn cut(&mut self, length: usize, parts: usize) -> Vec<Range<usize>> {
        assert!((1..=length).contains(&parts), "{parts} parts of {length}");
        let mut ends = std::collections::BTreeSet::from([length]);
        while ends.len() < parts {
            ends.insert(1 + self.below(length - 1));
        }
        let starts = std::iter::once(0).chain(ends.iter().copied());
        starts.zip(&ends).map(|(start, end)| start..*end).collect()
    }
}

/// The elements of a tensor that lie within a range of every axis.
pub(crate) fn part_of<T: Copy>(values: &[T], dims: &[usize], ranges: &[Range<usize>]) -> Vec<T> {
    let ([_, inner @ ..], [range, ranges @ ..]) = (dims, ranges) else { return values.to_vec() };
    let width = inner.iter().product();
    let rows = values.chunks(width).skip(range.start).take(range.len());
    rows.flat_map(|row| part_of(row, inner, ranges)).collect()
}

/// A tape whose inputs have numbers.
#[derive(Default)]
pub(crate) struct Given {
    pub(crate) tape: Tape,
    values: BTreeMap<String, HostTensor>,
}

impl Given {
    pub(crate) fn floats(&mut self, shape: impl Into<Shape>, values: Vec<f32>) -> Var {
        self.input(Spec::f32(shape), HostTensor::F32(values))
    }

    pub(crate) fn ints(&mut self, shape: impl Into<Shape>, values: Vec<i32>) -> Var {
        self.input(Spec::i32(shape), HostTensor::I32(values))
    }

    fn input(&mut self, spec: Spec, values: HostTensor) -> Var {
        let name = format!("input {}", self.values.len());
        self.values.insert(name.clone(), values);
        self.tape.input(&name, spec).unwrap()
    }

    /// What `results` are on the host and on the device.
    pub(crate) fn run(&self, results: &[Var]) -> [(&'static str, Vec<Vec<f32>>); 2] {
        let program = Program::new(&self.tape, results).unwrap();
        [("host", Target::Cpu { threads: 2 }), ("device", Target::Gpu(device()))].map(|(place, target)| {
            let mut engine = Engine::new(target, &Stores::new(), vec![program.clone()]).unwrap();
            let found = engine.run(ProgramId(0), |name| self.values.get(name)).unwrap();
            let again = engine.run(ProgramId(0), |name| self.values.get(name)).unwrap();
            assert_eq!(bits(&found), bits(&again), "another run on the {place}");
            (place, found)
        })
    }
}

impl Case {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), inputs: Vec::new(), tolerance: 2e-5, fixed: Vec::new() }
    }

    /// An input of normally distributed floats, which the operation is differentiated by.
    pub(crate) fn normal(mut self, name: &str, shape: impl Into<Shape>) -> Self {
        let shape = shape.into();
        let values = (0..shape.elements()).map(|_| self.random.normal()).collect();
        self.inputs.push((name.to_owned(), Spec::f32(shape), HostTensor::F32(values)));
        self
    }

    /// An input with given floats, which the operation is not differentiated by.
    pub(crate) fn fixed(mut self, name: &str, shape: impl Into<Shape>, values: Vec<f32>) -> Self {
        self.inputs.push((name.to_owned(), Spec::f32(shape), HostTensor::F32(values)));
        self.fixed.push(name.to_owned());
        self
    }

    /// An input of integers.
    pub(crate) fn ints(mut self, name: &str, shape: impl Into<Shape>, values: Vec<i32>) -> Self {
        self.inputs.push((name.to_owned(), Spec::i32(shape), HostTensor::I32(values)));
        self
    }

    /// How far both implementations may differ, relative to the root mean square of an output.
    pub(crate) fn tolerance(mut self, tolerance: f32) -> Self {
        self.tolerance = tolerance;
        self
    }
}

/// Checks the laws of what `record` makes of the inputs of `case`.
pub(crate) fn check(case: Case, record: impl Fn(&mut Tape, &[Var]) -> Result<Vec<Var>, TapeError>) {
    let Case { mut random, inputs, tolerance, fixed } = case;
    let mut tape = Tape::new();
    let vars: Vec<Var> =
        inputs.iter().map(|(name, spec, _)| tape.input(name, spec.clone()).unwrap()).collect();
    let outputs = record(&mut tape, &vars).unwrap();
    let floats: Vec<Var> = outputs.iter().copied().filter(|var| tape.spec(*var).kind == Kind::F32).collect();

    let mut values: BTreeMap<String, HostTensor> =
        inputs.iter().map(|(name, _, values)| (name.clone(), values.clone())).collect();
    let mut known = Vec::new();
    for (i, &output) in floats.iter().enumerate() {
        let name = format!("gradient of output {i}");
        let gradient = tape.input(&name, tape.spec(output).clone()).unwrap();
        let numbers = (0..tape.shape(output).elements()).map(|_| random.normal()).collect();
        values.insert(name, HostTensor::F32(numbers));
        known.push((output, gradient));
    }
    let of: Vec<usize> = (0..inputs.len())
        .filter(|i| inputs[*i].1.kind == Kind::F32 && !fixed.contains(&inputs[*i].0))
        .collect();
    let by: Vec<Var> = of.iter().map(|i| vars[*i]).collect();
    let gradients = tape.pull_back(&known, &by).unwrap();
    let results: Vec<Var> = floats.iter().chain(&gradients).copied().collect();

    let program = Program::new(&tape, &results).unwrap();
    let on = |target| Engine::new(target, &Stores::new(), vec![program.clone()]).unwrap();
    let run = |engine: &mut Engine, values: &BTreeMap<String, HostTensor>| {
        engine.run(ProgramId(0), |name| values.get(name)).unwrap()
    };
    let mut cpu = on(Target::Cpu { threads: 1 });
    let found = run(&mut cpu, &values);
    assert_eq!(bits(&found), bits(&run(&mut cpu, &values)), "another run on the host");
    assert_eq!(bits(&found), bits(&run(&mut on(Target::Cpu { threads: 3 }), &values)), "other threads");
    // Software gets other kernels than hardware, but can run those as well.
    for device in [device(), device().as_hardware()] {
        let kind = if device.traits().software { "software" } else { "hardware" };
        let mut gpu = on(Target::Gpu(device));
        let on_device = run(&mut gpu, &values);
        assert_eq!(bits(&on_device), bits(&run(&mut gpu, &values)), "another run with kernels for {kind}");
        for (i, (host, device)) in found.iter().zip(&on_device).enumerate() {
            let what = format!("`{}` of {:?} for {kind}", tape.name(results[i]), inputs_of(&inputs));
            assert_close(host, device, tolerance, &what);
        }
    }

    // The change along a random direction, by central differences, against the gradient along it.
    let dot = |results: &[Vec<f32>]| -> f64 {
        let weights = known.iter().map(|(_, gradient)| &values[tape.name(*gradient)]);
        results.iter().zip(weights).map(|(result, weights)| inner(result, weights.as_f32_bits())).sum()
    };
    for (at, &i) in of.iter().enumerate() {
        let (name, _, original) = &inputs[i];
        let original = original.as_f32_bits().to_vec();
        let direction: Vec<f32> = original.iter().map(|_| random.normal()).collect();
        let step = 3e-3;
        let mut moved = |sign: f32| {
            let numbers = original.iter().zip(&direction).map(|(x, d)| x + sign * step * d).collect();
            let mut values = values.clone();
            values.insert(name.clone(), HostTensor::F32(numbers));
            dot(&run(&mut cpu, &values)[..floats.len()])
        };
        let change = (moved(1.0) - moved(-1.0)) / (2.0 * f64::from(step));
        let gradient = &found[floats.len() + at];
        let expected = inner(gradient, &direction);
        let size = inner(gradient, gradient).sqrt() * inner(&direction, &direction).sqrt();
        let room = 2e-2 * (size / (original.len() as f64).sqrt()).max(1e-2) + 1e-3;
        assert!(
            (change - expected).abs() <= room,
            "derivative by `{name}` {:?}: {change} by differences, {expected} by gradient",
            inputs_of(&inputs)
        );
    }
}

fn inputs_of(inputs: &[(String, Spec, HostTensor)]) -> Vec<String> {
    inputs.iter().map(|(name, spec, _)| format!("{name} {spec}")).collect()
}

fn inner(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// The bits of numbers, equal where these are the same numbers.
pub(crate) fn bits(results: &[Vec<f32>]) -> Vec<Vec<u32>> {
    results.iter().map(|result| result.iter().map(|x| x.to_bits()).collect()).collect()
}

/// Asserts that no element differs by more than `tolerance` of the root mean square (at least 1e-3).
pub(crate) fn assert_close(expected: &[f32], found: &[f32], tolerance: f32, what: &str) {
    assert_eq!(expected.len(), found.len(), "{what}");
    let mean_square = inner(expected, expected) / expected.len().max(1) as f64;
    let room = f64::from(tolerance) * mean_square.sqrt().max(1e-3);
    for (i, (expected, found)) in expected.iter().zip(found).enumerate() {
        let difference = (f64::from(*expected) - f64::from(*found)).abs();
        assert!(
            difference <= room,
            "{what}, element {i}: {expected} against {found}, apart by more than {room}"
        );
    }
}

/// The same batches over and over, as a source.
pub(crate) struct Repeating {
    batches: Vec<seqio::Batch>,
    step: u64,
}

impl Repeating {
    pub(crate) fn new(batches: Vec<seqio::Batch>) -> Self {
        Self { batches, step: 0 }
    }
}

impl crate::train::BatchSource for Repeating {
    fn next(&mut self) -> Result<Option<seqio::Batch>, crate::train::SourceError> {
        let mut batch = self.batches[self.step as usize % self.batches.len()].clone();
        batch.step = self.step;
        self.step += 1;
        Ok(Some(batch))
    }

    fn go_to(&mut self, step: u64) -> Result<(), crate::train::SourceError> {
        self.step = step;
        Ok(())
    }

    fn state(&self) -> serde_json::Value {
        self.step.into()
    }

    fn restore(&mut self, state: &serde_json::Value) -> Result<(), crate::train::SourceError> {
        self.step = state.as_u64().ok_or("no step")?;
        Ok(())
    }

    fn digest(&self, batch: &seqio::Batch) -> String {
        format!("batch {}", batch.step)
    }

    fn provenance(&self, step: u64) -> Result<String, crate::train::SourceError> {
        Ok(format!("golden batch {}", step % self.batches.len() as u64))
    }

    fn infeed_wait_ms(&self) -> f64 {
        0.0
    }
}
