//! `seqio adapters`.

use crate::support::Project;

#[test]
fn adapters_are_listed_with_their_limits_and_the_processor_comes_last() {
    let project = Project::empty();
    let listed = project.seqio("adapters").ok().out();
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[0].starts_with("adapter  type"), "{listed}");
    assert!(lines.iter().any(|line| line.starts_with("0 ")), "{listed}");
    assert!(lines.iter().any(|line| line.starts_with("cpu ")), "{listed}");

    let all = project.seqio("adapters --json").ok().json();
    let first = &all[0];
    assert_eq!(first["adapter"], "0");
    assert!(first["max_binding_bytes"].as_u64().unwrap() >= 1 << 20, "{first}");
    assert!(first["workgroup_invocations"].as_u64().unwrap() >= 1, "{first}");
    let last = all.as_array().unwrap().last().unwrap();
    assert_eq!(last["adapter"], "cpu");
    assert!(last["threads"].as_u64().unwrap() >= 1);
}

/// A back end that this system cannot have.
#[test]
fn without_any_adapter_the_processor_is_still_there_and_the_package_is_named() {
    let project = Project::empty();
    let mut command = project.command("adapters");
    let ran = project.run(command.env("WGPU_BACKEND", "metal"));
    assert!(ran.out().lines().any(|line| line.starts_with("cpu ")), "{ran:?}");
    insta::assert_snapshot!(ran.fails(1), @r#"
    error: this machine shows no adapter to wgpu

    hint: install a Vulkan driver (Debian: `apt install mesa-vulkan-drivers` gives one that runs on any processor), or choose `adapter = "cpu"`, which needs none
    "#);
}
