//! Between devices: the same values elsewhere, and values of the host where a device copies from by itself.
use crate::{
    Device, DeviceId, Error, ErrorKind, Meta, Result, Tensor,
    backend::HostBytes,
    buffer::pinned_bytes,
    error::Origin,
    grad::{self, grad_enabled},
    op::{Arg, Op},
    record,
    value::Stored,
};

/// The same values on another device: read here, uploaded there; its gradient travels back.
pub(crate) fn transfer(x: &Tensor, to: Device, origin: Origin) -> Tensor {
    let meta = x.meta();
    let move_it = || -> Result<Tensor> {
        let bytes = match pinned(x) {
            Some(bytes) => bytes,
            None => Box::new(x.to_bytes()?),
        };
        let buffer = to.pool().filled(to, bytes).map_err(|k| Error::at("to", k, origin))?;
        Ok(moved(x, Meta { device: to, ..meta }, Stored::dense(buffer), origin))
    };
    move_it().unwrap_or_else(Tensor::failed)
}
/// A tensor of what was moved to a device, whose gradient travels back.
fn moved(x: &Tensor, meta: Meta, stored: Stored, origin: Origin) -> Tensor {
    let to = DeviceId(meta.device.index());
    let value = record::ready(meta, origin, stored);
    let is_kept = x.is_tracked() && grad_enabled();
    let tape = if is_kept { grad::record(Op::Transfer(to), Arg::None, &[x], std::slice::from_ref(&value), origin) } else { None };
    Tensor::from_value(value).with_tape(tape.map(|t| (t, 0)))
}
/// Its bytes where they lie, computed and good, if that is the whole of a buffer of pinned memory.
fn pinned(x: &Tensor) -> Option<HostBytes> {
    let meta = x.meta();
    let is_whole = |s: &&Stored| s.offset == 0 && s.is_clean() && s.is_dense(&meta.shape) && s.buffer.bytes() == meta.bytes();
    x.value().stored().filter(is_whole).and_then(|s| pinned_bytes(&s.buffer))
}

impl Tensor {
    /// Its values in memory of the host that the system does not move (pinned, page-locked), from which `device` copies by itself: then
    /// [`Tensor::to`] costs the host no copy, and it goes on at once. The tensor stays one of the host; its gradient flows through.
    /// Where it makes no difference to the device (the CPU, wgpu), or where it is pinned already, it is the tensor itself:
    /// [`Tensor::is_pinned`] says which.
    ///
    /// Pinned memory is taken from all programs of the machine, and given back when the last tensor of it is gone.
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor};
    /// # Device::reference().make_current();
    /// let x = Tensor::from_vec(vec![1.0f32, 2.0], [2]);
    /// let same = x.pin_memory(Device::reference())?;
    /// assert!(!same.is_pinned()?);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error this tensor carries, or that of its computation; a tensor that does not lie on the CPU (`Unsupported`); no memory to
    /// pin; a lost device.
    #[track_caller]
    pub fn pin_memory(&self, device: Device) -> Result<Tensor> {
        let origin = Origin::here();
        let (meta, error) = (self.try_meta()?, |k: ErrorKind| Error::at("pin_memory", k, origin));
        if meta.device == device || self.is_pinned()? {
            return Ok(self.clone());
        }
        let Some(mut memory) = device.backend().pin(meta.bytes()).map_err(error)? else { return Ok(self.clone()) };
        let bytes = self.to_bytes()?;
        match memory.bytes_mut().get_mut(..bytes.len()) {
            Some(to) => to.copy_from_slice(&bytes),
            None => return Err(error(ErrorKind::Internal("less pinned memory than was asked for".into()))),
        }
        let buffer = meta.device.pool().adopt_pinned(meta.device, memory.into()).map_err(error)?;
        Ok(moved(self, meta, Stored::dense(buffer), origin))
    }
    /// Does it lie in pinned memory? See [`Tensor::pin_memory`].
    ///
    /// # Errors
    /// The error this tensor carries.
    pub fn is_pinned(&self) -> Result<bool> {
        self.try_meta()?;
        Ok(self.value().stored().is_some_and(|s| s.buffer.read().as_deref().is_some_and(|m| m.pinned().is_some())))
    }
}
