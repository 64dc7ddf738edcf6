//! What token steps do to literal examples, and what they refuse.

use std::sync::Arc;

use arrow::datatypes::Schema;
use serde_json::{Value, json};

use super::testing::{Sequences, context, document, restored, run, run_in_order};
use crate::preprocess::columns::token_field;
use crate::preprocess::{CustomSteps, Preprocessor, Step, StepContext};

fn step(settings: Value) -> Arc<dyn Preprocessor> {
    let step: Step = serde_json::from_value(settings).unwrap();
    step.preprocessor(&CustomSteps::default()).unwrap().unwrap()
}

fn documents(lengths: &[usize]) -> Vec<Sequences> {
    (0..).zip(lengths).map(|(index, length)| document(2 + index * 7 % 400, *length)).collect()
}

fn ids<'a>(item: &'a Sequences, name: &str) -> &'a [i32] {
    &item[name]
}

/// What a step says to a task with these columns and lengths: of its settings, or of the lengths.
fn refusal(settings: Value, ctx: &StepContext, columns: &[&str]) -> String {
    let step = step(settings);
    let schema = Arc::new(Schema::new(columns.iter().map(|name| token_field(name)).collect::<Vec<_>>()));
    match step.output_schema(&schema, ctx) {
        Err(error) => error.to_string(),
        Ok(_) => step.item_step(ctx).unwrap().unwrap_err().to_string(),
    }
}

const PAIR: [&str; 2] = ["inputs", "targets"];

#[test]
fn inputs_of_span_corruption_just_fill_their_length() {
    let ctx = context(&PAIR, &[("inputs", 512), ("targets", 114)]);
    let items =
        run(step(json!({"op": "span_corruption"})).as_ref(), &ctx, &documents(&[100; 128]), 7).unwrap();
    assert_eq!(items.len(), (128 * 100_usize).div_ceil(568));
    let (last, full) = items.split_last().unwrap();
    assert!(full.iter().all(|item| (item["inputs"].len(), item["targets"].len()) == (511, 113)));
    assert!(last["inputs"].len() < 511);
    let text: Vec<i32> = items.iter().flat_map(|item| restored(&item["inputs"], &item["targets"])).collect();
    let whole: Vec<i32> =
        documents(&[100; 128]).iter().flat_map(|example| example["targets"].clone()).collect();
    assert_eq!(text, whole);
}

#[test]
fn reserved_ids_of_the_inputs_stay_free() {
    let ctx = context(&PAIR, &[("inputs", 512), ("targets", 114)]);
    let reserved = step(json!({"op": "span_corruption", "reserved_for_packing": 12}));
    let items = run(reserved.as_ref(), &ctx, &documents(&[60_000]), 7).unwrap();
    assert_eq!(items[0]["inputs"].len(), 499);
}

#[test]
fn random_choices_depend_on_seed_and_example_alone() {
    let ctx = context(&PAIR, &[("inputs", 64), ("targets", 64)]);
    let documents = documents(&[100, 3, 70_000, 55, 1]);
    for settings in [
        json!({"op": "span_corruption", "merge_examples_to_reduce_padding": false}),
        json!({"op": "prefix_lm"}),
        json!({"op": "select_random_chunk", "max_length": 20, "min_length": 2, "uniform_random_start": true}),
        json!({"op": "split_tokens", "max_tokens_per_segment": 20, "min_tokens_per_segment": 2}),
        json!({"op": "split_tokens_to_random_length"}),
        json!({"op": "denoise", "noise_density": 0.3, "noise_mask_fn": "iid_noise_mask",
               "inputs_fn": "noise_token_to_random_token_or_sentinel"}),
        json!({"op": "denoise", "noise_density": 0.3, "noise_mask_fn": "regular_noise_mask",
               "inputs_fn": "permute_noise_tokens", "targets_fn": "drop_nonnoise_tokens"}),
        json!({"op": "bert_masking"}),
        json!({"op": "fill_in_the_middle", "prefix_id": 900, "suffix_id": 901, "middle_id": 902}),
        json!({"op": "ul2", "denoisers": [
            {"mode_ids": [900], "noise_density": 0.15, "mean_noise_span_length": 3.0},
            {"mode_ids": [901], "noise_density": 0.25},
        ], "merge_examples_to_reduce_padding": false}),
    ] {
        let step = step(settings);
        let order = [3, 0, 4, 2, 1];
        let once = run(step.as_ref(), &ctx, &documents, 7).unwrap();
        assert_eq!(once, run(step.as_ref(), &ctx, &documents, 7).unwrap());
        assert_ne!(once, run(step.as_ref(), &ctx, &documents, 8).unwrap(), "{step:?}");
        let sorted = |mut items: Vec<Sequences>| {
            items.sort();
            items
        };
        let moved = run_in_order(step.as_ref(), &ctx, &documents, &order, 7).unwrap();
        assert_eq!(sorted(once), sorted(moved), "{step:?} depends on the order of examples");
    }
}

#[test]
fn bytes_may_be_sentinels_where_a_task_says_so() {
    let mut ctx = context(&PAIR, &[("inputs", 64), ("targets", 64)]);
    for feature in ctx.output_features.values_mut() {
        feature.vocabulary = Arc::new(crate::vocabulary::ByteVocabulary::new(0, true).unwrap());
        feature.vocabulary_name = "bytes".to_owned();
    }
    insta::assert_snapshot!(refusal(json!({"op": "span_corruption"}), &ctx, &["targets"]), @"step `span_corruption`: a sequence needs 1 sentinel, one a span, but there are 0: give the vocabulary more `extra_ids`, make spans longer or sequences shorter, or let more of the last ids of the vocabulary be sentinels with `num_sentinels`");
    let bytes = step(json!({"op": "span_corruption", "num_sentinels": 100}));
    let items = run(bytes.as_ref(), &ctx, &documents(&[100]), 7).unwrap();
    assert!(ids(&items[0], "inputs").contains(&258));
}

#[test]
fn a_mask_with_too_many_spans_is_an_error_in_words() {
    let ctx = context(&PAIR, &[("inputs", 4096), ("targets", 4096)]);
    let iid = step(json!({"op": "iid_denoising"}));
    let error = run(iid.as_ref(), &ctx, &documents(&[4000]), 7).unwrap_err();
    assert!(error.starts_with("example 0: a sequence needs "), "{error}");
    assert!(error.contains("but there are 100"), "{error}");
}

#[test]
fn ul2_writes_modes_and_loses_no_token() {
    let ctx = context(&PAIR, &[("inputs", 64), ("targets", 64)]);
    let denoisers = json!([
        {"mode_ids": [890], "noise_density": 0.15, "mean_noise_span_length": 3.0},
        {"mode_ids": [891], "noise_density": 0.25, "weight": 2.0},
        {"mode_ids": [892, 893], "noise_density": 0.5, "mean_noise_span_length": 8.0},
    ]);
    let ul2 = step(json!({"op": "ul2", "denoisers": denoisers}));
    let documents = documents(&[300; 100]);
    let items = run(ul2.as_ref(), &ctx, &documents, 7).unwrap();
    let mut modes = [0; 3];
    let mut text = Vec::new();
    for item in &items {
        let (inputs, targets) = (ids(item, "inputs"), ids(item, "targets"));
        assert!(inputs.len() < 64 && targets.len() < 64);
        let mode = (inputs[0] - 890) as usize;
        modes[mode] += 1;
        match mode {
            1 => text.extend([&inputs[1..], targets].concat()),
            _ => text.extend(restored(&inputs[1 + mode / 2..], targets)),
        }
    }
    let whole: Vec<i32> = documents.iter().flat_map(|example| example["targets"].clone()).collect();
    assert_eq!(text, whole);
    assert!(modes[1] > modes[0] && modes[1] > modes[2] && modes.iter().all(|count| *count > 50), "{modes:?}");
}

#[test]
fn ul2_of_the_paper_has_seven_denoisers() {
    let mut ctx = context(&PAIR, &[("inputs", 512), ("targets", 512)]);
    for feature in ctx.output_features.values_mut() {
        feature.vocabulary = Arc::new(crate::vocabulary::ByteVocabulary::new(100, true).unwrap());
    }
    // Spans of 3 at density 0.5 are 128 where inputs are 512 long: more than T5's 100 sentinels.
    insta::assert_snapshot!(refusal(json!({"op": "ul2"}), &ctx, &["targets"]), @"step `ul2`: denoiser 4 of 7: a sequence needs 127 sentinels, one a span, but there are 100: give the vocabulary more `extra_ids`, make spans longer or sequences shorter, or let more of the last ids of the vocabulary be sentinels with `num_sentinels`");
    let ul2 = step(json!({"op": "ul2", "num_sentinels": 200}));
    let words = ul2.item_step(&ctx).unwrap().unwrap().in_words();
    insta::assert_snapshot!(words, @"inputs, targets: one of 7 denoisers a segment");
    let items = run(ul2.as_ref(), &ctx, &documents(&[20_000]), 7).unwrap();
    let mode = |item: &Sequences| item["inputs"][1] - 3;
    for letter in *b"RSX" {
        assert!(items.iter().any(|item| mode(item) == i32::from(letter)), "{letter}");
    }
}

#[test]
fn eight_of_ten_chosen_tokens_are_masked_and_one_is_random() {
    let ctx = context(&["inputs", "targets", "weights"], &[]);
    let bert = step(json!({"op": "bert_masking", "weights_feature_key": "weights"}));
    let items = run(bert.as_ref(), &ctx, &documents(&[400; 100]), 7).unwrap();
    let (mut chosen, mut masked, mut other) = (0, 0, 0);
    for (item, document) in items.iter().zip(documents(&[400; 100])) {
        assert_eq!(item["targets"], document["targets"]);
        let tokens = item["inputs"].iter().zip(&item["targets"]).zip(&item["weights"]);
        for ((input, target), weight) in tokens {
            chosen += weight;
            masked += i32::from(*input == 999);
            other += i32::from(*input != 999 && input != target);
            assert!(*weight == 1 || input == target);
            assert!(*input == 999 || (3..900).contains(input) || input == target);
        }
    }
    assert!((5700..6300).contains(&chosen), "{chosen}");
    assert!((masked as f64 / chosen as f64 - 0.8).abs() < 0.02, "{masked}");
    assert!((other as f64 / chosen as f64 - 0.1).abs() < 0.015, "{other}");
}

#[test]
fn parts_of_a_sequence_change_places_around_its_middle() {
    let ctx = context(&["targets"], &[]);
    let settings = |spm_rate: f64| {
        json!({"op": "fill_in_the_middle", "prefix_id": 900, "suffix_id": 901, "middle_id": 902, "end_id": 903,
               "fim_rate": 1.0, "spm_rate": spm_rate})
    };
    let documents = documents(&[9, 0, 1, 30]);
    for (spm_rate, suffix_first) in [(0.0, false), (1.0, true)] {
        for (item, document) in
            run(step(settings(spm_rate)).as_ref(), &ctx, &documents, 7).unwrap().iter().zip(&documents)
        {
            let made = ids(item, "targets");
            let place = |id: i32| made.iter().position(|other| *other == id).unwrap();
            let [prefix, suffix, middle] = [900, 901, 902].map(place);
            assert_eq!((prefix, made.last()), (0, Some(&903)));
            let middle_part = &made[middle + 1..made.len() - 1];
            let (prefix_part, suffix_part) = (&made[1..suffix], &made[suffix + 1..middle]);
            assert!(!suffix_first || prefix_part.is_empty());
            assert_eq!([prefix_part, middle_part, suffix_part].concat(), document["targets"]);
        }
    }
}

#[test]
fn sequences_are_cut_in_front() {
    let examples =
        vec![Sequences::from([("inputs".to_owned(), vec![5, 6, 7]), ("targets".to_owned(), vec![8, 9])])];
    let ctx = context(&PAIR, &[("inputs", 2), ("targets", 1)]);
    let cut = |settings| run(step(settings).as_ref(), &ctx, &examples, 0).unwrap().remove(0);
    let left = cut(json!({"op": "truncate_inputs_left"}));
    assert_eq!((ids(&left, "inputs"), ids(&left, "targets")), (&[6, 7][..], &[8, 9][..]));
    let front = cut(json!({"op": "trim_tokens_at_front"}));
    assert_eq!((ids(&front, "inputs"), ids(&front, "targets")), (&[7][..], &[][..]));
    let named = cut(json!({"op": "trim_tokens_at_front", "keys_to_trim": ["inputs"]}));
    assert_eq!((ids(&named, "inputs"), ids(&named, "targets")), (&[7][..], &[8, 9][..]));
}

#[test]
fn rows_of_prefix_models_are_made_of_rows_of_targets() {
    let names =
        ["decoder_target_tokens", "decoder_input_tokens", "decoder_loss_weights", "decoder_causal_attention"];
    let ctx = context(&[&names[..], &["targets"]].concat(), &[("targets", 16)]);
    let decoder = step(json!({"op": "pack_prefix_lm_decoder_only"}));
    let rows = run(decoder.as_ref(), &ctx, &documents(&[16; 40]), 7).unwrap();
    let prefixes: Vec<usize> = rows
        .iter()
        .map(|row| row["decoder_loss_weights"].iter().filter(|weight| **weight == 0).count())
        .collect();
    assert!(prefixes.iter().all(|prefix| (1..16).contains(prefix)), "{prefixes:?}");
    let whole = step(json!({"op": "pack_prefix_lm_decoder_only", "loss_on_targets_only": false}));
    let rows = run(whole.as_ref(), &ctx, &documents(&[16]), 7).unwrap();
    assert_eq!(rows[0]["decoder_loss_weights"], [1; 16]);
    let error = run(decoder.as_ref(), &ctx, &documents(&[16, 15]), 7).unwrap_err();
    insta::assert_snapshot!(error, @"example 1: `targets` has 15 ids where a row has 16; put `targets_for_prefix_lm_objective` in front of the step");
}

#[test]
fn mistakes_are_told_before_data_are_read() {
    let ctx = |lengths: &[(&str, usize)]| context(&PAIR, lengths);
    let long = ctx(&[("inputs", 512), ("targets", 114)]);
    let targets = ["targets"];
    insta::assert_snapshot!(refusal(json!({"op": "span_corruption"}), &ctx(&[]), &targets), @"step `span_corruption`: it needs the length of `inputs`: give it for a run with `--lengths inputs=512`, or for every run by `lengths = { inputs = 512 }` in the task");
    insta::assert_snapshot!(refusal(json!({"op": "span_corruption"}), &ctx(&[("inputs", 64), ("targets", 8)]), &targets), @"step `span_corruption`: targets need a length of 14, but theirs is 8: at `noise_density` 0.15 and `mean_noise_span_length` 3 inputs of length 64 hold 70 tokens; make the targets longer or the inputs shorter");
    insta::assert_snapshot!(refusal(json!({"op": "span_corruption"}), &ctx(&[("inputs", 4096), ("targets", 1024)]), &targets), @"step `span_corruption`: a sequence needs 227 sentinels, one a span, but there are 100: give the vocabulary more `extra_ids`, make spans longer or sequences shorter, or let more of the last ids of the vocabulary be sentinels with `num_sentinels`");
    insta::assert_snapshot!(refusal(json!({"op": "span_corruption", "noise_density": 0.9}), &long, &targets), @"step `span_corruption`: targets need a length of 1534, but theirs is 114: at `noise_density` 0.9 and `mean_noise_span_length` 3 inputs of length 512 hold 1278 tokens; make the targets longer or the inputs shorter");
    insta::assert_snapshot!(refusal(json!({"op": "span_corruption", "passthrough_feature_keys": ["inputs"]}), &long, &targets), @"step `span_corruption`: `inputs` cannot be passed on: the step makes it; leave it out of `passthrough_feature_keys`");
    insta::assert_snapshot!(refusal(json!({"op": "span_corruption", "input_feature_key": "input"}), &long, &targets), @"step `span_corruption`: the task has no feature `input`; add `input` to its `features`");
    let denoise = |key: &str, value: Value| {
        let mut settings = json!({"op": "denoise", "noise_density": 0.3, "noise_mask_fn": "iid_noise_mask",
                                  "inputs_fn": "drop_noise_tokens"});
        settings[key] = value;
        refusal(settings, &ctx(&[]), &targets)
    };
    insta::assert_snapshot!(denoise("mean_noise_span_length", json!(3.0)), @"step `denoise`: `mean_noise_span_length` is a setting of `random_spans_noise_mask` and would have no effect; leave it out");
    insta::assert_snapshot!(denoise("noise_density", json!(1.5)), @"step `denoise`: `noise_density` is 1.5; it must be from 0 to 1");
    insta::assert_snapshot!(denoise("input_feature_key", json!("targets")), @"step `denoise`: inputs cannot be called `targets`; that is what they are made of");
    insta::assert_snapshot!(refusal(json!({"op": "split_tokens", "max_tokens_per_segment": 0}), &long, &targets), @"step `split_tokens`: segments would have no tokens; they must have at least 1");
    insta::assert_snapshot!(refusal(json!({"op": "split_tokens", "max_tokens_per_segment": 9, "additional_feature_keys": ["targets"]}), &long, &targets), @"step `split_tokens`: feature `targets` is named twice; name it once");
    insta::assert_snapshot!(refusal(json!({"op": "split_tokens", "max_tokens_per_segment": 9, "additional_feature_keys": ["target"]}), &long, &targets), @"step `split_tokens`: there is no feature `target`; did you mean `targets`?");
    insta::assert_snapshot!(refusal(json!({"op": "select_random_chunk"}), &ctx(&[("targets", 1)]), &targets), @"step `select_random_chunk`: the length of `targets` is 1: there is no room for a token");
    insta::assert_snapshot!(refusal(json!({"op": "reduce_concat_tokens", "batch_size": 0}), &long, &targets), @"step `reduce_concat_tokens`: `batch_size` is 0; it must be from 1 to 1048576");
    insta::assert_snapshot!(refusal(json!({"op": "ul2"}), &long, &targets), @"step `ul2`: vocabulary `thousand` cannot encode its mode (cannot encode: a `pass_through` vocabulary has no text: the column must already hold ids); give ids with `mode_ids`");
    insta::assert_snapshot!(refusal(json!({"op": "ul2", "denoisers": []}), &long, &targets), @"step `ul2`: no denoiser would ever be drawn; give `denoisers` at least one with a `weight` above 0");
    insta::assert_snapshot!(refusal(json!({"op": "bert_masking", "mask_id": 1000}), &long, &targets), @"step `bert_masking`: `mask_id` is 1000, but ids of vocabulary `thousand` are 0 to 999");
    insta::assert_snapshot!(refusal(json!({"op": "bert_masking", "random_prob": 0.5}), &long, &targets), @"step `bert_masking`: `mask_prob` + `random_prob` is 1.3; it must be from 0 to 1");
    insta::assert_snapshot!(refusal(json!({"op": "pack_prefix_lm_decoder_only"}), &long, &targets), @"step `pack_prefix_lm_decoder_only`: the task has no feature `decoder_target_tokens`; add `decoder_target_tokens` to its `features`");
    insta::assert_snapshot!(refusal(json!({"op": "fill_in_the_middle", "prefix_id": 1, "suffix_id": 2, "middle_id": 2000}), &long, &targets), @"step `fill_in_the_middle`: `middle_id` is 2000, but ids of the vocabulary are 0 to 999");
}
