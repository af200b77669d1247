//! Reads that are begun now and waited for later: the device goes on with what was asked of it, and so does the caller.
use super::{Tensor, read::host_buffer};
use crate::{DType, Element, Error, ErrorKind, Layout, Meta, Origin, Result, backend::ReadBack, foreign::guarded};
use adamant_runtime::Taint;
use std::marker::PhantomData;

/// Elements on their way from a device, begun by [`Tensor::read_later`]. One that is dropped is given up: nothing waits for
/// it and nothing fails.
#[must_use = "a read that nobody waits for was for nothing"]
pub struct Reading<T> {
    on_its_way: Option<Box<dyn ReadBack>>,
    /// how the elements lie in the bytes, where they do not lie in row-major order from the first one on
    layout: Option<Layout>,
    /// of the bytes that come
    bytes: usize,
    meta: Meta,
    /// what is to be known of the data behind it
    taint: Option<Taint>,
    here: Origin,
    of: PhantomData<fn() -> T>,
}
impl Tensor {
    /// Computes the value, has the device copy its elements as they are now, and returns without waiting for them. What is
    /// recorded, run or written afterwards does not change what the read gives. Where results are there when they are asked
    /// for, as on the CPU, the read is ready at once.
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor};
    /// # Device::reference().make_current();
    /// let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0], [3]);
    /// let reading = (&x * 2.0).read_later::<f32>()?;
    /// // The next step's work, while the elements are on their way.
    /// let next = (&x + 1.0).sum(..);
    /// next.materialize()?;
    /// assert_eq!(reading.wait()?, [2.0, 4.0, 6.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::materialize`]; another dtype than `T`. What happens on the way is [`Reading::wait`]'s to tell.
    #[track_caller]
    pub fn read_later<T: Element>(&self) -> Result<Reading<T>> {
        let (meta, here) = (self.try_meta()?, Origin::here());
        let error = |k| Error::at("read_later", k, here);
        if meta.dtype != T::DTYPE {
            return Err(error(ErrorKind::DtypeMismatch { left: meta.dtype, right: T::DTYPE }));
        }
        self.begin().map_err(|e| if matches!(e.kind(), ErrorKind::Capturing) { error(ErrorKind::Capturing) } else { e })?;
        let stored = self.value.stored().ok_or_else(|| error(ErrorKind::Internal("a value that was evaluated is not there".into())))?;
        let (size, is_dense) = (meta.dtype.size(), stored.is_dense(&meta.shape));
        let layout = (!is_dense).then(|| stored.layout(&meta.shape));
        let (offset, bytes) = if is_dense { (stored.offset * size, meta.bytes()) } else { (0, stored.buffer.bytes()) };
        let on_its_way = if meta.shape.elements() == 0 { None } else { Some(stored.buffer.read_back(offset, bytes).map_err(error)?) };
        Ok(Reading { on_its_way, layout, bytes, meta, taint: stored.taint.clone(), here, of: PhantomData })
    }
}
impl<T: Element> Reading<T> {
    /// Would [`Reading::wait`] return at once? A device that is lost has nothing more to wait for.
    pub fn is_ready(&self) -> bool {
        // One that panics has nothing to wait for either: `wait` tells.
        self.on_its_way.as_ref().is_none_or(|r| guarded(String::new, || r.is_ready()).unwrap_or(true))
    }
    /// Waits for the elements, in row-major order.
    ///
    /// # Errors
    /// A device that was lost meanwhile; memory for the copy; a fault found in data.
    pub fn wait(self) -> Result<Vec<T>> {
        let Reading { on_its_way, layout, bytes, meta, taint, here, .. } = self;
        let error = |k| Error::at("read_later", k, here);
        let fault = || taint.and_then(|taint| taint.told()).map_or(Ok(()), Err);
        let Some(read) = on_its_way else { return fault().map(|()| Vec::new()) };
        let mut came: Vec<u8> = host_buffer(bytes, &meta).map_err(error)?;
        guarded(|| format!("the {} backend's `ReadBack::wait`", meta.device), || read.wait(&mut came)).flatten().map_err(error)?;
        fault()?;
        if let Some(layout) = layout {
            let size = meta.dtype.size();
            let mut ordered: Vec<u8> = host_buffer(meta.bytes(), &meta).map_err(error)?;
            let mut places = ordered.chunks_exact_mut(size);
            layout.for_each_offset(&meta.shape, |at| {
                if let (Some(place), Some(element)) = (places.next(), came.get(at * size..(at + 1) * size)) {
                    place.copy_from_slice(element);
                }
            });
            came = ordered;
        }
        let mut out: Vec<T> = host_buffer(meta.shape.elements(), &meta).map_err(error)?;
        if meta.dtype == DType::Bool {
            // Not every byte is a bool.
            let checked: &[T] = bytemuck::checked::try_cast_slice(&came).map_err(|e| error(ErrorKind::Internal(e.to_string())))?;
            out.copy_from_slice(checked);
            return Ok(out);
        }
        let mut out = T::into_host(out);
        out.bytes_mut().copy_from_slice(&came);
        T::from_host(out).ok_or_else(|| error(ErrorKind::Internal("a vector of another type".into())))
    }
}
