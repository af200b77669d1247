//! Device memory, and how bytes get there and back. wgpu copies whole words at multiples of four; what begins or ends
//! inside a word is merged with what lies beside it.
use crate::{
    gpu::{Gpu, internal},
    health::{Health, scoped},
};
use adamant_runtime::{ErrorKind, backend::Memory};
use parking_lot::Mutex;
use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{
            AtomicU8,
            Ordering::{Acquire, Release},
        },
    },
    time::Duration,
};

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

/// Buffers that the host can map, kept for the next small reads: a loss and fault words are read at every step.
#[derive(Default)]
pub(crate) struct Staging(Mutex<Vec<wgpu::Buffer>>);
/// The size of a buffer that is kept, and the most of them.
const KEPT: u64 = 64 * 1024;
const MOST: usize = 16;
impl Staging {
    fn take(&self, gpu: &Gpu, bytes: u64) -> Result<wgpu::Buffer, ErrorKind> {
        let kept = if bytes <= KEPT { self.0.lock().pop() } else { None };
        kept.map_or_else(|| gpu.buffer(bytes.max(KEPT), wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST), Ok)
    }
    /// Reads whole words, when everything that was submitted is done.
    ///
    /// # Errors
    /// A lost device.
    pub fn read(&self, gpu: &Gpu, from: &wgpu::Buffer, start: u64, to: &mut [u8]) -> Result<(), ErrorKind> {
        self.finish(gpu, self.begin(gpu, from, start, to.len() as u64)?, 0, to)
    }
    /// Begins to read: what is submitted from now on does not change what comes.
    ///
    /// # Errors
    /// A lost device.
    pub fn begin(&self, gpu: &Gpu, from: &wgpu::Buffer, start: u64, bytes: u64) -> Result<OnItsWay, ErrorKind> {
        let bytes = bytes.next_multiple_of(4);
        let staging = self.take(gpu, bytes)?;
        let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(from, start, &staging, 0, bytes);
        let index = gpu.queue.submit([encoder.finish()]);
        let mapped = Arc::new(AtomicU8::new(WAITS));
        let told = mapped.clone();
        staging.map_async(wgpu::MapMode::Read, 0..bytes, move |result| told.store(if result.is_ok() { MAPPED } else { FAILED }, Release));
        Ok(OnItsWay { staging, bytes, index, mapped })
    }
    /// Waits for the bytes from `lead` on.
    ///
    /// # Errors
    /// A lost device.
    pub fn finish(&self, gpu: &Gpu, read: OnItsWay, lead: usize, to: &mut [u8]) -> Result<(), ErrorKind> {
        if read.mapped.load(Acquire) == WAITS {
            gpu.wait_for(Some(read.index))?;
        }
        // Another thread that waits may be the one that is about to call back.
        while read.mapped.load(Acquire) == WAITS {
            std::thread::sleep(Duration::from_micros(50));
            gpu.wait_for(None)?;
        }
        let failed = || gpu.health.after("memory could not be read back");
        if read.mapped.load(Acquire) == FAILED {
            return Err(failed());
        }
        match read.staging.get_mapped_range(0..read.bytes) {
            Ok(view) => to.copy_from_slice(view.get(lead..lead + to.len()).ok_or_else(failed)?),
            Err(_) => return Err(failed()),
        }
        read.staging.unmap();
        let mut kept = self.0.lock();
        if read.staging.size() == KEPT && kept.len() < MOST {
            kept.push(read.staging);
        }
        drop(kept);
        gpu.health.check()
    }
}
const WAITS: u8 = 0;
const MAPPED: u8 = 1;
const FAILED: u8 = 2;
/// A copy that was submitted. Dropped before it is there, it is given up.
pub(crate) struct OnItsWay {
    staging: wgpu::Buffer,
    bytes: u64,
    index: wgpu::SubmissionIndex,
    /// what became of it
    mapped: Arc<AtomicU8>,
}
impl OnItsWay {
    /// Has it come, or will it never?
    pub fn is_settled(&self, gpu: &Gpu) -> bool {
        let settled = || self.mapped.load(Acquire) != WAITS;
        // A device that cannot be asked is lost.
        settled() || gpu.health.lost().is_some() || gpu.device.poll(wgpu::PollType::Poll).is_err() || settled()
    }
}

/// Refuses what is not in the memory.
fn within(memory: &WgpuMemory, offset: usize, bytes: usize) -> Result<(), ErrorKind> {
    if offset.checked_add(bytes).is_none_or(|end| end > memory.bytes) { Err(internal("bytes that are not in the memory")) } else { Ok(()) }
}
/// Begins to copy memory to the host; the bytes come behind so many that were copied with them.
///
/// # Errors
/// A lost device; a range outside the memory.
pub(crate) fn begin(gpu: &Gpu, staging: &Staging, from: &WgpuMemory, offset: usize, bytes: usize) -> Result<(OnItsWay, usize), ErrorKind> {
    gpu.health.check()?;
    within(from, offset, bytes)?;
    let lead = offset % 4;
    Ok((staging.begin(gpu, &from.buffer, (offset - lead) as u64, (lead + bytes) as u64)?, lead))
}
/// Copies memory to the host.
///
/// # Errors
/// A lost device; a range outside the memory.
pub(crate) fn download(gpu: &Gpu, staging: &Staging, from: &WgpuMemory, offset: usize, to: &mut [u8]) -> Result<(), ErrorKind> {
    gpu.health.check()?;
    within(from, offset, to.len())?;
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
/// Copies host bytes to the beginning of memory whose other bytes nobody needs: nothing is read for it.
///
/// # Errors
/// As [`download`].
pub(crate) fn fill(gpu: &Gpu, to: &WgpuMemory, from: &[u8]) -> Result<(), ErrorKind> {
    gpu.health.check()?;
    within(to, 0, from.len())?;
    let result = scoped(&gpu.device, || {
        let (words, rest) = from.split_at(from.len() / 4 * 4);
        if !words.is_empty() {
            gpu.queue.write_buffer(&to.buffer, 0, words);
        }
        if !rest.is_empty() {
            let mut last = [0; 4];
            last[..rest.len()].copy_from_slice(rest);
            gpu.queue.write_buffer(&to.buffer, words.len() as u64, &last);
        }
    });
    result.and_then(|()| gpu.health.check())
}
/// Copies host bytes into memory.
///
/// # Errors
/// As [`download`].
pub(crate) fn upload(gpu: &Gpu, staging: &Staging, to: &WgpuMemory, offset: usize, from: &[u8]) -> Result<(), ErrorKind> {
    gpu.health.check()?;
    within(to, offset, from.len())?;
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
