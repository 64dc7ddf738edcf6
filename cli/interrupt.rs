//! Ctrl-C: the first asks the work to stop at the next safe place, the second ends the program at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use seqio::ReadBudget;

use crate::output::write_stderr;
use crate::report::{EXIT_INTERRUPTED, Interrupted};
use crate::value::ByteSize;

/// A flag that Ctrl-C (or SIGTERM) sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    asked: Arc<AtomicBool>,
    /// Nothing is left that would have to be finished.
    released: Arc<AtomicBool>,
}

impl Interrupt {
    /// Listens for the signals from now on. To be called once, by commands that have something to finish.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let interrupt = Self::default();
        let (asked, released) = (Arc::clone(&interrupt.asked), Arc::clone(&interrupt.released));
        let on_signal = move || {
            if asked.swap(true, Ordering::SeqCst) || released.load(Ordering::SeqCst) {
                end_now();
            }
            write_stderr("\nstopping at the next safe place; press Ctrl-C again to end at once\n");
        };
        ctrlc::set_handler(on_signal).context("cannot listen for Ctrl-C")?;
        Ok(interrupt)
    }

    /// From now on nothing has to be finished: the first Ctrl-C ends the program.
    pub(crate) fn release(&self) {
        self.released.store(true, Ordering::SeqCst);
    }

    /// Whether a stop was asked for.
    pub(crate) fn asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// What reading a source may take: this much memory, and no longer than until a stop is asked for.
    pub(crate) fn budget(&self, memory: ByteSize) -> ReadBudget {
        ReadBudget { memory_bytes: memory.0, cancel: Arc::clone(&self.asked), ..ReadBudget::default() }
    }

    /// What came of some work. Where it failed and a stop was asked for, it failed by that.
    pub(crate) fn told<T>(&self, done: anyhow::Result<T>, go_on: &str) -> anyhow::Result<T> {
        done.map_err(|error| match self.asked() && !error.is::<Interrupted>() {
            true => Interrupted { go_on: go_on.to_owned() }.into(),
            false => error,
        })
    }

    /// The flag itself, for libraries that look at it.
    pub(crate) fn flag(&self) -> &Arc<AtomicBool> {
        &self.asked
    }
}

#[expect(clippy::exit, reason = "Ctrl-C ends the program wherever it is, if it must")]
fn end_now() -> ! {
    std::process::exit(i32::from(EXIT_INTERRUPTED))
}
