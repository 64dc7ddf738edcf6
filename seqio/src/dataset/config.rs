//! What a caller chooses: which examples, in which order, in which shape, and on which part of which hosts.
//!
//! ```text
//! DatasetConfig::new("train", Converter::Lm, [("targets", 2048)]).batch_size(64).seed(7)
//! ```

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::convert::{Conversion, Packing, default_window};
use crate::dataset::batch_sizes::BatchSizes;
use crate::dataset::error::DatasetError;
use crate::dataset::order::OrderKind;
use crate::feature::FeatureLengths;

/// Windows of more items than this are refused: a window is planned in memory.
const MAX_WINDOW: u64 = 1 << 24;

/// One request for a stream of batches.
///
/// The first part decides what the stream is and enters its fingerprint; the second only decides how it is cut and
/// delivered, and may differ from run to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetConfig {
    /// The split, with its slice if it has one.
    pub split: String,
    /// Greatest length of each feature that the converter reads.
    pub lengths: FeatureLengths,
    /// What kind of model the rows are for: a name, or a table with settings.
    pub converter: Conversion,
    /// How items are put into rows.
    #[serde(default)]
    pub packing: Packing,
    /// Items a window; `None` is the default of the packing.
    #[serde(default)]
    pub window: Option<u64>,
    /// How an epoch is ordered.
    #[serde(default)]
    pub order: OrderKind,
    /// Decides the order.
    #[serde(default)]
    pub seed: u64,
    /// How often the examples are repeated; `None` is for ever.
    #[serde(default)]
    pub epochs: Option<u64>,

    /// Rows a step, over all hosts.
    pub batch_sizes: BatchSizes,
    /// Leaves out rows at the end that do not fill a batch, instead of filling it up with empty rows.
    #[serde(default)]
    pub drop_remainder: bool,
    /// Which rows of each batch are wanted.
    #[serde(default)]
    pub host: Host,
    /// Batches made ahead of the consumer; 0 makes them on the consumer's thread.
    #[serde(default = "default_read_ahead")]
    pub read_ahead: usize,
    /// Worker threads; `None` is one a core.
    #[serde(default)]
    pub threads: Option<usize>,
}

fn default_read_ahead() -> usize {
    8
}

/// Host `index` of `count`: it gets the rows `index * B / count .. (index + 1) * B / count` of every batch of B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Counted from 0.
    pub index: u64,
    /// Hosts there are.
    pub count: u64,
}

impl Default for Host {
    fn default() -> Self {
        Self { index: 0, count: 1 }
    }
}

impl Host {
    /// The rows of a batch of `batch_size` that are this host's.
    pub fn rows(self, batch_size: u64) -> std::ops::Range<u64> {
        let border = |host: u64| (u128::from(host) * u128::from(batch_size) / u128::from(self.count)) as u64;
        border(self.index)..border(self.index + 1)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Host {
    type Err = DatasetError;

    fn from_str(text: &str) -> Result<Self, DatasetError> {
        let numbers =
            text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        let (index, count) = numbers.ok_or_else(|| DatasetError::Setting {
            setting: "host",
            problem: format!("`{text}` is not of the form `h/H`, as `0/2` for the first of two hosts"),
        })?;
        let host = Self { index, count };
        host.check().map(|()| host)
    }
}

impl Host {
    fn check(self) -> Result<(), DatasetError> {
        let problem = match self {
            Self { count: 0, .. } => "there must be at least 1 host".to_owned(),
            Self { index, count } if index >= count => {
                format!("there is no host {index} of {count}; they are counted from 0 to {}", count - 1)
            }
            _ => return Ok(()),
        };
        Err(DatasetError::Setting { setting: "host", problem })
    }
}

impl DatasetConfig {
    /// A request with the defaults: packed by `best_fit`, shuffled, for ever, batches of 8 rows.
    pub fn new<'a>(
        split: &str,
        converter: impl Into<Conversion>,
        lengths: impl IntoIterator<Item = (&'a str, usize)>,
    ) -> Self {
        Self {
            split: split.to_owned(),
            lengths: lengths.into_iter().map(|(feature, length)| (feature.to_owned(), length)).collect(),
            converter: converter.into(),
            packing: Packing::default(),
            window: None,
            order: OrderKind::default(),
            seed: 0,
            epochs: None,
            batch_sizes: BatchSizes::constant(8),
            drop_remainder: false,
            host: Host::default(),
            read_ahead: default_read_ahead(),
            threads: None,
        }
    }

    /// The same size for every batch.
    pub fn batch_size(mut self, batch_size: u64) -> Self {
        self.batch_sizes = BatchSizes::constant(batch_size);
        self
    }

    /// How items are put into rows.
    pub fn packing(mut self, packing: Packing) -> Self {
        self.packing = packing;
        self
    }

    /// Items a window.
    pub fn window(mut self, window: u64) -> Self {
        self.window = Some(window);
        self
    }

    /// How an epoch is ordered.
    pub fn order(mut self, order: OrderKind) -> Self {
        self.order = order;
        self
    }

    /// What decides the order.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Ends after so many epochs.
    pub fn epochs(mut self, epochs: u64) -> Self {
        self.epochs = Some(epochs);
        self
    }

    /// Host `index` of `count`.
    pub fn host(mut self, index: u64, count: u64) -> Self {
        self.host = Host { index, count };
        self
    }

    /// Batches made ahead, and threads to make them.
    pub fn read_ahead(mut self, batches: usize, threads: usize) -> Self {
        (self.read_ahead, self.threads) = (batches, Some(threads));
        self
    }

    /// Whether rows hold several items.
    pub fn is_packed(&self) -> bool {
        self.packing != Packing::None
    }

    /// Items a window, with the default resolved.
    pub(crate) fn resolved_window(&self, limits: &[usize]) -> u64 {
        let rows = self.converter.row_lengths(&self.lengths, limits);
        self.window.unwrap_or_else(|| default_window(self.packing, &rows))
    }

    /// Says what is wrong with the request, before anything is read.
    pub fn validate(&self) -> Result<(), DatasetError> {
        self.check().map(drop)
    }

    /// [`Self::validate`]. Returns the limits, in the converter's order.
    pub(crate) fn check(&self) -> Result<Vec<usize>, DatasetError> {
        let limits = self.converter.limits(&self.lengths)?;
        self.converter.check_packing(self.is_packed())?;
        self.batch_sizes.check()?;
        self.host.check()?;
        let refused = |setting, problem| Err(DatasetError::Setting { setting, problem });
        let window = self.resolved_window(&limits);
        let rows = self.converter.row_lengths(&self.lengths, &limits);
        let group = rows.iter().copied().max().unwrap_or(1) as u64;
        if window == 0 || window > MAX_WINDOW {
            return refused("window", format!("the window is {window}; it must be from 1 to {MAX_WINDOW}"));
        }
        if self.packing == Packing::Greedy && !window.is_multiple_of(group) {
            let below = (window / group).max(1) * group;
            return refused(
                "window",
                format!(
                    "greedy packing works on groups of {group} items, the greatest length, so the window must be a \
                     multiple of it, as {below}; it is {window}"
                ),
            );
        }
        if self.epochs == Some(0) {
            return refused("epochs", "there must be at least 1 epoch".to_owned());
        }
        if matches!(self.order, OrderKind::Blocks { size: 0 }) {
            return refused("block", "a block must hold at least 1 example".to_owned());
        }
        if self.threads == Some(0) {
            return refused("threads", "there must be at least 1 thread".to_owned());
        }
        Ok(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::Converter;

    fn config() -> DatasetConfig {
        DatasetConfig::new("train", Converter::Lm, [("targets", 100)])
    }

    #[test]
    fn senseless_requests_are_refused_in_words() {
        let problem = |config: DatasetConfig| config.check().unwrap_err().to_string();
        assert_eq!(config().check().unwrap(), [100]);
        assert_eq!(
            problem(config().batch_size(0)),
            "`batch_size`: the batch size from step 0 on is 0; it must be at least 1"
        );
        assert_eq!(
            problem(config().host(2, 2)),
            "`host`: there is no host 2 of 2; they are counted from 0 to 1"
        );
        assert_eq!(problem(config().host(0, 0)), "`host`: there must be at least 1 host");
        assert_eq!(problem(config().window(0)), "`window`: the window is 0; it must be from 1 to 16777216");
        assert_eq!(
            problem(config().packing(Packing::Greedy).window(250)),
            "`window`: greedy packing works on groups of 100 items, the greatest length, so the window must be a \
             multiple of it, as 200; it is 250"
        );
        assert_eq!(problem(config().epochs(0)), "`epochs`: there must be at least 1 epoch");
        assert_eq!(problem(config().read_ahead(1, 0)), "`threads`: there must be at least 1 thread");
        let no_length = DatasetConfig::new("train", Converter::EncDec, [("targets", 100)]);
        assert!(problem(no_length).contains("needs a length for feature `inputs`"));
    }

    #[test]
    fn hosts_share_every_batch_without_gap_or_overlap() {
        for batch_size in 0..20 {
            for count in 1..6 {
                let rows = (0..count).flat_map(|index| Host { index, count }.rows(batch_size));
                assert!(rows.eq(0..batch_size));
            }
        }
    }

    #[test]
    fn a_host_is_written_as_a_fraction() {
        assert_eq!("1/3".parse::<Host>().unwrap(), Host { index: 1, count: 3 });
        assert!("3/3".parse::<Host>().is_err());
        let error = "two".parse::<Host>().unwrap_err().to_string();
        assert_eq!(error, "`host`: `two` is not of the form `h/H`, as `0/2` for the first of two hosts");
    }
}
