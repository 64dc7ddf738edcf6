//! One rank: what a thread holds to exchange numbers with the others.

use std::sync::Arc;

use crate::mesh::exchange::{Exchange, alone};
use crate::mesh::timeline::{Span, SpanKind, Timeline};
use crate::mesh::turn::Turn;
use crate::mesh::world::{Halt, World};
use crate::mesh::{Mesh, MeshAxis, Message, Stopped, Tensors};

/// A rank at work, given by [`World::run`]. Ranks of a group do the same in the same order.
#[derive(Debug)]
pub struct Rank {
    world: World,
    rank: usize,
    /// Along `data` and along `model`.
    seats: [Seat; 2],
    scratch: Vec<f32>,
    traffic: Traffic,
    timeline: Timeline,
    /// Whether the ranks along `data` and along `model` compute in one memory.
    shares: [bool; 2],
    #[cfg(test)]
    pub(super) fault: Option<(u64, super::Fault)>,
}

/// How far a rank has got in a group.
#[derive(Debug, Default)]
struct Seat {
    calls: u64,
    chunks: u64,
    swaps: u64,
}

/// What a rank has exchanged with others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Bytes handed over.
    pub put_bytes: u64,
    /// Bytes taken.
    pub taken_bytes: u64,
    /// Collectives.
    pub messages: u64,
    /// The elements of the largest message.
    pub largest_elements: usize,
    /// Seconds in which there was nothing to do but wait.
    pub waited_seconds: f64,
    /// Seconds in which numbers were moved or added up.
    pub moved_seconds: f64,
}

impl Rank {
    pub(super) fn new(world: World, rank: usize) -> Self {
        let timeline = Timeline::new(rank, world.epoch());
        Self {
            world,
            rank,
            seats: Default::default(),
            scratch: Vec::new(),
            traffic: Traffic::default(),
            timeline,
            shares: [false; 2],
            #[cfg(test)]
            fault: None,
        }
    }

    /// Says that the ranks that differ only along `axis` compute in one memory. All of them have to say so.
    pub(crate) fn share_memory(&mut self, axis: MeshAxis) {
        self.shares[axis as usize] = true;
    }

    /// Whether the ranks that differ only along `axis` compute in one memory.
    pub(crate) fn shares_memory(&self, axis: MeshAxis) -> bool {
        self.shares[axis as usize]
    }

    /// Which rank it is.
    pub fn index(&self) -> usize {
        self.rank
    }

    /// Among which ranks.
    pub fn mesh(&self) -> Mesh {
        self.world.mesh()
    }

    /// Does this with the ranks that differ only along `axis`.
    ///
    /// All of them have to do the same; a difference stops all ranks, and so does a failure of `tensors`.
    pub fn collective(
        &mut self,
        axis: MeshAxis,
        message: &Message,
        tensors: &mut dyn Tensors,
    ) -> Result<(), Stopped> {
        let result = self.exchange(axis, message, tensors);
        result.map_err(|halt| self.world.halt(self.rank, halt))
    }

    fn exchange(&mut self, axis: MeshAxis, message: &Message, tensors: &mut dyn Tensors) -> Result<(), Halt> {
        let Self { world, rank, seats, scratch, traffic, timeline, .. } = self;
        let members = world.mesh().size(axis);
        if message.members() != members {
            return Err(Halt::Because(format!(
                "{message} is meant for {} ranks, but there are {members} along {axis}",
                message.members()
            )));
        }
        if members == 1 {
            if let Some(stopped) = world.stopped() {
                return Err(Halt::Stopped(stopped.clone()));
            }
            let start = timeline.now();
            alone(message, tensors, scratch, world.chunk())?;
            timeline.add(message.label(), SpanKind::Copy, start, timeline.now());
            return Ok(());
        }
        traffic.messages += 1;
        traffic.largest_elements = traffic.largest_elements.max(message.elements());
        let seat = &mut seats[axis as usize];
        let mut turn = Turn {
            group: world.group(*rank, axis),
            place: world.mesh().place(*rank, axis),
            world,
            number: seat.calls,
            message: Some(message),
            timeline,
            traffic,
        };
        turn.begin()?;
        seat.calls += 1;
        seat.chunks = Exchange::new(turn, message, seat.chunks, tensors, scratch).run()?;
        Ok(())
    }

    /// Waits until all ranks that differ only along `axis` have come here.
    pub fn barrier(&mut self, axis: MeshAxis) -> Result<(), Stopped> {
        self.meet(axis, None)
    }

    /// The same where they are about to do this by themselves, in memory that they share.
    pub fn barrier_before(&mut self, axis: MeshAxis, message: &Message) -> Result<(), Stopped> {
        let place = self.world.mesh().place(self.rank, axis);
        self.traffic.messages += 1;
        self.traffic.largest_elements = self.traffic.largest_elements.max(message.elements());
        self.traffic.put_bytes += message.bytes_put(place);
        self.traffic.taken_bytes += message.bytes_taken();
        self.meet(axis, Some(message))
    }

    /// Shows a value to the ranks that differ only along `axis`; what all of them show, in their order.
    pub fn swap<T: Clone + Send + Sync + 'static>(
        &mut self,
        axis: MeshAxis,
        value: T,
    ) -> Result<Vec<T>, Stopped> {
        let (number, place) = (self.seats[axis as usize].swaps, self.world.mesh().place(self.rank, axis));
        self.seats[axis as usize].swaps += 1;
        self.world.group(self.rank, axis).shown(number)[place] = Some(Arc::new(value));
        self.barrier(axis)?;
        let shown = self.world.group(self.rank, axis).shown(number);
        let seen: Vec<T> = shown.iter().flatten().filter_map(|value| value.downcast_ref().cloned()).collect();
        let members = shown.len();
        drop(shown);
        if seen.len() < members {
            return Err(self.world.stop(self.rank, "ranks show each other different things"));
        }
        Ok(seen)
    }

    fn meet(&mut self, axis: MeshAxis, message: Option<&Message>) -> Result<(), Stopped> {
        let Self { world, rank, seats, traffic, timeline, .. } = self;
        let seat = &mut seats[axis as usize];
        let mut turn = Turn {
            group: world.group(*rank, axis),
            place: world.mesh().place(*rank, axis),
            world,
            number: seat.calls,
            message,
            timeline,
            traffic,
        };
        seat.calls += 1;
        let result = turn.begin().and_then(|()| turn.meet());
        result.map_err(|halt| self.world.halt(self.rank, halt))
    }

    /// What was exchanged since this was last asked.
    pub fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }

    /// Whether spans are kept from now on.
    pub fn record(&mut self, on: bool) {
        self.timeline.record(on);
    }

    /// Seconds since the world began.
    pub fn now(&self) -> f64 {
        self.timeline.now()
    }

    /// Adds a span, if spans are kept.
    pub fn span(&mut self, name: &str, kind: SpanKind, start: f64, end: f64) {
        self.timeline.add(name, kind, start, end);
    }

    /// The spans that were kept since this was last asked.
    pub fn take_spans(&mut self) -> Vec<Span> {
        self.timeline.take()
    }
}
