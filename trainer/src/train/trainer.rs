//! A network that learns: its programs, its stored tensors, and what they run on.
//!
//! ```text
//! train(batch)   gradients of each microbatch, summed  ->  loss and norm seen on the host  ->  update
//! ```
//!
//! Between gradients and update the host looks whether the numbers are finite, so that nothing is learnt from a step
//! that is not.

use std::rc::Rc;

use seqio::Batch;

use crate::engine::{Engine, ProgramId, Target};
use crate::host::HostTensor;
use crate::model::{HostInputs, InputShape, host_inputs, part};
use crate::model::{ModelConfig, initial_values};
use crate::ops::{Accumulate, Fill, SumSquares};
use crate::optimizer::{OptimizerConfig, StateTensor, Update, UpdatePlan, on_one_rank, scalars_spec};
use crate::program::{MemoryNeeds, Program};
use crate::random::Key;
use crate::shape::{Shape, Spec};
use crate::store::{StoreId, Stores};
use crate::tape::{Tape, TapeError, Var};
use crate::train::network::{DROPOUT_KEY, WEIGHTS};
use crate::train::{BaseMetrics, Losses, Network, Objective, Schedule, StepReport, TrainError, targets_of};

const GRADIENTS: ProgramId = ProgramId(0);
const UPDATE: ProgramId = ProgramId(1);
const EVALUATE: ProgramId = ProgramId(2);

/// Not 0 where the sum of gradients begins anew, i32[1].
const FRESH: &str = "fresh";

/// The optimizer's numbers of the step.
const SCALARS: &str = "scalars";

/// What decides all numbers of a run, but for the data.
#[derive(Clone, Debug)]
pub struct TrainerConfig {
    /// The network.
    pub model: ModelConfig,
    /// What is minimised.
    pub objective: Objective,
    /// How gradients change parameters.
    pub optimizer: OptimizerConfig,
    /// The learning rate of each step.
    pub schedule: Schedule,
    /// Decides first parameters and dropout.
    pub seed: u64,
    /// Parts of a batch whose gradients are summed.
    pub microbatches: usize,
}

/// A trainer on paper: all programs and all stored tensors, but no memory yet.
#[derive(Debug)]
pub struct TrainerPlan {
    config: TrainerConfig,
    network: Network,
    stores: Stores,
    gradients: Vec<StoreId>,
    /// The optimizer's state by name.
    state: Vec<(String, StoreId)>,
    programs: Vec<Program>,
    shape: InputShape,
}

impl TrainerPlan {
    /// For batches of this shape (all rows of a batch).
    pub fn new(config: TrainerConfig, batch: InputShape) -> Result<Self, TrainError> {
        let parts = config.microbatches.max(1);
        if batch.rows == 0 || !batch.rows.is_multiple_of(parts) {
            return Err(TrainError::Microbatches { rows: batch.rows, parts });
        }
        let shape = InputShape { rows: batch.rows / parts, ..batch };
        let mut stores = Stores::new();
        let network = Network::new(config.model.clone(), &mut stores)?;
        let gradients: Vec<StoreId> = network
            .parameters
            .iter()
            .map(|(spec, _)| stores.add(format!("gradient of {}", spec.name), Spec::f32(spec.shape.clone())))
            .collect();
        let updates = updates(&config.optimizer, &network, &mut stores)?;
        let state = named_state(&network, &updates);
        let programs = vec![
            gradient_program(&network, &stores, &gradients, shape, &config.objective)?,
            update_program(&config.optimizer, &network, &stores, &gradients, &updates)?,
            evaluation_program(&network, &stores, shape, &config.objective)?,
        ];
        Ok(Self { config, network, stores, gradients, state, programs, shape })
    }

    /// Bytes the run holds on its device.
    pub fn needs(&self) -> MemoryNeeds {
        MemoryNeeds::of(&self.stores, &self.programs)
    }

    /// Bytes of stored tensors: parameters, gradients, the optimizer's state.
    pub fn stored_bytes(&self) -> [u64; 3] {
        let bytes = |ids: &mut dyn Iterator<Item = StoreId>| -> u64 {
            ids.map(|id| 4 * self.stores.get(id).spec.shape.elements() as u64).sum()
        };
        [
            bytes(&mut self.network.parameters.iter().map(|(_, id)| *id)),
            bytes(&mut self.gradients.iter().copied()),
            bytes(&mut self.state.iter().map(|(_, id)| *id)),
        ]
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

/// A network that learns.
#[derive(Debug)]
pub struct Trainer {
    config: TrainerConfig,
    network: Network,
    stores: Stores,
    state: Vec<(String, StoreId)>,
    engine: Engine,
    shape: InputShape,
    step: u64,
}

impl Trainer {
    /// With memory on `target`, all parameters zero: [`initialize`](Self::initialize) or write them.
    pub fn new(plan: TrainerPlan, target: Target) -> Result<Self, TrainError> {
        let TrainerPlan { config, network, stores, state, programs, shape, .. } = plan;
        let engine = Engine::new(target, &stores, programs)?;
        Ok(Self { config, network, stores, state, engine, shape, step: 0 })
    }

    /// Draws all parameters from the run's seed.
    pub fn initialize(&mut self) -> Result<(), TrainError> {
        for (spec, id) in &self.network.parameters {
            let values = initial_values(self.config.seed, spec, None);
            self.engine.write(&self.stores, *id, &HostTensor::F32(values))?;
        }
        Ok(())
    }

    /// Updates done.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Says how many updates are done, after tensors of such a step were written.
    pub fn set_step(&mut self, step: u64) {
        self.step = step;
    }

    /// What it is made of.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Names and shapes of all parameters, sorted by name.
    pub fn parameters(&self) -> Vec<(String, Shape)> {
        self.network.parameters.iter().map(|(spec, _)| (spec.name.clone(), spec.shape.clone())).collect()
    }

    /// Names and shapes of the optimizer's state, as `decoder/decoder_norm/scale/v`.
    pub fn optimizer_state(&self) -> Vec<(String, Shape)> {
        let named = self.state.iter();
        named.map(|(name, id)| (name.clone(), self.stores.get(*id).spec.shape.clone())).collect()
    }

    fn id_of(&self, name: &str) -> Option<StoreId> {
        let parameter = self.network.parameters.iter().find(|(spec, _)| spec.name == name).map(|(_, id)| *id);
        parameter.or_else(|| self.state.iter().find(|(state, _)| state == name).map(|(_, id)| *id))
    }

    /// The numbers of a parameter or of a part of the optimizer's state; nothing if there is none of that name.
    pub fn read(&mut self, name: &str) -> Result<Vec<f32>, TrainError> {
        match self.id_of(name) {
            Some(id) => Ok(self.engine.read(&self.stores, id)?),
            None => Ok(Vec::new()),
        }
    }

    /// Fills a parameter or a part of the optimizer's state. A name that is none is passed over.
    pub fn write(&mut self, name: &str, values: Vec<f32>) -> Result<(), TrainError> {
        match self.id_of(name) {
            Some(id) => Ok(self.engine.write(&self.stores, id, &HostTensor::F32(values))?),
            None => Ok(()),
        }
    }

    /// Learns from a batch, unless its loss or its gradient is not a number. The step counts either way.
    pub fn train(&mut self, batch: &Batch) -> Result<StepReport, TrainError> {
        let mut report = self.gradients(batch)?;
        if report.is_finite() {
            let scalars = self.config.optimizer.scalars(self.step, report.learning_rate);
            let scalars = HostTensor::F32(scalars);
            let results = self.engine.run(UPDATE, |name| (name == SCALARS).then_some(&scalars))?;
            report.parameter_norm = f64::from(results[0][0]).sqrt();
        }
        self.step += 1;
        Ok(report)
    }

    /// Computes losses and gradients of a batch, and changes no parameter.
    pub(crate) fn gradients(&mut self, batch: &Batch) -> Result<StepReport, TrainError> {
        let parts = self.config.microbatches.max(1);
        if batch.num_rows != parts * self.shape.rows {
            return Err(TrainError::Microbatches { rows: batch.num_rows, parts });
        }
        let mut metrics = BaseMetrics::default();
        let mut squares = 0.0;
        for number in 0..parts {
            let rows = part(batch, number * self.shape.rows..(number + 1) * self.shape.rows);
            let (mut inputs, weights, factor) = self.inputs(&rows)?;
            inputs.insert(FRESH.to_owned(), HostTensor::I32(vec![i32::from(number == 0)]));
            let key = Key::new(self.config.seed).fold_in(self.step as u32).fold_in(number as u32).0;
            inputs.insert(DROPOUT_KEY.to_owned(), HostTensor::I32(key.map(|word| word as i32).to_vec()));
            let results = self.engine.run(GRADIENTS, |name| inputs.get(name))?;
            metrics.add(&BaseMetrics::new(&rows, &weights, sums(&results)).divided_by(factor));
            squares = f64::from(results[3][0]);
        }
        let learning_rate = self.config.schedule.learning_rate(self.step);
        Ok(StepReport {
            step: self.step,
            gradient_norm: squares.sqrt(),
            parameter_norm: f64::NAN,
            learning_rate,
            base: metrics,
        })
    }

    /// Adds what the network makes of a batch, teacher-forced.
    pub fn evaluate(&mut self, batch: &Batch, sums_so_far: &mut BaseMetrics) -> Result<(), TrainError> {
        let mut first = 0;
        while first + self.shape.rows <= batch.num_rows {
            let rows = part(batch, first..first + self.shape.rows);
            let (inputs, weights, factor) = self.inputs(&rows)?;
            let results = self.engine.run(EVALUATE, |name| inputs.get(name))?;
            sums_so_far.add(&BaseMetrics::new(&rows, &weights, sums(&results)).divided_by(factor));
            first += self.shape.rows;
        }
        Ok(())
    }

    /// Inputs of a part of a batch, the weights of its tokens, and the factor that its loss is divided by.
    fn inputs(&self, part: &Batch) -> Result<(HostInputs, Vec<f32>, f32), TrainError> {
        let mut inputs = host_inputs(&self.config.model, self.shape, part)?;
        let targets = targets_of(part, self.shape.decoder_length)?;
        let (weights, factor) = targets.weights_and_factor(self.config.objective.normalizing)?;
        // Without any weight there is nothing to divide, and the loss is 0.
        let divided = weights.iter().map(|weight| if factor > 0.0 { weight / factor } else { 0.0 });
        inputs.insert(WEIGHTS.to_owned(), HostTensor::F32(divided.collect()));
        Ok((inputs, weights, factor))
    }
}

fn sums(results: &[Vec<f32>]) -> Losses {
    let number = |at: usize| f64::from(results[at][0]);
    Losses { loss: number(0), z_loss: number(1), correct: number(2) }
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
    let squares = squares_of(&mut tape, &sums)?;
    Ok(Program::new(&tape, &[losses.loss, losses.z_loss, losses.correct, squares])?)
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
    let squares = squares_of(&mut tape, &parameters)?;
    let gradients: Vec<Var> = gradients.iter().map(|id| tape.stored(stores, *id)).collect();
    let gradient_scale = optimizer.record_gradient_scale_of(&mut tape, &gradients)?;
    let places = network.parameters.iter().map(|(_, id)| *id).zip(gradients);
    for ((parameter, gradient), (plan, state)) in places.zip(updates) {
        let update = Update { stores, parameter, state, gradient, gradient_scale, scalars };
        plan.record_update(&mut tape, &update, &mut on_one_rank)?;
    }
    Ok(Program::new(&tape, &[squares])?)
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
        let place = |tensor: &StateTensor| {
            stores.add(format!("{}/{}", spec.name, tensor.name), Spec::f32(tensor.shape(&spec.shape)))
        };
        let state = plan.state.iter().map(place).collect();
        updates.push((plan, state));
    }
    Ok(updates)
}

/// The optimizer's state by name, as `decoder/decoder_norm/scale/v`.
fn named_state(network: &Network, updates: &[(UpdatePlan, Vec<StoreId>)]) -> Vec<(String, StoreId)> {
    let mut named = Vec::new();
    for ((spec, _), (plan, ids)) in network.parameters.iter().zip(updates) {
        let names = plan.state.iter().map(|tensor| format!("{}/{}", spec.name, tensor.name));
        named.extend(names.zip(ids.iter().copied()));
    }
    named
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

fn squares_of(tape: &mut Tape, tensors: &[Var]) -> Result<Var, TapeError> {
    match SumSquares::of_all(tape, tensors)? {
        Some(squares) => Ok(squares),
        None => tape.record(Fill::new(0.0, [1]), &[]),
    }
}
