//! Two vectors that are calculated with side by side. A function is a chain of instructions that wait for each other; two
//! chains whose instructions take turns keep the units busy where one leaves them idle, more so than the processor finds
//! by looking ahead. The results are those of the vectors one by one. Must not know what is calculated.
use super::{Arithmetic, Float, Integer, Mask};

/// The two.
#[derive(Clone, Copy)]
pub(crate) struct Twice<V>(pub V, pub V);

/// Two vectors that lie side by side.
impl<V: Float> Twice<V> {
    pub const LANES: usize = 2 * V::LANES;

    #[inline(always)]
    pub fn splat(value: V::Elem) -> Self {
        Twice(V::splat(value), V::splat(value))
    }
    /// Reads both from the front of a slice.
    #[inline(always)]
    pub fn from_slice(values: &[V::Elem]) -> Self {
        Twice(V::from_slice(values), V::from_slice(&values[V::LANES..]))
    }
    /// Reads as much of the slice as fits; missing lanes are zero.
    #[inline(always)]
    pub fn from_partial(values: &[V::Elem]) -> Self {
        let (first, second) = values.split_at(values.len().min(V::LANES));
        Twice(V::from_partial(first), V::from_partial(second))
    }
    /// Writes both to the front of a slice.
    #[inline(always)]
    pub fn write(self, out: &mut [V::Elem]) {
        let (first, second) = out.split_at_mut(V::LANES);
        self.0.write(first);
        self.1.write(second);
    }
    /// As [`Twice::write`], past the caches if both lie at multiples of their size: [`super::stream::publish`] comes before
    /// anybody else may read it.
    #[inline(always)]
    pub fn write_past(self, out: &mut [V::Elem]) {
        if !out.as_ptr().addr().is_multiple_of(size_of::<V>()) {
            return self.write(out);
        }
        let (first, second) = out.split_at_mut(V::LANES);
        assert!(second.len() >= V::LANES);
        // SAFETY: both slices hold a vector, and begin at multiples of its size.
        unsafe {
            self.0.store_past(first.as_mut_ptr());
            self.1.store_past(second.as_mut_ptr());
        }
    }
    /// Writes as many lanes as the slice holds.
    #[inline(always)]
    pub fn write_partial(self, out: &mut [V::Elem]) {
        let (first, second) = out.split_at_mut(out.len().min(V::LANES));
        self.0.write_partial(first);
        self.1.write_partial(second);
    }
}

impl<M: Mask> Mask for Twice<M> {
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Twice(self.0.and(other.0), self.1.and(other.1))
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Twice(self.0.or(other.0), self.1.or(other.1))
    }
    #[inline(always)]
    fn not(self) -> Self {
        Twice(self.0.not(), self.1.not())
    }
    #[inline(always)]
    fn any(self) -> bool {
        self.0.any() || self.1.any()
    }
}

impl<I: Integer> Integer for Twice<I> {
    type Elem = I::Elem;
    type Mask = Twice<I::Mask>;

    #[inline(always)]
    fn splat(value: I::Elem) -> Self {
        Twice(I::splat(value), I::splat(value))
    }
    #[inline(always)]
    fn constant(value: i64) -> Self {
        Twice(I::constant(value), I::constant(value))
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Twice(self.0.add(other.0), self.1.add(other.1))
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Twice(self.0.sub(other.0), self.1.sub(other.1))
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Twice(self.0.and(other.0), self.1.and(other.1))
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Twice(self.0.or(other.0), self.1.or(other.1))
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Twice(self.0.xor(other.0), self.1.xor(other.1))
    }
    #[inline(always)]
    fn shl(self, count: u32) -> Self {
        Twice(self.0.shl(count), self.1.shl(count))
    }
    #[inline(always)]
    fn shr(self, count: u32) -> Self {
        Twice(self.0.shr(count), self.1.shr(count))
    }
    #[inline(always)]
    fn eq(self, other: Self) -> Self::Mask {
        Twice(self.0.eq(other.0), self.1.eq(other.1))
    }
    #[inline(always)]
    fn gt(self, other: Self) -> Self::Mask {
        Twice(self.0.gt(other.0), self.1.gt(other.1))
    }
}

impl<V: Arithmetic> Arithmetic for Twice<V> {
    type Int = Twice<V::Int>;
    type Mask = Twice<V::Mask>;
    const SIGNIFICAND: u32 = V::SIGNIFICAND;

    #[inline(always)]
    fn constant(value: f64) -> Self {
        Twice(V::constant(value), V::constant(value))
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Twice(self.0.add(other.0), self.1.add(other.1))
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Twice(self.0.sub(other.0), self.1.sub(other.1))
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Twice(self.0.mul(other.0), self.1.mul(other.1))
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        Twice(self.0.div(other.0), self.1.div(other.1))
    }
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        Twice(self.0.min(other.0), self.1.min(other.1))
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        Twice(self.0.max(other.0), self.1.max(other.1))
    }
    #[inline(always)]
    fn copysign(self, sign: Self) -> Self {
        Twice(self.0.copysign(sign.0), self.1.copysign(sign.1))
    }
    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        Twice(self.0.mul_add(factor.0, addend.0), self.1.mul_add(factor.1, addend.1))
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Twice(self.0.sqrt(), self.1.sqrt())
    }
    #[inline(always)]
    fn round(self) -> Self {
        Twice(self.0.round(), self.1.round())
    }
    #[inline(always)]
    fn floor(self) -> Self {
        Twice(self.0.floor(), self.1.floor())
    }
    #[inline(always)]
    fn ceil(self) -> Self {
        Twice(self.0.ceil(), self.1.ceil())
    }
    #[inline(always)]
    fn trunc(self) -> Self {
        Twice(self.0.trunc(), self.1.trunc())
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Twice(self.0.abs(), self.1.abs())
    }
    #[inline(always)]
    fn neg(self) -> Self {
        Twice(self.0.neg(), self.1.neg())
    }
    #[inline(always)]
    fn scaled(self, n: Self) -> Option<Self> {
        match (self.0.scaled(n.0), self.1.scaled(n.1)) {
            (Some(a), Some(b)) => Some(Twice(a, b)),
            _ => None,
        }
    }
    #[inline(always)]
    fn lt(self, other: Self) -> Self::Mask {
        Twice(self.0.lt(other.0), self.1.lt(other.1))
    }
    #[inline(always)]
    fn le(self, other: Self) -> Self::Mask {
        Twice(self.0.le(other.0), self.1.le(other.1))
    }
    #[inline(always)]
    fn eq(self, other: Self) -> Self::Mask {
        Twice(self.0.eq(other.0), self.1.eq(other.1))
    }
    #[inline(always)]
    fn is_nan(self) -> Self::Mask {
        Twice(self.0.is_nan(), self.1.is_nan())
    }
    #[inline(always)]
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
        Twice(V::select(mask.0, yes.0, no.0), V::select(mask.1, yes.1, no.1))
    }
    #[inline(always)]
    fn from_bits(bits: Self::Int) -> Self {
        Twice(V::from_bits(bits.0), V::from_bits(bits.1))
    }
    #[inline(always)]
    fn to_bits(self) -> Self::Int {
        Twice(self.0.to_bits(), self.1.to_bits())
    }
}
