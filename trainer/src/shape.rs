//! How many numbers of what kind a tensor holds.

use std::fmt;

/// The length of every axis, row-major.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Shape(Vec<usize>);

impl Shape {
    /// A shape with these axes.
    pub fn new(dims: impl Into<Vec<usize>>) -> Self {
        Self(dims.into())
    }

    /// The length of every axis.
    pub fn dims(&self) -> &[usize] {
        &self.0
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The number of elements; 1 without axes.
    pub fn elements(&self) -> usize {
        self.0.iter().product()
    }

    /// The length of the last axis; 1 without axes.
    pub fn width(&self) -> usize {
        self.0.last().copied().unwrap_or(1)
    }

    /// How many rows of [`width`](Self::width) there are.
    pub fn rows(&self) -> usize {
        self.0[..self.0.len().saturating_sub(1)].iter().product()
    }

    /// The same axes but for the last, which gets this length.
    pub fn with_width(&self, width: usize) -> Self {
        let mut dims = self.0.clone();
        match dims.last_mut() {
            Some(last) => *last = width,
            None => dims.push(width),
        }
        Self(dims)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Self {
        Self(dims.to_vec())
    }
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Self {
        Self(dims.to_vec())
    }
}

/// What a tensor's elements are; both take four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Activations, parameters.
    F32,
    /// Token ids, indices, random keys.
    I32,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::I32 => "i32",
        })
    }
}

/// The shape and the kind of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Its axes.
    pub shape: Shape,
    /// Its elements.
    pub kind: Kind,
}

impl Spec {
    /// A tensor of floats.
    pub fn f32(shape: impl Into<Shape>) -> Self {
        Self { shape: shape.into(), kind: Kind::F32 }
    }

    /// A tensor of integers.
    pub fn i32(shape: impl Into<Shape>) -> Self {
        Self { shape: shape.into(), kind: Kind::I32 }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind, self.shape)
    }
}
