//! The ranks of a trainer: one on the caller's thread, several on a thread each.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::engine::{Engine, EngineError, ProgramId, Target};
use crate::host::HostTensor;
use crate::mesh::{Mesh, MeshAxis, Rank, World};
use crate::partition::Placement;
use crate::train::TrainError;
use crate::train::plan::RankPlan;

/// One rank at work.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) plan: RankPlan,
    pub(super) engine: Engine,
    /// Its way to the others; none if it is alone.
    pub(super) rank: Option<Rank>,
}

/// All ranks.
#[derive(Debug)]
pub(super) enum Team {
    /// One, on the caller's thread.
    Alone(Box<Worker>),
    /// Several. What ends one ends all.
    Several(World, Vec<Thread>),
}

type Work = Box<dyn FnOnce(&mut Worker) -> Result<(), TrainError> + Send>;

/// A rank's thread, which does what it is told until nobody tells it anything any more.
#[derive(Debug)]
pub(super) struct Thread {
    work: Sender<Work>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    fn new(mut plan: RankPlan, target: Target, rank: Option<Rank>) -> Result<Self, TrainError> {
        let programs = std::mem::take(&mut plan.programs);
        let engine = Engine::new(target, &plan.stores, programs)?;
        Ok(Self { plan, engine, rank })
    }

    /// Its place in the mesh.
    pub(super) fn placement(&self) -> &Placement {
        &self.plan.network.placement
    }

    /// Runs a program together with the other ranks.
    pub(super) fn run<'a>(
        &mut self,
        program: ProgramId,
        input: impl Fn(&str) -> Option<&'a HostTensor>,
    ) -> Result<Vec<Vec<f32>>, EngineError> {
        self.engine.run_with(program, input, self.rank.as_mut())
    }
}

impl Team {
    /// With memory and programs on the target of each.
    pub(super) fn new(mesh: Mesh, plans: Vec<RankPlan>, targets: Vec<Target>) -> Result<Self, TrainError> {
        let mut ranks: Vec<(RankPlan, Target)> = plans.into_iter().zip(targets).collect();
        if ranks.len() == 1
            && let Some((plan, target)) = ranks.pop()
        {
            return Ok(Self::Alone(Box::new(Worker::new(plan, target, None)?)));
        }
        let world = World::new(mesh);
        let shared: Vec<Vec<MeshAxis>> = (0..ranks.len()).map(|rank| shared(mesh, rank, &ranks)).collect();
        let start =
            |(number, (plan, target))| Thread::start(&world, number, plan, target, shared[number].clone());
        let threads =
            ranks.into_iter().enumerate().map(start).collect::<Result<_, _>>().inspect_err(|error| {
                // Those that were started do not wait for one that was not.
                world.stop(0, error.to_string());
            })?;
        let mut team = Self::Several(world, threads);
        team.on_all(|_| Ok(()))?;
        Ok(team)
    }

    /// Lets all ranks work at once, and waits for them; the results are in the order of ranks. If one fails, all end,
    /// and the error is that of the first.
    pub(super) fn on_all<T: Send + 'static>(
        &mut self,
        work: impl Fn(&mut Worker) -> Result<T, TrainError> + Send + Sync + 'static,
    ) -> Result<Vec<T>, TrainError> {
        let (world, threads) = match self {
            Self::Alone(worker) => return Ok(vec![work(worker)?]),
            Self::Several(world, threads) => (world, threads),
        };
        let (results, done) = channel();
        let work = Arc::new(work);
        for (number, thread) in threads.iter().enumerate() {
            let work = Arc::clone(&work);
            thread.tell(sending(world, number, results.clone(), move |worker| work(worker)));
        }
        drop(results);
        let mut found: Vec<(usize, T)> = done.iter().collect();
        let mut ranks = 0..threads.len();
        if let Some(missing) = ranks.find(|rank| found.iter().all(|(number, _)| number != rank)) {
            return Err(ended(world, missing, &mut threads[missing]));
        }
        found.sort_by_key(|(number, _)| *number);
        Ok(found.into_iter().map(|(_, result)| result).collect())
    }

    /// Lets one rank work alone: it must not need the others.
    pub(super) fn on_one<T: Send + 'static>(
        &mut self,
        rank: usize,
        work: impl FnOnce(&mut Worker) -> Result<T, TrainError> + Send + 'static,
    ) -> Result<T, TrainError> {
        let (world, threads) = match self {
            Self::Alone(worker) => return work(worker),
            Self::Several(world, threads) => (world, threads),
        };
        if let Some(stopped) = world.reason() {
            // This rank may be there still, but what it holds may be half of a step.
            return Err(stopped.into());
        }
        let (results, done) = channel();
        threads[rank].tell(sending(world, rank, results, work));
        match done.recv() {
            Ok((_, result)) => Ok(result),
            Err(_) => Err(ended(world, rank, &mut threads[rank])),
        }
    }
}

/// The work of a rank whose result is sent. What it fails with is known before it is seen that nothing will come.
fn sending<T: Send + 'static>(
    world: &World,
    rank: usize,
    results: Sender<(usize, T)>,
    work: impl FnOnce(&mut Worker) -> Result<T, TrainError> + Send + 'static,
) -> Work {
    let world = world.clone();
    Box::new(move |worker| {
        let result = work(worker).inspect_err(|error| {
            world.stop(rank, error.to_string());
        })?;
        // Nobody listens only where the others have failed.
        drop(results.send((rank, result)));
        Ok(())
    })
}

/// Along which axes all ranks in line with this one compute on its device.
fn shared(mesh: Mesh, rank: usize, ranks: &[(RankPlan, Target)]) -> Vec<MeshAxis> {
    let is_here = |other: usize| ranks[other].1.is_device_of(&ranks[rank].1);
    let axes = [MeshAxis::Data, MeshAxis::Model].into_iter();
    axes.filter(|axis| mesh.group(rank, *axis).into_iter().all(is_here)).collect()
}

/// Why nothing came from a rank.
fn ended(world: &World, rank: usize, thread: &mut Thread) -> TrainError {
    if world.reason().is_none() {
        // What a panic said is known when the thread is gone.
        thread.join();
    }
    match world.reason() {
        Some(stopped) => stopped.into(),
        None => world.stop(rank, "its thread ended").into(),
    }
}

impl Thread {
    fn start(
        world: &World,
        number: usize,
        plan: RankPlan,
        target: Target,
        shared: Vec<MeshAxis>,
    ) -> Result<Self, TrainError> {
        let (work, todo): (Sender<Work>, Receiver<Work>) = channel();
        let placement = plan.network.placement;
        let (data, model) = (placement.place(MeshAxis::Data), placement.place(MeshAxis::Model));
        let name = format!("rank {number} (data {data}, model {model})");
        let world = world.clone();
        let run = move || {
            let ended: Result<(), TrainError> = world.run(number, |mut rank| {
                shared.into_iter().for_each(|axis| rank.share_memory(axis));
                let mut worker = Worker::new(plan, target, Some(rank))?;
                todo.iter().try_for_each(|work| work(&mut worker))
            });
            // The world knows why, for all ranks.
            drop(ended);
        };
        let thread = std::thread::Builder::new().name(name).spawn(run).map_err(TrainError::Thread)?;
        Ok(Self { work, thread: Some(thread) })
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }

    fn tell(&self, work: Work) {
        // A thread that has ended is noticed by its missing result.
        drop(self.work.send(work));
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // Without anybody who could tell it something the thread ends.
        self.work = channel().0;
        self.join();
    }
}
