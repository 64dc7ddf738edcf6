//! A logical device: its queue, and the pipelines compiled for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::gpu::adapter::{AdapterError, AdapterInfo, choose};
use crate::gpu::kernel::{Dispatch, Traits};

/// A pipeline's name: kernel, constants (as bits).
type PipelineKey = (&'static str, &'static str, Vec<(&'static str, u64)>);

/// A logical device with the pipelines compiled for it. Clones share both, and so may several engines.
#[derive(Clone, Debug)]
pub struct Device {
    inner: Arc<Inner>,
    traits: Traits,
}

#[derive(Debug)]
struct Inner {
    device: wgpu::Device,
    queue: wgpu::Queue,
    info: AdapterInfo,
    pipelines: Mutex<BTreeMap<PipelineKey, wgpu::ComputePipeline>>,
    failures: Arc<Mutex<Failures>>,
}

/// What went wrong outside our calls.
#[derive(Debug, Default)]
struct Failures {
    /// The first that nobody was told.
    first: Option<String>,
    /// Why there is no device any more.
    lost: Option<String>,
}

impl Device {
    /// A device on the adapter of this index, name or `auto`.
    pub fn open(wanted: &str) -> Result<Self, AdapterError> {
        let (adapter, info) = choose(wanted)?;
        let offered = adapter.features();
        let useful = wgpu::Features::TIMESTAMP_QUERY;
        let request = adapter.request_device(&wgpu::DeviceDescriptor {
            label: Some("seqio"),
            required_features: offered & useful,
            required_limits: adapter.limits(),
            memory_hints: wgpu::MemoryHints::MemoryUsage,
            ..Default::default()
        });
        let (device, queue) = pollster::block_on(request)
            .map_err(|error| AdapterError::Refused { name: info.name.clone(), reason: error.to_string() })?;
        let failures = Arc::new(Mutex::new(Failures::default()));
        let (on_error, on_loss) = (Arc::clone(&failures), Arc::clone(&failures));
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            unpoisoned(&on_error).first.get_or_insert(error.to_string());
        }));
        device.set_device_lost_callback(move |_, words| {
            let words =
                if words.is_empty() { "it was lost".to_owned() } else { format!("it was lost: {words}") };
            unpoisoned(&on_loss).lost = Some(words);
        });
        let pipelines = Mutex::new(BTreeMap::new());
        let traits = info.traits();
        Ok(Self { traits, inner: Arc::new(Inner { device, queue, info, pipelines, failures }) })
    }

    /// The adapter it is on.
    pub fn info(&self) -> &AdapterInfo {
        &self.inner.info
    }

    pub(crate) fn traits(&self) -> Traits {
        self.traits
    }

    /// The same device, with the kernels that hardware gets: they work on all, to be tested and compared.
    pub fn as_hardware(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), traits: Traits { software: false, ..self.traits } }
    }

    /// The same device, with the kernels that software gets.
    pub fn as_software(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), traits: Traits { software: true, ..self.traits } }
    }

    /// Whether both are one device, so that each can read the buffers of the other.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    pub(crate) fn wgpu(&self) -> &wgpu::Device {
        &self.inner.device
    }

    pub(crate) fn queue(&self) -> &wgpu::Queue {
        &self.inner.queue
    }

    /// What went wrong since the last time; of a device that was lost always that.
    pub(crate) fn take_failure(&self) -> Option<String> {
        let first = unpoisoned(&self.inner.failures).first.take();
        if first.is_some() {
            // The loss of a device is told late, and makes everything else fail before.
            let timeout = Some(Duration::from_secs(1));
            drop(self.inner.device.poll(wgpu::PollType::Wait { submission_index: None, timeout }));
        }
        unpoisoned(&self.inner.failures).lost.clone().or(first)
    }

    /// The pipeline of a dispatch, compiled at its first use.
    pub(crate) fn pipeline(&self, dispatch: &Dispatch) -> wgpu::ComputePipeline {
        let kernel = dispatch.kernel;
        let constants = dispatch.constants.iter().map(|(name, value)| (*name, value.to_bits())).collect();
        let key = (kernel.name, kernel.entry, constants);
        let mut pipelines = unpoisoned(&self.inner.pipelines);
        let compile = || {
            let module = self.inner.device.create_shader_module(wgpu::ShaderModuleDescriptor {
                label: Some(kernel.name),
                source: wgpu::ShaderSource::Wgsl(kernel.source.concat().into()),
            });
            self.inner.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(kernel.name),
                layout: None,
                module: &module,
                entry_point: Some(kernel.entry),
                compilation_options: wgpu::PipelineCompilationOptions {
                    constants: &dispatch.constants,
                    ..Default::default()
                },
                cache: None,
            })
        };
        pipelines.entry(key).or_insert_with(compile).clone()
    }
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
