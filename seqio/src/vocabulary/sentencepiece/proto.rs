//! The part of SentencePiece's protocol buffer that encoding and decoding need.
//!
//! Field numbers are those of `sentencepiece_model.proto`; fields that are not listed are skipped. Text is read as
//! bytes, so that a piece that is not UTF-8 can be named in the message.

/// A whole `.model` file.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ModelProto {
    #[prost(message, repeated, tag = "1")]
    pub(super) pieces: Vec<PieceProto>,
    #[prost(message, optional, tag = "2")]
    pub(super) trainer: Option<TrainerProto>,
    #[prost(message, optional, tag = "3")]
    pub(super) normalizer: Option<NormalizerProto>,
    #[prost(message, optional, tag = "5")]
    pub(super) denormalizer: Option<NormalizerProto>,
}

/// One entry of the vocabulary; its id is its place in the list.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PieceProto {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub(super) piece: Option<Vec<u8>>,
    #[prost(float, optional, tag = "2")]
    pub(super) score: Option<f32>,
    #[prost(int32, optional, tag = "3")]
    pub(super) kind: Option<i32>,
}

/// How the model was trained, as far as encoding depends on it.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TrainerProto {
    #[prost(int32, optional, tag = "3")]
    pub(super) model_type: Option<i32>,
    #[prost(bool, optional, tag = "24")]
    pub(super) treat_whitespace_as_suffix: Option<bool>,
    #[prost(bool, optional, tag = "35")]
    pub(super) byte_fallback: Option<bool>,
    #[prost(bytes = "vec", optional, tag = "44")]
    pub(super) unk_surface: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "46")]
    pub(super) bos_piece: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "47")]
    pub(super) eos_piece: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "48")]
    pub(super) pad_piece: Option<Vec<u8>>,
}

/// How text is changed before it is cut into pieces (or, as the denormalizer, after it was put together).
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct NormalizerProto {
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(super) precompiled_charsmap: Option<Vec<u8>>,
    #[prost(bool, optional, tag = "3")]
    pub(super) add_dummy_prefix: Option<bool>,
    #[prost(bool, optional, tag = "4")]
    pub(super) remove_extra_whitespaces: Option<bool>,
    #[prost(bool, optional, tag = "5")]
    pub(super) escape_whitespaces: Option<bool>,
}
