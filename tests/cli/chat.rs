//! Conversations: from JSON lines of messages to which tokens count.

use std::fs;

use crate::support::Project;

const TASKS: &str = r#"[vocabulary.bytes]
byte = true

[vocabulary.loss]
pass_through = 2

[task.chat]
source   = { jsonl = { train = "chats.jsonl" }, columns = { messages = "json" } }
features = { targets = { vocabulary = "bytes" }, targets_loss = { vocabulary = "loss" } }
steps    = [{ op = "chat", template_file = "tokenizer_config.json" }]
"#;

const CONFIG: &str = r#"{
  "eos_token": "~",
  "chat_template": "{% for m in messages %}{{ m.role[0] }}:{% if m.role == 'assistant' %}{% generation %}{{ m.content + eos_token }}{% endgeneration %}{% else %}{{ m.content }}|{% endif %}{% endfor %}"
}"#;

const CHATS: &str = r#"{"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}], "id": 7}
{"messages": [{"role": "user", "content": "é?"}]}
"#;

fn project() -> Project {
    let project = Project::empty();
    for (name, text) in [("seqio.toml", TASKS), ("tokenizer_config.json", CONFIG), ("chats.jsonl", CHATS)] {
        fs::write(project.path(name), text).unwrap();
    }
    project
}

#[test]
fn tokens_that_count_are_marked() {
    let out = project().seqio("inspect chat -n 2").ok().out();
    assert!(out.contains("targets, 11 tokens, 2 with a loss: u:2+2?|a:4~"), "{out}");
    assert!(out.contains("targets, 6 tokens, none with a loss: u:é?|"), "{out}");
    assert!(!out.contains("targets_loss"), "{out}");
    let examples = project().seqio("inspect chat -n 1 --json").ok().json();
    let targets = &examples[0]["columns"]["targets"];
    assert_eq!(targets["text"], "u:2+2?|a:4~");
    assert_eq!(targets["loss"], serde_json::json!([0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]));
    assert_eq!(examples[0]["columns"]["targets_loss"]["ids"], targets["loss"]);
}

#[test]
fn a_cache_holds_the_template_it_was_made_with() {
    let project = project();
    project.seqio("cache build chat").ok();
    let folder = project.cache_of("chat");
    fs::remove_file(project.path("tokenizer_config.json")).unwrap();
    let line = format!("inspect --cache {} --split train -n 1 --json", folder.display());
    let examples = project.seqio(&line).ok().json();
    assert!(examples[0]["columns"]["targets"]["loss"].is_array(), "{examples}");
    let err = project.seqio("inspect chat -n 1").err();
    assert!(err.contains("step 1 of 1 (`chat`)") && err.contains("tokenizer_config.json`"), "{err}");
    // Another template is another cache.
    fs::write(project.path("tokenizer_config.json"), CONFIG.replace("}}|", "}}!")).unwrap();
    project.seqio("cache build chat").ok();
    let caches = fs::read_dir(project.path("seqio-cache/chat")).unwrap();
    let whole = caches.filter(|cache| cache.as_ref().unwrap().path().join("manifest.json").exists());
    assert_eq!(whole.count(), 2);
}

#[test]
fn stats_say_how_many_examples_have_no_loss() {
    let project = project();
    project.seqio("cache build chat").ok();
    let stats = project.seqio("stats chat --split train --lengths 8 --json").ok().json();
    let loss = &stats[0]["loss"][0];
    assert_eq!(loss["feature"], "targets");
    assert_eq!((&loss["examples"], &loss["without_loss"]), (&2.into(), &1.into()));
    assert_eq!(loss["without_loss_if_cut"]["8"], 2);
    let out = project.seqio("stats chat --split train --lengths 8").ok().out();
    assert!(
        out.contains("of the first 2 examples there is 1 of which no token of `targets` counts"),
        "{out}"
    );
    assert!(out.contains("2 if cut to 8"), "{out}");
}

#[test]
fn explain_says_what_a_template_writes_that_the_vocabulary_does_not_have() {
    let project = project();
    fs::write(project.path("tokenizer_config.json"), CONFIG.replace("\"~\"", "\"<|end|>\"")).unwrap();
    let ran = project.seqio("explain chat").ok();
    let out = [ran.out(), ran.err()].concat().split_whitespace().collect::<Vec<_>>().join(" ");
    let warning = "writes `<|end|>`, which vocabulary `bytes` has not among its special tokens";
    assert!(out.contains(warning), "{out}");
}
