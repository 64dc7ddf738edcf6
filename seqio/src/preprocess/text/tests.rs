//! Text steps on rows that are written here, and their laws on random texts.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::preprocess::golden::{examples, made, rows_of, run};
use crate::preprocess::{PreprocessError, StepContext};
use crate::testing::{assert_step_laws, text_examples};

/// What a step makes of some rows; the laws hold for them too.
fn rows(step: Value, rows: Value) -> Result<Vec<Value>, PreprocessError> {
    let input = examples(rows.as_array().unwrap());
    Ok(rows_of(&run(&[made(step)], input, &StepContext::default())?))
}

fn refused(step: Value, input: Value) -> String {
    rows(step, input).unwrap_err().to_string()
}

#[test]
fn two_of_many_languages_are_picked() {
    let step = json!({ "op": "multi_translate", "source_language": "de", "target_language": "en" });
    let input = json!([
        { "language": ["de", "fr", "en"], "translation": ["Gut.", "Bon.", "Good."] },
        { "language": ["de", "fr"], "translation": ["Gut.", "Bon."] },
    ]);
    let expected = json!([{ "inputs": "translate German to English: Gut.", "targets": "Good." }]);
    assert_eq!(json!(rows(step.clone(), input).unwrap()), expected);
    let uneven = json!([{ "language": ["de", "en"], "translation": ["Gut."] }]);
    insta::assert_snapshot!(refused(step, uneven), @"step `multi_translate`, feature `translation`: it has 1 text, but `language` has 2 (record 1 of file 1, example 952a7ba57f2b31e3486428d68be24aee)");
    let step = json!({ "op": "translate", "source_language": "tlh", "target_language": "en" });
    let input = json!([{ "tlh": "nuqneH", "en": "What?" }]);
    let german = json!({ "op": "translate", "source_language": "de", "target_language": "en" });
    assert!(refused(german, input.clone()).contains("needs column `de`"));
    insta::assert_snapshot!(refused(step, input.clone()), @r#"step `translate`: `tlh` is no code of a language that it knows the name of; write the name, `source_name = "…"`"#);
    let named = json!({ "op": "translate", "source_language": "tlh", "target_language": "en", "source_name": "Klingon" });
    assert_eq!(rows(named, input).unwrap()[0]["inputs"], "translate Klingon to English: nuqneH");
}

#[test]
fn every_passage_gives_the_answers_that_stand_in_it() {
    let input = json!([
        { "question": "Who?", "wiki_context": ["Ann did.", "Bob (and ANN)."], "normalized_aliases": ["ann", "bob (and ann"] },
        { "question": "What?", "wiki_context": ["Nothing."], "normalized_aliases": ["ann", ""] },
    ]);
    let example = |context: &str, targets: &str| json!({ "inputs": format!("question: Who ? context: {context}"), "targets": targets });
    let expected = json!([
        example("Ann did . ", "ann"),
        example("Bob ( and ANN ) . ", "ann"),
        example("Bob ( and ANN ) . ", "bob ( and ann"),
    ]);
    assert_eq!(json!(rows(json!({ "op": "trivia_qa" }), input.clone()).unwrap()), expected);
    insta::assert_snapshot!(refused(json!({ "op": "trivia_qa" }), json!([{ "question": "", "normalized_aliases": ["a"] }])), @"step `trivia_qa` needs column `wiki_context`, but the examples have only `normalized_aliases`, `question`");
    let step = json!({ "op": "trivia_qa", "contexts": ["wiki_context", "more"] });
    insta::assert_snapshot!(refused(step, input), @"step `trivia_qa` needs column `more`, but the examples have only `normalized_aliases`, `question`, `wiki_context`");
}

#[test]
fn a_question_without_an_answer_is_told_with_its_record() {
    let input = json!([
        { "question": "q", "context": "c", "answers": ["a"] },
        { "question": "q", "context": "c", "answers": [] },
    ]);
    insta::assert_snapshot!(refused(json!({ "op": "squad" }), input), @r#"step `squad`, feature `answers`: it has no answer; drop such examples before, `{ op = "filter", where = "cardinality(answers) > 0" }` (record 2 of file 1, example 9d86b5cda28fc7a6691657e6bf69bf81)"#);
}

#[test]
fn labels_have_names_and_texts_their_columns() {
    let step = |more: Value| {
        let mut step = json!({ "op": "glue", "benchmark_name": "b", "label_names": ["no", "yes"] });
        step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        step
    };
    let input = json!([{ "s2": "B", "s1": "A", "label": 1, "key": 4 }]);
    let ordered = step(json!({ "feature_names": ["s2", "s1"], "id_key": "key" }));
    let expected = json!([{ "idx": 4, "inputs": "b s2: B s1: A", "targets": "yes" }]);
    assert_eq!(json!(rows(ordered, input.clone()).unwrap()), expected);
    let sorted = step(json!({ "id_key": "key" }));
    assert_eq!(rows(sorted, input.clone()).unwrap()[0]["inputs"], "b s1: A s2: B");
    insta::assert_snapshot!(refused(step(json!({})), input), @"step `glue` needs `key` to be text, but it is `int64`");
    insta::assert_snapshot!(refused(step(json!({})), json!([{ "s": "A", "label": 2 }])), @"step `glue`, feature `label`: there is no label 2; there are 2, counted from 0 (record 1 of file 1, example 952a7ba57f2b31e3486428d68be24aee)");
    let multirc = json!({ "op": "glue", "benchmark_name": "multirc", "label_names": ["False", "True"] });
    let input = json!([{ "paragraph": "<b>P</b><br>q", "question": "Q", "label": 0, "idx/paragraph": 3, "idx/answer": 1 }]);
    let expected = json!([{ "idx/paragraph": 3, "idx/answer": 1, "inputs": "multirc paragraph: P q question: Q", "targets": "False" }]);
    assert_eq!(json!(rows(multirc, input).unwrap()), expected);
}

#[test]
fn pronouns_are_asked_for_in_three_ways() {
    let simple = json!([
        { "text": "Mitchell asked Tom if he could lend some .", "span1_text": "Tom", "span2_text": "he", "span2_index": 4, "label": 1, "idx": 7 },
        { "text": "Mitchell asked Tom if he could lend some .", "span1_text": "Mitchell", "span2_text": "he", "span2_index": 4, "label": 0, "idx": 8 },
    ]);
    let example = |targets: &str, label: i64, idx: i64| {
        let inputs = "wsc: Mitchell asked Tom if *he* could lend some .";
        json!({ "inputs": inputs, "targets": targets, "label": label, "idx": idx })
    };
    let found = rows(json!({ "op": "wsc_simple" }), simple.clone()).unwrap();
    assert_eq!(found, [example("Tom", 1, 7), example("Mitchell", 0, 8)]);
    let found = rows(json!({ "op": "wsc_simple", "correct_referent_only": true }), simple).unwrap();
    assert_eq!(found, [example("Tom", 1, 7)]);
    let absent = json!([{ "text": "a b", "span1_text": "a", "span2_text": "he", "span2_index": 1 }]);
    insta::assert_snapshot!(refused(json!({ "op": "wsc_simple" }), absent), @"step `wsc_simple`, feature `span2_text`: `he` is no word of the text (record 1 of file 1, example 952a7ba57f2b31e3486428d68be24aee)");

    let input = json!([{ "sentence1": "The fish ate the worm. It was tasty.", "sentence2": "The worm was tasty.", "label": 1 }]);
    let expected = json!([{
        "inputs": "wsc: The fish ate the worm. *It* was tasty.", "targets": "The worm", "label": 1,
        "premise": "The fish ate the worm. It was tasty.", "hypothesis": "The worm was tasty.",
    }]);
    assert_eq!(json!(rows(json!({ "op": "wnli_simple" }), input).unwrap()), expected);
    let none = json!([{ "sentence1": "Ann sleeps.", "sentence2": "Ann sleeps." }]);
    insta::assert_snapshot!(refused(json!({ "op": "wnli_simple" }), none), @"step `wnli_simple`, feature `sentence1`: it has none of the pronouns he, she, they, it, her, his, their, them, him (record 1 of file 1, example 952a7ba57f2b31e3486428d68be24aee)");

    let candidates = json!([{ "sentence": "It is.", "pronoun": "it", "candidates": ["a", "b"], "label": 2 }]);
    insta::assert_snapshot!(refused(json!({ "op": "definite_pronoun_resolution_simple" }), candidates), @"step `definite_pronoun_resolution_simple`, feature `label`: it is 2, but there are 2 candidates, counted from 0 (record 1 of file 1, example 952a7ba57f2b31e3486428d68be24aee)");
}

#[test]
fn every_answer_to_a_gap_is_an_example() {
    let input = json!([
        { "passage": "P.\n@highlight\nH", "query": "A @placeholder.", "entities": ["x", "y"], "answers": ["x", "y"], "idx/query": 5 },
        { "passage": "P", "query": "Q", "entities": ["z"], "answers": [], "idx/query": 6 },
    ]);
    let example = |inputs: &str, targets: &str, answers: Value, query: i64| json!({ "inputs": inputs, "targets": targets, "answers": answers, "idx/query": query });
    let first = "record query: A @placeholder. entities: x, y passage: P. H";
    let expected = [
        example(first, "x", json!(["x", "y"]), 5),
        example(first, "y", json!(["x", "y"]), 5),
        example("record query: Q entities: z passage: P", "<unk>", json!([]), 6),
    ];
    assert_eq!(rows(json!({ "op": "record" }), input).unwrap(), expected);
}

#[test]
fn lines_with_other_fields_are_told_with_their_record() {
    let input = || json!([{ "text": "a\tb" }, { "text": "a" }]);
    insta::assert_snapshot!(refused(json!({ "op": "parse_tsv" }), input()), @"step `parse_tsv`, feature `text`: it has 1 field, but `field_names` has 2 (record 2 of file 1, example 9d86b5cda28fc7a6691657e6bf69bf81)");
    insta::assert_snapshot!(refused(json!({ "op": "preprocess_tsv" }), input()), @"step `preprocess_tsv`, feature `text`: it has 1 field, but `num_fields` is 2 (record 2 of file 1, example 9d86b5cda28fc7a6691657e6bf69bf81)");
    let step = json!({ "op": "preprocess_tsv", "inputs_format": "{2}" });
    insta::assert_snapshot!(refused(step, input()), @"step `preprocess_tsv`: there is no field `2`; the 2 fields are `0` to `1`");
    let step = json!({ "op": "preprocess_tsv", "field_names": ["quot", "denom"], "inputs_format": "{qout}" });
    insta::assert_snapshot!(refused(step, input()), @"step `preprocess_tsv`: there is no field `qout`; did you mean `quot`?");
}

#[test]
fn neighbouring_sentences_are_paired_by_line() {
    let input = json!([{ "text": "A. B. C.\nD" }, { "text": "E. F? G" }]);
    let pair = |first: &str, second: &str| json!({ "first": first, "second": second });
    let found = rows(json!({ "op": "neighboring_pairs" }), input.clone()).unwrap();
    assert_eq!(found, [pair("A.", "B."), pair("B.", "C."), pair("E.", "F?"), pair("F?", "G")]);
    let found = rows(json!({ "op": "neighboring_pairs", "reuse_sentences": false }), input).unwrap();
    assert_eq!(found, [pair("A.", "B."), pair("E.", "F?")]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn steps_on_any_text_obey_the_laws(texts in prop::collection::vec(prop::option::of("[a-c.?! \u{e9}\u{4f60}\n\t]{0,24}"), 0..5)) {
        let texts: Vec<Option<&str>> = texts.iter().map(Option::as_deref).collect();
        let input = text_examples(&[("text", &texts), ("other", &texts)]);
        for step in [
            json!({ "op": "lm" }),
            json!({ "op": "translate", "source_language": "text", "target_language": "other", "source_name": "A", "target_name": "B" }),
            json!({ "op": "split_text_to_words" }),
            json!({ "op": "random_split_text", "min_words_per_segment": 1, "max_words_per_segment": 3, "max_words_total": 4 }),
            json!({ "op": "fill_in_the_blank" }),
            json!({ "op": "fill_in_the_blank_sized", "size_bins": [1, 3] }),
            json!({ "op": "neighboring_pairs" }),
            json!({ "op": "next_sentence_prediction" }),
            json!({ "op": "filter_by_string_length", "feature_key": "text", "min_length": 3, "max_length": 9 }),
            json!({ "op": "pad_nonspaced_languages" }),
        ] {
            assert_step_laws(made(step).as_ref(), &StepContext::default(), &input);
        }
    }
}
