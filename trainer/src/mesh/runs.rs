//! Where the numbers of a result are in the messages of the members.
//!
//! ```text
//! all_gather along axis 1 of f32[2, 3], two members:
//! 0..3 of member 0, 0..3 of member 1, 3..6 of member 0, 3..6 of member 1
//! ```

use crate::mesh::{Collective, Message};
use crate::shape::Spec;

/// Numbers of a result that lie in a row in a message.
#[derive(Debug)]
pub(super) struct Run {
    /// Whose message, where results come from several; otherwise 0.
    pub(super) source: usize,
    /// Where in the message.
    pub(super) start: usize,
    /// How many.
    pub(super) length: usize,
    /// Of which tensor.
    pub(super) tensor: usize,
    /// Where in its result.
    pub(super) at: usize,
    /// How many elements of the result are left, these among them.
    pub(super) left: usize,
}

/// The way through a message in the order of a member's results.
#[derive(Debug)]
pub(super) struct Runs<'a> {
    message: &'a Message,
    place: usize,
    tensor: usize,
    /// Where the tensor begins in a message.
    begins: usize,
    cut: Cut,
    /// Of what the cut counts: which repetition, which source, how far into the piece.
    outer: usize,
    source: usize,
    within: usize,
    /// How many elements of the tensor's result lie behind.
    at: usize,
}

/// How a result is put together: `outer` times a piece of each source.
#[derive(Clone, Copy, Debug)]
struct Cut {
    sources: usize,
    outer: usize,
    /// The elements of a piece.
    piece: usize,
    /// From one piece of a source to its next.
    stride: usize,
    /// Of the first piece.
    offset: usize,
}

impl<'a> Runs<'a> {
    pub(super) fn new(message: &'a Message, place: usize) -> Self {
        let cut = Cut { sources: 1, outer: 0, piece: 0, stride: 0, offset: 0 };
        let mut runs =
            Self { message, place, tensor: 0, begins: 0, cut, outer: 0, source: 0, within: 0, at: 0 };
        runs.enter();
        runs
    }

    /// What comes next.
    pub(super) fn run(&self) -> Option<Run> {
        let result = self.message.results().get(self.tensor)?;
        Some(Run {
            source: self.source,
            start: self.needed(self.source),
            length: self.cut.piece - self.within,
            tensor: self.tensor,
            at: self.at,
            left: result.shape.elements() - self.at,
        })
    }

    /// Leaves so many elements of the run behind.
    pub(super) fn advance(&mut self, elements: usize) {
        self.at += elements;
        self.within += elements;
        if self.within < self.cut.piece {
            return;
        }
        self.within = 0;
        self.source += 1;
        if self.source == self.cut.sources {
            self.source = 0;
            self.outer += 1;
        }
        if self.outer == self.cut.outer {
            self.begins += self.message.tensors()[self.tensor].shape.elements();
            self.tensor += 1;
            self.enter();
        }
    }

    /// The first element of a member's message that is still needed.
    pub(super) fn needed(&self, member: usize) -> usize {
        if self.tensor == self.message.tensors().len() {
            return self.begins;
        }
        let source = if self.cut.sources == 1 { 0 } else { member };
        let outer = self.outer + usize::from(source < self.source);
        let within = if source == self.source { self.within } else { 0 };
        self.begins + outer * self.cut.stride + self.cut.offset + within
    }

    /// Begins with the next tensor that has elements.
    fn enter(&mut self) {
        (self.outer, self.source, self.within, self.at) = (0, 0, 0, 0);
        while let Some(tensor) = self.message.tensors().get(self.tensor) {
            if tensor.shape.elements() > 0 {
                self.cut = Cut::new(self.message, tensor, self.place);
                break;
            }
            self.tensor += 1;
        }
    }
}

impl Cut {
    /// Of a tensor with elements, at a member's place.
    fn new(message: &Message, tensor: &Spec, place: usize) -> Self {
        let elements = tensor.shape.elements();
        let before = |axis: usize| tensor.shape.dims()[..axis].iter().product::<usize>();
        match message.collective() {
            Collective::AllReduce(_) | Collective::Broadcast { .. } => {
                Self { sources: 1, outer: 1, piece: elements, stride: elements, offset: 0 }
            }
            Collective::AllGather { axis } => {
                let piece = elements / before(axis);
                Self { sources: message.members(), outer: before(axis), piece, stride: piece, offset: 0 }
            }
            Collective::ReduceScatter { axis } => {
                let stride = elements / before(axis);
                let piece = stride / message.members();
                Self { sources: 1, outer: before(axis), piece, stride, offset: place * piece }
            }
        }
    }
}
