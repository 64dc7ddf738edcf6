//! Ranks in threads, and what they should come to.

mod numbers;
mod stops;

use std::thread;
use std::time::Duration;

use crate::mesh::{
    Collective, Failure, HostTensors, MeshAxis, Message, Rank, Reduce, Stopped, Tensors, World,
};
use crate::shape::Spec;
use crate::testing::Random;

/// An error of the work of a rank.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Stopped(#[from] Stopped),
    #[error("{0}")]
    Own(String),
}

/// Runs every rank in a thread; the results in the order of ranks.
fn everyone<T: Send>(
    world: &World,
    work: impl Fn(Rank) -> Result<T, Trouble> + Sync,
) -> Vec<Result<T, Trouble>> {
    let (work, ranks) = (&work, 0..world.mesh().ranks());
    thread::scope(|scope| {
        let threads: Vec<_> = ranks.map(|rank| scope.spawn(move || world.run(rank, work))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

fn message(label: &str, collective: Collective, dims: &[usize], members: usize) -> Message {
    Message::new(label, collective, vec![Spec::f32(dims)], members).unwrap()
}

/// The sum of a vector of this length over two ranks.
fn sum(label: &str, length: usize) -> Message {
    message(label, Collective::AllReduce(Reduce::Sum), &[length], 2)
}

/// Does a collective in place.
fn in_place(rank: &mut Rank, axis: MeshAxis, message: &Message, numbers: &mut [f32]) -> Result<(), Stopped> {
    rank.collective(axis, message, &mut HostTensors::in_place(vec![numbers]))
}

/// Tensors that keep others waiting, and look at the order in which they are asked.
struct Slow<'a> {
    tensors: HostTensors<'a>,
    random: Random,
    fetched: (usize, usize),
    delivered: (usize, usize),
}

impl Slow<'_> {
    fn dawdle(&mut self) {
        match self.random.below(16) {
            0 => thread::sleep(Duration::from_micros(self.random.below(200) as u64)),
            1..4 => thread::yield_now(),
            _ => {}
        }
    }
}

fn goes_on((tensor, at): &mut (usize, usize), next: usize, from: usize, count: usize) {
    assert!(count > 0);
    if next > *tensor {
        (*tensor, *at) = (next, 0);
    }
    assert_eq!((*tensor, *at), (next, from), "pieces come in order, without gaps");
    *at += count;
}

impl Tensors for Slow<'_> {
    fn fetch(&mut self, tensor: usize, at: usize, into: &mut [f32]) -> Result<(), Failure> {
        goes_on(&mut self.fetched, tensor, at, into.len());
        self.dawdle();
        self.tensors.fetch(tensor, at, into)
    }

    fn deliver(&mut self, tensor: usize, at: usize, from: &[f32]) -> Result<(), Failure> {
        goes_on(&mut self.delivered, tensor, at, from.len());
        self.dawdle();
        self.tensors.deliver(tensor, at, from)
    }
}
