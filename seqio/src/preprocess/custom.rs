//! Steps of a program's own: written in Rust, registered under a name, used from task files like any other.
//!
//! ```text
//! { op = "lowercase", features = ["targets"] }     once `CustomSteps::register::<Lowercase>("lowercase")` was called
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::preprocess::{Preprocessor, Step, StepSettings};
use crate::text::{nearest, quoted};

/// A step that the table does not know: its name and its settings as they stand in the definition.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomStep {
    /// The name it is registered under.
    pub op: String,
    /// Its settings.
    pub settings: Map<String, Value>,
}

impl CustomStep {
    /// A step named `op` with no settings.
    pub fn new(op: impl Into<String>) -> Self {
        Self { op: op.into(), settings: Map::new() }
    }

    /// Sets one of its settings.
    pub fn setting(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.settings.insert(key.into(), value.into());
        self
    }
}

impl From<CustomStep> for Step {
    fn from(step: CustomStep) -> Self {
        Self::Custom(step)
    }
}

type Factory = Arc<dyn Fn(&Map<String, Value>) -> Result<Arc<dyn Preprocessor>, String> + Send + Sync>;

/// The steps of a program's own, by name.
///
/// A step's version ([`Preprocessor::version`]) is part of cache fingerprints: count it up when results change.
#[derive(Clone, Default)]
pub struct CustomSteps {
    factories: BTreeMap<String, Factory>,
}

impl CustomSteps {
    /// No steps but those of the table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets task files use `T` as `op = "name"`, its settings read by serde.
    ///
    /// # Panics
    /// If a step of this name exists already.
    pub fn register<T: StepSettings>(mut self, name: &str) -> Self {
        let taken = Step::TABLE.iter().any(|(known, _)| *known == name) || self.factories.contains_key(name);
        assert!(!taken, "step names are unique, but `{name}` is registered twice");
        let factory = |settings: &Map<String, Value>| -> Result<Arc<dyn Preprocessor>, String> {
            let step: T =
                serde_json::from_value(Value::Object(settings.clone())).map_err(|error| error.to_string())?;
            Ok(Arc::new(step))
        };
        self.factories.insert(name.to_owned(), Arc::new(factory));
        self
    }

    /// Names of the registered steps, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.factories.keys().map(String::as_str)
    }

    /// Whether a step of this name is registered.
    pub fn contains(&self, name: &str) -> bool {
        self.factories.contains_key(name)
    }

    /// The name of any step, of the table or registered, that `name` may be a misspelling of.
    pub(crate) fn nearest_step(&self, name: &str) -> Option<&str> {
        nearest(name, Step::TABLE.iter().map(|(known, _)| *known).chain(self.names()))
    }

    /// Makes a registered step.
    pub(crate) fn create(&self, step: &CustomStep) -> Result<Arc<dyn Preprocessor>, String> {
        match self.factories.get(&step.op) {
            Some(factory) => factory(&step.settings),
            None => Err(format!("this program knows no step `{}`", step.op)),
        }
    }

    /// All step names in backticks, for messages.
    pub(crate) fn all_names(&self) -> String {
        quoted(Step::TABLE.iter().map(|(known, _)| *known).chain(self.names()))
    }
}

impl fmt::Debug for CustomSteps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.factories.keys()).finish()
    }
}
