//! Files that are no models, and models that are broken or built to do harm.

use super::*;

fn refusal(model: &ModelProto, options: &SentencePieceOptions) -> String {
    SentencePiece::open(model.encode_to_vec(), options).unwrap_err().to_string()
}

fn refused(pieces: &[(&str, f32, i32)]) -> String {
    refusal(&model(UNIGRAM, pieces), &SentencePieceOptions::default())
}

#[test]
fn a_file_that_is_no_model_is_refused() {
    let open =
        |file: &[u8]| SentencePiece::open(file.to_vec(), &SentencePieceOptions::default()).unwrap_err();
    assert_eq!(open(b"").to_string(), "the SentencePiece model has no pieces: is this a `.model` file?");
    let text = open(b"{\"version\": \"1.0\"}").to_string();
    assert!(text.starts_with("not a SentencePiece model, or a damaged one: "), "{text}");
}

#[test]
fn types_of_models_that_are_not_supported_are_named() {
    for (model_type, name) in [(3, "word"), (4, "char")] {
        assert_eq!(
            refusal(&model(model_type, &[("<unk>", 0.0, UNKNOWN)]), &SentencePieceOptions::default()),
            format!("SentencePiece models of type {name} are not supported, only unigram and bpe")
        );
    }
    let unknown = refusal(&model(9, &[("<unk>", 0.0, UNKNOWN)]), &SentencePieceOptions::default());
    assert_eq!(unknown, "the SentencePiece model is of the unknown type 9");
}

#[test]
fn a_piece_that_cannot_be_is_named() {
    let unk = ("<unk>", 0.0, UNKNOWN);
    let long = "x".repeat(8_000);
    for (piece, problem) in [
        (("", 0.0, NORMAL), "piece 1 of the SentencePiece model is empty"),
        (("a", f32::NAN, NORMAL), "piece 1 of the SentencePiece model (`a`) has the score NaN"),
        (("a", f32::NEG_INFINITY, NORMAL), "piece 1 of the SentencePiece model (`a`) has the score -inf"),
        (("a", 0.0, 7), "piece 1 of the SentencePiece model has the unknown type 7"),
        (("a\0", 0.0, NORMAL), "piece 1 of the SentencePiece model (`a\\0`) holds a NUL"),
        (
            (&*long, 0.0, NORMAL),
            "piece 1 of the SentencePiece model has 8000 bytes; fewer than 8000 are allowed",
        ),
        (
            ("<0x00>", 0.0, BYTE),
            "piece 1 of the SentencePiece model (`<0x00>`) is a byte, but the model's `byte_fallback` is off",
        ),
        (("<unk>", 0.0, UNKNOWN), "the SentencePiece model has the piece `<unk>` twice, as ids 0 and 1"),
        (("<x>", 0.0, UNKNOWN), "the SentencePiece model has two unknown pieces, ids 0 and 1"),
        (("<s>", 0.0, CONTROL), "the SentencePiece model has no piece that text could become"),
    ] {
        assert_eq!(refused(&[unk, piece]), problem);
    }
    assert_eq!(refused(&[("a", 0.0, NORMAL)]), "the SentencePiece model has no unknown piece");
    let mut not_utf8 = model(UNIGRAM, &[unk, ("a", 0.0, NORMAL)]);
    not_utf8.pieces[1].piece = Some(vec![0xff]);
    let problem = refusal(&not_utf8, &SentencePieceOptions::default());
    assert_eq!(problem, "piece 1 of the SentencePiece model is not UTF-8");
}

#[test]
fn bytes_have_all_their_pieces_or_none() {
    let mut bytes = model(UNIGRAM, &[("<unk>", 0.0, UNKNOWN), ("a", 0.0, NORMAL), ("<0x00>", 0.0, BYTE)]);
    bytes.trainer.as_mut().unwrap().byte_fallback = Some(true);
    assert_eq!(
        refusal(&bytes, &SentencePieceOptions::default()),
        "the SentencePiece model spells unknown characters by bytes, but has no piece `<0x01>`"
    );
    bytes.pieces[2].piece = Some(b"<0x0g>".to_vec());
    assert_eq!(
        refusal(&bytes, &SentencePieceOptions::default()),
        "piece 2 of the SentencePiece model (`<0x0g>`) is of type byte, but not of the form `<0x00>` to `<0xFF>`"
    );
}

#[test]
fn extra_ids_that_the_model_has_already_are_refused() {
    let pieces = [("<unk>", 0.0, UNKNOWN), ("a", 0.0, NORMAL), ("▁<extra_id_1>", 0.0, USER_DEFINED)];
    let options = SentencePieceOptions { extra_ids: 2, ..Default::default() };
    assert_eq!(
        refusal(&model(BPE, &pieces), &options),
        "`extra_ids`: the model has `▁<extra_id_1>` already (id 2); set `extra_ids` to what it lacks, or to 0"
    );
    let options = SentencePieceOptions { extra_ids: usize::MAX, ..Default::default() };
    assert!(
        refusal(&model(BPE, &pieces), &options).starts_with("`extra_ids`: 3 pieces and 18446744073709551615")
    );
}

/// A character map whose units are all empty but those given.
fn charsmap(units: &[(usize, u32)], replacements: &[u8]) -> Vec<u8> {
    let mut trie = vec![0_u32; 512];
    for (at, unit) in trie.iter_mut().enumerate() {
        // What Darts writes where nothing is: a label that no walk to this unit looks for.
        *unit = (at as u32 & 0xff) ^ 1;
    }
    for (at, unit) in units {
        trie[*at] = *unit;
    }
    let mut blob = 2048_u32.to_le_bytes().to_vec();
    blob.extend(trie.iter().flat_map(|unit| unit.to_le_bytes()));
    blob.extend_from_slice(replacements);
    blob
}

fn node(label: u8, has_leaf: bool, offset: u32) -> u32 {
    u32::from(label) | u32::from(has_leaf) << 8 | offset << 10
}

fn value(at: u32) -> u32 {
    1 << 31 | at
}

fn with_charsmap(blob: Vec<u8>) -> ModelProto {
    let mut with_map = model(UNIGRAM, &[("<unk>", 0.0, UNKNOWN), ("▁", -1.0, NORMAL), ("b", -1.0, NORMAL)]);
    with_map.normalizer = Some(NormalizerProto { precompiled_charsmap: Some(blob), ..Default::default() });
    with_map
}

/// Root 0 looks for its children from 256 on: `a` is unit 256 ^ 97 = 353, and its value is at 353 ^ offset.
const A: usize = 256 ^ 97;

#[test]
fn a_character_map_replaces_what_it_says() {
    let blob = charsmap(&[(0, node(0, false, 256)), (A, node(97, true, 7)), (A ^ 7, value(0))], b"b\0");
    let vocabulary =
        SentencePiece::open(with_charsmap(blob).encode_to_vec(), &SentencePieceOptions::default()).unwrap();
    assert_eq!(encode(&vocabulary, "a b a"), [1, 2, 1, 2, 1, 2]);
}

#[test]
fn a_broken_character_map_is_refused() {
    let root = (0, node(0, false, 256));
    let leaf = (A, node(97, true, 7));
    for (blob, problem) in [
        (vec![0; 3], "it has 3 bytes, too few for its header"),
        (vec![1; 9], "its trie should have 16843009 bytes, but only 5 follow"),
        (
            [8_u32.to_le_bytes().to_vec(), vec![0; 9]].concat(),
            "its trie has 8 bytes, which is no multiple of 1,024",
        ),
        (charsmap(&[root], b"b"), "its last replacement is not ended by a NUL"),
        (charsmap(&[(0, node(0, false, 0))], b"\0"), "the root of its trie is no root"),
        (charsmap(&[(0, node(0, false, 512))], b"\0"), "the root of its trie is no root"),
        (
            charsmap(&[root, (A, node(97, false, 4096))], b"\0"),
            "unit 353 of its trie points out of the array",
        ),
        (charsmap(&[root, leaf], b"\0"), "unit 353 of its trie has no value where it should have one"),
        (
            charsmap(&[root, leaf, (A ^ 7, value(9))], b"b\0"),
            "unit 358 of its trie points behind the replacements",
        ),
        (
            charsmap(&[root, leaf, (A ^ 7, value(0))], &[vec![b'x'; 1025], vec![0]].concat()),
            "it has a replacement of more than 1024 bytes",
        ),
        // `a` is its own child: A ^ offset ^ 97 = A.
        (charsmap(&[root, (A, node(97, false, 97))], b"\0"), "its trie goes round in a circle"),
    ] {
        assert_eq!(
            refusal(&with_charsmap(blob), &SentencePieceOptions::default()),
            format!("the SentencePiece model's character map is broken: {problem}")
        );
    }
}

#[test]
fn a_truncated_model_is_refused_or_read_but_never_panics() {
    let whole = golden::bytes("seqio/models/kjv_bpe_2k_bytefallback.model");
    for length in (0..whole.len()).step_by(997) {
        try_out(whole[..length].to_vec());
    }
}

/// Opens a file, and uses it if that succeeds.
fn try_out(file: Vec<u8>) {
    let options = SentencePieceOptions { extra_ids: 3, ..Default::default() };
    let Ok(vocabulary) = SentencePiece::open(file, &options) else { return };
    let text = "  In the beginning\tGod ﬁ Å created ▁▁ <extra_id_0> 12345 \0 天地 😀 e\u{301} </s>";
    let ids = encode(&vocabulary, text);
    assert!(ids.iter().all(|id| (0..vocabulary.vocab_size() as i32).contains(id)));
    vocabulary.decode(&ids);
    vocabulary.decode(&[0, 1, 2, -1, i32::MAX, i32::MIN, 5]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_damaged_model_is_refused_or_read_but_never_panics(
        name in prop::sample::select(vec!["kjv_bpe_2k_bytefallback", "seqio_test"]),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        near_the_front in any::<bool>(),
    ) {
        let mut file = golden::bytes(&seqio_model(name));
        let range = if near_the_front { 600 } else { file.len() };
        for (place, byte) in damage {
            file[place.index(range)] = byte;
        }
        try_out(file);
    }

    #[test]
    fn random_bytes_are_no_model(file in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(SentencePiece::open(file, &SentencePieceOptions::default()).is_err());
    }
}
