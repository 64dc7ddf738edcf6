//! `[data]`: which batches a run learns from; the options of `seqio stream`.

use std::path::PathBuf;

use seqio::{
    BatchSizes, Conversion, Converter, DEFAULT_BLOCK, DatasetConfig, FeatureLengths, OrderKind, Packing,
};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::Architecture;

/// Which batches a run learns from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataConfig {
    /// The task.
    pub task: String,
    /// Its split, perhaps with a slice.
    #[serde(default = "train")]
    pub split: String,
    /// Task files that define it.
    #[serde(default)]
    pub files: Vec<PathBuf>,
    /// Where caches are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_dir: Option<PathBuf>,
    /// The folder of one cache, which needs neither task files nor sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<PathBuf>,
    /// Greatest length of each feature.
    pub lengths: FeatureLengths,
    /// The converter, with its settings; the default is that of the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub converter: Option<Conversion>,
    /// Rows a batch.
    pub batch_size: u64,
    /// Decides the order.
    #[serde(default)]
    pub seed: u64,
    /// How examples share rows.
    #[serde(default)]
    pub pack: Packing,
    /// Examples planned together; the default is that of the packing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// The order of an epoch.
    #[serde(default)]
    pub order: OrderName,
    /// Examples a block, of the order `blocks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u64>,
    /// How often to go through the examples.
    #[serde(default)]
    pub epochs: Epochs,
    /// Leaves out the last batch if it is not full.
    #[serde(default = "yes")]
    pub drop_remainder: bool,
    /// Batches prepared ahead.
    #[serde(default = "read_ahead")]
    pub read_ahead: usize,
}

fn train() -> String {
    "train".to_owned()
}

fn yes() -> bool {
    true
}

fn read_ahead() -> usize {
    8
}

/// How an epoch is ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderName {
    /// Shuffled blocks, shuffled inside.
    #[default]
    Blocks,
    /// Shuffled throughout.
    Full,
    /// As stored.
    Storage,
}

/// How often the examples are gone through; `None` is without end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epochs(pub Option<u64>);

impl Serialize for Epochs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(epochs) => serializer.serialize_u64(epochs),
            None => serializer.serialize_str("endless"),
        }
    }
}

impl<'de> Deserialize<'de> for Epochs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EpochsVisitor)
    }
}

struct EpochsVisitor;

impl Visitor<'_> for EpochsVisitor {
    type Value = Epochs;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a whole number, 1 or more, or `\"endless\"`")
    }

    fn visit_u64<E: Error>(self, epochs: u64) -> Result<Epochs, E> {
        match epochs {
            0 => Err(E::invalid_value(Unexpected::Unsigned(0), &self)),
            epochs => Ok(Epochs(Some(epochs))),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Epochs, E> {
        match text {
            "endless" => Ok(Epochs(None)),
            text => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }
}

/// The converters whose rows a network reads, its own first.
pub(super) fn converters(architecture: Architecture) -> &'static [&'static str] {
    match architecture {
        Architecture::EncoderDecoder => &["enc_dec", "prepacked_enc_dec"],
        Architecture::DecoderOnly => {
            &["lm", "prefix_lm", "prefix_suffix_lm", "decoder", "prepacked_lm", "prepacked_prefix_lm"]
        }
    }
}

impl DataConfig {
    /// The converter asked for, or that of a network of this kind.
    pub fn converter(&self, architecture: Architecture) -> Conversion {
        let own = match architecture {
            Architecture::EncoderDecoder => Converter::EncDec,
            Architecture::DecoderOnly => Converter::Lm,
        };
        self.converter.clone().unwrap_or_else(|| own.into())
    }

    /// Whether rows hold several examples.
    pub fn is_packed(&self) -> bool {
        self.pack != Packing::None
    }

    /// The request for these batches, for a network of this kind.
    pub fn dataset(&self, architecture: Architecture, threads: Option<usize>) -> DatasetConfig {
        let mut config = DatasetConfig::new(&self.split, self.converter(architecture), []);
        config.lengths = self.lengths.clone();
        config.packing = self.pack;
        config.window = self.window;
        config.order = match self.order {
            OrderName::Blocks => OrderKind::Blocks { size: self.block.unwrap_or(DEFAULT_BLOCK) },
            OrderName::Full => OrderKind::Full,
            OrderName::Storage => OrderKind::Storage,
        };
        config.seed = self.seed;
        config.epochs = self.epochs.0;
        config.batch_sizes = BatchSizes::constant(self.batch_size);
        config.drop_remainder = self.drop_remainder;
        config.read_ahead = self.read_ahead;
        config.threads = threads;
        config
    }

    /// The request for the first batches of another task or split, the same on every visit.
    pub fn evaluation(
        &self,
        split: &str,
        architecture: Architecture,
        threads: Option<usize>,
    ) -> DatasetConfig {
        let mut config = self.dataset(architecture, threads);
        config.split = split.to_owned();
        (config.order, config.seed) = (OrderKind::Storage, 0);
        // One epoch: where there are fewer batches than asked for, no example counts twice.
        (config.epochs, config.drop_remainder) = (Some(1), false);
        config
    }
}
