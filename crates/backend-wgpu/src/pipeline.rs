//! Compiled kernels. One text is compiled once per device; a kernel of core remembers which texts it became, so that a
//! replayed step finds its pipeline without writing the text again.
use crate::{
    gpu::{Gpu, internal},
    health::{Health, scoped},
};
use adamant_kernels::{Access, Bindings, Form, Key, Nest, Strides};
use adamant_runtime::{ErrorKind, Shape, kernel::Kernel};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
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
    /// the forms of nests that texts were written for, by a hash of the computation, the place of the nest in it, how the
    /// buffers are bound and how many axes there are
    forms: Mutex<HashMap<u64, Vec<Form>>>,
}
/// What a kernel became so far.
struct Prepared {
    /// a hash of what it computes: kernels of other plans that compute the same have it too
    computes: u64,
    /// by structure
    pipelines: Mutex<Vec<(Key, Arc<Pipeline>)>>,
    /// the forms that its nests would have by themselves, by their places, with those that they have
    nests: Mutex<Vec<(u8, Form, Form)>>,
}
impl Prepared {
    fn of(kernel: &Kernel) -> Result<&Prepared, ErrorKind> {
        let prepared = kernel.prepared.get_or_init(|| {
            let mut hasher = DefaultHasher::new();
            format!("{:?}", kernel.kind).hash(&mut hasher);
            Box::new(Prepared { computes: hasher.finish(), pipelines: Mutex::default(), nests: Mutex::default() })
        });
        prepared.downcast_ref().ok_or_else(|| internal("a kernel prepared by another backend"))
    }
}

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
        let prepared = &Prepared::of(kernel)?.pipelines;
        // One that an earlier generation of the device has compiled is lost with it.
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
        let prepared = &Prepared::of(kernel)?.pipelines;
        let ours = |p: &Pipeline| Arc::ptr_eq(&p.health, &self.health);
        Ok(prepared.lock().iter().filter(|(_, p)| ours(p)).filter_map(|(k, _)| k.strip_prefix(beginning).map(Key::from_slice)).collect())
    }
    /// Has nothing been compiled for the kernel yet? Then is the time to compile what other sizes will want.
    ///
    /// # Errors
    /// The kernel was prepared by another backend.
    pub fn is_new(&self, kernel: &Kernel) -> Result<bool, ErrorKind> {
        Ok(!Prepared::of(kernel)?.pipelines.lock().iter().any(|(_, p)| Arc::ptr_eq(&p.health, &self.health)))
    }
    /// The nest of a kernel's launch; `place` tells its nests apart. Axes of one element may be left out of a text or be
    /// in it: a nest that has some takes a form that a text was written for, where one fits, so that a batch of one row
    /// compiles nothing.
    ///
    /// # Errors
    /// The kernel was prepared by another backend.
    pub fn nest(
        &self,
        kernel: &Kernel,
        place: u8,
        bindings: &Bindings,
        space: &Shape,
        [outer, inner]: [&[usize]; 2],
        operands: &[(usize, Strides)],
    ) -> Result<Nest, ErrorKind> {
        let prepared = Prepared::of(kernel)?;
        let own = Nest::new(space, outer, inner, operands);
        let form = own.form();
        let mut nests = prepared.nests.lock();
        let chosen = match nests.iter().find(|(at, natural, _)| *at == place && *natural == form) {
            Some((_, _, chosen)) => chosen.clone(),
            None => {
                let mut hasher = DefaultHasher::new();
                (prepared.computes, place, space.rank()).hash(&mut hasher);
                bindings.access.iter().for_each(|a| (*a as u8).hash(&mut hasher));
                let mut all = self.pipelines.forms.lock();
                let known = all.entry(hasher.finish()).or_default();
                let has_ones = outer.iter().chain(inner).any(|&a| space[a] == 1);
                let fits = |f: &&Form| Nest::of(f, space, [outer, inner], operands).is_some();
                let like = || known.iter().filter(fits).max_by_key(|f| f.likeness(&form)).cloned();
                let chosen = if has_ones && !known.contains(&form) { like() } else { None }.unwrap_or_else(|| form.clone());
                if !known.contains(&chosen) {
                    known.push(chosen.clone());
                }
                nests.push((place, form.clone(), chosen.clone()));
                chosen
            }
        };
        // Of one form there are many sizes, and what fitted one of them need not fit another.
        Ok(if chosen == form { own } else { Nest::of(&chosen, space, [outer, inner], operands).unwrap_or(own) })
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
