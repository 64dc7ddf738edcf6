//! A converter with its settings, as options and files write it.
//!
//! ```text
//! lm    prefix_lm:loss_on_targets_only=false,bos_id=2    encoder:mask_id=32099
//! { name = "prefix_lm", loss_on_targets_only = false, bos_id = 2 }
//! ```

use std::fmt;
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::convert::layout::Layout;
use crate::convert::{ConvertError, Converter, ModelFeature, did_you_mean};
use crate::feature::{FeatureLengths, LOSS_SUFFIX};
use crate::text::quoted;

/// A converter with its settings.
///
/// Written as a name (`lm`), as a name with settings (`prefix_lm:bos_id=2,cu_seqlens=true`; several names of
/// `passthrough` are joined by `+`), or in files as a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// What kind of model the rows are for.
    pub kind: Converter,
    /// What decoder inputs begin with.
    pub bos_id: i32,
    /// Further task features that are copied into the batch under their own names, padded: only without packing.
    pub passthrough: Vec<String>,
    /// Whether packed rows also say where their segments end, as kernels for sequences of several lengths take it.
    pub cu_seqlens: bool,
}

impl From<Converter> for Conversion {
    fn from(kind: Converter) -> Self {
        Self { kind, bos_id: 0, passthrough: Vec::new(), cu_seqlens: false }
    }
}

impl Conversion {
    /// The same with `decoder` replaced by what it stands for with these lengths.
    pub fn resolved(&self, lengths: &FeatureLengths) -> Self {
        Self { kind: self.kind.resolved(lengths), ..self.clone() }
    }

    /// The task features it reads with these lengths, in the order of spans and limits.
    pub fn task_features(&self, lengths: &FeatureLengths) -> Vec<String> {
        let kind = self.kind.resolved(lengths);
        let own = kind.task_features().iter().map(|name| (*name).to_owned());
        match kind {
            Converter::PassThrough => lengths.keys().cloned().collect(),
            _ => own.chain(self.passthrough.iter().cloned()).collect(),
        }
    }

    /// The task features that are read with these lengths, and the loss masks that the task has for them.
    pub fn read_features<'a>(
        &self,
        lengths: &FeatureLengths,
        task: impl IntoIterator<Item = &'a String>,
    ) -> Vec<String> {
        let mut features = self.task_features(lengths);
        let is_mask = |name: &&String| {
            let of = name.strip_suffix(LOSS_SUFFIX);
            of.is_some_and(|of| features.iter().any(|name| name == of)) && !features.contains(name)
        };
        let masks: Vec<String> = task.into_iter().filter(is_mask).cloned().collect();
        features.extend(masks);
        features
    }

    /// Those of a task's features that it can be asked to read: what lengths may be given for.
    pub fn features_of<'a>(&self, task: impl IntoIterator<Item = &'a String>) -> Vec<String> {
        let mut task = task.into_iter();
        let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut features = match self.kind {
            Converter::PassThrough => return task.cloned().collect(),
            Converter::Decoder { .. } => {
                let known = self.kind.task_features();
                task.by_ref().filter(|name| known.contains(&name.as_str())).cloned().collect()
            }
            // The lengths of what stands beside a sequence are its own.
            Converter::PrepackedLm | Converter::PrepackedPrefixLm { .. } => named(&["targets"]),
            Converter::PrepackedEncDec => named(&["inputs", "targets"]),
            kind => {
                let mut names = named(kind.task_features());
                names.sort();
                names
            }
        };
        features.extend(self.passthrough.iter().cloned());
        features
    }

    /// Checks settings, and that there is a fitting length for each feature that is read and for no other.
    pub fn check_lengths(&self, lengths: &FeatureLengths) -> Result<(), ConvertError> {
        Layout::new(self, lengths).map(drop)
    }

    /// The lengths in the order of [`Self::task_features`].
    pub fn limits(&self, lengths: &FeatureLengths) -> Result<Vec<usize>, ConvertError> {
        Ok(Layout::new(self, lengths)?.limits)
    }

    /// Refuses a way of packing that makes no sense with the converter.
    pub fn check_packing(&self, packed: bool) -> Result<(), ConvertError> {
        let refused = |setting: &str, problem: &str| {
            Err(ConvertError::Setting {
                converter: self.kind.name(),
                setting: setting.to_owned(),
                problem: problem.to_owned(),
            })
        };
        if packed && self.kind.is_prepacked() {
            return refused("packing", "its examples are packed already; choose packing `none`");
        }
        if packed && self.kind == Converter::PassThrough {
            return refused("packing", "features as they are have no segments; choose packing `none`");
        }
        if packed && !self.passthrough.is_empty() {
            return refused(
                "passthrough",
                "only rows of one example have one of each; choose packing `none`",
            );
        }
        if !packed && self.cu_seqlens {
            return refused("cu_seqlens", "rows of one example have one segment; choose another packing");
        }
        Ok(())
    }

    /// What a row has room for: a length for each feature, or for joined features one for all of them.
    pub fn row_lengths(&self, lengths: &FeatureLengths, limits: &[usize]) -> Vec<usize> {
        match self.kind.resolved(lengths).joins_features() {
            true => vec![limits[..limits.len() - self.passthrough.len()].iter().sum()],
            false => limits.to_vec(),
        }
    }

    /// The model features put out, sorted by name. `row_valid`, which every batch has besides, is not among them.
    pub fn model_features(
        &self,
        lengths: &FeatureLengths,
        packed: bool,
    ) -> Result<Vec<ModelFeature>, ConvertError> {
        Ok(Layout::new(self, lengths)?.model_features(packed))
    }

    fn settings(&self) -> Settings {
        Settings {
            name: self.kind.name().to_owned(),
            loss_on_targets_only: self.kind.loss_on_targets_only().filter(|only| !only),
            mask_id: match self.kind {
                Converter::Encoder { mask_id } => Some(mask_id),
                _ => None,
            },
            bos_id: Some(self.bos_id).filter(|id| *id != 0),
            passthrough: self.passthrough.clone(),
            cu_seqlens: Some(self.cu_seqlens).filter(|wanted| *wanted),
        }
    }
}

/// A converter as a table: every setting that any has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    loss_on_targets_only: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mask_id: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bos_id: Option<i32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    passthrough: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cu_seqlens: Option<bool>,
}

impl Settings {
    /// The settings that are given, as they are written in one line.
    fn given(&self) -> Vec<(&'static str, String)> {
        let given = [
            ("loss_on_targets_only", self.loss_on_targets_only.map(|value| value.to_string())),
            ("mask_id", self.mask_id.map(|value| value.to_string())),
            ("bos_id", self.bos_id.map(|value| value.to_string())),
            ("passthrough", (!self.passthrough.is_empty()).then(|| self.passthrough.join("+"))),
            ("cu_seqlens", self.cu_seqlens.map(|value| value.to_string())),
        ];
        given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    fn set(&mut self, converter: &'static str, setting: &str, value: &str) -> Result<(), ConvertError> {
        let expected = |what: &str| ConvertError::Setting {
            converter,
            setting: setting.to_owned(),
            problem: format!("`{value}` is not {what}"),
        };
        let flag = || value.parse().map(Some).map_err(|_| expected("`true` or `false`"));
        let id = || match value.parse::<i32>() {
            Ok(id) => Ok(Some(id)),
            Err(_) => Err(expected("an id, a whole number")),
        };
        match setting {
            "loss_on_targets_only" => self.loss_on_targets_only = flag()?,
            "cu_seqlens" => self.cu_seqlens = flag()?,
            "mask_id" => self.mask_id = id()?,
            "bos_id" => self.bos_id = id()?,
            "passthrough" => {
                self.passthrough = value.split('+').map(|name| name.trim().to_owned()).collect();
            }
            _ => {
                return Err(ConvertError::unknown_setting(converter, setting));
            }
        }
        Ok(())
    }
}

impl TryFrom<Settings> for Conversion {
    type Error = ConvertError;

    fn try_from(settings: Settings) -> Result<Self, ConvertError> {
        let entry = Converter::entry(&settings.name)?;
        for (setting, _) in settings.given() {
            if !entry.settings.contains(&setting) {
                return Err(ConvertError::unknown_setting(entry.name, setting));
            }
        }
        let wrong = |setting: &str, problem: String| ConvertError::Setting {
            converter: entry.name,
            setting: setting.to_owned(),
            problem,
        };
        for (setting, id) in [("mask_id", settings.mask_id), ("bos_id", settings.bos_id)] {
            if let Some(id) = id.filter(|id| *id < 0) {
                return Err(wrong(setting, format!("{id} is no id; ids are 0 or more")));
            }
        }
        let loss_on_targets_only = settings.loss_on_targets_only.unwrap_or(true);
        let kind = match entry.name {
            "lm" => Converter::Lm,
            "enc_dec" => Converter::EncDec,
            "prefix_lm" => Converter::PrefixLm { loss_on_targets_only },
            "prefix_suffix_lm" => Converter::PrefixSuffixLm { loss_on_targets_only },
            "decoder" => Converter::Decoder { loss_on_targets_only },
            "pass_through" => Converter::PassThrough,
            "prepacked_lm" => Converter::PrepackedLm,
            "prepacked_prefix_lm" => Converter::PrepackedPrefixLm { loss_on_targets_only },
            "prepacked_enc_dec" => Converter::PrepackedEncDec,
            _ => Converter::Encoder {
                mask_id: settings.mask_id.ok_or_else(|| {
                    wrong(
                        "mask_id",
                        "it is missing: the id of masked tokens, as `encoder:mask_id=32099`".into(),
                    )
                })?,
            },
        };
        Ok(Self {
            kind,
            bos_id: settings.bos_id.unwrap_or(0),
            passthrough: settings.passthrough,
            cu_seqlens: settings.cu_seqlens.unwrap_or(false),
        })
    }
}

impl ConvertError {
    fn unknown_setting(converter: &'static str, setting: &str) -> Self {
        let known = Converter::entry(converter).map_or(&[][..], |entry| entry.settings);
        let has =
            if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", quoted(known)) };
        Self::Setting {
            converter,
            setting: setting.to_owned(),
            problem: format!(
                "there is no such setting; {has}{}",
                did_you_mean(setting, known.iter().copied())
            ),
        }
    }
}

impl fmt::Display for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        for (index, (name, value)) in self.settings().given().into_iter().enumerate() {
            write!(f, "{}{name}={value}", if index == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for Conversion {
    type Err = ConvertError;

    fn from_str(text: &str) -> Result<Self, ConvertError> {
        let (name, given) = text.split_once(':').map_or((text, None), |(name, given)| (name, Some(given)));
        let name = name.trim();
        let entry = Converter::entry(name)?;
        let mut settings = Settings { name: name.to_owned(), ..Settings::default() };
        for setting in given.iter().flat_map(|given| given.split(',')) {
            let Some((name, value)) = setting.split_once('=') else {
                return Err(ConvertError::Setting {
                    converter: entry.name,
                    setting: setting.trim().to_owned(),
                    problem: "it has no value; write it as `bos_id=0`".to_owned(),
                });
            };
            settings.set(entry.name, name.trim(), value.trim())?;
        }
        settings.try_into()
    }
}

impl Serialize for Conversion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let settings = self.settings();
        match settings.given().is_empty() {
            true => serializer.serialize_str(&settings.name),
            false => settings.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Conversion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ConversionVisitor)
    }
}

struct ConversionVisitor;

impl<'de> Visitor<'de> for ConversionVisitor {
    type Value = Conversion;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a converter, as `\"lm\"` or `{ name = \"prefix_lm\", bos_id = 2 }`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Conversion, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Conversion, A::Error> {
        let settings = Settings::deserialize(MapAccessDeserializer::new(table))?;
        settings.try_into().map_err(A::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let written = [
            "lm",
            "enc_dec",
            "prefix_lm",
            "prefix_lm:loss_on_targets_only=false,bos_id=2,cu_seqlens=true",
            "prefix_suffix_lm",
            "decoder:loss_on_targets_only=false",
            "encoder:mask_id=9",
            "pass_through",
            "prepacked_lm",
            "prepacked_prefix_lm:loss_on_targets_only=false",
            "prepacked_enc_dec:passthrough=year+source",
        ];
        for written in written {
            let conversion: Conversion = written.parse().unwrap();
            assert_eq!(conversion.to_string(), written);
            let json = serde_json::to_string(&conversion).unwrap();
            assert_eq!(json.starts_with('"'), !written.contains(':'), "{json}");
            assert_eq!(serde_json::from_str::<Conversion>(&json).unwrap(), conversion);
            let text = serde_json::to_string(written).unwrap();
            assert_eq!(serde_json::from_str::<Conversion>(&text).unwrap(), conversion);
        }
        for entry in Converter::TABLE.iter().filter(|entry| entry.name != "encoder") {
            assert_eq!(entry.name.parse::<Conversion>().unwrap().kind.name(), entry.name);
        }
    }

    #[test]
    fn what_is_no_converter_is_refused_in_words() {
        let error = |text: &str| text.parse::<Conversion>().unwrap_err().to_string();
        insta::assert_snapshot!(
            error("encdec"),
            @"there is no converter `encdec`; there are `lm`, `enc_dec`, `prefix_lm`, `prefix_suffix_lm`, `decoder`, `encoder`, `pass_through`, `prepacked_lm`, `prepacked_prefix_lm`, `prepacked_enc_dec`; did you mean `enc_dec`?"
        );
        insta::assert_snapshot!(
            error("lm:mask_id=3"),
            @"converter `lm`, `mask_id`: there is no such setting; it has `bos_id`, `passthrough`, `cu_seqlens`; did you mean `bos_id`?"
        );
        insta::assert_snapshot!(
            error("prefix_lm:bos=3"),
            @"converter `prefix_lm`, `bos`: there is no such setting; it has `loss_on_targets_only`, `bos_id`, `passthrough`, `cu_seqlens`"
        );
        insta::assert_snapshot!(
            error("encoder"),
            @"converter `encoder`, `mask_id`: it is missing: the id of masked tokens, as `encoder:mask_id=32099`"
        );
        insta::assert_snapshot!(error("lm:bos_id"), @"converter `lm`, `bos_id`: it has no value; write it as `bos_id=0`");
        insta::assert_snapshot!(error("lm:bos_id=x"), @"converter `lm`, `bos_id`: `x` is not an id, a whole number");
        insta::assert_snapshot!(error("lm:bos_id=-1"), @"converter `lm`, `bos_id`: -1 is no id; ids are 0 or more");
        let table =
            serde_json::from_str::<Conversion>(r#"{"name": "lm", "bos": 3}"#).unwrap_err().to_string();
        assert!(table.contains("unknown field `bos`"), "{table}");
    }

    #[test]
    fn packing_that_makes_no_sense_is_refused_in_words() {
        let error = |text: &str, packed| {
            text.parse::<Conversion>().unwrap().check_packing(packed).unwrap_err().to_string()
        };
        insta::assert_snapshot!(
            error("prepacked_lm", true),
            @"converter `prepacked_lm`, `packing`: its examples are packed already; choose packing `none`"
        );
        insta::assert_snapshot!(
            error("lm:passthrough=year", true),
            @"converter `lm`, `passthrough`: only rows of one example have one of each; choose packing `none`"
        );
        insta::assert_snapshot!(
            error("lm:cu_seqlens=true", false),
            @"converter `lm`, `cu_seqlens`: rows of one example have one segment; choose another packing"
        );
    }
}
