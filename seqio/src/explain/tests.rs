//! What people read.

use std::fs;
use std::sync::Arc;

use super::*;
use crate::preprocess::{AppendEos, AppendEosAfterTrim, Format, Rekey, Tokenize, Trim};
use crate::registry::Registry;
use crate::source::SourceSpec;
use crate::task::{FeatureSpec, TaskFile, TaskSpec};
use crate::vocabulary::VocabularySpec;

fn task(spec: TaskSpec) -> Arc<Task> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("train.jsonl"), "{\"en\": \"one\", \"de\": \"eins\"}\n").unwrap();
    fs::write(folder.path().join("valid.jsonl"), "{\"en\": \"one\", \"de\": \"eins\"}\n").unwrap();
    let file = TaskFile::new()
        .vocabulary("bytes", VocabularySpec::byte().extra_ids(100))
        .vocabulary("ids", VocabularySpec::pass_through(50))
        .task("pairs", spec);
    let task = Registry::from_task_file(file, folder.path()).unwrap().task("pairs").unwrap();
    // The size of the splits is printed: list the files while they are there.
    std::mem::forget(folder);
    task
}

fn spec() -> TaskSpec {
    TaskSpec::new(SourceSpec::jsonl([("train", "train.jsonl"), ("validation", "valid.jsonl")]))
        .feature("inputs", FeatureSpec::tokens("bytes").without_eos())
        .feature("targets", FeatureSpec::tokens("bytes"))
}

#[test]
fn the_path_is_printed_with_the_columns_after_each_stage() {
    let spec = spec()
        .step(Format::new([("en", "translate: {en}")]))
        .step(Rekey::new([("inputs", "en"), ("targets", "de")]))
        .step(Tokenize::default())
        .cache()
        .step(AppendEosAfterTrim::default())
        .step(Trim::only(["inputs"]));
    insta::assert_snapshot!(explain(&task(spec), &[("inputs".to_owned(), 512)].into()), @r#"
    task pairs

    source `pairs`: JSON lines; a bad record stops the run
      train       train.jsonl  (1 file, 28 B)
      validation  valid.jsonl  (1 file, 28 B)
      columns: de: string or null, en: string or null

     1  format                 set = { en = "translate: {en}" }
          de: string or null, en: string
     2  rekey                  to_from = { inputs = "en", targets = "de" }
          inputs: string, targets: string
     3  tokenize               keep_pretokenized = false
          inputs: tokens, targets: tokens
     4  ── cache ── train stored shuffled, the rest in the order of the source
          inputs: tokens, targets: tokens
     5  append_eos_after_trim
          inputs: unchanged
          targets: all (no length given), then EOS (1)
     6  trim                   features = ["inputs"]
          inputs: the first 512
          targets: unchanged

    features
      inputs: byte `bytes`, 359 ids, EOS 1, not appended (`add_eos = false`)
      targets: byte `bytes`, 359 ids, EOS 1

    warning: step 5 (`append_eos_after_trim`) cuts nothing of `targets` unless a run gives a length: `--lengths targets=2048`
    "#);
}

#[test]
fn oversights_are_warned_of() {
    let spec = TaskSpec { source: SourceSpec::jsonl([("test", "train.jsonl")]), ..spec() }
        .feature("more", FeatureSpec::tokens("ids").optional())
        .step(Format::new([("inputs", "{en}"), ("targets", "{de}")]))
        .step(Tokenize::default())
        .step(Trim::default());
    insta::assert_snapshot!(explain(&task(spec), &FeatureLengths::new()), @r#"
    task pairs

    source `pairs`: JSON lines; a bad record stops the run
      test  train.jsonl  (1 file, 28 B)
      columns: de: string or null, en: string or null

     1  format    set = { inputs = "{en}", targets = "{de}" }
          de: string or null, en: string or null, inputs: string, targets: string
     2  tokenize  keep_pretokenized = false
          de: string or null, en: string or null, inputs: tokens, targets: tokens
     -  ── cache (implied) ── stored in the order of the source
          de: string or null, en: string or null, inputs: tokens, targets: tokens
     3  trim
          inputs: all (no length given)
          targets: all (no length given)

    features
      inputs: byte `bytes`, 359 ids, EOS 1, not appended (`add_eos = false`)
      more: pass_through `ids`, 50 ids, no EOS, absent
      targets: byte `bytes`, 359 ids, EOS 1

    warning: feature `more` is optional, and the examples do not have it
    warning: feature `targets` asks for an EOS, but no step appends one: add `append_eos`, or set `add_eos = false`
    warning: step 3 (`trim`) cuts nothing of `inputs`, `targets` unless a run gives a length: `--lengths inputs=2048`
    warning: the cache also holds `de`, `en`, which no feature needs: a `select` or `rekey` step that leaves them out saves room
    warning: no split is named `train`, so none is stored shuffled: name some, `shuffle = [...]`
    "#);
    let spec = self::spec()
        .step(Rekey::new([("inputs", "en"), ("targets", "de")]))
        .step(Tokenize::default())
        .cache()
        .step(AppendEos::default())
        .step(Trim::default());
    let lengths = [("inputs".to_owned(), 5), ("targets".to_owned(), 5)].into();
    assert_eq!(
        explain(&task(spec), &lengths).warnings,
        ["step 5 may cut off the EOS that step 4 gives `targets`: `append_eos_after_trim` keeps it"]
    );
}

#[test]
fn a_task_from_its_cache_is_explained_without_its_source() {
    let spec = spec()
        .step(Rekey::new([("inputs", "en"), ("targets", "de")]))
        .step(Tokenize::default())
        .step(AppendEos::default());
    let task = Task::from_definition(task(spec).definition(), BTreeMap::new()).unwrap();
    insta::assert_snapshot!(explain(&task, &FeatureLengths::new()), @r#"
    task pairs

    source `pairs`: JSON lines; a bad record stops the run
      train       train.jsonl
      validation  valid.jsonl

     1  rekey       to_from = { inputs = "en", targets = "de" }
     2  tokenize    keep_pretokenized = false
     3  append_eos
     -  ── cache (implied) ── train stored shuffled, the rest in the order of the source
          inputs: tokens, targets: tokens

    features
      inputs: byte `bytes`, 359 ids, EOS 1, not appended (`add_eos = false`)
      targets: byte `bytes`, 359 ids, EOS 1
    "#);
}

#[test]
fn programs_get_the_same_as_json() {
    let spec = spec()
        .step(Rekey::new([("inputs", "en"), ("targets", "de")]))
        .step(Tokenize::default())
        .step(AppendEosAfterTrim::default());
    let json = serde_json::to_value(explain(&task(spec), &[("targets".to_owned(), 9)].into())).unwrap();
    assert_eq!(json["stages"][1]["columns"][0]["type"], "tokens");
    assert_eq!(json["stages"][3]["edits"]["targets"][0]["trim"]["max_length"], 8);
    assert_eq!(json["stages"][2]["place"], "cache");
}
