//! `seqio explain`: the path of a task from source to features, before any data is read.

use std::io::Write as _;

use crate::args::ExplainArgs;
use crate::output::Out;
use crate::report::usage;
use crate::session::Session;
use crate::value::LengthList;

/// Runs the command.
pub(crate) fn run(session: &Session, args: &ExplainArgs, out: &mut Out) -> anyhow::Result<()> {
    let task = session.registry()?.task(&args.task)?;
    let features: Vec<String> = task.features().keys().cloned().collect();
    let lengths = LengthList::resolve(&args.lengths, &features).map_err(usage)?;
    let explanation = seqio::explain(&task, &lengths);
    if args.json.wanted {
        return out.json(&explanation);
    }
    Ok(write!(out, "{explanation}")?)
}
