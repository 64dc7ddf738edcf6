//! A whole run file, with a word about each key.

/// A run file that can be read as it stands. What it has in comments can be read too.
pub fn example() -> &'static str {
    include_str!("example.toml")
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;
    use std::path::Path;

    use serde::de::value::Error;
    use serde::de::{DeserializeOwned, Deserializer, Visitor};
    use serde::forward_to_deserialize_any;

    use super::*;
    use crate::checkpoint::Best;
    use crate::config::{
        CheckpointConfig, DataConfig, DeviceConfig, EvalConfig, EvalTask, MeshConfig, RestoreConfig,
        RestoreRule, RunFile, RunFolder, TrainConfig,
    };
    use crate::model::ModelConfig;
    use crate::optimizer::{AdafactorConfig, AdamWConfig};
    use crate::train::ScheduleConfig;

    /// Asks a type for the keys that it reads.
    struct Keys<'a>(&'a Cell<&'static [&'static str]>);

    impl<'de> Deserializer<'de> for Keys<'_> {
        type Error = Error;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
            Err(serde::de::Error::custom("this is no struct"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, Error> {
            self.0.set(fields);
            self.deserialize_any(visitor)
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
            newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    fn keys<T: DeserializeOwned>() -> &'static [&'static str] {
        let fields = Cell::new(&[][..]);
        assert!(T::deserialize(Keys(&fields)).is_err());
        assert!(!fields.get().is_empty());
        fields.get()
    }

    /// The example with everything that is commented out said.
    fn everything() -> String {
        let is_key =
            |word: &str| word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        let line = |line: &str| match line.strip_prefix("# ") {
            Some(rest)
                if rest.starts_with('[') || rest.split_once(" = ").is_some_and(|(key, _)| is_key(key)) =>
            {
                rest.to_owned()
            }
            _ => line.to_owned(),
        };
        example().lines().map(|text| line(text) + "\n").collect()
    }

    fn read(text: &str) -> RunFile {
        RunFile::parse(Path::new("run.toml"), text, &[]).unwrap_or_else(|errors| panic!("{errors}"))
    }

    #[test]
    fn the_example_can_be_read_and_so_can_what_it_has_in_comments() {
        let config = read(example()).config;
        assert_eq!(config.model.emb_dim, 512);
        // Task files and a cache exclude each other.
        let text =
            everything().lines().filter(|line| !line.starts_with("files =")).collect::<Vec<_>>().join("\n");
        let all = read(&text).config;
        assert_eq!(all.data.block, Some(4096));
        assert!(all.restore.is_some() && all.checkpoint.best.is_some());
        // With defaults in comments that are the defaults.
        assert_eq!(all.model, crate::model::ModelConfig { dropout_rate: 0.1, ..config.model });
    }

    #[test]
    fn every_key_stands_in_the_example() {
        let document: toml::Table = toml::from_str(&everything()).unwrap();
        let table = |path: &[&str]| -> BTreeSet<String> {
            let mut value = &toml::Value::Table(document.clone());
            for key in path {
                value = &value[*key];
                if let Some(first) = value.as_array().and_then(|items| items.first()) {
                    value = first;
                }
            }
            value.as_table().unwrap().keys().cloned().collect()
        };
        let check = |path: &[&str], keys: &[&str], unsaid: &[&str]| {
            let said = table(path);
            let missing = keys.iter().filter(|key| !said.contains(**key) && !unsaid.contains(key));
            assert_eq!(missing.collect::<Vec<_>>(), Vec::<&&str>::new(), "not in {path:?} of the example");
        };
        check(&["model"], keys::<ModelConfig>(), &[]);
        check(&["data"], keys::<DataConfig>(), &[]);
        check(&["train"], keys::<TrainConfig>(), &[]);
        check(&["optimizer"], keys::<AdafactorConfig>(), &[]);
        for key in keys::<AdamWConfig>() {
            assert!(example().contains(key), "{key}");
        }
        check(&["schedule"], keys::<ScheduleConfig>(), &[]);
        check(&["checkpoint"], keys::<CheckpointConfig>(), &[]);
        check(&["checkpoint", "best"], keys::<Best>(), &[]);
        check(&["restore"], keys::<RestoreConfig>(), &[]);
        check(&["restore", "rules"], keys::<RestoreRule>(), &[]);
        check(&["eval"], keys::<EvalConfig>(), &[]);
        // Said in its comment.
        check(&["eval", "tasks"], keys::<EvalTask>(), &["name"]);
        check(&["device"], keys::<DeviceConfig>(), &[]);
        check(&["mesh"], keys::<MeshConfig>(), &[]);
        check(&["run"], keys::<RunFolder>(), &[]);
    }
}
