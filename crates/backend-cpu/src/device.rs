//! The backend: how it is configured, what it says of itself, and which kernel runs which step.
use crate::{
    composite, convolution, copy,
    gemm::Blas,
    isa::Isa,
    jit, map, matmul,
    memory::CpuMemory,
    operand::{In, Out, internal, with_operands},
    primitive::{self, Call},
    reduce, scatter,
    threads::Threads,
};
use adamant_runtime::{
    Composite, DType, Device, ErrorKind, HostVec,
    backend::{Backend, Determinism, DeviceInfo, Memory, PinnedMemory, Support},
    kernel::{FaultWord, KernelKind, Step},
    product::Sums,
};
use parking_lot::RwLock;
use smallvec::SmallVec;
use std::{any::Any, collections::HashMap, sync::Arc};

/// What every kernel runs with.
#[derive(Clone, Debug)]
pub struct Runtime {
    /// the pool
    pub threads: Threads,
    /// the instruction set
    pub isa: Isa,
    /// who computes matrix products
    pub blas: Blas,
}

/// A kernel for a composite: dense operands in, dense operands out, unless it takes rows.
pub trait CpuKernel: Send + Sync + 'static {
    /// Can it run on these dtypes (inputs, then outputs)?
    fn supports(&self, composite: &dyn Composite, dtypes: &[DType]) -> bool;
    /// Does it take the operands of [`Composite::rows`] wherever their rows lie?
    fn takes_rows(&self) -> bool {
        false
    }
    /// Runs it. Bad values in the data are reported to `fault`.
    ///
    /// # Errors
    /// Operands that it does not take.
    fn run(&self, composite: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, fault: &FaultWord) -> Result<(), ErrorKind>;
}
/// The operands of a [`CpuKernel`].
pub struct KernelOperands<'k, 'a, 'o> {
    pub(crate) inputs: &'k [In<'a>],
    pub(crate) outputs: &'k mut [Out<'o>],
}
impl<'a> KernelOperands<'_, 'a, '_> {
    /// How many inputs there are.
    pub fn inputs(&self) -> usize {
        self.inputs.len()
    }
    /// The shape of input k.
    ///
    /// # Errors
    /// There is none.
    pub fn shape(&self, k: usize) -> Result<adamant_runtime::Shape, ErrorKind> {
        self.inputs.get(k).map(|i| i.shape).ok_or_else(|| internal("a kernel asks for an input that is not there"))
    }
    /// The dtype of input k.
    ///
    /// # Errors
    /// There is none.
    pub fn dtype(&self, k: usize) -> Result<DType, ErrorKind> {
        self.inputs.get(k).map(|i| i.dtype).ok_or_else(|| internal("a kernel asks for an input that is not there"))
    }
    /// The elements of input k, row-major (bool as `u8` of 0 and 1).
    ///
    /// # Errors
    /// Another size of element.
    pub fn input<T: bytemuck::AnyBitPattern>(&self, k: usize) -> Result<&'a [T], ErrorKind> {
        let i = self.inputs.get(k).ok_or_else(|| internal("a kernel asks for an input that is not there"))?;
        if size_of::<T>() != i.dtype.size() {
            return Err(internal("a kernel asks for elements of another size"));
        }
        i.dense()
    }
    /// The elements of output k, to write.
    ///
    /// # Errors
    /// Another size of element.
    pub fn output<T: bytemuck::AnyBitPattern + bytemuck::NoUninit>(&mut self, k: usize) -> Result<&mut [T], ErrorKind> {
        let o = self.outputs.get_mut(k).ok_or_else(|| internal("a kernel asks for an output that is not there"))?;
        if size_of::<T>() != o.dtype.size() {
            return Err(internal("a kernel asks for elements of another size"));
        }
        o.dense()
    }
    /// Two outputs at once.
    ///
    /// # Errors
    /// As `output`.
    pub fn outputs2<T, U>(&mut self) -> Result<(&mut [T], &mut [U]), ErrorKind>
    where
        T: bytemuck::AnyBitPattern + bytemuck::NoUninit,
        U: bytemuck::AnyBitPattern + bytemuck::NoUninit,
    {
        match self.outputs {
            [a, b, ..] if size_of::<T>() == a.dtype.size() && size_of::<U>() == b.dtype.size() => Ok((a.dense()?, b.dense()?)),
            _ => Err(internal("a kernel asks for two outputs of other sizes")),
        }
    }
}

/// How a [`CpuBackend`] is made. Every setting can be read back in [`DeviceInfo::details`].
#[derive(Default)]
pub struct CpuBuilder {
    threads: Option<Threads>,
    isa: Option<Isa>,
    blas: Option<String>,
}
impl CpuBuilder {
    /// A pool of its own with this many threads, the caller's among them.
    #[must_use]
    pub fn threads(mut self, count: usize) -> CpuBuilder {
        self.threads = Some(Threads::new(count));
        self
    }
    /// No thread but the caller's.
    #[must_use]
    pub fn single_threaded(self) -> CpuBuilder {
        self.threads(1)
    }
    /// The user's pool.
    #[must_use]
    pub fn with_pool(mut self, pool: Arc<rayon::ThreadPool>) -> CpuBuilder {
        self.threads = Some(Threads::with_pool(pool));
        self
    }
    /// An instruction set, instead of `ADAMANT_ISA` or the widest there is.
    #[must_use]
    pub fn isa(mut self, isa: Isa) -> CpuBuilder {
        self.isa = Some(isa);
        self
    }
    /// A matrix library: `openblas`, `mkl` or `accelerate`, if the program was built with that feature, or `own` for the
    /// built-in one. Unless one is named, it is the one that the program was built with.
    #[must_use]
    pub fn blas(mut self, name: &str) -> CpuBuilder {
        self.blas = Some(name.into());
        self
    }
    /// The backend.
    ///
    /// # Errors
    /// An instruction set that the CPU lacks, a matrix library that is not compiled in, or an unknown word in `ADAMANT_JIT`.
    pub fn build(self) -> Result<CpuBackend, ErrorKind> {
        jit::check_wanted().map_err(ErrorKind::DeviceAbsent)?;
        let isa = match self.isa {
            Some(isa) if isa.is_available() => isa,
            Some(isa) => return Err(ErrorKind::DeviceAbsent(format!("the CPU lacks {isa:?}; the widest set it has is {:?}", Isa::detect()))),
            None => Isa::try_current().map_err(ErrorKind::DeviceAbsent)?,
        };
        let blas = self.blas.map_or_else(|| Ok(Blas::built_in()), |word| Blas::parse(&word))?;
        let threads = self.threads.unwrap_or_default();
        let details = vec![
            ("isa", format!("{isa:?}").to_lowercase()),
            ("threads", threads.count().to_string()),
            ("threads from", threads.source().into()),
            ("blas", blas.name().into()),
        ];
        let info = DeviceInfo {
            backend: "cpu",
            name: cpu_name(),
            parallelism: threads.count(),
            details,
            // BLAS promises no order of summation.
            determinism: if blas == Blas::Own { Determinism::Bitwise } else { Determinism::None },
            dtypes: &DType::COMPUTE,
            window_ops: 2048,
            window_bytes: 1 << 30,
        };
        Ok(CpuBackend { info, runtime: Runtime { threads, isa, blas }, kernels: RwLock::new(composite::own()) })
    }
}
fn cpu_name() -> String {
    let from_system = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|l| l.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_string())
    });
    from_system.unwrap_or_else(|| std::env::consts::ARCH.into())
}

/// The CPU as a device: runs each step on the caller's thread and its pool, and returns when it is done.
pub struct CpuBackend {
    info: DeviceInfo,
    runtime: Runtime,
    kernels: RwLock<HashMap<&'static str, Arc<dyn CpuKernel>>>,
}
impl CpuBackend {
    /// Settings for a backend of one's own.
    pub fn builder() -> CpuBuilder {
        CpuBuilder::default()
    }
    /// The pool and the instruction set.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }
    fn kernel(&self, name: &str) -> Option<Arc<dyn CpuKernel>> {
        self.kernels.read().get(name).cloned()
    }
    fn run(&self, step: &Step<'_>) -> Result<(), ErrorKind> {
        let runtime = &self.runtime;
        crate::trace::begin(|| (step.kernel.kind.family(), format!("{:?}", runtime.isa).to_lowercase()));
        match &step.kernel.kind {
            KernelKind::Map { .. } if map::run_few(runtime, step)? => Ok(()),
            KernelKind::Map { outputs: results, .. } => with_operands(step, true, &mut |i, o| map::run(runtime, step, results, i, o)),
            KernelKind::Copy => with_operands(step, false, &mut |i, o| copy::run(runtime, &step.space, i, o)),
            KernelKind::Reduce { value, op, axes, .. } => with_operands(step, false, &mut |i, o| reduce::run(runtime, step, *value, *op, *axes, i, o)),
            KernelKind::Matmul => with_operands(step, false, &mut |i, o| matmul::run(runtime, i, o)),
            KernelKind::Conv(spec) => with_operands(step, false, &mut |i, o| convolution::run(runtime, spec, i, o)),
            KernelKind::Product(p) => with_operands(step, p.accumulate, &mut |i, o| match &p.sums {
                Sums::Matmul => matmul::with_ends(runtime, step, p, i, o),
                Sums::Conv(spec) => convolution::with_ends(runtime, step, p, spec, i, o),
            }),
            KernelKind::Scatter { axis, mode } => with_operands(step, false, &mut |i, o| scatter::run(runtime, *axis as usize, *mode, i, o, step.fault)),
            KernelKind::Primitive(op) => {
                let call = Call { runtime, space: &step.space, fault: step.fault };
                with_operands(step, false, &mut |i, o| primitive::run(op, &call, i, o))
            }
            KernelKind::Composite(c) => with_operands(step, false, &mut |i, o| {
                let dtypes: SmallVec<[DType; 8]> = step.inputs.iter().chain(step.outputs).map(|o| o.dtype).collect();
                match self.kernel(c.name()).filter(|k| k.supports(&**c, &dtypes)) {
                    Some(k) => k.run(&**c, &mut KernelOperands { inputs: i, outputs: o }, runtime, step.fault),
                    None => composite::host(&**c, i, o, step.fault),
                }
            }),
        }
    }
}
impl Backend for CpuBackend {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }
    fn supports(&self, kernel: &KernelKind, dtypes: &[DType]) -> Support {
        let computes = || dtypes.iter().all(|d| d.computes());
        let floats = || dtypes.iter().all(|d| d.is_float());
        let native = match kernel {
            // Programs may load and store any dtype; core lets only casts touch the storage ones.
            KernelKind::Map { .. } | KernelKind::Copy => true,
            KernelKind::Composite(c) => c.is_host() || self.kernel(c.name()).is_some_and(|k| k.supports(&**c, dtypes)),
            KernelKind::Conv(_) => computes() && floats(),
            KernelKind::Matmul => computes() && !dtypes.contains(&DType::Bool),
            KernelKind::Primitive(op) => primitive::supports(op, dtypes),
            KernelKind::Product(p) => p.dtype.computes() && if p.sums == Sums::Matmul { p.dtype != DType::Bool } else { p.dtype.is_float() },
            KernelKind::Scatter { mode, .. } => *mode == adamant_runtime::op::ScatterMode::Set || dtypes.last().is_none_or(|d| d.computes()),
            _ => computes(),
        };
        if native { Support::Native } else { Support::No }
    }
    fn takes_rows(&self, composite: &dyn Composite) -> bool {
        self.kernel(composite.name()).is_some_and(|k| k.takes_rows())
    }
    fn alloc(&self, bytes: usize) -> Result<Box<dyn Memory>, ErrorKind> {
        Ok(Box::new(CpuMemory::new(bytes)?))
    }
    fn adopt(&self, data: HostVec) -> Result<Box<dyn Memory>, ErrorKind> {
        Ok(Box::new(CpuMemory::adopt(data)))
    }
    fn adopt_pinned(&self, memory: Arc<dyn PinnedMemory>) -> Result<Box<dyn Memory>, ErrorKind> {
        Ok(Box::new(CpuMemory::pinned(memory)))
    }
    fn upload(&self, to: &mut dyn Memory, offset: usize, from: &[u8]) -> Result<(), ErrorKind> {
        let to = to.as_any_mut().downcast_mut::<CpuMemory>().and_then(|m| m.slice_mut().get_mut(offset..offset + from.len()));
        to.map(|t| t.copy_from_slice(from)).ok_or_else(|| internal("upload out of bounds"))
    }
    fn download(&self, from: &dyn Memory, offset: usize, to: &mut [u8]) -> Result<(), ErrorKind> {
        let from = from.host().and_then(|b| b.get(offset..offset + to.len()));
        from.map(|f| to.copy_from_slice(f)).ok_or_else(|| internal("download out of bounds"))
    }
    fn submit(&self, steps: &[Step<'_>]) -> Result<(), ErrorKind> {
        steps.iter().try_for_each(|step| self.run(step))
    }
    /// A kernel that has begun fails only by a bug, and a step of an optimizer is bound by the memory it moves.
    fn updates_in_place(&self) -> bool {
        true
    }
    /// The kernel is a `Box<dyn CpuKernel>`, boxed.
    fn register(&self, composite: &'static str, kernel: Box<dyn Any + Send + Sync>) -> Result<(), ErrorKind> {
        let kernel: Box<Box<dyn CpuKernel>> = kernel
            .downcast()
            .map_err(|_| ErrorKind::Unsupported { backend: "cpu".into(), what: format!("a kernel for {composite} that is no `Box<dyn CpuKernel>`") })?;
        self.kernels.write().insert(composite, Arc::from(*kernel));
        Ok(())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A device with its own threads, pool of memory and limits.
///
/// ```
/// # use adamant_backend_cpu::{Context, CpuBackend};
/// let device = Context::new(CpuBackend::builder().threads(2))?.device();
/// assert_eq!(device.info().parallelism, 2);
/// # Ok::<(), adamant_runtime::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Context(Device);
impl Context {
    /// Opens it.
    ///
    /// # Errors
    /// As [`CpuBuilder::build`].
    #[track_caller]
    pub fn new(builder: CpuBuilder) -> adamant_runtime::Result<Context> {
        match builder.build() {
            Ok(backend) => Ok(Context(Device::from_backend(Box::new(backend)))),
            Err(kind) => Err(adamant_runtime::Error::new("device", kind)),
        }
    }
    /// Its device.
    pub fn device(self) -> Device {
        self.0
    }
    /// Makes it the thread's device while `f` runs.
    pub fn run<R>(self, f: impl FnOnce() -> R) -> R {
        self.0.scoped(f)
    }
}
