//! Exchanges of ranks that share a device: on the device, without a way through memory of the host.
//!
//! ```text
//! rank 0   … submit | all have | read 0, 1 -> scratch | all have | scratch -> 0 …
//! rank 1   … submit |          | read 0, 1 -> scratch |          | scratch -> 1 …
//! ```
//!
//! All submit to one queue, so that what was submitted before a barrier is done before what comes after it, and the host
//! waits for nothing but the other ranks' submissions.

use crate::engine::EngineError;
use crate::gpu::device::Device;
use crate::gpu::engine::{Bound, storage};
use crate::gpu::kernel::{Dispatch, Kernel, PRELUDE, linear_groups};
use crate::mesh::{Collective, MeshAxis, Message, Rank, Reduce};
use crate::shape::Shape;

const SOURCE: &[&str] = &[PRELUDE, include_str!("shared.wgsl")];
static TAKE: Kernel = Kernel { name: "shared", source: SOURCE, entry: "take" };
static ADD: Kernel = Kernel { name: "shared", source: SOURCE, entry: "add" };
static PLACE: Kernel = Kernel { name: "shared", source: SOURCE, entry: "place" };

/// What a rank shows the others of an exchange.
#[derive(Clone)]
struct Shown {
    device: Device,
    /// Of each tensor.
    from: Vec<wgpu::Buffer>,
}

/// An exchange that happens on the device.
#[derive(Debug)]
pub(super) struct SharedExchange {
    dispatches: Vec<Bound>,
    /// From where results are copied to where they belong, once all have read what was there: (from, to, bytes).
    copies: Vec<(wgpu::Buffer, wgpu::Buffer, u64)>,
}

impl SharedExchange {
    /// How the ranks along `over` do this on their device; nothing if they have several.
    pub(super) fn prepare(
        device: &Device,
        rank: &mut Rank,
        (over, message): &(MeshAxis, Message),
        from: Vec<wgpu::Buffer>,
        to: &[wgpu::Buffer],
    ) -> Result<Option<Self>, EngineError> {
        // The others may have nothing to show: they may be on the host, or see no reason to.
        if !rank.shares_memory(*over) {
            return Ok(None);
        }
        let all = rank.swap(*over, Shown { device: device.clone(), from })?;
        let what = message.collective();
        if matches!(what, Collective::AllReduce(Reduce::Max))
            || all.iter().any(|other| !other.device.is_same_as(device))
        {
            return Ok(None);
        }
        let place = rank.mesh().place(rank.index(), *over);
        let (mut dispatches, mut copies) = (Vec::new(), Vec::new());
        for (tensor, (input, to)) in message.tensors().iter().zip(to).enumerate() {
            let from = |member: usize| &all[member].from[tensor];
            let (elements, output) = (input.shape.elements(), &message.results()[tensor].shape);
            let mut bind = |kernel, from: &wgpu::Buffer, to: &wgpu::Buffer, params: [usize; 4]| {
                dispatches.push(bound(device, kernel, [from, to], params));
            };
            let whole = [elements, 0, elements.max(1), elements.max(1)];
            match what {
                Collective::AllReduce(_) => {
                    let scratch = storage(device, "scratch", elements);
                    for member in 0..all.len() {
                        bind(if member == 0 { &TAKE } else { &ADD }, from(member), &scratch, whole);
                    }
                    copies.push((scratch, to.clone(), 4 * elements as u64));
                }
                Collective::ReduceScatter { axis } => {
                    let run = run(output, axis);
                    let params = [output.elements(), place * run, run, all.len() * run];
                    for member in 0..all.len() {
                        bind(if member == 0 { &TAKE } else { &ADD }, from(member), to, params);
                    }
                }
                Collective::AllGather { axis } => {
                    let run = run(&input.shape, axis);
                    for member in 0..all.len() {
                        bind(&PLACE, from(member), to, [elements, member * run, run, all.len() * run]);
                    }
                }
                Collective::Broadcast { root } => bind(&TAKE, from(root), to, whole),
            }
        }
        Ok(Some(Self { dispatches, copies }))
    }

    /// Does it, after all that was submitted.
    pub(super) fn run(
        &self,
        device: &Device,
        rank: &mut Rank,
        (over, message): &(MeshAxis, Message),
    ) -> Result<(), EngineError> {
        rank.barrier_before(*over, message)?;
        let mut encoder = device.wgpu().create_command_encoder(&Default::default());
        Bound::record(&self.dispatches, &mut encoder);
        device.queue().submit([encoder.finish()]);
        rank.barrier(*over)?;
        if !self.copies.is_empty() {
            let mut encoder = device.wgpu().create_command_encoder(&Default::default());
            for (from, to, bytes) in &self.copies {
                encoder.copy_buffer_to_buffer(from, 0, to, 0, *bytes);
            }
            device.queue().submit([encoder.finish()]);
        }
        Ok(())
    }
}

/// Elements of a part along an axis that follow each other.
fn run(part: &Shape, axis: usize) -> usize {
    part.dims()[axis..].iter().product::<usize>().max(1)
}

fn bound(device: &Device, kernel: &'static Kernel, buffers: [&wgpu::Buffer; 2], params: [usize; 4]) -> Bound {
    let groups = linear_groups(params[0], 64);
    let params = params.map(|number| number as u32);
    let dispatch =
        Dispatch { kernel, constants: Vec::new(), buffers: Vec::new(), params: params.to_vec(), groups };
    let uniform = device.wgpu().create_buffer(&wgpu::BufferDescriptor {
        label: Some("uniforms"),
        size: 16,
        usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    device.queue().write_buffer(&uniform, 0, bytemuck::cast_slice(&params));
    let pipeline = device.pipeline(&dispatch);
    let entries = [&uniform, buffers[0], buffers[1]];
    let entries: Vec<wgpu::BindGroupEntry<'_>> = entries
        .iter()
        .enumerate()
        .map(|(binding, buffer)| wgpu::BindGroupEntry {
            binding: binding as u32,
            resource: buffer.as_entire_binding(),
        })
        .collect();
    let group = device.wgpu().create_bind_group(&wgpu::BindGroupDescriptor {
        label: Some(kernel.name),
        layout: &pipeline.get_bind_group_layout(0),
        entries: &entries,
    });
    Bound { pipeline, group, groups }
}
