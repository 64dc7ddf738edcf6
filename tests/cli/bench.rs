//! `seqio bench`.

use crate::support::{Project, files_below};

#[test]
fn caching_is_measured_beside_the_bare_encoder_and_leaves_nothing_behind() {
    let project = Project::new();
    let report = project.seqio("bench cache docs --threads 1 --json").ok().json();
    assert_eq!(report["examples"], 60);
    // The bare encoder does not append EOS, the cache does.
    let tokens = |side: &str| report[side]["tokens"].as_u64().unwrap();
    assert_eq!(tokens("cache"), tokens("bare_encoder") + 60);
    assert!(report["ratio"].as_f64().unwrap() > 0.0);
    assert!(files_below(&project.path("seqio-cache")).is_empty());
    let text = project.seqio("bench cache docs --limit 1KiB").ok().out();
    assert!(text.contains("cache / bare encoder: "), "{text}");
}

#[test]
fn streaming_is_measured_beside_memcpy() {
    let project = Project::new();
    let report = project.seqio("bench infeed docs --batch-size 4 --lengths 96 --steps 50 --json").ok().json();
    assert_eq!(report["steps"], 50);
    assert_eq!(report["rows"], 200);
    assert!(report["tokens"].as_u64().unwrap() <= report["places"].as_u64().unwrap());
    assert!(report["memcpy_bytes_per_second"].as_f64().unwrap() > 0.0);
    let text = project.seqio("bench infeed docs --batch-size 4 --lengths 96 --steps 5").ok().out();
    assert!(text.contains("tokens a CPU second"), "{text}");
}
