//! What the statistics of a cache know, a row a figure.
//!
//! ```text
//! split  feature  statistic    value
//! train  null     examples     60
//! train  targets  mean_tokens  46.3
//! ```

use std::sync::Arc;

use arrow::array::{Float64Builder, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use seqio::{QueryTable, QueryTableError, QueryTableRows};
use seqio_cache::{CacheManifest, FeatureStatistics, SplitStatistics};

/// The statistics of all splits of a cache.
#[derive(Debug)]
pub(super) struct StatisticsTable {
    rows: RecordBatch,
}

/// Its columns.
pub(super) fn columns() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("split", DataType::Utf8, false),
        Field::new("feature", DataType::Utf8, true),
        Field::new("statistic", DataType::Utf8, false),
        Field::new("value", DataType::Float64, false),
    ]))
}

impl StatisticsTable {
    /// Of the cache with this manifest.
    pub(super) fn new(manifest: &CacheManifest) -> anyhow::Result<Self> {
        let mut splits = StringBuilder::new();
        let mut features = StringBuilder::new();
        let mut statistics = StringBuilder::new();
        let mut values = Float64Builder::new();
        for (split, entry) in &manifest.splits {
            let mut add = |feature: Option<&str>, figures: Vec<(String, f64)>| {
                for (statistic, value) in figures {
                    splits.append_value(split);
                    features.append_option(feature);
                    statistics.append_value(statistic);
                    values.append_value(value);
                }
            };
            add(None, of_split(&entry.statistics));
            for (name, feature) in &entry.statistics.features {
                add(Some(name), of_feature(feature));
            }
        }
        let columns: Vec<arrow::array::ArrayRef> = vec![
            Arc::new(splits.finish()),
            Arc::new(features.finish()),
            Arc::new(statistics.finish()),
            Arc::new(values.finish()),
        ];
        Ok(Self { rows: RecordBatch::try_new(self::columns(), columns)? })
    }
}

fn of_split(statistics: &SplitStatistics) -> Vec<(String, f64)> {
    let mut figures = vec![
        ("examples".to_owned(), statistics.examples as f64),
        ("records".to_owned(), statistics.records as f64),
        ("bad_rows".to_owned(), statistics.bad_rows.count as f64),
        ("bytes".to_owned(), statistics.bytes as f64),
        ("file_bytes".to_owned(), statistics.file_bytes as f64),
    ];
    let dropped = statistics.dropped.iter();
    figures.extend(dropped.map(|step| (format!("dropped_by_step_{}", step.step), step.examples as f64)));
    figures
}

fn of_feature(feature: &FeatureStatistics) -> Vec<(String, f64)> {
    let mut figures = vec![
        ("tokens".to_owned(), feature.tokens as f64),
        ("min_tokens".to_owned(), f64::from(feature.min_tokens)),
        ("max_tokens".to_owned(), f64::from(feature.max_tokens)),
        ("mean_tokens".to_owned(), feature.mean_tokens),
        ("empty".to_owned(), feature.empty as f64),
        ("unknown_tokens".to_owned(), feature.unknown_tokens as f64),
        ("special_spellings".to_owned(), feature.special_spellings as f64),
        ("bytes".to_owned(), feature.bytes as f64),
    ];
    let percentiles = feature.percentiles.iter();
    figures.extend(percentiles.map(|(name, length)| (format!("{name}_tokens"), f64::from(*length))));
    let buckets = feature.length_histogram.iter();
    figures.extend(buckets.map(|bucket| {
        let name = format!("examples_of_{}_to_{}_tokens", bucket.from, bucket.below.saturating_sub(1));
        (name, bucket.examples as f64)
    }));
    figures
}

impl QueryTable for StatisticsTable {
    fn columns(&self) -> SchemaRef {
        columns()
    }

    fn read(&self, columns: &[usize]) -> Result<QueryTableRows, QueryTableError> {
        Ok(Box::new(std::iter::once(Ok(self.rows.project(columns)?))))
    }
}
