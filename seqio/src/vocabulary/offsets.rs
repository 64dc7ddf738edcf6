//! Where tokens begin in a text, by every kind that says so: its laws, and what real tokenizers' pieces spell there.

use std::path::PathBuf;

use proptest::prelude::*;

use super::{
    SharedVocabulary, SpecialPlaces, SpecialTokensInText, SplitPattern, Vocabulary, VocabularySpec, golden,
};

fn open(spec: &VocabularySpec) -> SharedVocabulary {
    let file = spec.path().map(|path| golden::bytes(&path.display().to_string()));
    spec.open(file).unwrap()
}

fn tokenizer(path: &str) -> PathBuf {
    format!("tokenizers/{path}").into()
}

fn gpt2() -> VocabularySpec {
    VocabularySpec::tokenizer_json(tokenizer("gpt2/tokenizer.json"))
}

fn cl100k() -> VocabularySpec {
    VocabularySpec::tiktoken(tokenizer("cl100k_base/cl100k_base.tiktoken"), SplitPattern::Cl100k)
}

fn mistral() -> VocabularySpec {
    VocabularySpec::sentencepiece(tokenizer("mistral-v1/tokenizer.model"))
}

fn texts(name: &str) -> Vec<String> {
    let rows = golden::rows(&format!("tokenizers/vectors/{name}.jsonl"));
    rows.iter().map(|row| row["text"].as_str().unwrap().to_owned()).collect()
}

fn placed(vocabulary: &dyn Vocabulary, text: &str, special: SpecialPlaces<'_>) -> (Vec<i32>, Vec<usize>) {
    let (mut ids, mut starts) = (Vec::new(), Vec::new());
    vocabulary.encode_with_offsets_into(text, special, &mut ids, &mut starts).unwrap();
    (ids, starts)
}

fn ids(vocabulary: &dyn Vocabulary, text: &str) -> Vec<i32> {
    let mut ids = Vec::new();
    vocabulary.encode_into(text, &mut ids).unwrap();
    ids
}

/// The ids are as ever, and places rise through the characters of the text.
fn assert_laws(vocabulary: &dyn Vocabulary, text: &str) -> Vec<usize> {
    let (found, starts) = placed(vocabulary, text, SpecialPlaces::AsUsual);
    assert_eq!(found, ids(vocabulary, text), "{text:?}");
    assert_eq!(found.len(), starts.len(), "{text:?}");
    assert!(starts.is_sorted(), "{text:?} {starts:?}");
    assert!(starts.iter().all(|start| *start < text.len() && text.is_char_boundary(*start)), "{text:?}");
    starts
}

#[test]
fn tokens_of_bytes_spell_the_text_up_to_where_the_next_begins() {
    for (spec, name) in [(gpt2(), "gpt2"), (cl100k(), "cl100k_base")] {
        let vocabulary = open(&spec);
        for text in texts(name).iter().filter(|text| !text.contains("<|")) {
            let starts = assert_laws(vocabulary.as_ref(), text);
            let found = ids(vocabulary.as_ref(), text);
            for place in 1..starts.len() {
                let decoded = vocabulary.decode(&found[..place]);
                // A token that begins inside a character is said to begin where the character does.
                if !decoded.ends_with(char::REPLACEMENT_CHARACTER) {
                    assert_eq!(decoded, text[..starts[place]], "{name} {text:?}");
                }
            }
        }
    }
}

#[test]
fn pieces_stand_where_they_are_said_to() {
    let json = VocabularySpec::tokenizer_json(tokenizer("mistral-v1/tokenizer.json"));
    let t5 = VocabularySpec::sentencepiece(tokenizer("t5-spiece/spiece.model"));
    let t5_json = VocabularySpec::tokenizer_json(tokenizer("t5/tokenizer.json"));
    for (spec, name) in
        [(mistral(), "mistral-v1"), (json, "mistral-v1"), (t5, "t5-spiece"), (t5_json, "t5-hf")]
    {
        let vocabulary = open(&spec);
        let mut seen = 0;
        for text in texts(name) {
            let starts = assert_laws(vocabulary.as_ref(), &text);
            // T5's normal form has other characters for some.
            if name.starts_with("t5") && !text.is_ascii() {
                continue;
            }
            for (id, start) in ids(vocabulary.as_ref(), &text).into_iter().zip(starts) {
                let piece = vocabulary.piece(id).unwrap();
                if piece.starts_with('<') && piece.ends_with('>') {
                    continue;
                }
                let spelled = piece.trim_start_matches('▁').replace('▁', " ");
                let rest = text[start..].trim_start();
                assert!(rest.starts_with(spelled.trim_start()), "{name} {text:?}: {piece} at {start}");
                seen += 1;
            }
        }
        assert!(seen > 1000, "{name}: {seen}");
    }
}

#[test]
fn places_follow_what_normalizers_change() {
    let starts = |spec: VocabularySpec, text: &str| {
        let vocabulary = open(&spec);
        let (ids, starts) = placed(vocabulary.as_ref(), text, SpecialPlaces::AsUsual);
        let pieces = ids.iter().map(|id| vocabulary.piece(*id).unwrap());
        pieces.zip(starts).map(|(piece, start)| format!("{piece}@{start}")).collect::<Vec<_>>().join(" ")
    };
    let t5 = || VocabularySpec::sentencepiece(tokenizer("t5-spiece/spiece.model"));
    insta::assert_snapshot!(starts(t5(), "  the \t ﬁnal\u{301}  word ☃!"), @"▁the@2 ▁fin@5 a@12 <unk>@13 ▁word@16 ▁@22 <unk>@23 !@26");
    let t5_json = || VocabularySpec::tokenizer_json(tokenizer("t5/tokenizer.json"));
    insta::assert_snapshot!(starts(t5_json(), "the  ﬁnal word ☃!"), @"▁the@0 ▁final@3 ▁word@11 ▁@16 <unk>@17 !@20");
    insta::assert_snapshot!(starts(mistral(), "é  ☃b"), @"▁é@0 ▁▁@2 ☃@4 b@7");
}

#[test]
fn special_tokens_are_where_they_are_wanted() {
    let matching = |spec: VocabularySpec| open(&spec.special_tokens_in_text(SpecialTokensInText::Match));
    let plain = |spec: VocabularySpec| open(&spec.special_tokens_in_text(SpecialTokensInText::Plain));
    for (spec, name, token) in [
        (gpt2(), "gpt2", "<|endoftext|>"),
        (cl100k(), "cl100k_base", "<|endoftext|>"),
        (mistral(), "mistral-v1", "</s>"),
    ] {
        let (matching, plain) = (matching(spec.clone()), plain(spec));
        let id = ids(matching.as_ref(), token).pop().unwrap();
        for text in texts(name).iter().take(60) {
            let text = format!("{text} a{token}b");
            let at = text.len() - token.len() - 1;
            let guarded =
                |kept: &[std::ops::Range<usize>]| placed(plain.as_ref(), &text, SpecialPlaces::AllBut(kept));
            let (found, starts) = guarded(&[]);
            assert_eq!(found, ids(matching.as_ref(), &text), "{name} {text:?}");
            let place = found.iter().rposition(|found| *found == id).unwrap();
            assert_eq!((starts[place], starts[place + 1]), (at, at + token.len()), "{name} {text:?}");
            // A byte of it is enough.
            for kept in [0..text.len(), 0..at + 1] {
                let (found, starts) = guarded(&[kept]);
                let whole = placed(plain.as_ref(), &text, SpecialPlaces::AsUsual);
                assert_eq!((found, starts), whole, "{name} {text:?}");
            }
        }
    }
}

#[test]
fn a_space_is_not_put_before_a_special_token_that_opens_a_text() {
    let vocabulary = open(&mistral());
    let (ids, starts) = placed(vocabulary.as_ref(), "<s>a</s>", SpecialPlaces::AllBut(&[]));
    let pieces: Vec<String> = ids.iter().map(|id| vocabulary.piece(*id).unwrap()).collect();
    assert_eq!((pieces.concat().as_str(), starts), ("<s>a</s>", vec![0, 3, 4]));
}

#[test]
fn kinds_that_cannot_say_where_tokens_begin_do_so_in_words() {
    let vocabulary = open(&VocabularySpec::unigram(vec!["a".to_owned()]));
    assert!(!vocabulary.has_offsets());
    let error =
        vocabulary.encode_with_offsets_into("a", SpecialPlaces::AsUsual, &mut Vec::new(), &mut Vec::new());
    insta::assert_snapshot!(error.unwrap_err(), @"cannot encode: a `unigram` vocabulary does not say where its tokens begin in a text");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn any_text_obeys_the_laws(text in "[ -~éß漢字🙂\u{301}\t\n]{0,60}") {
        for spec in [VocabularySpec::byte(), VocabularySpec::full_codepoint()] {
            assert_laws(open(&spec).as_ref(), &text);
        }
    }
}

#[test]
fn any_text_of_odd_characters_obeys_the_laws() {
    let odd = [
        "",
        " ",
        "  ",
        "\u{301}",
        "e\u{301}",
        "ﬁ ﬂ",
        "\u{200b}a",
        "\t\n x",
        "🙂🙂",
        "한국어",
        "▁a ▁",
        "\u{10FFFE}",
    ];
    for spec in [
        gpt2(),
        cl100k(),
        mistral(),
        VocabularySpec::sentencepiece(tokenizer("t5-spiece/spiece.model")),
        VocabularySpec::tokenizer_json(tokenizer("t5/tokenizer.json")),
        VocabularySpec::tokenizer_json(tokenizer("bert-uncased/tokenizer.json")),
        VocabularySpec::tiktoken(tokenizer("qwen/qwen.tiktoken"), SplitPattern::Qwen),
    ] {
        let vocabulary = open(&spec);
        for one in odd {
            for two in odd {
                assert_laws(vocabulary.as_ref(), &format!("{one}{two}{one}"));
            }
        }
    }
}
