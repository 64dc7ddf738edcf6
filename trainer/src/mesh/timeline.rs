//! What a rank did when.

use std::time::Instant;

use serde::Serialize;

/// Spans of one kind with less than this between them are told as one, in seconds: a message of many chunks is not
/// drawn chunk by chunk.
const GAP: f64 = 1e-5;

/// What a rank does in a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanKind {
    /// A program, or a part of one.
    Compute,
    /// Nothing, until other ranks have got so far.
    Wait,
    /// Moving numbers.
    Copy,
    /// Adding up numbers of several ranks.
    Sum,
}

/// Some time of a rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Span {
    /// Whose.
    pub rank: usize,
    /// For what: the label of a message, say.
    pub name: String,
    /// Doing what.
    pub kind: SpanKind,
    /// Seconds since the world began.
    pub start: f64,
    /// Seconds since the world began.
    pub end: f64,
}

/// The spans of one rank, which nobody else writes.
#[derive(Debug)]
pub(super) struct Timeline {
    rank: usize,
    epoch: Instant,
    recording: bool,
    spans: Vec<Span>,
}

impl Timeline {
    pub(super) fn new(rank: usize, epoch: Instant) -> Self {
        Self { rank, epoch, recording: false, spans: Vec::new() }
    }

    pub(super) fn record(&mut self, on: bool) {
        self.recording = on;
    }

    /// Seconds since the world began.
    pub(super) fn now(&self) -> f64 {
        self.epoch.elapsed().as_secs_f64()
    }

    pub(super) fn add(&mut self, name: &str, kind: SpanKind, start: f64, end: f64) {
        if !self.recording {
            return;
        }
        match self.spans.last_mut() {
            Some(last)
                if last.kind == kind && last.name == name && (0.0..GAP).contains(&(start - last.end)) =>
            {
                last.end = end;
            }
            _ => self.spans.push(Span { rank: self.rank, name: name.to_owned(), kind, start, end }),
        }
    }

    pub(super) fn take(&mut self) -> Vec<Span> {
        std::mem::take(&mut self.spans)
    }
}
