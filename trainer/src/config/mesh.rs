//! `[mesh]`: over which ranks a run is spread.

use serde::{Deserialize, Serialize};

use crate::config::{AdapterName, DeviceConfig};
use crate::engine::Target;
use crate::gpu::{AdapterError, Device, adapters};
use crate::mesh::Mesh;
use crate::partition::{Partitioning, PartitioningDims};

/// Over which ranks a run is spread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeshConfig {
    /// Ranks that share a batch; the default is 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<usize>,
    /// Ranks that share the parameters; the default is 1, or, if `data` is left out too, one for each graphics card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<usize>,
    /// The adapter of each rank, in turn if there are fewer; the default is that of `[device]`, for `"auto"` each
    /// graphics card in turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapters: Option<Vec<AdapterName>>,
    /// Ranks on one adapter share a device, and exchange numbers in its memory.
    #[serde(default)]
    pub share_devices: bool,
    /// Over how many axes of the mesh activations are spread: 1 or 2.
    #[serde(default)]
    pub activation_partitioning_dims: PartitioningDims,
    /// Over how many axes of the mesh parameters are spread: 1 or 2.
    #[serde(default)]
    pub parameter_partitioning_dims: PartitioningDims,
}

/// What a rank runs on.
#[derive(Clone, Debug)]
pub struct RankTarget {
    /// For its engine.
    pub target: Target,
    /// In words.
    pub place: String,
}

impl RankTarget {
    fn is_on_adapter_of(&self, other: &Self) -> bool {
        match (&self.target, &other.target) {
            (Target::Gpu(one), Target::Gpu(other)) => one.info() == other.info(),
            _ => false,
        }
    }
}

impl MeshConfig {
    /// How tensors are spread.
    pub fn partitioning(&self) -> Partitioning {
        Partitioning {
            activations: self.activation_partitioning_dims,
            parameters: self.parameter_partitioning_dims,
        }
    }

    /// The ranks, or why there are none.
    pub fn mesh(&self) -> Result<Mesh, String> {
        let model = match (self.data, self.model) {
            (None, None) => cards().len().max(1),
            (_, model) => model.unwrap_or(1),
        };
        Mesh::new(self.data.unwrap_or(1), model)
    }

    /// Opens what every rank runs on: a device for each, even on one adapter, unless they are to share it.
    pub fn open(&self, device: &DeviceConfig, ranks: usize) -> Result<Vec<RankTarget>, AdapterError> {
        let names = match &self.adapters {
            Some(names) if !names.is_empty() => names.clone(),
            _ if device.adapter == AdapterName::Auto && ranks > 1 => match cards() {
                cards if cards.is_empty() => vec![AdapterName::Auto],
                cards => cards.into_iter().map(AdapterName::Index).collect(),
            },
            _ => vec![device.adapter.clone()],
        };
        let names: Vec<&AdapterName> = names.iter().cycle().take(ranks).collect();
        let on_host = names.iter().filter(|name| ***name == AdapterName::Cpu).count();
        let threads = (device.threads() / on_host.max(1)).max(1);
        let mut ranks: Vec<RankTarget> = Vec::with_capacity(names.len());
        for name in names {
            let rank = open(name, threads)?;
            let twin =
                ranks.iter().find(|other| self.share_devices && other.is_on_adapter_of(&rank)).cloned();
            ranks.push(twin.unwrap_or(rank));
        }
        Ok(ranks)
    }
}

fn open(name: &AdapterName, threads: usize) -> Result<RankTarget, AdapterError> {
    if *name != AdapterName::Cpu {
        let device = Device::open(&name.to_string())?;
        return Ok(RankTarget { place: device.info().to_string(), target: Target::Gpu(device) });
    }
    let ending = if threads == 1 { "" } else { "s" };
    Ok(RankTarget { target: Target::Cpu { threads }, place: format!("cpu, {threads} thread{ending}") })
}

/// Places, in the list of adapters, of the graphics cards: those like the first, since another kind would make it wait,
/// and another back end may show the same cards again.
fn cards() -> Vec<usize> {
    let mut found = adapters();
    found.retain(|info| info.lacks.is_empty());
    let Some(first) = found.first().cloned() else { return Vec::new() };
    if !["discrete", "integrated", "virtual"].contains(&first.device_type.as_str()) {
        return Vec::new();
    }
    let alike =
        found.iter().filter(|info| info.device_type == first.device_type && info.backend == first.backend);
    alike.map(|info| info.index).collect()
}
