//! Some heads of some batch rows give what the whole gives for them, dropout included.

use std::ops::Range;

use super::{KEY, packed};
use crate::ops::Attention;
use crate::tape::{TapeError, Var};
use crate::testing::{Given, Random, assert_close, bits, part_of};

/// One attention and all that goes into it: whole tensors, of which parts are attended too.
struct Whole {
    attention: fn(usize) -> Attention,
    rows: usize,
    length: usize,
    heads: usize,
    width: usize,
    /// q, k, v and the gradient of y.
    numbers: [Vec<f32>; 4],
    table: Vec<f32>,
    groups: Vec<i32>,
    prefix: Vec<i32>,
}

const BUCKETS: usize = 5;

impl Whole {
    fn new(
        attention: fn(usize) -> Attention,
        [rows, length, heads, width]: [usize; 4],
        random: &mut Random,
    ) -> Self {
        let groups = packed(random, rows, length);
        Self {
            attention,
            rows,
            length,
            heads,
            width,
            numbers: std::array::from_fn(|_| random.normals(rows * length * heads * width)),
            table: random.normals(heads * BUCKETS),
            prefix: groups.iter().map(|group| i32::from(*group > 0 && random.below(3) > 0)).collect(),
            groups,
        }
    }

    /// Attends with these heads of these batch rows: y, the log-sum-exp, the gradients of q, k, v and the table.
    fn attend(&self, given: &mut Given, rows: &Range<usize>, heads: &Range<usize>) -> Vec<Var> {
        let (length, of_rows) = (self.length, [rows.clone(), 0..self.length]);
        let row = [rows.len(), length, heads.len() * self.width];
        let within = [rows.clone(), 0..length, heads.start * self.width..heads.end * self.width];
        let dims = [self.rows, length, self.heads * self.width];
        let [q, k, v, of_y] =
            self.numbers.each_ref().map(|numbers| given.floats(row, part_of(numbers, &dims, &within)));
        let mut ints = |values: &[i32]| {
            given.ints([rows.len(), length], part_of(values, &[self.rows, length], &of_rows))
        };
        let (groups, prefix) = (ints(&self.groups), ints(&self.prefix));
        let table = part_of(&self.table, &[self.heads, BUCKETS], std::slice::from_ref(heads));
        let table = given.floats([heads.len(), BUCKETS], table);
        let buckets = (0..2 * length - 1).map(|distance| (distance * BUCKETS / (2 * length)) as i32);
        let buckets = given.ints([2 * length - 1], buckets.collect());
        let key = given.ints([2], KEY.0.map(|word| word as i32).to_vec());

        let mut attention = (self.attention)(heads.len());
        if (rows.len(), heads.len()) != (self.rows, self.heads) {
            attention = attention.part(rows.start, heads.start, self.heads);
        }
        let mut inputs = vec![q, k, v, groups, groups, table, buckets];
        inputs.extend(attention.prefix.then_some(prefix));
        inputs.push(key);
        let made = given.tape.record_all(attention, &inputs).unwrap();
        let gradients = given.tape.pull_back(&[(made[0], of_y)], &[q, k, v, table]).unwrap();
        [&made[..2], &gradients].concat()
    }
}

#[test]
fn parts_attend_as_the_whole_does() {
    let mut random = Random::new(17);
    let of: [fn(usize) -> Attention; 2] = [
        |heads| Attention::new(heads).relative().causal(true).dropout(0.3, 5),
        |heads| Attention::new(heads).relative().prefix().dropout(0.4, 6),
    ];
    for (attention, shape, [row_parts, head_parts]) in [
        (of[0], [3, 13, 4, 8], [1, 3]),
        (of[0], [4, 70, 2, 4], [3, 1]),
        (of[1], [3, 13, 5, 3], [2, 2]),
        (of[1], [2, 9, 6, 20], [2, 3]),
    ] {
        let whole = Whole::new(attention, shape, &mut random);
        let [rows, length, heads, width] = shape;
        let mut given = Given::default();
        let mut results = whole.attend(&mut given, &(0..rows), &(0..heads));
        let (row_cuts, head_cuts) = (random.cut(rows, row_parts), random.cut(heads, head_parts));
        let mut parts = Vec::new();
        for rows in &row_cuts {
            for heads in &head_cuts {
                results.extend(whole.attend(&mut given, rows, heads));
                parts.push((rows.clone(), heads.clone()));
            }
        }
        for (place, found) in given.run(&results) {
            let (whole, found) = found.split_at(6);
            let mut of_table = vec![0.0; heads * BUCKETS];
            for (found, (part_rows, part_heads)) in found.chunks(6).zip(&parts) {
                let columns = part_heads.start * width..part_heads.end * width;
                let (of_rows, dims) =
                    ([part_rows.clone(), 0..length, columns], [rows, length, heads * width]);
                let sums = [part_rows.clone(), part_heads.clone(), 0..length];
                let sums = part_of(&whole[1], &[rows, heads, length], &sums);
                let mut expected = vec![part_of(&whole[0], &dims, &of_rows), sums];
                expected.extend(whole[2..5].iter().map(|whole| part_of(whole, &dims, &of_rows)));
                let what = format!("rows {part_rows:?} and heads {part_heads:?} of {shape:?} on the {place}");
                assert_eq!(bits(&found[..5]), bits(&expected), "{what}");
                let to = &mut of_table[part_heads.start * BUCKETS..part_heads.end * BUCKETS];
                to.iter_mut().zip(&found[5]).for_each(|(to, found)| *to += found);
            }
            // Which is a sum over batch rows, thus rounded otherwise where these are elsewhere.
            if row_parts == 1 {
                assert_eq!(bits(&[of_table]), bits(&whole[5..]), "{shape:?} on the {place}");
            } else {
                assert_close(&whole[5], &of_table, 2e-5, place);
            }
        }
    }
}

#[test]
fn a_part_lies_within_the_whole() {
    let mut given = Given::default();
    let row = given.floats([2, 5, 12], vec![0.0; 120]);
    let groups = given.ints([2, 5], vec![1; 10]);
    let key = given.ints([2], vec![0; 2]);
    let inputs = [row, row, row, groups, groups, key];
    let op = Attention::new(3).dropout(0.5, 0);
    let mut error = |op: Attention| match given.tape.record_all(op, &inputs) {
        Err(TapeError::Mismatch { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    insta::assert_snapshot!(error(op.part(0, 6, 8)), @"3 heads from head 6 on are no part of 8");
    insta::assert_snapshot!(error(op.part(0, usize::MAX, 8)), @"3 heads from head 18446744073709551615 on are no part of 8");
    insta::assert_snapshot!(error(op.part(1 << 30, 0, 8)), @"a mask has less than 2^32 elements");
    insta::assert_snapshot!(error(op.part(usize::MAX, 0, 8)), @"a mask has less than 2^32 elements");
    assert!(given.tape.record_all(op.part(1 << 20, 5, 8), &inputs).is_ok());
}
