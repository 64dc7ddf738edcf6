//! What a query may say, and what is made of its plan before it runs.

use datafusion::common::DataFusionError;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility, WindowFunctionDefinition};
use seqio_sql::{Rules, SqlError};

use crate::error::of_engine;
use crate::order::settled;

/// A plan that may be run.
pub(crate) struct Reviewed {
    pub(crate) plan: LogicalPlan,
    /// Whether results depend on the order in which operators get their rows, so that nothing may be spilled.
    pub(crate) is_order_sensitive: bool,
}

/// Makes a plan obey the rules, or says why it cannot.
pub(crate) fn review(plan: LogicalPlan, rules: Rules) -> Result<Reviewed, SqlError> {
    match rules {
        Rules::Any => Ok(Reviewed { plan, is_order_sensitive: false }),
        Rules::Reproducible => {
            refuse_volatile(&plan)?;
            check_nodes(&plan)?;
            refuse_placeholders(&plan)?;
            settled(plan)
        }
    }
}

/// Refuses functions whose value changes from one run to the next, anywhere in a plan.
fn refuse_volatile(plan: &LogicalPlan) -> Result<(), SqlError> {
    let mut refused = None;
    let walked = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            refused = refused.take().or_else(|| volatile_function(expression));
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if refused.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    walked.map_err(of_engine)?;
    match refused {
        Some(name) => Err(SqlError::query(format!(
            "`{name}` gives another value in each run, so that rows could not be made again; leave it out or write \
             the value itself"
        ))),
        None => Ok(()),
    }
}

/// The name of a function in an expression that is not a function of its arguments alone.
fn volatile_function(expression: &Expr) -> Option<String> {
    let mut found = None;
    let _ = expression.apply(|part| {
        let (name, volatility) = match part {
            Expr::ScalarFunction(call) => (call.func.name(), call.func.signature().volatility),
            Expr::AggregateFunction(call) => (call.func.name(), call.func.signature().volatility),
            Expr::WindowFunction(call) => match &call.fun {
                WindowFunctionDefinition::AggregateUDF(function) => {
                    (function.name(), function.signature().volatility)
                }
                WindowFunctionDefinition::WindowUDF(function) => {
                    (function.name(), function.signature().volatility)
                }
            },
            Expr::ScalarVariable(_, names) => {
                found = Some(names.join("."));
                return Ok(TreeNodeRecursion::Stop);
            }
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        if volatility == Volatility::Immutable {
            return Ok(TreeNodeRecursion::Continue);
        }
        found = Some(name.to_owned());
        Ok::<_, DataFusionError>(TreeNodeRecursion::Stop)
    });
    found
}

/// Refuses what is no reading of tables.
fn check_nodes(plan: &LogicalPlan) -> Result<(), SqlError> {
    let mut refused = None;
    let walked = plan.apply_with_subqueries(|node| {
        let word = match node {
            LogicalPlan::Ddl(_) | LogicalPlan::Dml(_) | LogicalPlan::Copy(_) => "writes something",
            LogicalPlan::Statement(_) => "changes settings",
            LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) | LogicalPlan::DescribeTable(_) => {
                "explains something"
            }
            LogicalPlan::Extension(_) => "is of an unknown kind",
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        refused = Some(word);
        Ok(TreeNodeRecursion::Stop)
    });
    walked.map_err(of_engine)?;
    match refused {
        Some(word) => Err(SqlError::query(format!("a query is one SELECT, and a part of this one {word}"))),
        None => Ok(()),
    }
}

/// Refuses `$1`, which nothing fills.
fn refuse_placeholders(plan: &LogicalPlan) -> Result<(), SqlError> {
    let mut found = None;
    let walked = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                if let Expr::Placeholder(placeholder) = part {
                    found = Some(placeholder.id.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    walked.map_err(of_engine)?;
    match found {
        Some(name) => Err(SqlError::query(format!(
            "`{name}` stands for a value that nothing gives; write the value itself"
        ))),
        None => Ok(()),
    }
}
