//! The kernels of [`micro`](super::micro) compiled for an instruction set, and the context of a type made of them. What is
//! different about a set, its features and its tiles, is said in a file of its own.

/// Instances of all kernels, with the features of a set if it needs any.
macro_rules! kernels {
    ($($features:literal)?) => {
        kernels!(@of [$($features)?] by micro::Fused);
    };
    ($features:literal by $step:ty) => {
        kernels!(@of [$features] by $step);
    };
    (@of [$($features:literal)?] by $step:ty) => {
        /// # Safety
        /// As [`micro::tile`](super::micro::tile); the CPU has the features named.
        $(#[target_feature(enable = $features)])?
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
        ) where
            $step: micro::TileStep<V>,
        {
            // SAFETY: the caller's promise.
            unsafe { micro::tile::<V, $step, ROWS, VECTORS>(length, a, b, b_stride, c, c_stride, columns, accumulate) }
        }
        /// # Safety
        /// As [`micro::copy`](super::micro::copy); the CPU has the features named.
        $(#[target_feature(enable = $features)])?
        unsafe fn copy<V: Float>(source: *const V::Elem, source_stride: usize, target: *mut V::Elem, target_stride: usize, rows: usize, columns: usize) {
            // SAFETY: the caller's promise.
            unsafe { micro::copy::<V>(source, source_stride, target, target_stride, rows, columns) }
        }
        /// # Safety
        /// As [`micro::transpose`](super::micro::transpose); the CPU has the features named.
        $(#[target_feature(enable = $features)])?
        unsafe fn transpose<V: Float>(source: *const V::Elem, source_stride: usize, target: *mut V::Elem, target_stride: usize, rows: usize, columns: usize) {
            // SAFETY: the caller's promise.
            unsafe { micro::transpose::<V>(source, source_stride, target, target_stride, rows, columns) }
        }
        /// # Safety
        /// As [`micro::gather`](super::micro::gather); the CPU has the features named.
        $(#[target_feature(enable = $features)])?
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
        /// As [`micro::vector_by_rows`](super::micro::vector_by_rows); the CPU has the features named.
        $(#[target_feature(enable = $features)])?
        unsafe fn vector_by_rows<V: Float>(length: usize, x: *const V::Elem, b: *const V::Elem, b_stride: usize, out: *mut V::Elem, columns: usize) {
            // SAFETY: the caller's promise.
            unsafe { micro::vector_by_rows::<V>(length, x, b, b_stride, out, columns) }
        }
        /// # Safety
        /// As [`micro::vector_by_columns`](super::micro::vector_by_columns); the CPU has the features named.
        $(#[target_feature(enable = $features)])?
        unsafe fn vector_by_columns<V: Float>(length: usize, x: *const V::Elem, b: *const V::Elem, b_stride: usize, out: *mut V::Elem, columns: usize) {
            // SAFETY: the caller's promise.
            unsafe { micro::vector_by_columns::<V>(length, x, b, b_stride, out, columns) }
        }
    };
}

/// The context of a type, whose largest tile has as many rows as are listed and as many vectors as are said.
macro_rules! context {
    ($name:ident: $float:ty, tiles of [$($rows:literal)*] rows by $vectors:tt of $vector:ty) => {
        context!($name: $float, chunks of CHUNK, tiles of [$($rows)*] rows by $vectors of $vector);
    };
    ($name:ident: $float:ty, chunks of $chunk:expr, tiles of [$($rows:literal)*] rows by $vectors:tt of $vector:ty) => {
        pub(crate) static $name: GemmContext<$float> = GemmContext {
            chunk: $chunk,
            rows: [$($rows),*].len(),
            vectors: $vectors,
            lanes: <$vector as Float>::LANES,
            tiles: context!(@tiles $vectors $vector; $($rows)*),
            copy: copy::<$vector>,
            transpose: transpose::<$vector>,
            gather: gather::<$vector>,
            vector_by_rows: vector_by_rows::<$vector>,
            vector_by_columns: vector_by_columns::<$vector>,
        };
    };
    (@tiles 2 $v:ty; $($rows:literal)*) => { &[$(tile::<$v, $rows, 1>, tile::<$v, $rows, 2>),*] };
    (@tiles 4 $v:ty; $($rows:literal)*) => { &[$(tile::<$v, $rows, 1>, tile::<$v, $rows, 2>, tile::<$v, $rows, 3>, tile::<$v, $rows, 4>),*] };
}
pub(crate) use {context, kernels};
