//! Devices: which backend a tensor lives on. A `Device` is a copyable handle; an opened device stays for the
//! life of the program, so a buffer can never outlive it.
use crate::{
    DeviceId, Error, ErrorKind, Origin, Result,
    backend::{BACKENDS, Backend, DeviceInfo, Guarded},
    buffer::{MemoryStats, Pool},
    first_touch::FirstTouch,
    foreign::guarded,
};
use parking_lot::RwLock;
use std::{
    cell::Cell,
    fmt,
    str::FromStr,
    sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

mod measured;

/// A handle on an opened device.
#[derive(Clone, Copy)]
pub struct Device(&'static Inner);
struct Inner {
    index: u32,
    number: usize,
    backend: Guarded,
    pool: Pool,
    is_reference: bool,
    /// how often it was opened again after a loss
    openings: AtomicU32,
}

/// The devices that were asked for by name and number, in the order of asking: few, so that looking through them costs
/// nanoseconds. What is here is never taken out.
static NAMED: RwLock<Vec<(&'static str, usize, &'static FirstTouch<Device>)>> = RwLock::new(Vec::new());
static REFERENCE: LazyLock<Device> = LazyLock::new(|| Device::new(0, Box::new(crate::reference::ReferenceBackend::new()), true));
/// All of them, by index less one: what is here is never taken out.
static ALL: RwLock<Vec<Device>> = RwLock::new(Vec::new());
/// How many have been opened.
static COUNT: AtomicU32 = AtomicU32::new(0);
/// The backends that have a feature of the facade.
const OURS: [&str; 3] = ["cpu", "cuda", "wgpu"];
thread_local! {
    static DEFAULT: Cell<Option<Device>> = const { Cell::new(None) };
}

/// Who records work for devices: what a device asks of it before it waits, and to find out which device is fast.
pub struct Recorder {
    /// runs what this thread has recorded and somebody holds
    pub flush: fn() -> Result<()>,
    /// how long work on tensors of so many elements takes on a device, from recording to the number that is read
    pub time_of: fn(Device, usize) -> Result<Duration>,
}
/// The recorders that are linked into this program.
#[linkme::distributed_slice]
pub static RECORDERS: [Recorder];
fn flush() -> Result<()> {
    RECORDERS.iter().try_for_each(|r| (r.flush)())
}

impl Device {
    /// The CPU (feature `cpu`).
    ///
    /// # Errors
    /// The backend is not compiled in, or `ADAMANT_ISA` asks for what the CPU lacks.
    #[track_caller]
    pub fn cpu() -> Result<Device> {
        Device::open("cpu", 0)
    }
    /// CUDA device number n (feature `cuda`).
    ///
    /// # Errors
    /// The backend is not compiled in or finds no such device.
    #[track_caller]
    pub fn cuda(n: usize) -> Result<Device> {
        Device::open("cuda", n)
    }
    /// wgpu adapter number n (feature `wgpu`).
    ///
    /// # Errors
    /// The backend is not compiled in or finds no such adapter.
    #[track_caller]
    pub fn wgpu(n: usize) -> Result<Device> {
        Device::open("wgpu", n)
    }
    /// The reference interpreter: slow, plain, in f64, always there.
    pub fn reference() -> Device {
        *REFERENCE
    }
    /// The most capable device that is compiled in and present.
    ///
    /// # Errors
    /// None is.
    #[track_caller]
    pub fn auto() -> Result<Device> {
        Device::choose().map(|(device, _)| device)
    }
    /// What [`Device::auto`] gives, and why: which devices were looked at, in the order of preference. One that the host's
    /// processor only imitates is taken if there is no other.
    ///
    /// # Errors
    /// As [`Device::auto`].
    #[track_caller]
    pub fn choose() -> Result<(Device, String)> {
        let mut order: Vec<_> = BACKENDS.iter().collect();
        order.sort_by_key(|r| std::cmp::Reverse(r.preference));
        let (mut reasons, mut imitated) = (Vec::new(), None);
        for r in order {
            match Device::open(r.name, 0) {
                Ok(d) if (r.imitated)(d.backend()) => {
                    reasons.push(format!("{}: {} is imitated by the processor", r.name, d.info().name));
                    imitated.get_or_insert(d);
                }
                Ok(d) => {
                    reasons.push(format!("{d}: {}", d.info().name));
                    return Ok((d, reasons.join("; ")));
                }
                Err(e) => reasons.push(format!("{}: {}", r.name, e.kind())),
            }
        }
        if let Some(d) = imitated {
            return Ok((d, reasons.join("; ")));
        }
        if reasons.is_empty() {
            reasons.push("no backend is compiled in; enable the feature `cpu` of the crate `adamant`".into());
        }
        Err(Error::new("device", ErrorKind::DeviceAbsent(reasons.join("; "))))
    }
    /// Opens device `number` of a backend by name; the second call returns the same device.
    ///
    /// # Errors
    /// The backend is not compiled in or has no such device.
    #[track_caller]
    pub fn open(backend: &str, number: usize) -> Result<Device> {
        if backend == "reference" {
            return Ok(Device::reference());
        }
        let opened = NAMED.read().iter().find(|(name, n, _)| *name == backend && *n == number).and_then(|(.., device)| device.there());
        if let Some(device) = opened {
            return Ok(device);
        }
        let Some(r) = BACKENDS.iter().find(|r| r.name == backend) else {
            let known: Vec<_> = BACKENDS.iter().map(|r| r.name).collect();
            if !OURS.contains(&backend) {
                let what = format!("`{backend}` is no device; write auto, reference, {}, or what a linked backend calls itself ({known:?})", OURS.join(", "));
                return Err(Error::new("device", ErrorKind::Argument(what)));
            }
            return Err(Error::new(
                "device",
                ErrorKind::DeviceAbsent(match backend {
                    // There is no such feature yet.
                    "cuda" => format!("no backend `cuda` is compiled in (there are {known:?}), and this version of Adamant brings none"),
                    _ => format!("no backend `{backend}` is compiled in (there are {known:?}); enable its feature: adamant = {{ features = [\"{backend}\"] }}"),
                }),
            ));
        };
        let here = Origin::here();
        let opening = || guarded(|| format!("the {} backend, while it was opened,", r.name), || (r.open)(number).map(|b| Device::new(number, b, false)));
        Device::place(r.name, number).get(|| opening().flatten().map_err(|k| Error::at("device", k, here)))
    }
    /// A device of one's own: a context with its own threads, pool and limits.
    pub fn from_backend(backend: Box<dyn Backend>) -> Device {
        // It has no name, so that it never stands in for the shared device.
        Device::new(COUNT.load(Ordering::Relaxed) as usize, backend, false)
    }
    /// Where the device of this name and number is or will be.
    fn place(name: &'static str, number: usize) -> &'static FirstTouch<Device> {
        let mut named = NAMED.write();
        match named.iter().find(|(other, n, _)| *other == name && *n == number) {
            Some((.., device)) => device,
            None => {
                let device: &'static FirstTouch<Device> = Box::leak(Box::new(FirstTouch::new()));
                named.push((name, number, device));
                device
            }
        }
    }
    fn new(number: usize, backend: Box<dyn Backend>, is_reference: bool) -> Device {
        let index = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
        let backend = Guarded::new(backend);
        let device = Device(Box::leak(Box::new(Inner { index, number, backend, pool: Pool::default(), is_reference, openings: AtomicU32::new(0) })));
        ALL.write().push(device);
        device
    }
    /// The device that tensors are made on unless one is named: the thread's (see [`Device::scoped`]), else
    /// `ADAMANT_DEVICE`, else the CPU.
    ///
    /// # Errors
    /// There is no such device.
    #[track_caller]
    pub fn current() -> Result<Device> {
        if let Some(d) = DEFAULT.get() {
            return Ok(d);
        }
        let device = match std::env::var("ADAMANT_DEVICE") {
            Ok(name) => name.parse()?,
            Err(_) => Device::cpu()?,
        };
        DEFAULT.set(Some(device));
        Ok(device)
    }
    /// Makes this the thread's device while `f` runs.
    pub fn scoped<R>(self, f: impl FnOnce() -> R) -> R {
        struct Restore(Option<Device>);
        impl Drop for Restore {
            fn drop(&mut self) {
                DEFAULT.set(self.0);
            }
        }
        let _restore = Restore(DEFAULT.replace(Some(self)));
        f()
    }
    /// Makes this the thread's device from now on.
    pub fn make_current(self) {
        DEFAULT.set(Some(self));
    }
    /// Facts about the device.
    pub fn info(self) -> &'static DeviceInfo {
        self.0.backend.info()
    }
    /// f64, or f32 where the device has no f64: what numbers without a dtype of their own are computed in.
    pub fn widest_float(self) -> crate::DType {
        if self.info().dtypes.contains(&crate::DType::F64) { crate::DType::F64 } else { crate::DType::F32 }
    }
    /// What its memory pool has done.
    pub fn memory(self) -> MemoryStats {
        self.0.pool.stats()
    }
    /// Its memory pool.
    pub fn pool(self) -> &'static Pool {
        &self.0.pool
    }
    /// Its backend.
    pub fn backend(self) -> &'static dyn Backend {
        &self.0.backend
    }
    /// Runs what this thread has recorded and somebody holds, on whatever device, and waits until this device is done.
    ///
    /// # Errors
    /// Memory that could not be had, a lost device.
    #[track_caller]
    pub fn synchronize(self) -> Result<()> {
        let here = Origin::here();
        flush()?;
        self.0.backend.synchronize().map_err(|k| Error::at("synchronize", k, here))
    }
    /// Runs `f` and tells how long it took, with everything that it recorded: the device is synchronised before the clock is
    /// started and before it is stopped.
    ///
    /// ```
    /// # use adamant_runtime::Device;
    /// let (sum, time) = Device::reference().timed(|| (0..1000).sum::<u64>())?;
    /// assert!(sum == 499_500 && !time.is_zero());
    /// # Ok::<(), adamant_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Device::synchronize`]. A tensor that has failed tells when it is read.
    #[track_caller]
    pub fn timed<R>(self, f: impl FnOnce() -> R) -> Result<(R, Duration)> {
        self.synchronize()?;
        let begin = Instant::now();
        let result = f();
        self.synchronize()?;
        Ok((result, begin.elapsed()))
    }
    /// Opens a lost device anew, under the same handle. What was on it stays lost: tensors, cells and generators of before
    /// give the error that names the loss, and work that this thread has pending fails with it; new tensors are computed
    /// again, and cells that are set live on. Nothing happens to a device that is not lost.
    ///
    /// ```no_run
    /// # use adamant_runtime::{Device, ErrorKind};
    /// let device = Device::wgpu(0)?;
    /// if let Err(e) = device.synchronize()
    ///     && matches!(e.kind(), ErrorKind::DeviceLost(_))
    /// {
    ///     device.recover()?; // then load the last checkpoint
    /// }
    /// # Ok::<(), adamant_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// `DeviceAbsent`: it is not there any more, or another is in its place.
    #[track_caller]
    pub fn recover(self) -> Result<()> {
        let here = Origin::here();
        // What is pending here fails with the loss and does not stand before new work.
        if let Err(e) = flush()
            && !matches!(e.kind(), ErrorKind::DeviceLost(_))
        {
            return Err(e);
        }
        match self.0.backend.synchronize() {
            Err(ErrorKind::DeviceLost(_)) => {}
            other => return other.map_err(|k| Error::at("recover", k, here)),
        }
        self.0.backend.recover().map_err(|k| Error::at("recover", k, here))?;
        self.0.openings.fetch_add(1, Ordering::Relaxed);
        self.0.pool.trim();
        Ok(())
    }
    /// How often it was opened again: memory and plans of an earlier opening are not used.
    pub fn opening(self) -> u32 {
        self.0.openings.load(Ordering::Relaxed)
    }
    /// What the backend has counted since the device was opened (`pipelines`, `launches`, ...), by name.
    pub fn counters(self) -> Vec<(&'static str, u64)> {
        self.0.backend.counters()
    }
    /// Attaches a kernel for a composite, by name.
    ///
    /// # Errors
    /// The backend takes no such kernel.
    #[track_caller]
    pub fn register(self, composite: &'static str, kernel: Box<dyn std::any::Any + Send + Sync>) -> Result<()> {
        let here = Origin::here();
        self.0.backend.register(composite, kernel).map_err(|k| Error::at("register", k, here))
    }
    /// The device of this number, as ops name it.
    ///
    /// # Errors
    /// There is none.
    pub fn of_id(id: DeviceId) -> std::result::Result<Device, ErrorKind> {
        let found = ALL.read().iter().find(|d| d.0.index == id.0).copied();
        found.ok_or_else(|| ErrorKind::DeviceAbsent(format!("no device of this process has the number {}", id.0)))
    }
    /// The number that ops name it by.
    pub fn id(self) -> DeviceId {
        DeviceId(self.0.index)
    }
    /// A number that tells devices apart within this process.
    pub fn index(self) -> u32 {
        self.0.index
    }
    /// Is it the reference?
    pub fn is_reference(self) -> bool {
        self.0.is_reference
    }
}
impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        self.0.index == other.0.index
    }
}
impl Eq for Device {}
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.number {
            0 => f.write_str(self.info().backend),
            n => write!(f, "{}:{n}", self.info().backend),
        }
    }
}
impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
impl FromStr for Device {
    type Err = Error;
    #[track_caller]
    fn from_str(s: &str) -> Result<Device> {
        let (name, number) = match s.split_once(':') {
            None => (s, 0),
            Some((name, n)) => match n.parse() {
                Ok(number) => (name, number),
                Err(_) => return Err(Error::new("device", ErrorKind::Argument(format!("`{s}` is no device; write cpu, cuda, cuda:1, wgpu or auto")))),
            },
        };
        match name {
            "auto" => Device::auto(),
            _ => Device::open(name, number),
        }
    }
}

/// What is known of a tensor without its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meta {
    /// its shape
    pub shape: crate::Shape,
    /// its dtype
    pub dtype: crate::DType,
    /// its device
    pub device: Device,
}
/// Metas of an op's outputs.
pub type Metas = smallvec::SmallVec<[Meta; 3]>;
impl Meta {
    /// A type on a device.
    pub fn new(ty: crate::TensorType, device: Device) -> Meta {
        Meta { shape: ty.shape, dtype: ty.dtype, device }
    }
    /// Shape and dtype.
    pub fn ty(&self) -> crate::TensorType {
        crate::TensorType { shape: self.shape, dtype: self.dtype }
    }
    /// Bytes of its elements.
    pub fn bytes(&self) -> usize {
        self.shape.elements() * self.dtype.size()
    }
}
