//! Whether a run fits into memory, before it takes any.

use crate::engine::Target;
use crate::program::MemoryNeeds;
use crate::train::{RankPlan, TrainError, TrainerPlan};

impl TrainerPlan {
    /// Refuses a run that needs more memory than its ranks' targets have free, as far as that is known.
    pub fn check_memory(&self, targets: &[Target]) -> Result<(), TrainError> {
        // Ranks whose memory is the machine's share it.
        let here = self.ranks().iter().zip(targets).filter(|(_, target)| uses_machine(target));
        let here: Vec<&RankPlan> = here.map(|(rank, _)| rank).collect();
        let Some(available) = free_of_machine() else { return Ok(()) };
        let needs: Vec<MemoryNeeds> = here.iter().map(|rank| rank.needs()).collect();
        let total = needs.iter().map(MemoryNeeds::total).sum();
        if total <= available {
            return Ok(());
        }
        let stored = |at: usize| in_words(here.iter().map(|rank| rank.stored_bytes()[at]).sum());
        Err(TrainError::Memory {
            needed: in_words(total),
            what: format!(
                "parameters {}, gradients {}, optimizer {}, activations {}, batches {}",
                stored(0),
                stored(1),
                stored(2),
                in_words(needs.iter().map(|needs| needs.working).sum()),
                in_words(needs.iter().map(|needs| needs.inputs).sum())
            ),
            place: match here.len() {
                1 => "this machine".to_owned(),
                ranks => format!("this machine, whose memory {ranks} ranks use,"),
            },
            available: in_words(available),
        })
    }
}

/// Whether a target has no memory of its own. What graphics cards have free, their drivers do not tell.
fn uses_machine(target: &Target) -> bool {
    match target {
        Target::Cpu { .. } => true,
        Target::Gpu(device) => ["cpu", "integrated"].contains(&device.info().device_type.as_str()),
    }
}

/// What Linux would give to a process without swapping; other systems do not say it in a file.
fn free_of_machine() -> Option<u64> {
    parse(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn parse(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

fn in_words(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 10 << 30 => format!("{} GiB", bytes >> 30),
        bytes if bytes >= 10 << 20 => format!("{} MiB", bytes >> 20),
        bytes => format!("{} KiB", bytes.div_ceil(1024)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_what_linux_says() {
        assert_eq!(parse("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(parse("MemTotal: 9 kB\n"), None);
    }

    #[test]
    fn a_run_that_cannot_fit_is_refused_in_numbers() {
        let mut config = crate::config::RunFile::parse(
            std::path::Path::new("run.toml"),
            crate::config::example(),
            &["model.preset=t5_1_1/xxl".to_owned(), "data.batch_size=1000000".to_owned()],
        );
        let config = &mut config.as_mut().unwrap().config;
        let plan = TrainerPlan::new(config.trainer().unwrap(), config.input_shape().unwrap()).unwrap();
        let words = plan.check_memory(&[Target::Cpu { threads: 1 }]).unwrap_err().to_string();
        assert!(words.starts_with("the run needs ") && words.contains("parameters 41 GiB"), "{words}");
    }
}
