//! Tensors as vectors, steps one after the other.

use std::mem::take;

use crate::cpu::CpuArgs;
use crate::engine::EngineError;
use crate::host::HostTensor;
use crate::mesh::{HostTensors, Rank, SpanKind};
use crate::program::{Place, Program, Step};
use crate::shape::Spec;
use crate::store::{StoreId, Stores};

/// Runs programs on the host.
#[derive(Debug)]
pub struct CpuEngine {
    pool: rayon::ThreadPool,
    stores: Vec<Vec<f32>>,
    programs: Vec<Prepared>,
    slots: Vec<Vec<f32>>,
}

#[derive(Debug)]
struct Prepared {
    program: Program,
    inputs: Vec<Vec<f32>>,
    constants: Vec<Vec<f32>>,
}

impl CpuEngine {
    /// With memory for the stored tensors, all zeros, and for these programs, which share their slots.
    pub fn new(threads: usize, stores: &Stores, programs: Vec<Program>) -> Result<Self, EngineError> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|error| EngineError::Threads(error.to_string()))?;
        let mut slots: Vec<Vec<f32>> = Vec::new();
        for program in &programs {
            for (at, elements) in program.slots.iter().enumerate() {
                match slots.get_mut(at) {
                    Some(slot) if slot.len() < *elements => *slot = vec![0.0; *elements],
                    Some(_) => {}
                    None => slots.push(vec![0.0; *elements]),
                }
            }
        }
        let prepared = programs.into_iter().map(|program| Prepared {
            inputs: program.inputs.iter().map(|input| vec![0.0; input.spec.shape.elements()]).collect(),
            constants: program.constants.iter().map(|constant| constant.as_f32_bits().to_vec()).collect(),
            program,
        });
        Ok(Self {
            pool,
            stores: stores.iter().map(|(_, store)| vec![0.0; store.spec.shape.elements()]).collect(),
            programs: prepared.collect(),
            slots,
        })
    }

    pub(crate) fn write(&mut self, id: StoreId, values: &HostTensor) {
        self.stores[id.index()].copy_from_slice(values.as_f32_bits());
    }

    pub(crate) fn read(&self, id: StoreId) -> &[f32] {
        &self.stores[id.index()]
    }

    pub(crate) fn stored_bytes(&self, id: StoreId) -> u64 {
        4 * self.stores[id.index()].capacity() as u64
    }

    pub(crate) fn program(&self, program: usize) -> &Program {
        &self.programs[program].program
    }

    pub(crate) fn run(
        &mut self,
        program: usize,
        inputs: &[&HostTensor],
        mut rank: Option<&mut Rank>,
    ) -> Result<Vec<Vec<f32>>, EngineError> {
        let Self { pool, stores, programs, slots } = self;
        let Prepared { program, inputs: held, constants } = &mut programs[program];
        for (place, values) in held.iter_mut().zip(inputs) {
            place.copy_from_slice(values.as_f32_bits());
        }
        let mut memory = Memory { stores, inputs: held, constants, slots };
        let mut steps = &program.steps[..];
        while !steps.is_empty() {
            let local = steps.iter().position(|step| step.exchange.is_some()).unwrap_or(steps.len());
            let (now, later) = steps.split_at(local);
            let start = rank.as_ref().map_or(0.0, |rank| rank.now());
            pool.install(|| now.iter().for_each(|step| memory.perform(step)));
            if let (Some(rank), Some(first)) = (rank.as_deref_mut(), now.first()) {
                rank.span(&first.name, SpanKind::Compute, start, rank.now());
            }
            steps = match later.split_first() {
                Some((step, rest)) => {
                    memory.exchange(step, rank.as_deref_mut())?;
                    rest
                }
                None => later,
            };
        }
        Ok(program.results.iter().map(|(place, spec)| memory.at(*place, spec).to_vec()).collect())
    }
}

struct Memory<'a> {
    stores: &'a mut Vec<Vec<f32>>,
    inputs: &'a mut Vec<Vec<f32>>,
    constants: &'a mut Vec<Vec<f32>>,
    slots: &'a mut Vec<Vec<f32>>,
}

impl Memory<'_> {
    fn vector(&mut self, place: Place) -> &mut Vec<f32> {
        match place {
            Place::Store(id) => &mut self.stores[id.index()],
            Place::Input(input) => &mut self.inputs[input],
            Place::Constant(constant) => &mut self.constants[constant],
            Place::Slot(slot) => &mut self.slots[slot],
        }
    }

    fn at(&self, place: Place, spec: &Spec) -> &[f32] {
        let vector = match place {
            Place::Store(id) => &self.stores[id.index()],
            Place::Input(input) => &self.inputs[input],
            Place::Constant(constant) => &self.constants[constant],
            Place::Slot(slot) => &self.slots[slot],
        };
        // An input that the step overwrites was taken out to be its output.
        &vector[..spec.shape.elements().min(vector.len())]
    }

    /// The vectors that a step's outputs go to, taken out of their places, with copies of what they begin as.
    fn take_outputs(&mut self, step: &Step) -> Vec<Vec<f32>> {
        let mut outputs: Vec<Vec<f32>> =
            step.outputs.iter().map(|(place, _)| take(self.vector(*place))).collect();
        for (output, input) in &step.copies {
            let (place, spec) = &step.inputs[*input];
            let from = self.at(*place, spec);
            outputs[*output][..from.len()].copy_from_slice(from);
        }
        outputs
    }

    fn put_back(&mut self, step: &Step, outputs: Vec<Vec<f32>>) {
        for ((place, _), output) in step.outputs.iter().zip(outputs) {
            *self.vector(*place) = output;
        }
    }

    /// What ranks do together.
    fn exchange(&mut self, step: &Step, rank: Option<&mut Rank>) -> Result<(), EngineError> {
        let (Some(rank), Some((over, message))) = (rank, &step.exchange) else {
            return Err(EngineError::NoRanks { name: step.name.clone() });
        };
        #[cfg(test)]
        rank.fail()?;
        let mut outputs = self.take_outputs(step);
        let results = outputs.iter_mut().zip(&step.outputs);
        let results = results.map(|(output, (_, spec))| &mut output[..spec.shape.elements()]).collect();
        let mut tensors = if step.op.overwrites().is_empty() {
            let inputs = step.inputs.iter().map(|(place, spec)| self.at(*place, spec)).collect();
            HostTensors::new(inputs, results)
        } else {
            HostTensors::in_place(results)
        };
        let done = rank.collective(*over, message, &mut tensors);
        self.put_back(step, outputs);
        Ok(done?)
    }

    fn perform(&mut self, step: &Step) {
        let mut outputs = self.take_outputs(step);
        let mut args = CpuArgs {
            inputs: step.inputs.iter().map(|(place, spec)| self.at(*place, spec)).collect(),
            input_specs: step.inputs.iter().map(|(_, spec)| spec).collect(),
            outputs: outputs
                .iter_mut()
                .zip(&step.outputs)
                .map(|(output, (_, spec))| &mut output[..spec.shape.elements()])
                .collect(),
            output_specs: step.outputs.iter().map(|(_, spec)| spec).collect(),
        };
        step.op.cpu(&mut args);
        self.put_back(step, outputs);
    }
}
