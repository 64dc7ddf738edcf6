//! T5's own answers for every token preprocessor. Where it draws from TensorFlow's generator, its answers and ours obey the
//! same laws.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::testing::{Sequences, context, restored, run};
use crate::dataset::InMemoryExamples;
use crate::item::{Rope, StoredSpan};
use crate::objective::{DenoiseFn, NoiseMask, Replacements};
use crate::preprocess::tokens::pack_prefix_lm::{DECODER_ONLY, ENCODER_DECODER, Loss, Rows, named};
use crate::preprocess::{CustomSteps, Preprocessor, Step, StepContext};
use crate::rng::Key;
use crate::vocabulary::golden::{ids, rows};

/// Rows in which ours are others, with what ours are.
const DIFFERENCES: [(&str, &str, &str); 1] = [(
    "reduce_concat_tokens",
    r#"[{"targets":[5,0,6,0,7]}]"#,
    "T5 fills sequences up with 0 and then drops all zeros, also those that are tokens; here lengths are known",
)];

fn sequences(example: &Value) -> Sequences {
    let one = |(name, value): (&String, &Value)| {
        let ids = if value.is_array() { ids(value) } else { vec![value.as_i64().unwrap() as i32] };
        (name.clone(), ids)
    };
    example.as_object().unwrap().iter().map(one).collect()
}

fn all_sequences(examples: &Value) -> Vec<Sequences> {
    examples.as_array().unwrap().iter().map(sequences).collect()
}

/// The step of a case and its context: what is not a setting is a length.
fn step(case: &Value) -> (Arc<dyn Preprocessor>, StepContext) {
    let name = case["fn"].as_str().unwrap();
    let kwargs = case["kwargs"].as_object().unwrap();
    let mut settings: Map<String, Value> = kwargs.clone();
    settings.retain(|name, value| {
        !value.is_null() && !matches!(name.as_str(), "sequence_length" | "add_eos" | "vocab_size")
    });
    settings.insert("op".to_owned(), name.into());
    let step: Step = serde_json::from_value(Value::Object(settings)).unwrap();
    let lengths: Vec<(&str, usize)> = kwargs
        .get("sequence_length")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, length)| (name.as_str(), length.as_u64().unwrap() as usize))
        .collect();
    let ctx = context(&["inputs", "targets", "aux", "id"], &lengths);
    (step.preprocessor(&CustomSteps::default()).unwrap().unwrap(), ctx)
}

fn joined(examples: &[Sequences]) -> Vec<i32> {
    examples.iter().flat_map(|example| &example["targets"]).copied().collect()
}

/// Laws of a random part of each sequence.
fn assert_chunks(case: &Value, chunks: &[Sequences]) {
    let examples = all_sequences(&case["examples"]);
    let kwargs = &case["kwargs"];
    let max = kwargs["max_length"].as_u64().unwrap_or(5) as usize;
    assert_eq!(examples.len(), chunks.len(), "{case}");
    for (example, chunk) in examples.iter().zip(chunks) {
        let (tokens, chunk) = (&example["targets"], &chunk["targets"]);
        let is_there = |start: usize| tokens[start..].starts_with(chunk);
        let uniform = kwargs["uniform_random_start"] == true;
        let step = if uniform { 1 } else { max };
        let starts = (0..tokens.len()).step_by(step).filter(|start| is_there(*start));
        let at_end = |start: usize| start == 0 || start + chunk.len() == tokens.len();
        let least = kwargs["min_length"].as_u64().unwrap_or(max as u64) as usize;
        assert!((1..=max).contains(&chunk.len()), "{case}: {chunk:?}");
        assert!(
            starts.into_iter().any(|start| chunk.len() >= least || at_end(start)),
            "{case}: {chunk:?} is no part of {tokens:?}"
        );
    }
}

/// Laws of segments of one random length a sequence.
fn assert_segments(case: &Value, segments: &[Sequences]) {
    let (least, most) = (4, 16);
    let mut left = segments.iter();
    for example in all_sequences(&case["examples"]) {
        let tokens = &example["targets"];
        let mut found: Vec<&Vec<i32>> = Vec::new();
        while found.iter().map(|segment| segment.len()).sum::<usize>() < tokens.len() {
            found.push(&left.next().unwrap()["targets"]);
        }
        let all: Vec<i32> = found.iter().copied().flatten().copied().collect();
        assert_eq!(&all, tokens, "{case}");
        let (last, whole) = found.split_last().unwrap();
        let length = whole.first().map_or(last.len(), |first| first.len());
        assert!(whole.iter().all(|segment| segment.len() == length), "{case}");
        assert!(last.len() <= length && length <= most && (whole.is_empty() || length >= least), "{case}");
    }
    assert!(left.next().is_none());
}

/// Laws of span corruption: the same lengths, and the same text in inputs and targets together.
fn assert_same_spans(case: &Value, ours: &[Sequences], theirs: &[Sequences]) {
    let lengths = |items: &[Sequences]| -> Vec<(usize, usize)> {
        items.iter().map(|item| (item["inputs"].len(), item["targets"].len())).collect()
    };
    assert_eq!(lengths(ours), lengths(theirs), "{case}");
    assert_same_text(case, ours, theirs);
}

fn assert_same_text(case: &Value, ours: &[Sequences], theirs: &[Sequences]) {
    let text = |items: &[Sequences]| -> Vec<Vec<i32>> {
        items.iter().map(|item| restored(&item["inputs"], &item["targets"])).collect()
    };
    assert_eq!(text(ours), text(theirs), "{case}");
    assert_eq!(text(ours).concat(), joined(&all_sequences(&case["examples"])), "{case}");
}

/// Laws of a prefix and the rest.
fn assert_same_cuts(case: &Value, ours: &[Sequences], theirs: &[Sequences]) {
    let text = |items: &[Sequences]| -> Vec<Vec<i32>> {
        items.iter().map(|item| [item["inputs"].clone(), item["targets"].clone()].concat()).collect()
    };
    assert_eq!(text(ours), text(theirs), "{case}");
    for item in ours.iter().chain(theirs) {
        assert!(!item["targets"].is_empty(), "{case}");
        assert!(!item["inputs"].is_empty() || item["targets"].len() == 1, "{case}");
    }
}

/// `prefix_lm` with the length of the prefix given.
fn prefix_given(case: &Value) -> Vec<Sequences> {
    let tokens = &all_sequences(&case["examples"])[0]["targets"];
    let prefix = case["kwargs"]["num_input_tokens"].as_u64().unwrap() as u32;
    let mut mask = NoiseMask::default();
    mask.push(true, prefix);
    mask.push(false, tokens.len() as u32 - prefix);
    let by = Replacements { first_sentinel: 999, num_sentinels: 0, random_ids: 0..0, random_prob: 0.0 };
    let made = |function: DenoiseFn| {
        let mut out = Vec::new();
        function.apply(tokens, &mask, &by, Key::new("test", 0, "", 0), &mut out);
        out
    };
    let inputs = ("inputs".to_owned(), made(DenoiseFn::DropNonnoiseTokens));
    vec![[inputs, ("targets".to_owned(), made(DenoiseFn::DropNoiseTokens))].into()]
}

/// The rows of `pack_prefix_lm_*` with the place of the cut given.
fn packed_rows(case: &Value) -> Vec<Sequences> {
    let examples = all_sequences(&case["examples"]);
    let store = InMemoryExamples::of([(
        "targets",
        examples.iter().map(|example| example["targets"].clone()).collect::<Vec<_>>(),
    )]);
    let ropes: Vec<Rope> = (0..examples.len() as u64)
        .map(|example| Rope::stored(StoredSpan { feature: 0, example, from: 0, len: 16 }))
        .collect();
    let split = case["split_point"].as_u64().unwrap() as u32;
    let key = Key::new("test", 0, "", 0);
    let read = |row: Vec<(Arc<str>, Rope)>| -> Sequences {
        row.iter().map(|(name, rope)| (name.to_string(), rope.to_vec(&store).unwrap())).collect()
    };
    if case["fn"] == "pack_prefix_lm_decoder_only" {
        let rows = Rows::new(16, Loss::BehindPrefix, 0);
        return ropes
            .iter()
            .map(|rope| read(named(DECODER_ONLY, rows.decoder_only(rope, split, key))))
            .collect();
    }
    let rows = Rows::new(16, Loss::Decoder, 0);
    let pair =
        |pair: &[Rope]| read(named(ENCODER_DECODER, rows.encoder_decoder([&pair[0], &pair[1]], split, key)));
    ropes.chunks(2).map(pair).collect()
}

#[test]
fn steps_answer_as_t5_does() {
    let mut seen: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let cases = rows("seqio/t5_token_preprocessors.jsonl");
    for case in &cases {
        let name = case["fn"].as_str().unwrap();
        let examples = all_sequences(&case["examples"]);
        let seed = case["map_seed"].as_u64().unwrap_or(0);
        let how = match name {
            "prefix_lm(mask given)" => {
                assert_eq!(prefix_given(case), all_sequences(&case["output"]), "{case}");
                "equal"
            }
            "pack_prefix_lm_encoder_decoder" | "pack_prefix_lm_decoder_only" => {
                assert_eq!(packed_rows(case), all_sequences(&case["output"]), "{case}");
                "equal"
            }
            // Not below the boundary: its own file has the test.
            "trivia_qa_truncate_inputs" => "elsewhere",
            _ => {
                let (step, ctx) = step(case);
                let ours = run(step.as_ref(), &ctx, &examples, seed);
                if !case["error"].is_null() {
                    ours.unwrap_err();
                    *seen.entry((name, "refused")).or_default() += 1;
                    continue;
                }
                let (ours, theirs) = (ours.unwrap(), all_sequences(&case["output"]));
                let by_law = case["kwargs"]["min_tokens_per_segment"].is_u64();
                match name {
                    "select_random_chunk" => {
                        assert_chunks(case, &theirs);
                        assert_chunks(case, &ours);
                        "by law"
                    }
                    "split_tokens" if by_law => {
                        assert_segments(case, &theirs);
                        assert_segments(case, &ours);
                        "by law"
                    }
                    "span_corruption" => {
                        assert_same_spans(case, &ours, &theirs);
                        "by law"
                    }
                    "iid_denoising" => {
                        assert_same_text(case, &ours, &theirs);
                        "by law"
                    }
                    "prefix_lm" => {
                        assert_same_cuts(case, &ours, &theirs);
                        "by law"
                    }
                    _ if ours == theirs => "equal",
                    _ => {
                        let words = serde_json::to_string(&ours).unwrap();
                        let listed =
                            DIFFERENCES.iter().any(|(step, ours, _)| *step == name && *ours == words);
                        assert!(listed, "{case}\n{words}");
                        "another"
                    }
                }
            }
        };
        *seen.entry((name, how)).or_default() += 1;
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    seen.iter().for_each(|((_, how), count)| *counts.entry(how).or_default() += count);
    assert_eq!(cases.len(), 50);
    let counts: Vec<_> = counts.into_iter().collect();
    assert_eq!(counts, [("another", 1), ("by law", 17), ("elsewhere", 1), ("equal", 29), ("refused", 2)]);
}
