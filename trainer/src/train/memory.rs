//! Whether a run fits into memory, before it takes any.

use crate::engine::Target;
use crate::program::MemoryNeeds;
use crate::train::{TrainError, TrainerPlan};

impl TrainerPlan {
    /// Refuses a run that needs more memory than its target has free, as far as that is known.
    pub fn check_memory(&self, target: &Target) -> Result<(), TrainError> {
        let Some((place, available)) = available(target) else { return Ok(()) };
        let needs = self.needs();
        if needs.total() <= available {
            return Ok(());
        }
        let [parameters, gradients, state] = self.stored_bytes();
        let MemoryNeeds { working, inputs, .. } = needs;
        Err(TrainError::Memory {
            needed: in_words(needs.total()),
            what: format!(
                "parameters {}, gradients {}, optimizer {}, activations {}, batches {}",
                in_words(parameters),
                in_words(gradients),
                in_words(state),
                in_words(working),
                in_words(inputs)
            ),
            place: place.to_owned(),
            available: in_words(available),
        })
    }
}

/// The memory that is free. Drivers of graphics processors with memory of their own do not tell.
fn available(target: &Target) -> Option<(&'static str, u64)> {
    match target {
        Target::Cpu { .. } => Some(("this machine", free_of_machine()?)),
        Target::Gpu(device) if ["cpu", "integrated"].contains(&device.info().device_type.as_str()) => {
            Some(("this machine, whose memory the adapter uses,", free_of_machine()?))
        }
        Target::Gpu(_) => None,
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
        let words = plan.check_memory(&Target::Cpu { threads: 1 }).unwrap_err().to_string();
        assert!(words.starts_with("the run needs ") && words.contains("parameters 41 GiB"), "{words}");
    }
}
