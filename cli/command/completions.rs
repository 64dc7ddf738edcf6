//! `seqio completions`: scripts for shells, from the same definitions as `--help`. Where a command takes the name of a
//! task, bash, fish and zsh ask `seqio list --names`.

use std::io::Write as _;

use clap::{Command, CommandFactory as _};
use clap_complete::{Shell, generate};

use crate::args::{Arguments, CompletionsArgs};
use crate::output::Out;

/// Runs the command.
pub(crate) fn run(args: &CompletionsArgs, out: &mut Out) -> anyhow::Result<()> {
    Ok(out.write_all(script(args.shell).as_bytes())?)
}

fn script(shell: Shell) -> String {
    let mut root = Arguments::command();
    let mut script = Vec::new();
    generate(shell, &mut root, "seqio", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    root.build();
    match shell {
        Shell::Bash => bash(&script, &root),
        Shell::Fish => fish(&script, &root),
        Shell::Zsh => zsh(&script),
        _ => script,
    }
}

/// The commands that take names of tasks, each as its words: `["cache", "build"]`.
fn commands_with_tasks(command: &Command) -> Vec<Vec<&str>> {
    let mut found = Vec::new();
    for child in command.get_subcommands().filter(|child| child.get_name() != "help") {
        let takes_task = child.get_positionals().any(|argument| {
            argument.get_value_names().is_some_and(|names| names.iter().any(|name| name == "TASK"))
        });
        if takes_task {
            found.push(vec![child.get_name()]);
        }
        for inner in commands_with_tasks(child) {
            found.push([vec![child.get_name()], inner].concat());
        }
    }
    found
}

/// The options after which a value follows, of all commands.
fn options_with_values(command: &Command) -> Vec<String> {
    let own = command.get_opts().filter(|option| !option.is_require_equals_set()).flat_map(|option| {
        let long = option.get_long().map(|long| format!("--{long}"));
        long.into_iter().chain(option.get_short().map(|short| format!("-{short}")))
    });
    let mut all: Vec<String> = own.chain(command.get_subcommands().flat_map(options_with_values)).collect();
    all.sort();
    all.dedup();
    all
}

fn bash(script: &str, root: &Command) -> String {
    let commands: Vec<String> =
        commands_with_tasks(root).iter().map(|words| format!("\"{}\"", words.join(" "))).collect();
    let groups: Vec<&str> = root
        .get_subcommands()
        .filter(|child| child.get_subcommands().next().is_some())
        .map(Command::get_name)
        .collect();
    let own = BASH
        .replace("@OPTIONS@", &options_with_values(root).join("|"))
        .replace("@GROUPS@", &groups.join("|"))
        .replace("@COMMANDS@", &commands.join("|"));
    format!("{}{own}", script.replace("complete -F _seqio ", "complete -F _seqio_and_tasks "))
}

const BASH: &str = r#"
# What the command line offers, and names of tasks where a command takes one.
_seqio_and_tasks() {
    _seqio "$@"
    local word command="" value="" files=() i
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ -n $value ]]; then
            [[ $value == -f || $value == --file ]] && files+=(-f "${word/#\~/$HOME}")
            value=""
            continue
        fi
        case $word in
            @OPTIONS@) value=$word ;;
            -*) ;;
            *) [[ -z $command || $command =~ ^(@GROUPS@)$ ]] && command+=${command:+ }$word ;;
        esac
    done
    [[ -n $value || ${COMP_WORDS[COMP_CWORD]} == -* ]] && return 0
    case $command in
        @COMMANDS@)
            COMPREPLY+=($(compgen -W "$(seqio "${files[@]}" list --names 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
            ;;
    esac
}
"#;

fn fish(script: &str, root: &Command) -> String {
    let mut own = FISH.to_owned();
    for words in commands_with_tasks(root) {
        let condition = match words.as_slice() {
            [command] => format!("__fish_seqio_using_subcommand {command}"),
            [group, rest @ ..] => {
                format!(
                    "__fish_seqio_using_subcommand {group}; and __fish_seen_subcommand_from {}",
                    rest.join(" ")
                )
            }
            [] => continue,
        };
        own.push_str(&format!("complete -c seqio -n \"{condition}\" -a \"(__fish_seqio_tasks)\" -d Task\n"));
    }
    format!("{script}{own}")
}

const FISH: &str = r#"
# Names of tasks, where a command takes one.
function __fish_seqio_tasks
    set -l files
    set -l words (commandline -opc)
    for i in (seq (count $words))
        if contains -- $words[$i] -f --file
            set -a files -f $words[(math $i + 1)]
        end
    end
    seqio $files list --names 2>/dev/null
end
"#;

/// Arguments called `task` or `tasks` are completed by a function of ours.
fn zsh(script: &str) -> String {
    let line = |line: &str| {
        let is_task = [":task -- ", "::task -- ", "*::tasks -- "]
            .iter()
            .any(|start| line.trim_start_matches('\'').starts_with(start));
        match is_task {
            true => line.replace(":_default'", ":_seqio_tasks'"),
            false => line.to_owned(),
        }
    };
    let script: String = script.lines().map(|text| line(text) + "\n").collect();
    match script.rsplit_once("\nif [ \"$funcstack[1]\"") {
        Some((before, end)) => format!("{before}\n{ZSH}\nif [ \"$funcstack[1]\"{end}"),
        None => script,
    }
}

const ZSH: &str = r#"# Names of tasks, where a command takes one.
_seqio_tasks() {
    local -a words_of_line files names
    words_of_line=(${(z)BUFFER})
    local i
    for ((i = 1; i < ${#words_of_line}; i++)); do
        [[ ${words_of_line[i]} == (-f|--file) ]] && files+=(-f ${(Q)~words_of_line[i+1]})
    done
    names=(${(f)"$(seqio $files list --names 2>/dev/null)"})
    compadd -a names
}
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_take_tasks_are_known_from_the_command_line() {
        let mut root = Arguments::command();
        root.build();
        let commands: Vec<String> = commands_with_tasks(&root).iter().map(|words| words.join(" ")).collect();
        for command in ["explain", "inspect", "cache build", "cache verify", "bench infeed", "find"] {
            assert!(commands.contains(&command.to_owned()), "{command}: {commands:?}");
        }
        assert!(!commands.contains(&"list".to_owned()));
        let options = options_with_values(&root);
        assert!(options.contains(&"--lengths".to_owned()) && options.contains(&"-f".to_owned()));
        assert!(!options.contains(&"--json".to_owned()) && !options.contains(&"--digest".to_owned()));
    }

    #[test]
    fn scripts_ask_for_the_names_of_tasks() {
        for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
            assert!(script(shell).contains("list --names"), "{shell}");
        }
        assert!(script(Shell::Zsh).matches(":_seqio_tasks'").count() > 5);
        assert!(script(Shell::Bash).contains("complete -F _seqio_and_tasks"));
        assert!(!script(Shell::PowerShell).is_empty() && !script(Shell::Elvish).is_empty());
    }
}
