//! Device memory, and how bytes get there and back. wgpu copies whole words at multiples of four; what begins or ends
//! inside a word is merged with what lies beside it.
use crate::{
    gpu::{Gpu, internal},
    health::{Health, scoped},
};
use adamant_core::{ErrorKind, backend::Memory};
use parking_lot::Mutex;
use std::{any::Any, sync::Arc};

/// Memory of the wgpu backend.
pub(crate) struct WgpuMemory {
    pub buffer: wgpu::Buffer,
    bytes: usize,
    /// of the device that it is on, which may not be the one that is open now
    health: Arc<Health>,
}
impl WgpuMemory {
    /// Memory of a device.
    ///
    /// # Errors
    /// More than the adapter binds at once, by name; `OutOfMemory`; a lost device.
    pub fn new(gpu: &Gpu, bytes: usize) -> Result<WgpuMemory, ErrorKind> {
        gpu.health.check()?;
        if bytes as u64 > gpu.largest_buffer() {
            let what = format!("{bytes} bytes in one piece: this adapter binds at most {} at once", gpu.largest_buffer());
            return Err(ErrorKind::Unsupported { backend: "wgpu".into(), what });
        }
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let buffer = gpu.buffer(bytes.max(4) as u64, usage).map_err(|kind| match kind {
            ErrorKind::OutOfMemory { .. } => ErrorKind::OutOfMemory { asked: bytes, in_use: 0, cap: None },
            other => other,
        })?;
        Ok(WgpuMemory { buffer, bytes, health: gpu.health.clone() })
    }
}
impl Memory for WgpuMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
/// The memory as ours.
///
/// # Errors
/// It is another backend's; it went with a device that was lost.
pub(crate) fn ours(memory: &dyn Memory) -> Result<&WgpuMemory, ErrorKind> {
    let ours: &WgpuMemory = memory.as_any().downcast_ref().ok_or_else(|| internal("memory of another backend"))?;
    ours.health.lost().map_or(Ok(ours), Err)
}

/// A buffer that the host can map, kept for the next small read: a loss is read at every step.
#[derive(Default)]
pub(crate) struct Staging(Mutex<Option<wgpu::Buffer>>);
/// The size of the buffer that is kept.
const KEPT: u64 = 64 * 1024;
impl Staging {
    fn take(&self, gpu: &Gpu, bytes: u64) -> Result<wgpu::Buffer, ErrorKind> {
        let kept = if bytes <= KEPT { self.0.lock().take() } else { None };
        kept.map_or_else(|| gpu.buffer(bytes.max(KEPT), wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST), Ok)
    }
    /// Reads whole words, when everything that was submitted is done.
    ///
    /// # Errors
    /// A lost device.
    pub fn read(&self, gpu: &Gpu, from: &wgpu::Buffer, start: u64, to: &mut [u8]) -> Result<(), ErrorKind> {
        let bytes = (to.len() as u64).next_multiple_of(4);
        let staging = self.take(gpu, bytes)?;
        let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(from, start, &staging, 0, bytes);
        let index = gpu.queue.submit([encoder.finish()]);
        let (send, mapped) = std::sync::mpsc::channel();
        staging.map_async(wgpu::MapMode::Read, 0..bytes, move |result| drop(send.send(result)));
        gpu.wait_for(Some(index))?;
        // Another thread that waits may be the one that is about to call back.
        let mapped = loop {
            match mapped.recv_timeout(std::time::Duration::from_millis(1)) {
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => gpu.wait_for(None)?,
                other => break matches!(other, Ok(Ok(()))),
            }
        };
        if !mapped {
            return Err(gpu.health.after("memory could not be read back"));
        }
        match staging.get_mapped_range(0..bytes) {
            Ok(view) => to.copy_from_slice(&view[..to.len()]),
            Err(_) => return Err(gpu.health.after("memory could not be read back")),
        }
        staging.unmap();
        if staging.size() == KEPT {
            *self.0.lock() = Some(staging);
        }
        gpu.health.check()
    }
}

/// Copies memory to the host.
///
/// # Errors
/// A lost device; a range outside the memory.
pub(crate) fn download(gpu: &Gpu, staging: &Staging, from: &WgpuMemory, offset: usize, to: &mut [u8]) -> Result<(), ErrorKind> {
    gpu.health.check()?;
    if offset.checked_add(to.len()).is_none_or(|end| end > from.bytes) {
        return Err(internal("download out of bounds"));
    }
    let lead = offset % 4;
    if to.is_empty() {
        Ok(())
    } else if lead == 0 {
        staging.read(gpu, &from.buffer, offset as u64, to)
    } else {
        let mut whole = vec![0u8; lead + to.len()];
        staging.read(gpu, &from.buffer, (offset - lead) as u64, &mut whole)?;
        to.copy_from_slice(&whole[lead..]);
        Ok(())
    }
}
/// Copies host bytes into memory.
///
/// # Errors
/// As [`download`].
pub(crate) fn upload(gpu: &Gpu, staging: &Staging, to: &WgpuMemory, offset: usize, from: &[u8]) -> Result<(), ErrorKind> {
    gpu.health.check()?;
    if offset.checked_add(from.len()).is_none_or(|end| end > to.bytes) {
        return Err(internal("upload out of bounds"));
    }
    if from.is_empty() {
        return Ok(());
    }
    let (lead, end) = (offset % 4, offset + from.len());
    let result = if lead == 0 && end % 4 == 0 {
        scoped(&gpu.device, || gpu.queue.write_buffer(&to.buffer, offset as u64, from))
    } else {
        // The words at both ends keep what else they hold.
        let start = offset - lead;
        let mut whole = vec![0u8; (end - start).next_multiple_of(4)];
        let last = whole.len() - 4;
        staging.read(gpu, &to.buffer, start as u64, &mut whole[..4])?;
        if last > 0 {
            staging.read(gpu, &to.buffer, (start + last) as u64, &mut whole[last..])?;
        }
        whole[lead..lead + from.len()].copy_from_slice(from);
        scoped(&gpu.device, || gpu.queue.write_buffer(&to.buffer, start as u64, &whole))
    };
    result.and_then(|()| gpu.health.check())
}
