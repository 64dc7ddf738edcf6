//! What is wrong with definitions, in words and with its place; all of it, not only the first.
//!
//! ```text
//! tasks.toml:12:10: task `docs`, step 4 of 4: unknown step `append_oes`
//!    |
//! 12 |   { op = "append_oes" },
//!    |          ^^^^^^^^^^^^
//! hint: did you mean `append_eos`?
//! ```

use std::fmt;

use serde::Serialize;

use crate::locate::Place;

/// One mistake in a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DefinitionError {
    /// Where it stands; a definition made in Rust has no places.
    pub place: Option<Place>,
    /// What it is in, outermost first: ``task `docs` ``, ``step 4 of 4 (`append_eos`)``.
    pub context: Vec<String>,
    /// What was wanted and what was found.
    pub problem: String,
    /// What to do.
    pub hint: Option<String>,
    /// Whether the definition is at fault, or only the files that it speaks of.
    pub kind: DefinitionErrorKind,
}

/// What is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DefinitionErrorKind {
    /// The definition.
    Definition,
    /// The source's files: they are absent or cannot be read. A task with a cache can be used without them.
    Source,
}

impl DefinitionError {
    /// A mistake in a definition, without a place yet.
    pub fn new(problem: impl Into<String>) -> Self {
        Self {
            place: None,
            context: Vec::new(),
            problem: problem.into(),
            hint: None,
            kind: DefinitionErrorKind::Definition,
        }
    }

    /// Says where it stands.
    pub fn at(mut self, place: Option<Place>) -> Self {
        self.place = place;
        self
    }

    /// Says what it is in, outermost first.
    pub fn within(mut self, context: impl Into<String>) -> Self {
        self.context.push(context.into());
        self
    }

    /// Says what to do.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says what to do, if it is known.
    pub fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint.or(self.hint);
        self
    }

    pub(crate) fn of_kind(mut self, kind: DefinitionErrorKind) -> Self {
        self.kind = kind;
        self
    }
}

impl fmt::Display for DefinitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        if !self.context.is_empty() {
            write!(f, "{}: ", self.context.join(", "))?;
        }
        write!(f, "{}", self.problem)?;
        if let Some(place) = &self.place {
            write!(f, "\n{}", place.caret_lines())?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for DefinitionError {}

/// Every mistake found in some definitions, in the order of the files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct DefinitionErrors {
    errors: Vec<DefinitionError>,
}

impl DefinitionErrors {
    /// Sorts mistakes, of which there must be at least one, by place; those without one come last.
    pub(crate) fn new(mut errors: Vec<DefinitionError>) -> Self {
        debug_assert!(!errors.is_empty(), "no mistakes are no error");
        errors.sort_by(|a, b| (a.place.is_none(), &a.place).cmp(&(b.place.is_none(), &b.place)));
        errors.dedup();
        Self { errors }
    }

    /// `Ok` if there are none.
    pub fn none_or(errors: Vec<DefinitionError>) -> Result<(), Self> {
        if errors.is_empty() { Ok(()) } else { Err(Self::new(errors)) }
    }

    /// The mistakes, to be told with others.
    pub fn into_vec(self) -> Vec<DefinitionError> {
        self.errors
    }

    /// The mistakes.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &DefinitionError> {
        self.errors.iter()
    }

    /// How many there are; at least one.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.errors.len()
    }

    /// Whether the definitions are right and only files of sources are absent or unreadable, so that a cache can still
    /// be used.
    pub fn only_sources(&self) -> bool {
        self.errors.iter().all(|error| error.kind == DefinitionErrorKind::Source)
    }
}

impl From<DefinitionError> for DefinitionErrors {
    fn from(error: DefinitionError) -> Self {
        Self::new(vec![error])
    }
}

impl fmt::Display for DefinitionErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, error) in self.errors.iter().enumerate() {
            let gap = if place == 0 { "" } else { "\n\n" };
            write!(f, "{gap}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for DefinitionErrors {}
