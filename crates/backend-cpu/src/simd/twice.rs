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
    /// As [`Twice::write`], by non-temporal stores where [`Float::write_past`] goes there.
    #[inline(always)]
    pub fn write_past(self, out: &mut [V::Elem]) {
        let (first, second) = out.split_at_mut(V::LANES);
        self.0.write_past(first);
        self.1.write_past(second);
    }
    /// Writes as many lanes as the slice holds.
    #[inline(always)]
    pub fn write_partial(self, out: &mut [V::Elem]) {
        let (first, second) = out.split_at_mut(out.len().min(V::LANES));
        self.0.write_partial(first);
        self.1.write_partial(second);
    }
}

/// Functions of which each vector takes its part.
macro_rules! of_both {
    ($($name:ident($($x:ident),*) $(by $count:ident)? -> $result:ty;)*) => { $(
        #[inline(always)]
        fn $name(self $(, $x: Self)* $(, $count: u32)?) -> $result {
            Twice(self.0.$name($($x.0),* $($count)?), self.1.$name($($x.1),* $($count)?))
        }
    )* };
}
/// One number for both.
macro_rules! in_both {
    ($($name:ident($t:ty);)*) => { $(
        #[inline(always)]
        fn $name(value: $t) -> Self {
            Twice(V::$name(value), V::$name(value))
        }
    )* };
}

impl<V: Mask> Mask for Twice<V> {
    of_both! { and(other) -> Self; or(other) -> Self; not() -> Self; }
    #[inline(always)]
    fn any(self) -> bool {
        self.0.any() || self.1.any()
    }
}

impl<V: Integer> Integer for Twice<V> {
    type Elem = V::Elem;
    type Mask = Twice<V::Mask>;
    in_both! { splat(V::Elem); constant(i64); }
    of_both! {
        add(other) -> Self; sub(other) -> Self; and(other) -> Self; or(other) -> Self; xor(other) -> Self;
        shl() by count -> Self; shr() by count -> Self;
        eq(other) -> Self::Mask; gt(other) -> Self::Mask;
    }
}

impl<V: Arithmetic> Arithmetic for Twice<V> {
    type Int = Twice<V::Int>;
    type Mask = Twice<V::Mask>;
    const SIGNIFICAND: u32 = V::SIGNIFICAND;
    in_both! { constant(f64); }
    of_both! {
        add(other) -> Self; sub(other) -> Self; mul(other) -> Self; div(other) -> Self; mul_add(factor, addend) -> Self; sqrt() -> Self;
        min(other) -> Self; max(other) -> Self; round() -> Self; floor() -> Self; ceil() -> Self; trunc() -> Self;
        lt(other) -> Self::Mask; le(other) -> Self::Mask; eq(other) -> Self::Mask; is_nan() -> Self::Mask;
        abs() -> Self; neg() -> Self; copysign(sign) -> Self; to_bits() -> Self::Int;
    }
    #[inline(always)]
    fn scaled(self, n: Self) -> Option<Self> {
        Some(Twice(self.0.scaled(n.0)?, self.1.scaled(n.1)?))
    }
    #[inline(always)]
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
        Twice(V::select(mask.0, yes.0, no.0), V::select(mask.1, yes.1, no.1))
    }
    #[inline(always)]
    fn from_bits(bits: Self::Int) -> Self {
        Twice(V::from_bits(bits.0), V::from_bits(bits.1))
    }
}
