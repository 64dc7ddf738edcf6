//! What ranks did when in a step, as a Chrome trace: ui.perfetto.dev and chrome://tracing show it, a row for each rank.
//!
//! ```text
//! rank 0 (data 0, model 0)   | compute          | decoder/layers_0/mlp:all_reduce | compute …
//!                                               | copy | wait | copy |
//! rank 1 (data 0, model 1)   | compute   | decoder/layers_0/mlp:all_reduce        | compute …
//!                                        | copy | wait        | copy |
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{bail, ensure};
use seqio_trainer::mesh::{Mesh, Span, SpanKind};
use serde::Serialize;

use crate::format::{duration, percent};
use crate::report::{WithHint as _, usage};
use crate::write::{Durable, write_atomically};

/// The step of a start that is shown: the first two compile and warm up.
pub(crate) const STEP: u64 = 3;

/// The process that rows belong to. Perfetto has meanings of its own for 0, here and among threads.
const PROCESS: u64 = 1;

/// Where the timeline of a run goes.
#[derive(Debug)]
pub(crate) struct Timeline {
    path: PathBuf,
    /// Of each row.
    names: Vec<String>,
    /// What it came to, in words, once it is written.
    told: Option<String>,
}

/// The file.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Trace {
    trace_events: Vec<Event>,
    display_time_unit: &'static str,
}

/// What tracing calls an event: here a name of a row, or a span.
#[derive(Serialize)]
struct Event {
    name: String,
    ph: char,
    pid: u64,
    tid: u64,
    #[serde(flatten)]
    span: Option<Times>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    args: BTreeMap<&'static str, String>,
}

/// When a span begins and how long it is, in microseconds.
#[derive(Serialize)]
struct Times {
    cat: &'static str,
    ts: f64,
    dur: f64,
}

impl Timeline {
    /// A timeline of ranks that run on these places, to be written there.
    pub(crate) fn new(path: &Path, mesh: Mesh, places: &[String]) -> anyhow::Result<Self> {
        if places.len() < 2 {
            let refused: anyhow::Result<()> =
                Err(usage("`--timeline` shows what several ranks do when, but this run has only one"));
            refused.hint(|| "spread the run over several, as by `--set mesh.model=2`".to_owned())?;
        }
        // Better now than after three steps.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            bail!("cannot write `{}`: there is no folder `{}`", path.display(), folder.display());
        }
        ensure!(!path.is_dir(), "cannot write `{}`: it is a folder", path.display());
        let name = |(rank, place): (usize, &String)| {
            let (data, model) = mesh.coordinates(rank);
            format!("rank {rank} (data {data}, model {model}), {place}")
        };
        Ok(Self { path: path.to_owned(), names: places.iter().enumerate().map(name).collect(), told: None })
    }

    /// Writes a step.
    pub(crate) fn write(&mut self, step: u64, spans: &[Span]) -> anyhow::Result<()> {
        let trace = trace(step, &self.names, spans);
        write_atomically(&self.path, &serde_json::to_vec(&trace)?, Durable::No)?;
        self.told =
            Some(format!("{}; `{}` shows it in ui.perfetto.dev", summary(step, spans), self.path.display()));
        Ok(())
    }

    /// What came of it, in words.
    pub(crate) fn told(&self) -> String {
        self.told.clone().unwrap_or_else(|| {
            format!("the run ended before step {STEP} of this start, so that there is no timeline")
        })
    }
}

/// What ranks did in all, in words.
fn summary(step: u64, spans: &[Span]) -> String {
    let (start, end) = bounds(spans);
    let ranks = spans.iter().map(|span| span.rank).max().map_or(1, |last| last + 1);
    let share = |kind| {
        let of_kind = spans.iter().filter(|span| span.kind == kind);
        let seconds: f64 = of_kind.map(|span| span.end - span.start).sum();
        percent(seconds, (end - start) * ranks as f64)
    };
    format!(
        "step {step} took {}: ranks computed {} of it, waited {}, copied {}, added up {}",
        duration(Duration::try_from_secs_f64(end - start).unwrap_or_default()),
        share(SpanKind::Compute),
        share(SpanKind::Wait),
        share(SpanKind::Copy),
        share(SpanKind::Sum),
    )
}

fn bounds(spans: &[Span]) -> (f64, f64) {
    let start = spans.iter().map(|span| span.start).fold(f64::INFINITY, f64::min);
    let end = spans.iter().map(|span| span.end).fold(start, f64::max);
    (start, end)
}

fn trace(step: u64, names: &[String], spans: &[Span]) -> Trace {
    let start = bounds(spans).0;
    // Whole nanoseconds, so that what is within a span stays within it.
    let nanoseconds = |at: f64| ((at - start) * 1e9).round();
    let event = |name: &str, rank: usize, cat, from: f64, to: f64, args| {
        let (from, to) = (nanoseconds(from), nanoseconds(to));
        let span = Some(Times { cat, ts: from / 1e3, dur: (to - from) / 1e3 });
        Event { name: name.to_owned(), ph: 'X', pid: PROCESS, tid: thread(rank), span, args }
    };
    let mut events = vec![metadata("process_name", 0, format!("seqio train, step {step}"))];
    events.extend(
        names.iter().enumerate().map(|(rank, name)| metadata("thread_name", thread(rank), name.clone())),
    );
    let alike = |one: &Span, next: &Span| {
        let exchanges = one.kind != SpanKind::Compute && next.kind != SpanKind::Compute;
        one.rank == next.rank && one.name == next.name && exchanges
    };
    for group in spans.chunk_by(alike) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        if first.kind == SpanKind::Compute {
            let args = BTreeMap::from([("from", first.name.trim_start_matches(':').to_owned())]);
            events.push(event("compute", first.rank, "compute", first.start, first.end, args));
            continue;
        }
        // Outside of the model's parts nothing stands before the colon.
        let name = first.name.trim_start_matches(':');
        events.push(event(name, first.rank, "exchange", first.start, last.end, BTreeMap::new()));
        events.extend(group.iter().map(|span| {
            let word = word(span.kind);
            event(word, span.rank, word, span.start, span.end, BTreeMap::new())
        }));
    }
    Trace { trace_events: events, display_time_unit: "ms" }
}

fn metadata(name: &str, tid: u64, value: String) -> Event {
    let args = BTreeMap::from([("name", value)]);
    Event { name: name.to_owned(), ph: 'M', pid: PROCESS, tid, span: None, args }
}

/// The row of a rank.
fn thread(rank: usize) -> u64 {
    rank as u64 + 1
}

fn word(kind: SpanKind) -> &'static str {
    match kind {
        SpanKind::Compute => "compute",
        SpanKind::Wait => "wait",
        SpanKind::Copy => "copy",
        SpanKind::Sum => "add up",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans() -> Vec<Span> {
        let span =
            |rank, name: &str, kind, start, end| Span { rank, name: name.to_owned(), kind, start, end };
        vec![
            span(0, "x", SpanKind::Compute, 10.0, 10.004),
            span(0, "x:all_reduce", SpanKind::Copy, 10.004, 10.005),
            span(0, "x:all_reduce", SpanKind::Wait, 10.005, 10.01),
            span(1, "x", SpanKind::Compute, 10.0, 10.008),
            span(1, "x:all_reduce", SpanKind::Sum, 10.008, 10.01),
        ]
    }

    #[test]
    fn a_trace_has_a_row_for_each_rank_with_exchanges_around_what_they_are_made_of() {
        let names = ["rank 0 (data 0, model 0), cpu".to_owned(), "rank 1 (data 0, model 1), cpu".to_owned()];
        let trace = serde_json::to_value(trace(3, &names, &spans())).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let lines: Vec<String> = events.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn shares_of_all_ranks_are_told() {
        insta::assert_snapshot!(summary(3, &spans()), @"step 3 took 10 ms: ranks computed 60.0 % of it, waited 25.0 %, copied 5.0 %, added up 10.0 %");
    }

    #[test]
    fn one_rank_has_no_timeline_and_a_file_needs_a_folder() {
        let (mesh, place) = (Mesh::new(1, 2).unwrap(), "cpu".to_owned());
        let one = Timeline::new(Path::new("x"), Mesh::default(), std::slice::from_ref(&place)).unwrap_err();
        assert!(one.to_string().contains("only one"), "{one}");
        let places = [place.clone(), place];
        assert!(Timeline::new(Path::new("/no/such/folder/x"), mesh, &places).is_err());
        let timeline = Timeline::new(Path::new("x"), mesh, &places).unwrap();
        assert_eq!(
            timeline.told(),
            "the run ended before step 3 of this start, so that there is no timeline"
        );
    }
}
