//! `[device]`: what a run computes on.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a run computes on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceConfig {
    /// The adapter.
    #[serde(default)]
    pub adapter: AdapterName,
    /// Threads of the host; the default is one a core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
}

/// An adapter, as a person names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AdapterName {
    /// The first that can be used, hardware first.
    #[default]
    Auto,
    /// The host's processor.
    Cpu,
    /// Its place in the list of adapters.
    Index(usize),
    /// Part of its name, or its back end.
    Named(String),
}

impl From<&str> for AdapterName {
    fn from(name: &str) -> Self {
        match (name, name.parse()) {
            ("auto", _) => Self::Auto,
            ("cpu", _) => Self::Cpu,
            (_, Ok(index)) => Self::Index(index),
            (name, Err(_)) => Self::Named(name.to_owned()),
        }
    }
}

impl fmt::Display for AdapterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Index(index) => index.fmt(f),
            Self::Named(name) => f.write_str(name),
        }
    }
}

impl Serialize for AdapterName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Index(index) => serializer.serialize_u64(*index as u64),
            name => serializer.collect_str(name),
        }
    }
}

impl<'de> Deserialize<'de> for AdapterName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AdapterVisitor)
    }
}

struct AdapterVisitor;

impl Visitor<'_> for AdapterVisitor {
    type Value = AdapterName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`\"auto\"`, `\"cpu\"`, or the index or name of an adapter")
    }

    fn visit_u64<E: Error>(self, index: u64) -> Result<AdapterName, E> {
        usize::try_from(index)
            .map(AdapterName::Index)
            .map_err(|_| E::invalid_value(Unexpected::Unsigned(index), &self))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<AdapterName, E> {
        if name.trim().is_empty() {
            return Err(E::invalid_value(Unexpected::Str(name), &self));
        }
        Ok(name.into())
    }
}
