//! A task with all that a cache must hold to be used without task file and sources; and what of it a cache stands on.
//!
//! # The cache fingerprint
//!
//! blake3 over the canonical JSON of what decides the bytes of a cache besides the source's data:
//!
//! - the format version of the cache;
//! - of the source: its name (it enters example ids), kind, columns (declared or inferred), `on_bad_row`, of CSV and TSV
//!   the dialect, of text the lines that are skipped at the head of files; how files take turns, if they do; of a query its text, its key, and the kinds, dialects and declared columns of its tables;
//! - the steps above the boundary, in order, each with its settings and its version; of SQL neither blanks nor comments
//!   that make no difference; and the hash of the exemplars that it shows;
//! - of each feature: its name, its vocabulary (settings and the hash of the file), whether it is required, and, if a
//!   step above appends EOS, `add_eos`;
//! - the task's own `lengths`, if a step above depends on them;
//! - `cache_seed`, and the splits that are stored shuffled.
//!
//! Not in it, so that changing it keeps a cache valid:
//!
//! - the steps below the boundary, and everything else that only they read;
//! - the seed, lengths and other settings of a run;
//! - names of vocabularies, and the paths of vocabularies and sources (what the files hold is hashed instead, for
//!   sources by the cache);
//! - the task's name: it names the folder. Unless the source has a `name` of its own it takes the task's, so that a
//!   renamed task has other example ids and another cache.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::feature::FeatureLengths;
use crate::fingerprint::Fingerprint;
use crate::preprocess::{CustomSteps, Preprocessor, StepContext, TokenEdit};
use crate::source::{ColumnSpec, SourceFormat, TableSpec};
use crate::task::{FeatureSpec, OpenVocabulary, Task, TaskSpec};
use crate::vocabulary::VocabularySpec;

/// A task as a cache's manifest holds it. With the vocabularies' files it gives back the [`Task`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The task's name.
    pub task: String,
    /// The task as it was defined.
    pub spec: TaskSpec,
    /// The vocabularies that its features use, by name.
    pub vocabularies: BTreeMap<String, VocabularyDefinition>,
    /// The columns of the source, as they were declared or inferred; none for lines of text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub source_columns: BTreeMap<String, ColumnSpec>,
    /// The version of each entry of `spec.steps`; 0 for the boundary.
    pub step_versions: Vec<u32>,
    /// The hashes of the exemplars that steps show, by the place of the step in `spec.steps`, from 0.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub exemplars: BTreeMap<usize, Fingerprint>,
    /// The columns at the boundary, as they are cached.
    pub columns: Vec<ColumnDefinition>,
}

/// A vocabulary in a [`Definition`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VocabularyDefinition {
    /// Kind and settings; its path says where the file once was.
    pub spec: VocabularySpec,
    /// The hash of the file, if the kind has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blake3: Option<Fingerprint>,
}

/// A column in a [`Definition`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnDefinition {
    /// Its name.
    pub name: String,
    /// Its Arrow type, as Arrow prints it: `Utf8`, `List(Int32)`.
    #[serde(rename = "type")]
    pub data_type: String,
    /// Whether it may hold nulls.
    pub nullable: bool,
}

impl Definition {
    /// The columns as a schema.
    pub(crate) fn schema(&self) -> Result<SchemaRef, String> {
        let field = |column: &ColumnDefinition| {
            let data_type: DataType = column.data_type.parse().map_err(|_| {
                format!("column `{}` has the unknown type `{}`", column.name, column.data_type)
            })?;
            Ok(Field::new(&column.name, data_type, column.nullable))
        };
        let fields: Vec<Field> = self.columns.iter().map(field).collect::<Result<_, String>>()?;
        Ok(Schema::new(fields).into())
    }
}

impl Task {
    /// The task with all that is needed to make it again.
    pub fn definition(&self) -> Definition {
        let column = |field: &FieldRef| ColumnDefinition {
            name: field.name().clone(),
            data_type: field.data_type().to_string(),
            nullable: field.is_nullable(),
        };
        let vocabulary = |(name, vocabulary): (&String, &Arc<OpenVocabulary>)| {
            let definition =
                VocabularyDefinition { spec: vocabulary.spec.clone(), blake3: vocabulary.blake3 };
            (name.clone(), definition)
        };
        Definition {
            task: self.name.clone(),
            spec: self.spec.clone(),
            vocabularies: self.vocabularies.iter().map(vocabulary).collect(),
            source_columns: self.source_columns.clone(),
            step_versions: self.step_versions.clone(),
            exemplars: self.exemplars.clone(),
            columns: self.cached_schema.fields().iter().map(column).collect(),
        }
    }

    /// The hash of what stands above the cache boundary; see the list at the head of this file.
    pub fn cache_fingerprint(&self, format_version: u32) -> Fingerprint {
        Fingerprint::of_json("seqio cache", &self.cache_definition(format_version))
    }

    /// What the cache fingerprint is the hash of: for telling a person in which part two caches differ.
    pub fn cache_definition(&self, format_version: u32) -> Value {
        let above = &self.spec.steps[..self.boundary.above];
        let steps = above.iter().zip(&self.step_versions).enumerate().map(|(place, (step, version))| {
            let mut entry = step.canonical_settings();
            if let Some(shown) = self.exemplars.get(&place) {
                entry.insert("shown".to_owned(), json!(shown));
            }
            entry.insert("op".to_owned(), step.op().into());
            entry.insert("version".to_owned(), (*version).into());
            Value::Object(entry)
        });
        json!({
            "format_version": format_version,
            "source": self.canonical_source(),
            "steps": steps.collect::<Vec<_>>(),
            "features": self.canonical_features(),
            "lengths": self.lengths_above(),
            "cache_seed": self.spec.cache_seed,
            "shuffle": self.spec.shuffled_splits(),
        })
    }

    /// Without files: their contents are what the cache's source digest is made of.
    fn canonical_source(&self) -> Value {
        let source = &self.spec.source;
        let mut canonical = json!({
            "name": source.name.as_deref().unwrap_or(&self.name),
            "format": source.format,
            "columns": self.source_columns,
            "on_bad_row": source.on_bad_row,
        });
        if source.skip_header_lines > 0 {
            canonical["skip_header_lines"] = source.skip_header_lines.into();
        }
        if let Some(interleave) = source.interleave {
            canonical["interleave"] = json!(interleave);
        }
        // With its defaults, so that it is the same whether they are written or not.
        if let (SourceFormat::Csv | SourceFormat::Tsv, Ok(dialect)) = (source.format, source.csv_dialect()) {
            canonical["dialect"] = json!(dialect);
        }
        if source.format == SourceFormat::Sql {
            // Columns of tables that are not declared follow from the files, as their content does.
            let table = |(name, table): (&String, &TableSpec)| {
                let mut entry = json!({ "format": table.format(), "columns": table.columns() });
                if let Some(dialect) = table.csv_dialect() {
                    entry["dialect"] = json!(dialect);
                }
                (name.clone(), entry)
            };
            let queries = source.splits.iter().map(|(split, query)| (split.clone(), query.concat().into()));
            canonical["sql"] = Value::Object(queries.collect());
            canonical["key"] = json!(source.key);
            canonical["tables"] = Value::Object(source.tables.iter().map(table).collect());
        }
        canonical
    }

    fn canonical_features(&self) -> Map<String, Value> {
        let mut ctx = self.ctx.clone();
        ctx.output_features.values_mut().for_each(|feature| feature.add_eos = true);
        let canonical = |(name, feature): (&String, &FeatureSpec)| {
            let vocabulary = self.vocabularies.get(&feature.vocabulary);
            let settings: Option<Value> =
                vocabulary.and_then(|vocabulary| serde_json::from_str(&vocabulary.spec.canonical()).ok());
            let mut entry = json!({
                "vocabulary": settings,
                "vocabulary_file": vocabulary.and_then(|vocabulary| vocabulary.blake3),
                "required": feature.required,
            });
            if self.any_step_above(|step| appends(step, name, &ctx)) {
                entry["add_eos"] = feature.add_eos.into();
            }
            (name.clone(), entry)
        };
        let stored = |name: &String| self.above_ctx.output_features.contains_key(name);
        self.spec.features.iter().filter(|(name, _)| stored(name)).map(canonical).collect()
    }

    /// The task's own lengths that a step above depends on.
    fn lengths_above(&self) -> FeatureLengths {
        let mut lengths = self.spec.lengths.clone();
        lengths.retain(|name, _| self.any_step_above(|step| step.length_dependent(&self.ctx).contains(name)));
        lengths
    }

    /// Whether the answer is yes for a step above the boundary. A program's own step may read anything.
    fn any_step_above(&self, ask: impl Fn(&dyn Preprocessor) -> bool) -> bool {
        let known = CustomSteps::new();
        self.spec.steps[..self.boundary.above].iter().any(|step| match step.preprocessor(&known) {
            Ok(Some(step)) => ask(step.as_ref()),
            Ok(None) => false,
            Err(_) => true,
        })
    }
}

fn appends(step: &dyn Preprocessor, feature: &str, ctx: &StepContext) -> bool {
    let edits = step.token_edits(feature, ctx).unwrap_or_default();
    edits.iter().any(|edit| matches!(edit, TokenEdit::Append { .. }))
}
