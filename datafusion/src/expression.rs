//! An SQL expression over the columns of examples: parsed and checked once, evaluated on chunk after chunk.
//!
//! ```text
//! "length(text) > 3 AND lang = 'en'"   over   text: string, lang: string   ->   bool
//! text: "abcd"  lang: "en"   ->   true        text: "abcd"  lang: null   ->   null
//! ```
//!
//! The value for a row depends on that row alone, however rows are cut into chunks. Whether there is one need not: the engine
//! may evaluate `10 / n` also for the rows that `n <> 0 AND 10 / n > 2` has decided already, so that a chunk fails by one
//! row. An error counts only if a row makes it by itself.
//!
//! Names of columns are those of the data, upper and lower case as they stand there; `"quoted"` if they are no words.

use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Fields, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, Volatility};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::prelude::SessionConfig;
use seqio_sql::{Mistake, SqlExpression};

use crate::words::{arrow_in_words, in_words, mistake};

/// Longer texts are no expressions that a person wrote.
const MAX_TEXT_BYTES: usize = 1 << 16;
/// Threads that evaluate have small stacks, and a level may take a few KiB of it.
const MAX_DEPTH: usize = 200;

/// An expression that fits the columns it was checked against.
#[derive(Debug)]
pub(crate) struct Expression {
    value: Arc<dyn PhysicalExpr>,
    data_type: DataType,
    name: Option<String>,
}

impl Expression {
    /// Reads an expression and checks it against columns. `AS name` at its end gives it a name.
    pub(crate) fn parse(text: &str, columns: &Schema) -> Result<Self, Mistake> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(Mistake::Other(format!(
                "it has {} bytes, and {MAX_TEXT_BYTES} are allowed",
                text.len()
            )));
        }
        plan(text, columns)
    }
}

impl SqlExpression for Expression {
    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn evaluate(&self, chunk: &RecordBatch) -> Result<ArrayRef, String> {
        let values = self.value.evaluate(chunk).map_err(|error| in_words(&error))?;
        let values = values.into_array(chunk.num_rows()).map_err(|error| in_words(&error))?;
        if *values.data_type() == self.data_type {
            return Ok(values);
        }
        let options = CastOptions { safe: false, ..CastOptions::default() };
        cast_with_options(&values, &self.data_type, &options).map_err(|error| arrow_in_words(&error))
    }
}

/// What names and functions mean. It is the same in every program.
fn state() -> &'static SessionState {
    static STATE: OnceLock<SessionState> = OnceLock::new();
    STATE.get_or_init(|| {
        let mut config = SessionConfig::new();
        let parser = &mut config.options_mut().sql_parser;
        parser.enable_ident_normalization = false;
        parser.map_string_types_to_utf8view = false;
        SessionStateBuilder::new().with_config(config).with_default_features().build()
    })
}

fn plan(text: &str, columns: &Schema) -> Result<Expression, Mistake> {
    let state = state();
    let schema = DFSchema::try_from(columns.clone()).map_err(explained)?;
    let dialect = state.config().options().sql_parser.dialect;
    let parsed = state.sql_to_expr_with_alias(text, &dialect).map_err(explained)?;
    if has_subquery(&parsed.expr) {
        return problem("it has a subquery, but a step sees only the columns of its examples");
    }
    let name = parsed.alias.as_ref().map(|alias| alias.value.clone());
    let expr = state.create_logical_expr_from_sql_expr(parsed, &schema).map_err(explained)?.unalias();
    let depth = depth(&expr);
    if depth > MAX_DEPTH {
        return problem(format!(
            "it is {depth} levels deep, and {MAX_DEPTH} are allowed; write a long chain of `OR` as `column IN (...)`, \
             or halve a chain by parentheses"
        ));
    }
    refuse(&expr)?;
    let context = SimplifyContext::builder()
        .with_schema(Arc::new(schema.clone()))
        .with_config_options(Arc::clone(state.config_options()))
        .build();
    let simplifier = ExprSimplifier::new(context);
    let expr = simplifier.coerce(expr, &schema).map_err(explained)?;
    let expr = simplifier.simplify(expr).map_err(explained)?;
    refuse_impossible_casts(&expr)?;
    let value = state.create_physical_expr(expr, &schema).map_err(explained)?;
    let value = value.transform_up(overflow_is_an_error).map_err(explained)?.data;
    let data_type = plain_type(&value.data_type(columns).map_err(explained)?);
    if data_type == DataType::Null {
        return problem("it is null for every example; give it a type, as in `CAST(NULL AS varchar)`");
    }
    Ok(Expression { value, data_type, name })
}

fn problem<T>(words: impl Into<String>) -> Result<T, Mistake> {
    Err(Mistake::Other(words.into()))
}

fn explained(error: DataFusionError) -> Mistake {
    mistake(&error)
}

fn has_subquery(expr: &datafusion::sql::sqlparser::ast::Expr) -> bool {
    use std::ops::ControlFlow;

    use datafusion::sql::sqlparser::ast::{Expr, visit_expressions};

    visit_expressions(expr, |expr| match expr {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// Levels of an expression, counted without recursion.
fn depth(expr: &Expr) -> usize {
    let mut deepest = 0;
    let mut open = vec![(expr, 1)];
    while let Some((expr, level)) = open.pop() {
        deepest = deepest.max(level);
        let children = expr.apply_children(|child| {
            open.push((child, level + 1));
            Ok(TreeNodeRecursion::Continue)
        });
        debug_assert!(children.is_ok(), "the closure never fails");
    }
    deepest
}

/// Refuses what is no function of a row's columns.
fn refuse(expr: &Expr) -> Result<(), Mistake> {
    let mut refused = None;
    let walked = expr.apply(|expr| {
        refused = reason_against(expr);
        Ok(if refused.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    walked.map_err(explained)?;
    refused.map_or(Ok(()), problem)
}

fn reason_against(expr: &Expr) -> Option<String> {
    let changing = |name: &str| {
        format!(
            "`{name}` gives another value at another time, but a step depends on nothing but its examples"
        )
    };
    match expr {
        Expr::AggregateFunction(function) => Some(format!(
            "`{}` sums up many rows, but a step sees each example by itself",
            function.func.name()
        )),
        Expr::WindowFunction(_) => {
            Some("it has a window (`OVER`), but a step sees each example by itself".to_owned())
        }
        Expr::ScalarFunction(function) => match function.func.signature().volatility {
            Volatility::Immutable => None,
            Volatility::Stable | Volatility::Volatile => Some(changing(function.func.name())),
        },
        Expr::HigherOrderFunction(function) => match function.func.signature().volatility {
            Volatility::Immutable => None,
            Volatility::Stable | Volatility::Volatile => Some(changing(function.func.name())),
        },
        Expr::ScalarVariable(_, names) => Some(changing(&names.join("."))),
        Expr::Placeholder(placeholder) => {
            Some(format!("`{}` stands for a value that nobody gives", placeholder.id))
        }
        Expr::Unnest(_) => Some("`unnest` makes many rows of one, which this step does not".to_owned()),
        Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) | Expr::ScalarSubquery(_) => {
            Some("it has a subquery, but a step sees only the columns of its examples".to_owned())
        }
        #[expect(deprecated, reason = "it can still be parsed")]
        Expr::Wildcard { .. } => Some("`*` stands for all columns; name one".to_owned()),
        Expr::OuterReferenceColumn(..) | Expr::GroupingSet(_) => {
            Some("it is no expression over the columns of one example".to_owned())
        }
        _ => None,
    }
}

/// A constant that has not become what it is cast to would fail on every row.
fn refuse_impossible_casts(expr: &Expr) -> Result<(), Mistake> {
    let mut refused = None;
    let walked = expr.apply(|expr| {
        if let Expr::Cast(Cast { expr: inner, field }) | Expr::TryCast(TryCast { expr: inner, field }) = expr
            && let Expr::Literal(literal, _) = inner.as_ref()
            && literal.cast_to(field.data_type()).is_err()
        {
            refused =
                Some(Mistake::NotOfType { value: literal.to_string(), data_type: field.data_type().clone() });
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map_err(explained)?;
    refused.map_or(Ok(()), Err)
}

/// The engine lets sums and products of whole numbers wrap around.
fn overflow_is_an_error(
    expr: Arc<dyn PhysicalExpr>,
) -> Result<Transformed<Arc<dyn PhysicalExpr>>, DataFusionError> {
    let Some(binary) = expr.downcast_ref::<BinaryExpr>() else { return Ok(Transformed::no(expr)) };
    if !binary.op().is_numerical_operators() {
        return Ok(Transformed::no(expr));
    }
    let (left, right) = (Arc::clone(binary.left()), Arc::clone(binary.right()));
    let checked = BinaryExpr::new(left, *binary.op(), right).with_fail_on_overflow(true);
    Ok(Transformed::yes(Arc::new(checked)))
}

/// A type as examples have it: strings and lists in their plain forms, dictionaries spelled out.
fn plain_type(data_type: &DataType) -> DataType {
    let plain = |field: &Field| Field::new(field.name(), plain_type(field.data_type()), field.is_nullable());
    match data_type {
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => {
            DataType::List(Arc::new(Field::new_list_field(plain_type(item.data_type()), true)))
        }
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|field| plain(field)).collect::<Fields>())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
