//! How ranks are arranged: `data` rows of `model` ranks each.
//!
//! ```text
//! data 2, model 3       rank 4 is at (1, 1)
//!   0 1 2               along data:  1, 4
//!   3 4 5               along model: 3, 4, 5
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};

/// An axis of a mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeshAxis {
    /// Ranks along it see other examples.
    Data,
    /// Ranks along it hold other parts of the same layers.
    Model,
}

impl MeshAxis {
    pub(super) const ALL: [Self; 2] = [Self::Data, Self::Model];
}

impl fmt::Display for MeshAxis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Data => "data",
            Self::Model => "model",
        })
    }
}

/// How many ranks there are along each axis; at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mesh {
    data: usize,
    model: usize,
}

impl Mesh {
    /// With so many ranks along each axis, or why there is no such mesh.
    pub fn new(data: usize, model: usize) -> Result<Self, String> {
        match data.checked_mul(model) {
            Some(1..) => Ok(Self { data, model }),
            Some(0) => Err(format!("a mesh of {data} × {model} has no ranks: each axis has at least 1")),
            None => Err(format!("a mesh of {data} × {model} has more ranks than can be counted")),
        }
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> usize {
        self.data * self.model
    }

    /// How many ranks there are along an axis.
    pub fn size(&self, axis: MeshAxis) -> usize {
        match axis {
            MeshAxis::Data => self.data,
            MeshAxis::Model => self.model,
        }
    }

    /// Where a rank is along `data` and along `model`.
    pub fn coordinates(&self, rank: usize) -> (usize, usize) {
        (rank / self.model, rank % self.model)
    }

    /// The ranks that differ from this one only along `axis`, itself among them, in order.
    pub fn group(&self, rank: usize, axis: MeshAxis) -> Vec<usize> {
        let (data, model) = self.coordinates(rank);
        match axis {
            MeshAxis::Data => (0..self.data).map(|data| data * self.model + model).collect(),
            MeshAxis::Model => (0..self.model).map(|model| data * self.model + model).collect(),
        }
    }

    /// Where a rank is in its [`group`](Self::group).
    pub fn place(&self, rank: usize, axis: MeshAxis) -> usize {
        let (data, model) = self.coordinates(rank);
        match axis {
            MeshAxis::Data => data,
            MeshAxis::Model => model,
        }
    }
}

/// One rank.
impl Default for Mesh {
    fn default() -> Self {
        Self { data: 1, model: 1 }
    }
}

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {} (data × model)", self.data, self.model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_has_its_place_in_a_group_along_each_axis() {
        let mesh = Mesh::new(2, 3).unwrap();
        assert_eq!(mesh.ranks(), 6);
        assert_eq!(MeshAxis::ALL.map(|axis| mesh.size(axis)), [2, 3]);
        assert_eq!(mesh.coordinates(4), (1, 1));
        assert_eq!(mesh.group(4, MeshAxis::Data), [1, 4]);
        assert_eq!(mesh.group(4, MeshAxis::Model), [3, 4, 5]);
        for rank in 0..6 {
            for axis in MeshAxis::ALL {
                assert_eq!(mesh.group(rank, axis)[mesh.place(rank, axis)], rank);
            }
        }
        assert_eq!(Mesh::default().group(0, MeshAxis::Data), [0]);
    }

    #[test]
    fn a_mesh_has_ranks() {
        insta::assert_snapshot!(Mesh::new(2, 0).unwrap_err(), @"a mesh of 2 × 0 has no ranks: each axis has at least 1");
        assert!(Mesh::new(usize::MAX, 2).unwrap_err().ends_with("has more ranks than can be counted"));
    }

    #[test]
    fn axes_are_written_as_words() {
        assert_eq!(serde_json::to_string(&MeshAxis::ALL).unwrap(), r#"["data","model"]"#);
        assert_eq!(MeshAxis::ALL.map(|axis| axis.to_string()), ["data", "model"]);
    }
}
