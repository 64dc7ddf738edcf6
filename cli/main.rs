//! The `seqio` program.

fn main() {}
