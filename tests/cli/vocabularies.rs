//! Kinds of vocabulary through the program: what a task file says of them, and what a cache keeps.

use std::path::Path;

use crate::support::Project;

/// A folder with a tiny rank file (the bytes, ` t`, `he`, ` the`, `th`) and a task over it.
fn rank_file(settings: &str) -> Project {
    let project = Project::empty();
    let mut ranks = String::new();
    for (rank, token) in (0..=255u8)
        .map(|byte| vec![byte])
        .chain([b" t".to_vec(), b"he".to_vec(), b" the".to_vec(), b"th".to_vec()])
        .enumerate()
    {
        ranks.push_str(&format!("{} {rank}\n", base64(&token)));
    }
    project.write("vocab/tiny.tiktoken", ranks);
    project.write("a.jsonl", "{\"text\":\"the then <|end|> é\"}\n{\"text\":\"\"}\n");
    project.write(
        "seqio.toml",
        format!(
            "[vocabulary.tiny]\ntiktoken = \"vocab/tiny.tiktoken\"\n{settings}\n\n[task.docs]\n\
             source   = {{ jsonl = {{ validation = \"a.jsonl\" }} }}\n\
             features = {{ targets = {{ vocabulary = \"tiny\" }} }}\n\
             steps    = [{{ op = \"rekey\", to_from = {{ targets = \"text\" }} }}, {{ op = \"tokenize\" }}, {{ op = \"append_eos\" }}]\n"
        ),
    );
    project
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0u32, |bits, at| bits << 8 | u32::from(group.get(at).copied().unwrap_or(0)));
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place) & 63) as usize] as char;
            text.push(if place <= group.len() { letter } else { '=' });
        }
    }
    text
}

const SPECIAL: &str = "pattern = \"cl100k\"\nspecial_tokens = { \"<|end|>\" = 300 }\neos = \"<|end|>\"";

#[test]
fn a_rank_file_is_a_vocabulary_and_travels_with_its_cache() {
    let project = rank_file(SPECIAL);
    let inspect = |project: &Project, command: &str| project.seqio(command).ok().out();
    let shown = inspect(&project, "inspect docs --split validation -n 1 --json");
    let ids = |text: &str| {
        let value: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        value[0]["columns"]["targets"]["ids"].clone()
    };
    // `th` is made before ` the` could be: a lower rank goes first, and ` t` is the lowest.
    let mut expected = vec![116, 257, 258, 110];
    expected.extend(" <|end|> ".bytes().map(u32::from));
    expected.extend([0xC3, 0xA9, 300]);
    assert_eq!(ids(&shown), serde_json::json!(expected), "{shown}");

    project.seqio("cache build docs --split validation").ok();
    let cache = project.cache_of("docs");
    let stored: Vec<_> =
        std::fs::read_dir(cache.join("vocabulary")).unwrap().map(|it| it.unwrap().path()).collect();
    assert!(stored.len() == 1 && stored[0].extension() == Some("tiktoken".as_ref()), "{stored:?}");
    // With neither task file nor rank file.
    let kept = Path::new("kept");
    std::fs::rename(&cache, project.path("kept")).unwrap();
    std::fs::remove_dir_all(project.path("vocab")).unwrap();
    std::fs::remove_file(project.path("seqio.toml")).unwrap();
    let stream = format!(
        "stream --cache {} --split validation --batch-size 1 --lengths 20 --epochs 1 --order storage",
        kept.display()
    );
    let rows = project.seqio(&stream).ok().json_lines();
    assert_eq!(rows[0]["decoder_target_tokens"][0], 116);
}

#[test]
fn mistakes_in_a_rank_file_vocabulary_are_told_with_their_place() {
    let told = |settings: &str| rank_file(settings).seqio("explain docs").fails(3);
    insta::assert_snapshot!(told("pattern = \"cl100\""), @r#"
    error: seqio.toml:3:11: vocabulary `tiny`: `pattern` cannot be `cl100`
      |
    3 | pattern = "cl100"
      |           ^^^^^^^

    hint: did you mean `cl100k`?
    "#);
    insta::assert_snapshot!(told(""), @r"
    error: seqio.toml:1:13: vocabulary `tiny`: `pattern`: a `tiktoken` vocabulary needs it, one of `gpt2`, `cl100k`, `o200k`, `qwen`
      |
    1 | [vocabulary.tiny]
      |             ^^^^
    ");
    insta::assert_snapshot!(told("pattern = \"gpt2\"\neos = \"<|ned|>\"\nspecial_tokens = { \"<|end|>\" = 300 }"), @r#"
    error: seqio.toml:4:7: vocabulary `tiny`: `eos`: the vocabulary has no piece `<|ned|>`; did you mean `<|end|>`?
      |
    4 | eos = "<|ned|>"
      |       ^^^^^^^^^
    "#);
    let project = rank_file(SPECIAL);
    project.write("vocab/tiny.tiktoken", "IQ== 0\nIQ= 1\n");
    insta::assert_snapshot!(project.seqio("explain docs").fails(3), @r#"
    error: seqio.toml:2:12: vocabulary `tiny`: `./vocab/tiny.tiktoken`: not a usable rank file: line 2: `IQ=` is not base64
      |
    2 | tiktoken = "vocab/tiny.tiktoken"
      |            ^^^^^^^^^^^^^^^^^^^^^
    "#);
}

/// A folder with a vocabulary of these settings, its file if it has one, and a task over one line of text.
fn one_line(settings: &str, file: &str, text: &str) -> Project {
    let project = Project::empty();
    if !file.is_empty() {
        project.write("vocab/list.txt", file);
    }
    project.write("a.jsonl", format!("{}\n", serde_json::json!({ "text": text })));
    project.write(
        "seqio.toml",
        format!(
            "[vocabulary.v]\n{settings}\n\n[task.docs]\n\
             source   = {{ jsonl = {{ validation = \"a.jsonl\" }} }}\n\
             features = {{ targets = {{ vocabulary = \"v\", add_eos = false }} }}\n\
             steps    = [{{ op = \"rekey\", to_from = {{ targets = \"text\" }} }}, {{ op = \"tokenize\" }}]\n"
        ),
    );
    project
}

#[test]
fn the_vocabularies_of_seqio_are_cached_and_decoded_in_a_batch() {
    let pieces = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n##known\nwords\n,\n";
    let bert = "bert_wordpiece = \"vocab/list.txt\"\nlower_case = true";
    let unigram = "unigram = \"vocab/list.txt\"\nsplit_on_space = true";
    let partial = "partial_codepoint = \"vocab/list.txt\"\nextra_ids = 2";
    for (settings, file, text, ids, decoded, size) in [
        (bert, pieces, "Ünknown, WORDS now", vec![4, 5, 7, 6, 1], "unknown , words [UNK]", 9),
        (unigram, "yes\nno\n", "yes or no", vec![1, 3, 2], "yes UNK no", 4),
        ("unigram = [\"yes or no\"]", "", "yes or no", vec![1], "yes or no", 3),
        ("full_codepoint = true", "", "hé🙂", vec![104, 233, 128_578], "hé🙂", 1_114_111),
        (partial, "104\n233\n", "éhé!", vec![4, 3, 4, 2], "éhé\u{E004}", 7),
        ("partial_codepoint = [33]", "", "!!", vec![3, 3], "!!", 4),
    ] {
        let project = one_line(settings, file, text);
        project.seqio("cache build docs --split validation").ok();
        let cache = project.cache_of("docs");
        let stored = std::fs::read_dir(cache.join("vocabulary")).into_iter().flatten();
        let stored: Vec<_> = stored.map(|it| it.unwrap().path()).collect();
        match file {
            "" => assert!(stored.is_empty(), "{stored:?}"),
            _ => {
                assert_eq!(stored.len(), 1, "{settings}");
                assert!(stored[0].to_str().unwrap().ends_with(".txt"), "{stored:?}");
                assert_eq!(std::fs::read_to_string(&stored[0]).unwrap(), file);
            }
        }
        let manifest: serde_json::Value =
            serde_json::from_slice(&std::fs::read(cache.join("manifest.json")).unwrap()).unwrap();
        assert_eq!(manifest["features"]["targets"]["vocab_size"], size, "{settings}");
        // With neither task file nor list.
        std::fs::rename(&cache, project.path("kept")).unwrap();
        std::fs::remove_file(project.path("seqio.toml")).unwrap();
        if !file.is_empty() {
            std::fs::remove_dir_all(project.path("vocab")).unwrap();
        }
        let shape = "--cache kept --split validation --batch-size 1 --lengths 20 --order storage";
        let batch = project.seqio(&format!("batch {shape} --step 0 --json")).ok().json();
        assert_eq!(batch["rows"][0]["pieces"][0]["parts"][0]["text"], decoded, "{batch}");
        let rows = project.seqio(&format!("stream {shape} --epochs 1 --format jsonl")).ok().json_lines();
        let mut padded = ids;
        padded.resize(20, 0);
        assert_eq!(rows[0]["decoder_target_tokens"], serde_json::json!(padded), "{settings}");
    }
}

#[test]
fn mistakes_in_the_vocabularies_of_seqio_are_told_with_their_place() {
    let told = |settings: &str, file: &str| one_line(settings, file, "a").seqio("explain docs").fails(3);
    insta::assert_snapshot!(told("bert_wordpiece = \"vocab/list.txt\"", "[UNK]\na\na\n"), @r#"
    error: seqio.toml:2:18: vocabulary `v`: `./vocab/list.txt`: line 3 is `a`, as line 2 is: an entry has one id
      |
    2 | bert_wordpiece = "vocab/list.txt"
      |                  ^^^^^^^^^^^^^^^^
    "#);
    insta::assert_snapshot!(told("bert_wordpiece = \"vocab/list.txt\"\nlower_case = true\nnormalization_form = \"NFC\"", "a\n"), @r#"
    error: seqio.toml:4:22: vocabulary `v`: `normalization_form`: text in lower case is NFD: leave the key out, or `lower_case`
      |
    4 | normalization_form = "NFC"
      |                      ^^^^^
    "#);
    insta::assert_snapshot!(told("byte = true\nlower_case = true", ""), @r"
    error: seqio.toml:3:14: vocabulary `v`: `lower_case`: only a `bert_wordpiece` vocabulary has it
      |
    3 | lower_case = true
      |              ^^^^
    ");
    insta::assert_snapshot!(told("unigram = \"vocab/list.txt\"", "a\n\nb\n"), @r#"
    error: seqio.toml:2:11: vocabulary `v`: `./vocab/list.txt`: line 2 is empty, and an entry has an id by its line: remove it
      |
    2 | unigram = "vocab/list.txt"
      |           ^^^^^^^^^^^^^^^^
    "#);
    insta::assert_snapshot!(told("unigram = 7", ""), @r"
    error: seqio.toml:2:11: vocabulary `v`: `unigram`: expected the path of a file with an entry on each line, or a list of entries
      |
    2 | unigram = 7
      |           ^
    ");
    insta::assert_snapshot!(told("partial_codepoint = \"vocab/list.txt\"", "97\né\n"), @r#"
    error: seqio.toml:2:21: vocabulary `v`: `./vocab/list.txt`: line 2: `é` is no code point: a decimal number, such as 233 for `é`
      |
    2 | partial_codepoint = "vocab/list.txt"
      |                     ^^^^^^^^^^^^^^^^
    "#);
    insta::assert_snapshot!(told("full_codepoint = true\neos = 1", ""), @r"
    error: seqio.toml:3:7: vocabulary `v`: `eos`: a `full_codepoint` vocabulary has pad 0, eos 57349, and neither unk nor bos
      |
    3 | eos = 1
      |       ^
    ");
}
