//! `--json`: every listing has it, standard output holds nothing else, and the keys stay what they are.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::support::Project;

/// The keys of a value, as `features.targets.ids[]: number`. Values named after data, such as features, are kept: the
/// data are always the same here.
fn keys(value: &Value, at: &str, found: &mut BTreeSet<String>) {
    let kind = match value {
        Value::Object(table) => {
            for (key, inner) in table {
                keys(inner, &if at.is_empty() { key.clone() } else { format!("{at}.{key}") }, found);
            }
            if !table.is_empty() {
                return;
            }
            "table"
        }
        Value::Array(items) => {
            items.iter().for_each(|item| keys(item, &format!("{at}[]"), found));
            if !items.is_empty() {
                return;
            }
            "list"
        }
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
    };
    found.insert(format!("{at}: {kind}"));
}

/// Every listing, in an order in which each finds what it lists.
const LISTINGS: [&str; 27] = [
    "list",
    "list steps",
    "list vocabularies",
    "list kinds",
    "list converters",
    "reference trim",
    "adapters",
    "explain docs",
    "inspect docs -n 1",
    "inspect docs -n 1 --stage raw",
    "inspect docs -n 1 --stage model --lengths 64",
    "cache build docs --dry-run",
    "cache build docs",
    "cache build pairs --worker 0/1",
    "cache finish pairs",
    "cache list",
    "cache explain docs",
    "cache verify",
    "stats docs --lengths 64",
    "plan docs --batch-size 4 --lengths 64",
    "batch docs --batch-size 4 --lengths 64 --step 0 --row 0 --epochs 1",
    "find data/train-0.jsonl:1 docs --batch-size 4 --lengths 64 --epochs 1",
    "bench infeed docs --batch-size 4 --lengths 64 --steps 2",
    "bench cache docs",
    "cache convert docs --compress zstd",
    "cache remove docs --dry-run",
    "cache remove docs",
];

#[test]
fn every_listing_has_json_with_keys_that_stay() {
    let project = Project::new();
    let mut all = String::new();
    for line in LISTINGS {
        let ran = project.seqio(&format!("{line} --json --quiet")).ok();
        assert_eq!(ran.err(), "", "{line}");
        let mut found = BTreeSet::new();
        vec_of(&ran.stdout).iter().for_each(|document| keys(document, "", &mut found));
        assert!(!found.is_empty(), "{line}");
        all += &format!("{line}\n");
        found.iter().for_each(|key| all += &format!("  {key}\n"));
    }
    insta::assert_snapshot!(all);
}

/// The JSON documents of an output: one, or one a line.
fn vec_of(stdout: &[u8]) -> Vec<Value> {
    serde_json::Deserializer::from_slice(stdout).into_iter().collect::<Result<_, _>>().unwrap()
}

#[test]
fn the_keys_are_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/output.md");
    let document = std::fs::read_to_string(path).unwrap();
    let project = Project::new();
    for line in LISTINGS {
        let ran = project.seqio(&format!("{line} --json --quiet")).ok();
        let words: Vec<&str> = line.split(' ').collect();
        let command = match words[..] {
            ["cache" | "bench", second, ..] => format!("{} {second}", words[0]),
            _ => words[0].to_owned(),
        };
        let row = document.lines().find(|row| row.starts_with(&format!("| `{command}`")));
        let row = row.unwrap_or_else(|| panic!("docs/output.md has no row for `{command} --json`"));
        for value in vec_of(&ran.stdout) {
            let first = if let Value::Array(items) = &value {
                items.first().cloned().unwrap_or(Value::Null)
            } else {
                value
            };
            let Value::Object(table) = first else { panic!("{line}: {first}") };
            for key in table.keys() {
                assert!(
                    row.contains(&format!("`{key}`")),
                    "docs/output.md does not name key `{key}` of `{command} --json`"
                );
            }
        }
    }
}

#[test]
fn nothing_found_is_an_empty_list() {
    let project = Project::empty();
    project.write("seqio.toml", "");
    for line in ["list", "list vocabularies", "cache list", "cache verify"] {
        let ran = project.seqio(&format!("{line} --json")).ok();
        assert_eq!((ran.out().as_str(), ran.err().as_str()), ("[]\n", ""), "{line}");
    }
    project.write("seqio.toml", "[vocabulary.b]\nbyte = true\n[task.none]\nsource = { text = { train = \"x\" } }\nfeatures = { text = { vocabulary = \"b\" } }\nsteps = [{ op = \"rekey\", to_from = { targets = \"text\", text = \"text\" } }, { op = \"tokenize\" }]\n");
    project.write("x", "");
    for line in ["inspect none", "inspect none --stage raw"] {
        assert_eq!(project.seqio(&format!("{line} --json")).ok().out(), "[]\n", "{line}");
    }
}
