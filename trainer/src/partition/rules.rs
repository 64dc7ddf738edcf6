//! T5X's logical axis rules (`partitioning.standard_logical_axis_rules`).

use serde::{Deserialize, Serialize};

use crate::mesh::MeshAxis;

/// Over how many axes of the mesh something is spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub enum PartitioningDims {
    /// One.
    #[default]
    One,
    /// Both.
    Two,
}

impl PartitioningDims {
    /// Whether it is what a run has that says nothing of it.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl TryFrom<u64> for PartitioningDims {
    type Error = String;

    fn try_from(dims: u64) -> Result<Self, String> {
        match dims {
            1 => Ok(Self::One),
            2 => Ok(Self::Two),
            dims => Err(format!("a mesh has 2 axes, so that it is 1 or 2, and not {dims}")),
        }
    }
}

impl From<PartitioningDims> for u64 {
    fn from(dims: PartitioningDims) -> Self {
        match dims {
            PartitioningDims::One => 1,
            PartitioningDims::Two => 2,
        }
    }
}

/// T5X's four modes.
///
/// | activations | parameters | `embed` of activations | `embed` of parameters | known as |
/// |---|---|---|---|---|
/// | 1 | 1 | whole | whole | Megatron-LM's tensor parallelism |
/// | 2 | 1 | over `model` between the blocks | over `model` where nothing else is | the same with a sharded residual stream |
/// | 1 | 2 | whole | over `data` | ZeRO-3, with tensor parallelism |
/// | 2 | 2 | over `model` between the blocks | over `model`, else over `data` | both |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partitioning {
    /// Of activations.
    pub activations: PartitioningDims,
    /// Of parameters.
    pub parameters: PartitioningDims,
}

/// A logical axis, and the axis of the mesh that it is spread over; `None`: it is not spread.
pub type Rule = (&'static str, Option<MeshAxis>);

impl Partitioning {
    /// The rules in their order.
    pub fn rules(self) -> Vec<Rule> {
        use MeshAxis::{Data, Model};
        use PartitioningDims::{One, Two};
        let embed: &[Option<MeshAxis>] = match (self.activations, self.parameters) {
            (One, One) => &[None],
            (Two, One) => &[Some(Model)],
            (One, Two) => &[Some(Data)],
            (Two, Two) => &[Some(Model), Some(Data)],
        };
        let spread = ["vocab", "mlp", "heads", "joined_kv"].map(|axis| (axis, Some(Model)));
        let whole =
            ["kv", "relpos_buckets", "abspos_buckets", "length", "layers", "stack", "mlp_activations"];
        let mut rules = vec![("batch", Some(Data))];
        rules.extend(spread);
        rules.extend(embed.iter().map(|axis| ("embed", *axis)));
        rules.extend(whole.map(|axis| (axis, None)));
        rules
    }
}

/// What every axis of a tensor is spread over: the first rule about it whose axis of the mesh is still free.
pub fn spread(rules: &[Rule], axes: &[&str]) -> Vec<Option<MeshAxis>> {
    let mut found: Vec<Option<Option<MeshAxis>>> = vec![None; axes.len()];
    for (logical, over) in rules {
        let Some(at) = axes.iter().position(|axis| axis == logical) else { continue };
        let taken = over.is_some() && found.contains(&Some(*over));
        if found[at].is_none() && !taken {
            found[at] = Some(*over);
        }
    }
    found.into_iter().map(Option::flatten).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What T5X's `logical_to_mesh_axes` makes of these tensors in its four modes.
    #[test]
    fn axes_are_spread_as_in_t5x() {
        use MeshAxis::{Data, Model};
        use PartitioningDims::{One, Two};
        let of = |activations, parameters, axes: &[&str]| {
            spread(&Partitioning { activations, parameters }.rules(), axes)
        };
        let (data, model) = (Some(Data), Some(Model));
        // Activations, parameters; a kernel, a norm's scale, the embedding, activations.
        let expected = [
            (One, One, [None, model], None, [model, None], [data, None, None]),
            (Two, One, [None, model], model, [model, None], [data, None, model]),
            (One, Two, [data, model], data, [model, data], [data, None, None]),
            (Two, Two, [data, model], model, [model, data], [data, None, model]),
        ];
        for (a, p, kernel, scale, table, activation) in expected {
            assert_eq!(of(a, p, &["embed", "mlp"]), kernel);
            assert_eq!(of(a, p, &["embed"]), [scale]);
            assert_eq!(of(a, p, &["vocab", "embed"]), table);
            assert_eq!(of(a, p, &["batch", "length", "embed"]), activation);
            assert_eq!(of(a, p, &["heads", "relpos_buckets"]), [model, None]);
            assert_eq!(of(a, p, &["heads", "layers", "kv", "embed"])[..3], [model, None, None]);
        }
    }
}
