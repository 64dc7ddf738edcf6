//! Who holds which part of a tensor: T5X's rules from logical axes to axes of the mesh, and the part of each rank.
//!
//! ```text
//! `decoder/layers_0/mlp/wi_0/kernel`   ["embed", "mlp"]   embed -> data, mlp -> model
//! mesh 2 x 2, rank 3 (data 1, model 1)                    rows D/2..D, columns H/2..H
//! ```

mod part;
mod placement;
mod record;
mod rules;

pub use part::Part;
pub use placement::{Placement, PlacementError};
pub(crate) use placement::{any_of, fitting};
pub use rules::{Partitioning, PartitioningDims, Rule, spread};
