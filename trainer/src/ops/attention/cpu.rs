//! On the host: blocks of queries against all keys that they see, as matrix products.

use std::ops::Range;

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayView4, ArrayViewMut, ArrayViewMut2, ArrayViewMut3, Axis, Dimension, s};
use rayon::prelude::*;

use super::{Attention, AttentionBackward, Extent, FORBIDDEN};
use crate::cpu::CpuArgs;

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
            spans: Vec::new(),
        };
        let rows = (0..setting.extent.batch).into_par_iter();
        setting.spans = rows.flat_map_iter(|row| setting.spans_of(row)).collect();
        setting.bias = table.map(|at| setting.bias_by_distance(args.input(at)));
        setting
    }

    fn bias_by_distance(&self, table: &[f32]) -> Vec<f32> {
        let rows = table.chunks(self.extent.buckets);
        rows.flat_map(|row| self.buckets.iter().map(|bucket| row[column(*bucket, row.len())])).collect()
    }

    /// The bias of one head and query at these keys.
    fn bias(&self, head: usize, query: usize, keys: &Range<usize>) -> Option<&[f32]> {
        let first = head * self.extent.distances() + self.extent.queries - 1 - query;
        self.bias.as_ref().map(|bias| &bias[first + keys.start..first + keys.end])
    }

    pub(super) fn sees(&self, row: usize, query: usize, key: usize) -> bool {
        let (q, k) = (row * self.extent.queries + query, row * self.extent.keys + key);
        let group = self.q_groups[q];
        group > 0
            && group == self.k_groups[k]
            && (!self.causal
                || key <= query
                || self.prefix.is_some_and(|prefix| prefix[q] != 0 && prefix[k] != 0))
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
                (true, true) if by_place => {
                    (of_group.start..of_group.end.min(query + 1).max(of_group.start), true)
                }
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

    /// Makes exponentials of the scores of a query at `keys`, and gives the greatest score and the exponentials' sum.
    fn exponentials(
        &self,
        [row, head, query]: [usize; 3],
        keys: &Range<usize>,
        scores: &mut [f32],
    ) -> (f32, f32) {
        let Some((seen, bias)) = self.seen([row, head, query], keys, scores) else {
            scores.fill(1.0);
            return (FORBIDDEN, scores.len() as f32);
        };
        bias.into_iter().for_each(|bias| add(seen, bias));
        let greatest = greatest(seen);
        (greatest, exponentials_and_sum(seen, greatest))
    }

    /// Makes probabilities of the scores of a query at `keys`, and of the gradients of probabilities those of scores.
    fn gradients(
        &self,
        [row, head, query]: [usize; 3],
        keys: &Range<usize>,
        [sum, product]: [f32; 2],
        scores: &mut [f32],
        gradients: &mut [f32],
    ) {
        let Some((seen, bias)) = self.seen([row, head, query], keys, scores) else {
            scores.fill(1.0 / scores.len() as f32);
            scores.iter().zip(gradients).for_each(|(p, g)| *g = p * (*g - product));
            return;
        };
        bias.into_iter().for_each(|bias| add(seen, bias));
        seen.iter_mut().for_each(|score| *score = (*score - sum).exp());
        scores.iter().zip(gradients).for_each(|(p, g)| *g = p * (*g - product));
    }

    /// The scores that count, where others are 0 or so low that nothing remains of them; and the bias of these.
    fn seen<'s>(
        &self,
        [row, head, query]: [usize; 3],
        keys: &Range<usize>,
        scores: &'s mut [f32],
    ) -> Option<(&'s mut [f32], Option<&[f32]>)> {
        let span = self.span(row, query);
        if span.sees == Sees::Nothing {
            return None;
        }
        let (start, end) = (span.keys.start - keys.start, span.keys.end - keys.start);
        scores[..start].fill(0.0);
        scores[end..].fill(0.0);
        let seen = &mut scores[start..end];
        if span.sees == Sees::Some {
            for (key, score) in span.keys.clone().zip(seen.iter_mut()) {
                if !self.sees(row, query, key) {
                    *score = FORBIDDEN;
                }
            }
        }
        Some((seen, self.bias(head, query, &span.keys)))
    }
}

pub(super) fn forward(attention: &Attention, args: &mut CpuArgs<'_>) {
    let (y, sums) = (args.output(0), args.output(1));
    let setting = Setting::new(attention, args);
    let Extent { batch, queries, keys, heads, width, .. } = setting.extent;
    let q = by_head(args.input(0), [batch, queries, heads, width]);
    let k = by_head(args.input(1), [batch, keys, heads, width]);
    let v = by_head(args.input(2), [batch, keys, heads, width]);

    let rows = y.chunks_mut(queries * heads * width).zip(sums.chunks_mut(heads * queries)).enumerate();
    let tasks: Vec<_> = rows
        .flat_map(|(row, (y, sums))| {
            let y = cut(by_head_mut(y, [queries, heads, width]), Axis(0), BLOCK);
            let sums = cut(matrix_mut(sums, heads, queries), Axis(1), BLOCK);
            y.into_iter().zip(sums).enumerate().map(move |(block, places)| (row, block, places))
        })
        .collect();
    tasks.into_par_iter().for_each_init(Vec::new, |scores, (row, block, (mut y, mut sums))| {
        let (queries, keys) = setting.block(row, block);
        scores.resize(queries.len() * keys.len(), 0.0);
        for head in 0..heads {
            let (q, k) =
                (q.slice(s![row, queries.clone(), head, ..]), k.slice(s![row, keys.clone(), head, ..]));
            general_mat_mul(1.0, &q, &k.t(), 0.0, &mut matrix_mut(scores, queries.len(), keys.len()));
            let mut y = y.index_axis_mut(Axis(1), head);
            let mut totals = [0.0; BLOCK];
            for (i, (query, scores)) in queries.clone().zip(scores.chunks_mut(keys.len())).enumerate() {
                let (greatest, total) = setting.exponentials([row, head, query], &keys, scores);
                sums[[head, i]] = greatest + total.ln();
                totals[i] = total;
            }
            let v = v.slice(s![row, keys.clone(), head, ..]);
            general_mat_mul(1.0, &matrix(scores, queries.len(), keys.len()), &v, 0.0, &mut y);
            for (mut y, total) in y.outer_iter_mut().zip(totals) {
                y *= 1.0 / total;
            }
        }
    });
}

/// The places for one head's gradients.
struct Gradients<'a> {
    queries: Option<ArrayViewMut2<'a, f32>>,
    keys: Option<ArrayViewMut2<'a, f32>>,
    values: Option<ArrayViewMut2<'a, f32>>,
    /// Of the bias, by distance.
    bias: Option<&'a mut [f32]>,
}

pub(super) fn backward(op: &AttentionBackward, args: &mut CpuArgs<'_>) {
    let setting = Setting::new(&op.attention, args);
    let Extent { batch, queries, keys, heads, width, buckets } = setting.extent;
    let distances = setting.extent.distances();
    let y_at = op.y_at();
    let q = by_head(args.input(0), [batch, queries, heads, width]);
    let k = by_head(args.input(1), [batch, keys, heads, width]);
    let v = by_head(args.input(2), [batch, keys, heads, width]);
    let y = by_head(args.input(y_at), [batch, queries, heads, width]);
    let of_y = by_head(args.input(y_at + 2), [batch, queries, heads, width]);
    let sums = args.input(y_at + 1);
    let of_sums = op.of_sums.then(|| args.input(y_at + 3));

    let places = op.places();
    let mut take = |place: Option<usize>, length: usize| {
        let rows = place.into_iter().flat_map(|place| args.output(place).chunks_mut(length * heads * width));
        let by_head = rows.flat_map(|row| cut(by_head_mut(row, [length, heads, width]), Axis(1), 1));
        by_head.map(|view| view.index_axis_move(Axis(1), 0)).collect::<Vec<_>>().into_iter()
    };
    let (mut of_q, mut of_k, mut of_v) =
        (take(places.queries, queries), take(places.keys, keys), take(places.values, keys));
    let mut of_bias = vec![0.0; if op.needs_table { batch * heads * distances } else { 0 }];
    let mut bias_parts = of_bias.chunks_mut(distances);
    let tasks: Vec<Gradients<'_>> = (0..batch * heads)
        .map(|_| Gradients {
            queries: of_q.next(),
            keys: of_k.next(),
            values: of_v.next(),
            bias: bias_parts.next(),
        })
        .collect();

    tasks.into_par_iter().enumerate().for_each_init(
        || (Vec::new(), Vec::new()),
        |(scores, products), (task, mut to)| {
            let (row, head) = (task / heads, task % heads);
            to.keys.iter_mut().chain(&mut to.values).for_each(|gradient| gradient.fill(0.0));
            for block in 0..queries.div_ceil(BLOCK) {
                let (queries, keys) = setting.block(row, block);
                let (nq, nk) = (queries.len(), keys.len());
                scores.resize(nq * nk, 0.0);
                products.resize(nq * nk, 0.0);
                let q = q.slice(s![row, queries.clone(), head, ..]);
                let k = k.slice(s![row, keys.clone(), head, ..]);
                let v = v.slice(s![row, keys.clone(), head, ..]);
                let y = y.slice(s![row, queries.clone(), head, ..]);
                let of_y = of_y.slice(s![row, queries.clone(), head, ..]);
                general_mat_mul(1.0, &q, &k.t(), 0.0, &mut matrix_mut(scores, nq, nk));
                general_mat_mul(1.0, &of_y, &v.t(), 0.0, &mut matrix_mut(products, nq, nk));
                let of_rows = scores.chunks_mut(nk).zip(products.chunks_mut(nk));
                for (i, (query, (scores, products))) in queries.clone().zip(of_rows).enumerate() {
                    let at = task * setting.extent.queries + query;
                    // What softmax's derivative subtracts: the sum of probabilities times their gradients.
                    let product = y.row(i).dot(&of_y.row(i)) - of_sums.map_or(0.0, |of_sums| of_sums[at]);
                    setting.gradients([row, head, query], &keys, [sums[at], product], scores, products);
                    if let Some(bias) = &mut to.bias {
                        let first = setting.extent.queries - 1 - query + keys.start;
                        add(&mut bias[first..first + nk], products);
                    }
                }
                let (scores, products) = (matrix(scores, nq, nk), matrix(products, nq, nk));
                if let Some(of_q) = &mut to.queries {
                    general_mat_mul(1.0, &products, &k, 0.0, &mut of_q.slice_mut(s![queries.clone(), ..]));
                }
                if let Some(of_k) = &mut to.keys {
                    general_mat_mul(1.0, &products.t(), &q, 1.0, &mut of_k.slice_mut(s![keys.clone(), ..]));
                }
                if let Some(of_v) = &mut to.values {
                    general_mat_mul(1.0, &scores.t(), &of_y, 1.0, &mut of_v.slice_mut(s![keys.clone(), ..]));
                }
            }
        },
    );

    if let Some(place) = places.table {
        let table = args.output(place);
        for (head, of_table) in table.chunks_mut(buckets).enumerate() {
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

fn add(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

/// The greatest of all; what is not a number is passed over.
fn greatest(numbers: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = numbers.as_chunks::<LANES>();
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, x)| *lane = if x > lane { *x } else { *lane });
    }
    lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |greatest, x| if *x > greatest { *x } else { greatest })
}

/// Replaces numbers by the exponentials of what they are above `base`, and gives the sum of these.
fn exponentials_and_sum(numbers: &mut [f32], base: f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let (chunks, rest) = numbers.as_chunks_mut::<LANES>();
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *x = (*x - base).exp();
            *lane += *x;
        }
    }
    let mut sum = lanes.iter().sum::<f32>();
    for x in rest {
        *x = (*x - base).exp();
        sum += *x;
    }
    sum
}

fn by_head(numbers: &[f32], shape: [usize; 4]) -> ArrayView4<'_, f32> {
    ArrayView4::from_shape(shape, numbers).expect("shapes were checked when it was recorded")
}

fn by_head_mut(numbers: &mut [f32], shape: [usize; 3]) -> ArrayViewMut3<'_, f32> {
    ArrayViewMut3::from_shape(shape, numbers).expect("shapes were checked when it was recorded")
}

fn matrix(numbers: &[f32], rows: usize, columns: usize) -> ArrayView2<'_, f32> {
    ArrayView2::from_shape([rows, columns], numbers).expect("it was made for this many")
}

fn matrix_mut(numbers: &mut [f32], rows: usize, columns: usize) -> ArrayViewMut2<'_, f32> {
    ArrayViewMut2::from_shape([rows, columns], numbers).expect("it was made for this many")
}

/// Pieces of at most `size` along an axis.
fn cut<D: Dimension>(
    mut view: ArrayViewMut<'_, f32, D>,
    axis: Axis,
    size: usize,
) -> Vec<ArrayViewMut<'_, f32, D>> {
    let mut pieces = Vec::new();
    while view.len_of(axis) > size {
        let (piece, rest) = view.split_at(axis, size);
        pieces.push(piece);
        view = rest;
    }
    pieces.push(view);
    pieces
}
