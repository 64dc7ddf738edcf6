//! A message on its way between the members of a group.
//!
//! ```text
//! each member      puts chunk k      once all have taken chunk k - SLOTS
//! one member       sums chunk k      once all have put it (all_reduce)
//! each member      takes chunk k     once it is summed, or put by those whose numbers it needs
//! ```
//!
//! A chunk is summed in the order of ranks by whichever member gets to it, so who it is does not show in the bits.

use std::sync::RwLockReadGuard;

use crate::mesh::collective::reduce;
use crate::mesh::group::{Group, News, State};
use crate::mesh::runs::{Run, Runs};
use crate::mesh::timeline::SpanKind;
use crate::mesh::turn::Turn;
use crate::mesh::world::Halt;
use crate::mesh::{Collective, Failure, Message, Reduce, Tensors};

/// Fewer elements than these are delivered together with others.
const SMALL: usize = 1 << 12;

/// Elements that are summed over all members before the next: they stay in the fastest cache.
const BLOCK: usize = 1 << 12;

pub(super) struct Exchange<'a> {
    turn: Turn<'a>,
    message: &'a Message,
    tensors: &'a mut dyn Tensors,
    /// Results that are delivered together.
    scratch: &'a mut Vec<f32>,
    /// The elements of a chunk.
    chunk: usize,
    /// The first chunk of the message, and the one after its last.
    first: u64,
    end: u64,
    puts: Puts,
    takes: Runs<'a>,
    /// Of each source, the first chunk that is not ready.
    ready: Vec<u64>,
}

/// What this member has still to put.
struct Puts {
    chunk: u64,
    end: u64,
    tensor: usize,
    at: usize,
}

/// What a member does without looking at the others.
#[derive(Clone, Copy)]
enum Step {
    Put(u64),
    Sum(u64),
    Take,
    Finish,
}

impl<'a> Exchange<'a> {
    /// Of a message whose first chunk has this number.
    pub(super) fn new(
        turn: Turn<'a>,
        message: &'a Message,
        first: u64,
        tensors: &'a mut dyn Tensors,
        scratch: &'a mut Vec<f32>,
    ) -> Self {
        let chunk = turn.world.chunk();
        let end = first + message.elements().div_ceil(chunk) as u64;
        let puts = if message.puts(turn.place) { end } else { first };
        scratch.clear();
        Self {
            chunk,
            first,
            end,
            puts: Puts { chunk: first, end: puts, tensor: 0, at: 0 },
            takes: Runs::new(message, turn.place),
            ready: vec![first; message.members()],
            turn,
            message,
            tensors,
            scratch,
        }
    }

    /// Does what there is to do, and gives the number of the next message's first chunk.
    pub(super) fn run(mut self) -> Result<u64, Halt> {
        let group = self.turn.group;
        // What this member does not need at all, before its part of a sum, is taken from the start.
        let mut done = Step::Take;
        loop {
            let mut state = group.lock();
            // Told once, or two members would wake each other over and over.
            let mut news = self.note(&mut state, done);
            let step = loop {
                self.turn.check(&state)?;
                let step = self.choose(&mut state);
                self.tell(&mut state, news.take());
                if let Some(step) = step {
                    break step;
                }
                let wanted: &[News] = match self.puts.chunk < self.puts.end {
                    true => &[News::Numbers, News::Room],
                    false => &[News::Numbers],
                };
                state = self.turn.sleep(state, wanted)?;
            };
            drop(state);
            let start = self.turn.timeline.now();
            let kind = match step {
                Step::Put(chunk) => self.put(chunk)?,
                Step::Sum(chunk) => self.sum(chunk),
                Step::Take => self.take()?,
                Step::Finish => return Ok(self.end),
            };
            self.turn.spent(kind, start);
            done = step;
        }
    }

    /// Writes down what was done; which others may care for it.
    fn note(&mut self, state: &mut State, done: Step) -> Option<News> {
        let (chunks, place) = (&mut state.chunks, self.turn.place);
        match done {
            Step::Put(chunk) => {
                chunks.put(place, chunk);
                match self.message.collective() {
                    // Whoever sums it will tell.
                    Collective::AllReduce(_) => None,
                    Collective::ReduceScatter { .. } => {
                        (chunks.put_by_all() > chunk).then_some(News::Numbers)
                    }
                    Collective::AllGather { .. } | Collective::Broadcast { .. } => Some(News::Numbers),
                }
            }
            Step::Sum(chunk) => {
                chunks.sum(chunk);
                Some(News::Numbers)
            }
            Step::Take => {
                for member in 0..self.message.members() {
                    chunks.take(place, member, self.chunk_of(self.takes.needed(member)));
                }
                Some(News::Room)
            }
            Step::Finish => None,
        }
    }

    /// Wakes those who wait for news, or who could sum a chunk that this member leaves to them.
    fn tell(&self, state: &mut State, news: Option<News>) {
        let Turn { world, group, .. } = self.turn;
        if let Some(news) = news {
            group.wake(world, state, news);
        }
        if self.to_sum(state).is_some() {
            group.wake(world, state, News::Numbers);
        }
    }

    /// What can be done now: first what others wait for and what is still in the caches.
    fn choose(&mut self, state: &mut State) -> Option<Step> {
        let (members, place) = (self.message.members() as u64, self.turn.place);
        let to_sum = self.to_sum(state);
        if let Some(chunk) = to_sum.filter(|chunk| (chunk - self.first) % members == place as u64) {
            state.chunks.claim(chunk);
            return Some(Step::Sum(chunk));
        }
        let run = self.takes.run();
        if let Some(run) = &run
            && self.is_ready(state, run)
        {
            return Some(Step::Take);
        }
        if self.puts.chunk < self.puts.end && state.chunks.has_room(place, self.puts.chunk) {
            return Some(Step::Put(self.puts.chunk));
        }
        if let Some(chunk) = to_sum {
            state.chunks.claim(chunk);
            return Some(Step::Sum(chunk));
        }
        (run.is_none() && self.puts.chunk == self.puts.end).then_some(Step::Finish)
    }

    fn to_sum(&self, state: &State) -> Option<u64> {
        match self.message.collective() {
            Collective::AllReduce(_) => state.chunks.unclaimed(self.first, self.end),
            _ => None,
        }
    }

    /// Looks at what can be taken; whether the beginning of `run` can.
    fn is_ready(&mut self, state: &State, run: &Run) -> bool {
        let (chunks, next) = (&state.chunks, self.chunk_of(run.start));
        match self.message.collective() {
            Collective::AllReduce(_) => self.ready[0] = chunks.summed(next, self.end),
            Collective::ReduceScatter { .. } => self.ready[0] = chunks.put_by_all(),
            Collective::Broadcast { root } => self.ready[0] = chunks.put_by(root),
            Collective::AllGather { .. } => {
                for (member, ready) in self.ready.iter_mut().enumerate() {
                    *ready = chunks.put_by(member);
                }
            }
        }
        next < self.ready[run.source]
    }

    /// The chunk of an element, or the one after the last.
    fn chunk_of(&self, element: usize) -> u64 {
        let chunk = self.first + (element / self.chunk) as u64;
        if element == self.message.elements() { self.end } else { chunk }
    }

    /// The elements of a chunk.
    fn length(&self, chunk: u64) -> usize {
        let start = (chunk - self.first) as usize * self.chunk;
        self.chunk.min(self.message.elements() - start)
    }

    fn put(&mut self, chunk: u64) -> Result<SpanKind, Halt> {
        let length = self.length(chunk);
        let mut slot = self.turn.group.write(self.turn.place, chunk);
        if slot.len() < length {
            slot.resize(length, 0.0);
        }
        let Puts { tensor, at, .. } = &mut self.puts;
        let mut filled = 0;
        while filled < length {
            let left = self.message.tensors()[*tensor].shape.elements() - *at;
            if left == 0 {
                (*tensor, *at) = (*tensor + 1, 0);
                continue;
            }
            let count = left.min(length - filled);
            let fetched = self.tensors.fetch(*tensor, *at, &mut slot[filled..filled + count]);
            fetched.map_err(|failure| failed(self.message, failure))?;
            (filled, *at) = (filled + count, *at + count);
        }
        self.puts.chunk += 1;
        self.turn.traffic.put_bytes += 4 * length as u64;
        Ok(SpanKind::Copy)
    }

    /// Sums a chunk where the first member has put its own.
    fn sum(&mut self, chunk: u64) -> SpanKind {
        let (group, length) = (self.turn.group, self.length(chunk));
        let how = match self.message.collective() {
            Collective::AllReduce(how) => how,
            _ => Reduce::Sum,
        };
        let mut sum = group.write(0, chunk);
        let others: Vec<_> = (1..self.message.members()).map(|member| group.read(member, chunk)).collect();
        for (at, block) in sum[..length].chunks_mut(BLOCK).enumerate() {
            for other in &others {
                reduce(how, block, &other[at * BLOCK..][..block.len()]);
            }
        }
        SpanKind::Sum
    }

    /// Takes what was ready, a chunk's elements at most.
    fn take(&mut self) -> Result<SpanKind, Halt> {
        let mut reader = Reader::new(self.turn.group);
        let mut budget = self.chunk;
        while budget > 0
            && let Some(run) = self.takes.run()
            && self.chunk_of(run.start) < self.ready[run.source]
        {
            let (chunk, offset) = (self.chunk_of(run.start), run.start % self.chunk);
            let count = run.length.min(self.chunk - offset).min(budget);
            let part = offset..offset + count;
            let source = match self.message.collective() {
                Collective::Broadcast { root } => root,
                // Where there is one source, it is the sum, which is at the first member, or it begins with that.
                _ => run.source,
            };
            let from = &reader.chunk(source, chunk)[part.clone()];
            if let Collective::ReduceScatter { .. } = self.message.collective() {
                let before = self.scratch.len();
                self.scratch.extend_from_slice(from);
                for member in 1..self.message.members() {
                    let from = &reader.chunk(member, chunk)[part.clone()];
                    reduce(Reduce::Sum, &mut self.scratch[before..], from);
                }
            } else if count >= SMALL || (count == run.left && self.scratch.is_empty()) {
                deliver(self.message, self.tensors, self.scratch, &run, 0)?;
                let delivered = self.tensors.deliver(run.tensor, run.at, from);
                delivered.map_err(|failure| failed(self.message, failure))?;
            } else {
                self.scratch.extend_from_slice(from);
            }
            if self.scratch.len() >= self.chunk || count == run.left {
                deliver(self.message, self.tensors, self.scratch, &run, count)?;
            }
            self.takes.advance(count);
            self.turn.traffic.taken_bytes += 4 * count as u64;
            budget -= count;
        }
        Ok(match self.message.collective() {
            Collective::ReduceScatter { .. } => SpanKind::Sum,
            _ => SpanKind::Copy,
        })
    }
}

/// Delivers what was put by, which ends `taken` elements into a run.
fn deliver(
    message: &Message,
    tensors: &mut dyn Tensors,
    scratch: &mut Vec<f32>,
    run: &Run,
    taken: usize,
) -> Result<(), Halt> {
    if !scratch.is_empty() {
        let delivered = tensors.deliver(run.tensor, run.at + taken - scratch.len(), scratch);
        delivered.map_err(|failure| failed(message, failure))?;
        scratch.clear();
    }
    Ok(())
}

fn failed(message: &Message, failure: Failure) -> Halt {
    Halt::Because(format!("`{}`: {failure}", message.label()))
}

/// Chunks that are being taken, each locked once.
struct Reader<'a> {
    group: &'a Group,
    open: Vec<Option<(u64, RwLockReadGuard<'a, Vec<f32>>)>>,
}

impl<'a> Reader<'a> {
    fn new(group: &'a Group) -> Self {
        Self { group, open: group.members().iter().map(|_| None).collect() }
    }

    fn chunk(&mut self, member: usize, chunk: u64) -> &[f32] {
        let open = &mut self.open[member];
        match open {
            Some((held, _)) if *held == chunk => {}
            _ => *open = Some((chunk, self.group.read(member, chunk))),
        }
        open.as_ref().map_or(&[], |(_, numbers)| numbers)
    }
}

/// What every collective is for a member without others: results are inputs, and go through no shared memory.
pub(super) fn alone(
    message: &Message,
    tensors: &mut dyn Tensors,
    scratch: &mut Vec<f32>,
    chunk: usize,
) -> Result<(), Halt> {
    let failed = |failure| failed(message, failure);
    for (tensor, spec) in message.tensors().iter().enumerate() {
        let elements = spec.shape.elements();
        for at in (0..elements).step_by(chunk) {
            scratch.resize(chunk.min(elements - at), 0.0);
            tensors.fetch(tensor, at, scratch).map_err(failed)?;
            tensors.deliver(tensor, at, scratch).map_err(failed)?;
        }
    }
    Ok(())
}
