//! Memory that the operators of a query share, and whether going beyond it could change a result.
//!
//! An operator that gets no more memory spills to disk. Sums of floats depend on the order of their terms, and spilling
//! changes that order. So a query with such sums is *guarded*: the pool remembers that it refused, and whoever reads the
//! rows is given an error in place of sums that more memory would have made differently.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::Result;
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

/// A pool of a fixed size that knows whether it was too small.
#[derive(Debug)]
pub(crate) struct WatchedPool {
    pool: FairSpillPool,
    refused: AtomicBool,
}

impl WatchedPool {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { pool: FairSpillPool::new(bytes), refused: AtomicBool::new(false) }
    }

    /// Whether an operator was refused memory that it asked for.
    pub(crate) fn has_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }
}

impl fmt::Display for WatchedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pool.fmt(f)
    }
}

impl MemoryPool for WatchedPool {
    fn name(&self) -> &str {
        "watched"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.pool.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.pool.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.pool.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.pool.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let grown = self.pool.try_grow(reservation, additional);
        if grown.is_err() {
            self.refused.store(true, Ordering::Relaxed);
        }
        grown
    }

    fn reserved(&self) -> usize {
        self.pool.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.pool.memory_limit()
    }
}
