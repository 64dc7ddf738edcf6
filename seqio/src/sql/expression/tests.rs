//! Values, refusals and laws of expressions.

use arrow::array::{AsArray, BooleanArray, Float64Array, Int64Array, StringArray};
use proptest::prelude::*;

use super::*;

fn chunk() -> RecordBatch {
    let columns: [(&str, ArrayRef); 4] = [
        ("text", Arc::new(StringArray::from(vec![Some("Ärger"), Some(""), None]))),
        ("n", Arc::new(Int64Array::from(vec![Some(3), Some(0), Some(i64::MAX)]))),
        ("Score", Arc::new(Float64Array::from(vec![0.5, -0.0, f64::NAN]))),
        ("ok", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn values(text: &str) -> Vec<String> {
    let expression =
        Expression::parse(text, &chunk().schema()).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    let values = expression.evaluate(&chunk()).unwrap_or_else(|failure| panic!("{text}: {failure:?}"));
    assert_eq!(values.data_type(), expression.data_type());
    let shown = arrow::util::display::array_value_to_string;
    (0..values.len())
        .map(|row| if values.is_null(row) { "null".to_owned() } else { shown(&values, row).unwrap() })
        .collect()
}

fn refused(text: &str) -> String {
    match Expression::parse(text, &chunk().schema()) {
        Err(ExpressionError::Problem(problem)) => problem,
        Err(ExpressionError::Column(name)) => format!("no column {name}"),
        Ok(expression) => panic!("{text} is accepted: {expression:?}"),
    }
}

fn failure(text: &str) -> (usize, String) {
    let failure = Expression::parse(text, &chunk().schema()).unwrap().evaluate(&chunk()).unwrap_err();
    (failure.row, failure.problem)
}

#[test]
fn values_are_those_of_sql() {
    for (text, expected) in [
        ("length(text)", ["5", "0", "null"]),
        ("octet_length(text)", ["6", "0", "null"]),
        ("upper(text) || '!'", ["ÄRGER!", "!", "null"]),
        ("coalesce(text, 'untitled')", ["Ärger", "", "untitled"]),
        ("text = ''", ["false", "true", "null"]),
        ("text LIKE 'Ä%'", ["true", "false", "null"]),
        ("regexp_like(text, '^.r')", ["true", "false", "null"]),
        ("ok AND n > 0", ["true", "false", "false"]),
        ("ok OR n = 0", ["true", "true", "false"]),
        ("n IN (0, 3)", ["true", "true", "false"]),
        ("CASE WHEN n = 0 THEN 'none' ELSE text END", ["Ärger", "none", "null"]),
        ("nullif(n, 0) IS NULL", ["false", "true", "false"]),
        ("Score > 0", ["true", "false", "true"]),
        ("n % 2", ["1", "0", "1"]),
        ("CAST(n AS varchar)", ["3", "0", "9223372036854775807"]),
        ("array_length(string_to_array(text, 'g'))", ["2", "0", "null"]),
        ("extract(year FROM to_timestamp('2024-05-06T00:00:00'))", ["2024", "2024", "2024"]),
    ] {
        assert_eq!(values(text), expected, "{text}");
    }
}

#[test]
fn strings_and_lists_come_in_their_plain_forms() {
    let data_type = |text: &str| Expression::parse(text, &chunk().schema()).unwrap().data_type().clone();
    for text in [
        "substr(text, 2)",
        "text",
        "'x'",
        "CAST(n AS varchar)",
        "arrow_cast(text, 'Utf8View')",
        "split_part(text, 'g', 1)",
    ] {
        assert_eq!(data_type(text), DataType::Utf8, "{text}");
    }
    let texts = DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)));
    assert_eq!(data_type("string_to_array(text, ' ')"), texts);
    assert_eq!(data_type("make_array(text, arrow_cast(text, 'LargeUtf8'))"), texts);
}

#[test]
fn a_name_is_taken_from_as() {
    let name = |text: &str| Expression::parse(text, &chunk().schema()).unwrap().name().map(str::to_owned);
    assert_eq!(name("length(text) AS Letters"), Some("Letters".to_owned()));
    assert_eq!(name("length(text)"), None);
}

#[test]
fn what_is_no_function_of_a_row_is_refused() {
    insta::assert_snapshot!(refused("count(*) > 1"), @"`count` sums up many rows, but a step sees each example by itself");
    insta::assert_snapshot!(refused("row_number() OVER (ORDER BY n)"), @"it has a window (`OVER`), but a step sees each example by itself");
    insta::assert_snapshot!(refused("random() < 0.5"), @"`random` gives another value at another time, but a step depends on nothing but its examples");
    insta::assert_snapshot!(refused("now() > to_timestamp('2024-01-01')"), @"`now` gives another value at another time, but a step depends on nothing but its examples");
    insta::assert_snapshot!(refused("current_date = date '2024-01-01'"), @"`current_date` gives another value at another time, but a step depends on nothing but its examples");
    insta::assert_snapshot!(refused("uuid()"), @"`uuid` gives another value at another time, but a step depends on nothing but its examples");
    insta::assert_snapshot!(refused("n IN (SELECT 1)"), @"it has a subquery, but a step sees only the columns of its examples");
    insta::assert_snapshot!(refused("(SELECT max(n) FROM t) > 1"), @"it has a subquery, but a step sees only the columns of its examples");
    insta::assert_snapshot!(refused("unnest(make_array(1, 2))"), @"`unnest` makes many rows of one, which this step does not");
    insta::assert_snapshot!(refused("n > $1"), @"`$1` stands for a value that nobody gives");
    insta::assert_snapshot!(refused("*"), @"it cannot be read: expected: an expression, found: * at Line: 1, Column: 1");
    insta::assert_snapshot!(refused("@@version = 'x'"), @r#"variable ["@@version"] has no type information"#);
}

#[test]
fn mistakes_are_explained() {
    insta::assert_snapshot!(refused("lenght(text) > 3"), @"there is no function `lenght`; did you mean `length`?");
    insta::assert_snapshot!(refused("frobnicate(text)"), @"there is no function `frobnicate`");
    insta::assert_snapshot!(refused("texd = 'x'"), @"no column texd");
    insta::assert_snapshot!(refused("score > 1"), @"no column score");
    insta::assert_snapshot!(refused("t.text = 'x'"), @"no column t.text");
    insta::assert_snapshot!(refused("cardinality(n)"), @"the function `cardinality` does not take `Int64`");
    insta::assert_snapshot!(refused("ok > 3"), @"values of these types cannot be compared: `Boolean > Int64`");
    insta::assert_snapshot!(refused("n > 'many'"), @"cannot cast string 'many' to value of Int64 type");
    insta::assert_snapshot!(refused("text >"), @"it cannot be read: expected: an expression, found: EOF");
    insta::assert_snapshot!(refused("text = 'x' text"), @"it cannot be read: expected: end of expression, found: text at Line: 1, Column: 12");
    insta::assert_snapshot!(refused("text = 'x"), @"it cannot be read: unterminated string literal at Line: 1, Column: 8");
    insta::assert_snapshot!(refused("NULL"), @"it is null for every example; give it a type, as in `CAST(NULL AS varchar)`");
    insta::assert_snapshot!(refused(""), @"it cannot be read: expected: an expression, found: EOF");
    insta::assert_snapshot!(refused("SELECT 1"), @"it cannot be read: expected: end of expression, found: 1 at Line: 1, Column: 8");
    insta::assert_snapshot!(refused("length(text, 3)"), @"function 'character_length' expects 1 arguments but received 2");
    insta::assert_snapshot!(refused("make_array(1) > ok"), @"values of these types cannot be compared: `List(Int64) > Boolean`");
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
    let long = format!("text = '{}'", "x".repeat(MAX_TEXT_BYTES));
    insta::assert_snapshot!(refused(&long), @"it has 65545 bytes, and 65536 are allowed");
    let chain = |terms: usize| vec!["n <> 7"; terms].join(" AND ");
    insta::assert_snapshot!(refused(&chain(5000)), @"it is 5001 levels deep, and 200 are allowed; write a long chain of `OR` as `column IN (...)`, or halve a chain by parentheses");
    assert_eq!(values(&chain(150)), ["true", "true", "true"]);
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
