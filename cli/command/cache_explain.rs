//! `seqio cache explain`: why a cache does or does not match, in words.

use std::io::Write as _;

use seqio::Split;
use seqio_cache::{CacheExplanation, ExplainedCache};

use crate::args::CacheExplainArgs;
use crate::format::counted;
use crate::output::Out;
use crate::session::{Session, check_split};

/// Runs the command.
pub(crate) fn run(session: &Session, args: &CacheExplainArgs, out: &mut Out) -> anyhow::Result<()> {
    let task = session.registry()?.task(&args.task)?;
    let splits: Vec<Split> =
        args.splits.iter().map(|text| Ok(text.parse()?)).collect::<anyhow::Result<_>>()?;
    splits.iter().try_for_each(|split| check_split(&task, split))?;
    let explanation = session.cache_dir().explain(&task, &splits)?;
    match args.json.wanted {
        true => out.json(&explanation),
        false => print(&explanation, out),
    }
}

fn print(explanation: &CacheExplanation, out: &mut Out) -> anyhow::Result<()> {
    let (task, fingerprint) = (&explanation.task, &explanation.cache_fingerprint[..16]);
    writeln!(out, "task `{task}`, cache fingerprint {fingerprint}")?;
    for split in &explanation.splits {
        let state = match (split.up_to_date, split.caches.len()) {
            (true, _) => "is cached and up to date".to_owned(),
            (false, 0) => format!("has no cache; `seqio cache build {task}` makes one"),
            (false, caches) => {
                format!("is out of date; {} of it would not be used", counted(caches as u64, "cache"))
            }
        };
        writeln!(out, "\nsplit `{}` {state}", split.split)?;
        split.caches.iter().try_for_each(|cache| print_cache(cache, out))?;
    }
    for build in &explanation.unfinished {
        let state = match (build.matches, build.running) {
            (_, true) => "a job of this machine is building it".to_owned(),
            (true, false) => {
                format!("an unfinished build of this definition; `seqio cache build {task}` goes on with it")
            }
            (false, false) => "an unfinished build of another definition".to_owned(),
        };
        writeln!(out, "\n{}: {state}", build.folder.display())?;
    }
    for cache in &explanation.unreadable {
        writeln!(out, "\n{}: cannot be read: {}", cache.folder.display(), cache.problem)?;
    }
    Ok(())
}

fn print_cache(cache: &ExplainedCache, out: &mut Out) -> anyhow::Result<()> {
    let verdict = match (cache.matches, cache.sources_absent) {
        (true, false) => "matches",
        (true, true) => "matches; the sources are away and were not compared",
        (false, _) => "does not match:",
    };
    let form = if cache.compression.is_none() { "" } else { ", compressed" };
    let examples = counted(cache.examples, "example");
    writeln!(out, "  {} ({examples}{form}) {verdict}", cache.folder.display())?;
    for difference in &cache.definition {
        writeln!(out, "    definition: {}", difference.words)?;
    }
    for change in &cache.sources {
        writeln!(out, "    source: {}", change.words())?;
    }
    if !cache.matches && cache.sources_absent {
        writeln!(out, "    the sources are away and were not compared")?;
    }
    Ok(())
}
