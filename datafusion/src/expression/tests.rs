//! Values, refusals and mistakes.

use arrow::array::{Array as _, BooleanArray, Float64Array, Int64Array, StringArray};

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
    let values = expression.evaluate(&chunk()).unwrap_or_else(|failure| panic!("{text}: {failure}"));
    assert_eq!(values.data_type(), expression.data_type());
    let shown = arrow::util::display::array_value_to_string;
    (0..values.len())
        .map(|row| if values.is_null(row) { "null".to_owned() } else { shown(&values, row).unwrap() })
        .collect()
}

fn refused(text: &str) -> String {
    match Expression::parse(text, &chunk().schema()) {
        Err(Mistake::Other(words)) => words,
        Err(Mistake::NoColumn { column, .. }) => format!("no column {}", column.whole),
        Err(Mistake::NoFunction { name, .. }) => format!("no function {name}"),
        Err(mistake) => format!("{mistake:?}"),
        Ok(expression) => panic!("{text} is accepted: {expression:?}"),
    }
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
fn the_function_that_the_engine_would_take_instead_is_known() {
    let mistake = Expression::parse("lenght(text) > 3", &chunk().schema()).unwrap_err();
    let instead = Some("length".to_owned());
    assert_eq!(mistake, Mistake::NoFunction { name: "lenght".to_owned(), instead });
}

#[test]
fn mistakes_are_explained() {
    insta::assert_snapshot!(refused("lenght(text) > 3"), @"no function lenght");
    insta::assert_snapshot!(refused("frobnicate(text)"), @"no function frobnicate");
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
