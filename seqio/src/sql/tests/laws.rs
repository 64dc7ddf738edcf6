//! Memory, the cut of files and their order in a table decide nothing.

use proptest::prelude::*;

use super::*;

/// Queries whose result must not depend on how they are run.
const QUERIES: [&str; 6] = [
    "SELECT id, text FROM t",
    "SELECT a.id, b.text FROM t a JOIN t b ON a.id = b.id + 1",
    "SELECT min(id) AS id, count(*) AS n, max(text) AS m FROM t GROUP BY part",
    "SELECT id, row_number() OVER (PARTITION BY part ORDER BY text) AS n FROM t",
    "SELECT id, text FROM t ORDER BY text LIMIT 7",
    "SELECT min(id) AS id, array_agg(text ORDER BY part) AS l FROM t GROUP BY part",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn rows_are_the_same_whatever_the_memory_and_the_order_of_the_records(
        records in prop::collection::vec((0..5u8, "[a-c]{0,3}"), 1..60), cut in any::<prop::sample::Index>(), query in 0..QUERIES.len(),
    ) {
        let line = |(id, (part, text)): (usize, &(u8, String))| {
            format!("{{\"id\": {id}, \"part\": {part}, \"text\": \"{text}\"}}\n")
        };
        let lines: Vec<String> = records.iter().enumerate().map(line).collect();
        let cut = cut.index(lines.len());
        let shown = |first: &[String], second: &[String], memory: u64| {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("a.jsonl"), first.concat()).unwrap();
            std::fs::write(dir.path().join("b.jsonl"), second.concat()).unwrap();
            let table = TableSpec::jsonl("*.jsonl")
                .column("id", crate::ScalarType::Int64)
                .column("part", crate::ScalarType::Int64)
                .column("text", crate::ScalarType::String);
            let source = open(dir.path(), &SourceSpec::sql([("train", QUERIES[query])]).key(["id"]).table("t", table));
            source.set_budget(&ReadBudget { memory_bytes: memory, ..ReadBudget::default() });
            read(&*source, "train")
        };
        let expected = shown(&lines, &[], u64::MAX / 2);
        prop_assert_eq!(&shown(&lines[..cut], &lines[cut..], 1), &expected);
        prop_assert_eq!(&shown(&lines[cut..], &lines[..cut], 1), &expected);
    }
}
