//! Ranks of one process, arranged as a mesh, and how they exchange numbers.
//!
//! ```text
//! World::new(mesh)                          one for all ranks
//!   world.run(rank, |mut rank| …)           in a thread of each rank
//!     rank.collective(axis, &message, …)    with the ranks that differ only along that axis
//! ```
//!
//! All ranks run the same program. Numbers go through memory of the host, in chunks, and are summed in the order of
//! ranks, so that every rank gets the same bits, on every run. What ends one rank ends all.

mod chunks;
mod collective;
mod exchange;
#[cfg(test)]
mod fault;
mod group;
mod message;
mod rank;
mod runs;
mod shape;
mod tensors;
#[cfg(test)]
mod tests;
mod timeline;
mod turn;
mod world;

pub use collective::{Collective, Reduce};
#[cfg(test)]
pub(crate) use fault::Fault;
pub use message::Message;
pub use rank::{Rank, Traffic};
pub use shape::{Mesh, MeshAxis};
pub use tensors::{Failure, HostTensors, Tensors};
pub use timeline::{Span, SpanKind};
pub use world::{Stopped, World};
