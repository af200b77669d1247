//! Between memory and tiles: every dtype's elements as lanes and back, gathered along a nest. Must not know programs.
use super::loops::{Src, convert, to_bf16, to_f16};
use super::{tile::odd, tiles::Lane};
use crate::isa::Isa;
use crate::nest::{EvenLines, Nest};
use crate::operand::{In, internal};
use adamant_runtime::{DType, ErrorKind, f8_to_f32, f32_to_f8};
use bytemuck::Pod;
use half::{bf16, f16, slice::HalfFloatSliceExt};

/// An element of memory with its way into a tile.
pub(crate) trait MemoryElement<T>: Pod {
    fn lane(self) -> T;
}
/// fp8 in memory: the codes of the two formats.
#[derive(Clone, Copy, bytemuck::Zeroable, bytemuck::Pod)]
#[repr(transparent)]
pub(crate) struct E4M3(u8);
/// See [`E4M3`].
#[derive(Clone, Copy, bytemuck::Zeroable, bytemuck::Pod)]
#[repr(transparent)]
pub(crate) struct E5M2(u8);
macro_rules! memory {
    ($($m:ty => $t:ty: $f:expr;)*) => { $(impl MemoryElement<$t> for $m { #[inline(always)] fn lane(self) -> $t { ($f)(self) } })* };
}
memory! {
    f32 => f32: |v| v;
    bf16 => f32: |v: bf16| f32::from_bits((v.to_bits() as u32) << 16);
    f16 => f32: |v: f16| v.to_f32();
    E4M3 => f32: |v: E4M3| f8_to_f32(v.0, DType::F8E4M3);
    E5M2 => f32: |v: E5M2| f8_to_f32(v.0, DType::F8E5M2);
    f64 => f64: |v| v;
    u8 => i64: |v| v as i64;
    i8 => i64: |v| v as i64;
    u16 => i64: |v| v as i64;
    i16 => i64: |v| v as i64;
    u32 => i64: |v| v as i64;
    i32 => i64: |v| v as i64;
    i64 => i64: |v| v;
    u64 => i64: |v| v as i64;
    u8 => u8: |v: u8| (v != 0) as u8;
    i8 => u8: |v: i8| (v != 0) as u8;
    u16 => u8: |v: u16| (v != 0) as u8;
    i16 => u8: |v: i16| (v != 0) as u8;
    u32 => u8: |v: u32| (v != 0) as u8;
    i32 => u8: |v: i32| (v != 0) as u8;
    u64 => u8: |v: u64| (v != 0) as u8;
    i64 => u8: |v: i64| (v != 0) as u8;
    f32 => u8: |v: f32| (v != 0.0) as u8;
    f64 => u8: |v: f64| (v != 0.0) as u8;
    bf16 => u8: |v: bf16| (v.to_bits() & 0x7FFF != 0) as u8;
    f16 => u8: |v: f16| (v.to_bits() & 0x7FFF != 0) as u8;
    E4M3 => u8: |v: E4M3| (v.0 & 0x7F != 0) as u8;
    E5M2 => u8: |v: E5M2| (v.0 & 0x7F != 0) as u8;
}

/// What decodes elements of memory as lanes of this type. False: its dtype is none of those.
pub(crate) trait Decode: Lane {
    fn decode_dense(isa: Isa, dtype: DType, bytes: &[u8], out: &mut [Self]) -> bool;
    fn decode_runs(isa: Isa, dtype: DType, from: NestedOperand<'_>, at: usize, out: &mut [Self]) -> bool;
}
/// Operand `k` of a nest, whose first element is number `base` of the buffer.
#[derive(Clone, Copy)]
pub(crate) struct NestedOperand<'a> {
    bytes: &'a [u8],
    base: isize,
    nest: &'a Nest,
    k: usize,
}
fn dense<M: MemoryElement<T>, T: Lane>(isa: Isa, bytes: &[u8], out: &mut [T]) {
    convert(isa, bytemuck::cast_slice::<u8, M>(bytes), out, M::lane);
}
/// A run of fewer elements is not worth the call of a loop in vectors.
const SHORT: usize = 64;
fn by_runs<M: MemoryElement<T>, T: Decode>(isa: Isa, dtype: DType, from: NestedOperand<'_>, at: usize, out: &mut [T]) -> bool {
    let NestedOperand { bytes, base, nest, k } = from;
    let elements: &[M] = bytemuck::cast_slice(&bytes[..bytes.len() / size_of::<M>() * size_of::<M>()]);
    let mut known = true;
    let mut line = |out: &mut [T], start: isize, stride: isize| match stride {
        0 => out.fill(elements[start as usize].lane()),
        1 if out.len() >= SHORT => {
            let (start, size) = (start as usize, size_of::<M>());
            known &= T::decode_dense(isa, dtype, &bytes[start * size..(start + out.len()) * size], out);
        }
        1 => out.iter_mut().zip(&elements[start as usize..]).for_each(|(o, v)| *o = v.lane()),
        2.. => out.iter_mut().zip(elements[start as usize..].iter().step_by(stride as usize)).for_each(|(o, v)| *o = v.lane()),
        _ => out.iter_mut().enumerate().for_each(|(j, o)| *o = elements[(start + j as isize * stride) as usize].lane()),
    };
    nest.lines(k, at, out.len(), |EvenLines { first, lines, count, offset, step, stride }| {
        let (out, start) = (&mut out[first..first + lines * count], base + offset);
        match (step, stride) {
            _ if lines == 1 => line(out, start, stride),
            (_, 1) if step == count as isize => line(out, start, 1),
            // The same line again and again.
            (0, _) => {
                line(&mut out[..count], start, stride);
                let mut made = count;
                while made < out.len() {
                    let more = made.min(out.len() - made);
                    out.copy_within(..more, made);
                    made += more;
                }
            }
            (1, 0) => repeat(&elements[start as usize..start as usize + lines], out, count),
            (1.., 1) if count < SHORT => side_by_side(&elements[start as usize..], step as usize, out, count),
            _ => out.chunks_exact_mut(count).zip(0..).for_each(|(out, i)| line(out, start + i * step, stride)),
        }
    });
    known
}
/// Each element `count` times.
fn repeat<M: MemoryElement<T>, T: Lane>(elements: &[M], out: &mut [T], count: usize) {
    fn few<M: MemoryElement<T>, T: Lane, const N: usize>(elements: &[M], out: &mut [T]) {
        out.as_chunks_mut::<N>().0.iter_mut().zip(elements).for_each(|(o, v)| *o = [v.lane(); N]);
    }
    match count {
        2 => few::<M, T, 2>(elements, out),
        3 => few::<M, T, 3>(elements, out),
        4 => few::<M, T, 4>(elements, out),
        _ => out.chunks_exact_mut(count).zip(elements).for_each(|(o, v)| o.fill(v.lane())),
    }
}
/// Lines of `count` elements side by side, which begin every `step`.
fn side_by_side<M: MemoryElement<T>, T: Lane>(elements: &[M], step: usize, out: &mut [T], count: usize) {
    fn few<M: MemoryElement<T>, T: Lane, const N: usize>(elements: &[M], step: usize, out: &mut [T]) {
        let (out, _) = out.as_chunks_mut::<N>();
        for (k, out) in out.iter_mut().enumerate() {
            let line = &elements[k * step..][..N];
            *out = std::array::from_fn(|j| line[j].lane());
        }
    }
    match count {
        2 => few::<M, T, 2>(elements, step, out),
        3 => few::<M, T, 3>(elements, step, out),
        4 => few::<M, T, 4>(elements, step, out),
        _ => out.chunks_exact_mut(count).enumerate().for_each(|(k, o)| o.iter_mut().zip(&elements[k * step..]).for_each(|(o, v)| *o = v.lane())),
    }
}
macro_rules! decode {
    ($t:ty, $($d:pat => $m:ty),* $(; $other:pat => false)?) => {
        impl Decode for $t {
            fn decode_dense(isa: Isa, dtype: DType, bytes: &[u8], out: &mut [$t]) -> bool {
                match dtype { $($d => dense::<$m, $t>(isa, bytes, out),)* $($other => return false,)? }
                true
            }
            fn decode_runs(isa: Isa, dtype: DType, from: NestedOperand<'_>, at: usize, out: &mut [$t]) -> bool {
                match dtype { $($d => by_runs::<$m, $t>(isa, dtype, from, at, out),)* $($other => false,)? }
            }
        }
    };
}
impl Decode for f32 {
    fn decode_dense(isa: Isa, dtype: DType, bytes: &[u8], out: &mut [f32]) -> bool {
        match dtype {
            DType::F32 => out.copy_from_slice(bytemuck::cast_slice(bytes)),
            DType::BF16 => dense::<bf16, f32>(isa, bytes, out),
            DType::F16 => bytemuck::cast_slice::<u8, f16>(bytes).convert_to_f32_slice(out),
            DType::F8E4M3 => dense::<E4M3, f32>(isa, bytes, out),
            DType::F8E5M2 => dense::<E5M2, f32>(isa, bytes, out),
            _ => return false,
        }
        true
    }
    fn decode_runs(isa: Isa, dtype: DType, from: NestedOperand<'_>, at: usize, out: &mut [f32]) -> bool {
        match dtype {
            DType::F32 => by_runs::<f32, f32>(isa, dtype, from, at, out),
            DType::BF16 => by_runs::<bf16, f32>(isa, dtype, from, at, out),
            DType::F16 => by_runs::<f16, f32>(isa, dtype, from, at, out),
            DType::F8E4M3 => by_runs::<E4M3, f32>(isa, dtype, from, at, out),
            DType::F8E5M2 => by_runs::<E5M2, f32>(isa, dtype, from, at, out),
            _ => false,
        }
    }
}
decode!(f64, DType::F64 => f64; _ => false);
decode!(i64, DType::U8 => u8, DType::I8 => i8, DType::U16 => u16, DType::I16 => i16, DType::U32 => u32, DType::I32 => i32, DType::I64 => i64, DType::U64 => u64; _ => false);
// Truth values of any dtype: what is not zero, NaN too.
decode!(u8, DType::Bool | DType::U8 => u8, DType::I8 => i8, DType::U16 => u16, DType::I16 => i16, DType::U32 => u32, DType::I32 => i32, DType::U64 => u64, DType::I64 => i64, DType::F32 => f32, DType::F64 => f64, DType::BF16 => bf16, DType::F16 => f16, DType::F8E4M3 => E4M3, DType::F8E5M2 => E5M2);

/// Dense elements as lanes.
pub(crate) fn decode<T: Decode>(isa: Isa, dtype: DType, bytes: &[u8], out: &mut [T]) {
    let known = T::decode_dense(isa, dtype, bytes, out);
    debug_assert!(known, "{dtype} is no memory of this tile");
}
/// The elements of operand k of a nest from position `at` on, as lanes.
///
/// # Errors
/// A dtype that this tile does not hold.
pub(crate) fn gather<T: Decode>(isa: Isa, input: &In<'_>, nest: &Nest, k: usize, at: usize, out: &mut [T]) -> Result<(), ErrorKind> {
    let from = NestedOperand { bytes: input.bytes, base: input.layout.offset as isize, nest, k };
    let known = match nest.run(k, at, out.len()) {
        // One run, as most are.
        Some(offset) => {
            let (start, size) = ((from.base + offset) as usize, input.dtype.size());
            T::decode_dense(isa, input.dtype, &input.bytes[start * size..(start + out.len()) * size], out)
        }
        None => T::decode_runs(isa, input.dtype, from, at, out),
    };
    if known { Ok(()) } else { Err(internal("an operand of another dtype than its register")) }
}

/// A tile's lanes as memory of `dtype`; the values fit it already.
pub(crate) fn store<T: Lane>(isa: Isa, src: Src<'_, T>, dtype: DType, bytes: &mut [u8]) {
    let n = bytes.len() / dtype.size();
    match src {
        Src::Slice(s) => encode(isa, &s[..n], dtype, bytes),
        Src::Splat(v) => {
            let size = dtype.size();
            let mut one = [0u64];
            let one: &mut [u8] = bytemuck::cast_slice_mut(&mut one);
            encode(isa, &[v], dtype, &mut one[..size]);
            match size {
                1 => bytes.fill(one[0]),
                2 => bytemuck::cast_slice_mut::<u8, u16>(bytes).fill(bytemuck::pod_read_unaligned(&one[..2])),
                4 => bytemuck::cast_slice_mut::<u8, u32>(bytes).fill(bytemuck::pod_read_unaligned(&one[..4])),
                _ => bytemuck::cast_slice_mut::<u8, u64>(bytes).fill(bytemuck::pod_read_unaligned(&one[..8])),
            }
        }
    }
}
fn encode<T: Lane>(isa: Isa, s: &[T], dtype: DType, bytes: &mut [u8]) {
    // The lane type is known by its kind; the casts below are of a type to itself.
    match dtype {
        DType::F32 | DType::F64 | DType::I64 | DType::U64 | DType::Bool => bytes.copy_from_slice(bytemuck::cast_slice(s)),
        DType::BF16 => convert(isa, bytemuck::cast_slice::<T, f32>(s), bytemuck::cast_slice_mut::<u8, u16>(bytes), |v| (v.to_bits() >> 16) as u16),
        DType::F16 => bytemuck::cast_slice_mut::<u8, f16>(bytes).convert_from_f32_slice(bytemuck::cast_slice(s)),
        DType::F8E4M3 | DType::F8E5M2 => convert(isa, bytemuck::cast_slice::<T, f32>(s), bytes, |v| f32_to_f8(v, dtype)),
        DType::U8 | DType::I8 => convert(isa, bytemuck::cast_slice::<T, i64>(s), bytes, |v| v as u8),
        DType::U16 | DType::I16 => convert(isa, bytemuck::cast_slice::<T, i64>(s), bytemuck::cast_slice_mut::<u8, u16>(bytes), |v| v as u16),
        DType::U32 | DType::I32 => convert(isa, bytemuck::cast_slice::<T, i64>(s), bytemuck::cast_slice_mut::<u8, u32>(bytes), |v| v as u32),
    }
}

/// A lane on its way into another kind.
pub(crate) trait CastFrom: Lane {
    fn to_f32(self, narrow: bool) -> f32;
    fn to_f64(self) -> f64;
    fn to_i64(self) -> i64;
    fn to_bool(self) -> u8;
}
macro_rules! cast_from {
    ($($t:ty: $zero:expr, |$v:ident, $narrow:ident| $to_f32:expr;)*) => { $(impl CastFrom for $t {
        #[inline(always)]
        fn to_f32(self, $narrow: bool) -> f32 {
            let $v = self;
            $to_f32
        }
        #[inline(always)]
        fn to_f64(self) -> f64 {
            self as f64
        }
        #[inline(always)]
        fn to_i64(self) -> i64 {
            self as i64
        }
        #[inline(always)]
        fn to_bool(self) -> u8 {
            (self != $zero) as u8
        }
    })* };
}
cast_from! {
    f32: 0.0, |v, _narrow| v;
    f64: 0.0, |v, narrow| if narrow { odd(v) } else { v as f32 };
    i64: 0, |v, narrow| if narrow { odd(v as f64) } else { v as f32 };
    u8: 0, |v, _narrow| v as f32;
}
/// f32 or f64 from any lane.
pub(crate) trait CastTo: Lane {
    fn cast<S: CastFrom>(isa: Isa, x: &[S], out: &mut [Self], narrow: bool);
}
impl CastTo for f32 {
    fn cast<S: CastFrom>(isa: Isa, x: &[S], out: &mut [f32], narrow: bool) {
        convert(isa, x, out, |x| x.to_f32(narrow));
    }
}
impl CastTo for f64 {
    fn cast<S: CastFrom>(isa: Isa, x: &[S], out: &mut [f64], _: bool) {
        convert(isa, x, out, S::to_f64);
    }
}
/// To a float kind; `narrow`: it will be rounded again to a narrower dtype.
pub(crate) fn cast_real<S: CastFrom, T: CastTo>(isa: Isa, x: &[S], out: &mut [T], narrow: bool) {
    T::cast(isa, x, out, narrow);
}
/// To integers, toward zero; outside the range of i64 its ends.
pub(crate) fn cast_int<S: CastFrom>(isa: Isa, x: &[S], out: &mut [i64]) {
    convert(isa, x, out, S::to_i64);
}
/// Is it not zero?
pub(crate) fn cast_bool<S: CastFrom>(isa: Isa, x: &[S], out: &mut [u8]) {
    convert(isa, x, out, S::to_bool);
}
/// f32 values rounded to a 16-bit dtype, as f32: for kernels that keep their own buffers.
pub(crate) fn round_value(v: f32, dtype: DType) -> f32 {
    match dtype {
        DType::BF16 => to_bf16(v),
        DType::F16 => to_f16(v),
        _ => v,
    }
}
