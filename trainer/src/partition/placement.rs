//! One rank's place in the mesh, and what it holds there.

use crate::mesh::{Mesh, MeshAxis};
use crate::model::ModelConfig;
use crate::partition::{Part, Partitioning, PartitioningDims, spread};
use crate::shape::Shape;

/// One rank's place in a mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// All ranks.
    pub mesh: Mesh,
    /// This one.
    pub rank: usize,
    /// How tensors are spread.
    pub partitioning: Partitioning,
}

/// Why a network cannot be spread over a mesh.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{field}` is {length}, which {ranks} ranks of the {axis} axis cannot share evenly; {fits}")]
pub struct PlacementError {
    /// The setting.
    pub field: &'static str,
    /// What it is.
    pub length: usize,
    /// Ranks that share it.
    pub ranks: usize,
    /// Along which axis.
    pub axis: MeshAxis,
    /// What would fit, in words.
    pub fits: String,
}

impl Placement {
    /// The only rank there is.
    pub fn alone() -> Self {
        Self { mesh: Mesh::default(), rank: 0, partitioning: Partitioning::default() }
    }

    /// Ranks along an axis.
    pub fn ranks(&self, axis: MeshAxis) -> usize {
        self.mesh.size(axis)
    }

    /// This rank's place along an axis.
    pub fn place(&self, axis: MeshAxis) -> usize {
        self.mesh.place(self.rank, axis)
    }

    /// Whether activations are spread over the model axis between blocks.
    pub fn spreads_residual(&self) -> bool {
        self.partitioning.activations == PartitioningDims::Two && self.ranks(MeshAxis::Model) > 1
    }

    /// What the axes of a tensor are spread over, as far as it is more than one rank.
    pub fn spread(&self, axes: &[&str]) -> Vec<Option<MeshAxis>> {
        let found = spread(&self.partitioning.rules(), axes).into_iter();
        found.map(|over| over.filter(|axis| self.ranks(*axis) > 1)).collect()
    }

    /// The part of a tensor that is here. Its axes can be shared evenly.
    pub fn part(&self, shape: &Shape, axes: &[&str]) -> Part {
        let mut part = Part::whole(shape);
        for (axis, over) in self.spread(axes).into_iter().enumerate() {
            if let Some(over) = over {
                let length = shape.dims()[axis] / self.ranks(over);
                let first = self.place(over) * length;
                part = part.along(axis, first..first + length);
            }
        }
        part
    }

    /// The part of `length` things, spread over the model axis, that is here.
    pub fn share(&self, length: usize) -> std::ops::Range<usize> {
        let (ranks, place) = (self.ranks(MeshAxis::Model), self.place(MeshAxis::Model));
        let here = length / ranks;
        place * here..(place + 1) * here
    }

    /// Refuses a network that cannot be spread evenly.
    pub fn check(&self, config: &ModelConfig) -> Result<(), PlacementError> {
        let even = |field, length: usize, axis| {
            let ranks = self.ranks(axis);
            if length.is_multiple_of(ranks) {
                return Ok(());
            }
            let divisors: Vec<String> = (1..=ranks.max(8))
                .rev()
                .filter(|ranks| length.is_multiple_of(*ranks))
                .map(|ranks| ranks.to_string())
                .collect();
            let (less, more) = (length / ranks * ranks, length.div_ceil(ranks) * ranks);
            let sizes = if less == 0 { more.to_string() } else { format!("{less} or {more}") };
            let fits = format!("it could be {sizes}, or the axis {}", divisors.join(", "));
            Err(PlacementError { field, length, ranks, axis, fits })
        };
        let model = MeshAxis::Model;
        even("vocab_size", config.vocab_size, model)?;
        even("num_heads", config.num_heads, model)?;
        even("mlp_dim", config.mlp_dim, model)?;
        if self.partitioning.activations == PartitioningDims::Two {
            even("emb_dim", config.emb_dim, model)?;
        }
        if self.partitioning.parameters == PartitioningDims::Two {
            even("emb_dim", config.emb_dim, MeshAxis::Data)?;
        }
        Ok(())
    }
}
