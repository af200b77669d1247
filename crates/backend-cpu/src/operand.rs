//! A step's operands as byte slices: locks taken once, aliases of inputs and outputs resolved. Kernels get slices
//! and layouts, and never see a buffer or a lock.
use crate::{
    memory::CpuMemory,
    scratch::{ScratchVec, collected},
};
use adamant_runtime::{
    DType, ErrorKind, Layout, Shape,
    backend::Memory,
    buffer::Buffer,
    kernel::{Operand, Step},
};
use bytemuck::AnyBitPattern;
use parking_lot::{RwLockReadGuard, RwLockWriteGuard};
use smallvec::SmallVec;

/// What a kernel reads.
#[derive(Clone, Copy)]
pub(crate) struct In<'a> {
    /// the whole buffer; empty if `in_place` is set
    pub bytes: &'a [u8],
    /// the shape that `layout` strides over
    pub shape: Shape,
    /// where the elements are
    pub layout: Layout,
    /// their dtype
    pub dtype: DType,
    /// they are row-major without gaps
    pub is_dense: bool,
    /// it is the memory of this output, at the same places
    pub in_place: Option<usize>,
}
/// What a kernel writes.
pub(crate) struct Out<'a> {
    /// the whole buffer
    pub bytes: &'a mut [u8],
    /// the shape that `layout` strides over
    pub shape: Shape,
    /// where the elements go
    pub layout: Layout,
    /// their dtype
    pub dtype: DType,
    /// they are row-major without gaps
    pub is_dense: bool,
}

pub(crate) fn internal(what: &str) -> ErrorKind {
    ErrorKind::Internal(what.into())
}

impl<'a> In<'a> {
    /// The buffer as elements.
    ///
    /// # Errors
    /// Memory of another alignment, which no caller can make.
    pub fn elements<T: AnyBitPattern>(&self) -> Result<&'a [T], ErrorKind> {
        whole(self.bytes)
    }
    /// The elements of a dense operand, in order.
    ///
    /// # Errors
    /// A layout that is not dense or that leaves the buffer.
    pub fn dense<T: AnyBitPattern>(&self) -> Result<&'a [T], ErrorKind> {
        if !self.is_dense {
            return Err(internal("a dense operand was promised"));
        }
        let n = self.shape.elements();
        if n == 0 {
            // A view of nothing may start anywhere.
            return Ok(&[]);
        }
        self.elements()?.get(self.layout.offset..self.layout.offset + n).ok_or_else(|| internal("an operand leaves its buffer"))
    }
    /// The bytes of a dense operand.
    ///
    /// # Errors
    /// As `dense`.
    pub fn dense_bytes(&self) -> Result<&'a [u8], ErrorKind> {
        if !self.is_dense {
            return Err(internal("a dense operand was promised"));
        }
        let size = self.dtype.size();
        if self.shape.elements() == 0 {
            // Nothing, where any element may lie: it is cast to elements as other bytes are.
            return Ok(bytemuck::cast_slice::<u64, u8>(&[]));
        }
        let start = self.layout.offset * size;
        self.bytes.get(start..start + self.shape.elements() * size).ok_or_else(|| internal("an operand leaves its buffer"))
    }
    /// Checks that every element lies in the buffer, so that kernels may index without thought.
    pub fn check(&self) -> Result<(), ErrorKind> {
        check(&self.shape, &self.layout, self.dtype, self.is_dense, self.bytes.len())
    }
}
impl Out<'_> {
    /// The elements of a dense output, in order.
    ///
    /// # Errors
    /// A layout that is not dense or that leaves the buffer.
    pub fn dense<T: AnyBitPattern + bytemuck::NoUninit>(&mut self) -> Result<&mut [T], ErrorKind> {
        bytemuck::try_cast_slice_mut(self.dense_bytes()?).map_err(|_| internal("a misaligned buffer"))
    }
    /// The bytes of a dense output.
    ///
    /// # Errors
    /// As `dense`.
    pub fn dense_bytes(&mut self) -> Result<&mut [u8], ErrorKind> {
        if !self.is_dense {
            return Err(internal("a dense output was promised"));
        }
        let size = self.dtype.size();
        let start = self.layout.offset * size;
        let end = start + self.shape.elements() * size;
        self.bytes.get_mut(start..end).ok_or_else(|| internal("an output leaves its buffer"))
    }
    /// Checks that every element lies in the buffer.
    pub fn check(&self) -> Result<(), ErrorKind> {
        check(&self.shape, &self.layout, self.dtype, self.is_dense, self.bytes.len())
    }
}
/// The whole buffer as elements.
#[inline]
pub(crate) fn whole<T: AnyBitPattern>(bytes: &[u8]) -> Result<&[T], ErrorKind> {
    let bytes = &bytes[..bytes.len() / size_of::<T>() * size_of::<T>()];
    bytemuck::try_cast_slice(bytes).map_err(|_| internal("a misaligned buffer"))
}
/// The whole buffer as elements, to write.
#[inline]
pub(crate) fn whole_mut<T: AnyBitPattern + bytemuck::NoUninit>(bytes: &mut [u8]) -> Result<&mut [T], ErrorKind> {
    let n = bytes.len() / size_of::<T>() * size_of::<T>();
    bytemuck::try_cast_slice_mut(&mut bytes[..n]).map_err(|_| internal("a misaligned buffer"))
}
/// Bytes as elements, to write.
pub(crate) fn cast<T: AnyBitPattern + bytemuck::NoUninit>(bytes: &mut [u8]) -> Result<&mut [T], ErrorKind> {
    bytemuck::try_cast_slice_mut(bytes).map_err(|_| internal("a misaligned buffer"))
}
fn check(shape: &Shape, layout: &Layout, dtype: DType, dense: bool, bytes: usize) -> Result<(), ErrorKind> {
    if dense && layout.offset.saturating_add(shape.elements()).saturating_mul(dtype.size()) <= bytes {
        return Ok(());
    }
    let (mut low, mut high) = (layout.offset as isize, layout.offset as isize);
    for (&d, &s) in shape.iter().zip(&layout.strides) {
        if d == 0 {
            return Ok(());
        }
        let reach = (d as isize - 1) * s;
        if reach < 0 { low += reach } else { high += reach }
    }
    if low >= 0 && (high as usize + 1) * dtype.size() <= bytes {
        return Ok(());
    }
    Err(ErrorKind::Internal(format!("an operand of shape {shape} at {layout:?} reaches elements {low}..={high} of a buffer of {bytes} bytes")))
}

pub(crate) type Read<'a> = RwLockReadGuard<'a, Option<Box<dyn Memory>>>;
pub(crate) type Write<'a> = RwLockWriteGuard<'a, Option<Box<dyn Memory>>>;

#[inline]
pub(crate) fn host<'g>(guard: &'g Read<'_>) -> Result<&'g [u8], ErrorKind> {
    guard.as_deref().and_then(|m| m.host()).ok_or_else(|| internal("an operand without host memory"))
}
#[inline]
pub(crate) fn host_mut<'g>(guard: &'g mut Write<'_>) -> Result<&'g mut [u8], ErrorKind> {
    let memory = guard.as_deref_mut().and_then(|m| m.as_any_mut().downcast_mut::<CpuMemory>());
    Ok(memory.ok_or_else(|| internal("an output without memory of this backend"))?.slice_mut())
}
fn whole_of(o: &Operand<'_>) -> Result<ScratchVec<u8>, ErrorKind> {
    let guard = o.buffer.read();
    let bytes = host(&guard)?;
    collected(bytes.len(), bytes.iter().copied())
}

/// What is done with slices. Behind a pointer, so that what follows is compiled once and not for each kernel.
pub(crate) type Work<'f> = dyn FnMut(&[In<'_>], &mut [Out<'_>]) -> Result<(), ErrorKind> + 'f;
/// Locks a step's buffers and hands them to `f` as slices. An input that is the memory of an output is marked
/// `in_place` where `may_alias` (a Map reads it from there) and the layouts agree; else it is copied first.
pub(crate) fn with_operands(step: &Step<'_>, may_alias: bool, f: &mut Work<'_>) -> Result<(), ErrorKind> {
    match (step.inputs, step.outputs) {
        ([a], [out]) if apart(&[a, out]) => with_apart([a], out, f),
        ([a, b], [out]) if apart(&[a, b, out]) => with_apart([a, b], out, f),
        ([a, b, c], [out]) if apart(&[a, b, c, out]) => with_apart([a, b, c], out, f),
        _ => with_any(step, may_alias, f),
    }
}
/// Is each in a buffer of its own?
fn apart(operands: &[&Operand<'_>]) -> bool {
    operands.iter().enumerate().all(|(k, o)| operands[..k].iter().all(|p| !std::ptr::eq(p.buffer as *const Buffer, o.buffer)))
}
/// The common case: few operands, none of which shares memory with another.
fn with_apart<const N: usize>(operands: [&Operand<'_>; N], output: &Operand<'_>, f: &mut Work<'_>) -> Result<(), ErrorKind> {
    let read = operands.map(|o| o.buffer.read());
    let mut write = output.buffer.write();
    let mut out = out_of(&mut write, output)?;
    let mut inputs = operands.map(|o| In { bytes: &[], shape: o.shape, layout: o.layout(), dtype: o.dtype, is_dense: o.dense, in_place: None });
    for (input, guard) in inputs.iter_mut().zip(&read) {
        input.bytes = host(guard)?;
        input.check()?;
    }
    f(&inputs, std::slice::from_mut(&mut out))
}
fn out_of<'g>(guard: &'g mut Write<'_>, o: &Operand<'_>) -> Result<Out<'g>, ErrorKind> {
    let bytes = host_mut(guard)?;
    let out = Out { bytes, shape: o.shape, layout: o.layout(), dtype: o.dtype, is_dense: o.dense };
    out.check()?;
    Ok(out)
}
fn with_any(step: &Step<'_>, may_alias: bool, f: &mut Work<'_>) -> Result<(), ErrorKind> {
    enum ReadFrom {
        Guard(usize),
        Copy(usize),
        Place(usize),
    }
    let mut copies: SmallVec<[ScratchVec<u8>; 1]> = SmallVec::new();
    let mut read: SmallVec<[Read<'_>; 12]> = SmallVec::new();
    let mut from: SmallVec<[ReadFrom; 12]> = SmallVec::new();
    for (k, i) in step.inputs.iter().enumerate() {
        let same = |o: &Operand<'_>| std::ptr::eq(o.buffer as *const Buffer, i.buffer);
        from.push(match step.outputs.iter().position(same) {
            Some(p)
                if may_alias
                    && i.layout() == step.outputs[p].layout()
                    && i.dtype.size() == step.outputs[p].dtype.size()
                    && i.shape == step.outputs[p].shape =>
            {
                ReadFrom::Place(p)
            }
            Some(_) => {
                copies.push(whole_of(i)?);
                ReadFrom::Copy(copies.len() - 1)
            }
            // A second lock of one buffer could wait behind a writer that waits for the first.
            None => match step.inputs[..k].iter().position(|p| std::ptr::eq(p.buffer as *const Buffer, i.buffer)) {
                Some(p) => match from[p] {
                    ReadFrom::Guard(g) => ReadFrom::Guard(g),
                    _ => return Err(internal("an input is in place and not in place")),
                },
                None => {
                    read.push(i.buffer.read());
                    ReadFrom::Guard(read.len() - 1)
                }
            },
        });
    }
    for (k, o) in step.outputs.iter().enumerate() {
        if step.outputs[..k].iter().any(|p| std::ptr::eq(p.buffer as *const Buffer, o.buffer)) {
            return Err(internal("two outputs in one buffer"));
        }
    }
    let mut write: SmallVec<[Write<'_>; 8]> = step.outputs.iter().map(|o| o.buffer.write()).collect();
    let mut outputs: SmallVec<[Out<'_>; 8]> = SmallVec::new();
    for (guard, o) in write.iter_mut().zip(step.outputs) {
        outputs.push(out_of(guard, o)?);
    }
    let mut inputs: SmallVec<[In<'_>; 12]> = SmallVec::new();
    for (i, from) in step.inputs.iter().zip(&from) {
        let (bytes, in_place): (&[u8], _) = match from {
            ReadFrom::Guard(g) => (host(&read[*g])?, None),
            ReadFrom::Copy(c) => (&copies[*c], None),
            ReadFrom::Place(p) => (&[], Some(*p)),
        };
        let view = In { bytes, shape: i.shape, layout: i.layout(), dtype: i.dtype, is_dense: i.dense, in_place };
        if in_place.is_none() {
            view.check()?;
        }
        inputs.push(view);
    }
    f(&inputs, &mut outputs)
}
