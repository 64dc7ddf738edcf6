//! Packing: cutting a window of items into rows, from lengths alone.
//!
//! ```text
//! limit 8, lengths 5 2 3 6   best_fit   ->  [1: 2] [3: 6]  |  [0: 5] [2: 3]       (rows shuffled)
//!                            greedy     ->  [0: 5] [1: 2]  |  [2: 3]  |  [3: 6]
//!                            none       ->  [0: 5]  |  [1: 2]  |  [2: 3]  |  [3: 6]
//! ```

mod best_fit;
mod free_space;
mod plan;
mod planner;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use plan::{PackCounts, Piece, Row, Span, WindowPlan};
pub use planner::WindowPlanner;

use crate::convert::ConvertError;

/// Items a window, unless one is given.
pub const DEFAULT_WINDOW: u64 = 16_384;

/// The greatest length of a row.
pub const MAX_LENGTH: usize = 1 << 24;

/// How items are put into rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Packing {
    /// The largest item first, each into the row with the least room that is enough for it; rows shuffled.
    ///
    /// With one feature over-long items are split and every token kept, with several they are trimmed.
    #[default]
    BestFit,
    /// SeqIO's trim-and-pack: in groups of as many items as the greatest limit, each item goes into the open row or
    /// opens the next one. Over-long items are trimmed.
    Greedy,
    /// An item a row. Over-long items are trimmed.
    None,
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BestFit => "best_fit",
            Self::Greedy => "greedy",
            Self::None => "none",
        })
    }
}

impl FromStr for Packing {
    type Err = ConvertError;

    fn from_str(name: &str) -> Result<Self, ConvertError> {
        match name {
            "best_fit" => Ok(Self::BestFit),
            "greedy" => Ok(Self::Greedy),
            "none" => Ok(Self::None),
            _ => Err(ConvertError::unknown("packing", name, &["best_fit", "greedy", "none"])),
        }
    }
}

/// Items a window: 16,384, but for `greedy` the largest multiple of the greatest limit up to that, or that limit.
pub fn default_window(packing: Packing, limits: &[usize]) -> u64 {
    let group = limits.iter().copied().max().unwrap_or(1).max(1) as u64;
    match packing {
        Packing::Greedy if group > DEFAULT_WINDOW => group,
        Packing::Greedy => DEFAULT_WINDOW / group * group,
        Packing::BestFit | Packing::None => DEFAULT_WINDOW,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greedy_window_is_whole_groups() {
        assert_eq!(default_window(Packing::Greedy, &[2048]), 16_384);
        assert_eq!(default_window(Packing::Greedy, &[512, 1000]), 16_000);
        assert_eq!(default_window(Packing::Greedy, &[20_000]), 20_000);
        assert_eq!(default_window(Packing::BestFit, &[512, 1000]), 16_384);
    }
}
