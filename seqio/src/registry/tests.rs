//! Every kind of mistake, in the words that a person reads; and that TOML and builder agree.

use std::fs;

use arrow::datatypes::SchemaRef;

use super::*;
use crate::preprocess::{AppendEos, AppendEosAfterTrim, CustomStep, Format, Rekey, Tokenize, Trim};
use crate::source::SourceSpec;
use crate::task::FeatureSpec;

/// A folder with a little data, and the task file `text` in it.
fn folder(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let rows = "{\"en\": \"one\", \"de\": \"eins\", \"n\": 1, \"ids\": [3]}\n{\"en\": \"two\", \"de\": \"zwei\", \"n\": 2, \"ids\": []}\n";
    fs::write(folder.path().join("train.jsonl"), rows).unwrap();
    fs::write(folder.path().join("valid.jsonl"), rows).unwrap();
    fs::write(folder.path().join("bad.json"), "no json").unwrap();
    let path = folder.path().join("seqio.toml");
    fs::write(&path, text).unwrap();
    (folder, path)
}

/// All mistakes in a task file, as printed, without the folder's name.
fn mistakes(text: &str) -> String {
    let (folder, path) = folder(text);
    let errors = match Registry::load(&[path]) {
        Ok(registry) => registry.check().unwrap_err(),
        Err(errors) => errors,
    };
    errors.to_string().replace(&format!("{}/", folder.path().display()), "")
}

/// A task file with one task, `docs`, that has these lines.
fn task(lines: &str) -> String {
    let lines = lines.trim_start_matches('\n');
    format!("[vocabulary.bytes]\nbyte = true\n\n[vocabulary.ids]\npass_through = 100\n\n[task.docs]\n{lines}")
}

const GOOD: &str = r#"
source   = { jsonl = { train = "train.jsonl" } }
features = { targets = { vocabulary = "bytes" } }
steps    = [{ op = "rekey", to_from = { targets = "en" } }, { op = "tokenize" }]
"#;

#[test]
fn a_good_file_is_opened() {
    let (_folder, path) = folder(&task(GOOD));
    let registry = Registry::load(&[path]).unwrap();
    registry.check().unwrap();
    assert_eq!(registry.names().collect::<Vec<_>>(), ["docs"]);
    let task = registry.task("docs").unwrap();
    assert_eq!(task.cached_schema().fields().len(), 1);
    assert!(Arc::ptr_eq(&task, &registry.task("docs").unwrap()));
}

#[test]
fn what_is_not_toml_is_shown() {
    insta::assert_snapshot!(mistakes("[task.docs]\nsource = { jsonl = \n"), @r"
    seqio.toml:2:19: this is not TOML: unclosed inline table, expected `}`
      |
    2 | source = { jsonl =
      |                   ^
    ");
}

#[test]
fn unknown_keys_are_all_found_each_at_its_place() {
    insta::assert_snapshot!(mistakes(&task(r#"
sorce    = { jsonl = { train = "train.jsonl" } }
features = { targets = { vocabulary = "bytes", ad_eos = true } }
steps    = [
  { op = "tokenize", keep = true },
  { op = "append_eos", feature = ["targets"] },
]

[tasks.other]
"#)), @r#"
    seqio.toml:8:1: task `docs`: unknown key `sorce`
      |
    8 | sorce    = { jsonl = { train = "train.jsonl" } }
      | ^^^^^
    hint: did you mean `source`?

    seqio.toml:9:48: task `docs`, feature `targets`: unknown key `ad_eos`
      |
    9 | features = { targets = { vocabulary = "bytes", ad_eos = true } }
      |                                                ^^^^^^
    hint: did you mean `add_eos`?

    seqio.toml:11:22: task `docs`, step 1 of 2 (`tokenize`): unknown key `keep`
       |
    11 |   { op = "tokenize", keep = true },
       |                      ^^^^
    hint: the keys here are `keep_pretokenized`

    seqio.toml:12:24: task `docs`, step 2 of 2 (`append_eos`): unknown key `feature`
       |
    12 |   { op = "append_eos", feature = ["targets"] },
       |                        ^^^^^^^
    hint: did you mean `features`?

    seqio.toml:15:2: unknown key `tasks`
       |
    15 | [tasks.other]
       |  ^^^^^
    hint: did you mean `task`?
    "#);
}

#[test]
fn wrong_types_are_told_in_words_of_toml() {
    insta::assert_snapshot!(mistakes(&task(r#"
source     = { jsonl = { train = 3 }, on_bad_row = "skipp" }
features   = { targets = { vocabulary = "bytes", add_eos = "yes" } }
lengths    = { targets = -5 }
cache_seed = 1.5
steps      = [{ op = "rekey", to_from = ["en"] }, { op = "trim", features = "targets" }, "tokenize", { opp = "trim" }]
"#)), @r#"
    seqio.toml:8:34: task `docs`: `train` must be a file pattern or a list of file patterns, but is `3`
      |
    8 | source     = { jsonl = { train = 3 }, on_bad_row = "skipp" }
      |                                  ^

    seqio.toml:8:52: task `docs`: `on_bad_row` cannot be `skipp`
      |
    8 | source     = { jsonl = { train = 3 }, on_bad_row = "skipp" }
      |                                                    ^^^^^^^
    hint: did you mean `skip`?

    seqio.toml:9:60: task `docs`, feature `targets`: `add_eos` must be `true` or `false`, but is the text "yes"
      |
    9 | features   = { targets = { vocabulary = "bytes", add_eos = "yes" } }
      |                                                            ^^^^^

    seqio.toml:10:26: task `docs`: `targets` must be a whole number, 0 or more, but is `-5`
       |
    10 | lengths    = { targets = -5 }
       |                          ^^

    seqio.toml:11:14: task `docs`: `cache_seed` must be a whole number, 0 or more, but is `1.5`
       |
    11 | cache_seed = 1.5
       |              ^^^

    seqio.toml:12:41: task `docs`, step 1 of 4 (`rekey`): `to_from` must be a table, but is an array
       |
    12 |  op = "rekey", to_from = ["en"] }, { op = "trim", features = "targets" }, "tokenize", { opp = "trim"
       |                          ^^^^^^

    seqio.toml:12:77: task `docs`, step 2 of 4 (`trim`): `features` must be an array, but is the text "targets"
       |
    12 |  op = "trim", features = "targets" }, "tokenize", { opp = "trim" }]
       |                          ^^^^^^^^^

    seqio.toml:12:90: task `docs`, step 3 of 4: this is not a step
       |
    12 |  features = "targets" }, "tokenize", { opp = "trim" }]
       |                          ^^^^^^^^^^
    hint: a step is a table such as `{ op = "tokenize" }`

    seqio.toml:12:102: task `docs`, step 4 of 4: the step has no `op`
       |
    12 | "targets" }, "tokenize", { opp = "trim" }]
       |                          ^^^^^^^^^^^^^^^^
    hint: a step is a table such as `{ op = "tokenize" }`
    "#);
}

#[test]
fn unknown_steps_vocabularies_features_and_kinds_name_the_nearest() {
    insta::assert_snapshot!(mistakes(&task(r#"
source   = { json = { train = "train.jsonl" } }
features = { targets = { vocabulary = "byte" } }
steps    = [{ op = "append_oes" }, { op = "quark" }]
"#)), @r#"
    seqio.toml:8:14: task `docs`: unknown key `json`
      |
    8 | source   = { json = { train = "train.jsonl" } }
      |              ^^^^
    hint: did you mean `jsonl`?

    seqio.toml:10:20: task `docs`, step 1 of 2 (`append_oes`): unknown step `append_oes`
       |
    10 | steps    = [{ op = "append_oes" }, { op = "quark" }]
       |                    ^^^^^^^^^^^^
    hint: did you mean `append_eos`?

    seqio.toml:10:43: task `docs`, step 2 of 2 (`quark`): unknown step `quark`
       |
    10 | steps    = [{ op = "append_oes" }, { op = "quark" }]
       |                                           ^^^^^^^
    hint: the steps are `filter`, `select`, `rekey`, `format`, `deduplicate`, `translate`, `multi_translate`, `summarize`, `squad`, `trivia_qa`, `stsb`, `glue`, `wnli_simple`, `wsc`, `wsc_simple`, `definite_pronoun_resolution_simple`, `record`, `rank_classification`, `rank_classification_formatter`, `fewshot`, `lm`, `parse_tsv`, `preprocess_tsv`, `split_text_to_words`, `random_split_text`, `fill_in_the_blank`, `fill_in_the_blank_sized`, `neighboring_pairs`, `next_sentence_prediction`, `filter_by_string_length`, `pad_nonspaced_languages`, `chat`, `tokenize`, `append_eos`, `append_eos_after_trim`, `trim`, `trim_tokens_at_front`, `truncate_inputs_left`, `trivia_qa_truncate_inputs`, `select_random_chunk`, `reduce_concat_tokens`, `split_tokens`, `split_tokens_to_inputs_length`, `split_tokens_to_targets_length`, `split_tokens_to_random_length`, `concatenate_and_split_to_fixed_length`, `denoise`, `span_corruption`, `iid_denoising`, `bert_masking`, `prefix_lm`, `full_lm`, `targets_for_prefix_lm_objective`, `pack_prefix_lm_encoder_decoder`, `pack_prefix_lm_decoder_only`, `fill_in_the_middle`, `ul2`, `cache`
    "#);
    insta::assert_snapshot!(mistakes(&task(r#"
source   = { jsonl = { train = "train.jsonl" } }
features = { targets = { vocabulary = "byte" } }
lengths  = { target = 5, targets = 0 }
steps    = [{ op = "tokenise" }]
"#)), @r#"
    seqio.toml:9:39: task `docs`, feature `targets`: there is no vocabulary `byte`
      |
    9 | features = { targets = { vocabulary = "byte" } }
      |                                       ^^^^^^
    hint: did you mean `bytes`?

    seqio.toml:10:14: task `docs`: `lengths` speaks of `target`, which is no feature
       |
    10 | lengths  = { target = 5, targets = 0 }
       |              ^^^^^^
    hint: did you mean `targets`?

    seqio.toml:10:36: task `docs`: the length of `targets` must be 1 or more, but is 0
       |
    10 | lengths  = { target = 5, targets = 0 }
       |                                    ^

    seqio.toml:11:20: task `docs`, step 1 of 1 (`tokenise`): unknown step `tokenise`
       |
    11 | steps    = [{ op = "tokenise" }]
       |                    ^^^^^^^^^^
    hint: did you mean `tokenize`?
    "#);
}

#[test]
fn missing_columns_name_what_is_there() {
    insta::assert_snapshot!(mistakes(&task(r#"
source   = { jsonl = { train = "train.jsonl" } }
features = { targets = { vocabulary = "bytes" } }
steps    = [
  { op = "rekey", to_from = { targets = "eng", inputs = "fr" } },
  { op = "tokenize" },
]
"#)), @r#"
    seqio.toml:11:41: task `docs`, step 1 of 2 (`rekey`): needs columns `eng`, `fr`, but the examples have only `de`, `en`, `ids`, `n`
       |
    11 |   { op = "rekey", to_from = { targets = "eng", inputs = "fr" } },
       |                                         ^^^^^
    hint: did you mean `en`?
    "#);
    insta::assert_snapshot!(mistakes(&task(r#"
source   = { jsonl = { train = "train.jsonl" } }
features = { targets = { vocabulary = "bytes" } }
steps    = [
  { op = "rekey", to_from = { inputs = "en" } },
  { op = "format", set = { targets = "in German: {de}" } },
  { op = "tokenize" },
]
"#)), @r#"
    seqio.toml:12:38: task `docs`, step 2 of 3 (`format`): needs column `de`, but the examples have only `inputs`
       |
    12 |   { op = "format", set = { targets = "in German: {de}" } },
       |                                      ^^^^^^^^^^^^^^^^^
    hint: `de` was there until step 1, `rekey`, which does not keep it
    "#);
}

#[test]
fn steps_in_an_impossible_order_are_refused() {
    insta::assert_snapshot!(mistakes(&task(r#"
source   = { jsonl = { train = "train.jsonl" } }
features = { targets = { vocabulary = "bytes" } }
steps    = [
  { op = "rekey", to_from = { targets = "en" } },
  { op = "append_eos" },
  { op = "tokenize" },
]
"#)), @r#"
    seqio.toml:12:10: task `docs`, step 2 of 3 (`append_eos`): needs `targets` to be token ids, but it is `string`
       |
    12 |   { op = "append_eos" },
       |          ^^^^^^^^^^^^
    hint: `tokenize` is step 3: move it before this step
    "#);
    insta::assert_snapshot!(mistakes(&task(r#"
source   = { jsonl = { train = "train.jsonl" } }
features = { targets = { vocabulary = "bytes" } }
steps    = [
  { op = "rekey", to_from = { targets = "en" } },
  { op = "tokenize" },
  { op = "tokenize" },
  { op = "append_eos" },
  { op = "cache" },
  { op = "append_eos" },
  { op = "rekey", to_from = { targets = "targets" } },
  { op = "cache" },
]
"#)), @r#"
    seqio.toml:13:10: task `docs`, step 3 of 8 (`tokenize`): the examples are tokenized already, by step 2
       |
    13 |   { op = "tokenize" },
       |          ^^^^^^^^^^
    hint: keep one of the two

    seqio.toml:16:10: task `docs`, step 6 of 8 (`append_eos`): feature `targets` has an EOS already, from step 4
       |
    16 |   { op = "append_eos" },
       |          ^^^^^^^^^^^^
    hint: keep one of the two, or limit one with `features = [...]`

    seqio.toml:17:10: task `docs`, step 7 of 8 (`rekey`): cannot stand below the `cache` boundary
       |
    17 |   { op = "rekey", to_from = { targets = "targets" } },
       |          ^^^^^^^
    hint: below it only steps may stand that need no look at columns: `append_eos`, `append_eos_after_trim`, `trim` and those that work on token sequences; move the step above

    seqio.toml:18:10: task `docs`, step 8 of 8 (`cache`): a second `cache`; the first is step 5
       |
    18 |   { op = "cache" },
       |          ^^^^^^^
    hint: keep one of the two: a task has one boundary
    "#);
}

#[test]
fn a_length_dependent_step_above_the_boundary_needs_a_fixed_length() {
    let text = |lengths: &str| {
        task(&format!(
            r#"
source   = {{ jsonl = {{ train = "train.jsonl" }} }}
features = {{ inputs = {{ vocabulary = "bytes" }}, targets = {{ vocabulary = "bytes" }} }}
{lengths}
steps    = [
  {{ op = "rekey", to_from = {{ inputs = "en", targets = "de" }} }},
  {{ op = "tokenize" }},
  {{ op = "trim" }},
  {{ op = "cache" }},
]
"#
        ))
    };
    insta::assert_snapshot!(mistakes(&text("lengths = { inputs = 5 }")), @r#"
    seqio.toml:14:10: task `docs`, step 3 of 4 (`trim`): depends on the length of `targets`, which a cache cannot know
       |
    14 |   { op = "trim" },
       |          ^^^^^^
    hint: move the step below `cache`, or fix the length for every run: `lengths = { targets = 512 }`
    "#);
    let (_folder, path) = folder(&text("lengths = { inputs = 5, targets = 6 }"));
    Registry::load(&[path]).unwrap().check().unwrap();
}

#[test]
fn an_implied_boundary_is_named_where_a_step_cannot_stand_below_it() {
    insta::assert_snapshot!(mistakes(&task(r#"
source   = { jsonl = { train = "train.jsonl" } }
features = { targets = { vocabulary = "bytes" } }
steps    = [
  { op = "rekey", to_from = { targets = "en" } },
  { op = "tokenize" },
  { op = "trim" },
  { op = "format", set = { note = "x" } },
]
"#)), @r#"
    seqio.toml:14:10: task `docs`, step 4 of 4 (`format`): cannot stand below `trim`, where the cache boundary is implied
       |
    14 |   { op = "format", set = { note = "x" } },
       |          ^^^^^^^^
    hint: below it only steps may stand that need no look at columns: `append_eos`, `append_eos_after_trim`, `trim` and those that work on token sequences; move the step above
    "#);
}

#[test]
fn features_that_never_become_tokens_are_refused() {
    insta::assert_snapshot!(mistakes(&task(r#"
source   = { jsonl = { train = "train.jsonl" } }
features = { de = { vocabulary = "bytes" }, inputs = { vocabulary = "bytes" }, n = { vocabulary = "ids" } }
steps    = []
"#)), @r#"
    seqio.toml:9:14: task `docs`, feature `de`: it is still text after the steps: none tokenizes it
      |
    9 | features = { de = { vocabulary = "bytes" }, inputs = { vocabulary = "bytes" }, n = { vocabulary = "i
      |              ^^
    hint: add `{ op = "tokenize" }` to the steps above the cache boundary

    seqio.toml:9:45: task `docs`, feature `inputs`: there is no such column after the steps; there are `de`, `en`, `ids`, `n`
      |
    9 |  vocabulary = "bytes" }, inputs = { vocabulary = "bytes" }, n = { vocabulary = "ids" } }
      |                          ^^^^^^
    hint: let a step make it, or set `required = false` if it may be absent

    seqio.toml:9:80: task `docs`, feature `n`: it must be token ids, but is `int64` after the steps
      |
    9 |  vocabulary = "bytes" }, n = { vocabulary = "ids" } }
      |                          ^
    hint: add `{ op = "tokenize" }` to the steps above the cache boundary
    "#);
    insta::assert_snapshot!(mistakes(&task(r#"
source   = { jsonl = { train = "train.jsonl" } }
features = {}
"#)), @r#"
    seqio.toml:9:1: task `docs`: the task has no features
      |
    9 | features = {}
      | ^^^^^^^^
    hint: write `features = { targets = { vocabulary = "..." } }`
    "#);
}

#[test]
fn an_eos_that_the_vocabulary_does_not_have_is_refused() {
    insta::assert_snapshot!(mistakes(&task(r#"
source   = { jsonl = { train = "train.jsonl" } }
features = { ids = { vocabulary = "ids" } }
steps    = [{ op = "tokenize" }, { op = "append_eos" }]
"#)), @r#"
    seqio.toml:10:41: task `docs`, step 2 of 2 (`append_eos`): feature `ids` asks for an EOS, but vocabulary `ids` has none; set `eos` in `[vocabulary.ids]`, or `add_eos = false` for the feature
       |
    10 | steps    = [{ op = "tokenize" }, { op = "append_eos" }]
       |                                         ^^^^^^^^^^^^
    "#);
}

#[test]
fn files_that_are_absent_or_broken_are_named() {
    let text = r#"
[vocabulary.absent]
sentencepiece = "vocab/t5.model"

[vocabulary.broken]
tokenizer_json = "bad.json"

[vocabulary.odd]
byte = true
eos = 3

[vocabulary.none]
extra_ids = 3

[task.docs]
source   = { jsonl = { train = ["train.jsonl", "none-*.jsonl"], test = "nor.jsonl" } }
shuffle  = ["trian"]
features = { targets = { vocabulary = "broken" } }
"#;
    insta::assert_snapshot!(mistakes(text), @r#"
    seqio.toml:3:17: vocabulary `absent`: cannot read `vocab/t5.model`: No such file or directory (os error 2)
      |
    3 | sentencepiece = "vocab/t5.model"
      |                 ^^^^^^^^^^^^^^^^
    hint: paths in a task file start from the folder that the file is in

    seqio.toml:6:18: vocabulary `broken`: `bad.json`: not a usable `tokenizer.json`: it is not JSON: expected ident at line 1 column 2
      |
    6 | tokenizer_json = "bad.json"
      |                  ^^^^^^^^^^

    seqio.toml:10:7: vocabulary `odd`: `eos`: a `byte` vocabulary has pad 0, eos 1, unk 2 and no bos
       |
    10 | eos = 3
       |       ^

    seqio.toml:12:13: vocabulary `none`: a vocabulary has exactly one of `sentencepiece`, `tokenizer_json`, `tiktoken`, `bert_wordpiece`, `unigram`, `full_codepoint`, `partial_codepoint`, `byte`, `pass_through`; found nothing
       |
    12 | [vocabulary.none]
       |             ^^^^

    seqio.toml:17:13: task `docs`: `shuffle` names `trian`, which is no split of the source
       |
    17 | shuffle  = ["trian"]
       |             ^^^^^^^
    hint: did you mean `train`?
    "#);
    let deep =
        text.replace("byte = true\neos = 3", "byte = true").replace("extra_ids = 3", "pass_through = 3");
    insta::assert_snapshot!(mistakes(&deep.replace("shuffle  = [\"trian\"]", "")), @r#"
    seqio.toml:3:17: vocabulary `absent`: cannot read `vocab/t5.model`: No such file or directory (os error 2)
      |
    3 | sentencepiece = "vocab/t5.model"
      |                 ^^^^^^^^^^^^^^^^
    hint: paths in a task file start from the folder that the file is in

    seqio.toml:6:18: vocabulary `broken`: `bad.json`: not a usable `tokenizer.json`: it is not JSON: expected ident at line 1 column 2
      |
    6 | tokenizer_json = "bad.json"
      |                  ^^^^^^^^^^

    seqio.toml:15:48: task `docs`, source: no file matches `none-*.jsonl`
       |
    15 | source   = { jsonl = { train = ["train.jsonl", "none-*.jsonl"], test = "nor.jsonl" } }
       |                                                ^^^^^^^^^^^^^^
    hint: paths in a task file start from the folder that the file is in

    seqio.toml:15:72: task `docs`, source: no file matches `nor.jsonl`
       |
    15 | source   = { jsonl = { train = ["train.jsonl", "none-*.jsonl"], test = "nor.jsonl" } }
       |                                                                        ^^^^^^^^^^^
    hint: paths in a task file start from the folder that the file is in
    "#);
    let (_folder, path) = folder("");
    let error = Registry::load(&[path.with_file_name("absent.toml")]).unwrap_err().to_string();
    assert!(error.starts_with("cannot read the task file `"), "{error}");
}

#[test]
fn absent_sources_alone_do_not_make_a_definition_wrong() {
    let (folder, path) = folder(&task(GOOD));
    let registry = Registry::load(&[&path]).unwrap();
    let with_source = registry.task("docs").unwrap();
    fs::remove_file(folder.path().join("train.jsonl")).unwrap();
    let registry = Registry::load(&[&path]).unwrap();
    assert!(registry.task("docs").unwrap_err().only_sources());
    let without = registry.task_without_source("docs", &with_source.definition()).unwrap();
    assert!(!without.has_source() && without.source().splits().is_empty());
    assert_eq!(without.cache_fingerprint(1), with_source.cache_fingerprint(1));
    let other = registry.task_without_source(
        "docs",
        &Definition { source_columns: BTreeMap::new(), ..with_source.definition() },
    );
    assert_ne!(other.unwrap().cache_fingerprint(1), with_source.cache_fingerprint(1));
}

#[test]
fn names_of_tasks_can_be_folders() {
    insta::assert_snapshot!(mistakes("[vocabulary.b]\nbyte = true\n[task.a-b]\nsource = { text = { train = \"train.jsonl\" } }\nfeatures = { text = { vocabulary = \"b\" } }\nsteps = [{ op = \"tokenize\" }]\n[task.\"a::b\"]\nsource = { text = { train = \"train.jsonl\" } }\nfeatures = { text = { vocabulary = \"b\" } }\nsteps = [{ op = \"tokenize\" }]\n"), @r#"
    seqio.toml:3:7: task `a-b`: a task's name has letters, digits, `_`, `.`, `:` and `#`, but `a-b` has `-`
      |
    3 | [task.a-b]
      |       ^^^

    seqio.toml:7:7: task `a::b`: `:` cuts a task's name into folders, but a part of `a::b` cannot be one
      |
    7 | [task."a::b"]
      |       ^^^^^^
    "#);
}

#[test]
fn two_files_cannot_define_the_same() {
    let (folder, first) = folder(&task(GOOD));
    let second = folder.path().join("more.toml");
    fs::write(&second, task(GOOD)).unwrap();
    let errors = Registry::load(&[first, second]).unwrap_err().to_string();
    let errors = errors.replace(&format!("{}/", folder.path().display()), "");
    insta::assert_snapshot!(errors, @r"
    more.toml:1:13: vocabulary `bytes` is defined already, at seqio.toml:1:13
      |
    1 | [vocabulary.bytes]
      |             ^^^^^
    hint: rename one of the two, or leave out one of the files

    more.toml:4:13: vocabulary `ids` is defined already, at seqio.toml:4:13
      |
    4 | [vocabulary.ids]
      |             ^^^
    hint: rename one of the two, or leave out one of the files

    more.toml:7:7: task `docs` is defined already, at seqio.toml:7:7
      |
    7 | [task.docs]
      |       ^^^^
    hint: rename one of the two, or leave out one of the files
    ");
}

#[test]
fn an_unknown_task_names_the_nearest() {
    let (_folder, path) = folder(&task(GOOD));
    let registry = Registry::load(&[path]).unwrap();
    insta::assert_snapshot!(registry.task("dosc").unwrap_err(), @r"
    there is no task `dosc`
    hint: did you mean `docs`?
    ");
    insta::assert_snapshot!(registry.task("wikipedia").unwrap_err(), @r"
    there is no task `wikipedia`
    hint: the tasks are `docs`
    ");
}

#[test]
fn mistakes_in_rust_have_the_same_words_without_a_place() {
    let spec = TaskSpec::new(SourceSpec::jsonl([("train", "none.jsonl")]))
        .feature("targets", FeatureSpec::tokens("byte"))
        .length("target", 3);
    let file = TaskFile::new().vocabulary("bytes", VocabularySpec::byte()).task("docs", spec);
    insta::assert_snapshot!(Registry::from_task_file(file, ".").unwrap_err(), @r"
    task `docs`, feature `targets`: there is no vocabulary `byte`
    hint: did you mean `bytes`?

    task `docs`: `lengths` speaks of `target`, which is no feature
    hint: did you mean `targets`?
    ");
}

/// A step of a program's own: text in lower case.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Lowercase {
    column: String,
}

impl crate::preprocess::Preprocessor for Lowercase {
    fn name(&self) -> &'static str {
        "lowercase"
    }

    fn output_schema(
        &self,
        input: &SchemaRef,
        _: &crate::preprocess::StepContext,
    ) -> Result<SchemaRef, crate::preprocess::PreprocessError> {
        match input.column_with_name(&self.column) {
            Some(_) => Ok(Arc::clone(input)),
            None => {
                Err(crate::preprocess::PreprocessError::missing("lowercase", "column", &self.column, input))
            }
        }
    }

    fn apply(
        &self,
        examples: crate::example::Examples,
        _: &crate::preprocess::StepContext,
    ) -> Result<crate::example::Examples, crate::preprocess::PreprocessError> {
        Ok(examples)
    }
}

#[test]
fn a_programs_own_step_is_used_from_task_files_like_any_other() {
    let custom = || CustomSteps::new().register::<Lowercase>("lowercase");
    let with = |step: &str| {
        let (folder, path) = folder(&task(&GOOD.replace("steps    = [", &format!("steps    = [{step}, "))));
        let task = Registry::load_with(&[path], custom()).and_then(|registry| registry.task("docs"));
        task.map_err(|errors| errors.to_string().replace(&format!("{}/", folder.path().display()), ""))
    };
    let lowercase = with(r#"{ op = "lowercase", column = "en" }"#).unwrap();
    assert_eq!(lowercase.spec().steps[0], CustomStep::new("lowercase").setting("column", "en").into());
    let definition = lowercase.definition();
    assert_eq!(definition.step_versions, [1, 1, 1]);
    let json = serde_json::to_string(&definition).unwrap();
    let again = Task::from_definition(serde_json::from_str(&json).unwrap(), BTreeMap::new()).unwrap();
    assert_eq!(again.cache_fingerprint(1), lowercase.cache_fingerprint(1));

    insta::assert_snapshot!(with(r#"{ op = "lowercas", column = "en" }"#).unwrap_err(), @r#"
    seqio.toml:10:20: task `docs`, step 1 of 3 (`lowercas`): unknown step `lowercas`
       |
    10 | steps    = [{ op = "lowercas", column = "en" }, { op = "rekey", to_from = { targets = "en" } }, { op
       |                    ^^^^^^^^^^
    hint: did you mean `lowercase`?
    "#);
    insta::assert_snapshot!(with(r#"{ op = "lowercase", columns = "en" }"#).unwrap_err(), @r#"
    seqio.toml:10:20: task `docs`, step 1 of 3 (`lowercase`): unknown field `columns`, expected `column`
       |
    10 | steps    = [{ op = "lowercase", columns = "en" }, { op = "rekey", to_from = { targets = "en" } }, {
       |                    ^^^^^^^^^^^
    "#);
    insta::assert_snapshot!(with(r#"{ op = "lowercase", column = "em" }"#).unwrap_err(), @r#"
    seqio.toml:10:42: task `docs`, step 1 of 3 (`lowercase`): needs column `em`, but the examples have only `de`, `en`, `ids`, `n`
       |
    10 |  = "lowercase", column = "em" }, { op = "rekey", to_from = { targets = "en" } }, { op = "tokenize" }
       |                          ^^^^
    hint: did you mean `en`?
    "#);
}

const FULL: &str = r#"
[vocabulary.bytes]
byte = true
extra_ids = 10

[task.pairs]
source     = { jsonl = { train = "train.jsonl", validation = ["valid.jsonl", "train.jsonl"] }, name = "pairs" }
features   = { inputs = { vocabulary = "bytes", add_eos = false }, targets = { vocabulary = "bytes" } }
lengths    = { inputs = 5 }
cache_seed = 7
shuffle    = ["train", "validation"]
steps      = [
  { op = "format", set = { inputs = "translate: {en}", targets = "{de}" } },
  { op = "rekey", to_from = { inputs = "inputs", targets = "targets" } },
  { op = "tokenize", keep_pretokenized = true },
  { op = "trim", features = ["inputs"] },
  { op = "cache" },
  { op = "append_eos" },
  { op = "trim" },
]

[task.short]
source   = { text = { train = "train.jsonl" } }
features = { text = { vocabulary = "bytes", required = false } }
steps    = [{ op = "tokenize" }, { op = "append_eos_after_trim" }]
"#;

fn full() -> TaskFile {
    let pairs = TaskSpec::new(
        SourceSpec::jsonl([
            ("train", "train.jsonl"),
            ("validation", "valid.jsonl"),
            ("validation", "train.jsonl"),
        ])
        .name("pairs"),
    )
    .feature("inputs", FeatureSpec::tokens("bytes").without_eos())
    .feature("targets", FeatureSpec::tokens("bytes"))
    .length("inputs", 5)
    .cache_seed(7)
    .shuffle(["train", "validation"])
    .step(Format::new([("inputs", "translate: {en}"), ("targets", "{de}")]))
    .step(Rekey::new([("inputs", "inputs"), ("targets", "targets")]))
    .step(Tokenize::default().keep_pretokenized())
    .step(Trim::only(["inputs"]))
    .cache()
    .step(AppendEos::default())
    .step(Trim::default());
    let short = TaskSpec::new(SourceSpec::text([("train", "train.jsonl")]))
        .feature("text", FeatureSpec::tokens("bytes").optional())
        .step(Tokenize::default())
        .step(AppendEosAfterTrim::default());
    TaskFile::new()
        .vocabulary("bytes", VocabularySpec::byte().extra_ids(10))
        .task("pairs", pairs)
        .task("short", short)
}

#[test]
fn task_file_and_builder_give_equal_specs_and_fingerprints() {
    assert_eq!(toml::from_str::<TaskFile>(FULL).unwrap(), full());
    let (folder, path) = folder(FULL);
    let read = Registry::load(&[path]).unwrap();
    let built = Registry::from_task_file(full(), folder.path()).unwrap();
    for name in ["pairs", "short"] {
        let (read, built) = (read.task(name).unwrap(), built.task(name).unwrap());
        assert_eq!(read.spec(), built.spec());
        assert_eq!(read.definition(), built.definition());
        assert_eq!(read.cache_fingerprint(1), built.cache_fingerprint(1));
    }
}

#[test]
fn specs_are_written_and_read_back() {
    let json = serde_json::to_string(&full()).unwrap();
    assert_eq!(serde_json::from_str::<TaskFile>(&json).unwrap(), full());
    let text = toml::to_string(&full()).unwrap();
    assert_eq!(toml::from_str::<TaskFile>(&text).unwrap(), full());
}

/// The documentation of task files is true: every block is a task file, and says what the builder says.
#[test]
fn the_documented_task_files_are_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/task-files.md");
    let text = fs::read_to_string(path).unwrap();
    let blocks: Vec<&str> =
        text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= 4);
    for block in &blocks {
        Registry::from_text("seqio.toml", *block).unwrap();
    }
    let built = TaskSpec::new(SourceSpec::jsonl([
        ("train", "data/train-*.jsonl"),
        ("validation", "data/valid.jsonl.gz"),
    ]))
    .feature("targets", FeatureSpec::tokens("bytes"))
    .step(Rekey::new([("targets", "text")]))
    .step(Tokenize::default())
    .cache()
    .step(AppendEosAfterTrim::default());
    assert_eq!(toml::from_str::<TaskFile>(blocks[0]).unwrap().task["docs"], built);
    for (op, _) in crate::preprocess::Step::TABLE {
        assert!(text.contains(&format!("| `{op}` |")), "`{op}` is not documented");
    }
}

#[test]
fn a_task_may_use_the_vocabularies_of_another_file() {
    let (folder, first) = folder("[vocabulary.bytes]\nbyte = true\n");
    let second = folder.path().join("tasks.toml");
    fs::write(&second, format!("[task.docs]\n{GOOD}")).unwrap();
    Registry::load(&[&second, &first]).unwrap().check().unwrap();
    assert!(Registry::load(&[&second]).is_err());
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(256))]
    #[test]
    fn no_text_makes_the_reader_panic(
        cuts in proptest::collection::vec((0..FULL.len(), 0..12usize, "[a-z0-9=\\[\\]{}\"\n., é-]{0,3}"), 1..4),
    ) {
        let mut text = FULL.replace("jsonl\"", "jsonl.absent\"");
        for (at, length, inserted) in cuts {
            let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            let end = (at + length).min(text.len());
            let end = (end..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
            text.replace_range(at..end, &inserted);
        }
        match Registry::from_text("absent/seqio.toml", text) {
            Ok(registry) => { let _ = registry.check().map_err(|errors| errors.to_string()); }
            Err(errors) => assert!(!errors.to_string().is_empty()),
        }
    }
}
