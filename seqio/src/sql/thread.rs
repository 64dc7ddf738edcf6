//! Threads for the SQL engine: it recurses over what a person wrote, and its panics are errors like any other.

use std::any::Any;
use std::io;
use std::thread::{self, JoinHandle};

use seqio_sql::STACK_BYTES;

use crate::caught::{caught, words_of};

/// Runs `work` where deep recursion does no harm; in words, why it came to no end.
pub(super) fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, String> {
    thread::scope(|scope| {
        let thread = builder().spawn_scoped(scope, || caught(work)).map_err(no_thread)?;
        thread.join().flatten().map_err(|panic| gave_up(&*panic))
    })
}

/// Begins `work` on a thread of its own; in words, why that cannot be.
pub(super) fn spawn(work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, String> {
    builder().spawn(work).map_err(no_thread)
}

/// A panic of the engine in words.
pub(super) fn gave_up(panic: &(dyn Any + Send)) -> String {
    let words = words_of(panic).and_then(|words| words.lines().next());
    format!("the SQL engine gave up: {}", words.unwrap_or("it does not say why"))
}

fn builder() -> thread::Builder {
    thread::Builder::new().name("sql".to_owned()).stack_size(STACK_BYTES)
}

fn no_thread(error: io::Error) -> String {
    format!("no thread for the SQL engine: {error}")
}
