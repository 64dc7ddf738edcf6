//! Which checkpoints stay.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::folder::{self, Listed, list};

/// Which checkpoints stay; those with a file `PINNED` always do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Keep {
    /// So many of the newest; without a number, all.
    pub newest: Option<NonZeroUsize>,
    /// And the best.
    pub best: Option<Best>,
}

/// What makes a checkpoint the best.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Best {
    /// A metric in its state: name of an evaluation and of one of its metrics, as `validation/loss`.
    pub metric: String,
    /// Whether less or more of it is better.
    pub mode: Mode,
}

/// Whether less or more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Less is.
    Min,
    /// More is.
    Max,
}

impl Keep {
    /// Removes the checkpoints of a run that need not stay; says which. Damaged ones are left alone, and do not count:
    /// they are not what anybody wanted to keep, nor to lose without a look.
    pub fn apply(&self, run: &Path) -> Result<Vec<PathBuf>, CheckpointError> {
        let listed = list(run)?;
        let surplus = self.surplus(&listed);
        if !surplus.is_empty() {
            let _lock = folder::lock(&folder::checkpoints(run))?;
            for path in &surplus {
                folder::remove(path)?;
            }
        }
        Ok(surplus)
    }

    fn surplus(&self, listed: &[Listed]) -> Vec<PathBuf> {
        let Some(newest) = self.newest else { return Vec::new() };
        let whole: Vec<&Listed> = listed.iter().filter(|one| one.state.is_ok()).collect();
        let mut kept: BTreeSet<u64> = whole.iter().rev().take(newest.get()).map(|one| one.step).collect();
        kept.extend(self.best.as_ref().and_then(|best| best.of(&whole)));
        let surplus = whole.iter().filter(|one| !one.is_pinned && !kept.contains(&one.step));
        surplus.map(|one| one.path.clone()).collect()
    }
}

impl Best {
    /// The step of the best; of equals, the last.
    fn of(&self, listed: &[&Listed]) -> Option<u64> {
        let values = listed.iter().filter_map(|one| {
            let value = *one.state.as_ref().ok()?.metrics.get(&self.metric)?;
            let goodness = if self.mode == Mode::Min { -value } else { value };
            (!value.is_nan()).then_some((goodness, one.step))
        });
        values.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, step)| step)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::*;
    use crate::checkpoint::{RunState, Saving};

    fn run_with(losses: &[f64]) -> tempfile::TempDir {
        let run = tempfile::tempdir().unwrap();
        for (i, loss) in losses.iter().enumerate() {
            let metrics = BTreeMap::from([("loss".to_owned(), *loss)]);
            let state = RunState { step: 10 * (i as u64 + 1), metrics, ..RunState::default() };
            let mut saving = Saving::begin(run.path(), state).unwrap();
            saving.parameters(&[], |_| unreachable!()).unwrap();
            saving.commit().unwrap();
        }
        run
    }

    fn steps(run: &Path) -> Vec<u64> {
        list(run).unwrap().iter().map(|one| one.step).collect()
    }

    fn keep(newest: usize, mode: Option<Mode>) -> Keep {
        let best = mode.map(|mode| Best { metric: "loss".to_owned(), mode });
        Keep { newest: NonZeroUsize::new(newest), best }
    }

    #[test]
    fn the_newest_stay() {
        let run = run_with(&[1.0, 2.0, 3.0, 4.0]);
        assert!(Keep::default().apply(run.path()).unwrap().is_empty());
        let removed = keep(3, None).apply(run.path()).unwrap();
        assert_eq!(removed, [run.path().join("checkpoints/step-00000010")]);
        assert_eq!(steps(run.path()), [20, 30, 40]);
    }

    #[test]
    fn the_best_stays_whatever_is_no_number() {
        let losses = [3.0, 1.0, f64::NAN, 1.0, f64::INFINITY, 2.0, 5.0];
        for (mode, expected) in [(Mode::Min, [40, 70]), (Mode::Max, [50, 70])] {
            let run = run_with(&losses);
            keep(1, Some(mode)).apply(run.path()).unwrap();
            assert_eq!(steps(run.path()), expected, "{mode:?}");
        }
    }

    #[test]
    fn pinned_and_damaged_ones_are_left_alone_and_do_not_count() {
        let run = run_with(&[1.0, 2.0, 3.0, 4.0]);
        let path = |step: u64| run.path().join("checkpoints").join(folder::name_of(step));
        fs::write(path(10).join("PINNED"), "").unwrap();
        fs::write(path(40).join("state.json"), "{}").unwrap();
        keep(1, None).apply(run.path()).unwrap();
        assert_eq!(steps(run.path()), [10, 30, 40]);
    }

    #[test]
    fn what_others_put_into_a_checkpoint_is_not_deleted() {
        let run = run_with(&[1.0, 2.0]);
        fs::write(run.path().join("checkpoints/step-00000010/notes.txt"), "mine").unwrap();
        keep(1, None).apply(run.path()).unwrap();
        assert_eq!(steps(run.path()), [20]);
        let left = fs::read_dir(run.path().join("checkpoints")).unwrap().find_map(|entry| {
            let path = entry.unwrap().path().join("notes.txt");
            path.exists().then_some(path)
        });
        assert_eq!(fs::read(left.unwrap()).unwrap(), b"mine");
    }
}
