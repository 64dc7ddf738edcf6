//! From a spec to a [`Task`]: the steps are made, the boundary is placed, and the columns are followed from the source
//! to the features, before a single example is read.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};

use crate::error::DefinitionError;
use crate::feature::{Feature, Features};
use crate::fingerprint::Fingerprint;
use crate::locate::{Locator, Part};
use crate::preprocess::{CustomSteps, PreprocessError, Step, StepContext, column_names, type_name};
use crate::rng::StepRandom;
use crate::source::DataSource;
use crate::task::absent::AbsentSource;
use crate::task::{OpenVocabulary, PlacedStep, SourceColumns, Task, TaskSpec, boundary, exemplars};
use crate::text::{nearest, quoted};

/// What a task is made from.
pub(crate) struct BuildRequest<'a> {
    pub(crate) name: &'a str,
    pub(crate) spec: &'a TaskSpec,
    /// Those its features use, open.
    pub(crate) vocabularies: BTreeMap<String, Arc<OpenVocabulary>>,
    pub(crate) columns: Columns,
    pub(crate) custom: &'a CustomSteps,
    pub(crate) locator: &'a Locator,
}

/// Where the columns are known from.
pub(crate) enum Columns {
    /// The source's, declared or inferred: the steps above the boundary can run.
    Source { source: Arc<dyn DataSource>, columns: SourceColumns },
    /// Those that a cache holds at the boundary; with the columns of the source that it was made from, and the versions
    /// of its steps, if these count and not the program's.
    Cached {
        schema: SchemaRef,
        columns: SourceColumns,
        step_versions: Option<Vec<u32>>,
        /// The hashes of the exemplars that were shown when it was made.
        exemplars: BTreeMap<usize, Fingerprint>,
    },
}

/// Builds the task or tells everything that is wrong with it.
pub(crate) fn build(request: BuildRequest<'_>) -> Result<Task, Vec<DefinitionError>> {
    let BuildRequest { name, spec, vocabularies, columns, custom, locator } = request;
    let mut report = Report { name, spec, locator, errors: Vec::new() };
    let features = open_features(spec, &vocabularies);
    let ctx =
        StepContext { output_features: features, lengths: spec.lengths.clone(), ..StepContext::default() };
    let random = |index: usize| {
        let op = spec.steps[index].op();
        let before = spec.steps[..index].iter().filter(|step| step.op() == op).count() as u64;
        StepRandom::new(op, spec.cache_seed, spec.source.name.as_deref().unwrap_or(name), before)
    };

    let mut steps = Vec::new();
    let mut complete = true;
    for (index, step) in spec.steps.iter().enumerate() {
        match step.preprocessor(custom) {
            Ok(Some(step)) => steps.push(PlacedStep { index, step, random: random(index), exemplars: None }),
            Ok(None) => {}
            Err(problem) => {
                // A cache is used without the program's own steps above its boundary.
                complete = false;
                if matches!(columns, Columns::Source { .. }) {
                    let error = DefinitionError::new(problem).at(locator.step(index));
                    report.in_step(index, error);
                }
            }
        }
    }
    let (boundary, misplaced) = boundary::place(&spec.steps, &steps, &ctx);
    for step in misplaced {
        let error = DefinitionError::new(step.problem).hint(step.hint).at(locator.step(step.index));
        report.in_step(step.index, error);
    }
    let (mut above, below): (Vec<_>, Vec<_>) =
        steps.into_iter().partition(|step| step.index < boundary.above);
    let made: Vec<String> = below.iter().flat_map(|placed| placed.step.makes(&ctx)).collect();
    let mut above_ctx = ctx.clone();
    above_ctx.output_features.retain(|name, _| !made.contains(name));

    let (source, source_columns, schemas, cached_schema, given_versions, given_exemplars) = match columns {
        Columns::Source { source, columns } => {
            let schemas = if complete { report.chain(&source.schema(), &above, &above_ctx) } else { None };
            let cached = schemas.as_ref().and_then(|schemas| schemas.last().cloned());
            (source, columns, schemas.unwrap_or_default(), cached, None, None)
        }
        Columns::Cached { schema, columns, step_versions, exemplars } => {
            let name = spec.source.name.as_deref().unwrap_or(name).to_owned();
            let absent: Arc<dyn DataSource> = Arc::new(AbsentSource { name });
            (absent, columns, Vec::new(), Some(schema), step_versions, Some(exemplars))
        }
    };
    let mut last_schema = cached_schema.clone();
    if let Some(cached) = &cached_schema {
        report.features(cached, &above_ctx.output_features, &schemas, &above);
        last_schema = report.chain_below(cached, (&schemas, &above), &below, &ctx);
    }
    if given_exemplars.is_none()
        && report.errors.is_empty()
        && let Err((index, error)) = exemplars::read_all(source.as_ref(), &mut above, &above_ctx)
    {
        report.in_step(index, (*error).at(locator.step(index)));
    }
    let (Some(cached_schema), Some(last_schema)) = (cached_schema, last_schema) else {
        return Err(report.errors);
    };
    if !report.errors.is_empty() {
        return Err(report.errors);
    }
    let mut features = ctx.output_features.clone();
    features.retain(|name, _| last_schema.column_with_name(name).is_some());
    let mut stored = above_ctx.output_features.clone();
    stored.retain(|name, _| cached_schema.column_with_name(name).is_some());
    let version = |index: usize| {
        above.iter().chain(&below).find(|step| step.index == index).map_or(0, |step| step.step.version())
    };
    let step_versions = given_versions.unwrap_or_else(|| (0..spec.steps.len()).map(version).collect());
    let shown = |step: &PlacedStep| Some((step.index, step.exemplars.as_ref()?.fingerprint()));
    let exemplars = given_exemplars.unwrap_or_else(|| above.iter().filter_map(shown).collect());
    Ok(Task {
        name: name.to_owned(),
        spec: spec.clone(),
        source,
        source_columns,
        features,
        stored,
        vocabularies,
        ctx,
        above_ctx,
        boundary,
        above,
        below,
        step_versions,
        exemplars,
        schemas,
        cached_schema,
    })
}

fn open_features(spec: &TaskSpec, vocabularies: &BTreeMap<String, Arc<OpenVocabulary>>) -> Features {
    let open = |(name, feature): (&String, &crate::task::FeatureSpec)| {
        let vocabulary = Arc::clone(&vocabularies.get(&feature.vocabulary)?.vocabulary);
        let vocabulary_name = feature.vocabulary.clone();
        let (add_eos, required) = (feature.add_eos, feature.required);
        Some((name.clone(), Feature { vocabulary, vocabulary_name, add_eos, required }))
    };
    spec.features.iter().filter_map(open).collect()
}

/// Gathers mistakes, each with its place in the task.
struct Report<'a> {
    name: &'a str,
    spec: &'a TaskSpec,
    locator: &'a Locator,
    errors: Vec<DefinitionError>,
}

impl Report<'_> {
    fn in_task(&self) -> String {
        format!("task `{}`", self.name)
    }

    fn in_step(&mut self, index: usize, error: DefinitionError) {
        let step = step_in_words(index, self.spec.steps.len(), self.spec.steps[index].op());
        self.errors.push(error.within(self.in_task()).within(step));
    }

    /// The columns of the source and after each step, if every step accepts what it gets.
    fn chain(
        &mut self,
        source: &SchemaRef,
        above: &[PlacedStep],
        ctx: &StepContext,
    ) -> Option<Vec<SchemaRef>> {
        let mut schemas = vec![Arc::clone(source)];
        for step in above {
            let input = schemas.last().unwrap_or(source);
            match step.step.output_schema(input, ctx) {
                Ok(schema) => schemas.push(schema),
                Err(error) => {
                    self.step_refused(step, &error, &schemas, above);
                    return None;
                }
            }
        }
        Some(schemas)
    }

    /// The columns after the last step below the boundary; `above` are the columns before and the steps that made them.
    fn chain_below(
        &mut self,
        cached: &SchemaRef,
        (schemas, above): (&[SchemaRef], &[PlacedStep]),
        below: &[PlacedStep],
        ctx: &StepContext,
    ) -> Option<SchemaRef> {
        let mut steps = above.to_vec();
        let mut schemas = if schemas.is_empty() { Vec::new() } else { schemas.to_vec() };
        let mut last = Arc::clone(cached);
        for placed in below {
            match placed.step.output_schema(&last, ctx) {
                Ok(schema) => last = schema,
                Err(error) => {
                    self.step_refused(placed, &error, &schemas, &steps);
                    return None;
                }
            }
            if !schemas.is_empty() {
                schemas.push(Arc::clone(&last));
                steps.push(placed.clone());
            }
        }
        let spec = self.spec;
        for (name, feature) in &spec.features {
            let lost = cached.column_with_name(name).is_some() && last.column_with_name(name).is_none();
            if feature.required && lost {
                let hint = missing_hint(name, &column_names(&last), &schemas, &steps)
                    .unwrap_or_else(|| "a step below the cache boundary does not keep it".to_owned());
                let place = self.locator.key(&[Part::Key("features".to_owned()), Part::Key(name.clone())]);
                let found = quoted(column_names(&last));
                let problem = format!("there is no such column after the steps; there are {found}");
                let error = DefinitionError::new(problem).hint(hint).at(place);
                self.errors.push(error.within(self.in_task()).within(format!("feature `{name}`")));
            }
        }
        Some(last)
    }

    fn step_refused(
        &mut self,
        placed: &PlacedStep,
        error: &PreprocessError,
        schemas: &[SchemaRef],
        above: &[PlacedStep],
    ) {
        let prefix = format!("step `{}`", placed.step.name());
        let text = error.to_string();
        let problem = text.strip_prefix(&prefix).unwrap_or(&text).trim_start_matches([':', ' ']);
        let (about, hint) = match error {
            PreprocessError::Missing { names, found, .. } => {
                let hints = names.iter().filter_map(|name| missing_hint(name, found, schemas, above));
                let hint = hints.collect::<Vec<_>>().join("; ");
                (names.clone(), (!hint.is_empty()).then_some(hint))
            }
            PreprocessError::WrongType { column, expected, .. } if *expected == "token ids" => {
                let later = self.spec.steps.iter().position(|step| matches!(step, Step::Tokenize(_)));
                let hint = match later {
                    Some(index) => format!("`tokenize` is step {}: move it before this step", index + 1),
                    None => "add `{ op = \"tokenize\" }` before this step".to_owned(),
                };
                (vec![column.clone()], Some(hint))
            }
            PreprocessError::WrongType { column, .. } => (vec![column.clone()], None),
            _ => (Vec::new(), None),
        };
        let place = self.locator.in_step(placed.index, &about);
        self.in_step(placed.index, DefinitionError::new(problem).maybe_hint(hint).at(place));
    }

    /// Every feature must be there as token ids at the boundary.
    fn features(
        &mut self,
        cached: &SchemaRef,
        wanted: &Features,
        schemas: &[SchemaRef],
        above: &[PlacedStep],
    ) {
        let checks = |step: &Step| matches!(step, Step::Chat(_) | Step::Tokenize(_) | Step::Custom(_));
        let checked = self.spec.steps.iter().any(checks);
        let spec = self.spec;
        for (name, feature) in spec.features.iter().filter(|(name, _)| wanted.contains_key(*name)) {
            let add = "add `{ op = \"tokenize\" }` to the steps above the cache boundary".to_owned();
            let (problem, hint) = match cached.column_with_name(name) {
                None if !feature.required => continue,
                None => {
                    let found = column_names(cached);
                    let hint = missing_hint(name, &found, schemas, above);
                    let hint = hint.unwrap_or_else(|| {
                        "let a step make it, or set `required = false` if it may be absent".to_owned()
                    });
                    (format!("there is no such column after the steps; there are {}", quoted(found)), hint)
                }
                Some((_, field)) => match field.data_type() {
                    DataType::List(item) if *item.data_type() == DataType::Int32 => {
                        if checked || schemas.is_empty() {
                            continue;
                        }
                        ("no step checks its ids".to_owned(), format!("{add}: it refuses ids out of range"))
                    }
                    DataType::Utf8 => ("it is still text after the steps: none tokenizes it".to_owned(), add),
                    other => {
                        (format!("it must be token ids, but is `{}` after the steps", type_name(other)), add)
                    }
                },
            };
            let place = self.locator.key(&[Part::Key("features".to_owned()), Part::Key(name.clone())]);
            let error = DefinitionError::new(problem).hint(hint).at(place);
            self.errors.push(error.within(self.in_task()).within(format!("feature `{name}`")));
        }
    }
}

/// A step's place in the words that messages use.
pub(crate) fn step_in_words(index: usize, steps: usize, op: &str) -> String {
    format!("step {} of {steps} (`{op}`)", index + 1)
}

/// Why a column may be missing: dropped by an earlier step, or misspelled.
fn missing_hint(name: &str, found: &[String], schemas: &[SchemaRef], above: &[PlacedStep]) -> Option<String> {
    let had = schemas.iter().rposition(|schema| schema.column_with_name(name).is_some());
    if let Some(step) = had.and_then(|place| above.get(place)) {
        let (number, op) = (step.index + 1, step.step.name());
        return Some(format!("`{name}` was there until step {number}, `{op}`, which does not keep it"));
    }
    let near = nearest(name, found.iter().map(String::as_str))?;
    Some(format!("did you mean `{near}`?"))
}
