//! What a stream is: a checked request for one task, its fingerprint, and the same in words.
//!
//! ```text
//! task docs, split train, lengths targets 2048, converter lm, packing best_fit, window 16384, …  →  4be1…
//! ```

use std::collections::BTreeMap;

use crate::convert::{RowWriter, WindowPlanner};
use crate::dataset::config::DatasetConfig;
use crate::dataset::error::DatasetError;
use crate::dataset::order::OrderKind;
use crate::dataset::store::StoreError;
use crate::fingerprint::Fingerprint;
use crate::item::ItemSteps;
use crate::preprocess::TokenEdit;
use crate::text::quoted;

/// Counts up when the same definition comes to mean other rows.
const STREAM_VERSION: u32 = 1;

/// Words longer than this are shortened in saved states.
const LONGEST_WORDS: usize = 48;

/// What a stream needs to know of its task and data.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamTask {
    /// The task's name: part of every random key.
    pub name: String,
    /// What the data are: the cache's fingerprint and the digest of its sources, or whatever else tells data apart.
    pub data: String,
    /// The steps below the cache boundary, by feature; a feature that is not named has none.
    pub edits: BTreeMap<String, Vec<TokenEdit>>,
    /// All steps below the boundary, if they do more than edit sequences; `edits` is empty then.
    pub items: Option<ItemSteps>,
}

impl StreamTask {
    /// A task without steps below the boundary.
    pub fn new(name: impl Into<String>, data: impl Into<String>) -> Self {
        Self { name: name.into(), data: data.into(), edits: BTreeMap::new(), items: None }
    }

    /// With edits below the boundary.
    pub fn edits(self, edits: impl IntoIterator<Item = (String, Vec<TokenEdit>)>) -> Self {
        Self { edits: edits.into_iter().collect(), ..self }
    }

    /// With these steps below the boundary.
    pub fn items(self, items: ItemSteps) -> Self {
        Self { items: Some(items), edits: BTreeMap::new(), ..self }
    }
}

/// A checked request.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) task: String,
    data: String,
    pub(crate) config: DatasetConfig,
    /// The task features that rows are planned by.
    features: Vec<String>,
    /// One a feature.
    pub(crate) limits: Vec<usize>,
    /// Of the features and their loss masks, as far as the task has some.
    edits: BTreeMap<String, Vec<TokenEdit>>,
    pub(crate) items: Option<ItemSteps>,
    pub(crate) window: u64,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) words: BTreeMap<String, String>,
}

impl Stream {
    pub(crate) fn new(task: StreamTask, config: DatasetConfig) -> Result<Self, DatasetError> {
        let limits = config.check()?;
        let window = config.resolved_window(&limits);
        let features = config.converter.task_features(&config.lengths);
        let read = config.converter.read_features(&config.lengths, task.edits.keys());
        let edits: BTreeMap<&str, &[TokenEdit]> = read
            .iter()
            .map(|feature| (&**feature, task.edits.get(feature).map_or(&[][..], Vec::as_slice)))
            .collect();
        let words = words(&task, &config, window, &edits);
        let fingerprint = Fingerprint::of_json("stream", &serde_json::json!(words));
        Ok(Self {
            edits: edits.into_iter().map(|(feature, edits)| (feature.to_owned(), edits.to_vec())).collect(),
            words: words.into_iter().map(|(name, words)| (name.to_owned(), shortened(words))).collect(),
            task: task.name,
            data: task.data,
            items: task.items,
            config,
            features,
            limits,
            window,
            fingerprint,
        })
    }

    /// What the stream was made for.
    pub(crate) fn task_parts(&self) -> StreamTask {
        StreamTask {
            name: self.task.clone(),
            data: self.data.clone(),
            edits: self.edits.clone(),
            items: self.items.clone(),
        }
    }

    /// The task features read, in the order of limits and edits.
    pub(crate) fn features(&self) -> &[String] {
        &self.features
    }

    /// The task features read, and the loss masks that the task has for them.
    pub(crate) fn read_features(&self) -> Vec<String> {
        self.edits.keys().cloned().collect()
    }

    /// What writes rows of examples that have these features.
    pub(crate) fn writer(&self, features: &[String]) -> Result<RowWriter, DatasetError> {
        let Self { config, edits, .. } = self;
        RowWriter::new(config.converter.clone(), &config.lengths, config.is_packed(), features, edits)
            .map_err(|error| DatasetError::Task { task: self.task.clone(), problem: error.to_string() })
    }

    pub(crate) fn planner(&self) -> WindowPlanner {
        WindowPlanner::new(&self.limits, self.config.packing, self.config.seed, &self.task)
            .expect("limits were checked when the stream was made")
            .with_joined_features(self.config.converter.kind.resolved(&self.config.lengths).joins_features())
    }

    /// An error that says that there is nothing to stream.
    pub(crate) fn empty(&self, what: impl Into<String>) -> DatasetError {
        DatasetError::Empty { task: self.task.clone(), split: self.config.split.clone(), what: what.into() }
    }

    /// An error that says that no row will ever be filled.
    pub(crate) fn no_tokens(&self) -> DatasetError {
        self.empty(format!("example with a token in {}", quoted(self.features())))
    }

    /// An error that says that the items of a group of examples cannot be planned.
    pub(crate) fn not_planned(&self, epoch: u64, group: u64, error: StoreError) -> DatasetError {
        let (task, split) = (self.task.clone(), self.config.split.clone());
        DatasetError::Plan { task, split, place: format!("group {group} of epoch {epoch}"), error }
    }

    /// An error that says that a worker panicked.
    pub(crate) fn panicked(&self, place: String, message: String) -> DatasetError {
        DatasetError::Panicked { task: self.task.clone(), split: self.config.split.clone(), place, message }
    }
}

/// Everything that decides what the rows are, each part in words. Words are complete: equal words, equal rows.
fn words(
    task: &StreamTask,
    config: &DatasetConfig,
    window: u64,
    edits: &BTreeMap<&str, &[TokenEdit]>,
) -> BTreeMap<&'static str, String> {
    let listed = |parts: Vec<String>| parts.join(", ");
    let edits = edits.iter().filter(|(_, edits)| !edits.is_empty());
    let edits = edits.map(|(feature, edits)| format!("{feature} {}", edits_in_words(edits)));
    let steps = match &task.items {
        None => listed(edits.collect()),
        Some(items) => items.words(),
    };
    let mut words = BTreeMap::from([
        ("version", STREAM_VERSION.to_string()),
        ("task", task.name.clone()),
        ("data", task.data.clone()),
        ("split", config.split.clone()),
        ("steps", steps),
        ("lengths", listed(config.lengths.iter().map(|(name, length)| format!("{name} {length}")).collect())),
        ("converter", config.converter.resolved(&config.lengths).to_string()),
        ("packing", config.packing.to_string()),
        ("order", order_words(config.order)),
        ("epochs", config.epochs.map_or_else(|| "for ever".to_owned(), |epochs| epochs.to_string())),
    ]);
    if config.order != OrderKind::Storage || config.is_packed() || task.items.is_some() {
        words.insert("seed", config.seed.to_string());
    }
    if config.is_packed() {
        words.insert("window", window.to_string());
    }
    words
}

/// Edits as they stand in a stream's definition: `trim 9 append 1`.
pub(crate) fn edits_in_words(edits: &[TokenEdit]) -> String {
    let edits = edits.iter().map(|edit| match edit {
        TokenEdit::Trim { max_length } => format!("trim {max_length}"),
        TokenEdit::Append { id } => format!("append {id}"),
        TokenEdit::RepeatLast => "repeat_last".to_owned(),
    });
    edits.collect::<Vec<_>>().join(" ")
}

fn order_words(order: OrderKind) -> String {
    match order {
        OrderKind::Blocks { size } => format!("blocks of {size}"),
        OrderKind::Storage | OrderKind::Full => order.to_string(),
    }
}

/// Keeps saved states small: a long text keeps its head, and a hash tells it from others.
fn shortened(words: String) -> String {
    if words.len() <= LONGEST_WORDS {
        return words;
    }
    let head: String = words.chars().take(LONGEST_WORDS / 2).collect();
    format!("{head}… ({})", &blake3::hash(words.as_bytes()).to_hex()[..8])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::{Converter, Packing};

    fn stream(task: &str, config: DatasetConfig) -> Stream {
        let edits =
            [("targets".to_owned(), vec![TokenEdit::Append { id: 1 }, TokenEdit::Trim { max_length: 9 }])];
        let task = StreamTask::new(task, "cafe").edits(edits);
        Stream::new(task, config).unwrap()
    }

    fn config() -> DatasetConfig {
        DatasetConfig::new("train", Converter::Lm, [("targets", 9)])
    }

    #[test]
    fn the_definition_is_kept_in_words() {
        let words: Vec<String> =
            stream("docs", config()).words.iter().map(|(name, words)| format!("{name}: {words}")).collect();
        insta::assert_snapshot!(words.join("\n"), @r"
        converter: lm
        data: cafe
        epochs: for ever
        lengths: targets 9
        order: blocks of 4096
        packing: best_fit
        seed: 0
        split: train
        steps: targets append 1 trim 9
        task: docs
        version: 1
        window: 16384
        ");
        assert!(stream(&"x".repeat(500), config()).words["task"].len() < 60);
    }

    #[test]
    fn the_fingerprint_counts_the_definition_and_nothing_else() {
        let print = |config: DatasetConfig| stream("docs", config).fingerprint;
        let base = print(config());
        let same = [
            config().batch_size(3),
            config().host(1, 2),
            config().read_ahead(64, 2),
            config().window(16_384),
            DatasetConfig { drop_remainder: true, ..config() },
        ];
        for config in same {
            assert_eq!(print(config), base);
        }
        let others = [
            config().seed(1),
            config().epochs(1),
            config().window(5),
            config().packing(Packing::Greedy),
            config().order(OrderKind::Full),
            config().order(OrderKind::Blocks { size: 5 }),
            DatasetConfig { split: "test".to_owned(), ..config() },
            DatasetConfig::new("train", Converter::Lm, [("targets", 8)]),
        ];
        for config in others {
            assert_ne!(print(config.clone()), base, "{config:?}");
        }
        assert_ne!(stream("other", config()).fingerprint, base);
    }
}
