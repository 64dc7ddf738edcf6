//! What a run over several ranks would hold and exchange, for `--dry-run`.

use std::collections::BTreeMap;
use std::io::Write as _;

use seqio_trainer::mesh::{Mesh, MeshAxis};
use seqio_trainer::train::{RankPlan, TrainerPlan};

use crate::format::{bytes, count};
use crate::output::{Align, Out, Table};

/// Where a run computes, in words.
pub(crate) fn places(mesh: Mesh, places: &[String]) -> String {
    let mut different: Vec<&str> = places.iter().map(String::as_str).collect();
    different.dedup();
    match (places.len(), different.as_slice()) {
        (1, _) => different.concat(),
        (_, [only]) => format!("{mesh} ranks, each on {only}"),
        _ => format!("{mesh} ranks, on {}", different.join("; ")),
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

/// Ranks with what they run on and hold, and what a step moves between them.
pub(crate) fn write(plan: &TrainerPlan, places: &[String], out: &mut Out) -> anyhow::Result<()> {
    let titles = [
        ("rank", Align::Right),
        ("data", Align::Right),
        ("model", Align::Right),
        ("parameters", Align::Right),
        ("gradients", Align::Right),
        ("optimizer", Align::Right),
        ("activations", Align::Right),
        ("in all", Align::Right),
        ("adapter", Align::Left),
    ];
    let mut table = Table::new(titles);
    for ((number, rank), place) in plan.ranks().iter().enumerate().zip(places) {
        let (data, model) = plan.mesh().coordinates(number);
        let [parameters, gradients, state] = rank.stored_bytes().map(bytes);
        let needs = rank.needs();
        table.row([
            number.to_string(),
            data.to_string(),
            model.to_string(),
            parameters,
            gradients,
            state,
            bytes(needs.working),
            bytes(needs.total()),
            place.clone(),
        ]);
    }
    let paint = out.paint;
    writeln!(out)?;
    table.write(out, paint, 0)?;

    let titles = [
        ("what a rank exchanges in a step", Align::Left),
        ("over", Align::Left),
        ("ranks", Align::Right),
        ("messages", Align::Right),
        ("largest", Align::Right),
        ("bytes out", Align::Right),
        ("bytes in", Align::Right),
    ];
    let mut table = Table::new(titles);
    let mut kinds: BTreeMap<(MeshAxis, String), [u64; 4]> = BTreeMap::new();
    for (times, (over, message)) in plan.exchanges_of_step() {
        let numbers = kinds.entry((*over, message.collective().to_string())).or_default();
        let (put, taken) = (message.bytes_put(0), message.bytes_taken());
        numbers[0] += times;
        numbers[1] = numbers[1].max(put.max(taken));
        numbers[2] += times * put;
        numbers[3] += times * taken;
    }
    let mut total = [0; 4];
    for ((over, what), numbers) in kinds {
        let [messages, largest, put, taken] = numbers;
        total = [total[0] + messages, total[1].max(largest), total[2] + put, total[3] + taken];
        let ranks = plan.mesh().size(over).to_string();
        table.row([what, over.to_string(), ranks, count(messages), bytes(largest), bytes(put), bytes(taken)]);
    }
    let [messages, largest, put, taken] = total;
    table.row([
        "all".to_owned(),
        String::new(),
        String::new(),
        count(messages),
        bytes(largest),
        bytes(put),
        bytes(taken),
    ]);
    writeln!(out)?;
    table.write(out, paint, 0)?;
    Ok(())
}
