//! What a device must do. Object-safe and small: shapes are checked and fusion is decided before a backend
//! sees anything; it reports only what core could not foresee.
//!
//! A backend whose calls return when all is done, as on the host, implements [`Backend`] alone. One whose device goes on by
//! itself also says what it is [`Asynchronous`] with: queues, events and fault words.
use crate::{
    Composite, DType, ErrorKind, HostVec,
    kernel::{KernelKind, Step},
};
use std::{any::Any, sync::Arc, time::Instant};

mod asynchronous;
mod guarded;
pub use asynchronous::{
    Asynchronous, Event, FreezeRule, FrozenRun, FrozenSteps, Guard, HostBytes, Inherited, MemoryCopy, Queue, Refused, Reports, When, Words,
};
pub use guarded::Guarded;

/// What device memory begins at a multiple of, in bytes, where the host sees it: a line of the caches.
pub const ALIGNMENT: usize = 64;

/// What rows that are no dense operand begin at a multiple of, in bytes from the beginning of the operand.
pub const ROW_ALIGNMENT: usize = 16;

/// Device memory. Core owns it through [`crate::buffer::Buffer`] and pools it.
pub trait Memory: Any + Send + Sync {
    /// Its size.
    fn bytes(&self) -> usize;
    /// The bytes, where the host can see them.
    fn host(&self) -> Option<&[u8]> {
        None
    }
    /// Gives back the vector that was adopted, if it was one, and leaves nothing.
    fn take_host(&mut self) -> Option<HostVec> {
        None
    }
    /// The pinned memory that it is, where it is that: see [`Backend::pin`].
    fn pinned(&self) -> Option<Arc<dyn PinnedMemory>> {
        None
    }
    /// Where it lies on the device, where the device can say: two that are held at once lie at different addresses. Steps are
    /// frozen only over memory that has one.
    fn address(&self) -> Option<u64> {
        None
    }
    /// For the backend that made it.
    fn as_any(&self) -> &dyn Any;
    /// For the backend that made it.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

/// Memory of the host whose pages the system does not move (pinned, page-locked), so that a device copies from it by itself. Whoever
/// holds it may read it; it is written by its only owner.
pub trait PinnedMemory: Send + Sync {
    /// The bytes.
    fn bytes(&self) -> &[u8];
    /// The bytes, to write.
    fn bytes_mut(&mut self) -> &mut [u8];
}

/// Memory of a backend that keeps its bytes in a vector and is in no hurry: no alignment, no huge pages.
///
/// ```
/// use adamant_runtime::backend::{HostMemory, Memory};
/// let memory = HostMemory(vec![0; 8]);
/// assert_eq!((memory.bytes(), memory.host()), (8, Some(&[0; 8][..])));
/// ```
pub struct HostMemory(pub Vec<u8>);
impl Memory for HostMemory {
    fn bytes(&self) -> usize {
        self.0.len()
    }
    fn host(&self) -> Option<&[u8]> {
        Some(&self.0)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// Bytes on their way to the host. Dropping it gives them up, waits for nothing and never fails.
pub trait ReadBack: Send + Sync {
    /// Would `wait` return at once?
    fn is_ready(&self) -> bool;
    /// Waits for the bytes: as many as were asked for.
    ///
    /// # Errors
    /// A lost device.
    fn wait(self: Box<Self>, to: &mut [u8]) -> Result<(), ErrorKind>;
}
/// Bytes that are there.
struct Copied(Vec<u8>);
impl ReadBack for Copied {
    fn is_ready(&self) -> bool {
        true
    }
    fn wait(self: Box<Self>, to: &mut [u8]) -> Result<(), ErrorKind> {
        if self.0.len() != to.len() {
            return Err(ErrorKind::Internal("a read of another length".into()));
        }
        to.copy_from_slice(&self.0);
        Ok(())
    }
}

/// Can a backend run a kernel?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Support {
    /// it runs it
    Native,
    /// it does not; core inlines a composite's body, lowers the kernel, or says so
    No,
}

/// What bits a backend promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Determinism {
    /// the same bits for any number of threads, any batch and any fusion
    Bitwise,
    /// the same bits run to run
    RunToRun,
    /// no promise
    None,
}

/// Facts about a device.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// the backend's name: `cpu`, `cuda`, `wgpu`, `reference`
    pub backend: &'static str,
    /// what the hardware calls itself
    pub name: String,
    /// threads or compute units
    pub parallelism: usize,
    /// what was chosen at run time (the instruction set, the matrix library)
    pub details: Vec<(&'static str, String)>,
    /// what bits are promised
    pub determinism: Determinism,
    /// dtypes with arithmetic
    pub dtypes: &'static [DType],
    /// pending ops after which a window closes
    pub window_ops: usize,
    /// pending bytes after which a window closes
    pub window_bytes: usize,
}

/// A device. Implemented by backends, called by core only.
pub trait Backend: Send + Sync + 'static {
    /// Facts.
    fn info(&self) -> &DeviceInfo;
    /// Can it run this kernel on these dtypes (inputs, then outputs)?
    fn supports(&self, kernel: &KernelKind, dtypes: &[DType]) -> Support;
    /// Of a composite that it runs: does its kernel take the operands of [`Composite::rows`] wherever their rows lie, each of them
    /// from a multiple of [`ROW_ALIGNMENT`] on? Else they are dense.
    fn takes_rows(&self, _composite: &dyn Composite) -> bool {
        false
    }
    /// Zeroed or arbitrary memory of at least `bytes`, aligned to [`ALIGNMENT`].
    ///
    /// # Errors
    /// `OutOfMemory`; nothing else has happened.
    fn alloc(&self, bytes: usize) -> Result<Box<dyn Memory>, ErrorKind>;
    /// Takes over a host vector, without a copy where the device can.
    ///
    /// # Errors
    /// As `alloc`.
    fn adopt(&self, data: HostVec) -> Result<Box<dyn Memory>, ErrorKind> {
        let mut memory = self.alloc(data.bytes().len())?;
        self.upload(&mut *memory, 0, data.bytes())?;
        Ok(memory)
    }
    /// Memory of the host that this device copies from without the host's help; none where it makes no difference to the device.
    ///
    /// # Errors
    /// As `alloc`.
    fn pin(&self, _bytes: usize) -> Result<Option<Box<dyn PinnedMemory>>, ErrorKind> {
        Ok(None)
    }
    /// Takes over memory that another device pinned. Only a device whose memory is the host's can.
    ///
    /// # Errors
    /// `Unsupported`.
    fn adopt_pinned(&self, _memory: Arc<dyn PinnedMemory>) -> Result<Box<dyn Memory>, ErrorKind> {
        Err(ErrorKind::Unsupported { backend: self.info().backend.into(), what: "pinned memory; only tensors of the CPU are pinned".into() })
    }
    /// Copies host bytes into memory.
    ///
    /// # Errors
    /// A lost device.
    fn upload(&self, to: &mut dyn Memory, offset: usize, from: &[u8]) -> Result<(), ErrorKind>;
    /// Copies memory to the host.
    ///
    /// # Errors
    /// A lost device.
    fn download(&self, from: &dyn Memory, offset: usize, to: &mut [u8]) -> Result<(), ErrorKind>;
    /// Begins to copy `bytes` from `offset` on to the host, as they are behind everything that was submitted so far, and does
    /// not wait. Where results are there when `submit` returns, as on the host, the copy is made at once.
    ///
    /// # Errors
    /// A lost device; memory for the copy.
    fn read_back(&self, from: &dyn Memory, offset: usize, bytes: usize) -> Result<Box<dyn ReadBack>, ErrorKind> {
        let out_of_memory = |_| ErrorKind::OutOfMemory { asked: bytes, in_use: 0, cap: None };
        let mut copy = Vec::new();
        copy.try_reserve_exact(bytes).map_err(out_of_memory)?;
        copy.resize(bytes, 0);
        self.download(from, offset, &mut copy)?;
        Ok(Box::new(Copied(copy)))
    }
    /// Runs the steps in order and returns when their results may be read by later steps.
    ///
    /// # Errors
    /// A lost device or an internal error; data errors go to each step's fault word.
    fn submit(&self, steps: &[Step<'_>]) -> Result<(), ErrorKind>;
    /// As `submit`, and tells when each step began and ended: `ended(number, begin, end)`. A backend whose steps run after
    /// `submit` returns takes the times from its device.
    ///
    /// # Errors
    /// As `submit`; steps that had ended are told.
    fn submit_timed(&self, steps: &[Step<'_>], ended: &mut dyn FnMut(usize, Instant, Instant)) -> Result<(), ErrorKind> {
        for (k, step) in steps.iter().enumerate() {
            let begin = Instant::now();
            self.submit(std::slice::from_ref(step))?;
            ended(k, begin, Instant::now());
        }
        Ok(())
    }
    /// May the new value of a cell be computed where the old one lies? Then a step that panics or fails midway leaves neither,
    /// and reading the cell is an error from then on. By default a step of an optimizer gets memory of its own and the old value
    /// stays until all of it has run, so that cells are as before whatever a kernel does. To return `true` saves that memory,
    /// and is right where kernels are known not to fail once they have begun.
    fn updates_in_place(&self) -> bool {
        false
    }
    /// Does it keep memory that is dropped for later by itself, and bear that work which uses it is still under way? Then the pool
    /// drops what is given up at once and keeps next to nothing: what is free is the backend's to put together.
    fn keeps_memory(&self) -> bool {
        false
    }
    /// Its queues and events, where work goes on after the call that handed it over. Then the steps of plans come by these.
    fn asynchronous(&self) -> Option<&dyn Asynchronous> {
        None
    }
    /// Waits until everything that was submitted is done. Where `submit` returns after its last step, as on the host, there is
    /// nothing to wait for.
    ///
    /// # Errors
    /// A lost device.
    fn synchronize(&self) -> Result<(), ErrorKind> {
        Ok(())
    }
    /// Opens a lost device anew. Memory and kernels of before stay lost: each call with them says so. Nothing happens where
    /// the device is not lost, as on the host.
    ///
    /// # Errors
    /// `DeviceAbsent`: it is not there any more, or something else is in its place.
    fn recover(&self) -> Result<(), ErrorKind> {
        Ok(())
    }
    /// What it has counted since it was opened, by name: kernels compiled, launches, waits for the device.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
    /// Attaches a kernel for a composite, by the composite's name. What the kernel must be is the backend's affair.
    ///
    /// # Errors
    /// The backend takes no kernels, or not of this type.
    fn register(&self, composite: &'static str, _kernel: Box<dyn Any + Send + Sync>) -> Result<(), ErrorKind> {
        Err(ErrorKind::Unsupported { backend: self.info().backend.into(), what: format!("a kernel for {composite} from outside") })
    }
    /// For callers that know the backend.
    fn as_any(&self) -> &dyn Any;
}

/// A backend that is linked into the program: how `"cpu".parse::<Device>()` finds it.
pub struct Registration {
    /// the backend's name
    pub name: &'static str,
    /// opens device number n
    pub open: fn(usize) -> Result<Box<dyn Backend>, ErrorKind>,
    /// larger is preferred by `Device::auto`
    pub preference: u32,
    /// is this device of it a software adapter, which the host's processor runs? Then `Device::auto` takes any other before it
    pub is_software_adapter: fn(&dyn Backend) -> bool,
}
/// The backends linked into this program. A backend crate adds itself with [`crate::register_backend!`].
#[linkme::distributed_slice]
pub static BACKENDS: [Registration];

/// Makes a backend known by name: `register_backend!(MY, "mine", 10, |n| open(n))`. A fifth argument tells of an opened
/// device whether it is a software adapter, which the host's processor runs.
#[macro_export]
macro_rules! register_backend {
    ($id:ident, $name:literal, $preference:literal, $open:expr) => {
        $crate::register_backend!($id, $name, $preference, $open, |_| false);
    };
    ($id:ident, $name:literal, $preference:literal, $open:expr, $software:expr) => {
        #[$crate::linkme::distributed_slice($crate::backend::BACKENDS)]
        #[linkme(crate = $crate::linkme)]
        static $id: $crate::backend::Registration =
            $crate::backend::Registration { name: $name, open: $open, preference: $preference, is_software_adapter: $software };
    };
}
