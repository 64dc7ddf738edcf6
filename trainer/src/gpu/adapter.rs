//! What this machine has to compute on.

use std::fmt;

use crate::gpu::kernel::Traits;

/// An adapter, as a person chooses it.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct AdapterInfo {
    /// Its place in the list.
    pub index: usize,
    /// Its name, as the driver gives it.
    pub name: String,
    /// `vulkan`, `metal`, `dx12` or `gl`.
    pub backend: String,
    /// `discrete`, `integrated`, `virtual`, `cpu` or `other`.
    pub device_type: String,
    /// The driver and its version.
    pub driver: String,
    /// Bytes of the largest buffer.
    pub max_buffer_bytes: u64,
    /// Bytes of the largest tensor.
    pub max_binding_bytes: u64,
    /// Bytes of workgroup memory.
    pub workgroup_bytes: u32,
    /// Invocations of a workgroup.
    pub workgroup_invocations: u32,
    /// Storage buffers of a shader.
    pub storage_buffers: u32,
    /// Alignment of buffer offsets.
    pub offset_alignment: u32,
    /// Of what kernels can use more where it is: `subgroups`, `f16`, `timestamps`, `immediates`.
    pub features: Vec<String>,
    /// What it lacks of the least that kernels need; empty: it can be used.
    pub lacks: Vec<String>,
}

/// Why there is nothing to run on.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// No driver at all.
    #[error("this machine shows no adapter to wgpu")]
    None,
    /// None of that name or number.
    #[error("no adapter is called `{wanted}`; there are {}", found.join(", "))]
    NotFound {
        /// What was asked for.
        wanted: String,
        /// Index and name of what there is.
        found: Vec<String>,
    },
    /// It has less than kernels need.
    #[error("adapter `{name}` has too little: {}", lacks.join(", "))]
    TooLittle {
        /// The adapter.
        name: String,
        /// What it lacks.
        lacks: Vec<String>,
    },
    /// The driver refused.
    #[error("adapter `{name}` gives no device: {reason}")]
    Refused {
        /// The adapter.
        name: String,
        /// The driver's words.
        reason: String,
    },
}

impl AdapterError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::None => {
                "install a Vulkan driver (Debian: `apt install mesa-vulkan-drivers` gives one that runs on any \
                 processor), or choose `adapter = \"cpu\"`, which needs none"
            }
            Self::NotFound { .. } => "`seqio adapters` lists them; `adapter = \"cpu\"` needs none",
            Self::TooLittle { .. } | Self::Refused { .. } => "choose another adapter, or `adapter = \"cpu\"`",
        }
    }
}

/// The least that every kernel works with.
const LEAST: (u32, u32, u64, u32) = (256, 16 << 10, 128 << 20, 8);

/// All adapters of this machine, those in hardware first.
pub fn adapters() -> Vec<AdapterInfo> {
    found().iter().enumerate().map(|(index, adapter)| describe(index, adapter)).collect()
}

/// The adapter of this index, or the first whose name holds these words, whatever their case; `auto`: the first usable.
pub fn choose(wanted: &str) -> Result<(wgpu::Adapter, AdapterInfo), AdapterError> {
    let found: Vec<(wgpu::Adapter, AdapterInfo)> = found()
        .into_iter()
        .enumerate()
        .map(|(index, adapter)| {
            let info = describe(index, &adapter);
            (adapter, info)
        })
        .collect();
    if found.is_empty() {
        return Err(AdapterError::None);
    }
    let names =
        found.iter().map(|(_, info)| format!("{} `{}` ({})", info.index, info.name, info.backend)).collect();
    let words = wanted.to_lowercase();
    let matches = |info: &AdapterInfo| match wanted.parse::<usize>() {
        Ok(index) => info.index == index,
        Err(_) if wanted == "auto" => info.lacks.is_empty(),
        Err(_) => info.name.to_lowercase().contains(&words) || info.backend == words,
    };
    let chosen = found.into_iter().find(|(_, info)| matches(info));
    let (adapter, info) = chosen.ok_or(AdapterError::NotFound { wanted: wanted.to_owned(), found: names })?;
    if !info.lacks.is_empty() {
        return Err(AdapterError::TooLittle { name: info.name, lacks: info.lacks });
    }
    Ok((adapter, info))
}

fn found() -> Vec<wgpu::Adapter> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle_from_env());
    let mut found = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()));
    found.sort_by_key(|adapter| {
        let info = adapter.get_info();
        (rank(info.device_type), info.backend == wgpu::Backend::Gl)
    });
    found
}

fn rank(device_type: wgpu::DeviceType) -> u8 {
    match device_type {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    }
}

fn describe(index: usize, adapter: &wgpu::Adapter) -> AdapterInfo {
    let (info, limits, has) = (adapter.get_info(), adapter.limits(), adapter.features());
    let features = [
        (wgpu::Features::SUBGROUP, "subgroups"),
        (wgpu::Features::SHADER_F16, "f16"),
        (wgpu::Features::TIMESTAMP_QUERY, "timestamps"),
        (wgpu::Features::IMMEDIATES, "immediates"),
    ];
    let (invocations, workgroup, binding, buffers) = LEAST;
    let largest = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size);
    let needs = [
        (limits.max_compute_invocations_per_workgroup < invocations, format!("workgroups of {invocations}")),
        (
            limits.max_compute_workgroup_storage_size < workgroup,
            format!("{} KiB of workgroup memory", workgroup >> 10),
        ),
        (largest < binding, format!("bindings of {} MiB", binding >> 20)),
        (
            limits.max_storage_buffers_per_shader_stage < buffers,
            format!("{buffers} storage buffers a shader"),
        ),
    ];
    let driver = [info.driver.as_str(), info.driver_info.as_str()].join(" ");
    AdapterInfo {
        index,
        name: info.name,
        backend: info.backend.to_str().to_owned(),
        device_type: match info.device_type {
            wgpu::DeviceType::DiscreteGpu => "discrete",
            wgpu::DeviceType::IntegratedGpu => "integrated",
            wgpu::DeviceType::VirtualGpu => "virtual",
            wgpu::DeviceType::Cpu => "cpu",
            wgpu::DeviceType::Other => "other",
        }
        .to_owned(),
        driver: driver.trim().to_owned(),
        max_buffer_bytes: limits.max_buffer_size,
        max_binding_bytes: largest,
        workgroup_bytes: limits.max_compute_workgroup_storage_size,
        workgroup_invocations: limits.max_compute_invocations_per_workgroup,
        storage_buffers: limits.max_storage_buffers_per_shader_stage,
        offset_alignment: limits.min_storage_buffer_offset_alignment,
        features: features
            .iter()
            .filter(|(f, _)| has.contains(*f))
            .map(|(_, name)| (*name).to_owned())
            .collect(),
        lacks: needs.into_iter().filter(|(lacks, _)| *lacks).map(|(_, words)| words).collect(),
    }
}

impl AdapterInfo {
    pub(crate) fn traits(&self) -> Traits {
        Traits {
            software: self.device_type == "cpu",
            workgroup_bytes: self.workgroup_bytes,
            workgroup_invocations: self.workgroup_invocations,
        }
    }
}

impl fmt::Display for AdapterInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.name, self.backend, self.driver)
    }
}
