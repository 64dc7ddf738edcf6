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
#[error(
    "{ranks} ranks of the {axis} axis cannot share {} evenly; the axis could have {}",
    lengths_in_words(.lengths),
    any_of(.fits)
)]
pub struct PlacementError {
    /// Ranks that share.
    pub ranks: usize,
    /// Along which axis.
    pub axis: MeshAxis,
    /// The settings that they cannot share, and what each is.
    pub lengths: Vec<(&'static str, usize)>,
    /// How many ranks could share all that is spread over the axis, the most first.
    pub fits: Vec<usize>,
}

fn lengths_in_words(lengths: &[(&'static str, usize)]) -> String {
    listed(lengths.iter().map(|(field, length)| format!("`{field}` {length}")), "and")
}

/// Numbers to choose from, in words.
pub(crate) fn any_of(numbers: &[usize]) -> String {
    listed(numbers.iter().map(ToString::to_string), "or")
}

/// One after the other, with a word before the last.
fn listed(words: impl Iterator<Item = String>, word: &str) -> String {
    let words: Vec<String> = words.collect();
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} {word} {last}", others.join(", ")),
        _ => words.concat(),
    }
}

/// How many ranks could share things of all these lengths evenly, where so many cannot; the most first, and not many
/// more than were asked for.
pub(crate) fn fitting(ranks: usize, lengths: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut fits: Vec<usize> = (1..=ranks.saturating_mul(2).min(MOST_RANKS)).rev().collect();
    lengths.into_iter().for_each(|length| fits.retain(|ranks| length.is_multiple_of(*ranks)));
    fits
}

/// More ranks than these nobody is told of.
const MOST_RANKS: usize = 1024;

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
        let mut over_model = vec![
            ("vocab_size", config.vocab_size),
            ("num_heads", config.num_heads),
            ("mlp_dim", config.mlp_dim),
        ];
        let mut over_data = Vec::new();
        if self.partitioning.activations == PartitioningDims::Two {
            over_model.push(("emb_dim", config.emb_dim));
        }
        if self.partitioning.parameters == PartitioningDims::Two {
            over_data.push(("emb_dim", config.emb_dim));
        }
        for (axis, spread) in [(MeshAxis::Model, over_model), (MeshAxis::Data, over_data)] {
            let (ranks, mut lengths) = (self.ranks(axis), spread.clone());
            lengths.retain(|(_, length)| !length.is_multiple_of(ranks));
            if !lengths.is_empty() {
                let fits = fitting(ranks, spread.into_iter().map(|(_, length)| length));
                return Err(PlacementError { ranks, axis, lengths, fits });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::preset;

    fn refused(data: usize, model: usize, config: &ModelConfig) -> String {
        let dims = PartitioningDims::Two;
        let partitioning = Partitioning { activations: dims, parameters: dims };
        let mesh = Mesh::new(data, model).unwrap();
        Placement { mesh, rank: 0, partitioning }.check(config).unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_be_shared_is_told_with_what_could() {
        let config = preset("t5_1_1/small").unwrap();
        let told = [refused(1, 7, &config), refused(1, 4, &config), refused(3, 2, &config)];
        insta::assert_snapshot!(told.join("\n"), @r"
        7 ranks of the model axis cannot share `vocab_size` 32128, `num_heads` 6, `mlp_dim` 1024 and `emb_dim` 512 evenly; the axis could have 2 or 1
        4 ranks of the model axis cannot share `num_heads` 6 evenly; the axis could have 2 or 1
        3 ranks of the data axis cannot share `emb_dim` 512 evenly; the axis could have 4, 2 or 1
        ");
    }

    #[test]
    fn numbers_to_choose_from_are_not_many() {
        assert_eq!(fitting(3, [16]), [4, 2, 1]);
        assert_eq!(fitting(usize::MAX, [4096, 96]).first(), Some(&32));
        assert_eq!((any_of(&[4, 2, 1]), any_of(&[1])), ("4, 2 or 1".to_owned(), "1".to_owned()));
    }
}
