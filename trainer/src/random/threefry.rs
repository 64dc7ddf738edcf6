//! Threefry with two words of 32 bits and 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"), and
//! keys made of it as JAX makes them.
//!
//! ```text
//! (key, counter)  ->  two words that look random
//! ```

/// The same in WGSL: `threefry2x32(key, counter)` and `keeps(key, site, index, rate)`.
pub const THREEFRY: &str = include_str!("threefry.wgsl");

const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];

/// Two words for a key and a counter.
#[inline(always)]
pub fn threefry2x32([first, second]: [u32; 2], [x, y]: [u32; 2]) -> [u32; 2] {
    let keys = [first, second, first ^ second ^ 0x1bd1_1bda];
    let (mut x, mut y) = (x.wrapping_add(first), y.wrapping_add(second));
    for group in 0..5 {
        for rotation in ROTATIONS[group % 2] {
            x = x.wrapping_add(y);
            y = y.rotate_left(rotation) ^ x;
        }
        x = x.wrapping_add(keys[(group + 1) % 3]);
        y = y.wrapping_add(keys[(group + 2) % 3]).wrapping_add(group as u32 + 1);
    }
    [x, y]
}

/// What random numbers are made from: `jax.random`'s threefry keys, with `jax_threefry_partitionable` where that makes
/// a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub [u32; 2]);

impl Key {
    /// The key of a seed: `jax.random.PRNGKey`.
    pub fn new(seed: u64) -> Self {
        Self([(seed >> 32) as u32, seed as u32])
    }

    /// The key of a number under this key: `jax.random.fold_in`.
    pub fn fold_in(self, number: u32) -> Self {
        Self(threefry2x32(self.0, [0, number]))
    }

    /// Keys that have nothing to do with each other: `jax.random.split`.
    pub fn split<const N: usize>(self) -> [Self; N] {
        std::array::from_fn(|i| Self(threefry2x32(self.0, [0, i as u32])))
    }

    /// The 32 bits at a place of a tensor, counted row-major: that element of `jax.random.bits`.
    #[inline(always)]
    pub fn bits(self, place: u64) -> u32 {
        let [x, y] = threefry2x32(self.0, [(place >> 32) as u32, place as u32]);
        x ^ y
    }
}

/// Does dropout at this rate keep element `index` of the mask drawn at `site`?
#[inline(always)]
pub fn keeps(Key(key): Key, site: u32, index: u32, rate: f32) -> bool {
    // 24 bits are exactly a float, here and on the device.
    let [word, _] = threefry2x32(key, [site, index]);
    (word >> 8) as f32 * (1.0 / (1 << 24) as f32) >= rate
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::CpuArgs;
    use crate::engine::{Engine, ProgramId, Target};
    use crate::golden;
    use crate::gpu::{GpuArgs, Kernel, PRELUDE, linear_groups};
    use crate::host::HostTensor;
    use crate::op::Op;
    use crate::program::Program;
    use crate::shape::Spec;
    use crate::store::Stores;
    use crate::tape::{Recorded, Tape, TapeError, Var};
    use crate::testing::device;

    fn words(value: &serde_json::Value) -> Vec<u32> {
        let words = value.as_array().unwrap().iter();
        words.map(|word| word.as_u64().unwrap() as u32).collect()
    }

    fn keys(value: &serde_json::Value) -> Vec<Vec<u32>> {
        value.as_array().unwrap().iter().map(words).collect()
    }

    #[test]
    fn keys_and_bits_are_those_of_jax() {
        let jax = golden::json("unit/prng_threefry.json");
        let jax = &jax["threefry_partitionable=true"];
        let key = Key::new(42);
        assert_eq!(key.0.to_vec(), words(&jax["PRNGKey(42)"]));
        assert_eq!(key.split::<2>().map(|key| key.0.to_vec()).to_vec(), keys(&jax["split(key)"]));
        assert_eq!(key.split::<3>().map(|key| key.0.to_vec()).to_vec(), keys(&jax["split(key,3)"]));
        assert_eq!(key.fold_in(7).0.to_vec(), words(&jax["fold_in(key,7)"]));
        let bits: Vec<u32> = (0..7).map(|i| key.bits(i)).collect();
        assert_eq!(bits, words(&jax["bits(key,(7,))"]));
    }

    #[test]
    fn words_are_those_of_jax_in_its_older_layout_too() {
        // Counters 0..2n cut in two halves; without the flag, `bits` pads an odd number of them with a zero.
        fn halves(key: Key, counters: &[u32]) -> Vec<u32> {
            let (x, y) = counters.split_at(counters.len() / 2);
            let pairs: Vec<[u32; 2]> = x.iter().zip(y).map(|(x, y)| threefry2x32(key.0, [*x, *y])).collect();
            pairs.iter().map(|pair| pair[0]).chain(pairs.iter().map(|pair| pair[1])).collect()
        }
        let jax = golden::json("unit/prng_threefry.json");
        let jax = &jax["threefry_partitionable=false"];
        let key = Key::new(42);
        assert_eq!(halves(key, &[0, 1, 2, 3]), keys(&jax["split(key)"]).concat());
        assert_eq!(halves(key, &[0, 1, 2, 3, 4, 5]), keys(&jax["split(key,3)"]).concat());
        assert_eq!(halves(key, &[0, 1, 2, 3, 4, 5, 6, 0])[..7], words(&jax["bits(key,(7,))"]));
    }

    #[test]
    fn a_seed_beyond_32_bits_is_another_key() {
        assert_eq!(Key::new(7 << 32 | 9), Key([7, 9]));
        assert_ne!(Key::new(9).bits(0), Key::new(7 << 32 | 9).bits(0));
    }

    #[test]
    fn as_many_are_dropped_as_the_rate_says() {
        for rate in [0.0, 0.1, 0.5] {
            let kept = (0..20_000).filter(|i| keeps(Key::new(1), 3, *i, rate)).count() as f32 / 20_000.0;
            assert!((kept - (1.0 - rate)).abs() < 0.01, "{kept} at rate {rate}");
        }
    }

    static DRAW: Kernel =
        Kernel { name: "draw", source: &[PRELUDE, THREEFRY, include_str!("draw_test.wgsl")], entry: "draw" };

    /// Words, and whether dropout keeps them, as numbers.
    #[derive(Debug)]
    struct Draw {
        elements: usize,
        site: u32,
        rate: f32,
    }

    impl Op for Draw {
        fn name(&self) -> &'static str {
            "draw"
        }

        fn outputs(&self, _: &[Spec]) -> Result<Vec<Spec>, String> {
            Ok(vec![Spec::i32([3, self.elements])])
        }

        fn cpu(&self, args: &mut CpuArgs<'_>) {
            let key = Key([args.ints(0)[0] as u32, args.ints(0)[1] as u32]);
            let n = self.elements;
            for (i, word) in bytemuck::cast_slice_mut(args.output(0)).iter_mut().enumerate() {
                let index = (i % n) as u32;
                *word = match i / n {
                    2 => u32::from(keeps(key, self.site, index, self.rate)),
                    half => threefry2x32(key.0, [self.site, index])[half],
                };
            }
        }

        fn gpu(&self, args: &mut GpuArgs<'_>) {
            let params = [self.elements as u32, self.site, self.rate.to_bits()];
            let buffers = [args.output(0), args.input(0)];
            args.dispatch(&DRAW, &buffers, &params, linear_groups(self.elements, 64));
        }

        fn backward(
            &self,
            _: &mut Tape,
            _: &Recorded,
            _: &[Option<Var>],
        ) -> Result<Vec<Option<Var>>, TapeError> {
            Ok(vec![None])
        }
    }

    #[test]
    fn the_device_draws_the_same_bits() {
        for (site, rate) in [(0, 0.1), (17, 0.5), (u32::MAX, 0.999)] {
            let mut tape = Tape::new();
            let key = tape.input("key", Spec::i32([2])).unwrap();
            let drawn = tape.record(Draw { elements: 1_000, site, rate }, &[key]).unwrap();
            let program = Program::new(&tape, &[drawn]).unwrap();
            let key = HostTensor::I32(vec![-5, 0x1234_5678]);
            let run = |target| {
                let mut engine = Engine::new(target, &Stores::new(), vec![program.clone()]).unwrap();
                let drawn = engine.run(ProgramId(0), |_| Some(&key)).unwrap().remove(0);
                drawn.into_iter().map(f32::to_bits).collect::<Vec<_>>()
            };
            assert_eq!(run(Target::Cpu { threads: 1 }), run(Target::Gpu(device())));
        }
    }
}
