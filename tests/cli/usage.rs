//! Help, mistakes on the command line, and readers that go away.

use std::process::Stdio;

use crate::support::Project;

#[test]
fn help_teaches_with_examples() {
    let project = Project::empty();
    insta::assert_snapshot!("help", project.seqio("--help").ok().out());
    for command in [
        "list",
        "explain",
        "inspect",
        "stats",
        "cache build",
        "cache list",
        "cache verify",
        "cache remove",
        "stream",
        "plan",
        "batch",
        "find",
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

      tip: a similar subcommand exists: 'stream'

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
