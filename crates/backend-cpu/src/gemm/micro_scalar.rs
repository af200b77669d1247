//! Plain Rust: tiles of 4 by 4 numbers, the twin that the other sets are compared with.
//!
//! Only instantiations and one table per type: the text of the kernels is in `micro`.

use super::context::Context;
use super::micro::{self, Segment, TileFn};
use crate::simd::Float;

/// # Safety
/// As [`micro::tile`].
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
/// As [`micro::copy`].
unsafe fn copy<V: Float>(source: *const V::Elem, source_stride: usize, target: *mut V::Elem, target_stride: usize, rows: usize, columns: usize) {
    // SAFETY: the caller's promise.
    unsafe { micro::copy::<V>(source, source_stride, target, target_stride, rows, columns) }
}

/// # Safety
/// As [`micro::transpose`].
unsafe fn transpose<V: Float>(source: *const V::Elem, source_stride: usize, target: *mut V::Elem, target_stride: usize, rows: usize, columns: usize) {
    // SAFETY: the caller's promise.
    unsafe { micro::transpose::<V>(source, source_stride, target, target_stride, rows, columns) }
}

/// # Safety
/// As [`micro::gather`].
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
/// As [`micro::vector_by_rows`].
unsafe fn vector_by_rows<V: Float>(length: usize, x: *const V::Elem, b: *const V::Elem, b_stride: usize, out: *mut V::Elem, columns: usize) {
    // SAFETY: the caller's promise.
    unsafe { micro::vector_by_rows::<V>(length, x, b, b_stride, out, columns) }
}

/// # Safety
/// As [`micro::vector_by_columns`].
unsafe fn vector_by_columns<V: Float>(length: usize, x: *const V::Elem, b: *const V::Elem, b_stride: usize, out: *mut V::Elem, columns: usize) {
    // SAFETY: the caller's promise.
    unsafe { micro::vector_by_columns::<V>(length, x, b, b_stride, out, columns) }
}

#[rustfmt::skip]
static F32_TILES: [TileFn<f32>; 16] = [
    tile::<f32, 1, 1>, tile::<f32, 1, 2>, tile::<f32, 1, 3>, tile::<f32, 1, 4>,
    tile::<f32, 2, 1>, tile::<f32, 2, 2>, tile::<f32, 2, 3>, tile::<f32, 2, 4>,
    tile::<f32, 3, 1>, tile::<f32, 3, 2>, tile::<f32, 3, 3>, tile::<f32, 3, 4>,
    tile::<f32, 4, 1>, tile::<f32, 4, 2>, tile::<f32, 4, 3>, tile::<f32, 4, 4>,
];

/// The context for f32.
pub(crate) static F32: Context<f32> = Context {
    rows: 4,
    vectors: 4,
    lanes: 1,
    tiles: &F32_TILES,
    copy: copy::<f32>,
    transpose: transpose::<f32>,
    gather: gather::<f32>,
    vector_by_rows: vector_by_rows::<f32>,
    vector_by_columns: vector_by_columns::<f32>,
};

#[rustfmt::skip]
static F64_TILES: [TileFn<f64>; 16] = [
    tile::<f64, 1, 1>, tile::<f64, 1, 2>, tile::<f64, 1, 3>, tile::<f64, 1, 4>,
    tile::<f64, 2, 1>, tile::<f64, 2, 2>, tile::<f64, 2, 3>, tile::<f64, 2, 4>,
    tile::<f64, 3, 1>, tile::<f64, 3, 2>, tile::<f64, 3, 3>, tile::<f64, 3, 4>,
    tile::<f64, 4, 1>, tile::<f64, 4, 2>, tile::<f64, 4, 3>, tile::<f64, 4, 4>,
];

/// The context for f64.
pub(crate) static F64: Context<f64> = Context {
    rows: 4,
    vectors: 4,
    lanes: 1,
    tiles: &F64_TILES,
    copy: copy::<f64>,
    transpose: transpose::<f64>,
    gather: gather::<f64>,
    vector_by_rows: vector_by_rows::<f64>,
    vector_by_columns: vector_by_columns::<f64>,
};
