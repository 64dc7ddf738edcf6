//! From the text of a run file to a configuration, or to everything that is wrong with it.

use std::path::{Path, PathBuf};

use seqio::{DefinitionError, DefinitionErrors, Place, TomlDocument, nearest, quoted};
use serde::de::DeserializeOwned;

use crate::config::{RunConfig, optimizer};
use crate::model::{ModelConfig, ModelError, PRESETS, preset};

/// The tables of a run file; those that must be there first.
const TABLES: [&str; 11] = [
    "model",
    "data",
    "train",
    "run",
    "optimizer",
    "schedule",
    "checkpoint",
    "restore",
    "eval",
    "device",
    "mesh",
];

/// What stands for the text of the command line in messages.
const SET: &str = "--set";

/// A run file that was read, with the places of what stands in it.
#[derive(Clone, Debug)]
pub struct RunFile {
    /// What it says.
    pub config: RunConfig,
    document: TomlDocument,
}

impl RunFile {
    /// Reads a run file, with settings `section.key=value` laid over it. Relative paths in either start from its folder.
    pub fn read(path: &Path, settings: &[String]) -> Result<Self, DefinitionErrors> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let problem = format!("cannot read the run file `{}`: {error}", path.display());
            DefinitionError::new(problem).hint("`seqio train --example` prints one")
        })?;
        Self::parse(path, &text, settings)
    }

    /// [`Self::read`] for a text that is said to be at `path`.
    pub fn parse(path: &Path, text: &str, settings: &[String]) -> Result<Self, DefinitionErrors> {
        let mut document = TomlDocument::parse(path, text)?;
        let mut errors = Vec::new();
        for setting in settings {
            keep(document.set(SET, setting), &mut errors);
        }
        fill_in_preset(&mut document, &mut errors);
        let config = decode(&document, &mut errors);
        DefinitionErrors::none_or(errors)?;
        let mut config = config.expect("what has no mistakes can be decoded");

        if let Some(rate) = config.train.dropout_rate.take() {
            config.model.dropout_rate = rate;
        }
        let mut file = Self { config, document };
        DefinitionErrors::none_or(file.check())?;
        file.start_paths_at(path.parent().unwrap_or(Path::new("")));
        Ok(file)
    }

    /// Where the value under a path of keys stands, or what comes nearest to it.
    pub fn place(&self, path: &[&str]) -> Option<Place> {
        self.document.place(path)
    }

    fn start_paths_at(&mut self, folder: &Path) {
        let data = &mut self.config.data;
        if data.files.is_empty() && data.cache.is_none() {
            data.files.push(PathBuf::from("seqio.toml"));
        }
        self.config.each_path(|path| *path = folder.join(&*path));
    }
}

/// Gives the model the settings of its preset that it has not itself.
fn fill_in_preset(document: &mut TomlDocument, errors: &mut Vec<DefinitionError>) {
    const PRESET: [&str; 2] = ["model", "preset"];
    if !document.contains(&PRESET) {
        return;
    }
    let place = document.place(&PRESET);
    let name = document.text(&PRESET).map(str::to_owned);
    document.remove(&PRESET);
    let filled = match &name {
        Some(name) => preset(name).map(|config| (name, config)).map_err(|error| unknown_preset(name, &error)),
        None => {
            Err(DefinitionError::new("`preset` must be the name of a network").hint("as `\"t5_1_1/small\"`"))
        }
    };
    match filled {
        Ok((name, config)) => {
            let text = toml::to_string(&config).expect("a network is numbers and names");
            keep(document.fill_in(&["model"], &format!("preset {name}"), &text), errors);
        }
        Err(error) => {
            errors.push(error.at(place).within("`[model]`"));
            // What the preset would have said is not missing.
            let any = toml::to_string(&PRESETS[0].config()).expect("a network is numbers and names");
            keep(document.fill_in(&["model"], "preset", &any), errors);
        }
    }
}

fn unknown_preset(name: &str, error: &ModelError) -> DefinitionError {
    let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
    DefinitionError::new(error.to_string()).hint(match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the presets are {}", quoted(names)),
    })
}

/// Decodes every table by itself, so that no mistake hides one in another.
fn decode(document: &TomlDocument, errors: &mut Vec<DefinitionError>) -> Option<RunConfig> {
    for key in document.keys(&[]) {
        if !TABLES.contains(&key) {
            let hint = match nearest(key, TABLES) {
                Some(near) => format!("did you mean `[{near}]`?"),
                None => format!("the tables of a run file are {}", quoted(TABLES)),
            };
            let error = DefinitionError::new(format!("unknown key `{key}`")).hint(hint);
            errors.push(error.at(document.place_of_key(&[key])));
        }
    }
    let model: Option<ModelConfig> = table(document, "model", errors);
    let data = table(document, "data", errors);
    let train = table(document, "train", errors);
    let optimizer = keep(optimizer::decode(document, "optimizer"), errors);
    let schedule = keep(document.decode(&["schedule"]), errors);
    let checkpoint = keep(document.decode(&["checkpoint"]), errors);
    let restore = optional(document, "restore", errors);
    let eval = optional(document, "eval", errors);
    let device = keep(document.decode(&["device"]), errors);
    let mesh = optional(document, "mesh", errors);
    let run = table(document, "run", errors);
    Some(RunConfig {
        model: model?,
        data: data?,
        train: train?,
        optimizer: optimizer?,
        schedule: schedule?,
        checkpoint: checkpoint?,
        restore: restore?,
        eval: eval?,
        device: device?,
        mesh: mesh?,
        run: run?,
    })
}

/// A table that must be there.
fn table<T: DeserializeOwned>(
    document: &TomlDocument,
    name: &str,
    errors: &mut Vec<DefinitionError>,
) -> Option<T> {
    if document.contains(&[name]) {
        return keep(document.decode(&[name]), errors);
    }
    let misspelt = document.keys(&[]).iter().any(|key| nearest(key, TABLES) == Some(name));
    if !misspelt {
        errors.push(DefinitionError::new(format!("the run file has no table `[{name}]`")).hint(match name {
            "model" => "write `[model]` and `preset = \"t5_1_1/small\"`, or its sizes",
            "data" => "write `[data]` with `task`, `lengths` and `batch_size`",
            "train" => "write `[train]` and `steps`",
            _ => "write `[run]` and `dir`, the folder where the run goes",
        }));
    }
    None
}

/// A table that may be left out.
fn optional<T: DeserializeOwned>(
    document: &TomlDocument,
    name: &str,
    errors: &mut Vec<DefinitionError>,
) -> Option<Option<T>> {
    match document.contains(&[name]) {
        true => keep(document.decode(&[name]), errors).map(Some),
        false => Some(None),
    }
}

fn keep<T>(read: Result<T, DefinitionErrors>, errors: &mut Vec<DefinitionError>) -> Option<T> {
    match read {
        Ok(value) => Some(value),
        Err(found) => {
            errors.extend(found.into_vec());
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{AdapterName, Epochs};
    use crate::model::Architecture;
    use crate::optimizer::OptimizerConfig;

    const SMALL: &str = r#"
[model]
preset = "t5_1_1/small"
emb_dim = 64

[data]
task = "pairs"
lengths = { inputs = 64, targets = 32 }
batch_size = 8

[train]
steps = 100
dropout_rate = 0.1

[run]
dir = "out"
"#;

    fn read(text: &str, settings: &[&str]) -> Result<RunFile, DefinitionErrors> {
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        RunFile::parse(Path::new("runs/small.toml"), text, &settings)
    }

    fn refused(text: &str, settings: &[&str]) -> String {
        read(text, settings).unwrap_err().to_string()
    }

    #[test]
    fn what_is_left_out_comes_from_preset_and_defaults_and_paths_start_from_the_file() {
        let config = read(SMALL, &[]).unwrap().config;
        assert_eq!((config.model.emb_dim, config.model.mlp_dim), (64, 1024));
        assert_eq!(config.model.dropout_rate, 0.1);
        assert_eq!(config.train.dropout_rate, None);
        assert_eq!(config.run.dir, Path::new("runs/out"));
        assert_eq!(config.data.files, [Path::new("runs/seqio.toml")]);
        assert_eq!(config.data.epochs, Epochs(None));
        assert_eq!(config.device.adapter, AdapterName::Auto);
        assert!(config.eval.is_none());
    }

    #[test]
    fn settings_of_the_command_line_go_before_the_file() {
        let set =
            ["train.steps=7", "device.adapter=llvmpipe", "data.epochs=2", "eval.tasks=[{task='pairs'}]"];
        let config = read(SMALL, &set).unwrap().config;
        assert_eq!((config.train.steps, config.data.epochs), (7, Epochs(Some(2))));
        assert_eq!(config.device.adapter, AdapterName::Named("llvmpipe".to_owned()));
        assert_eq!(config.eval.unwrap().tasks[0].split, "validation");
        let decoder = ["model.preset=decoder_only/base", "data.lengths={targets=8}", "device.adapter=1"];
        let config = read(SMALL, &decoder).unwrap().config;
        assert_eq!(config.model.architecture, Architecture::DecoderOnly);
        assert_eq!(config.device.adapter, AdapterName::Index(1));
        let adamw = ["optimizer.name=adamw", "optimizer.beta2=0.98"];
        let OptimizerConfig::AdamW(adamw) = read(SMALL, &adamw).unwrap().config.optimizer else { panic!() };
        assert_eq!(adamw.beta2, 0.98);
    }

    #[test]
    fn every_mistake_in_every_table_is_told_at_once() {
        let text = SMALL
            .replace("emb_dim", "embed_dim")
            .replace("task =", "tsk =")
            .replace("steps = 100", "steps = \"many\"")
            .replace("[run]", "[optimizer]\nname = \"adam\"\n[rum]");
        insta::assert_snapshot!(refused(&text, &["schedule.warmup=7", "data.pack=best"]));
    }

    #[test]
    fn what_cannot_be_meant_is_told_at_once() {
        let text = SMALL.replace("[run]", "[schedule]\nfactors = \"constant * cosine\"\n[run]");
        insta::assert_snapshot!(refused(
            &text,
            &[
                "model.num_heads=0",
                "data.lengths={inputs=64}",
                "data.block=8",
                "data.order=full",
                "train.microbatches=3",
                "train.label_smoothing=1",
                "checkpoint.best={metric='pairs/loss', mode='min'}",
                "optimizer.decay_rate=-1",
                "restore={from='x', rules=[{parameters='(', from='$1'}]}",
            ]
        ));
    }

    #[test]
    fn batches_that_the_network_cannot_read_are_refused_in_words() {
        let problem = |settings: &[&str]| {
            let words = refused(SMALL, settings);
            let shown = words.lines().filter(|line| !line.contains('|'));
            shown
                .map(|line| line.split_once("]`: ").map_or(line, |(_, line)| line).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            problem(&["data.converter=encoder:mask_id=9", "data.lengths={inputs=64, targets=64}"]),
            [
                "`encoder` makes batches for an encoder alone, which no network here is",
                "hint: an encoder-decoder takes `enc_dec`, `prepacked_enc_dec`"
            ]
        );
        let decoder = ["model.preset=decoder_only/base", "data.lengths={targets=8}"];
        let bidirectional = [&decoder[..], &["model.inputs_bidirectional_attention=true"]].concat();
        assert_eq!(
            problem(&bidirectional),
            [
                "rows of `lm` do not tell inputs from targets, so that inputs cannot see each other",
                "hint: write `converter = \"prefix_lm\"` in `[data]`, with a length for `inputs`"
            ]
        );
        let prefixed = ["data.converter=prefix_lm:bos_id=2", "data.lengths={inputs=8, targets=8}"];
        let prefixed = [&bidirectional[..], &prefixed[..]].concat();
        let config = read(SMALL, &prefixed).unwrap().config;
        assert_eq!(config.data.converter.as_ref().unwrap().to_string(), "prefix_lm:bos_id=2");
        assert_eq!(config.input_shape().unwrap().decoder_length, 16);
        assert_eq!(
            problem(&[&decoder[..], &["data.converter=prepacked_lm"]].concat()),
            ["converter `prepacked_lm`, `packing`: its examples are packed already; choose packing `none`"]
        );
    }

    #[test]
    fn an_unknown_preset_is_told_with_the_nearest_one_and_nothing_else() {
        insta::assert_snapshot!(refused(SMALL, &["model.preset=t5_1_1/smal"]), @r"
        --set:1:14: `[model]`: there is no preset `t5_1_1/smal`
          |
        1 | model.preset=t5_1_1/smal
          |              ^^^^^^^^^^^
        hint: did you mean `t5_1_1/small`?
        ");
    }

    #[test]
    fn tables_that_must_be_there_are_asked_for() {
        insta::assert_snapshot!(refused("", &[]), @r#"
        the run file has no table `[model]`
        hint: write `[model]` and `preset = "t5_1_1/small"`, or its sizes

        the run file has no table `[data]`
        hint: write `[data]` with `task`, `lengths` and `batch_size`

        the run file has no table `[train]`
        hint: write `[train]` and `steps`

        the run file has no table `[run]`
        hint: write `[run]` and `dir`, the folder where the run goes
        "#);
    }

    #[test]
    fn a_configuration_that_was_written_back_is_the_same() {
        let first = read(crate::config::example(), &[]).unwrap().config;
        let text = first.to_toml();
        let again = RunFile::parse(Path::new("elsewhere/config.toml"), &text, &[]).unwrap().config;
        assert_eq!(again.to_toml(), text);
        assert_eq!(first.differences(&again), []);
        assert_eq!(first.fingerprint(), again.fingerprint());
    }

    #[test]
    fn differences_are_told_in_words_and_some_forbid_to_go_on() {
        let of = |settings: &[&str]| read(SMALL, settings).unwrap().config;
        let shown = |settings: &[&str]| {
            let (before, now) = (of(&[]), of(settings));
            let lines = before.differences(&now).into_iter();
            let lines = lines.map(|one| format!("{one}{}", if one.forbids { " (forbids)" } else { "" }));
            let lines: Vec<String> = lines.filter(|line| !line.starts_with("`run.dir`")).collect();
            assert_eq!(
                lines.iter().all(|line| !line.ends_with(')')),
                before.fingerprint() == now.fingerprint()
            );
            lines.join("\n")
        };
        insta::assert_snapshot!(
            shown(&[
                "data.batch_size=16",
                "train.steps=200",
                "train.dropout_rate=0.2",
                "model.recompute=true",
                "data.window=64",
                "optimizer.decay_rate=0.9",
                "checkpoint.keep=all",
                "device.threads=3",
            ]),
            @r#"
            `checkpoint.keep`: 3 → "all"
            `data.batch_size`: 8 → 16 (forbids)
            `data.window`: not set → 64 (forbids)
            `device.threads`: not set → 3
            `model.dropout_rate`: 0.1 → 0.2 (forbids)
            `model.recompute`: false → true
            `optimizer.decay_rate`: 0.8 → 0.9 (forbids)
            `train.steps`: 100 → 200
            "#
        );
        let free = shown(&["train.log_every=1", "run.dir=b", "device.adapter=cpu", "data.files=['a.toml']"]);
        assert!(!free.contains("forbids"), "{free}");
    }
}
