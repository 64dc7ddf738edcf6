//! Converters, through the program.

use crate::support::Project;

fn project() -> Project {
    let project = Project::new();
    project.write(
        "masked.toml",
        r#"[vocabulary.ids]
pass_through = 100
eos = 1

[vocabulary.mask]
pass_through = 2

[task.masked]
source   = { jsonl = { train = "data/masked.jsonl" }, columns = { targets = "list<int32>", targets_loss = "list<int32>" } }
features = { targets = { vocabulary = "ids" }, targets_loss = { vocabulary = "mask", add_eos = false } }
steps    = [{ op = "tokenize" }, { op = "append_eos" }, { op = "trim" }]

[task.packed]
source   = { jsonl = { train = "data/packed.jsonl" }, columns = { targets = "list<int32>", targets_positions = "list<int32>", targets_segment_ids = "list<int32>" } }
features = { targets = { vocabulary = "ids", add_eos = false }, targets_positions = { vocabulary = "ids", add_eos = false }, targets_segment_ids = { vocabulary = "ids", add_eos = false } }
steps    = [{ op = "tokenize" }]
"#,
    );
    let masked =
        [r#"{"targets":[3,9,4],"targets_loss":[0,1,1]}"#, r#"{"targets":[5,6],"targets_loss":[1,0]}"#];
    project.write("data/masked.jsonl", masked.join("\n"));
    let packed =
        r#"{"targets":[3,9,1,4,1],"targets_positions":[0,1,2,0,1],"targets_segment_ids":[1,1,1,2,2]}"#;
    project.write("data/packed.jsonl", packed);
    project
}

#[test]
fn a_prefix_language_model_reads_both_features() {
    let project = project();
    let line = "stream pairs --batch-size 1 --lengths inputs=24,targets=8 --converter prefix_lm --epochs 1 --order storage";
    let rows = project.seqio(line).ok().json_lines();
    assert_eq!(rows[0]["decoder_causal_attention"].as_array().unwrap().len(), 32);
    let uncached = project.seqio(&format!("{line} --no-cache")).ok().json_lines();
    assert_eq!(rows.len(), uncached.len());
    let other = line.replace("prefix_lm", "prefix_lm:loss_on_targets_only=false,bos_id=2");
    let other = project.seqio(&other).ok().json_lines();
    assert_eq!(other[0]["decoder_input_tokens"][0], 2);
    assert_eq!(other[0]["decoder_loss_weights"][0], 1.0);
    assert_eq!(rows[0]["decoder_loss_weights"][0], 0.0);
    // Every piece finds its text in the one row that both features share.
    let batch =
        "batch pairs --batch-size 2 --lengths inputs=24,targets=8 --converter prefix_lm --epochs 1 --step 0";
    let batch = project.seqio(batch).ok().out();
    for text in ["inputs 0..15: translate: one", "targets 0..3: un"] {
        assert!(batch.contains(text), "{batch}");
    }
}

#[test]
fn a_loss_mask_is_edited_with_its_feature() {
    let project = project();
    let line =
        "-f masked.toml stream masked --batch-size 1 --lengths 8 --epochs 1 --order storage --pack none";
    for line in [line.to_owned(), format!("{line} --no-cache")] {
        let rows = project.seqio(&line).ok().json_lines();
        let mut found: Vec<String> = rows
            .iter()
            .map(|row| format!("{} {}", row["decoder_target_tokens"], row["decoder_loss_weights"]))
            .collect();
        found.sort();
        insta::allow_duplicates!(insta::assert_snapshot!(found.join("\n"), @r"
        [3,9,4,1,0,0,0,0] [0.0,1.0,1.0,1.0,0.0,0.0,0.0,0.0]
        [5,6,1,0,0,0,0,0] [1.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0]
        "));
    }
    let bad = project.read("data/masked.jsonl");
    project.write("data/masked.jsonl", String::from_utf8(bad).unwrap().replace("[1,0]", "[1]"));
    let message = project.seqio(line).fails(1);
    for words in ["(masked.jsonl:2, id ", "`targets` has 3 tokens, but `targets_loss` beside them has 2"] {
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn packed_rows_are_checked_and_taken_as_they_are() {
    let project = project();
    let line = "-f masked.toml stream packed --batch-size 1 --lengths 6 --epochs 1 --converter prepacked_lm";
    let rows = project.seqio(&format!("{line} --pack none")).ok().json_lines();
    assert_eq!(rows[0]["decoder_input_tokens"], serde_json::json!([0, 3, 9, 0, 4, 0]));
    let message = project.seqio(line).fails(2);
    insta::assert_snapshot!(message, @r"
    error: converter `prepacked_lm`, `packing`: its examples are packed already; choose packing `none`
    ");
}

#[test]
fn what_is_passed_through_stands_beside() {
    let project = project();
    let line = "stream pairs --batch-size 1 --lengths inputs=4,targets=8 --epochs 1 --pack none";
    let rows = project.seqio(&format!("{line} --converter lm:passthrough=inputs")).ok().json_lines();
    assert_eq!(rows[0]["inputs"].as_array().unwrap().len(), 4);
    assert_eq!(rows[0]["decoder_target_tokens"].as_array().unwrap().len(), 8);
    let rows = project.seqio(&format!("{line} --converter pass_through")).ok().json_lines();
    let keys: Vec<&String> = rows[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["inputs", "row", "row_valid", "step", "targets"]);
}

#[test]
fn what_a_batch_will_hold_is_explained() {
    let project = Project::new();
    let line = "explain pairs --lengths inputs=24,targets=8 --converter prefix_lm";
    let explained = project.seqio(line).ok().out();
    let features = explained.split_once("model features of").unwrap().1.trim_start();
    insta::assert_snapshot!(features, @r"
    `prefix_lm`, B rows a batch
      decoder_causal_attention  int32    [B, 32]
      decoder_input_tokens      int32    [B, 32]
      decoder_loss_weights      float32  [B, 32]
      decoder_positions         int32    [B, 32]
      decoder_segment_ids       int32    [B, 32]
      decoder_target_tokens     int32    [B, 32]
    ");
    let features = project.seqio(&format!("{line} --json")).ok().json();
    assert_eq!(features["model_features"][0]["length"], 32);
}

#[test]
fn converters_are_listed_and_a_mistyped_one_gets_the_nearest() {
    let project = Project::empty();
    insta::assert_snapshot!(project.seqio("list converters --names").ok().out(), @r"
    lm
    enc_dec
    prefix_lm
    prefix_suffix_lm
    decoder
    encoder
    pass_through
    prepacked_lm
    prepacked_prefix_lm
    prepacked_enc_dec
    ");
    let message = project.seqio("stream docs --batch-size 1 --lengths 8 --converter encdec").fails(2);
    assert!(message.contains("did you mean `enc_dec`?"), "{message}");
}
