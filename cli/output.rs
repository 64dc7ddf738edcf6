//! What the program writes and how it looks: results on standard output, messages on standard error, colour only where
//! a person sees it.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::os::fd::AsFd as _;

use anyhow::Context as _;
use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;

use crate::args::Colour;

/// How a piece of text stands out on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Names and headings.
    Strong,
    /// What matters less: padding, units.
    Faint,
    /// The word `error:`.
    Error,
    /// The word `hint:`.
    Hint,
    /// The word `note:`.
    Note,
    /// Segment `n` of a packed row: neighbours differ.
    Segment(i32),
}

/// Whether text may be coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paint {
    colour: bool,
}

impl Paint {
    /// Colour as asked; by itself as the environment says ([`wanted_by_environment`]), else only for a terminal.
    pub(crate) fn new(choice: Colour, terminal: bool) -> Self {
        Self {
            colour: match choice {
                Colour::Always => true,
                Colour::Never => false,
                Colour::Auto => wanted_by_environment(|name| std::env::var_os(name)).unwrap_or(terminal),
            },
        }
    }

    /// Whether text is coloured.
    pub(crate) fn is_on(self) -> bool {
        self.colour
    }

    /// No colour.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self { colour: false }
    }

    /// `text` in a style.
    pub(crate) fn text(self, style: Style, text: impl Display) -> String {
        const SEGMENTS: [&str; 6] = ["36", "33", "35", "32", "34", "31"];
        if !self.colour {
            return text.to_string();
        }
        let code = match style {
            Style::Strong => "1",
            Style::Faint => "2",
            Style::Error => "1;31",
            Style::Hint => "1;36",
            Style::Note => "1;33",
            Style::Segment(number) => SEGMENTS[(number.max(1) - 1) as usize % SEGMENTS.len()],
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// What the environment says of colour: `NO_COLOR` (not empty) refuses it, `CLICOLOR_FORCE` (not `0`) wants it also in a
/// pipe, `CLICOLOR=0` and a `dumb` terminal refuse it; in this order.
fn wanted_by_environment(variable: impl Fn(&str) -> Option<OsString>) -> Option<bool> {
    let is = |name: &str, test: fn(&OsString) -> bool| variable(name).is_some_and(|value| test(&value));
    if is("NO_COLOR", |value| !value.is_empty()) {
        return Some(false);
    }
    if is("CLICOLOR_FORCE", |value| !value.is_empty() && value != "0") {
        return Some(true);
    }
    (is("CLICOLOR", |value| value == "0") || is("TERM", |value| value == "dumb")).then_some(false)
}

/// Where results and messages go.
#[derive(Debug)]
pub(crate) struct Out {
    stdout: BufWriter<File>,
    /// Whether a person sees standard output.
    pub(crate) terminal: bool,
    /// Colour for standard output.
    pub(crate) paint: Paint,
    notes: Notes,
}

/// Tells the person what is no result, on standard error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notes {
    /// Colour for standard error.
    pub(crate) paint: Paint,
    /// Whether nothing but errors is told.
    pub(crate) quiet: bool,
}

impl Notes {
    /// Without colour.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self { paint: Paint::plain(), quiet: false }
    }

    /// Tells something.
    pub(crate) fn note(self, message: impl Display) {
        if !self.quiet {
            write_stderr(&format!("{} {message}\n", self.paint.text(Style::Note, "note:")));
        }
    }
}

impl Out {
    /// Takes hold of standard output. It is written through its own buffer, not line by line: streams are large.
    pub(crate) fn new(colour: Colour, quiet: bool) -> anyhow::Result<Self> {
        let handle = io::stdout().as_fd().try_clone_to_owned().context("cannot write to standard output")?;
        let terminal = io::stdout().is_terminal();
        Ok(Self {
            stdout: BufWriter::with_capacity(1 << 16, File::from(handle)),
            terminal,
            paint: Paint::new(colour, terminal),
            notes: Notes { paint: Paint::new(colour, io::stderr().is_terminal()), quiet },
        })
    }

    /// Prints a value as JSON: indented for a person, one line for a program.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        match self.terminal {
            true => serde_json::to_writer_pretty(&mut *self, value).map_err(io::Error::from)?,
            false => serde_json::to_writer(&mut *self, value).map_err(io::Error::from)?,
        }
        Ok(writeln!(self)?)
    }

    /// Where to tell things that are no results; independent of what is being written.
    pub(crate) fn notes(&self) -> Notes {
        self.notes
    }

    /// Width to wrap at: the terminal's, else 100.
    pub(crate) fn width(&self) -> usize {
        let size = rustix::termios::tcgetwinsize(self.stdout.get_ref()).ok();
        size.map(|size| usize::from(size.ws_col)).filter(|width| *width >= 40).unwrap_or(100)
    }

    /// Whether standard output is a plain file, which a stream without end would fill.
    pub(crate) fn is_regular_file(&self) -> bool {
        self.stdout.get_ref().metadata().is_ok_and(|metadata| metadata.is_file())
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stdout.write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stdout.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }
}

/// Writes to standard error. If that fails there is nobody left to tell.
pub(crate) fn write_stderr(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Columns that line up. Cells are text; numbers stand at the right.
#[derive(Debug)]
pub(crate) struct Table {
    header: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

/// Where a column's cells stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

impl Table {
    /// A table with these columns.
    pub(crate) fn new<const N: usize>(header: [(&str, Align); N]) -> Self {
        Self { header: header.map(|(name, align)| (name.to_owned(), align)).into(), rows: Vec::new() }
    }

    /// Adds a row; missing cells are empty.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// Whether it has no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes it, each line after `indent` blanks.
    pub(crate) fn write(&self, out: &mut dyn Write, paint: Paint, indent: usize) -> io::Result<()> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.width()).chain([self.header[column].0.width()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        let header: Vec<String> = self.header.iter().map(|(name, _)| name.clone()).collect();
        let with_header = header.iter().any(|name| !name.is_empty());
        for (place, row) in with_header.then_some(&header).into_iter().chain(&self.rows).enumerate() {
            let columns = self.header.iter().zip(&widths).enumerate();
            let cell = |column: usize| row.get(column).map_or("", String::as_str);
            let cells = columns.map(|(column, ((_, align), &width))| (cell(column), width, *align));
            let line = aligned(" ".repeat(indent), cells);
            match with_header && place == 0 {
                true => writeln!(out, "{}", paint.text(Style::Faint, line))?,
                false => writeln!(out, "{line}")?,
            }
        }
        Ok(())
    }
}

/// A line of cells, each with the width and side of its column, after what the line begins with.
pub(crate) fn aligned<'a>(begin: String, cells: impl Iterator<Item = (&'a str, usize, Align)>) -> String {
    let mut line = begin;
    for (cell, width, align) in cells {
        let room = " ".repeat(width.saturating_sub(cell.width()));
        match align {
            Align::Left => line.extend([cell, &room]),
            Align::Right => line.extend([room.as_str(), cell]),
        }
        line.push_str("  ");
    }
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_also_with_wide_characters() {
        let mut table = Table::new([("task", Align::Left), ("tokens", Align::Right)]);
        table.row(["docs".into(), "1,234".into()]);
        table.row(["日本".into(), "7".into()]);
        let mut text = Vec::new();
        table.write(&mut text, Paint::plain(), 2).unwrap();
        insta::assert_snapshot!(String::from_utf8(text).unwrap(), @r"
          task  tokens
          docs   1,234
          日本       7
        ");
    }

    #[test]
    fn the_environment_decides_on_colour_in_a_fixed_order() {
        let with = |set: &[(&str, &str)]| {
            wanted_by_environment(|name| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
            })
        };
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[("NO_COLOR", "")]), None, "an empty NO_COLOR says nothing");
        assert_eq!(with(&[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")]), Some(false));
        assert_eq!(with(&[("CLICOLOR_FORCE", "1"), ("TERM", "dumb")]), Some(true));
        assert_eq!(with(&[("CLICOLOR_FORCE", "0")]), None);
        assert_eq!(with(&[("CLICOLOR", "0")]), Some(false));
        assert_eq!(with(&[("CLICOLOR", "1")]), None);
        assert_eq!(with(&[("TERM", "dumb")]), Some(false));
    }

    #[test]
    fn colour_is_for_terminals_unless_asked_otherwise() {
        assert_eq!(Paint::new(Colour::Auto, false).text(Style::Error, "error:"), "error:");
        assert_eq!(Paint::new(Colour::Always, false).text(Style::Error, "error:"), "\x1b[1;31merror:\x1b[0m");
        assert_eq!(Paint::new(Colour::Never, true).text(Style::Error, "error:"), "error:");
    }
}
