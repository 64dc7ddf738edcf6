//! What a collective is about: several tensors may go as one message.

use std::fmt;

use crate::mesh::Collective;
use crate::shape::Spec;

/// So many shapes are written out in errors.
const SHOWN: usize = 4;

/// A collective over some tensors, the same on every member of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    label: String,
    collective: Collective,
    members: usize,
    tensors: Vec<Spec>,
    results: Vec<Spec>,
}

impl Message {
    /// A collective of so many members; `label` names it in errors and in timelines. Or why it cannot be.
    pub fn new(
        label: impl Into<String>,
        collective: Collective,
        tensors: Vec<Spec>,
        members: usize,
    ) -> Result<Self, String> {
        let results = tensors.iter().map(|tensor| collective.output(tensor, members));
        let results = results.collect::<Result<_, _>>()?;
        Ok(Self { label: label.into(), collective, members, tensors, results })
    }

    /// The bytes that the member at `place` hands over; none where there are no others.
    pub fn bytes_put(&self, place: usize) -> u64 {
        if self.members > 1 && self.puts(place) { 4 * self.elements() as u64 } else { 0 }
    }

    /// The bytes that a member takes; none where there are no others.
    pub fn bytes_taken(&self) -> u64 {
        let elements: usize = self.results.iter().map(|result| result.shape.elements()).sum();
        if self.members > 1 { 4 * elements as u64 } else { 0 }
    }

    /// The numbers of all tensors of a member.
    pub(super) fn elements(&self) -> usize {
        self.tensors.iter().map(|tensor| tensor.shape.elements()).sum()
    }

    /// Whether a member's numbers are asked for.
    pub(super) fn puts(&self, place: usize) -> bool {
        match self.collective {
            Collective::Broadcast { root } => place == root,
            _ => true,
        }
    }

    pub(super) fn label(&self) -> &str {
        &self.label
    }

    /// What it does.
    pub fn collective(&self) -> Collective {
        self.collective
    }

    pub(super) fn members(&self) -> usize {
        self.members
    }

    pub(crate) fn tensors(&self) -> &[Spec] {
        &self.tensors
    }

    pub(crate) fn results(&self) -> &[Spec] {
        &self.results
    }

    /// Where two messages of one length first differ in a tensor that is not written out.
    pub(super) fn hidden_difference(&self, other: &Self) -> Option<String> {
        let both = || self.tensors.iter().zip(&other.tensors).skip(SHOWN);
        let at = both().position(|(a, b)| a != b)?;
        let (a, b) = both().nth(at)?;
        Some(format!("their tensors {} are {a} and {b}", SHOWN + at))
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`, {} of", self.label, self.collective)?;
        for tensor in self.tensors.iter().take(SHOWN) {
            write!(f, " {tensor}")?;
        }
        if self.tensors.len() > SHOWN {
            write!(f, " … ({} tensors, {} elements)", self.tensors.len(), self.elements())?;
        }
        Ok(())
    }
}
