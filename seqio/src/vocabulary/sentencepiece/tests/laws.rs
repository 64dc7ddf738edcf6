//! Random models and texts against the definitions of the two algorithms, without windows, caches and queues.

use std::collections::BTreeMap;

use super::*;

/// The best cut by the definition: every place of the text has a node, and sums are rounded as the release does.
fn unigram_by_definition(
    pieces: &BTreeMap<String, (i32, f32)>,
    text: &str,
    arithmetic: Arithmetic,
) -> Vec<i32> {
    let unknown = pieces.values().map(|(_, score)| *score).fold(f32::MAX, f32::min) - 10.0;
    let longest = pieces.keys().map(String::len).max().unwrap_or(0);
    let mut best: Vec<Option<(f32, usize, i32)>> = vec![None; text.len() + 1];
    best[0] = Some((0.0, 0, 0));
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    for (place, &at) in places.iter().enumerate() {
        let Some(next) = places.get(place + 1) else { break };
        let (mut path, ..) = best[at].unwrap();
        if arithmetic == Arithmetic::V0_2_3 && path.abs() > 100_000.0 {
            for node in best[at..].iter_mut().take(longest + 5).flatten() {
                node.0 -= path;
            }
            path = 0.0;
        }
        let mut has_char = false;
        for &end in places[place + 1..].iter().take_while(|end| **end - at <= longest) {
            let Some(&(id, score)) = pieces.get(&text[at..end]) else { continue };
            has_char |= end == *next;
            let better = |(other, ..): (f32, usize, i32)| match arithmetic {
                Arithmetic::V0_2_0 => f64::from(path) + f64::from(score) > f64::from(other),
                Arithmetic::V0_2_3 => path + score > other,
            };
            if best[end].is_none_or(better) {
                best[end] = Some((path + score, at, id));
            }
        }
        if !has_char && best[*next].is_none_or(|(other, ..)| path + unknown > other) {
            best[*next] = Some((path + unknown, at, 0));
        }
    }
    let mut ids = Vec::new();
    let mut at = text.len();
    while at > 0 {
        let (_, start, id) = best[at].unwrap();
        ids.push(id);
        at = start;
    }
    ids.reverse();
    ids.dedup_by(|a, b| (*a, *b) == (0, 0));
    ids
}

/// Merging by the definition: look for the best pair, the leftmost of equals, until there is none.
fn bpe_by_definition(pieces: &BTreeMap<String, (i32, f32)>, text: &str) -> Vec<i32> {
    let mut symbols: Vec<String> = text.chars().map(String::from).collect();
    loop {
        let mut best: Option<(f32, usize)> = None;
        for (at, pair) in symbols.windows(2).enumerate() {
            let Some((_, score)) = pieces.get(&pair.concat()) else { continue };
            if best.is_none_or(|(other, _)| *score > other) {
                best = Some((*score, at));
            }
        }
        let Some((_, at)) = best else { break };
        let right = symbols.remove(at + 1);
        symbols[at].push_str(&right);
    }
    let mut ids: Vec<i32> =
        symbols.iter().map(|symbol| pieces.get(symbol).map_or(0, |(id, _)| *id)).collect();
    ids.dedup_by(|a, b| (*a, *b) == (0, 0));
    ids
}

/// Pieces over few letters, so that texts have many ways to be cut; scores that tie, add up to ties, or neither.
fn pieces() -> impl Strategy<Value = BTreeMap<String, (i32, f32)>> {
    let piece = prop_oneof!["[ab]{1,6}", "▁[abé]{0,4}", "[abé▁-]{1,3}", "-{1,5}"];
    let score = prop_oneof![
        (0..4_i32).prop_map(|score| -(score as f32)),
        (1..60_i32).prop_map(|score| score as f32 * -0.1),
        (1..40_i32).prop_map(|score| score as f32 * -7.77),
    ];
    prop::collection::btree_map(piece, score, 1..30)
        .prop_map(|pieces| (1..).zip(pieces).map(|(id, (text, score))| (text, (id, score))).collect())
}

fn open_pieces(
    model_type: i32,
    pieces: &BTreeMap<String, (i32, f32)>,
    arithmetic: Arithmetic,
) -> SentencePiece {
    let mut list = vec![("<unk>", 0.0, UNKNOWN)];
    list.extend(pieces.iter().map(|(text, (_, score))| (text.as_str(), *score, NORMAL)));
    let mut proto = model(model_type, &list);
    proto.normalizer = Some(NormalizerProto {
        add_dummy_prefix: Some(false),
        remove_extra_whitespaces: Some(false),
        ..Default::default()
    });
    let options = SentencePieceOptions { arithmetic, ..Default::default() };
    SentencePiece::open(proto.encode_to_vec(), &options).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn unigram_ids_are_those_of_the_definition(
        pieces in pieces(),
        texts in prop::collection::vec("[ab]{0,40}|[ab▁é-]{0,80}|(▁[ab-]{1,5}){0,30}|-{0,60}", 1..8),
    ) {
        for arithmetic in BOTH {
            let vocabulary = open_pieces(UNIGRAM, &pieces, arithmetic);
            for text in &texts {
                let expected = unigram_by_definition(&pieces, text, arithmetic);
                prop_assert_eq!(encode(&vocabulary, text), expected, "{:?}", text);
            }
        }
    }

    #[test]
    fn bpe_ids_are_those_of_the_definition(
        pieces in pieces(),
        texts in prop::collection::vec("[ab]{0,40}|[ab▁é-]{0,80}|(▁[ab-]{1,5}){0,30}|-{0,60}", 1..8),
    ) {
        for arithmetic in BOTH {
            let vocabulary = open_pieces(BPE, &pieces, arithmetic);
            for text in &texts {
                prop_assert_eq!(encode(&vocabulary, text), bpe_by_definition(&pieces, text), "{:?}", text);
            }
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5))]

    #[test]
    fn unigram_ids_of_long_texts_are_those_of_the_definition(
        pieces in pieces(),
        unit in "[ab]{1,7}|[ab▁é-]{1,9}|-",
        noise in "[ab▁-]{0,9}",
    ) {
        let text = [unit.repeat(40_000 / unit.len()), noise, unit.repeat(40_000 / unit.len())].concat();
        for arithmetic in BOTH {
            let vocabulary = open_pieces(UNIGRAM, &pieces, arithmetic);
            let expected = unigram_by_definition(&pieces, &text, arithmetic);
            prop_assert!(encode(&vocabulary, &text) == expected, "{:?} and so on", &text[..50]);
        }
    }
}

#[test]
fn a_text_without_a_boundary_is_merged_as_its_parts_would_be() {
    // 2^17 letters: `aaaa` has the best score that can be reached, so the run is cut into fours from the left.
    let pieces = [("a", -3.0), ("aa", -1.0), ("aaaa", -2.0)].map(|(text, score)| (text.to_owned(), score));
    let pieces = (1..).zip(pieces).map(|(id, (text, score))| (text, (id, score))).collect();
    let vocabulary = open_pieces(BPE, &pieces, Arithmetic::default());
    let mut expected = vec![3; 1 << 15];
    expected.extend([2, 1]);
    assert_eq!(encode(&vocabulary, &"a".repeat((1 << 17) + 3)), expected);
}

#[test]
fn any_number_of_threads_may_encode_at_once() {
    let vocabulary = open("tokenizers/mistral-v1/tokenizer.model", SentencePieceOptions::default());
    let rows: Vec<EncodeRow> = rows("tokenizers/vectors/mistral-v1.jsonl");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for row in &rows {
                    assert_eq!(encode(&vocabulary, &row.text), row.ids);
                }
            });
        }
    });
}
