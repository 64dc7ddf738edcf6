//! Every collective against a plain model of it.

use proptest::prelude::*;

use super::{Slow, Trouble, bits, everyone, in_place, message, sum};
use crate::mesh::{Collective, HostTensors, Mesh, MeshAxis, Message, Rank, Reduce, SpanKind, Traffic, World};
use crate::shape::{Kind, Shape, Spec};
use crate::testing::Random;

/// A collective with random tensors along a random axis.
fn random_message(random: &mut Random, mesh: Mesh, most: usize) -> (MeshAxis, Message) {
    let mesh_axis = MeshAxis::ALL[random.below(2)];
    let (members, axis) = (mesh.size(mesh_axis), random.below(3));
    let collective = match random.below(5) {
        0 => Collective::AllReduce(Reduce::Sum),
        1 => Collective::AllReduce(Reduce::Max),
        2 => Collective::AllGather { axis },
        3 => Collective::ReduceScatter { axis },
        _ => Collective::Broadcast { root: random.below(members) },
    };
    let (cut, sums) = match collective {
        Collective::AllGather { .. } => (true, false),
        Collective::ReduceScatter { .. } => (true, true),
        Collective::AllReduce(_) => (false, true),
        Collective::Broadcast { .. } => (false, false),
    };
    let tensors = (0..random.below(4)).map(|_| {
        let axes = random.below(4).max(if cut { axis + 1 } else { 0 });
        let mut dims: Vec<usize> = (0..axes).map(|_| random.below(most + 1)).collect();
        if let Collective::ReduceScatter { axis } = collective {
            dims[axis] = members * random.below(3);
        }
        let kind = if sums || random.below(2) == 0 { Kind::F32 } else { Kind::I32 };
        Spec { shape: Shape::new(dims), kind }
    });
    let message = Message::new("random", collective, tensors.collect(), members).unwrap();
    (mesh_axis, message)
}

/// A rank's numbers for a message: such that can be summed, or any bits at all.
fn inputs(message: &Message, seed: u64, rank: usize) -> Vec<Vec<f32>> {
    let mut random = Random::new(seed + 1000 * rank as u64);
    let sums = matches!(message.collective(), Collective::AllReduce(_) | Collective::ReduceScatter { .. });
    let mut number = || match sums {
        true => random.normal(),
        // Among these are infinities, and what is not a number, with something in it.
        false => f32::from_bits(random.bits() | if random.below(4) == 0 { 0x7f80_0000 } else { 0 }),
    };
    message.tensors().iter().map(|spec| (0..spec.shape.elements()).map(|_| number()).collect()).collect()
}

fn coordinates(mut index: usize, dims: &[usize]) -> Vec<usize> {
    let mut at = vec![0; dims.len()];
    for (at, length) in at.iter_mut().zip(dims).rev() {
        (*at, index) = (index % length, index / length);
    }
    at
}

fn element(numbers: &[f32], at: &[usize], dims: &[usize]) -> f32 {
    numbers[at.iter().zip(dims).fold(0, |index, (at, length)| index * length + at)]
}

/// What a member gets, element by element.
fn model(message: &Message, tensor: usize, members: &[Vec<Vec<f32>>], place: usize) -> Vec<f32> {
    let (from, to) = (&message.tensors()[tensor].shape, &message.results()[tensor].shape);
    let of = |member: &Vec<Vec<f32>>, at: &[usize]| element(&member[tensor], at, from.dims());
    let result = |index| {
        let mut at = coordinates(index, to.dims());
        match message.collective() {
            Collective::AllReduce(Reduce::Sum) => {
                members.iter().map(|member| of(member, &at)).reduce(|a, b| a + b).unwrap()
            }
            Collective::AllReduce(Reduce::Max) => {
                members.iter().map(|member| of(member, &at)).reduce(f32::max).unwrap()
            }
            Collective::AllGather { axis } => {
                let member = at[axis] / from.dims()[axis];
                at[axis] %= from.dims()[axis];
                of(&members[member], &at)
            }
            Collective::ReduceScatter { axis } => {
                at[axis] += place * to.dims()[axis];
                members.iter().map(|member| of(member, &at)).reduce(|a, b| a + b).unwrap()
            }
            Collective::Broadcast { root } => of(&members[root], &at),
        }
    };
    (0..to.elements()).map(result).collect()
}

/// Does a message with slow tensors.
fn results(
    rank: &mut Rank,
    axis: MeshAxis,
    message: &Message,
    inputs: &[Vec<f32>],
    delays: u64,
) -> Result<Vec<Vec<f32>>, Trouble> {
    let mut results: Vec<Vec<f32>> =
        message.results().iter().map(|spec| vec![-1.0; spec.shape.elements()]).collect();
    let tensors = HostTensors::new(
        inputs.iter().map(|numbers| &numbers[..]).collect(),
        results.iter_mut().map(|numbers| &mut numbers[..]).collect(),
    );
    let random = Random::new(delays + rank.index() as u64);
    rank.collective(axis, message, &mut Slow { tensors, random, fetched: (0, 0), delivered: (0, 0) })?;
    Ok(results)
}

/// Does messages on all ranks, and compares with the model.
fn check(mesh: Mesh, chunk: usize, messages: &[(MeshAxis, Message)], seed: u64) {
    let world = World::with_chunks(mesh, chunk);
    let found = everyone(&world, |mut rank| {
        let mut all = Vec::new();
        for (call, (axis, message)) in messages.iter().enumerate() {
            let inputs = inputs(message, seed + call as u64, rank.index());
            all.push(results(&mut rank, *axis, message, &inputs, seed)?);
        }
        Ok((all, rank.take_traffic()))
    });
    for (rank, found) in found.into_iter().enumerate() {
        let (found, traffic) = found.unwrap();
        let Traffic { waited_seconds, moved_seconds, .. } = traffic;
        let mut expected = Traffic { waited_seconds, moved_seconds, ..Traffic::default() };
        for (call, (axis, message)) in messages.iter().enumerate() {
            let members = mesh.group(rank, *axis);
            let place = mesh.place(rank, *axis);
            let numbers: Vec<_> =
                members.iter().map(|rank| inputs(message, seed + call as u64, *rank)).collect();
            for (tensor, found) in found[call].iter().enumerate() {
                let expected = model(message, tensor, &numbers, place);
                assert_eq!(bits(found), bits(&expected), "{message}, tensor {tensor} of rank {rank}");
            }
            if members.len() > 1 {
                let elements = |specs: &[Spec]| specs.iter().map(|spec| spec.shape.elements()).sum::<usize>();
                let (put, taken) = (elements(message.tensors()), elements(message.results()));
                let puts = !matches!(message.collective(), Collective::Broadcast { root } if root != place);
                expected.put_bytes += if puts { 4 * put as u64 } else { 0 };
                expected.taken_bytes += 4 * taken as u64;
                expected.messages += 1;
                expected.largest_elements = expected.largest_elements.max(put);
                assert_eq!(message.bytes_put(place), if puts { 4 * put as u64 } else { 0 });
                assert_eq!(message.bytes_taken(), 4 * taken as u64);
            } else {
                assert_eq!((message.bytes_put(place), message.bytes_taken()), (0, 0));
            }
        }
        assert_eq!(traffic, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn collectives_do_what_a_plain_loop_does(
        sizes in (1usize..6, 1usize..3),
        turned: bool,
        chunk in 1usize..24,
        count in 1usize..5,
        seed in 0u64..1 << 32,
    ) {
        let (data, model) = if turned { (sizes.1, sizes.0) } else { sizes };
        let mesh = Mesh::new(data, model).unwrap();
        let mut random = Random::new(seed);
        let messages: Vec<_> = (0..count).map(|_| random_message(&mut random, mesh, 7)).collect();
        check(mesh, chunk, &messages, seed);
    }
}

/// Pieces longer than those that are delivered together, in chunks that they do not divide.
#[test]
fn long_pieces_are_like_short_ones() {
    let mesh = Mesh::new(3, 1).unwrap();
    let collectives = [
        Collective::AllReduce(Reduce::Sum),
        Collective::AllGather { axis: 0 },
        Collective::AllGather { axis: 1 },
        Collective::ReduceScatter { axis: 0 },
        Collective::ReduceScatter { axis: 1 },
        Collective::Broadcast { root: 2 },
    ];
    let messages = collectives.map(|collective| {
        let tensors = vec![Spec::f32([3, 5001]), Spec::f32([6, 3]), Spec::f32([3, 3, 4200])];
        (MeshAxis::Data, Message::new("long", collective, tensors, 3).unwrap())
    });
    check(mesh, 7001, &messages, 1);
}

#[test]
fn parts_far_into_a_long_message_are_reached() {
    let mesh = Mesh::new(1, 3).unwrap();
    let collectives = [Collective::ReduceScatter { axis: 0 }, Collective::AllGather { axis: 0 }];
    let messages = collectives.map(|collective| {
        let message = Message::new("far", collective, vec![Spec::f32([3, 100])], 3).unwrap();
        (MeshAxis::Model, message)
    });
    check(mesh, 2, &messages, 1);
}

#[test]
fn a_great_many_small_collectives_are_not_mixed_up() {
    let mesh = Mesh::new(2, 2).unwrap();
    let mut random = Random::new(5);
    let messages: Vec<_> = (0..2000).map(|_| random_message(&mut random, mesh, 2)).collect();
    let world = World::with_chunks(mesh, 8);
    let found = everyone(&world, |mut rank| {
        for (call, (axis, message)) in messages.iter().enumerate() {
            let members = mesh.group(rank.index(), *axis);
            let numbers: Vec<_> = members.iter().map(|rank| inputs(message, call as u64, *rank)).collect();
            let place = mesh.place(rank.index(), *axis);
            for (tensor, found) in
                results(&mut rank, *axis, message, &numbers[place], call as u64)?.iter().enumerate()
            {
                assert_eq!(bits(found), bits(&model(message, tensor, &numbers, place)), "{call}: {message}");
            }
        }
        Ok(())
    });
    found.into_iter().for_each(|found| found.unwrap());
}

#[test]
fn results_may_replace_inputs() {
    let world = World::with_chunks(Mesh::new(2, 1).unwrap(), 16);
    let (sum, sent) = (sum("sum", 1000), message("sent", Collective::Broadcast { root: 1 }, &[1000], 2));
    let found = everyone(&world, |mut rank| {
        let mut numbers: Vec<f32> = (0..1000).map(|i| (i * (rank.index() + 1)) as f32).collect();
        in_place(&mut rank, MeshAxis::Data, &sum, &mut numbers)?;
        numbers.iter_mut().for_each(|number| *number += rank.index() as f32);
        in_place(&mut rank, MeshAxis::Data, &sent, &mut numbers)?;
        Ok(numbers)
    });
    let expected: Vec<f32> = (0..1000).map(|i| (3 * i + 1) as f32).collect();
    for found in found {
        assert_eq!(found.unwrap(), expected);
    }
}

#[test]
fn spans_are_kept_when_they_are_asked_for() {
    let world = World::with_chunks(Mesh::new(2, 1).unwrap(), 16);
    let message = sum("gradients", 100);
    let found = everyone(&world, |mut rank| {
        let mut numbers = vec![1.0; 100];
        in_place(&mut rank, MeshAxis::Data, &message, &mut numbers)?;
        assert!(rank.take_spans().is_empty());
        rank.record(true);
        let start = rank.now();
        rank.barrier(MeshAxis::Data)?;
        in_place(&mut rank, MeshAxis::Data, &message, &mut numbers)?;
        let end = rank.now();
        rank.span("step", SpanKind::Compute, start, end);
        Ok((rank.take_spans(), start, end))
    });
    let mut sums = 0;
    for (rank, found) in found.into_iter().enumerate() {
        let (mut spans, start, end) = found.unwrap();
        let step = spans.pop().unwrap();
        assert_eq!(
            (step.name.as_str(), step.kind, step.start, step.end),
            ("step", SpanKind::Compute, start, end)
        );
        assert!(spans.iter().any(|span| span.kind == SpanKind::Copy && span.name == "gradients"));
        sums += spans.iter().filter(|span| span.kind == SpanKind::Sum).count();
        let mut last = start;
        for span in spans {
            assert_eq!(span.rank, rank);
            assert!(last <= span.start && span.start <= span.end && span.end <= end, "{span:?}");
            last = span.end;
        }
    }
    assert!(sums > 0);
}
