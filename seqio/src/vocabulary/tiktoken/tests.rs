use super::*;
use crate::base64;
use crate::vocabulary::golden;
use proptest::prelude::*;
use serde_json::Value;
use std::sync::LazyLock;
use tokenizers::pipeline::EncodeOptions;
use tokenizers::utils::byte_level::char_to_byte;

fn options(pattern: SplitPattern) -> TiktokenOptions {
    TiktokenOptions {
        pattern,
        special_tokens: None,
        extra_ids: 0,
        reverse_extra_ids: true,
        special_tokens_in_text: SpecialTokensInText::Plain,
        named: NamedIds::default(),
    }
}

fn matching(pattern: SplitPattern) -> TiktokenOptions {
    TiktokenOptions { special_tokens_in_text: SpecialTokensInText::Match, ..options(pattern) }
}

fn file(name: &str) -> Vec<u8> {
    golden::bytes(&format!("tokenizers/{name}/{name}.tiktoken"))
}

/// A rank file with these tokens.
fn rank_file<T: AsRef<[u8]>>(tokens: impl IntoIterator<Item = (T, u32)>) -> Vec<u8> {
    let lines =
        tokens.into_iter().map(|(token, rank)| format!("{} {rank}\n", base64::encode(token.as_ref())));
    lines.collect::<String>().into_bytes()
}

/// The 256 bytes in order, then these tokens.
fn bytes_and<T: AsRef<[u8]>>(tokens: &[T]) -> Vec<u8> {
    let bytes = (0..=255u8).map(|byte| vec![byte]);
    rank_file(bytes.chain(tokens.iter().map(|token| token.as_ref().to_vec())).zip(0..))
}

/// GPT-2's tokens as OpenAI's `r50k_base.tiktoken` has them, from the `tokenizer.json`.
fn gpt2_file() -> Vec<u8> {
    let json: Value = serde_json::from_slice(&golden::bytes("tokenizers/gpt2/tokenizer.json")).unwrap();
    let vocab = json["model"]["vocab"].as_object().unwrap();
    let tokens = vocab.iter().filter(|(piece, _)| *piece != END_OF_TEXT);
    rank_file(tokens.map(|(piece, id)| {
        (piece.chars().map(|c| char_to_byte(c).unwrap()).collect::<Vec<u8>>(), id.as_u64().unwrap() as u32)
    }))
}

fn open(file: Vec<u8>, options: &TiktokenOptions) -> Tiktoken {
    Tiktoken::open(file, options).unwrap()
}

static CL100K: LazyLock<Tiktoken> =
    LazyLock::new(|| open(file("cl100k_base"), &options(SplitPattern::Cl100k)));
static GPT2: LazyLock<Tiktoken> = LazyLock::new(|| open(gpt2_file(), &options(SplitPattern::Gpt2)));

fn ids_of(vocabulary: &Tiktoken, text: &str) -> Vec<i32> {
    let mut ids = Vec::new();
    vocabulary.encode_into(text, &mut ids).unwrap();
    ids
}

/// Sees that every row that tiktoken gave is ours, and decodes to its text.
fn check_rows(vocabulary: &Tiktoken, vectors: &str) {
    let rows = golden::rows(&format!("tokenizers/vectors/{vectors}.jsonl"));
    assert_eq!(rows.len(), 166);
    for row in rows {
        let text = row["text"].as_str().unwrap();
        let ids = golden::ids(&row["ids"]);
        assert_eq!(ids_of(vocabulary, text), ids, "{text}");
        assert_eq!(vocabulary.decode(&ids), text);
    }
}

#[test]
fn every_row_that_tiktoken_gave_is_ours() {
    check_rows(&CL100K, "cl100k_base");
    check_rows(&open(file("o200k_base"), &options(SplitPattern::O200k)), "o200k_base");
    check_rows(&open(file("qwen"), &options(SplitPattern::Qwen)), "qwen");
    check_rows(&GPT2, "gpt2");
}

#[test]
fn patterns_split_as_their_page_shows_and_have_scanners_of_their_own() {
    let words = |pattern: SplitPattern, text: &str| {
        let split = Split::native(Regex(pattern.regex().to_owned()), SplitDelimiterBehavior::Isolated, false)
            .unwrap();
        assert!(split.grammar().is_some());
        let mut words = Vec::new();
        tokenizers::pipeline::PreTokenizer::pre_tokenize(&split, text, &mut Default::default(), &mut words)
            .unwrap();
        words.iter().map(|word| &text[word.range()]).collect::<Vec<_>>().join("|")
    };
    let all = |text| {
        let patterns = [SplitPattern::Gpt2, SplitPattern::Cl100k, SplitPattern::O200k, SplitPattern::Qwen];
        patterns.map(|pattern| words(pattern, text)).join("\n")
    };
    insta::assert_snapshot!(all("It's 12345  x"), @r"
    It|'s| 12345| | x
    It|'s| |123|45| | x
    It's| |123|45| | x
    It|'s| |1|2|3|4|5| | x
    ");
}

#[test]
fn special_tokens_are_those_of_the_tokenizer_that_the_pattern_is_named_after() {
    assert_eq!(CL100K.vocab_size(), 100_277);
    assert_eq!(CL100K.special_ids(), SpecialIds { pad: 0, eos: Some(100_257), bos: None, unk: None });
    assert_eq!(CL100K.piece(100_260).as_deref(), Some("<|fim_suffix|>"));
    // tiktoken knows no token of this id either.
    assert_eq!(CL100K.piece(100_256), None);
    assert_eq!((GPT2.vocab_size(), GPT2.special_ids().eos), (50_257, Some(50_256)));
    // Another file that is split the same way has others.
    let other = open(bytes_and(&["ab"]), &options(SplitPattern::Cl100k));
    assert_eq!((other.vocab_size(), other.special_ids().eos), (257, None));
}

#[test]
fn text_that_spells_a_special_token_is_text_unless_it_shall_match() {
    assert_eq!(ids_of(&CL100K, "<|endoftext|>"), [27, 91, 8862, 728, 428, 91, 29]);
    let matching = open(file("cl100k_base"), &matching(SplitPattern::Cl100k));
    assert_eq!(ids_of(&matching, "a<|endoftext|><|endofprompt|>b"), [64, 100_257, 100_276, 65]);
    assert_eq!(ids_of(&matching, "Hello world"), ids_of(&CL100K, "Hello world"));
    for vocabulary in [&*CL100K, &matching] {
        let counts = vocabulary.encode_into("x<|endoftext|>y<|fim_prefix|>", &mut Vec::new()).unwrap();
        assert_eq!(counts, EncodeCounts { unknown: 0, special_spellings: 2 });
    }
}

#[test]
fn special_tokens_of_another_tokenizer_are_named() {
    let tokens =
        |tokens: &[(&str, u32)]| Some(tokens.iter().map(|(text, id)| ((*text).to_owned(), *id)).collect());
    let llama = TiktokenOptions {
        special_tokens: tokens(&[("<|begin_of_text|>", 300), ("<|end_of_text|>", 301)]),
        named: NamedIds {
            eos: Some("<|end_of_text|>".into()),
            bos: Some(300.into()),
            pad: Some(301.into()),
            ..NamedIds::default()
        },
        extra_ids: 2,
        ..matching(SplitPattern::Cl100k)
    };
    let vocabulary = open(bytes_and(&["ab"]), &llama);
    assert_eq!(vocabulary.special_ids(), SpecialIds { pad: 301, eos: Some(301), bos: Some(300), unk: None });
    assert_eq!((vocabulary.vocab_size(), vocabulary.extra_ids(), vocabulary.sentinel_id()), (304, 2, 303));
    let ids = ids_of(&vocabulary, "<|begin_of_text|>ab<extra_id_0>c");
    assert_eq!(ids, [300, 256, 303, i32::from(b'c')]);
    assert_eq!(vocabulary.decode(&ids), "ab<extra_id_0>c");
    assert_eq!(vocabulary.piece(302).as_deref(), Some("<extra_id_1>"));
    // No special tokens at all: no EOS to end a document with.
    let none = TiktokenOptions { special_tokens: tokens(&[]), ..options(SplitPattern::Gpt2) };
    assert_eq!(open(gpt2_file(), &none).special_ids().eos, None);

    let refused = |special: &[(&str, u32)], extra_ids| {
        let options =
            TiktokenOptions { special_tokens: tokens(special), extra_ids, ..options(SplitPattern::Cl100k) };
        Tiktoken::open(bytes_and(&["ab"]), &options).unwrap_err().to_string()
    };
    insta::assert_snapshot!([
        refused(&[("<s>", 256)], 0),
        refused(&[("ab", 300)], 0),
        refused(&[("<a>", 300), ("<b>", 300)], 0),
        refused(&[("", 300)], 0),
        refused(&[("<s>", u32::MAX)], 0),
        refused(&[("<extra_id_0>", 300)], 1),
    ].join("\n"), @r"
    `special_tokens`: the id 256 of `<s>` is the rank of `ab` in the file
    `special_tokens`: `ab` is in the file already, as rank 256: leave it out
    `special_tokens`: `<a>` and `<b>` both have the id 300
    `special_tokens`: a special token has 1 to 1024 bytes, not 0
    `special_tokens`: the id 4294967295 of `<s>` is above 16777215
    `extra_ids`: `<extra_id_0>` is one of `special_tokens` already: leave it or this key out
    ");
}

#[test]
fn decoding_gives_bytes_back_and_marks_what_is_no_text_as_tiktoken_does() {
    assert_eq!(ids_of(&CL100K, "你"), [57668]);
    let ids = ids_of(&CL100K, "\u{1F9D1}\u{200D}\u{1F680}");
    assert_eq!(CL100K.decode(&ids), "\u{1F9D1}\u{200D}\u{1F680}");
    // tiktoken 0.14: decode([9468]) == decode([9468, 64]) without its `a` == "\ufffd".
    assert_eq!(CL100K.piece(9468).as_deref(), Some("<0xF0><0x9F>"));
    assert_eq!(CL100K.decode(&[9468]), "\u{FFFD}");
    assert_eq!(CL100K.decode(&[9468, 64]), "\u{FFFD}a");
    assert_eq!(CL100K.decode(&[9906, -1, 100_256, i32::MAX, 1917]), "Hello world");
    assert_eq!(CL100K.decode(&[9906, 100_257, 1917]), "Hello");
    assert_eq!(CL100K.decode(&[100_258, 9906]), "<|fim_prefix|>Hello");
}

#[test]
fn a_long_text_gives_the_ids_that_the_crate_gives_for_the_whole() {
    let mut text = String::new();
    for row in golden::rows("tokenizers/vectors/cl100k_base.jsonl") {
        text.push_str(row["text"].as_str().unwrap());
    }
    text.push_str(&"漢字かな".repeat(30_000));
    text.push_str(&"-=".repeat(100_000));
    text.push_str(&" ".repeat(100_000));
    text.push_str(&text.replace(' ', ""));
    assert!(text.len() > 1 << 20);
    let mut whole = Vec::new();
    CL100K.pipeline.encode_into(&text, &EncodeOptions::no_specials(), &mut whole).unwrap();
    let whole: Vec<i32> = whole.iter().map(|token| token.id() as i32).collect();
    assert!(ids_of(&CL100K, &text) == whole);
}

fn refused(file: &[u8]) -> String {
    match Tiktoken::open(file.to_vec(), &options(SplitPattern::Gpt2)) {
        Ok(_) => panic!("accepted: {}", String::from_utf8_lossy(file)),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_broken_rank_file_is_refused_with_the_line_at_fault() {
    let whole = String::from_utf8(bytes_and(&["ab", "abc"])).unwrap();
    assert!(Tiktoken::open(whole.clone().into_bytes(), &options(SplitPattern::Gpt2)).is_ok());
    let windows = whole.replace('\n', "\r\n") + "\r\n\r\n";
    assert!(Tiktoken::open(windows.into_bytes(), &options(SplitPattern::Gpt2)).is_ok());
    let with = |from: &str, to: &str| refused(whole.replacen(from, to, 1).as_bytes());
    let errors = [
        refused(b""),
        refused(b"\n \n"),
        refused(b"\xFF\xFE"),
        refused(b"{\"model\": {}}"),
        refused(b"\n\x0E\n\x05<unk>\x15\0\0\0\0\x18\xFF\x02"),
        with("IQ== 33", "IQ= 33"),
        with("IQ== 33", "IQ=="),
        with("IQ== 33", "IQ== 33 7"),
        with("IQ== 33", "IQ== 3x"),
        with("IQ== 33", "IQ== -1"),
        with("IQ== 33", "IQ== 16777216"),
        with("IQ== 33", "= 33"),
        with("YWI= 256\n", ""),
        with("YWI= 256", "YWI= 255"),
        with("YWI= 256", "IQ== 256"),
        refused(&rank_file((0..256).filter(|byte| *byte != 0xE2).map(|byte| [byte as u8]).zip(0..))),
        refused(&rank_file([("a", 0)])),
        refused(&rank_file([("a".repeat(1025), 0)])),
    ];
    insta::assert_snapshot!(errors.join("\n"), @r#"
    not a usable rank file: it has no tokens: each line is a token in base64 and its rank, as `IQ== 0`
    not a usable rank file: it has no tokens: each line is a token in base64 and its rank, as `IQ== 0`
    not a usable rank file: line 1: `��` is not a token in base64 and its rank, as `IQ== 0`
    not a usable rank file: line 1: `{"model":` is not base64; this looks like JSON: a `tokenizer.json` is named by the key `tokenizer_json`
    not a usable rank file: line 2: `\u{e}` is not a token in base64 and its rank, as `IQ== 0`; this looks like a SentencePiece model, which is named by the key `sentencepiece`
    not a usable rank file: line 34: `IQ=` is not base64
    not a usable rank file: line 34: `IQ==` is not a token in base64 and its rank, as `IQ== 0`
    not a usable rank file: line 34: `IQ== 33 7` is not a token in base64 and its rank, as `IQ== 0`
    not a usable rank file: line 34: `3x` is not a rank: 0 to 16777215 are possible
    not a usable rank file: line 34: `-1` is not a rank: 0 to 16777215 are possible
    not a usable rank file: line 34: `16777216` is not a rank: 0 to 16777215 are possible
    not a usable rank file: line 34: `=` is not base64
    not a usable rank file: line 257: the rank is 257, but no line has the rank 256; if that is the id of a special token, name it in `special_tokens`
    not a usable rank file: line 257: the rank 255 is on line 256 already
    not a usable rank file: line 257: the token `!` is on line 34 already
    not a usable rank file: no line has the byte 0xE2 as a token, so text that holds it could not be encoded
    not a usable rank file: no line has the byte 0x00 (and 241 more) as a token, so text that holds it could not be encoded
    not a usable rank file: line 1: a token is 1025 bytes long; 1 to 1024 are possible
    "#);
}

#[test]
fn a_gap_in_the_ranks_that_a_special_token_fills_is_none() {
    let file = rank_file((0..=255u8).map(|byte| vec![byte]).zip(0..).chain([(b"ab".to_vec(), 257)]));
    assert!(refused(&file).contains("no line has the rank 256"));
    let special_tokens = Some(BTreeMap::from([(END_OF_TEXT.to_owned(), 256)]));
    let vocabulary = open(file, &TiktokenOptions { special_tokens, ..options(SplitPattern::Gpt2) });
    assert_eq!((vocabulary.vocab_size(), vocabulary.special_ids().eos), (258, Some(256)));
    assert_eq!(ids_of(&vocabulary, "abc"), [257, i32::from(b'c')]);
}

/// tiktoken's algorithm as its own source has it: the lowest rank first, leftmost among equal ones.
fn reference(ranks: &BTreeMap<Vec<u8>, i32>, word: &[u8]) -> Vec<i32> {
    if let Some(id) = ranks.get(word) {
        return vec![*id];
    }
    let mut parts: Vec<Vec<u8>> = word.iter().map(|byte| vec![*byte]).collect();
    loop {
        let rank_at = |at: usize| Some((ranks.get(&[&parts[at][..], &parts[at + 1][..]].concat())?, at));
        let Some((_, at)) = (0..parts.len().saturating_sub(1)).filter_map(rank_at).min() else { break };
        let right = parts.remove(at + 1);
        parts[at].extend(right);
    }
    parts.iter().map(|part| ranks[part]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn any_tokens_in_any_order_give_the_ids_of_tiktokens_algorithm(
        tokens in prop::collection::btree_set("[ab]{2,6}|[abé]{2,4}", 0..40).prop_map(Vec::from_iter).prop_shuffle(),
        words in prop::collection::vec("[ab]{1,40}|[abé]{1,20}", 1..10),
    ) {
        // Sets of tokens that no training gives: many that their bytes do not lead to, ranks in no order.
        let vocabulary = open(bytes_and(&tokens), &options(SplitPattern::Gpt2));
        let mut ranks: BTreeMap<Vec<u8>, i32> = (0..=255u8).map(|byte| (vec![byte], i32::from(byte))).collect();
        ranks.extend(tokens.iter().map(|token| token.as_bytes().to_vec()).zip(256..));
        for word in &words {
            prop_assert_eq!(ids_of(&vocabulary, word), reference(&ranks, word.as_bytes()), "{}", word);
        }
    }

    #[test]
    fn a_damaged_file_never_panics(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let mut file = bytes_and(&["ab", "abc", "é", " a"]);
        let length = file.len();
        file[at.index(length)] = byte;
        for file in [&file[..], &file[..cut.index(length)]] {
            if let Ok(vocabulary) = Tiktoken::open(file.to_vec(), &options(SplitPattern::O200k)) {
                let ids = ids_of(&vocabulary, "a abc é 12 \n");
                prop_assert_eq!(vocabulary.decode(&ids), "a abc é 12 \n");
            }
        }
    }

    #[test]
    fn every_text_comes_back_and_any_ids_decode(text in any::<String>(), ids in prop::collection::vec(any::<i32>(), 0..20)) {
        for vocabulary in [&*CL100K, &*GPT2] {
            let encoded = ids_of(vocabulary, &text);
            prop_assert!(encoded.iter().all(|id| (0..vocabulary.vocab_size() as i32).contains(id)));
            prop_assert_eq!(&vocabulary.decode(&encoded), &text);
            vocabulary.decode(&ids);
        }
    }
}

#[test]
fn all_pairs_of_bytes_as_tokens_are_refused_or_read_but_no_panic() {
    // More pairs than the crate's table of frequent ones has room for.
    let pairs: Vec<[u8; 2]> = (0..=u16::MAX).map(u16::to_be_bytes).collect();
    if let Ok(vocabulary) = Tiktoken::open(bytes_and(&pairs), &options(SplitPattern::Gpt2)) {
        assert_eq!(vocabulary.decode(&ids_of(&vocabulary, "hello")), "hello");
    }
}
