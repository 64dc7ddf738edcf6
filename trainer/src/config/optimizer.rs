//! `[optimizer]`: its name, and the settings that go with it.

use seqio::{DefinitionError, DefinitionErrors, TomlDocument, nearest, quoted};

use crate::optimizer::{OptimizerConfig, standard_logical_factor_rules};

const NAMES: [&str; 2] = ["adafactor", "adamw"];

/// The key of Adafactor's rules. Those that a file gives go before T5X's, which hold for all other axes.
const RULES: &str = "logical_factor_rules";

/// Reads the table: the name first, as it decides what else may stand there.
pub(super) fn decode(document: &TomlDocument, table: &str) -> Result<OptimizerConfig, DefinitionErrors> {
    let path = [table, "name"];
    let refuse = |problem: String, hint: String| {
        let error = DefinitionError::new(problem).hint(hint).at(document.place(&path));
        DefinitionErrors::from(error.within(format!("`[{table}]`")))
    };
    let name = match document.text(&path) {
        Some(name) => name,
        None if document.contains(&path) => {
            return Err(refuse("`name` must be a text".to_owned(), format!("it may be {}", quoted(NAMES))));
        }
        None => NAMES[0],
    };
    let mut settings = document.clone();
    settings.remove(&path);
    match name {
        "adafactor" => {
            if settings.contains(&[table, RULES]) {
                let rules =
                    toml::to_string(&standard_logical_factor_rules()).expect("names of axes and words");
                settings.fill_in(&[table, RULES], "T5X's rules", &rules)?;
            }
            settings.decode(&[table]).map(OptimizerConfig::Adafactor)
        }
        "adamw" => settings.decode(&[table]).map(OptimizerConfig::AdamW),
        name => Err(refuse(
            format!("there is no optimizer `{name}`"),
            match nearest(name, NAMES) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("it may be {}", quoted(NAMES)),
            },
        )),
    }
}
