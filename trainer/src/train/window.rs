//! What happened since the last line of the log: tokens, and what time went into.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::mesh::Traffic;
use crate::train::{StepReport, TrainError, Trainer};

/// Sums since the last line of the log.
pub(super) struct Window {
    began: Instant,
    /// What the source had made the run wait before, in milliseconds.
    infeed_wait_ms: f64,
    tokens: f64,
    steps: u64,
}

impl Window {
    /// Begins now. What ranks have exchanged before, for an evaluation say, is not counted.
    pub(super) fn begin(trainer: &mut Trainer, infeed_wait_ms: f64) -> Result<Self, TrainError> {
        trainer.take_traffic()?;
        Ok(Self { began: Instant::now(), infeed_wait_ms, tokens: 0.0, steps: 0 })
    }

    pub(super) fn add(&mut self, report: &StepReport) {
        self.tokens += report.base.weighted_tokens;
        self.steps += 1;
    }

    /// Target tokens a second, padding not counted.
    pub(super) fn tokens_per_second(&self) -> f64 {
        self.tokens / self.seconds()
    }

    /// The metrics of time, and of what each rank has exchanged meanwhile; nothing about that if there is only one.
    pub(super) fn timing(&self, infeed_wait_ms: f64, traffic: &[Traffic]) -> BTreeMap<String, f64> {
        let seconds = self.seconds();
        let share = |of: f64| (of / seconds).clamp(0.0, 1.0);
        let mut timing = BTreeMap::from([
            ("timing/target_tokens_per_second".to_owned(), self.tokens_per_second()),
            ("timing/infeed_wait_fraction".to_owned(), share((infeed_wait_ms - self.infeed_wait_ms) / 1e3)),
        ]);
        if !traffic.is_empty() {
            let mean = |of: fn(&Traffic) -> f64| traffic.iter().map(of).sum::<f64>() / traffic.len() as f64;
            let steps = self.steps.max(1) as f64;
            let bytes_out = mean(|rank| rank.put_bytes as f64) / steps;
            let bytes_in = mean(|rank| rank.taken_bytes as f64) / steps;
            timing.insert("timing/exchange_bytes_out_per_step".to_owned(), bytes_out);
            timing.insert("timing/exchange_bytes_in_per_step".to_owned(), bytes_in);
            let waited = share(mean(|rank| rank.waited_seconds));
            timing.insert("timing/exchange_wait_fraction".to_owned(), waited);
            timing.insert("timing/exchange_copy_fraction".to_owned(), share(mean(|rank| rank.moved_seconds)));
        }
        timing
    }

    fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64().max(1e-9)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_ranks_exchange_is_told_by_step_and_as_shares_of_time() {
        let began = Instant::now().checked_sub(Duration::from_secs(100)).unwrap();
        let window = Window { began, infeed_wait_ms: 500.0, tokens: 1000.0, steps: 4 };
        let rank = |waited_seconds, moved_seconds| Traffic {
            put_bytes: 4000,
            taken_bytes: 8000,
            waited_seconds,
            moved_seconds,
            ..Traffic::default()
        };
        let timing = window.timing(10_500.0, &[rank(10.0, 5.0), rank(30.0, 5.0)]);
        assert_eq!(timing["timing/exchange_bytes_out_per_step"], 1000.0);
        assert_eq!(timing["timing/exchange_bytes_in_per_step"], 2000.0);
        let is = |name: &str, value: f64| assert!((timing[name] / value - 1.0).abs() < 1e-2, "{timing:?}");
        is("timing/exchange_wait_fraction", 0.2);
        is("timing/exchange_copy_fraction", 0.05);
        is("timing/infeed_wait_fraction", 0.1);
        is("timing/target_tokens_per_second", 10.0);
        assert_eq!(window.timing(500.0, &[]).len(), 2);
    }
}
