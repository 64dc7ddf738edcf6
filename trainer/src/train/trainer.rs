//! A network that learns: the programs and tensors of all ranks, and what they run on.
//!
//! ```text
//! train(batch)   gradients of each microbatch, summed  ->  loss and norm seen on the host  ->  update
//! ```
//!
//! Between gradients and update the host looks whether the numbers are finite, so that nothing is learnt from a step
//! that is not. Ranks run the same programs at once, a thread each; a single rank runs on the caller's.

use seqio::Batch;

use crate::engine::Target;
use crate::host::HostTensor;
use crate::mesh::{Mesh, MeshAxis, Rank, Span, Traffic};
use crate::model::ModelConfig;
use crate::model::{HostInputs, InputShape, host_inputs, initial_values, part};
use crate::optimizer::OptimizerConfig;
use crate::partition::Part;
use crate::random::Key;
use crate::shape::Shape;
use crate::store::StoreId;
use crate::train::network::{DROPOUT_KEY, WEIGHTS};
use crate::train::plan::{EVALUATE, GRADIENTS, Kind, Named, REDUCE, RankPlan, UPDATE};
use crate::train::team::{Team, Worker};
use crate::train::{
    BaseMetrics, Losses, Network, Objective, Schedule, StepReport, TrainError, TrainerPlan, targets_of,
};

/// Not 0 where the sum of gradients begins anew, i32[1].
pub(super) const FRESH: &str = "fresh";

/// The optimizer's numbers of the step.
pub(super) const SCALARS: &str = "scalars";

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

/// A network that learns.
#[derive(Debug)]
pub struct Trainer {
    config: TrainerConfig,
    mesh: Mesh,
    network: Network,
    /// All stored tensors, with the part that each rank has.
    tensors: Vec<Spread>,
    team: Team,
    /// Of a microbatch on one rank.
    shape: InputShape,
    step: u64,
}

/// A stored tensor on all ranks.
#[derive(Debug)]
struct Spread {
    name: String,
    shape: Shape,
    kind: Kind,
    /// Of each rank.
    parts: Vec<(StoreId, Part)>,
}

/// A microbatch on its way to the ranks.
struct Prepared {
    /// Of every place along the data axis.
    inputs: Vec<HostInputs>,
    /// Its counts, still without losses.
    counts: BaseMetrics,
    factor: f32,
}

impl Trainer {
    /// With memory on `target`, all parameters zero: [`initialize`](Self::initialize) or write them.
    pub fn new(plan: TrainerPlan, target: Target) -> Result<Self, TrainError> {
        let targets = vec![target; plan.ranks.len()];
        Self::on(plan, targets)
    }

    /// The same with a target for every rank of the plan.
    pub fn on(plan: TrainerPlan, targets: Vec<Target>) -> Result<Self, TrainError> {
        let TrainerPlan { config, mesh, ranks, shape } = plan;
        let network = ranks[0].network.clone();
        let kept = |(at, tensor): (usize, &Named)| {
            let of = |rank: &RankPlan| (rank.tensors[at].id, rank.tensors[at].part.clone());
            let Named { name, shape, kind, .. } = tensor.clone();
            Spread { name, shape, kind, parts: ranks.iter().map(of).collect() }
        };
        let tensors = ranks[0].tensors.iter().enumerate().map(kept).collect();
        let team = Team::new(mesh, ranks, targets)?;
        Ok(Self { config, mesh, network, tensors, team, shape, step: 0 })
    }

    /// Draws all parameters from the run's seed.
    pub fn initialize(&mut self) -> Result<(), TrainError> {
        let seed = self.config.seed;
        self.team.on_all(move |Worker { plan, engine, .. }| {
            for (spec, id) in &plan.network.parameters {
                let part = plan.network.placement.part(&spec.shape, &spec.axes);
                let values = HostTensor::F32(initial_values(seed, spec, &part));
                engine.write(&plan.stores, *id, &values)?;
            }
            Ok(())
        })?;
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

    /// What it is made of, as its first rank has it.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Names and shapes of all parameters, sorted by name.
    pub fn parameters(&self) -> Vec<(String, Shape)> {
        self.named(Kind::Parameter)
    }

    /// Names and shapes of the optimizer's state, as `decoder/decoder_norm/scale/v`.
    pub fn optimizer_state(&self) -> Vec<(String, Shape)> {
        self.named(Kind::State)
    }

    fn named(&self, kind: Kind) -> Vec<(String, Shape)> {
        let wanted = self.tensors.iter().filter(|tensor| tensor.kind == kind);
        wanted.map(|tensor| (tensor.name.clone(), tensor.shape.clone())).collect()
    }

    /// The numbers of a whole parameter, of its gradient, or of a part of the optimizer's state, whatever ranks have of
    /// it; nothing if there is none of that name.
    pub fn read(&mut self, name: &str) -> Result<Vec<f32>, TrainError> {
        let Some(tensor) = self.tensors.iter().find(|tensor| tensor.name == name) else {
            return Ok(Vec::new());
        };
        let mut whole = vec![0.0; tensor.shape.elements()];
        for (rank, (id, part)) in tensor.parts.iter().enumerate() {
            // Ranks may have the same part.
            if tensor.parts[..rank].iter().all(|(_, other)| other != part) {
                let id = *id;
                let values = self
                    .team
                    .on_one(rank, move |Worker { plan, engine, .. }| Ok(engine.read(&plan.stores, id)?))?;
                if part.is_whole() {
                    return Ok(values);
                }
                part.paste(&values, &mut whole);
            }
        }
        Ok(whole)
    }

    /// Fills a whole parameter or a part of the optimizer's state. A name that is none is passed over.
    pub fn write(&mut self, name: &str, values: Vec<f32>) -> Result<(), TrainError> {
        let Some(tensor) = self.tensors.iter().find(|tensor| tensor.name == name) else { return Ok(()) };
        for (rank, (id, part)) in tensor.parts.iter().enumerate() {
            // Of another size than the whole it is refused by name.
            let fits = values.len() == tensor.shape.elements();
            let values = HostTensor::F32(if fits { part.cut(&values) } else { values.clone() });
            let id = *id;
            self.team.on_one(rank, move |Worker { plan, engine, .. }| {
                Ok(engine.write(&plan.stores, id, &values)?)
            })?;
        }
        Ok(())
    }

    /// Learns from a batch, unless its loss or its gradient is not a number. The step counts either way.
    pub fn train(&mut self, batch: &Batch) -> Result<StepReport, TrainError> {
        let mut report = self.gradients(batch)?;
        if report.is_finite() {
            let scalars = self.config.optimizer.scalars(self.step, report.learning_rate);
            let scalars = HostTensor::F32(scalars);
            let squares = self.team.on_all(move |worker| {
                let results = worker.run(UPDATE, |name| (name == SCALARS).then_some(&scalars))?;
                Ok(f64::from(results[0][0]))
            })?;
            report.parameter_norm = squares[0].sqrt();
        }
        self.step += 1;
        Ok(report)
    }

    /// Computes losses and gradients of a batch, and changes no parameter.
    pub(crate) fn gradients(&mut self, batch: &Batch) -> Result<StepReport, TrainError> {
        let parts = self.config.microbatches.max(1);
        let rows = self.shape.rows * self.mesh.size(MeshAxis::Data);
        if batch.num_rows != parts * rows {
            return Err(TrainError::Microbatches { rows: batch.num_rows, parts });
        }
        let mut prepared = Vec::with_capacity(parts);
        for number in 0..parts {
            let mut microbatch = self.prepare(&part(batch, number * rows..(number + 1) * rows))?;
            let key = Key::new(self.config.seed).fold_in(self.step as u32).fold_in(number as u32).0;
            let key = HostTensor::I32(key.map(|word| word as i32).to_vec());
            for inputs in &mut microbatch.inputs {
                inputs.insert(FRESH.to_owned(), HostTensor::I32(vec![i32::from(number == 0)]));
                inputs.insert(DROPOUT_KEY.to_owned(), key.clone());
            }
            prepared.push(microbatch);
        }
        let counts: Vec<_> = prepared.iter().map(|part| (part.counts.clone(), part.factor)).collect();
        let found = self.team.on_all(move |worker| {
            let place = worker.placement().place(MeshAxis::Data);
            let (mut losses, mut squares) = (Vec::with_capacity(parts), 0.0);
            for microbatch in &prepared {
                let results = worker.run(GRADIENTS, |name| microbatch.inputs[place].get(name))?;
                losses.push(losses_of(&results));
                squares = results.get(3).map_or(0.0, |squares| f64::from(squares[0]));
            }
            if worker.placement().ranks(MeshAxis::Data) > 1 {
                squares = f64::from(worker.run(REDUCE, |_| None)?[0][0]);
            }
            Ok((losses, squares))
        })?;
        let mut metrics = BaseMetrics::default();
        for (number, (counts, factor)) in counts.into_iter().enumerate() {
            let losses = self.over_data(|rank| found[rank].0[number]);
            metrics.add(&counts.with_losses(losses, factor));
        }
        Ok(StepReport {
            step: self.step,
            gradient_norm: found[0].1.sqrt(),
            parameter_norm: f64::NAN,
            learning_rate: self.config.schedule.learning_rate(self.step),
            base: metrics,
        })
    }

    /// Adds what the network makes of a batch, teacher-forced.
    pub fn evaluate(&mut self, batch: &Batch, sums_so_far: &mut BaseMetrics) -> Result<(), TrainError> {
        let (rows, mut first) = (self.shape.rows * self.mesh.size(MeshAxis::Data), 0);
        while first + rows <= batch.num_rows {
            let Prepared { inputs, counts, factor } = self.prepare(&part(batch, first..first + rows))?;
            let found = self.team.on_all(move |worker| {
                let place = worker.placement().place(MeshAxis::Data);
                Ok(losses_of(&worker.run(EVALUATE, |name| inputs[place].get(name))?))
            })?;
            let losses = self.over_data(|rank| found[rank]);
            sums_so_far.add(&counts.with_losses(losses, factor));
            first += rows;
        }
        Ok(())
    }

    /// What each rank has exchanged since this was last asked; nothing where there is only one.
    pub fn take_traffic(&mut self) -> Result<Vec<Traffic>, TrainError> {
        let taken = |worker: &mut Worker| Ok(worker.rank.as_mut().map(Rank::take_traffic));
        Ok(self.team.on_all(taken)?.into_iter().flatten().collect())
    }

    /// Whether ranks keep what they do when from now on.
    pub fn record_spans(&mut self, on: bool) -> Result<(), TrainError> {
        self.team.on_all(move |worker| {
            worker.rank.iter_mut().for_each(|rank| rank.record(on));
            Ok(())
        })?;
        Ok(())
    }

    /// What ranks did when since this was last asked; nothing where there is only one.
    pub fn take_spans(&mut self) -> Result<Vec<Span>, TrainError> {
        let taken = |worker: &mut Worker| Ok(worker.rank.as_mut().map_or(Vec::new(), Rank::take_spans));
        Ok(self.team.on_all(taken)?.concat())
    }

    /// Its ranks.
    #[cfg(test)]
    pub(super) fn team(&mut self) -> &mut Team {
        &mut self.team
    }

    /// Inputs of a microbatch, with the weights of its tokens divided by what its loss is divided by.
    fn prepare(&self, microbatch: &Batch) -> Result<Prepared, TrainError> {
        let targets = targets_of(microbatch, self.shape.decoder_length)?;
        let (weights, factor) = targets.weights_and_factor(self.config.objective.normalizing)?;
        let counts = BaseMetrics::new(microbatch, &weights, Losses::default());
        // Without any weight there is nothing to divide, and the loss is 0.
        let divided = weights.iter().map(|weight| if factor > 0.0 { weight / factor } else { 0.0 });
        let divided: Vec<f32> = divided.collect();
        let of_rank = divided.chunks_exact((self.shape.rows * self.shape.decoder_length).max(1));
        let mut inputs = Vec::with_capacity(self.mesh.size(MeshAxis::Data));
        for (place, weights) in of_rank.enumerate() {
            let rows = part(microbatch, place * self.shape.rows..(place + 1) * self.shape.rows);
            let mut of_place = host_inputs(&self.config.model, self.shape, &rows)?;
            of_place.insert(WEIGHTS.to_owned(), HostTensor::F32(weights.to_vec()));
            inputs.push(of_place);
        }
        Ok(Prepared { inputs, counts, factor })
    }

    /// The losses of all rows, from ranks that have different ones.
    fn over_data(&self, of: impl Fn(usize) -> Losses) -> Losses {
        let mesh = self.mesh;
        let firsts = (0..mesh.ranks()).filter(|rank| mesh.place(*rank, MeshAxis::Model) == 0);
        firsts.map(of).fold(Losses::default(), Losses::plus)
    }
}

fn losses_of(results: &[Vec<f32>]) -> Losses {
    let number = |at: usize| f64::from(results[at][0]);
    Losses { loss: number(0), z_loss: number(1), correct: number(2) }
}
