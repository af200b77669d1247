//! Opening devices: by name and number, the best that is there, the thread's own.
use super::{COUNT, Device};
use crate::{
    Error, ErrorKind, Origin, Result,
    backend::{BACKENDS, Backend, Guarded},
    first_touch::FirstTouch,
    foreign::guarded,
    reference::ReferenceBackend,
    scope,
};
use parking_lot::RwLock;
use std::{
    cell::Cell,
    str::FromStr,
    sync::{LazyLock, atomic::Ordering},
};

/// The devices that were asked for by name and number, in the order of asking: few, so that looking through them costs
/// nanoseconds. What is here is never taken out.
static NAMED: RwLock<Vec<(&'static str, usize, &'static FirstTouch<Device>)>> = RwLock::new(Vec::new());
static REFERENCE: LazyLock<Device> = LazyLock::new(|| Device::new(0, Box::new(ReferenceBackend::new()), true));
/// The backends that have a feature of the facade.
const OURS: [&str; 3] = ["cpu", "cuda", "wgpu"];
thread_local! {
    static DEFAULT: Cell<Option<Device>> = const { Cell::new(None) };
}

impl Device {
    /// The CPU (feature `cpu`).
    ///
    /// # Errors
    /// The backend is not compiled in, or `ADAMANT_ISA` asks for what the CPU lacks.
    #[track_caller]
    pub fn cpu() -> Result<Device> {
        let _call = scope::call("cpu");
        Device::open("cpu", 0)
    }
    /// CUDA device number n, as the driver counts (feature `cuda`).
    ///
    /// # Errors
    /// The backend is not compiled in or finds no such device.
    #[track_caller]
    pub fn cuda(n: usize) -> Result<Device> {
        let _call = scope::call("cuda");
        Device::open("cuda", n)
    }
    /// wgpu adapter number n (feature `wgpu`).
    ///
    /// # Errors
    /// The backend is not compiled in or finds no such adapter.
    #[track_caller]
    pub fn wgpu(n: usize) -> Result<Device> {
        let _call = scope::call("wgpu");
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
        let _call = scope::call("auto");
        Device::choose().map(|(device, _)| device)
    }
    /// What [`Device::auto`] gives, and why: which devices were looked at, in the order of preference. One that the host's
    /// processor runs (a software adapter) is taken if there is no other.
    ///
    /// # Errors
    /// As [`Device::auto`].
    #[track_caller]
    pub fn choose() -> Result<(Device, String)> {
        let mut order: Vec<_> = BACKENDS.iter().collect();
        order.sort_by_key(|r| std::cmp::Reverse(r.preference));
        let (mut reasons, mut software) = (Vec::new(), None);
        for r in order {
            match Device::open(r.name, 0) {
                Ok(d) if (r.is_software_adapter)(d.backend()) => {
                    reasons.push(format!("{}: {} is a software adapter, which the processor runs", r.name, d.info().name));
                    software.get_or_insert(d);
                }
                Ok(d) => {
                    reasons.push(format!("{d}: {}", d.info().name));
                    return Ok((d, reasons.join("; ")));
                }
                Err(e) => reasons.push(format!("{}: {}", r.name, e.kind())),
            }
        }
        if let Some(d) = software {
            return Ok((d, reasons.join("; ")));
        }
        if reasons.is_empty() {
            reasons.push("no backend is compiled in; enable the feature `cpu` of the crate `adamant`".into());
        }
        Err(Error::new("choose", ErrorKind::DeviceAbsent(reasons.join("; "))))
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
                return Err(Error::new("open", ErrorKind::Argument(what)));
            }
            return Err(Error::new(
                "open",
                ErrorKind::DeviceAbsent(format!(
                    "no backend `{backend}` is compiled in (there are {known:?}); enable its feature: adamant = {{ features = [\"{backend}\"] }}"
                )),
            ));
        };
        let here = Origin::here();
        let opening = || guarded(|| format!("the {} backend, while it was opened,", r.name), || (r.open)(number).map(|b| Device::new(number, guard(b), false)));
        Device::place(r.name, number).get(|| opening().flatten().map_err(|k| Error::at("open", k, here)))
    }
    /// A device of one's own: a context with its own threads, pool and limits.
    pub fn from_backend(backend: Box<dyn Backend>) -> Device {
        // It has no name, so that it never stands in for the shared device.
        Device::new(COUNT.load(Ordering::Relaxed) as usize, guard(backend), false)
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
    /// The thread's device, if one has been asked for or made so.
    pub fn of_thread() -> Option<Device> {
        DEFAULT.get()
    }
    /// Makes this what [`Device::of_thread`] gives.
    pub fn set_of_thread(device: Option<Device>) {
        DEFAULT.set(device);
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
}
/// A backend whose panics are errors.
fn guard(backend: Box<dyn Backend>) -> Box<dyn Backend> {
    Box::new(Guarded::new(backend))
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
