//! Adds a tensor to a stored one, or begins the sum anew: gradients of microbatches.
//!
//! ```text
//! sum f32[S], x f32[S], fresh i32[1]  ->  sum + x, or x where fresh is not 0; in the place of sum
//! ```

use rayon::prelude::*;

use crate::cpu::{CHUNK, CpuArgs};
use crate::gpu::{GpuArgs, Kernel, PRELUDE, linear_groups};
use crate::op::Op;
use crate::shape::{Kind, Spec};
use crate::tape::{Recorded, Tape, TapeError, Var};

static ACCUMULATE: Kernel =
    Kernel { name: "accumulate", source: &[PRELUDE, include_str!("accumulate.wgsl")], entry: "accumulate" };

/// `sum + x`, or `x` alone where `fresh` is not 0, in the place of `sum`. It has no derivative.
///
/// What was in `sum` then does not matter, not even if it was no number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accumulate;

impl Op for Accumulate {
    fn name(&self) -> &'static str {
        "accumulate"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        match inputs {
            [sum, x, fresh] if sum == x && x.kind == Kind::F32 && *fresh == Spec::i32([1]) => {
                Ok(vec![sum.clone()])
            }
            _ => Err("it takes two tensors of floats of one shape, and a flag i32[1]".to_owned()),
        }
    }

    fn overwrites(&self) -> &[usize] {
        &[0]
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let (sum, x, fresh) = (args.output(0), args.input(1), args.ints(2)[0] != 0);
        sum.par_chunks_mut(CHUNK).zip(x.par_chunks(CHUNK)).for_each(|(sum, x)| {
            if fresh {
                sum.copy_from_slice(x);
            } else {
                sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += x);
            }
        });
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let elements = args.shape(0).elements();
        let buffers = [args.output(0), args.input(1), args.input(2)];
        args.dispatch(&ACCUMULATE, &buffers, &[elements as u32], linear_groups(elements, 64));
    }

    fn backward(&self, _: &mut Tape, _: &Recorded, _: &[Option<Var>]) -> Result<Vec<Option<Var>>, TapeError> {
        Ok(vec![None, None, None])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, ProgramId, Target};
    use crate::host::HostTensor;
    use crate::program::Program;
    use crate::store::Stores;
    use crate::testing::device;

    #[test]
    fn every_run_adds_once_more_or_begins_anew() {
        let mut stores = Stores::new();
        let id = stores.add("sum", Spec::f32([3, 2]));
        let mut tape = Tape::new();
        let sum = tape.stored(&stores, id);
        let x = tape.input("x", Spec::f32([3, 2])).unwrap();
        let fresh = tape.input("fresh", Spec::i32([1])).unwrap();
        tape.record(Accumulate, &[sum, x, fresh]).unwrap();
        let program = Program::new(&tape, &[]).unwrap();
        let x = HostTensor::F32(vec![1.0, 2.0, -3.0, 0.0, 0.5, 8.0]);
        for target in [Target::Cpu { threads: 2 }, Target::Gpu(device())] {
            let mut engine = Engine::new(target, &stores, vec![program.clone()]).unwrap();
            engine.write(&stores, id, &HostTensor::F32(vec![f32::NAN; 6])).unwrap();
            for fresh in [1, 0, 0] {
                let fresh = HostTensor::I32(vec![fresh]);
                engine.run(ProgramId(0), |name| Some(if name == "x" { &x } else { &fresh })).unwrap();
            }
            assert_eq!(engine.read(&stores, id).unwrap(), [3.0, 6.0, -9.0, 0.0, 1.5, 24.0]);
        }
    }
}
