//! A card, opened: its context, its streams, what it has compiled, and what is known of its health. After a loss there is
//! another; memory and kernels hold the one that they belong to.
use crate::{
    apart::ApartKernels,
    blaslt::{BlasLt, LtRules},
    compiler::Compiler,
    disk::KernelDisk,
    driver::{self, ContextHandle, DriverError, FunctionHandle, ModuleHandle, Told},
    libraries::{self, Libraries},
    memory::{CudaPool, addresses_for},
    options::{CudaMemoryPool, CudaOptions, unsupported},
    paths::{FastPath, PathsOff},
    selftest::open_checked,
    staging::Staging,
    stream::{CudaStream, TurnMarks},
    words::Spares,
};
use adamant_kernels::{CUDA_BUFFERS, Cuda, Forms, Key, LaunchTarget, Prepared, entry_of};
use adamant_runtime::{
    DType, ErrorKind,
    backend::Queue,
    kernel::{Kernel, KernelKind},
    product::Sums,
};
use cudarc::driver::sys::{CUdevice, CUdevice_attribute as Attribute, CUresult};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// The most texts that are compiled together: an error names them all.
const TOGETHER: usize = 64;
/// The most bytes in one piece: kernels count elements in 32 bits.
pub(crate) const LARGEST: u64 = u32::MAX as u64;
/// The oldest compute capability, ten times major and minor.
const OLDEST: i32 = 75;

/// What a card says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Card {
    pub name: String,
    /// what tells it from all others
    pub id: [u8; 16],
    /// compute capability, ten times major and minor
    pub capability: i32,
    pub multiprocessors: usize,
    pub memory: u64,
    /// the driver's version, a thousand times major and ten times minor
    pub driver: i32,
}
/// What it has done since it was opened.
#[derive(Default)]
pub(crate) struct Counts {
    /// texts compiled
    pub kernels: AtomicU64,
    /// pieces of work handed over
    pub submissions: AtomicU64,
    /// kernels launched
    pub launches: AtomicU64,
    /// times that the host waited for the device
    pub waits: AtomicU64,
    /// graphs of launches that were made
    pub graphs: AtomicU64,
    /// launches of graphs
    pub replays: AtomicU64,
    /// copies before and behind them
    pub copies: AtomicU64,
    /// bytes allocated
    pub allocated: AtomicU64,
    /// bytes of users' that went to the device through pinned memory of ours
    pub staged: AtomicU64,
}
impl Counts {
    /// By name.
    pub fn all(&self) -> Vec<(&'static str, u64)> {
        [
            ("pipelines", &self.kernels),
            ("submissions", &self.submissions),
            ("launches", &self.launches),
            ("waits", &self.waits),
            ("graphs", &self.graphs),
            ("replays", &self.replays),
            ("copies", &self.copies),
            ("allocated", &self.allocated),
            ("staged bytes", &self.staged),
        ]
        .map(|(name, n)| (name, n.load(Relaxed)))
        .to_vec()
    }
}
pub(crate) fn internal(what: &str) -> ErrorKind {
    ErrorKind::Internal(what.into())
}
/// A device's own context, held until this is dropped.
pub(crate) struct CudaContext {
    device: CUdevice,
    handle: ContextHandle,
    /// why nothing is to be had of it any more
    lost: Mutex<Option<String>>,
}
impl CudaContext {
    /// # Errors
    /// As the driver says.
    fn retain(device: CUdevice) -> Told<CudaContext> {
        Ok(CudaContext { device, handle: driver::retain_context(device)?, lost: Mutex::default() })
    }
    pub fn device(&self) -> CUdevice {
        self.device
    }
    /// Makes a call on it.
    ///
    /// # Errors
    /// A loss, now and from then on; what else the driver says.
    pub fn call<T>(&self, f: impl FnOnce() -> Told<T>) -> Result<T, ErrorKind> {
        self.check()?;
        driver::bind(self.handle).and_then(|()| f()).map_err(|e| self.told(&e))
    }
    /// A driver's error as the runtime's; from a loss on every call fails.
    pub fn told(&self, e: &DriverError) -> ErrorKind {
        if e.is_loss() {
            self.lose(&e.to_string());
        }
        e.kind()
    }
    /// From now on every call fails.
    pub fn lose(&self, why: &str) {
        self.lost.lock().get_or_insert_with(|| why.to_string());
    }
    /// The loss, if it was lost.
    pub fn lost(&self) -> Option<ErrorKind> {
        self.lost.lock().clone().map(ErrorKind::DeviceLost)
    }
    /// # Errors
    /// It was lost.
    pub fn check(&self) -> Result<(), ErrorKind> {
        self.lost().map_or(Ok(()), Err)
    }
}
impl Drop for CudaContext {
    fn drop(&mut self) {
        // Nobody is left to be told.
        let _ = driver::release_context(self.device);
    }
}
/// What was loaded together, given back when its last kernel is.
struct LoadedModule {
    handle: ModuleHandle,
    context: Arc<CudaContext>,
}
impl Drop for LoadedModule {
    fn drop(&mut self) {
        let _ = self.context.call(|| driver::unload(self.handle));
    }
}
/// A kernel: a text, and before its first launch a function. The texts that a turn needs are compiled together: most of what
/// one takes is spent on what all have.
pub(crate) struct CompiledKernel {
    text: String,
    /// the family of the kernel that it was written for first
    family: &'static str,
    name: String,
    /// threads of a block
    pub threads: u32,
    loaded: OnceLock<(FunctionHandle, Arc<LoadedModule>)>,
    context: Arc<CudaContext>,
}
impl CompiledKernel {
    /// Its function, once it is loaded.
    ///
    /// # Errors
    /// It is not: a turn loads what it launches before it begins.
    pub fn function(&self) -> Result<FunctionHandle, ErrorKind> {
        self.loaded.get().map(|l| l.0).ok_or_else(|| internal("a kernel that is launched before it is loaded"))
    }
    pub fn is_loaded(&self) -> bool {
        self.loaded.get().is_some()
    }
}
/// An opened card.
pub(crate) struct Opened {
    pub card: Card,
    pub queues: [CudaStream; 3],
    pub staging: Staging,
    pub spares: Arc<Spares>,
    pub counts: Counts,
    pub compiler: Compiler,
    /// the library of products, where there is one
    pub products: Option<BlasLt>,
    /// what is to be told of it
    pub multiplies: String,
    /// all memory that is held of the card
    pub pool: Arc<CudaPool>,
    /// what is to be told of it
    pub paged: String,
    options: CudaOptions,
    /// the fast paths that are off
    pub paths: PathsOff,
    /// what is to be told of the texts that are kept
    pub kept: String,
    texts: Mutex<HashMap<String, Arc<CompiledKernel>>>,
    forms: Forms,
    /// kernels of parts of products
    pub apart: ApartKernels,
    // The last field: what is above is given back to it.
    pub context: Arc<CudaContext>,
}
impl Opened {
    /// Opens a card; what differs there from what it should be is off.
    ///
    /// # Errors
    /// As [`Opened::open_with`].
    pub fn open(options: &CudaOptions) -> Result<Arc<Opened>, ErrorKind> {
        if options.self_test { open_checked(options) } else { Opened::open_with(options, PathsOff::default()) }
    }
    /// Opens a card with some paths off.
    ///
    /// # Errors
    /// `DeviceAbsent`, saying what there is instead and what to install; an option that the card cannot meet.
    pub fn open_with(options: &CudaOptions, paths: PathsOff) -> Result<Arc<Opened>, ErrorKind> {
        let libraries = libraries::open()?;
        let (device, card) = found(options.device)?;
        let (disk, kept) = KernelDisk::open(options.cache.as_deref());
        let compiler = Compiler::new(card.capability, disk)?;
        let context = Arc::new(CudaContext::retain(device).map_err(|e| ErrorKind::DeviceAbsent(format!("{} cannot be opened: {e}", card.name)))?);
        let marks = Arc::default();
        let [a, b, c] = Queue::ALL.map(|queue| CudaStream::new(&context, queue, &marks));
        let queues = [a?, b?, c?];
        let cuts = options.tf32 && paths.is_on(FastPath::Tf32Products);
        let (products, multiplies) = multiplied(&context, libraries, LtRules { tf32: cuts, deterministic: options.deterministic });
        if options.tf32 {
            check_tf32(&card, products.is_some(), &multiplies)?;
        }
        let (pool, paged) = pooled(&context, &card, &marks, options, paths.is_on(FastPath::MappedPages))?;
        let (staging, spares) = (Staging::new(&context), Arc::default());
        Ok(Arc::new(Opened {
            card,
            queues,
            staging,
            spares,
            counts: Counts::default(),
            compiler,
            products,
            multiplies,
            pool,
            paged,
            options: options.clone(),
            paths,
            kept,
            texts: Mutex::default(),
            forms: Forms::default(),
            apart: ApartKernels::default(),
            context,
        }))
    }
    /// As [`Opened::open`], after a loss: the device's own context is ended first, with what others of this program have in it.
    ///
    /// # Errors
    /// As [`Opened::open`]; a context that cannot be ended: only a new process has the device.
    pub fn opened_anew(&self, options: &CudaOptions, paths: PathsOff) -> Result<Arc<Opened>, ErrorKind> {
        driver::reset_context(self.context.device).map_err(|e| {
            ErrorKind::DeviceLost(format!(
                "{e}: the device comes back to a new process alone; start the program again (a run of `adamant train` goes on with --resume auto)"
            ))
        })?;
        Opened::open_with(options, paths)
    }
    pub fn queue(&self, queue: Queue) -> &CudaStream {
        &self.queues[queue as usize]
    }
    /// What kernels of a family must know of it.
    pub fn target(&self, kind: &KernelKind) -> LaunchTarget {
        let unit = match kind {
            KernelKind::Composite(_) => FastPath::UnitAttention,
            KernelKind::Conv(_) => FastPath::UnitConvolutions,
            KernelKind::Product(product) if product.sums != Sums::Matmul => FastPath::UnitConvolutions,
            _ => FastPath::UnitProducts,
        };
        LaunchTarget {
            dialect: &Cuda,
            buffers: CUDA_BUFFERS + 1,
            largest: LARGEST,
            subgroup: Some(32),
            matrices: self.has_unit() && self.paths.is_on(unit),
            on_host: false,
        }
    }
    /// Has it a matrix unit that kernels of ours may use?
    pub fn has_unit(&self) -> bool {
        self.card.capability >= 80 && self.options.tensor_cores
    }
    /// May plans be graphs?
    pub fn freezes(&self) -> bool {
        self.options.graphs.is_some() && self.paths.is_on(FastPath::Graphs)
    }
    /// Are the sums of products of this dtype left to the library?
    pub fn multiplies(&self, dtype: DType) -> bool {
        // That of f32 uses the matrix unit only where TF32 is asked for.
        let may_use_units = self.options.tensor_cores || dtype == DType::F32;
        self.products.is_some() && BlasLt::computes(dtype) && may_use_units && self.paths.is_on(FastPath::LibraryProducts)
    }
    /// May the library cut the factors of products of f32?
    pub fn cuts_to_tf32(&self) -> bool {
        self.options.tf32 && self.multiplies(DType::F32) && self.paths.is_on(FastPath::Tf32Products)
    }
    /// Does the library cut them, and wrongly?
    pub fn is_cut_wrongly(&self) -> bool {
        self.options.tf32 && self.multiplies(DType::F32) && !self.paths.is_on(FastPath::Tf32Products)
    }
    fn is_ours(&self) -> impl Fn(&CompiledKernel) -> bool {
        |k| Arc::ptr_eq(&k.context, &self.context)
    }
    /// The compiled text of a kernel for a structure; `write` writes it if it is new.
    ///
    /// # Errors
    /// A text that cannot be written or compiled.
    pub fn kernel(&self, kernel: &Kernel, key: &Key, write: impl FnOnce() -> Result<String, ErrorKind>) -> Result<Arc<CompiledKernel>, ErrorKind> {
        let prepared = prepared(kernel)?;
        if let Some(found) = prepared.text(key, self.is_ours()) {
            return Ok(found);
        }
        let made = self.compiled_as(kernel.kind.family(), write()?)?;
        prepared.keep(key, made.clone());
        Ok(made)
    }
    /// What follows `beginning` in the keys of the texts that a kernel has.
    ///
    /// # Errors
    /// The kernel was prepared by another backend.
    pub fn known(&self, kernel: &Kernel, beginning: &[u8]) -> Result<Vec<Key>, ErrorKind> {
        Ok(prepared(kernel)?.known(beginning, self.is_ours()))
    }
    /// Has nothing been compiled for the kernel yet?
    ///
    /// # Errors
    /// The kernel was prepared by another backend.
    pub fn is_new(&self, kernel: &Kernel) -> Result<bool, ErrorKind> {
        Ok(prepared(kernel)?.is_new(self.is_ours()))
    }
    /// The forms of the nests of its texts.
    pub fn forms(&self) -> &Forms {
        &self.forms
    }
    /// The kernel of a text that decides which others run; it may be loaded or not.
    ///
    /// # Errors
    /// It is no kernel's text.
    pub fn compiled(&self, text: String) -> Result<Arc<CompiledKernel>, ErrorKind> {
        self.compiled_as("gate", text)
    }
    /// The kernel of a text of a family, which may be loaded or not.
    ///
    /// # Errors
    /// It is no kernel's text.
    fn compiled_as(&self, family: &'static str, text: String) -> Result<Arc<CompiledKernel>, ErrorKind> {
        let mut texts = self.texts.lock();
        if let Some(found) = texts.get(&text) {
            return Ok(found.clone());
        }
        let name = entry_of(&text).ok_or_else(|| internal("a text without a kernel"))?.to_string();
        let threads = text.rsplit("__launch_bounds__(").next().and_then(|rest| rest.split([',', ')']).next()?.parse().ok());
        let threads = threads.ok_or_else(|| internal("a kernel that does not say how many threads it has"))?;
        let made = Arc::new(CompiledKernel { text: text.clone(), family, name, threads, loaded: OnceLock::new(), context: self.context.clone() });
        texts.insert(text, made.clone());
        Ok(made)
    }
    /// Compiles and loads those that are not, together.
    ///
    /// # Errors
    /// One that cannot be compiled: the compiler's words; a lost device.
    pub fn load(&self, kernels: &[Arc<CompiledKernel>]) -> Result<(), ErrorKind> {
        let mut new: Vec<&Arc<CompiledKernel>> = kernels.iter().filter(|k| !k.is_loaded()).collect();
        new.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        new.dedup_by(|a, b| Arc::ptr_eq(a, b));
        for some in new.chunks(TOGETHER) {
            let text: String = some.iter().map(|k| k.text.as_str()).collect();
            let module = Arc::new(LoadedModule { handle: self.module_of(&text)?, context: self.context.clone() });
            for kernel in some {
                let function = self.context.call(|| driver::function(module.handle, &kernel.name))?;
                self.counts.kernels.fetch_add(1, Relaxed);
                // Another thread may have loaded it meanwhile.
                let _ = kernel.loaded.set((function, module.clone()));
            }
        }
        Ok(())
    }
    /// The texts of all kernels so far, each with its family, for tools that look at what becomes of them.
    pub fn texts(&self) -> Vec<(&'static str, String)> {
        self.texts.lock().values().map(|k| (k.family, k.text.clone())).collect()
    }
    fn module_of(&self, text: &str) -> Result<ModuleHandle, ErrorKind> {
        let load = || {
            let image = self.compiler.compile(text)?;
            self.context.call(|| Ok(driver::load(&image)))
        };
        let mut loaded = load()?;
        if loaded.as_ref().is_err_and(|e| is_refused(e.code)) {
            self.compiler.fall_back();
            loaded = load()?;
        }
        loaded.map_err(|e| match self.context.told(&e) {
            ErrorKind::Internal(why) => ErrorKind::Internal(format!("{why}\nin the kernel\n{text}")),
            other => other,
        })
    }
    /// Waits for all that it was given.
    ///
    /// # Errors
    /// A lost device.
    pub fn synchronize(&self) -> Result<(), ErrorKind> {
        self.counts.waits.fetch_add(1, Relaxed);
        self.queues.iter().try_for_each(CudaStream::synchronize)?;
        self.staging.let_go(self);
        Ok(())
    }
}
/// Machine code that the card does not take: it is newer than the compiler, or no card at all.
fn is_refused(code: CUresult) -> bool {
    matches!(code, CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU | CUresult::CUDA_ERROR_INVALID_IMAGE | CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
}
/// The library of products, and what is to be told of it.
fn multiplied(context: &Arc<CudaContext>, libraries: &Libraries, rules: LtRules) -> (Option<BlasLt>, String) {
    if let Some(why) = &libraries.no_products {
        return (None, format!("own kernels ({why})"));
    }
    match BlasLt::new(context, rules) {
        Ok(products) => {
            let version = products.version();
            (Some(products), format!("cuBLASLt {}.{}", version / 10_000, version % 10_000 / 100))
        }
        Err(e) => (None, format!("own kernels ({e:?})")),
    }
}
/// # Errors
/// Products of f32 cannot be cut to TF32 here.
fn check_tf32(card: &Card, is_there: bool, multiplies: &str) -> Result<(), ErrorKind> {
    if card.capability < 80 {
        let (major, minor) = (card.capability / 10, card.capability % 10);
        return Err(unsupported(&format!("tf32: {} has compute capability {major}.{minor}; cards from 8.0 on (Ampere and later) have TF32", card.name)));
    }
    if is_there { Ok(()) } else { Err(unsupported(&format!("tf32: cuBLASLt computes it, and products are {multiplies}"))) }
}
/// The memory of a card, and what is to be told of it.
fn pooled(
    context: &Arc<CudaContext>,
    card: &Card,
    marks: &Arc<TurnMarks>,
    options: &CudaOptions,
    is_right: bool,
) -> Result<(Arc<CudaPool>, String), ErrorKind> {
    let can_map = context.call(|| driver::attribute(context.device, Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED))? != 0;
    let cap = match options.memory_pool {
        CudaMemoryPool::Off | CudaMemoryPool::On => None,
        CudaMemoryPool::Bytes(bytes) => Some(bytes),
        CudaMemoryPool::Share(share) => Some((card.memory as f64 * share) as u64),
    };
    let is_on = options.memory_pool != CudaMemoryPool::Off;
    let addresses = (is_on && can_map && is_right).then(|| addresses_for(card.memory));
    let told = match (is_on, can_map) {
        (false, _) => "none: the memory pool is off",
        (true, true) if is_right => "mapped, 2 MiB each",
        (true, true) => "none: what is mapped is wrong here, and each piece is the driver's",
        (true, false) => "none: this driver maps none, and gives each piece by itself",
    };
    Ok((Arc::new(CudaPool::new(context, marks, addresses, cap)), told.into()))
}
/// What a kernel became so far.
pub(crate) fn prepared(kernel: &Kernel) -> Result<&Prepared<CompiledKernel>, ErrorKind> {
    let prepared = kernel.prepared.get_or_init(|| Box::new(Prepared::<CompiledKernel>::new(&kernel.kind)));
    prepared.downcast_ref().ok_or_else(|| internal("a kernel prepared by another backend"))
}
/// Card number `number` and what it says of itself.
fn found(number: usize) -> Result<(CUdevice, Card), ErrorKind> {
    let absent = |what: String| ErrorKind::DeviceAbsent(what);
    let refused = |e: DriverError| {
        absent(match e.code as u32 {
            100 => "the CUDA driver finds no card on this machine".into(),
            803 => format!("{e}: the driver of the kernel and its library are of different versions; load the driver anew or restart the machine"),
            _ => format!("the CUDA driver does not start: {e}"),
        })
    };
    driver::init().map_err(refused)?;
    let count = driver::device_count().map_err(refused)?;
    let index = i32::try_from(number).ok().filter(|n| *n < count);
    let Some(index) = index else {
        let names: Vec<String> = (0..count).map(|k| format!("{k}: {}", driver::device(k).and_then(driver::device_name).unwrap_or_default())).collect();
        return Err(absent(if count == 0 {
            "the CUDA driver finds no card on this machine".into()
        } else {
            format!("there is no CUDA card number {number}; there are {}", names.join(", "))
        }));
    };
    let asked = || {
        let device = driver::device(index)?;
        let of = |which| driver::attribute(device, which);
        let capability = 10 * of(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? + of(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let multiprocessors = of(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as usize;
        let card = Card {
            name: driver::device_name(device)?,
            id: driver::device_id(device)?,
            capability,
            multiprocessors,
            memory: driver::device_memory(device)? as u64,
            driver: driver::version()?,
        };
        Ok((device, card))
    };
    let (device, card) = asked().map_err(refused)?;
    if card.capability < OLDEST {
        let (is, least) = (card.capability, OLDEST);
        return Err(absent(format!(
            "{} has compute capability {}.{}; cards from {}.{} on are supported (Turing and later)",
            card.name,
            is / 10,
            is % 10,
            least / 10,
            least % 10
        )));
    }
    Ok((device, card))
}
