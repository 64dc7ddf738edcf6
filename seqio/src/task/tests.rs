//! What a task does with examples and lengths, what its fingerprint stands on, and that a manifest gives it back.

use std::fs;

use arrow::array::AsArray;
use arrow::datatypes::Int32Type;
use proptest::prelude::*;

use super::*;
use crate::preprocess::{AppendEos, AppendEosAfterTrim, Format, Rekey, Tokenize, Trim};
use crate::registry::Registry;
use crate::source::SourceSpec;
use crate::testing::text_examples;
use crate::vocabulary::VocabularySpec;

fn pairs() -> TaskSpec {
    TaskSpec::new(SourceSpec::jsonl([("train", "train.jsonl"), ("validation", "valid.jsonl")]))
        .feature("inputs", FeatureSpec::tokens("bytes").without_eos())
        .feature("targets", FeatureSpec::tokens("bytes"))
        .step(Format::new([("en", "translate: {en}")]))
        .step(Rekey::new([("inputs", "en"), ("targets", "de")]))
        .step(Tokenize::default().keep_pretokenized())
        .cache()
        .step(AppendEos::default())
        .step(Trim::default())
}

fn file(spec: TaskSpec) -> TaskFile {
    TaskFile::new().vocabulary("bytes", VocabularySpec::byte()).task("pairs", spec)
}

fn build_file(file: TaskFile) -> Result<Arc<Task>, DefinitionErrors> {
    let folder = tempfile::tempdir().unwrap();
    let rows = "{\"en\": \"one\", \"de\": \"eins\"}\n";
    for name in ["train.jsonl", "valid.jsonl", "other.jsonl"] {
        fs::write(folder.path().join(name), rows).unwrap();
    }
    Registry::from_task_file(file, folder.path())?.task("pairs")
}

fn built(spec: TaskSpec) -> Arc<Task> {
    build_file(file(spec)).unwrap()
}

fn fingerprint(spec: TaskSpec) -> Fingerprint {
    built(spec).cache_fingerprint(1)
}

#[test]
fn the_steps_above_the_boundary_run_on_examples() {
    let task = built(pairs());
    let input = text_examples(&[("de", &[Some("ab")]), ("en", &[Some("c")])]);
    let output = task.preprocess(input).unwrap();
    assert_eq!(output.columns.schema_ref(), task.cached_schema());
    let targets = output.columns.column_by_name("targets").unwrap().as_list::<i32>().value(0);
    assert_eq!(targets.as_primitive::<Int32Type>().values(), &[100, 101]);
    let kept =
        output.columns.column_by_name("inputs_pretokenized").unwrap().as_string::<i32>().value(0).to_owned();
    assert_eq!(kept, "translate: c");
}

#[test]
fn the_steps_below_the_boundary_are_edits_of_each_feature() {
    let task = built(pairs());
    assert_eq!(task.lengths_asked_for(), ["inputs", "targets"]);
    let edits = task.token_edits(&[("targets".to_owned(), 5)].into()).unwrap();
    assert_eq!(edits["inputs"], []);
    assert_eq!(edits["targets"], [TokenEdit::Append { id: 1 }, TokenEdit::Trim { max_length: 5 }]);
}

#[test]
fn lengths_that_the_task_fixes_go_before_those_of_the_run() {
    let task = built(pairs().length("targets", 3));
    assert_eq!(task.lengths_asked_for(), ["inputs"]);
    let edits = task.token_edits(&[("inputs".to_owned(), 4), ("targets".to_owned(), 5)].into()).unwrap();
    assert_eq!(edits["inputs"], [TokenEdit::Trim { max_length: 4 }]);
    assert_eq!(edits["targets"], [TokenEdit::Append { id: 1 }, TokenEdit::Trim { max_length: 3 }]);
}

#[test]
fn without_a_cache_step_the_boundary_stands_before_the_first_length_dependent_step() {
    let steps = |spec: TaskSpec| {
        spec.step(Rekey::new([("inputs", "en"), ("targets", "de")])).step(Tokenize::default())
    };
    let empty = TaskSpec { steps: Vec::new(), ..pairs() };
    let task = built(steps(empty.clone()).step(AppendEos::default()).step(Trim::default()));
    assert_eq!(task.boundary(), Boundary { above: 3, explicit: false });
    let task = built(steps(empty.clone()).step(AppendEosAfterTrim::default()));
    assert_eq!(task.boundary(), Boundary { above: 2, explicit: false });
    let fixed = empty.length("inputs", 4).length("targets", 4);
    let task = built(steps(fixed).step(AppendEos::default()).step(Trim::default()));
    assert_eq!(task.boundary(), Boundary { above: 4, explicit: false });
}

#[test]
fn the_split_named_train_is_shuffled_and_so_are_its_slices() {
    let task = built(pairs());
    assert!(task.is_shuffled("train") && task.is_shuffled("train[:1%]") && !task.is_shuffled("validation"));
    let task = built(pairs().shuffle(["validation"]));
    assert!(!task.is_shuffled("train") && task.is_shuffled("validation"));
}

#[test]
fn an_optional_feature_that_the_examples_lack_is_not_put_out() {
    let task = built(pairs().feature("notes", FeatureSpec::tokens("bytes").optional()));
    assert_eq!(task.features().keys().collect::<Vec<_>>(), ["inputs", "targets"]);
}

#[test]
fn a_manifest_gives_the_task_back() {
    let task = built(pairs().length("targets", 3));
    let json = serde_json::to_string(&task.definition()).unwrap();
    let definition: Definition = serde_json::from_str(&json).unwrap();
    assert_eq!(definition, task.definition());
    let again = Task::from_definition(definition, BTreeMap::new()).unwrap();
    assert_eq!(again.definition(), task.definition());
    assert_eq!(again.cache_fingerprint(1), task.cache_fingerprint(1));
    assert_eq!(again.cached_schema(), task.cached_schema());
    let lengths = [("inputs".to_owned(), 4)].into();
    assert_eq!(again.token_edits(&lengths).unwrap(), task.token_edits(&lengths).unwrap());
    assert!(again.source().splits().is_empty());
    let refused = again.preprocess(text_examples(&[("de", &[]), ("en", &[])])).unwrap_err();
    insta::assert_snapshot!(refused, @"task `pairs` came from its cache, without its source: its steps above the cache boundary cannot run");
}

#[test]
fn a_manifest_with_another_vocabulary_file_is_refused() {
    let mut definition = built(pairs()).definition();
    definition.vocabularies.get_mut("bytes").unwrap().blake3 = Some(Fingerprint::of_bytes(b"x"));
    insta::assert_snapshot!(Task::from_definition(definition, BTreeMap::new()).unwrap_err(), @"task `pairs`: the file of vocabulary `bytes` is not the one it was made with");
}

#[test]
fn an_error_in_a_step_names_task_and_step() {
    let spec = TaskSpec::new(SourceSpec::jsonl([("train", "train.jsonl")]).column("ids", ids_column()))
        .feature("ids", FeatureSpec::tokens("ids").without_eos())
        .step(Tokenize::default());
    let file = TaskFile::new().vocabulary("ids", VocabularySpec::pass_through(10)).task("pairs", spec);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("train.jsonl"), "{\"ids\": [3, 12]}\n").unwrap();
    let task = Registry::from_task_file(file, folder.path()).unwrap().task("pairs").unwrap();
    let files = task.source().files("train").unwrap();
    let chunk = task.source().read(&files[0], 0, first_range(&task, &files[0]), Box::new(|_| false)).unwrap();
    let chunk = chunk.map(Result::unwrap).find(|chunk| chunk.num_records > 0).unwrap();
    let examples = task.source().parse(&files[0], &chunk).unwrap().examples;
    insta::assert_snapshot!(task.preprocess(examples).unwrap_err(), @"task `pairs`, step 1 of 1: step `tokenize`, feature `ids`: the id at position 1 is 12, but ids of vocabulary `ids` are 0 to 9 (record 1 of file 1, example d717500018880179e7857a2c8c6e7bf1)");
}

fn ids_column() -> crate::source::ColumnSpec {
    crate::source::ColumnType::List(crate::source::ScalarType::Int64).into()
}

fn first_range(task: &Task, file: &crate::source::SourceFile) -> Option<crate::source::SourceRange> {
    match task.source().ranges(file, 0).unwrap() {
        crate::source::FileRanges::Known(ranges) => Some(ranges[0]),
        crate::source::FileRanges::Streamed => None,
    }
}

/// Changes to a definition that leave what is cached as it is.
fn changes_below() -> Vec<(&'static str, TaskSpec)> {
    let without = |ops: &[&str]| {
        let mut spec = pairs();
        spec.steps.retain(|step| !ops.contains(&step.op()));
        spec
    };
    let mut no_eos = pairs();
    no_eos.features.get_mut("targets").unwrap().add_eos = false;
    let mut moved = pairs();
    moved.source = SourceSpec::jsonl([("train", "other.jsonl")]);
    vec![
        ("no step below", without(&["append_eos", "trim"])),
        ("no `append_eos` below", without(&["append_eos"])),
        ("other steps below", without(&["append_eos", "trim"]).step(AppendEosAfterTrim::default())),
        ("an implied boundary", without(&["cache", "append_eos"])),
        ("lengths that only steps below read", pairs().length("targets", 9)),
        ("`add_eos` that only steps below read", no_eos),
        ("other files", moved),
        ("columns declared as they are inferred", {
            let mut declared = pairs();
            declared.source = declared.source.column("en", text()).column("de", text());
            declared
        }),
        ("`shuffle` as it is by default", pairs().shuffle(["train"])),
    ]
}

/// Changes to a definition that change what is cached.
fn changes_above() -> Vec<(&'static str, TaskSpec)> {
    let step = |index: usize, step: Step| {
        let mut spec = pairs();
        spec.steps[index] = step;
        spec
    };
    let source = |source: SourceSpec| TaskSpec { source, ..pairs() };
    let files = [("train", "train.jsonl"), ("validation", "valid.jsonl")];
    let mut optional = pairs();
    optional.features.get_mut("targets").unwrap().required = false;
    let mut above = pairs();
    above.steps.swap(3, 4);
    vec![
        ("a template", step(0, Format::new([("en", "translate it: {en}")]).into())),
        ("a renamed column", step(1, Rekey::new([("inputs", "de"), ("targets", "de")]).into())),
        ("a step's setting", step(2, Tokenize::default().into())),
        ("a step moved above", above),
        ("the cache seed", pairs().cache_seed(1)),
        ("the shuffled splits", pairs().shuffle(["train", "validation"])),
        ("the source's name", source(SourceSpec::jsonl(files).name("other"))),
        (
            "a column's type",
            source(SourceSpec::jsonl(files).column("en", text().optional()).column("de", text())),
        ),
        ("bad rows", source(SourceSpec::jsonl(files).on_bad_row(OnBadRow::Skip))),
        ("an optional feature", optional),
        ("one feature more", pairs().feature("more", FeatureSpec::tokens("bytes").optional())),
    ]
}

fn text() -> crate::source::ColumnSpec {
    crate::source::ColumnType::Scalar(crate::source::ScalarType::String).into()
}

#[test]
fn what_stands_below_the_boundary_is_not_in_the_cache_fingerprint() {
    for (change, spec) in changes_below() {
        assert_eq!(fingerprint(spec), fingerprint(pairs()), "{change} changed the fingerprint");
    }
}

#[test]
fn whatever_stands_above_the_boundary_is_in_the_cache_fingerprint() {
    let all: Vec<(&str, Fingerprint)> =
        changes_above().into_iter().map(|(change, spec)| (change, fingerprint(spec))).collect();
    for (place, (change, changed)) in all.iter().enumerate() {
        assert_ne!(*changed, fingerprint(pairs()), "{change} did not change the fingerprint");
        assert!(
            all[..place].iter().all(|(_, other)| other != changed),
            "{change} gives what another change gives"
        );
    }
    let task = built(pairs());
    assert_ne!(task.cache_fingerprint(1), task.cache_fingerprint(2));
}

#[test]
fn lengths_and_add_eos_count_where_a_step_above_reads_them() {
    let above = |spec: TaskSpec| TaskSpec {
        steps: spec.steps.into_iter().filter(|s| s.op() != "cache").collect(),
        ..spec
    };
    let fixed = |length: usize| above(pairs().length("inputs", length).length("targets", 9));
    assert_ne!(fingerprint(fixed(5)), fingerprint(fixed(6)));
    let mut no_eos = fixed(5);
    no_eos.features.get_mut("targets").unwrap().add_eos = false;
    assert_ne!(fingerprint(fixed(5)), fingerprint(no_eos));
}

#[test]
fn vocabularies_count_by_what_they_are_and_not_by_name() {
    let other_name = TaskFile::new().vocabulary("utf8", VocabularySpec::byte()).task("pairs", {
        let mut spec = pairs();
        spec.features.values_mut().for_each(|feature| feature.vocabulary = "utf8".to_owned());
        spec
    });
    assert_eq!(build_file(other_name).unwrap().cache_fingerprint(1), fingerprint(pairs()));
    let larger =
        TaskFile::new().vocabulary("bytes", VocabularySpec::byte().extra_ids(1)).task("pairs", pairs());
    assert_ne!(build_file(larger).unwrap().cache_fingerprint(1), fingerprint(pairs()));
}

#[test]
fn a_cache_keeps_the_versions_of_the_steps_it_was_made_with() {
    let task = built(pairs());
    let mut definition = task.definition();
    assert_eq!(definition.step_versions, [1, 1, 1, 0, 1, 1]);
    definition.step_versions[2] = 7;
    let older = Task::from_definition(definition, BTreeMap::new()).unwrap();
    assert_ne!(older.cache_fingerprint(1), task.cache_fingerprint(1));
}

/// The canonical text is part of the format: whoever changes it makes every cache stale.
#[test]
fn the_canonical_definition_is_as_it_was() {
    let text = crate::fingerprint::canonical_json(&built(pairs()).cache_definition(1));
    insta::assert_snapshot!(text, @r#"{"cache_seed":0,"features":{"inputs":{"required":true,"vocabulary":{"byte":true},"vocabulary_file":null},"targets":{"required":true,"vocabulary":{"byte":true},"vocabulary_file":null}},"format_version":1,"lengths":{},"shuffle":["train"],"source":{"columns":{"de":"string","en":"string"},"format":"jsonl","name":"pairs","on_bad_row":"fail"},"steps":[{"op":"format","set":{"en":"translate: {en}"},"version":1},{"op":"rekey","to_from":{"inputs":"en","targets":"de"},"version":1},{"keep_pretokenized":true,"op":"tokenize","version":1}]}"#);
    insta::assert_snapshot!(fingerprint(pairs()), @"1624691ca27d63c4526009c40cac0c823ab6b82ed2931c0c8c7fe80f15979ecd");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn any_changes_below_together_keep_it_and_any_one_above_breaks_it(
        below in 0..9usize,
        above in 0..11usize,
        seed in 1..9u64,
    ) {
        let (_, changed_below) = changes_below().swap_remove(below);
        let mut spec = changed_below.clone();
        prop_assert_eq!(fingerprint(spec.clone()), fingerprint(pairs()));
        let (_, changed_above) = changes_above().swap_remove(above);
        prop_assert_ne!(fingerprint(changed_above), fingerprint(spec.clone()));
        spec.cache_seed = seed;
        prop_assert_ne!(fingerprint(spec), fingerprint(pairs()));
    }
}
