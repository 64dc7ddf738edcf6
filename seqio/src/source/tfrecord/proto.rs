//! The protocol buffer of a `tf.train.Example`.
//!
//! Field numbers are those of TensorFlow's `example.proto` and `feature.proto`; fields that are not listed are skipped.

use std::collections::BTreeMap;

use prost::Message as _;

/// A record: features by name.
#[derive(Clone, PartialEq, prost::Message)]
struct ExampleProto {
    #[prost(message, optional, tag = "1")]
    features: Option<FeaturesProto>,
    /// What a `tf.train.SequenceExample` has besides.
    #[prost(bytes = "vec", optional, tag = "2")]
    feature_lists: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct FeaturesProto {
    #[prost(btree_map = "string, message", tag = "1")]
    feature: BTreeMap<String, FeatureProto>,
}

/// One feature: any number of values of one kind.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FeatureProto {
    #[prost(oneof = "Values", tags = "1, 2, 3")]
    pub(super) values: Option<Values>,
}

/// The values of a feature.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Values {
    #[prost(message, tag = "1")]
    Bytes(BytesList),
    #[prost(message, tag = "2")]
    Floats(FloatList),
    #[prost(message, tag = "3")]
    Ints(IntList),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct BytesList {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(super) value: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FloatList {
    #[prost(float, repeated, tag = "1")]
    pub(super) value: Vec<f32>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct IntList {
    #[prost(int64, repeated, tag = "1")]
    pub(super) value: Vec<i64>,
}

impl Values {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Bytes(list) => list.value.len(),
            Self::Floats(list) => list.value.len(),
            Self::Ints(list) => list.value.len(),
        }
    }

    /// What they are, in words.
    pub(super) fn words(&self) -> &'static str {
        match self {
            Self::Bytes(_) => "texts",
            Self::Floats(_) => "floats",
            Self::Ints(_) => "whole numbers",
        }
    }
}

/// The features of a record, or why it has none.
pub(super) fn features(data: &[u8]) -> Result<BTreeMap<String, FeatureProto>, String> {
    let example = ExampleProto::decode(data).map_err(|error| format!("is no `tf.train.Example`: {error}"))?;
    if example.feature_lists.is_some() {
        return Err("is a `tf.train.SequenceExample`, and no `tf.train.Example`".to_owned());
    }
    Ok(example.features.unwrap_or_default().feature)
}
