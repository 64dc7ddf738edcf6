//! What ends one rank ends all.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::{Trouble, everyone, in_place, message, sum};
use crate::mesh::{
    Collective, Failure, HostTensors, Mesh, MeshAxis, Message, Rank, Reduce, Stopped, Tensors, World,
};
use crate::shape::Spec;
use crate::testing::Random;

/// Tensors that fail or panic in the middle of a message.
struct Failing {
    left: usize,
    panics: bool,
}

impl Tensors for Failing {
    fn fetch(&mut self, _: usize, _: usize, into: &mut [f32]) -> Result<(), Failure> {
        into.fill(1.0);
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None if self.panics => panic!("lost the thread"),
            None => return Err("the device was lost".into()),
        }
        Ok(())
    }

    fn deliver(&mut self, _: usize, _: usize, _: &[f32]) -> Result<(), Failure> {
        Ok(())
    }
}

/// The ways to end, and what is told of each.
const WAYS: [&str; 7] = [
    "panicked: lost the head",
    "lost the way",
    "but rank",
    "which is done",
    "`grads`: the device was lost",
    "panicked: lost the thread",
    "stopped from outside",
];

/// Ends a rank in one of the ways, or brings it out of step.
fn end(way: usize, world: &World, rank: &mut Rank, random: &mut Random) -> ControlFlow<Result<(), Trouble>> {
    let mut failing = |panics| {
        let mut tensors = Failing { left: random.below(16), panics };
        rank.collective(MeshAxis::Data, &sum("grads", 1000), &mut tensors)
    };
    match way {
        0 => panic!("lost the head"),
        1 => ControlFlow::Break(Err(Trouble::Own("lost the way".to_owned()))),
        2 => match in_place(rank, MeshAxis::Data, &sum("grads", 999), &mut [0.0; 999]) {
            Ok(()) => ControlFlow::Continue(()),
            Err(stopped) => ControlFlow::Break(Err(stopped.into())),
        },
        3 => ControlFlow::Break(Ok(())),
        4 | 5 => ControlFlow::Break(failing(way == 5).map_err(Trouble::from)),
        _ => {
            world.stop(rank.index(), "stopped from outside");
            ControlFlow::Continue(())
        }
    }
}

#[test]
fn whatever_ends_one_rank_ends_all_at_once() {
    for round in 0..56 {
        let mut random = Random::new(round as u64);
        let world = World::with_chunks(Mesh::new(2, 2).unwrap(), 64);
        let (culprit, moment, way) = (random.below(4), random.below(8), round % WAYS.len());
        let message = sum("grads", 1000);
        let begun = Instant::now();
        let found = everyone(&world, |mut rank| {
            let mut numbers = vec![1.0; 1000];
            let mut random = Random::new(round as u64);
            for call in 0.. {
                if rank.index() == culprit
                    && call == moment
                    && let ControlFlow::Break(end) = end(way, &world, &mut rank, &mut random)
                {
                    return end;
                }
                in_place(&mut rank, MeshAxis::Data, &message, &mut numbers)?;
            }
            Ok(())
        });
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        let reason = world.reason().unwrap();
        assert!(reason.reason.contains(WAYS[way]), "{way}: {reason}");
        assert!(!matches!(way, 0 | 1 | 4 | 5 | 6) || reason.rank == culprit);
        for (rank, found) in found.into_iter().enumerate() {
            match found {
                Ok(()) => assert_eq!((way, rank), (3, culprit)),
                Err(Trouble::Stopped(stopped)) => assert_eq!(stopped, reason),
                Err(Trouble::Own(_)) => assert_eq!((way, rank), (1, culprit)),
            }
        }
    }
}

type Work<'a> = &'a (dyn Fn(&mut Rank) -> Result<(), Stopped> + Sync);

/// What stops two ranks that do such things.
fn two(works: [Work<'_>; 2]) -> String {
    let world = World::new(Mesh::new(2, 1).unwrap());
    everyone(&world, |mut rank| Ok(works[rank.index()](&mut rank)?));
    world.reason().unwrap().reason
}

#[test]
fn a_disagreement_names_both_sides() {
    let at = |message: Message| {
        move |rank: &mut Rank| {
            let mut tensors = Failing { left: usize::MAX, panics: false };
            rank.collective(MeshAxis::Data, &message, &mut tensors)
        }
    };
    let sum = at(sum("a", 4));
    let (max, barrier) =
        (at(message("a", Collective::AllReduce(Reduce::Max), &[4], 2)), |rank: &mut Rank| {
            rank.barrier(MeshAxis::Data)
        });
    let many = |last: usize| {
        let tensors = (0..9).map(|i| Spec::f32([if i == 7 { last } else { 1 }])).collect();
        at(Message::new("many", Collective::AllGather { axis: 0 }, tensors, 2).unwrap())
    };
    let told = [two([&sum, &max]), two([&sum, &barrier]), two([&many(1), &many(2)])];
    for (told, sides) in told.iter().zip([
        ["rank 0 is at `a`, all_reduce (sum) of f32[4]", "rank 1 at `a`, all_reduce (max) of f32[4]"],
        ["rank 0 is at `a`, all_reduce (sum) of f32[4]", "rank 1 at a barrier"],
        ["f32[1] f32[1] f32[1] f32[1] … (9 tensors, 10 elements)", "their tensors 7 are f32["],
    ]) {
        let told = told.replace("rank 0 at", "rank 0 is at").replace("rank 1 is at", "rank 1 at");
        assert!(sides.iter().all(|side| told.contains(side)), "{told}");
    }
}

#[test]
fn a_rank_that_is_done_is_not_waited_for() {
    let told = two([&|rank| rank.barrier(MeshAxis::Data), &|_| Ok(())]);
    insta::assert_snapshot!(told, @"a barrier over data waits for rank 1, which is done");
}

#[test]
fn ranks_that_wait_for_each_other_along_two_axes_stop() {
    let world = World::new(Mesh::new(2, 2).unwrap());
    everyone(&world, |mut rank| {
        let axis = if matches!(rank.index(), 0 | 3) { MeshAxis::Data } else { MeshAxis::Model };
        rank.barrier(axis)?;
        Ok(())
    });
    insta::assert_snapshot!(world.reason().unwrap().reason, @"every rank waits for another: a barrier over data waits for rank 2; a barrier over data waits for rank 1; a barrier over model waits for rank 0; a barrier over model waits for rank 3");
}

#[test]
fn a_message_for_another_mesh_is_refused() {
    let world = World::new(Mesh::default());
    let message = sum("a", 4);
    let found =
        everyone(&world, |mut rank| Ok(in_place(&mut rank, MeshAxis::Model, &message, &mut [0.0; 4])?));
    assert!(found[0].is_err());
    insta::assert_snapshot!(world.reason().unwrap(), @"rank 0: `a`, all_reduce (sum) of f32[4] is meant for 2 ranks, but there are 1 along model");
}

#[test]
fn each_rank_runs_once() {
    let world = World::new(Mesh::default());
    let run = |rank| world.run(rank, |_| Ok::<(), Stopped>(()));
    run(0).unwrap();
    insta::assert_snapshot!(run(0).unwrap_err(), @"rank 0: it has run before, and each rank of a world runs once");
    let world = World::new(Mesh::default());
    let error = world.run(7, |_| Ok::<(), Stopped>(())).unwrap_err();
    insta::assert_snapshot!(error, @"rank 7: there is no such rank in a mesh of 1 × 1 (data × model)");
}

#[test]
fn a_lone_rank_gets_what_it_gives() {
    let world = World::with_chunks(Mesh::default(), 16);
    let message = message("a", Collective::ReduceScatter { axis: 0 }, &[100], 1);
    let found = everyone(&world, |mut rank| {
        let (numbers, mut result) = (vec![f32::from_bits(0x7fa0_1234); 100], vec![0.0; 100]);
        rank.barrier(MeshAxis::Model)?;
        let mut tensors = HostTensors::new(vec![&numbers], vec![&mut result]);
        rank.collective(MeshAxis::Data, &message, &mut tensors)?;
        assert_eq!(rank.take_traffic().put_bytes, 0);
        Ok(super::bits(&result))
    });
    assert_eq!(found.into_iter().next().unwrap().unwrap(), vec![0x7fa0_1234; 100]);
}

#[test]
fn tensors_that_are_too_small_are_told() {
    let told = two([&|rank| in_place(rank, MeshAxis::Data, &sum("a", 9), &mut [0.0; 8]), &|rank| {
        in_place(rank, MeshAxis::Data, &sum("a", 9), &mut [0.0; 9])
    }]);
    insta::assert_snapshot!(told, @"`a`: input 0 is smaller than the 9 elements that are needed");
}
