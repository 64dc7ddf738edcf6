//! The commands, one a file.

use crate::args::{Arguments, Command};
use crate::output::Out;

/// Runs a command.
pub(crate) fn run(arguments: Arguments, _out: &mut Out) -> anyhow::Result<()> {
    match arguments.command {
        _ => anyhow::bail!("not yet"),
    }
}
