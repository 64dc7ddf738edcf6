//! Ids and texts against what SentencePiece itself gave; models built for the tests beside this file.

mod faults;
mod laws;
mod special_tokens;

use proptest::prelude::*;
use prost::Message;
use serde::Deserialize;

use super::proto::{ModelProto, NormalizerProto, PieceProto, TrainerProto};
use super::*;
use crate::vocabulary::golden;

fn rows<T: for<'a> Deserialize<'a>>(path: &str) -> Vec<T> {
    let rows: Vec<T> =
        golden::rows(path).into_iter().map(|row| serde_json::from_value(row).unwrap()).collect();
    assert!(!rows.is_empty(), "`{path}` has rows");
    rows
}

fn open(model: &str, options: SentencePieceOptions) -> SentencePiece {
    SentencePiece::open(golden::bytes(model), &options).unwrap()
}

fn encode(vocabulary: &SentencePiece, text: &str) -> Vec<i32> {
    let mut ids = Vec::new();
    vocabulary.encode_into(text, &mut ids).unwrap();
    ids
}

/// A model of few pieces: `(text, score, type)` with types as in the file format.
fn model(model_type: i32, pieces: &[(&str, f32, i32)]) -> ModelProto {
    ModelProto {
        pieces: pieces
            .iter()
            .map(|(text, score, kind)| PieceProto {
                piece: Some(text.as_bytes().to_vec()),
                score: Some(*score),
                kind: Some(*kind),
            })
            .collect(),
        trainer: Some(TrainerProto { model_type: Some(model_type), ..Default::default() }),
        normalizer: None,
        denormalizer: None,
    }
}

const UNIGRAM: i32 = 1;
const BPE: i32 = 2;
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;
const BYTE: i32 = 6;

const BOTH: [Arithmetic; 2] = [Arithmetic::V0_2_0, Arithmetic::V0_2_3];
const SEQIO_MODELS: [&str; 3] = ["seqio_test", "kjv_unigram_4k", "kjv_bpe_2k_bytefallback"];

fn seqio_model(name: &str) -> String {
    format!("seqio/models/{name}.model")
}

#[derive(Deserialize)]
struct TextRow {
    model: String,
    text: String,
    ids: Vec<i32>,
    decode: String,
}

#[test]
fn seqio_texts_give_the_same_ids_and_come_back_the_same() {
    let rows: Vec<TextRow> = rows("seqio/vocab_sentencepiece.jsonl");
    for arithmetic in BOTH {
        for name in SEQIO_MODELS {
            let vocabulary =
                open(&seqio_model(name), SentencePieceOptions { arithmetic, ..Default::default() });
            let mut tried = 0;
            for row in rows.iter().filter(|row| row.model == name) {
                assert_eq!(encode(&vocabulary, &row.text), row.ids, "{name} {arithmetic:?} {:?}", row.text);
                assert_eq!(vocabulary.decode(&row.ids), row.decode, "{name} {:?}", row.ids);
                tried += 1;
            }
            assert!(tried > 100, "{name} has rows");
        }
    }
}

#[derive(Deserialize)]
struct ExtraIdsRow {
    model: String,
    extra_ids: usize,
    reverse_extra_ids: bool,
    vocab_size: usize,
    pad_id: i32,
    eos_id: i32,
    unk_id: i32,
    bos_id: i32,
    extra_pieces: Vec<(i32, String)>,
    t5_sentinel_id: i32,
    encode: Vec<EncodeRow>,
    decode: Vec<DecodeRow>,
}

#[derive(Deserialize)]
struct EncodeRow {
    text: String,
    ids: Vec<i32>,
}

#[derive(Deserialize)]
struct DecodeRow {
    ids: Vec<i32>,
    decode: String,
}

#[test]
fn extra_ids_are_numbered_matched_and_decoded_as_seqio_does() {
    for arithmetic in BOTH {
        for row in rows::<ExtraIdsRow>("seqio/vocab_extra_ids.jsonl") {
            let options = SentencePieceOptions {
                extra_ids: row.extra_ids,
                reverse_extra_ids: row.reverse_extra_ids,
                arithmetic,
                special_tokens_in_text: None,
            };
            let vocabulary = open(&seqio_model(&row.model), options);
            assert_eq!(vocabulary.vocab_size(), row.vocab_size);
            assert_eq!(vocabulary.extra_ids(), row.extra_ids);
            assert_eq!(vocabulary.sentinel_id(), row.t5_sentinel_id);
            let special = vocabulary.special_ids();
            let found = [Some(special.pad), special.eos, special.unk, special.bos].map(|id| id.unwrap_or(-1));
            assert_eq!(found, [row.pad_id, row.eos_id, row.unk_id, row.bos_id]);
            for (id, piece) in &row.extra_pieces {
                assert_eq!(vocabulary.piece(*id).as_ref(), Some(piece));
            }
            for case in &row.encode {
                assert_eq!(encode(&vocabulary, &case.text), case.ids, "{options:?} {:?}", case.text);
            }
            for case in &row.decode {
                assert_eq!(vocabulary.decode(&case.ids), case.decode, "{options:?} {:?}", case.ids);
            }
        }
    }
}

/// The vectors were made with SentencePiece 0.2.3; 0.2.0 cuts the rulers of one text otherwise.
#[test]
fn real_models_give_the_ids_of_their_vectors() {
    for (folder, model, other_in_0_2_0) in [
        ("t5-spiece", "spiece.model", vec![153]),
        ("mistral-v1", "tokenizer.model", vec![]),
        ("mistral-v3", "tokenizer.model.v3", vec![]),
    ] {
        let differing = |arithmetic| -> Vec<usize> {
            let options = SentencePieceOptions { arithmetic, ..Default::default() };
            let vocabulary = open(&format!("tokenizers/{folder}/{model}"), options);
            let rows: Vec<EncodeRow> = rows(&format!("tokenizers/vectors/{folder}.jsonl"));
            assert_eq!(rows.len(), 166);
            (0..rows.len()).filter(|row| encode(&vocabulary, &rows[*row].text) != rows[*row].ids).collect()
        };
        assert_eq!(differing(Arithmetic::V0_2_3), [0; 0], "{folder}");
        assert_eq!(differing(Arithmetic::V0_2_0), other_in_0_2_0, "{folder}");
    }
}

#[test]
fn unused_pieces_are_steps_on_the_way_and_never_results() {
    let pieces = [
        ("<unk>", 0.0, UNKNOWN),
        ("a", -3.0, NORMAL),
        ("b", -3.0, NORMAL),
        ("c", -3.0, NORMAL),
        ("ab", -1.0, UNUSED),
        ("abc", -2.0, NORMAL),
        ("▁", -3.0, NORMAL),
        ("d", -3.0, UNUSED),
    ];
    for model_type in [UNIGRAM, BPE] {
        let file = model(model_type, &pieces).encode_to_vec();
        let vocabulary = SentencePiece::open(file, &SentencePieceOptions::default()).unwrap();
        assert_eq!(encode(&vocabulary, "ab"), [6, 1, 2]);
        assert_eq!(encode(&vocabulary, "abc"), [6, 5]);
        assert_eq!(encode(&vocabulary, "d"), [6, 0]);
    }
}
