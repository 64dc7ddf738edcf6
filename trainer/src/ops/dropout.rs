//! Dropout whose mask is a function of a key and a place, so that it is drawn again in the backward pass instead of
//! being kept.
//!
//! ```text
//! x f32[.., D], key i32[2]  ->  x / (1 - rate) or 0 f32[.., D], in the place of x
//! ```
//!
//! Rows share their mask in groups of `places` that follow each other: T5X draws one mask for all positions of an
//! example (`broadcast_dims`). The mask of a part is that part of the mask of the whole, so that what is drawn does not
//! depend on how a tensor is spread over ranks.

use rayon::prelude::*;

use crate::cpu::{CHUNK, CpuArgs};
use crate::gpu::{GpuArgs, Kernel, PRELUDE, linear_groups};
use crate::op::Op;
use crate::random::{Key, THREEFRY, keeps};
use crate::shape::{Kind, Spec};
use crate::tape::{Recorded, Tape, TapeError, Var};

static DROPOUT: Kernel =
    Kernel { name: "dropout", source: &[PRELUDE, THREEFRY, include_str!("dropout.wgsl")], entry: "dropout" };

/// Rows that one invocation of the kernel draws the mask for once.
const ROWS: usize = 16;

/// Sets elements to zero at random and scales up the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    rate: f32,
    site: u32,
    places: usize,
    part: Option<Part>,
}

/// Where a tensor is in the whole that it is a part of.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Part {
    first_group: usize,
    first_column: usize,
    whole_width: usize,
}

impl Dropout {
    /// Drops `rate` of all elements. `site` is [`Tape::next_site`]; `places` rows that follow each other share a mask.
    pub fn new(rate: f32, site: u32, places: usize) -> Self {
        Self { rate, site, places, part: None }
    }

    /// The tensor is a part of one of `whole_width` columns, from this group of rows and this column on.
    pub fn part(mut self, first_group: usize, first_column: usize, whole_width: usize) -> Self {
        self.part = Some(Part { first_group, first_column, whole_width });
        self
    }

    /// The whole that tensors of this width are parts of; by default they are all of it.
    fn whole(self, width: usize) -> Part {
        self.part.unwrap_or(Part { first_group: 0, first_column: 0, whole_width: width })
    }

    /// A product, since quotients are not the same to the last bit on every device.
    fn scale(self) -> f32 {
        1.0 / (1.0 - self.rate)
    }
}

impl Op for Dropout {
    fn name(&self) -> &'static str {
        "dropout"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        if !(0.0..1.0).contains(&self.rate) {
            return Err(format!("a rate is at least 0 and below 1, not {}", self.rate));
        }
        match inputs {
            [x, key] if x.kind == Kind::F32 && *key == Spec::i32([2]) => {
                if self.places == 0 || x.shape.rows() % self.places != 0 {
                    return Err(format!("its rows do not come in groups of {}", self.places));
                }
                let (groups, width) = (x.shape.rows() / self.places, x.shape.width());
                let Part { first_group, first_column, whole_width } = self.whole(width);
                if first_column.saturating_add(width) > whole_width {
                    return Err(format!(
                        "{width} columns from column {first_column} on are no part of {whole_width}"
                    ));
                }
                let elements = first_group.saturating_add(groups).saturating_mul(whole_width);
                if u32::try_from(elements).is_err() {
                    return Err("a mask has less than 2^32 elements".to_owned());
                }
                Ok(vec![x.clone()])
            }
            _ => Err("it takes a tensor of floats and a key i32[2]".to_owned()),
        }
    }

    fn overwrites(&self) -> &[usize] {
        &[0]
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let width = args.output_dims(0).last().copied().unwrap_or(1).max(1);
        let (key, x) = (args.ints(1), args.output(0));
        let (key, scale) = (Key([key[0] as u32, key[1] as u32]), self.scale());
        let whole = self.whole(width);
        let draw = |group: usize, mask: &mut [f32]| {
            let first = ((whole.first_group + group) * whole.whole_width + whole.first_column) as u32;
            for (column, factor) in mask.iter_mut().enumerate() {
                *factor = if keeps(key, self.site, first + column as u32, self.rate) { scale } else { 0.0 };
            }
        };
        let rows_at_once = (CHUNK / width).clamp(1, self.places);
        x.par_chunks_mut(self.places * width).enumerate().for_each(|(group, rows)| {
            rows.par_chunks_mut(rows_at_once * width).for_each_init(
                || {
                    let mut mask = vec![0.0; width];
                    draw(group, &mut mask);
                    mask
                },
                |mask, rows| {
                    for row in rows.chunks_exact_mut(width) {
                        for (x, factor) in row.iter_mut().zip(&*mask) {
                            // Not a product: what is dropped is zero even if it is not a number.
                            *x = if *factor == 0.0 { 0.0 } else { *x * factor };
                        }
                    }
                },
            );
        });
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let shape = args.output_shape(0);
        let (width, groups) = (shape.width(), shape.rows() / self.places);
        let rows_at_once = self.places.min(ROWS);
        let parts = self.places.div_ceil(rows_at_once);
        let invocations = groups * parts * width;
        let Part { first_group, first_column, whole_width } = self.whole(width);
        let params = [
            invocations as u32,
            width as u32,
            self.places as u32,
            rows_at_once as u32,
            parts as u32,
            self.site,
            self.rate.to_bits(),
            self.scale().to_bits(),
            (first_group * whole_width + first_column) as u32,
            whole_width as u32,
        ];
        let buffers = [args.output(0), args.input(1)];
        args.dispatch(&DROPOUT, &buffers, &params, linear_groups(invocations, 64));
    }

    fn backward(
        &self,
        tape: &mut Tape,
        node: &Recorded,
        gradients: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        let Some(gradient) = gradients[0] else { return Ok(vec![None, None]) };
        Ok(vec![Some(tape.record(*self, &[gradient, node.inputs[1]])?), None])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, ProgramId, Target};
    use crate::host::HostTensor;
    use crate::program::Program;
    use crate::store::Stores;
    use crate::testing::{Case, Given, Random, bits, check, part_of};

    #[test]
    fn both_implementations_agree_and_the_derivative_is_right() {
        let cases =
            [(vec![1], 1), (vec![5, 7], 1), (vec![2, 3, 5], 3), (vec![3, 37, 10], 37), (vec![4, 6, 9], 12)];
        for (shape, places) in cases {
            let case = Case::new(91).normal("x", &shape[..]).ints("key", [2], vec![-77, 5]);
            check(case, |tape, inputs| tape.record_all(Dropout::new(0.4, 3, places), inputs));
        }
    }

    fn dropped(rate: f32, site: u32, places: usize, x: Vec<f32>, width: usize) -> Vec<f32> {
        let mut tape = Tape::new();
        let x_spec = Spec::f32([x.len() / width, width]);
        let inputs = [tape.input("x", x_spec).unwrap(), tape.input("key", Spec::i32([2])).unwrap()];
        let y = tape.record(Dropout::new(rate, site, places), &inputs).unwrap();
        let program = Program::new(&tape, &[y]).unwrap();
        let mut engine = Engine::new(Target::Cpu { threads: 1 }, &Stores::new(), vec![program]).unwrap();
        let (x, key) = (HostTensor::F32(x), HostTensor::I32(vec![4, 2]));
        engine.run(ProgramId(0), |name| Some(if name == "x" { &x } else { &key })).unwrap().remove(0)
    }

    #[test]
    fn rows_of_a_group_share_a_mask_and_groups_do_not() {
        let y = dropped(0.5, 0, 3, vec![1.0; 6 * 40], 40);
        let rows: Vec<&[f32]> = y.chunks(40).collect();
        assert!(rows[0] == rows[1] && rows[1] == rows[2]);
        assert!(rows[3] == rows[4] && rows[4] == rows[5]);
        assert_ne!(rows[0], rows[3]);
        assert!(y.iter().all(|y| *y == 0.0 || *y == 2.0));
    }

    #[test]
    fn another_site_has_another_mask_and_rate_zero_keeps_everything() {
        let x: Vec<f32> = (0..40).map(|i| i as f32 + 1.0).collect();
        assert_ne!(dropped(0.5, 0, 1, x.clone(), 40), dropped(0.5, 1, 1, x.clone(), 40));
        assert_eq!(dropped(0.0, 0, 1, x.clone(), 40), x);
    }

    #[test]
    fn parts_draw_what_the_whole_draws() {
        let mut random = Random::new(92);
        for (groups, places, width, [row_parts, column_parts]) in
            [(1, 1, 1, [1, 1]), (5, 1, 7, [2, 3]), (4, 6, 130, [3, 2]), (3, 37, 10, [1, 4])]
        {
            let dims = [groups * places, width];
            let (x, of_y) = (random.normals(dims[0] * width), random.normals(dims[0] * width));
            let mut given = Given::default();
            let key = given.ints([2], vec![-77, 5]);
            let op = Dropout::new(0.4, 3, places);
            let mut results = Vec::new();
            let mut record = |given: &mut Given, op: Dropout, within: &[std::ops::Range<usize>; 2]| {
                let dims_here = [within[0].len(), within[1].len()];
                let x = given.floats(dims_here, part_of(&x, &dims, within));
                let of_y = given.floats(dims_here, part_of(&of_y, &dims, within));
                let y = given.tape.record(op, &[x, key]).unwrap();
                results.push(y);
                results.extend(given.tape.pull_back(&[(y, of_y)], &[x]).unwrap());
            };
            record(&mut given, op, &[0..dims[0], 0..width]);
            let mut parts = Vec::new();
            let columns = random.cut(width, column_parts);
            for groups in random.cut(groups, row_parts) {
                for columns in &columns {
                    let within = [groups.start * places..groups.end * places, columns.clone()];
                    record(&mut given, op.part(groups.start, columns.start, width), &within);
                    parts.push(within);
                }
            }
            for (place, found) in given.run(&results) {
                let (whole, found) = found.split_at(2);
                for (found, within) in found.chunks(2).zip(&parts) {
                    let expected: Vec<_> = whole.iter().map(|whole| part_of(whole, &dims, within)).collect();
                    assert_eq!(bits(found), bits(&expected), "{within:?} of {dims:?} on the {place}");
                }
            }
        }
    }

    #[test]
    fn a_part_lies_within_the_whole_and_the_whole_has_less_than_2_to_the_32_elements() {
        let mut given = Given::default();
        let inputs = [given.floats([2, 3], vec![0.0; 6]), given.ints([2], vec![0; 2])];
        let op = Dropout::new(0.5, 0, 1);
        let mut error = |op: Dropout| match given.tape.record(op, &inputs) {
            Err(TapeError::Mismatch { reason, .. }) => reason,
            other => panic!("{other:?}"),
        };
        insta::assert_snapshot!(error(op.part(0, 2, 4)), @"3 columns from column 2 on are no part of 4");
        insta::assert_snapshot!(error(op.part(65_534, 0, 65_536)), @"a mask has less than 2^32 elements");
        insta::assert_snapshot!(error(op.part(usize::MAX, 0, 3)), @"a mask has less than 2^32 elements");
        insta::assert_snapshot!(error(op.part(0, usize::MAX, 3)), @"3 columns from column 18446744073709551615 on are no part of 3");
        assert!(given.tape.record(op.part(65_533, 65_533, 65_536), &inputs).is_ok());
    }

    #[test]
    fn what_is_dropped_is_zero_whatever_it_was() {
        let y = dropped(0.5, 0, 1, vec![f32::NAN; 100], 100);
        assert!(y.iter().any(|y| y.is_nan()) && y.contains(&0.0));
    }

    #[test]
    fn a_rate_of_one_and_ragged_groups_are_refused() {
        let mut tape = Tape::new();
        let inputs =
            [tape.input("x", Spec::f32([2, 3, 7])).unwrap(), tape.input("key", Spec::i32([2])).unwrap()];
        insta::assert_snapshot!(tape.record(Dropout::new(1.0, 0, 1), &inputs).unwrap_err(), @"`dropout` in ``: a rate is at least 0 and below 1, not 1; it got `x` f32[2, 3, 7], `key` i32[2]");
        insta::assert_snapshot!(tape.record(Dropout::new(0.1, 0, 4), &inputs).unwrap_err(), @"`dropout` in ``: its rows do not come in groups of 4; it got `x` f32[2, 3, 7], `key` i32[2]");
        assert!(tape.record(Dropout::new(f32::NAN, 0, 1), &inputs).is_err());
    }
}
