//! What ranks of a group do together, and what it makes of a tensor.
//!
//! ```text
//! [1, 2] and [3, 4] on two ranks:
//! all_reduce (sum)        [4, 6] on both
//! all_gather axis 0       [1, 2, 3, 4] on both
//! reduce_scatter axis 0   [4] and [6]
//! broadcast root 1        [3, 4] on both
//! ```

use std::fmt;

use crate::shape::{Kind, Shape, Spec};

/// How the numbers of several ranks become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    /// Added up in the order of ranks.
    Sum,
    /// The largest; what is not a number stays.
    Max,
}

/// What ranks of a group do together with a tensor of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// All get the sum, or the largest, of all.
    AllReduce(Reduce),
    /// All get the tensors of all, one after another along an axis of the tensor.
    AllGather {
        /// Which.
        axis: usize,
    },
    /// The sum of all is cut along an axis of the tensor, and each gets its part.
    ReduceScatter {
        /// Which.
        axis: usize,
    },
    /// All get the tensor of one.
    Broadcast {
        /// Its place in the group.
        root: usize,
    },
}

impl Collective {
    /// What each of so many members gets for a tensor like this, or why it cannot be.
    pub fn output(&self, input: &Spec, members: usize) -> Result<Spec, String> {
        let dims = input.shape.dims();
        let (sums, cut) = match *self {
            Self::AllReduce(_) => (true, None),
            Self::AllGather { axis } => (false, Some(axis)),
            Self::ReduceScatter { axis } => (true, Some(axis)),
            Self::Broadcast { root } if root >= members => {
                return Err(format!("{self}: there are only {members} ranks"));
            }
            Self::Broadcast { .. } => (false, None),
        };
        if sums && input.kind == Kind::I32 {
            return Err(format!(
                "{self} of {input}: integers go as the bits of floats and cannot be reduced"
            ));
        }
        let Some(axis) = cut else { return Ok(input.clone()) };
        let Some(&length) = dims.get(axis) else {
            return Err(format!("{self} of {input}: it has {} axes, counted from 0", dims.len()));
        };
        let mut dims = dims.to_vec();
        dims[axis] = match self {
            Self::ReduceScatter { .. } if !length.is_multiple_of(members) => {
                return Err(format!("{self} of {input}: {length} cannot be cut into {members} equal parts"));
            }
            Self::ReduceScatter { .. } => length / members,
            _ => length.saturating_mul(members),
        };
        Ok(Spec { shape: Shape::new(dims), kind: input.kind })
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllReduce(Reduce::Sum) => f.write_str("all_reduce (sum)"),
            Self::AllReduce(Reduce::Max) => f.write_str("all_reduce (max)"),
            Self::AllGather { axis } => write!(f, "all_gather along axis {axis}"),
            Self::ReduceScatter { axis } => write!(f, "reduce_scatter along axis {axis}"),
            Self::Broadcast { root } => write!(f, "broadcast from rank {root} of a group"),
        }
    }
}

/// Reduces `from` into `into`, which comes first in the order of ranks.
pub(super) fn reduce(how: Reduce, into: &mut [f32], from: &[f32]) {
    match how {
        Reduce::Sum => into.iter_mut().zip(from).for_each(|(into, from)| *into += from),
        Reduce::Max => into.iter_mut().zip(from).for_each(|(into, from)| {
            *into = if *from > *into || from.is_nan() { *from } else { *into };
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_follow_from_the_collective() {
        let of = |collective: Collective| collective.output(&Spec::f32([4, 6]), 2).unwrap().to_string();
        assert_eq!(of(Collective::AllReduce(Reduce::Sum)), "f32[4, 6]");
        assert_eq!(of(Collective::AllGather { axis: 0 }), "f32[8, 6]");
        assert_eq!(of(Collective::AllGather { axis: 1 }), "f32[4, 12]");
        assert_eq!(of(Collective::ReduceScatter { axis: 1 }), "f32[4, 3]");
        assert_eq!(of(Collective::Broadcast { root: 1 }), "f32[4, 6]");
        let ids = Spec::i32([3]);
        assert_eq!(Collective::AllGather { axis: 0 }.output(&ids, 3).unwrap(), Spec::i32([9]));
    }

    #[test]
    fn what_cannot_be_is_told() {
        let no = |collective: Collective, spec: Spec| collective.output(&spec, 2).unwrap_err();
        let told = [
            no(Collective::ReduceScatter { axis: 1 }, Spec::f32([4, 5])),
            no(Collective::ReduceScatter { axis: 0 }, Spec::i32([4])),
            no(Collective::AllReduce(Reduce::Max), Spec::i32([4])),
            no(Collective::AllGather { axis: 2 }, Spec::f32([4, 5])),
            no(Collective::Broadcast { root: 2 }, Spec::f32([1])),
        ];
        insta::assert_snapshot!(told.join("\n"), @r"
        reduce_scatter along axis 1 of f32[4, 5]: 5 cannot be cut into 2 equal parts
        reduce_scatter along axis 0 of i32[4]: integers go as the bits of floats and cannot be reduced
        all_reduce (max) of i32[4]: integers go as the bits of floats and cannot be reduced
        all_gather along axis 2 of f32[4, 5]: it has 2 axes, counted from 0
        broadcast from rank 2 of a group: there are only 2 ranks
        ");
    }

    #[test]
    fn the_largest_is_not_a_number_where_one_is_not() {
        let nan = f32::NAN;
        let mut into = [1.0, nan, 2.0, f32::NEG_INFINITY];
        reduce(Reduce::Max, &mut into, &[2.0, 3.0, nan, -5.0]);
        assert_eq!((into[0], into[3]), (2.0, -5.0));
        assert!(into[1].is_nan() && into[2].is_nan());
    }
}
