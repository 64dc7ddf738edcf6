//! From the text of a task file to specs, every part read by itself, so that one mistake does not hide the next.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::de::Error as _;
use serde_json::{Map, Value};

use crate::error::DefinitionError;
use crate::locate::{Entry, Locator, Mistake, Node, NodeValue, Part, TaskText, decode, decode_with};
use crate::preprocess::{CustomStep, CustomSteps, Step};
use crate::task::{TaskSpec, step_in_words};
use crate::text::nearest;
use crate::vocabulary::VocabularySpec;

/// A name with what it stands for and where it was said.
#[derive(Clone, Debug)]
pub(super) struct Defined<T> {
    pub(super) name: String,
    pub(super) spec: T,
    pub(super) locator: Locator,
}

/// What one file defines. Tables with mistakes are left out of it, but for their names.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    pub(super) vocabularies: Vec<Defined<Option<VocabularySpec>>>,
    pub(super) tasks: Vec<Defined<Option<TaskSpec>>>,
    /// Tasks of which a step could not be read: their `steps` lack it.
    pub(super) broken_tasks: BTreeSet<String>,
    pub(super) errors: Vec<DefinitionError>,
}

const TABLES: [&str; 2] = ["vocabulary", "task"];

/// Reads one task file.
pub(super) fn parse(text: &Arc<TaskText>, custom: &CustomSteps) -> Parsed {
    let mut parsed = Parsed::default();
    let root = match Node::parse(&text.text) {
        Ok(root) => root,
        Err((problem, span)) => {
            let problem = format!("this is not TOML: {problem}");
            parsed.errors.push(DefinitionError::new(problem).at(Some(text.place(&span))));
            return parsed;
        }
    };
    for entry in root.entries() {
        let NodeValue::Table(_) = entry.node.value else {
            let error = match TABLES.contains(&entry.key.as_str()) {
                true => DefinitionError::new(format!("`{}` must be a table of tables", entry.key))
                    .hint(format!("write `[{}.name]`", entry.key)),
                false => unknown_table(&entry.key),
            };
            parsed.errors.push(error.at(Some(text.place(&entry.key_span))));
            continue;
        };
        match entry.key.as_str() {
            "vocabulary" => {
                entry.node.entries().iter().for_each(|entry| parse_vocabulary(text, entry, &mut parsed))
            }
            "task" => {
                entry.node.entries().iter().for_each(|entry| parse_task(text, entry, custom, &mut parsed))
            }
            key => parsed.errors.push(unknown_table(key).at(Some(text.place(&entry.key_span)))),
        }
    }
    parsed
}

fn unknown_table(key: &str) -> DefinitionError {
    let hint = match nearest(key, TABLES) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "a task file has `[vocabulary.NAME]` and `[task.NAME]`".to_owned(),
    };
    DefinitionError::new(format!("unknown key `{key}`")).hint(hint)
}

fn parse_vocabulary(text: &Arc<TaskText>, entry: &Entry, parsed: &mut Parsed) {
    let locator = Locator::new(text, &entry.key_span, &entry.node);
    let spec = match decode::<VocabularySpec>(&entry.node) {
        Ok(spec) => Some(spec),
        Err(mistakes) => {
            let context = format!("vocabulary `{}`", entry.key);
            parsed
                .errors
                .extend(mistakes.iter().map(|mistake| error_of(mistake, &locator, &[]).within(&context)));
            None
        }
    };
    parsed.vocabularies.push(Defined { name: entry.key.clone(), spec, locator });
}

fn parse_task(text: &Arc<TaskText>, entry: &Entry, custom: &CustomSteps, parsed: &mut Parsed) {
    let locator = Locator::new(text, &entry.key_span, &entry.node);
    let context = format!("task `{}`", entry.key);

    let mut steps = Vec::new();
    let mut well_formed = true;
    let mut rest = entry.node.clone();
    if let Some(node) = entry.node.get("steps")
        && let NodeValue::Array(items) = &node.value
    {
        // The steps are read one by one below.
        rest.remove(&[Part::Key("steps".to_owned())]);
        for (index, item) in items.iter().enumerate() {
            let way = [Part::Key("steps".to_owned()), Part::Index(index)];
            match parse_step(item, custom, &locator, &way) {
                Ok(step) => steps.push(step),
                Err(errors) => {
                    well_formed = false;
                    let step = match item.get("op").and_then(Node::as_str) {
                        Some(op) => step_in_words(index, items.len(), op),
                        None => format!("step {} of {}", index + 1, items.len()),
                    };
                    parsed
                        .errors
                        .extend(errors.into_iter().map(|error| error.within(&context).within(&step)));
                }
            }
        }
    }
    let spec = match decode::<TaskSpec>(&rest) {
        Ok(mut spec) => {
            spec.steps = steps;
            if !well_formed {
                parsed.broken_tasks.insert(entry.key.clone());
            }
            Some(spec)
        }
        Err(mistakes) => {
            for mistake in &mistakes {
                let mut error = error_of(mistake, &locator, &[]).within(&context);
                if let [Part::Key(table), Part::Key(feature), ..] = mistake.path()
                    && table == "features"
                {
                    error = error.within(format!("feature `{feature}`"));
                }
                parsed.errors.push(error);
            }
            None
        }
    };
    parsed.tasks.push(Defined { name: entry.key.clone(), spec, locator });
}

fn parse_step(
    item: &Node,
    custom: &CustomSteps,
    locator: &Locator,
    way: &[Part],
) -> Result<Step, Vec<DefinitionError>> {
    let refuse = |problem: &str| {
        let hint = "a step is a table such as `{ op = \"tokenize\" }`";
        Err(vec![DefinitionError::new(problem).hint(hint).at(locator.value(way))])
    };
    let op = match (&item.value, item.get("op")) {
        (NodeValue::Table(_), Some(op)) => match op.as_str() {
            Some(op) => op,
            None => return refuse("`op` must be the name of a step"),
        },
        (NodeValue::Table(_), None) => return refuse("the step has no `op`"),
        _ => return refuse("this is not a step"),
    };
    let mut settings = item.clone();
    settings.remove(&[Part::Key("op".to_owned())]);
    let step = if custom.contains(op) {
        let step = decode::<Map<String, Value>>(&settings);
        step.map(|settings| Step::Custom(CustomStep { op: op.to_owned(), settings }))
    } else if Step::TABLE.iter().any(|(known, _)| *known == op) {
        let unknown = || Err(Mistake::custom("the table of steps lacks it"));
        decode_with(&settings, |settings| Step::decode(op, settings).unwrap_or_else(unknown))
    } else {
        let hint = match custom.nearest_step(op) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the steps are {}", custom.all_names()),
        };
        let place = locator.value(&[way, &[Part::Key("op".to_owned())]].concat());
        return Err(vec![DefinitionError::new(format!("unknown step `{op}`")).hint(hint).at(place)]);
    };
    step.map_err(|mistakes| mistakes.iter().map(|mistake| error_of(mistake, locator, way)).collect())
}

fn error_of(mistake: &Mistake, locator: &Locator, way: &[Part]) -> DefinitionError {
    DefinitionError::new(mistake.problem()).maybe_hint(mistake.hint()).at(locator.mistake(way, mistake))
}
