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
        /// As [`windows::windows`](super::windows::windows); the CPU has the features named.
        $(#[target_feature(enable = $features)])?
        unsafe fn windows<S: ByteSet, const ROWS: usize, const VECTORS: usize>(
            steps: &[usize],
            a: *const u8,
            a_stride: usize,
            b: *const i8,
            c: *mut i32,
            c_stride: usize,
        ) {
            // SAFETY: the caller's promise.
            unsafe { super::windows::windows::<S, ROWS, VECTORS>(steps, a, a_stride, b, c, c_stride) }
        }
        kernels!(@direct lines $($features)?);
        kernels!(@direct streams $($features)?);
    };
    (@direct $kernel:ident $($features:literal)?) => {
        /// # Safety
        #[doc = concat!("As [`micro::", stringify!($kernel), "`](super::micro::", stringify!($kernel), "); the CPU has the features named.")]
        $(#[target_feature(enable = $features)])?
        #[allow(clippy::too_many_arguments)]
        unsafe fn $kernel<S: ByteSet, const SIGNED: bool, const ROWS: usize>(
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
            unsafe { super::micro::$kernel::<S, SIGNED, ROWS>(length, a, a_stride, b, b_stride, flip, columns, out, out_stride) }
        }
    };
}

/// The context of a set, whose largest tile has as many rows and vectors as are listed, and that reads lines for so many rows.
macro_rules! context {
    ($name:ident: tiles of [$($rows:literal)*] rows by $vectors:tt vectors, lines by $line_rows:literal rows of $set:ty) => {
        pub(crate) static $name: super::micro::ByteContext = super::micro::ByteContext {
            rows: [$($rows),*].len(),
            vectors: context!(@count $vectors),
            lanes: <$set as ByteSet>::COLUMNS,
            width: <$set as ByteSet>::WIDTH,
            tiles: context!(@tiles tile $set; $vectors $($rows)*),
            window_tiles: context!(@tiles windows $set; $vectors $($rows)*),
            line_rows: $line_rows,
            lines: [context!(@direct lines $set, false), context!(@direct lines $set, true)],
            streams: [context!(@direct streams $set, false), context!(@direct streams $set, true)],
        };
    };
    (@direct $kernel:ident $s:ty, $signed:literal) => {
        [
            $kernel::<$s, $signed, 1>,
            $kernel::<$s, $signed, 2>,
            $kernel::<$s, $signed, 3>,
            $kernel::<$s, $signed, 4>,
            $kernel::<$s, $signed, 5>,
            $kernel::<$s, $signed, 6>,
        ]
    };
    (@count [$($v:literal)*]) => { [$($v),*].len() };
    (@tiles $kernel:ident $s:ty; [1] $($rows:literal)*) => { &[$($kernel::<$s, $rows, 1>),*] };
    (@tiles $kernel:ident $s:ty; [1 2] $($rows:literal)*) => { &[$($kernel::<$s, $rows, 1>, $kernel::<$s, $rows, 2>),*] };
    (@tiles $kernel:ident $s:ty; [1 2 3 4] $($rows:literal)*) => {
        &[$($kernel::<$s, $rows, 1>, $kernel::<$s, $rows, 2>, $kernel::<$s, $rows, 3>, $kernel::<$s, $rows, 4>),*]
    };
}
pub(crate) use {context, kernels};
