//! What a stream will be, counted before it is run: rows, steps, fill, and what is cut or left out.
//!
//! ```text
//! plan(Epochs(2))   20,000 examples in 2 windows → 6,131 rows, 96 steps, 99.2 % full (a window gives 3,065 rows)
//! ```

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::Serialize;

use crate::convert::{PackCounts, Packing, WindowPlan};
use crate::dataset::dataset::Dataset;
use crate::dataset::error::DatasetError;

/// Rows that a window should give for `best_fit` to fill them.
const ROWS_A_WINDOW: u64 = 2000;

/// A fill that no larger window is proposed for.
const GOOD_FILL: f64 = 0.999;

/// Windows planned at a time.
const WINDOWS_AT_A_TIME: u64 = 1024;

/// The largest window worth proposing.
const LARGEST_WINDOW: u64 = 1 << 20;

/// How far to plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Horizon {
    /// Whole epochs, as if the stream ended after them.
    Epochs(u64),
    /// Steps, or fewer if the stream ends before.
    Steps(u64),
}

/// What a stream will be up to a horizon.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamPlan {
    /// Examples an epoch.
    pub examples: u64,
    /// Positions of the windows planned, in epochs.
    pub epochs: f64,
    /// Windows planned.
    pub windows: u64,
    /// Items a window.
    pub window: u64,
    /// Rows.
    pub rows: u64,
    /// Steps.
    pub steps: u64,
    /// Rows at the end that do not fill a batch: filled up, or left out with `drop_remainder`.
    pub remainder: u64,
    /// Items, tokens and what became of them, in all windows planned.
    #[serde(flatten)]
    pub counts: Counts,
    /// Tokens in the rows, by task feature.
    pub tokens: BTreeMap<String, u64>,
    /// Tokens in the rows over the room there is, by task feature; of features that share rows each one's part of them.
    pub fill: BTreeMap<String, f64>,
    /// A window that would fill rows better, if this one gives too few of them.
    pub proposed_window: Option<u64>,
}

/// What became of items and tokens; tokens are counted over all features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Items in the windows.
    pub items: u64,
    /// Items without any token.
    pub empty_items: u64,
    /// Items split over several rows.
    pub split_items: u64,
    /// Tokens of split items in other pieces than the first.
    pub cut_tokens: u64,
    /// Items trimmed.
    pub trimmed_items: u64,
    /// Tokens trimmed off.
    pub dropped_tokens: u64,
}

/// What is summed up of windows.
#[derive(Clone, Debug, Default)]
struct Sums {
    rows: u64,
    tokens: Vec<u64>,
    counts: PackCounts,
}

impl Sums {
    fn of(plan: &WindowPlan, num_features: usize, most_rows: u64) -> Self {
        let rows = (plan.num_rows() as u64).min(most_rows);
        let mut tokens = vec![0; num_features];
        for row in 0..rows as usize {
            for piece in plan.row(row).pieces() {
                tokens.iter_mut().zip(piece.spans).for_each(|(sum, span)| *sum += u64::from(span.len));
            }
        }
        Self { rows, tokens, counts: plan.counts() }
    }

    fn add(mut self, other: Self) -> Self {
        self.rows += other.rows;
        self.tokens.resize(self.tokens.len().max(other.tokens.len()), 0);
        self.tokens.iter_mut().zip(&other.tokens).for_each(|(sum, tokens)| *sum += tokens);
        self.counts += other.counts;
        self
    }
}

impl Dataset {
    /// Counts what the stream will be, from lengths alone and on all threads.
    pub fn plan(&self, horizon: Horizon) -> Result<StreamPlan, DatasetError> {
        match horizon {
            Horizon::Epochs(epochs) if self.config().epochs != Some(epochs) => {
                self.with_epochs(epochs)?.plan(horizon)
            }
            Horizon::Epochs(_) => self.plan_rows(u64::MAX),
            Horizon::Steps(steps) => {
                let rows = self.config().batch_sizes.row_of(steps);
                self.plan_rows(rows.ok_or_else(|| self.beyond(steps, None))?)
            }
        }
    }

    /// Plans windows until there are this many rows or the stream ends.
    fn plan_rows(&self, wanted: u64) -> Result<StreamPlan, DatasetError> {
        let last = self.windows.num_windows()?.unwrap_or(u64::MAX);
        let num_features = self.stream.features().len();
        let mut all = Sums { tokens: vec![0; num_features], ..Sums::default() };
        let (mut windows, mut barren) = (0, 0);
        while all.rows < wanted && windows < last {
            let left = u128::from(wanted - all.rows);
            let expected = u128::from(windows) * left / u128::from(all.rows.max(1));
            let expected = u64::try_from(expected).unwrap_or(u64::MAX).clamp(8, WINDOWS_AT_A_TIME);
            let to = windows + expected.min(last - windows);
            let sums: Vec<Sums> = self.in_parallel(|| {
                let sum =
                    |window| self.windows.with_plan(window, |plan| Sums::of(plan, num_features, u64::MAX));
                self.windows.reach(to, true)?;
                (windows..to).into_par_iter().map(sum).collect::<Result<_, DatasetError>>()
            })??;
            for (window, sums) in (windows..to).zip(sums) {
                if all.rows >= wanted {
                    break;
                }
                barren = if sums.rows == 0 { barren + 1 } else { 0 };
                if barren > self.windows.barren_windows() && !self.windows.is_finite() {
                    return Err(self.stream.no_tokens());
                }
                let left = wanted - all.rows;
                let sums = if sums.rows > left {
                    self.windows.with_plan(window, |plan| Sums::of(plan, num_features, left))?
                } else {
                    sums
                };
                all = all.add(sums);
                windows = window + 1;
            }
        }
        self.summary(windows, all)
    }

    fn summary(&self, windows: u64, sums: Sums) -> Result<StreamPlan, DatasetError> {
        let steps = self.steps_of(sums.rows);
        let whole = self.config().batch_sizes.step_of(sums.rows).unwrap_or(0);
        let remainder = sums.rows - self.config().batch_sizes.row_of(whole).unwrap_or(sums.rows);
        let config = self.config();
        let rows = config.converter.row_lengths(&config.lengths, &self.stream.limits);
        let joined = rows.len() < self.stream.limits.len();
        let limits = self.stream.limits.iter().map(|limit| if joined { rows[0] } else { *limit });
        let by_feature = || self.stream.features().iter().zip(&sums.tokens).zip(limits.clone());
        let share = |tokens: u64, limit: usize| tokens as f64 / (sums.rows as f64 * limit as f64).max(1.0);
        let fill: BTreeMap<String, f64> =
            by_feature().map(|((feature, tokens), limit)| (feature.clone(), share(*tokens, limit))).collect();
        let fullest = match joined {
            true => fill.values().sum(),
            false => fill.values().copied().fold(0.0, f64::max),
        };
        let counts = sums.counts;
        let epochs = match self.windows.grouped() {
            None => counts.items as f64 / self.num_examples() as f64,
            Some(grouped) => grouped.epochs_at(counts.items)?,
        };
        Ok(StreamPlan {
            examples: self.num_examples(),
            epochs,
            windows,
            window: self.stream.window,
            rows: sums.rows,
            steps,
            remainder,
            counts: Counts {
                items: counts.items,
                empty_items: counts.empty_items,
                split_items: counts.split_items,
                cut_tokens: counts.cut_tokens,
                trimmed_items: counts.trimmed_items,
                dropped_tokens: counts.dropped_tokens,
            },
            tokens: by_feature().map(|((feature, tokens), _)| (feature.clone(), *tokens)).collect(),
            proposed_window: self.proposed_window(windows, sums.rows, fullest),
            fill,
        })
    }

    /// A window of enough rows, if there is need of one and there are examples for it.
    fn proposed_window(&self, windows: u64, rows: u64, fill: f64) -> Option<u64> {
        let full = fill >= GOOD_FILL;
        let too_few = rows > 0 && rows < windows.saturating_mul(ROWS_A_WINDOW);
        if self.config().packing != Packing::BestFit || full || !too_few {
            return None;
        }
        // The last window may be short, so rows are counted by items.
        let items = (u128::from(windows) * u128::from(self.stream.window))
            .min(u128::from(self.windows.positions(windows.saturating_sub(1)).end));
        let needed = (u128::from(ROWS_A_WINDOW) * items).div_ceil(u128::from(rows));
        let proposed =
            u64::try_from(needed).unwrap_or(LARGEST_WINDOW).min(LARGEST_WINDOW).next_power_of_two();
        let there_are =
            self.windows.known_windows().map_or(u64::MAX, |last| self.windows.positions(last - 1).end);
        (proposed > self.stream.window && there_are > self.stream.window).then_some(proposed)
    }
}
