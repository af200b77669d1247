//! A small vector abstraction: one trait per element kind, three instruction sets behind it.
//!
//! A kernel is written once over [`Simd`] and compiled once per set inside a function that carries the set's
//! target features ([`dispatch`]); every operation is inlined into it. The scalar set is the safe twin.
//! Must not know mathematics: a function of more than one instruction belongs elsewhere.
//!
//! Architecture Invariant: values of a vector type are made only below [`dispatch`] (or in a function that carries
//! the same target features), because that is where the instructions are known to exist. The traits are crate-private
//! for that reason.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
pub(crate) mod lockstep;
pub(crate) mod scalar;
pub(crate) mod stream;
pub(crate) mod twice;

use crate::isa::Isa;

/// An instruction set as a type.
pub(crate) trait Simd: Copy + Send + Sync + 'static {
    /// A vector of f32.
    type F32: Float<Elem = f32, Int: Integer<Elem = i32>>;
    /// A vector of f64.
    type F64: Float<Elem = f64, Int: Integer<Elem = i64> + Halves>;
}

/// The outcome of a comparison, one truth value per lane.
#[allow(dead_code, reason = "the vocabulary is complete; kernels use parts of it")]
pub(crate) trait Mask: Copy {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn not(self) -> Self;
    /// Whether any lane is true.
    fn any(self) -> bool;
}

/// Calculating with floating-point numbers, in every lane alike. Every operation rounds once, as IEEE 754 asks.
#[allow(dead_code, reason = "the vocabulary is complete; kernels use parts of it")]
pub(crate) trait Arithmetic: Copy {
    type Int: Integer<Mask = Self::Mask>;
    type Mask: Mask;
    /// Stored bits of the significand: 23 or 52.
    const SIGNIFICAND: u32;

    /// The nearest number to `value`, in every lane.
    fn constant(value: f64) -> Self;

    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    /// `self * factor + addend`, rounded once.
    fn mul_add(self, factor: Self, addend: Self) -> Self;
    fn sqrt(self) -> Self;
    /// `self · 2^n` for a whole `n`, rounded once, where the set has an instruction for it.
    #[inline(always)]
    fn scaled(self, _n: Self) -> Option<Self> {
        None
    }
    /// `self < other ? self : other`: a NaN in either gives `other`.
    fn min(self, other: Self) -> Self;
    /// `self > other ? self : other`: a NaN in either gives `other`.
    fn max(self, other: Self) -> Self;
    /// To the nearest integer, ties to even.
    fn round(self) -> Self;
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    fn trunc(self) -> Self;
    fn lt(self, other: Self) -> Self::Mask;
    fn le(self, other: Self) -> Self::Mask;
    fn eq(self, other: Self) -> Self::Mask;
    fn is_nan(self) -> Self::Mask;
    /// `yes` where `mask`, else `no`.
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;
    fn to_bits(self) -> Self::Int;
    fn from_bits(bits: Self::Int) -> Self;
    fn abs(self) -> Self;
    fn neg(self) -> Self;
    /// The magnitude of `self` with the sign of `sign`.
    fn copysign(self, sign: Self) -> Self;
}

/// Combines 16 lanes by halves: each with the one 8 behind it, then 4, 2 and 1.
#[inline(always)]
pub(crate) fn fold<T: Copy>(mut lanes: [T; 16], f: impl Fn(T, T) -> T) -> T {
    let mut half = 8;
    while half > 0 {
        for k in 0..half {
            lanes[k] = f(lanes[k], lanes[k + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// A vector of floating-point numbers in memory.
#[allow(dead_code, reason = "the vocabulary is complete; kernels use parts of it")]
pub(crate) trait Float: Arithmetic {
    type Elem: Copy + Default + Send + Sync + 'static;
    const LANES: usize;
    /// As many vectors as have 16 lanes together.
    type Group: Copy + AsRef<[Self]> + AsMut<[Self]>;
    /// A group of equal vectors.
    fn group(value: Self) -> Self::Group;
    fn splat(value: Self::Elem) -> Self;
    /// # Safety
    /// `LANES` elements can be read at `at`.
    unsafe fn load(at: *const Self::Elem) -> Self;
    /// # Safety
    /// `LANES` elements can be written at `at`.
    unsafe fn store(self, at: *mut Self::Elem);
    /// As [`Float::store`], by non-temporal stores where the set can: [`stream::publish`] comes before anybody else may read it.
    ///
    /// # Safety
    /// `LANES` elements can be written at `at`, which is a multiple of the vector's size.
    #[inline(always)]
    unsafe fn store_past(self, at: *mut Self::Elem) {
        // SAFETY: the caller vouches for more.
        unsafe { self.store(at) }
    }
    /// The first `count` lanes; the others are zero.
    ///
    /// # Safety
    /// `min(count, LANES)` elements can be read at `at`.
    unsafe fn load_first(at: *const Self::Elem, count: usize) -> Self;
    /// Writes the first `count` lanes.
    ///
    /// # Safety
    /// `min(count, LANES)` elements can be written at `at`.
    unsafe fn store_first(self, at: *mut Self::Elem, count: usize);

    /// Reads a block of `rows` rows (at most `LANES`; the rest count as zeros) of `count` elements (likewise) and
    /// turns it: lane `r` of vector `c` is element `c` of row `r`. Vectors from `LANES` on are zero.
    ///
    /// # Safety
    /// `count` elements can be read at `at + r * row_stride` for every `r < rows`.
    unsafe fn load_transposed(at: *const Self::Elem, row_stride: usize, rows: usize, count: usize) -> [Self; 16];
    /// Writes the turn of a block of `LANES` rows of `LANES` elements: its columns as rows.
    ///
    /// # Safety
    /// `LANES` elements can be read at `at + r * row_stride` and written at `to + r * to_stride` for every `r < LANES`; the
    /// blocks do not overlap.
    #[inline(always)]
    unsafe fn transpose(at: *const Self::Elem, row_stride: usize, to: *mut Self::Elem, to_stride: usize) {
        // SAFETY: the caller vouches for both blocks.
        unsafe {
            let block = Self::load_transposed(at, row_stride, Self::LANES, Self::LANES);
            for (c, vector) in block.iter().enumerate().take(Self::LANES) {
                vector.store(to.add(c * to_stride));
            }
        }
    }
    /// [`fold`]s the lanes of four groups. Both functions are the same, of vectors and of their elements.
    #[inline(always)]
    fn fold_four(groups: [Self::Group; 4], _vectors: impl Fn(Self, Self) -> Self, elements: impl Fn(Self::Elem, Self::Elem) -> Self::Elem) -> [Self::Elem; 4] {
        let mut out = [Self::Elem::default(); 4];
        for (group, out) in groups.iter().zip(&mut out) {
            let mut lanes = [Self::Elem::default(); 16];
            for v in 0..16 / Self::LANES {
                group.as_ref()[v].write(&mut lanes[v * Self::LANES..]);
            }
            *out = fold(lanes, &elements);
        }
        out
    }
    /// `sum[r] + x[0] · (row r)[0] + x[1] · (row r)[1] + ..` over a block of `LANES` rows of `LANES` elements, fused and in this order.
    ///
    /// # Safety
    /// `LANES` elements can be read at `x` and at `at + r * row_stride` for every `r < LANES`.
    #[inline(always)]
    unsafe fn dot_rows(x: *const Self::Elem, at: *const Self::Elem, row_stride: usize, mut sum: Self) -> Self {
        // SAFETY: the caller vouches for a whole block and as many factors.
        unsafe {
            let block = Self::load_transposed(at, row_stride, Self::LANES, Self::LANES);
            for (i, vector) in block.iter().enumerate().take(Self::LANES) {
                sum = Self::splat(*x.add(i)).mul_add(*vector, sum);
            }
        }
        sum
    }

    /// Reads a whole vector from the front of a slice.
    #[inline(always)]
    fn from_slice(values: &[Self::Elem]) -> Self {
        assert!(values.len() >= Self::LANES);
        // SAFETY: the slice holds LANES elements.
        unsafe { Self::load(values.as_ptr()) }
    }

    /// [`Float::load_transposed`] of a whole block at the front of a slice.
    #[inline(always)]
    fn transposed(values: &[Self::Elem], row_stride: usize) -> [Self; 16] {
        assert!((Self::LANES - 1) * row_stride + Self::LANES <= values.len());
        // SAFETY: the slice holds the last row, and so those before it.
        unsafe { Self::load_transposed(values.as_ptr(), row_stride, Self::LANES, Self::LANES) }
    }

    /// [`Float::transpose`] from the front of a slice to that of another.
    #[inline(always)]
    fn transpose_block(values: &[Self::Elem], row_stride: usize, out: &mut [Self::Elem], to_stride: usize) {
        assert!((Self::LANES - 1) * row_stride + Self::LANES <= values.len() && (Self::LANES - 1) * to_stride + Self::LANES <= out.len());
        // SAFETY: both slices hold a whole block, and no slice overlaps one that is written.
        unsafe { Self::transpose(values.as_ptr(), row_stride, out.as_mut_ptr(), to_stride) }
    }

    /// Reads as much of the slice as fits; missing lanes are zero.
    #[inline(always)]
    fn from_partial(values: &[Self::Elem]) -> Self {
        // SAFETY: the slice holds the lanes asked for.
        unsafe { Self::load_first(values.as_ptr(), values.len()) }
    }

    /// Writes a whole vector to the front of a slice.
    #[inline(always)]
    fn write(self, out: &mut [Self::Elem]) {
        assert!(out.len() >= Self::LANES);
        // SAFETY: the slice holds LANES elements.
        unsafe { self.store(out.as_mut_ptr()) }
    }

    /// As [`Float::write`], by non-temporal stores if the slice begins at a multiple of the vector's size: [`stream::publish`]
    /// comes before anybody else may read it.
    #[inline(always)]
    fn write_past(self, out: &mut [Self::Elem]) {
        if !out.as_ptr().addr().is_multiple_of(size_of::<Self>()) {
            return self.write(out);
        }
        assert!(out.len() >= Self::LANES);
        // SAFETY: the slice holds LANES elements and begins at a multiple of their size.
        unsafe { self.store_past(out.as_mut_ptr()) }
    }

    /// Writes as many lanes as the slice holds.
    #[inline(always)]
    fn write_partial(self, out: &mut [Self::Elem]) {
        // SAFETY: the slice holds the lanes written.
        unsafe { self.store_first(out.as_mut_ptr(), out.len()) }
    }
}

/// A vector of integers as wide as the floats they are the bits of. Arithmetic wraps.
#[allow(dead_code, reason = "the vocabulary is complete; kernels use parts of it")]
pub(crate) trait Integer: Copy {
    type Elem: Copy;
    type Mask: Mask;

    fn splat(value: Self::Elem) -> Self;
    /// `value`, which fits, in every lane.
    fn constant(value: i64) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    /// Shifts every lane left.
    fn shl(self, count: u32) -> Self;
    /// Shifts every lane right and fills with zeros.
    fn shr(self, count: u32) -> Self;
    fn eq(self, other: Self) -> Self::Mask;
    /// Signed.
    fn gt(self, other: Self) -> Self::Mask;
}

/// A vector of integers of 64 bits.
pub(crate) trait Halves {
    /// The products of the lower halves of the lanes, which count as unsigned.
    fn mul_halves(self, other: Self) -> Self;
    /// The upper halves in place of the lower; what is above them then means nothing.
    fn upper(self) -> Self;
    /// The lower halves of `self`, with those of `above` above them.
    fn join(self, above: Self) -> Self;
    /// `[self[0], other[0], self[2], other[2], ..]` and `[self[1], other[1], self[3], other[3], ..]`; of one lane, both.
    fn pairs(self, other: Self) -> [Self; 2]
    where
        Self: Sized;
}

/// Work that is compiled once per instruction set.
pub(crate) trait SimdKernel {
    type Output;
    /// Must be `#[inline(always)]` in every implementation: its code belongs into the caller's target features.
    fn run<S: Simd>(self) -> Self::Output;
}

/// Runs `kernel` with the instructions of `isa`; on a CPU that lacks them, with the scalar set.
#[inline]
pub(crate) fn dispatch<K: SimdKernel>(isa: Isa, kernel: K) -> K::Output {
    match isa {
        // SAFETY: the CPU has the features that the function is compiled for.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 if isa.is_available() => unsafe { avx512::enter(kernel) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 if isa.is_available() => unsafe { avx2::enter(kernel) },
        _ => kernel.run::<scalar::ScalarSimd>(),
    }
}

/// As [`dispatch`] for kernels that something else stands in for where there are no vectors: no plain twin of them is compiled
/// on processors that have sets of vectors. `None`: nothing was done.
pub(crate) fn dispatch_vectors<K: SimdKernel>(isa: Isa, kernel: K) -> Option<K::Output> {
    match isa {
        // SAFETY: the CPU has the features that the function is compiled for.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 if isa.is_available() => Some(unsafe { avx512::enter(kernel) }),
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 if isa.is_available() => Some(unsafe { avx2::enter(kernel) }),
        #[cfg(target_arch = "x86_64")]
        _ => None,
        #[cfg(not(target_arch = "x86_64"))]
        _ => Some(kernel.run::<scalar::ScalarSimd>()),
    }
}
/// Whether [`dispatch_vectors`] runs kernels on this set.
pub(crate) const fn has_vectors(isa: Isa) -> bool {
    !(cfg!(target_arch = "x86_64") && matches!(isa, Isa::Scalar))
}
