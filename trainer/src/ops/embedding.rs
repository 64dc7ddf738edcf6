//! Rows of a table by id.
//!
//! ```text
//! table f32[V, D], ids i32[S], order i32[N], starts i32[V + 1]  ->  table[ids] f32[S, D]
//! ```
//!
//! `order` and `starts` list the places of every id ([`token_index`]): with them each row of the gradient is a sum in a
//! fixed order, and no two invocations add to the same number. An id outside of the table gives zeros.
//!
//! Of a table that is split by rows each rank has some; ids, `order` and `starts` stay those of the whole vocabulary, and
//! the sum of what the ranks found is what the whole table gives, since all but one of them add zeros.

use rayon::prelude::*;

use crate::cpu::{CHUNK, CpuArgs};
use crate::gpu::{GpuArgs, Kernel, PRELUDE, linear_groups};
use crate::op::Op;
use crate::shape::{Kind, Spec};
use crate::tape::{Recorded, Tape, TapeError, Var};

static EMBEDDING: Kernel =
    Kernel { name: "embedding", source: &[PRELUDE, include_str!("embedding.wgsl")], entry: "embedding" };

static EMBEDDING_BACKWARD: Kernel = Kernel {
    name: "embedding_backward",
    source: &[PRELUDE, include_str!("embedding.wgsl")],
    entry: "embedding_backward",
};

/// A token that is in no row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("token {id} at place {place} is outside of a vocabulary of {vocab_size}")]
pub struct TokenError {
    /// Its place, row-major.
    pub place: usize,
    /// What is there.
    pub id: i32,
    /// Ids end before this.
    pub vocab_size: usize,
}

/// The places of every id: `order` holds all places, sorted by the id there and then by place; those of id `v` are
/// `order[starts[v]..starts[v + 1]]`.
pub fn token_index(ids: &[i32], vocab_size: usize) -> Result<(Vec<i32>, Vec<i32>), TokenError> {
    let mut starts = vec![0; vocab_size + 1];
    for (place, &id) in ids.iter().enumerate() {
        let row = usize::try_from(id).ok().filter(|row| *row < vocab_size);
        let row = row.ok_or(TokenError { place, id, vocab_size })?;
        starts[row + 1] += 1;
    }
    for row in 0..vocab_size {
        starts[row + 1] += starts[row];
    }
    let (mut next, mut order) = (starts.clone(), vec![0; ids.len()]);
    for (place, &id) in ids.iter().enumerate() {
        let at = &mut next[id as usize];
        order[*at as usize] = place as i32;
        *at += 1;
    }
    Ok((order, starts))
}

/// Rows of a table by id.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Embedding {
    /// The id of the table's first row, where other rows are elsewhere.
    part: Option<usize>,
}

impl Embedding {
    /// Of a table that has a row for every id.
    pub fn whole() -> Self {
        Self { part: None }
    }

    /// The table has the rows from this id on, of a longer one.
    pub fn rows_from(self, first: usize) -> Self {
        Self { part: Some(first) }
    }

    /// The id of the table's first row.
    fn first(self) -> usize {
        self.part.unwrap_or(0)
    }
}

impl Op for Embedding {
    fn name(&self) -> &'static str {
        "embedding"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        let [table, ids, order, starts] = inputs else {
            return Err("it takes a table, ids, their order and starts".to_owned());
        };
        let (&[vocab_size, width], Kind::F32) = (table.shape.dims(), table.kind) else {
            return Err("its table is f32[vocab, width]".to_owned());
        };
        if ids.kind != Kind::I32 {
            return Err("ids are i32".to_owned());
        }
        let least = self.first().saturating_add(vocab_size + 1);
        let ends = match (self.part, starts.shape.dims()) {
            (Some(_), &[ends]) => ends.max(least),
            _ => least,
        };
        if *order != Spec::i32([ids.shape.elements()]) || *starts != Spec::i32([ends]) {
            return Err(format!(
                "order and starts of these ids are i32[{}] and i32[{ends}]{}",
                ids.shape.elements(),
                if self.part.is_some() { " or more" } else { "" }
            ));
        }
        Ok(vec![Spec::f32([ids.shape.dims(), &[width]].concat().as_slice())])
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let (table, ids, rows) = (args.input(0), args.ints(1), args.output(0));
        let (width, first) = (args.dims(0)[1], self.first());
        let at_once = (CHUNK / width.max(1)).max(1);
        rows.par_chunks_mut((at_once * width).max(1)).zip(ids.par_chunks(at_once)).for_each(|(rows, ids)| {
            for (row, id) in rows.chunks_exact_mut(width).zip(ids) {
                let at = usize::try_from(*id).ok().and_then(|id| id.checked_sub(first));
                match at.and_then(|at| table.get(at * width..(at + 1) * width)) {
                    Some(found) => row.copy_from_slice(found),
                    None => row.fill(0.0),
                }
            }
        });
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let elements = args.output_shape(0).elements();
        let &[vocab_size, width] = args.shape(0).dims() else { return };
        let params = [elements, width, self.first(), vocab_size].map(|number| number as u32);
        let buffers = [args.input(0), args.input(1), args.output(0)];
        args.dispatch(&EMBEDDING, &buffers, &params, linear_groups(elements, 64));
    }

    fn backward(
        &self,
        tape: &mut Tape,
        node: &Recorded,
        gradients: &[Option<Var>],
    ) -> Result<Vec<Option<Var>>, TapeError> {
        let of_table = match gradients[0] {
            Some(gradient) => {
                let op = EmbeddingBackward { first: self.first(), rows: tape.shape(node.inputs[0]).rows() };
                Some(tape.record(op, &[gradient, node.inputs[2], node.inputs[3]])?)
            }
            None => None,
        };
        Ok(vec![of_table, None, None, None])
    }
}

/// gradient f32[S, D], order i32[N], starts i32[V + 1]  ->  the table's gradient f32[rows, D].
#[derive(Clone, Copy, Debug, PartialEq)]
struct EmbeddingBackward {
    /// The id of the table's first row.
    first: usize,
    rows: usize,
}

impl Op for EmbeddingBackward {
    fn name(&self) -> &'static str {
        "embedding_backward"
    }

    fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        let [gradient, order, starts] = inputs else {
            return Err("it takes a gradient, order and starts".to_owned());
        };
        if gradient.kind != Kind::F32 || *order != Spec::i32([gradient.shape.rows()]) {
            return Err("order has one place for every row of the gradient".to_owned());
        }
        match starts.shape.dims() {
            &[ends] if ends > self.first + self.rows && starts.kind == Kind::I32 => {
                Ok(vec![Spec::f32([self.rows, gradient.shape.width()])])
            }
            _ => Err("starts is i32[vocab + 1]".to_owned()),
        }
    }

    fn cpu(&self, args: &mut CpuArgs<'_>) {
        let (gradient, order, starts, table) = (args.input(0), args.ints(1), args.ints(2), args.output(0));
        let width = args.output_dims(0)[1];
        let at_once = (CHUNK / width.max(1)).max(1);
        table.par_chunks_mut((at_once * width).max(1)).enumerate().for_each(|(chunk, rows)| {
            for (i, sum) in rows.chunks_exact_mut(width).enumerate() {
                sum.fill(0.0);
                let id = self.first + chunk * at_once + i;
                let places = order.get(starts[id] as usize..starts[id + 1] as usize).unwrap_or_default();
                for place in places {
                    let from = *place as usize * width;
                    let row = gradient.get(from..from + width).unwrap_or_default();
                    sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
                }
            }
        });
    }

    fn gpu(&self, args: &mut GpuArgs<'_>) {
        let elements = args.output_shape(0).elements();
        let params = [elements, args.output_shape(0).width(), self.first].map(|number| number as u32);
        let buffers = [args.input(0), args.input(1), args.input(2), args.output(0)];
        args.dispatch(&EMBEDDING_BACKWARD, &buffers, &params, linear_groups(elements, 64));
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

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;
    use crate::testing::{Case, Given, Random, bits, check, part_of};

    fn case(seed: u64, ids: Vec<i32>, shape: &[usize], vocab_size: usize, width: usize) -> Case {
        let (order, starts) = token_index(&ids, vocab_size).unwrap();
        Case::new(seed)
            .normal("table", [vocab_size, width])
            .ints("ids", shape, ids)
            .ints("order", [order.len()], order)
            .ints("starts", [starts.len()], starts)
    }

    #[test]
    fn both_implementations_agree_and_the_derivative_is_right() {
        let mut random = Random::new(5);
        for (shape, vocab_size, width) in [(vec![1], 1, 1), (vec![3, 7], 5, 6), (vec![2, 3, 40], 300, 65)] {
            let ids = (0..shape.iter().product()).map(|_| random.below(vocab_size) as i32).collect();
            check(case(21, ids, &shape, vocab_size, width), |tape, inputs| {
                tape.record_all(Embedding::whole(), inputs)
            });
        }
    }

    #[test]
    fn an_id_may_be_everywhere_or_nowhere() {
        check(case(22, vec![3; 33], &[33], 5, 4), |tape, inputs| tape.record_all(Embedding::whole(), inputs));
    }

    #[test]
    fn parts_of_a_table_find_their_rows_and_zeros_for_the_others() {
        let mut random = Random::new(23);
        for (tokens, vocab_size, width, parts) in [(1, 1, 1, 1), (60, 7, 5, 3), (90, 131, 8, 4)] {
            let ids: Vec<i32> = (0..tokens).map(|_| random.below(vocab_size) as i32).collect();
            let (order, starts) = token_index(&ids, vocab_size).unwrap();
            let (table, of_rows) = (random.normals(vocab_size * width), random.normals(tokens * width));
            let mut given = Given::default();
            let tokens_index = [
                given.ints([tokens], ids.clone()),
                given.ints([tokens], order),
                given.ints([vocab_size + 1], starts),
            ];
            let of_rows = given.floats([tokens, width], of_rows);
            let mut cuts = random.cut(vocab_size, 1);
            cuts.extend(random.cut(vocab_size, parts));
            let mut results = Vec::new();
            for (at, rows) in cuts.iter().enumerate() {
                let here = part_of(&table, &[vocab_size, width], from_ref(rows));
                let here = given.floats([rows.len(), width], here);
                let inputs = [&[here][..], &tokens_index].concat();
                let op = Embedding::whole();
                let op = if at == 0 { op } else { op.rows_from(rows.start) };
                let found = given.tape.record(op, &inputs).unwrap();
                results.push(found);
                results.extend(given.tape.pull_back(&[(found, of_rows)], &[here]).unwrap());
            }
            for (place, found) in given.run(&results) {
                for (part, rows) in found.chunks(2).zip(&cuts) {
                    let expected = ids.iter().enumerate().flat_map(|(at, id)| {
                        let here = rows.contains(&(*id as usize));
                        let row = &found[0][at * width..(at + 1) * width];
                        row.iter().map(move |x| if here { *x } else { 0.0 })
                    });
                    let of_table = part_of(&found[1], &[vocab_size, width], from_ref(rows));
                    let expected = [expected.collect(), of_table];
                    assert_eq!(bits(part), bits(&expected), "rows {rows:?} on the {place}");
                }
            }
        }
    }

    #[test]
    fn a_part_of_a_table_ends_where_the_vocabulary_does() {
        let mut given = Given::default();
        let inputs = [
            given.floats([3, 2], vec![0.0; 6]),
            given.ints([1], vec![0]),
            given.ints([1], vec![0]),
            given.ints([6], vec![0; 6]),
        ];
        assert!(given.tape.record(Embedding::whole().rows_from(2), &inputs).is_ok());
        let error = given.tape.record(Embedding::whole().rows_from(3), &inputs).unwrap_err();
        insta::assert_snapshot!(error, @"`embedding` in ``: order and starts of these ids are i32[1] and i32[7] or more; it got `input 0` f32[3, 2], `input 1` i32[1], `input 2` i32[1], `input 3` i32[6]");
        assert!(given.tape.record(Embedding::whole(), &inputs).is_err());
        assert!(given.tape.record(Embedding::whole().rows_from(usize::MAX), &inputs).is_err());
    }

    #[test]
    fn an_index_lists_the_places_of_every_id_in_order() {
        let (order, starts) = token_index(&[2, 0, 2, 3, 0], 5).unwrap();
        assert_eq!(order, [1, 4, 0, 2, 3]);
        assert_eq!(starts, [0, 2, 2, 4, 5, 5]);
        assert_eq!(token_index(&[], 2).unwrap(), (vec![], vec![0, 0, 0]));
    }

    #[test]
    fn ids_outside_of_the_vocabulary_are_refused_by_place() {
        for id in [-1, 5] {
            let error = token_index(&[0, 4, id], 5).unwrap_err();
            assert_eq!(error, TokenError { place: 2, id, vocab_size: 5 });
        }
        let error = token_index(&[7], 5).unwrap_err();
        insta::assert_snapshot!(error, @"token 7 at place 0 is outside of a vocabulary of 5");
    }

    #[test]
    fn an_order_of_other_ids_is_refused() {
        let mut tape = Tape::new();
        let inputs = [Spec::f32([9, 4]), Spec::i32([2, 3]), Spec::i32([5]), Spec::i32([10])];
        let inputs: Vec<Var> = inputs
            .into_iter()
            .zip(["t", "i", "o", "s"])
            .map(|(spec, name)| tape.input(name, spec).unwrap())
            .collect();
        let error = tape.record(Embedding::whole(), &inputs).unwrap_err();
        insta::assert_snapshot!(error, @"`embedding` in ``: order and starts of these ids are i32[6] and i32[10]; it got `t` f32[9, 4], `i` i32[2, 3], `o` i32[5], `s` i32[10]");
    }
}
