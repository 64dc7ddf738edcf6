//! Cross-entropy of T5X: label smoothing, z-loss, a weight for every token, and T5X's own derivative.
//!
//! ```text
//! logits f32[.., V], targets i32[..], weights f32[..], R rows of V
//!   ->  loss f32[R], z f32[R], correct f32[R], log_z f32[R]
//! ```

use rayon::prelude::*;

use crate::cpu::math::{exp, ln};
use crate::cpu::{CHUNK, CpuArgs};
use crate::gpu::{GpuArgs, Kernel, PRELUDE, linear_groups};
use crate::op::Op;
use crate::ops::reduction::sum_of;
use crate::shape::{Kind, Spec};
use crate::tape::{Recorded, Tape, TapeError, Var};

const SOURCE: &[&str] = &[PRELUDE, include_str!("cross_entropy.wgsl")];
static PARTS: Kernel = Kernel { name: "cross_entropy", source: SOURCE, entry: "parts" };
static STATISTICS: Kernel = Kernel { name: "cross_entropy", source: SOURCE, entry: "statistics" };
static LOSSES: Kernel = Kernel { name: "cross_entropy", source: SOURCE, entry: "losses" };
static BACKWARD: Kernel = Kernel { name: "cross_entropy", source: SOURCE, entry: "backward" };

/// Numbers of a row, and of a part of one: maximum, its place, sum of exponentials, sum of differences to the maximum.
const STATISTICS_WIDTH: usize = 4;
/// Invocations that share a row.
const PARTS_OF_ROW: usize = 32;

/// Weighted cross-entropy of every token.
///
/// Output 0 is `weight · (cross-entropy + z_loss · log²Z − entropy of the smoothed target)`, 1 the part of the z-loss
/// in it, 2 is 1 where the weight is not 0 and the first of the largest logits is the target's, 3 is log Z. Only
/// output 0 has a derivative, and only by the logits. A target outside of the vocabulary is no class at all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CrossEntropy {
    z_loss: f32,
    label_smoothing: f32,
}

/// What a target counts, for its class and for each of the others, and what a perfect prediction would cost.
#[derive(Clone, Copy)]
struct Smoothed {
    on: f32,
    off: f32,
    entropy: f32,
}

impl CrossEntropy {
    /// `z_loss`: what log²Z costs; `label_smoothing`: the share of a target that all other classes get.
    pub fn new(z_loss: f32, label_smoothing: f32) -> Self {
        Self { z_loss, label_smoothing }
    }

    fn smoothed(&self, classes: usize) -> Smoothed {
        if self.label_smoothing == 0.0 {
            return Smoothed { on: 1.0, off: 0.0, entropy: 0.0 };
        }
        let (on, others) = (1.0 - f64::from(self.label_smoothing), (classes - 1) as f64);
        let off = (1.0 - on) / others;
        let entropy = -(on * on.ln() + others * off * (off + 1e-20).ln());
        Smoothed { on: on as f32, off: off as f32, entropy: entropy as f32 }
    }

    fn check(&self, logits: &Spec, per_row: &[&Spec]) -> Result<usize, String> {
        let (rows, classes) = (logits.shape.rows(), logits.shape.width());
        let fits = per_row.iter().all(|spec| spec.shape.elements() == rows);
        if logits.kind != Kind::F32 || logits.shape.rank() == 0 || !fits {
            return Err(
                "it takes logits f32[.., V], and a target (i32) and a weight (f32) for every row".into()
            );
        }
        if self.label_smoothing != 0.0 && classes < 2 {
            return Err("label smoothing needs at least 2 classes".to_owned());
        }
        if !(0.0..1.0).contains(&self.label_smoothing) {
            return Err(format!(
                "label smoothing is {}; it is at least 0 and less than 1",
                self.label_smoothing
            ));
        }
        Ok(rows)
    }

    fn params(&self, rows: usize, classes: usize) -> Vec<u32> {
        let Smoothed { on, off, entropy } = self.smoothed(classes);
        let mut params = vec![rows as u32, classes as u32, parts_of_row(classes) as u32];
        params.extend([on, off, entropy, self.z_loss].map(f32::to_bits));
        params
    }
}

fn parts_of_row(classes: usize) -> usize {
    classes.div_ceil(8).clamp(1, PARTS_OF_ROW)
}

impl Op for CrossEntropy {
    fn name(&self) -> &'static str {
        "cross_entropy"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        let [logits, targets, weights] = inputs else {
            return Err("it takes logits, targets and weights".to_owned());
        };
        let rows = self.check(logits, &[targets, weights])?;
        if targets.kind != Kind::I32 || weights.kind != Kind::F32 {
            return Err("targets are i32, weights f32".to_owned());
        }
        let mut outputs = vec![Spec::f32([rows]); 4];
        outputs.push(Spec::f32([rows, STATISTICS_WIDTH]));
        outputs.push(Spec::f32([rows, parts_of_row(logits.shape.width()), STATISTICS_WIDTH]));
        Ok(outputs)
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let (logits, targets, weights) = (args.input(0), args.ints(1), args.input(2));
        let classes = args.dims(0).last().copied().unwrap_or(1);
        let smoothed = self.smoothed(classes);
        let outputs = [args.output(0), args.output(1), args.output(2), args.output(3)];
        let [losses, z_losses, corrects, log_zs] = outputs;
        let rows = losses.par_iter_mut().zip(z_losses).zip(corrects).zip(log_zs);
        let statistics = args.output(4).par_chunks_mut(STATISTICS_WIDTH);
        let given = logits.par_chunks(classes.max(1)).zip(targets).zip(weights);
        rows.zip(statistics).zip(given).for_each(|(outputs, ((logits, &target), &weight))| {
            let ((((loss, z_loss), correct), log_z), statistics) = outputs;
            let row = Row::of(logits, smoothed.off != 0.0);
            statistics.copy_from_slice(&[row.max, row.argmax as f32, row.sum, row.differences]);
            *log_z = row.max + ln(row.sum);
            let target = usize::try_from(target).ok().filter(|target| *target < classes);
            *z_loss = weight * (self.z_loss * *log_z * *log_z);
            *correct = f32::from(u8::from(weight != 0.0 && target == Some(row.argmax)));
            let token_loss = row.cross_entropy(logits, target, smoothed) + self.z_loss * *log_z * *log_z;
            *loss = weight * (token_loss - smoothed.entropy);
        });
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let (rows, classes) = (args.shape(0).rows(), args.shape(0).width());
        let params = self.params(rows, classes);
        let (logits, targets, weights) = (args.input(0), args.input(1), args.input(2));
        let [loss, z, correct, log_z, statistics, parts] = [0, 1, 2, 3, 4, 5].map(|i| args.output(i));
        args.dispatch(&PARTS, &[logits, parts], &params, linear_groups(rows * parts_of_row(classes), 64));
        args.dispatch(&STATISTICS, &[parts, statistics], &params, linear_groups(rows, 64));
        let buffers = [logits, targets, weights, statistics, loss, z, correct, log_z];
        args.dispatch(&LOSSES, &buffers, &params, linear_groups(rows, 64));
    }

    fn backward(
        &self,
        tape: &mut Tape,
        node: &Recorded,
        gradients: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        let Some(gradient) = gradients[0].filter(|_| node.needs(0)) else { return Ok(vec![None; 3]) };
        let mut inputs = node.inputs.clone();
        inputs.extend([node.outputs[4], gradient, node.outputs[3]]);
        Ok(vec![Some(tape.record(CrossEntropyBackward(*self), &inputs)?), None, None])
    }
}

/// What one pass over a row of logits finds out.
struct Row {
    max: f32,
    argmax: usize,
    /// Of exp(logit − max).
    sum: f32,
    /// Of logit − max, where it is asked for.
    differences: f32,
}

impl Row {
    fn of(logits: &[f32], differences: bool) -> Self {
        let max = largest(logits);
        Self {
            max,
            argmax: logits.iter().position(|x| *x == max).unwrap_or(usize::MAX),
            sum: sum_of(logits, |x| exp(x - max)),
            differences: if differences { sum_of(logits, |x| x - max) } else { 0.0 },
        }
    }

    /// Against the smoothed target.
    fn cross_entropy(
        &self,
        logits: &[f32],
        target: Option<usize>,
        Smoothed { on, off, .. }: Smoothed,
    ) -> f32 {
        let log_sum = ln(self.sum);
        let of_target = target.map_or(0.0, |target| (on - off) * (logits[target] - self.max - log_sum));
        if off == 0.0 {
            return -of_target;
        }
        -of_target - off * (self.differences - logits.len() as f32 * log_sum)
    }
}

/// In independent lanes, so that the loop is vectorised.
fn largest(x: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let mut lanes = [f32::NEG_INFINITY; 16];
    let chunks = x.chunks_exact(lanes.len());
    let rest = chunks.remainder();
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, x)| *lane = larger(*lane, *x));
    }
    lanes.iter_mut().zip(rest).for_each(|(lane, x)| *lane = larger(*lane, *x));
    lanes.into_iter().fold(f32::NEG_INFINITY, larger)
}

/// The gradient of the logits, in their place:
/// `weight · g · [(1 + 2 · z_loss · log Z) · softmax − smoothed target]`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CrossEntropyBackward(CrossEntropy);

impl Op for CrossEntropyBackward {
    fn name(&self) -> &'static str {
        "cross_entropy_backward"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        match inputs {
            [logits, targets, weights, _, gradient, log_z] => {
                self.0.check(logits, &[targets, weights, gradient, log_z])?;
                Ok(vec![logits.clone()])
            }
            _ => Err("it takes logits, targets, weights, statistics, a gradient and log Z".to_owned()),
        }
    }

    fn overwrites(&self) -> &[usize] {
        &[0]
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let (targets, weights, statistics) = (args.ints(1), args.input(2), args.input(3));
        let (gradients, classes) = (args.input(4), args.dims(0).last().copied().unwrap_or(1));
        let Smoothed { on, off, .. } = self.0.smoothed(classes);
        let rows = args.output(0).par_chunks_mut(classes.max(1));
        let given = targets.par_iter().zip(weights).zip(gradients).zip(args.input(5));
        let given = given.zip(statistics.par_chunks(STATISTICS_WIDTH));
        rows.zip(given).for_each(|(row, ((((&target, &weight), &gradient), &log_z), statistics))| {
            let scale = weight * gradient;
            if scale == 0.0 {
                return row.fill(0.0);
            }
            let (max, sum) = (statistics[0], statistics[2]);
            let of_softmax = scale * ((1.0 + 2.0 * self.0.z_loss * log_z) / sum);
            let of_others = scale * off;
            row.par_chunks_mut(CHUNK).for_each(|row| {
                row.iter_mut().for_each(|x| *x = of_softmax * exp(*x - max) - of_others);
            });
            if let Some(x) = usize::try_from(target).ok().and_then(|target| row.get_mut(target)) {
                *x -= scale * (on - off);
            }
        });
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let (rows, classes) = (args.shape(0).rows(), args.shape(0).width());
        let params = self.0.params(rows, classes);
        let mut buffers = vec![args.output(0)];
        buffers.extend((1..6).map(|i| args.input(i)));
        args.dispatch(&BACKWARD, &buffers, &params, linear_groups(rows * classes, 64));
    }

    /// Second derivatives are not recorded.
    fn backward(&self, _: &mut Tape, _: &Recorded, _: &[Option<Var>]) -> Result<Vec<Option<Var>>, TapeError> {
        Ok(vec![None; 6])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::engine::{Engine, ProgramId, Target};
    use crate::golden;
    use crate::host::HostTensor;
    use crate::ops::Sum;
    use crate::program::Program;
    use crate::store::Stores;
    use crate::testing::{Case, check, device};

    /// Every output and the gradient of the sum of output 0 times `1 / factor`, on the host and on the device.
    fn run(
        op: CrossEntropy,
        logits: &[Vec<f32>],
        targets: &[i32],
        weights: &[f32],
    ) -> [(&'static str, Vec<Vec<f32>>); 2] {
        let (rows, classes) = (logits.len(), logits[0].len());
        let mut tape = Tape::new();
        let inputs = [
            tape.input("logits", Spec::f32([rows, classes])).unwrap(),
            tape.input("targets", Spec::i32([rows])).unwrap(),
            tape.input("weights", Spec::f32([rows])).unwrap(),
        ];
        let mut results = tape.record_all(op, &inputs).unwrap();
        results.truncate(4);
        let loss = tape.record(Sum, &[results[0]]).unwrap();
        results.push(loss);
        results.extend(tape.backward(loss, &[inputs[0]]).unwrap());
        let program = Program::new(&tape, &results).unwrap();
        let (logits, targets, weights) = (
            HostTensor::F32(logits.concat()),
            HostTensor::I32(targets.to_vec()),
            HostTensor::F32(weights.to_vec()),
        );
        let input = |name: &str| match name {
            "logits" => Some(&logits),
            "targets" => Some(&targets),
            _ => Some(&weights),
        };
        [("host", Target::Cpu { threads: 2 }), ("device", Target::Gpu(device()))].map(|(place, target)| {
            let mut engine = Engine::new(target, &Stores::new(), vec![program.clone()]).unwrap();
            let found = engine.run(ProgramId(0), input).unwrap();
            assert_eq!(found, engine.run(ProgramId(0), input).unwrap(), "another run on the {place}");
            (place, found)
        })
    }

    fn rows(value: &Value) -> Vec<Vec<f32>> {
        serde_json::from_value::<Vec<Vec<Vec<f32>>>>(value.clone()).unwrap().concat()
    }

    fn numbers<T: serde::de::DeserializeOwned + Clone>(value: &Value) -> Vec<T> {
        serde_json::from_value::<Vec<Vec<T>>>(value.clone()).unwrap().concat()
    }

    fn close(expected: f64, found: f32, room: f64, what: &str) -> f64 {
        let apart = (expected - f64::from(found)).abs();
        assert!(apart <= room, "{what}: {expected} expected, {found} found");
        apart
    }

    #[test]
    fn losses_and_gradients_are_those_of_t5x() {
        let golden = golden::json("unit/loss.json");
        let (logits, targets) = (rows(&golden["logits"]), numbers(&golden["targets"]));
        let (mut of_loss, mut of_gradient) = (0.0f64, 0.0f64);
        let cases = golden["cases"].as_array().unwrap();
        assert_eq!(cases.len(), 12);
        for case in cases {
            let number = |key: &str| case[key].as_f64().unwrap();
            let factor = case["loss_normalizing_factor"].as_f64().unwrap_or(1.0);
            let op = CrossEntropy::new(number("z_loss") as f32, number("label_smoothing") as f32);
            let weights: Vec<f32> = numbers(&golden["weights"]);
            let weights: Vec<f32> = weights.into_iter().map(|weight| weight / factor as f32).collect();
            for (place, found) in run(op, &logits, &targets, &weights) {
                let what = format!("{case} on the {place}");
                let apart = close(number("loss"), found[4][0], 1e-6 * number("loss"), &what);
                of_loss = of_loss.max(apart / number("loss"));
                let z: f32 = found[1].iter().sum();
                close(number("total_z_loss"), z, 1e-6 * number("total_z_loss"), &what);
                let expected = rows(&case["grad_logits"]).concat();
                for (expected, found) in expected.iter().zip(&found[5]) {
                    let apart = close(f64::from(*expected), *found, 2e-6 / factor, &what);
                    of_gradient = of_gradient.max(apart * factor);
                }
            }
        }
        println!("losses apart by {of_loss:.1e} (relative), gradients by {of_gradient:.1e}");
    }

    #[test]
    fn large_logits_are_as_in_t5x() {
        let golden = &golden::json("unit/loss.json")["large_logits"];
        let logits = rows(&golden["logits"]);
        let op = CrossEntropy::new(golden["z_loss"].as_f64().unwrap() as f32, 0.0);
        for (place, found) in run(op, &logits, &numbers(&golden["targets"]), &[1.0, 1.0]) {
            let expected: [Vec<f64>; 2] =
                [numbers(&golden["token_loss_with_z"]), numbers(&golden["token_z_loss"])];
            for (expected, found) in expected.iter().flatten().zip(found[..2].iter().flatten()) {
                close(*expected, *found, 1e-6 * expected.abs(), place);
            }
            assert!(found[5].iter().all(|x| x.is_finite()), "{:?}", found[5]);
        }
    }

    #[test]
    fn the_first_of_the_largest_logits_counts_where_the_weight_is_not_zero() {
        let mut logits = vec![vec![0.0; 70]; 5];
        for (row, places) in logits.iter_mut().zip([[3, 40], [3, 40], [9, 41], [0, 69], [5, 6]]) {
            places.iter().for_each(|place| row[*place] = 2.0);
        }
        let targets = [3, 40, 9, 0, 5];
        for (place, found) in run(CrossEntropy::new(0.0, 0.0), &logits, &targets, &[1.0, 1.0, 0.5, 2.0, 0.0])
        {
            assert_eq!(found[2], [1.0, 0.0, 1.0, 1.0, 0.0], "{place}");
        }
    }

    #[test]
    fn a_target_outside_of_the_vocabulary_is_no_class() {
        let logits = [vec![1.0, 2.0, 3.0], vec![1.0, 2.0, 3.0]];
        for (place, found) in run(CrossEntropy::new(0.0, 0.0), &logits, &[3, -1], &[1.0, 1.0]) {
            assert_eq!((&found[0][..], &found[2][..]), (&[0.0, 0.0][..], &[0.0, 0.0][..]), "{place}");
        }
    }

    #[test]
    fn both_implementations_agree_and_the_derivative_is_right() {
        for (rows, classes, z_loss, label_smoothing) in
            [(1, 1, 0.1, 0.0), (3, 5, 0.0, 0.1), (7, 70, 0.05, 0.2), (5, 600, 1e-2, 0.0), (2, 3001, 0.1, 0.1)]
        {
            let mut random = crate::testing::Random::new(5);
            let targets = (0..rows).map(|_| random.below(classes) as i32).collect();
            let weights = (0..rows).map(|row| if row % 4 == 2 { 0.0 } else { random.uniform() + 0.5 });
            let weights: Vec<f32> = weights.collect();
            let case = Case::new(31).normal("logits", [rows, classes]);
            let case = case.ints("targets", [rows], targets).fixed("weights", [rows], weights);
            check(case, |tape, inputs| {
                Ok(vec![tape.record(CrossEntropy::new(z_loss, label_smoothing), inputs)?])
            });
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_in_words() {
        let mut tape = Tape::new();
        let logits = tape.input("logits", Spec::f32([2, 3, 7])).unwrap();
        let targets = tape.input("targets", Spec::i32([2, 4])).unwrap();
        let weights = tape.input("weights", Spec::f32([2, 3])).unwrap();
        let error = tape.record(CrossEntropy::new(0.0, 0.0), &[logits, targets, weights]).unwrap_err();
        insta::assert_snapshot!(error, @"`cross_entropy` in ``: it takes logits f32[.., V], and a target (i32) and a weight (f32) for every row; it got `logits` f32[2, 3, 7], `targets` i32[2, 4], `weights` f32[2, 3]");
    }
}
