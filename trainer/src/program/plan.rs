//! Which nodes are needed, how long each tensor lives, and which slot it gets.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::mesh::Message;
use crate::ops::Exchange;
use crate::program::{Place, PlanError, Program, ProgramInput, Step, outer_place};
use crate::shape::Spec;
use crate::tape::{Origin, Tape, Var};

/// Tensors of at most this many elements share slots whatever their sizes.
const SMALL: usize = 1 << 14;

pub(super) fn plan(tape: &Tape, results: &[Var], joint_exchanges: bool) -> Result<Program, PlanError> {
    let mut order = order(tape, &wanted(tape, results));
    if joint_exchanges {
        exchanges_last(tape, &mut order);
    }
    check_changes(tape, &order)?;
    let mut planner = Planner::new(tape, &order, results);
    for (at, &node) in order.iter().enumerate() {
        planner.step(at, node);
    }
    let results = results.iter().map(|&var| planner.placed(var)).collect();
    let mut steps = planner.steps;
    if joint_exchanges {
        steps = joined(steps);
    }
    write_messages(&mut steps)?;
    let mut program = Program {
        steps,
        inputs: planner.inputs,
        constants: tape.constants.clone(),
        slots: planner.slots,
        results,
    };
    largest_first(&mut program);
    Ok(program)
}

/// Numbers slots by size, so that programs which share theirs share the large ones.
fn largest_first(program: &mut Program) {
    let mut by_size: Vec<usize> = (0..program.slots.len()).collect();
    by_size.sort_by_key(|slot| std::cmp::Reverse(program.slots[*slot]));
    let mut numbers = vec![0; by_size.len()];
    by_size.iter().enumerate().for_each(|(number, slot)| numbers[*slot] = number);
    program.slots = by_size.iter().map(|slot| program.slots[*slot]).collect();
    let steps = program.steps.iter_mut().flat_map(|step| step.inputs.iter_mut().chain(&mut step.outputs));
    for (place, _) in steps.chain(&mut program.results) {
        if let Place::Slot(slot) = place {
            *slot = numbers[*slot];
        }
    }
}

/// The stored tensor that a value is, or is an older state of.
fn store_of(tape: &Tape, var: Var) -> Option<Var> {
    let value = &tape.values[var.index()];
    match value.origin {
        Origin::Stored(_) => Some(var),
        Origin::Node(node) => {
            let node = &tape.nodes[node];
            let output = node.outputs.iter().position(|output| *output == var)?;
            let overwritten = *node.op.overwrites().get(output)?;
            store_of(tape, node.inputs[overwritten])
        }
        Origin::Input | Origin::Constant(_) => None,
    }
}

/// Nodes that results depend on, and those that change stored tensors with all that they depend on.
fn wanted(tape: &Tape, results: &[Var]) -> Vec<bool> {
    let mut wanted = vec![false; tape.nodes.len()];
    let mut open: Vec<Var> = results.to_vec();
    for node in &tape.nodes {
        let changes = node.outputs.iter().take(node.op.overwrites().len());
        open.extend(changes.filter(|output| store_of(tape, **output).is_some()));
    }
    while let Some(var) = open.pop() {
        if let Origin::Node(node) = tape.values[var.index()].origin
            && !std::mem::replace(&mut wanted[node], true)
        {
            open.extend(&tape.nodes[node].inputs);
        }
    }
    wanted
}

/// The order of recording, but for nodes that change stored tensors which nobody else reads: they come as early as they
/// can, so that a gradient goes into its sum at once and its memory is free again.
fn order(tape: &Tape, wanted: &[bool]) -> Vec<usize> {
    let mut readers: BTreeMap<Var, usize> = BTreeMap::new();
    for (node, _) in tape.nodes.iter().zip(wanted).filter(|(_, wanted)| **wanted) {
        for input in &node.inputs {
            *readers.entry(*input).or_default() += 1;
        }
    }
    let mut anchors: Vec<usize> = (0..tape.nodes.len()).collect();
    for (index, node) in tape.nodes.iter().enumerate() {
        let alone = |overwritten: &usize| {
            let var = node.inputs[*overwritten];
            matches!(tape.values[var.index()].origin, Origin::Stored(_)) && readers.get(&var) == Some(&1)
        };
        if !node.op.overwrites().is_empty() && node.op.overwrites().iter().all(alone) {
            let made = |var: &Var| match tape.values[var.index()].origin {
                Origin::Node(node) => Some(anchors[node]),
                _ => None,
            };
            anchors[index] = node.inputs.iter().filter_map(made).max().unwrap_or(index);
        }
    }
    let mut order: Vec<usize> = (0..tape.nodes.len()).filter(|node| wanted[*node]).collect();
    order.sort_by_key(|node| (anchors[*node], *node));
    order
}

/// Sorts nodes by the exchanges that they wait for, and exchanges behind all others that wait for as many.
fn exchanges_last(tape: &Tape, order: &mut [usize]) {
    let mut waits: BTreeMap<Var, usize> = BTreeMap::new();
    let mut keys = BTreeMap::new();
    for &index in &*order {
        let node = &tape.nodes[index];
        let before = node.inputs.iter().filter_map(|var| waits.get(var)).max().copied().unwrap_or(0);
        let exchange = node.op.exchange();
        let after = before + usize::from(exchange.is_some());
        waits.extend(node.outputs.iter().map(|var| (*var, after)));
        keys.insert(index, (before, exchange.map(Exchange::over)));
    }
    order.sort_by_key(|index| keys.get(index).copied());
}

/// Sums over ranks that follow each other, as one. They happen in place, so that no result of one is where an input of
/// another was.
fn joined(steps: Vec<Step>) -> Vec<Step> {
    let mut joined: Vec<Step> = Vec::with_capacity(steps.len());
    for step in steps {
        let last = joined.last_mut().and_then(|last| Some((last.op.exchange()?.clone(), last)));
        match (step.op.exchange(), last) {
            (Some(exchange), Some((before, last))) if exchange.joins(&before) => {
                let inputs = last.inputs.len();
                last.op = Arc::new(before.with(exchange));
                last.inputs.extend(step.inputs);
                last.copies
                    .extend(step.copies.iter().map(|(output, input)| (inputs + output, inputs + input)));
                last.outputs.extend(step.outputs);
            }
            _ => joined.push(step),
        }
    }
    joined
}

/// What ranks do together is known before the run.
fn write_messages(steps: &mut [Step]) -> Result<(), PlanError> {
    for step in steps {
        let Some(exchange) = step.op.exchange() else { continue };
        let specs = step.inputs.iter().map(|(_, spec)| spec.clone()).collect();
        let message = Message::new(step.name.clone(), exchange.what(), specs, exchange.ranks());
        let message = message.map_err(|reason| PlanError::Exchange { name: step.name.clone(), reason })?;
        step.exchange = Some((exchange.over(), message));
    }
    Ok(())
}

/// A stored tensor changes in place, so nobody may read its older value afterwards.
fn check_changes(tape: &Tape, order: &[usize]) -> Result<(), PlanError> {
    let mut gone: BTreeMap<Var, &'static str> = BTreeMap::new();
    for node in order.iter().map(|node| &tape.nodes[*node]) {
        for input in &node.inputs {
            if let Some(changed_by) = gone.get(input) {
                let store = store_of(tape, *input).map_or(String::new(), |store| tape.name(store).to_owned());
                let name = node.outputs.first().map_or(String::new(), |output| tape.name(*output).to_owned());
                return Err(PlanError::ReadAfterChange { op: node.op.name(), name, store, changed_by });
            }
        }
        for &overwritten in node.op.overwrites() {
            if store_of(tape, node.inputs[overwritten]).is_some() {
                gone.insert(node.inputs[overwritten], node.op.name());
            }
        }
    }
    Ok(())
}

struct Planner<'a> {
    tape: &'a Tape,
    /// The last step that reads a value; results are read after all.
    last_use: BTreeMap<Var, usize>,
    places: BTreeMap<Var, Place>,
    slots: Vec<usize>,
    free: Vec<usize>,
    steps: Vec<Step>,
    inputs: Vec<ProgramInput>,
}

impl<'a> Planner<'a> {
    fn new(tape: &'a Tape, order: &[usize], results: &[Var]) -> Self {
        let mut last_use = BTreeMap::new();
        for (at, node) in order.iter().enumerate() {
            for input in &tape.nodes[*node].inputs {
                last_use.insert(*input, at);
            }
        }
        for result in results {
            last_use.insert(*result, usize::MAX);
        }
        Self {
            tape,
            last_use,
            places: BTreeMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            steps: Vec::new(),
            inputs: Vec::new(),
        }
    }

    fn step(&mut self, at: usize, node: usize) {
        let node = &self.tape.nodes[node];
        let inputs: Vec<(Place, Spec)> = node.inputs.iter().map(|&var| self.placed(var)).collect();
        let (mut outputs, mut copies, mut taken_over) = (Vec::new(), Vec::new(), Vec::new());
        for (output, &var) in node.outputs.iter().enumerate() {
            let spec = self.tape.spec(var).clone();
            let place = match node.op.overwrites().get(output) {
                Some(&input) => {
                    let from = node.inputs[input];
                    let place = inputs[input].0;
                    let only_once = node.inputs.iter().filter(|other| **other == from).count() == 1;
                    let dies = only_once && self.last_use.get(&from) == Some(&at);
                    match place {
                        Place::Store(_) => place,
                        Place::Slot(_) if dies => {
                            taken_over.push(from);
                            place
                        }
                        _ => {
                            copies.push((output, input));
                            Place::Slot(self.allocate(spec.shape.elements()))
                        }
                    }
                }
                None => Place::Slot(self.allocate(spec.shape.elements())),
            };
            self.places.insert(var, place);
            outputs.push((place, spec));
        }
        let name = node.outputs.first().map_or(String::new(), |output| self.tape.name(*output).to_owned());
        self.steps.push(Step { op: node.op.clone(), name, inputs, outputs, copies, exchange: None });
        let mut done: Vec<Var> = node.inputs.clone();
        done.retain(|var| self.last_use.get(var) == Some(&at) && !taken_over.contains(var));
        done.extend(node.outputs.iter().filter(|output| !self.last_use.contains_key(*output)));
        done.sort_unstable();
        done.dedup();
        for var in done {
            if let Some(&Place::Slot(slot)) = self.places.get(&var) {
                self.free.push(slot);
            }
        }
    }

    fn placed(&mut self, var: Var) -> (Place, Spec) {
        let spec = self.tape.spec(var).clone();
        if let Some(&place) = self.places.get(&var) {
            return (place, spec);
        }
        let (value, inputs) = (&self.tape.values[var.index()], &mut self.inputs);
        let number = || {
            inputs.push(ProgramInput { name: value.name.clone(), spec: spec.clone() });
            inputs.len() - 1
        };
        let place =
            outer_place(value.origin, number).expect("a node's outputs are placed before they are read");
        self.places.insert(var, place);
        (place, spec)
    }

    /// The smallest free slot that is large enough and not much too large; else the largest free one that grows by
    /// less than a new one takes; else a new one.
    fn allocate(&mut self, elements: usize) -> usize {
        let fits = |size: usize| size >= elements && size <= (4 * elements).max(SMALL);
        let grows = |size: usize| size < elements && 2 * size >= elements;
        let free = self.free.iter().enumerate().map(|(at, slot)| (at, self.slots[*slot]));
        let best = free.clone().filter(|(_, size)| fits(*size)).min_by_key(|(_, size)| *size);
        let best = best.or_else(|| free.filter(|(_, size)| grows(*size)).max_by_key(|(_, size)| *size));
        match best {
            Some((at, size)) => {
                let slot = self.free.swap_remove(at);
                self.slots[slot] = size.max(elements);
                slot
            }
            None => {
                self.slots.push(elements);
                self.slots.len() - 1
            }
        }
    }
}
