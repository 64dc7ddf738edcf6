//! `[mesh]`: over which ranks a run is spread.

use serde::{Deserialize, Serialize};

use crate::config::{AdapterName, DeviceConfig};
use crate::engine::Target;
use crate::gpu::{AdapterError, AdapterInfo, Device, adapters};
use crate::mesh::Mesh;
use crate::partition::{Partitioning, PartitioningDims};

/// Over which ranks a run is spread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeshConfig {
    /// Ranks that share a batch; the default is 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<usize>,
    /// Ranks that share the parameters; the default is 1, or, if `data` is left out too, one for each of `adapters`, or
    /// else for each graphics card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<usize>,
    /// The adapter of each rank, in turn if there are fewer; the default is that of `[device]`, for `"auto"` each
    /// graphics card in turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapters: Option<Vec<AdapterName>>,
    /// Ranks on one adapter share a device, and exchange numbers in its memory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub share_devices: bool,
    /// Over how many axes of the mesh activations are spread: 1 or 2.
    #[serde(default, skip_serializing_if = "PartitioningDims::is_default")]
    pub activation_partitioning_dims: PartitioningDims,
    /// Over how many axes of the mesh parameters are spread: 1 or 2.
    #[serde(default, skip_serializing_if = "PartitioningDims::is_default")]
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

    /// How many ranks there are along `data` and `model`; nothing where the machine decides.
    pub(super) fn sizes(&self) -> Option<(usize, usize)> {
        match (self.data, self.model, &self.adapters) {
            (None, None, Some(adapters)) => Some((1, adapters.len())),
            (None, None, None) => None,
            (data, model, _) => Some((data.unwrap_or(1), model.unwrap_or(1))),
        }
    }

    /// The ranks, or why there are none.
    pub fn mesh(&self) -> Result<Mesh, String> {
        let (data, model) = self.sizes().unwrap_or_else(|| (1, cards(&adapters()).len().max(1)));
        Mesh::new(data, model)
    }

    /// Opens what every rank runs on: a device for each, even on one adapter, unless they are to share it.
    pub fn open(&self, device: &DeviceConfig, ranks: usize) -> Result<Vec<RankTarget>, AdapterError> {
        let names = self.names(device, ranks, adapters);
        let on_host = names.iter().filter(|name| **name == AdapterName::Cpu).count();
        let threads = (device.threads() / on_host.max(1)).max(1);
        let mut ranks: Vec<RankTarget> = Vec::with_capacity(names.len());
        for name in &names {
            let rank = open(name, threads)?;
            let twin =
                ranks.iter().find(|other| self.share_devices && other.is_on_adapter_of(&rank)).cloned();
            ranks.push(twin.unwrap_or(rank));
        }
        Ok(ranks)
    }

    /// The adapter of each rank, among those that are found.
    fn names(
        &self,
        device: &DeviceConfig,
        ranks: usize,
        found: impl FnOnce() -> Vec<AdapterInfo>,
    ) -> Vec<AdapterName> {
        let names = match &self.adapters {
            Some(names) if !names.is_empty() => names.clone(),
            _ if device.adapter == AdapterName::Auto && ranks > 1 => match cards(&found()) {
                cards if cards.is_empty() => vec![AdapterName::Auto],
                cards => cards.into_iter().map(AdapterName::Index).collect(),
            },
            _ => vec![device.adapter.clone()],
        };
        names.into_iter().cycle().take(ranks).collect()
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

/// Places, in the list of adapters, of the graphics cards: those like the first. Another card would make it wait, and
/// another back end or driver may show the same card again.
fn cards(found: &[AdapterInfo]) -> Vec<usize> {
    let mut usable = found.iter().filter(|info| info.lacks.is_empty()).peekable();
    let Some(first) = usable.peek().copied() else { return Vec::new() };
    if !["discrete", "integrated", "virtual"].contains(&first.device_type.as_str()) {
        return Vec::new();
    }
    // Index and features aside.
    let kind = |info: &AdapterInfo| {
        let AdapterInfo { name, backend, device_type, driver, .. } = info.clone();
        (name, backend, device_type, driver)
    };
    usable.filter(|info| kind(info) == kind(first)).map(|info| info.index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As drivers show them: names with type, back end and driver.
    fn found(list: &[[&str; 4]]) -> Vec<AdapterInfo> {
        let info = |(index, [name, device_type, backend, driver]): (usize, &[&str; 4])| AdapterInfo {
            index,
            name: (*name).to_owned(),
            backend: (*backend).to_owned(),
            device_type: (*device_type).to_owned(),
            driver: (*driver).to_owned(),
            max_buffer_bytes: 1 << 30,
            max_binding_bytes: 1 << 30,
            workgroup_bytes: 32 << 10,
            workgroup_invocations: 1024,
            storage_buffers: 8,
            offset_alignment: 32,
            features: Vec::new(),
            lacks: Vec::new(),
        };
        list.iter().enumerate().map(info).collect()
    }

    const CARD: [&str; 4] = ["RTX 4090", "discrete", "vulkan", "NVIDIA 550"];
    const LAVAPIPE: [&str; 4] = ["llvmpipe", "cpu", "vulkan", "llvmpipe"];

    fn config(text: &str) -> MeshConfig {
        serde_json::from_str(text).unwrap()
    }

    fn names(text: &str, adapter: &str, ranks: usize, found: &[AdapterInfo]) -> String {
        let device = DeviceConfig { adapter: adapter.into(), threads: None };
        let names = config(text).names(&device, ranks, || found.to_vec());
        names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn cards_are_those_like_the_first() {
        let (other_driver, other_back_end) =
            (["RTX 4090", "discrete", "vulkan", "NVK"], ["RTX 4090", "discrete", "gl", "NVIDIA 550"]);
        let other = ["UHD 770", "integrated", "vulkan", "Mesa"];
        let mut all = found(&[CARD, other_driver, CARD, CARD, other, LAVAPIPE, other_back_end]);
        assert_eq!(cards(&all), [0, 2, 3]);
        // One that lacks what kernels need is none.
        all[2].lacks.push("bindings of 128 MiB".to_owned());
        assert_eq!(cards(&all), [0, 3]);
        assert_eq!(cards(&found(&[other, LAVAPIPE])), [0]);
        assert_eq!(cards(&found(&[LAVAPIPE])), [0; 0]);
        assert_eq!(cards(&[]), [0; 0]);
    }

    #[test]
    fn every_rank_has_its_adapter() {
        let (cards, none) = (found(&[CARD, CARD, LAVAPIPE]), found(&[LAVAPIPE]));
        assert_eq!(names(r#"{"model": 3}"#, "auto", 3, &cards), "0 1 0");
        assert_eq!(names(r#"{"model": 2}"#, "auto", 2, &none), "auto auto");
        assert_eq!(names(r#"{"model": 2}"#, "cpu", 2, &cards), "cpu cpu");
        assert_eq!(names(r#"{"adapters": [1, "cpu"]}"#, "auto", 4, &cards), "1 cpu 1 cpu");
        // A run on one rank takes what it took without a mesh.
        assert_eq!(names(r#"{"model": 1}"#, "auto", 1, &cards), "auto");
    }

    #[test]
    fn sizes_that_are_left_out_are_1_unless_both_are() {
        assert_eq!(config(r#"{"data": 2}"#).sizes(), Some((2, 1)));
        assert_eq!(config(r#"{"model": 2, "adapters": [0]}"#).sizes(), Some((1, 2)));
        assert_eq!(config(r#"{"adapters": [0, 1, 2]}"#).sizes(), Some((1, 3)));
        assert_eq!(config(r#"{"activation_partitioning_dims": 2}"#).sizes(), None);
    }

    #[test]
    fn ranks_on_the_host_share_its_threads() {
        let device = DeviceConfig { adapter: AdapterName::Cpu, threads: Some(5) };
        let ranks = config(r#"{"model": 2}"#).open(&device, 2).unwrap();
        assert_eq!(ranks.iter().map(|rank| rank.place.as_str()).collect::<Vec<_>>(), ["cpu, 2 threads"; 2]);
        assert_eq!(config("{}").open(&device, 6).unwrap()[5].place, "cpu, 1 thread");
    }

    #[test]
    fn what_is_not_said_is_not_written() {
        let text = toml::to_string(&config(r#"{"model": 2, "parameter_partitioning_dims": 1}"#)).unwrap();
        assert_eq!(text, "model = 2\n");
        assert!(serde_json::from_str::<MeshConfig>(r#"{"activation_partitioning_dims": 3}"#).is_err());
    }
}
