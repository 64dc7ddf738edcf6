//! Panics of other people's readers, which corrupt files can make: caught, and told in words by whoever called.
//!
//! ```text
//! caught(|| reader.open(file))     Err: the reader panicked; a program's hook need not print anything of it
//! ```

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static CATCHING: Cell<u32> = const { Cell::new(0) };
}

/// Runs `work`, whose panic becomes an error. What it was in the middle of must not be used again.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> std::thread::Result<T> {
    CATCHING.set(CATCHING.get() + 1);
    let done = catch_unwind(AssertUnwindSafe(work));
    CATCHING.set(CATCHING.get() - 1);
    done
}

/// What a panic says, if it says anything.
pub(crate) fn words_of(panic: &(dyn Any + Send)) -> Option<&str> {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}

/// Whether a panic of this thread is caught and becomes an error in words: for the panic hook of a program, which would
/// otherwise print it too.
pub fn panics_are_caught() -> bool {
    CATCHING.get() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_and_is_known_to_be_caught_only_inside() {
        assert_eq!(
            caught(|| (panics_are_caught(), caught(panics_are_caught).unwrap())).unwrap(),
            (true, true)
        );
        assert!(caught(|| -> u32 { panic!("made by the test") }).is_err());
        assert!(!panics_are_caught());
    }
}
