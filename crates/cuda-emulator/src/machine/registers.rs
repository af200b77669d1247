//! The registers of a warp: rows of 32 lanes, and predicates as masks of lanes.
//!
//! A row holds 32 words of 32 bits; registers of 64 bits take two rows. Constants and the special registers that do not
//! change while a block runs are rows as well, so that an operand is always the number of a row.
#![allow(unsafe_code, reason = "loops once more for hosts with wider registers")]
use bytemuck::Pod;
use half::{bf16, f16};

/// Lanes of a warp.
pub const LANES: usize = 32;
/// All lanes.
pub const ALL: u32 = u32::MAX;
/// Words of 64 bits in a row.
const ROW: usize = LANES / 2;
/// The predicate that always holds.
pub const TRUE: u32 = 0;
/// The carry of `add.cc` and its kin.
pub const CARRY: u32 = 1;
/// Where a predicate goes that nobody wants.
pub const NOWHERE: u32 = 2;
/// Predicates before a function's own.
pub const FIRST_PREDICATE: u32 = 3;

/// A value of one lane, and the word of a register it lies in.
pub trait LaneValue: Copy {
    /// The word: of 32 or of 64 bits.
    type Word: Pod + Default;
    fn of(word: Self::Word) -> Self;
    fn word(self) -> Self::Word;
}

macro_rules! lane {
    ($($t:ty, $w:ty, |$a:ident| $of:expr, |$b:ident| $word:expr;)*) => {$(
        impl LaneValue for $t {
            type Word = $w;
            #[inline(always)]
            fn of($a: $w) -> $t { $of }
            #[inline(always)]
            fn word(self) -> $w { let $b = self; $word }
        }
    )*};
}
lane! {
    u8, u32, |w| w as u8, |v| u32::from(v);
    i8, u32, |w| w as i8, |v| u32::from(v as u8);
    u16, u32, |w| w as u16, |v| u32::from(v);
    i16, u32, |w| w as i16, |v| u32::from(v as u16);
    u32, u32, |w| w, |v| v;
    i32, u32, |w| w as i32, |v| v as u32;
    f32, u32, |w| f32::from_bits(w), |v| v.to_bits();
    f16, u32, |w| f16::from_bits(w as u16), |v| u32::from(v.to_bits());
    bf16, u32, |w| bf16::from_bits(w as u16), |v| u32::from(v.to_bits());
    u64, u64, |w| w, |v| v;
    i64, u64, |w| w as i64, |v| v as u64;
    f64, u64, |w| f64::from_bits(w), |v| v.to_bits();
}

/// What a plain instruction is applied to: rows, or predicates, or a small constant, as the instruction takes it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowOperands {
    pub d: u32,
    pub a: u32,
    pub b: u32,
    pub c: u32,
    pub x: u32,
}

/// An instruction that concerns registers alone.
pub type Plain = fn(&mut Registers, &RowOperands, u32);

/// The registers of a warp.
pub struct Registers {
    words: Vec<u64>,
    pub predicates: Vec<u32>,
}

impl Registers {
    pub fn new(rows: usize, predicates: usize) -> Registers {
        let mut registers = Registers { words: vec![0; rows * ROW], predicates: vec![0; predicates.max(FIRST_PREDICATE as usize)] };
        registers.predicates[TRUE as usize] = ALL;
        registers
    }
    /// Zeros all rows from `first` on, and the predicates.
    pub fn clear_from(&mut self, first: usize) {
        self.words[first * ROW..].fill(0);
        self.predicates[1..].fill(0);
    }
    #[inline(always)]
    fn row<W: Pod>(&self, row: u32) -> &[W; LANES] {
        let start = row as usize * ROW;
        let words = &self.words[start..start + LANES * size_of::<W>() / 8];
        bytemuck::from_bytes(bytemuck::cast_slice(words))
    }
    #[inline(always)]
    fn row_mut<W: Pod>(&mut self, row: u32) -> &mut [W; LANES] {
        let start = row as usize * ROW;
        let words = &mut self.words[start..start + LANES * size_of::<W>() / 8];
        bytemuck::from_bytes_mut(bytemuck::cast_slice_mut(words))
    }
    /// A row of words of 32 bits.
    #[inline(always)]
    pub fn words(&self, row: u32) -> &[u32; LANES] {
        self.row(row)
    }
    /// A row of words of 32 bits, to write to.
    #[inline(always)]
    pub fn words_mut(&mut self, row: u32) -> &mut [u32; LANES] {
        self.row_mut(row)
    }
    /// Two rows as words of 64 bits.
    #[inline(always)]
    pub fn wide(&self, row: u32) -> &[u64; LANES] {
        self.row(row)
    }
    /// Two rows as words of 64 bits, to write to.
    #[inline(always)]
    pub fn wide_mut(&mut self, row: u32) -> &mut [u64; LANES] {
        self.row_mut(row)
    }
    /// The values of all lanes.
    #[inline(always)]
    pub fn get<T: LaneValue>(&self, row: u32) -> [T; LANES] {
        self.row::<T::Word>(row).map(T::of)
    }
    /// Writes the value of one lane.
    #[inline(always)]
    pub fn set_lane<T: LaneValue>(&mut self, row: u32, lane: usize, value: T) {
        self.row_mut::<T::Word>(row)[lane] = value.word();
    }
    /// Writes words where the mask says.
    #[inline(always)]
    pub fn put<W: Pod>(&mut self, row: u32, mask: u32, words: &[W; LANES]) {
        let to = self.row_mut::<W>(row);
        if mask == ALL {
            *to = *words;
        } else {
            for lane in 0..LANES {
                to[lane] = if mask & BITS[lane] != 0 { words[lane] } else { to[lane] };
            }
        }
    }
    /// Writes the same value to all lanes.
    pub fn fill<T: LaneValue>(&mut self, row: u32, value: T) {
        *self.row_mut::<T::Word>(row) = [value.word(); LANES];
    }
    #[inline(always)]
    pub fn predicate(&self, predicate: u32) -> u32 {
        self.predicates[predicate as usize]
    }
    /// Writes a predicate where the mask says.
    #[inline(always)]
    pub fn put_predicate(&mut self, predicate: u32, mask: u32, bits: u32) {
        let to = &mut self.predicates[predicate as usize];
        *to = *to & !mask | bits & mask;
    }
}

/// One bit for each lane.
pub const BITS: [u32; LANES] = {
    let mut bits = [0; LANES];
    let mut lane = 0;
    while lane < LANES {
        bits[lane] = 1 << lane;
        lane += 1;
    }
    bits
};

/// The lanes of a mask, in order.
#[inline(always)]
pub fn lanes(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (lane < 32).then_some(lane as usize)
    })
}

/// Runs a loop over the lanes in the host's wider registers, where it has them: what is handed over becomes part of a function
/// that may use them.
#[inline(always)]
pub fn widely<T>(f: impl FnOnce() -> T) -> T {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn wide<T>(f: impl FnOnce() -> T) -> T {
            f()
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the host has the instructions, as just asked.
            return unsafe { wide(f) };
        }
    }
    f()
}

/// d = f(a).
#[inline(always)]
pub fn map1<A: LaneValue, R: LaneValue>(r: &mut Registers, o: &RowOperands, mask: u32, f: impl Fn(A) -> R) {
    widely(|| {
        let a = r.row::<A::Word>(o.a);
        let mut d = [R::Word::default(); LANES];
        for lane in 0..LANES {
            d[lane] = f(A::of(a[lane])).word();
        }
        r.put(o.d, mask, &d);
    })
}
/// d = f(a, b).
#[inline(always)]
pub fn map2<A: LaneValue, B: LaneValue, R: LaneValue>(r: &mut Registers, o: &RowOperands, mask: u32, f: impl Fn(A, B) -> R) {
    widely(|| {
        let (a, b) = (r.row::<A::Word>(o.a), r.row::<B::Word>(o.b));
        let mut d = [R::Word::default(); LANES];
        for lane in 0..LANES {
            d[lane] = f(A::of(a[lane]), B::of(b[lane])).word();
        }
        r.put(o.d, mask, &d);
    })
}
/// d = f(a, b, c).
#[inline(always)]
pub fn map3<A: LaneValue, B: LaneValue, C: LaneValue, R: LaneValue>(r: &mut Registers, o: &RowOperands, mask: u32, f: impl Fn(A, B, C) -> R) {
    widely(|| {
        let (a, b, c) = (r.row::<A::Word>(o.a), r.row::<B::Word>(o.b), r.row::<C::Word>(o.c));
        let mut d = [R::Word::default(); LANES];
        for lane in 0..LANES {
            d[lane] = f(A::of(a[lane]), B::of(b[lane]), C::of(c[lane])).word();
        }
        r.put(o.d, mask, &d);
    })
}
/// The lanes for which f(a, b) holds.
#[inline(always)]
pub fn compare<A: LaneValue, B: LaneValue>(r: &Registers, o: &RowOperands, f: impl Fn(A, B) -> bool) -> u32 {
    widely(|| {
        let (a, b) = (r.row::<A::Word>(o.a), r.row::<B::Word>(o.b));
        let mut holds = [0u32; LANES];
        for lane in 0..LANES {
            holds[lane] = if f(A::of(a[lane]), B::of(b[lane])) { BITS[lane] } else { 0 };
        }
        holds.iter().fold(0, |all, bit| all | bit)
    })
}
