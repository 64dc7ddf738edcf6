//! One interface to what runs programs: the host's processor, or a wgpu device.

use crate::cpu::CpuEngine;
use crate::gpu::{Device, GpuEngine};
use crate::host::HostTensor;
use crate::mesh::{Rank, Stopped};
use crate::program::Program;
use crate::shape::Spec;
use crate::store::{StoreId, Stores};

/// What a run computes on.
#[derive(Clone, Debug)]
pub enum Target {
    /// The host, with this many threads.
    Cpu {
        /// At least one.
        threads: usize,
    },
    /// A wgpu device.
    Gpu(Device),
}

impl Target {
    /// Whether both are one device, so that each can read what the other computes.
    pub(crate) fn is_device_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Gpu(one), Self::Gpu(other)) => one.is_same_as(other),
            _ => false,
        }
    }
}

/// Programs with their memory, ready to run.
#[derive(Debug)]
pub enum Engine {
    /// On the host.
    Cpu(CpuEngine),
    /// On a wgpu device.
    Gpu(GpuEngine),
}

/// Which of an engine's programs: its place in the list that the engine was made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramId(pub usize);

/// Why something could not be run.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Threads could not be started.
    #[error("threads could not be started: {0}")]
    Threads(String),
    /// The device or its driver failed.
    #[error("the device failed: {0}")]
    Device(String),
    /// A tensor larger than the adapter can bind.
    #[error("`{name}` {spec} takes {bytes} bytes, but adapter `{adapter}` binds at most {most}")]
    TooLarge {
        /// The tensor.
        name: String,
        /// What it is.
        spec: Spec,
        /// What it takes.
        bytes: u64,
        /// What the adapter binds.
        most: u64,
        /// The adapter.
        adapter: String,
    },
    /// Another rank ended, or what ranks do together failed.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// A program of several ranks without the others.
    #[error("`{name}` takes what other ranks have, and there are none")]
    NoRanks {
        /// What it makes.
        name: String,
    },
    /// The host handed over the wrong thing.
    #[error("`{name}` is {wanted}, but {found} were handed over")]
    WrongInput {
        /// The input or the stored tensor.
        name: String,
        /// What it is.
        wanted: Spec,
        /// What came: kind and number of elements, or `nothing`.
        found: String,
    },
}

impl Engine {
    /// With memory for the stored tensors, all zeros, and for these programs.
    pub fn new(target: Target, stores: &Stores, programs: Vec<Program>) -> Result<Self, EngineError> {
        Ok(match target {
            Target::Cpu { threads } => Self::Cpu(CpuEngine::new(threads, stores, programs)?),
            Target::Gpu(device) => Self::Gpu(GpuEngine::new(device, stores, programs)?),
        })
    }

    /// Fills a stored tensor.
    pub fn write(&mut self, stores: &Stores, id: StoreId, values: &HostTensor) -> Result<(), EngineError> {
        let store = stores.get(id);
        check(&store.name, &store.spec, Some(values))?;
        match self {
            Self::Cpu(engine) => {
                engine.write(id, values);
                Ok(())
            }
            Self::Gpu(engine) => engine.write(id, values),
        }
    }

    /// Bytes of memory that a stored tensor was given.
    pub fn stored_bytes(&self, id: StoreId) -> u64 {
        match self {
            Self::Cpu(engine) => engine.stored_bytes(id),
            Self::Gpu(engine) => engine.stored_bytes(id),
        }
    }

    /// The numbers of a stored tensor, integers as the bits of floats.
    pub fn read(&mut self, stores: &Stores, id: StoreId) -> Result<Vec<f32>, EngineError> {
        match self {
            Self::Cpu(engine) => Ok(engine.read(id).to_vec()),
            Self::Gpu(engine) => engine.read(id, stores.get(id).spec.shape.elements()),
        }
    }

    /// Runs a program. `input` gives what it asks for by name.
    pub fn run<'a>(
        &mut self,
        program: ProgramId,
        input: impl Fn(&str) -> Option<&'a HostTensor>,
    ) -> Result<Vec<Vec<f32>>, EngineError> {
        self.run_with(program, input, None)
    }

    /// The same as one of several ranks.
    pub fn run_with<'a>(
        &mut self,
        ProgramId(program): ProgramId,
        input: impl Fn(&str) -> Option<&'a HostTensor>,
        rank: Option<&mut Rank>,
    ) -> Result<Vec<Vec<f32>>, EngineError> {
        let wanted = match self {
            Self::Cpu(engine) => engine.program(program).inputs(),
            Self::Gpu(engine) => engine.program(program).inputs(),
        };
        let mut inputs = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            inputs.push(check(&wanted.name, &wanted.spec, input(&wanted.name))?);
        }
        match self {
            Self::Cpu(engine) => engine.run(program, &inputs, rank),
            Self::Gpu(engine) => engine.run(program, &inputs, rank),
        }
    }
}

fn check<'a>(
    name: &str,
    wanted: &Spec,
    values: Option<&'a HostTensor>,
) -> Result<&'a HostTensor, EngineError> {
    let found = match values {
        Some(values) if values.kind() == wanted.kind && values.elements() == wanted.shape.elements() => {
            return Ok(values);
        }
        Some(values) => format!("{} elements of {}", values.elements(), values.kind()),
        None => "none".to_owned(),
    };
    Err(EngineError::WrongInput { name: name.to_owned(), wanted: wanted.clone(), found })
}
