//! The guide for the first hour does what it says.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::Project;

#[test]
fn every_command_of_the_guide_runs_and_prints_what_it_shows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_BIN_EXE_seqio")).parent().unwrap();
    let mut python = Command::new("python3");
    python
        .arg(root.join("tests/tools/run_guide.py"))
        .arg(root.join("docs/guide.md"))
        .arg("--path")
        .arg(program);
    python.stdout(Stdio::piped()).stderr(Stdio::piped());
    let ran = Project::empty().run(&mut python).ok();
    assert!(ran.out().contains("2 left out, 0 print something else"), "{}", ran.out());
}
