//! A checked task, ready to read: its source, its steps, and the boundary between what is cached and what is not.
//!
//! ```text
//! source -> steps above -> [cache] -> order, epochs -> steps below -> convert -> batch
//!           preprocess()                               token_edits()
//! ```

mod absent;
mod boundary;
mod build;
mod definition;
mod exemplars;
mod spec;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;

pub use self::boundary::Boundary;
pub(crate) use self::boundary::PlacedStep;
pub(crate) use self::build::{BuildRequest, Columns, build, step_in_words};
pub use self::definition::{ColumnDefinition, Definition, VocabularyDefinition};
pub use self::spec::{FeatureSpec, TaskFile, TaskSpec};
use crate::error::{DefinitionError, DefinitionErrors};
use crate::example::Examples;
use crate::feature::{Feature, FeatureLengths, Features};
use crate::fingerprint::Fingerprint;
use crate::item::{EditStep, ItemStep, ItemSteps, NamedItemStep};
use crate::locate::Locator;
use crate::preprocess::{
    CustomSteps, PreprocessError, SplitKey, Step, StepContext, TokenEdit, WholeSplit, check_token_ids,
};
use crate::source::{ColumnSpec, DataSource, OnBadRow};
use crate::vocabulary::{SharedVocabulary, VocabularySpec};

/// A vocabulary with what identifies it.
#[derive(Debug)]
pub(crate) struct OpenVocabulary {
    pub(crate) spec: VocabularySpec,
    pub(crate) vocabulary: SharedVocabulary,
    pub(crate) blake3: Option<Fingerprint>,
}

impl OpenVocabulary {
    pub(crate) fn new(spec: VocabularySpec, vocabulary: SharedVocabulary) -> Self {
        let blake3 = vocabulary.file().map(Fingerprint::of_bytes);
        Self { spec, vocabulary, blake3 }
    }
}

/// The columns of a source by name, as they are declared or were inferred.
pub(crate) type SourceColumns = BTreeMap<String, ColumnSpec>;

/// Says which examples a whole-split step, the first of a task having number 0, keeps.
pub(crate) type Choose<'a> =
    dyn FnMut(usize, &dyn WholeSplit, &StepContext, &Examples) -> Result<Vec<bool>, PreprocessError> + 'a;

/// A task whose definition holds no mistakes: vocabularies are open, columns fit from source to features.
#[derive(Debug)]
pub struct Task {
    name: String,
    spec: TaskSpec,
    source: Arc<dyn DataSource>,
    source_columns: SourceColumns,
    features: Features,
    /// The features that come over the boundary: all, but for those that steps below make.
    stored: Features,
    vocabularies: BTreeMap<String, Arc<OpenVocabulary>>,
    ctx: StepContext,
    /// What the steps above know: nothing of features that steps below make.
    above_ctx: StepContext,
    boundary: Boundary,
    above: Vec<PlacedStep>,
    below: Vec<PlacedStep>,
    step_versions: Vec<u32>,
    /// The hashes of the exemplars that steps show, by the place of the step, from 0.
    exemplars: BTreeMap<usize, Fingerprint>,
    /// Columns of the source and after each step above; empty if the task came without its source.
    schemas: Vec<SchemaRef>,
    cached_schema: SchemaRef,
}

impl Task {
    /// The task's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The task as it was defined.
    pub fn spec(&self) -> &TaskSpec {
        &self.spec
    }

    /// Where its raw examples come from. A task that came without its source has one without splits.
    pub fn source(&self) -> &Arc<dyn DataSource> {
        &self.source
    }

    /// Whether raw examples can be read: not so for a task that came from a cache.
    pub fn has_source(&self) -> bool {
        !self.schemas.is_empty()
    }

    /// What it puts out. An optional feature that the source does not have is not among them.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// The features that a cache holds: those it puts out, but for those that steps below the boundary make of others.
    pub fn stored_features(&self) -> &Features {
        &self.stored
    }

    /// The columns that a cache holds: those after the last step above the boundary.
    pub fn cached_schema(&self) -> &SchemaRef {
        &self.cached_schema
    }

    /// The columns of the source and after each step above the boundary, in order; empty without a source.
    pub fn schemas(&self) -> &[SchemaRef] {
        &self.schemas
    }

    /// Where the steps are cut.
    pub fn boundary(&self) -> Boundary {
        self.boundary
    }

    /// Decides the order of a shuffled cache.
    pub fn cache_seed(&self) -> u64 {
        self.spec.cache_seed
    }

    /// Whether the cache of a split is stored shuffled. A slice is, if the split is that it is cut from.
    pub fn is_shuffled(&self, split: &str) -> bool {
        let whole = split.split('[').next().unwrap_or(split);
        self.spec.shuffled_splits().iter().any(|name| *name == split || *name == whole)
    }

    /// What becomes of records that give no example.
    pub fn on_bad_row(&self) -> OnBadRow {
        self.spec.source.on_bad_row
    }

    /// The bytes of the files of its vocabularies, by the vocabularies' names.
    pub fn vocabulary_files(&self) -> BTreeMap<String, &[u8]> {
        self.vocabularies
            .iter()
            .filter_map(|(name, open)| Some((name.clone(), open.vocabulary.file()?)))
            .collect()
    }

    /// Runs the steps above the boundary on examples of the source. Any number of threads may call it. A task with steps
    /// that look at a whole split needs [`Task::preprocess_chosen`].
    pub fn preprocess(&self, examples: Examples) -> Result<Examples, PreprocessError> {
        self.run_above(examples, None, &mut |_, step, _, _| {
            Err(PreprocessError::NotChosen { step: step.name() })
        })
    }

    /// Runs the steps above the boundary; with `until` only those before the whole-split step of this number, from 0.
    /// `choose` says which examples a whole-split step keeps.
    pub(crate) fn run_above(
        &self,
        examples: Examples,
        until: Option<usize>,
        choose: &mut Choose<'_>,
    ) -> Result<Examples, PreprocessError> {
        if !self.has_source() {
            return Err(PreprocessError::NoSource { task: self.name.clone() });
        }
        let mut examples = examples;
        let mut chosen = 0;
        let mut dropped = std::mem::take(&mut examples.dropped);
        for (place, placed) in self.above.iter().enumerate() {
            let schema = &self.schemas[place + 1];
            let step = placed.step.as_ref();
            let ctx = self.context_of(placed);
            let before = examples.len();
            if let Some(whole) = step.whole_split() {
                if until == Some(chosen) {
                    examples.dropped = dropped;
                    return Ok(examples);
                }
                let keep = choose(chosen, whole, &ctx, &examples);
                let kept = keep.and_then(|keep| Ok(examples.keep(&keep)?));
                examples = kept.map_err(|error| self.in_step(placed, error))?;
                chosen += 1;
            } else {
                examples = step.apply(examples, &ctx).map_err(|error| self.in_step(placed, error))?;
            }
            if examples.columns.schema_ref() != schema {
                let problem = "it returned other columns than it promised".to_owned();
                return Err(self.in_step(placed, PreprocessError::Setting { step: step.name(), problem }));
            }
            // What a step says itself goes before what the numbers of rows say: it may have made more of others.
            let fewer = before.saturating_sub(examples.len()) as u64;
            let gone = std::mem::take(&mut examples.dropped).remove(&Examples::THIS_STEP).unwrap_or(fewer);
            if gone > 0 {
                *dropped.entry(placed.index + 1).or_default() += gone;
            }
        }
        examples.dropped = dropped;
        if let Some(last) = self.above.last()
            && self.spec.steps.iter().any(Step::makes_values)
        {
            // The other steps keep ids in range; nobody knows what these do.
            check_token_ids(last.step.name(), &examples, &self.stored)
                .map_err(|error| self.in_step(last, error))?;
        }
        Ok(examples)
    }

    /// The whole-split steps above the boundary, each with its place among the steps, from 1.
    pub(crate) fn whole_split_places(&self) -> impl Iterator<Item = (usize, &dyn WholeSplit)> {
        self.above.iter().filter_map(|placed| Some((placed.index + 1, placed.step.whole_split()?)))
    }

    /// The keys that the whole-split step of this number, from 0, gives examples that came to it; `None` if there is
    /// none.
    pub(crate) fn keys_at(
        &self,
        number: usize,
        examples: &Examples,
    ) -> Option<Result<Vec<Option<SplitKey>>, PreprocessError>> {
        let placed = self.above.iter().filter(|placed| placed.step.whole_split().is_some()).nth(number)?;
        let keys = placed.step.whole_split()?.keys(examples, &self.context_of(placed));
        Some(keys.map_err(|error| self.in_step(placed, error)))
    }

    /// Runs the steps above the boundary that stand before `tokenize`: what is left of an example is the text that an
    /// encoder gets. A measure for how fast an encoder is by itself.
    pub fn before_tokenize(&self, examples: Examples) -> Result<Examples, PreprocessError> {
        let before = self.above.iter().take_while(|placed| placed.step.name() != "tokenize");
        // Which examples a whole-split step drops does not matter for speed.
        let before = before.filter(|placed| placed.step.whole_split().is_none());
        let mut examples = examples;
        for placed in before {
            let ctx = self.context_of(placed);
            examples = placed.step.apply(examples, &ctx).map_err(|error| self.in_step(placed, error))?;
        }
        examples.dropped.remove(&Examples::THIS_STEP);
        Ok(examples)
    }

    /// The steps below the boundary, if they do more than edit sequences. Lengths that the task fixes go before the run's;
    /// a step that needs a length that neither gives is refused.
    pub fn item_steps(&self, lengths: &FeatureLengths) -> Result<Option<ItemSteps>, PreprocessError> {
        let ctx = self.run_context(lengths);
        if !self.below.iter().any(|placed| placed.step.item_step(&ctx).is_some()) {
            return Ok(None);
        }
        let vocabulary = |(name, feature): (&String, &Feature)| {
            (name.clone(), (feature.vocabulary.vocab_size(), feature.vocabulary.special_ids().eos))
        };
        let vocabularies: BTreeMap<_, _> = ctx.output_features.iter().map(vocabulary).collect();
        let mut steps: Vec<NamedItemStep> = Vec::new();
        for placed in &self.below {
            let name = placed.step.name().to_owned();
            let (step, edits) = match placed.step.item_step(&ctx) {
                Some(step) => (step.map_err(|error| self.in_step(placed, error))?, String::new()),
                None => {
                    let step: Arc<dyn ItemStep> = Arc::new(EditStep::new(self.own_edits(placed, &ctx)?));
                    let edits = step.in_words();
                    (step, edits)
                }
            };
            let spec = &self.spec.steps[placed.index];
            let asked = placed.step.length_dependent(&ctx);
            let used: FeatureLengths =
                asked.iter().filter_map(|name| Some((name.clone(), *ctx.lengths.get(name)?))).collect();
            let words = serde_json::json!({
                "op": name,
                "version": placed.step.version(),
                "settings": spec.canonical_settings(),
                "lengths": used,
                "edits": edits,
                "vocabularies": vocabularies,
            });
            let occurrence = steps.iter().filter(|step| step.name == name).count() as u64;
            steps.push(NamedItemStep { name, occurrence, words: words.to_string(), step });
        }
        let names = |features: &Features| features.keys().cloned().collect();
        Ok(Some(ItemSteps::new(steps, names(&self.stored), names(&self.features))))
    }

    /// What a step that only edits does to each feature.
    fn own_edits(
        &self,
        placed: &PlacedStep,
        ctx: &StepContext,
    ) -> Result<Vec<(String, Vec<TokenEdit>)>, PreprocessError> {
        let edits = |feature: &String| {
            let problem = "it does more than edit token sequences".to_owned();
            let refused = || PreprocessError::Setting { step: placed.step.name(), problem };
            let own = placed.step.token_edits(feature, ctx).ok_or_else(refused);
            Ok((feature.clone(), own.map_err(|error| self.in_step(placed, error))?))
        };
        self.ctx.output_features.keys().map(edits).collect()
    }

    /// What the steps below the boundary do to each feature, in order, if that is all they do. Lengths that the task fixes go before the
    /// run's; a step that depends on a length that neither gives leaves sequences as long as they are.
    pub fn token_edits(
        &self,
        lengths: &FeatureLengths,
    ) -> Result<BTreeMap<String, Vec<TokenEdit>>, PreprocessError> {
        let ctx = self.run_context(lengths);
        let names = self.features.keys().cloned();
        let mut edits: BTreeMap<String, Vec<TokenEdit>> = names.map(|name| (name, Vec::new())).collect();
        for placed in &self.below {
            for (feature, own) in self.own_edits(placed, &ctx)? {
                edits.entry(feature).or_default().extend(own);
            }
        }
        edits.retain(|feature, _| self.features.contains_key(feature));
        Ok(edits)
    }

    /// What the step at `index`, below the boundary, does to each feature; and the features whose length it lacks.
    pub(crate) fn edits_of(
        &self,
        index: usize,
        lengths: &FeatureLengths,
    ) -> (BTreeMap<String, Vec<TokenEdit>>, Vec<String>) {
        let ctx = self.run_context(lengths);
        let Some(placed) = self.below.iter().find(|placed| placed.index == index) else {
            return Default::default();
        };
        let edits = |name: &String| Some((name.clone(), placed.step.token_edits(name, &ctx)?));
        let mut missing = placed.step.length_dependent(&ctx);
        missing.retain(|name| self.features.contains_key(name) && !ctx.lengths.contains_key(name));
        (self.features.keys().filter_map(edits).collect(), missing)
    }

    /// What the step at `index` does to items, or what it lacks; `None` if it only edits.
    pub(crate) fn item_words(&self, index: usize, lengths: &FeatureLengths) -> Option<String> {
        let placed = self.below.iter().find(|placed| placed.index == index)?;
        let step = placed.step.item_step(&self.run_context(lengths))?;
        Some(step.map_or_else(|error| error.to_string(), |step| step.in_words()))
    }

    /// Whether a step, above or below, ends `feature` with an id of its own.
    pub(crate) fn appends_eos(&self, feature: &str) -> bool {
        let appends = |edit: &TokenEdit| matches!(edit, TokenEdit::Append { .. });
        let custom = CustomSteps::new();
        self.spec.steps.iter().any(|step| match step.preprocessor(&custom) {
            Ok(Some(step)) => step.token_edits(feature, &self.ctx).unwrap_or_default().iter().any(appends),
            Ok(None) => false,
            Err(_) => true,
        })
    }

    /// All features of the definition, those the examples lack among them.
    pub(crate) fn defined_features(&self) -> &Features {
        &self.ctx.output_features
    }

    /// What a step above the boundary may know.
    fn context_of(&self, placed: &PlacedStep) -> StepContext {
        placed.context(&self.above_ctx)
    }

    fn run_context(&self, lengths: &FeatureLengths) -> StepContext {
        let mut ctx = self.ctx.clone();
        for (feature, length) in lengths {
            ctx.lengths.entry(feature.clone()).or_insert(*length);
        }
        ctx
    }

    /// The features whose lengths steps below the boundary ask the run for, sorted.
    pub fn lengths_asked_for(&self) -> Vec<String> {
        let asked = self.below.iter().flat_map(|placed| placed.step.length_dependent(&self.ctx));
        let mut names: Vec<String> = asked
            .filter(|name| self.features.contains_key(name) && !self.spec.lengths.contains_key(name))
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Makes a task from a cache's manifest and the vocabulary files kept with it: it streams and decodes, but has no
    /// source.
    pub fn from_definition(
        definition: Definition,
        vocabulary_files: BTreeMap<String, Vec<u8>>,
    ) -> Result<Self, DefinitionErrors> {
        Self::from_definition_with(definition, vocabulary_files, &CustomSteps::new())
    }

    /// [`Task::from_definition`] for programs with steps of their own below the boundary.
    pub fn from_definition_with(
        definition: Definition,
        mut vocabulary_files: BTreeMap<String, Vec<u8>>,
        custom: &CustomSteps,
    ) -> Result<Self, DefinitionErrors> {
        let in_task = |problem: String| {
            DefinitionErrors::from(
                DefinitionError::new(problem).within(format!("task `{}`", definition.task)),
            )
        };
        let schema = definition.schema().map_err(in_task)?;
        if definition.step_versions.len() != definition.spec.steps.len() {
            let (versions, steps) = (definition.step_versions.len(), definition.spec.steps.len());
            return Err(in_task(format!("the definition has {steps} steps, but versions of {versions}")));
        }
        let mut vocabularies = BTreeMap::new();
        for (name, vocabulary) in &definition.vocabularies {
            let file = vocabulary_files.remove(name);
            if file.as_deref().map(Fingerprint::of_bytes) != vocabulary.blake3 {
                return Err(in_task(format!(
                    "the file of vocabulary `{name}` is not the one it was made with"
                )));
            }
            let open = vocabulary.spec.open(file);
            let open = open.map_err(|error| in_task(format!("vocabulary `{name}`: {error}")))?;
            vocabularies.insert(name.clone(), Arc::new(OpenVocabulary::new(vocabulary.spec.clone(), open)));
        }
        let request = BuildRequest {
            name: &definition.task,
            spec: &definition.spec,
            vocabularies,
            columns: Columns::Cached {
                schema,
                columns: definition.source_columns.clone(),
                step_versions: Some(definition.step_versions.clone()),
                exemplars: definition.exemplars.clone(),
            },
            custom,
            locator: &Locator::nowhere(),
        };
        build(request).map_err(DefinitionErrors::new)
    }

    fn in_step(&self, placed: &PlacedStep, error: PreprocessError) -> PreprocessError {
        PreprocessError::InTask {
            task: self.name.clone(),
            number: placed.index + 1,
            steps: self.spec.steps.len(),
            error: Box::new(error),
        }
    }
}

#[cfg(test)]
mod tests;
