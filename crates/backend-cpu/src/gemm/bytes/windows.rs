//! Products of rows of A with what a window meets as it moves over planes of B: the sums of adjacent places lie side by side, and so do
//! their quads, so that B is read where it lies.
use super::micro::{ByteContext, ByteSet, QUAD, Strided};

/// Where the quads of a window lie, in bytes from the window's place.
pub(crate) struct WindowSteps {
    offsets: Vec<usize>,
    reach: usize,
}
impl WindowSteps {
    pub(crate) fn new(offsets: Vec<usize>) -> WindowSteps {
        WindowSteps { reach: offsets.iter().copied().max().unwrap_or(0), offsets }
    }
    /// Quads of a window.
    pub(crate) fn quads(&self) -> usize {
        self.offsets.len()
    }
    /// The farthest of them.
    pub(crate) fn reach(&self) -> usize {
        self.reach
    }
}

/// `(steps, a, a_stride, b, c, c_stride)`.
pub(super) type WindowTileFn = unsafe fn(&[usize], *const u8, usize, *const i8, *mut i32, usize);

/// `c[r][p] = Σ a[r][q] b[steps[q] + p]` over quads q, of signed A; B is unsigned where elements take one byte, else signed.
///
/// # Safety
/// `a` holds `ROWS` rows of a quad for each step; behind each step `b` holds quads of `VECTORS` vectors of places; `c` holds `ROWS` rows
/// of these; the CPU has the set's instructions.
#[inline(always)]
pub(super) unsafe fn windows<S: ByteSet, const ROWS: usize, const VECTORS: usize>(
    steps: &[usize],
    a: *const u8,
    a_stride: usize,
    b: *const i8,
    c: *mut i32,
    c_stride: usize,
) {
    // SAFETY: all offsets stay within what the caller vouches for.
    unsafe {
        let mut sums = [[S::zero(); VECTORS]; ROWS];
        for (q, &step) in steps.iter().enumerate() {
            let at = b.add(step);
            let mut bytes = [S::load(at); VECTORS];
            for (v, bytes) in bytes.iter_mut().enumerate().skip(1) {
                *bytes = S::load(at.add(v * S::COLUMNS * QUAD));
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let quad = S::quad(a.add(r * a_stride + q * QUAD * S::WIDTH));
                for (sum, bytes) in sums.iter_mut().zip(bytes) {
                    *sum = S::dot::<true>(quad, bytes, *sum);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                S::store_lanes(S::lanes(*sum), c.add(r * c_stride + v * S::COLUMNS));
            }
        }
    }
}

impl ByteContext {
    /// What bytes of B are xored with where windows read them.
    pub(crate) fn window_flip(&self) -> u8 {
        if self.width == 1 { 0 } else { 0x80 }
    }
    /// Places are taken in multiples of these.
    pub(crate) fn window_places(&self) -> usize {
        self.lanes
    }
    /// The sums of some rows of A at `places` places of B, whole vectors, from its beginning on.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn windows(&self, steps: &WindowSteps, a: Strided<'_, u8>, rows: usize, b: &[u8], places: usize, c: &mut [i32], c_stride: usize) {
        assert!(rows >= 1 && rows <= self.rows && places.is_multiple_of(self.lanes));
        assert!((rows - 1) * a.stride + steps.quads() * QUAD * self.width <= a.data.len());
        assert!(steps.reach + places * QUAD <= b.len());
        assert!((rows - 1) * c_stride + places <= c.len() && (rows == 1 || places <= c_stride));
        for first in (0..places).step_by(self.columns()) {
            let vectors = self.vectors.min((places - first) / self.lanes);
            let tile = self.window_tiles[(rows - 1) * self.vectors + vectors - 1];
            // SAFETY: the asserts are the conditions of `windows`; the context exists only where its instructions do.
            unsafe { tile(&steps.offsets, a.data.as_ptr(), a.stride, b.as_ptr().add(first * QUAD).cast(), c.as_mut_ptr().add(first), c_stride) }
        }
    }
}
