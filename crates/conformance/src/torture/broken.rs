//! A backend that panics, at any call of any method: the work that asked for it fails with an error, cells are as before, and
//! the device goes on.
use crate::{plain, random::Random};
use adamant_core::{
    Cell, Composite, DType, Device, ErrorKind, HostVec, Result, Tensor,
    backend::{Backend, DeviceInfo, Memory, ReadBack, Support},
    kernel::{KernelKind, Step},
    step,
};
use std::{
    any::Any,
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

/// The methods in which it may panic.
const METHODS: [&str; 9] = ["supports", "alloc", "adopt", "upload", "download", "read_back", "submit", "synchronize", "thread"];
/// Which call panics: a method by its number and how many calls of it from now; 0 calls: none.
#[derive(Default)]
struct Fuse {
    method: AtomicUsize,
    calls: AtomicUsize,
    burnt: AtomicUsize,
}
impl Fuse {
    fn pass(&self, method: &str) {
        if METHODS[self.method.load(SeqCst)] == method && self.calls.load(SeqCst) > 0 && self.calls.fetch_sub(1, SeqCst) == 1 {
            self.burnt.fetch_add(1, SeqCst);
            resume_unwind(Box::new("planted"));
        }
    }
    fn light(&self, method: usize, calls: usize) {
        self.method.store(method, SeqCst);
        self.burnt.store(0, SeqCst);
        self.calls.store(calls, SeqCst);
    }
}
struct Breaking {
    inner: Box<dyn Backend>,
    fuse: Arc<Fuse>,
}
impl Backend for Breaking {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }
    fn supports(&self, kernel: &KernelKind, dtypes: &[DType]) -> Support {
        self.fuse.pass("supports");
        self.inner.supports(kernel, dtypes)
    }
    fn takes_rows(&self, composite: &dyn Composite) -> bool {
        self.inner.takes_rows(composite)
    }
    fn alloc(&self, bytes: usize) -> std::result::Result<Box<dyn Memory>, ErrorKind> {
        self.fuse.pass("alloc");
        self.inner.alloc(bytes)
    }
    fn adopt(&self, data: HostVec) -> std::result::Result<Box<dyn Memory>, ErrorKind> {
        self.fuse.pass("adopt");
        self.inner.adopt(data)
    }
    fn upload(&self, to: &mut dyn Memory, offset: usize, from: &[u8]) -> std::result::Result<(), ErrorKind> {
        self.fuse.pass("upload");
        self.inner.upload(to, offset, from)
    }
    fn download(&self, from: &dyn Memory, offset: usize, to: &mut [u8]) -> std::result::Result<(), ErrorKind> {
        self.fuse.pass("download");
        self.inner.download(from, offset, to)
    }
    fn read_back(&self, from: &dyn Memory, offset: usize, bytes: usize) -> std::result::Result<Box<dyn ReadBack>, ErrorKind> {
        self.fuse.pass("read_back");
        self.inner.read_back(from, offset, bytes)
    }
    fn submit(&self, steps: &[Step<'_>]) -> std::result::Result<(), ErrorKind> {
        // One by one, so that some have run when one panics; "thread": on a thread of the backend's own.
        steps.iter().try_for_each(|one| {
            self.fuse.pass("submit");
            let on_a_thread = || std::thread::scope(|s| s.spawn(|| self.fuse.pass("thread")).join());
            on_a_thread().unwrap_or_else(|panic| resume_unwind(panic));
            self.inner.submit(std::slice::from_ref(one))
        })
    }
    fn synchronize(&self) -> std::result::Result<(), ErrorKind> {
        self.fuse.pass("synchronize");
        self.inner.synchronize()
    }
    fn as_any(&self) -> &dyn Any {
        self.inner.as_any()
    }
}

type Rows = Vec<Vec<f32>>;
fn rows(cells: &[Cell]) -> Result<Rows> {
    cells.iter().map(|c| c.detached().to_vec()).collect()
}
/// What a training does: data comes, is computed with, is looked at, and cells are written in one step.
fn work(device: Device, cells: &[Cell], random: &mut Random) -> Result<()> {
    let x = Tensor::from_vec_on((0..9).map(|k| k as f32 * 0.25).collect(), [3, 3], device);
    let looks = random.below(3);
    step(|| {
        for (k, c) in cells.iter().enumerate() {
            let y = c.detached().reshape([3, 1]);
            let moved = x.matmul(&y).reshape([3]) * 0.125f32 + (k as f32);
            if k < looks {
                moved.sum(..).item::<f32>()?;
            }
            if k == 1 && looks == 1 {
                moved.read_later::<f32>()?.wait()?;
            }
            step(|| c.set(&moved))?;
        }
        device.synchronize()
    })
}
/// A panic at a call that the seed draws.
///
/// # Errors
/// What was seen that should not have been.
pub fn case(seed: u64) -> std::result::Result<bool, String> {
    let mut random = Random::new(seed);
    let fuse = Arc::new(Fuse::default());
    let device = Device::from_backend(Box::new(Breaking { inner: plain::backend(2048, usize::MAX), fuse: fuse.clone() }));
    let told = |e: adamant_core::Error| e.to_string();
    let cells = (0..4).map(|k| Cell::new(&Tensor::from_vec_on(vec![k as f32; 3], [3], device), false)).collect::<Result<Vec<_>>>().map_err(told)?;
    let before = rows(&cells).map_err(told)?;
    let (method, calls) = (random.below(METHODS.len()), 1 + random.below(12));
    let place = format!("seed {seed}: call {calls} of `{}`", METHODS[method]);
    let shape = random.clone();
    fuse.light(method, calls);
    let done = work(device, &cells, &mut random);
    let burnt = fuse.burnt.load(SeqCst) > 0;
    fuse.light(0, 0);
    let now = rows(&cells).map_err(|e| format!("{place}: a cell cannot be read: {e}"))?;
    match &done {
        Ok(()) if burnt => return Err(format!("{place} panicked and nobody was told")),
        Err(e) if e.kind().word() != "panic" => return Err(format!("{place}: an error of kind {}: {e}", e.kind().word())),
        Err(_) if now != before => return Err(format!("{place}: cells are {now:?} and were {before:?}")),
        _ => {}
    }
    if done.is_err() {
        work(device, &cells, &mut shape.clone()).map_err(|e| format!("{place}: the device is of no use any more: {e}"))?;
        let after = rows(&cells).map_err(told)?;
        if after == before {
            return Err(format!("{place}: the next step changed nothing"));
        }
    }
    Ok(burnt)
}
