//! Reading and checking values: elements out to the host, comparisons of whole tensors, the search for what is not finite, small safe forms.
use super::{
    Operand, Tensor,
    compose::{compose, compose1},
};
use crate::{DType, Device, Element, Error, ErrorKind, Meta, Origin, Result, composite::finite::AllFinite, record, value::Stored};
use std::sync::Arc;

impl Tensor {
    /// The elements in row-major order.
    ///
    /// # Errors
    /// As [`Tensor::materialize`]; another dtype than `T`.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let meta = self.try_meta()?;
        if meta.dtype != T::DTYPE {
            return Err(Error::new("to_vec", ErrorKind::DtypeMismatch { left: meta.dtype, right: T::DTYPE }));
        }
        let here = Origin::here();
        let out = host_buffer::<T>(meta.shape.elements(), &meta).map_err(|k| Error::at("to_vec", k, here))?;
        if meta.dtype != DType::Bool {
            let mut out = T::into_host(out);
            self.read_into(out.bytes_mut(), here)?;
            return T::from_host(out).ok_or_else(|| Error::at("to_vec", ErrorKind::Internal("a vector of another type".into()), here));
        }
        // Not every byte is a bool: those that come from memory are checked.
        let (mut out, bytes) = (out, self.to_bytes()?);
        match bytemuck::checked::try_cast_slice::<u8, T>(&bytes) {
            Ok(elements) => out.copy_from_slice(elements),
            Err(e) => return Err(Error::at("to_vec", ErrorKind::Internal(e.to_string()), here)),
        }
        Ok(out)
    }
    /// As [`Tensor::to_vec`], but the vector itself where the tensor was made of one ([`Tensor::from_vec`]), lies in it in
    /// row-major order, and nothing else holds it.
    ///
    /// # Errors
    /// As [`Tensor::to_vec`].
    #[track_caller]
    pub fn into_vec<T: Element>(self) -> Result<Vec<T>> {
        let meta = self.try_meta()?;
        let whole = |s: &Stored| s.is_clean() && s.offset == 0 && s.is_dense(&meta.shape) && s.buffer.bytes() == meta.bytes();
        let Some(stored) = self.value.stored().cloned().filter(|s| whole(s) && meta.dtype == T::DTYPE && meta.dtype != DType::Bool) else {
            return self.to_vec();
        };
        let here = Origin::here();
        drop(self);
        let buffer = stored.buffer;
        // With the tensor gone, the buffer has one holder left or is shared.
        match Arc::try_unwrap(buffer).map(crate::buffer::Buffer::into_host) {
            Ok(Ok(data)) => T::from_host(data).ok_or_else(|| Error::at("into_vec", ErrorKind::Internal("a vector of another type".into()), here)),
            Ok(Err(buffer)) => Tensor::from_value(record::ready(meta, here, Stored::dense(Arc::new(buffer)))).to_vec(),
            Err(buffer) => Tensor::from_value(record::ready(meta, here, Stored::dense(buffer))).to_vec(),
        }
    }
    /// The elements' bytes in row-major order, native byte order.
    ///
    /// # Errors
    /// As [`Tensor::materialize`]; memory for the copy.
    #[track_caller]
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let here = Origin::here();
        let meta = self.try_meta()?;
        let mut out = host_buffer(meta.bytes(), &meta).map_err(|k| Error::at("read", k, here))?;
        self.read_into(&mut out, here)?;
        Ok(out)
    }
    /// Computes the value and copies its elements, in row-major order, over `out`, which has their number of bytes.
    fn read_into(&self, out: &mut [u8], here: Origin) -> Result<()> {
        let error = |k| Error::at("read", k, here);
        // The bytes come behind what is to be known of them: one wait is for both.
        self.begin().map_err(|e| if matches!(e.kind(), ErrorKind::Capturing) { error(ErrorKind::Capturing) } else { e })?;
        let stored = self.value.stored().ok_or_else(|| error(ErrorKind::Internal("a value that was evaluated is not there".into())))?;
        let meta = self.value.meta;
        let size = meta.dtype.size();
        if out.is_empty() {
            return self.is_good();
        }
        if stored.is_dense(&meta.shape) {
            stored.buffer.download(stored.offset * size, out).map_err(error)?;
            return if self.value.is_in_memory() { Ok(()) } else { self.is_good() };
        }
        let mut places = out.chunks_exact_mut(size);
        let mut scatter = |whole: &[u8]| {
            stored.layout(&meta.shape).for_each_offset(&meta.shape, |at| {
                if let Some(place) = places.next() {
                    place.copy_from_slice(&whole[at * size..(at + 1) * size]);
                }
            });
        };
        if let Some(whole) = stored.buffer.read().as_deref().and_then(|m| m.host()) {
            scatter(whole);
            return self.is_good();
        }
        let mut whole = host_buffer(stored.buffer.bytes(), &meta).map_err(error)?;
        stored.buffer.download(0, &mut whole).map_err(error)?;
        scatter(&whole);
        self.is_good()
    }
    /// The elements in row-major order, converted to `T`'s dtype if need be: by the device, or on the host where the device
    /// lacks the dtype.
    ///
    /// # Errors
    /// As [`Tensor::materialize`]; memory for the copy.
    #[track_caller]
    pub fn to_vec_as<T: Element>(&self) -> Result<Vec<T>> {
        let meta = self.try_meta()?;
        if meta.dtype == T::DTYPE {
            return self.to_vec();
        }
        self.converted(T::DTYPE).to_vec()
    }
    /// In another dtype: on its device or, where that lacks the dtype, on the host.
    #[track_caller]
    fn converted(&self, dtype: DType) -> Tensor {
        let (here, has) = (self.detach(), self.meta().device.info().dtypes);
        let able = has.contains(&dtype) || !dtype.computes();
        let read = if able { here } else { here.to(Device::reference()) };
        read.cast(dtype)
    }
    /// The only element, converted to `T`'s dtype if need be.
    ///
    /// # Errors
    /// As [`Tensor::materialize`]; more or fewer elements than one.
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T> {
        let meta = self.try_meta()?;
        if meta.shape.elements() != 1 {
            return Err(Error::new("item", ErrorKind::Shape { shape: meta.shape, expected: "exactly one element".into() }));
        }
        let here = Origin::here();
        // Not in a closure, which would not hand the caller's line on.
        let converted = if meta.dtype == T::DTYPE { None } else { Some(self.converted(T::DTYPE)) };
        let mut bytes = [0; MOST_BYTES];
        let bytes = &mut bytes[..T::DTYPE.size()];
        converted.as_ref().unwrap_or(self).read_into(bytes, here)?;
        // Not every byte is a bool.
        bytemuck::checked::try_pod_read_unaligned(bytes).map_err(|e| Error::at("item", ErrorKind::Internal(e.to_string()), here))
    }
    /// Are shapes equal and all elements within `atol + rtol * |other|`? NaN is close to nothing.
    ///
    /// # Errors
    /// The error one of them carries; two dtypes or devices.
    #[track_caller]
    pub fn allclose(&self, other: &Tensor, rtol: f64, atol: f64) -> Result<bool> {
        compose("allclose", &[self, other], || {
            let (a, b) = (self.meta(), other.meta());
            if a.shape.broadcast(&b.shape).is_none() {
                return Err(ErrorKind::ShapeMismatch { left: a.shape, right: b.shape, axes: None, expected: "shapes do not broadcast" }.into());
            }
            if a.dtype != b.dtype {
                return Err(ErrorKind::DtypeMismatch { left: a.dtype, right: b.dtype }.into());
            }
            let wide = if a.dtype.is_float() { if a.dtype == DType::F64 { DType::F64 } else { DType::F32 } } else { a.device.widest_float() };
            let (a, b) = (self.detach().cast(wide), other.detach().cast(wide));
            // Equal infinities are close: their difference is NaN.
            let near = (&a - &b).abs();
            let bound = b.abs() * rtol + atol;
            let apart = near.gt(&bound).logical_or(near.isnan()).logical_or(bound.eq(f64::INFINITY));
            Ok(Ok(!a.eq(&b).logical_not().logical_and(apart).any(..).item::<bool>()?))
        })
    }
    /// Are shape and all elements equal? NaN is equal to nothing.
    ///
    /// # Errors
    /// The error one of them carries; two dtypes or devices.
    #[track_caller]
    pub fn equal(&self, other: &Tensor) -> Result<bool> {
        compose("equal", &[self, other], || {
            if self.meta().shape != other.meta().shape { Ok(Ok(false)) } else { Ok(self.detach().eq(other.detach()).all(..).item::<bool>()) }
        })
    }
    /// Where the value stands: a number that no other value has while this one is alive. Copies and what is [detached](Tensor::detach) have it
    /// too; for tools that follow values from op to op.
    pub fn value_address(&self) -> u64 {
        self.value.address()
    }
    /// Is every element finite? One fused pass over the data, whatever is in them.
    ///
    /// # Errors
    /// As [`Tensor::materialize`].
    #[track_caller]
    pub fn is_finite_all(&self) -> Result<bool> {
        if !self.dtype()?.is_float() {
            return Ok(true);
        }
        Tensor::composite1(AllFinite, &[&self.detach()]).item()
    }
    /// The index of the first element (in row-major order) that is NaN or infinite, and the element.
    ///
    /// # Errors
    /// As [`Tensor::materialize`].
    #[track_caller]
    pub fn find_non_finite(&self) -> Result<Option<(Vec<usize>, f64)>> {
        let meta = self.try_meta()?;
        if meta.shape.elements() == 0 || self.is_finite_all()? {
            return Ok(None);
        }
        let flat = self.detach().ravel();
        // What somebody holds while it runs would be written to memory: only the index is.
        let first = (&flat * 0.0).isnan().cast(DType::U8).argmax(0);
        let mut at = first.item::<i64>()? as usize;
        let value = flat.narrow(0, at, 1).item::<f64>()?;
        let mut index = vec![0; meta.shape.rank()];
        for (k, &size) in meta.shape.iter().enumerate().rev() {
            index[k] = at % size;
            at /= size;
        }
        Ok(Some((index, value)))
    }
    /// The elements of a tensor of one axis, as an array.
    ///
    /// # Errors
    /// As [`Tensor::to_vec`]; another shape than `[N]`.
    #[track_caller]
    pub fn to_array<T: Element, const N: usize>(&self) -> Result<[T; N]> {
        self.dims::<1>()?;
        let shape = self.shape()?;
        let here = Origin::here();
        self.to_vec::<T>()?.try_into().map_err(|_| Error::at("to_array", ErrorKind::Shape { shape, expected: format!("{N} elements") }, here))
    }
    /// The rows of a matrix.
    ///
    /// # Errors
    /// As [`Tensor::to_vec`]; not two axes.
    #[track_caller]
    pub fn to_rows<T: Element>(&self) -> Result<Vec<Vec<T>>> {
        let [rows, columns] = self.dims::<2>()?;
        let data = self.to_vec::<T>()?;
        Ok((0..rows).map(|r| data[r * columns..(r + 1) * columns].to_vec()).collect())
    }
    /// log(x + 1e-8): finite, with a finite gradient, also at 0. `log_softmax` and the losses on logits are more exact.
    #[track_caller]
    #[must_use]
    pub fn safe_log(&self) -> Tensor {
        compose1("safe_log", self, |x| {
            let dtype = x.meta().dtype;
            // f16 cannot hold 1e-8: there the sum is made in f32.
            let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
            Ok((x.cast(wide) + 1e-8).log().cast(dtype.to_float()))
        })
    }
    /// Divided by a number.
    #[track_caller]
    pub fn div_scalar(&self, divisor: impl Operand) -> Tensor {
        self.div(divisor)
    }
}
/// Of an element of any dtype.
const MOST_BYTES: usize = 8;
/// Memory of the host for `count` elements of what is read from a device.
pub(super) fn host_buffer<T: bytemuck::Zeroable>(count: usize, meta: &Meta) -> std::result::Result<Vec<T>, ErrorKind> {
    let refused = |()| ErrorKind::OutOfMemory { asked: count.saturating_mul(size_of::<T>()), in_use: meta.device.memory().live_bytes, cap: None };
    bytemuck::allocation::try_zeroed_vec(count).map_err(refused)
}
