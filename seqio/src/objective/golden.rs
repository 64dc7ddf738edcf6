//! T5's own masks, lengths and functions. Where it draws from TensorFlow's generator, what holds of its answers must hold
//! of ours.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::objective::span_lengths::SpanShape;
use crate::objective::{DenoiseFn, MaskBuffer, MaskRule, NoiseMask, Replacements};
use crate::rng::Key;
use crate::vocabulary::golden::{ids, rows};

fn number(case: &Value, name: &str) -> f64 {
    case[name].as_f64().unwrap()
}

fn key(index: usize) -> Key {
    Key::new("test", 7, "golden", index as u64)
}

fn rule(case: &Value) -> MaskRule {
    let density = number(case, "noise_density");
    match case["fn"].as_str().unwrap() {
        "random_spans_noise_mask" => MaskRule::RandomSpans {
            density,
            mean_span: number(case, "mean_noise_span_length"),
            roll: case["random_roll"] == true,
        },
        "iid_noise_mask" => MaskRule::Iid { density },
        "regular_noise_mask" => MaskRule::Regular { density, min_span: 1, max_span: 5 },
        "random_prefix_noise_mask" => MaskRule::RandomPrefix { density },
        other => panic!("no mask answers for `{other}`"),
    }
}

/// Spans of noise in a ring.
fn spans_in_ring(mask: &NoiseMask) -> u32 {
    let bits: Vec<bool> = mask.bits().collect();
    let joined = bits.len() > 1 && bits[0] && bits[bits.len() - 1] && mask.counts().nonnoise_spans > 0;
    mask.counts().noise_spans - u32::from(joined)
}

#[test]
fn masks_have_as_much_noise_in_as_many_spans_as_t5s() {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut buffer = MaskBuffer::default();
    let mut families: BTreeMap<(u32, String), Vec<String>> = BTreeMap::new();
    for (index, case) in rows("seqio/t5_noise_masks.jsonl").into_iter().enumerate() {
        let rule = rule(&case);
        let length = case["length"].as_u64().unwrap() as u32;
        let name = case["fn"].as_str().unwrap();
        let kind = if case["error"].is_null() { name.to_owned() } else { format!("{name}, refused") };
        *seen.entry(kind).or_default() += 1;
        if !case["error"].is_null() {
            rule.draw(length, key(index), &mut buffer).unwrap_err();
            rule.check(Some(length)).unwrap_err();
            continue;
        }
        let theirs = NoiseMask::of(case["output"].as_str().unwrap());
        let ours = rule.draw(length, key(index), &mut buffer).unwrap().clone();
        let (found, expected) = (ours.counts(), theirs.counts());
        assert_eq!((found.tokens, expected.tokens), (length, length), "{case}");
        match rule {
            MaskRule::RandomSpans { roll, .. } => {
                assert_eq!(found.noise_tokens, expected.noise_tokens, "{case}");
                assert_eq!(spans_in_ring(&ours), spans_in_ring(&theirs), "{case}");
                if !roll {
                    assert_eq!(found, expected, "{case}");
                    assert_eq!(
                        (ours.bits().next(), theirs.bits().next()),
                        (Some(false), Some(false)),
                        "{case}"
                    );
                }
            }
            MaskRule::Iid { .. } => {}
            MaskRule::Regular { density, .. } => {
                // Every mask there is comes up within 2,000 keys: theirs must be among ours.
                let family = families.entry((length, density.to_string())).or_insert_with(|| {
                    (0..2000)
                        .map(|index| rule.draw(length, key(index), &mut buffer).unwrap().written())
                        .collect()
                });
                assert!(family.contains(&theirs.written()), "{case}");
            }
            MaskRule::RandomPrefix { density } => {
                let least = super::mask_rule::least_prefix(length, density);
                for mask in [&ours, &theirs] {
                    let prefix = mask.counts().noise_tokens;
                    assert!((least..length.max(least + 1)).contains(&prefix), "{case}: {prefix}");
                    assert_eq!(
                        mask.bits().take(prefix as usize).filter(|noise| *noise).count() as u32,
                        prefix
                    );
                }
            }
        }
    }
    let seen: Vec<_> = seen.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    assert_eq!(
        seen,
        [
            ("iid_noise_mask", 32),
            ("random_prefix_noise_mask", 32),
            ("random_spans_noise_mask", 372),
            ("random_spans_noise_mask, refused", 9),
            ("regular_noise_mask", 32),
        ]
    );
}

#[test]
fn lengths_of_spans_are_t5s() {
    let cases = rows("seqio/t5_random_spans_helper.jsonl");
    assert_eq!(cases.len(), 120);
    for case in cases {
        let shape = SpanShape::new(number(&case, "noise_density"), number(&case, "mean_noise_span_length"));
        let lengths = shape.lengths(case["inputs_length"].as_u64().unwrap() as u32).unwrap();
        assert_eq!(ids(&case["output"]), [lengths.tokens as i32, lengths.targets as i32], "{case}");
    }
}

#[test]
fn functions_of_tokens_and_mask_answer_as_t5s() {
    let cases = rows("seqio/t5_denoise_fns.jsonl");
    assert_eq!(cases.len(), 48);
    let (mut exact, mut by_law) = (0, 0);
    for (index, case) in cases.iter().enumerate() {
        let tokens = ids(&case["tokens"]);
        let mask = NoiseMask::of(case["noise_mask"].as_str().unwrap());
        let size = case["vocab_size"].as_i64().unwrap() as i32;
        let by = Replacements {
            first_sentinel: size - 1,
            num_sentinels: size as u32,
            random_ids: 3..size,
            random_prob: 0.1,
        };
        let apply = |name: &str| {
            let function: DenoiseFn = serde_json::from_value(name.into()).unwrap();
            let mut out = Vec::new();
            function.check_sentinels(mask.counts(), &by).unwrap();
            function.apply(&tokens, &mask, &by, key(index), &mut out);
            out
        };
        for (name, expected) in case["deterministic"].as_object().unwrap() {
            assert_eq!(apply(name), ids(expected), "{name} of {case}");
            exact += 1;
        }
        for (name, theirs) in case["seeded"].as_object().unwrap() {
            for made in [apply(name), ids(theirs)] {
                assert_eq!(made.len(), tokens.len());
                let mut noise = Vec::new();
                for ((made, token), is_noise) in made.iter().zip(&tokens).zip(mask.bits()) {
                    if is_noise {
                        noise.push((*made, *token));
                    } else {
                        assert_eq!(made, token, "{name} of {case}");
                    }
                }
                let (mut made, mut replaced): (Vec<i32>, Vec<i32>) = noise.into_iter().unzip();
                match name.as_str() {
                    "permute_noise_tokens" => {
                        made.sort_unstable();
                        replaced.sort_unstable();
                        assert_eq!(made, replaced, "{case}");
                    }
                    "noise_token_to_gathered_token" => {
                        assert!(made.iter().all(|id| tokens.contains(id)), "{case}");
                    }
                    "noise_token_to_random_token" | "noise_token_to_random_token_or_sentinel" => {
                        assert!(made.iter().all(|id| (3..size).contains(id)), "{case}");
                    }
                    other => panic!("no law for `{other}`"),
                }
            }
            by_law += 1;
        }
    }
    assert_eq!((exact, by_law), (48 * 7, 48 * 4));
}
