//! Tensors as buffers, a program as one submission.

use std::cell::OnceCell;
use std::sync::mpsc::{Receiver, channel};

use crate::engine::EngineError;
use crate::gpu::device::Device;
use crate::gpu::exchange::BufferTensors;
use crate::gpu::kernel::{BufferRef, Dispatch, GpuArgs, Kernel, PRELUDE, linear_groups};
use crate::gpu::shared::SharedExchange;
use crate::host::HostTensor;
use crate::mesh::{Rank, SpanKind};
use crate::program::{Place, Program, Step};
use crate::shape::Spec;
use crate::store::{StoreId, Stores};

/// Bytes moved at once between host and device.
pub(super) const TRANSFER_BYTES: u64 = 4 << 20;

static COPY: Kernel = Kernel { name: "copy", source: &[PRELUDE, include_str!("copy.wgsl")], entry: "copy" };

/// Runs programs on a device.
#[derive(Debug)]
pub struct GpuEngine {
    device: Device,
    memory: Memory,
    programs: Vec<Prepared>,
    transfer: [wgpu::Buffer; 2],
}

#[derive(Debug)]
struct Memory {
    stores: Vec<wgpu::Buffer>,
    slots: Vec<wgpu::Buffer>,
}

#[derive(Debug)]
struct Prepared {
    program: Program,
    inputs: Vec<wgpu::Buffer>,
    /// What is submitted at once: to the end, or to what ranks do together.
    parts: Vec<Part>,
    /// Where results are read from, with the offset of each.
    staging: wgpu::Buffer,
    offsets: Vec<u64>,
}

#[derive(Debug)]
struct Part {
    dispatches: Vec<Bound>,
    /// The step, an exchange, that comes then.
    exchange: Option<usize>,
    /// How it is done where the ranks share a device; found out when it is first done.
    shared: OnceCell<Option<SharedExchange>>,
}

/// A dispatch that can be recorded.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) pipeline: wgpu::ComputePipeline,
    pub(super) group: wgpu::BindGroup,
    pub(super) groups: [u32; 3],
}

impl Bound {
    /// Records dispatches, one after the other.
    pub(super) fn record(all: &[Self], encoder: &mut wgpu::CommandEncoder) {
        let mut pass = encoder.begin_compute_pass(&Default::default());
        for Self { pipeline, group, groups: [x, y, z] } in all {
            pass.set_pipeline(pipeline);
            pass.set_bind_group(0, group, &[]);
            pass.dispatch_workgroups(*x, *y, *z);
        }
    }
}

impl GpuEngine {
    /// With memory for the stored tensors, all zeros, and for these programs, which share their slots.
    pub fn new(device: Device, stores: &Stores, programs: Vec<Program>) -> Result<Self, EngineError> {
        check_sizes(&device, stores, &programs)?;
        let num_slots = programs.iter().map(|program| program.slots.len()).max().unwrap_or(0);
        let slot = |at: usize| programs.iter().filter_map(|program| program.slots.get(at)).max().copied();
        let memory = Memory {
            stores: stores
                .iter()
                .map(|(_, store)| storage(&device, &store.name, store.spec.shape.elements()))
                .collect(),
            slots: (0..num_slots).map(|at| storage(&device, "slot", slot(at).unwrap_or(0))).collect(),
        };
        let transfer = |_| {
            device.wgpu().create_buffer(&wgpu::BufferDescriptor {
                label: Some("transfer"),
                size: TRANSFER_BYTES,
                usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        };
        let transfer = [0, 1].map(transfer);
        let prepared = programs.into_iter().map(|program| prepare(&device, &memory, program)).collect();
        failed(&device)?;
        Ok(Self { device, memory, programs: prepared, transfer })
    }

    /// The device it runs on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn stored_bytes(&self, id: StoreId) -> u64 {
        self.memory.stores[id.index()].size()
    }

    pub(crate) fn program(&self, program: usize) -> &Program {
        &self.programs[program].program
    }

    pub(crate) fn write(&mut self, id: StoreId, values: &HostTensor) -> Result<(), EngineError> {
        let buffer = &self.memory.stores[id.index()];
        for (part, bytes) in values.bytes().chunks(TRANSFER_BYTES as usize).enumerate() {
            self.device.queue().write_buffer(buffer, part as u64 * TRANSFER_BYTES, bytes);
            self.device.queue().submit([]);
        }
        failed(&self.device)
    }

    pub(crate) fn read(&mut self, id: StoreId, elements: usize) -> Result<Vec<f32>, EngineError> {
        let buffer = &self.memory.stores[id.index()];
        let (mut values, total) = (Vec::with_capacity(elements), 4 * elements as u64);
        let mut at = 0;
        while at < total {
            let bytes = TRANSFER_BYTES.min(total - at);
            let mut encoder = self.device.wgpu().create_command_encoder(&Default::default());
            encoder.copy_buffer_to_buffer(buffer, at, &self.transfer[0], 0, bytes);
            self.device.queue().submit([encoder.finish()]);
            fetch(&self.device, &self.transfer[0], bytes, |bytes| {
                values.extend_from_slice(bytemuck::cast_slice(bytes));
            })?;
            at += bytes;
        }
        Ok(values)
    }

    pub(crate) fn run(
        &mut self,
        program: usize,
        inputs: &[&HostTensor],
        mut rank: Option<&mut Rank>,
    ) -> Result<Vec<Vec<f32>>, EngineError> {
        let Self { device, memory, programs, transfer } = self;
        let prepared = &programs[program];
        for (buffer, values) in prepared.inputs.iter().zip(inputs) {
            device.queue().write_buffer(buffer, 0, values.bytes());
        }
        for part in &prepared.parts {
            let start = rank.as_ref().map_or(0.0, |rank| rank.now());
            let mut encoder = device.wgpu().create_command_encoder(&Default::default());
            Bound::record(&part.dispatches, &mut encoder);
            let Some(step) = part.exchange.map(|at| &prepared.program.steps[at]) else {
                prepared.copy_results(memory, &mut encoder);
                device.queue().submit([encoder.finish()]);
                let results = prepared.results(device)?;
                if let Some(rank) = &mut rank {
                    rank.span("last part", SpanKind::Compute, start, rank.now());
                }
                return Ok(results);
            };
            device.queue().submit([encoder.finish()]);
            let (Some(rank), Some(exchange)) = (rank.as_deref_mut(), &step.exchange) else {
                return Err(EngineError::NoRanks { name: step.name.clone() });
            };
            #[cfg(test)]
            rank.fail()?;
            let buffer = |(place, _): &(Place, Spec)| memory.buffer(*place, &prepared.inputs, &[]);
            let from = if step.op.overwrites().is_empty() { &step.inputs } else { &step.outputs };
            if part.shared.get().is_none() {
                let from = from.iter().map(|tensor| buffer(tensor).clone()).collect();
                let to: Vec<_> = step.outputs.iter().map(|tensor| buffer(tensor).clone()).collect();
                let shared = SharedExchange::prepare(device, rank, exchange, from, &to)?;
                part.shared.get_or_init(|| shared);
            }
            if let Some(Some(shared)) = part.shared.get() {
                // The device computes on its own; this is the host's part, which may be all of it in software.
                rank.span(&step.name, SpanKind::Compute, start, rank.now());
                shared.run(device, rank, exchange)?;
            } else {
                let from = from.iter().map(|tensor| (buffer(tensor), tensor.1.shape.elements())).collect();
                let to = step.outputs.iter().map(buffer).collect();
                let mut tensors = BufferTensors::new(device, transfer, from, to);
                // What was computed is waited for here, so that the time is not counted as copying.
                tensors.ask();
                let waited = device.wgpu().poll(wgpu::PollType::wait_indefinitely());
                waited.map_err(|error| EngineError::Device(error.to_string()))?;
                rank.span(&step.name, SpanKind::Compute, start, rank.now());
                rank.collective(exchange.0, &exchange.1, &mut tensors)?;
            }
            failed(device)?;
        }
        Ok(Vec::new())
    }
}

impl Prepared {
    fn copy_results(&self, memory: &Memory, encoder: &mut wgpu::CommandEncoder) {
        for ((place, spec), offset) in self.program.results.iter().zip(&self.offsets) {
            let from = memory.buffer(*place, &self.inputs, &[]);
            encoder.copy_buffer_to_buffer(from, 0, &self.staging, *offset, bytes_of(spec));
        }
    }

    fn results(&self, device: &Device) -> Result<Vec<Vec<f32>>, EngineError> {
        let mut results = Vec::with_capacity(self.offsets.len());
        fetch(device, &self.staging, self.staging.size(), |bytes| {
            for ((_, spec), offset) in self.program.results.iter().zip(&self.offsets) {
                let part = &bytes[*offset as usize..(*offset + bytes_of(spec)) as usize];
                results.push(bytemuck::cast_slice(part).to_vec());
            }
        })?;
        Ok(results)
    }
}

impl Memory {
    fn buffer<'a>(
        &'a self,
        place: Place,
        inputs: &'a [wgpu::Buffer],
        constants: &'a [wgpu::Buffer],
    ) -> &'a wgpu::Buffer {
        match place {
            Place::Store(id) => &self.stores[id.index()],
            Place::Slot(slot) => &self.slots[slot],
            Place::Input(input) => &inputs[input],
            Place::Constant(constant) => &constants[constant],
        }
    }
}

fn prepare(device: &Device, memory: &Memory, program: Program) -> Prepared {
    let inputs: Vec<wgpu::Buffer> = program
        .inputs
        .iter()
        .map(|input| storage(device, &input.name, input.spec.shape.elements()))
        .collect();
    let constants: Vec<wgpu::Buffer> =
        program.constants.iter().map(|values| constant(device, values)).collect();
    // Dispatches of a part, and the exchange after it.
    let mut cuts: Vec<(usize, Option<usize>)> = Vec::new();
    let mut all: Vec<Dispatch> = Vec::new();
    for (at, step) in program.steps.iter().enumerate() {
        all.extend(dispatches(device, step));
        if step.exchange.is_some() {
            cuts.push((all.len(), Some(at)));
        }
    }
    cuts.push((all.len(), None));
    let buffer = |BufferRef(place): &BufferRef| memory.buffer(*place, &inputs, &constants).clone();
    let buffers: Vec<Vec<wgpu::Buffer>> =
        all.iter().map(|dispatch| dispatch.buffers.iter().map(buffer).collect()).collect();
    let mut bound = bind(device, &all, &buffers).into_iter();
    let (mut parts, mut done) = (Vec::with_capacity(cuts.len()), 0);
    for (end, exchange) in cuts {
        parts.push(Part {
            dispatches: bound.by_ref().take(end - done).collect(),
            exchange,
            shared: OnceCell::new(),
        });
        done = end;
    }
    let mut end = 0;
    let offsets = program.results.iter().map(|(_, spec)| {
        let offset = end;
        end += bytes_of(spec);
        offset
    });
    let offsets = offsets.collect();
    let staging = device.wgpu().create_buffer(&wgpu::BufferDescriptor {
        label: Some("results"),
        size: end.max(16),
        usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    Prepared { program, inputs, parts, staging, offsets }
}

/// The dispatches of a step, after the copies that it needs.
fn dispatches(device: &Device, step: &Step) -> Vec<Dispatch> {
    let mut args = GpuArgs {
        traits: device.traits(),
        inputs: &step.inputs,
        outputs: &step.outputs,
        dispatches: Vec::new(),
    };
    for (output, input) in &step.copies {
        let elements = args.shape(*input).elements();
        let buffers = [args.input(*input), args.output(*output)];
        args.dispatch(&COPY, &buffers, &[elements as u32], linear_groups(elements, 64));
    }
    step.op.gpu(&mut args);
    args.dispatches
}

/// Dispatches with their pipelines, and with these buffers behind their uniform structs.
pub(super) fn bind(device: &Device, dispatches: &[Dispatch], buffers: &[Vec<wgpu::Buffer>]) -> Vec<Bound> {
    let (params, offsets) = uniforms(device, dispatches);
    let bound = dispatches.iter().zip(buffers).zip(offsets).map(|((dispatch, buffers), (offset, size))| {
        let pipeline = device.pipeline(dispatch);
        let uniform = wgpu::BufferBinding { buffer: &params, offset, size: std::num::NonZero::new(size) };
        let mut entries =
            vec![wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::Buffer(uniform) }];
        entries.extend(buffers.iter().enumerate().map(|(at, buffer)| wgpu::BindGroupEntry {
            binding: at as u32 + 1,
            resource: buffer.as_entire_binding(),
        }));
        let group = device.wgpu().create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some(dispatch.kernel.name),
            layout: &pipeline.get_bind_group_layout(0),
            entries: &entries,
        });
        Bound { pipeline, group, groups: dispatch.groups }
    });
    bound.collect()
}

/// All uniform structs in one buffer, with offset and size of each.
fn uniforms(device: &Device, dispatches: &[Dispatch]) -> (wgpu::Buffer, Vec<(u64, u64)>) {
    let alignment = device.wgpu().limits().min_uniform_buffer_offset_alignment.max(16) as usize;
    let (mut bytes, mut places): (Vec<u8>, _) = (Vec::new(), Vec::new());
    for dispatch in dispatches {
        bytes.resize(bytes.len().next_multiple_of(alignment), 0);
        let offset = bytes.len();
        bytes.extend_from_slice(bytemuck::cast_slice(&dispatch.params));
        // A uniform struct's size is a multiple of 16 bytes.
        bytes.resize(offset + (bytes.len() - offset).next_multiple_of(16).max(16), 0);
        places.push((offset as u64, (bytes.len() - offset) as u64));
    }
    bytes.resize(bytes.len().max(16), 0);
    let buffer = device.wgpu().create_buffer(&wgpu::BufferDescriptor {
        label: Some("uniforms"),
        size: bytes.len() as u64,
        usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    device.queue().write_buffer(&buffer, 0, &bytes);
    (buffer, places)
}

pub(super) fn storage(device: &Device, label: &str, elements: usize) -> wgpu::Buffer {
    device.wgpu().create_buffer(&wgpu::BufferDescriptor {
        label: Some(label),
        // A binding of array<vec4<f32>> wants whole vectors.
        size: (4 * elements as u64).next_multiple_of(16).max(16),
        usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC,
        mapped_at_creation: false,
    })
}

fn constant(device: &Device, values: &HostTensor) -> wgpu::Buffer {
    let buffer = storage(device, "constant", values.elements());
    device.queue().write_buffer(&buffer, 0, values.bytes());
    buffer
}

fn bytes_of(spec: &Spec) -> u64 {
    4 * spec.shape.elements() as u64
}

/// Waits for all that was submitted, then hands over the first bytes of a buffer that can be read.
fn fetch(
    device: &Device,
    buffer: &wgpu::Buffer,
    bytes: u64,
    take: impl FnOnce(&[u8]),
) -> Result<(), EngineError> {
    let mapping = map(buffer, bytes);
    take(&mapped(device, buffer, bytes, &mapping)?);
    buffer.unmap();
    Ok(())
}

/// What becomes of a request for the bytes of a buffer.
pub(super) type Mapping = Receiver<Result<(), wgpu::BufferAsyncError>>;

/// Asks for the first bytes of a buffer that can be read.
pub(super) fn map(buffer: &wgpu::Buffer, bytes: u64) -> Mapping {
    let (sender, receiver) = channel();
    buffer.map_async(wgpu::MapMode::Read, 0..bytes, move |result| drop(sender.send(result)));
    receiver
}

/// Waits for all that was submitted; the bytes that were asked for.
pub(super) fn mapped(
    device: &Device,
    buffer: &wgpu::Buffer,
    bytes: u64,
    mapping: &Mapping,
) -> Result<wgpu::BufferView, EngineError> {
    let fail = |words: String| EngineError::Device(words);
    let waited = device.wgpu().poll(wgpu::PollType::wait_indefinitely());
    failed(device)?;
    waited.map_err(|error| fail(error.to_string()))?;
    let mapped = mapping.recv().map_err(|_| fail("the device went away".to_owned()))?;
    mapped.map_err(|error| fail(error.to_string()))?;
    buffer.get_mapped_range(0..bytes).map_err(|error| fail(error.to_string()))
}

pub(super) fn failed(device: &Device) -> Result<(), EngineError> {
    device.take_failure().map_or(Ok(()), |words| Err(EngineError::Device(words)))
}

/// No tensor may be larger than the adapter can bind.
fn check_sizes(device: &Device, stores: &Stores, programs: &[Program]) -> Result<(), EngineError> {
    let most = device.info().max_binding_bytes;
    let stored = stores.iter().map(|(_, store)| (store.name.as_str(), &store.spec));
    let made = programs
        .iter()
        .flat_map(|program| &program.steps)
        .flat_map(|step| step.outputs.iter().map(|(_, spec)| (step.name.as_str(), spec)));
    for (name, spec) in stored.chain(made) {
        let bytes = bytes_of(spec).next_multiple_of(16);
        if bytes > most {
            return Err(EngineError::TooLarge {
                name: name.to_owned(),
                spec: spec.clone(),
                bytes,
                most,
                adapter: device.info().name.clone(),
            });
        }
    }
    Ok(())
}
