//! What all ranks share, and how one that ends stops the others.

use std::any::Any;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LockResult, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use crate::mesh::group::Group;
use crate::mesh::{Mesh, MeshAxis, Rank};

/// Elements that are moved and summed at once: small enough for the caches of a core, large enough that what it takes
/// to agree on a chunk does not count.
const CHUNK: usize = 1 << 16;

/// All ranks have stopped, since one had to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rank {rank}: {reason}")]
pub struct Stopped {
    /// The one that had to.
    pub rank: usize,
    /// Why.
    pub reason: String,
}

/// The ranks of a mesh, for one run of each.
#[derive(Clone, Debug)]
pub struct World(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    mesh: Mesh,
    /// Those along `data`, one for each place along `model`; then those along `model`.
    groups: Vec<Group>,
    stopped: OnceLock<Stopped>,
    census: Mutex<Census>,
    epoch: Instant,
    chunk: usize,
}

/// How many ranks could still wake another.
#[derive(Debug)]
struct Census {
    entered: Vec<bool>,
    /// Those that have not left, whether they have entered or not.
    remaining: usize,
    /// Those that sleep until another wakes them, and have not been woken.
    asleep: usize,
}

/// Why a rank does not go on.
#[derive(Debug)]
pub(super) enum Halt {
    /// Another has stopped all.
    Stopped(Stopped),
    /// This one has a reason to.
    Because(String),
    /// None is left that could wake another.
    Stuck,
}

impl World {
    /// A world for these ranks, each of which has to [`run`](Self::run) before others can exchange numbers with it.
    pub fn new(mesh: Mesh) -> Self {
        Self::with_chunks(mesh, CHUNK)
    }

    /// With so many elements a chunk.
    pub(super) fn with_chunks(mesh: Mesh, chunk: usize) -> Self {
        let along = |axis, first: usize| Group::new(axis, mesh.group(first, axis));
        let width = mesh.size(MeshAxis::Model);
        let columns = (0..width).map(|first| along(MeshAxis::Data, first));
        let rows = (0..mesh.size(MeshAxis::Data)).map(|row| along(MeshAxis::Model, row * width));
        Self(Arc::new(Shared {
            mesh,
            groups: columns.chain(rows).collect(),
            stopped: OnceLock::new(),
            census: Mutex::new(Census {
                entered: vec![false; mesh.ranks()],
                remaining: mesh.ranks(),
                asleep: 0,
            }),
            epoch: Instant::now(),
            chunk,
        }))
    }

    /// Does the work of a rank in this thread, once.
    ///
    /// If it fails or panics, all ranks stop; a panic becomes an error. If it is done while others wait for it, they
    /// stop as well.
    pub fn run<T, E>(&self, rank: usize, work: impl FnOnce(Rank) -> Result<T, E>) -> Result<T, E>
    where
        E: From<Stopped> + Display,
    {
        self.enter(rank).map_err(|reason| self.stop(rank, reason))?;
        // What the work leaves half done is seen by nobody: all ranks stop.
        match catch_unwind(AssertUnwindSafe(|| work(Rank::new(self.clone(), rank)))) {
            Ok(Ok(result)) => {
                self.leave(rank);
                Ok(result)
            }
            Ok(Err(error)) => {
                self.stop(rank, error.to_string());
                Err(error)
            }
            Err(panic) => {
                let reason = format!("panicked: {}", told(&*panic));
                self.stop(rank, reason.clone());
                Err(Stopped { rank, reason }.into())
            }
        }
    }

    /// Stops all ranks, unless something has before, and gives what stopped them.
    pub fn stop(&self, rank: usize, reason: impl Into<String>) -> Stopped {
        let stopped = self.0.stopped.get_or_init(|| Stopped { rank, reason: reason.into() });
        for group in &self.0.groups {
            group.wake_all(self);
        }
        stopped.clone()
    }

    /// What has stopped all ranks.
    pub fn reason(&self) -> Option<Stopped> {
        self.stopped().cloned()
    }

    pub(super) fn stopped(&self) -> Option<&Stopped> {
        self.0.stopped.get()
    }

    pub(super) fn mesh(&self) -> Mesh {
        self.0.mesh
    }

    pub(super) fn group(&self, rank: usize, axis: MeshAxis) -> &Group {
        let (data, model) = self.0.mesh.coordinates(rank);
        match axis {
            MeshAxis::Data => &self.0.groups[model],
            MeshAxis::Model => &self.0.groups[self.0.mesh.size(MeshAxis::Model) + data],
        }
    }

    pub(super) fn epoch(&self) -> Instant {
        self.0.epoch
    }

    pub(super) fn chunk(&self) -> usize {
        self.0.chunk
    }

    /// Counts a rank that is about to sleep; whether none is left to wake it.
    pub(super) fn fall_asleep(&self) -> bool {
        let mut census = unpoisoned(self.0.census.lock());
        census.asleep += 1;
        census.asleep >= census.remaining
    }

    /// Counts so many ranks that are woken.
    pub(super) fn awake(&self, ranks: usize) {
        unpoisoned(self.0.census.lock()).asleep -= ranks;
    }

    /// Stops all ranks where `halt` asks for it. No lock of a group may be held.
    pub(super) fn halt(&self, rank: usize, halt: Halt) -> Stopped {
        match halt {
            Halt::Stopped(stopped) => stopped,
            Halt::Because(reason) => self.stop(rank, reason),
            Halt::Stuck => {
                let waits: Vec<String> = self.0.groups.iter().flat_map(Group::waits).collect();
                self.stop(rank, format!("every rank waits for another: {}", waits.join("; ")))
            }
        }
    }

    fn enter(&self, rank: usize) -> Result<(), String> {
        match unpoisoned(self.0.census.lock()).entered.get_mut(rank) {
            Some(entered) if !*entered => {
                *entered = true;
                Ok(())
            }
            Some(_) => Err("it has run before, and each rank of a world runs once".to_owned()),
            None => Err(format!("there is no such rank in a mesh of {}", self.0.mesh)),
        }
    }

    fn leave(&self, rank: usize) {
        // Those that wait for it learn so first, since they can tell what for.
        for axis in MeshAxis::ALL {
            self.group(rank, axis).leave(self, self.0.mesh.place(rank, axis));
        }
        let stuck = {
            let mut census = unpoisoned(self.0.census.lock());
            census.remaining -= 1;
            census.asleep > 0 && census.asleep >= census.remaining
        };
        if stuck && self.stopped().is_none() {
            self.halt(rank, Halt::Stuck);
        }
    }
}

/// A lock's content, also after a panic: all ranks stop after one, so nothing half done is used.
pub(super) fn unpoisoned<T>(result: LockResult<T>) -> T {
    result.unwrap_or_else(PoisonError::into_inner)
}

/// What a panic says.
fn told(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(told), _) => told,
        (_, Some(told)) => told,
        _ => "without a message",
    }
}
