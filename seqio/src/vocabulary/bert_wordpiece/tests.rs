//! Word pieces against TensorFlow Text and SeqIO.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::vocabulary::golden;
use crate::vocabulary::special_ids::SpecialId;

/// A vocabulary by SeqIO's arguments.
fn open(file: &[u8], arguments: &Value) -> BertWordPiece {
    let flag = |name: &str| arguments[name] == true;
    let number = |name: &str| arguments[name].as_u64().map(|number| number as usize);
    let standard = WordPieceOptions::default();
    let options = WordPieceOptions {
        lower_case: flag("lower_case"),
        normalization_form: serde_json::from_value(arguments["normalization_form"].clone()).unwrap(),
        keep_whitespace: flag("keep_whitespace"),
        preserve_unused_token: flag("preserve_unused_token"),
        split_unknown_characters: flag("split_unknown_characters"),
        suffix_indicator: arguments["suffix_indicator"]
            .as_str()
            .unwrap_or(&standard.suffix_indicator)
            .to_owned(),
        max_bytes_per_word: number("max_bytes_per_word").unwrap_or(standard.max_bytes_per_word),
        max_chars_per_token: number("max_chars_per_token"),
    };
    let unk = arguments["unknown_token"].as_str().map(SpecialId::from);
    let named = NamedIds { unk, ..NamedIds::default() };
    BertWordPiece::open(file.to_vec(), &options, 0, true, &named).unwrap()
}

fn encoded(vocabulary: &BertWordPiece, text: &str) -> Vec<i32> {
    let mut ids = Vec::new();
    vocabulary.encode_into(text, &mut ids).unwrap();
    ids
}

/// The lines of bert-base-uncased's `vocab.txt`.
fn uncased() -> Vec<u8> {
    let file: Value =
        serde_json::from_slice(&golden::bytes("tokenizers/bert-uncased/tokenizer.json")).unwrap();
    let mut pieces: Vec<(u64, &str)> = file["model"]["vocab"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(piece, id)| (id.as_u64().unwrap(), piece.as_str()))
        .collect();
    pieces.sort_unstable();
    pieces.iter().map(|(_, piece)| format!("{piece}\n")).collect::<String>().into_bytes()
}

const ONE_TOKEN: &str = "SeqIO gives a text of one token as a bare number, which is no sequence";
const PADDED: &str = "SeqIO gives a matrix, a row a word, where words have different numbers of pieces";

/// SeqIO's argument, the text, and why its ids are not ours.
const DIFFERENCES: [(&str, &str, &str); 10] = [
    ("", "unknown", ONE_TOKEN),
    ("", "a", ONE_TOKEN),
    ("", "thisis", ONE_TOKEN),
    ("lower_case", "unknown", ONE_TOKEN),
    ("lower_case", "a", ONE_TOKEN),
    ("lower_case", "thisis", ONE_TOKEN),
    ("split_unknown_characters", "This Is A Test", PADDED),
    ("split_unknown_characters", "this is a testa", PADDED),
    ("split_unknown_characters", "a", ONE_TOKEN),
    ("split_unknown_characters", "[CLS] a [SEP]", PADDED),
];

#[test]
fn every_row_that_seqio_gave_is_ours_but_those_listed() {
    let file = golden::bytes("seqio/models/bertwordpiece_vocab.txt");
    let (mut texts, mut differing) = (0, 0);
    for row in golden::rows("seqio/vocab_other.jsonl").iter().filter(|row| row["vocab"] == "bertwordpiece") {
        let vocabulary = open(&file, &row["kwargs"]);
        let argument = row["kwargs"].as_object().unwrap().keys().next().map_or("", String::as_str);
        let special = vocabulary.special_ids();
        assert_eq!(vocabulary.vocab_size() as u64, row["vocab_size"]);
        assert_eq!(i64::from(special.pad), row["pad_id"]);
        assert_eq!(special.eos.map(i64::from), row["eos_id"].as_i64());
        assert_eq!(special.bos.map(i64::from), row["sos_id"].as_i64());
        assert_eq!(special.unk.map(i64::from), row["unk_id"].as_i64());
        for case in row["encode"].as_array().unwrap() {
            texts += 1;
            let text = case["text"].as_str().unwrap();
            let ours = json!(encoded(&vocabulary, text));
            let listed = DIFFERENCES.iter().find(|(given, of, _)| (*given, *of) == (argument, text));
            let Some((.., reason)) = listed else {
                assert_eq!(ours, case["output"], "{argument} {case}");
                continue;
            };
            differing += 1;
            let theirs: Vec<i64> = match *reason {
                ONE_TOKEN => vec![case["output"].as_i64().unwrap()],
                _ => {
                    let words = case["output"].as_array().unwrap().iter();
                    let pieces =
                        words.flat_map(|word| word.as_array().unwrap()).map(|id| id.as_i64().unwrap());
                    pieces.filter(|id| *id != 0).collect()
                }
            };
            assert_eq!(ours, json!(theirs), "{argument} {case}");
        }
        for case in row["decode"].as_array().unwrap() {
            texts += 1;
            assert_eq!(Value::from(vocabulary.decode(&golden::ids(&case["ids"]))), case["output"], "{case}");
        }
    }
    assert_eq!((texts, differing), (48, DIFFERENCES.len()));
}

#[test]
fn texts_have_the_ids_that_tensorflow_text_gives_them() {
    let file = uncased();
    let mut opened: Option<(Value, BertWordPiece)> = None;
    let mut rows = 0;
    for row in golden::rows("seqio/vocab_bert.jsonl") {
        rows += 1;
        let (_, vocabulary) = match opened.take() {
            Some((settings, vocabulary)) if settings == row["settings"] => {
                opened.insert((settings, vocabulary))
            }
            _ => opened.insert((row["settings"].clone(), open(&file, &row["settings"]))),
        };
        let text = row["text"].as_str().unwrap();
        assert_eq!(encoded(vocabulary, text), golden::ids(&row["ids"]), "{} {text:?}", row["settings"]);
    }
    assert_eq!(rows, 1225);
}

/// Characters that Unicode has changed since TensorFlow Text's tables: AHOM CONSONANT SIGN MEDIAL RA was a nonspacing mark
/// there, which is taken off, and is a spacing one, which stays.
const CHANGED: [u32; 1] = [0x1171E];

#[test]
fn every_character_does_what_it_does_in_tensorflow_text() {
    let words = |text: &str, lower_case| {
        let options = WordPieceOptions { lower_case, ..WordPieceOptions::default() };
        let mut words = Vec::new();
        for_each_token(&options.prepare(text), &options, |token| match token {
            Token::Text(word) => words.push(word.to_owned()),
            Token::Spaces(_) => panic!("spaces are not kept"),
        });
        words
    };
    let (mut characters, mut differing) = (0, Vec::new());
    for row in golden::rows("seqio/bert_characters.jsonl") {
        let number = |key: &str| row[key].as_u64().map(|number| number as u32);
        let first = number("at").or(number("from")).unwrap();
        for codepoint in first..=number("at").or(number("to")).unwrap() {
            characters += 1;
            let char = char::from_u32(codepoint).unwrap();
            let between = format!("a{char}b");
            let alike = match row["acts"].as_str() {
                Some("within") => json!([between]),
                Some("alone") => json!(["a", char, "b"]),
                Some("apart") => json!(["a", "b"]),
                _ => Value::Null,
            };
            for (key, lower_case) in [("lower", true), ("plain", false)] {
                let theirs = if alike.is_null() { &row[key] } else { &alike };
                if json!(words(&between, lower_case)) != *theirs {
                    differing.push(codepoint);
                }
            }
        }
    }
    differing.dedup();
    assert_eq!(differing, CHANGED);
    assert_eq!(characters, 282_230);
}

#[test]
fn pieces_of_a_word_are_joined_when_they_are_decoded() {
    let file = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\ntest\n##s\nok\n";
    let vocabulary = open(file, &json!({}));
    assert_eq!(encoded(&vocabulary, "ok tests, tesst"), [6, 4, 5, 1, 1]);
    assert_eq!(vocabulary.decode(&[2, 6, 4, 5, 3, 6]), "[CLS] ok tests [SEP]");
    assert_eq!(vocabulary.decode(&[5, 7, 8, -1, i32::MIN]), "##s [UNK] [UNK] [UNK] [UNK]");
    let special = SpecialIds { pad: 0, eos: Some(3), bos: Some(2), unk: Some(1) };
    assert_eq!((vocabulary.special_ids(), vocabulary.vocab_size()), (special, 8));
    let counts = vocabulary.encode_into("ok [SEP] no", &mut Vec::new()).unwrap();
    assert_eq!(counts, EncodeCounts { unknown: 4, special_spellings: 1 });
}

#[test]
fn a_file_without_the_special_pieces_has_none_but_the_unknown() {
    let vocabulary = open(b"a\n##b\n", &json!({}));
    let special = SpecialIds { pad: 0, eos: None, bos: None, unk: Some(2) };
    assert_eq!((vocabulary.special_ids(), vocabulary.vocab_size()), (special, 3));
    assert_eq!(encoded(&vocabulary, "ab c"), [0, 1, 2]);
    assert_eq!(vocabulary.decode(&[0, 1, 2]), "ab [UNK]");
}

#[test]
fn marks_are_taken_off_in_canonical_order() {
    // U+302E stays and is ordered before U+0301, which goes; the acute stands for a run of marks.
    for text in ["a\u{302E}\u{301}", "a\u{301}\u{302E}", "a\u{34F}\u{302E}"] {
        assert_eq!(fold::lower_case(text), "a\u{302E}", "{text:?}");
    }
    assert_eq!(fold::lower_case("Ünïted STRASSE, straße, ﬁn ı Ꭰꭰ"), "united strasse, strasse, fin ı ᎠᎠ");
}

#[test]
fn mistakes_are_told_in_words() {
    let refused = |file: &[u8]| {
        let options = WordPieceOptions::default();
        BertWordPiece::open(file.to_vec(), &options, 0, true, &NamedIds::default()).unwrap_err().to_string()
    };
    insta::assert_snapshot!(refused(b"a\nb\na\n"), @"line 3 is `a`, as line 1 is: an entry has one id");
    insta::assert_snapshot!(refused(b""), @"the file is empty: it has an entry on each line");
}

#[test]
fn the_time_for_a_long_text_grows_with_its_length() {
    let file = b"[UNK]\na\n##a\n##aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\n";
    let arguments = json!({ "max_bytes_per_word": 1 << 30, "max_chars_per_token": 1 << 29, "preserve_unused_token": true });
    let vocabulary = open(file, &arguments);
    let long = "a".repeat(2_000_000);
    assert_eq!(encoded(&vocabulary, &long).len(), 2_000_000);
    assert_eq!(encoded(&vocabulary, &format!("{long}c")), [0]);
    assert_eq!(encoded(&vocabulary, &format!("[unused{}", "1".repeat(2_000_000))), [0, 0]);
}

proptest! {
    #[test]
    fn any_text_has_ids_in_range(text in any::<String>(), lower_case: bool, split_unknown_characters: bool) {
        let file = golden::bytes("seqio/models/bertwordpiece_vocab.txt");
        let arguments = json!({ "lower_case": lower_case, "split_unknown_characters": split_unknown_characters });
        let vocabulary = open(&file, &arguments);
        let ids = encoded(&vocabulary, &text);
        prop_assert!(ids.iter().all(|id| (0..vocabulary.vocab_size() as i32).contains(id)));
        vocabulary.decode(&ids);
    }

    #[test]
    fn text_of_pieces_comes_back(words in prop::collection::vec("(this|is|a|test)", 1..20)) {
        let file = golden::bytes("seqio/models/bertwordpiece_vocab.txt");
        let vocabulary = open(&file, &json!({}));
        let text = words.join(" ");
        prop_assert_eq!(vocabulary.decode(&encoded(&vocabulary, &text)), text);
    }
}
