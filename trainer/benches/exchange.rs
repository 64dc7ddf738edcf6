//! All-reduces between ranks of one process: GB of a rank's message per second, beside a plain copy of the same bytes.
//!
//! ```text
//! cargo bench -p seqio-trainer --bench exchange
//! ```

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench may stop, and prints")]

use std::hint::black_box;
use std::thread;
use std::time::Instant;

use seqio_trainer::mesh::{Collective, HostTensors, Mesh, MeshAxis, Message, Reduce, Stopped, World};
use seqio_trainer::shape::Spec;

const SIZES: [(&str, usize); 3] = [("64 KiB", 64 << 10), ("1 MiB", 1 << 20), ("16 MiB", 16 << 20)];

/// Bytes of all messages of a run.
const VOLUME: usize = 256 << 20;

/// The best of some runs, in seconds of one message.
fn best(times: usize, mut run: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let clock = Instant::now();
        run();
        best = best.min(clock.elapsed().as_secs_f64() / times as f64);
    }
    best
}

fn copy(bytes: usize) -> f64 {
    let (from, mut to) = (vec![1.0f32; bytes / 4], vec![0.0f32; bytes / 4]);
    let times = VOLUME / bytes;
    best(times, || {
        for _ in 0..times {
            to.copy_from_slice(black_box(&from));
            black_box(&mut to);
        }
    })
}

fn all_reduce(ranks: usize, bytes: usize) -> f64 {
    let world = World::new(Mesh::new(ranks, 1).unwrap());
    let (sum, times) = (Collective::AllReduce(Reduce::Sum), VOLUME / bytes / ranks);
    let message = Message::new("bench", sum, vec![Spec::f32([bytes / 4])], ranks).unwrap();
    let seconds = thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks)
            .map(|rank| {
                let (world, message) = (&world, &message);
                scope.spawn(move || {
                    world.run(rank, |mut rank| {
                        // Zeros stay what they are however often they are added up.
                        let mut numbers = vec![0.0; bytes / 4];
                        rank.barrier(MeshAxis::Data)?;
                        Ok::<_, Stopped>(best(times, || {
                            for _ in 0..times {
                                let mut tensors = HostTensors::in_place(vec![&mut numbers]);
                                rank.collective(MeshAxis::Data, message, &mut tensors).unwrap();
                            }
                        }))
                    })
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).fold(0.0, f64::max)
    });
    assert!(world.reason().is_none());
    seconds
}

fn main() {
    let threads = thread::available_parallelism().unwrap().get();
    println!("all_reduce on {threads} cores: GB of a message a second (microseconds of one)");
    println!("{:8} {:>20} {:>20} {:>20}", "", "copy", "2 ranks", "4 ranks");
    for (name, bytes) in SIZES {
        print!("{name:8}");
        for seconds in [copy(bytes), all_reduce(2, bytes), all_reduce(4, bytes)] {
            print!(" {:9.2} ({:8.1})", bytes as f64 / seconds / 1e9, seconds * 1e6);
        }
        println!();
    }
}
