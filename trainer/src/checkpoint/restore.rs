//! Which tensor of a checkpoint goes where in a model, decided before the first is read.
//!
//! ```text
//! rules                                    new name               old name
//! decoder/(.*)      -> target/decoder/$1   decoder/norm/scale  <- target/decoder/norm/scale
//! encoder/adapter.* -> nothing             encoder/adapter/wi     keeps its initial values
//! no rule                                  token_embedder      <- token_embedder
//! ```

use std::collections::BTreeSet;
use std::fmt;

use regex::{Captures, Regex};

use crate::checkpoint::TensorSource;
use crate::checkpoint::error::{BoxError, CheckpointError};
use crate::shape::Shape;

/// Rules from the names of a model to the names in a checkpoint; the first that matches a whole name counts.
#[derive(Clone, Debug, Default)]
pub struct Assignment {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    pattern: String,
    regex: Regex,
    old: Option<Template>,
}

/// Pieces of an old name.
#[derive(Clone, Debug)]
struct Template(Vec<Piece>);

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Group(usize),
    Named(String),
}

impl Assignment {
    /// Rules of a pattern over new names and the old name, in which `$1` is what the first group of the pattern matched;
    /// without an old name, such tensors keep their initial values. All mistakes are told at once.
    pub fn new<P: AsRef<str>, O: AsRef<str>>(
        rules: impl IntoIterator<Item = (P, Option<O>)>,
    ) -> Result<Self, CheckpointError> {
        let mut problems = Vec::new();
        let mut good = Vec::new();
        for (pattern, old) in rules {
            match Rule::new(pattern.as_ref(), old.as_ref().map(AsRef::as_ref)) {
                Ok(rule) => good.push(rule),
                Err(problem) => problems.push(format!("rule `{}`: {problem}", pattern.as_ref())),
            }
        }
        if problems.is_empty() { Ok(Self { rules: good }) } else { Err(CheckpointError::Rules { problems }) }
    }
}

impl Rule {
    fn new(pattern: &str, old: Option<&str>) -> Result<Self, String> {
        // Alone first: `a)(b` is a mistake, though not inside of the parentheses below.
        Regex::new(pattern).map_err(|error| error.to_string())?;
        let regex = Regex::new(&format!(r"\A(?:{pattern})\z")).map_err(|error| error.to_string())?;
        let old = old.map(|old| Template::parse(old, &regex)).transpose()?;
        Ok(Self { pattern: pattern.to_owned(), regex, old })
    }
}

impl Template {
    fn parse(text: &str, regex: &Regex) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['$', '\\']) {
            if rest[at..].starts_with('\\') {
                return Err(format!("`{text}` has a backslash; groups are written `$1`"));
            }
            pieces.push(Piece::Text(rest[..at].to_owned()));
            rest = &rest[at + 1..];
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let name;
            (name, rest) = if let Some(after) = rest.strip_prefix('$') {
                pieces.push(Piece::Text("$".to_owned()));
                rest = after;
                continue;
            } else if digits > 0 {
                rest.split_at(digits)
            } else {
                let braced = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
                braced.ok_or_else(|| {
                    format!("after `$` in `{text}` comes a number, a name in braces, or another `$`")
                })?
            };
            let piece = match name.parse::<usize>() {
                Ok(group) if group < regex.captures_len() => Piece::Group(group),
                Err(_) if regex.capture_names().flatten().any(|group| group == name) => {
                    Piece::Named(name.to_owned())
                }
                _ => {
                    return Err(format!("`{text}` asks for group `{name}`, which the pattern does not have"));
                }
            };
            pieces.push(piece);
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Self(pieces))
    }

    fn expand(&self, captures: &Captures<'_>) -> String {
        let texts = self.0.iter().map(|piece| match piece {
            Piece::Text(text) => text.as_str(),
            // A group of an alternative that was not taken is empty.
            Piece::Group(group) => captures.get(*group).map_or("", |group| group.as_str()),
            Piece::Named(name) => captures.name(name).map_or("", |group| group.as_str()),
        });
        texts.collect()
    }
}

/// Where the tensors of a model come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// One for every tensor of the model, in its order.
    pub takes: Vec<Take>,
    /// Names in the checkpoint that nothing comes from.
    pub unused: Vec<String>,
}

/// Where a tensor of a model comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Take {
    /// Its name in the model.
    pub name: String,
    /// Its name in the checkpoint; without one it keeps its initial values.
    pub from: Option<String>,
}

/// How a model and a checkpoint differ, and which rules were of no use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// The checkpoint.
    pub origin: String,
    /// Tensors of the model that the checkpoint does not have.
    pub missing: Vec<Missing>,
    /// Tensors of the checkpoint that the model does not have, where no rules leave anything out.
    pub unexpected: Vec<String>,
    /// Tensors of other shapes.
    pub misshapen: Vec<Misshapen>,
    /// Patterns that match no name of the model that an earlier one does not.
    pub unused_rules: Vec<String>,
}

/// A tensor that the checkpoint does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Its name in the model.
    pub name: String,
    /// The name it would have in the checkpoint, by a rule.
    pub from: String,
    /// The most similar name that is there.
    pub nearest: Option<String>,
}

/// A tensor of another shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misshapen {
    /// Its name in the model.
    pub name: String,
    /// The shape in the model.
    pub wanted: Shape,
    /// The shape in the checkpoint.
    pub found: Shape,
}

/// Decides where every tensor of a model comes from. Without rules, both have to hold the same tensors; with rules, the
/// checkpoint may hold more. All that does not fit is told at once.
pub fn plan(
    source: &dyn TensorSource,
    model: &[(String, Shape)],
    assignment: &Assignment,
) -> Result<Plan, CheckpointError> {
    let mut differences = Differences { origin: source.origin(), ..Differences::default() };
    let mut unused: BTreeSet<&str> = source.names().into_iter().collect();
    let mut is_rule_used = vec![false; assignment.rules.len()];
    let mut takes = Vec::with_capacity(model.len());
    for (name, shape) in model {
        let rule = assignment.rules.iter().zip(&mut is_rule_used).find_map(|(rule, is_used)| {
            let captures = rule.regex.captures(name)?;
            *is_used = true;
            Some(rule.old.as_ref().map(|old| old.expand(&captures)))
        });
        let from = rule.unwrap_or_else(|| Some(name.clone()));
        if let Some(from) = &from {
            unused.remove(from.as_str());
            match source.spec(from) {
                None => differences.missing.push(Missing {
                    name: name.clone(),
                    from: from.clone(),
                    nearest: None,
                }),
                Some(spec) if spec.shape != *shape => differences.misshapen.push(Misshapen {
                    name: name.clone(),
                    wanted: shape.clone(),
                    found: spec.shape.clone(),
                }),
                Some(_) => {}
            }
        }
        takes.push(Take { name: name.clone(), from });
    }
    // Only those that are shown: comparing all names with all others takes long.
    for missing in differences.missing.iter_mut().take(SHOWN) {
        missing.nearest = seqio::nearest(&missing.from, unused.iter().copied()).map(str::to_owned);
    }
    let unused: Vec<String> = unused.into_iter().map(str::to_owned).collect();
    if assignment.rules.is_empty() {
        differences.unexpected.clone_from(&unused);
    }
    let rules = assignment.rules.iter().zip(is_rule_used);
    differences.unused_rules =
        rules.filter(|(_, is_used)| !is_used).map(|(rule, _)| rule.pattern.clone()).collect();
    if differences.is_empty() {
        Ok(Plan { takes, unused })
    } else {
        Err(CheckpointError::Differ(differences.into()))
    }
}

/// Reads what a plan takes, one tensor after the other, and hands it over by its name in the model.
pub fn restore(
    source: &dyn TensorSource,
    plan: &Plan,
    mut put: impl FnMut(&str, Vec<f32>) -> Result<(), BoxError>,
) -> Result<(), CheckpointError> {
    for Take { name, from } in &plan.takes {
        if let Some(from) = from {
            put(name, source.read(from)?).map_err(CheckpointError::tensor(name))?;
        }
    }
    Ok(())
}

/// How many names of each sort a message has.
const SHOWN: usize = 20;

impl Differences {
    fn is_empty(&self) -> bool {
        let Self { origin: _, missing, unexpected, misshapen, unused_rules } = self;
        missing.is_empty() && unexpected.is_empty() && misshapen.is_empty() && unused_rules.is_empty()
    }

    pub(super) fn hint(&self) -> Option<String> {
        let names = !self.missing.is_empty() || !self.unexpected.is_empty();
        let hint = match (names, self.misshapen.is_empty()) {
            (true, _) => {
                "restore with rules that say for new names which old ones they come from, or that they keep \
                          their initial values"
            }
            (false, false) => "was the checkpoint made with another size of model?",
            (false, true) => "remove the rules that match nothing, or mend their patterns",
        };
        Some(hint.to_owned())
    }
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the tensors of {} are not those of the model", self.origin)?;
        let missing = self.missing.iter().map(|Missing { name, from, nearest }| {
            let by = if name == from { String::new() } else { format!(", from `{from}`") };
            let nearest =
                nearest.as_ref().map_or(String::new(), |nearest| format!(" (there is `{nearest}`)"));
            format!("`{name}`{by}{nearest}")
        });
        lines(f, "missing in the checkpoint", missing)?;
        lines(f, "unknown to the model", self.unexpected.iter().map(|name| format!("`{name}`")))?;
        let misshapen = self.misshapen.iter().map(|Misshapen { name, wanted, found }| {
            format!("`{name}` is {wanted} in the model and {found} in the checkpoint")
        });
        lines(f, "of another shape", misshapen)?;
        lines(f, "rule that nothing goes by", self.unused_rules.iter().map(|rule| format!("`{rule}`")))
    }
}

fn lines(f: &mut fmt::Formatter<'_>, what: &str, all: impl ExactSizeIterator<Item = String>) -> fmt::Result {
    let more = all.len().saturating_sub(SHOWN);
    for line in all.take(SHOWN) {
        write!(f, "\n  {what}: {line}")?;
    }
    if more > 0 {
        write!(f, "\n  {what}: {more} more")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::checkpoint::{Element, TensorSpec};

    struct Memory(BTreeMap<String, (TensorSpec, Vec<f32>)>);

    impl TensorSource for Memory {
        fn origin(&self) -> String {
            "memory".to_owned()
        }

        fn names(&self) -> Vec<&str> {
            self.0.keys().map(String::as_str).collect()
        }

        fn spec(&self, name: &str) -> Option<&TensorSpec> {
            self.0.get(name).map(|(spec, _)| spec)
        }

        fn read(&self, name: &str) -> Result<Vec<f32>, CheckpointError> {
            Ok(self.0[name].1.clone())
        }
    }

    /// A checkpoint whose tensors of one number hold 0, 1, 2 …
    fn memory(names: &[&str]) -> Memory {
        let spec = TensorSpec { shape: Shape::new([1]), element: Element::F32 };
        let tensors = names.iter().enumerate();
        Memory(tensors.map(|(i, name)| ((*name).to_owned(), (spec.clone(), vec![i as f32]))).collect())
    }

    fn model(names: &[&str]) -> Vec<(String, Shape)> {
        names.iter().map(|name| ((*name).to_owned(), Shape::new([1]))).collect()
    }

    fn rules(rules: &[(&str, Option<&str>)]) -> Assignment {
        Assignment::new(rules.iter().copied()).unwrap()
    }

    fn restored(source: &Memory, names: &[&str], assignment: &Assignment) -> Vec<(String, f32)> {
        let plan = plan(source, &model(names), assignment).unwrap();
        let mut found = Vec::new();
        restore(source, &plan, |name, values| {
            found.push((name.to_owned(), values[0]));
            Ok(())
        })
        .unwrap();
        found
    }

    fn pairs(pairs: &[(&str, f32)]) -> Vec<(String, f32)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn without_rules_names_are_the_same() {
        let source = memory(&["a", "b"]);
        assert_eq!(restored(&source, &["b", "a"], &Assignment::default()), pairs(&[("b", 1.0), ("a", 0.0)]));
    }

    #[test]
    fn rules_rename_leave_out_and_use_a_tensor_twice() {
        let source = memory(&["target/decoder/layers_0/w", "target/decoder/layers_1/w", "embedding", "rest"]);
        let rules = rules(&[
            (r"layers_(?<layer>\d+)/w", Some("target/decoder/layers_${layer}/w")),
            (r"(copy|other)/w", Some("target/decoder/layers_1/w")),
            (r"adapter/.*", None),
            (r"adapter/w", Some("embedding")),
            (r".*", Some("$0")),
        ]);
        let error = plan(&source, &model(&["adapter/w", "layers_0/w"]), &rules).unwrap_err();
        insta::assert_snapshot!(error, @r"
        the tensors of memory are not those of the model
          rule that nothing goes by: `(copy|other)/w`
          rule that nothing goes by: `adapter/w`
          rule that nothing goes by: `.*`
        ");
        let assignment = Assignment { rules: [&rules.rules[..3], &rules.rules[4..]].concat() };
        let names = ["layers_0/w", "copy/w", "other/w", "adapter/w", "embedding"];
        let found = restored(&source, &names, &assignment);
        assert_eq!(
            found,
            pairs(&[("layers_0/w", 0.0), ("copy/w", 1.0), ("other/w", 1.0), ("embedding", 2.0)])
        );
        assert_eq!(plan(&source, &model(&names), &assignment).unwrap().unused, ["rest"]);
    }

    #[test]
    fn rules_that_turn_names_round_take_the_old_ones() {
        let source = memory(&["a", "b", "c"]);
        let rules = rules(&[("a", Some("b")), ("b", Some("c"))]);
        // `c` has no rule and is there, though `b` takes it as well.
        assert_eq!(restored(&source, &["a", "b", "c"], &rules), pairs(&[("a", 1.0), ("b", 2.0), ("c", 2.0)]));
    }

    #[test]
    fn a_pattern_matches_whole_names_or_not() {
        let source = memory(&["old", "xab"]);
        assert_eq!(restored(&source, &["ab", "xab"], &rules(&[("a|ab", Some("old"))])), {
            pairs(&[("ab", 0.0), ("xab", 1.0)])
        });
    }

    #[test]
    fn all_differences_are_told_at_once() {
        let mut source =
            memory(&["decoder/logits_dense/kernel", "decoder/norm/scale", "encoder/norm/scales"]);
        source.0.get_mut("decoder/norm/scale").unwrap().0.shape = Shape::new([2, 3]);
        let model = model(&["decoder/logits_dense/kernel", "decoder/norm/scale", "encoder/norm/scale", "x"]);
        let error = plan(&source, &model, &Assignment::default()).unwrap_err();
        insta::assert_snapshot!(error, @r"
        the tensors of memory are not those of the model
          missing in the checkpoint: `encoder/norm/scale` (there is `encoder/norm/scales`)
          missing in the checkpoint: `x`
          unknown to the model: `encoder/norm/scales`
          of another shape: `decoder/norm/scale` is [1] in the model and [2, 3] in the checkpoint
        ");
        insta::assert_snapshot!(error.hint().unwrap(), @"restore with rules that say for new names which old ones they come from, or that they keep their initial values");
        let many: Vec<String> = (0..50).map(|i| format!("layers_{i}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        let error = plan(&memory(&[]), &self::model(&many), &Assignment::default()).unwrap_err().to_string();
        assert_eq!(error.lines().count(), 1 + SHOWN + 1);
        assert!(error.ends_with("30 more"), "{error}");
    }

    #[test]
    fn mistakes_in_rules_are_told_at_once() {
        let error = Assignment::new([
            ("a(", Some("b")),
            ("a)(b", Some("b")),
            ("a(.*)", Some("b$2")),
            ("a(.*)", Some(r"b\1")),
            ("a(.*)", Some("b$x")),
            ("a(.*)", Some("${x}")),
            ("a(.*)", Some("$$1_$1_x")),
        ])
        .unwrap_err();
        insta::assert_snapshot!(error, @r"
        rule `a(`: regex parse error:
            a(
             ^
        error: unclosed group
        rule `a)(b`: regex parse error:
            a)(b
             ^
        error: unopened group
        rule `a(.*)`: `b$2` asks for group `2`, which the pattern does not have
        rule `a(.*)`: `b\1` has a backslash; groups are written `$1`
        rule `a(.*)`: after `$` in `b$x` comes a number, a name in braces, or another `$`
        rule `a(.*)`: `${x}` asks for group `x`, which the pattern does not have
        ");
        assert_eq!(
            restored(&memory(&["$1_b_x"]), &["ab"], &rules(&[("a(.*)", Some("$$1_$1_x"))])),
            pairs(&[("ab", 0.0)])
        );
    }
}
