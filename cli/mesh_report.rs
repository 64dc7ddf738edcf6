//! What a run over several ranks would hold and exchange, for `--dry-run`.

use std::collections::BTreeMap;
use std::io::Write as _;

use seqio_trainer::mesh::{Collective, Mesh, MeshAxis, Message, Reduce};
use seqio_trainer::partition::{Partitioning, PartitioningDims, Placement};
use seqio_trainer::shape::Shape;
use seqio_trainer::train::{Network, Phase, RankPlan, TrainerPlan};

use crate::format::{bytes, count};
use crate::output::{Align, Out, Table};

/// Where a run computes, in words.
pub(crate) fn places(mesh: Mesh, places: &[String]) -> String {
    let mut ranks: Vec<(&str, usize)> = Vec::new();
    for place in places {
        match ranks.iter_mut().find(|(known, _)| known == place) {
            Some((_, ranks)) => *ranks += 1,
            None => ranks.push((place, 1)),
        }
    }
    match (places, &ranks[..]) {
        ([only], _) => only.clone(),
        (_, [(only, ranks)]) => format!("{ranks} ranks, {mesh}, each on {only}"),
        _ => {
            let on = ranks.iter().map(|(place, ranks)| format!("{ranks} on {place}"));
            format!("{} ranks, {mesh}: {}", places.len(), on.collect::<Vec<_>>().join("; "))
        }
    }
}

/// What a rank's memory holds.
pub(crate) fn memory(rank: &RankPlan) -> String {
    let [parameters, gradients, state] = rank.stored_bytes().map(bytes);
    let needs = rank.needs();
    format!(
        "{}: parameters {parameters}, gradients {gradients}, optimizer {state}, activations {}, batches {}",
        bytes(needs.total()),
        bytes(needs.working),
        bytes(needs.inputs)
    )
}

/// The mesh, and over how much of it tensors are spread.
pub(crate) fn mesh(plan: &TrainerPlan) -> String {
    let Partitioning { activations, parameters } = plan.ranks()[0].network().placement.partitioning;
    let axes = |dims| match dims {
        PartitioningDims::One => "1 axis",
        PartitioningDims::Two => "2 axes",
    };
    format!(
        "{}, activations spread over {}, parameters over {}",
        plan.mesh(),
        axes(activations),
        axes(parameters)
    )
}

/// What ranks run on, what each holds, and what a step moves between them.
pub(crate) fn write(plan: &TrainerPlan, places: &[String], out: &mut Out) -> anyhow::Result<()> {
    let paint = out.paint;
    for table in [ranks(plan, places), parameters(&plan.ranks()[0]), exchanges(plan)] {
        writeln!(out)?;
        table.write(out, paint, 0)?;
    }
    Ok(())
}

fn ranks(plan: &TrainerPlan, places: &[String]) -> Table {
    let mut table = Table::new([
        ("rank", Align::Right),
        ("data", Align::Right),
        ("model", Align::Right),
        ("parameters", Align::Right),
        ("gradients", Align::Right),
        ("optimizer", Align::Right),
        ("activations", Align::Right),
        ("batches", Align::Right),
        ("in all", Align::Right),
        ("adapter", Align::Left),
    ]);
    let mut total = [0; 6];
    for ((number, rank), place) in plan.ranks().iter().enumerate().zip(places) {
        let (data, model) = plan.mesh().coordinates(number);
        let [parameters, gradients, state] = rank.stored_bytes();
        let needs = rank.needs();
        let held = [parameters, gradients, state, needs.working, needs.inputs, needs.total()];
        total.iter_mut().zip(held).for_each(|(total, held)| *total += held);
        table.row(rank_row([number, data, model].map(|place| place.to_string()), held, place));
    }
    table.row(rank_row(["all".to_owned(), String::new(), String::new()], total, ""));
    table
}

fn rank_row([rank, data, model]: [String; 3], held: [u64; 6], place: &str) -> [String; 10] {
    let [parameters, gradients, state, working, inputs, total] = held.map(bytes);
    [rank, data, model, parameters, gradients, state, working, inputs, total, place.to_owned()]
}

/// Parameters of one kind.
#[derive(Default)]
struct Spread {
    tensors: u64,
    whole: u64,
    part: u64,
    largest: (u64, String),
}

/// Which parameters are spread over what, and which are whole on every rank.
fn parameters(rank: &RankPlan) -> Table {
    let Network { parameters, placement, .. } = rank.network();
    let mut kinds: BTreeMap<String, Spread> = BTreeMap::new();
    for (spec, _) in parameters {
        let of = |shape: &Shape| 4 * shape.elements() as u64;
        let whole = of(&spec.shape);
        let kind = kinds.entry(spread(placement, &spec.axes)).or_default();
        kind.tensors += 1;
        kind.whole += whole;
        kind.part += of(&placement.part(&spec.shape, &spec.axes).shape());
        if whole > kind.largest.0 {
            kind.largest = (whole, spec.name.clone());
        }
    }
    // Those that every rank has whole come last.
    let mut kinds: Vec<(String, Spread)> = kinds.into_iter().collect();
    kinds.sort_by_key(|(over, kind)| (over.is_empty(), std::cmp::Reverse(kind.whole)));
    let mut table = Table::new([
        ("parameters spread by", Align::Left),
        ("tensors", Align::Right),
        ("whole", Align::Right),
        ("on a rank", Align::Right),
        ("the largest, whole", Align::Left),
    ]);
    for (over, Spread { tensors, whole, part, largest: (size, name) }) in kinds {
        let over = if over.is_empty() { "nothing: whole on every rank".to_owned() } else { over };
        table.row([over, count(tensors), bytes(whole), bytes(part), format!("{}, `{name}`", bytes(size))]);
    }
    table
}

/// By which of its logical axes a tensor is spread over what; empty if it is whole on every rank.
fn spread(placement: &Placement, axes: &[&str]) -> String {
    let axis = |axis| match axis {
        // Heads, one after the other.
        "joined_kv" => "heads",
        axis => axis,
    };
    let over = axes.iter().zip(placement.spread(axes));
    let over = over.filter_map(|(name, over)| Some(format!("{} over {}", axis(name), over?)));
    let mut over: Vec<String> = over.collect();
    // The order of a tensor's axes does not matter here.
    over.sort_unstable();
    over.join(", ")
}

/// What a step exchanges, by part of the step, kind and axis.
fn exchanges(plan: &TrainerPlan) -> Table {
    let mut table = Table::new([
        ("a rank exchanges in a step", Align::Left),
        ("", Align::Left),
        ("over", Align::Left),
        ("ranks", Align::Right),
        ("messages", Align::Right),
        ("largest", Align::Right),
        ("out", Align::Right),
        ("in", Align::Right),
    ]);
    let mut total = Exchanged::default();
    for phase in Phase::ALL {
        let mut kinds: BTreeMap<(MeshAxis, &str), Exchanged> = BTreeMap::new();
        for (times, (over, message)) in plan.exchanges(phase) {
            let exchanged = Exchanged::of(times, message);
            kinds.entry((*over, kind(message.collective()))).or_default().add(&exchanged);
            total.add(&exchanged);
        }
        let mut words = match phase {
            Phase::Microbatches => "forward and backward",
            Phase::Gradients => "gradients and norm",
            Phase::Update => "update",
        };
        for ((over, kind), exchanged) in kinds {
            let ranks = plan.mesh().size(over).to_string();
            table.row(exchanged.row([words.to_owned(), kind.to_owned(), over.to_string(), ranks]));
            words = "";
        }
    }
    table.row(total.row(["in all".to_owned(), String::new(), String::new(), String::new()]));
    table
}

/// Messages of one rank, and their bytes.
#[derive(Default)]
struct Exchanged {
    messages: u64,
    largest: u64,
    put: u64,
    taken: u64,
}

impl Exchanged {
    fn of(times: u64, message: &Message) -> Self {
        let (put, taken) = (message.bytes_put(0), message.bytes_taken());
        Self { messages: times, largest: put.max(taken), put: times * put, taken: times * taken }
    }

    fn add(&mut self, other: &Self) {
        self.messages += other.messages;
        self.largest = self.largest.max(other.largest);
        self.put += other.put;
        self.taken += other.taken;
    }

    fn row(&self, [phase, kind, over, ranks]: [String; 4]) -> [String; 8] {
        let [largest, put, taken] = [self.largest, self.put, self.taken].map(bytes);
        [phase, kind, over, ranks, count(self.messages), largest, put, taken]
    }
}

/// A collective without the axis of its tensors.
fn kind(collective: Collective) -> &'static str {
    match collective {
        Collective::AllReduce(Reduce::Sum) => "all_reduce (sum)",
        Collective::AllReduce(Reduce::Max) => "all_reduce (max)",
        Collective::AllGather { .. } => "all_gather",
        Collective::ReduceScatter { .. } => "reduce_scatter",
        Collective::Broadcast { .. } => "broadcast",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_once_with_their_ranks() {
        let mesh = Mesh::new(2, 2).unwrap();
        let words = |names: &[&str]| places(mesh, &names.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(words(&["cpu"; 4]), "4 ranks, 2 × 2 (data × model), each on cpu");
        assert_eq!(words(&["a", "b", "a", "a"]), "4 ranks, 2 × 2 (data × model): 3 on a; 1 on b");
        assert_eq!(words(&["cpu"]), "cpu");
    }
}
