//! How the text of a CSV or TSV file is to be taken apart: the settings as they are written, and as they are used.
//!
//! ```text
//! csv                              -> `,` between fields, `"` around them, `""` in them, a header
//! tsv                              -> a tab between fields, quotes are text, a header
//! { delimiter = ";", quote = "'" } -> `;` between fields, `'` around them
//! ```

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::source::spec::SourceFormat;
use crate::text::quoted;

/// The dialect of a CSV or TSV source; what is not given has the format's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(description = "How the text of a CSV or TSV file is taken apart.")]
pub struct Dialect {
    /// What stands between fields; `,`, and of TSV a tab.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &";", extend("x-default" = "`\",\"`, of `tsv` a tab"))]
    pub delimiter: Option<String>,
    /// What stands around fields that hold delimiters or line ends; `"`, and of TSV `""`: quotes are text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"'", extend("x-default" = "`\"\\\"\"`, of `tsv` none"))]
    pub quote: Option<String>,
    /// Between quotes, what takes away the meaning of the next character; by default nothing does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"\\", extend("x-default" = "none"))]
    pub escape: Option<String>,
    /// Whether two quotes between quotes are one that is text; they are by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = false, extend("default" = true))]
    pub double_quote: Option<bool>,
    /// What begins a line that is passed over; by default nothing does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"#", extend("x-default" = "none"))]
    pub comment: Option<String>,
    /// `true`: the first record of each file names its columns; or the names, if files have no such record.
    #[serde(skip_serializing_if = "Header::is_first_record")]
    #[schemars(
        example = vec!["text", "label"],
        extend("default" = true, "x-type" = "`true` or list of names")
    )]
    pub header: Header,
    /// Whether white space around values and names is taken away.
    #[serde(skip_serializing_if = "is_false")]
    #[schemars(example = true, extend("default" = false))]
    pub trim: bool,
    /// Texts that stand for nulls, in columns of any type. An empty value is a null but in columns of strings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(example = vec!["NA", "-"], extend("x-default" = "none"))]
    pub nulls: Vec<String>,
}

/// Where the names of columns are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "HeaderValue", into = "HeaderValue")]
pub enum Header {
    /// In the first record of each file.
    #[default]
    FirstRecord,
    /// Here; the first record of a file is an example.
    Names(Vec<String>),
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "`header` should be `true` or a list of names")]
enum HeaderValue {
    Is(bool),
    Names(Vec<String>),
}

impl TryFrom<HeaderValue> for Header {
    type Error = String;

    fn try_from(value: HeaderValue) -> Result<Self, String> {
        match value {
            HeaderValue::Is(true) => Ok(Self::FirstRecord),
            HeaderValue::Is(false) => {
                Err("for files without a header give the names of all columns, as `header = [\"text\", \"label\"]`"
                    .to_owned())
            }
            HeaderValue::Names(names) => Ok(Self::Names(names)),
        }
    }
}

impl From<Header> for HeaderValue {
    fn from(header: Header) -> Self {
        match header {
            Header::FirstRecord => Self::Is(true),
            Header::Names(names) => Self::Names(names),
        }
    }
}

impl Header {
    fn is_first_record(&self) -> bool {
        *self == Self::FirstRecord
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A dialect with its defaults, checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct CsvDialect {
    pub(crate) delimiter: u8,
    /// `None`: quotes are text, and every line end ends a record.
    pub(crate) quote: Option<u8>,
    pub(crate) escape: Option<u8>,
    pub(crate) double_quote: bool,
    pub(crate) comment: Option<u8>,
    /// The names of the columns; `None`: they are in the first record of each file.
    pub(crate) names: Option<Vec<String>>,
    pub(crate) trim: bool,
    pub(crate) nulls: BTreeSet<String>,
}

impl Dialect {
    /// The dialect as files of `format` have it, or why it makes no sense.
    pub(crate) fn resolve(&self, format: SourceFormat) -> Result<CsvDialect, String> {
        let is_tsv = format == SourceFormat::Tsv;
        let delimiter = match &self.delimiter {
            Some(text) if is_tsv && text != "\t" => {
                return Err(format!(
                    "the delimiter of `tsv` is a tab; for `{}` write `csv` instead of `tsv`",
                    text.escape_debug()
                ));
            }
            Some(text) => one_character("delimiter", text)?,
            None if is_tsv => b'\t',
            None => b',',
        };
        let quote = match self.quote.as_deref() {
            Some("") => None,
            Some(text) => Some(one_character("quote", text)?),
            None => (!is_tsv).then_some(b'"'),
        };
        let optional =
            |name, text: &Option<String>| text.as_ref().map(|text| one_character(name, text)).transpose();
        let escape = optional("escape", &self.escape)?;
        let comment = optional("comment", &self.comment)?;
        if quote.is_none() && (escape.is_some() || self.double_quote.is_some()) {
            let set = if escape.is_some() { "escape" } else { "double_quote" };
            let why =
                if is_tsv && self.quote.is_none() { "quotes in `tsv` are text" } else { "`quote` is empty" };
            return Err(format!(
                "`{set}` has no meaning, for {why}; leave it out, or name the quote, as `quote = \"'\"`"
            ));
        }
        if escape.is_some() && escape == quote {
            return Err("`escape` is the quote itself; that is `double_quote = true`, the default".to_owned());
        }
        let meanings =
            [("delimiter", Some(delimiter)), ("quote", quote), ("escape", escape), ("comment", comment)];
        for (index, (name, byte)) in meanings.iter().enumerate() {
            let twin = meanings[..index].iter().find(|(_, other)| byte.is_some() && other == byte);
            if let (Some((other, _)), Some(byte)) = (twin, byte) {
                return Err(format!(
                    "`{other}` and `{name}` are both `{}`; each needs a character of its own",
                    byte.escape_ascii()
                ));
            }
        }
        let names = match &self.header {
            Header::FirstRecord => None,
            Header::Names(names) => {
                check_names(names)?;
                Some(names.clone())
            }
        };
        Ok(CsvDialect {
            delimiter,
            quote,
            escape,
            double_quote: self.double_quote.unwrap_or(true),
            comment,
            names,
            trim: self.trim,
            nulls: self.nulls.iter().cloned().collect(),
        })
    }
}

fn one_character(name: &str, text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [b'\n' | b'\r'] => Err(format!("`{name}` cannot be a line end, which ends records")),
        [byte] if byte.is_ascii_alphanumeric() => {
            Err(format!("`{name}` cannot be `{text}`: letters and digits are text"))
        }
        [byte] if byte.is_ascii() => Ok(*byte),
        [] => Err(format!("`{name}` is empty; leave it out or name one character")),
        _ => Err(format!("`{name}` should be one ASCII character, but is `{}`", text.escape_debug())),
    }
}

fn check_names(names: &[String]) -> Result<(), String> {
    if names.is_empty() {
        return Err(
            "`header` names no columns; name all of them, as `header = [\"text\", \"label\"]`".to_owned()
        );
    }
    let mut seen = BTreeSet::new();
    match names.iter().find(|name| !seen.insert(*name)) {
        Some(name) => Err(format!("`header` names {} twice", quoted([name]))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(format: SourceFormat, toml: &str) -> Result<CsvDialect, String> {
        let dialect: Dialect = toml::from_str(toml).map_err(|error| error.message().to_owned())?;
        assert_eq!(toml::from_str::<Dialect>(&toml::to_string(&dialect).unwrap()).unwrap(), dialect);
        dialect.resolve(format)
    }

    fn refused(toml: &str) -> String {
        resolve(SourceFormat::Csv, toml).unwrap_err()
    }

    #[test]
    fn csv_has_quotes_and_tsv_has_none_unless_they_are_named() {
        let csv = resolve(SourceFormat::Csv, "").unwrap();
        assert_eq!((csv.delimiter, csv.quote, csv.escape, csv.double_quote), (b',', Some(b'"'), None, true));
        let tsv = resolve(SourceFormat::Tsv, "").unwrap();
        assert_eq!((tsv.delimiter, tsv.quote, tsv.names), (b'\t', None, None));
        assert_eq!(resolve(SourceFormat::Tsv, "quote = '\"'").unwrap().quote, Some(b'"'));
        let other = "delimiter = \";\"\nquote = \"'\"\nescape = \"\\\\\"\ncomment = \"#\"\nheader = [\"a\", \"b\"]\ntrim = true\n\
             nulls = [\"NA\"]\ndouble_quote = false";
        let other = resolve(SourceFormat::Csv, other).unwrap();
        assert_eq!((other.delimiter, other.quote, other.escape), (b';', Some(b'\''), Some(b'\\')));
        assert_eq!(other.names.unwrap(), ["a", "b"]);
        assert_eq!((other.comment, other.double_quote, other.trim), (Some(b'#'), false, true));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        insta::assert_snapshot!(refused("delimiter = \"\""), @"`delimiter` is empty; leave it out or name one character");
        insta::assert_snapshot!(refused("delimiter = \"||\""), @"`delimiter` should be one ASCII character, but is `||`");
        insta::assert_snapshot!(refused("delimiter = \"→\""), @"`delimiter` should be one ASCII character, but is `→`");
        insta::assert_snapshot!(refused("delimiter = \"\\n\""), @"`delimiter` cannot be a line end, which ends records");
        insta::assert_snapshot!(refused("delimiter = \"x\""), @"`delimiter` cannot be `x`: letters and digits are text");
        insta::assert_snapshot!(refused("delimiter = \"\\\"\""), @r#"`delimiter` and `quote` are both `\"`; each needs a character of its own"#);
        insta::assert_snapshot!(refused("comment = \",\""), @"`delimiter` and `comment` are both `,`; each needs a character of its own");
        insta::assert_snapshot!(refused("escape = \"\\\"\""), @"`escape` is the quote itself; that is `double_quote = true`, the default");
        insta::assert_snapshot!(refused("quote = \"\"\nescape = \"\\\\\""), @r#"`escape` has no meaning, for `quote` is empty; leave it out, or name the quote, as `quote = "'"`"#);
        insta::assert_snapshot!(resolve(SourceFormat::Tsv, "double_quote = true").unwrap_err(), @r#"`double_quote` has no meaning, for quotes in `tsv` are text; leave it out, or name the quote, as `quote = "'"`"#);
        insta::assert_snapshot!(resolve(SourceFormat::Tsv, "delimiter = \",\"").unwrap_err(), @"the delimiter of `tsv` is a tab; for `,` write `csv` instead of `tsv`");
        insta::assert_snapshot!(refused("header = false"), @r#"for files without a header give the names of all columns, as `header = ["text", "label"]`"#);
        insta::assert_snapshot!(refused("header = []"), @r#"`header` names no columns; name all of them, as `header = ["text", "label"]`"#);
        insta::assert_snapshot!(refused("header = [\"a\", \"a\"]"), @"`header` names `a` twice");
        insta::assert_snapshot!(refused("header = 3"), @"`header` should be `true` or a list of names");
        insta::assert_snapshot!(refused("seperator = \";\""), @"unknown field `seperator`, expected one of `delimiter`, `quote`, `escape`, `double_quote`, `comment`, `header`, `trim`, `nulls`");
    }
}
