//! A third party's backend, as an outside crate would write it: its own memory, its own loops, six families of kernels, known
//! by the name `dummy` to every program that links it. It is made to be read, not to be fast: one element at a time, on the
//! caller's thread. `docs/adding-a-backend.md` walks through it.
//!
//! Architecture invariant: of Adamant it knows `adamant-runtime`, and by that `adamant-ir`, and nothing else.
mod element;
mod kernels;

use adamant_runtime::{
    DType, ErrorKind, Op,
    backend::{Backend, Determinism, DeviceInfo, Memory, Support},
    kernel::{KernelKind, Step},
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{any::Any, collections::HashMap, sync::RwLock};

pub use kernels::{scalars, store_scalars};

/// A kernel for a composite: what [`Backend::register`] takes here.
pub type CompositeKernel = fn(&Step<'_>) -> Result<(), ErrorKind>;

/// Memory that only this backend can look into: core moves bytes by upload and download alone.
struct Words(Vec<u8>);
impl Memory for Words {
    fn bytes(&self) -> usize {
        self.0.len()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// The device.
pub struct Dummy {
    info: DeviceInfo,
    composites: RwLock<HashMap<&'static str, CompositeKernel>>,
    submitted: AtomicU64,
}
impl Default for Dummy {
    fn default() -> Dummy {
        let info = DeviceInfo {
            backend: "dummy",
            name: "nested loops".into(),
            parallelism: 1,
            details: vec![("memory", "its own".into())],
            determinism: Determinism::Bitwise,
            dtypes: &DType::COMPUTE,
            window_ops: 2048,
            window_bytes: 1 << 30,
        };
        Dummy { info, composites: RwLock::default(), submitted: AtomicU64::new(0) }
    }
}
impl Dummy {
    /// How many steps have been submitted.
    pub fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Relaxed)
    }
    fn composite(&self, name: &str) -> Option<CompositeKernel> {
        self.composites.read().ok()?.get(name).copied()
    }
}

impl Backend for Dummy {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }
    fn supports(&self, kernel: &KernelKind, _: &[DType]) -> Support {
        use KernelKind::*;
        match kernel {
            Map { .. } | Copy | Reduce { .. } | Matmul | Primitive(Op::Gather { .. }) | Scatter { .. } => Support::Native,
            Composite(c) if self.composite(c.name()).is_some() => Support::Native,
            // Core says all of these with the six above.
            Primitive(_) | Conv(_) | Product(_) | Composite(_) => Support::No,
        }
    }
    fn alloc(&self, bytes: usize) -> Result<Box<dyn Memory>, ErrorKind> {
        let mut words = Vec::new();
        words.try_reserve_exact(bytes).map_err(|_| ErrorKind::OutOfMemory { asked: bytes, in_use: 0, cap: None })?;
        // Nothing that core may rely on, so that reading what was never written shows.
        words.resize(bytes, 0xA5);
        Ok(Box::new(Words(words)))
    }
    fn upload(&self, to: &mut dyn Memory, offset: usize, from: &[u8]) -> Result<(), ErrorKind> {
        let to = words_mut(to)?.get_mut(offset..).and_then(|rest| rest.get_mut(..from.len())).ok_or_else(outside)?;
        to.copy_from_slice(from);
        Ok(())
    }
    fn download(&self, from: &dyn Memory, offset: usize, to: &mut [u8]) -> Result<(), ErrorKind> {
        let from = words(from)?.get(offset..).and_then(|rest| rest.get(..to.len())).ok_or_else(outside)?;
        to.copy_from_slice(from);
        Ok(())
    }
    fn submit(&self, steps: &[Step<'_>]) -> Result<(), ErrorKind> {
        for step in steps {
            self.submitted.fetch_add(1, Ordering::Relaxed);
            let attached = if let KernelKind::Composite(c) = &step.kernel.kind { self.composite(c.name()) } else { None };
            attached.unwrap_or(kernels::run)(step)?;
        }
        Ok(())
    }
    fn register(&self, composite: &'static str, kernel: Box<dyn Any + Send + Sync>) -> Result<(), ErrorKind> {
        let kernel = kernel.downcast::<CompositeKernel>().map_err(|_| ErrorKind::Argument("a kernel here is a dummy_backend::CompositeKernel".into()))?;
        let mut composites = self.composites.write().map_err(|_| ErrorKind::Internal("a registration panicked".into()))?;
        composites.insert(composite, *kernel);
        Ok(())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn words(memory: &dyn Memory) -> Result<&[u8], ErrorKind> {
    memory.as_any().downcast_ref::<Words>().map(|m| &*m.0).ok_or_else(|| ErrorKind::Internal("memory of another backend".into()))
}
fn words_mut(memory: &mut dyn Memory) -> Result<&mut [u8], ErrorKind> {
    memory.as_any_mut().downcast_mut::<Words>().map(|m| &mut *m.0).ok_or_else(|| ErrorKind::Internal("memory of another backend".into()))
}
fn outside() -> ErrorKind {
    ErrorKind::Internal("an element outside of its buffer".into())
}

// The entry stands in a section of its own, which the compiler counts as unsafe. `Device::auto` prefers every other backend.
#[allow(unsafe_code)]
mod registration {
    use super::*;
    adamant_runtime::register_backend!(DUMMY, "dummy", 1, |number| match number {
        0 => Ok(Box::new(Dummy::default())),
        n => Err(ErrorKind::DeviceAbsent(format!("there is one dummy device, number 0, and no number {n}"))),
    });
}
