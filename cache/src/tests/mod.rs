//! Whole builds of a tiny task: a source of text lines with ranges of a few bytes, and steps that take bytes for ids.

mod bytes;
mod crash;
mod damage;
mod duplicates;
mod explain;
mod forms;
mod program;
mod reading;
mod rejects;
mod reuse;
mod sources;
mod tasks;
mod tiny;
mod workers;
