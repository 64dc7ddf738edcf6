//! Plans windows one after the other, with memory that is used again.

use super::best_fit::BestFit;
use super::{PackCounts, Packing, Span, WindowPlan};
use crate::convert::{ConvertError, MAX_LENGTH};
use crate::dataset::Permutation;
use crate::rng::Key;

/// Items of several features are measured in 4,096ths of a row.
const SCALE: u32 = 4096;

/// Makes the plan of any window from the lengths of its items.
#[derive(Clone, Debug)]
pub struct WindowPlanner {
    packing: Packing,
    limits: Vec<u32>,
    shuffle: Key,
    best_fit: BestFit,
    pieces: Pieces,
    rows: Vec<u32>,
}

/// Pieces in the order of their items, before they are put into rows.
#[derive(Clone, Debug, Default)]
struct Pieces {
    items: Vec<u32>,
    spans: Vec<Span>,
    sizes: Vec<u32>,
}

impl Pieces {
    fn clear(&mut self) {
        self.items.clear();
        self.spans.clear();
        self.sizes.clear();
    }
}

impl WindowPlanner {
    /// Rows of at most these lengths, one a feature; seed and task decide how `best_fit` shuffles rows.
    pub fn new(limits: &[usize], packing: Packing, seed: u64, task: &str) -> Result<Self, ConvertError> {
        let limit = |(feature, limit): (usize, &usize)| match u32::try_from(*limit) {
            Ok(length) if (1..=MAX_LENGTH).contains(limit) => Ok(length),
            _ => Err(ConvertError::LengthOutOfRange { feature: feature.to_string(), length: *limit }),
        };
        Ok(Self {
            packing,
            limits: limits.iter().enumerate().map(limit).collect::<Result<_, _>>()?,
            shuffle: Key::new("pack.rows", seed, task, 0),
            best_fit: BestFit::default(),
            pieces: Pieces::default(),
            rows: Vec::new(),
        })
    }

    /// Plans window number `window`, whose items have these lengths: a slice a feature, in the order of the limits.
    ///
    /// # Panics
    /// If there are not as many slices as limits, or they differ in length.
    pub fn plan(&mut self, lengths: &[&[u32]], window: u64) -> WindowPlan {
        let mut plan = WindowPlan::default();
        self.plan_into(lengths, window, &mut plan);
        plan
    }

    /// As [`Self::plan`], into memory that is there already.
    ///
    /// # Panics
    /// If there are not as many slices as limits, or they differ in length.
    pub fn plan_into(&mut self, lengths: &[&[u32]], window: u64, plan: &mut WindowPlan) {
        assert_eq!(lengths.len(), self.limits.len(), "a slice of lengths for every limit");
        let num_items = lengths.first().map_or(0, |lengths| lengths.len());
        assert!(lengths.iter().all(|lengths| lengths.len() == num_items), "every item has every feature");
        plan.num_features = lengths.len();
        plan.row_starts.clear();
        plan.row_starts.push(0);
        plan.items.clear();
        plan.spans.clear();
        plan.counts = PackCounts { items: num_items as u64, ..PackCounts::default() };
        match (self.packing, lengths, self.limits.as_slice()) {
            (Packing::BestFit, [lengths], [limit]) => {
                let limit = *limit;
                self.pieces.split(lengths, limit, &mut plan.counts);
                self.best_fit(limit, window, plan);
            }
            (Packing::BestFit, lengths, limits) => {
                self.pieces.trim(lengths, limits, &mut plan.counts);
                self.best_fit(SCALE, window, plan);
            }
            (Packing::Greedy, lengths, limits) => greedy(lengths, limits, plan),
            (Packing::None, lengths, limits) => unpacked(lengths, limits, plan),
        }
    }

    /// Puts the pieces into rows, numbers the rows by a permutation of their own, and sorts the pieces by row.
    fn best_fit(&mut self, capacity: u32, window: u64, plan: &mut WindowPlan) {
        let Self { pieces, rows, best_fit, .. } = self;
        let num_rows = best_fit.assign(&pieces.sizes, capacity, rows);
        let shuffle = Permutation::new(num_rows as u64, self.shuffle.child(window));
        let shuffled: Vec<u32> = (0..num_rows as u64).map(|row| shuffle.apply(row) as u32).collect();
        // Counting sort. `row_starts[row + 1]` first counts, then is where the next piece of the row goes, and in the
        // end where the row ends.
        plan.row_starts.resize(num_rows + 1, 0);
        for row in rows.iter_mut() {
            *row = shuffled[*row as usize];
            plan.row_starts[*row as usize + 1] += 1;
        }
        let mut end = 0;
        for start in &mut plan.row_starts[1..] {
            end += std::mem::replace(start, end);
        }
        let width = plan.num_features;
        plan.items.resize(pieces.items.len(), 0);
        plan.spans.resize(pieces.spans.len(), Span::default());
        let spans = pieces.spans.chunks_exact(width.max(1));
        for ((row, item), spans) in rows.iter().zip(&pieces.items).zip(spans) {
            let next = &mut plan.row_starts[*row as usize + 1];
            let at = *next as usize;
            *next += 1;
            plan.items[at] = *item;
            plan.spans[at * width..(at + 1) * width].copy_from_slice(spans);
        }
    }
}

impl Pieces {
    /// One feature: over-long items become pieces of the limit and a rest, so that every token is kept.
    fn split(&mut self, lengths: &[u32], limit: u32, counts: &mut PackCounts) {
        self.clear();
        for (item, length) in (0..).zip(lengths) {
            let mut from = 0;
            while *length - from > limit {
                self.push(item, from, limit);
                from += limit;
            }
            if *length > from {
                self.push(item, from, *length - from);
            }
            counts.tokens += u64::from(*length);
            counts.empty_items += u64::from(*length == 0);
            if from > 0 {
                counts.split_items += 1;
                counts.cut_tokens += u64::from(*length - limit);
            }
        }
    }

    fn push(&mut self, item: u32, from: u32, len: u32) {
        self.items.push(item);
        self.spans.push(Span { from, len });
        self.sizes.push(len);
    }

    /// Several features: over-long ones are trimmed, and an item's size is the greatest share that a feature of it
    /// takes of its limit, rounded up to 4,096ths.
    ///
    /// Rows of sizes up to 4,096 in all are valid in every feature: each size is at least `4096 * len / limit`, so
    /// `sum(4096 * len / limit) <= sum(size) <= 4096`, and `sum(len) <= limit`.
    fn trim(&mut self, lengths: &[&[u32]], limits: &[u32], counts: &mut PackCounts) {
        self.clear();
        let num_items = lengths.first().map_or(0, |lengths| lengths.len());
        for item in 0..num_items {
            let mut size = 0;
            for (lengths, limit) in lengths.iter().zip(limits) {
                let len = lengths[item].min(*limit);
                size = size.max((u64::from(SCALE) * u64::from(len)).div_ceil(u64::from(*limit)) as u32);
            }
            if size > 0 {
                self.items.push(item as u32);
                self.sizes.push(size);
                push_trimmed(lengths, limits, item, &mut self.spans, counts);
            } else {
                counts.empty_items += 1;
            }
        }
    }
}

/// SeqIO's trim-and-pack, but that lengths are true lengths, where SeqIO counts ids other than 0.
fn greedy(lengths: &[&[u32]], limits: &[u32], plan: &mut WindowPlan) {
    let group = limits.iter().copied().max().unwrap_or(1) as usize;
    let num_items = plan.counts.items as usize;
    let mut filled = vec![0; limits.len()];
    for item in 0..num_items {
        let fits =
            |feature: usize| filled[feature] + lengths[feature][item].min(limits[feature]) <= limits[feature];
        // The row that is open when a group ends is written, also if it is empty.
        let ends_group = item > 0 && item % group == 0;
        if ends_group || !(0..limits.len()).all(fits) {
            plan.row_starts.push(plan.items.len() as u32);
            filled.fill(0);
        }
        for ((filled, lengths), limit) in filled.iter_mut().zip(lengths).zip(limits) {
            *filled += lengths[item].min(*limit);
        }
        if lengths.iter().any(|lengths| lengths[item] > 0) {
            plan.items.push(item as u32);
            push_trimmed(lengths, limits, item, &mut plan.spans, &mut plan.counts);
        } else {
            plan.counts.empty_items += 1;
        }
    }
    if num_items > 0 {
        plan.row_starts.push(plan.items.len() as u32);
    }
}

/// A row for every item, also for empty ones.
fn unpacked(lengths: &[&[u32]], limits: &[u32], plan: &mut WindowPlan) {
    for item in 0..plan.counts.items as usize {
        plan.counts.empty_items += u64::from(lengths.iter().all(|lengths| lengths[item] == 0));
        plan.items.push(item as u32);
        push_trimmed(lengths, limits, item, &mut plan.spans, &mut plan.counts);
        plan.row_starts.push(plan.items.len() as u32);
    }
}

/// Appends what is left of each feature of an item, and counts what is not.
fn push_trimmed(
    lengths: &[&[u32]],
    limits: &[u32],
    item: usize,
    spans: &mut Vec<Span>,
    counts: &mut PackCounts,
) {
    let mut dropped = 0;
    for (lengths, limit) in lengths.iter().zip(limits) {
        let len = lengths[item].min(*limit);
        dropped += u64::from(lengths[item] - len);
        counts.tokens += u64::from(len);
        spans.push(Span { from: 0, len });
    }
    counts.dropped_tokens += dropped;
    counts.trimmed_items += u64::from(dropped > 0);
}
