//! First values of parameters, T5X's distributions: each element a function of the seed, the parameter's name and the
//! element's place in the whole parameter.
//!
//! ```text
//! seed, `decoder/layers_0/mlp/wo/kernel`, place 17  ->  0.0213
//! ```
//!
//! So whoever holds a part of a parameter draws that part alone, and gets what it is in the whole.

use rayon::prelude::*;

use crate::cpu::CHUNK;
use crate::model::{Initializer, ParameterSpec};
use crate::partition::Part;
use crate::random::{Key, normal, truncated_normal, uniform};

/// The deviation of a standard normal distribution without what is two or more away from 0.
const TRUNCATED_DEVIATION: f32 = 0.879_625_6;

/// The first values of a part of a parameter, row-major.
pub fn initial_values(seed: u64, spec: &ParameterSpec, part: &Part) -> Vec<f32> {
    Draw { key: key(seed, &spec.name), part }.values(spec.initializer)
}

/// The key of a parameter.
fn key(seed: u64, name: &str) -> Key {
    // FNV-1a: what std hashes with may differ between its versions.
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    Key::new(seed).fold_in((hash >> 32) as u32).fold_in(hash as u32)
}

struct Draw<'a> {
    key: Key,
    part: &'a Part,
}

impl Draw<'_> {
    fn values(&self, initializer: Initializer) -> Vec<f32> {
        match initializer {
            Initializer::Ones => self.fill(|_| 1.0),
            Initializer::Normal => self.fill(normal),
            Initializer::TruncatedNormal { fan_in } => {
                let deviation = (1.0 / fan_in as f32).sqrt() / TRUNCATED_DEVIATION;
                self.fill(|bits| truncated_normal(bits) * deviation)
            }
            Initializer::ScaledNormal { fan_in, divisor } => {
                let deviation = (1.0 / fan_in as f32).sqrt() / divisor;
                self.fill(|bits| normal(bits) * deviation)
            }
            Initializer::Uniform { fan_avg } => {
                let limit = (3.0 / fan_avg).sqrt();
                self.fill(|bits| uniform(bits, -1.0, 1.0) * limit)
            }
        }
    }

    fn fill(&self, value: impl Fn(u32) -> f32 + Sync) -> Vec<f32> {
        let run = self.part.run();
        let mut values = vec![0.0; self.part.shape().elements()];
        values.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, mut rest)| {
            let mut at = chunk * CHUNK;
            while !rest.is_empty() {
                // As far as the places follow each other.
                let (piece, later) = rest.split_at_mut(rest.len().min(run - at % run));
                let first = (self.part.place_of_run(at) + at % run) as u64;
                at += piece.len();
                for (i, element) in piece.iter_mut().enumerate() {
                    *element = value(self.key.bits(first + i as u64));
                }
                rest = later;
            }
        });
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden;
    use crate::shape::Shape;

    fn spec(name: &str, shape: &[usize], initializer: Initializer) -> ParameterSpec {
        let axes = vec!["embed"; shape.len()];
        ParameterSpec { name: name.to_owned(), shape: Shape::from(shape), axes, initializer }
    }

    fn whole(seed: u64, spec: &ParameterSpec) -> Vec<f32> {
        initial_values(seed, spec, &Part::whole(&spec.shape))
    }

    fn mean_and_variance(values: &[f32]) -> (f64, f64) {
        let n = values.len() as f64;
        let mean = values.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
        (mean, values.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / n)
    }

    #[test]
    fn means_variances_and_bounds_are_those_of_the_distribution() {
        // Initializer, variance, limit.
        let cases = [
            (Initializer::Normal, 1.0, f32::INFINITY),
            (Initializer::TruncatedNormal { fan_in: 50 }, 0.02, 2.0 / TRUNCATED_DEVIATION / 50f32.sqrt()),
            (Initializer::ScaledNormal { fan_in: 50, divisor: 8.0 }, 0.02 / 64.0, f32::INFINITY),
            (Initializer::Uniform { fan_avg: 20.0 }, 0.05, (3.0f32 / 20.0).sqrt()),
        ];
        for (initializer, variance, limit) in cases {
            let values = whole(3, &spec("kernel", &[200, 150], initializer));
            let (mean, found) = mean_and_variance(&values);
            // Three deviations of what 30,000 numbers give.
            assert!(mean.abs() < 3.0 * (variance / 30_000f64).sqrt(), "{initializer:?}: {mean}");
            assert!(
                (found / variance - 1.0).abs() < 3.0 * (2.0 / 30_000f64).sqrt(),
                "{initializer:?}: {found}"
            );
            assert!(values.iter().all(|x| x.abs() <= limit), "{initializer:?}");
        }
        let ones = whole(3, &spec("scale", &[7], Initializer::Ones));
        assert_eq!(ones, [1.0; 7]);
    }

    #[test]
    fn values_are_those_of_jax_for_the_same_bits() {
        let jax = golden::json("unit/prng_threefry.json");
        let jax = &jax["threefry_partitionable=true"];
        let initializers = [
            (Initializer::Normal, "normal(1.0)"),
            (Initializer::TruncatedNormal { fan_in: 3 }, "variance_scaling(1,fan_in,truncated_normal)"),
            (Initializer::ScaledNormal { fan_in: 3, divisor: 1.0 }, "variance_scaling(1,fan_in,normal)"),
            (Initializer::Uniform { fan_avg: 3.5 }, "variance_scaling(1,fan_avg,uniform)"),
        ];
        for (initializer, name) in initializers {
            let expected: Vec<Vec<f32>> =
                serde_json::from_value(jax[&format!("init {name}(key,(3,4))")].clone()).unwrap();
            let draw = Draw { key: Key::new(42), part: &Part::whole(&Shape::new([3, 4])) };
            for (expected, found) in expected.concat().into_iter().zip(draw.values(initializer)) {
                assert!((expected - found).abs() <= 1e-6, "{name}: {expected} against {found}");
            }
        }
    }

    #[test]
    fn parts_are_what_they_are_in_the_whole() {
        let shape = [6, 5, 8];
        for initializer in [Initializer::Normal, Initializer::TruncatedNormal { fan_in: 6 }] {
            let spec = spec("kernel", &shape, initializer);
            let whole = whole(9, &spec);
            for (axis, range) in [(0, 2..4), (1, 0..5), (1, 3..4), (2, 4..8), (2, 0..0)] {
                let part = Part::whole(&spec.shape).along(axis, range);
                assert_eq!(initial_values(9, &spec, &part), part.cut(&whole), "{part:?}");
                let part = part.along((axis + 1) % 3, 1..3);
                assert_eq!(initial_values(9, &spec, &part), part.cut(&whole), "{part:?}");
            }
        }
    }

    #[test]
    fn long_parameters_are_drawn_by_chunks_as_by_one() {
        let spec = spec("kernel", &[3, CHUNK - 5], Initializer::Normal);
        let whole = whole(9, &spec);
        let key = key(9, "kernel");
        assert!(whole.iter().enumerate().all(|(i, x)| *x == normal(key.bits(i as u64))));
        let part = Part::whole(&spec.shape).along(1, 7..CHUNK - 5);
        let tail = initial_values(9, &spec, &part);
        assert_eq!(tail[2 * (CHUNK - 12)..], whole[2 * (CHUNK - 5) + 7..]);
    }

    #[test]
    fn other_names_and_seeds_give_other_values() {
        let values = |seed, name| whole(seed, &spec(name, &[50], Initializer::Normal));
        assert_eq!(values(1, "a"), values(1, "a"));
        assert_ne!(values(1, "a"), values(1, "b"));
        assert_ne!(values(1, "a"), values(2, "a"));
        assert_ne!(values(1, "a"), values(1 + (1 << 32), "a"));
    }
}
