//! How a rank fails when a test wants it to.

use crate::engine::EngineError;
use crate::mesh::Rank;

/// What a rank's engine does in place of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It panics.
    Panic,
    /// It gives an error.
    Error,
}

impl Rank {
    /// Lets so many exchanges pass before it fails.
    pub(crate) fn fail_after(&mut self, exchanges: u64, fault: Fault) {
        self.fault = Some((exchanges, fault));
    }

    /// Fails, if the exchange that is next is the one.
    pub(crate) fn fail(&mut self) -> Result<(), EngineError> {
        match &mut self.fault {
            Some((0, Fault::Panic)) => panic!("lost the thread"),
            Some((0, Fault::Error)) => return Err(EngineError::Device("out of memory".to_owned())),
            Some((exchanges, _)) => *exchanges -= 1,
            None => {}
        }
        Ok(())
    }
}
