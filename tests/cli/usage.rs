//! Help, mistakes on the command line, and readers that go away.

use std::process::Stdio;

use std::process::Command;

use crate::support::Project;

#[test]
fn help_teaches_with_examples() {
    let project = Project::empty();
    insta::assert_snapshot!("help", project.seqio("--help").ok().out());
    for command in [
        "init",
        "reference",
        "schema",
        "completions",
        "man",
        "list",
        "explain",
        "inspect",
        "stats",
        "cache build",
        "cache finish",
        "cache list",
        "cache explain",
        "cache verify",
        "cache convert",
        "cache remove",
        "stream",
        "plan",
        "batch",
        "find",
        "query",
        "bench cache",
        "bench infeed",
    ] {
        let help = project.seqio(&format!("{command} --help")).ok().out();
        insta::assert_snapshot!(format!("help {command}").replace(' ', "_"), help);
    }
}

#[test]
fn a_mistyped_command_gets_the_nearest_and_exit_code_2() {
    let message = Project::empty().seqio("strem docs").fails(2);
    insta::assert_snapshot!(message, @r"
    error: unrecognized subcommand 'strem'

      tip: some similar subcommands exist: 'schema', 'stream'

    Usage: seqio [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
}

#[test]
fn a_senseless_value_says_what_to_write() {
    let project = Project::empty();
    let message = project.seqio("stream docs --batch-size 8 --lengths targets=many").fails(2);
    insta::assert_snapshot!(message, @r"
    error: invalid value 'targets=many' for '--lengths <LENGTHS>': `targets=many` is no length; write it as `targets=2048`

    For more information, try '--help'.
    ");
    let message = project.seqio("stream docs --batch-size 0 --lengths 8").fails(2);
    insta::assert_snapshot!(message, @r"
    error: invalid value '0' for '--batch-size <B>': 0 is not in 1..=4294967295

    For more information, try '--help'.
    ");
    let message = project.seqio("cache build docs --memory lots").fails(2);
    insta::assert_snapshot!(message, @r"
    error: invalid value 'lots' for '--memory <SIZE>': `lots` is no unit of bytes; write it as `512MiB`, `2GiB` or `500MB`

    For more information, try '--help'.
    ");
}

#[test]
fn help_into_a_closed_pipe_ends_quietly() {
    let project = Project::empty();
    let mut child = project.command("stream --help").stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ran = project.ended(child);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
}

/// What a person sees: the program with a terminal for its output.
fn on_a_terminal(project: &Project, line: &str, no_colour: bool) -> String {
    let mut script = Command::new("script");
    script.args(["-qec", &format!("{} {line}", env!("CARGO_BIN_EXE_seqio")), "/dev/null"]);
    script
        .current_dir(project.path(""))
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .env_remove("SEQIO_CACHE_DIR");
    if no_colour {
        script.env("NO_COLOR", "1");
    }
    script.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    project.run(&mut script).ok().out()
}

#[test]
fn a_terminal_gets_colour_unless_no_color_is_set() {
    let project = Project::new();
    assert!(on_a_terminal(&project, "inspect docs -n 1", false).contains("\u{1b}[1mexample 0\u{1b}[0m"));
    assert!(!on_a_terminal(&project, "inspect docs -n 1", true).contains('\u{1b}'));
}

#[test]
fn help_and_complaints_are_coloured_as_the_rest() {
    let project = Project::new();
    let coloured = |line: &str, variables: &[(&str, &str)]| {
        let ran = project.run(project.command(line).envs(variables.iter().copied()));
        ran.out().contains('\u{1b}') || ran.err().contains('\u{1b}')
    };
    for line in ["--help", "stream --help", "strem", "inspect docs -n 1", "explain dosc", "list"] {
        assert!(!coloured(line, &[]), "`{line}` is coloured in a pipe");
        assert!(coloured(line, &[("CLICOLOR_FORCE", "1")]), "`{line}` is not coloured although it is forced");
        assert!(!coloured(line, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]), "`{line}` is coloured");
        assert!(
            !coloured(&format!("{line} --color=never"), &[("CLICOLOR_FORCE", "1")]),
            "`{line}` is coloured"
        );
        assert!(
            coloured(&format!("--color always {line}"), &[("NO_COLOR", "1")]),
            "`{line}` is not coloured"
        );
    }
}

#[test]
fn a_bar_has_no_colour_if_no_color_is_set() {
    let project = Project::new();
    let shown = on_a_terminal(&project, "cache build docs --split train", true);
    assert!(shown.contains("docs train encoding"), "{shown}");
    assert!(!shown.contains("\u{1b}[36m") && !shown.contains("\u{1b}[2m"), "{shown:?}");
    let shown = on_a_terminal(&project, "--help", false);
    assert!(shown.contains('\u{1b}'));
    assert!(!on_a_terminal(&project, "--help", true).contains('\u{1b}'));
}

#[test]
fn a_terminal_gets_a_bar_while_a_cache_is_built_and_a_quiet_run_none() {
    let project = Project::new();
    let shown = on_a_terminal(&project, "cache build docs --split train", false);
    assert!(shown.contains("docs train encoding") && shown.contains("files"), "{shown}");
    let quiet = on_a_terminal(&project, "cache build pairs --quiet", false);
    assert!(!quiet.contains("encoding"), "{quiet}");
}

#[test]
fn an_arrow_stream_is_not_written_to_a_terminal() {
    let project = Project::new();
    let mut script = Command::new("script");
    let line = "stream docs --batch-size 2 --lengths 32 --steps 1 --format arrow";
    script.args(["-qec", &format!("{} {line}", env!("CARGO_BIN_EXE_seqio")), "/dev/null"]);
    script.current_dir(project.path("")).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ran = project.run(&mut script);
    assert_eq!(ran.code, Some(2));
    assert!(ran.out().contains("an Arrow stream is not for a terminal"), "{}", ran.out());
}
