//! The `seqio` program: parse, run, report, exit code.

mod args;
mod build;
mod command;
mod duplicates;
mod format;
mod histogram;
mod interrupt;
mod measure;
mod model_row;
mod output;
mod progress;
#[cfg(feature = "sql")]
mod query;
mod report;
mod session;
mod shape;
mod tokens;
mod value;
mod write;

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::Parser as _;

use crate::args::Arguments;
use crate::output::{Out, Paint, write_stderr};

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version come this way too; if nobody reads them, that is no error.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { report::EXIT_USAGE } else { report::EXIT_OK });
        }
    };
    let colour = arguments.global.color;
    let done = Out::new(colour, arguments.global.quiet).and_then(|mut out| {
        command::run(arguments, &mut out)?;
        Ok(out.flush()?)
    });
    match done {
        Ok(()) => ExitCode::from(report::EXIT_OK),
        Err(error) => {
            let paint = Paint::new(colour, std::io::stderr().is_terminal());
            if let Some(text) = report::text(&error, paint) {
                write_stderr(&text);
            }
            report::exit_code(&error)
        }
    }
}
