//! Errors and laws of rows.

use arrow::array::{AsArray, BooleanArray, Float64Array, Int64Array, StringArray};
use proptest::prelude::*;

use super::*;
use crate::sql::mistake_in_words;

fn chunk() -> RecordBatch {
    let columns: [(&str, ArrayRef); 4] = [
        ("text", Arc::new(StringArray::from(vec![Some("Ärger"), Some(""), None]))),
        ("n", Arc::new(Int64Array::from(vec![Some(3), Some(0), Some(i64::MAX)]))),
        ("Score", Arc::new(Float64Array::from(vec![0.5, -0.0, f64::NAN]))),
        ("ok", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn refused(text: &str) -> String {
    mistake_in_words(&Expression::parse(text, &chunk().schema()).unwrap_err())
}

fn failure(text: &str) -> (usize, String) {
    let failure = Expression::parse(text, &chunk().schema()).unwrap().evaluate(&chunk()).unwrap_err();
    (failure.row, failure.problem)
}

#[test]
fn mistakes_are_told_with_what_was_perhaps_meant() {
    insta::assert_snapshot!(refused("lenght(text) > 3"), @"there is no function `lenght`; did you mean `length`?");
    insta::assert_snapshot!(refused("frobnicate(text)"), @"there is no function `frobnicate`");
    insta::assert_snapshot!(refused("n > 'many'"), @"cannot cast string 'many' to value of Int64 type");
    let many = Mistake::NotOfType { value: "many".to_owned(), data_type: DataType::Int64 };
    insta::assert_snapshot!(mistake_in_words(&many), @"`many` is no `int64`, which it is compared with or used as");
}

#[test]
fn a_value_that_cannot_be_is_an_error_of_its_row() {
    insta::assert_debug_snapshot!(failure("1 / n > 2"), @r#"
    (
        1,
        "division by zero",
    )
    "#);
    insta::assert_debug_snapshot!(failure("n + 1 > 2"), @r#"
    (
        2,
        "the number is too large: overflow happened on: 9223372036854775807 + 1",
    )
    "#);
    insta::assert_debug_snapshot!(failure("n * 2 > 2"), @r#"
    (
        2,
        "the number is too large: overflow happened on: 9223372036854775807 * 2",
    )
    "#);
    insta::assert_debug_snapshot!(failure("CAST(text AS int) > 2"), @r#"
    (
        0,
        "cannot cast string 'Ärger' to value of Int32 type",
    )
    "#);
    insta::assert_debug_snapshot!(failure("length(repeat(coalesce(text, 'x'), 9000000000000000000)) > 2"), @r#"
    (
        0,
        "string size overflow on repeat, max size is 2147483647, but got 18446744073709551615",
    )
    "#);
}

#[test]
fn depth_and_length_are_bounded() {
    let long = format!("text = '{}'", "x".repeat(1 << 16));
    insta::assert_snapshot!(refused(&long), @"it has 65545 bytes, and 65536 are allowed");
    let chain = |terms: usize| vec!["n <> 7"; terms].join(" AND ");
    insta::assert_snapshot!(refused(&chain(5000)), @"it is 5001 levels deep, and 200 are allowed; write a long chain of `OR` as `column IN (...)`, or halve a chain by parentheses");
    let values = Expression::parse(&chain(150), &chunk().schema()).unwrap().evaluate(&chunk()).unwrap();
    assert_eq!(values.as_boolean().true_count(), 3);
    let nested = format!("{}n{} = 1", "(".repeat(2000), ")".repeat(2000));
    insta::assert_snapshot!(refused(&nested), @"it is nested too deeply");
}

/// Expressions of which some fail on some rows.
fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "n > 2",
        "10 / n > 2",
        "10 / (n - 1) >= 0",
        "ok",
        "n IS NULL",
        "n % 2 = 0",
        "CAST(text AS int) > 1",
        "text = '2'",
        "NOT ok",
        "true",
        "n + 9223372036854775800 > 5",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(3, 8, 2, |inner| {
        let connective = prop::sample::select(vec!["AND", "OR", "=", "IS DISTINCT FROM"]);
        (inner.clone(), connective, inner.clone(), any::<bool>()).prop_map(
            |(left, connective, right, case)| match case {
                true => format!("(CASE WHEN {left} THEN {right} END)"),
                false => format!("(({left}) {connective} ({right}))"),
            },
        )
    })
}

fn rows() -> impl Strategy<Value = Vec<(Option<i64>, Option<String>, Option<bool>)>> {
    let text = prop::option::of(prop::sample::select(vec!["1", "2", "x", ""]).prop_map(str::to_owned));
    prop::collection::vec((prop::option::of(0..12i64), text, prop::option::of(any::<bool>())), 1..9)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_row_has_the_same_value_or_error_alone_and_among_others(text in expressions(), rows in rows()) {
        let columns: [(&str, ArrayRef, bool); 3] = [
            ("n", Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.0))), true),
            ("text", Arc::new(StringArray::from_iter(rows.iter().map(|row| row.1.clone()))), true),
            ("ok", Arc::new(BooleanArray::from_iter(rows.iter().map(|row| row.2))), true),
        ];
        let chunk = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let Ok(expression) = Expression::parse(&text, &chunk.schema()) else { return Ok(()) };
        let alone: Vec<_> = (0..rows.len()).map(|row| expression.evaluate(&chunk.slice(row, 1))).collect();
        match expression.evaluate(&chunk) {
            Ok(values) => {
                for (row, one) in alone.iter().enumerate() {
                    prop_assert_eq!(one.as_ref().unwrap().as_boolean(), &values.slice(row, 1).as_boolean().clone());
                }
            }
            Err(failure) => {
                let first = alone.iter().position(Result::is_err);
                prop_assert_eq!(Some(failure.row), first);
                prop_assert_eq!(&failure.problem, &alone[failure.row].as_ref().unwrap_err().problem);
            }
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "(length|text|n|CAST|AS|int|AND|'|\"|[(),.*<>=+ /-]|NULL|CASE|WHEN|[0-9]| ){0,12}") {
        if let Ok(expression) = Expression::parse(&text, &chunk().schema()) {
            let _ = expression.evaluate(&chunk());
        }
    }
}
