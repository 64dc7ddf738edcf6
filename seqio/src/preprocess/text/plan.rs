//! Which columns a text step reads and makes.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};

use crate::preprocess::PreprocessError;

/// What a column must hold to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A text; a null is the empty text.
    Text,
    /// A list of texts; a null is the empty list.
    Texts,
    /// A whole number, or true and false as 1 and 0.
    Whole,
    /// Any number, in single precision.
    Number,
    /// A list of whole numbers, or one.
    Wholes,
}

impl Kind {
    /// Whether a column of this type can be read so.
    pub(super) fn fits(self, data_type: &DataType) -> bool {
        let is_text = |data_type: &DataType| {
            matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
        };
        let is_whole = |data_type: &DataType| data_type.is_integer() || *data_type == DataType::Boolean;
        let item = match data_type {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                Some(item.data_type())
            }
            _ => None,
        };
        match self {
            Self::Text => is_text(data_type),
            Self::Texts => item.is_some_and(is_text),
            Self::Whole => is_whole(data_type),
            Self::Number => {
                data_type.is_integer() || matches!(data_type, DataType::Float32 | DataType::Float64)
            }
            Self::Wholes => is_whole(data_type) || item.is_some_and(DataType::is_integer),
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Texts => "a list of texts",
            Self::Whole => "whole numbers",
            Self::Number => "numbers",
            Self::Wholes => "whole numbers, or lists of them",
        }
    }
}

/// A column that a step makes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Made {
    Text(String),
    Texts(String),
    Flag(String),
    /// A number in single precision.
    Number(String),
    /// A list of two whole numbers of 64 bits.
    Pair(String),
    /// A column of the input as it is, the same in all rows made from an example, under a name that may be another.
    Kept {
        name: String,
        from: String,
    },
}

impl Made {
    pub(super) fn text(name: &str) -> Self {
        Self::Text(name.to_owned())
    }

    pub(super) fn kept(name: &str) -> Self {
        Self::Kept { name: name.to_owned(), from: name.to_owned() }
    }

    fn field(&self, input: &Schema) -> Option<FieldRef> {
        let list = |item: DataType| DataType::List(Arc::new(Field::new_list_field(item, true)));
        let (name, data_type) = match self {
            Self::Text(name) => (name, DataType::Utf8),
            Self::Texts(name) => (name, list(DataType::Utf8)),
            Self::Flag(name) => (name, DataType::Boolean),
            Self::Number(name) => (name, DataType::Float32),
            Self::Pair(name) => (name, list(DataType::Int64)),
            Self::Kept { name, from } => {
                let (_, field) = input.column_with_name(from)?;
                return Some(Arc::new(field.clone().with_name(name)));
            }
        };
        Some(Arc::new(Field::new(name, data_type, false)))
    }
}

/// What a step reads, and what it makes, in the order of the columns that come out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) reads: Vec<(String, Kind)>,
    pub(super) makes: Vec<Made>,
}

impl Plan {
    /// Reads some columns.
    pub(super) fn reads<N: Into<String>>(columns: impl IntoIterator<Item = (N, Kind)>) -> Self {
        Self {
            reads: columns.into_iter().map(|(name, kind)| (name.into(), kind)).collect(),
            makes: Vec::new(),
        }
    }

    /// Makes columns of texts.
    pub(super) fn texts(mut self, names: &[&str]) -> Self {
        self.makes.extend(names.iter().map(|name| Made::text(name)));
        self
    }

    /// Makes a column.
    pub(super) fn makes(mut self, made: Made) -> Self {
        self.makes.push(made);
        self
    }

    /// Keeps those of some columns that are there.
    pub(super) fn keeps_any(mut self, input: &Schema, names: &[&str]) -> Self {
        let there = names.iter().filter(|name| input.column_with_name(name).is_some());
        self.makes.extend(there.map(|name| Made::kept(name)));
        self
    }

    /// Keeps all columns but those that are made.
    pub(super) fn keeps_others(mut self, input: &Schema) -> Self {
        let made: Vec<&str> = self.makes.iter().map(Made::name).collect();
        let others = input.fields().iter().filter(|field| !made.contains(&field.name().as_str()));
        let others: Vec<Made> = others.map(|field| Made::kept(field.name())).collect();
        self.makes.splice(0..0, others);
        self
    }

    /// Makes a column of texts in the place of that of the same name, and keeps all others.
    pub(super) fn replaces(mut self, input: &Schema, name: &str) -> Self {
        let names = input.fields().iter().map(|field| field.name());
        self.makes
            .extend(names.map(|other| if other == name { Made::text(name) } else { Made::kept(other) }));
        self
    }

    /// The columns that come out, if those are there that are read and kept, with what they must hold.
    pub(super) fn schema(&self, step: &'static str, input: &Schema) -> Result<SchemaRef, PreprocessError> {
        let kept = self.makes.iter().filter_map(|made| match made {
            Made::Kept { from, .. } => Some(from),
            _ => None,
        });
        let mut absent: Vec<String> = Vec::new();
        for name in self.reads.iter().map(|(name, _)| name).chain(kept) {
            if input.column_with_name(name).is_none() && !absent.contains(name) {
                absent.push(name.clone());
            }
        }
        if !absent.is_empty() {
            return Err(PreprocessError::missing_columns(step, absent, input));
        }
        for (name, kind) in &self.reads {
            let (_, field) = input.column_with_name(name).expect("it was just looked for");
            if !kind.fits(field.data_type()) {
                return Err(PreprocessError::WrongType {
                    step,
                    column: name.clone(),
                    expected: kind.in_words(),
                    found: field.data_type().clone(),
                });
            }
        }
        let fields: Vec<FieldRef> = self.makes.iter().filter_map(|made| made.field(input)).collect();
        for (place, field) in fields.iter().enumerate() {
            if fields[..place].iter().any(|other| other.name() == field.name()) {
                let problem =
                    format!("it would make the column `{}` twice; give one another name", field.name());
                return Err(PreprocessError::Setting { step, problem });
            }
        }
        Ok(Arc::new(Schema::new(fields)))
    }
}

impl Made {
    fn name(&self) -> &str {
        match self {
            Self::Text(name)
            | Self::Texts(name)
            | Self::Flag(name)
            | Self::Number(name)
            | Self::Pair(name)
            | Self::Kept { name, .. } => name,
        }
    }
}
