use super::*;
use crate::vocabulary::golden;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::LazyLock;
use tokenizers::pipeline::{EncodeOptions, PipelineToken};

fn options() -> TokenizerJsonOptions {
    TokenizerJsonOptions {
        extra_ids: 0,
        reverse_extra_ids: true,
        special_tokens_in_text: SpecialTokensInText::Match,
        named: NamedIds::default(),
    }
}

fn plain() -> TokenizerJsonOptions {
    TokenizerJsonOptions { special_tokens_in_text: SpecialTokensInText::Plain, ..options() }
}

fn file(name: &str) -> Vec<u8> {
    golden::bytes(&format!("tokenizers/{name}/tokenizer.json"))
}

fn open(name: &str, options: &TokenizerJsonOptions) -> TokenizerJson {
    TokenizerJson::open(file(name), options).unwrap()
}

static GPT2: LazyLock<TokenizerJson> = LazyLock::new(|| open("gpt2", &options()));
static T5: LazyLock<TokenizerJson> = LazyLock::new(|| open("t5", &options()));
static BERT: LazyLock<TokenizerJson> = LazyLock::new(|| open("bert-uncased", &options()));
static MISTRAL: LazyLock<TokenizerJson> = LazyLock::new(|| open("mistral-v1", &options()));
static GPT2_CONFIG: LazyLock<Config> = LazyLock::new(|| Config::parse(&file("gpt2")).unwrap());
static T5_CONFIG: LazyLock<Config> = LazyLock::new(|| Config::parse(&file("t5")).unwrap());
static MISTRAL_CONFIG: LazyLock<Config> = LazyLock::new(|| Config::parse(&file("mistral-v1")).unwrap());

fn ids_of(vocabulary: &TokenizerJson, text: &str) -> Vec<i32> {
    let mut ids = Vec::new();
    vocabulary.encode_into(text, &mut ids).unwrap();
    ids
}

/// Texts of a vector file whose ids are not ours, cut short.
fn mismatches(
    vocabulary: &TokenizerJson,
    vectors: &str,
    as_made: impl Fn(Vec<i32>) -> Vec<i32>,
) -> Vec<String> {
    let rows = golden::rows(&format!("tokenizers/vectors/{vectors}.jsonl"));
    assert_eq!(rows.len(), 166);
    rows.iter()
        .map(|row| (row["text"].as_str().unwrap(), golden::ids(&row["ids"])))
        .filter(|(text, ids)| as_made(ids_of(vocabulary, text)) != *ids)
        .map(|(text, _)| text.chars().take(40).collect())
        .collect()
}

#[test]
fn every_row_that_hugging_face_gave_is_ours() {
    assert_eq!(mismatches(&GPT2, "gpt2", |ids| ids), [""; 0]);
    assert_eq!(mismatches(&T5, "t5-hf", |ids| ids), [""; 0]);
    // The rows were made with the file's truncation and padding to 128.
    let to_128 = |mut ids: Vec<i32>| {
        ids.resize(128, 0);
        ids
    };
    assert_eq!(mismatches(&BERT, "bert-uncased", to_128), [""; 0]);
}

#[test]
fn a_conversion_of_mistral_agrees_with_sentencepiece_on_its_rows() {
    assert_eq!(mismatches(&MISTRAL, "mistral-v1", |ids| ids), [""; 0]);
}

#[test]
fn text_that_spells_a_special_token_is_that_token_or_text_as_asked() {
    // The first row is what tiktoken's `encode_ordinary` gives.
    let plain_gpt2 = open("gpt2", &plain());
    assert_eq!(ids_of(&plain_gpt2, "<|endoftext|>"), [27, 91, 437, 1659, 5239, 91, 29]);
    assert_eq!(ids_of(&GPT2, "a<|endoftext|>b"), [64, 50256, 65]);
    assert_eq!(ids_of(&plain_gpt2, "Hello world"), ids_of(&GPT2, "Hello world"));

    for name in ["t5", "bert-uncased", "mistral-v1"] {
        let plain = open(name, &plain());
        let whole = open(name, &options());
        let special: Vec<(String, i32)> = Config::parse(&file(name))
            .unwrap()
            .special_tokens()
            .map(|(text, id)| (text.to_owned(), id))
            .collect();
        for (text, id) in special {
            let in_text = format!("x{text}y");
            assert!(ids_of(&whole, &in_text).contains(&id), "{name} {text}");
            let ids = ids_of(&plain, &in_text);
            // What no piece spells is UNK all the same.
            let never = !ids.contains(&id) || Some(id) == plain.special_ids().unk;
            assert!(ids.len() > 3 && never, "{name} {text}: {ids:?}");
            // Both name and show ids alike.
            assert_eq!(plain.piece(id), whole.piece(id));
            assert_eq!(plain.decode(&ids), whole.decode(&ids));
        }
        assert_eq!(plain.vocab_size(), whole.vocab_size());
        assert_eq!(plain.special_ids(), whole.special_ids());
    }
}

#[test]
fn no_text_can_spell_what_stands_for_special_tokens_where_they_are_plain() {
    let plain = open("gpt2", &plain());
    let mut attack = String::new();
    let config = Config::parse(&file("gpt2")).unwrap().without_special_tokens(&Marker::new(b""));
    for (spelling, _) in config.special_tokens() {
        attack.push_str(spelling);
    }
    assert_eq!(attack.chars().count(), 128);
    let ids = ids_of(&plain, &attack);
    assert!(!ids.contains(&50256));
    assert_eq!(plain.decode(&ids), attack);
}

#[test]
fn special_ids_are_guessed_only_where_the_file_leaves_no_doubt() {
    let ids = |pad, eos, bos, unk| SpecialIds { pad, eos, bos, unk };
    assert_eq!(GPT2.special_ids(), ids(0, Some(50256), None, None));
    assert_eq!(T5.special_ids(), ids(0, Some(1), None, Some(2)));
    assert_eq!(BERT.special_ids(), ids(0, Some(102), Some(101), Some(100)));
    assert_eq!(MISTRAL.special_ids(), ids(0, Some(2), Some(1), Some(0)));

    let two_ends = tiny(json!([token(3, "</s>"), token(4, "<|endoftext|>")]));
    let open = |named| TokenizerJson::open(two_ends.clone(), &TokenizerJsonOptions { named, ..options() });
    assert_eq!(open(NamedIds::default()).unwrap().special_ids().eos, None);
    let named = NamedIds { eos: Some("<|endoftext|>".into()), pad: Some(3.into()), ..NamedIds::default() };
    assert_eq!(open(named).unwrap().special_ids(), ids(3, Some(4), None, Some(0)));
    let named = NamedIds { eos: Some("<|endoftxt|>".into()), ..NamedIds::default() };
    insta::assert_snapshot!(open(named).unwrap_err(), @"`eos`: the vocabulary has no piece `<|endoftxt|>`; did you mean `<|endoftext|>`?");
}

#[test]
fn decoding_reads_as_seqio_does() {
    for vocabulary in [&*GPT2, &*T5, &*MISTRAL] {
        for text in ["Hello world", "a b  c", "naïve 漢字 😀"] {
            let ids = ids_of(vocabulary, text);
            let eos = vocabulary.special_ids().eos.unwrap();
            let decoded = vocabulary.decode(&ids);
            assert_eq!(vocabulary.decode(&[&ids[..], &[eos], &ids[..]].concat()), decoded);
        }
    }
    assert_eq!(GPT2.decode(&[15496, 995]), "Hello world");
    // Id 0 is GPT-2's `!`: it is padding only where rows are filled.
    assert_eq!(GPT2.decode(&[0, 0]), "!!");
    // GPT-2 has no UNK: SeqIO hands unknown ids on, and no text belongs to them.
    assert_eq!(GPT2.decode(&[15496, 60000, -1]), "Hello");
    assert_eq!(T5.decode(&[0, 40000, 32099, 1, 5]), "<unk><extra_id_0>");
}

#[test]
fn counts_unknown_ids_and_spellings_of_special_tokens() {
    let count = |vocabulary: &TokenizerJson, text| vocabulary.encode_into(text, &mut Vec::new()).unwrap();
    let counts = |unknown, special_spellings| EncodeCounts { unknown, special_spellings };
    assert_eq!(count(&T5, "a 漢字 </s> <extra_id_7><extra_id_100>"), counts(2, 2));
    assert_eq!(count(&GPT2, "漢字<|endoftext|>"), counts(0, 1));
    assert_eq!(count(&open("gpt2", &plain()), "漢字<|endoftext|>"), counts(0, 1));
}

#[test]
fn extra_ids_come_after_the_ids_of_the_file_and_match_in_text() {
    let with = |special_tokens_in_text, reverse_extra_ids| {
        let sentinels =
            TokenizerJsonOptions { extra_ids: 3, special_tokens_in_text, reverse_extra_ids, ..options() };
        open("gpt2", &sentinels)
    };
    let matching = with(SpecialTokensInText::Match, true);
    assert_eq!((matching.vocab_size(), matching.extra_ids(), matching.sentinel_id()), (50260, 3, 50259));
    assert_eq!(ids_of(&matching, "a<extra_id_0>b<extra_id_2>"), [64, 50259, 65, 50257]);
    assert_eq!(matching.decode(&[64, 50259, 65]), "a<extra_id_0>b");
    assert_eq!(matching.piece(50258).as_deref(), Some("<extra_id_1>"));
    assert_eq!(matching.piece(50260), None);
    assert_eq!(ids_of(&matching, "<extra_id_3>"), ids_of(&GPT2, "<extra_id_3>"));
    assert_eq!(ids_of(&with(SpecialTokensInText::Match, false), "<extra_id_0>"), [50257]);

    let plain = with(SpecialTokensInText::Plain, true);
    assert_eq!(ids_of(&plain, "a<extra_id_0>b"), ids_of(&GPT2, "a<extra_id_0>b"));
    assert_eq!(plain.decode(&[64, 50259, 65]), "a<extra_id_0>b");

    assert_eq!((T5.extra_ids(), T5.sentinel_id()), (100, 32099));
    let twice = TokenizerJson::open(file("t5"), &TokenizerJsonOptions { extra_ids: 100, ..options() });
    insta::assert_snapshot!(twice.unwrap_err(), @"`extra_ids`: the file brings 100 tokens `<extra_id_…>` itself: leave the key out");
}

#[test]
fn a_long_text_gives_the_ids_that_the_crate_gives_for_the_whole() {
    let mut text = String::new();
    for row in golden::rows("tokenizers/vectors/gpt2.jsonl") {
        text.push_str(row["text"].as_str().unwrap());
    }
    text.push_str(&"漢字かな".repeat(30_000));
    text.push_str(&"-=".repeat(100_000));
    text.push_str("<|endoftext|></s>");
    text.push_str(&text.replace(' ', ""));
    assert!(text.len() > steps::LONG_TEXT);
    for vocabulary in [&*GPT2, &*MISTRAL, &*BERT, &*T5] {
        let mut whole = Vec::new();
        vocabulary.whole.encode_into(&text, &EncodeOptions::no_specials(), &mut whole).unwrap();
        let whole: Vec<i32> = match PipelineToken::cast_slice(&whole) {
            // BERT's file truncates to 128 where nobody says otherwise.
            _ if std::ptr::eq(vocabulary, &*BERT) => continue,
            ids => ids.iter().map(|id| *id as i32).collect(),
        };
        assert!(ids_of(vocabulary, &text) == whole, "{vocabulary:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn words_encoded_in_short_stretches_have_the_ids_of_the_whole(
        word in prop_oneof![
            "[ab]{200,2000}", "[a-e]{200,2000}", "[0-9]{200,1000}", "[-=]{200,1000}",
            "[a-zé漢字😀ก็]{100,600}", "(the|er|ing|in|g|th){100,400}",
        ],
        stretch in 64usize..300,
    ) {
        for (vocabulary, config) in [(&*GPT2, &*GPT2_CONFIG), (&*MISTRAL, &*MISTRAL_CONFIG)] {
            let steps = Steps::new(config, &vocabulary.whole).unwrap().with_stretch(stretch);
            let (mut whole, mut in_stretches) = (Vec::new(), Vec::new());
            vocabulary.whole.encode_into(&word, &EncodeOptions::no_specials(), &mut whole).unwrap();
            steps.encode(&vocabulary.whole, &word, &mut in_stretches).unwrap();
            prop_assert_eq!(in_stretches, whole);
        }
    }
}

proptest! {
    #[test]
    fn long_words_of_a_unigram_model_have_the_ids_that_the_crate_gives(
        word in prop_oneof![
            "[ab]{70,300}", "[-=.]{70,300}", "[a-z]{70,300}", "[a-zé漢字😀ก็<>_/]{70,200}", "(漢字|</s>|<unk>|ing|▁){30,60}",
        ],
    ) {
        let steps = Steps::new(&T5_CONFIG, &T5.whole).unwrap().with_stretch(64);
        let (mut crates, mut ours) = (Vec::new(), Vec::new());
        T5.whole.encode_into(&word, &EncodeOptions::no_specials(), &mut crates).unwrap();
        steps.encode(&T5.whole, &word, &mut ours).unwrap();
        prop_assert_eq!(ours, crates);
    }

    #[test]
    fn long_words_of_a_small_unigram_model_agree_too(
        pieces in prop::collection::btree_map("[abcé]{1,4}", -9.0f64..0.0, 1..12),
        word in "[abcéz]{70,150}",
        byte_fallback in any::<bool>(),
    ) {
        let mut vocab = vec![json!(["<unk>", 0.0])];
        vocab.extend((0..256).map(|byte| json!([format!("<0x{byte:02X}>"), -1.0])).filter(|_| byte_fallback));
        vocab.extend(pieces.iter().map(|(piece, score)| json!([piece, score])));
        let mut value: Value = serde_json::from_slice(&tiny(json!([]))).unwrap();
        value["model"] = json!({"type": "Unigram", "vocab": vocab, "unk_id": 0, "byte_fallback": byte_fallback});
        let config = Config::parse(value.to_string().as_bytes()).unwrap();
        let pipeline = config.clone().build().unwrap();
        let steps = Steps::new(&config, &pipeline).unwrap().with_stretch(64);
        let (mut crates, mut ours) = (Vec::new(), Vec::new());
        pipeline.encode_into(&word, &EncodeOptions::no_specials(), &mut crates).unwrap();
        steps.encode(&pipeline, &word, &mut ours).unwrap();
        prop_assert_eq!(ours, crates);
    }
}

/// A `tokenizer.json` of five words.
fn tiny(added_tokens: Value) -> Vec<u8> {
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added_tokens,
        "normalizer": null, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1, "b": 2}, "unk_token": "[UNK]"},
    })
    .to_string()
    .into_bytes()
}

fn token(id: u64, content: &str) -> Value {
    json!({
        "id": id, "content": content, "special": true,
        "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
    })
}

/// `tiny` with a change.
fn broken(change: impl Fn(&mut Value)) -> String {
    let mut value = serde_json::from_slice(&tiny(json!([]))).unwrap();
    change(&mut value);
    match TokenizerJson::open(value.to_string().into_bytes(), &options()) {
        Ok(_) => panic!("accepted: {value}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_file_that_cannot_be_read_is_refused_with_the_component_at_fault() {
    let open = |file: &[u8]| TokenizerJson::open(file.to_vec(), &options()).unwrap_err().to_string();
    let errors = [
        open(b""),
        open(b"\xFF\xFE"),
        open(b"[]"),
        open(b"{}"),
        broken(|file| file["model"]["type"] = json!("Tiktoken")),
        broken(|file| file["model"]["vocab"] = json!(7)),
        broken(|file| file["model"]["vocab"] = json!({})),
        broken(|file| file["model"]["vocab"]["c"] = json!(4_000_000_000u64)),
        broken(|file| file["model"]["vocab"]["c"] = json!(-1)),
        broken(|file| file["normalizer"] = json!({"type": "Zalgo"})),
        broken(|file| file["pre_tokenizer"] = json!({"type": "ByteLevel", "add_prefix_space": true})),
        broken(|file| {
            file["pre_tokenizer"] =
                json!({"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated", "invert": false})
        }),
        broken(|file| file["decoder"] = json!({"type": "Enigma"})),
        broken(|file| file["added_tokens"] = json!([{"id": 3}])),
        broken(|file| file["added_tokens"] = json!([token(1 << 40, "x")])),
    ];
    insta::assert_snapshot!(errors.join("\n"), @r#"
        not a usable `tokenizer.json`: it is not JSON: EOF while parsing a value at line 1 column 0
        not a usable `tokenizer.json`: it is not JSON: expected value at line 1 column 1
        not a usable `tokenizer.json`: a tokenizer.json must be a JSON object, found an array
        not a usable `tokenizer.json`: the config has no `model`
        not a usable `tokenizer.json`: the model is a `Tiktoken`, not one of `BPE`, `Unigram`, `WordLevel`, `WordPiece`
        not a usable `tokenizer.json`: `model.vocab` is neither a table nor a list of pieces
        not a usable `tokenizer.json`: `model.vocab` is empty
        not a usable `tokenizer.json`: the id 4000000000 of `c` is above 16777215
        not a usable `tokenizer.json`: the id of `c` is not a whole number
        not a usable `tokenizer.json`: the reader does not support the `Zalgo` normalizer
        not a usable `tokenizer.json`: a `ByteLevel` pre-tokenizer with `add_prefix_space: true` is not supported
        not a usable `tokenizer.json`: the `Split` pre-tokenizer's regular expression `(`: Parsing error at position 1: Opening parenthesis without closing parenthesis
        not a usable `tokenizer.json`: the reader does not support the `Enigma` decoder
        not a usable `tokenizer.json`: an added token has no `content`
        not a usable `tokenizer.json`: the id 1099511627776 of `x` is above 16777215
        "#);
}

#[test]
fn ids_with_holes_leave_no_room_for_extra_ids() {
    let mut value: Value = serde_json::from_slice(&tiny(json!([]))).unwrap();
    value["model"]["vocab"]["z"] = json!(9);
    let file = value.to_string().into_bytes();
    let holes = TokenizerJson::open(file.clone(), &options()).unwrap();
    assert_eq!((holes.vocab_size(), holes.piece(5)), (10, None));
    let error = TokenizerJson::open(file, &TokenizerJsonOptions { extra_ids: 1, ..options() }).unwrap_err();
    insta::assert_snapshot!(error, @"`extra_ids`: the ids of the file have holes, so that `<extra_id_0>` cannot be 10");
}

proptest! {
    #[test]
    fn a_damaged_file_never_panics(at in 0usize..600, byte in any::<u8>(), cut in 0usize..600) {
        let mut file = tiny(json!([token(3, "</s>")]));
        let length = file.len();
        file[at % length] = byte;
        for file in [&file[..], &file[..cut.min(length)]] {
            if let Ok(vocabulary) = TokenizerJson::open(file.to_vec(), &options()) {
                let mut ids = Vec::new();
                let _ = vocabulary.encode_into("a b </s> c", &mut ids);
                vocabulary.decode(&ids);
            }
        }
    }

    #[test]
    fn every_id_is_below_the_size_and_any_ids_decode(text in any::<String>(), ids in prop::collection::vec(any::<i32>(), 0..20)) {
        for vocabulary in [&*GPT2, &*T5, &*BERT, &*MISTRAL] {
            let encoded = ids_of(vocabulary, &text);
            prop_assert!(encoded.iter().all(|id| (0..vocabulary.vocab_size() as i32).contains(id)));
            vocabulary.decode(&ids);
            vocabulary.decode(&encoded);
        }
    }
}

#[test]
fn a_regular_expression_without_a_scanner_of_its_own_cuts_as_it_says() {
    let mut value: Value = serde_json::from_slice(&file("gpt2")).unwrap();
    let digits =
        json!({"type": "Split", "pattern": {"Regex": "[0-9]{2}"}, "behavior": "Isolated", "invert": false});
    let byte_level = value["pre_tokenizer"].clone();
    value["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [digits, byte_level]});
    let vocabulary = TokenizerJson::open(value.to_string().into_bytes(), &options()).unwrap();
    let alone: Vec<i32> = ["year ", "19", "84", "5"].iter().flat_map(|text| ids_of(&GPT2, text)).collect();
    assert_eq!(ids_of(&vocabulary, "year 19845"), alone);
    assert_ne!(ids_of(&GPT2, "year 19845"), alone);
}
