//! Which micro-kernel serves which (instruction set, type), with its tile: a new CPU is one kernel and one table
//! (the idea of BLIS's contexts). Also what a type brings to a product: its accumulator and its conversions.
//!
//! Must not know shapes of problems.

use std::cell::RefCell;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::driver::{Size, TileOutput, multiply};
use super::halves::HalfKind;
use super::micro::{GatherFn, MoveFn, TileFn, VectorFn};
use super::pack::{PackA, PackB};
use super::pairs::{self, Joined};
use super::{Job, ProductPart, micro_scalar, run_by_chunks, run_plain, run_widened};
#[cfg(target_arch = "x86_64")]
use super::{micro_avx2, micro_avx512};
use crate::conv::depthwise::FramedJob;
use crate::isa::Isa;
use crate::map::loops::round_to_bf16;
use crate::scratch::{KeptElement, reserve, with_buffer};
use crate::threads::Threads;
use adamant_runtime::ErrorKind;

/// Kernels of one instruction set for one type.
pub(crate) struct GemmContext<T: 'static> {
    /// Packed numbers of a row of A in one chunk of K.
    pub(crate) chunk: usize,
    /// Rows of the largest tile.
    pub(crate) rows: usize,
    /// Vectors a row of the largest tile.
    pub(crate) vectors: usize,
    /// Numbers a vector.
    pub(crate) lanes: usize,
    /// `tiles[(rows - 1) * vectors + v - 1]` computes a tile of `rows` rows and `v` vectors.
    pub(crate) tiles: &'static [TileFn<T>],
    pub(crate) copy: MoveFn<T>,
    pub(crate) transpose: MoveFn<T>,
    pub(crate) gather: GatherFn<T>,
    pub(crate) vector_by_rows: VectorFn<T>,
    pub(crate) vector_by_columns: VectorFn<T>,
}

impl<T> GemmContext<T> {
    /// Columns of the largest tile.
    pub(crate) fn columns(&self) -> usize {
        self.vectors * self.lanes
    }
}

/// Packing space of one thread. Taken out while in use, so that a nested product gets another.
#[derive(Default)]
pub(crate) struct GemmScratch<T> {
    pub(crate) a: AlignedBuffer<T>,
    pub(crate) b: AlignedBuffer<T>,
    pub(crate) c: AlignedBuffer<T>,
    pub(crate) gather: AlignedBuffer<T>,
}

/// A growing buffer whose slices begin at a cache line.
#[derive(Default)]
pub(crate) struct AlignedBuffer<T>(Vec<T>);

impl<T: Copy + Default> AlignedBuffer<T> {
    /// `length` elements of any content.
    ///
    /// # Errors
    /// `OutOfMemory`; the buffer is empty then.
    pub(crate) fn take(&mut self, length: usize) -> Result<&mut [T], ErrorKind> {
        let line = 64 / size_of::<T>();
        let wanted = length.saturating_add(line);
        if self.0.len() < wanted {
            // What it held is of no use, and would be moved.
            self.0 = Vec::new();
            reserve(&mut self.0, wanted)?;
            self.0.resize(wanted, T::default());
        }
        let offset = self.0.as_ptr().align_offset(64).min(line);
        Ok(&mut self.0[offset..offset + length])
    }
}

/// A type that sums are kept in: f32 or f64.
pub trait Accumulator: GemmElement<Acc = Self> + KeptElement {
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn context(isa: Isa) -> &'static GemmContext<Self>;
    #[doc(hidden)]
    fn add(self, other: Self) -> Self;
    /// `C = A · B` of numbers that are bf16 widened, by pairs; false if this type or set has no such products.
    ///
    /// # Errors
    /// `OutOfMemory` for what is packed.
    #[doc(hidden)]
    #[allow(private_interfaces, private_bounds)]
    fn multiply_joined(
        _: Isa,
        _: Size,
        _: &impl PackA<Self>,
        _: &impl PackB<Self>,
        _: &mut impl TileOutput<Self>,
        _accumulate: bool,
        _: [&mut AlignedBuffer<Self>; 2],
    ) -> Result<bool, ErrorKind> {
        Ok(false)
    }
    /// Of a depthwise convolution.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn framed(isa: Isa, job: FramedJob<'_, Self>);
    #[doc(hidden)]
    #[allow(private_bounds)]
    fn with_scratch<R>(f: impl FnOnce(&mut GemmScratch<Self>) -> R) -> R;
}

/// What matrices may be made of.
pub trait MatrixElement: Copy + Default + Send + Sync + 'static {
    /// What sums are kept in.
    type Acc: Accumulator;
    #[doc(hidden)]
    fn widen(source: &[Self], target: &mut [Self::Acc]);
    /// The same slice, if the type is its own accumulator.
    #[doc(hidden)]
    fn as_acc(_: &[Self]) -> Option<&[Self::Acc]> {
        None
    }
    /// The same slice, if the type is bf16, which has products of its own.
    #[doc(hidden)]
    fn as_bf16(_: &[Self]) -> Option<&[bf16]> {
        None
    }
    /// The bytes of the same slice, if its elements have 16 bits.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn as_halves(_: &[Self]) -> Option<(HalfKind, &[u8])> {
        None
    }
}
macro_rules! byte {
    ($byte:ident) => {
        impl MatrixElement for $byte {
            type Acc = f32;
            fn widen(source: &[$byte], target: &mut [f32]) {
                target.iter_mut().zip(source).for_each(|(to, &v)| *to = v as f32);
            }
        }
    };
}
byte!(i8);
byte!(u8);

/// A type of matrix elements: f32, f64, and bf16 and f16, whose products are summed in f32 and rounded once.
pub trait GemmElement: MatrixElement + PartialEq + std::fmt::Debug {
    #[doc(hidden)]
    fn narrow(isa: Isa, source: &[Self::Acc], target: &mut [Self]);
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn run_part(job: &Job<'_, Self>, part: ProductPart<'_, Self>, scratch: &mut GemmScratch<Self::Acc>) -> Result<(), ErrorKind>;
    /// A vector product whose chunks are shared out; false if this type or product has no such way.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn run_by_chunks(_: &Job<'_, Self>, _: &Threads, _: &mut [Self]) -> Result<bool, ErrorKind> {
        Ok(false)
    }
}

macro_rules! accumulator {
    ($float:ident, $table:ident $(, $multiply_joined:item)?) => {
        impl MatrixElement for $float {
            type Acc = $float;
            fn widen(source: &[$float], target: &mut [$float]) {
                target.copy_from_slice(source);
            }
            fn as_acc(slice: &[$float]) -> Option<&[$float]> {
                Some(slice)
            }
        }
        impl GemmElement for $float {
            fn narrow(_: Isa, source: &[$float], target: &mut [$float]) {
                target.copy_from_slice(source);
            }
            #[allow(private_interfaces)]
            fn run_part(job: &Job<'_, $float>, part: ProductPart<'_, $float>, scratch: &mut GemmScratch<$float>) -> Result<(), ErrorKind> {
                run_plain(job, part, scratch)
            }
            #[allow(private_interfaces)]
            fn run_by_chunks(job: &Job<'_, $float>, threads: &Threads, c: &mut [$float]) -> Result<bool, ErrorKind> {
                run_by_chunks(job, threads, c)
            }
        }

        #[allow(private_interfaces, private_bounds)]
        impl Accumulator for $float {
            fn context(isa: Isa) -> &'static GemmContext<$float> {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 if isa.is_available() => &micro_avx512::$table,
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 if isa.is_available() => &micro_avx2::$table,
                    _ => &micro_scalar::$table,
                }
            }
            $($multiply_joined)?
            fn add(self, other: $float) -> $float {
                self + other
            }
            fn framed(isa: Isa, job: FramedJob<'_, $float>) {
                crate::simd::dispatch(isa, job);
            }
            fn with_scratch<R>(f: impl FnOnce(&mut GemmScratch<$float>) -> R) -> R {
                thread_local! {
                    static SCRATCH: RefCell<Vec<GemmScratch<$float>>> = const { RefCell::new(Vec::new()) };
                }
                with_buffer(&SCRATCH, f)
            }
        }
    };
}

accumulator!(
    f32,
    F32,
    fn multiply_joined(
        isa: Isa,
        size: Size,
        a: &impl PackA<f32>,
        b: &impl PackB<f32>,
        out: &mut impl TileOutput<f32>,
        accumulate: bool,
        [a_buffer, b_buffer]: [&mut AlignedBuffer<f32>; 2],
    ) -> Result<bool, ErrorKind> {
        let (Some(context), k) = (pairs::context(isa), size.k) else { return Ok(false) };
        let (a, b) = (Joined { source: a, k }, Joined { source: b, k });
        multiply(context, Size { k: k.div_ceil(2), ..size }, &a, &b, out, accumulate, a_buffer, b_buffer)?;
        Ok(true)
    }
);
accumulator!(f64, F64);

macro_rules! half_precision {
    ($half:ident, $kind:expr, $as_bf16:expr, $narrow:expr) => {
        impl MatrixElement for $half {
            type Acc = f32;
            fn widen(source: &[$half], target: &mut [f32]) {
                source.convert_to_f32_slice(target);
            }
            fn as_bf16(slice: &[$half]) -> Option<&[bf16]> {
                $as_bf16(slice)
            }
            #[allow(private_interfaces)]
            fn as_halves(slice: &[$half]) -> Option<(HalfKind, &[u8])> {
                Some(($kind, bytemuck::cast_slice(slice)))
            }
        }
        impl GemmElement for $half {
            fn narrow(isa: Isa, source: &[f32], target: &mut [$half]) {
                $narrow(isa, source, target);
            }
            #[allow(private_interfaces)]
            fn run_part(job: &Job<'_, $half>, part: ProductPart<'_, $half>, scratch: &mut GemmScratch<f32>) -> Result<(), ErrorKind> {
                run_widened(job, part, scratch)
            }
        }
    };
}

half_precision!(bf16, HalfKind::Bf16, Some, round_to_bf16);
half_precision!(f16, HalfKind::F16, |_| None, |_, source: &[f32], target: &mut [f16]| target.convert_from_f32_slice(source));
