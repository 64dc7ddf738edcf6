//! Functions of every element, and their products: what is between the two layers of an MLP.
//!
//! ```text
//! x f32[S]            ->  act(x) f32[S]
//! a f32[S], b f32[S]  ->  first(a) * second(b) f32[S]
//! ```

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::cpu::math::sigmoid;
use crate::cpu::{CHUNK, CpuArgs};
use crate::gpu::{BufferRef, GpuArgs, Kernel, PRELUDE, linear_groups};
use crate::op::Op;
use crate::shape::{Kind, Spec};
use crate::tape::{Recorded, Tape, TapeError, Var};

const SOURCE: &[&str] = &[PRELUDE, include_str!("activation.wgsl")];

static ACTIVATE: Kernel = Kernel { name: "activate", source: SOURCE, entry: "activate" };
static ACTIVATE_BACKWARD: Kernel =
    Kernel { name: "activate_backward", source: SOURCE, entry: "activate_backward" };
static GATED: Kernel = Kernel { name: "gated", source: SOURCE, entry: "gated" };
static GATED_BACKWARD: Kernel = Kernel { name: "gated_backward", source: SOURCE, entry: "gated_backward" };

/// Elements whose values and slopes are on the stack at once.
const BLOCK: usize = 256;

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// x · Φ(x) in its tanh form, the one of T5.1.1 and GPT-2.
    Gelu,
    /// max(x, 0).
    Relu,
    /// x / (1 + e⁻ˣ).
    #[serde(alias = "swish")]
    Silu,
    /// x.
    Linear,
}

impl Activation {
    /// Puts the function of every `x` where it belongs.
    fn values(self, x: &[f32], to: &mut [f32], put: impl Fn(&mut f32, f32)) {
        let pairs = to.iter_mut().zip(x);
        // One loop each, so that none of them decides anything.
        match self {
            Self::Gelu => pairs.for_each(|(to, x)| put(to, gelu(*x).0)),
            Self::Relu => pairs.for_each(|(to, x)| put(to, relu(*x).0)),
            Self::Silu => pairs.for_each(|(to, x)| put(to, silu(*x).0)),
            Self::Linear => pairs.for_each(|(to, x)| put(to, *x)),
        }
    }

    /// The function of every `x` and its derivative there.
    fn values_and_slopes(self, x: &[f32], values: &mut [f32], slopes: &mut [f32]) {
        let each = x.iter().zip(values.iter_mut().zip(slopes));
        match self {
            Self::Gelu => each.for_each(|(x, (value, slope))| (*value, *slope) = gelu(*x)),
            Self::Relu => each.for_each(|(x, (value, slope))| (*value, *slope) = relu(*x)),
            Self::Silu => each.for_each(|(x, (value, slope))| (*value, *slope) = silu(*x)),
            Self::Linear => each.for_each(|(x, (value, slope))| (*value, *slope) = (*x, 1.0)),
        }
    }

    /// Its number in the shader.
    fn number(self) -> f64 {
        match self {
            Self::Gelu => 0.0,
            Self::Relu => 1.0,
            Self::Silu => 2.0,
            Self::Linear => 3.0,
        }
    }
}

/// x/2 · (1 + tanh u) = x · sigmoid(2u) with u = √(2/π) · (x + 0.044715 x³), and its derivative.
#[inline(always)]
fn gelu(x: f32) -> (f32, f32) {
    const TWICE: f32 = 1.595_769;
    let s = sigmoid(TWICE * x * (1.0 + 0.044_715 * x * x));
    (x * s, s + x * s * (1.0 - s) * TWICE * (1.0 + 0.134_145 * x * x))
}

/// What is not a number stays as it is.
#[inline(always)]
fn relu(x: f32) -> (f32, f32) {
    (if x < 0.0 { 0.0 } else { x }, if x > 0.0 { 1.0 } else { 0.0 })
}

#[inline(always)]
fn silu(x: f32) -> (f32, f32) {
    let s = sigmoid(x);
    (x * s, s + x * s * (1.0 - s))
}

/// A function of every element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Activate {
    activation: Activation,
}

impl Activate {
    /// This function.
    pub fn new(activation: Activation) -> Self {
        Self { activation }
    }
}

impl Op for Activate {
    fn name(&self) -> &'static str {
        "activate"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        match inputs {
            [x] if x.kind == Kind::F32 => Ok(vec![x.clone()]),
            _ => Err("it takes one tensor of floats".to_owned()),
        }
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let (x, y) = (args.input(0), args.output(0));
        let chunks = y.par_chunks_mut(CHUNK).zip(x.par_chunks(CHUNK));
        chunks.for_each(|(y, x)| self.activation.values(x, y, |y, value| *y = value));
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let buffers = [args.input(0), args.output(0)];
        dispatch(args, &ACTIVATE, [self.activation, Activation::Linear], &buffers);
    }

    fn backward(
        &self,
        tape: &mut Tape,
        node: &Recorded,
        gradients: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        let Some(gradient) = gradients[0] else { return Ok(vec![None]) };
        let op = ActivateBackward { activation: self.activation };
        Ok(vec![Some(tape.record(op, &[node.inputs[0], gradient])?)])
    }
}

/// x, gradient  ->  gradient * act'(x), in the gradient's place.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ActivateBackward {
    activation: Activation,
}

impl Op for ActivateBackward {
    fn name(&self) -> &'static str {
        "activate_backward"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        alike(inputs)
    }

    fn overwrites(&self) -> &[usize] {
        &[1]
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let (x, gradient) = (args.input(0), args.output(0));
        gradient.par_chunks_mut(CHUNK).zip(x.par_chunks(CHUNK)).for_each(|(gradient, x)| {
            let (mut values, mut slopes) = ([0.0; BLOCK], [0.0; BLOCK]);
            for (gradient, x) in gradient.chunks_mut(BLOCK).zip(x.chunks(BLOCK)) {
                self.activation.values_and_slopes(x, &mut values, &mut slopes);
                gradient.iter_mut().zip(&slopes).for_each(|(gradient, slope)| *gradient *= slope);
            }
        });
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let buffers = [args.input(0), args.output(0)];
        dispatch(args, &ACTIVATE_BACKWARD, [self.activation, Activation::Linear], &buffers);
    }

    fn backward(
        &self,
        tape: &mut Tape,
        node: &Recorded,
        _: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        Err(tape.mismatch(self.name(), &node.inputs, "it is not differentiated again".to_owned()))
    }
}

/// The product of a function of one tensor and a function of another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gated {
    activations: [Activation; 2],
}

impl Gated {
    /// `first(a) * second(b)`.
    pub fn new(first: Activation, second: Activation) -> Self {
        Self { activations: [first, second] }
    }
}

impl Op for Gated {
    fn name(&self) -> &'static str {
        "gated"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        alike(inputs)
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let (a, b, product) = (args.input(0), args.input(1), args.output(0));
        let [first, second] = self.activations;
        let chunks = product.par_chunks_mut(CHUNK).zip(a.par_chunks(CHUNK)).zip(b.par_chunks(CHUNK));
        chunks.for_each(|((product, a), b)| {
            first.values(a, product, |product, value| *product = value);
            second.values(b, product, |product, value| *product *= value);
        });
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let buffers = [args.input(0), args.input(1), args.output(0)];
        dispatch(args, &GATED, self.activations, &buffers);
    }

    fn backward(
        &self,
        tape: &mut Tape,
        node: &Recorded,
        gradients: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        let Some(gradient) = gradients[0] else { return Ok(vec![None, None]) };
        let op = GatedBackward { activations: self.activations };
        let found = tape.record_all(op, &[node.inputs[0], node.inputs[1], gradient])?;
        Ok(found.into_iter().map(Some).collect())
    }
}

/// a, b, gradient  ->  gradient * first'(a) * second(b) in the place of a, gradient * first(a) * second'(b) in that of b.
#[derive(Clone, Copy, Debug, PartialEq)]
struct GatedBackward {
    activations: [Activation; 2],
}

impl Op for GatedBackward {
    fn name(&self) -> &'static str {
        "gated_backward"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        match inputs {
            [a, b, gradient] if a == b && b == gradient && a.kind == Kind::F32 => {
                Ok(vec![a.clone(), b.clone()])
            }
            _ => Err("it takes three tensors of floats of one shape".to_owned()),
        }
    }

    fn overwrites(&self) -> &[usize] {
        &[0, 1]
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let (a, b, gradient) = (args.output(0), args.output(1), args.input(2));
        let [first, second] = self.activations;
        let chunks = a.par_chunks_mut(CHUNK).zip(b.par_chunks_mut(CHUNK)).zip(gradient.par_chunks(CHUNK));
        chunks.for_each(|((a, b), gradient)| {
            let (mut of_a, mut slope_a) = ([0.0; BLOCK], [0.0; BLOCK]);
            let (mut of_b, mut slope_b) = ([0.0; BLOCK], [0.0; BLOCK]);
            let blocks = a.chunks_mut(BLOCK).zip(b.chunks_mut(BLOCK)).zip(gradient.chunks(BLOCK));
            for ((a, b), gradient) in blocks {
                first.values_and_slopes(a, &mut of_a, &mut slope_a);
                second.values_and_slopes(b, &mut of_b, &mut slope_b);
                let to_a = a.iter_mut().zip(gradient).zip(slope_a.iter().zip(&of_b));
                to_a.for_each(|((a, gradient), (slope, value))| *a = gradient * slope * value);
                let to_b = b.iter_mut().zip(gradient).zip(slope_b.iter().zip(&of_a));
                to_b.for_each(|((b, gradient), (slope, value))| *b = gradient * slope * value);
            }
        });
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let buffers = [args.output(0), args.output(1), args.input(2)];
        dispatch(args, &GATED_BACKWARD, self.activations, &buffers);
    }

    fn backward(
        &self,
        tape: &mut Tape,
        node: &Recorded,
        _: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        Err(tape.mismatch(self.name(), &node.inputs, "it is not differentiated again".to_owned()))
    }
}

fn alike(inputs: &[Spec]) -> Result<Vec<Spec>, String> {
    match inputs {
        [a, b] if a == b && a.kind == Kind::F32 => Ok(vec![a.clone()]),
        _ => Err("it takes two tensors of floats of one shape".to_owned()),
    }
}

fn dispatch(
    args: &mut GpuArgs<'_>,
    kernel: &'static Kernel,
    [first, second]: [Activation; 2],
    buffers: &[BufferRef],
) {
    let elements = args.shape(0).elements();
    let constants = [("FIRST", first.number()), ("SECOND", second.number())];
    args.dispatch_with(kernel, &constants, buffers, &[elements as u32], linear_groups(elements, 64));
}

#[cfg(test)]
mod tests {
    use super::Activation::{Gelu, Linear, Relu, Silu};
    use super::*;
    use crate::golden;
    use crate::testing::{Case, check};

    #[test]
    fn both_implementations_agree_and_the_derivative_is_right() {
        for (i, activation) in [Gelu, Relu, Silu, Linear].into_iter().enumerate() {
            for shape in [vec![1], vec![3, 5], vec![2, 7, 29]] {
                let case = Case::new(31 + i as u64).normal("x", &shape[..]);
                check(case, |tape, inputs| tape.record_all(Activate::new(activation), inputs));
            }
        }
    }

    #[test]
    fn the_derivative_of_a_product_is_right() {
        for (i, (first, second)) in [(Gelu, Linear), (Silu, Linear), (Relu, Gelu)].into_iter().enumerate() {
            for shape in [vec![1], vec![2, 9, 31]] {
                let case = Case::new(41 + i as u64).normal("a", &shape[..]).normal("b", &shape[..]);
                check(case, |tape, inputs| tape.record_all(Gated::new(first, second), inputs));
            }
        }
    }

    #[test]
    fn one_tensor_may_gate_itself() {
        check(Case::new(51).normal("x", [4, 3]), |tape, inputs| {
            tape.record_all(Gated::new(Silu, Linear), &[inputs[0], inputs[0]])
        });
    }

    #[test]
    fn values_are_those_of_jax() {
        let jax = golden::json("unit/masks_and_pointwise.json");
        let floats = |name: &str| -> Vec<f32> {
            let values = jax["activations"][name].as_array().unwrap().iter();
            values.map(|x| x.as_f64().unwrap() as f32).collect()
        };
        let x = floats("x");
        let names = ["gelu(tanh form, the one T5.1.1 uses)", "relu", "silu"];
        for (activation, name) in [Gelu, Relu, Silu].into_iter().zip(names) {
            let mut found = vec![0.0; x.len()];
            activation.values(&x, &mut found, |to, value| *to = value);
            for (found, expected) in found.into_iter().zip(floats(name)) {
                assert!((found - expected).abs() <= 5e-7, "{name}: {found} against {expected}");
            }
        }
    }

    #[test]
    fn extremes_stay_numbers() {
        for activation in [Gelu, Relu, Silu] {
            let (mut values, mut slopes) = ([0.0; 2], [0.0; 2]);
            activation.values_and_slopes(&[-1e4, 1e4], &mut values, &mut slopes);
            assert_eq!((values, slopes), ([0.0, 1e4], [0.0, 1.0]), "{activation:?}");
        }
    }

    #[test]
    fn names_are_those_of_configurations() {
        let parsed: Vec<Activation> =
            serde_json::from_str(r#"["gelu", "relu", "silu", "swish", "linear"]"#).unwrap();
        assert_eq!(parsed, [Gelu, Relu, Silu, Silu, Linear]);
        assert_eq!(serde_json::to_string(&Silu).unwrap(), r#""silu""#);
    }
}
