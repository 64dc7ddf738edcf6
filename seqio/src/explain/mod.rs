//! The path of a definition from source to features, before any data is read: what stands above the cache boundary and
//! what below, the columns after each stage, what a run has to say, and what looks like an oversight.
//!
//! ```text
//! 1  rekey                targets: string
//! 2  tokenize             targets: tokens
//! ── cache ──
//! 3  append_eos           targets: then EOS (1)
//! ```

mod print;
mod warnings;

use std::collections::BTreeMap;

use arrow::datatypes::Schema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::feature::FeatureLengths;
use crate::preprocess::{Step, TokenEdit, token_type, type_name};
use crate::source::{ColumnSpec, Interleave, OnBadRow, SourceFormat, TableSpec};
use crate::task::Task;

/// The path of a task, printed by [`Display`](std::fmt::Display) and serialized for programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The task.
    pub task: String,
    /// Where raw examples come from.
    pub source: SourceExplanation,
    /// The steps and the boundary, in order.
    pub stages: Vec<Stage>,
    /// What comes out.
    pub features: Vec<FeatureExplanation>,
    /// Features whose lengths the steps below the boundary ask the run for.
    pub lengths_asked_for: Vec<String>,
    /// What looks like an oversight.
    pub warnings: Vec<String>,
}

/// Where raw examples come from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SourceExplanation {
    /// The name that enters example ids.
    pub name: String,
    /// What the files are.
    pub format: SourceFormat,
    /// What a record that cannot be read does.
    pub on_bad_row: OnBadRow,
    /// How often a split is read: once more for each step that compares all its examples.
    pub reads: usize,
    /// Its splits.
    pub splits: Vec<SplitExplanation>,
    /// Its columns; none if the task came from a cache.
    pub columns: Vec<Column>,
    /// How the files of a split take turns, if they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interleave: Option<Interleave>,
    /// Of a query: the columns that order rows and identify them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub key: Vec<String>,
    /// Of a query: its tables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<TableExplanation>,
}

/// A table of a query.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableExplanation {
    /// Its name.
    pub name: String,
    /// What its files are.
    pub format: SourceFormat,
    /// The patterns of its files.
    pub patterns: Vec<String>,
    /// The declared columns; none if they are inferred.
    pub columns: BTreeMap<String, ColumnSpec>,
}

/// A split of a source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SplitExplanation {
    /// Its name.
    pub name: String,
    /// The patterns of its files.
    pub patterns: Vec<String>,
    /// How many files match, if they can be listed.
    pub files: Option<usize>,
    /// Their size, if they can be listed.
    pub bytes: Option<u64>,
    /// Whether its cache is stored shuffled.
    pub shuffled: bool,
}

/// A column after a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type in words: `string`, `tokens`.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Whether it may hold nulls.
    pub nullable: bool,
}

/// Where a stage stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StagePlace {
    /// It runs once, into the cache.
    Above,
    /// The boundary.
    Cache,
    /// It runs every epoch.
    Below,
}

/// A step, or the boundary.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stage {
    /// Its number among the definition's steps, from 1; `None` for an implied boundary.
    pub number: Option<usize>,
    /// The step's name; `cache` for the boundary.
    pub op: String,
    /// Its settings.
    pub settings: Map<String, Value>,
    /// Where it stands.
    pub place: StagePlace,
    /// The columns after it, where they are known: above the boundary and at it.
    pub columns: Vec<Column>,
    /// What a step below the boundary does to each feature.
    pub edits: BTreeMap<String, Vec<TokenEdit>>,
    /// What a step below the boundary does that is more than an edit, or what it lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub does: Option<String>,
    /// Whether it compares all examples of a split, which is read once more for it.
    pub whole_split: bool,
    /// Features whose length the step would need, but neither the task nor the run gives.
    pub lengths_missing: Vec<String>,
}

/// A feature that comes out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FeatureExplanation {
    /// Its name.
    pub name: String,
    /// The name of its vocabulary.
    pub vocabulary: String,
    /// The kind of its vocabulary.
    pub kind: String,
    /// Number of ids.
    pub vocab_size: usize,
    /// Whether steps that append EOS do so.
    pub add_eos: bool,
    /// The EOS id, if the vocabulary has one.
    pub eos: Option<i32>,
    /// Whether the examples must have it.
    pub required: bool,
    /// Whether they have it.
    pub present: bool,
}

/// The path of `task` in a run with these lengths.
pub fn explain(task: &Task, lengths: &FeatureLengths) -> Explanation {
    let mut explanation = Explanation {
        task: task.name().to_owned(),
        source: source(task),
        stages: stages(task, lengths),
        features: features(task),
        lengths_asked_for: task.lengths_asked_for(),
        warnings: Vec::new(),
    };
    explanation.warnings = warnings::warnings(task, &explanation);
    explanation
}

fn source(task: &Task) -> SourceExplanation {
    let spec = &task.spec().source;
    let split = |(name, patterns): (&String, &Vec<String>)| {
        let mut files = task.source().files(name).ok();
        if let Some(files) = &mut files {
            files.retain(|file| !task.source().is_result(file));
        }
        SplitExplanation {
            name: name.clone(),
            patterns: patterns.clone(),
            files: files.as_ref().map(Vec::len),
            bytes: files.map(|files| files.iter().map(|file| file.bytes).sum()),
            shuffled: task.is_shuffled(name),
        }
    };
    SourceExplanation {
        name: task.source().name().to_owned(),
        format: spec.format,
        on_bad_row: spec.on_bad_row,
        reads: task.whole_split_steps().len() + 1,
        splits: spec.splits.iter().map(split).collect(),
        columns: task.schemas().first().map(|schema| columns(schema)).unwrap_or_default(),
        interleave: spec.interleave,
        key: spec.key.clone(),
        tables: spec.tables.iter().map(table).collect(),
    }
}

fn table((name, table): (&String, &TableSpec)) -> TableExplanation {
    TableExplanation {
        name: name.clone(),
        format: table.format(),
        patterns: table.patterns().to_vec(),
        columns: table.columns().clone(),
    }
}

fn stages(task: &Task, lengths: &FeatureLengths) -> Vec<Stage> {
    let boundary = task.boundary();
    let whole_split: Vec<usize> = task.whole_split_steps().iter().map(|step| step.number).collect();
    let mut schemas = task.schemas().iter().skip(1);
    let mut stages = Vec::new();
    for (index, step) in task.spec().steps.iter().enumerate() {
        if index == boundary.above {
            stages.push(boundary_stage(task));
        }
        if *step == Step::Cache {
            continue;
        }
        let below = index >= boundary.above;
        let (edits, lengths_missing) = if below { task.edits_of(index, lengths) } else { Default::default() };
        let schema = if below { None } else { schemas.next() };
        stages.push(Stage {
            number: Some(index + 1),
            op: step.op().to_owned(),
            settings: step.settings(),
            place: if below { StagePlace::Below } else { StagePlace::Above },
            columns: schema.map(|schema| columns(schema)).unwrap_or_default(),
            edits,
            does: task.item_words(index, lengths).filter(|_| below),
            whole_split: whole_split.contains(&(index + 1)),
            lengths_missing,
        });
    }
    if boundary.above >= task.spec().steps.len() {
        stages.push(boundary_stage(task));
    }
    stages
}

fn boundary_stage(task: &Task) -> Stage {
    let boundary = task.boundary();
    Stage {
        number: boundary.explicit.then_some(boundary.above + 1),
        op: "cache".to_owned(),
        settings: Map::new(),
        place: StagePlace::Cache,
        columns: columns(task.cached_schema()),
        edits: BTreeMap::new(),
        does: None,
        whole_split: false,
        lengths_missing: Vec::new(),
    }
}

fn features(task: &Task) -> Vec<FeatureExplanation> {
    let feature = |(name, feature): (&String, &crate::feature::Feature)| FeatureExplanation {
        name: name.clone(),
        vocabulary: feature.vocabulary_name.clone(),
        kind: feature.vocabulary.kind().to_owned(),
        vocab_size: feature.vocabulary.vocab_size(),
        add_eos: feature.add_eos,
        eos: feature.vocabulary.special_ids().eos,
        required: feature.required,
        present: task.features().contains_key(name),
    };
    task.defined_features().iter().map(feature).collect()
}

fn columns(schema: &Schema) -> Vec<Column> {
    let column = |field: &arrow::datatypes::FieldRef| Column {
        name: field.name().clone(),
        type_name: match field.data_type() {
            tokens if *tokens == token_type() => "tokens".to_owned(),
            other => type_name(other),
        },
        nullable: field.is_nullable(),
    };
    schema.fields().iter().map(column).collect()
}

#[cfg(test)]
mod tests;
