//! Templates and special tokens in files: `tokenizer_config.json` as Hugging Face keeps it, and `chat_template.jinja`.
//!
//! ```text
//! {"chat_template": "…" or [{"name": "default", "template": "…"}], "bos_token": "<s>" or {"content": "<s>"}}
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use crate::text::{nearest, quoted};

/// A `tokenizer_config.json`.
#[derive(Debug)]
pub(super) struct TokenizerConfig {
    root: Map<String, Value>,
}

/// The text of a file, or words with its path.
pub(super) fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))
}

impl TokenizerConfig {
    /// Reads the file.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        match serde_json::from_str(&read(path)?) {
            Ok(Value::Object(root)) => Ok(Self { root }),
            Ok(_) => Err(format!("`{}` is no JSON object", path.display())),
            Err(error) => Err(format!("`{}` is not JSON: {error}", path.display())),
        }
    }

    /// The template, by its name if there are several; `None` if there is none at all.
    pub(super) fn template(&self, name: Option<&str>) -> Result<Option<String>, String> {
        let named = match self.root.get("chat_template") {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) => {
                return match name {
                    None | Some("default") => Ok(Some(text.clone())),
                    Some(name) => {
                        Err(format!("there is no template `{name}`: the file has one without a name"))
                    }
                };
            }
            Some(Value::Array(named)) => named,
            Some(_) => return Err("`chat_template` is neither text nor a list of named templates".to_owned()),
        };
        let entries = named
            .iter()
            .filter_map(|entry| Some((entry.get("name")?.as_str()?, entry.get("template")?.as_str()?)));
        let wanted = name.unwrap_or("default");
        if let Some((_, template)) = entries.clone().find(|(name, _)| *name == wanted) {
            return Ok(Some(template.to_owned()));
        }
        let names = entries.map(|(name, _)| name);
        let hint = match nearest(wanted, names.clone()) {
            Some(near) => format!("; did you mean `{near}`?"),
            None => String::new(),
        };
        Err(format!("there is no template `{wanted}`, only {}{hint}", quoted(names)))
    }

    /// `bos_token`, `eos_token` and the others.
    pub(super) fn tokens(&self) -> BTreeMap<String, String> {
        let text =
            |value: &Value| Some(value.as_str().or_else(|| value.get("content")?.as_str())?.to_owned());
        let tokens = self.root.iter().filter(|(key, _)| key.ends_with("_token"));
        tokens.filter_map(|(key, value)| Some((key.clone(), text(value)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(json: &str) -> TokenizerConfig {
        TokenizerConfig { root: serde_json::from_str(json).unwrap() }
    }

    #[test]
    fn a_template_is_the_only_one_or_has_a_name() {
        let one = config(r#"{"chat_template": "a"}"#);
        assert_eq!(one.template(None), Ok(Some("a".to_owned())));
        assert_eq!(config("{}").template(None), Ok(None));
        let named = config(
            r#"{"chat_template": [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]}"#,
        );
        assert_eq!(named.template(None), Ok(Some("a".to_owned())));
        assert_eq!(named.template(Some("tool_use")), Ok(Some("b".to_owned())));
        insta::assert_snapshot!(named.template(Some("tools_use")).unwrap_err(), @"there is no template `tools_use`, only `default`, `tool_use`; did you mean `tool_use`?");
        insta::assert_snapshot!(one.template(Some("rag")).unwrap_err(), @"there is no template `rag`: the file has one without a name");
        insta::assert_snapshot!(config(r#"{"chat_template": 1}"#).template(None).unwrap_err(), @"`chat_template` is neither text nor a list of named templates");
    }

    #[test]
    fn tokens_are_texts_or_objects_with_one() {
        let tokens = config(
            r#"{"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}, "pad_token": null, "add_bos_token": true}"#,
        )
        .tokens();
        let expected = [("bos_token", "<s>"), ("eos_token", "</s>")];
        assert_eq!(tokens, expected.map(|(key, text)| (key.to_owned(), text.to_owned())).into());
    }
}
