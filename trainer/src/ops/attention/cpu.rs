//! On the host: blocks of queries against all keys that they see, as products of matrices.

use std::ops::Range;

use rayon::prelude::*;

use super::{Attention, AttentionBackward, Extent, FORBIDDEN};
use crate::cpu::CpuArgs;
use crate::cpu::gemm::{Matrix, MatrixMut, multiply_add_here, multiply_here};
use crate::cpu::math::{exp, ln};
use crate::random::{Key, keeps};

/// Queries whose scores are in memory at once.
const BLOCK: usize = 64;

/// Numbers that are reduced side by side.
const LANES: usize = 16;

/// What decides about scores beside queries and keys.
#[derive(Debug)]
pub(super) struct Setting<'a> {
    extent: Extent,
    causal: bool,
    q_groups: &'a [i32],
    k_groups: &'a [i32],
    prefix: Option<&'a [i32]>,
    buckets: &'a [i32],
    /// By head and distance.
    bias: Option<Vec<f32>>,
    /// What dropout multiplies probabilities by, by batch row, head and key.
    kept: Option<Vec<f32>>,
    /// By batch row and query.
    spans: Vec<Span>,
}

/// The keys that a query sees.
#[derive(Clone, Debug, PartialEq)]
struct Span {
    /// All of them lie here.
    keys: Range<usize>,
    sees: Sees,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Sees {
    /// Every key of the range.
    All,
    /// Some of them.
    Some,
    /// Not one; the range is of all keys, which count alike.
    Nothing,
}

/// One query of one head.
#[derive(Clone, Copy, Debug)]
struct Place {
    row: usize,
    head: usize,
    query: usize,
}

impl<'a> Setting<'a> {
    pub(super) fn new(attention: &Attention, args: &CpuArgs<'a>) -> Self {
        let table = attention.table_at();
        let mut setting = Self {
            extent: attention.known_extent(|i| args.dims(i)),
            causal: attention.causal,
            q_groups: args.ints(3),
            k_groups: args.ints(4),
            prefix: attention.prefix_at().map(|at| args.ints(at)),
            buckets: table.map_or(&[], |at| args.ints(at + 1)),
            bias: None,
            kept: None,
            spans: Vec::new(),
        };
        let Extent { batch, keys, heads, .. } = setting.extent;
        setting.spans = (0..batch).into_par_iter().flat_map_iter(|row| setting.spans_of(row)).collect();
        setting.bias = table.map(|at| setting.bias_by_distance(args.input(at)));
        setting.kept = attention.dropout.zip(attention.key_at()).map(|(dropout, at)| {
            let key = Key([args.ints(at)[0] as u32, args.ints(at)[1] as u32]);
            let mut kept = vec![0.0; batch * heads * keys];
            kept.par_chunks_mut(keys).enumerate().for_each(|(head, kept)| {
                let first = (attention.head_of_whole(head) * keys) as u32;
                for (factor, at) in kept.iter_mut().zip(first..) {
                    *factor = if keeps(key, dropout.site, at, dropout.rate) { dropout.scale() } else { 0.0 };
                }
            });
            kept
        });
        setting
    }

    fn bias_by_distance(&self, table: &[f32]) -> Vec<f32> {
        let rows = table.chunks(self.extent.buckets);
        rows.flat_map(|row| self.buckets.iter().map(|bucket| row[column(*bucket, row.len())])).collect()
    }

    /// The bias at these keys.
    fn bias(&self, at: Place, keys: &Range<usize>) -> Option<&[f32]> {
        let first = at.head * self.extent.distances() + self.extent.queries - 1 - at.query;
        self.bias.as_ref().map(|bias| &bias[first + keys.start..first + keys.end])
    }

    /// What dropout multiplies probabilities of these keys by.
    fn kept(&self, at: Place, keys: &Range<usize>) -> Option<&[f32]> {
        let first = (at.row * self.extent.heads + at.head) * self.extent.keys;
        self.kept.as_ref().map(|kept| &kept[first + keys.start..first + keys.end])
    }

    pub(super) fn sees(&self, row: usize, query: usize, key: usize) -> bool {
        let (q, k) = (row * self.extent.queries + query, row * self.extent.keys + key);
        let of_prefix = || self.prefix.is_some_and(|prefix| prefix[q] != 0 && prefix[k] != 0);
        let group = self.q_groups[q];
        group > 0 && group == self.k_groups[k] && (!self.causal || key <= query || of_prefix())
    }

    fn spans_of(&self, row: usize) -> Vec<Span> {
        let Extent { queries, keys, .. } = self.extent;
        let groups = &self.k_groups[row * keys..][..keys];
        let prefix = self.prefix.map(|prefix| &prefix[row * keys..][..keys]);
        // Neighbours are of one group, mostly.
        let mut last = (0, 0..0, true);
        let span = |query| {
            let group = self.q_groups[row * queries + query];
            if last.0 != group {
                let (range, whole) = around(0..keys, |key| group > 0 && groups[key] == group);
                last = (group, range, whole);
            }
            let (_, of_group, whole) = &last;
            let by_place = prefix.is_none_or(|prefix| prefix[query] == 0);
            let (seen, all) = match (*whole, self.causal) {
                (true, false) => (of_group.clone(), true),
                (true, true) if by_place => (of_group.start..of_group.end.min(query + 1), true),
                _ => around(of_group.clone(), |key| self.sees(row, query, key)),
            };
            match (seen.is_empty(), all) {
                (true, _) => Span { keys: 0..keys, sees: Sees::Nothing },
                (false, true) => Span { keys: seen, sees: Sees::All },
                (false, false) => Span { keys: seen, sees: Sees::Some },
            }
        };
        (0..queries).map(span).collect()
    }

    fn span(&self, row: usize, query: usize) -> &Span {
        &self.spans[row * self.extent.queries + query]
    }

    /// The queries of a block, and the range of keys that they see.
    fn block(&self, row: usize, block: usize) -> (Range<usize>, Range<usize>) {
        let queries = block * BLOCK..self.extent.queries.min((block + 1) * BLOCK);
        let spans = queries.clone().map(|query| &self.span(row, query).keys);
        let (start, end) =
            spans.fold((usize::MAX, 0), |(start, end), keys| (start.min(keys.start), end.max(keys.end)));
        (queries, start..end)
    }

    /// The scores of a query, out of those of `keys`, that count: others become 0, or so low that nothing remains of
    /// them. None if the query sees nothing.
    fn seen<'s>(&self, at: Place, keys: &Range<usize>, scores: &'s mut [f32]) -> Option<&'s mut [f32]> {
        let span = self.span(at.row, at.query);
        if span.sees == Sees::Nothing {
            return None;
        }
        let (start, end) = (span.keys.start - keys.start, span.keys.end - keys.start);
        scores[..start].fill(0.0);
        scores[end..].fill(0.0);
        let seen = &mut scores[start..end];
        if span.sees == Sees::Some {
            for (key, score) in span.keys.clone().zip(seen.iter_mut()) {
                if !self.sees(at.row, at.query, key) {
                    *score = FORBIDDEN;
                }
            }
        }
        if let Some(bias) = self.bias(at, &span.keys) {
            add(seen, bias);
        }
        Some(seen)
    }

    /// Makes exponentials of the scores of `keys`; gives the greatest score and the exponentials' sum.
    fn exponentials(&self, at: Place, keys: &Range<usize>, scores: &mut [f32]) -> (f32, f32) {
        let (greatest, sum) = match self.seen(at, keys, scores) {
            Some(seen) => {
                let greatest = greatest(seen);
                (greatest, exponentials_and_sum(seen, greatest))
            }
            None => {
                scores.fill(1.0);
                (FORBIDDEN, scores.len() as f32)
            }
        };
        if let Some(kept) = self.kept(at, keys) {
            multiply_by(scores, kept);
        }
        (greatest, sum)
    }

    /// Makes probabilities of the scores of `keys`, and of their gradients those of scores.
    fn gradients(
        &self,
        at: Place,
        keys: &Range<usize>,
        [sum, product]: [f32; 2],
        scores: &mut [f32],
        gradients: &mut [f32],
    ) {
        match self.seen(at, keys, scores) {
            Some(seen) => seen.iter_mut().for_each(|score| *score = exp(*score - sum)),
            None => scores.fill(1.0 / scores.len() as f32),
        }
        let kept = self.kept(at, keys);
        if let Some(kept) = kept {
            multiply_by(gradients, kept);
        }
        scores.iter().zip(gradients).for_each(|(p, gradient)| *gradient = p * (*gradient - product));
        if let Some(kept) = kept {
            multiply_by(scores, kept);
        }
    }
}

/// Queries, keys or values.
#[derive(Clone, Copy, Debug)]
struct Rows<'a> {
    values: &'a [f32],
    length: usize,
    heads: usize,
    width: usize,
}

impl<'a> Rows<'a> {
    fn new(values: &'a [f32], length: usize, extent: &Extent) -> Self {
        Self { values, length, heads: extent.heads, width: extent.width }
    }

    /// Some positions of a head.
    fn of(&self, row: usize, head: usize, positions: &Range<usize>) -> Matrix<'a> {
        let first = ((row * self.length + positions.start) * self.heads + head) * self.width;
        Matrix::strided(&self.values[first..], positions.len(), self.width, self.heads * self.width)
    }

    /// One position of a head.
    fn at(&self, Place { row, head, query }: Place) -> &'a [f32] {
        &self.values[((row * self.length + query) * self.heads + head) * self.width..][..self.width]
    }
}

/// All positions of one head, to be written.
type Positions<'a> = Vec<&'a mut [f32]>;

/// The positions of a tensor, by batch row and head.
fn by_head<'a>(values: &'a mut [f32], length: usize, extent: &Extent) -> Vec<Positions<'a>> {
    let heads = extent.heads;
    let mut found: Vec<Positions<'a>> = Vec::new();
    found.resize_with(extent.batch * heads, || Vec::with_capacity(length));
    for (i, position) in values.chunks_mut(extent.width).enumerate() {
        found[i / (length * heads) * heads + i % heads].push(position);
    }
    found
}

pub(super) fn forward(attention: &Attention, args: &mut CpuArgs<'_>) {
    let (y, sums) = (args.output(0), args.output(1));
    let setting = Setting::new(attention, args);
    let extent = &setting.extent;
    let Extent { batch, queries, keys, heads, width, .. } = *extent;
    let [q, k, v] =
        [(0, queries), (1, keys), (2, keys)].map(|(i, len)| Rows::new(args.input(i), len, extent));

    // A block of queries is a task, with all heads.
    let blocks = queries.div_ceil(BLOCK);
    let mut sums_of: Vec<Vec<&mut [f32]>> = Vec::new();
    sums_of.resize_with(batch * blocks, Vec::new);
    for (i, sums) in sums.chunks_mut(queries).enumerate() {
        for (block, sums) in sums.chunks_mut(BLOCK).enumerate() {
            sums_of[i / heads * blocks + block].push(sums);
        }
    }
    let y_of = y.chunks_mut(queries * heads * width).flat_map(|y| y.chunks_mut(BLOCK * heads * width));
    let tasks: Vec<_> = y_of.zip(sums_of).collect();
    tasks.into_par_iter().enumerate().for_each_init(Vec::new, |scores, (task, (y, sums))| {
        let row = task / blocks;
        let (queries, keys) = setting.block(row, task % blocks);
        let (nq, nk) = (queries.len(), keys.len());
        scores.resize(nq * nk, 0.0);
        for (head, sums) in sums.into_iter().enumerate() {
            let (q, k, v) = (q.of(row, head, &queries), k.of(row, head, &keys), v.of(row, head, &keys));
            multiply_here(q, k.transposed(), MatrixMut::new(scores, nq, nk));
            let mut units = [0.0; BLOCK];
            for (i, (query, scores)) in queries.clone().zip(scores.chunks_mut(nk)).enumerate() {
                let (greatest, sum) = setting.exponentials(Place { row, head, query }, &keys, scores);
                (sums[i], units[i]) = (greatest + ln(sum), 1.0 / sum);
            }
            let to = MatrixMut::strided(&mut y[head * width..], nq, width, heads * width);
            multiply_here(Matrix::new(scores, nq, nk), v, to);
            for (y, unit) in y[head * width..].chunks_mut(heads * width).zip(units) {
                y[..width].iter_mut().for_each(|y| *y *= unit);
            }
        }
    });
}

/// Where the gradients of one head go.
struct Gradients<'a> {
    queries: Option<Positions<'a>>,
    /// Of keys and values.
    keys: Option<(Positions<'a>, Positions<'a>)>,
    /// Of the bias, by distance.
    bias: Option<&'a mut [f32]>,
}

/// Memory of a thread.
#[derive(Default)]
struct Scratch {
    scores: Vec<f32>,
    gradients: Vec<f32>,
    of_q: Vec<f32>,
    of_k: Vec<f32>,
    of_v: Vec<f32>,
}

pub(super) fn backward(op: &AttentionBackward, args: &mut CpuArgs<'_>) {
    let setting = Setting::new(&op.attention, args);
    let extent = &setting.extent;
    let Extent { batch, queries, keys, heads, width, buckets } = *extent;
    let distances = extent.distances();
    let y_at = op.y_at();
    let rows = |i: usize, length: usize| Rows::new(args.input(i), length, extent);
    let (q, k, v) = (rows(0, queries), rows(1, keys), rows(2, keys));
    let (y, of_y) = (rows(y_at, queries), rows(y_at + 2, queries));
    let sums = args.input(y_at + 1);
    let of_sums = op.of_sums.then(|| args.input(y_at + 3));

    let places = op.places();
    let mut take = |place: Option<usize>, length: usize| {
        place.map_or_else(Vec::new, |place| by_head(args.output(place), length, extent)).into_iter()
    };
    let (mut to_q, mut to_k, mut to_v) =
        (take(places.queries, queries), take(places.keys, keys), take(places.values, keys));
    let mut of_bias = vec![0.0; if op.needs_table { batch * heads * distances } else { 0 }];
    let mut to_bias = of_bias.chunks_mut(distances);
    let tasks: Vec<Gradients<'_>> = (0..batch * heads)
        .map(|_| Gradients { queries: to_q.next(), keys: to_k.next().zip(to_v.next()), bias: to_bias.next() })
        .collect();
    tasks.into_par_iter().enumerate().for_each_init(Scratch::default, |scratch, (task, mut to)| {
        let (row, head) = (task / heads, task % heads);
        let Scratch { scores, gradients, of_q, of_k, of_v } = scratch;
        for sums in [&mut *of_k, &mut *of_v] {
            sums.clear();
            sums.resize(keys * width, 0.0);
        }
        for block in 0..queries.div_ceil(BLOCK) {
            let (queries, keys) = setting.block(row, block);
            let (nq, nk) = (queries.len(), keys.len());
            scores.resize(nq * nk, 0.0);
            gradients.resize(nq * nk, 0.0);
            let (q, k, v) = (q.of(row, head, &queries), k.of(row, head, &keys), v.of(row, head, &keys));
            let of_y_here = of_y.of(row, head, &queries);
            multiply_here(q, k.transposed(), MatrixMut::new(scores, nq, nk));
            multiply_here(of_y_here, v.transposed(), MatrixMut::new(gradients, nq, nk));
            let by_query = scores.chunks_mut(nk).zip(gradients.chunks_mut(nk));
            for (query, (scores, gradients)) in queries.clone().zip(by_query) {
                let at = Place { row, head, query };
                let i = task * extent.queries + query;
                // What softmax's derivative subtracts: the sum of probabilities times their gradients.
                let product = dot(y.at(at), of_y.at(at)) - of_sums.map_or(0.0, |of_sums| of_sums[i]);
                setting.gradients(at, &keys, [sums[i], product], scores, gradients);
                if let Some(bias) = &mut to.bias {
                    add(&mut bias[extent.queries - 1 - query + keys.start..][..nk], gradients);
                }
            }
            let (scores, gradients) = (Matrix::new(scores, nq, nk), Matrix::new(gradients, nq, nk));
            if let Some(to) = &mut to.queries {
                of_q.resize(nq * width, 0.0);
                multiply_here(gradients, k, MatrixMut::new(of_q, nq, width));
                copy(&mut to[queries], of_q);
            }
            if to.keys.is_some() {
                let part = keys.start * width..keys.end * width;
                multiply_add_here(
                    gradients.transposed(),
                    q,
                    MatrixMut::new(&mut of_k[part.clone()], nk, width),
                );
                multiply_add_here(scores.transposed(), of_y_here, MatrixMut::new(&mut of_v[part], nk, width));
            }
        }
        if let Some((to_k, to_v)) = &mut to.keys {
            copy(to_k, of_k);
            copy(to_v, of_v);
        }
    });

    if let Some(place) = places.table {
        for (head, of_table) in args.output(place).chunks_mut(buckets).enumerate() {
            of_table.fill(0.0);
            for of_bias in of_bias.chunks(distances).skip(head).step_by(heads) {
                for (bucket, gradient) in setting.buckets.iter().zip(of_bias) {
                    of_table[column(*bucket, buckets)] += gradient;
                }
            }
        }
    }
}

/// Everything in `range` that `holds` lies in the range that is given back; does all of that hold?
fn around(range: Range<usize>, holds: impl Fn(usize) -> bool) -> (Range<usize>, bool) {
    let Some(first) = range.clone().find(|at| holds(*at)) else {
        return (range.start..range.start, true);
    };
    let end = range.rev().find(|at| holds(*at)).map_or(first, |last| last + 1);
    (first..end, (first..end).all(holds))
}

/// A bucket that the table lacks is its nearest.
fn column(bucket: i32, buckets: usize) -> usize {
    (bucket.max(0) as usize).min(buckets - 1)
}

fn copy(to: &mut [&mut [f32]], from: &[f32]) {
    let width = from.len() / to.len();
    for (to, from) in to.iter_mut().zip(from.chunks(width)) {
        to.copy_from_slice(from);
    }
}

fn add(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

fn multiply_by(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to *= from);
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        lanes.iter_mut().zip(a.iter().zip(b)).for_each(|(lane, (a, b))| *lane += a * b);
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    lanes.iter().sum::<f32>() + rest
}

/// The greatest of all; what is not a number is passed over.
fn greatest(numbers: &[f32]) -> f32 {
    let greater = |a: f32, b: f32| if b > a { b } else { a };
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = numbers.as_chunks::<LANES>();
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, x)| *lane = greater(*lane, *x));
    }
    lanes.iter().chain(rest).copied().fold(f32::NEG_INFINITY, greater)
}

/// Replaces numbers by the exponentials of what they are above `base`, and gives the sum of these.
fn exponentials_and_sum(numbers: &mut [f32], base: f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let (chunks, rest) = numbers.as_chunks_mut::<LANES>();
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *x = exp(*x - base);
            *lane += *x;
        }
    }
    let mut sum = lanes.iter().sum::<f32>();
    for x in rest {
        *x = exp(*x - base);
        sum += *x;
    }
    sum
}
