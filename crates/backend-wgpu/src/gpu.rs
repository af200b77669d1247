//! An adapter, opened: the device, its queue, what it can do, and the pipelines it has compiled.
use crate::{
    cache::Cache,
    health::{Health, scoped},
    pipeline::Pipelines,
};
use adamant_kernels::{LaunchTarget, Wgsl};
use adamant_runtime::ErrorKind;
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// A device of wgpu with what we know of it.
pub(crate) struct Gpu {
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    pub limits: wgpu::Limits,
    pub adapter: wgpu::AdapterInfo,
    /// shaders have 64-bit integers
    pub int64: bool,
    /// invocations of a subgroup, where shaders see subgroups and all are of one size from 4 to 32
    pub subgroup: Option<usize>,
    pub health: Arc<Health>,
    pub pipelines: Pipelines,
    pub cache: Option<Cache>,
    /// what is to be told of it
    pub cached: String,
    /// the sizes and types of matrices that a subgroup multiplies together, where it does
    pub matrices: String,
    pub counts: Counts,
}
/// What a device has done since it was opened.
#[derive(Default)]
pub(crate) struct Counts {
    /// texts compiled
    pub pipelines: AtomicU64,
    /// command buffers
    pub submissions: AtomicU64,
    /// kernels launched
    pub launches: AtomicU64,
    /// times that the host waited for the device
    pub waits: AtomicU64,
}
impl Counts {
    /// By name.
    pub fn all(&self) -> Vec<(&'static str, u64)> {
        [("pipelines", &self.pipelines), ("submissions", &self.submissions), ("launches", &self.launches), ("waits", &self.waits)]
            .map(|(name, n)| (name, n.load(Relaxed)))
            .to_vec()
    }
}
pub(crate) fn internal(what: &str) -> ErrorKind {
    ErrorKind::Internal(what.into())
}

/// The adapters of this machine, the most capable kind first; those of one kind in the system's order.
fn adapters() -> Vec<wgpu::Adapter> {
    let mut description = wgpu::InstanceDescriptor::new_without_display_handle();
    description.backends = wgpu::Backends::PRIMARY;
    // The driver's own validation is for those who debug wgpu.
    description.flags = wgpu::InstanceFlags::empty();
    let instance = wgpu::Instance::new(description);
    let mut found = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::PRIMARY));
    found.retain(|a| a.get_downlevel_capabilities().flags.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS));
    found.sort_by_key(|a| match a.get_info().device_type {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    });
    found
}

impl Gpu {
    /// Opens adapter number `number`. `wide`: with 64-bit integers, where the adapter has them. `caches`: where compiled
    /// pipelines are kept.
    ///
    /// # Errors
    /// `DeviceAbsent`, saying what there is instead.
    pub fn open(number: usize, wide: bool, caches: Option<&Path>) -> Result<Gpu, ErrorKind> {
        let found = adapters();
        let Some(adapter) = found.get(number) else {
            let names: Vec<String> = found.iter().enumerate().map(|(k, a)| format!("{k}: {}", a.get_info().name)).collect();
            return Err(ErrorKind::DeviceAbsent(match names.len() {
                0 => "wgpu finds no adapter on this machine; it needs a driver for Vulkan, Metal or DirectX 12 (on Debian a software one is in mesa-vulkan-drivers)".into(),
                _ => format!("wgpu finds no adapter number {number}; there are {}", names.join(", ")),
            }));
        };
        let info = adapter.get_info();
        let int64 = wide && adapter.features().contains(wgpu::Features::SHADER_INT64);
        let mut features = adapter.features() & (wgpu::Features::SUBGROUP | wgpu::Features::TIMESTAMP_QUERY | wgpu::Features::PIPELINE_CACHE);
        let size = info.subgroup_max_size;
        let subgroup = (features.contains(wgpu::Features::SUBGROUP) && info.subgroup_min_size == size && (4..=32).contains(&size)).then_some(size as usize);
        features.set(wgpu::Features::SHADER_INT64, int64);
        let wanted = wgpu::DeviceDescriptor {
            label: Some("adamant"),
            required_features: features,
            required_limits: adapter.limits(),
            ..wgpu::DeviceDescriptor::default()
        };
        let opened = pollster::block_on(adapter.request_device(&wanted));
        let (device, queue) = opened.map_err(|e| ErrorKind::DeviceAbsent(format!("{} cannot be opened: {e}", info.name)))?;
        let health = Health::watch(&device);
        let limits = device.limits();
        let (cache, cached) = Cache::open(&device, &info, caches);
        let offered: Vec<String> = adapter.cooperative_matrix_properties().iter().map(|m| format!("{m:?}")).collect();
        let matrices = if offered.is_empty() { "none".to_string() } else { offered.join(", ") };
        let (pipelines, counts) = (Pipelines::default(), Counts::default());
        Ok(Gpu { device, queue, limits, adapter: info, int64, subgroup, health, pipelines, cache, cached, matrices, counts })
    }
    /// What kernels must know of it.
    pub fn target(&self) -> LaunchTarget {
        LaunchTarget {
            dialect: if self.int64 { Wgsl::WIDE } else { Wgsl::PLAIN },
            buffers: self.limits.max_storage_buffers_per_shader_stage.min(self.limits.max_bindings_per_bind_group) as usize,
            largest: self.largest_buffer(),
            subgroup: self.subgroup,
            matrices: false,
            on_host: self.adapter.device_type == wgpu::DeviceType::Cpu,
        }
    }
    /// The most bytes of one buffer that a kernel can see.
    pub fn largest_buffer(&self) -> u64 {
        // Kernels count words in 32 bits.
        self.limits.max_storage_buffer_binding_size.min(self.limits.max_buffer_size).min(u32::MAX as u64) / 64 * 64
    }
    /// A new buffer.
    ///
    /// # Errors
    /// `OutOfMemory`, a lost device.
    pub fn buffer(&self, size: u64, usage: wgpu::BufferUsages) -> Result<wgpu::Buffer, ErrorKind> {
        let size = size.next_multiple_of(4);
        let buffer = scoped(&self.device, || self.device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false }));
        self.health.check()?;
        buffer
    }
    /// Waits until a submission, or all of them, are done.
    ///
    /// # Errors
    /// A lost device.
    pub fn wait_for(&self, index: Option<wgpu::SubmissionIndex>) -> Result<(), ErrorKind> {
        self.counts.waits.fetch_add(1, Relaxed);
        // The device has work to do meanwhile.
        if let Some(cache) = &self.cache {
            cache.keep(self.counts.pipelines.load(Relaxed));
        }
        let done = self.device.poll(wgpu::PollType::Wait { submission_index: index, timeout: None });
        if done.is_err() {
            return Err(self.health.after("waiting for it failed"));
        }
        self.health.check()
    }
}
