//! The commands, one a file.

mod adapters;
mod batch;
mod bench_cache;
mod bench_infeed;
mod cache;
mod cache_explain;
mod completions;
mod explain;
mod find;
mod init;
pub(crate) mod inspect;
mod list;
mod man;
mod plan;
mod query;
mod reference;
mod stats;
mod stream;
mod train;

use crate::args::{Arguments, BenchCommand, Command};
use crate::output::Out;
use crate::session::Session;

/// Runs a command.
pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<()> {
    let session = Session::new(arguments.global);
    match arguments.command {
        Command::Init(args) => init::run(&args, out),
        Command::List(args) => list::run(&session, &args, out),
        Command::Explain(args) => explain::run(&session, &args, out),
        Command::Inspect(args) => inspect::run(&session, &args, out),
        Command::Stats(args) => stats::run(&session, &args, out),
        Command::Cache(command) => cache::run(&session, &command, out),
        Command::Stream(args) => stream::run(&session, &args, out),
        Command::Plan(args) => plan::run(&session, &args, out),
        Command::Batch(args) => batch::run(&session, &args, out),
        Command::Query(args) => query::run(&session, &args, out),
        Command::Find(args) => find::run(&session, &args, out),
        Command::Bench(BenchCommand::Cache(args)) => bench_cache::run(&session, &args, out),
        Command::Bench(BenchCommand::Infeed(args)) => bench_infeed::run(&session, &args, out),
        Command::Train(args) => train::run(&session, &args, out),
        Command::Adapters(args) => adapters::run(&args, out),
        Command::Reference(args) => reference::run(&args, out),
        Command::Schema(_) => reference::schema(out),
        Command::Completions(args) => completions::run(&args, out),
        Command::Man(args) => man::run(&args, out),
    }
}
