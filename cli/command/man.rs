//! `seqio man`: manual pages from the same words as `--help`.

use std::io::{self, Write};

use anyhow::Context as _;
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

use crate::args::{Arguments, ManArgs};
use crate::output::Out;
use crate::report::usage;

/// Runs the command.
pub(crate) fn run(args: &ManArgs, out: &mut Out) -> anyhow::Result<()> {
    let root = root();
    if let Some(folder) = &args.dir {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder `{}`", folder.display()))?;
        let mut pages = 0;
        for command in every_command(&root) {
            let path = folder.join(format!("{}.1", page_name(command)));
            let mut page = Vec::new();
            write_page(command, &mut page)?;
            std::fs::write(&path, page).with_context(|| format!("cannot write `{}`", path.display()))?;
            pages += 1;
        }
        writeln!(out, "{pages} pages in {}", folder.display())?;
        return Ok(());
    }
    let mut command = &root;
    for word in &args.command {
        command = command.find_subcommand(word).ok_or_else(|| no_such_command(command, word))?;
    }
    Ok(write_page(command, out)?)
}

/// The command line, with what commands take everywhere in each of them.
fn root() -> Command {
    let mut root = Arguments::command().disable_help_subcommand(true);
    root.build();
    root
}

fn no_such_command(parent: &Command, word: &str) -> anyhow::Error {
    let names: Vec<&str> = parent.get_subcommands().map(Command::get_name).collect();
    let near = match seqio::nearest(word, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.is_empty() => format!("`{}` has no commands of its own", parent.get_name()),
        None => format!("there are {}", seqio::quoted(&names)),
    };
    usage(format!("there is no command `{word}`; {near}"))
}

/// A command and those below it.
fn every_command(root: &Command) -> Vec<&Command> {
    let below = root.get_subcommands().filter(|command| !command.is_hide_set()).flat_map(every_command);
    std::iter::once(root).chain(below).collect()
}

/// `seqio-cache-build`.
fn page_name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn write_page(command: &Command, to: &mut dyn Write) -> io::Result<()> {
    let version = format!("seqio {}", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone().version(env!("CARGO_PKG_VERSION"))).source(version).manual("seqio");
    man.render_title(to)?;
    man.render_name_section(to)?;
    man.render_synopsis_section(to)?;
    man.render_description_section(to)?;
    let sections = sections(&command.get_after_help().map(ToString::to_string).unwrap_or_default());
    for section in sections.iter().filter(|section| section.title.is_none()) {
        section.write(to)?;
    }
    if command.get_subcommands().next().is_some() {
        man.render_subcommands_section(to)?;
    }
    man.render_options_section(to)?;
    for section in sections.iter().filter(|section| section.title.is_some()) {
        section.write(to)?;
    }
    if !command.get_name().is_empty() && page_name(command) != "seqio" {
        write!(to, ".SH \"SEE ALSO\"\n.BR seqio (1)\n")?;
    }
    Ok(())
}

/// Some lines of the text after `--help`.
#[derive(Debug, Default, PartialEq)]
struct Section {
    /// `Examples`, from a line `Examples:`; text before the first such line has none.
    title: Option<String>,
    /// As they stand.
    lines: Vec<String>,
}

/// Cuts the text after `--help` at lines such as `Examples:`.
fn sections(text: &str) -> Vec<Section> {
    let mut sections = vec![Section::default()];
    for line in text.lines() {
        let title = line.strip_suffix(':').filter(|title| title.len() < 24 && !title.starts_with(' '));
        match (title, line.split_once(": ")) {
            (Some(title), _) => sections.push(Section { title: Some(title.to_owned()), lines: Vec::new() }),
            // `Exit codes: 0 done, …`
            (None, Some((title, rest)))
                if title.len() < 16
                    && !title.contains(['`', ','])
                    && line.starts_with(char::is_uppercase) =>
            {
                sections.push(Section { title: Some(title.to_owned()), lines: vec![rest.to_owned()] });
            }
            _ => sections.last_mut().expect("there is a first section").lines.push(line.to_owned()),
        }
    }
    for section in &mut sections {
        while section.lines.last().is_some_and(String::is_empty) {
            section.lines.pop();
        }
    }
    sections.retain(|section| !section.lines.is_empty());
    sections
}

impl Section {
    /// Indented lines stay as they are; others flow.
    fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        match &self.title {
            Some(title) => writeln!(to, ".SH \"{}\"", title.to_uppercase())?,
            None => writeln!(to, ".PP")?,
        }
        let mut kept = false;
        for line in &self.lines {
            let keep = line.starts_with(' ');
            match (kept, keep) {
                (false, true) => writeln!(to, ".PP\n.nf")?,
                (true, false) => writeln!(to, ".fi\n.PP")?,
                _ if line.is_empty() => writeln!(to, ".PP")?,
                _ => {}
            }
            kept = keep;
            if !line.is_empty() {
                writeln!(to, "{}", escaped(line.strip_prefix("  ").unwrap_or(line)))?;
            }
        }
        if kept {
            writeln!(to, ".fi")?;
        }
        Ok(())
    }
}

/// Text in which roff sees nothing of its own.
fn escaped(line: &str) -> String {
    let text = line.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_after_help_becomes_sections() {
        let text =
            "Words before.\n\nFormats:\n  jsonl   a line\n\nExamples:\n  seqio list\n\nExit codes: 0 done.";
        let section = |title: Option<&str>, line: &str| Section {
            title: title.map(str::to_owned),
            lines: vec![line.to_owned()],
        };
        assert_eq!(
            sections(text),
            [
                section(None, "Words before."),
                section(Some("Formats"), "  jsonl   a line"),
                section(Some("Examples"), "  seqio list"),
                section(Some("Exit codes"), "0 done."),
            ]
        );
    }

    #[test]
    fn lines_that_roff_would_read_are_escaped() {
        assert_eq!(escaped(".a -b \\"), "\\&.a \\-b \\e");
    }

    #[test]
    fn every_command_has_a_page_of_its_own() {
        let root = root();
        let mut names: Vec<&str> = every_command(&root).into_iter().map(page_name).collect();
        assert!(names.contains(&"seqio") && names.contains(&"seqio-cache-build"), "{names:?}");
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
