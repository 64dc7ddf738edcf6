//! A trainer on paper: the programs and the stored tensors of every rank, but no memory yet.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::engine::ProgramId;
use crate::mesh::{Mesh, MeshAxis, Message};
use crate::model::InputShape;
use crate::ops::{Accumulate, Add, Fill, SumSquares};
use crate::optimizer::{OptimizerConfig, StateTensor, Update, UpdatePlan, scalars_spec};
use crate::partition::{Part, Partitioning, Placement};
use crate::program::{MemoryNeeds, Program};
use crate::shape::{Shape, Spec};
use crate::store::{StoreId, Stores};
use crate::tape::{Tape, TapeError, Var};
use crate::train::trainer::{FRESH, SCALARS};
use crate::train::{Network, Objective, TrainError, TrainerConfig};

/// Gradients of a microbatch.
pub(super) const GRADIENTS: ProgramId = ProgramId(0);
/// The update.
pub(super) const UPDATE: ProgramId = ProgramId(1);
/// Losses without gradients.
pub(super) const EVALUATE: ProgramId = ProgramId(2);
/// Sums of gradients over the data axis, where it has more than one rank.
pub(super) const REDUCE: ProgramId = ProgramId(3);

/// A trainer on paper.
#[derive(Debug)]
pub struct TrainerPlan {
    pub(super) config: TrainerConfig,
    pub(super) mesh: Mesh,
    pub(super) ranks: Vec<RankPlan>,
    /// Of a microbatch on one rank.
    pub(super) shape: InputShape,
}

/// What one rank runs and stores.
#[derive(Debug)]
pub struct RankPlan {
    pub(super) network: Network,
    pub(super) stores: Stores,
    /// Parameters, gradients, the optimizer's state, each sorted by name of the parameter.
    pub(super) tensors: Vec<Named>,
    pub(super) programs: Vec<Program>,
}

/// What a stored tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Parameter,
    Gradient,
    State,
}

/// A stored tensor.
#[derive(Clone, Debug)]
pub(super) struct Named {
    /// As `decoder/decoder_norm/scale/v`.
    pub(super) name: String,
    /// Of the whole.
    pub(super) shape: Shape,
    /// What is here of it.
    pub(super) part: Part,
    pub(super) id: StoreId,
    pub(super) kind: Kind,
}

impl TrainerPlan {
    /// For batches of this shape (all rows of a batch) on one rank.
    pub fn new(config: TrainerConfig, batch: InputShape) -> Result<Self, TrainError> {
        Self::on_mesh(config, batch, Mesh::default(), Partitioning::default())
    }

    /// The same on all ranks of a mesh.
    pub fn on_mesh(
        config: TrainerConfig,
        batch: InputShape,
        mesh: Mesh,
        partitioning: Partitioning,
    ) -> Result<Self, TrainError> {
        let parts = config.microbatches.max(1);
        if batch.rows == 0 || !batch.rows.is_multiple_of(parts) {
            return Err(TrainError::Microbatches { rows: batch.rows, parts });
        }
        let rows = batch.rows / parts;
        let ranks = mesh.size(MeshAxis::Data);
        if !rows.is_multiple_of(ranks) {
            return Err(TrainError::DataRanks { rows, ranks });
        }
        let shape = InputShape { rows: rows / ranks, ..batch };
        let rank = |rank| RankPlan::new(&config, shape, Placement { mesh, rank, partitioning });
        let ranks = (0..mesh.ranks()).map(rank).collect::<Result<_, _>>()?;
        Ok(Self { config, mesh, ranks, shape })
    }

    /// The mesh.
    pub fn mesh(&self) -> Mesh {
        self.mesh
    }

    /// What each rank does and holds.
    pub fn ranks(&self) -> &[RankPlan] {
        &self.ranks
    }

    /// What every rank exchanges in a step, and how often: along which axis of the mesh, and what.
    pub fn exchanges_of_step(&self) -> Vec<(u64, &(MeshAxis, Message))> {
        Phase::ALL.into_iter().flat_map(|phase| self.exchanges(phase)).collect()
    }

    /// The same of a part of a step.
    pub fn exchanges(&self, phase: Phase) -> impl Iterator<Item = (u64, &(MeshAxis, Message))> {
        let (program, times) = match phase {
            Phase::Microbatches => (GRADIENTS, self.config.microbatches.max(1) as u64),
            Phase::Gradients => (REDUCE, 1),
            Phase::Update => (UPDATE, 1),
        };
        // All ranks exchange the same.
        let program = self.ranks[0].programs.get(program.0);
        program.into_iter().flat_map(Program::exchanges).map(move |exchange| (times, exchange))
    }
}

/// A part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Losses and gradients of each microbatch.
    Microbatches,
    /// Sums of gradients over the data axis.
    Gradients,
    /// The update, with the norm of all parameters.
    Update,
}

impl Phase {
    /// All, in their order.
    pub const ALL: [Self; 3] = [Self::Microbatches, Self::Gradients, Self::Update];
}

impl RankPlan {
    fn new(config: &TrainerConfig, shape: InputShape, placement: Placement) -> Result<Self, TrainError> {
        let mut stores = Stores::new();
        let network = Network::new(config.model.clone(), placement, &mut stores)?;
        let mut gradients = Vec::with_capacity(network.parameters.len());
        for (spec, id) in &network.parameters {
            let part = stores.get(*id).spec.clone();
            gradients.push(stores.add(gradient_of(&spec.name), part));
        }
        let updates = updates(&config.optimizer, &network, &mut stores)?;
        let tensors = named(&network, &gradients, &updates);
        let mut programs = vec![
            gradient_program(&network, &stores, &gradients, shape, &config.objective)?,
            update_program(&config.optimizer, &network, &stores, &gradients, &updates)?,
            evaluation_program(&network, &stores, shape, &config.objective)?,
        ];
        if placement.ranks(MeshAxis::Data) > 1 {
            programs.push(reduce_program(&network, &stores, &gradients)?);
        }
        Ok(Self { network, stores, tensors, programs })
    }

    /// Bytes that it holds on its device.
    pub fn needs(&self) -> MemoryNeeds {
        MemoryNeeds::of(&self.stores, &self.programs)
    }

    /// Bytes of stored tensors: parameters, gradients, the optimizer's state.
    pub fn stored_bytes(&self) -> [u64; 3] {
        [Kind::Parameter, Kind::Gradient, Kind::State].map(|kind| {
            let tensors = self.tensors.iter().filter(|tensor| tensor.kind == kind);
            tensors.map(|tensor| 4 * tensor.part.shape().elements() as u64).sum()
        })
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Operations of a step: gradients of a microbatch, and the update.
    pub fn operations(&self) -> [usize; 2] {
        [self.programs[0].operations(), self.programs[1].operations()]
    }
}

/// Losses of a microbatch, its gradients added to the sums, and the sum of squares of all sums.
fn gradient_program(
    network: &Network,
    stores: &Stores,
    gradients: &[StoreId],
    shape: InputShape,
    objective: &Objective,
) -> Result<Program, TrainError> {
    let mut tape = Tape::new();
    let parameters = Rc::new(network.on(&mut tape, stores));
    let losses = network.losses(&mut tape, &parameters, shape, objective, true)?;
    let fresh = tape.input(FRESH, Spec::i32([1]))?;
    let of: Vec<Var> = network.parameters.iter().map(|(spec, _)| parameters[&spec.name]).collect();
    let computed = tape.backward(losses.loss, &of)?;
    let mut sums = Vec::with_capacity(gradients.len());
    for (gradient, id) in computed.into_iter().zip(gradients) {
        let stored = tape.stored(stores, *id);
        sums.push(tape.record(Accumulate, &[stored, gradient, fresh])?);
    }
    let mut results = vec![losses.loss, losses.z_loss, losses.correct];
    if network.placement.ranks(MeshAxis::Data) == 1 {
        results.push(squares_of(&mut tape, network, &sums)?);
    }
    Ok(Program::new(&tape, &results)?)
}

/// Gradients of parameters that every rank of the data axis has are summed over it; the sum of squares of all gradients.
fn reduce_program(network: &Network, stores: &Stores, gradients: &[StoreId]) -> Result<Program, TrainError> {
    let mut tape = Tape::new();
    let mut all: Vec<Var> = gradients.iter().map(|id| tape.stored(stores, *id)).collect();
    let is_whole = |at: &usize| {
        let axes = &network.parameters[*at].0.axes;
        !network.placement.spread(axes).contains(&Some(MeshAxis::Data))
    };
    let whole: Vec<usize> = (0..all.len()).filter(is_whole).collect();
    let mine: Vec<Var> = whole.iter().map(|at| all[*at]).collect();
    let sums = network.placement.all_reduce(&mut tape, MeshAxis::Data, &mine)?;
    if let Some(first) = sums.first() {
        tape.label(*first, "gradients");
    }
    whole.into_iter().zip(sums).for_each(|(at, sum)| all[at] = sum);
    let squares = squares_of(&mut tape, network, &all)?;
    Ok(Program::new(&tape, &[squares])?)
}

/// The update, and the sum of squares of all parameters before it.
fn update_program(
    optimizer: &OptimizerConfig,
    network: &Network,
    stores: &Stores,
    gradients: &[StoreId],
    updates: &[(UpdatePlan, Vec<StoreId>)],
) -> Result<Program, TrainError> {
    let mut tape = Tape::new();
    let scalars = tape.input(SCALARS, scalars_spec())?;
    let parameters: Vec<Var> = network.parameters.iter().map(|(_, id)| tape.stored(stores, *id)).collect();
    let squares = squares_of(&mut tape, network, &parameters)?;
    let gradients: Vec<Var> = gradients.iter().map(|id| tape.stored(stores, *id)).collect();
    let of_gradients = |tape: &mut Tape| squares_of(tape, network, &gradients).map(Some);
    let gradient_scale = optimizer.record_gradient_scale(&mut tape, of_gradients)?;
    let places = network.parameters.iter().zip(gradients);
    for (((spec, parameter), gradient), (plan, state)) in places.zip(updates) {
        let (spread, parameter) = (network.placement.spread(&spec.axes), *parameter);
        let update = Update { stores, parameter, state, gradient, gradient_scale, scalars };
        let mut sum = |tape: &mut Tape, sums: Var, axes: &[usize]| {
            let over: Vec<MeshAxis> = axes.iter().filter_map(|axis| spread[*axis]).collect();
            sum_over(tape, network.placement, sums, &over)
        };
        plan.record_update(&mut tape, &update, &mut sum)?;
    }
    Ok(Program::with_joint_exchanges(&tape, &[squares])?)
}

/// What the optimizer does with each parameter, and where it keeps what it needs for that.
fn updates(
    optimizer: &OptimizerConfig,
    network: &Network,
    stores: &mut Stores,
) -> Result<Vec<(UpdatePlan, Vec<StoreId>)>, TrainError> {
    optimizer.check()?;
    let mut updates = Vec::with_capacity(network.parameters.len());
    for (spec, _) in &network.parameters {
        let plan = optimizer.plan(&spec.name, &spec.shape, &spec.axes)?;
        let part = network.placement.part(&spec.shape, &spec.axes).shape();
        let place = |tensor: &StateTensor| {
            stores.add(format!("{}/{}", spec.name, tensor.name), Spec::f32(tensor.shape(&part)))
        };
        let state = plan.state.iter().map(place).collect();
        updates.push((plan, state));
    }
    Ok(updates)
}

/// All stored tensors, with what is here of each.
fn named(network: &Network, gradients: &[StoreId], updates: &[(UpdatePlan, Vec<StoreId>)]) -> Vec<Named> {
    let parameters = || {
        network.parameters.iter().map(|(spec, id)| {
            let part = network.placement.part(&spec.shape, &spec.axes);
            let (name, shape) = (spec.name.clone(), spec.shape.clone());
            Named { name, shape, part, id: *id, kind: Kind::Parameter }
        })
    };
    let mut named: Vec<Named> = parameters().collect();
    named.extend(parameters().zip(gradients).map(|(parameter, id)| Named {
        name: gradient_of(&parameter.name),
        id: *id,
        kind: Kind::Gradient,
        ..parameter
    }));
    for (parameter, (plan, ids)) in parameters().zip(updates) {
        for (tensor, id) in plan.state.iter().zip(ids) {
            named.push(Named {
                name: format!("{}/{}", parameter.name, tensor.name),
                shape: tensor.shape(&parameter.shape),
                part: parameter.part.of_axes(&tensor.axes),
                id: *id,
                kind: Kind::State,
            });
        }
    }
    named
}

/// The name of a parameter's gradient.
pub(super) fn gradient_of(parameter: &str) -> String {
    format!("gradient of {parameter}")
}

fn evaluation_program(
    network: &Network,
    stores: &Stores,
    shape: InputShape,
    objective: &Objective,
) -> Result<Program, TrainError> {
    let mut tape = Tape::new();
    let parameters = Rc::new(network.on(&mut tape, stores));
    let losses = network.losses(&mut tape, &parameters, shape, objective, false)?;
    Ok(Program::new(&tape, &[losses.loss, losses.z_loss, losses.correct])?)
}

/// The sum of the squares of all elements, on all ranks, of tensors that are spread as the parameters are.
fn squares_of(tape: &mut Tape, network: &Network, tensors: &[Var]) -> Result<Var, TapeError> {
    let placement = network.placement;
    let mut alike: BTreeMap<Vec<MeshAxis>, Vec<Var>> = BTreeMap::new();
    for ((spec, _), tensor) in network.parameters.iter().zip(tensors) {
        let mut over: Vec<MeshAxis> = placement.spread(&spec.axes).into_iter().flatten().collect();
        over.sort_unstable();
        alike.entry(over).or_default().push(*tensor);
    }
    let mut total = None;
    for (over, alike) in alike {
        if let Some(squares) = SumSquares::of_all(tape, &alike)? {
            let squares = sum_over(tape, placement, squares, &over)?;
            total = Some(match total {
                Some(total) => tape.record(Add, &[total, squares])?,
                None => squares,
            });
        }
    }
    total.map_or_else(|| tape.record(Fill::new(0.0, [1]), &[]), Ok)
}

/// What all ranks along these axes of the mesh have together.
fn sum_over(
    tape: &mut Tape,
    placement: Placement,
    mut sums: Var,
    over: &[MeshAxis],
) -> Result<Var, TapeError> {
    for axis in [MeshAxis::Model, MeshAxis::Data] {
        if over.contains(&axis) {
            sums = placement.all_reduce(tape, axis, &[sums])?[0];
        }
    }
    Ok(sums)
}
