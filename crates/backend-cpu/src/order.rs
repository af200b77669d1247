//! Elements as integers in the order in which sorts, extremes and their places see them: NaN is larger than every number, both
//! zeros are equal. A comparison is one of integers, which vectors have for every width. Must not know operands.
use crate::{
    element::{Bit, Number},
    scratch::KeptElement,
};
use half::{bf16, f16};

/// An element that has a place in an order.
pub(crate) trait Ordered: Number {
    /// Integers of the element's size.
    type Key: OrderKey;
    /// Larger where the element is larger.
    fn key(self) -> Self::Key;
    /// The key by which the extreme that is looked for is the largest: of maxima the key itself; of minima the other way round,
    /// where NaN is as extreme as among maxima.
    #[inline(always)]
    fn extreme<const MAX: bool>(self) -> Self::Key {
        let key = self.key();
        if MAX || (Self::HAS_NAN && key == Self::Key::LARGEST) { key } else { key.reversed() }
    }
    /// Is there a NaN, whose key is the largest?
    const HAS_NAN: bool;
    /// What is compared in its place where a first largest element is looked for: the element itself if that takes few
    /// instructions, else its key.
    type Contender: KeptElement + Send + Sync;
    /// Nothing is less.
    const WEAKEST: Self::Contender;
    fn contender(self) -> Self::Contender;
    /// Is the contender the larger one, and not only as large?
    fn beats(contender: Self::Contender, best: Self::Contender) -> bool;
    /// `contender` if it `wins`, else `best`: by bits, which a compiler makes vectors of where a branch becomes a masked store.
    fn better(wins: bool, contender: Self::Contender, best: Self::Contender) -> Self::Contender;
    /// The element that a contender stands for, which is also found where it lies.
    fn winner(contender: Self::Contender, found: impl Fn() -> Self) -> Self;
}
/// An integer to compare by.
pub(crate) trait OrderKey: KeptElement + Ord + Send + Sync {
    const LARGEST: Self;
    const SMALLEST: Self;
    /// The other way round.
    fn reversed(self) -> Self;
    /// As an unsigned integer of the same order.
    fn unsigned(self) -> u64;
}
macro_rules! key {
    ($($t:ty, $flip:expr;)*) => { $(impl OrderKey for $t {
        const LARGEST: $t = <$t>::MAX;
        const SMALLEST: $t = <$t>::MIN;
        #[inline(always)]
        fn reversed(self) -> $t { !self }
        #[inline(always)]
        fn unsigned(self) -> u64 { ($flip)(self) }
    })* };
}
key! {
    u8, |k| k as u64;
    i8, |k| (k as u8 ^ 1 << 7) as u64;
    i16, |k| (k as u16 ^ 1 << 15) as u64;
    u32, |k| k as u64;
    i32, |k| (k as u32 ^ 1 << 31) as u64;
    i64, |k| k as u64 ^ 1 << 63;
}
/// A contender is the float, of as many bits. What is not less or equal is larger or NaN, and nothing beats that.
macro_rules! by_itself {
    ($t:ty, $bits:ty) => {
        type Contender = $t;
        const WEAKEST: $t = <$t>::NEG_INFINITY;
        #[inline(always)]
        fn contender(self) -> $t {
            self
        }
        #[inline(always)]
        #[allow(clippy::neg_cmp_op_on_partial_ord, clippy::eq_op, reason = "what is not less or equal may be NaN")]
        fn beats(contender: $t, best: $t) -> bool {
            !(contender <= best) & (best == best)
        }
        #[inline(always)]
        fn better(wins: bool, contender: $t, best: $t) -> $t {
            let wins = (wins as $bits).wrapping_neg();
            <$t>::from_bits(contender.to_bits() & wins | best.to_bits() & !wins)
        }
        #[inline(always)]
        fn winner(contender: $t, _: impl Fn() -> $t) -> $t {
            contender
        }
    };
}
/// A contender is the element's key.
macro_rules! by_key {
    ($t:ty, $k:ty) => {
        type Contender = $k;
        const WEAKEST: $k = <$k>::MIN;
        #[inline(always)]
        fn contender(self) -> $k {
            self.key()
        }
        #[inline(always)]
        fn beats(contender: $k, best: $k) -> bool {
            contender > best
        }
        #[inline(always)]
        fn better(wins: bool, contender: $k, best: $k) -> $k {
            let wins = (wins as $k).wrapping_neg();
            contender & wins | best & !wins
        }
        #[inline(always)]
        fn winner(_: $k, found: impl Fn() -> $t) -> $t {
            found()
        }
    };
}
macro_rules! whole {
    ($($t:ty),*) => { $(impl Ordered for $t {
        type Key = $t;
        const HAS_NAN: bool = false;
        #[inline(always)]
        fn key(self) -> $t { self }
        by_key!($t, $t);
    })* };
}
whole!(u8, i8, u32, i32, i64);
impl Ordered for Bit {
    type Key = i8;
    const HAS_NAN: bool = false;
    #[inline(always)]
    fn key(self) -> i8 {
        self.wide() as i8
    }
    by_key!(Bit, i8);
}
macro_rules! float {
    ($($t:ty, $k:ty, $magnitude:expr, $infinity:expr, $contender:ident!$contenders:tt;)*) => { $(impl Ordered for $t {
        type Key = $k;
        const HAS_NAN: bool = true;
        #[inline(always)]
        fn key(self) -> $k {
            let bits = self.to_bits() as $k;
            let magnitude = bits & $magnitude;
            // All bits of a negative number are one in the sign; of both zeros the key is 0.
            let sign = bits >> (<$k>::BITS - 1);
            let key = (magnitude ^ sign).wrapping_sub(sign);
            if magnitude > $infinity { <$k>::MAX } else { key }
        }
        $contender!$contenders;
    })* };
}
float! {
    f16, i16, 0x7fff, 0x7c00, by_key!(f16, i16);
    bf16, i16, 0x7fff, 0x7f80, by_key!(bf16, i16);
    f32, i32, 0x7fff_ffff, 0x7f80_0000, by_itself!(f32, u32);
    f64, i64, 0x7fff_ffff_ffff_ffff, 0x7ff0_0000_0000_0000, by_itself!(f64, u64);
}

/// A key with the place of its element, as one integer: of equal elements the one in front is smaller, so an unstable sort of
/// these is a stable one of the elements.
pub(crate) trait Placed: Copy + Ord + Send + Sync {
    fn new(key: u64, place: usize) -> Self;
    fn key(self) -> u64;
    fn place(self) -> usize;
}
/// Keys of up to 32 bits in lines of up to as many places.
impl Placed for u64 {
    #[inline(always)]
    fn new(key: u64, place: usize) -> u64 {
        key << 32 | place as u64
    }
    #[inline(always)]
    fn key(self) -> u64 {
        self >> 32
    }
    #[inline(always)]
    fn place(self) -> usize {
        self as u32 as usize
    }
}
impl Placed for u128 {
    #[inline(always)]
    fn new(key: u64, place: usize) -> u128 {
        (key as u128) << 64 | place as u128
    }
    #[inline(always)]
    fn key(self) -> u64 {
        (self >> 64) as u64
    }
    #[inline(always)]
    fn place(self) -> usize {
        self as u64 as usize
    }
}
/// Does a [`Placed`] of 64 bits hold the keys of these elements with the places of a line of `n`?
pub(crate) fn is_short<T: Ordered>(n: usize) -> bool {
    size_of::<T::Key>() <= 4 && u32::try_from(n).is_ok()
}
/// An element of a line that is sorted.
#[inline(always)]
pub(crate) fn placed<T: Ordered, P: Placed>(v: T, place: usize, descending: bool) -> P {
    let key = v.key();
    P::new(if descending { key.reversed() } else { key }.unsigned(), place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Ordered>(ascending: &[T]) {
        for (i, &a) in ascending.iter().enumerate() {
            for (j, &b) in ascending.iter().enumerate() {
                assert_eq!(a.key().cmp(&b.key()), i.cmp(&j), "{i} and {j}");
                assert_eq!(a.key().unsigned().cmp(&b.key().unsigned()), i.cmp(&j), "{i} and {j}");
                let nan = T::HAS_NAN && [i, j].contains(&(ascending.len() - 1));
                assert_eq!(a.extreme::<false>().cmp(&b.extreme::<false>()), if nan { i.cmp(&j) } else { j.cmp(&i) }, "{i} and {j}");
            }
        }
    }
    #[test]
    fn keys_are_in_the_order_of_what_they_are_of() {
        check(&[f32::NEG_INFINITY, f32::MIN, -1.0, -f32::from_bits(1), 0.0, f32::from_bits(1), 1.0, f32::MAX, f32::INFINITY, f32::NAN]);
        check(&[f64::NEG_INFINITY, f64::MIN, -1.0, -f64::from_bits(1), 0.0, f64::from_bits(1), 1.0, f64::MAX, f64::INFINITY, -f64::NAN]);
        check(&[f16::NEG_INFINITY, f16::MIN, f16::NEG_ONE, f16::from_bits(0x8001), f16::ZERO, f16::from_bits(1), f16::MAX, f16::INFINITY, f16::NAN]);
        check(&[bf16::NEG_INFINITY, bf16::MIN, bf16::NEG_ONE, bf16::ZERO, bf16::from_bits(1), bf16::MAX, bf16::INFINITY, -bf16::NAN]);
        check(&[i8::MIN, -1, 0, 1, i8::MAX]);
        check(&[i64::MIN, -1, 0, 1, i64::MAX]);
        check(&[0u32, 1, u32::MAX]);
        assert_eq!([0.0f32.key(), (-0.0f32).key()], [0; 2]);
        assert_eq!(f16::from_bits(0x8000).key(), 0);
    }
}
