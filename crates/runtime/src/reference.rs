//! The reference as a device, `Device::reference()`: slow, and always there. What it computes is the meaning in plain f64.
use crate::{
    DType, ErrorKind, HostVec,
    backend::{Backend, Determinism, DeviceInfo, HostMemory, Memory, Support},
    kernel::{KernelKind, Step},
};
pub use adamant_ir::reference::*;
use std::any::Any;

/// The reference as a device. Windows are run op by op by the scheduler through [`run`]; it has no kernels.
pub struct ReferenceBackend(DeviceInfo);
impl Default for ReferenceBackend {
    fn default() -> Self {
        ReferenceBackend::new()
    }
}
impl ReferenceBackend {
    /// The backend.
    pub fn new() -> ReferenceBackend {
        ReferenceBackend(DeviceInfo {
            backend: "reference",
            name: "plain f64 interpreter".into(),
            parallelism: 1,
            details: Vec::new(),
            determinism: Determinism::Bitwise,
            dtypes: &DType::COMPUTE,
            window_ops: 2048,
            window_bytes: 1 << 30,
        })
    }
}
impl Backend for ReferenceBackend {
    fn info(&self) -> &DeviceInfo {
        &self.0
    }
    fn supports(&self, _: &KernelKind, _: &[DType]) -> Support {
        Support::No
    }
    fn alloc(&self, bytes: usize) -> Result<Box<dyn Memory>, ErrorKind> {
        let data = bytemuck::allocation::try_zeroed_vec::<u8>(bytes).map_err(|()| ErrorKind::OutOfMemory { asked: bytes, in_use: 0, cap: None })?;
        Ok(Box::new(HostMemory(data)))
    }
    fn adopt(&self, data: HostVec) -> Result<Box<dyn Memory>, ErrorKind> {
        Ok(Box::new(HostMemory(data.bytes().to_vec())))
    }
    fn upload(&self, to: &mut dyn Memory, offset: usize, from: &[u8]) -> Result<(), ErrorKind> {
        let to = to.as_any_mut().downcast_mut::<HostMemory>().and_then(|m| m.0.get_mut(offset..offset + from.len()));
        to.map(|t| t.copy_from_slice(from)).ok_or_else(|| ErrorKind::Internal("upload out of bounds".into()))
    }
    fn download(&self, from: &dyn Memory, offset: usize, to: &mut [u8]) -> Result<(), ErrorKind> {
        let from = from.host().and_then(|b| b.get(offset..offset + to.len()));
        from.map(|f| to.copy_from_slice(f)).ok_or_else(|| ErrorKind::Internal("download out of bounds".into()))
    }
    fn submit(&self, _: &[Step<'_>]) -> Result<(), ErrorKind> {
        Err(ErrorKind::Internal("the reference has no kernels".into()))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
