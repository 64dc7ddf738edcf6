//! From a located tree to plain data by serde, collecting every mistake on the way, each with its path.
//!
//! ```text
//! { vocabulary = "t5", ad_eos = true, required = "yes" }
//!     -> unknown key `ad_eos` (at `ad_eos`), wrong type (at `required`)
//! ```

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, Expected, IntoDeserializer,
    MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::locate::{Entry, Node, NodeValue, Part};
use crate::text::{nearest, quoted};

/// Something in a table that its type does not allow.
#[derive(Clone, Debug)]
pub(crate) struct Mistake {
    kind: Kind,
    /// Reversed while it is gathered: the innermost part first.
    path: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Kind {
    UnknownKey { key: String, known: &'static [&'static str] },
    UnknownValue { value: String, known: &'static [&'static str] },
    MissingKey(&'static str),
    WrongType { found: String, expected: String },
    Other(String),
}

/// Reads a `T`, or tells everything that is wrong with `node`.
///
/// After a mistake the entry at fault is left out and the rest is read again, so that one mistake does not hide the
/// others.
pub(crate) fn decode<T: DeserializeOwned>(node: &Node) -> Result<T, Vec<Mistake>> {
    decode_with(node, |node| T::deserialize(node))
}

/// [`decode`] for what reads a node by other ways than its type.
pub(crate) fn decode_with<T>(
    node: &Node,
    read: impl Fn(&Node) -> Result<T, Mistake>,
) -> Result<T, Vec<Mistake>> {
    let mut mistakes: Vec<Mistake> = Vec::new();
    let mut left_out: Vec<Vec<Part>> = Vec::new();
    let mut rest = node.clone();
    loop {
        let mistake = match read(&rest) {
            Ok(value) if mistakes.is_empty() => return Ok(value),
            Ok(_) => return Err(mistakes),
            Err(mistake) => mistake.outermost_first(&rest),
        };
        let at_fault = removable(&mistake.path).to_vec();
        match mistake.kind {
            Kind::MissingKey(key) => {
                let missing = [&mistake.path[..], &[Part::Key(key.to_owned())]].concat();
                let follows =
                    left_out.contains(&missing) || mistakes.iter().any(|earlier| earlier.misspells(&missing));
                if !follows {
                    mistakes.push(mistake);
                }
            }
            // A table that lacks what was left out of it may be refused as a whole: that is no mistake of its own.
            Kind::Other(_) | Kind::WrongType { .. }
                if left_out.iter().any(|way| is_inside(way, &mistake.path)) => {}
            _ => mistakes.push(mistake),
        }
        if !rest.remove(&at_fault) {
            return Err(mistakes);
        }
        left_out.push(at_fault);
    }
}

fn is_inside(way: &[Part], of: &[Part]) -> bool {
    way.len() > of.len() && way.starts_with(of)
}

/// Taking an item out of an array would move its neighbours: the array goes as a whole.
fn removable(path: &[Part]) -> &[Part] {
    let keys = path.iter().take_while(|part| matches!(part, Part::Key(_))).count();
    &path[..keys]
}

impl Mistake {
    /// Where it is: the path from the node that was decoded.
    pub(crate) fn path(&self) -> &[Part] {
        &self.path
    }

    /// Whether it is the key and not its value that is at fault.
    pub(crate) fn is_about_a_key(&self) -> bool {
        matches!(self.kind, Kind::UnknownKey { .. })
    }

    /// What is wrong, in words.
    pub(crate) fn problem(&self) -> String {
        let key = self.path.iter().rev().find_map(|part| match part {
            Part::Key(key) => Some(key.as_str()),
            Part::Index(_) => None,
        });
        match (&self.kind, key) {
            (Kind::UnknownKey { key, .. }, _) => format!("unknown key `{key}`"),
            (Kind::UnknownValue { value, .. }, Some(key)) => format!("`{key}` cannot be `{value}`"),
            (Kind::UnknownValue { value, .. }, None) => format!("unknown value `{value}`"),
            (Kind::MissingKey(key), _) => format!("the key `{key}` is missing"),
            (Kind::WrongType { found, expected }, Some(key)) => {
                format!("`{key}` must be {expected}, but is {found}")
            }
            (Kind::WrongType { found, expected }, None) => format!("this must be {expected}, but is {found}"),
            (Kind::Other(problem), Some(key)) if problem.starts_with(&format!("`{key}` ")) => problem.clone(),
            (Kind::Other(problem), Some(key)) => format!("`{key}`: {problem}"),
            (Kind::Other(problem), None) => problem.clone(),
        }
    }

    /// What to do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        match &self.kind {
            Kind::UnknownKey { key: name, known } | Kind::UnknownValue { value: name, known } => {
                if let Some(near) = nearest(name, known.iter().copied()) {
                    return Some(format!("did you mean `{near}`?"));
                }
                let what = if self.is_about_a_key() { "the keys here are" } else { "it may be" };
                match known {
                    [] => Some("there are no keys here".to_owned()),
                    known => Some(format!("{what} {}", quoted(known.iter()))),
                }
            }
            _ => None,
        }
    }

    /// Whether it is an unknown key where `path` is missing, and near to it.
    fn misspells(&self, path: &[Part]) -> bool {
        let (Kind::UnknownKey { key, known }, Some((Part::Key(missing), way))) =
            (&self.kind, path.split_last())
        else {
            return false;
        };
        let beside = self.path.split_last().is_some_and(|(_, own)| own == way);
        beside && nearest(key, known.iter().copied()) == Some(missing)
    }

    fn at(mut self, part: Part) -> Self {
        self.path.push(part);
        self
    }

    /// Turns the path round, and lets it end in the key at fault where serde knew no place within the table: it
    /// buffered the table, or the table was refused as a whole with words that begin with the key.
    fn outermost_first(mut self, node: &Node) -> Self {
        self.path.reverse();
        if let Kind::Other(problem) = &self.kind {
            let named = problem.strip_prefix('`').and_then(|rest| rest.split_once("`: "));
            if let Some((key, problem)) = named
                && node.follow(&self.path).entry(key).is_some()
            {
                self.path.push(Part::Key(key.to_owned()));
                self.kind = Kind::Other(problem.to_owned());
            }
        }
        if let Kind::UnknownKey { key, .. } = &self.kind {
            let ends_there = self.path.last() == Some(&Part::Key(key.clone()));
            if !ends_there && node.follow(&self.path).entry(key).is_some() {
                self.path.push(Part::Key(key.clone()));
            }
        }
        self
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem())
    }
}

impl std::error::Error for Mistake {}

impl From<Kind> for Mistake {
    fn from(kind: Kind) -> Self {
        Self { kind, path: Vec::new() }
    }
}

impl Error for Mistake {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Kind::Other(message.to_string()).into()
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Kind::WrongType { found: in_toml_words(&unexpected), expected: expected_in_toml_words(expected) }
            .into()
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(unexpected, expected)
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Kind::UnknownValue { value: variant.to_owned(), known: expected }.into()
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Kind::UnknownKey { key: field.to_owned(), known: expected }.into()
    }

    fn missing_field(field: &'static str) -> Self {
        Kind::MissingKey(field).into()
    }
}

fn in_toml_words(unexpected: &Unexpected<'_>) -> String {
    match unexpected {
        Unexpected::Map | Unexpected::StructVariant => "a table".to_owned(),
        Unexpected::Seq => "an array".to_owned(),
        Unexpected::Str(text) => format!("the text {text:?}"),
        Unexpected::Bool(value) => format!("`{value}`"),
        Unexpected::Signed(number) => format!("`{number}`"),
        Unexpected::Unsigned(number) => format!("`{number}`"),
        Unexpected::Float(number) => format!("`{number:?}`"),
        other => other.to_string(),
    }
}

fn expected_in_toml_words(expected: &dyn Expected) -> String {
    let words = expected.to_string();
    match words.as_str() {
        "a string" => "a text".to_owned(),
        "a boolean" => "`true` or `false`".to_owned(),
        "a sequence" => "an array".to_owned(),
        "a map" => "a table".to_owned(),
        "usize" | "u64" | "u32" => "a whole number, 0 or more".to_owned(),
        "isize" | "i64" | "i32" => "a whole number".to_owned(),
        "f64" | "f32" => "a number".to_owned(),
        words if words.starts_with("struct ") => "a table".to_owned(),
        _ => words,
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Mistake;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match &self.value {
            NodeValue::Table(_) => visitor.visit_map(Entries { node: self, next: 0 }),
            NodeValue::Array(items) => visitor.visit_seq(Items { items, next: 0 }),
            NodeValue::String(text) => visitor.visit_borrowed_str(text),
            NodeValue::Integer(integer) => match (i64::try_from(*integer), u64::try_from(*integer)) {
                (_, Ok(integer)) => visitor.visit_u64(integer),
                (Ok(integer), _) => visitor.visit_i64(integer),
                _ => Err(Mistake::custom("the number does not fit 64 bits")),
            },
            NodeValue::Float(float) => visitor.visit_f64(*float),
            NodeValue::Boolean(value) => visitor.visit_bool(*value),
            NodeValue::Datetime(text) => visitor.visit_str(text),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        match &self.value {
            NodeValue::String(text) => {
                let variant: StrDeserializer<'_, Mistake> = text.as_str().into_deserializer();
                visitor.visit_enum(variant)
            }
            NodeValue::Table(entries) if entries.len() == 1 => {
                visitor.visit_enum(Variant { entry: &entries[0] })
            }
            _ => self
                .deserialize_any(Nothing(name))
                .and(Err(Mistake::custom("unreachable: nothing is accepted"))),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

/// Refuses every value, with the words for what an enum is.
struct Nothing(&'static str);

impl Visitor<'_> for Nothing {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a text that names the {}, or a table with one key", self.0.to_lowercase())
    }
}

struct Entries<'de> {
    node: &'de Node,
    next: usize,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Mistake;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Mistake> {
        let Some(entry) = self.node.entries().get(self.next) else {
            return Ok(None);
        };
        let key: StrDeserializer<'_, Mistake> = entry.key.as_str().into_deserializer();
        seed.deserialize(key).map(Some).map_err(|mistake| mistake.at(Part::Key(entry.key.clone())))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Mistake> {
        let entry = &self.node.entries()[self.next];
        self.next += 1;
        seed.deserialize(&entry.node).map_err(|mistake| mistake.at(Part::Key(entry.key.clone())))
    }
}

struct Items<'de> {
    items: &'de [Node],
    next: usize,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Mistake;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Mistake> {
        let Some(item) = self.items.get(self.next) else {
            return Ok(None);
        };
        let index = self.next;
        self.next += 1;
        seed.deserialize(item).map(Some).map_err(|mistake| mistake.at(Part::Index(index)))
    }
}

/// An enum's variant written as a table with one key.
struct Variant<'de> {
    entry: &'de Entry,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Mistake;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Mistake> {
        let key: StrDeserializer<'_, Mistake> = self.entry.key.as_str().into_deserializer();
        let variant =
            seed.deserialize(key).map_err(|mistake| mistake.at(Part::Key(self.entry.key.clone())))?;
        Ok((variant, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = Mistake;

    fn unit_variant(self) -> Result<(), Mistake> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Mistake> {
        seed.deserialize(&self.entry.node).map_err(|mistake| mistake.at(Part::Key(self.entry.key.clone())))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Mistake> {
        self.entry
            .node
            .deserialize_any(visitor)
            .map_err(|mistake| mistake.at(Part::Key(self.entry.key.clone())))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        self.entry
            .node
            .deserialize_any(visitor)
            .map_err(|mistake| mistake.at(Part::Key(self.entry.key.clone())))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Feature {
        vocabulary: String,
        #[serde(default)]
        add_eos: bool,
        #[serde(default)]
        kind: Option<Kind>,
        #[serde(default)]
        size: Even,
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(try_from = "EvenTable")]
    struct Even;

    #[derive(Deserialize)]
    struct EvenTable {
        half: u32,
        whole: u32,
    }

    impl TryFrom<EvenTable> for Even {
        type Error = String;

        fn try_from(table: EvenTable) -> Result<Self, String> {
            if table.whole == 2 * table.half {
                Ok(Self)
            } else {
                Err("`whole`: it is not twice the half".to_owned())
            }
        }
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        Plain,
        Sized(u32),
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Task {
        features: BTreeMap<String, Feature>,
        #[serde(default)]
        lengths: BTreeMap<String, usize>,
        #[serde(default)]
        names: Vec<String>,
    }

    fn mistakes(text: &str) -> String {
        let node = Node::parse(text).unwrap();
        let mistakes = decode::<Task>(&node).unwrap_err();
        let line = |mistake: &Mistake| {
            let span = match mistake.is_about_a_key() {
                true => node.key_span(mistake.path()),
                false => node.follow(mistake.path()).span.clone(),
            };
            let hint = mistake.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
            format!("{} <- {}{hint}", &text[span], mistake.problem())
        };
        mistakes.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn good_data_is_read() {
        let text = r#"names = ["x"]
            [features]
            a = { vocabulary = "v", kind = { sized = 3 } }
            b = { vocabulary = "w", add_eos = true, kind = "plain" }"#;
        let task: Task = decode(&Node::parse(text).unwrap()).unwrap();
        assert_eq!(task, toml::from_str(text).unwrap());
    }

    #[test]
    fn all_mistakes_are_found_each_at_its_place() {
        insta::assert_snapshot!(mistakes(r#"
            nams = 1
            names = ["x", 2]
            lengths = { a = -1, b = "x", c = 99999999999999999999 }
            [features]
            a = { vocabularies = "v", add_eos = "yes", vocabulary = "x" }
            b = { vocabulary = "w", kind = "pain" }
            c = { vocabulary = "w", kind = { sized = 1.5 } }
            d = { vocabulary = "w", size = { half = 1, whole = 3 } }
            e = {}
        "#), @r#"
        nams <- unknown key `nams` (did you mean `names`?)
        2 <- `names` must be a text, but is `2`
        -1 <- `a` must be a whole number, 0 or more, but is `-1`
        "x" <- `b` must be a whole number, 0 or more, but is the text "x"
        99999999999999999999 <- `c`: the number does not fit 64 bits
        vocabularies <- unknown key `vocabularies` (did you mean `vocabulary`?)
        "yes" <- `add_eos` must be `true` or `false`, but is the text "yes"
        "pain" <- `kind` cannot be `pain` (did you mean `plain`?)
        1.5 <- `sized` must be a whole number, 0 or more, but is `1.5`
        3 <- `whole`: it is not twice the half
        {} <- the key `vocabulary` is missing
        "#);
    }

    #[test]
    fn what_was_wrong_is_not_missing_too() {
        insta::assert_snapshot!(mistakes("[features]\na = { vocabulary = 3 }"), @"3 <- `vocabulary` must be a text, but is `3`");
    }
}
