//! Compiled kernels. One text is compiled once per device; a kernel of core remembers which texts it became, so that a
//! replayed step finds its pipeline without writing the text again.
use crate::{
    bindings::Access,
    gpu::{Gpu, internal},
    health::{Health, scoped},
};
use adamant_core::{ErrorKind, kernel::Kernel};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering::Relaxed},
};

/// A compiled kernel and how its buffers are bound.
pub(crate) struct Pipeline {
    pub pipeline: wgpu::ComputePipeline,
    pub layout: wgpu::BindGroupLayout,
    /// of the device that compiled it
    health: Arc<Health>,
}
/// The structure of a launch: what its text depends on besides the kernel.
pub(crate) type Key = SmallVec<[u8; 32]>;
type Compiled = HashMap<String, Arc<Pipeline>>;
/// All texts of a device.
#[derive(Default)]
pub(crate) struct Pipelines(Mutex<Compiled>);
/// What a kernel became so far, by structure.
type Prepared = Mutex<Vec<(Key, Arc<Pipeline>)>>;

impl Gpu {
    /// The pipeline of a kernel for a structure; `write` writes its text if it is new.
    ///
    /// # Errors
    /// A text that cannot be written or compiled.
    pub fn pipeline(
        &self,
        kernel: &Kernel,
        key: &Key,
        access: &[Access],
        write: impl FnOnce() -> Result<String, ErrorKind>,
    ) -> Result<Arc<Pipeline>, ErrorKind> {
        let prepared = kernel.prepared.get_or_init(|| Box::new(Prepared::default()));
        let prepared: &Prepared = prepared.downcast_ref().ok_or_else(|| internal("a kernel prepared by another backend"))?;
        // One that an earlier opening of the device has compiled is lost with it.
        if let Some((_, found)) = prepared.lock().iter().find(|(k, p)| k == key && Arc::ptr_eq(&p.health, &self.health)) {
            return Ok(found.clone());
        }
        let made = self.compiled(write()?, access)?;
        prepared.lock().push((key.clone(), made.clone()));
        Ok(made)
    }
    /// What follows `beginning` in the keys of the pipelines that a kernel has: forms that it was given for other sizes.
    ///
    /// # Errors
    /// The kernel was prepared by another backend.
    pub fn forms(&self, kernel: &Kernel, beginning: &[u8]) -> Result<Vec<Key>, ErrorKind> {
        let Some(prepared) = kernel.prepared.get() else { return Ok(Vec::new()) };
        let prepared: &Prepared = prepared.downcast_ref().ok_or_else(|| internal("a kernel prepared by another backend"))?;
        let ours = |p: &Pipeline| Arc::ptr_eq(&p.health, &self.health);
        Ok(prepared.lock().iter().filter(|(_, p)| ours(p)).filter_map(|(k, _)| k.strip_prefix(beginning).map(Key::from_slice)).collect())
    }
    /// The pipeline of a text.
    ///
    /// # Errors
    /// It cannot be compiled.
    pub fn compiled(&self, text: String, access: &[Access]) -> Result<Arc<Pipeline>, ErrorKind> {
        if let Some(found) = self.pipelines.0.lock().get(&text) {
            return Ok(found.clone());
        }
        // Not under the lock: compiling takes long, and other threads have pipelines already.
        let made = Arc::new(self.compile(&text, access)?);
        Ok(self.pipelines.0.lock().entry(text).or_insert(made).clone())
    }
    fn compile(&self, text: &str, access: &[Access]) -> Result<Pipeline, ErrorKind> {
        let most = self.limits.max_storage_buffers_per_shader_stage as usize;
        if access.len() + 1 > most {
            let what = format!("a kernel of {} buffers: this adapter binds at most {most} at once", access.len() + 1);
            return Err(ErrorKind::Unsupported { backend: "wgpu".into(), what });
        }
        let entry = |binding: u32, read_only: bool| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer { ty: wgpu::BufferBindingType::Storage { read_only }, has_dynamic_offset: false, min_binding_size: None },
            count: None,
        };
        let parameters = std::iter::once(entry(0, true));
        let entries: Vec<_> = parameters.chain(access.iter().zip(1..).map(|(a, k)| entry(k, *a == Access::Read))).collect();
        let device = &self.device;
        let made = scoped(device, || {
            let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
            let whole = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor { label: None, bind_group_layouts: &[Some(&layout)], immediate_size: 0 });
            let module = device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source: wgpu::ShaderSource::Wgsl(text.into()) });
            let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: None,
                layout: Some(&whole),
                module: &module,
                entry_point: Some("main"),
                // Every kernel writes what it reads of its workgroup's memory.
                compilation_options: wgpu::PipelineCompilationOptions { zero_initialize_workgroup_memory: false, ..Default::default() },
                cache: None,
            });
            Pipeline { pipeline, layout, health: self.health.clone() }
        });
        self.health.check()?;
        self.counts.pipelines.fetch_add(1, Relaxed);
        made.map_err(|kind| match kind {
            ErrorKind::Internal(why) => ErrorKind::Internal(format!("{why}\nin the kernel\n{text}")),
            other => other,
        })
    }
}
