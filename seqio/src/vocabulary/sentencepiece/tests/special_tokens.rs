//! Text that spells special pieces.

use super::*;

const PIECES: [(&str, f32, i32); 12] = [
    ("<unk>", 0.0, UNKNOWN),
    ("</s>", 0.0, CONTROL),
    ("▁", -2.0, NORMAL),
    ("a", -2.0, NORMAL),
    ("<", -3.0, NORMAL),
    (">", -3.0, NORMAL),
    ("/", -3.0, NORMAL),
    ("s", -3.0, NORMAL),
    ("x", -3.0, NORMAL),
    ("<x>", 0.0, USER_DEFINED),
    ("▁a", -1.0, NORMAL),
    ("▁<", -5.0, NORMAL),
];
const EXTRA_0: i32 = 13;

fn vocabulary(model_type: i32, special_tokens_in_text: Option<SpecialTokensInText>) -> SentencePiece {
    let options = SentencePieceOptions { extra_ids: 2, special_tokens_in_text, ..Default::default() };
    SentencePiece::open(model(model_type, &PIECES).encode_to_vec(), &options).unwrap()
}

#[test]
fn user_defined_pieces_and_extra_ids_match_and_control_pieces_do_not() {
    for model_type in [UNIGRAM, BPE] {
        let vocabulary = vocabulary(model_type, None);
        assert_eq!(encode(&vocabulary, "a<x>a"), [10, 9, 3]);
        assert_eq!(encode(&vocabulary, "a <extra_id_0>"), [10, EXTRA_0]);
        assert_eq!(encode(&vocabulary, "a</s>"), [10, 4, 6, 7, 5]);
    }
}

#[test]
fn plain_makes_text_of_every_spelling() {
    for model_type in [UNIGRAM, BPE] {
        let vocabulary = vocabulary(model_type, Some(SpecialTokensInText::Plain));
        assert_eq!(encode(&vocabulary, "a<x>a"), [10, 4, 8, 5, 3]);
        assert_eq!(encode(&vocabulary, "<extra_id_0>")[..2], [11, 0]);
        assert_eq!(encode(&vocabulary, "a</s>"), [10, 4, 6, 7, 5]);
    }
}

#[test]
fn match_makes_ids_of_control_pieces_too() {
    for model_type in [UNIGRAM, BPE] {
        let vocabulary = vocabulary(model_type, Some(SpecialTokensInText::Match));
        assert_eq!(encode(&vocabulary, "a<x></s>a"), [10, 9, 1, 3]);
        assert_eq!(encode(&vocabulary, "a <extra_id_0>"), [10, EXTRA_0]);
        assert_eq!(vocabulary.decode(&encode(&vocabulary, "a <extra_id_0> a")), "a <extra_id_0> a");
    }
}

#[test]
fn spellings_and_unknown_ids_are_counted_whether_matched_or_not() {
    for model_type in [UNIGRAM, BPE] {
        for what in [None, Some(SpecialTokensInText::Plain), Some(SpecialTokensInText::Match)] {
            let vocabulary = vocabulary(model_type, what);
            let count = |text: &str| vocabulary.encode_into(text, &mut Vec::new()).unwrap();
            assert_eq!(
                count("a</s><x>a<extra_id_1> <extra_id_0> <unk> <extra_id_2> <pad>").special_spellings,
                5
            );
            assert_eq!(count("").special_spellings, 0);
            assert_eq!(count("aéüa ü").unknown, 2);
        }
    }
}

#[test]
fn an_unknown_character_is_one_id_with_its_neighbours_or_its_bytes() {
    let mut pieces: Vec<(String, f32, i32)> =
        PIECES.iter().map(|(text, score, kind)| ((*text).to_owned(), *score, *kind)).collect();
    pieces.extend((0..=255).map(|byte| (format!("<0x{byte:02X}>"), 0.0, BYTE)));
    let pieces: Vec<(&str, f32, i32)> =
        pieces.iter().map(|(text, score, kind)| (text.as_str(), *score, *kind)).collect();
    for model_type in [UNIGRAM, BPE] {
        let mut proto = model(model_type, &pieces);
        let options = SentencePieceOptions::default();
        proto.trainer.as_mut().unwrap().byte_fallback = Some(true);
        let bytes = SentencePiece::open(proto.encode_to_vec(), &options).unwrap();
        let first = PIECES.len() as i32;
        assert_eq!(encode(&bytes, "aéa"), [10, first + 0xc3, first + 0xa9, 3]);
        assert_eq!(
            bytes.decode(&[10, first + 0xc3, first + 0xa9, first + 0xa9, 3, 0]),
            "aé\u{fffd}a \u{2047} "
        );
        assert_eq!(encode(&vocabulary(model_type, None), "aéüa"), [10, 0, 3]);
    }
}
