//! Devices: which backend a tensor lives on. A `Device` is a copyable handle; an opened device stays for the
//! life of the program, so a buffer can never outlive it.
use crate::{
    DeviceId, Error, ErrorKind, Origin, Result,
    backend::{Asynchronous, Backend, DeviceInfo},
    buffer::{MemoryStats, Pool},
    execute::FrozenPlans,
    taint::Outstanding,
};
use parking_lot::RwLock;
use std::{
    fmt,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

mod measured;
mod open;

/// A handle on an opened device.
#[derive(Clone, Copy)]
pub struct Device(&'static Inner);
struct Inner {
    index: u32,
    number: usize,
    backend: Box<dyn Backend>,
    pool: Pool,
    is_reference: bool,
    is_asynchronous: bool,
    outstanding: Outstanding,
    frozen: FrozenPlans,
    /// how often it was opened again after a loss
    generations: AtomicU32,
}

/// All of them, each found by its index: of two threads that open devices at once the second to be numbered may come first. What
/// is here is never taken out.
static ALL: RwLock<Vec<Device>> = RwLock::new(Vec::new());
/// How many have been opened.
static COUNT: AtomicU32 = AtomicU32::new(0);
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
    /// A device that stays for the life of the program.
    fn new(number: usize, backend: Box<dyn Backend>, is_reference: bool) -> Device {
        let index = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
        let is_asynchronous = backend.asynchronous().is_some();
        let (pool, outstanding, frozen, generations) = (Pool::default(), Outstanding::default(), FrozenPlans::default(), AtomicU32::new(0));
        let device = Device(Box::leak(Box::new(Inner { index, number, backend, pool, is_reference, is_asynchronous, outstanding, frozen, generations })));
        ALL.write().push(device);
        device
    }
    /// Facts about the device.
    #[inline]
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
    #[inline]
    pub fn pool(self) -> &'static Pool {
        &self.0.pool
    }
    /// Its backend.
    #[inline]
    pub fn backend(self) -> &'static dyn Backend {
        &*self.0.backend
    }
    /// Does work on it go on after the call that handed it over?
    #[inline]
    pub fn is_asynchronous(self) -> bool {
        self.0.is_asynchronous
    }
    /// Its queues and events, where it has them.
    #[inline]
    pub fn asynchronous(self) -> Option<&'static dyn Asynchronous> {
        if self.0.is_asynchronous { self.0.backend.asynchronous() } else { None }
    }
    /// The runs that may have left cells unwritten and of which nobody knows it yet.
    pub(crate) fn outstanding(self) -> &'static Outstanding {
        &self.0.outstanding
    }
    /// The plans that it keeps as one piece, with memory of their own.
    pub fn frozen(self) -> &'static FrozenPlans {
        &self.0.frozen
    }
    /// Runs what this thread has recorded and somebody holds, on whatever device, and waits until this device is done.
    ///
    /// On an asynchronous device it also tells of steps that wrote no cell because of bad data, where no reader was told yet:
    /// the first one's error is returned, and all are told by that.
    ///
    /// # Errors
    /// Memory that could not be had, a lost device; the error of a step that wrote no cell.
    #[track_caller]
    pub fn synchronize(self) -> Result<()> {
        let here = Origin::here();
        flush()?;
        self.0.backend.synchronize().map_err(|k| Error::at("synchronize", k, here))?;
        self.0.outstanding.settle().map_or(Ok(()), Err)
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
        self.0.generations.fetch_add(1, Ordering::Relaxed);
        // What was under way is lost with all else, and each reader is told.
        drop(self.0.outstanding.settle());
        self.0.frozen.thaw();
        self.0.pool.trim();
        Ok(())
    }
    /// How often it was opened again: memory and plans of an earlier generation are not used.
    #[inline]
    pub fn generation(self) -> u32 {
        self.0.generations.load(Ordering::Relaxed)
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
    #[inline]
    pub fn id(self) -> DeviceId {
        DeviceId(self.0.index)
    }
    /// A number that tells devices apart within this process.
    #[inline]
    pub fn index(self) -> u32 {
        self.0.index
    }
    /// The one device of all; of none, nothing.
    ///
    /// ```
    /// use adamant_runtime::Device;
    /// let device = Device::reference();
    /// assert_eq!((Device::common([device, device])?, Device::common([])?), (Some(device), None));
    /// # Ok::<(), adamant_runtime::ErrorKind>(())
    /// ```
    ///
    /// # Errors
    /// `DeviceMismatch`, with the first and the first other one.
    #[inline]
    pub fn common(devices: impl IntoIterator<Item = Device>) -> std::result::Result<Option<Device>, ErrorKind> {
        let mut devices = devices.into_iter();
        let Some(first) = devices.next() else { return Ok(None) };
        match devices.find(|d| *d != first) {
            Some(other) => Err(ErrorKind::DeviceMismatch { left: first.to_string(), right: other.to_string() }),
            None => Ok(Some(first)),
        }
    }
    /// Is it the reference?
    #[inline]
    pub fn is_reference(self) -> bool {
        self.0.is_reference
    }
}
impl PartialEq for Device {
    #[inline]
    fn eq(&self, other: &Device) -> bool {
        std::ptr::eq(self.0, other.0)
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
impl From<Meta> for crate::TensorType {
    fn from(meta: Meta) -> crate::TensorType {
        meta.ty()
    }
}
impl From<Meta> for crate::PlacedType {
    fn from(meta: Meta) -> crate::PlacedType {
        crate::PlacedType { ty: meta.ty(), place: meta.device.id() }
    }
}
impl From<Device> for DeviceId {
    fn from(device: Device) -> DeviceId {
        device.id()
    }
}
/// Metas of an op's outputs.
pub type Metas = smallvec::SmallVec<[Meta; 3]>;
impl Meta {
    /// A type on a device.
    #[inline]
    pub fn new(ty: crate::TensorType, device: Device) -> Meta {
        Meta { shape: ty.shape, dtype: ty.dtype, device }
    }
    /// Shape and dtype.
    #[inline]
    pub fn ty(&self) -> crate::TensorType {
        crate::TensorType { shape: self.shape, dtype: self.dtype }
    }
    /// Bytes of its elements.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.shape.elements() * self.dtype.size()
    }
}
