//! Tensors in buffers of a device, on their way to other ranks and back.
//!
//! ```text
//! buffer ──copy──> transfer 0 ──> host     the next window is on its way while this one is read
//!        ──copy──> transfer 1
//! buffer <──write── host
//! ```

use std::collections::VecDeque;

use crate::engine::EngineError;
use crate::gpu::device::Device;
use crate::gpu::engine::{Mapping, TRANSFER_BYTES, map, mapped};
use crate::mesh::{Failure, Tensors};

/// The tensors of a message on one rank.
pub(super) struct BufferTensors<'a> {
    device: &'a Device,
    transfer: &'a [wgpu::Buffer; 2],
    /// Buffers with their elements.
    from: Vec<(&'a wgpu::Buffer, usize)>,
    to: Vec<&'a wgpu::Buffer>,
    /// Windows in the order in which they are read, those that were asked for in front of the rest.
    asked: VecDeque<(Window, Mapping)>,
    rest: VecDeque<Window>,
    open: Option<(Window, wgpu::BufferView)>,
}

/// A part of a tensor that goes through a transfer buffer at once.
#[derive(Clone, Copy)]
struct Window {
    tensor: usize,
    first: usize,
    elements: usize,
    transfer: usize,
}

impl<'a> BufferTensors<'a> {
    /// Reads from these buffers, writes to those.
    pub(super) fn new(
        device: &'a Device,
        transfer: &'a [wgpu::Buffer; 2],
        from: Vec<(&'a wgpu::Buffer, usize)>,
        to: Vec<&'a wgpu::Buffer>,
    ) -> Self {
        let mut rest = VecDeque::new();
        let most = TRANSFER_BYTES as usize / 4;
        for (tensor, (_, elements)) in from.iter().enumerate() {
            for first in (0..*elements).step_by(most) {
                let transfer = rest.len() % 2;
                rest.push_back(Window { tensor, first, elements: most.min(elements - first), transfer });
            }
        }
        Self { device, transfer, from, to, asked: VecDeque::new(), rest, open: None }
    }

    /// Lets windows come into all transfer buffers that are free. Whoever reads them first waits for all that was
    /// submitted before.
    pub(super) fn ask(&mut self) {
        while self.asked.len() + usize::from(self.open.is_some()) < self.transfer.len() {
            let Some(window) = self.rest.pop_front() else { return };
            let (buffer, transfer) = (self.from[window.tensor].0, &self.transfer[window.transfer]);
            let bytes = 4 * window.elements as u64;
            let mut encoder = self.device.wgpu().create_command_encoder(&Default::default());
            encoder.copy_buffer_to_buffer(buffer, 4 * window.first as u64, transfer, 0, bytes);
            self.device.queue().submit([encoder.finish()]);
            self.asked.push_back((window, map(transfer, bytes)));
        }
    }

    /// Makes the next window readable.
    fn advance(&mut self) -> Result<(), EngineError> {
        self.close();
        self.ask();
        let Some((window, mapping)) = self.asked.pop_front() else {
            return Err(EngineError::Device("more was fetched than there is".to_owned()));
        };
        let transfer = &self.transfer[window.transfer];
        self.open = Some((window, mapped(self.device, transfer, 4 * window.elements as u64, &mapping)?));
        self.ask();
        Ok(())
    }

    fn close(&mut self) {
        if let Some((window, view)) = self.open.take() {
            drop(view);
            self.transfer[window.transfer].unmap();
        }
    }
}

impl Drop for BufferTensors<'_> {
    /// Transfer buffers are free again, also after an error.
    fn drop(&mut self) {
        self.close();
        for (window, _) in self.asked.drain(..) {
            self.transfer[window.transfer].unmap();
        }
    }
}

impl Tensors for BufferTensors<'_> {
    fn fetch(&mut self, tensor: usize, at: usize, mut into: &mut [f32]) -> Result<(), Failure> {
        let mut at = at;
        while !into.is_empty() {
            let here = |window: &Window| {
                window.tensor == tensor && (window.first..window.first + window.elements).contains(&at)
            };
            match &self.open {
                Some((window, view)) if here(window) => {
                    let (start, end) = (at - window.first, window.elements);
                    let (now, later) = into.split_at_mut(into.len().min(end - start));
                    let bytes = &view[4 * start..4 * (start + now.len())];
                    at += now.len();
                    bytemuck::cast_slice_mut(now).copy_from_slice(bytes);
                    into = later;
                }
                _ => self.advance()?,
            }
        }
        Ok(())
    }

    fn deliver(&mut self, tensor: usize, at: usize, from: &[f32]) -> Result<(), Failure> {
        self.device.queue().write_buffer(self.to[tensor], 4 * at as u64, bytemuck::cast_slice(from));
        Ok(())
    }
}
