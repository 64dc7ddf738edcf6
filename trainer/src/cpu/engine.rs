//! Tensors as vectors, steps one after the other.

use std::mem::take;

use crate::cpu::CpuArgs;
use crate::engine::EngineError;
use crate::host::HostTensor;
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

    pub(crate) fn program(&self, program: usize) -> &Program {
        &self.programs[program].program
    }

    pub(crate) fn run(&mut self, program: usize, inputs: &[&HostTensor]) -> Vec<Vec<f32>> {
        let Self { pool, stores, programs, slots } = self;
        let Prepared { program, inputs: held, constants } = &mut programs[program];
        for (place, values) in held.iter_mut().zip(inputs) {
            place.copy_from_slice(values.as_f32_bits());
        }
        let mut memory = Memory { stores, inputs: held, constants, slots };
        pool.install(|| program.steps.iter().for_each(|step| memory.perform(step)));
        program.results.iter().map(|(place, spec)| memory.at(*place, spec).to_vec()).collect()
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

    fn perform(&mut self, step: &Step) {
        let mut outputs: Vec<Vec<f32>> =
            step.outputs.iter().map(|(place, _)| take(self.vector(*place))).collect();
        for (output, input) in &step.copies {
            let (place, spec) = &step.inputs[*input];
            let from = self.at(*place, spec);
            outputs[*output][..from.len()].copy_from_slice(from);
        }
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
        for ((place, _), output) in step.outputs.iter().zip(outputs) {
            *self.vector(*place) = output;
        }
    }
}
