//! The `seqio` program: parse, run, report, exit code.

mod args;
mod build;
mod command;
mod duplicates;
mod format;
mod histogram;
mod interrupt;
mod loss;
mod measure;
mod mesh_report;
mod model_row;
mod output;
mod progress;
#[cfg(feature = "sql")]
mod query;
mod report;
mod run_data;
mod session;
mod shape;
mod timeline;
mod tokens;
mod train_progress;
mod value;
mod write;

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::{ColorChoice, CommandFactory as _, FromArgMatches as _, ValueEnum as _};

use crate::args::{Arguments, Colour};
use crate::output::{Out, Paint, write_stderr};

/// Reads the command line. Help and complaints about it are coloured as the rest.
fn parse() -> Result<Arguments, clap::Error> {
    let words: Vec<std::ffi::OsString> = std::env::args_os().collect();
    let with = |terminal| Paint::new(asked_colour(&words), terminal).is_on();
    let colour = match (with(true), with(false)) {
        (false, _) => ColorChoice::Never,
        (true, true) => ColorChoice::Always,
        (true, false) => ColorChoice::Auto,
    };
    let matches = Arguments::command().color(colour).try_get_matches_from(words)?;
    Arguments::from_arg_matches(&matches)
}

/// `--color`, wherever it stands: a command line that makes no sense may ask for it too.
fn asked_colour(words: &[std::ffi::OsString]) -> Colour {
    let words = words.iter().filter_map(|word| word.to_str());
    let values = words
        .clone()
        .zip(words.clone().skip(1))
        .filter(|(word, _)| *word == "--color")
        .map(|(_, value)| value);
    let joined = words.filter_map(|word| word.strip_prefix("--color="));
    values.chain(joined).find_map(|value| Colour::from_str(value, true).ok()).unwrap_or(Colour::Auto)
}

/// Keeps to itself what a reader of other people's says in a panic that becomes an error in words.
fn quiet_caught_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !seqio::panics_are_caught() {
            print(panic);
        }
    }));
}

fn main() -> ExitCode {
    #[cfg(feature = "sql")]
    seqio_datafusion::install();
    quiet_caught_panics();
    let arguments = match parse() {
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
