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
    /// Whether the features of an item stand one after the other in a row of all limits together.
    joined: bool,
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
            joined: false,
            shuffle: Key::new("pack.rows", seed, task, 0),
            best_fit: BestFit::default(),
            pieces: Pieces::default(),
            rows: Vec::new(),
        })
    }

    /// Whether the features of an item stand one after the other in a row, as wide as all limits together, instead of
    /// each in a row of its own. Each feature is trimmed to its limit all the same.
    pub fn with_joined_features(self, joined: bool) -> Self {
        Self { joined, ..self }
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
            (Packing::BestFit, lengths, limits) if self.joined => {
                let row: u32 = limits.iter().sum();
                self.pieces.join(lengths, limits, &mut plan.counts);
                self.best_fit(row, window, plan);
            }
            (Packing::BestFit, [lengths], [limit]) => {
                let limit = *limit;
                self.pieces.split(lengths, limit, &mut plan.counts);
                self.best_fit(limit, window, plan);
            }
            (Packing::BestFit, lengths, limits) => {
                self.pieces.trim(lengths, limits, &mut plan.counts);
                self.best_fit(SCALE, window, plan);
            }
            (Packing::Greedy, lengths, limits) => greedy(lengths, limits, self.joined, plan),
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

    /// Several features in one row: over-long ones are trimmed, and an item's size is that of all together.
    fn join(&mut self, lengths: &[&[u32]], limits: &[u32], counts: &mut PackCounts) {
        self.clear();
        let num_items = lengths.first().map_or(0, |lengths| lengths.len());
        for item in 0..num_items {
            let size: u32 =
                lengths.iter().zip(limits).map(|(lengths, limit)| lengths[item].min(*limit)).sum();
            if size > 0 {
                self.items.push(item as u32);
                self.sizes.push(size);
                push_trimmed(lengths, limits, item, &mut self.spans, counts);
            } else {
                counts.empty_items += 1;
            }
        }
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
///
/// Joined features are one feature to it, of all limits together.
fn greedy(lengths: &[&[u32]], limits: &[u32], joined: bool, plan: &mut WindowPlan) {
    let row: u32 = limits.iter().sum();
    let group = if joined { row } else { limits.iter().copied().max().unwrap_or(1) } as usize;
    let num_items = plan.counts.items as usize;
    let mut filled = vec![0; limits.len()];
    for item in 0..num_items {
        let length = |feature: usize| lengths[feature][item].min(limits[feature]);
        let fits_joined = filled.iter().sum::<u32>() + (0..limits.len()).map(length).sum::<u32>() <= row;
        let fits = |feature: usize| match joined {
            true => fits_joined,
            false => filled[feature] + length(feature) <= limits[feature],
        };
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Piece;
    use super::*;

    fn plan(lengths: &[&[u32]], limits: &[usize], packing: Packing) -> WindowPlan {
        WindowPlanner::new(limits, packing, 7, "docs").unwrap().plan(lengths, 0)
    }

    /// `0:5 2:3 | 3:6+2` for two rows of items with the lengths of their pieces, and where these begin unless at 0.
    fn show(plan: &WindowPlan) -> String {
        let piece = |piece: Piece<'_>| {
            let spans = piece.spans.iter().map(|span| match span.from {
                0 => span.len.to_string(),
                from => format!("{}@{from}", span.len),
            });
            format!("{}:{}", piece.item, spans.collect::<Vec<_>>().join(","))
        };
        let rows = plan.rows().map(|row| row.pieces().map(piece).collect::<Vec<_>>().join(" "));
        rows.collect::<Vec<_>>().join(" | ")
    }

    /// Lengths of the same number of items for each limit; a few are empty, a few too long.
    fn windows(features: std::ops::Range<usize>) -> impl Strategy<Value = (Vec<usize>, Vec<Vec<u32>>)> {
        proptest::collection::vec(prop_oneof![1usize..10, 1usize..3000], features).prop_flat_map(|limits| {
            let lengths = limits.iter().map(|limit| {
                let limit = *limit as u32;
                let length = prop_oneof![
                    1 => Just(0),
                    3 => 0..=limit,
                    3 => 0..=limit.div_ceil(8),
                    1 => 0..=limit * 4,
                ];
                proptest::collection::vec(length, 100)
            });
            let lengths: Vec<_> = lengths.collect();
            (Just(limits), lengths, 0usize..100).prop_map(|(limits, mut lengths, items)| {
                lengths.iter_mut().for_each(|lengths| lengths.truncate(items));
                (limits, lengths)
            })
        })
    }

    fn slices(lengths: &[Vec<u32>]) -> Vec<&[u32]> {
        lengths.iter().map(Vec::as_slice).collect()
    }

    #[test]
    fn best_fit_leaves_the_least_room() {
        insta::assert_snapshot!(show(&plan(&[&[5, 2, 3, 6]], &[8], Packing::BestFit)), @"1:2 3:6 | 0:5 2:3");
    }

    #[test]
    fn greedy_only_looks_at_the_open_row() {
        insta::assert_snapshot!(show(&plan(&[&[5, 2, 3, 6, 9]], &[8], Packing::Greedy)), @"0:5 1:2 | 2:3 | 3:6 | 4:8");
    }

    #[test]
    fn greedy_writes_the_open_row_at_the_end_of_a_group_even_if_it_is_empty() {
        let plan = plan(&[&[1, 0, 0, 0, 2, 1, 1]], &[2], Packing::Greedy);
        insta::assert_snapshot!(show(&plan), @"0:1 |  | 4:2 | 5:1 | 6:1");
        assert_eq!(plan.counts().empty_items, 3);
    }

    #[test]
    fn without_packing_every_item_is_a_row() {
        insta::assert_snapshot!(show(&plan(&[&[5, 0, 9]], &[8], Packing::None)), @"0:5 | 1:0 | 2:8");
    }

    #[test]
    fn one_feature_splits_what_is_too_long_and_keeps_every_token() {
        let plan = plan(&[&[20, 0, 8, 3]], &[8], Packing::BestFit);
        insta::assert_snapshot!(show(&plan), @"0:8 | 2:8 | 0:4@16 3:3 | 0:8@8");
        let expected = PackCounts {
            items: 4,
            empty_items: 1,
            tokens: 31,
            split_items: 1,
            cut_tokens: 12,
            ..PackCounts::default()
        };
        assert_eq!(plan.counts(), expected);
    }

    #[test]
    fn several_features_trim_what_is_too_long_and_count_what_is_dropped() {
        let plan = plan(&[&[20, 4, 0], &[1, 2, 0]], &[8, 4], Packing::BestFit);
        insta::assert_snapshot!(show(&plan), @"0:8,1 | 1:4,2");
        let expected = PackCounts {
            items: 3,
            empty_items: 1,
            tokens: 15,
            trimmed_items: 1,
            dropped_tokens: 12,
            ..PackCounts::default()
        };
        assert_eq!(plan.counts(), expected);
    }

    #[test]
    fn a_window_of_empty_items_has_no_rows() {
        assert_eq!(plan(&[&[0, 0]], &[8], Packing::BestFit).num_rows(), 0);
        assert_eq!(plan(&[&[]], &[8], Packing::Greedy).num_rows(), 0);
    }

    #[test]
    fn lengths_that_no_row_can_have_are_refused() {
        for limit in [0, MAX_LENGTH + 1] {
            assert!(WindowPlanner::new(&[8, limit], Packing::BestFit, 7, "docs").is_err());
        }
    }

    #[test]
    fn every_window_shuffles_its_rows_anew() {
        let lengths: Vec<u32> = (1..=64).collect();
        let mut planner = WindowPlanner::new(&[64], Packing::BestFit, 7, "docs").unwrap();
        let windows = [0, 1, 2].map(|window| planner.plan(&[&lengths], window));
        assert_ne!(windows[0], windows[1]);
        assert_ne!(windows[1], windows[2]);
        let rows = |plan: &WindowPlan| {
            let mut rows: Vec<Vec<u32>> =
                plan.rows().map(|row| row.pieces().map(|piece| piece.item).collect()).collect();
            rows.sort();
            rows
        };
        assert_eq!(rows(&windows[0]), rows(&windows[1]));
    }

    proptest! {
        #[test]
        fn every_token_of_one_feature_is_in_exactly_one_row((limits, lengths) in windows(1..2)) {
            let plan = plan(&slices(&lengths), &limits, Packing::BestFit);
            let mut pieces: Vec<(u32, Span)> =
                plan.rows().flat_map(|row| row.pieces()).map(|piece| (piece.item, piece.spans[0])).collect();
            pieces.sort_by_key(|(item, span)| (*item, span.from));
            let mut ends = vec![0; lengths[0].len()];
            for (item, span) in pieces {
                prop_assert_eq!(span.from, ends[item as usize]);
                prop_assert!(span.len > 0);
                ends[item as usize] += span.len;
            }
            prop_assert_eq!(&ends, &lengths[0]);
            prop_assert_eq!(plan.counts().tokens, lengths[0].iter().map(|length| u64::from(*length)).sum::<u64>());
        }

        #[test]
        fn no_row_holds_more_than_its_limits(
            (limits, lengths) in windows(1..4),
            packing in prop_oneof![Just(Packing::BestFit), Just(Packing::Greedy), Just(Packing::None)],
        ) {
            let plan = plan(&slices(&lengths), &limits, packing);
            let mut tokens = 0;
            for row in plan.rows() {
                let mut filled = vec![0; limits.len()];
                let mut last = None;
                for piece in row.pieces() {
                    filled.iter_mut().zip(piece.spans).for_each(|(filled, span)| *filled += span.len as usize);
                    prop_assert!(last <= Some((piece.item, piece.spans[0].from)), "by position");
                    last = Some((piece.item, piece.spans[0].from));
                }
                prop_assert!(filled.iter().zip(&limits).all(|(filled, limit)| filled <= limit));
                tokens += filled.iter().sum::<usize>() as u64;
            }
            let counts = plan.counts();
            prop_assert_eq!(counts.tokens, tokens);
            let all: u64 = lengths.iter().flatten().map(|length| u64::from(*length)).sum();
            prop_assert_eq!(counts.tokens + counts.dropped_tokens, all);
            prop_assert_eq!(counts.items, lengths[0].len() as u64);
        }

        #[test]
        fn every_item_that_is_not_empty_is_in_exactly_one_row_of_several_features(
            (limits, lengths) in windows(2..4),
            packing in prop_oneof![Just(Packing::BestFit), Just(Packing::Greedy)],
        ) {
            let plan = plan(&slices(&lengths), &limits, packing);
            let mut items: Vec<u32> = plan.rows().flat_map(|row| row.pieces()).map(|piece| piece.item).collect();
            items.sort_unstable();
            let full = |item: &u32| lengths.iter().any(|lengths| lengths[*item as usize] > 0);
            prop_assert!(items.into_iter().eq((0..lengths[0].len() as u32).filter(full)));
        }

        #[test]
        fn plans_do_not_depend_on_what_was_planned_before(
            windows in proptest::collection::vec(proptest::collection::vec(0u32..100, 0..60), 3),
            packing in prop_oneof![Just(Packing::BestFit), Just(Packing::Greedy), Just(Packing::None)],
        ) {
            let mut planner = WindowPlanner::new(&[50], packing, 7, "docs").unwrap();
            let mut used = WindowPlan::default();
            for (window, lengths) in (0..).zip(&windows) {
                planner.plan_into(&[lengths], window, &mut used);
                let mut fresh = WindowPlanner::new(&[50], packing, 7, "docs").unwrap();
                prop_assert_eq!(&used, &fresh.plan(&[lengths], window));
            }
        }
    }
}
