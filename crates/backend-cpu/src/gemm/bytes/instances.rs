//! The kernels of [`micro`](super::micro) compiled for a set, and the context made of them.

/// Instances of all kernels, with the features of a set if it needs any.
macro_rules! kernels {
    ($($features:literal)?) => {
        /// # Safety
        /// As [`micro::tile`](super::micro::tile); the CPU has the features named.
        $(#[target_feature(enable = $features)])?
        #[allow(clippy::too_many_arguments)]
        unsafe fn tile<S: ByteSet, const ROWS: usize, const VECTORS: usize>(
            quads: usize,
            a: *const u8,
            a_stride: usize,
            b: *const i8,
            block_stride: usize,
            c: *mut i32,
            c_stride: usize,
            corrections: [*const i32; 3],
            accumulate: bool,
        ) {
            // SAFETY: the caller's promise.
            unsafe { super::micro::tile::<S, ROWS, VECTORS>(quads, a, a_stride, b, block_stride, c, c_stride, corrections, accumulate) }
        }
        /// # Safety
        /// As [`micro::lines`](super::micro::lines); the CPU has the features named.
        $(#[target_feature(enable = $features)])?
        #[allow(clippy::too_many_arguments)]
        unsafe fn lines<S: ByteSet, const ROWS: usize>(
            length: usize,
            a: *const u8,
            a_stride: usize,
            b: *const u8,
            b_stride: usize,
            flip: u8,
            columns: usize,
            out: *mut i32,
            out_stride: usize,
        ) {
            // SAFETY: the caller's promise.
            unsafe { super::micro::lines::<S, ROWS>(length, a, a_stride, b, b_stride, flip, columns, out, out_stride) }
        }
        /// # Safety
        /// As [`micro::streams`](super::micro::streams); the CPU has the features named.
        $(#[target_feature(enable = $features)])?
        #[allow(clippy::too_many_arguments)]
        unsafe fn streams<S: ByteSet, const ROWS: usize>(
            length: usize,
            a: *const u8,
            a_stride: usize,
            b: *const u8,
            b_stride: usize,
            flip: u8,
            columns: usize,
            out: *mut i32,
            out_stride: usize,
        ) {
            // SAFETY: the caller's promise.
            unsafe { super::micro::streams::<S, ROWS>(length, a, a_stride, b, b_stride, flip, columns, out, out_stride) }
        }
    };
}

/// The context of a set, whose largest tile has as many rows and vectors as are listed.
macro_rules! context {
    ($name:ident: tiles of [$($rows:literal)*] rows by $vectors:tt vectors of $set:ty) => {
        pub(crate) static $name: super::micro::ByteContext = super::micro::ByteContext {
            rows: [$($rows),*].len(),
            vectors: context!(@count $vectors),
            lanes: <$set as ByteSet>::COLUMNS,
            width: <$set as ByteSet>::WIDTH,
            tiles: context!(@tiles $set; $vectors $($rows)*),
            lines: [lines::<$set, 1>, lines::<$set, 2>, lines::<$set, 3>, lines::<$set, 4>, lines::<$set, 5>],
            streams: [streams::<$set, 1>, streams::<$set, 2>, streams::<$set, 3>, streams::<$set, 4>, streams::<$set, 5>],
        };
    };
    (@count [$($v:literal)*]) => { [$($v),*].len() };
    (@tiles $s:ty; [1] $($rows:literal)*) => { &[$(tile::<$s, $rows, 1>),*] };
    (@tiles $s:ty; [1 2] $($rows:literal)*) => { &[$(tile::<$s, $rows, 1>, tile::<$s, $rows, 2>),*] };
    (@tiles $s:ty; [1 2 3 4] $($rows:literal)*) => { &[$(tile::<$s, $rows, 1>, tile::<$s, $rows, 2>, tile::<$s, $rows, 3>, tile::<$s, $rows, 4>),*] };
}
pub(crate) use {context, kernels};
