//! The program as its users meet it: standard output, standard error and exit codes.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod support;

mod adapters;
mod batch;
mod bench;
mod cache;
mod chat;
mod converters;
mod duplicates;
mod exit_codes;
mod explain;
mod faults;
mod fewshot;
mod filter;
mod find;
mod fully_cached;
mod guide;
mod init;
mod inspect;
mod interleave;
mod json;
mod learn;
mod list;
mod locations;
mod mesh;
mod objectives;
mod pieces;
mod plan;
mod query;
mod saved_dataset;
mod sources;
mod sql;
mod stats;
mod stream;
mod task_errors;
mod tfrecord;
mod train;
mod usage;
mod vocabularies;
mod workers;
