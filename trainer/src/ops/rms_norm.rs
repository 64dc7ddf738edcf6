//! T5's layer norm: every row divided by its root mean square, no mean taken off, no bias.
//!
//! ```text
//! x f32[.., D], scale f32[D]  ->  x * r * scale f32[.., D], r = 1 / √(mean x² + eps) f32[..]
//! ```

use rayon::prelude::*;

use crate::cpu::math::dot;
use crate::cpu::{CHUNK, CpuArgs};
use crate::gpu::{BufferRef, GpuArgs, Kernel, PRELUDE, linear_groups};
use crate::op::Op;
use crate::shape::{Kind, Shape, Spec};
use crate::tape::{Recorded, Tape, TapeError, Var};

const SOURCE: &[&str] = &[PRELUDE, include_str!("rms_norm.wgsl")];

static FORWARD: Both = Both {
    by_row: Kernel { name: "rms_norm", source: SOURCE, entry: "by_row" },
    by_group: Kernel { name: "rms_norm", source: SOURCE, entry: "by_group" },
};
static BACKWARD: Both = Both {
    by_row: Kernel { name: "rms_norm", source: SOURCE, entry: "backward_by_row" },
    by_group: Kernel { name: "rms_norm", source: SOURCE, entry: "backward_by_group" },
};
static SCALE_PARTS: Kernel = Kernel { name: "rms_norm", source: SOURCE, entry: "scale_parts" };
static SCALE_SUM: Kernel = Kernel { name: "rms_norm", source: SOURCE, entry: "scale_sum" };

/// One kernel in two forms.
struct Both {
    /// An invocation a row: what software does best.
    by_row: Kernel,
    /// A workgroup a row.
    by_group: Kernel,
}

/// Divides every row by its root mean square; gives out the inverse of that as well, for the backward pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RmsNorm {
    eps: f32,
}

impl RmsNorm {
    /// `eps` is added to the mean square.
    pub fn new(eps: f32) -> Self {
        Self { eps }
    }
}

impl Op for RmsNorm {
    fn name(&self) -> &'static str {
        "rms_norm"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        match inputs {
            [x, scale] if x.kind == Kind::F32 && *scale == Spec::f32([x.shape.width()]) => {
                Ok(vec![x.clone(), Spec::f32([x.shape.rows()])])
            }
            _ => Err("it takes floats and a scale of their last axis".to_owned()),
        }
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let (x, scale, y, inverse) = (args.input(0), args.input(1), args.output(0), args.output(1));
        let (width, at_once) = cut(scale.len());
        let rows = y.par_chunks_mut(at_once * width).zip(inverse.par_chunks_mut(at_once));
        rows.zip(x.par_chunks(at_once * width)).for_each(|((y, inverse), x)| {
            for ((y, inverse), x) in y.chunks_exact_mut(width).zip(inverse).zip(x.chunks_exact(width)) {
                *inverse = 1.0 / (dot(x, x) / width as f32 + self.eps).sqrt();
                y.iter_mut().zip(x.iter().zip(scale)).for_each(|(y, (x, scale))| *y = x * *inverse * scale);
            }
        });
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let (rows, width) = (args.shape(0).rows(), args.shape(0).width());
        let buffers = [args.input(0), args.input(1), args.output(0), args.output(1)];
        FORWARD.dispatch(args, &buffers, &[rows as u32, width as u32, self.eps.to_bits()]);
    }

    fn backward(
        &self,
        tape: &mut Tape,
        node: &Recorded,
        gradients: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        let (Some(gradient), None) = (gradients[0], gradients[1]) else {
            let reason = "the inverse root mean square is not differentiated".to_owned();
            return Err(tape.mismatch(self.name(), &node.inputs, reason));
        };
        let (x, scale, inverse) = (node.inputs[0], node.inputs[1], node.outputs[1]);
        // The scale's first: the other one takes the gradient's place.
        let of_scale = match node.needs(1) {
            true => Some(tape.record_all(ScaleBackward, &[x, inverse, gradient])?[0]),
            false => None,
        };
        let of_x = match node.needs(0) {
            true => Some(tape.record(RmsNormBackward, &[x, scale, inverse, gradient])?),
            false => None,
        };
        Ok(vec![of_x, of_scale])
    }
}

/// x, scale, r, gradient  ->  r * (g - x * r² * mean(g * x)) with g = gradient * scale, in the gradient's place.
#[derive(Clone, Copy, Debug, PartialEq)]
struct RmsNormBackward;

impl Op for RmsNormBackward {
    fn name(&self) -> &'static str {
        "rms_norm_backward"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        match inputs {
            [x, scale, inverse, gradient]
                if x == gradient
                    && x.kind == Kind::F32
                    && *scale == Spec::f32([x.shape.width()])
                    && *inverse == Spec::f32([x.shape.rows()]) =>
            {
                Ok(vec![gradient.clone()])
            }
            _ => Err("it takes what a norm took and gave".to_owned()),
        }
    }

    fn overwrites(&self) -> &[usize] {
        &[3]
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let (x, scale, inverse, gradient) = (args.input(0), args.input(1), args.input(2), args.output(0));
        let (width, at_once) = cut(scale.len());
        let rows = gradient.par_chunks_mut(at_once * width).zip(inverse.par_chunks(at_once));
        rows.zip(x.par_chunks(at_once * width)).for_each(|((gradient, inverse), x)| {
            for ((g, r), x) in gradient.chunks_exact_mut(width).zip(inverse).zip(x.chunks_exact(width)) {
                g.iter_mut().zip(scale).for_each(|(g, scale)| *g *= scale);
                let along = dot(g, x) / width as f32 * r * r;
                g.iter_mut().zip(x).for_each(|(g, x)| *g = r * (*g - x * along));
            }
        });
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let (rows, width) = (args.shape(0).rows(), args.shape(0).width());
        let buffers = [args.input(0), args.input(1), args.output(0), args.input(2)];
        BACKWARD.dispatch(args, &buffers, &[rows as u32, width as u32, 0]);
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

/// x, r, gradient  ->  the sum of gradient * x * r over all rows f32[D], and that of every part of the rows f32[parts, D].
#[derive(Clone, Copy, Debug, PartialEq)]
struct ScaleBackward;

impl ScaleBackward {
    /// How many rows make a part: as many as there are parts, about, so that neither of the two sums is long.
    fn part(shape: &Shape) -> usize {
        shape.rows().isqrt().next_power_of_two().max(16)
    }
}

impl Op for ScaleBackward {
    fn name(&self) -> &'static str {
        "rms_norm_scale_backward"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        match inputs {
            [x, inverse, gradient]
                if x == gradient && x.kind == Kind::F32 && *inverse == Spec::f32([x.shape.rows()]) =>
            {
                let (rows, width) = (x.shape.rows(), x.shape.width());
                Ok(vec![Spec::f32([width]), Spec::f32([rows.div_ceil(Self::part(&x.shape)), width])])
            }
            _ => Err("it takes what a norm took and gave".to_owned()),
        }
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let part = Self::part(&Shape::from(args.dims(0)));
        let (x, inverse, gradient) = (args.input(0), args.input(1), args.input(2));
        let (sum, parts) = (args.output(0), args.output(1));
        let width = sum.len().max(1);
        let rows = x.par_chunks(part * width).zip(gradient.par_chunks(part * width));
        rows.zip(inverse.par_chunks(part)).zip(parts.par_chunks_mut(width)).for_each(|(((x, g), r), sum)| {
            sum.fill(0.0);
            for ((x, g), r) in x.chunks_exact(width).zip(g.chunks_exact(width)).zip(r) {
                sum.iter_mut().zip(x.iter().zip(g)).for_each(|(sum, (x, g))| *sum += g * x * r);
            }
        });
        sum.fill(0.0);
        for part in parts.chunks_exact(width) {
            sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        }
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let (rows, width) = (args.shape(0).rows(), args.shape(0).width());
        let (part, elements) = (Self::part(args.shape(0)), args.output_shape(1).elements());
        let parts = args.output_shape(1).rows();
        let buffers = [args.input(0), args.input(1), args.input(2), args.output(1)];
        let params = [rows as u32, width as u32, part as u32, parts as u32];
        args.dispatch(&SCALE_PARTS, &buffers, &params, linear_groups(elements, 64));
        let buffers = [args.output(1), args.output(0)];
        args.dispatch(&SCALE_SUM, &buffers, &params, linear_groups(width, 64));
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

impl Both {
    fn dispatch(&'static self, args: &mut GpuArgs<'_>, buffers: &[BufferRef], params: &[u32]) {
        let rows = params[0] as usize;
        match args.traits().software {
            true => args.dispatch(&self.by_row, buffers, params, linear_groups(rows, 64)),
            false => args.dispatch(&self.by_group, buffers, params, linear_groups(rows, 1)),
        }
    }
}

/// The width of rows, and how many of them one task takes.
fn cut(width: usize) -> (usize, usize) {
    (width.max(1), (CHUNK / width.max(1)).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, ProgramId, Target};
    use crate::golden;
    use crate::host::HostTensor;
    use crate::program::Program;
    use crate::store::Stores;
    use crate::testing::{Case, assert_close, check};

    #[test]
    fn both_implementations_agree_and_the_derivative_is_right() {
        for shape in [vec![1, 3], vec![3, 5], vec![7, 11, 64], vec![2, 150, 33], vec![2, 131]] {
            let case = Case::new(101).normal("x", &shape[..]).normal("scale", [shape[shape.len() - 1]]);
            check(case, |tape, inputs| Ok(vec![tape.record_all(RmsNorm::new(1e-6), inputs)?[0]]));
        }
    }

    #[test]
    fn the_inverse_root_mean_square_is_no_part_of_a_loss() {
        let mut tape = Tape::new();
        let x = tape.input("x", Spec::f32([1, 4])).unwrap();
        let scale = tape.input("scale", Spec::f32([4])).unwrap();
        let outputs = tape.record_all(RmsNorm::new(1e-6), &[x, scale]).unwrap();
        insta::assert_snapshot!(tape.backward(outputs[1], &[x]).unwrap_err(), @"`rms_norm` in ``: the inverse root mean square is not differentiated; it got `x` f32[1, 4], `scale` f32[4]");
    }

    #[test]
    fn values_are_those_of_t5x() {
        let norm = &golden::json("unit/masks_and_pointwise.json")["layer_norm"];
        let flat = |value: &serde_json::Value| -> Vec<f32> {
            value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
        };
        let rows = |name: &str| norm[name].as_array().unwrap().iter().flat_map(flat).collect::<Vec<f32>>();
        let eps = norm["eps"].as_f64().unwrap() as f32;
        let mut tape = Tape::new();
        let inputs =
            [tape.input("x", Spec::f32([3, 8])).unwrap(), tape.input("scale", Spec::f32([8])).unwrap()];
        let y = tape.record(RmsNorm::new(eps), &inputs).unwrap();
        let program = Program::new(&tape, &[y]).unwrap();
        let mut engine = Engine::new(Target::Cpu { threads: 1 }, &Stores::new(), vec![program]).unwrap();
        let (x, scale) = (HostTensor::F32(rows("x")), HostTensor::F32(flat(&norm["scale"])));
        let found = engine.run(ProgramId(0), |name| Some(if name == "x" { &x } else { &scale })).unwrap();
        assert_close(&rows("y"), &found[0], 1e-6, "layer norm");
    }
}
