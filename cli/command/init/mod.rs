//! `seqio init`: a small project that runs as it stands, or a task file for files that are there already.
//!
//! ```text
//! first-steps/seqio.toml  README.md  .gitignore  data/train.jsonl  data/validation.jsonl
//! ```

mod from;

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::args::InitArgs;
use crate::output::{Out, Style};
use crate::report::{WithHint as _, usage};

/// A file to be written.
struct NewFile {
    /// Below the folder of the project.
    name: &'static str,
    content: String,
    /// Whether the project is whole without ours: a file of this name is then left as it is.
    is_extra: bool,
}

impl NewFile {
    fn new(name: &'static str, content: impl Into<String>) -> Self {
        Self { name, content: content.into(), is_extra: false }
    }

    fn extra(name: &'static str, content: impl Into<String>) -> Self {
        Self { is_extra: true, ..Self::new(name, content) }
    }
}

/// Runs the command.
pub(crate) fn run(args: &InitArgs, out: &mut Out) -> anyhow::Result<()> {
    check_name(&args.task)?;
    let (files, found) = match args.from.as_slice() {
        [] => (project(&args.task), Vec::new()),
        from => {
            let made = from::task_file(args, from)?;
            (vec![NewFile::new("seqio.toml", made.text), gitignore()], made.found)
        }
    };
    let written = write(&args.folder, &files, out)?;
    for path in written {
        writeln!(out, "wrote {}", path.strip_prefix(".").unwrap_or(&path).display())?;
    }
    for line in found {
        writeln!(out, "{line}")?;
    }
    print_next(args, out)
}

fn check_name(name: &str) -> anyhow::Result<()> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.chars().all(is_good) {
        return Ok(());
    }
    Err(usage(format!("`{name}` is no name for a task: letters, digits, `_` and `-` make one")))
}

fn gitignore() -> NewFile {
    NewFile::extra(".gitignore", include_str!("project/gitignore"))
}

fn project(task: &str) -> Vec<NewFile> {
    let named = |text: &str| match task {
        "docs" => text.to_owned(),
        task => text
            .replace("[task.docs]", &format!("[task.{task}]"))
            .replace("inspect docs", &format!("inspect {task}"))
            .replace("explain docs", &format!("explain {task}"))
            .replace("build docs", &format!("build {task}"))
            .replace("stream docs", &format!("stream {task}"))
            .replace("`docs`", &format!("`{task}`")),
    };
    vec![
        NewFile::new("seqio.toml", named(include_str!("project/seqio.toml"))),
        NewFile::new("data/train.jsonl", include_str!("project/data/train.jsonl")),
        NewFile::new("data/validation.jsonl", include_str!("project/data/validation.jsonl")),
        NewFile::extra("README.md", named(include_str!("project/README.md"))),
        gitignore(),
    ]
}

/// Writes the files, all or none, and never over one that is there. Gives the paths of those written.
fn write(folder: &Path, files: &[NewFile], out: &Out) -> anyhow::Result<Vec<PathBuf>> {
    let is_there = |file: &NewFile| folder.join(file.name).symlink_metadata().is_ok();
    let in_the_way: Vec<&str> =
        files.iter().filter(|file| !file.is_extra && is_there(file)).map(|file| file.name).collect();
    if !in_the_way.is_empty() {
        let verb = if in_the_way.len() == 1 { "exists" } else { "exist" };
        let problem = anyhow::anyhow!(
            "{} {verb} already in `{}`; nothing was written",
            seqio::quoted(&in_the_way),
            folder.display()
        );
        return Err(problem)
            .hint(|| "choose another folder, or move what is there out of the way".to_owned());
    }
    if folder.symlink_metadata().is_ok() && !folder.is_dir() {
        anyhow::bail!("`{}` is not a folder", folder.display());
    }
    let mut written = Vec::new();
    for file in files {
        let path = folder.join(file.name);
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent)
            .with_context(|| format!("cannot make the folder `{}`", parent.display()))?;
        // Only a file that is new: between the look above and now one may have come.
        let created = std::fs::File::create_new(&path);
        match created {
            Ok(mut to) => to
                .write_all(file.content.as_bytes())
                .with_context(|| format!("cannot write `{}`", path.display()))?,
            Err(error) if error.kind() == ErrorKind::AlreadyExists && file.is_extra => {
                let words = match file.name {
                    ".gitignore" => "there already and left as it is; let it name `seqio-cache/`",
                    _ => "there already and left as it is",
                };
                out.notes().note(format!("{} is {words}", path.display()));
                continue;
            }
            Err(error) => return Err(error).with_context(|| format!("cannot write `{}`", path.display())),
        }
        written.push(path);
    }
    Ok(written)
}

fn print_next(args: &InitArgs, out: &mut Out) -> anyhow::Result<()> {
    let task = &args.task;
    writeln!(out, "\n{}", out.paint.text(Style::Strong, "next:"))?;
    if args.folder != Path::new(".") {
        writeln!(out, "  cd {}", shell_word(&args.folder.display().to_string()))?;
    }
    writeln!(out, "  seqio inspect {task}")?;
    writeln!(out, "  seqio cache build {task}")?;
    Ok(writeln!(out, "  seqio stream {task} --batch-size 4 --lengths 256 --steps 2")?)
}

/// A word as a shell reads it.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_follows_the_name_of_its_task() {
        let files = project("books");
        let all: String = files.iter().map(|file| file.content.as_str()).collect();
        assert!(all.contains("[task.books]") && all.contains("seqio inspect books"));
        assert!(!all.contains("inspect docs") && !all.contains("[task.docs]"));
    }

    #[test]
    fn words_are_quoted_where_a_shell_would_read_more_into_them() {
        assert_eq!(shell_word("first-steps/a.b"), "first-steps/a.b");
        assert_eq!(shell_word("it's here"), r"'it'\''s here'");
    }

    #[test]
    fn names_that_need_quotes_in_toml_are_refused() {
        assert!(check_name("docs-2").is_ok());
        assert!(["", "a b", "team:docs", "é"].iter().all(|name| check_name(name).is_err()));
    }
}
