//! What the ranks of a group share: how far each has got, and the memory through which numbers go.

use std::any::Any;
use std::fmt::Write as _;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::mesh::chunks::{Chunks, SLOTS};
use crate::mesh::world::{Halt, World, unpoisoned};
use crate::mesh::{MeshAxis, Message};

/// Ranks that differ only along one axis of the mesh.
#[derive(Debug)]
pub(super) struct Group {
    axis: MeshAxis,
    members: Vec<usize>,
    state: Mutex<State>,
    changed: Condvar,
    /// Of each member, the chunks that are on their way.
    slots: Vec<RwLock<Vec<f32>>>,
    /// What members show each other, by the parity of the swap's number.
    shown: [Mutex<Vec<Option<Shown>>>; 2],
}

/// Anything that one member shows the others.
pub(super) type Shown = Arc<dyn Any + Send + Sync>;

/// How far the members of a group have got.
#[derive(Debug)]
pub(super) struct State {
    /// What is being done, told by the first to do it: by the parity of its number, until all have begun it.
    pub(super) calls: [Option<Call>; 2],
    /// How many calls each member has begun.
    pub(super) begun: Vec<u64>,
    /// Which members will begin no more.
    pub(super) ended: Vec<bool>,
    pub(super) chunks: Chunks,
    sleepers: usize,
    /// What sleepers wait for.
    wanted: [bool; 3],
    /// How often sleepers have been woken.
    wakes: u64,
}

/// Something that all members of a group do together.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) number: u64,
    /// `None` at a barrier.
    pub(super) message: Option<Message>,
    /// The rank that told it.
    pub(super) by: usize,
}

/// What a sleeper may wait for.
#[derive(Clone, Copy, Debug)]
pub(super) enum News {
    /// All have begun a call.
    Begun,
    /// Numbers can be taken or summed.
    Numbers,
    /// Numbers can be put.
    Room,
}

impl Group {
    pub(super) fn new(axis: MeshAxis, members: Vec<usize>) -> Self {
        let state = State {
            calls: [None, None],
            begun: vec![0; members.len()],
            ended: vec![false; members.len()],
            chunks: Chunks::new(members.len()),
            sleepers: 0,
            wanted: [false; 3],
            wakes: 0,
        };
        let slots = (0..members.len() * SLOTS).map(|_| RwLock::default()).collect();
        let shown = [(); 2].map(|()| Mutex::new(vec![None; members.len()]));
        Self { axis, members, state: Mutex::new(state), changed: Condvar::new(), slots, shown }
    }

    pub(super) fn axis(&self) -> MeshAxis {
        self.axis
    }

    /// Ranks, in order.
    pub(super) fn members(&self) -> &[usize] {
        &self.members
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        unpoisoned(self.state.lock())
    }

    /// The memory for a chunk of a member, to put it in.
    pub(super) fn write(&self, member: usize, chunk: u64) -> RwLockWriteGuard<'_, Vec<f32>> {
        unpoisoned(self.slot(member, chunk).write())
    }

    /// A chunk of a member.
    pub(super) fn read(&self, member: usize, chunk: u64) -> RwLockReadGuard<'_, Vec<f32>> {
        unpoisoned(self.slot(member, chunk).read())
    }

    /// What members show each other in a swap. Nobody begins the next but one before all have seen this one, since there
    /// is a barrier in each.
    pub(super) fn shown(&self, swap: u64) -> MutexGuard<'_, Vec<Option<Shown>>> {
        unpoisoned(self.shown[(swap % 2) as usize].lock())
    }

    fn slot(&self, member: usize, chunk: u64) -> &RwLock<Vec<f32>> {
        &self.slots[member * SLOTS + Chunks::slot(chunk)]
    }

    /// Sleeps until there is news of a kind that is wanted, or the world stops.
    pub(super) fn sleep<'a>(
        &'a self,
        world: &World,
        mut state: MutexGuard<'a, State>,
        wanted: &[News],
    ) -> Result<MutexGuard<'a, State>, Halt> {
        for news in wanted {
            state.wanted[*news as usize] = true;
        }
        state.sleepers += 1;
        let wakes = state.wakes;
        if world.fall_asleep() {
            return Err(Halt::Stuck);
        }
        while state.wakes == wakes && world.stopped().is_none() {
            state = unpoisoned(self.changed.wait(state));
        }
        Ok(state)
    }

    /// Wakes sleepers if one of them waits for this.
    pub(super) fn wake(&self, world: &World, state: &mut State, news: News) {
        if state.wanted[news as usize] {
            self.wake_sleepers(world, state);
        }
    }

    /// Wakes sleepers whatever they wait for.
    pub(super) fn wake_all(&self, world: &World) {
        self.wake_sleepers(world, &mut self.lock());
    }

    fn wake_sleepers(&self, world: &World, state: &mut State) {
        world.awake(state.sleepers);
        state.sleepers = 0;
        state.wanted = [false; 3];
        state.wakes += 1;
        self.changed.notify_all();
    }

    /// Tells that a member will begin nothing more.
    pub(super) fn leave(&self, world: &World, place: usize) {
        let mut state = self.lock();
        state.ended[place] = true;
        self.wake_sleepers(world, &mut state);
    }

    /// What has not been begun by all, in words.
    pub(super) fn waits(&self) -> Vec<String> {
        let state = self.lock();
        let calls = state.calls.iter().flatten();
        calls
            .map(|call| {
                let mut wait = format!("{} over {} waits for", words(call.message.as_ref()), self.axis);
                for (rank, begun) in self.members.iter().zip(&state.begun) {
                    if *begun <= call.number {
                        let _ = write!(wait, " rank {rank}");
                    }
                }
                wait
            })
            .collect()
    }
}

/// A call in words.
pub(super) fn words(message: Option<&Message>) -> String {
    message.map_or_else(|| "a barrier".to_owned(), Message::to_string)
}
