//! `seqio plan`: what a run will be, from lengths alone.

use std::io::Write as _;

use seqio::{Horizon, StreamPlan};

use crate::args::PlanArgs;
use crate::format::{amount, count, counted, percent};
use crate::interrupt::Interrupt;
use crate::output::{Align, Out, Table};
use crate::session::{Session, Wanted};
use crate::shape;

/// Runs the command.
pub(crate) fn run(session: &Session, args: &PlanArgs, out: &mut Out) -> anyhow::Result<()> {
    let interrupt = Interrupt::listen()?;
    let data = &args.data;
    let wanted = Wanted { task: data.task.as_deref(), cache: data.cache.as_deref(), split: &data.split };
    let opened = session.open(wanted, &args.build, &interrupt, out.notes())?;
    interrupt.release();
    let mut config = shape::config(&opened.task, opened.split.name(), &args.shape, args.batch_size)?;
    config.threads = args.build.threads.map(|threads| threads as usize);
    let horizon = match (args.steps, config.epochs) {
        (Some(steps), _) => Horizon::Steps(steps),
        (None, epochs) => Horizon::Epochs(epochs.unwrap_or(1)),
    };
    let dataset = shape::dataset(&opened, config)?;
    let plan = dataset.plan(horizon)?;
    if args.json.wanted {
        return out.json(&plan);
    }
    print(&plan, out)
}

/// Prints a plan.
fn print(plan: &StreamPlan, out: &mut Out) -> anyhow::Result<()> {
    let mut table = Table::new([("", Align::Left), ("", Align::Right), ("", Align::Left)]);
    let mut line = |name: &str, number: String, remark: String| table.row([name.to_owned(), number, remark]);
    line("steps", count(plan.steps), String::new());
    line(
        "rows",
        count(plan.rows),
        match plan.remainder {
            0 => String::new(),
            rows => format!("{} at the end do not fill a batch", count(rows)),
        },
    );
    line("epochs", format!("{:.2}", plan.epochs), format!("of {}", counted(plan.examples, "example")));
    line("windows", count(plan.windows), format!("of {}", counted(plan.window, "example")));
    for (feature, tokens) in &plan.tokens {
        let fill = plan.fill.get(feature).copied().unwrap_or(0.0);
        line(
            &format!("tokens of {feature}"),
            count(*tokens),
            format!("rows are {} full", percent(fill, 1.0)),
        );
    }
    let counts = &plan.counts;
    let tokens: u64 = plan.tokens.values().sum();
    let of_tokens = |part: u64| {
        format!("{} of the tokens", percent(part as f64, (tokens + counts.dropped_tokens) as f64))
    };
    line(
        "examples cut in pieces",
        count(counts.split_items),
        format!("{} tokens in further pieces", amount(counts.cut_tokens as f64)),
    );
    line("examples trimmed", count(counts.trimmed_items), String::new());
    line("tokens dropped", count(counts.dropped_tokens), of_tokens(counts.dropped_tokens));
    line("empty examples", count(counts.empty_items), String::new());
    let paint = out.paint;
    table.write(out, paint, 0)?;
    if let Some(window) = plan.proposed_window {
        writeln!(out, "\nrows would be fuller with `--window {window}`")?;
    }
    Ok(())
}
