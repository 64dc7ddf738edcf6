//! The laws of steps on random rows.

use proptest::prelude::*;

#[cfg(feature = "sql")]
use crate::preprocess::Filter;
use crate::preprocess::{
    AppendEos, AppendEosAfterTrim, Format, Preprocessor, Rekey, Select, StepContext, Trim,
};
use crate::testing::{assert_step_laws, context, text_examples, token_examples};

fn sequences() -> impl Strategy<Value = Vec<Vec<i32>>> {
    prop::collection::vec(prop::collection::vec(0..259i32, 0..7), 0..6)
}

fn texts() -> impl Strategy<Value = Vec<(Option<String>, Option<String>)>> {
    prop::collection::vec((prop::option::of(".{0,6}"), prop::option::of("[a-c{}]{0,4}")), 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn steps_that_edit_sequences_obey_the_laws(
        sequences in sequences(),
        length in prop::option::of(1..9usize),
        add_eos: bool,
    ) {
        let mut ctx = context("targets", Some(1));
        ctx.lengths.extend(length.map(|length| ("targets".to_owned(), length)));
        ctx.output_features.values_mut().for_each(|feature| feature.add_eos = add_eos);
        let input = token_examples("targets", sequences);
        let steps: [&dyn Preprocessor; 3] = [&AppendEos::default(), &AppendEosAfterTrim::default(), &Trim::default()];
        for step in steps {
            assert_step_laws(step, &ctx, &input);
        }
    }

    #[test]
    fn steps_on_text_obey_the_laws(rows in texts()) {
        let a: Vec<Option<&str>> = rows.iter().map(|(a, _)| a.as_deref()).collect();
        let b: Vec<Option<&str>> = rows.iter().map(|(_, b)| b.as_deref()).collect();
        let input = text_examples(&[("a", &a), ("b", &b)]);
        let format = Format::new([("b", "{{{b}}}: {a}"), ("c", "")]);
        let rekey = Rekey::new([("x", "a"), ("y", "a"), ("z", "")]);
        assert_step_laws(&format, &StepContext::default(), &input);
        assert_step_laws(&rekey, &StepContext::default(), &input);
        assert_step_laws(&Select::new(["b"]), &StepContext::default(), &input);
    }

    #[test]
    #[cfg(feature = "sql")]
    fn steps_with_expressions_obey_the_laws(
        rows in texts(),
        condition in prop::sample::select(vec![
            "a < b", "length(a) > 2 AND b <> ''", "a IS NULL OR 6 / length(a) > 1", "b LIKE '%a%' OR a IS NULL",
            "length(b) = 0 OR 4 / length(b) > 1", "substr(a, 1, 1) IN ('a', 'b')", "coalesce(a, b) = b",
        ]),
    ) {
        let a: Vec<Option<&str>> = rows.iter().map(|(a, _)| a.as_deref().filter(|a| !a.is_empty())).collect();
        let b: Vec<Option<&str>> = rows.iter().map(|(_, b)| b.as_deref()).collect();
        let input = text_examples(&[("a", &a), ("b", &b)]);
        let format = Format::new([("c", "{a}{b}")]).compute([("a", "coalesce(a, b)"), ("n", "length(b) * 2")]);
        let select = Select::new(["b", "upper(a) AS a", "string_to_array(b, 'a') AS parts"]);
        let steps: [&dyn Preprocessor; 3] = [&Filter::new(condition), &format, &select];
        for step in steps {
            assert_step_laws(step, &StepContext::default(), &input);
        }
    }
}
