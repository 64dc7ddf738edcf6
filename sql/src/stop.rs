//! A way to make a query end from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends a query at the next chance once one of its flags is set.
#[derive(Clone, Debug, Default)]
pub struct Stop(Vec<Arc<AtomicBool>>);

impl Stop {
    /// Ends it also when this flag is set.
    pub fn or(mut self, flag: &Arc<AtomicBool>) -> Self {
        self.0.push(Arc::clone(flag));
        self
    }

    /// Whether it is time to end.
    pub fn is_set(&self) -> bool {
        self.0.iter().any(|flag| flag.load(Ordering::Relaxed))
    }
}
