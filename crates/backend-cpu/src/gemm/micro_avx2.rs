//! AVX2: tiles of 6 rows by 2 vectors, which leave 4 of the 16 registers for B and an element of A.
//!
//! Only instantiations and one table per type: the text of the kernels is in `micro`.

use super::context::Context;
use super::micro::{self, Segment, TileFn};
use crate::simd::Float;
use crate::simd::avx2::{F32x8, F64x4};

/// # Safety
/// As [`micro::tile`]; the CPU has the instructions named.
#[target_feature(enable = "avx2,fma,f16c")]
#[allow(clippy::too_many_arguments)]
unsafe fn tile<V: Float, const ROWS: usize, const VECTORS: usize>(
    length: usize,
    a: *const V::Elem,
    b: *const V::Elem,
    b_stride: usize,
    c: *mut V::Elem,
    c_stride: usize,
    columns: usize,
    accumulate: bool,
) {
    // SAFETY: the caller's promise.
    unsafe { micro::tile::<V, ROWS, VECTORS>(length, a, b, b_stride, c, c_stride, columns, accumulate) }
}

/// # Safety
/// As [`micro::copy`]; the CPU has the instructions named.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn copy<V: Float>(source: *const V::Elem, source_stride: usize, target: *mut V::Elem, target_stride: usize, rows: usize, columns: usize) {
    // SAFETY: the caller's promise.
    unsafe { micro::copy::<V>(source, source_stride, target, target_stride, rows, columns) }
}

/// # Safety
/// As [`micro::transpose`]; the CPU has the instructions named.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn transpose<V: Float>(source: *const V::Elem, source_stride: usize, target: *mut V::Elem, target_stride: usize, rows: usize, columns: usize) {
    // SAFETY: the caller's promise.
    unsafe { micro::transpose::<V>(source, source_stride, target, target_stride, rows, columns) }
}

/// # Safety
/// As [`micro::gather`]; the CPU has the instructions named.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn gather<V: Float>(
    source: *const V::Elem,
    offsets: *const usize,
    lines: usize,
    segments: *const Segment,
    count: usize,
    target: *mut V::Elem,
    target_stride: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { micro::gather::<V>(source, offsets, lines, segments, count, target, target_stride) }
}

/// # Safety
/// As [`micro::vector_by_rows`]; the CPU has the instructions named.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn vector_by_rows<V: Float>(length: usize, x: *const V::Elem, b: *const V::Elem, b_stride: usize, out: *mut V::Elem, columns: usize) {
    // SAFETY: the caller's promise.
    unsafe { micro::vector_by_rows::<V>(length, x, b, b_stride, out, columns) }
}

/// # Safety
/// As [`micro::vector_by_columns`]; the CPU has the instructions named.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn vector_by_columns<V: Float>(length: usize, x: *const V::Elem, b: *const V::Elem, b_stride: usize, out: *mut V::Elem, columns: usize) {
    // SAFETY: the caller's promise.
    unsafe { micro::vector_by_columns::<V>(length, x, b, b_stride, out, columns) }
}

#[rustfmt::skip]
static F32_TILES: [TileFn<f32>; 12] = [
    tile::<F32x8, 1, 1>, tile::<F32x8, 1, 2>,
    tile::<F32x8, 2, 1>, tile::<F32x8, 2, 2>,
    tile::<F32x8, 3, 1>, tile::<F32x8, 3, 2>,
    tile::<F32x8, 4, 1>, tile::<F32x8, 4, 2>,
    tile::<F32x8, 5, 1>, tile::<F32x8, 5, 2>,
    tile::<F32x8, 6, 1>, tile::<F32x8, 6, 2>,
];

/// The context for f32.
pub(crate) static F32: Context<f32> = Context {
    rows: 6,
    vectors: 2,
    lanes: 8,
    tiles: &F32_TILES,
    copy: copy::<F32x8>,
    transpose: transpose::<F32x8>,
    gather: gather::<F32x8>,
    vector_by_rows: vector_by_rows::<F32x8>,
    vector_by_columns: vector_by_columns::<F32x8>,
};

#[rustfmt::skip]
static F64_TILES: [TileFn<f64>; 12] = [
    tile::<F64x4, 1, 1>, tile::<F64x4, 1, 2>,
    tile::<F64x4, 2, 1>, tile::<F64x4, 2, 2>,
    tile::<F64x4, 3, 1>, tile::<F64x4, 3, 2>,
    tile::<F64x4, 4, 1>, tile::<F64x4, 4, 2>,
    tile::<F64x4, 5, 1>, tile::<F64x4, 5, 2>,
    tile::<F64x4, 6, 1>, tile::<F64x4, 6, 2>,
];

/// The context for f64.
pub(crate) static F64: Context<f64> = Context {
    rows: 6,
    vectors: 2,
    lanes: 4,
    tiles: &F64_TILES,
    copy: copy::<F64x4>,
    transpose: transpose::<F64x4>,
    gather: gather::<F64x4>,
    vector_by_rows: vector_by_rows::<F64x4>,
    vector_by_columns: vector_by_columns::<F64x4>,
};
