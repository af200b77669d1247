//! Elements as kernels that loop over them see them: the type in memory and the wider one it is computed in.
use crate::scratch::KeptElement;
use adamant_runtime::{
    DType, bf16_from_f64, f16_from_f64,
    kernel::{Fault, FaultWord},
};
use half::{bf16, f16};

/// An element that arithmetic is defined for.
pub(crate) trait Number: bytemuck::Pod + Send + Sync {
    /// f64 for floats, i64 for the others
    type Wide: Wide;
    fn wide(self) -> Self::Wide;
    /// Rounded once, or wrapped.
    fn narrow(v: Self::Wide) -> Self;
}
/// Arithmetic in f64 or, wrapping, in i64.
pub(crate) trait Wide: KeptElement + PartialOrd + Send + Sync {
    const ZERO: Self;
    /// The identity of a maximum.
    const LOWEST: Self;
    fn plus(self, o: Self) -> Self;
    fn times(self, o: Self) -> Self;
    fn is_nan(self) -> bool;
    /// The larger; NaN if either is.
    fn larger(self, o: Self) -> Self {
        if self.is_nan() || self > o { self } else { o }
    }
    /// The smaller; NaN if either is.
    fn smaller(self, o: Self) -> Self {
        if self.is_nan() || self < o { self } else { o }
    }
}
impl Wide for f64 {
    const ZERO: f64 = 0.0;
    const LOWEST: f64 = f64::NEG_INFINITY;
    fn plus(self, o: f64) -> f64 {
        self + o
    }
    fn times(self, o: f64) -> f64 {
        self * o
    }
    fn is_nan(self) -> bool {
        f64::is_nan(self)
    }
}
impl Wide for f32 {
    const ZERO: f32 = 0.0;
    const LOWEST: f32 = f32::NEG_INFINITY;
    fn plus(self, o: f32) -> f32 {
        self + o
    }
    fn times(self, o: f32) -> f32 {
        self * o
    }
    fn is_nan(self) -> bool {
        f32::is_nan(self)
    }
}
impl Wide for i64 {
    const ZERO: i64 = 0;
    const LOWEST: i64 = i64::MIN;
    fn plus(self, o: i64) -> i64 {
        self.wrapping_add(o)
    }
    fn times(self, o: i64) -> i64 {
        self.wrapping_mul(o)
    }
    fn is_nan(self) -> bool {
        false
    }
}
/// A bool in memory.
#[derive(Clone, Copy, bytemuck::Zeroable, bytemuck::Pod)]
#[repr(transparent)]
pub(crate) struct Bit(u8);
macro_rules! number {
    ($($t:ty, $w:ty, $wide:expr, $narrow:expr;)*) => { $(impl Number for $t {
        type Wide = $w;
        #[inline(always)]
        fn wide(self) -> $w { ($wide)(self) }
        #[inline(always)]
        fn narrow(v: $w) -> $t { ($narrow)(v) }
    })* };
}
number! {
    Bit, i64, |v: Bit| (v.0 != 0) as i64, |v| Bit((v != 0) as u8);
    u8, i64, |v| v as i64, |v| v as u8;
    i8, i64, |v| v as i64, |v| v as i8;
    i32, i64, |v| v as i64, |v| v as i32;
    u32, i64, |v| v as i64, |v| v as u32;
    i64, i64, |v| v, |v| v;
    f16, f64, f16::to_f64, f16_from_f64;
    bf16, f64, bf16::to_f64, bf16_from_f64;
    f32, f64, |v| v as f64, |v| v as f32;
    f64, f64, |v| v, |v| v;
}

/// Calls generic code with the type that belongs to a dtype; `$other` for a dtype that is not listed.
macro_rules! with_type {
    ($dtype:expr, [$($name:ident $ty:ty),*], $t:ident => $body:expr, $d:pat => $other:expr) => {
        match $dtype {
            $(adamant_runtime::DType::$name => {
                type $t = $ty;
                $body
            })*
            $d => $other,
        }
    };
}
pub(crate) use with_type;

/// Calls a generic function with the element type of a dtype that computes; others are an internal error.
macro_rules! with_number {
    ($dtype:expr, $t:ident => $body:expr) => {
        crate::element::with_type!(
            $dtype,
            [Bool crate::element::Bit, U8 u8, I8 i8, I32 i32, U32 u32, I64 i64, F16 half::f16, BF16 half::bf16, F32 f32, F64 f64],
            $t => $body,
            d => Err(adamant_runtime::ErrorKind::Internal(format!("{d} has no arithmetic")))
        )
    };
}
pub(crate) use with_number;

/// As [`with_number`], of floats alone.
macro_rules! with_float {
    ($dtype:expr, $t:ident => $body:expr) => {
        crate::element::with_type!(
            $dtype,
            [F32 f32, F64 f64, BF16 half::bf16, F16 half::f16],
            $t => $body,
            d => Err(adamant_runtime::ErrorKind::Internal(format!("{d} is no float with arithmetic")))
        )
    };
}
pub(crate) use with_float;

/// Calls a generic function with a type of the dtype's size, for kernels that only move elements.
macro_rules! with_bits {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype.size() {
            1 => {
                type $t = u8;
                $body
            }
            2 => {
                type $t = u16;
                $body
            }
            4 => {
                type $t = u32;
                $body
            }
            _ => {
                type $t = u64;
                $body
            }
        }
    };
}
pub(crate) use with_bits;

/// An index tensor's elements as i64.
pub(crate) fn indices(bytes: &[u8], dtype: DType) -> impl Fn(usize) -> i64 + Sync + '_ {
    let size = dtype.size();
    move |at| {
        let b = &bytes[at * size..(at + 1) * size];
        match dtype {
            DType::U8 => b[0] as i64,
            DType::I8 => b[0] as i8 as i64,
            DType::I16 => bytemuck::pod_read_unaligned::<i16>(b) as i64,
            DType::U16 => bytemuck::pod_read_unaligned::<u16>(b) as i64,
            DType::I32 => bytemuck::pod_read_unaligned::<i32>(b) as i64,
            DType::U32 => bytemuck::pod_read_unaligned::<u32>(b) as i64,
            _ => bytemuck::pod_read_unaligned::<i64>(b),
        }
    }
}
/// The index that is nowhere at the lowest position, whichever task meets one first.
#[derive(Default)]
pub(crate) struct WorstIndex(parking_lot::Mutex<Option<(usize, i64)>>);
impl WorstIndex {
    #[cold]
    pub fn add(&self, position: usize, index: i64) {
        let mut worst = self.0.lock();
        if worst.is_none_or(|w| position < w.0) {
            *worst = Some((position, index));
        }
    }
    /// A fault, if there was one.
    pub fn report(self, bound: usize, fault: &FaultWord) {
        if let Some((position, index)) = self.0.into_inner() {
            fault.set(Fault::Index { index, bound, position });
        }
    }
}
