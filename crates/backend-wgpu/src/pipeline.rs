//! Compiled kernels. One text is compiled once per device; a kernel of core remembers which texts it became, so that a
//! replayed step finds its pipeline without writing the text again.
use crate::{
    gpu::{Gpu, internal},
    health::{Health, scoped},
};
use adamant_kernels::{Access, Bindings, Forms, Key, Nest, Prepared, Strides};
use adamant_runtime::{ErrorKind, Shape, kernel::Kernel};
use parking_lot::Mutex;
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
type Compiled = HashMap<String, Arc<Pipeline>>;
/// All texts of a device.
#[derive(Default)]
pub(crate) struct Pipelines {
    texts: Mutex<Compiled>,
    forms: Forms,
}
/// What a kernel became so far.
fn prepared(kernel: &Kernel) -> Result<&Prepared<Pipeline>, ErrorKind> {
    let prepared = kernel.prepared.get_or_init(|| Box::new(Prepared::<Pipeline>::new(&kernel.kind)));
    prepared.downcast_ref().ok_or_else(|| internal("a kernel prepared by another backend"))
}

impl Gpu {
    fn is_ours(&self) -> impl Fn(&Pipeline) -> bool {
        |p| Arc::ptr_eq(&p.health, &self.health)
    }
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
        let prepared = prepared(kernel)?;
        if let Some(found) = prepared.text(key, self.is_ours()) {
            return Ok(found);
        }
        let made = self.compiled(write()?, access)?;
        prepared.keep(key, made.clone());
        Ok(made)
    }
    /// What follows `beginning` in the keys of the pipelines that a kernel has: forms that it was given for other sizes.
    ///
    /// # Errors
    /// The kernel was prepared by another backend.
    pub fn forms(&self, kernel: &Kernel, beginning: &[u8]) -> Result<Vec<Key>, ErrorKind> {
        Ok(prepared(kernel)?.known(beginning, self.is_ours()))
    }
    /// Has nothing been compiled for the kernel yet? Then is the time to compile what other sizes will want.
    ///
    /// # Errors
    /// The kernel was prepared by another backend.
    pub fn is_new(&self, kernel: &Kernel) -> Result<bool, ErrorKind> {
        Ok(prepared(kernel)?.is_new(self.is_ours()))
    }
    /// The nest of a kernel's launch; `place` tells its nests apart.
    ///
    /// # Errors
    /// The kernel was prepared by another backend.
    pub fn nest(
        &self,
        kernel: &Kernel,
        place: u8,
        bindings: &Bindings,
        space: &Shape,
        axes: [&[usize]; 2],
        operands: &[(usize, Strides)],
    ) -> Result<Nest, ErrorKind> {
        Ok(prepared(kernel)?.nest(&self.pipelines.forms, place, bindings, space, axes, operands))
    }
    /// The pipeline of a text.
    ///
    /// # Errors
    /// It cannot be compiled.
    pub fn compiled(&self, text: String, access: &[Access]) -> Result<Arc<Pipeline>, ErrorKind> {
        if let Some(found) = self.pipelines.texts.lock().get(&text) {
            return Ok(found.clone());
        }
        // Not under the lock: compiling takes long, and other threads have pipelines already.
        let made = Arc::new(self.compile(&text, access)?);
        Ok(self.pipelines.texts.lock().entry(text).or_insert(made).clone())
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
                cache: self.cache.as_ref().map(|c| &c.pipelines),
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
