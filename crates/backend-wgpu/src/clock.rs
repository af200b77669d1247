//! The device's own clock: when each step of a submission began and ended there.
use crate::{gpu::Gpu, health::scoped, memory::Staging};
use adamant_runtime::ErrorKind;
use std::time::Duration;

/// The times of the passes of one submission, to be written by the device.
pub(crate) struct PassClock {
    set: wgpu::QuerySet,
    ticks: wgpu::Buffer,
}
impl PassClock {
    /// For at most so many passes; `None` where the adapter has no clock.
    ///
    /// # Errors
    /// A lost device; no memory.
    pub fn new(gpu: &Gpu, passes: usize) -> Result<Option<PassClock>, ErrorKind> {
        if !gpu.device.features().contains(wgpu::Features::TIMESTAMP_QUERY) || 2 * passes > wgpu::QUERY_SET_MAX_QUERIES as usize {
            return Ok(None);
        }
        let ticks = gpu.buffer(16 * passes as u64, wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC)?;
        let description = wgpu::QuerySetDescriptor { label: None, ty: wgpu::QueryType::Timestamp, count: 2 * passes as u32 };
        let set = scoped(&gpu.device, || gpu.device.create_query_set(&description))?;
        Ok(Some(PassClock { set, ticks }))
    }
    /// Where pass number `k` writes its times.
    pub fn of_pass(&self, k: usize) -> wgpu::ComputePassTimestampWrites<'_> {
        let first = 2 * k as u32;
        wgpu::ComputePassTimestampWrites { query_set: &self.set, beginning_of_pass_write_index: Some(first), end_of_pass_write_index: Some(first + 1) }
    }
    /// Behind the last of so many passes.
    pub fn resolve(&self, encoder: &mut wgpu::CommandEncoder, passes: usize) {
        encoder.resolve_query_set(&self.set, 0..2 * passes as u32, &self.ticks, 0);
    }
    /// When each of so many passes began and ended, counted from the beginning of the first.
    ///
    /// # Errors
    /// A lost device.
    pub fn read(&self, gpu: &Gpu, staging: &Staging, passes: usize) -> Result<Vec<[Duration; 2]>, ErrorKind> {
        let mut bytes = vec![0u8; 16 * passes];
        staging.read(gpu, &self.ticks, 0, &mut bytes)?;
        let ticks: Vec<u64> = bytes.chunks_exact(8).map(|b| b.iter().rev().fold(0, |t, &b| t << 8 | u64::from(b))).collect();
        let period = f64::from(gpu.queue.get_timestamp_period());
        let first = ticks.first().copied().unwrap_or(0);
        let since = |t: u64| Duration::from_nanos((t.saturating_sub(first) as f64 * period) as u64);
        Ok(ticks.chunks_exact(2).map(|t| [since(t[0]), since(t[1].max(t[0]))]).collect())
    }
}
