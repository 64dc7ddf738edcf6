//! What the order of rows may decide in the query of a source: nothing.
//!
//! A query gives a set of rows; the source sorts them by their key. What picks or numbers rows on the way there needs an
//! order that the data decide:
//!
//! ```text
//! LIMIT 10                            refused: which ten?
//! ORDER BY score LIMIT 10             rows of equal score are told apart by their other columns
//! row_number() OVER (ORDER BY d)      likewise; without ORDER BY refused
//! array_agg(x), string_agg(x, ',')    refused; array_agg(x ORDER BY d) breaks ties by x
//! sum(f), avg(n) of floats            one partition, in the order of the files, nothing spilled
//! ```
//!
//! Rows that are equal in all columns are the same row twice, so that after this it makes no difference how an operator
//! breaks ties.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{DFSchema, Result as EngineResult};
use datafusion::logical_expr::expr::{AggregateFunction, Sort, WindowFunction};
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, ExprSchemable as _, LogicalPlan, Sort as SortPlan, Window,
    WindowFrameUnits, WindowFunctionDefinition,
};
use seqio_sql::SqlError;

use crate::error::{into_engine, of_engine};
use crate::review::Reviewed;

/// Aggregates whose value depends on the order of rows.
const OF_AN_ORDER: [&str; 6] =
    ["array_agg", "string_agg", "first_value", "last_value", "nth_value", "any_value"];
/// Aggregates that give the same value for floats in any order.
const OF_NO_ORDER: [&str; 13] = [
    "min",
    "max",
    "count",
    "median",
    "percentile_cont",
    "quantile_cont",
    "bool_and",
    "bool_or",
    "bit_and",
    "bit_or",
    "bit_xor",
    "approx_distinct",
    "grouping",
];
/// Window functions that give peers the same value.
const FOR_PEERS: [&str; 4] = ["rank", "dense_rank", "percent_rank", "cume_dist"];

/// Makes a plan independent of the order of rows, or says why that cannot be.
pub(crate) fn settled(plan: LogicalPlan) -> Result<Reviewed, SqlError> {
    let mut is_order_sensitive = false;
    let plan = plan
        .transform_up_with_subqueries(|node| settle(node, &mut is_order_sensitive))
        .map_err(of_engine)?
        .data;
    Ok(Reviewed { plan, is_order_sensitive })
}

fn refuse<T>(problem: impl Into<String>) -> EngineResult<T> {
    Err(into_engine(SqlError::query(problem)))
}

fn settle(node: LogicalPlan, is_order_sensitive: &mut bool) -> EngineResult<Transformed<LogicalPlan>> {
    Ok(match node {
        LogicalPlan::Limit(mut limit) => match sorted(&limit.input)? {
            Some(input) => {
                limit.input = Arc::new(input);
                Transformed::yes(LogicalPlan::Limit(limit))
            }
            None => {
                return refuse(
                    "LIMIT or OFFSET without ORDER BY takes any rows; add `ORDER BY`, or take a part with a slice, \
                     as `train[:1%]`",
                );
            }
        },
        LogicalPlan::Distinct(Distinct::On(mut distinct)) => {
            let Some(order) = distinct.sort_expr.take() else {
                return refuse("DISTINCT ON without ORDER BY takes any row of several; add `ORDER BY`");
            };
            let order = broken_ties(order, distinct.input.schema())?;
            let DistinctOn { on_expr, select_expr, input, .. } = distinct;
            let distinct = DistinctOn::try_new(on_expr, select_expr, Some(order), input)?;
            Transformed::yes(LogicalPlan::Distinct(Distinct::On(distinct)))
        }
        LogicalPlan::Aggregate(aggregate) => {
            let schema = Arc::clone(aggregate.input.schema());
            let mut changed = false;
            let mut expressions = Vec::with_capacity(aggregate.aggr_expr.len());
            for expression in aggregate.aggr_expr {
                let named = settle_calls(expression, &schema, is_order_sensitive)?;
                changed |= named.transformed;
                expressions.push(named.data);
            }
            let aggregate = Aggregate::try_new_with_schema(
                aggregate.input,
                aggregate.group_expr,
                expressions,
                aggregate.schema,
            )?;
            let aggregate = LogicalPlan::Aggregate(aggregate);
            if changed { Transformed::yes(aggregate) } else { Transformed::no(aggregate) }
        }
        LogicalPlan::Window(window) => {
            let schema = Arc::clone(window.input.schema());
            let (mut settled, mut as_they_are) = (Vec::new(), Vec::new());
            for expression in &window.window_expr {
                let named = settle_calls(expression.clone(), &schema, is_order_sensitive)?;
                if named.transformed { settled.push(named.data) } else { as_they_are.push(named.data) }
            }
            if settled.is_empty() {
                return Ok(Transformed::no(LogicalPlan::Window(window)));
            }
            // The functions of one operator have one order.
            let mut input = window.input;
            if !as_they_are.is_empty() {
                input = Arc::new(LogicalPlan::Window(Window::try_new(as_they_are, input)?));
            }
            Transformed::yes(LogicalPlan::Window(Window::try_new(settled, input)?))
        }
        other => Transformed::no(other),
    })
}

/// The plan with the ties of its ORDER BY broken, if it has one on top.
fn sorted(plan: &LogicalPlan) -> EngineResult<Option<LogicalPlan>> {
    match plan {
        LogicalPlan::Sort(sort) => {
            let expr = broken_ties(sort.expr.clone(), sort.input.schema())?;
            Ok(Some(LogicalPlan::Sort(SortPlan { expr, ..sort.clone() })))
        }
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Limit(_) => {
            let inputs = plan.inputs();
            let Some(input) = inputs.first().map(|input| sorted(input)).transpose()?.flatten() else {
                return Ok(None);
            };
            plan.with_new_exprs(plan.expressions(), vec![input]).map(Some)
        }
        _ => Ok(None),
    }
}

/// An order with all columns behind it.
fn broken_ties(mut order: Vec<Sort>, schema: &DFSchema) -> EngineResult<Vec<Sort>> {
    for (qualifier, field) in schema.iter() {
        let column = Expr::from((qualifier, field));
        if order.iter().any(|sort| sort.expr == column) {
            continue;
        }
        if !has_order(field.data_type()) {
            return refuse(format!(
                "rows that are equal in ORDER BY cannot be told apart by column `{}`, whose type is {}; leave it out of \
                 what is ordered",
                field.name(),
                field.data_type()
            ));
        }
        order.push(column.sort(true, true));
    }
    Ok(order)
}

fn has_order(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) => has_order(item.data_type()),
        DataType::Struct(_) | DataType::Map(..) | DataType::Union(..) => false,
        _ => true,
    }
}

/// Settles the aggregates and windows of an expression, perhaps inside of an alias, under the name it had: operators
/// above name it by what it was called.
fn settle_calls(
    expression: Expr,
    schema: &DFSchema,
    is_order_sensitive: &mut bool,
) -> EngineResult<Transformed<Expr>> {
    let name = expression.schema_name().to_string();
    let settled = expression.transform_up(|part| match part {
        Expr::AggregateFunction(call) => settle_aggregate(call, schema, is_order_sensitive),
        Expr::WindowFunction(call) => settle_window(*call, schema, is_order_sensitive),
        other => Ok(Transformed::no(other)),
    })?;
    if !settled.transformed || settled.data.schema_name().to_string() == name {
        return Ok(settled);
    }
    Ok(Transformed::yes(settled.data.alias(name)))
}

fn settle_aggregate(
    mut call: AggregateFunction,
    schema: &DFSchema,
    is_order_sensitive: &mut bool,
) -> EngineResult<Transformed<Expr>> {
    let name = call.func.name().to_owned();
    if OF_AN_ORDER.contains(&name.as_str()) {
        if call.params.order_by.is_empty() {
            return refuse(format!(
                "`{name}` without ORDER BY takes rows as they come; write `{name}(… ORDER BY …)`"
            ));
        }
        *is_order_sensitive = true;
        let before = call.params.order_by.len();
        // An engine takes DISTINCT only with the order of the arguments, which has no ties.
        if !call.params.distinct {
            for argument in &call.params.args {
                let is_constant = matches!(argument, Expr::Literal(..));
                if !is_constant && call.params.order_by.iter().all(|sort| sort.expr != *argument) {
                    call.params.order_by.push(argument.clone().sort(true, true));
                }
            }
        }
        let changed = call.params.order_by.len() > before;
        let call = Expr::AggregateFunction(call);
        return Ok(if changed { Transformed::yes(call) } else { Transformed::no(call) });
    }
    if !OF_NO_ORDER.contains(&name.as_str()) {
        let expression = Expr::AggregateFunction(call.clone());
        let mut types = vec![expression.get_type(schema)?];
        for argument in &call.params.args {
            types.push(argument.get_type(schema)?);
        }
        *is_order_sensitive |= types.iter().any(DataType::is_floating);
    }
    Ok(Transformed::no(Expr::AggregateFunction(call)))
}

fn settle_window(
    mut call: WindowFunction,
    schema: &DFSchema,
    is_order_sensitive: &mut bool,
) -> EngineResult<Transformed<Expr>> {
    let name = call.fun.name().to_owned();
    let is_aggregate = matches!(call.fun, WindowFunctionDefinition::AggregateUDF(_));
    let frame = &call.params.window_frame;
    let is_whole = frame.start_bound.is_unbounded() && frame.end_bound.is_unbounded();
    let by_rows = frame.units == WindowFrameUnits::Rows && !is_whole;
    let mut sums_floats = false;
    if is_aggregate && !OF_NO_ORDER.contains(&name.as_str()) && !OF_AN_ORDER.contains(&name.as_str()) {
        for argument in &call.params.args {
            sums_floats |= argument.get_type(schema)?.is_floating();
        }
        sums_floats |= Expr::from(call.clone()).get_type(schema)?.is_floating();
    }
    if sums_floats && !by_rows && !is_whole {
        return refuse(format!(
            "`{name}` of floats over a window that takes equal rows together depends on their order; write `ROWS BETWEEN \
             … AND …`, or cast what it sums to decimal"
        ));
    }
    *is_order_sensitive |= sums_floats;
    let for_peers = FOR_PEERS.contains(&name.as_str())
        || (is_aggregate && !by_rows && !OF_AN_ORDER.contains(&name.as_str()));
    if for_peers {
        return Ok(Transformed::no(Expr::from(call)));
    }
    if call.params.order_by.is_empty() {
        return refuse(format!(
            "`{name}` over a window without ORDER BY takes rows as they come; write `OVER (… ORDER BY …)`"
        ));
    }
    call.params.order_by = broken_ties(call.params.order_by, schema)?;
    Ok(Transformed::yes(Expr::from(call)))
}
