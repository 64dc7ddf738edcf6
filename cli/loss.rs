//! Of features whose tokens count or not: how many examples have no token that counts, as they are and cut to lengths.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use arrow::array::AsArray as _;
use arrow::datatypes::Int32Type;
use seqio::{ExampleStore as _, LOSS_SUFFIX, Task};
use seqio_cache::CachedSplit;
use serde::Serialize;

use crate::format::{count, counted};
use crate::output::Out;

/// The most examples that are looked at: enough to see that something is wrong.
const LOOKED_AT: u64 = 100_000;
/// Examples read at once.
const CHUNK: u64 = 4096;

/// What of a feature's examples has a loss.
#[derive(Debug, Serialize)]
pub(crate) struct LossStats {
    feature: String,
    /// Examples looked at, the first of the split.
    examples: u64,
    /// Those of which no token counts.
    without_loss: u64,
    /// Those of which no token counts that is left after cutting, by length.
    without_loss_if_cut: BTreeMap<usize, u64>,
}

/// Looks at the features of `task` that have a loss mask, cut to each of `lengths` of theirs.
pub(crate) fn loss_stats(
    task: &Task,
    split: &CachedSplit,
    lengths: &BTreeMap<String, BTreeSet<usize>>,
) -> anyhow::Result<Vec<LossStats>> {
    let masks = task.features().keys().filter_map(|name| name.strip_suffix(LOSS_SUFFIX));
    let mut stats: Vec<LossStats> = masks
        .filter(|feature| task.features().contains_key(*feature))
        .map(|feature| LossStats {
            feature: feature.to_owned(),
            examples: 0,
            without_loss: 0,
            without_loss_if_cut: lengths
                .get(feature)
                .into_iter()
                .flatten()
                .map(|length| (*length, 0))
                .collect(),
        })
        .collect();
    let end = if stats.is_empty() { 0 } else { split.num_examples().min(LOOKED_AT) };
    let mut start = 0;
    while start < end {
        let batch = split.examples(start..end.min(start + CHUNK))?;
        start += CHUNK;
        for one in &mut stats {
            let Some(masks) = batch.column_by_name(&format!("{}{LOSS_SUFFIX}", one.feature)) else {
                continue;
            };
            for mask in masks.as_list::<i32>().iter() {
                let first = mask.and_then(|mask| {
                    mask.as_primitive::<Int32Type>().values().iter().position(|counts| *counts != 0)
                });
                one.examples += 1;
                one.without_loss += u64::from(first.is_none());
                for (length, without) in &mut one.without_loss_if_cut {
                    *without += u64::from(first.is_none_or(|first| first >= *length));
                }
            }
        }
    }
    Ok(stats)
}

/// Prints a line or two a feature.
pub(crate) fn print_loss(stats: &[LossStats], out: &mut Out) -> anyhow::Result<()> {
    for one in stats {
        let LossStats { feature, examples, without_loss, without_loss_if_cut } = one;
        writeln!(
            out,
            "\n  of the first {} {} no token of `{feature}` counts",
            counted(*examples, "example"),
            match without_loss {
                0 => "there is none of which".to_owned(),
                1 => "there is 1 of which".to_owned(),
                some => format!("there are {} of which", count(*some)),
            }
        )?;
        let cut: Vec<String> = without_loss_if_cut
            .iter()
            .filter(|(_, without)| *without > without_loss)
            .map(|(length, without)| format!("{} if cut to {length}", count(*without)))
            .collect();
        if !cut.is_empty() {
            writeln!(out, "    {}", cut.join(", "))?;
        }
    }
    Ok(())
}
