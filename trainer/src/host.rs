//! Numbers on the host, on their way to a program or back.

use crate::shape::Kind;

/// The elements of a tensor, row-major.
#[derive(Clone, Debug, PartialEq)]
pub enum HostTensor {
    /// Floats.
    F32(Vec<f32>),
    /// Integers.
    I32(Vec<i32>),
}

impl HostTensor {
    /// How many elements there are.
    pub fn elements(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::I32(values) => values.len(),
        }
    }

    /// What they are.
    pub fn kind(&self) -> Kind {
        match self {
            Self::F32(_) => Kind::F32,
            Self::I32(_) => Kind::I32,
        }
    }

    /// Their bytes, little-endian on every machine that wgpu runs on.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::F32(values) => bytemuck::cast_slice(values),
            Self::I32(values) => bytemuck::cast_slice(values),
        }
    }

    /// The same bits as floats, the form that buffers on the host have.
    pub(crate) fn as_f32_bits(&self) -> &[f32] {
        match self {
            Self::F32(values) => values,
            Self::I32(values) => bytemuck::cast_slice(values),
        }
    }
}
