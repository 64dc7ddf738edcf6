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
use crate::gpu::engine::{Bound, bind, storage};
use crate::gpu::kernel::{Dispatch, Kernel, linear_groups};
use crate::mesh::{Collective, MeshAxis, Message, Rank, Reduce};
use crate::ops::slice::{ADD_RUNS, PLACE_RUNS, Runs, SLICE};
use crate::shape::Shape;

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
        let (mut dispatches, mut buffers, mut copies) = (Vec::new(), Vec::new(), Vec::new());
        for (tensor, (input, to)) in message.tensors().iter().zip(to).enumerate() {
            let from = |member: usize| &all[member].from[tensor];
            let (elements, output) = (input.shape.elements(), &message.results()[tensor].shape);
            let mut add = |kernel, from: &wgpu::Buffer, to: &wgpu::Buffer, elements, runs| {
                dispatches.push(dispatch(kernel, elements, runs));
                buffers.push(vec![from.clone(), to.clone()]);
            };
            let whole = Runs { offset: 0, run: elements.max(1), stride: elements.max(1) };
            match what {
                Collective::AllReduce(_) => {
                    let scratch = storage(device, "scratch", elements);
                    for member in 0..all.len() {
                        add(summing(member), from(member), &scratch, elements, whole);
                    }
                    copies.push((scratch, to.clone(), 4 * elements as u64));
                }
                Collective::ReduceScatter { axis } => {
                    let run = run(output, axis);
                    let runs = Runs { offset: place * run, run, stride: all.len() * run };
                    for member in 0..all.len() {
                        add(summing(member), from(member), to, output.elements(), runs);
                    }
                }
                Collective::AllGather { axis } => {
                    let run = run(&input.shape, axis);
                    for member in 0..all.len() {
                        let runs = Runs { offset: member * run, run, stride: all.len() * run };
                        add(&PLACE_RUNS, from(member), to, elements, runs);
                    }
                }
                Collective::Broadcast { root } => add(&SLICE, from(root), to, elements, whole),
            }
        }
        Ok(Some(Self { dispatches: bind(device, &dispatches, &buffers), copies }))
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

/// The kernel that makes the first of a sum, or adds another.
fn summing(member: usize) -> &'static Kernel {
    if member == 0 { &SLICE } else { &ADD_RUNS }
}

fn dispatch(kernel: &'static Kernel, elements: usize, runs: Runs) -> Dispatch {
    let (params, groups) = (runs.params(elements).to_vec(), linear_groups(elements, 64));
    Dispatch { kernel, constants: Vec::new(), buffers: Vec::new(), params, groups }
}
