//! Decoder inputs against `seqio.utils.make_autoregressive_inputs`.

use std::collections::BTreeMap;

use seqio::{Converter, ExampleStore, InMemoryExamples, RowWriter, Span, Values};
use serde_json::Value;

use crate::golden::{self, ids};

const FILE: &str = "make_autoregressive_inputs.jsonl";

#[test]
fn decoder_inputs_are_those_of_seqio() {
    golden::assert_counts(FILE, 35, 0);
    for (line, case) in golden::lines::<Value>(FILE) {
        if case.get("error").is_some() {
            // Text instead of ids: refused there, and nothing that a store could hold here.
            assert!(case["targets"][0].is_string(), "line {line}");
            continue;
        }
        let targets = ids(&case["targets"]);
        let packed = !case["sequence_id"].is_null();
        let segments = if packed { ids(&case["sequence_id"]) } else { vec![1; targets.len()] };
        // The stretches of equal segment ids; padding, which has id 0, is the last.
        let stretches = segments.chunk_by(|a, b| a == b).filter(|stretch| stretch[0] != 0);
        let spans = stretches.scan(0, |from, stretch| {
            let span = Span { from: *from, len: stretch.len() as u32 };
            *from += span.len;
            Some([span])
        });
        let spans: Vec<[Span; 1]> = spans.collect();

        let lengths = BTreeMap::from([("targets".to_owned(), targets.len())]);
        let store = InMemoryExamples::of([("targets", vec![targets])]);
        let edits = BTreeMap::new();
        let writer = RowWriter::new(Converter::Lm, &lengths, packed, store.features(), &edits).unwrap();
        let writer = writer.with_bos_id(case["bos_id"].as_i64().unwrap() as i32);
        let mut arrays = writer.new_arrays(1);
        writer.write_row(&store, spans.iter().map(|span| (0, span.as_slice())), &mut arrays, 0).unwrap();
        assert_eq!(arrays[0].name, "decoder_input_tokens");
        assert_eq!(arrays[0].values, Values::I32(ids(&case["output"])), "line {line}");
    }
}
